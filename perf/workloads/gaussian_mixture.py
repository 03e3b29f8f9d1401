"""Log-likelihood of a Gaussian mixture, as in ADBench: matrix products and a logsumexp.

Parameters are as there: for each component a weight, a mean, and the packed square root of its
inverse covariance, whose first `d` numbers are logarithms of the diagonal and whose others are the
strictly lower triangle, column by column. (Srajer, Kukelova, Fitzgibbon 2018.)

All compute `Q (x - mean)`, as ADBench does. Writing the square out, as a product of `x x^T` with
`Q^T Q`, is faster in every library, takes more memory, and loses digits far from the origin.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY, Times
from perf.implementations import (
    VALUE_ONLY,
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
    by_torch_compile,
    value_by_numba_grad,
)


class Size(NamedTuple):
    points: int
    dimensions: int
    components: int


TITLE = "Gaussian mixture log-likelihood (ADBench), gradient for all parameters"
SIZES = {
    "small": Size(points=1_000, dimensions=10, components=25),
    "medium": Size(points=10_000, dimensions=20, components=50),
    "large": Size(points=10_000, dimensions=64, components=100),
}
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    Times(1 / 3, peers=(VALUE_ONLY,)),
]
GAMMA = 1.0  # of the Wishart prior; its other parameter is 0
ALL = (0, 1, 2)


def inputs(size: Size) -> list[np.ndarray]:
    """Weights, means, packed factors; the points."""
    rng = np.random.default_rng(0)
    n, d, k = size
    return [
        rng.normal(size=k),
        rng.uniform(size=(k, d)),
        0.3 * rng.normal(size=(k, d + d * (d - 1) // 2)),
        rng.normal(size=(n, d)),
    ]


def places(d: int) -> np.ndarray:
    """Of each element of a d x d matrix among the packed numbers and, last, a zero."""
    columns, rows = np.triu_indices(d, 1)  # the lower triangle, column by column
    result = np.full((d, d), d + rows.size)
    result[rows, columns] = d + np.arange(rows.size)
    return result


def constant(size: Size) -> float:
    """What does not depend on the parameters."""
    n, d, k = size
    m = d + 1
    likelihood = -n * d * 0.5 * math.log(2.0 * math.pi)
    multigamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(
        math.lgamma(0.5 * m - 0.5 * j) for j in range(d)
    )
    return likelihood - k * (m * d * (math.log(GAMMA) - 0.5 * math.log(2.0)) - multigamma)


def log_likelihood(size: Size, np: Any, logsumexp: Any) -> Any:
    """In a library with NumPy's functions."""
    _, d, k = size
    place, eye, rest = places(d), np.eye(d), constant(size)

    def loss(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        logs, lower = factors[:, :d], factors[:, d:]
        diagonal = np.exp(logs)
        padded = np.concatenate([factors, np.zeros((k, 1))], axis=1)
        square = padded[:, place] + diagonal[:, :, None] * eye
        # Q (x - mean), for each component a product of (points, d) with (d, d).
        centred = x[None, :, :] - means[:, None, :]
        moved = np.matmul(centred, np.swapaxes(square, 1, 2))
        inner = (alphas + logs.sum(1))[:, None] - 0.5 * (moved * moved).sum(2)
        slack = logsumexp(inner, 0).sum() - x.shape[0] * logsumexp(alphas, 0)
        prior = 0.5 * GAMMA**2 * ((diagonal * diagonal).sum() + (lower * lower).sum())
        return rest + slack + prior

    return loss


def numba_grad_loss(size: Size) -> Any:
    import numba_grad as ng

    return log_likelihood(size, np, lambda x, axis: ng.logsumexp(x, axis=axis))


def numba_grad(size: Size) -> Prepared:
    return by_numba_grad(numba_grad_loss(size), inputs(size), ALL)


def torch_loss(size: Size) -> Any:
    import torch

    _, d, k = size
    place, eye, rest = torch.from_numpy(places(d)), torch.eye(d).double(), constant(size)

    def loss(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        logs, lower = factors[:, :d], factors[:, d:]
        diagonal = torch.exp(logs)
        padded = torch.cat([factors, torch.zeros(k, 1, dtype=x.dtype)], dim=1)
        square = padded[:, place] + diagonal[:, :, None] * eye
        moved = torch.bmm(x[None] - means[:, None], square.transpose(1, 2))
        inner = (alphas + logs.sum(1))[:, None] - 0.5 * (moved * moved).sum(2)
        slack = torch.logsumexp(inner, 0).sum() - x.shape[0] * torch.logsumexp(alphas, 0)
        return rest + slack + 0.5 * GAMMA**2 * ((diagonal**2).sum() + (lower**2).sum())

    return loss


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax.nn import logsumexp

    return by_jax(log_likelihood(size, jnp, logsumexp), inputs(size), ALL)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp
    from autograd.scipy.special import logsumexp

    return by_autograd(log_likelihood(size, anp, logsumexp), inputs(size), ALL)


def hand_written(size: Size) -> Prepared:
    """BLAS for the products, all else in loops over a block of points that stays in cache."""
    import numba

    n, d, k = size
    block = 512
    columns, rows = np.triu_indices(d, 1)
    rest = constant(size)

    @numba.njit(fastmath=True)
    def kernel(
        alphas: np.ndarray, means: np.ndarray, factors: np.ndarray, x: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        square = np.zeros((k, d, d))
        heights = np.empty(k)
        value = rest
        for c in range(k):
            heights[c] = alphas[c]
            for j in range(d):
                heights[c] += factors[c, j]
                square[c, j, j] = math.exp(factors[c, j])
            for j in range(rows.size):
                square[c, rows[j], columns[j]] = factors[c, d + j]
            for j in range(factors.shape[1]):
                q = square[c, j, j] if j < d else factors[c, j]
                value += 0.5 * GAMMA * GAMMA * q * q
        moved = np.empty((k, block, d))
        inner = np.empty((k, block))
        g_square, g_means, g_heights = np.zeros((k, d, d)), np.zeros((k, d)), np.zeros(k)
        centred = np.empty((block, d))
        for begin in range(0, n, block):
            size = min(block, n - begin)
            for c in range(k):
                for i in range(size):
                    for j in range(d):
                        centred[i, j] = x[begin + i, j] - means[c, j]
                np.dot(centred[:size], square[c].T, moved[c, :size])
                for i in range(size):
                    total = 0.0
                    for j in range(d):
                        total += moved[c, i, j] * moved[c, i, j]
                    inner[c, i] = heights[c] - 0.5 * total
            for i in range(size):
                highest = inner[:, i].max()
                total = 0.0
                for c in range(k):
                    inner[c, i] = math.exp(inner[c, i] - highest)
                    total += inner[c, i]
                value += highest + math.log(total)
                for c in range(k):
                    inner[c, i] /= total
            for c in range(k):
                for i in range(size):
                    share = inner[c, i]
                    g_heights[c] += share
                    for j in range(d):
                        centred[i, j] = x[begin + i, j] - means[c, j]
                        moved[c, i, j] *= -share
                g_square[c] += np.dot(moved[c, :size].T, centred[:size])
                for j in range(d):
                    total = 0.0
                    for i in range(size):
                        total += moved[c, i, j]
                    g_means[c, j] += total
        highest = alphas.max()
        weights = np.exp(alphas - highest)
        value -= n * (highest + math.log(weights.sum()))
        weights /= weights.sum()
        g_alphas = g_heights - n * weights
        g_factors = np.empty_like(factors)
        out_means = np.empty_like(means)
        for c in range(k):
            out_means[c] = -np.dot(g_means[c], square[c])
            for j in range(d):
                q = square[c, j, j]
                g_factors[c, j] = g_heights[c] + q * (g_square[c, j, j] + GAMMA * GAMMA * q)
            for j in range(rows.size):
                g_factors[c, d + j] = (
                    g_square[c, rows[j], columns[j]] + GAMMA * GAMMA * factors[c, d + j]
                )
        return value, g_alphas, out_means, g_factors

    return by_hand(kernel, *inputs(size))


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    VALUE_ONLY: lambda size: value_by_numba_grad(numba_grad_loss(size), inputs(size)),
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss(size), inputs(size), ALL),
    "torch.compile": lambda size: by_torch_compile(torch_loss(size), inputs(size), ALL),
    "jax": jax,
    "autograd": autograd,
}
