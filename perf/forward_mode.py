"""What a tangent costs, relative to the value, and how much memory both take.

    python perf/forward_mode.py [--rounds 15]

CPU time on one thread, medians of rounds in which all take turns, compiled before. `jvp` computes
the value and the tangent; `tangent` is what it takes more than the value, in values. `twice
reversed` is the same by the reverse pass of a reverse pass. Memory is that of results and of what
lies between.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numba_grad as ng


class Case(NamedTuple):
    name: str
    function: Callable[[Any], Any]
    x: np.ndarray


def wave(speed: Any, steps: int) -> Any:
    """The wave equation, by leapfrog: five points in space, two in time."""
    n = speed.shape[0]
    place = np.linspace(-1, 1, n)
    before = now = speed * 0 + np.exp(-50 * (place[:, None] ** 2 + place**2))
    for _ in range(steps):
        curvature = (
            now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * now[1:-1, 1:-1]
        )
        step = np.pad(speed[1:-1, 1:-1] * curvature, 1)
        before, now = now, 2 * now - before + step
    return now


def heat(x: Any, steps: int) -> Any:
    for _ in range(steps):
        x = x + 0.2 * (np.roll(x, 1) - 2 * x + np.roll(x, -1))
    return x


def predator_prey(rates: Any, steps: int) -> Any:
    prey, predators = rates[0] * 0 + 1.0, rates[1] * 0 + 0.5
    for _ in range(steps):
        births = rates[0] * prey - rates[1] * prey * predators
        deaths = rates[3] * prey * predators - rates[2] * predators
        prey, predators = prey + 0.01 * births, predators + 0.01 * deaths
    return prey + predators


def cases() -> list[Case]:
    generator = np.random.default_rng(0)
    x = generator.uniform(0.5, 2, 4_000_000)
    weights = generator.normal(size=(2000, 500))
    return [
        Case("x * x", lambda x: x * x, x),
        Case("sum of squares", lambda x: (x * x).sum(), x),
        Case("differences of neighbours", lambda x: x[1:] - x[:-1], x),
        Case("x / (1 + x * x)", lambda x: x / (1 + x * x), x),
        Case("exp(-x) * sin(x)", lambda x: np.exp(-x) * np.sin(x), x),
        Case("tanh(A @ x)", lambda x: np.tanh(weights @ x), generator.normal(size=500)),
        Case("heat, 1,000,000, 20 steps", lambda x: heat(x, 20), x[:1_000_000]),
        Case("wave, 400 x 400, 200 steps", lambda c: wave(c, 200), np.full((400, 400), 0.1)),
        Case("wave, 400 x 400, 400 steps", lambda c: wave(c, 400), np.full((400, 400), 0.1)),
        Case(
            "predator and prey, 2,000 steps",
            lambda r: predator_prey(r, 2000),
            np.array([1.0, 0.5, 0.8, 0.3]),
        ),
    ]


def twice_reversed(f: Callable[[Any], Any], x: Any, v: Any) -> Any:
    """The tangent as the derivative of a pullback by the cotangent, in which it is linear."""
    value, pullback = ng.vjp(f, x)
    return value, ng.vjp(lambda g: pullback(g)[0], value * 0)[1](v)[0]


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(case: Case, rounds: int) -> str:
    f, x = case.function, case.x
    v = np.ones_like(x)
    value = ng.jit(f)
    forward = ng.jit(lambda x, v: ng.jvp(f, (x,), (v,)))
    reverse = ng.jit(lambda x, v: twice_reversed(f, x, v))
    for found, expected in zip(forward(x, v), reverse(x, v), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    calls = [lambda: value(x), lambda: forward(x, v), lambda: reverse(x, v)]
    for call in calls:
        call()
    times = zip(*[[seconds(call) for call in calls] for _ in range(rounds)], strict=True)
    of_value, of_forward, of_reverse = [statistics.median(own) for own in times]
    memory = [
        value.lower(x).peak_memory,
        forward.lower(x, v).peak_memory,
        reverse.lower(x, v).peak_memory,
    ]
    return (
        f"{case.name:32s}{of_value * 1e3:9.2f} ms{of_forward / of_value - 1:9.2f}"
        f"{of_reverse / of_value - 1:12.2f}      "
        + "".join(f"{size / 1e6:9.1f}" for size in memory)
    )


def main() -> None:
    """The table."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=15)
    rounds = arguments.parse_args().rounds
    print(f"{'':44s}extra values           MB: value, jvp, twice reversed")
    print(f"{'':32s}{'value':>12s}{'tangent':>9s}{'twice rev.':>12s}")
    with ng.configure(threads=1):
        for case in cases():
            print(measure(case, rounds), flush=True)


if __name__ == "__main__":
    main()
