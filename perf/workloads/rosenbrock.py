"""Rosenbrock's function of many variables: one pass over memory, reads of neighbours."""

from typing import Any

import numpy as np

from perf.implementations import (
    AGAINST_BEST,
    AGAINST_HAND,
    Prepared,
    by_autograd,
    by_drjit,
    by_hand,
    by_jax,
    by_numba_grad,
    by_torch,
    by_torch_compile,
)

SIZE = 1_000_000
TITLE = "Rosenbrock, gradient for 1e6 variables"
UNIT = "ms"
GOALS = [AGAINST_BEST, AGAINST_HAND]


def inputs() -> list[np.ndarray]:
    return [np.random.default_rng(0).normal(size=SIZE)]


def loss(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def drjit() -> Prepared:
    import drjit
    from drjit.llvm import UInt32
    from drjit.llvm.ad import Float64

    def gathered(x: Any) -> Any:
        index = drjit.arange(UInt32, SIZE - 1)
        here = drjit.gather(Float64, x, index)
        there = drjit.gather(Float64, x, index + 1)
        return drjit.sum(
            100.0 * drjit.square(there - drjit.square(here)) + drjit.square(1.0 - here)
        )

    return by_drjit(gathered, inputs())


def hand_written() -> Prepared:
    import numba

    @numba.njit(parallel=True, fastmath=True)
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

    (x,) = inputs()
    return by_hand(kernel, x, np.zeros_like(x))


IMPLEMENTATIONS = {
    "numba_grad": lambda: by_numba_grad(loss, inputs()),
    "by hand": hand_written,
    "torch": lambda: by_torch(loss, inputs()),
    "torch.compile": lambda: by_torch_compile(loss, inputs()),
    "jax": lambda: by_jax(loss, inputs()),
    "drjit": drjit,
    "autograd": lambda: by_autograd(loss, inputs()),
}
