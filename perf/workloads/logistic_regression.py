"""Logistic regression: a product with a tall matrix and one with its transpose, bound by memory."""

from typing import Any

import numpy as np

from perf.implementations import (
    AGAINST_HAND,
    Prepared,
    TimesFaster,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
    by_torch_compile,
)

ROWS, COLUMNS = 100_000, 50
TITLE = "Logistic regression, 1e5 rows, 50 columns"
UNIT = "ms"
GOALS = [TimesFaster(1.0), AGAINST_HAND]


def inputs() -> list[np.ndarray]:
    """Weights, rows, and labels of -1 and 1."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, COLUMNS))
    labels = np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)
    return [0.1 * rng.normal(size=COLUMNS), rows, labels]


def loss(weights: Any, rows: Any, labels: Any) -> Any:
    return np.mean(np.logaddexp(0.0, -labels * (rows @ weights)))


def torch_loss(weights: Any, rows: Any, labels: Any) -> Any:
    import torch

    return torch.nn.functional.softplus(-labels * (rows @ weights)).mean()


def jax() -> Prepared:
    import jax.numpy as jnp

    def loss(weights: Any, rows: Any, labels: Any) -> Any:
        return jnp.mean(jnp.logaddexp(0.0, -labels * (rows @ weights)))

    return by_jax(loss, inputs())


def autograd() -> Prepared:
    import autograd.numpy as anp

    def loss(weights: Any, rows: Any, labels: Any) -> Any:
        return anp.mean(anp.logaddexp(0.0, -labels * anp.dot(rows, weights)))

    return by_autograd(loss, inputs())


def hand_written() -> Prepared:
    import numba

    @numba.njit(parallel=True, fastmath=True)
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

    return by_hand(kernel, *inputs(), np.zeros((2, COLUMNS)))


IMPLEMENTATIONS = {
    "numba_grad": lambda: by_numba_grad(loss, inputs()),
    "by hand": hand_written,
    "torch": lambda: by_torch(torch_loss, inputs()),
    "torch.compile": lambda: by_torch_compile(torch_loss, inputs()),
    "jax": jax,
    "autograd": autograd,
}
