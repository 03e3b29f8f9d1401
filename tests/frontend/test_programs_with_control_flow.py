"""Programs, as their authors write them, within `jit(f, control_flow=True)`."""

import functools
import itertools
import types

import numpy as np
import pytest

import numba_grad as ng
import numba_grad.numpy as ngp
from tests.frontend.python_programs import (
    assert_as_in_python,
    clip_early,
    collatz_with_conditional,
    gcd_with_tuple,
    newton_with_for,
    newton_with_while,
)


def newton_with_count(a, tolerance):
    x, n = 1.0, 0
    while True:
        step = (x * x - a) / (2 * x)
        x -= step
        n += 1
        if abs(step) < tolerance or n >= 50:
            break
    return x, n


def test_newton():
    for f in (newton_with_while, newton_with_count, newton_with_for):
        assert_as_in_python(f, (2.0, 1e-10), (9.0, 1e-6), (1e-3, 1e-8))


def bisection_with_while(c):
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if middle**3 > c:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def bisection_with_for(c):
    interval = [0.0, 10.0]
    for _ in range(200):
        middle = sum(interval) / 2
        interval = [interval[0], middle] if middle**3 > c else [middle, interval[1]]
        if interval[1] - interval[0] < 1e-9:
            break
    return interval[0]


def bisection_with_return(c):
    low, high, n = 0.0, 10.0, 0
    while True:
        middle = 0.5 * (low + high)
        value = middle * middle * middle - c
        if value == 0 or high - low < 1e-9:
            return middle, n
        if value < 0:
            low = middle
        else:
            high = middle
        n = n + 1


def test_bisection():
    for f in (bisection_with_while, bisection_with_for, bisection_with_return):
        assert_as_in_python(f, 2.0, 27.0, 125.0, 0.5)


def collatz_with_elif(n):
    steps = 0
    while True:
        if n == 1:
            break
        elif n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def collatz_with_continue(n):
    steps = 0
    while n != 1:
        steps += 1
        if n % 2:
            n = 3 * n + 1
            continue
        n = n // 2
    return steps


def test_collatz():
    for f in (collatz_with_elif, collatz_with_conditional, collatz_with_continue):
        assert_as_in_python(f, 1, 2, 7, 27)


def adaptive_with_if(end, tolerance):
    t, y, h, accepted = 0.0, 1.0, 0.1, 0
    while t < end:
        if t + h > end:
            h = end - t
        k1 = -2 * y + np.cos(t)
        k2 = -2 * (y + h * k1) + np.cos(t + h)
        error = 0.5 * h * abs(k2 - k1)
        if error <= tolerance:
            t = t + h
            y = y + 0.5 * h * (k1 + k2)
            accepted += 1
        h = h * np.minimum(2.0, np.maximum(0.2, 0.9 * (tolerance / (error + 1e-30)) ** 0.5))
    return y, accepted


def adaptive_with_continue(end, tolerance):
    def slope(t, y):
        return -2 * y + np.cos(t)

    t = 0.0
    y = 1.0
    h = 0.1
    rejected = 0
    while t < end and rejected < 1000:
        h = end - t if t + h > end else h
        euler = y + h * slope(t, y)
        heun = y + h * (slope(t, y) + slope(t + h, euler)) / 2
        if abs(heun - euler) > tolerance:
            h /= 2
            rejected += 1
            continue
        t, y = t + h, heun
        if not abs(heun - euler) > tolerance / 4:
            h *= 2
    return y, rejected


def test_adaptive_step_size():
    for f in (adaptive_with_if, adaptive_with_continue):
        assert_as_in_python(f, (2.0, 1e-4), (1.0, 1e-3))


def clip_nested(x):
    if x >= 0:
        if x <= 1:
            return x
        return 1.0
    return 0.0


def clip_flat(x):
    result = x
    if not 0 <= x <= 1:
        result = 0.0 if x < 0 else 1.0
    return result


def test_early_return():
    for f in (clip_early, clip_nested, clip_flat):
        assert_as_in_python(f, -1.0, 0.0, 0.25, 1.0, 3.0)


def first_pair(values, target):
    """Two indices with this sum, by nested loops."""
    found = (-1, -1)
    for i in range(len(values)):
        for j in range(i + 1, len(values)):
            if values[i] + values[j] == target:
                found = (i, j)
                break
        if found[0] >= 0:
            break
    return found


def first_pair_returned(n, target):
    for i in range(n):
        for j in range(i, n):
            if i * i + j * j == target:
                return i, j
    return -1, -1


def primes_below(n):
    count = 0
    for candidate in range(2, n):
        for d in range(2, candidate):
            if candidate % d == 0:
                break
        else:
            count += 1
    return count


def test_nested_loops_with_break():
    values = np.array([3.0, 1.0, 4.0, 1.5])
    assert_as_in_python(first_pair, (values, 5.5), (values, 2.5), (values, 100.0))
    assert_as_in_python(first_pair_returned, (8, 25), (8, 50), (8, 3), (0, 3))
    assert_as_in_python(primes_below, 2, 3, 30)


