"""Lists of numbers, as they grow: values, gradients and tangents."""

import math

import numpy as np
import pytest

import numba_grad as ng
from tests.numba_functions.derivatives import check

pytestmark = pytest.mark.usefixtures("reference_engine")

X = np.array([0.3, 1.5, -0.7, 0.9, 1.1])


def comprehensions(a):
    squares = np.array([v * v for v in a])
    chosen = [math.sin(v) for v in a if v > 0.5]
    products = np.array([a[i] * a[i - 1] for i in range(len(a))])
    return squares * sum(chosen), products, len(chosen) + max(chosen) * min([v + 1.0 for v in a])


def names_of_comprehensions(a):
    v = 2.0 * a[0]
    found = [v * v for v in a]
    rows = [sum([v * w for w in a]) for v in a if v > 0.5]
    return sum(found) * v, rows[0] * len(rows)


def appended_in_loops(a, n):
    both = [1.0]
    for i in range(n, 0, -1):
        for j in range(i, 5):
            for k in range(j - 1):
                both.append(a[i] * a[j] * a[k])  # noqa: PERF401
        both.append(a[i])
    rows = []
    for i in range(n):
        for j in range(3):
            rows.append(a[i] * a[j])  # noqa: PERF401
    return np.array(both[1:]), np.array(rows), sum(both)


def read_while_it_grows(a):
    found = [a[0]]
    total = 0.0
    for i in range(4):
        total += sum(found) * len(found)
        found.append(0.5 * found[-1] + a[i] * 0.1 * total)
        if i == 2:
            found.append(a[4])
    for k, value in enumerate(found):
        total += k * value
    return total, found[1]


def made_in_a_loop(a):
    total = 0.0
    for i in range(4):
        found = []
        for j in range(i + 1):
            if a[j] > a[i]:
                break
            found.append(a[j] * a[i])
        total += sum(found) * len(found)
    return total


def stack(a):
    left = []
    for v in a:
        left.append(v)
        if v < 0:
            left.pop()
    total = 0.0
    while len(left) > 0:
        total = 0.5 * total + left.pop() ** 2
    return total


def changed_in_place(a, n):
    found = [0.0] * n
    other = found
    for i in range(n):
        found[i] += a[i] ** 2
        other[-1 - i] *= a[i] + 2.0
    found.sort()
    found.append(found[0] * found[n - 1])
    return np.array(found), other[n]


def places(a):
    chosen = []
    for i in range(5):
        if a[i] > 0.5:
            chosen.append(i)  # noqa: PERF401
    total = 0.0
    for i in chosen:
        total += a[i] ** 2 * len(chosen)
    return total


CASES = {
    comprehensions: (X,),
    names_of_comprehensions: (X,),
    appended_in_loops: (X, 3),
    read_while_it_grows: (X,),
    made_in_a_loop: (X,),
    stack: (X,),
    changed_in_place: (X, 4),
    places: (X,),
}


@pytest.mark.thorough(but=r"^(?!changed_in_place)")  # Numba compiles a sort of lists for it
@pytest.mark.parametrize("function", CASES)
def test_lists(function):
    check(function, CASES[function])


def beyond_its_end(a):
    found = [a[0]]
    for i in range(3):
        found.append(a[i] * found[2 * i])
    return found[-1]


def test_a_place_that_a_list_has_not_is_an_error():
    with pytest.raises(IndexError, match="list index out of range"):
        np.asarray(ng.differentiable(beyond_its_end)(X))
