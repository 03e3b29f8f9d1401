"""`ng.custom_vjp`, `ng.custom_jvp`, `ng.stop_gradient`: derivatives of the user's own."""

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError, GradientError, ShapeError

X = np.array([0.5, -1.25, 2.0])


def sine_with(scale):
    """A sine whose derivative is `scale` times too large: one sees whether the rule was used."""

    @ng.custom_vjp
    def sine(x):
        return np.sin(x)

    sine.defvjp(
        lambda x: (np.sin(x), np.cos(x)),
        lambda cosine, g: (scale * cosine * g,),
    )
    return sine


def sine_with_tangent(scale):
    @ng.custom_jvp
    def sine(x):
        return np.sin(x)

    @sine.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return sine(x), scale * np.cos(x) * t

    return sine


@pytest.fixture(params=[sine_with, sine_with_tangent], ids=["vjp", "jvp"])
def sine(request):
    return request.param(3.0)


# A reverse rule, or a forward rule transposed


def test_the_rule_takes_the_place_of_the_derivative(sine, engine):
    np.testing.assert_allclose(ng.grad(lambda x: np.sum(sine(x)))(X), 3 * np.cos(X))


def test_the_value_is_that_of_the_function(sine, engine):
    np.testing.assert_array_equal(sine(X), np.sin(X))
    value, _ = ng.value_and_grad(lambda x: np.sum(sine(x)))(X)
    np.testing.assert_allclose(value, np.sum(np.sin(X)))


def test_backward_goes_through_the_rule(sine):
    x = ng.tensor(X, requires_grad=True)
    np.sum(sine(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos(X))


def test_a_second_backward_pass_is_refused_unless_the_graph_is_retained(sine):
    x = ng.tensor(X, requires_grad=True)
    y = np.sum(sine(x))
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.cos(X))
    with pytest.raises(GradientError, match="second time"):
        y.backward()


def test_rules_are_differentiated_in_turn(sine):
    f = lambda x: sine(x)  # noqa: E731
    assert ng.grad(ng.grad(f))(0.7).item() == pytest.approx(-3 * np.sin(0.7))
    third = ng.grad(ng.grad(ng.grad(lambda x: sine(x) * x)))(0.7).item()
    # (3 cos x) x + sin x, whose sine is differentiated by the rule, cosines as they are
    second = [-3 * np.sin(0.7) * 0.7 + 3 * np.cos(0.7) + 3 * np.cos(0.7)][0]
    assert ng.grad(ng.grad(lambda x: sine(x) * x))(0.7).item() == pytest.approx(second)
    assert np.isfinite(third)


def test_rules_work_in_jit(sine):
    f = ng.jit(ng.grad(lambda x: np.sum(sine(x) ** 2)))
    expected = 2 * np.sin(X) * 3 * np.cos(X)
    np.testing.assert_allclose(f(X), expected)
    np.testing.assert_allclose(f(2 * X), 2 * np.sin(2 * X) * 3 * np.cos(2 * X))
    g = ng.grad(ng.jit(lambda x: np.sum(sine(x) ** 2)))
    np.testing.assert_allclose(g(X), expected)


def test_rules_work_in_vmap(sine):
    np.testing.assert_allclose(ng.vmap(ng.grad(sine))(X), 3 * np.cos(X))
    np.testing.assert_allclose(ng.grad(lambda x: np.sum(ng.vmap(sine)(x)))(X), 3 * np.cos(X))


def test_rules_work_in_the_body_of_a_scan(sine):
    def f(x):
        return ng.scan(lambda c, _: (sine(c), None), x, length=3)[0]

    def by_hand(x):
        return sine(sine(sine(x)))

    assert ng.grad(f)(0.7).item() == pytest.approx(ng.grad(by_hand)(0.7).item(), rel=1e-14)
    assert ng.jit(ng.grad(f))(0.7).item() == pytest.approx(ng.grad(by_hand)(0.7).item(), rel=1e-14)
    assert ng.grad(ng.grad(f))(0.7).item() == pytest.approx(
        ng.grad(ng.grad(by_hand))(0.7).item(), rel=1e-13
    )


def test_rules_work_in_the_body_of_a_while_loop_and_in_branches(sine):
    def f(x):
        y = ng.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, sine(c[1])), (0, x))[1]
        return ng.cond(y > 0, sine, lambda v: v, y)

    def by_hand(x):
        return sine(sine(sine(sine(x))))

    assert ng.grad(f)(0.7).item() == pytest.approx(ng.grad(by_hand)(0.7).item(), rel=1e-14)


