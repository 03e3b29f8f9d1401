"""Rows of all points are computed of the points' own axes, however they are reshaped."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(5)
IMAGE = RNG.normal(size=(21, 24))
ROW = RNG.normal(size=9)
windows = np.lib.stride_tricks.sliding_window_view


def rows(x):
    return windows(x, (3, 3)).reshape(-1, 9)


def deviations(x, axis):
    return np.sqrt(np.mean(x * x, axis) - np.mean(x, axis) ** 2 + 0.1)


# With the same of the windows as they are, if rows are no slower.
WAYS = {
    "deviations": (
        lambda x: deviations(rows(x), 1),
        lambda x: deviations(windows(x, (3, 3)), (2, 3)),
    ),
    "logarithms of sums": (
        lambda x: np.log(np.sum(np.exp(rows(x)), axis=1)),
        lambda x: np.log(np.sum(np.exp(windows(x, (3, 3))), axis=(2, 3))),
    ),
    "largest": (
        lambda x: np.max(rows(np.tanh(x)), axis=1),
        lambda x: np.max(windows(np.tanh(x), (3, 3)), axis=(2, 3)),
    ),
    "a weight a column": (
        lambda x: np.sum(np.sin(rows(x) * ROW), axis=1),
        lambda x: np.sum(np.sin(windows(x, (3, 3)) * ROW.reshape(3, 3)), axis=(2, 3)),
    ),
    "of two axes": (
        lambda x: np.sin(x.T[1:] * x.T[:-1]).ravel() ** 2,
        lambda x: np.sin(x.T[1:] * x.T[:-1]) ** 2,
    ),
    "a number a point": (lambda x: (rows(x) - x[1:-1, 1:-1].reshape(-1, 1)) ** 2, None),
    "sums over points": (lambda x: np.sum(np.exp(rows(x)), axis=0), None),
    "an array of all points": (lambda x: rows(x)[:, :1] * np.arange(19 * 22.0)[:, None], None),
    "turned": (lambda x: np.exp(rows(x).T).sum(axis=0) * rows(x).T[4], None),
    "undone": (lambda x: np.exp(rows(x)).reshape(19, 22, 3, 3)[..., 1] ** 2, None),
    "in another way": (lambda x: np.exp(rows(x)).reshape(22, 19, 9).sum(axis=2), None),
    "of two ways": (lambda x: np.sin(x[1:]).ravel() * np.sin(2 * x[:-1].T).ravel(), None),
    "products of rows": (lambda x: np.exp(rows(x)) @ np.outer(ROW, ROW), None),
    "one of a row": (lambda x: rows(x)[np.arange(19 * 22), np.argmax(rows(x), axis=1)], None),
    "of both": (lambda x: np.sum(np.exp(x.T[3:] * 2).reshape(-1), axis=0) * x[0], None),
}


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("name", WAYS)
def test_values_and_gradients(name):
    f, other = WAYS[name]
    gradient = ng.value_and_grad(lambda x: np.sum(np.cos(f(x))))
    value, found = ng.jit(gradient)(IMAGE)
    np.testing.assert_allclose(value, np.sum(np.cos(f(IMAGE))), rtol=1e-12)
    with ng.configure(engine="reference"):
        _, expected = gradient(IMAGE)
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-10, atol=1e-12)
    if other is not None:
        another = ng.grad(lambda x: np.sum(np.cos(other(x))))
        lowered = [
            ng.jit(g).lower(IMAGE).kernels for g in (ng.grad(lambda x: gradient(x)[0]), another)
        ]
        own, best = (sum(kernel.nbytes for kernel in kernels) for kernels in lowered)
        assert own <= 1.1 * best


@pytest.mark.usefixtures("not_compiled")
def test_what_products_read_turned_round_is_stored_once():
    def f(x):
        a = np.exp(x).T.reshape(-1, 4)  # of 24 x 21
        return np.sum(a.T @ a) + np.sum((a @ np.ones((4, 20))) ** 2)

    kernels = ng.jit(f).lower(IMAGE[:20]).kernels
    assert sum("reshape" in kernel.name or "transpose" in kernel.name for kernel in kernels) <= 1
