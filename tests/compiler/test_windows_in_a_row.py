"""Windows along two axes that are read along one are computed as stacks of slices are."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import numba_grad as ng

U = np.random.default_rng(0).normal(size=(40, 37))
W = np.random.default_rng(1).normal(size=25)


def in_a_row(u):
    return sliding_window_view(u, (5, 5)).reshape(36, 33, 25)


WAYS = {
    "extremes": lambda u: np.max(in_a_row(u), axis=-1),
    "variances": lambda u: np.var(np.moveaxis(in_a_row(u), -1, 0), axis=0),
    "rows of all": lambda u: np.exp(sliding_window_view(u, (5, 5)).reshape(-1, 25)) @ W,
    "weights": lambda u: np.tanh(in_a_row(u) * W).sum(axis=-1),
    "not as wide as high": lambda u: np.std(
        sliding_window_view(u, (2, 7)).reshape(39, 31, 14), axis=-1
    ),
    "of each image": lambda u: np.max(
        sliding_window_view(u.reshape(2, 20, 37), (3, 3), axis=(1, 2)).reshape(2, 18, 35, 9), axis=3
    ),
    "the other way round": lambda u: np.sin(
        sliding_window_view(u, (5, 5)).transpose(0, 1, 3, 2).reshape(36, 33, 25) * W
    ).sum(axis=-1),
    "also as they are": lambda u: (
        np.prod(in_a_row(u), axis=-1) + np.max(sliding_window_view(u, (5, 5)), axis=(2, 3))
    ),
    "one of them": lambda u: np.exp(in_a_row(u))[..., 7],
    "rows of windows": lambda u: np.exp(sliding_window_view(u, (5, 5)).reshape(36, 165, 5)).sum(1),
}


@pytest.mark.thorough(but="variances")
@pytest.mark.parametrize("name", WAYS)
def test_values_and_gradients(name):
    both = ng.value_and_grad(lambda u: np.sum(WAYS[name](u) ** 2))
    for got, expected in zip(ng.jit(both)(U), both(U), strict=True):
        np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", ["extremes", "variances"])
def test_windows_are_not_copied(name):
    lowered = ng.jit(ng.grad(lambda u: np.sum(WAYS[name](u) ** 2))).lower(U)
    names = [kernel.name for kernel in lowered.kernels]
    assert not any("reshape" in x or "concatenate" in x for x in names), names
