"""Loops that are merged into one long axis keep what was known about the ranges of the axes."""

import numpy as np

import numba_grad as ng


def test_conditions_that_always_hold_on_an_axis_hold_on_the_merged_axis():
    n = 20  # beyond what is unrolled
    rng = np.random.default_rng(0)
    across, down = rng.normal(size=(n, n - 1)), rng.normal(size=(n - 1, n))

    def loss(u):
        right = np.pad(across * (u[:, 1:] - u[:, :-1]), ((0, 0), (1, 1)))
        below = np.pad(down * (u[1:] - u[:-1]), ((1, 1), (0, 0)))
        step = u + right[:, 1:] - right[:, :-1] + below[1:] - below[:-1]
        return (step**2).sum()

    u = rng.normal(size=(n, n))
    native = np.asarray(ng.jit(ng.grad(loss))(u))
    with ng.configure(engine="reference"):
        expected = np.asarray(ng.jit(ng.grad(loss))(u))
    np.testing.assert_allclose(native, expected, rtol=1e-12, atol=1e-12)


def test_no_axis_has_to_be_unrolled():
    x = np.random.default_rng(0).normal(size=(2, 1, 3))

    def values(x):
        return np.sum(x * x), np.sum(np.sin(x), axis=-1), np.max(x, axis=(0, 1)), np.cumsum(x, 0)

    with ng.configure(unroll_extent=0):
        found = ng.jit(values)(x)
    for y, expected in zip(found, values(x), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-13)