def test_rules_nest(sine):
    @ng.custom_vjp
    def outer(x):
        return sine(x) * x

    outer.defvjp(lambda x: (outer(x), x), lambda x, g: (g * sine(x),))
    assert ng.grad(outer)(0.7).item() == pytest.approx(np.sin(0.7))
    assert ng.grad(ng.grad(outer))(0.7).item() == pytest.approx(3 * np.cos(0.7))


def test_no_rule_runs_where_no_derivative_can_be_asked_for():
    calls = []

    @ng.custom_vjp
    def f(x):
        calls.append("f")
        return x

    f.defvjp(lambda x: (calls.append("fwd"), (x, None))[1], lambda _, g: (calls.append("bwd"), g))
    f(X)
    with ng.no_grad():
        f(ng.tensor(X, requires_grad=True))
    assert calls == ["f", "f"]


def test_trees_are_arguments_results_and_residuals(engine):
    @ng.custom_vjp
    def f(state, pair):
        a, b = pair
        return {"sum": state["x"] + a, "product": state["x"] * b}

    def fwd(state, pair):
        return f(state, pair), {"state": state, "b": pair[1], "label": "text", "none": None}

    def bwd(kept, g):
        assert kept["label"] == "text" and kept["none"] is None
        x = kept["state"]["x"]
        return {"x": 2 * (g["sum"] + g["product"] * kept["b"])}, (
            2 * g["sum"],
            2 * g["product"] * x,
        )

    f.defvjp(fwd, bwd)

    def loss(state, pair):
        out = f(state, pair)
        return np.sum(out["sum"] + 5 * out["product"])

    of_state, (of_a, of_b) = ng.grad(loss, argnums=(0, 1))({"x": X}, (2 * X, 3 * X))
    np.testing.assert_allclose(of_state["x"], 2 * (1 + 15 * X))
    np.testing.assert_allclose(of_a, np.full(3, 2.0))
    np.testing.assert_allclose(of_b, 10 * X)


def test_none_stands_for_a_cotangent_of_zero():
    @ng.custom_vjp
    def f(x, pair):
        return x * pair[0] * pair[1]

    f.defvjp(lambda x, pair: (f(x, pair), x), lambda x, g: (None, (g * x, None)))
    of_x, (of_a, of_b) = ng.grad(f, argnums=(0, 1))(2.0, (3.0, 4.0))
    assert (of_x.item(), of_a.item(), of_b.item()) == (0, 2, 0)


def test_cotangents_that_did_not_arrive_are_zeros_and_those_of_integers_none():
    seen = []

    @ng.custom_vjp
    def f(x):
        return x * 2, x * 3, np.argmax(x)

    f.defvjp(lambda x: (f(x), None), lambda _, g: (seen.append(g), (g[0] * 7,))[1])
    np.testing.assert_array_equal(ng.grad(lambda x: np.sum(f(x)[0]))(X), np.full(3, 7.0))
    _, of_second, of_index = seen[0]
    np.testing.assert_array_equal(of_second, np.zeros(3))
    assert of_index is None


def test_integers_are_arguments_that_have_no_cotangent(sine):
    @ng.custom_vjp
    def power(x, n):
        return x**n

    power.defvjp(
        lambda x, n: (power(x, n), (x, n)),
        lambda kept, g: (g * kept[1] * kept[0] ** (kept[1] - 1), None),
    )
    assert ng.grad(power)(2.0, 3).item() == 12
    assert ng.jit(ng.grad(power))(2.0, np.int64(3)).item() == 12


def test_keywords_and_defaults_reach_the_rules_by_position(sine):
    @ng.custom_vjp
    def scaled(x, factor=2.0):
        return x * factor

    scaled.defvjp(lambda x, factor: (x * factor, factor), lambda factor, g: (10 * g * factor, None))
    assert ng.grad(lambda x: scaled(x))(1.0).item() == 20
    assert ng.grad(lambda x: scaled(factor=3.0, x=x))(1.0).item() == 30


def test_nondiff_arguments_come_first_in_rules():
    @functools.partial(ng.custom_vjp, nondiff_argnums=(0, 2))
    def apply(f, x, name):
        return f(x)

    def bwd(f, name, x, g):
        assert name == "name"
        return (5 * g * f(x),)

    apply.defvjp(lambda f, x, name: (f(x), x), bwd)
    assert ng.grad(lambda x: apply(lambda v: v * v, x, "name"))(3.0).item() == 45

    @ng.custom_jvp(nondiff_argnums=0)
    def forward(f, x):
        return f(x)

    forward.defjvp(lambda f, primals, tangents: (f(*primals), 5 * tangents[0] * f(*primals)))
    assert ng.grad(lambda x: forward(lambda v: v * v, x))(3.0).item() == 45