def gcd_with_difference(a, b):
    while a != b:
        if a > b:
            a = a - b
        else:
            b = b - a
    return a


def gcd_with_rest(a, b):
    rest = a % b
    while rest != 0:
        a = b
        b = rest
        rest = a % b
    return b


def test_gcd():
    for f in (gcd_with_tuple, gcd_with_difference, gcd_with_rest):
        assert_as_in_python(f, (12, 18), (7, 5), (5, 5), (100, 75))


def horner_of_length(coefficients, x, n):
    total = 0.0
    for k in range(n - 1, -1, -1):
        total = total * x + coefficients[k]
    return total


def horner_with_while(coefficients, x, n):
    total, k = coefficients[n - 1], n - 2
    while k >= 0:
        total = total * x + coefficients[k]
        k -= 1
    return total


def horner_over_rows(coefficients, x, n):
    total = 0.0
    for k, c in enumerate(coefficients):
        if k < n:
            total = total + c * x**k
    return total


def test_horner():
    c = np.array([1.0, -2.0, 0.5, 3.0])
    for f in (horner_of_length, horner_with_while, horner_over_rows):
        assert_as_in_python(f, (c, 0.3, 4), (c, 2.0, 2), (c, -1.0, 1))


def numbers_beside_conditions(x, n):
    for k in range(5):
        if x > 0.3 and n % 2:
            x = x * 0.5
        elif not (k % 3 or x < 0.1):
            x = x + 1.0
        while x > 1.0 and [n]:
            x = x - 0.7
        assert n and x < 100.0
        x = x + (1.0 if n and x else 2.0)
    return x, x > 0.1 and 5.0


def test_in_a_test_operands_need_not_be_of_one_dtype():
    assert_as_in_python(numbers_beside_conditions, (0.2, 1), (1.4, 2), (3.0, 3))


def shrunk(v, limit=0.5):
    if v > limit:
        return v - limit
    return v + limit if v < -limit else 0.0 * v


def larger(a, b):
    return a * 0.5 + b if a > b else b - a


def carried_on(a, b):
    c = a * 0.5 + b if a > b else b - a
    return c, c


class Shrinking:
    def __init__(self, limit):
        self.limit = limit

    def of_one(self, v):
        return shrunk(v, self.limit)

    def __call__(self, v):
        return 2 * shrunk(v, self.limit)


shrunk_less = functools.partial(shrunk, limit=0.2)


def by_pythons_functions(x):
    rule = Shrinking(0.3)
    found = [*map(shrunk, x), *map(rule.of_one, x), *map(rule, x), *map(shrunk_less, x)]
    return functools.reduce(larger, found), list(itertools.accumulate(x, larger))


def by_partial_functions(x):
    return shrunk_less(x[0]), functools.partial(larger, x[0])(x[1]), max(list(x), key=shrunk)


def by_functions_of_the_library(x):
    rows = ngp.vectorize(shrunk)(ngp.stack([x, 2 * x]))
    _, carried = ng.scan(carried_on, x[0], x)
    return rows, ng.vmap(shrunk)(x), carried, ng.grad(shrunk)(x[1])


def within_a_loop_on_values(x):
    while np.max(x) > 0.5:
        x = 0.9 * np.stack(list(map(shrunk_less, x)))
    return x


def by_pythons_own_loops(x):
    rows = np.array([[shrunk(v) for v in row] for row in np.stack([x, 2 * x])])
    carried = list(itertools.accumulate(x, larger, initial=x[0]))[1:]
    slope = np.where(np.abs(x[1]) > 0.5, 1.0, 0.0)
    return rows, np.array([shrunk(v) for v in x]), np.array(carried), slope


@pytest.mark.parametrize("f", [by_pythons_functions, by_partial_functions, within_a_loop_on_values])
def test_functions_that_python_is_given(f):
    assert_as_in_python(f, np.array([0.7, -0.9, 0.1, 2.0]), np.array([-1.0, 0.4, 3.0, 0.2]))


def test_functions_of_the_users_other_modules():
    # A script and the module beside it have no package in common.
    clipping = types.FunctionType(clip_early.__code__, {"__name__": "beside"})

    def f(x):
        return 2 * clipping(x)

    assert_as_in_python(f, (0.5,), (2.0,), (-3.0,))


def test_functions_that_the_library_is_given():
    jitted = ng.jit(by_functions_of_the_library, control_flow=True)
    for x in (np.array([0.7, -0.9, 0.1, 2.0]), np.array([-1.0, 0.4, 3.0, 0.2])):
        for got, expected in zip(jitted(x), by_pythons_own_loops(x), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_functions_that_are_kept_are_the_ones_that_were_given():
    def f(x):
        weights = {shrunk: x}
        weights.setdefault(larger, 2 * x)
        order = [larger]
        order.append(shrunk)
        return [weights[g] if x > 0 else weights.get(g) for g in order]

    assert_as_in_python(f, 1.0, -2.0)
