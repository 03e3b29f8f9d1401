"""A network of three layers on a batch: matrix products, and what is between them."""

import itertools
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

WIDTHS = (784, 256, 128, 10)


class Size(NamedTuple):
    batch: int
    bits: int  # of a float


TITLE = "Network 784-256-128-10, cross-entropy, gradient for all weights"
SIZES = {
    "small": Size(batch=64, bits=64),
    "medium": Size(batch=512, bits=64),
    "large": Size(batch=2048, bits=64),
}
GOALS = [NEVER_SLOWER, LIKE_BY_HAND, NO_MORE_MEMORY]
PARAMETERS = (0, 1, 2, 3, 4, 5)


def inputs(size: Size) -> list[np.ndarray]:
    """Weights and biases of each layer; images; labels.

    With this seed no hidden unit is so near to 0 that float32 rounding decides what passes.
    """
    rng = np.random.default_rng(5)
    dtype = np.dtype(f"f{size.bits // 8}")
    args: list[np.ndarray] = []
    for n, m in itertools.pairwise(WIDTHS):
        args.append((rng.normal(size=(n, m)) * np.sqrt(2.0 / n)).astype(dtype))
        args.append((0.1 * rng.normal(size=m)).astype(dtype))
    images = rng.uniform(size=(size.batch, WIDTHS[0])).astype(dtype)
    return [*args, images, rng.integers(0, WIDTHS[-1], size.batch)]


def outputs(np: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any) -> Any:
    """Of the last layer, in a library with NumPy's functions."""
    x = np.maximum(x @ w1 + b1, 0.0)
    x = np.maximum(x @ w2 + b2, 0.0)
    return x @ w3 + b3


def numba_grad(size: Size) -> Prepared:
    import numba_grad as ng

    def loss(*args: Any) -> Any:
        *parameters, images, labels = args
        logs = ng.log_softmax(outputs(np, *parameters, images), axis=1)
        return -logs[np.arange(size.batch), labels].mean()

    return by_numba_grad(loss, inputs(size), PARAMETERS)


def torch_loss(*args: Any) -> Any:
    import torch

    *parameters, images, labels = args
    w1, b1, w2, b2, w3, b3 = parameters
    x = torch.relu(torch.addmm(b1, images, w1))
    x = torch.relu(torch.addmm(b2, x, w2))
    return torch.nn.functional.cross_entropy(torch.addmm(b3, x, w3), labels)


def jax(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax.nn import log_softmax

    def loss(*args: Any) -> Any:
        *parameters, images, labels = args
        logs = log_softmax(outputs(jnp, *parameters, images))
        return -jnp.take_along_axis(logs, labels[:, None], 1).mean()

    return by_jax(loss, inputs(size), PARAMETERS)


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp
    from autograd.scipy.special import logsumexp

    def loss(*args: Any) -> Any:
        *parameters, images, labels = args
        out = outputs(anp, *parameters, images)
        logs = out - logsumexp(out, axis=1, keepdims=True)
        return -anp.mean(logs[np.arange(size.batch), labels])

    return by_autograd(loss, inputs(size), PARAMETERS)


def hand_written(size: Size) -> Prepared:
    """NumPy's BLAS into kept buffers; what is between two products is one loop each."""
    import numba

    *parameters, images, labels = inputs(size)
    w1, b1, w2, b2, w3, b3 = parameters
    gradients = [np.empty_like(x) for x in parameters]
    first, second, last = (np.empty((size.batch, width), images.dtype) for width in WIDTHS[1:])

    @numba.njit(fastmath=True)
    def activate(x: np.ndarray, bias: np.ndarray) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] = max(x[i, j] + bias[j], x.dtype.type(0.0))

    @numba.njit(fastmath=True)
    def deactivate(g: np.ndarray, x: np.ndarray, g_bias: np.ndarray) -> None:
        """The cotangent of what was activated goes where `x` is."""
        g_bias[:] = 0.0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > 0.0:
                    x[i, j] = g[i, j]
                    g_bias[j] += g[i, j]

    @numba.njit(fastmath=True)
    def cross_entropy(x: np.ndarray, bias: np.ndarray, g_bias: np.ndarray) -> float:
        """Its cotangent goes where `x` is."""
        total = 0.0
        share = x.dtype.type(1.0 / x.shape[0])
        g_bias[:] = 0.0
        for i in range(x.shape[0]):
            row = x[i]
            row += bias
            highest = row.max()
            label = row[labels_of[i]] - highest
            sum_of_row = x.dtype.type(0.0)
            for j in range(row.size):
                row[j] = np.exp(row[j] - highest)
                sum_of_row += row[j]
            total += np.log(sum_of_row) - label
            for j in range(row.size):
                row[j] *= share / sum_of_row
            row[labels_of[i]] -= share
            g_bias += row
        return total / x.shape[0]

    labels_of = labels
    back_second, back_first = np.empty_like(second), np.empty_like(first)

    def run() -> tuple[Any, list[np.ndarray]]:
        activate(np.matmul(images, w1, out=first), b1)
        activate(np.matmul(first, w2, out=second), b2)
        value = cross_entropy(np.matmul(second, w3, out=last), b3, gradients[5])
        np.matmul(second.T, last, out=gradients[4])
        deactivate(np.matmul(last, w3.T, out=back_second), second, gradients[3])
        np.matmul(first.T, second, out=gradients[2])
        deactivate(np.matmul(second, w2.T, out=back_first), first, gradients[1])
        np.matmul(images.T, first, out=gradients[0])
        return value, gradients

    return by_hand(run)


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss, inputs(size), PARAMETERS),
    "torch.compile": lambda size: by_torch_compile(torch_loss, inputs(size), PARAMETERS),
    "jax": jax,
    "autograd": autograd,
}
