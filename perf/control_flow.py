"""Loops as operations: `python perf/control_flow.py [--small] [--jax-python PYTHON]`.

What `scan` and `while_loop` take, beside the same loop in Python under `jit`, the loop by hand in
Numba, and JAX's. Warm times are the fastest of several runs in turn; a first gradient is that of a
process of its own with an empty cache, after another gradient.
"""

import argparse
import datetime
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from perf.machine import described  # noqa: E402

Loop = Callable[[Any, Any, Callable[[Any], Any], Any, int], Any]


# The problems: a step, its first state, and what is differentiated by.


def lotka_volterra(np: Any) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    def rate(u: Any, p: Any) -> Any:
        x, y = u[0], u[1]
        return np.stack([p[0] * x - p[1] * x * y, -p[2] * y + p[3] * x * y])

    def step(u: Any, p: Any, h: float = 0.001) -> Any:
        k1 = rate(u, p)
        k2 = rate(u + h / 2 * k1, p)
        k3 = rate(u + h / 2 * k2, p)
        k4 = rate(u + h * k3, p)
        return u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return step, [1.0, 2.0], [1.0, 0.5, 0.8, 0.3]


def heat(np: Any, n: int) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    def step(u: Any, k: Any) -> Any:
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        return u + np.pad(k * inner, 1)

    return step, random(n, n), 0.1


def wave(np: Any, n: int) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    def step(state: Any, c: Any) -> Any:
        before, now = state[0], state[1]
        inner = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        inner = inner - 4 * now[1:-1, 1:-1]
        return now, 2 * now - before + np.pad(c[1:-1, 1:-1] * inner, 1)

    return step, (random(n, n), random(n, n)), 0.2 * random(n, n)


def stacked_wave(np: Any, n: int) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    step, state, c = wave(np, n)
    return lambda state, c: np.stack(step(state, c)), list(state), c


def recurrent(np: Any, n: int) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    def step(state: Any, w: Any) -> Any:
        return np.tanh(state @ w + 0.1)

    return step, random(32, n), random(n, n) / n


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random(shape)


