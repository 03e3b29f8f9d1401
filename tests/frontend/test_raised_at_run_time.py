"""`raise` and `assert` in functions with `control_flow=True`, where values decide about them."""

import contextlib

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError


def outcome(f, *args):
    """What a call returns, or the exception that it raises."""
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


def as_in_python(f, *calls, **options):
    jitted = ng.jit(f, control_flow=True, **options)
    for args in calls:
        mine = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        expected, found = outcome(f, *args), outcome(jitted, *mine)
        if isinstance(expected, tuple) and isinstance(expected[0], type):
            assert found[0] is expected[0]
            # Which pytest writes, of an assertion that Python runs as it is written.
            assert found[1] == expected[1] or expected[0] is AssertionError
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-14)
        for x, y in zip(args, mine, strict=True):
            np.testing.assert_array_equal(x, y)


def checked(x):
    if np.any(x < 0):
        raise ValueError(f"below 0: {x.min()}")
    return np.sqrt(x)


def newton(a):
    x = a
    for _ in range(50):
        new = (x + a / x) / 2
        if abs(new - x) < 1e-13:
            return new
        x = new
    raise RuntimeError("no convergence")


def halved(x, most):
    steps = 0
    while True:
        x, steps = x * 0.5, steps + 1
        if x < 1e-3:
            break
        if steps > most:
            raise ArithmeticError(f"after {steps}")
    return x, steps


def digits(n):
    if n < 0:
        raise ValueError("negative")
    k = 0
    while n > 0:
        n, k = n // 2, k + 1
    return k


def in_place(u):
    u[0] = 5.0
    if u[1] < 0:
        raise ValueError("the second one")
    u[1] = 7.0
    return u.sum()


def asserting(x, n):
    assert x > 0, "not positive"
    y = x
    for _ in range(n):
        y = y * x
        assert y < 100.0
    return y


def within(x):
    with np.errstate(all="ignore"):
        if x < 0:
            raise ValueError("negative")
        y = np.log(x)
    return y


def suppressing(x):
    with contextlib.suppress(ValueError):
        if x < 0:
            raise ValueError("negative")
        return 2.0 * x
    return x


@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (checked, [(np.array([1.0, 4.0]),), (np.array([1.0, -4.0]),), (np.array([9.0, 0.0]),)]),
        (newton, [(2.0,), (-2.0,), (9.0,)]),
        (halved, [(100.0, 50), (100.0, 5)]),
        (digits, [(9,), (-3,), (0,)]),
        (in_place, [(np.array([1.0, 2.0]),), (np.array([1.0, -2.0]),)]),
        (asserting, [(1.1, 3), (-1.0, 3), (4.0, 5)]),
        (within, [(1.0,), (-2.0,)]),
        (suppressing, [(1.0,), (-2.0,)]),
        (lambda x: checked(checked(x)) + 1.0, [(np.ones(2),), (-np.ones(2),)]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_an_exception_is_raised_as_in_python(f, calls):
    as_in_python(f, *calls)


@pytest.mark.parametrize("a", [2.0, -2.0])
def test_gradients_raise_it_as_well(a):
    expected = outcome(ng.grad(newton), a)
    inside = outcome(ng.jit(ng.grad(newton), control_flow=True), a)
    outside = outcome(ng.grad(ng.jit(newton, control_flow=True)), a)
    if a > 0:
        np.testing.assert_allclose([inside, outside], [expected] * 2, rtol=1e-12)
    else:
        assert inside == outside == expected == (RuntimeError, "no convergence")


def test_a_jitted_function_in_another_one():
    inner = ng.jit(newton, control_flow=True)
    outer = ng.jit(lambda a: 2.0 * inner(a))
    assert outer(4.0) == pytest.approx(4.0)
    assert outcome(outer, -4.0) == (RuntimeError, "no convergence")


def test_what_is_around_is_as_in_python():
    class Clock:
        def __init__(self):
            self.time = 0.0

        def tick(self, by):
            self.time = self.time + by
            if self.time > 2.5:
                raise OverflowError("late")
            return 2.0 * self.time

    own, other = Clock(), Clock()
    jitted = ng.jit(own.tick, control_flow=True)
    for _ in range(4):
        assert outcome(jitted, 1.0) == outcome(other.tick, 1.0)
        assert float(own.time) == other.time


def test_a_condition_that_python_knows_is_pythons():
    def f(x, n):
        if n > 2:
            raise ValueError("n")
        assert x.ndim == 1
        return x * n

    as_in_python(f, (np.ones(2), 1), (np.ones(2), 3), (np.ones((2, 2)), 1), static_argnums=1)


def test_functions_of_loops_branches_and_vmap_cannot():
    def branch(x):
        return checked(x) if x > 1 else x

    for f in (branch, ng.vmap(ng.jit(checked, control_flow=True))):
        with pytest.raises(TracingError, match="raise outside of the jitted function"):
            ng.jit(f, control_flow=True)(np.ones(3) if f is not branch else 2.0)

    def caught(x):
        try:
            if x < 0:
                raise ValueError
        except ValueError:
            return 0.0
        return x

    with pytest.raises(TracingError, match="try around it"):
        ng.jit(caught, control_flow=True)(1.0)
