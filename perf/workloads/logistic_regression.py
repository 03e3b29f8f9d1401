"""Logistic regression: a product with a tall matrix and one with its transpose, bound by memory."""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY
from perf.implementations import (
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_pytensor,
    by_torch,
    by_torch_compile,
)


class Size(NamedTuple):
    rows: int
    columns: int


TITLE = "Logistic regression, gradient for the weights"
SIZES = {
    "small": Size(rows=1_000, columns=50),
    "medium": Size(rows=100_000, columns=50),
    "large": Size(rows=1_000_000, columns=50),
}
GOALS = [NEVER_SLOWER, LIKE_BY_HAND, NO_MORE_MEMORY]


def minimal_bytes(size: Size) -> int:
    """The rows and labels; weights and gradient are short."""
    return 8 * (size.rows * size.columns + size.rows + 2 * size.columns)


def inputs(size: Size) -> list[np.ndarray]:
    """Weights, rows, and labels of -1 and 1."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(size.rows, size.columns))
    labels = np.where(rng.random(size.rows) < 0.5, 1.0, -1.0)
    return [0.1 * rng.normal(size=size.columns), rows, labels]


def loss(weights: Any, rows: Any, labels: Any) -> Any:
    return np.mean(np.logaddexp(0.0, -labels * (rows @ weights)))


def torch_loss(weights: Any, rows: Any, labels: Any) -> Any:
    import torch

    return torch.nn.functional.softplus(-labels * (rows @ weights)).mean()


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp

    def loss(weights: Any, rows: Any, labels: Any) -> Any:
        return jnp.mean(jnp.logaddexp(0.0, -labels * (rows @ weights)))

    return by_jax(loss, inputs(size))


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    def loss(weights: Any, rows: Any, labels: Any) -> Any:
        return anp.mean(anp.logaddexp(0.0, -labels * anp.dot(rows, weights)))

    return by_autograd(loss, inputs(size))


def pytensor(size: Size) -> Prepared:
    import pytensor.tensor as pt

    def loss(weights: Any, rows: Any, labels: Any) -> Any:
        return pt.mean(pt.softplus(-labels * (rows @ weights)))

    return by_pytensor(loss, inputs(size))


def hand_written(size: Size) -> Prepared:
    import numba

    @numba.njit(parallel=size.rows > 10_000, fastmath=True)
    def kernel(
        weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, partial: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """One pass: a row is read for the product and, while in cache, for the gradient."""
        parts, columns = partial.shape
        partial[:] = 0.0
        total = 0.0
        for part in numba.prange(parts):
            gradient = partial[part]
            for i in range(part * rows.shape[0] // parts, (part + 1) * rows.shape[0] // parts):
                product = 0.0
                for k in range(columns):
                    product += rows[i, k] * weights[k]
                margin = labels[i] * product
                decay = np.exp(-abs(margin))
                total += np.log1p(decay) + max(-margin, 0.0)
                weight = (decay if margin > 0.0 else 1.0) / (1.0 + decay)
                for k in range(columns):
                    gradient[k] -= weight * labels[i] * rows[i, k]
        return total / rows.shape[0], partial.sum(axis=0) / rows.shape[0]

    return by_hand(kernel, *inputs(size), np.zeros((2, size.columns)))


IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(loss, inputs(size)),
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss, inputs(size)),
    "torch.compile": lambda size: by_torch_compile(torch_loss, inputs(size)),
    "jax": jax,
    "pytensor": pytensor,
    "autograd": autograd,
}