def test_what_is_closed_over_has_the_derivative_of_what_was_recorded():
    def loss(x, w):
        @ng.custom_vjp
        def f(x):
            return x * w

        f.defvjp(lambda x: (x * w * w, None), lambda _, g: (100 * g * w,))
        return f(x)

    of_x, of_w = ng.grad(loss, argnums=(0, 1))(2.0, 3.0)
    assert (of_x.item(), of_w.item()) == (300, 12)
    of_x, of_w = ng.jit(ng.grad(loss, argnums=(0, 1)))(2.0, 3.0)
    assert (of_x.item(), of_w.item()) == (300, 12)

    def in_scan(x, w):
        return ng.scan(lambda c, _: (loss(c, w), None), x, length=1)[0]

    of_x, of_w = ng.grad(in_scan, argnums=(0, 1))(2.0, 3.0)
    assert (of_x.item(), of_w.item()) == (300, 12)


@pytest.mark.parametrize("are_residuals", [False, True])
def test_what_a_rule_closes_over_is_the_callers(are_residuals):
    def slope(y):
        @ng.custom_vjp
        def f(x):
            return 2 * np.sin(x)

        f.defvjp(
            lambda x: (f(x), y if are_residuals else None),
            lambda kept, g: (2 * np.cos(kept if are_residuals else y) * g,),
        )
        return ng.grad(f)(1.0)

    expected = -2 * np.sin(4.0)
    assert ng.grad(slope)(4.0).item() == pytest.approx(expected)
    assert ng.jit(ng.grad(slope))(4.0) == pytest.approx(expected)
    assert ng.jvp(slope, (4.0,), (1.0,))[1].item() == pytest.approx(expected)
    y = ng.tensor(4.0, requires_grad=True)
    slope(y).backward()
    assert y.grad.item() == pytest.approx(expected)
    assert not slope(4.0).requires_grad


def test_a_result_among_the_residuals_has_the_derivative_of_the_rule():
    @ng.custom_vjp
    def root(a):
        """By iterations that are not to be differentiated."""
        x = ng.stop_gradient(a)
        for _ in range(30):
            x = 0.5 * (x + ng.stop_gradient(a) / x)
        return x

    def fwd(a):
        x = root.f(a)
        return x, x

    root.defvjp(fwd, lambda x, g: (g / (2 * x),))
    assert ng.grad(root)(2.0).item() == pytest.approx(0.5 / np.sqrt(2))
    assert ng.grad(ng.grad(root))(2.0).item() == pytest.approx(-0.25 * 2**-1.5)


def test_residuals_are_what_they_were_when_something_is_assigned_to_them():
    kept = ng.tensor(X)

    @ng.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2, kept), lambda r, g: (r * g,))
    x = ng.tensor(X, requires_grad=True)
    y = np.sum(f(x))
    kept[:] = 0
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), X)


def test_rules_keep_float32():
    @ng.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 5.0,))
    found = ng.grad(lambda x: np.sum(f(x)))(X.astype(np.float32))
    assert found.dtype == np.float32


def test_python_numbers_stay_weak_in_the_function():
    @ng.custom_vjp
    def f(x, rate):
        return x * rate

    f.defvjp(lambda x, rate: (x * rate, rate), lambda rate, g: (g * rate, None))
    value = ng.jit(lambda x, rate: f(x, rate))(X.astype(np.float32), 0.5)
    assert value.dtype == np.float32
    of_x, _ = ng.grad(lambda x, r: np.sum(f(x, r)), argnums=(0, 1))(X.astype(np.float32), 0.5)
    assert of_x.dtype == np.float32


# Forward rules


def test_rules_for_each_argument_are_summed():
    @ng.custom_jvp
    def f(x, y):
        return x * y

    f.defjvps(lambda t, out, x, y: 10 * t * y, lambda t, out, x, y: 100 * t * x)
    of_x, of_y = ng.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert (of_x.item(), of_y.item()) == (30, 200)
    f.defjvps(None, lambda t, out, x, y: 100 * t * x)
    of_x, of_y = ng.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert (of_x.item(), of_y.item()) == (0, 200)


def test_a_transposed_rule_may_have_trees():
    @ng.custom_jvp
    def f(state):
        return {"a": state["x"] @ state["y"], "n": 3}

    @f.defjvp
    def rule(primals, tangents):
        (state,), (t,) = primals, tangents
        tangent = t["x"] @ state["y"] + 2 * (state["x"] @ t["y"])
        return f(state), {"a": tangent, "n": None}

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    found = ng.grad(lambda s: np.sum(f(s)["a"]))({"x": x, "y": y})
    plain = ng.grad(lambda s: np.sum(s["x"] @ s["y"]))({"x": x, "y": y})
    np.testing.assert_allclose(found["x"], plain["x"])
    np.testing.assert_allclose(found["y"], 2 * plain["y"])


