"""An implementation of a workload, and the process that runs it."""

import contextlib
import json
import math
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
THREADS = 2
LONGEST = 10.0  # seconds of timed runs for an implementation, if it had three of them
FEWEST = 3
COLD_FIGURES = ("start (s)", "first run (s)", "first peak (MB)")
CACHING = ("numba_grad",)  # whose start with what it left on disk is measured, too


@dataclass(slots=True, eq=False)
class Contestant:
    """Started with `start`; it answers on a line of JSON for each line that it is sent."""

    name: str
    process: subprocess.Popen[str]
    results_file: Path
    errors: IO[str]
    reason: str = ""  # why it is out
    figures: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        enough = len(self.seconds) >= FEWEST and sum(self.seconds) > LONGEST
        return bool(self.reason) or enough

    def stop(self, reason: str = "") -> None:
        self.reason = self.reason or reason
        # With the processes that it started: its group is its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()

    def ask(self) -> None:
        """A turn, please."""
        assert self.process.stdin is not None
        self._signal("SIGCONT")
        # A process that has died says so when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def hold(self) -> None:
        """Stopped until it is asked again: idle threads of OpenMP and OpenBLAS spin, those of
        Numba's workqueue wake up all the time. They slowed whoever came next by up to 40 %."""
        self._signal("SIGSTOP")

    def _signal(self, name: str) -> None:
        number = getattr(signal, name, None)  # Windows has neither
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def answer(self, limit: float) -> dict[str, Any] | None:
        """The next line that the process says; None, with a reason noted, if there is none."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], limit)
        if not readable:
            self.stop(f"not ready within {limit:.0f} s")
            return None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.stop(_last_line(self.errors) if code > 0 else f"ended by signal {-code}")
        return None

    def row(self) -> dict[str, Any]:
        """For the report."""
        if self.reason:
            return {"reason": self.reason, "figures": self.figures}
        return {
            "median": statistics.median(self.seconds) if self.seconds else None,
            "least": min(self.seconds, default=None),
            "most": max(self.seconds, default=None),
            "runs": len(self.seconds),
            "figures": self.figures,
        }


def _last_line(file: IO[str]) -> str:
    """The message of an exception, from what a process wrote to standard error."""
    file.seek(0)
    lines = [line.rstrip() for line in file if line.strip()]
    heads = [
        line for line in lines if line[0].isalpha() and ("Error" in line or "Exception" in line)
    ]
    message = (heads or lines or ["no message"])[-1][:200]
    return message.replace(str(ROOT), "").replace(sys.prefix, "")


def environment(folder: Path) -> dict[str, str]:
    """Two threads for every library, and caches that are empty when the folder is new."""
    folder.mkdir(exist_ok=True)
    names = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NUMBA_GRAD", "VECLIB")
    return {
        **os.environ,
        **{f"{name}_NUM_THREADS": str(THREADS) for name in names},
        "NUMBA_GRAD_CACHE_DIR": str(folder / "numba_grad"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
        "PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'},floatX=float64",
        "HOME": str(folder),  # where Dr.Jit keeps its kernels
        # Not `omp`, whose threads spin at barriers: slow when another process wants the processor.
        "NUMBA_THREADING_LAYER": "workqueue",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
    }


def start(workload: str, size: str, implementation: str, folder: Path) -> Contestant:
    """Its process, in the environment that `folder` is for."""
    name = f"{workload}-{size}-{implementation}".replace(" ", "_").replace(",", "")
    results = folder / f"{name}.npz"
    errors = (folder / f"{name}.err").open("w+", encoding="utf-8")
    arguments = [workload, size, implementation, str(results), str(time.time())]
    process = subprocess.Popen(
        [sys.executable, "-m", "perf.process", *arguments],
        cwd=ROOT,
        env=environment(folder / name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    return Contestant(implementation, process, results, errors)


def ready(workload: str, size: str, implementation: str, folder: Path, limit: float) -> Contestant:
    """Started, and run once; those of `CACHING` twice.

    "start (s)" and "first run (s)" are those with empty caches, "warm start (s)" and
    "warm first run (s)" those of the process that is timed.
    """
    contestant = start(workload, size, implementation, folder)
    answer = contestant.answer(limit)
    if answer is None:
        return contestant
    contestant.hold()
    contestant.figures = answer["figures"]
    if "start (s)" not in contestant.figures or implementation.split(",")[0] not in CACHING:
        return contestant
    cold = {key: contestant.figures[key] for key in COLD_FIGURES}
    contestant.stop()
    contestant = start(workload, size, implementation, folder)
    answer = contestant.answer(limit)
    if answer is not None:
        contestant.hold()
        warm = {f"warm {key}": answer["figures"][key] for key in COLD_FIGURES[:2]}
        contestant.figures = answer["figures"] | cold | warm
    return contestant


def compare(contestants: Iterable[Contestant], tolerance: float) -> None:
    """Stops those whose values and gradients differ from what most of the others find."""
    found = {
        c: _arrays(c.results_file) for c in contestants if not c.reason and c.results_file.exists()
    }
    if len(found) < 2:
        return
    errors = {c: {d: _difference(x, y) for d, y in found.items()} for c, x in found.items()}
    trusted = max(found, key=lambda c: sum(error <= tolerance for error in errors[c].values()))
    for contestant in found:
        error = errors[trusted][contestant]
        contestant.figures["error"] = error
        if not error <= tolerance:
            contestant.stop(f"values differ from those of {trusted.name} by {error:.1e}")


def _arrays(file: Path) -> list[np.ndarray]:
    with np.load(file) as saved:
        return [saved[key] for key in saved.files]


def _difference(xs: list[np.ndarray], ys: list[np.ndarray]) -> float:
    """The largest difference, relative to the largest element of each array."""
    if [x.size for x in xs] != [y.size for y in ys]:
        return math.inf
    largest = [np.max(np.abs(y.ravel()), initial=1e-300) for y in ys]
    pairs = zip(xs, ys, largest, strict=True)
    return float(
        max(np.max(np.abs(x.ravel() - y.ravel()), initial=0.0) / size for x, y, size in pairs)
    )


def take_turns(contestants: Iterable[Contestant], repeats: int, limit: float) -> None:
    """Timed turns, one for each implementation at a time: a disturbance hits all of them alike."""
    contestants = list(contestants)
    for _ in range(repeats):
        for contestant in contestants:
            if contestant.is_done:
                continue
            contestant.ask()
            answer = contestant.answer(limit)
            if answer is not None:
                contestant.hold()
                contestant.seconds.append(answer["seconds"])
