"""Layer normalization of rows: moments of a row, gradients that sum over rows and columns."""

import math
from typing import Any

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
from perf.workloads.softmax_rows import SIZES, Size

__all__ = ["SIZES"]

TITLE = "Layer normalization of rows, weighted sum, gradient for input, scale and shift"
GOALS = [NEVER_SLOWER, LIKE_BY_HAND, NO_MORE_MEMORY]
EPSILON = 1e-5
WRT = (0, 1, 2)


def inputs(size: Size) -> list[np.ndarray]:
    """Rows, scale, shift; weights of the sum."""
    rng = np.random.default_rng(0)
    return [
        rng.normal(1.0, 2.0, size=size),
        rng.uniform(0.5, 1.5, size=size.columns),
        rng.normal(size=size.columns),
        rng.normal(size=size),
    ]


def minimal_bytes(size: Size) -> int:
    return 3 * 8 * size.rows * size.columns


def in_functions(np: Any) -> Any:
    """The loss in a library with NumPy's functions."""

    def loss(x: Any, scale: Any, shift: Any, weights: Any) -> Any:
        centred = x - np.mean(x, axis=1, keepdims=True)
        variance = np.mean(centred * centred, axis=1, keepdims=True)
        return np.sum((centred / np.sqrt(variance + EPSILON) * scale + shift) * weights)

    return loss


def torch_loss(x: Any, scale: Any, shift: Any, weights: Any) -> Any:
    import torch

    y = torch.nn.functional.layer_norm(x, x.shape[1:], scale, shift, EPSILON)
    return (y * weights).sum()


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp

    return by_jax(in_functions(jnp), inputs(size), WRT)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    return by_autograd(in_functions(anp), inputs(size), WRT)


def hand_written(size: Size) -> Prepared:
    """A block of rows is a task; each sums into its own row of partial gradients."""
    import numba

    blocks = 16
    rows, columns = size

    @numba.njit(parallel=True, fastmath=True)
    def kernel(
        x: np.ndarray, scale: np.ndarray, shift: np.ndarray, weights: np.ndarray, g_x: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        value = 0.0
        g_scale, g_shift = np.zeros((blocks, columns)), np.zeros((blocks, columns))
        for block in numba.prange(blocks):
            own = 0.0
            for i in range(rows * block // blocks, rows * (block + 1) // blocks):
                mean = 0.0
                for j in range(columns):
                    mean += x[i, j]
                mean /= columns
                variance = 0.0
                for j in range(columns):
                    variance += (x[i, j] - mean) ** 2
                inverse = 1.0 / math.sqrt(variance / columns + EPSILON)
                plain, along = 0.0, 0.0
                for j in range(columns):
                    normal = (x[i, j] - mean) * inverse
                    g = weights[i, j] * scale[j]
                    plain += g
                    along += g * normal
                    own += weights[i, j] * (normal * scale[j] + shift[j])
                    g_scale[block, j] += weights[i, j] * normal
                    g_shift[block, j] += weights[i, j]
                for j in range(columns):
                    normal = (x[i, j] - mean) * inverse
                    g = weights[i, j] * scale[j]
                    g_x[i, j] = inverse * (g - (plain + normal * along) / columns)
            value += own
        return value, g_x, g_scale.sum(0), g_shift.sum(0)

    return by_hand(kernel, *inputs(size), np.zeros(size))


IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(in_functions(np), inputs(size), WRT),
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss, inputs(size), WRT),
    "torch.compile": lambda size: by_torch_compile(torch_loss, inputs(size), WRT),
    "jax": jax,
    "autograd": autograd,
}