def problems(small: bool) -> dict[str, tuple[Callable[[Any], Any], int]]:
    """By name: what makes a problem, and how many steps."""
    scale = 10 if small else 1
    return {
        "Lotka-Volterra": (lotka_volterra, 5000 // scale),
        "heat 32 x 32": (lambda np: heat(np, 32), 200 // scale),
        "heat 256 x 256": (lambda np: heat(np, 256), 100 // scale),
        "wave 64 x 64": (lambda np: wave(np, 64), 200 // scale),
        "wave 64 x 64, stacked": (lambda np: stacked_wave(np, 64), 200 // scale),
        "wave 256 x 256": (lambda np: wave(np, 256), 100 // scale),
        "recurrent 32 x 64": (lambda np: recurrent(np, 64), 100 // scale),
    }


def loss_of(np: Any, step: Any, scan: Callable[..., Any] | None, steps: int) -> Any:
    """The loss of a loop: by `scan`, or in Python."""

    def loss(parameters: Any, state: Any) -> Any:
        if scan is None:
            for _ in range(steps):
                state = step(state, parameters)
        else:
            state, _ = scan(lambda s, _: (step(s, parameters), None), state, None, length=steps)
        last = state[-1] if isinstance(state, tuple | list) else state
        return np.sum(last**2)

    return loss


def seconds_of_each(small: bool) -> float:
    return 0.1 if small else 1.0


def as_arrays(state: Any) -> Any:
    return tuple(map(np.asarray, state)) if isinstance(state, tuple) else np.asarray(state)


# Measuring.


def steps_done_again(steps: int, states: int) -> int:
    """How many steps an adjoint does with memory for so many states, by the formula of Revolve."""
    if steps <= 1:
        return 0
    repeats = 0
    while math.comb(states + repeats, states) < steps:
        repeats += 1
    return repeats * steps - math.comb(states + repeats, states + 1)


def fastest(*functions: Callable[[], Any], seconds: float) -> list[float]:
    """The fastest run of each, in turn, in so many seconds for each."""
    best = [float("inf")] * len(functions)
    for function in functions:
        function()
    deadline = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < deadline:
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def loops(small: bool) -> list[dict[str, Any]]:
    import numba_grad as ng

    rows = []
    for name, (make, steps) in problems(small).items():
        step, state, parameters = make(ng)
        state, parameters = as_arrays(state), np.asarray(parameters)
        losses = [loss_of(ng, step, scan, steps) for scan in (ng.scan, None)]
        jitted = [ng.jit(f) for loss in losses for f in (ng.value_and_grad(loss), loss)]
        calls = [functools.partial(f, parameters, state) for f in jitted]
        times = fastest(*calls, seconds=seconds_of_each(small))
        gradient, value, gradient_in_python, value_in_python = times
        rows.append(
            {
                "loop": name,
                "steps": steps,
                "gradient (us)": gradient * 1e6,
                "of the loop in Python": gradient / gradient_in_python,
                "value (us)": value * 1e6,
                "value, of Python's": value / value_in_python,
            }
        )
    return rows


def by_hand(small: bool) -> list[dict[str, Any]]:
    """Loops of numbers, beside Numba's."""
    import numba

    import numba_grad as ng

    steps = 500 if small else 5000
    step, state, parameters = lotka_volterra(ng)
    loss = loss_of(ng, step, ng.scan, steps)
    ours = ng.jit(loss)
    given = np.asarray(parameters), np.asarray(state)

    @numba.njit
    def hand(p: np.ndarray, u: np.ndarray, h: float = 0.001) -> float:
        x, y = u[0], u[1]
        for _ in range(steps):
            a1, b1 = p[0] * x - p[1] * x * y, -p[2] * y + p[3] * x * y
            c, d = x + h / 2 * a1, y + h / 2 * b1
            a2, b2 = p[0] * c - p[1] * c * d, -p[2] * d + p[3] * c * d
            c, d = x + h / 2 * a2, y + h / 2 * b2
            a3, b3 = p[0] * c - p[1] * c * d, -p[2] * d + p[3] * c * d
            c, d = x + h * a3, y + h * b3
            a4, b4 = p[0] * c - p[1] * c * d, -p[2] * d + p[3] * c * d
            x += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
            y += h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        return x**2 + y**2

    own, theirs = fastest(
        lambda: ours(*given), lambda: hand(*given), seconds=seconds_of_each(small)
    )
    rows = [{"loop": f"Lotka-Volterra, {steps} steps", "ns a step": own / steps * 1e9}]
    rows[0]["of Numba's"] = own / theirs
    counts = (1_000, 10_000) if small else (10_000, 1_000_000)
    return [*rows, *[counted_row(trips, seconds_of_each(small)) for trips in counts]]


def counted_row(trips: int, seconds: float) -> dict[str, Any]:
    """A loop that ends by a condition, of next to no work a step."""
    import numba

    import numba_grad as ng

    def counted(a: Any, memory: Any = None) -> Any:
        first = (0, 1.0)
        return ng.while_loop(
            lambda s: s[0] < trips, lambda s: (s[0] + 1, s[1] * a + 0.1), first, memory=memory
        )[1]

    @numba.njit
    def hand_counted(a: float) -> float:
        k, x = 0, 1.0
        while k < trips:
            x = x * a + 0.1
            k += 1
        return x

    functions = [
        ng.jit(counted),
        hand_counted,
        ng.jit(ng.grad(counted)),
        ng.jit(ng.grad(lambda a: counted(a, "64 MB"))),
        ng.jit(ng.grad(lambda a: counted(a, "1000 states"))),
    ]
    calls = [functools.partial(f, 0.5) for f in functions]
    own, theirs, all_kept, kept, few = fastest(*calls, seconds=seconds)
    return {
        "loop": f"while, {trips} trips",
        "ns a step": own / trips * 1e9,
        "of Numba's": own / theirs,
        "gradient / value": all_kept / own,
        "within 64 MB": kept / own,
        "within 1000 states": few / own,
    }


def within_memory(small: bool) -> list[dict[str, Any]]:
    """Acoustic inversion: all states kept, and a part of them."""
    import numba_grad as ng

    n, steps = (40, 200) if small else (200, 1000)
    step, state, parameters = wave(ng, n)
    state_bytes = 2 * 8 * n * n
    rows = []
    losses = {}
    for states in (steps, steps // 5, steps // 20):

        def scan(f: Any, init: Any, xs: Any, length: int, states: int = states) -> Any:
            return ng.scan(f, init, xs, length=length, memory=f"{states} states")

        losses[states] = ng.jit(ng.value_and_grad(loss_of(ng, step, scan, steps)))
    calls = [functools.partial(f, parameters, state) for f in losses.values()]
    times = fastest(*calls, seconds=4 * seconds_of_each(small))
    for states, seconds in zip(losses, times, strict=True):
        again = 0 if states == steps else steps_done_again(steps, states)
        rows.append(
            {
                "loop": f"wave {n} x {n}, {steps} steps",
                "states": states,
                "megabytes of states": states * state_bytes / 1e6,
                "steps done again, of all": again / steps,
                "seconds": seconds,
                "of keeping all": seconds / times[0],
            }
        )
    return rows


def choices(small: bool) -> list[dict[str, Any]]:
    """One branch runs: a costly one, and a cheap one beside it."""
    import numba_grad as ng

    x = random(300, 300)

    def costly(x: Any) -> Any:
        return np.sum(np.linalg.inv(x @ x.T + 300 * np.eye(300)))

    f = ng.jit(lambda flag, x: ng.cond(flag, costly, lambda x: x[0, 0], x))
    one, other = fastest(
        lambda: f(np.True_, x), lambda: f(np.False_, x), seconds=seconds_of_each(small)
    )
    return [{"branch": "costly", "us": one * 1e6}, {"branch": "cheap", "us": other * 1e6}]


# First gradients, each in a process.

_FIRST = """
import sys, time
sys.path.insert(0, {root!r})
from perf.control_flow import first_gradient
first_gradient({library!r}, {name!r}, {small!r})
"""


def first_gradient(library: str, name: str, small: bool) -> None:
    make, steps = problems(small)[name]
    if library == "jax":
        import jax
        import jax.numpy as xnp

        jax.config.update("jax_enable_x64", True)
        scan: Any = jax.lax.scan
        transform = lambda f: jax.jit(jax.value_and_grad(f))  # noqa: E731
        jax.block_until_ready(
            transform(lambda x, y: xnp.sum(x * x * y[0, 0]))(np.ones(3), np.ones((1, 2)))
        )
    else:
        import numba_grad as ng

        xnp, scan = ng, ng.scan
        transform = lambda f: ng.jit(ng.value_and_grad(f))  # noqa: E731
        transform(lambda x, y: ng.sum(x * x * y[0, 0]))(np.ones(3), np.ones((1, 2)))
    step, state, parameters = make(xnp)
    state, parameters = as_arrays(state), np.asarray(parameters)
    start = time.perf_counter()
    loss = loss_of(xnp, step, scan, steps)
    result = transform(loss)(parameters, state)
    if library == "jax":
        jax.block_until_ready(result)
    print(json.dumps(time.perf_counter() - start))


def first_gradients(small: bool, jax_python: str) -> list[dict[str, Any]]:
    rows = []
    for name in problems(small):
        found = {}
        for library, python in (("numba_grad", sys.executable), ("jax", jax_python)):
            if not python:
                continue
            with tempfile.TemporaryDirectory() as folder:
                code = _FIRST.format(root=str(ROOT), library=library, name=name, small=small)
                done = subprocess.run(
                    [python, "-c", code],
                    env={**os.environ, "NUMBA_GRAD_CACHE_DIR": folder},
                    capture_output=True,
                    text=True,
                )
            found[library] = json.loads(done.stdout) if done.returncode == 0 else None
        row = {"loop": name, "first gradient (ms)": found["numba_grad"] * 1e3}
        if found.get("jax"):
            row |= {"JAX's (ms)": found["jax"] * 1e3, "ratio": found["numba_grad"] / found["jax"]}
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row.get(column, "") for column in columns]
        texts = [f"{x:.3g}" if isinstance(x, float) else str(x) for x in cells]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the steps")
    parser.add_argument("--jax-python", default="", help="the Python that has JAX")
    parser.add_argument("--json", type=Path, help="where results go, with tables beside them")
    arguments = parser.parse_args()
    small = arguments.small
    parts = {
        "Beside the same loop in Python, under jit": loops(small),
        "Beside loops by hand": by_hand(small),
        "Within memory": within_memory(small),
        "Branches": choices(small),
        "First gradients": first_gradients(small, arguments.jax_python),
    }
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    report = {"date": today, "machine": described(), "parts": parts}
    text = "\n\n".join(f"## {name}\n\n{table(rows)}" for name, rows in parts.items())
    print(text)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        arguments.json.with_suffix(".md").write_text(
            f"# Control flow, {today}\n\n{text}\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
