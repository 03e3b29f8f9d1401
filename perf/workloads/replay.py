"""A thousand calls of one small kernel, each waiting for the last: the price of a replay step."""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import AtMost
from perf.implementations import Prepared, arrays


class Size(NamedTuple):
    rounds: int
    numbers: int


TITLE = "Replay: a jitted function called in a loop, per step"
SIZES = {"small": Size(rounds=1000, numbers=8)}
GOALS = [AtMost(50e-9)]


def inputs(size: Size) -> list[np.ndarray]:
    return [np.linspace(0.1, 0.8, size.numbers)]


def step(y: Any, x: Any) -> Any:
    """Each needs the sum over all of the one before."""
    return y / y.sum() + x


def numba_grad(size: Size) -> Prepared:
    """The call of the whole is in the figure: some 4 us for all steps."""
    import numba_grad as ng

    jitted = ng.jit(step)

    def rounds(x: Any) -> Any:
        y = x
        for _ in range(size.rounds):
            y = jitted(y, x)
        return y

    f = ng.jit(rounds)
    args = inputs(size)
    steps = sum(kernel.count for kernel in f.lower(*args).kernels)
    return Prepared(
        lambda: f(*args), arrays, lambda: {"steps": steps}, operations=max(steps, size.rounds)
    )


def hand_written(size: Size) -> Prepared:
    """The same as nested loops: no step is called by address, nothing is dispatched."""
    import numba

    @numba.njit
    def rounds(x: np.ndarray) -> np.ndarray:
        y = x.copy()
        for _ in range(size.rounds):
            total = 0.0
            for i in range(y.size):
                total += y[i]
            for i in range(y.size):
                y[i] = y[i] / total + x[i]
        return y

    args = inputs(size)
    return Prepared(lambda: rounds(*args), lambda out: [out], operations=size.rounds)


def jax_scan(size: Size) -> Prepared:
    import jax
    from jax import lax

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(lambda x: lax.scan(lambda y, _: (step(y, x), None), x, None, length=size.rounds)[0])
    on_device = jax.device_put(inputs(size)[0])
    return Prepared(lambda: jax.block_until_ready(f(on_device)), arrays, operations=size.rounds)


IMPLEMENTATIONS = {"numba_grad": numba_grad, "by hand": hand_written, "jax scan": jax_scan}
