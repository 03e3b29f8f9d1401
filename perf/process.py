"""One implementation in its own process: `python -m perf.process WORKLOAD NAME FILE`.

Prepares, warms up, saves values and gradients to `file`, and then does a turn of timed runs for
each line that it reads. Answers are lines of JSON; what libraries print goes to standard error.
"""

import gc
import importlib
import json
import os
import resource
import sys
import time
from typing import Any, TextIO

import numpy as np

from perf.implementations import Prepared

TURN = 0.02  # seconds; short runs are repeated within a turn


def main() -> None:
    workload_name, implementation, file = sys.argv[1:4]
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    workload = importlib.import_module(f"perf.workloads.{workload_name}")
    memory = getattr(workload, "MEMORY", None)
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    prepared: Prepared = workload.IMPLEMENTATIONS[implementation]()
    answer, runs = first_run(prepared, file)
    say(channel, answer)
    for _ in sys.stdin:
        say(channel, {"seconds": turn(prepared, runs)})


def say(channel: TextIO, answer: dict[str, Any]) -> None:
    channel.write(json.dumps(answer) + "\n")


def first_run(prepared: Prepared, file: str) -> tuple[dict[str, Any], int]:
    """What is known before timing, and how many runs a turn has."""
    start = time.perf_counter()
    out = prepared.run()
    first = time.perf_counter() - start
    if prepared.results is not None:
        np.savez(file, *prepared.results(out))
    figures = {} if prepared.figures is None else prepared.figures()
    if prepared.is_own_clock:
        return {"figures": figures}, 1
    figures = {"first": first, **figures}
    start = time.perf_counter()
    prepared.run()
    seconds = time.perf_counter() - start
    return {"figures": figures}, max(1, round(TURN / max(seconds, 1e-9)))


def turn(prepared: Prepared, runs: int) -> float:
    """Seconds for an operation."""
    if prepared.is_own_clock:
        return prepared.run() / prepared.operations
    gc.collect()
    start = time.perf_counter()
    for _ in range(runs):
        prepared.run()
    return (time.perf_counter() - start) / runs / prepared.operations


if __name__ == "__main__":
    main()