def test_one_function_takes_a_reverse_rule_and_a_forward_rule():
    @ng.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, g: (2 * g,))
    f.defjvp(lambda primals, tangents: (primals[0], 3 * tangents[0]))
    assert ng.custom_jvp(f) is f
    assert ng.grad(f)(1.0).item() == 2
    assert ng.jvp(f, (1.0,), (1.0,))[1].item() == 3


def test_forward_mode_uses_the_forward_rule_and_else_transposes_the_reverse_rule(sine):
    value, tangent = ng.jvp(lambda x: sine(x) * x, (0.7,), (2.0,))
    assert value.item() == pytest.approx(np.sin(0.7) * 0.7)
    assert tangent.item() == pytest.approx(2 * (3 * np.cos(0.7) * 0.7 + np.sin(0.7)))


def test_forward_mode_through_what_is_closed_over(sine):
    def f(x, w):
        g = ng.custom_jvp(lambda x: x * w * w)
        g.defjvp(lambda primals, tangents: (primals[0] * w * w, 100 * tangents[0] * w))
        return g(x)

    assert ng.jvp(f, (2.0, 3.0), (1.0, 0.0))[1].item() == 300
    assert ng.jvp(f, (2.0, 3.0), (0.0, 1.0))[1].item() == 12


# stop_gradient


def test_stop_gradient_makes_constants_of_what_is_in_a_tree():
    def f(x):
        stopped = ng.stop_gradient({"x": x, "n": 3, "text": "a", "array": X})
        assert stopped["n"] == 3 and stopped["text"] == "a" and stopped["array"] is X
        return x * stopped["x"]

    assert ng.grad(f)(3.0).item() == 3
    assert ng.jit(ng.grad(f))(3.0).item() == 3
    np.testing.assert_array_equal(ng.vmap(ng.grad(f))(X), X)
    assert ng.jvp(f, (3.0,), (1.0,))[1].item() == 3


# As functions


def test_a_method_takes_rules_with_itself_among_the_nondiff_arguments():
    class Model:
        scale = 3.0

        @functools.partial(ng.custom_vjp, nondiff_argnums=(0,))
        def value(self, x):
            return self.scale * x

        value.defvjp(lambda self, x: (self.scale * x, None), lambda self, _, g: (g * 100,))

    assert ng.grad(lambda x: Model().value(x))(2.0).item() == 100


@ng.custom_vjp
def of_this_module(x):
    """Doubled."""
    return 2 * x


of_this_module.defvjp(lambda x: (2 * x, None), lambda _, g: (5 * g,))


def test_name_and_documentation_are_those_of_the_function_and_it_can_be_copied():
    assert of_this_module.__name__ == "of_this_module"
    assert of_this_module.__doc__ == "Doubled."
    assert copy.deepcopy(of_this_module) is of_this_module
    assert pickle.loads(pickle.dumps(of_this_module)) is of_this_module


def test_jit_sees_numbers_that_change_in_the_function_and_in_its_rules():
    scale = factor = 2.0

    @ng.custom_vjp
    def f(x):
        return x * scale

    f.defvjp(lambda x: (x * scale, None), lambda _, g: (g * factor,))
    jitted = ng.jit(ng.value_and_grad(f))
    assert [x.item() for x in jitted(1.0)] == [2, 2]
    scale, factor = 3.0, 5.0
    assert [x.item() for x in jitted(1.0)] == [3, 5]


def test_a_function_that_is_made_anew_in_each_trace_is_compiled_once_in_a_loop():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4)
    for _ in range(2):
        sine = sine_with(2.0)
        found = ng.grad(lambda x, f=sine: np.sum(ng.map(f, x)))(x)
        np.testing.assert_allclose(found, 2 * np.cos(x))


# Mistakes


def test_a_function_without_a_rule_says_how_to_give_one():
    @ng.custom_vjp
    def f(x):
        return x

    with pytest.raises(GradientError, match=r"try: f.defvjp\(fwd, bwd\)"):
        f(1.0)


def rule_of(bwd, fwd=lambda x: (x, None)):
    f = ng.custom_vjp(lambda x: x)
    f.defvjp(fwd, bwd)
    return lambda x: np.sum(f(x)[0])


