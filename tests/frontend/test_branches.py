"""`cond`, `switch`: one branch runs."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import DTypeError, ShapeError, TracingError

X = np.array([-1.0, 2.0, 0.0, 3.0])
F32 = np.float32


def either(x):
    """NaN and infinite where the branch is not taken."""
    return ng.cond(x > 0, np.log, lambda x: 3.0 * x, x)


def either_in_numpy(x):
    return np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 3.0 * x)


def slope(x):
    return np.where(x > 0, 1 / np.where(x > 0, x, 1.0), 3.0)


@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_values_and_derivatives_are_those_of_the_branch_taken(transform):
    f, gradient, second = (
        transform(either),
        transform(ng.grad(either)),
        transform(ng.grad(ng.grad(either))),
    )
    for x in X:
        np.testing.assert_allclose(f(x), either_in_numpy(x), rtol=1e-15)
        np.testing.assert_allclose(gradient(x), slope(x), rtol=1e-15)
        np.testing.assert_allclose(second(x), -1 / x**2 if x > 0 else 0.0, rtol=1e-15)
        value, tangent = ng.jvp(either, (x,), (2.0,))
        np.testing.assert_allclose([value, tangent], [either_in_numpy(x), 2 * slope(x)])


def test_what_is_not_taken_poisons_nothing_in_a_batch():
    with np.errstate(all="raise"):
        np.testing.assert_allclose(ng.vmap(either)(X), either_in_numpy(X))
        np.testing.assert_allclose(ng.vmap(ng.grad(either))(X), slope(X))
        np.testing.assert_allclose(ng.grad(lambda x: ng.vmap(either)(x).sum())(X), slope(X))
        np.testing.assert_allclose(ng.jit(ng.vmap(ng.grad(either)))(X), slope(X))
    w = np.array(2.0)
    of_shared = ng.grad(
        lambda w: ng.vmap(lambda x: ng.cond(x > 0, lambda: w / x, lambda: w))(X).sum()
    )
    np.testing.assert_allclose(of_shared(w), 2 + 1 / 2 + 1 / 3)


def test_a_branch_that_would_not_end_is_not_run():
    def f(x):
        endless = lambda x: ng.while_loop(lambda c: c >= 0, lambda c: c + 1, x)  # noqa: E731
        return ng.cond(x > 0, endless, lambda x: -x, x)

    np.testing.assert_array_equal(ng.vmap(f)(np.array([-1.0, -2.0])), [1.0, 2.0])


def test_batches_of_conditions_operands_and_both():
    result = ng.vmap(lambda p: ng.cond(p, lambda x: 2 * x, lambda x: x, 3.0))(X > 0)
    np.testing.assert_array_equal(result, [3.0, 6.0, 3.0, 6.0])
    result = ng.vmap(lambda x: ng.cond(np.array(True), lambda x: 2 * x, lambda x: x, x))(X)
    np.testing.assert_array_equal(result, 2 * X)
    result = ng.vmap(lambda k, x: ng.switch(k, [np.negative, lambda x: x * x], x))(
        np.array([0, 1, 7, -3]), X
    )
    np.testing.assert_array_equal(result, [1.0, 4.0, 0.0, -3.0])
    assert ng.vmap(either)(np.zeros(0)).shape == (0,)


def test_switch_clamps_its_index():
    branches = [np.sin, np.cos, lambda x: x * x]
    for index, chosen in ((-3, 0), (0, 0), (1, 1), (2, 2), (9, 2)):
        np.testing.assert_allclose(ng.switch(index, branches, 2.0), branches[chosen](2.0))
        index = np.uint8(index) if index > 0 else np.int32(index)
        np.testing.assert_allclose(
            ng.jit(lambda k: ng.switch(k, branches, 2.0))(index), branches[chosen](2.0)
        )


def test_conditions_are_booleans_and_numbers():
    f = ng.jit(lambda p: ng.cond(p, lambda: 1, lambda: 0))
    for pred in (True, 1, -2.5, np.nan, np.float32(1), np.array(3), 1j):
        assert int(f(pred)) == int(ng.cond(pred, lambda: 1, lambda: 0)) == 1
    for pred in (False, 0, 0.0, -0.0, np.bool_(False)):
        assert int(f(pred)) == int(ng.cond(pred, lambda: 1, lambda: 0)) == 0


def test_operands_and_results_are_containers():
    def f(x, flag):
        tree = {"a": x, "b": (2 * x, None)}
        return ng.cond(
            flag,
            lambda t: {"sum": t["a"] + t["b"][0], "none": None, "n": 1},
            lambda t: {"sum": t["a"], "none": None, "n": 0},
            tree,
        )

    assert float(f(3.0, True)["sum"]) == 9.0
    assert f(3.0, False)["none"] is None
    assert float(ng.grad(lambda x: f(x, True)["sum"])(3.0)) == 3.0
    assert ng.cond(True, lambda: None, lambda: None) is None


def test_python_numbers_take_the_dtype_of_the_other_branch():
    x = F32(2)
    for result, dtype in (
        (ng.cond(True, lambda x: x, lambda x: 0, x), F32),
        (ng.cond(True, lambda x: 0.5, lambda x: x, x), F32),
        (ng.cond(True, lambda: 1, lambda: 0.5), np.float64),
        (ng.cond(True, lambda x, y: x, lambda x, y: y, 1.5, x), F32),
        (ng.jit(lambda a, x: ng.cond(True, lambda x: a * x, lambda x: a, x))(1.5, x), F32),
        (ng.switch(0, [lambda: 1, lambda: 2]), np.int64),
    ):
        assert result.dtype == dtype


def test_closures_of_each_branch():
    a, b = (ng.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    doubled = a * 2
    result = ng.cond(True, lambda x: doubled * x, lambda x: b * x, 3.0)
    result.backward()
    assert [float(result.detach()), float(a.grad)] == [12.0, 6.0]
    assert b.grad is None or float(b.grad) == 0.0


def test_branches_in_branches_and_in_loops():
    def size(x):
        return ng.cond(
            x < 0,
            lambda x: ng.cond(x < -1, lambda x: 10 * x, lambda x: 2 * x, x),
            lambda x: ng.switch(1, [np.sin, np.exp], x),
            x,
        )

    expected = np.where(X < -1, 10 * X, np.where(X < 0, 2 * X, np.exp(X)))
    np.testing.assert_allclose(ng.map(size, X), expected)
    np.testing.assert_allclose(ng.vmap(size)(X), expected)
    gradient = ng.jit(ng.grad(lambda x: ng.map(size, x).sum()))(X)
    np.testing.assert_allclose(gradient, np.where(X < -1, 10, np.where(X < 0, 2, np.exp(X))))


def thrown(choose):
    """A ball that jumps: its height after some steps, by the part of its speed that it keeps."""

    def height(kept):
        def step(state, _):
            x, v = state
            v = v - 0.05
            return choose(x + 0.1 * v, v, kept), None

        return ng.scan(step, (1.0, 0.0 * kept), length=70)[0][0]

    return height


def by_cond(x, v, kept):
    return ng.cond(x < 0, lambda x, v: (-x, -kept * v), lambda x, v: (x, v), x, v)


def by_where(x, v, kept):
    return np.where(x < 0, -x, x), np.where(x < 0, -kept * v, v)


def test_small_branches_leave_a_loop_in_registers():
    own = ng.jit(ng.value_and_grad(thrown(by_cond)))
    np.testing.assert_allclose(own(0.9), ng.jit(ng.value_and_grad(thrown(by_where)))(0.9))
    loops = [k for k in own.lower(0.9).kernels if "for trip in range" in k.source]
    assert len(loops) == 2  # forward and back
    # An infinity of the other branch reaches neither the value nor the derivative.
    inverse = lambda x: ng.cond(x > 0, lambda x: 1 / x, lambda x: 2 * x, x)  # noqa: E731
    total = ng.jit(
        ng.value_and_grad(lambda x: ng.scan(lambda s, y: (s + inverse(y), None), 0.0, x)[0])
    )
    value, gradient = total(X)
    np.testing.assert_allclose(value, -2 + 1 / 2 + 1 / 3)
    np.testing.assert_allclose(gradient, [2.0, -1 / 4, 2.0, -1 / 9])


def test_a_branch_with_a_power_of_integers_is_not_computed_in_vain():
    def step(s, k):
        return s + ng.cond(k >= 0, lambda k: 2**k, lambda k: 0 * k, k), None

    total = ng.jit(lambda k: ng.scan(step, 0, k)[0])
    assert int(total(np.array([3, -1, 2]))) == 12


def test_of_many_small_branches_in_a_loop_the_number_says_which():
    pieces = [lambda x: -x, lambda x: 10 * x, lambda x: x * x]
    numbers = np.array([-7, 0, 1, 2, 9])

    def total(x):
        return ng.scan(lambda s, k: (ng.switch(k, pieces, s), None), x, numbers)[0]

    value, gradient = ng.jit(ng.value_and_grad(total))(0.5)
    assert (float(value), float(gradient)) == (5.0**4, 4 * 5.0**3 * 10)


def test_costly_branches_in_a_loop_run_alone():
    def costly(x):
        for _ in range(8):
            x = np.sin(x)
        return x

    f = ng.jit(lambda x: ng.fori_loop(0, 9, lambda k, x: ng.cond(k < 5, costly, np.cos, x), x))
    x = expected = 0.5
    for k in range(9):
        expected = costly(expected) if k < 5 else np.cos(expected)
    np.testing.assert_allclose(f(x), expected)
    assert not any("for trip in range" in kernel.source for kernel in f.lower(x).kernels)


def test_the_reference_engine_says_the_same():
    with configure(engine="reference"):
        np.testing.assert_allclose(ng.vmap(ng.grad(either))(X), slope(X))
        np.testing.assert_allclose(either(2.0), np.log(2.0))


def test_only_one_branch_costs_anything():
    calls = ng.jit(
        lambda p, x: ng.cond(
            p, lambda x: x, lambda x: ng.fori_loop(0, 10**12, lambda i, c: c + 1, x), x
        )
    )
    assert float(calls(True, 1.0)) == 1.0  # the other one takes hours


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (
            lambda: ng.cond(True, lambda x: {"a": x}, lambda x: {"a": x.astype(F32)}, X[0]),
            TypeError,
            r"(?s)different dtypes.*result\['a'\] of false_fun, <lambda> : float32.*"
            r"result\['a'\] of true_fun, <lambda> +: float64.*astype",
        ),
        (
            lambda: ng.cond(True, lambda x: x, lambda x: np.stack([x, x]), 1.0),
            ShapeError,
            r"(?s)different shapes.*float64\[2\].*float64\[\]",
        ),
        (
            lambda: ng.switch(0, [lambda x: x, lambda x: (x, x)], 1.0),
            TypeError,
            r"switch: the result of branches\[1\], <lambda> does not have the structure",
        ),
        (
            lambda: ng.cond(True, lambda x: None, lambda x: x, 1.0),
            TypeError,
            "cond: the result of true_fun, <lambda> does not have the structure",
        ),
        (
            lambda: ng.cond(np.array([True, False]), np.sin, np.cos, 1.0),
            ShapeError,
            r"(?s)bool\[2\].*np\.where",
        ),
        (lambda: ng.cond("yes", np.sin, np.cos, 1.0), DTypeError, "not an array of numbers"),
        (lambda: ng.cond(True, 3, np.cos, 1.0), TypeError, "cond: not a function"),
        (lambda: ng.switch(0, [], 1.0), ValueError, "there is no branch"),
        (lambda: ng.switch(0.5, [np.sin], 1.0), TypeError, "the index must be one integer"),
        (lambda: ng.switch([0, 1], [np.sin], 1.0), ShapeError, "the index must be one integer"),
    ],
)
def test_what_is_no_choice_is_refused(work, error, message):
    with pytest.raises(error, match=message):
        work()


def test_what_leaks_out_of_a_branch_is_refused_by_name():
    leaked = []
    ng.cond(True, lambda x: leaked.append(2 * x) or x, lambda x: x, 1.0)
    with pytest.raises(TracingError, match="cond: a tensor of the inside is used outside"):
        leaked[0].item()
    u = ng.tensor(np.zeros(2))
    with pytest.raises(TracingError, match=r"cond: .* assigns to a tensor of its surroundings"):
        ng.cond(True, lambda x: u.fill(x) or x, lambda x: x, 1.0)
    np.testing.assert_array_equal(u, [0.0, 0.0])


def test_cotangents_that_nobody_wants_are_not_computed():
    def f(p, x, w):
        return ng.cond(p > 0, lambda x, w: (x * w).sum(), lambda x, w: (x - w).sum(), x, w)

    x, w = np.arange(3.0), np.ones(3)
    gradient = ng.jit(ng.grad(f, 1))
    shown = str(gradient.lower(1.0, x, w).graph)
    [backward] = [line for line in shown.splitlines() if "branch" in line and "float64[3]" in line]
    assert backward.count("float64[3])") + backward.count("float64[3],") == 1, backward
    np.testing.assert_array_equal(gradient(1.0, x, w), w)


def test_small_branches_in_small_branches_leave_a_loop_in_registers():
    def folded(x):
        inner = lambda x: ng.cond(x < 0, lambda x: np.sqrt(-x), lambda x: 1.1 * x + 0.03, x)  # noqa: E731
        return ng.cond(x > 1, lambda x: np.log(x) - 1.0, inner, x)

    def loss(x):
        return ng.scan(lambda x, _: (folded(x), None), x, length=60)[0]

    def by_where(x):
        for _ in range(60):
            low = np.where(x < 0, np.sqrt(np.where(x < 0, -x, 1.0)), 1.1 * x + 0.03)
            x = np.where(x > 1, np.log(np.where(x > 1, x, 1.0)) - 1.0, low)
        return x

    own = ng.jit(ng.value_and_grad(loss))
    np.testing.assert_allclose(own(0.3), ng.jit(ng.value_and_grad(by_where))(0.3), rtol=1e-12)
    loops = [k for k in own.lower(0.3).kernels if "for trip in range" in k.source]
    assert len(loops) == 2


def test_results_of_branches_that_nobody_wants_count_nothing():
    # The cotangent of the 0.9 is a sum of products, which nobody asks for.
    def step(u, _):
        return ng.cond(u[0] > 0.5, lambda u: u * 0.9, lambda u: u + np.array([0.3, 0.2]), u), None

    gradient = ng.jit(ng.grad(lambda x: ng.scan(step, x, length=60)[0].sum()))
    loops = [k for k in gradient.lower(X[:2]).kernels if "for trip in range" in k.source]
    assert len(loops) == 2


@pytest.mark.parametrize("value", [np.sin, None])
def test_what_chooses_is_no_function(value):
    with pytest.raises(TypeError, match="cond: the first argument says which branch runs"):
        ng.cond(value, np.sin, np.cos, 1.0)
    with pytest.raises(TypeError, match="switch: the first argument says which branch runs"):
        ng.switch(value, [np.sin, np.cos], 1.0)
