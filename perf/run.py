"""Times numba_grad and its peers: `python perf/run.py [names] [--sizes S,S] [--json FILE]`.

Each implementation of a workload runs in a process of its own, with two threads on two
processors and a time limit. All of a workload are made ready first; their values and gradients
are compared; then they are timed in turn, one run each at a time, so that a disturbance from
outside hits all of them alike. A peer that fails, takes too long, or finds other values becomes
a row with its reason. Every workload in every size takes an hour; one in one size, a minute.
"""

import argparse
import contextlib
import datetime
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from perf.contestants import THREADS, Contestant, compare, ready, take_turns  # noqa: E402
from perf.machine import described  # noqa: E402
from perf.report import as_markdown, as_table, write_section  # noqa: E402
from perf.workloads import NAMES  # noqa: E402

LIMIT = 180.0  # seconds until an implementation is ready, unless the workload says otherwise
TOLERANCE = 1e-6  # of values and gradients, relative to the largest element of each array
DOCUMENT = ROOT / "docs" / "performance_figures.md"


@contextlib.contextmanager
def prepared(
    name: str, size: str, module: ModuleType, wanted: list[str], folder: Path
) -> Iterator[list[Contestant]]:
    """All implementations, one after the other brought to where they can be timed."""
    contestants: list[Contestant] = []
    try:
        for implementation in module.IMPLEMENTATIONS:
            if wanted and implementation not in wanted:
                continue
            began = time.perf_counter()
            contestant = ready(name, size, implementation, folder, getattr(module, "LIMIT", LIMIT))
            contestants.append(contestant)
            seconds = time.perf_counter() - began
            note(f"{name} {size}: {implementation}: {seconds:.1f} s {contestant.reason}")
        yield contestants
    finally:
        for contestant in contestants:
            contestant.stop()


def run_workload(
    name: str, size: str, arguments: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    module = importlib.import_module(f"perf.workloads.{name}")
    repeats = min(arguments.repeats, getattr(module, "REPEATS", arguments.repeats))
    with prepared(name, size, module, arguments.implementations, folder) as contestants:
        compare(contestants, getattr(module, "TOLERANCE", TOLERANCE))
        take_turns(contestants, repeats, getattr(module, "LIMIT", LIMIT))
        rows = {c.name: c.row() for c in contestants}
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
        "rows": rows,
    }


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"workloads, all by default: {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--sizes", default="", help="of small, medium and large, with commas; all by default"
    )
    parser.add_argument("--implementations", nargs="+", default=[], help="only these")
    parser.add_argument(
        "--repeats", type=int, default=7, help="timed turns of each; 7 or more for figures"
    )
    parser.add_argument(
        "--json", type=Path, help="where to write; by default perf/results/<date and time>.json"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep what --json holds for other workloads"
    )
    parser.add_argument("--document", action="store_true", help="write tables and plots into docs/")
    parser.add_argument(
        "--only-document", type=Path, help="measure nothing: write those of this file"
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"no workload {name!r}; there are {', '.join(NAMES)}")
    arguments.sizes = [size for size in arguments.sizes.split(",") if size]
    known = {size for name in NAMES for size in _sizes(name)}
    for size in arguments.sizes:
        if size not in known:
            parser.error(f"no size {size!r}; there are {', '.join(sorted(known))}")
    return arguments


def _sizes(name: str) -> list[str]:
    return list(importlib.import_module(f"perf.workloads.{name}").SIZES)


def document(report: dict[str, Any]) -> None:
    from perf.plots import draw  # matplotlib: for those who write documentation

    write_section(DOCUMENT, as_markdown(report))
    draw(report, DOCUMENT.parent / "figures")


def main() -> None:
    # Ended from outside it still ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = parsed()
    if arguments.only_document:
        document(json.loads(arguments.only_document.read_text()))
        return
    now = datetime.datetime.now(datetime.UTC)
    file = arguments.json or ROOT / "perf" / "results" / f"{now:%Y-%m-%d-%H%M}.json"
    # Children inherit it: libraries that start a thread for each processor get two.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    report: dict[str, Any] = {"date": f"{now:%Y-%m-%d}", "machine": described(), "workloads": {}}
    if arguments.keep and file.exists():
        report["workloads"] = json.loads(file.read_text())["workloads"]
    file.parent.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or NAMES:
        for size in _sizes(name):
            if arguments.sizes and size not in arguments.sizes:
                continue
            with tempfile.TemporaryDirectory(prefix="perf-") as folder:
                measured = run_workload(name, size, arguments, Path(folder))
            report["workloads"].setdefault(name, {})[size] = measured
            # After each, so that an interrupted run leaves what it has.
            file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            print(as_table({**report, "workloads": {name: {size: measured}}}), flush=True)
    if arguments.document:
        document(report)


if __name__ == "__main__":
    main()