@pytest.mark.parametrize(
    ("fwd", "bwd", "error", "message"),
    [
        (lambda x: (x, None, 3), lambda r, g: (g,), TypeError, r"two things(.|\n)*residuals"),
        (lambda x: (x, None), lambda r, g: g[0], GradientError, "a cotangent for each argument"),
        (lambda x: (x, None), lambda r, g: (g[0], g[1]), GradientError, "length 2(.|\n)*: 1"),
        (lambda x: (x, None), lambda r, g: (g[0],), GradientError, "structure(.|\n)*expected"),
        (
            lambda x: (x, None),
            lambda r, g: ((g[0][:2], g[1]),),
            ShapeError,
            r"x\[0\] *: float64\[3\]\n.*float64\[2\]\n  expected: float64\[3\]",
        ),
        (
            lambda x: (x, None),
            lambda r, g: ((g[0].astype(np.float32), g[1]),),
            DTypeError,
            r"x\[0\] *: float64\[3\]\n.*float32\[3\]\n(.|\n)*astype\(float64\)",
        ),
        (lambda x: (x, None), lambda r, g: (("text", g[1]),), GradientError, "no derivative of x"),
    ],
)
def test_what_a_reverse_rule_returns_is_checked(fwd, bwd, error, message):
    with pytest.raises(error, match=message):
        ng.grad(rule_of(bwd, fwd))((X, X))


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda p, t: t[0], TypeError, r"two things(.|\n)*its tangent"),
        (lambda p, t: (p[0], t[0][:2]), ShapeError, r"result *: float64\[3\]\n.*float64\[2\]"),
        (lambda p, t: (p[0], (t[0],)), GradientError, "structure"),
        (lambda p, t: (p[0], ng.stop_gradient(t[0])), GradientError, r"no derivative(.|\n)*defvjp"),
    ],
)
def test_what_a_forward_rule_returns_is_checked(rule, error, message):
    f = ng.custom_jvp(lambda x: x)
    f.defjvp(rule)
    with pytest.raises(error, match=message):
        ng.grad(lambda x: np.sum(f(x)))(X)


def test_an_exception_in_a_rule_says_whose_rule_it_was():
    def bwd(residuals, g):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        ng.grad(rule_of(bwd))((X, X))
    assert any("in bwd, a rule of <lambda>" in note for note in caught.value.__notes__)


def test_arguments_that_are_no_arrays_and_keyword_only_ones_are_refused():
    @ng.custom_vjp
    def f(x, how, *, option=1):
        return x

    f.defvjp(lambda x, how: (x, None), lambda r, g: (g, None))
    with pytest.raises(TypeError, match="keyword-only"):
        f(1.0, 2.0, option=2)

    @ng.custom_vjp
    def g(x, how):
        return x

    g.defvjp(lambda x, how: (x, None), lambda r, g: (g, None))
    with pytest.raises(TypeError, match=r"how : 'text'\n  try: its position in nondiff_argnums"):
        ng.grad(g)(1.0, "text")


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="needs a function"):
        ng.custom_vjp(3)
    with pytest.raises(TypeError, match="not a function"):
        ng.custom_vjp(lambda x: x).defvjp(lambda x: x, None)
    with pytest.raises(TypeError, match="nondiff_argnums"):
        ng.custom_jvp(lambda x: x, nondiff_argnums="f")


ROWS, OTHER = np.array([0.3, -0.5, 0.8]), np.array([1.3, 0.5, -0.8])


def _keeping(kept, i, rows, other):
    """sin(x) * y, whose rules keep rows at the index `i`, which values are not made of."""
    f = ng.custom_vjp(lambda x, y: np.sin(x) * y)
    if kept == "slope":
        f.defvjp(
            lambda x, y: (f(x, y), (x, np.cos(x) * y * other[i], other)),
            lambda r, g: (g * r[1] / r[2][i], g * np.sin(r[0])),
        )
    elif kept == "index":
        f.defvjp(
            lambda x, y: (f(x, y), (x, y)),
            lambda r, g: (g * np.cos(r[0]) * rows[i], g * np.sin(r[0])),
        )
    else:
        f = ng.custom_jvp(lambda x, y: np.sin(x) * y)
        f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * p[1] * t[0] + np.sin(p[0]) * t[1]))
    return f


@pytest.mark.parametrize("kept", ["slope", "index", "arguments"])
def test_rules_in_loops_may_keep_what_depends_on_the_step(kept):
    rows, other = ng.tensor(ROWS), ng.tensor(OTHER)

    def step(i, x):
        return _keeping(kept, i, rows, other)(x, rows[i]) + 0.1

    def by_row(x):
        return ng.scan(lambda s, i: (step(i, s), None), x, np.arange(3))[0]

    def by_counter(x):
        return ng.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(*c)), (0, x))[1]

    def in_rows(x):
        def body(k, u):
            u[k + 1] = step(k, u[k])
            return u

        start = ng.zeros(4)
        start[0] = x
        return ng.fori_loop(0, 3, body, start)[-1]

    def in_python(x):
        for row in ROWS:
            x = np.sin(x) * row + 0.1
        return x

    expected = ng.grad(in_python)(0.6), ng.grad(ng.grad(in_python))(0.6)
    with ng.configure(engine="reference"):
        for f in (by_row, by_counter, in_rows):
            found = ng.grad(f)(0.6), ng.grad(ng.grad(f))(0.6)
            np.testing.assert_allclose(found, expected, rtol=1e-12)
            np.testing.assert_allclose(ng.vmap(ng.grad(f))(np.array([0.6]))[0], expected[0])


