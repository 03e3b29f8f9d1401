"""`raise` and `assert` in functions with `control_flow=True`, where values decide about them."""

import contextlib

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError
from numba_grad.frontend.python_control_flow import branches
from tests.counting import found_by


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


def positive_root(x):
    if x < 0:
        raise ValueError(f"negative: {x:.3f}")
    return np.sqrt(x)


def without_a_value(kind):
    raise KeyError(kind)


def of_three(x):
    if x > 1:
        return 1.0 * x
    if x < -1:
        return -2.0 * x
    raise ValueError("in between")


def in_a_branch(x):
    if x > 1:
        return positive_root(x - 3)
    return x


def for_certain_in_a_branch(x):
    return without_a_value("one") if x > 1 else x


def in_a_loop(x, n):
    k = 0
    while k < n * 1.0:
        x, k = positive_root(x - 1.0) * 2 + 0.1, k + 1
    return x, k


def in_a_test(x):
    while positive_root(x) > 0.5:
        x = x - 1.0
    return x


def in_an_expression(x):
    if x > 2 and positive_root(x - 4) > 1:
        return x
    return max(positive_root(x + 1), 0.5)


def a_loop_that_would_not_end(x):
    y = of_three(x)
    while not y < 1e-3:
        y = y * 0.5
    return y


def nested(x):
    total = 0.0
    for i in range(3):
        if x > i:
            t = x
            while t > 0.3:
                t = positive_root(t - 0.9)
                total += t
    return total


def in_order(x):
    if x > 5:
        raise ValueError("A")
    if x > 2:
        raise ValueError("B")
    raise ValueError("C")


def on_both_sides(x):
    if x > 0:
        raise ValueError("A")
    else:
        raise KeyError("B")


def what_follows_fails(a):
    if abs(np.linalg.det(a)) < 1e-12:
        raise ValueError("singular")
    return np.linalg.inv(a)


def at_most_the_third(x, i):
    if i > 2:
        raise LookupError("past the third")
    return x[i]


def handled_by_who_calls(x):
    if x > 1:
        try:
            return positive_root(x - 3)
        except ValueError:
            return -1.0
    return x


def asserted_in_a_try(x):
    try:
        assert x > 0
    except AssertionError:
        return 5.0
    return x


def checked_in_a_try(x):
    try:
        if (np.abs(x) > 2).any():
            raise ValueError("too large")
        if x < 0:
            raise KeyError("negative")
    except KeyError:
        return 5.0
    return 2 * x


def of_each_kind(x):
    if x > 1:
        m, d = np.zeros(3) + x, {"a": x, "kind": "above"}
    elif x < -1:
        m, d = np.ones(3) * x, {"a": x, "kind": "above"}
    else:
        raise TypeError("neither")
    return m * d["a"]


MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (in_a_branch, [(0.5,), (4.0,), (2.0,)]),
        (for_certain_in_a_branch, [(0.5,), (2.0,)]),
        (in_a_loop, [(4.0, 3), (1.5, 5), (1.5, 0)]),
        (in_a_test, [(3.0,), (3.2,), (-1.0,)]),
        (in_an_expression, [(1.0,), (3.0,), (6.0,), (-2.0,)]),
        (a_loop_that_would_not_end, [(3.0,), (0.0,), (-3.0,)]),
        (nested, [(2.5,), (1.0,), (0.2,)]),
        (in_order, [(6.0,), (3.0,), (1.0,)]),
        (on_both_sides, [(1.0,), (-1.0,)]),
        (what_follows_fails, [(MATRIX,), (np.ones((2, 2)),)]),
        (at_most_the_third, [(np.arange(4.0), 1), (np.arange(4.0), 7)]),
        (handled_by_who_calls, [(4.0,), (2.0,), (0.5,)]),
        (asserted_in_a_try, [(1.0,), (-1.0,)]),
        (checked_in_a_try, [(1.0,), (-1.0,), (3.0,), (-3.0,)]),
        (of_each_kind, [(2.0,), (0.0,), (-2.0,)]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_inside_of_loops_and_branches_as_well(f, calls):
    as_in_python(f, *calls)


def test_of_examples_the_first_that_raises():
    def clipped(x):
        with contextlib.suppress(ValueError):
            x = positive_root(x)
        return x

    fine, one_is_not = np.array([1.0, 4.0]), np.array([1.0, -4.0])
    jitted = ng.jit(positive_root, control_flow=True)
    inside = ng.jit(ng.vmap(positive_root), control_flow=True)
    for f in (ng.vmap(jitted), ng.jit(ng.vmap(jitted)), inside):
        np.testing.assert_allclose(f(fine), [1.0, 2.0])
        assert outcome(f, one_is_not) == (ValueError, "negative: -4.000")
    gradient = ng.grad(lambda x: np.sum(ng.vmap(jitted)(x)))
    np.testing.assert_allclose(gradient(fine), [0.5, 0.25])
    found = ng.vmap(ng.jit(clipped, control_flow=True))(one_is_not)
    np.testing.assert_allclose(found, [1.0, -4.0])


@pytest.mark.parametrize("made", [np.array, ng.tensor])
def test_what_vmap_maps_changes_in_place_where_examples_are_run_one_by_one(made):
    def first_above(x, most):
        x[0] = 7.0
        for i in range(3):
            if x[i] > most:
                return x[i]
            x[1] += 50.0

    given = [[1.0, 60.0, 0.0], [1.0, 0.0, 0.0]]
    f = ng.vmap(ng.jit(first_above, control_flow=True), (0, None))
    for most, left in ((5.0, [[7.0, 60.0, 0.0], [7.0, 0.0, 0.0]]), (500.0, None)):
        x = made(given)
        if left is None:
            assert f(x, most) is None  # of each example
            left = [[7.0, 210.0, 0.0], [7.0, 150.0, 0.0]]
        else:
            np.testing.assert_array_equal(f(x, most), [7.0, 7.0])
        np.testing.assert_array_equal(x, left)
    x = made(np.transpose(given))
    assert ng.vmap(ng.jit(first_above, control_flow=True), (1, None))(x, 500.0) is None
    np.testing.assert_array_equal(x, np.transpose([[7.0, 210.0, 0.0], [7.0, 150.0, 0.0]]))


def test_what_a_function_for_certain_raises_has_changed_once():
    class Counter:
        calls = 0

        def count(self, x):
            self.calls += 1
            if x > 0:
                raise ValueError
            raise KeyError

    own = Counter()
    assert outcome(ng.jit(own.count, control_flow=True), 1.0)[0] is ValueError
    assert own.calls == 1


def test_bodies_of_ones_own_and_a_try_around_a_branch_cannot():
    def scanned(x):
        return ng.scan(lambda c, _: (positive_root(c), None), x, None, length=3)[0]

    with pytest.raises(TracingError, match="raise outside of the jitted function"):
        ng.jit(scanned, control_flow=True)(2.0)

    def caught(x):
        try:
            if x < 0:
                x = 2 * x
                raise ValueError
        except ValueError:
            return 0.0
        return x

    with pytest.raises(TracingError, match="try around it"):
        ng.jit(caught, control_flow=True)(1.0)


def test_steps_of_a_long_loop_that_may_raise_are_a_loop():
    def walk(x):
        for _ in range(300):
            x = x * 0.99 + 0.01 * np.sin(x)
            if np.any(x < -5):
                raise ValueError("below")
        return x.sum()

    as_in_python(walk, (np.ones(3),), (np.full(3, -6.0),))
    graph = ng.jit(walk, control_flow=True).lower(np.ones(3)).graph
    assert len(graph.splitlines()) < 60


def test_what_raises_in_any_case_has_no_kernels():
    with pytest.raises(TracingError, match="raises an exception in any case"):
        ng.jit(on_both_sides, control_flow=True).lower(1.0)


def by_size(x):
    a = b = c = d = 0
    if x < 1:
        a = x
    elif x < 2:
        b = 1.5
    elif x < 3:
        c = x * x
    elif x < 4:
        d = True
    elif x < 5:
        a, b = b, 2.5
    elif x < 6:
        c = np.array(1.0)
    elif x < 7:
        d = 2 * x
    else:
        raise ValueError("too large")
    return a + 10 * b + 100 * c + 1000 * d + 0.5 * x


def test_branches_inside_of_branches_are_traced_a_few_times_each(monkeypatch):
    traced = found_by(monkeypatch, branches, "cond", lambda _: [1])
    f = ng.jit(by_size, control_flow=True)
    f.lower(0.5)
    assert len(traced) < 100  # of 7: 3,279 where each is traced again whenever the one before is
    for x in np.arange(0.5, 7):
        assert f(x) == by_size(x)
        assert ng.grad(f)(x) == ng.grad(by_size)(x)
    with pytest.raises(ValueError, match="too large"):
        f(7.5)
