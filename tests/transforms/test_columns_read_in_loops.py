"""Loops over columns of an array are found as those over its rows."""

import numpy as np
import pytest

import numba_grad as ng

COUNT = 20
RNG = np.random.default_rng(0)
A = RNG.normal(size=(COUNT, COUNT))
TALL = RNG.normal(size=(3, COUNT))
STACK = RNG.normal(size=(2, COUNT, 3))


def stacked(x):
    return np.sum(
        np.stack([np.tanh(A[: len(x), : len(x)] @ x[:, k]) for k in range(COUNT)], 1) ** 3
    )


def added(x):
    return sum(np.sqrt(np.sum(x[:, k] ** 2)) for k in range(x.shape[1]))


def backwards(x):
    total = 0.0
    for k in range(COUNT)[::-1]:
        total += np.sum(np.exp(x[:, k]) * x[:, -1])
    return total


def recurrence(x):
    state = np.zeros(len(x))
    for k in range(COUNT):
        state = np.sin(state + x[:, k]) * 0.5
    return np.sum(state**2)


def filled(x):
    y = ng.zeros((COUNT, len(x)))
    for k in range(COUNT):
        y[k] = np.cos(x[:, k]) * x[:, 0]
    return np.sum(y * y)


WAYS = [stacked, added, backwards, recurrence, filled]


def check(f, x):
    both = ng.value_and_grad(f)
    for got, expected in zip(ng.jit(both)(x), both(x), strict=True):
        np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ng.jit(f)(x), np.asarray(f(x)), rtol=1e-10)
    return str(ng.jit(f).lower(x).graph).count("\n")


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("f", WAYS)
@pytest.mark.parametrize("x", [TALL, A])
def test_values_and_gradients(f, x):
    assert check(f, x) < 3 * COUNT


def test_places_of_an_axis_in_the_middle():
    assert check(lambda x: sum(np.sum(np.sin(x[:, k] @ x[0, 0])) for k in range(COUNT)), STACK) < 30


def test_columns_of_what_the_function_closes_over():
    columns = np.asfortranarray(TALL)

    def f(w):
        total = 0.0
        for k in range(COUNT):
            total = total + np.log1p(np.exp(w @ columns[:, k]))
        return total

    jitted = ng.jit(ng.grad(f))
    check(f, np.ones(3))
    jitted(np.ones(3))
    columns[1, 4] = 7.0
    np.testing.assert_allclose(jitted(np.ones(3)), np.asarray(ng.grad(f)(np.ones(3))))


def test_tensors_of_the_caller_have_gradients():
    x = ng.tensor(TALL, requires_grad=True)
    ng.jit(lambda w: sum(np.sum(w * x[:, k] ** 2) for k in range(COUNT)))(np.arange(3.0)).backward()
    np.testing.assert_allclose(x.grad, 2 * TALL * np.arange(3.0)[:, None])