INNER = {
    "while": lambda f, x: ng.while_loop(
        lambda c: c[0] < 2.0, lambda c: (c[0] + 1.0, f(c[1])), (0.0, x)
    )[1],
    "fori": lambda f, x: ng.fori_loop(0, 2, lambda _, c: f(c), x),
    "cond": lambda f, x: ng.cond(x > -9.0, lambda c: f(f(c)), lambda c: c, x),
    "checkpoint": lambda f, x: ng.checkpoint(lambda c: f(f(c)))(x),
}


@pytest.mark.parametrize("inner", INNER)
def test_rules_in_loops_in_loops_may_keep_what_depends_on_the_outer_step(inner):
    rows, factors = ng.tensor(ROWS), ng.tensor(OTHER)

    def f(x, is_own):
        def step(e, k):
            sine = ng.custom_vjp(lambda y: np.sin(y))
            kept = factors[k] * e
            sine.defvjp(
                lambda y: (sine(y), y * kept), lambda r, g: (g * np.cos(r / kept) * kept / kept,)
            )
            own = sine if is_own else np.sin
            return INNER[inner](lambda c: own(c) * rows[k] + e, e * x), None

        return ng.scan(step, x, np.arange(3))[0]

    with ng.configure(engine="reference"):
        expected = ng.grad(ng.grad(f))(0.6, False)
        for derivative in (ng.grad(ng.grad(f)), ng.hessian(f)):
            np.testing.assert_allclose(derivative(0.6, True), expected, rtol=1e-12)


@pytest.mark.parametrize("sine", [sine_with(1.0), sine_with_tangent(1.0)], ids=["vjp", "jvp"])
def test_derivatives_that_a_loop_moves_on_require_no_grad(sine):
    def loop(x):
        return ng.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(c[1])), (0, x))[1]

    rows = ng.tensor(np.eye(3))

    def of_a_constant(k, e):
        return e + ng.grad(lambda t: np.sin(t) * np.sum(rows[k] * t))(0.6)

    with ng.configure(engine="reference"):
        _, found = ng.jvp(ng.grad(lambda x: loop(sine(x))), (0.6,), (0.5,))
        expected = 0.5 * ng.grad(ng.grad(lambda x: loop(np.sin(x))))(0.6)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert not ng.fori_loop(0, 3, of_a_constant, 0.3).requires_grad


def test_a_rule_of_an_element_that_turns_out_to_be_a_constant_leaves_no_history():
    product = ng.custom_vjp(lambda p, x: p * x)
    product.defvjp(lambda p, x: (p * x, (p, x)), lambda kept, g: (np.sum(g * kept[1]), g * kept[0]))

    def f(v, w):
        rows = ng.ones((6, 3))
        rows[-1] = v
        rows[2, 0] = 0.3  # in parts, so rows are values, and row 1 depends on nothing
        return np.sum(product(rows[1][1], w))

    point = np.array([0.5, -1.0, 2.0])
    of_v, of_w = ng.grad(f, argnums=(0, 1))(point, point)
    assert not of_w.requires_grad
    np.testing.assert_array_equal(of_v, np.zeros(3))
    np.testing.assert_array_equal(of_w, np.ones(3))


# Rules that close over what is mapped: what they keep is in no graph that `vmap` sees. The rules
# say what the derivative is, so the loop in Python without rules is to be met, in all orders.


def _kept_in_residuals(y):
    f = ng.custom_vjp(lambda x: np.sin(x))
    f.defvjp(lambda x: (f(x), (np.cos(x) * y, y)), lambda kept, g: (g * kept[0] / kept[1],))
    return f


def _kept_by_forward_rule(y):
    f = ng.custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * y * t[0] / y))
    return f


def _kept_by_function(y):
    class Sine(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, y)
            return np.sin(x)

        @staticmethod
        def backward(ctx, g):
            x, saved = ctx.saved_tensors
            return g * np.cos(x) * saved / y

    return Sine.apply


def _in_python(f, state, rows):
    for row in rows:
        state = f(state, row)
    return state


def _scanned(f, state, rows, **options):
    return ng.scan(lambda state, row: (f(state, row), None), state, rows, **options)[0]


