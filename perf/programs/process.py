"""The first gradients of one program: `python -m perf.programs.process PROGRAM LIBRARY FILE`.

In a process that has computed one other gradient. Says "ready" on a line of JSON, what it measured
of the first call on another, of all calls on a third, and saves values and gradients to FILE. What
libraries print goes to standard error. With "operations" for a library it fills the disk cache
instead, see `operations.py`.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from perf.programs import Program, program_named
from perf.programs.libraries import LIBRARIES, OURS, Run

CALLS = 4
LONGEST = 5.0  # seconds; after as many, the second call is the last
OPERATIONS = "operations"


def main() -> None:
    name, library, file = sys.argv[1:4]
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    program = program_named(name)
    if library == OPERATIONS:
        from perf.programs.operations import run_one_at_a_time

        say(channel, {"ready": True})
        say(channel, {"operations": run_one_at_a_time(program)})
        return
    LIBRARIES[library](before(), [np.ones(3), np.ones((1, 2))])()
    say(channel, {"ready": True})
    for answer in measured(program, library, file):
        say(channel, answer)


def say(channel: TextIO, answer: dict[str, Any]) -> None:
    channel.write(json.dumps(answer) + "\n")


def before() -> Program:
    """The gradient that the process has done before."""
    return Program(
        "before", "none", lambda np, x, y: np.sum(x * x * y[0, 0]), lambda random, n: [], wrt=(0,)
    )


def measured(program: Program, library: str, file: str) -> Iterator[dict[str, Any]]:
    """Seconds of the first calls, by the clock and of the processor; for ours, what was compiled
    for the first, and how many operations one of them records. After the first and after the last.
    """
    run = LIBRARIES[library](program, program.arguments())
    is_ours = library in OURS
    kernels = OurKernels() if is_ours else None
    seconds, processor_seconds = [], []
    results = timed(run, seconds, processor_seconds)
    figures = {} if kernels is None else kernels.since()
    np.savez(file, *results)
    answer = {"seconds": seconds, "processor seconds": processor_seconds, "figures": figures}
    yield answer
    while len(seconds) < CALLS and (len(seconds) < 2 or sum(seconds) < LONGEST):
        before = recorded_operations() if is_ours else 0
        timed(run, seconds, processor_seconds)
        if is_ours:
            figures["operations"] = recorded_operations() - before
    yield answer


def timed(run: Run, seconds: list[float], processor_seconds: list[float]) -> list[np.ndarray]:
    start, processor_start = time.perf_counter(), time.process_time()
    results = run()
    seconds.append(time.perf_counter() - start)
    processor_seconds.append(time.process_time() - processor_start)
    return results


class OurKernels:
    """What numba_grad had compiled and loaded when this was made."""

    def __init__(self) -> None:
        self.compilations = self._compilations()
        self.loaded = self._sources()

    def since(self) -> dict[str, int]:
        """ "compiled" and "kernels": distinct ones that were compiled, and that were loaded;
        "lines": of their source."""
        new = self._sources() - self.loaded
        return {
            "compiled": self._compilations() - self.compilations,
            "kernels": len(new),
            "lines": sum(source.count("\n") for source in new),
        }

    @staticmethod
    def _compilations() -> int:
        from numba_grad.compiler.building import build

        return build.statistics().compilations

    @staticmethod
    def _sources() -> set[str]:
        from numba_grad.compiler.building import build

        return {request.source for request in build._kernels}


def recorded_operations() -> int:
    from numba_grad.graph.node import recorded_nodes

    return recorded_nodes()


if __name__ == "__main__":
    main()
