"""Times numba_grad and its peers: `python perf/run.py [names] [--json FILE] [--repeats N]`.

Each implementation of a workload runs in a process of its own, with two threads on two
processors and a time limit. All of a workload are made ready first; their values and gradients
are compared; then they are timed in turn, one run each at a time, so that a disturbance from
outside hits all of them alike. A peer that fails, takes too long, or finds other values becomes
a row with its reason.
"""

import argparse
import contextlib
import datetime
import importlib
import importlib.metadata
import json
import math
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from perf.report import as_markdown, as_table, write_section  # noqa: E402
from perf.workloads import NAMES  # noqa: E402

THREADS = 2
LIMIT = 180.0  # seconds until an implementation is ready, unless the workload says otherwise
LONGEST = 60.0  # seconds of timed runs for an implementation, if it had three of them
FEWEST = 3
RTOL = 1e-6
PAUSE = 0.01  # seconds between turns: OpenMP's threads spin for a while when their work is done
PACKAGES = (
    "numba",
    "llvmlite",
    "numpy",
    "scipy",
    "torch",
    "jax",
    "jaxlib",
    "autograd",
    "drjit",
)


@dataclass(slots=True, eq=False)
class Contestant:
    """An implementation of a workload, and the process that runs it."""

    name: str
    process: subprocess.Popen[str]
    results_file: Path
    errors: IO[str]
    reason: str = ""
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
        # A process that has died says so when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

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
    """Two threads for every library, and caches that are empty when the command begins."""
    folder.mkdir(exist_ok=True)
    names = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NUMBA_GRAD", "VECLIB")
    return {
        **os.environ,
        **{f"{name}_NUM_THREADS": str(THREADS) for name in names},
        "NUMBA_GRAD_CACHE_DIR": str(folder / "numba_grad"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
        # Not `omp`, whose threads spin at barriers: slow when another process wants the processor.
        "NUMBA_THREADING_LAYER": "workqueue",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
    }


def start(workload: str, implementation: str, folder: Path) -> Contestant:
    results = folder / f"{workload}-{implementation.replace(' ', '_')}.npz"
    errors = (folder / f"{results.stem}.err").open("w+", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "perf.process", workload, implementation, str(results)],
        cwd=ROOT,
        env=environment(folder / results.stem),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    return Contestant(implementation, process, results, errors)


@contextlib.contextmanager
def prepared(
    name: str, module: ModuleType, wanted: list[str], folder: Path
) -> Iterator[list[Contestant]]:
    """All implementations, one after the other brought to where they can be timed."""
    contestants: list[Contestant] = []
    try:
        for implementation in module.IMPLEMENTATIONS:
            if wanted and implementation not in wanted:
                continue
            contestant = start(name, implementation, folder)
            contestants.append(contestant)
            began = time.perf_counter()
            answer = contestant.answer(getattr(module, "LIMIT", LIMIT))
            if answer is not None:
                contestant.figures = answer["figures"]
            note(
                f"{name}: {implementation}: {time.perf_counter() - began:.1f} s {contestant.reason}"
            )
        yield contestants
    finally:
        for contestant in contestants:
            contestant.stop()


def compare(contestants: list[Contestant]) -> None:
    """Stops those whose values and gradients differ from what most of the others find."""
    found = {
        c: _arrays(c.results_file) for c in contestants if not c.reason and c.results_file.exists()
    }
    if len(found) < 2:
        return
    errors = {c: {d: _difference(x, y) for d, y in found.items()} for c, x in found.items()}
    trusted = max(found, key=lambda c: sum(error <= RTOL for error in errors[c].values()))
    for contestant in found:
        error = errors[trusted][contestant]
        contestant.figures["error"] = error
        if not error <= RTOL:
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


def measure(contestants: list[Contestant], repeats: int, limit: float) -> None:
    """Timed turns, one for each implementation at a time."""
    for _ in range(repeats):
        for contestant in contestants:
            if contestant.is_done:
                continue
            time.sleep(PAUSE)
            contestant.ask()
            answer = contestant.answer(limit)
            if answer is not None:
                contestant.seconds.append(answer["seconds"])


def run_workload(name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    module = importlib.import_module(f"perf.workloads.{name}")
    repeats = min(arguments.repeats, getattr(module, "REPEATS", arguments.repeats))
    with prepared(name, module, arguments.implementations, folder) as contestants:
        compare(contestants)
        measure(contestants, repeats, getattr(module, "LIMIT", LIMIT))
        rows = {c.name: _row(c) for c in contestants}
    return {
        "title": module.TITLE,
        "unit": module.UNIT,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
        "rows": rows,
        "goals": [{"kind": type(goal).__name__, **_fields(goal)} for goal in module.GOALS],
    }


def _row(contestant: Contestant) -> dict[str, Any]:
    if contestant.reason:
        return {"reason": contestant.reason, "figures": contestant.figures}
    times = contestant.seconds
    return {
        "median": statistics.median(times) if times else None,
        "least": min(times, default=None),
        "most": max(times, default=None),
        "runs": len(times),
        "figures": contestant.figures,
    }


def _fields(goal: Any) -> dict[str, Any]:
    return {name: getattr(goal, name) for name in goal.__dataclass_fields__}


def machine() -> dict[str, Any]:
    """What a figure depends on besides the code."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(models) or os.cpu_count(),
        "threads": THREADS,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
        "commit": _commit(),
    }


def _commit() -> str:
    """Of numba_grad, which need not be installed; with a plus if files were changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True
    )
    return described.stdout.strip()


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"workloads, all by default: {', '.join(NAMES)}"
    )
    parser.add_argument("--implementations", nargs="+", default=[], help="only these")
    parser.add_argument(
        "--repeats", type=int, default=11, help="timed turns of each; 7 or more for figures"
    )
    parser.add_argument(
        "--json", type=Path, help="where to write; by default perf/results/<date>.json"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep what --json holds for other workloads"
    )
    parser.add_argument(
        "--document", action="store_true", help="write the table into docs/performance.md"
    )
    parser.add_argument(
        "--only-document", type=Path, help="measure nothing: write the table of this file"
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"no workload {name!r}; there are {', '.join(NAMES)}")
    return arguments


def main() -> None:
    # Ended from outside it still ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = parsed()
    document = ROOT / "docs" / "performance.md"
    if arguments.only_document:
        write_section(document, as_markdown(json.loads(arguments.only_document.read_text())))
        return
    today = datetime.datetime.now(datetime.UTC)
    file = arguments.json or ROOT / "perf" / "results" / f"{today:%Y-%m-%d-%H%M}.json"
    report: dict[str, Any] = {"date": f"{today:%Y-%m-%d}", "machine": machine(), "workloads": {}}
    if arguments.keep and file.exists():
        report["workloads"] = json.loads(file.read_text())["workloads"]
    # Children inherit it: libraries that start a thread for each processor get two.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    file.parent.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or NAMES:
        with tempfile.TemporaryDirectory(prefix="perf-") as folder:
            report["workloads"][name] = run_workload(name, arguments, Path(folder))
        # After each workload, so that an interrupted run leaves what it has.
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(as_table({**report, "workloads": {name: report["workloads"][name]}}), flush=True)
    if arguments.document:
        write_section(document, as_markdown(report))


if __name__ == "__main__":
    main()
