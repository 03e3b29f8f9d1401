"""What a person waits for after an edit: `python perf/first_gradient.py [--only NAME ...]`.

The first value and gradient of small programs in plain NumPy (`perf/programs/`), each in a process
of its own that has computed one other gradient before: by numba_grad as it defines by run and by
`jit`, and beside it by torch, JAX (jitted) and HIPS autograd. numba_grad is run three times:

    cold    with an empty cache on disk
    known   with a cache that has what other programs left: the operations of this one, compiled one
            at a time, for other shapes
    warm    as a second process, after the cold one

Values and gradients are compared; who finds others, fails or takes too long is a row with its
reason. JAX may live in another environment: --jax-python, or NUMBA_GRAD_PERF_JAX_PYTHON.
"""

import argparse
import datetime
import json
import math
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from perf.contestants import THREADS, Contestant, compare, environment  # noqa: E402
from perf.first_gradient_report import UNTIL, as_markdown  # noqa: E402
from perf.machine import described  # noqa: E402
from perf.programs import SCIENCE, SMALL, WHOLE, Program, programs  # noqa: E402
from perf.programs.libraries import DEFINE_BY_RUN, JIT, LIBRARIES, reason_against  # noqa: E402
from perf.programs.process import OPERATIONS  # noqa: E402
from perf.report import duration  # noqa: E402

START_LIMIT = 120.0  # seconds until a library is imported and has computed the gradient before
COLD, KNOWN, WARM = "cold", "known", "warm"


