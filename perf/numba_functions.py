"""Gradients of users' Numba functions: `python perf/numba_functions.py [--large] [name ...]`.

For each kernel: what a gradient takes, over what the kernel itself takes in Numba; and what the
first gradient takes with an empty cache, over what Numba takes to compile the kernel. Times are the
fastest of several runs, in turn.
"""

import argparse
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
sys.path[:0] = [str(ROOT), str(ROOT / "perf")]

from numba_functions_in_jax import REFUSED  # noqa: E402

# Those with a goal, as multiples of the kernel.
GOALS = {
    "gauss_seidel": 2.0,
    "nbody": 3.5,
    "kepler_newton": 2.5,
    "heat_active_coefficient": 5.0,
}
SCALAR_LOOPS = (
    *GOALS,
    "lu",
    "cholesky",
    "gramschmidt_loops",
    "durbin_loops",
    "floyd_warshall",
    "fdtd_2d_loops",
    "seidel_2d",
    "matmul_loops",
    "thomas",
    "spmv",
    "garch_likelihood",
    "burgers_limited",
)


def fastest(*functions: Callable[[], Any], seconds: float = 1.0) -> list[float]:
    """The fastest run of each, in turn."""
    best = [math.inf] * len(functions)
    deadline = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < deadline:
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def measured(name: str, is_large: bool) -> dict[str, Any]:
    import numba

    import numba_grad as ng
    from tests.numba_functions.programs import PROGRAMS

    program = PROGRAMS[name]
    arguments = program.arguments(program.large if is_large else program.small)
    plain = program.function.py_func
    kernel = numba.njit(plain)

    def of_copies() -> Any:
        own = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
        start = time.perf_counter()
        kernel(*own)
        return time.perf_counter() - start

    start = time.perf_counter()
    of_copies()
    compiling = time.perf_counter() - start
    operation = ng.differentiable(program.function)
    active = [k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]

    def loss(*chosen: Any) -> Any:
        given = list(arguments)
        for k, x in zip(active, chosen, strict=True):
            given[k] = x
        results = operation(*given)
        parts = results if isinstance(results, tuple) else (results,)
        return sum(np.sum(part) for part in parts if part.dtype.kind == "f")

    gradient = ng.jit(ng.grad(loss, argnums=tuple(range(len(active)))))
    chosen = [np.asarray(arguments[k]) for k in active]
    start = time.perf_counter()
    gradient(*chosen)
    first = time.perf_counter() - start
    # The kernel without the copies of its arguments, which it is called with here.
    primal = warm = math.inf
    for _ in range(5):  # in turn: the speed of a shared machine changes
        deadline = time.perf_counter() + 0.2
        while time.perf_counter() < deadline:
            primal = min(primal, of_copies())
        (again,) = fastest(lambda: gradient(*chosen), seconds=0.2)
        warm = min(warm, again)
    alone, shared = [math.inf], [math.inf]
    for _ in range(5):
        for threads, best in ((1, alone), (2, shared)):
            with ng.configure(threads=threads):
                gradient(*chosen)
                best += fastest(lambda: gradient(*chosen), seconds=0.1)
    return {
        "kernel (ms)": primal * 1e3,
        "gradient (ms)": warm * 1e3,
        "of the kernel": warm / primal,
        "two threads, of one": min(shared) / min(alone),
        "first, of compiling": first / compiling,
        "first (s)": first,
        "sums": [float(np.sum(np.asarray(g))) for g in gradient(*chosen)],
        "tape (MB)": operation.tape_bytes(*arguments) / 1e6,
    }


def beside_jax(name: str, is_large: bool, python: str, gradient: float) -> dict[str, Any]:
    """JAX's time for the gradient, in a process of its own."""
    from tests.numba_functions.programs import PROGRAMS

    if name in REFUSED:
        return {"JAX": f"refused: {REFUSED[name]}"}
    program = PROGRAMS[name]
    arguments = program.arguments(program.large if is_large else program.small)
    with tempfile.TemporaryFile() as file:
        np.savez(file, *arguments)
        file.seek(0)
        command = [python, str(ROOT / "perf" / "numba_functions_in_jax.py"), name]
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        "JAX's gradient (ms)": found["best"] * 1e3,
        "of JAX's": gradient / found["best"] / 1e3,
        "JAX's first (s)": found["first"],
        "JAX's sums": found["sums"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--large", action="store_true", help="the sizes of the goals")
    parser.add_argument("--jax-python", default="", help="the Python that has JAX")
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as empty:
        os.environ["NUMBA_GRAD_CACHE_DIR"] = empty
        for name in options.names or SCALAR_LOOPS:
            rows[name] = row = measured(name, options.large)
            goal = f"  (goal {GOALS[name]})" if name in GOALS else ""
            if options.jax_python:
                jax = beside_jax(name, options.large, options.jax_python, row["gradient (ms)"])
                sums = jax.pop("JAX's sums", None)
                if sums is not None:
                    np.testing.assert_allclose(sums, row["sums"], rtol=1e-6)
                row |= jax
            sums = row.pop("sums")
            words = [
                f"{key} {value}  " if isinstance(value, str) else f"{key} {value:.3g}  "
                for key, value in row.items()
            ]
            print(f"{name:25}", *words, goal)
    for key in ("of the kernel", "first, of compiling"):
        mean = math.exp(sum(math.log(row[key]) for row in rows.values()) / len(rows))
        print(f"{key}: {mean:.2f}, the geometric mean")


if __name__ == "__main__":
    main()
