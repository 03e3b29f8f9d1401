"""Variables that are tuples, and functions that return in several places."""

from collections import namedtuple

import numpy as np
import pytest
from numba import njit

import numba_grad as ng
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import Case, check, check_gradient, check_values

pytestmark = pytest.mark.usefixtures("reference_engine")

X = np.array([0.3, 0.5, 0.7, 0.9, 1.1])
Y = np.array([0.2, 0.1, 0.4, 0.3, 0.6])
State = namedtuple("State", "x v")


def oscillator(x, v, h, n):
    s = (x, v)
    for _ in range(n):
        s = (s[0] + h * s[1], s[1] - h * s[0])
    return s[0] * s[1]


def named_oscillator(x, v, h, n):
    s = State(x, v)
    for _ in range(n):
        s = State(v=s.v - h * s.x, x=s.x + h * s.v)
    return s.x, s.v


def tuple_with_arrays(x, v, h, n):
    s = (x, v, 0)
    for _ in range(n):
        x, v, k = s
        a = -np.sin(x)
        s = (x + h * v, v + h * a, k + 1)
        if k > 2:
            break
    return s[0], s[1], s[2]


@njit
def rhs(s, p):
    x, y, z = s
    return (p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z)


def lorenz(x, n):
    s = (x[0], x[1], x[2])
    p = (10.0, 28.0, 8 / 3)
    h = 0.01
    for _ in range(n):
        k1 = rhs(s, p)
        k2 = rhs((s[0] + h * k1[0], s[1] + h * k1[1], s[2] + h * k1[2]), p)
        s = (
            s[0] + 0.5 * h * (k1[0] + k2[0]),
            s[1] + 0.5 * h * (k1[1] + k2[1]),
            s[2] + 0.5 * h * (k1[2] + k2[2]),
        )
    return s


def early_array(x, n):
    if n < 1:
        return x * 2.0
    y = np.empty_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] ** 2
        if y[i] > 100.0:
            return y
    return y + x


def early_pair(x, n):
    if n < 1:
        return x * 2.0, 1
    return np.cos(x), 2


def array_of_the_last_pass(x, n):
    k = 0
    while True:
        y = x * 2.0 ** (-k)
        if y.sum() < n:
            break
        k += 1
    return y


def tuple_that_is_swapped(x, v, n):
    s = (x.copy(), v.copy())
    for _ in range(n):
        s[0][0] += s[1][1]
        s = (s[1], s[0])
    return s[0] * 2, s[1]


def largest_and_its_place(x, n):
    best = (0, 0.0)
    for i in range(x.shape[0]):
        if x[i] > best[1]:
            best = (i, x[i])
    return best[1] * best[0]


def integers_that_become_floats(x, n):
    t = (0, 0)
    for i in range(n):
        t = (t[0] + x[i], t[1] + i)
    return t[0] * t[1]


CASES = (
    (oscillator, (0.3, 0.4, 0.1, 4)),
    (named_oscillator, (0.3, 0.4, 0.1, 4)),
    (tuple_with_arrays, (X, Y, 0.1, 5)),
    (lorenz, (X, 3)),
    (early_array, (X, 0)),
    (early_array, (X, 1)),
    (early_pair, (X, 0)),
    (early_pair, (X, 1)),
    (array_of_the_last_pass, (X, 1)),
    (tuple_that_is_swapped, (X, Y, 3)),
    (largest_and_its_place, (X, 3)),
    (integers_that_become_floats, (X, 3)),
)


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_tuples_and_returns(function, arguments):
    check(function, arguments)


def overwritten_after(x, n):
    pair = (x * 2.0, n)
    x[0] = 7.0
    return pair[0].sum() * pair[1]


def test_an_expression_in_a_tuple_is_computed_at_once():
    case = Case(ng.differentiable(overwritten_after), overwritten_after, (X, 3), (0,))
    check_values(case)
    check_gradient(case)


def nested(x):
    return (x, (x, 1.0))


def test_what_is_returned_keeps_its_tuples():
    first, (second, third) = ng.differentiable(nested)(X)
    np.testing.assert_array_equal(first.numpy(), X)
    np.testing.assert_array_equal(second.numpy(), X)
    assert third.item() == 1.0


def of_tuples(state, parameters, n):
    (a, b), k = parameters
    state[0][0] += a * state[1][k]
    u, v = state
    for _ in range(n):
        u = u + b * v
        v = v - b * u
    return u, v


def test_arguments_may_be_tuples():
    operation = ng.differentiable(of_tuples)

    def loss(u, v, a):
        first, last, written = operation((u, v), ((a, 0.2), 1), 3)
        return np.sum(first * last) + np.sum(written)

    def python(u, v, a):
        own = u.copy()
        first, last = of_tuples((own, v), ((a, 0.2), 1), 3)
        return np.sum(first * last) + np.sum(own)

    np.testing.assert_allclose(loss(X, Y, 0.3), python(X, Y, 0.3), rtol=1e-13)
    found = ng.grad(loss, argnums=(0, 1, 2))(X, Y, 0.3)
    h = 1e-6
    for k, direction in enumerate((np.eye(5)[0], np.eye(5)[2], 1.0)):
        more, less = ([X, Y, 0.3] for _ in range(2))
        more[k], less[k] = more[k] + h * direction, less[k] - h * direction
        expected = (python(*more) - python(*less)) / (2 * h)
        np.testing.assert_allclose(np.sum(found[k] * direction), expected, rtol=1e-7)
    assert repr(operation).endswith("-> returned 0, returned 1, state[0]>")
    with pytest.raises(KernelError, match=r"`state\[0\]`, which shares memory with `state\[1\]`"):
        operation((X, X), ((0.1, 0.2), 1), 2)


def test_named_tuples_as_arguments():
    plain = ng.differentiable(of_tuples)((X, Y), ((0.1, 0.2), 1), 2)
    named = ng.differentiable(of_tuples)(State(X, Y), ((0.1, 0.2), 1), 2)
    for a, b in zip(plain, named, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