KEEPING = {
    "residuals": _kept_in_residuals,
    "forward rule": _kept_by_forward_rule,
    "Function": _kept_by_function,
}
LOOPS = {
    "Python": _in_python,
    "scan": _scanned,
    "within memory": lambda f, x, rows: _scanned(f, x, rows, memory="2 states"),
    "while": lambda f, x, rows: ng.while_loop(
        lambda c: c[0] < len(rows), lambda c: (c[0] + 1, f(c[1], rows[c[0]])), (0, x)
    )[1],
    "scan in scan": lambda f, x, rows: _scanned(
        lambda x, row: ng.fori_loop(0, 1, lambda _, x: f(x, row), x), x, rows
    ),
    "branch": lambda f, x, rows: _scanned(
        lambda x, row: ng.cond(x > -9.0, f, lambda x, row: x, x, row), x, rows
    ),
    "checkpoint": lambda f, x, rows: _scanned(ng.checkpoint(f), x, rows),
    "jit": lambda f, x, rows: ng.jit(lambda x: _scanned(f, x, rows))(x),
}
# What a rule closes over, made of what is mapped, or not, and the loop's state and row.
CLOSED_OVER = {
    "mapped": lambda mapped, other, state, row: mapped,
    "computed": lambda mapped, other, state, row: np.exp(mapped * other),
    "carried": lambda mapped, other, state, row: 2.0 + state * mapped,
    "row": lambda mapped, other, state, row: row * mapped,
}
ORDERS = {
    "grad of vmap": lambda f, x, y: ng.grad(lambda x, y: np.sum(f(x, y)))(x, y),
    "grad of vmap, by what is not mapped": lambda f, x, y: ng.grad(lambda y: np.sum(f(x, y)))(y),
    "tangents of vmap": lambda f, x, y: ng.jvp(f, (x, y), (x, y))[1],
    "hessian of vmap": lambda f, x, y: ng.hessian(lambda x: np.sum(f(x, y)))(x),
    "vmap of vmap": lambda f, x, y: ng.grad(
        lambda y: np.sum(ng.vmap(lambda y: f(x, y))(y * np.array([1.0, 0.5])) ** 2)
    )(y),
    "tangents of gradients": lambda f, x, y: ng.jvp(ng.grad(lambda x: np.sum(f(x, y))), (x,), (x,))[
        1
    ],
}


def _quick(loop, keeping, closed):
    return (loop, keeping, closed) in {
        ("Python", "residuals", "mapped"),
        ("scan", "Function", "computed"),
        ("branch", "forward rule", "mapped"),
    }


@pytest.mark.parametrize(
    ("loop", "keeping", "closed"),
    [
        pytest.param(*case, marks=() if _quick(*case) else pytest.mark.thorough)
        for case in itertools.product(LOOPS, KEEPING, CLOSED_OVER)
    ],
)
def test_rules_in_loops_may_close_over_what_is_mapped(loop, keeping, closed):
    rows, mapped, other = ng.tensor(ROWS + 1.0), np.array([0.5, 1.2]), np.array(0.8)

    def function(loop, keeping):
        def f(x, y):
            # Values of the loop depend on nothing mapped, but for its first state.
            def step(state, row):
                return 0.5 * state + keeping(CLOSED_OVER[closed](x, y, state, row))(state * row)

            return loop(step, 0.3 * x, rows)

        return ng.vmap(f, in_axes=(0, None))

    with ng.configure(engine="reference"):
        for order, derivative in ORDERS.items():
            found = derivative(function(LOOPS[loop], KEEPING[keeping]), mapped, other)
            expected = derivative(function(_in_python, lambda y: np.sin), mapped, other)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=order)


def test_only_a_rule_may_read_what_is_mapped():
    def scaled(factor):
        f = ng.custom_vjp(lambda x: x * 1.0)
        f.defvjp(lambda x: (f(x), None), lambda _, g: (factor * g,))
        return f

    loops = {
        3.0: lambda f, x: f(x),
        3.5: lambda f, x: ng.cond(x > 0.0, f, lambda x: x, x) * 7 / 6,
        5.0: lambda f, x: ng.scan(lambda c, _: (f(c), None), x, length=2)[0],
        9.0: lambda f, x: ng.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))[
            1
        ],
    }
    with ng.configure(engine="reference"):
        for expected, loop in loops.items():
            of_each = ng.vmap(lambda y, x, loop=loop: loop(scaled(y), x), in_axes=(0, None))
            found = ng.grad(lambda x, f=of_each: np.sum(f(FACTORS, x)))(0.7)
            assert found.item() == pytest.approx(expected)


FACTORS = np.array([1.0, 2.0])


