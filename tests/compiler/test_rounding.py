"""A value has the same bits wherever a program computes it: products that are added are rounded
with the sum by rule, and not where LLVM likes."""

import numpy as np
import pytest

import numba_grad as ng


def total_and_more(op):
    """The product has a second use in the derivative: there LLVM would round it by itself."""

    def loss(x, y, c):
        p = x * y
        return op(p + c) + np.sum(np.sin(p))

    return loss


def of_square(op):
    def loss(x, y, c):
        p = x * y
        w = (p - c) * (p - c)
        return op(w) + np.sum(np.sqrt(abs(p) + 1))

    return loss


def by_rows(op):
    def loss(x, y, c):
        p = x * y
        return np.sum(op((c - p).reshape(4, -1), axis=1)) + np.sum(p * c)

    return loss


def differences(loss, x, y, c, step=1e-6):
    """The gradient by c, by NumPy."""
    found = np.zeros_like(c)
    for k in range(len(c)):
        ahead, behind = c.copy(), c.copy()
        ahead[k] += step
        behind[k] -= step
        found[k] = (loss(x, y, ahead) - loss(x, y, behind)) / (2 * step)
    return found


@pytest.mark.thorough(but="^64.*max")
@pytest.mark.parametrize("op", [np.max, np.min], ids=["max", "min"])
@pytest.mark.parametrize("make", [total_and_more, of_square, by_rows])
@pytest.mark.parametrize("size", [8, 64])
def test_gradients_of_extremes_reach_who_has_them(make, op, size):
    loss = make(op)
    compiled = ng.jit(ng.grad(loss, argnums=2))
    rng = np.random.default_rng(0)
    for _ in range(4):
        x, y, c = rng.standard_normal((3, size))
        want = differences(loss, x, y, c)
        for gradient in (compiled, ng.grad(loss, argnums=2)):
            np.testing.assert_allclose(np.asarray(gradient(x, y, c)), want, atol=1e-6)


@ng.jit
def compared(x, y, c):
    p = x * y
    v = p + c
    return np.sum(v == np.max(v)), np.min(v - np.min(v)), v - v[3], np.sum(np.cos(p) * v)


@ng.jit
def compared_points(points, c):
    """Sums of few products are written out in each kernel that reads them."""
    v = np.sum(points * points, axis=1) + c
    return np.sum(v == np.max(v)), np.min(v - np.min(v)), v[3] - v


def test_comparisons_hold_as_in_numpy():
    rng = np.random.default_rng(1)
    for size in (10, 100, 3000):
        for _ in range(10):
            x, y, c = rng.standard_normal((3, size))
            points = rng.standard_normal((size, 3))
            for count, least, gaps, *_ in (compared(x, y, c), compared_points(points, c)):
                assert (count, least, gaps[3]) == (1, 0, 0)


def test_an_extreme_that_somebody_looked_at():
    rng = np.random.default_rng(2)
    for _ in range(10):
        x, y, c = [ng.tensor(v, requires_grad=True) for v in rng.standard_normal((3, 50))]
        largest = np.max(x * y + c)
        assert np.isfinite(largest.item())
        (largest + np.sum(np.sin(x * y))).backward()
        np.testing.assert_array_equal(np.asarray(c.grad).sum(), 1)


@pytest.mark.parametrize("memory", [None, "2 states"])
def test_extremes_in_loops(memory):
    def loss(x, w):
        def step(x, w):
            p = x * w
            largest = np.max(p + x)
            return np.sin(p) + largest, largest

        return ng.scan(step, x, w, memory=memory)[1].sum()

    def unrolled(x, w):
        total = 0
        for row in w:
            p = x * row
            largest = np.max(p + x)
            x, total = np.sin(p) + largest, total + largest
        return total

    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(100), rng.standard_normal((6, 100))
    want = ng.grad(unrolled, argnums=(0, 1))(x, w)
    for f in (ng.grad(loss, argnums=(0, 1)), ng.jit(ng.grad(loss, argnums=(0, 1)))):
        for found, wanted in zip(f(x, w), want, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-9, atol=1e-12)
