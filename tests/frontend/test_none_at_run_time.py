"""Functions with `control_flow=True` that return a value in one place and None in another, and
variables that hold None until there is a value.
"""

import numpy as np
import pytest

import numba_grad as ng


def converged(a, x):
    for _ in range(6):
        new = (x[0] + a / x[0]) / 2
        if abs(new - x[0]) < 1e-6:
            return new
        x = x + (new - x[0])


def never(a, x):
    for k in range(1, 7):
        new = (x[0] + a / x[0]) / 2
        if abs(new - x[0]) < 1e-6:
            return new
        x = x + (new - x[0])
        if k == 6:
            raise RuntimeError("no convergence")
    return None


def first_above(a, x):
    for k in range(3):
        if x[k] > a:
            return k, x[k]


def roots(a, x):
    inside = x[0] ** 2 - a
    if inside < 0:
        return None
    return np.sqrt(inside) - x[0], -np.sqrt(inside) - x[0]


def or_sum(a, x):
    found = first_above(a, x)
    if found is None:
        return x.sum()
    place, value = found
    return value * (place + 1)


def skipped(a, x):
    total = 0.0
    for k in range(3):
        found = doubled(a, x[k])
        if found is None:
            continue
        total = total + found
    return total


def doubled(a, v):
    if v > a:
        return v * 2


def until_none(a, x):
    value = x[0]
    while value < 5 * a:
        found = doubled(0.1, value)
        if found is None:
            break
        value = found
    return value


class Solver:
    def __init__(self, tolerance):
        self.tolerance = tolerance

    def solve(self, a, x):
        value = x[0]
        for _ in range(6):
            new = (value + a / value) / 2
            if abs(new - value) < self.tolerance:
                return new
            value = new
        return


def by_a_method(a, x):
    return Solver(1e-6).solve(a, x)


def nothing_first(a, x):
    if x[0] > a:
        return
    total = x[2]
    while total < a:
        total = total + x[1]
    return total


def nearest(a, x):
    best, least = None, a
    for candidate in (0.5, 1.5, 4.0):
        distance = np.sum((x[:2] - candidate) ** 2)
        if distance < least:
            least, best = distance, x * candidate
    return best[0] if best is not None else x.sum()


def last_above(a, x):
    found = None
    for k in range(3):
        if x[k] > a:
            found = k, x[k] ** 2, {"before": x[:1] * 2}
    return x.sum() if found is None else found[0] * found[1] + found[2]["before"].sum()


def steps_above(a, x):
    total, k = x[0], 0
    while k < 4:
        size = x[1] * k if x[2] * k > a else None
        if size is not None:
            total = total + size
        k = k + 1
    return total


PROGRAMS = [converged, never, first_above, roots, or_sum, skipped, until_none, by_a_method]
PROGRAMS += [nothing_first]
IN_VARIABLES = [nearest, last_above, steps_above]
INPUTS = [
    (1.0, [0.5, 1.5, 2.5]),
    (3.0, [0.5, 1.5, 2.5]),
    (2.0, [2.5, 1.5, 0.5]),
    (0.05, [0.2, 0.1, 0.3]),
    (1e9, [1e-3, 1e8, 0.1]),
]


def leaves(found):
    return found if isinstance(found, tuple) else (found,)


def total(f):
    return lambda a, x: sum(leaves(f(a, x)))


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("program", PROGRAMS + IN_VARIABLES)
def test_none_is_python_s(program):
    jitted = ng.jit(program, control_flow=True)
    slope = ng.jit(ng.grad(total(program), 1), control_flow=True)
    kinds = set()
    for a, x in [*INPUTS, *INPUTS]:
        x = np.array(x)
        try:
            expected = program(a, x)
        except RuntimeError:
            kinds.add("raises")
            with pytest.raises(RuntimeError, match="no convergence"):
                jitted(a, x)
            continue
        found = jitted(a, x)
        kinds.add(expected is None)
        if expected is None:
            assert found is None
            continue
        for mine, theirs in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-14)
        expected = ng.grad(total(program), 1)(a, x).numpy()
        np.testing.assert_allclose(slope(a, x), expected, rtol=1e-12, atol=1e-15)
    always_given = program in (or_sum, skipped, until_none, *IN_VARIABLES)
    assert kinds == ({False} if always_given else {False, "raises" if program is never else True})


@pytest.mark.parametrize("program", IN_VARIABLES)
def test_examples_of_which_some_hold_none(program):
    x = np.array([[0.5, 1.5, 2.5], [2.5, 1.5, 0.5]])
    each = ng.jit(ng.vmap(program, (None, 0)), control_flow=True)
    for a in (0.05, 1.0, 2.0, 1e9):
        np.testing.assert_allclose(each(a, x), [program(a, row) for row in x], rtol=1e-14)


def test_examples_of_which_some_have_none():
    x = np.array([[0.5, 1.5, 2.5], [2.5, 1.5, 0.5]])
    each = ng.jit(ng.vmap(or_sum, (None, 0)), control_flow=True)
    np.testing.assert_allclose(each(2.0, x), [or_sum(2.0, row) for row in x])
    np.testing.assert_allclose(each(5.0, x), [4.5, 4.5])
    with pytest.raises(TypeError, match="results of examples have other structures"):
        ng.jit(ng.vmap(roots, (None, 0)), control_flow=True)(2.0, x)
