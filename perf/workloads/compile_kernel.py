"""One new small kernel in a process that has compiled before: trace, compile, run."""

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from perf.goals import AtMost
from perf.implementations import Prepared


class Size(NamedTuple):
    operations: int
    numbers: int


TITLE = "First call of a new small function"
SIZES = {"small": Size(operations=5, numbers=8)}
GOALS = [AtMost(0.15), AtMost(1.0, figure="kernels")]


def inputs(size: Size) -> np.ndarray:
    return np.linspace(0.1, 0.8, size.numbers)


def first_call(
    size: Size, jit: Callable[[Any], Any], np: Any, finish: Callable[[Any], Any] = lambda out: out
) -> Prepared:
    """Each run compiles a function that no run before had."""
    unary = [np.sin, np.cos, np.exp, np.tanh, np.sqrt, np.arctan]
    chains = itertools.product(unary, repeat=3)
    values = inputs(size)
    last: list[Any] = []

    def seconds() -> float:
        a, b, c = next(chains)
        f = jit(lambda x: a(b(x) * x) + c(x))
        start = time.perf_counter()
        finish(f(values))
        last[:] = [f]
        return time.perf_counter() - start

    for _ in range(2):
        seconds()

    def figures() -> dict[str, float]:
        lower = getattr(last[0], "lower", None)
        kernels = getattr(lower(values), "kernels", None) if lower else None
        return {} if kernels is None else {"kernels": len(kernels)}

    return Prepared(seconds, None, figures, is_own_clock=True)


def numba_grad(size: Size) -> Prepared:
    import numba_grad as ng

    return first_call(size, ng.jit, np)


def jax(size: Size) -> Prepared:
    import jax

    jax.config.update("jax_enable_x64", True)
    return first_call(size, jax.jit, jax.numpy, jax.block_until_ready)


def torch_compile(size: Size) -> Prepared:
    import torch

    torch._dynamo.config.recompile_limit = 1000
    torch.arctan = torch.atan

    def jit(f: Any) -> Any:
        compiled = torch.compile(f)
        return lambda x: compiled(torch.from_numpy(x))

    return first_call(size, jit, torch)


def by_hand(size: Size) -> Prepared:
    """Numba's own compilation of the same chain as a loop."""
    import math

    import numba

    class Functions:
        sin, cos, exp, tanh, sqrt, arctan = (
            math.sin, math.cos, math.exp, math.tanh, math.sqrt, math.atan
        )  # fmt: skip

    def jit(f: Any) -> Any:
        of_number = numba.njit(f)

        @numba.njit
        def loop(x: np.ndarray) -> np.ndarray:
            out = np.empty_like(x)
            for i in range(x.size):
                out[i] = of_number(x[i])
            return out

        return loop

    return first_call(size, jit, Functions)


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "Numba, by hand": by_hand,
    "torch.compile": torch_compile,
    "jax": jax,
}
