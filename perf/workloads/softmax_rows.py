"""Softmax of each row, weighted and summed: two passes over a row and one back."""

import math
from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY
from perf.implementations import (
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
    by_torch_compile,
)


class Size(NamedTuple):
    rows: int
    columns: int


TITLE = "Softmax of rows, weighted sum, gradient for both"
SIZES = {
    "small": Size(rows=1_000, columns=64),
    "medium": Size(rows=10_000, columns=256),
    "large": Size(rows=10_000, columns=2_048),
}
GOALS = [NEVER_SLOWER, LIKE_BY_HAND, NO_MORE_MEMORY]
BOTH = (0, 1)


def inputs(size: Size) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [3.0 * rng.normal(size=size), rng.normal(size=size)]


def minimal_bytes(size: Size) -> int:
    return 4 * 8 * size.rows * size.columns


def numba_grad(size: Size) -> Prepared:
    import numba_grad as ng

    def loss(x: Any, weights: Any) -> Any:
        return (ng.softmax(x, axis=1) * weights).sum()

    return by_numba_grad(loss, inputs(size), BOTH)


def torch_loss(x: Any, weights: Any) -> Any:
    import torch

    return (torch.softmax(x, dim=1) * weights).sum()


def jax(size: Size) -> Prepared:
    from jax.nn import softmax

    return by_jax(lambda x, weights: (softmax(x, axis=1) * weights).sum(), inputs(size), BOTH)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    def loss(x: Any, weights: Any) -> Any:
        powers = anp.exp(x - anp.max(x, axis=1, keepdims=True))
        return anp.sum(powers / anp.sum(powers, axis=1, keepdims=True) * weights)

    return by_autograd(loss, inputs(size), BOTH)


def hand_written(size: Size) -> Prepared:
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def kernel(
        x: np.ndarray, weights: np.ndarray, g_x: np.ndarray, g_weights: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        value = 0.0
        for i in numba.prange(x.shape[0]):
            highest = -math.inf
            for j in range(x.shape[1]):
                highest = max(highest, x[i, j])
            total = 0.0
            for j in range(x.shape[1]):
                power = math.exp(x[i, j] - highest)
                g_weights[i, j] = power
                total += power
            mean = 0.0
            for j in range(x.shape[1]):
                g_weights[i, j] /= total
                mean += g_weights[i, j] * weights[i, j]
            for j in range(x.shape[1]):
                g_x[i, j] = g_weights[i, j] * (weights[i, j] - mean)
            value += mean
        return value, g_x, g_weights

    return by_hand(kernel, *inputs(size), np.zeros(size), np.zeros(size))


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss, inputs(size), BOTH),
    "torch.compile": lambda size: by_torch_compile(torch_loss, inputs(size), BOTH),
    "jax": jax,
    "autograd": autograd,
}
