"""A thousand calls of one small kernel, each waiting for the last: the price of a replay step."""

from typing import Any

import numpy as np

from perf.implementations import AtMost, Prepared, arrays

ROUNDS = 1000
TITLE = "Replay: 1,000 steps of 8 numbers, a jitted function called in a loop, per step"
UNIT = "ns"
GOALS = [AtMost(50.0)]


def inputs() -> list[np.ndarray]:
    return [np.linspace(0.1, 0.8, 8)]


def step(y: Any, x: Any) -> Any:
    """Each needs the sum over all of the one before."""
    return y / y.sum() + x


def numba_grad() -> Prepared:
    """The call of the whole is in the figure: some 4 us for all steps."""
    import numba_grad as ng

    jitted = ng.jit(step)

    def rounds(x: Any) -> Any:
        y = x
        for _ in range(ROUNDS):
            y = jitted(y, x)
        return y

    f = ng.jit(rounds)
    args = inputs()
    steps = sum(kernel.count for kernel in f.lower(*args).kernels)
    return Prepared(
        lambda: f(*args), arrays, lambda: {"steps": steps}, operations=max(steps, ROUNDS)
    )


def hand_written() -> Prepared:
    """The same as nested loops: no step is called by address, nothing is dispatched."""
    import numba

    @numba.njit
    def rounds(x: np.ndarray) -> np.ndarray:
        y = x.copy()
        for _ in range(ROUNDS):
            total = 0.0
            for i in range(y.size):
                total += y[i]
            for i in range(y.size):
                y[i] = y[i] / total + x[i]
        return y

    args = inputs()
    return Prepared(lambda: rounds(*args), lambda out: [out], operations=ROUNDS)


def jax_scan() -> Prepared:
    import jax
    from jax import lax

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(lambda x: lax.scan(lambda y, _: (step(y, x), None), x, None, length=ROUNDS)[0])
    on_device = jax.device_put(inputs()[0])
    return Prepared(lambda: jax.block_until_ready(f(on_device)), arrays, operations=ROUNDS)


IMPLEMENTATIONS = {"numba_grad": numba_grad, "by hand": hand_written, "jax scan": jax_scan}
