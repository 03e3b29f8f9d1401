"""Rosenbrock's function of many variables: one pass over memory, reads of neighbours."""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY, Times
from perf.implementations import (
    Prepared,
    by_autograd,
    by_drjit,
    by_hand,
    by_jax,
    by_numba_grad,
    by_pytensor,
    by_torch,
    by_torch_compile,
)


class Size(NamedTuple):
    variables: int


TITLE = "Rosenbrock, gradient for all variables"
SIZES = {
    "small": Size(variables=10),
    "medium": Size(variables=10_000),
    "large": Size(variables=1_000_000),
}
GOALS = [NEVER_SLOWER, LIKE_BY_HAND, NO_MORE_MEMORY, Times(3.0, sizes=("small",))]


def minimal_bytes(size: Size) -> int:
    """The variables and the gradient."""
    return 2 * 8 * size.variables


def inputs(size: Size) -> list[np.ndarray]:
    return [np.random.default_rng(0).normal(size=size.variables)]


def loss(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def drjit(size: Size) -> Prepared:
    import drjit
    from drjit.llvm import UInt32
    from drjit.llvm.ad import Float64

    def gathered(x: Any) -> Any:
        index = drjit.arange(UInt32, size.variables - 1)
        here = drjit.gather(Float64, x, index)
        there = drjit.gather(Float64, x, index + 1)
        return drjit.sum(
            100.0 * drjit.square(there - drjit.square(here)) + drjit.square(1.0 - here)
        )

    return by_drjit(gathered, inputs(size))


def hand_written(size: Size) -> Prepared:
    import numba

    @numba.njit(parallel=size.variables > 100_000, fastmath=True)
    def kernel(x: np.ndarray, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        n = x.size
        total = 0.0
        for i in numba.prange(1, n - 1):
            previous = x[i] - x[i - 1] * x[i - 1]
            following = x[i + 1] - x[i] * x[i]
            rest = 1.0 - x[i]
            total += 100.0 * following * following + rest * rest
            gradient[i] = 200.0 * previous - 400.0 * following * x[i] - 2.0 * rest
        first = x[1] - x[0] * x[0]
        rest = 1.0 - x[0]
        total += 100.0 * first * first + rest * rest
        gradient[0] = -400.0 * first * x[0] - 2.0 * rest
        gradient[n - 1] = 200.0 * (x[n - 1] - x[n - 2] * x[n - 2])
        return total, gradient

    (x,) = inputs(size)
    return by_hand(kernel, x, np.zeros_like(x))


IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(loss, inputs(size)),
    "by hand": hand_written,
    "torch": lambda size: by_torch(loss, inputs(size)),
    "torch.compile": lambda size: by_torch_compile(loss, inputs(size)),
    "jax": lambda size: by_jax(loss, inputs(size)),
    "drjit": drjit,
    "pytensor": lambda size: by_pytensor(loss, inputs(size)),
    "autograd": lambda size: by_autograd(loss, inputs(size)),
}