@pytest.mark.parametrize("make", [ng.custom_vjp, ng.custom_jvp])
def test_what_is_closed_over_may_be_in_the_argument_as_well(make):
    """The derivative of what is recorded leads to it by the value alone, not by the argument, of
    which the rule is."""

    def product(y):
        f = make(lambda x: x * y)
        if make is ng.custom_vjp:
            f.defvjp(lambda x: (x * y, None), lambda _, g: (10.0 * g * y,))
        else:
            f.defjvp(lambda p, t: (p[0] * y, 10.0 * t[0] * y))
        return f(3.0 * y), f(y)

    for k, expected in enumerate((3.0 * 4.0 + 30.0 * 4.0, 4.0 + 10.0 * 4.0)):

        def one(y, k=k):
            return product(y)[k]

        with ng.configure(engine="reference"):
            assert ng.grad(one)(4.0).item() == expected
            assert ng.jvp(one, (4.0,), (1.0,))[1].item() == expected
            assert ng.grad(ng.grad(one))(4.0).item() == expected / 4.0


def linear_in_the_first(x, y):
    return x / y


@pytest.mark.parametrize("derivative", [ng.grad, lambda f: lambda *a: ng.jit(ng.grad(f))(*a)])
def test_the_rule_of_a_linear_function_may_call_it_of_the_tangent(engine, derivative):
    ratio = ng.custom_jvp(linear_in_the_first)

    @ratio.defjvp
    def _(primals, tangents):
        return ratio(*primals), 3.0 * ratio(tangents[0], primals[1])

    assert float(derivative(ratio)(5.0, 2.0)) == 1.5
    assert float(ng.jvp(ratio, (5.0, 2.0), (1.0, 1.0))[1]) == 1.5
    # The rule is used for what it is given alone: y has no tangent, and gets none inside.
    assert float(ng.grad(lambda x: derivative(lambda x: ratio(x * x, 2.0))(x))(4.0)) == 3.0
    assert (
        float(derivative(lambda x: ng.scan(lambda c, _: (ratio(c, 2.0), None), x, None, 2)[0])(1.0))
        == 2.25
    )


def test_rules_of_linear_functions_may_call_each_other(engine):
    first, second = ng.custom_jvp(lambda x: 2.0 * x), ng.custom_jvp(lambda x: 5.0 * x)
    first.defjvp(lambda p, t: (first(*p), second(*t)))
    second.defjvp(lambda p, t: (second(*p), first(*t)))
    assert float(ng.grad(first)(1.0)) == 5.0
    assert float(ng.grad(second)(1.0)) == 2.0


def test_a_rule_may_call_its_function_of_the_primals(engine):
    exp = ng.custom_jvp(np.exp)
    exp.defjvp(lambda p, t: (exp(*p), exp(*p) * t[0]))
    third = ng.grad(ng.grad(ng.grad(exp)))
    np.testing.assert_allclose(float(third(0.5)), np.exp(0.5), rtol=1e-15)


def test_keyword_only_arguments_may_keep_their_defaults():
    scaled = functools.partial(lambda x, scale: scale * x, scale=0.5)
    function = ng.custom_jvp(scaled)
    function.defjvp(lambda p, t: (scaled(*p), 3.0 * t[0]))
    assert float(function(2.0)) == 1.0
    assert float(ng.grad(function)(2.0)) == 3.0
    with pytest.raises(TypeError, match="rules get arguments by position"):
        function(2.0, scale=1.0)


@pytest.mark.parametrize(
    "tangent",
    [lambda t: t * t, np.abs, lambda t: np.where(t > 0, t, 2 * t)],
    ids=["square", "absolute value", "choice by sign"],
)
def test_a_tangent_that_is_not_linear_has_no_transpose(tangent):
    function = ng.custom_jvp(np.sin)
    function.defjvp(lambda p, t: (np.sin(p[0]), tangent(t[0])))
    assert float(ng.jvp(function, (1.0,), (2.0,))[1]) == tangent(np.array(2.0))
    with pytest.raises(GradientError, match=r"(?s)not linear in the tangents.*defvjp\(fwd, bwd\)"):
        ng.grad(function)(1.0)


def test_what_a_linear_rule_reads_besides_is_no_matter():
    """A loop, whose derivative has all of its inputs, and a branch by the argument."""
    function = ng.custom_jvp(lambda x: x * x)

    @function.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        _, rows = ng.scan(lambda c, row: (c, 2 * row[0] * row[1]), 0.0, (x, t))
        return function(x), np.where(x > 0, rows, rows)

    np.testing.assert_array_equal(ng.grad(lambda x: np.sum(function(x)))(X), 2 * X)


def test_a_reverse_rule_that_is_not_linear_has_no_tangent():
    clipped = ng.custom_vjp(lambda x: 1.0 * x)
    clipped.defvjp(lambda x: (1.0 * x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    assert float(ng.grad(lambda x: 5.0 * clipped(x))(1.0)) == 1.0
    with pytest.raises(GradientError, match="not linear in the cotangents"):
        ng.jvp(clipped, (1.0,), (5.0,))
