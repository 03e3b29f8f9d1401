"""One implementation in its own process: `python -m perf.process WORKLOAD SIZE NAME FILE BEGAN`.

Prepares, runs once, saves values and gradients to FILE, and then does a turn of timed runs for
each line that it reads. Answers are lines of JSON; what libraries print goes to standard error.
BEGAN is the time of the day, in seconds, at which the process was started.
"""

import gc
import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from perf.implementations import Prepared

TURN = 0.02  # seconds; short runs are repeated within a turn


def main() -> None:
    workload_name, size, implementation, file, began = sys.argv[1:6]
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    workload = importlib.import_module(f"perf.workloads.{workload_name}")
    memory = getattr(workload, "MEMORY", None)
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    prepared: Prepared = workload.IMPLEMENTATIONS[implementation](workload.SIZES[size])
    if prepared.is_own_clock:
        say(channel, {"figures": own_figures(prepared)})
        for _ in sys.stdin:
            say(channel, {"seconds": prepared.run() / prepared.operations})
        return
    figures, runs = first_run(prepared, file, float(began))
    say(channel, {"figures": figures})
    for _ in sys.stdin:
        say(channel, {"seconds": turn(prepared, runs)})


def say(channel: TextIO, answer: dict[str, Any]) -> None:
    channel.write(json.dumps(answer) + "\n")


def own_figures(prepared: Prepared) -> dict[str, float]:
    return {} if prepared.figures is None else prepared.figures()


def first_run(prepared: Prepared, file: str, began: float) -> tuple[dict[str, float], int]:
    """What is known before timing, and how many runs a turn has."""
    before = resident_megabytes()
    start = time.perf_counter()
    out = prepared.run()
    figures = {"first run (s)": time.perf_counter() - start, "start (s)": time.time() - began}
    figures["first peak (MB)"] = peak_megabytes() - before
    if prepared.results is not None:
        np.savez(file, *prepared.results(out))
    out = None
    if "numba_grad" in sys.modules:  # whoever runs this stops it before a plan is on disk
        importlib.import_module("numba_grad.compiler.building.cache").write_waiting()
    figures |= own_figures(prepared)
    gc.collect()
    forget_peak()
    start = time.perf_counter()
    out = prepared.run()
    seconds = time.perf_counter() - start
    # What the first run left behind counts: it is there while the next runs go on.
    figures["peak (MB)"] = peak_megabytes() - before
    figures["process peak (MB)"] = peak_megabytes()
    return figures, max(1, round(TURN / max(seconds, 1e-9)))


def turn(prepared: Prepared, runs: int) -> float:
    """Seconds for an operation."""
    gc.collect()
    start = time.perf_counter()
    for _ in range(runs):
        prepared.run()
    return (time.perf_counter() - start) / runs / prepared.operations


def resident_megabytes() -> float:
    """Of this process now; where there is no /proc, the peak so far."""
    return _status("VmRSS:")


def peak_megabytes() -> float:
    return _status("VmHWM:")


def forget_peak() -> None:
    """The peak counts from here (Linux only)."""
    file = Path("/proc/self/clear_refs")
    if file.exists():
        file.write_text("5")


def _status(field: str) -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
    (line,) = [line for line in status.read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
