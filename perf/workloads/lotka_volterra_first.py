"""The first gradient of the loop of `lotka_volterra.py`: tracing and compiling, with empty caches.

An implementation here is a library and a number of steps, that of the size unless it says so. Its
process imports and warms up the library on another function, so that only what depends on this loop
is timed; it does so once, since a second time is not the first.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from perf.goals import AtMost, SameFigure
from perf.implementations import (
    Prepared,
    arrays,
    by_jax,
    by_numba_grad,
    by_torch,
)
from perf.workloads.lotka_volterra import in_a_loop, inputs, step


class Size(NamedTuple):
    steps: int


TITLE = "Lotka-Volterra, first gradient with empty caches"
SIZES = {"large": Size(steps=5000)}
REPEATS = 1
PLAIN = ("numba_grad", "numba_grad, 500")
JITTED = ("numba_grad, jitted step", "numba_grad, jitted step, 500")
GOALS = [
    AtMost(8.0),
    AtMost(1.5, implementation=JITTED[0]),
    SameFigure("kernels", PLAIN),
    SameFigure("kernels", JITTED),
]


def small(x: Any, y: Any) -> Any:
    return (x * x * y[0, 0]).sum()


def first_run(by: Callable[..., Prepared], steps: int, step: Callable[[], Any]) -> Prepared:
    """The time of the first run, whenever it is asked for."""
    by(small, [np.ones(3), np.ones((1, 2))]).run()
    prepared = by(in_a_loop(steps, step()), inputs(steps))
    start = time.perf_counter()
    out = prepared.run()
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    prepared.run()
    again = time.perf_counter() - start

    def figures() -> dict[str, float]:
        given = {} if prepared.figures is None else prepared.figures()
        return {**given, "warm run (ms)": 1e3 * again, "value": float(arrays(out)[0])}

    return Prepared(lambda: seconds, None, figures, is_own_clock=True)


def plain_step() -> Any:
    return step


def jitted_step() -> Any:
    import numba_grad as ng

    return ng.jit(step)


IMPLEMENTATIONS = {
    PLAIN[0]: lambda _: first_run(by_numba_grad, 5000, plain_step),
    PLAIN[1]: lambda _: first_run(by_numba_grad, 500, plain_step),
    JITTED[0]: lambda _: first_run(by_numba_grad, 5000, jitted_step),
    JITTED[1]: lambda _: first_run(by_numba_grad, 500, jitted_step),
    "jax, unrolled, 10": lambda _: first_run(by_jax, 10, plain_step),
    # 50 steps are not ready in 180 s.
    "jax, unrolled, 20": lambda _: first_run(by_jax, 20, plain_step),
    "torch, nothing to compile": lambda _: first_run(by_torch, 5000, plain_step),
}
