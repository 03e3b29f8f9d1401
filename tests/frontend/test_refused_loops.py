"""What is no loop, or leaves the inside of one, is refused with what to do."""

import gc
import random as pythons_random

import numpy as np
import numpy.random as numpys_random
import pytest

import numba_grad as ng
from numba_grad.errors import ShapeError, TracingError
from numba_grad.graph import traced_bodies

XS = np.linspace(0.5, 1.5, 7)


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (
            lambda: ng.scan(
                lambda c, x: ({"p": np.stack([c["p"]] * 2), "q": 0}, x), {"p": 1.0, "q": 2}, XS
            ),
            ShapeError,
            r"(?s)carry\['p'\] before a step : float64\[\].*after it +: float64\[2\]",
        ),
        (
            lambda: ng.scan(lambda c, x: (c + x, x), np.float32(1), XS),
            TypeError,
            r"(?s)carry before a step : float32.*after it +: float64.*try: init with float64",
        ),
        (
            lambda: ng.scan(lambda c, x: ((c, c), x), 1.0, XS),
            TypeError,
            r"(?s)scan: the carry after a step .*\(\*, \*\).*expected: \*",
        ),
        (
            lambda: ng.while_loop(lambda c: c < 3, lambda c: [c], 1.0),
            TypeError,
            "while_loop: val after a step does not have the structure",
        ),
        (
            lambda: ng.while_loop(lambda c: c.sum() < 3, lambda c: c[:1], np.ones(2)),
            ShapeError,
            r"(?s)val before a step : float64\[2\].*after it +: float64\[1\]",
        ),
        (
            lambda: ng.fori_loop(0, 3, lambda i, c: None, 1.0),
            TypeError,
            "fori_loop: the carry after a step does not have the structure",
        ),
        (lambda: ng.scan(lambda c, x: c, 1.0, XS), TypeError, "must return two things"),
        (lambda: ng.scan(lambda c, x: None, 1.0, XS), TypeError, "(?s)two things.*NoneType"),
        (lambda: ng.scan(lambda c, x: (c, x), 1.0, None, -1), ValueError, "a negative length"),
        (lambda: ng.scan(lambda c, x: (c, x), 1.0, None, 2.5), TypeError, "must be an integer"),
        (
            lambda: ng.scan(lambda c, x: (c, None), 1.0, (XS, {"a": XS[1:]})),
            ShapeError,
            r"(?s)xs\[0\] +: 7.*xs\[1\]\['a'\] +: 6",
        ),
        (lambda: ng.scan(lambda c, x: (c, None), 1.0, XS, 3), ShapeError, "(?s)xs .*length : 3"),
        (lambda: ng.scan(lambda c, x: (c, None), 1.0), ValueError, "how many steps"),
        (lambda: ng.scan(lambda c, x: (c, None), 1.0, 2.0), ShapeError, "0-d array has no rows"),
        (lambda: ng.scan(3, 1.0, XS), TypeError, "scan: not a function"),
        (lambda: ng.fori_loop(0, 3, 4, 1.0), TypeError, "fori_loop: not a function"),
        (lambda: ng.while_loop(True, lambda c: c, 1.0), TypeError, "while_loop: not a function"),
        (lambda: ng.map(3, XS), TypeError, "map: not a function"),
        (lambda: ng.map(np.sin, 1.0), ShapeError, "map: a 0-d array"),
        (lambda: ng.map(np.sin, XS, batch_size=0), ValueError, "at least one row"),
        (lambda: ng.map(np.sin, XS, batch_size=1.5), TypeError, "batch_size must be an integer"),
        (lambda: ng.fori_loop(0, 2.5, lambda i, c: c, 1.0), TypeError, "upper must be an integer"),
        (
            lambda: ng.jit(lambda n: ng.fori_loop(0, n, lambda i, c: c, 1.0))(2.5),
            TypeError,
            "upper must be an integer",
        ),
        (
            lambda: ng.while_loop(lambda c: c, lambda c: c - 1, 3.0),
            TypeError,
            "(?s)the condition must be one boolean.*a comparison",
        ),
        (
            lambda: ng.while_loop(lambda c: c < 1, lambda c: c, np.ones(2)),
            ShapeError,
            "(?s)the condition must be one boolean.*np.any",
        ),
    ],
)
def test_what_is_no_loop_is_refused(work, error, message):
    with pytest.raises(error, match=message):
        work()


@pytest.mark.parametrize(
    "look",
    [
        lambda x: -x if x > 1 else x,
        lambda x: x * bool(x),
        lambda x: x * float(x),
        lambda x: x * x.item(),
        lambda x: x * np.asarray(x),
    ],
    ids=["if", "bool", "float", "item", "asarray"],
)
def test_values_are_not_to_be_had_while_a_step_is_traced(look):
    with pytest.raises(TracingError, match="loops and branches"):
        ng.scan(lambda c, x: (c + look(x), None), 1.0, XS)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.numpy(),
        lambda x: float(x + 1),
        lambda x: bool(x > 0),
        lambda x: ng.jit(lambda y: x * y)(2.0).numpy(),
        lambda x: ng.scan(lambda c, y: (c + x, None), 0.0, XS)[0].numpy(),
        lambda x: ng.grad(lambda y: y * x)(2.0).numpy(),
    ],
    ids=["itself", "computed with", "compared", "in jit", "in another loop", "in grad"],
)
def test_a_tensor_that_leaks_out_of_a_step_is_refused_by_name(use):
    leaked = []

    def leaky(c, x):
        leaked.append(c * x)
        return c + x, None

    assert float(ng.scan(leaky, 1.0, XS)[0]) == 1.0 + XS.sum()
    assert "traced" in repr(leaked[-1])
    with pytest.raises(TracingError, match=r"(?s)scan: a tensor of the inside .*leaky, the func"):
        use(leaked[-1])


