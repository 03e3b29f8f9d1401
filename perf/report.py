"""The tables of a report, for a terminal and for the documentation, from what `run.py` writes."""

import importlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from perf.goals import HAND, PEERS, Rows, Verdict, best_of, figure_of, ratios_to_best

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
OURS = "numba_grad"
COLUMNS = {  # of the table of times: the fastest of these implementations
    "by hand": HAND,
    "torch": ("torch", "torch nn.LSTM"),
    "torch.compile": ("torch.compile",),
    "JAX": ("jax", "jax scan"),
    "Dr.Jit": ("drjit",),
    "PyTensor": ("pytensor",),
    "HIPS autograd": ("autograd",),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A workload in one size, as measured."""

    name: str
    size: str
    module: ModuleType
    rows: Rows
    load: float

    @property
    def title(self) -> str:
        return self.module.TITLE

    @property
    def extent(self) -> str:
        """Its size in numbers."""
        fields = self.module.SIZES[self.size]._asdict()
        return ", ".join(f"{name.replace('_', ' ')} {x:,}" for name, x in fields.items())

    @property
    def verdicts(self) -> list[Verdict]:
        goals = self.module.GOALS
        return [goal.judge(self.rows) for goal in goals if self.size in (goal.sizes or [self.size])]

    def figure(self, name: str, implementation: str = OURS) -> float | None:
        return figure_of(self.rows, implementation, name)

    def ratio(self, names: Sequence[str], figure: str = "median") -> float | None:
        """How many times the best of these takes what we take."""
        ours, theirs = self.figure(figure), best_of(self.rows, tuple(names), figure)
        return theirs[1] / ours if ours and theirs else None


def entries(report: dict[str, Any]) -> Iterator[Entry]:
    for name, sizes in report["workloads"].items():
        module = importlib.import_module(f"perf.workloads.{name}")
        for size in module.SIZES:
            if size in sizes:
                yield Entry(name, size, module, sizes[size]["rows"], sizes[size]["load"])


def as_table(report: dict[str, Any]) -> str:
    """Plain text: every implementation with all its figures."""
    lines = []
    for entry in entries(report):
        lines += ["", f"{entry.title} ({entry.size}: {entry.extent}; load {entry.load:.1f})"]
        header = ["", "median", "least", "most", "runs", "ratio", "figures, or why there is none"]
        lines += ["  " + line for line in _aligned([header, *_rows(entry)])]
        lines += [
            f"  goal: {v.goal}: {v.measured}: {'reached' if v.is_reached else 'NOT REACHED'}"
            for v in entry.verdicts
        ]
    return "\n".join(lines)


def _rows(entry: Entry) -> list[list[str]]:
    ours = entry.figure("median")
    rows = []
    for name, row in entry.rows.items():
        if "reason" in row:
            rows.append([name, "", "", "", "", "", row["reason"].replace("|", "/")])
            continue
        times = [duration(row[key]) for key in ("median", "least", "most")]
        ratio = f"{row['median'] / ours:.2f}" if ours and row["median"] else ""
        text = ", ".join(f"{key} {number(x)}" for key, x in row["figures"].items())
        rows.append([name, *times, str(row["runs"]), ratio, text])
    return rows


def as_markdown(report: dict[str, Any]) -> str:
    """What `docs/performance_figures.md` shows."""
    machine = report["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
    all_entries = list(entries(report))
    return "\n".join(
        [
            f"Measured on {report['date']}: {machine['processor']}, {machine['cores']} cores, "
            f"{machine['threads']} threads, triad {machine['triad (GB/s)']:.1f} GB/s, Python "
            f"{machine['python']}, {versions}; numba_grad at {machine['commit']}.",
            "",
            *_summary(all_entries),
            "",
            "## Times of one value and gradient, warm",
            "",
            *_times(all_entries),
            "",
            "## The same problem, written otherwise",
            "",
            *_ways(all_entries),
            "",
            "## First gradient and memory",
            "",
            *_first(all_entries),
            "",
            "## Share of the machine",
            "",
            *_share(all_entries, machine["triad (GB/s)"]),
            "",
            "## Figures without peers",
            "",
            *_others(all_entries),
            "",
            "## Goals",
            "",
            *_goals(all_entries),
        ]
    )


def _summary(all_entries: list[Entry]) -> list[str]:
    """Means over every workload of a value and gradients."""
    lines = []
    for text, names in [
        ("the best peer", PEERS),
        ("torch eager", ("torch",)),
        ("JAX", ("jax", "jax scan")),
        ("the loop by hand", HAND),
    ]:
        ratios = [r for e in all_entries if is_gradient(e) and (r := e.ratio(names))]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(
                f"- {mean:.2f} times as fast as {text} in the geometric mean of {len(ratios)} "
                f"workloads and sizes, {min(ratios):.2f} in the worst of them."
            )
    return lines


def is_gradient(entry: Entry) -> bool:
    """A workload of a value and gradients, rather than of one cost of the library."""
    return entry.figure("start (s)") is not None


def _times(all_entries: list[Entry]) -> list[str]:
    lines = ["| | size | numba_grad | " + " | ".join(COLUMNS) + " | best peer / ours |"]
    lines.append("|---|---" + "|---:" * (len(COLUMNS) + 2) + "|")
    for entry in filter(is_gradient, all_entries):
        others = []
        for names in COLUMNS.values():
            found = best_of(entry.rows, names)
            others.append(duration(found[1]) if found else "")
        ratio = entry.ratio(PEERS)
        cells = [
            entry.title,
            entry.extent,
            duration(entry.figure("median")),
            *others,
            f"**{ratio:.2f}**" if ratio else "",
        ]
        lines.append(_row(cells))
        for variant in entry.rows:
            if variant.startswith(f"{OURS},"):
                time = duration(entry.figure("median", variant))
                lines.append(_row([variant, "", time, *[""] * len(COLUMNS), ""]))
    return lines


def _ways(all_entries: list[Entry]) -> list[str]:
    header = ["", "size", "way", "time", "to the best way", "first run, cold"]
    lines = [_row(header), "|---|---|---|---:|---:|---:|"]
    for entry in all_entries:
        ways = getattr(entry.module, "OTHERWISE", ())
        if not any(way in entry.rows for way in ways):
            continue
        ratios = ratios_to_best(entry.rows, ways)
        for way in (OURS, *ways):
            reason = entry.rows.get(way, {}).get("reason", "")
            cells = [
                entry.title,
                entry.extent,
                way,
                reason.replace("|", "/") or duration(entry.figure("median", way)),
                f"{ratios[way]:.2f}" if way in ratios else "",
                duration(entry.figure("first run (s)", way)),
            ]
            lines.append(_row(cells))
    return lines


def _first(all_entries: list[Entry]) -> list[str]:
    header = ["", "size", "process to gradient, cold", "warm", "compiling", "JAX", "torch.compile"]
    header += ["peak of the process (MB)", "torch", "JAX"]
    header += ["growth to the peak (MB)", "torch", "JAX", "at the first run (MB)"]
    lines = [_row(header), "|---|---" + "|---:" * (len(header) - 2) + "|"]
    for entry in filter(is_gradient, all_entries):
        cold, median = entry.figure("first run (s)"), entry.figure("median")
        jax_start = best_of(entry.rows, ("jax", "jax scan"), "start (s)")
        cells = [
            entry.title,
            entry.extent,
            duration(entry.figure("start (s)")),
            duration(entry.figure("warm start (s)")),
            duration(cold - median) if cold and median else "",
            duration(jax_start[1]) if jax_start else "",
            duration(entry.figure("start (s)", "torch.compile")),
            *_peaks(entry, "process peak (MB)"),
            *_peaks(entry, "peak (MB)"),
            number(entry.figure("first peak (MB)")),
        ]
        lines.append(_row(cells))
    return lines


def _peaks(entry: Entry, figure: str) -> list[str]:
    """Ours, torch's, JAX's."""
    jax = best_of(entry.rows, ("jax", "jax scan"), figure)
    ours, torch = entry.figure(figure), entry.figure(figure, "torch")
    return [number(ours), number(torch), number(jax[1]) if jax else ""]


def _share(all_entries: list[Entry], triad: float) -> list[str]:
    header = ["", "size", "least bytes (MB)", "GB/s by these", "share of the triad"]
    header += ["bytes of our kernels (MB)", "GB/s by these", "GFLOP/s"]
    lines = [_row(header), "|---|---" + "|---:" * (len(header) - 2) + "|"]
    for entry in filter(is_gradient, all_entries):
        seconds, moved, flops = (entry.figure(name) for name in ("median", "bytes", "flops"))
        if not seconds or not moved:
            continue
        cells = [entry.title, entry.extent]
        minimal = getattr(entry.module, "minimal_bytes", None)
        if minimal is None:
            cells += ["", "", ""]
        else:
            least = minimal(entry.module.SIZES[entry.size])
            speed = least / seconds * 1e-9
            cells += [number(least * 1e-6), number(speed), f"{100 * speed / triad:.0f} %"]
        cells += [number(moved * 1e-6), number(moved / seconds * 1e-9)]
        cells.append(number((flops or 0.0) / seconds * 1e-9))
        lines.append(_row(cells))
    return lines


def _others(all_entries: list[Entry]) -> list[str]:
    lines = ["| | size | | time | |", "|---|---|---|---:|---|"]
    for entry in all_entries:
        if is_gradient(entry):
            continue
        for name, row in entry.rows.items():
            figures = {key: x for key, x in row["figures"].items() if key != "error"}
            text = ", ".join(f"{key} {number(x)}" for key, x in figures.items())
            time = duration(row.get("median"))
            text = row.get("reason", text).replace("|", "/")
            lines.append(_row([entry.title, entry.extent, name, time, text]))
    return lines


def _goals(all_entries: list[Entry]) -> list[str]:
    lines = ["| | size | goal | measured | |", "|---|---|---|---|---|"]
    for entry in all_entries:
        for verdict in entry.verdicts:
            word = "reached" if verdict.is_reached else "**not reached**"
            if not verdict.is_reached and verdict.if_missed:
                word += f": {verdict.if_missed}"
            lines.append(_row([entry.title, entry.extent, verdict.goal, verdict.measured, word]))
    return lines


def write_section(document: Path, text: str) -> None:
    """Replaces what is between the marks."""
    before, _, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def duration(seconds: float | None) -> str:
    """Three digits, in the unit that suits."""
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 0.9995:
            return f"{number(seconds * scale)} {unit}"
    return f"{number(seconds * 1e9)} ns"


def number(x: float | None) -> str:
    if x is None:
        return ""
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]) - 1)]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(x.rjust(w) for x, w in zip(row[1:-1], widths[1:], strict=True)),
                row[-1],
            ]
        )
        for row in rows
    ]