@dataclass(frozen=True, slots=True)
class Interpreters:
    """Which Python has a library."""

    jax: str = sys.executable
    hips: str = sys.executable

    def of(self, library: str) -> str:
        return {"jax": self.jax, "autograd": self.hips}.get(library, sys.executable)

    def versions(self) -> dict[str, str]:
        """Of the libraries that may live elsewhere."""
        found = {}
        for library in ("jax", "autograd"):
            text = f"from perf.machine import version; print(version({library!r}))"
            command = [self.of(library), "-c", text]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            found[library] = done.stdout.strip() or "not installed"
        return found


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything about how programs are measured."""

    interpreters: Interpreters
    libraries: Sequence[str]
    modes: Sequence[str]
    limit: float

    def all_of(self, program: Program) -> dict[str, dict[str, Any]]:
        """A row for each library, and for ours in each mode."""
        with tempfile.TemporaryDirectory(prefix="perf-") as name:
            folder = Path(name)
            contestants = {}
            for library in self.libraries:
                reason = reason_against(program, library)
                if reason:
                    continue
                if library in (DEFINE_BY_RUN, JIT):
                    contestants |= self._ours(program, library, folder)
                else:
                    contestants[library] = self._run(program, library, library, folder / library)
            tolerance = program.tolerance
            compare([c for c, _ in contestants.values()], tolerance)
            rows = {
                key: {"reason": contestant.reason, **answer, "error": contestant.figures["error"]}
                if "error" in contestant.figures
                else {"reason": contestant.reason, **answer}
                for key, (contestant, answer) in contestants.items()
            }
        for library in self.libraries:
            if reason := reason_against(program, library):
                rows[library] = {"left out": reason}
        return rows

    def _ours(
        self, program: Program, library: str, folder: Path
    ) -> dict[str, tuple[Contestant, dict[str, Any]]]:
        found = {}
        cold, known = folder / f"{library}-cache", folder / f"{library}-known"
        if COLD in self.modes or WARM in self.modes:
            found[f"{library}, {COLD}"] = self._run(program, library, f"{library}, {COLD}", cold)
        if WARM in self.modes and not found[f"{library}, {COLD}"][0].reason:
            found[f"{library}, {WARM}"] = self._run(program, library, f"{library}, {WARM}", cold)
        if KNOWN in self.modes:
            operations = folder / "operations"
            if not operations.exists():
                contestant, _ = self._run(program, OPERATIONS, OPERATIONS, operations)
                if contestant.reason:
                    note(f"  operations one at a time: {contestant.reason}")
            shutil.copytree(operations, known, symlinks=True)
            found[f"{library}, {KNOWN}"] = self._run(program, library, f"{library}, {KNOWN}", known)
        return found

    def _run(
        self, program: Program, library: str, name: str, folder: Path
    ) -> tuple[Contestant, dict[str, Any]]:
        """A process from its start to its end; `folder` is for its caches."""
        folder.mkdir(exist_ok=True)
        file = folder.parent / f"{name}.npz"
        errors = (folder.parent / f"{name}.err").open("w+", encoding="utf-8")
        command = [self.interpreters.of(library), "-m", "perf.programs.process"]
        process = subprocess.Popen(
            [*command, program.name, library, str(file)],
            cwd=ROOT,
            env=installed(environment(folder)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        contestant = Contestant(name, process, file, errors)
        answer: dict[str, Any] = {}
        if contestant.answer(START_LIMIT) is not None:
            answer = contestant.answer(self.limit) or {}
            if not answer and "not ready" in contestant.reason:
                contestant.reason = f">{self.limit:.0f} s"
            elif answer and library != OPERATIONS:
                answer = contestant.answer(self.limit) or answer
                # Of one that is slow again, the first call stands.
                if "not ready" in contestant.reason:
                    contestant.reason = ""
                else:  # plans are written to disk by its end
                    process.wait(START_LIMIT)
        contestant.stop()
        note(f"  {name}: {in_words(answer, contestant.reason)}")
        return contestant, answer


BYTECODE = Path(tempfile.gettempdir()) / f"perf-bytecode-{os.getuid()}"


def installed(environment: dict[str, str]) -> dict[str, str]:
    """With Python's bytecode there, as after an installation: but for the first process of all."""
    kept = {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def in_words(answer: dict[str, Any], reason: str) -> str:
    if reason or "seconds" not in answer:
        return reason
    figures = ", ".join(f"{key} {x}" for key, x in answer["figures"].items())
    return f"{', '.join(duration(x) for x in answer['seconds'])}   {figures}"


def median_of(runs: Sequence[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Of several runs of a program: figure by figure."""
    rows = dict(runs[0])
    for key, first in rows.items():
        every = [run[key] for run in runs if "seconds" in run.get(key, {})]
        if "seconds" not in first or len(every) < 2:
            continue
        for name in ("seconds", "processor seconds"):
            columns = zip(*(row[name] for row in every), strict=False)
            first[name] = [statistics.median(column) for column in columns]
    return rows


# Of a process: from its start to its first gradient, see `perf/fresh_process.py`.
STARTING = ("numpy", "numba_grad", "torch", "jax", "autograd")
IMPORTS = ("import numpy", "import numpy, numba_grad")


def starts(interpreters: Interpreters, runs: int) -> dict[str, dict[str, float]]:
    """From the start of a process to the first gradient of Rosenbrock's function, and to the end of
    the process."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="perf-") as folder:
        for library in STARTING:
            arguments = [interpreters.of(library), str(ROOT / "perf" / "fresh_process.py"), library]
            if library == "numba_grad":
                folders = [Path(folder) / f"cold{run}" for run in range(runs)]
                found["numba_grad, cold"] = seconds_of(arguments, folders)
            folders = [Path(folder) / "warm"] * (runs + 1)
            found[library] = seconds_of(arguments, folders, not_counted=1)
        for text in IMPORTS:
            arguments = [sys.executable, "-c", f"{text}; print(flush=True)"]
            found[text] = seconds_of(arguments, [Path(folder) / "warm"] * (runs + 1), not_counted=1)
    return found


def seconds_of(
    arguments: Sequence[str], folders: Sequence[Path], not_counted: int = 0
) -> dict[str, float]:
    """Medians over processes, by the clock and of the processor, and by the clock until they print
    something; not a number if one failed."""
    found: list[tuple[float, float, float]] = []
    for folder in folders:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        with subprocess.Popen(
            arguments,
            env=installed(environment(folder)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            until = time.perf_counter() - start
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        has_failed = process.returncode != 0
        failed = (math.nan, math.nan, math.nan)
        found.append(failed if has_failed else (seconds, used, until))
    names = ("seconds", "processor seconds", UNTIL)
    columns = zip(*found[not_counted:], strict=True)
    return {name: statistics.median(x) for name, x in zip(names, columns, strict=True)}


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], help="programs whose names begin so")
    parser.add_argument("--group", nargs="+", choices=[*SMALL, *SCIENCE], default=list(SMALL))
    parser.add_argument("--science", action="store_true", help="all programs of scientists' kind")
    parser.add_argument("--whole", action="store_true", help="whole programs, and no small ones")
    parser.add_argument("--contestants", nargs="+", choices=list(LIBRARIES), default=[*LIBRARIES])
    parser.add_argument("--modes", nargs="+", choices=[COLD, KNOWN, WARM], default=None)
    parser.add_argument("--runs", type=int, default=1, help="medians of so many")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each process")
    parser.add_argument(
        "--processor-time", action="store_true", help="in the tables: for a busy machine"
    )
    parser.add_argument("--no-starts", action="store_true", help="without the starts of processes")
    parser.add_argument("--json", type=Path, help="by default perf/results/<date>-first-gradient")
    parser.add_argument("--keep", action="store_true", help="keep what --json holds otherwise")
    parser.add_argument(
        "--tables", type=Path, nargs="+", help="measure nothing: the tables of these files, joined"
    )
    parser.add_argument("--list", action="store_true", help="list the programs and end")
    here = os.environ.get("NUMBA_GRAD_PERF_JAX_PYTHON", sys.executable)
    parser.add_argument("--jax-python", default=here, help="the Python that has JAX")
    parser.add_argument("--hips-python", default=sys.executable, help="that has HIPS autograd")
    arguments = parser.parse_args()
    arguments.modes = arguments.modes or ([COLD, WARM] if arguments.whole else [COLD, KNOWN, WARM])
    return arguments


def joined(files: Sequence[Path]) -> dict[str, Any]:
    """What several runs have measured, in the order of the programs; of two, the later."""
    reports = [json.loads(file.read_text()) for file in files]
    starts = [report["starts"] for report in reports if report["starts"]]
    measured = {name: row for report in reports for name, row in report["programs"].items()}
    order = [p.name for p in programs([*SMALL, *SCIENCE, WHOLE]) if p.name in measured]
    rows = {name: measured[name] for name in order}
    return {**reports[-1], "starts": starts[-1] if starts else {}, "programs": rows}


def write(report: dict[str, Any], file: Path) -> None:
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(as_markdown(report) + "\n", encoding="utf-8")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = parsed()
    groups = SCIENCE if arguments.science else arguments.group
    every = programs([WHOLE] if arguments.whole else groups)
    chosen = [p for p in every if not arguments.only or p.name.startswith(tuple(arguments.only))]
    if arguments.list or not chosen:
        print("\n".join(f"{p.group}: {p.name}" for p in chosen or every))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    now = datetime.datetime.now(datetime.UTC)
    file = arguments.json or ROOT / "perf" / "results" / f"{now:%Y-%m-%d}-first-gradient.json"
    if arguments.tables:
        write(joined(arguments.tables), file)
        return
    report: dict[str, Any] = {"date": f"{now:%Y-%m-%d}", "limit": arguments.limit}
    report["clock"] = "processor seconds" if arguments.processor_time else "seconds"
    report |= {"runs": arguments.runs, "machine": described(), "starts": {}, "programs": {}}
    if arguments.keep and file.exists():
        kept = json.loads(file.read_text())
        report |= {key: kept[key] for key in ("starts", "programs")}
    interpreters = Interpreters(arguments.jax_python, arguments.hips_python)
    report["machine"]["versions"] |= interpreters.versions()
    measurement = Measurement(interpreters, arguments.contestants, arguments.modes, arguments.limit)
    if not arguments.no_starts:
        report["starts"] = starts(interpreters, max(3, arguments.runs))
    for number, program in enumerate(chosen, 1):
        note(f"{program.name} ({number} of {len(chosen)})")
        runs = [measurement.all_of(program) for _ in range(arguments.runs)]
        report["programs"][program.name] = {
            "group": program.group,
            "steps": program.steps,
            "load": os.getloadavg()[0],
            "rows": median_of(runs),
        }
        # After each, so that an interrupted run leaves what it has.
        write(report, file)
    print(as_markdown(report))


if __name__ == "__main__":
    main()