@pytest.mark.parametrize(
    "use", [lambda x: x + 1, lambda x: 2.0 - x, lambda x: np.sin(x), lambda x: np.stack([x, x])]
)
def test_a_leak_is_named_where_it_is_used_with_the_line_that_made_it(use):
    leaked = []

    def leaky(c, x):
        leaked.append(c * x)  # the line
        return c + x, None

    ng.scan(leaky, 1.0, XS)
    with pytest.raises(TracingError, match=r"leaky, the function of scan\n.*leaked.append.*line"):
        use(leaked[-1])
    assert leaked[-1].shape == ()  # what is known can be asked


def test_what_looks_for_leaks_goes_with_them(monkeypatch):
    # Apart from those of other tests, which may be held by what they raised.
    monkeypatch.setattr(traced_bodies, "_leaks", {})

    def watched():
        ng.tensor(1.0) + 1.0
        return bool(traced_bodies._leaks)

    leaked = []
    ng.scan(lambda c, x: (c + x, c), 1.0, XS)
    gc.collect()
    assert not watched()
    ng.scan(lambda c, x: (c + x, leaked.append(c * x)), 1.0, XS)
    assert watched()
    leaked.clear()
    assert not watched()


def test_nothing_is_looked_for_in_what_only_caches_hold(monkeypatch):
    """A body with a user's function in it stays with what is known of the loop's types."""
    monkeypatch.setattr(traced_bodies, "_leaks", {})

    def squares(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i] ** 2

    square = ng.differentiable(squares)
    halved = ng.jit(lambda x: ng.fori_loop(0, 3, lambda k, s: square(s / 2, np.zeros(4)), x))
    np.testing.assert_array_equal(halved(np.full(4, 2.0)), np.full(4, 1 / 64))
    gc.collect()
    ng.tensor(1.0) + 1.0
    assert not traced_bodies._leaks


def test_a_leak_out_of_a_function_that_raises_is_named():
    leaked = []

    def fails(c, x):
        leaked.append(c * x)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        ng.scan(fails, 1.0, XS)
    with pytest.raises(TracingError, match="fails, the function of scan"):
        leaked[0] * 2


def test_a_leak_inside_of_jit_is_refused_by_name():
    leaked = []

    @ng.jit
    def f(x):
        ng.while_loop(lambda c: c < 3, lambda c: leaked.append(c + 1) or c + 1, x)
        return leaked[-1] * 2

    with pytest.raises(TracingError, match="while_loop: a tensor of the inside"):
        f(1.0)


def test_a_step_may_not_assign_to_its_surroundings():
    u = ng.tensor(np.zeros(3))

    def sets(c, x):
        u[0] = x
        return c + u.sum(), None

    def adds(c, x):
        nonlocal u
        u += x
        return c + u.sum(), None

    for f in (sets, adds):
        with pytest.raises(TracingError, match=rf"scan: {f.__name__} assigns to a tensor of its"):
            ng.scan(f, 0.0, XS)
        with pytest.raises(TracingError, match="assigns to a tensor"):
            ng.jit(lambda xs, f=f: ng.scan(f, 0.0, xs))(XS)
    np.testing.assert_array_equal(u, np.zeros(3))


OF_A_GENERATOR = np.random.default_rng(0)
DRAWS = {
    "a generator": OF_A_GENERATOR.normal,
    "NumPy": lambda: numpys_random.normal(),  # noqa: NPY002
    "Python": lambda: pythons_random.gauss(0, 1),
}
LOOPS = {
    "scan": lambda f: ng.scan(lambda c, _: (c + f(), None), 0.0, length=3),
    "map": lambda f: ng.map(lambda x: x + f(), np.ones(3)),
    "fori_loop": lambda f: ng.fori_loop(0, 3, lambda i, x: x + f(), 0.0),
    "while_loop": lambda f: ng.while_loop(lambda x: x < 3, lambda x: x + 1 + abs(f()), 0.0),
    "vmap": lambda f: ng.vmap(lambda x: x + f())(np.ones(3)),
}


@pytest.mark.parametrize("drawn", DRAWS)
@pytest.mark.parametrize("loop", LOOPS)
def test_numbers_that_are_drawn_once_for_all_steps(loop, drawn):
    LOOPS[loop](lambda: 0.5)  # which is known then to draw nothing
    each = "examples" if loop == "vmap" else "steps"
    for _ in range(2):
        with pytest.raises(TracingError, match=f"{loop}: .* random numbers once, for all {each}"):
            LOOPS[loop](DRAWS[drawn])


def test_numbers_that_are_drawn_before_a_loop():
    noise = OF_A_GENERATOR.normal(size=3)
    last, _ = ng.scan(lambda c, x: (c + x, None), 0.0, noise)
    assert float(last) == pytest.approx(noise.sum())
    key = ng.random.key(0)
    keyed, _ = ng.scan(
        lambda c, i: (c + ng.random.normal(ng.random.fold_in(key, i)), None), 0.0, np.arange(3)
    )
    assert np.isfinite(float(keyed))
