"""The tables of first gradients, from what `first_gradient.py` writes."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perf.goals import Verdict
from perf.report import duration

UNTIL = "seconds until it is there"  # of a start: the first gradient, or what was imported

Row = dict[str, Any]
PEERS = {"torch": "torch", "autograd": "HIPS autograd", "jax": "JAX, jit"}
OURS = {"numba_grad": "define by run", "numba_grad jit": "jit"}
FIRST, SECOND = 0, 1


def as_markdown(report: dict[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(
        f"{name} {v}" for name, v in machine["versions"].items() if v != "not installed"
    )
    return "\n".join(
        [
            "# First gradients",
            "",
            "What a person waits for after an edit: the first value and gradient of small",
            "programs, in a process that has computed one other gradient before. cold: an empty",
            "cache on disk; known: a cache with the single operations of the program; warm: a",
            "second process. `python perf/first_gradient.py` measures it. Milliseconds, "
            + ("of the processor, on a busy machine." if _is_busy(report) else "by the clock."),
            "",
            f"Measured on {report['date']}: {machine['processor']}, {machine['cores']} cores, "
            f"{machine['threads']} threads, Python {machine['python']}, {versions}; numba_grad at "
            f"{machine['commit']}. Runs of each: {report['runs']}; limit: {report['limit']:.0f} s.",
            "",
            *([report["note"], ""] if report.get("note") else []),
            *_times(report),
            "",
            "## What was compiled",
            "",
            "Kernels compiled for the first gradient, distinct kernels that it runs, lines of",
            "their source; operations that a gradient records.",
            "",
            *_kernels(report),
            "",
            *_left_out(report),
            "",
            *_starts(report),
            "",
            "## Goals",
            "",
            *_goals(report),
        ]
    )


def _is_busy(report: dict[str, Any]) -> bool:
    return report["clock"] == "processor seconds"


def _columns() -> dict[str, tuple[str, int]]:
    """Head -> key of a row, and which of the calls."""
    columns = {}
    for library, name in OURS.items():
        for mode in ("cold", "known", "warm"):
            columns[f"{name}, {mode}"] = (f"{library}, {mode}", FIRST)
        columns[f"{name}, second call"] = (f"{library}, cold", SECOND)
    for library, name in PEERS.items():
        columns[name] = (library, FIRST)
    for library, name in PEERS.items():
        columns[f"{name}, second call"] = (library, SECOND)
    return columns


def _times(report: dict[str, Any]) -> list[str]:
    columns = _columns()
    lines = [_line(["program", *columns]), "|---" + "|---:" * len(columns) + "|"]
    for name, measured in report["programs"].items():
        cells = [
            _cell(measured["rows"], key, call, report["clock"]) for key, call in columns.values()
        ]
        lines.append(_line([name, *cells]))
    for title, figure in (("geometric mean", geometric_mean), ("largest", max)):
        cells = []
        for key, call in columns.values():
            found = _seconds(report, key, call)
            cells.append(f"**{_milliseconds(figure(found))}**" if found else "")
        lines.append(_line([f"**{title}**", *cells]))
    counts = [str(len(_seconds(report, key, call))) for key, call in columns.values()]
    lines.append(_line(["programs", *counts]))
    return lines


def _cell(rows: dict[str, Row], key: str, call: int, clock: str) -> str:
    row = rows.get(key, {})
    if row.get("reason"):
        is_slow = row["reason"].startswith(">")
        return "failed" if not is_slow else row["reason"] if call == FIRST else ""
    return _milliseconds(row[clock][call]) if call < len(row.get(clock, ())) else ""


def _milliseconds(seconds: float) -> str:
    x = 1e3 * seconds
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def _seconds(
    report: dict[str, Any], key: str, call: int, wanted: Callable[[Row], bool] = lambda _: True
) -> list[float]:
    """Of all programs; of one that took too long, the limit."""
    found = []
    for measured in report["programs"].values():
        row = measured["rows"].get(key, {})
        if not wanted(measured):
            continue
        if row.get("reason", "").startswith(">"):
            found += [report["limit"]] if call == FIRST else []
        elif not row.get("reason") and call < len(row.get(report["clock"], ())):
            found.append(row[report["clock"]][call])
    return found


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(x) for x in values]
    return math.exp(sum(logarithms) / len(logarithms))


def _kernels(report: dict[str, Any]) -> list[str]:
    header = ["program"]
    for name in OURS.values():
        header += [f"{name}: compiled, cold", "known", "warm", "kernels", "lines"]
    header.append("operations")
    lines = [_line(header), "|---" + "|---:" * (len(header) - 1) + "|"]
    for name, measured in report["programs"].items():
        cells, operations = [name], ""
        for library in OURS:
            figures = {
                mode: measured["rows"].get(f"{library}, {mode}", {}).get("figures", {})
                for mode in ("cold", "known", "warm")
            }
            cells += [_count(figures[mode], "compiled") for mode in figures]
            cells += [_count(figures["cold"], "kernels"), _count(figures["cold"], "lines")]
            if library == "numba_grad":
                operations = _count(figures["cold"], "operations")
        lines.append(_line([*cells, operations]))
    return lines


def _count(figures: dict[str, int], name: str) -> str:
    return f"{figures[name]:,}" if name in figures else ""


def _left_out(report: dict[str, Any]) -> list[str]:
    """Who is missing in the tables, and why."""
    lines = []
    for name, measured in report["programs"].items():
        for key, row in measured["rows"].items():
            reason = row.get("left out") or row.get("reason")
            if reason and not reason.startswith(">"):
                lines.append(f"- {name}, {key}: {reason}")
    return ["## Left out, or failed", "", *lines] if lines else []


def _starts(report: dict[str, Any]) -> list[str]:
    if not report["starts"]:
        return []
    lines = ["## Start of a process to its first gradient", ""]
    lines += ["| | until it is there | until the process has ended |", "|---|---:|---:|"]
    for name, measured in report["starts"].items():
        shown = [measured.get(UNTIL, math.nan), measured[report["clock"]]]
        lines.append(_line([name, *["" if math.isnan(x) else duration(x) for x in shown]]))
    return lines


def _goals(report: dict[str, Any]) -> list[str]:
    lines = ["| goal | measured | |", "|---|---|---|"]
    for verdict in verdicts(report):
        word = "reached" if verdict.is_reached else "**not reached**"
        lines.append(_line([verdict.goal, verdict.measured, word]))
    return lines


def verdicts(report: dict[str, Any]) -> list[Verdict]:
    """What is to be reached, and what was."""
    found = []

    def at_most(what: str, seconds: Sequence[float], mean: float, most: float) -> None:
        if seconds:
            average, largest = geometric_mean(seconds), max(seconds)
            goal = f"{what}: geometric mean at most {duration(mean)}"
            found.append(Verdict(goal, duration(average), average <= mean))
            goal = f"{what}: none above {duration(most)}"
            above = sum(x > most for x in seconds)
            text = f"{duration(largest)}; {above} of {len(seconds)} above"
            found.append(Verdict(goal, text, not above))

    def first(key: str) -> list[float]:
        return _seconds(report, key, FIRST)

    at_most("define by run, cold", first("numba_grad, cold"), 0.040, 0.5)
    at_most("define by run, operations known", first("numba_grad, known"), 0.006, 0.1)
    for library, name in OURS.items():
        at_most(f"{name}, warm", first(f"{library}, warm"), 0.010, 0.15)
    found += _against_jax(report)
    for steps, most in ((999, 1.0), (math.inf, 2.0)):
        seconds = _seconds(
            report,
            "numba_grad jit, cold",
            FIRST,
            lambda m, s=steps: m["steps"] <= s and (s < math.inf or m["steps"] > 999),
        )
        if seconds:
            what = "loops of 1,000 steps" if steps == math.inf else "all but loops of 1,000 steps"
            goal = f"jit, cold, {what}: none above {duration(most)}"
            above = sum(x > most for x in seconds)
            text = f"{duration(max(seconds))}; {above} of {len(seconds)} above"
            found.append(Verdict(goal, text, not above))
    found += _same_for_any_steps(report)
    found += _an_operation(report)
    found += _of_looks(report)
    # Without the end of the process, as the goals say.
    key = UNTIL if report["clock"] == "seconds" else report["clock"]
    starts = {name: x.get(key, x["seconds"]) for name, x in report["starts"].items()}
    for name, most in (("numba_grad, cold", 0.7), ("numba_grad", 0.2)):
        if name in starts:
            goal = f"start of a process to its first gradient, {name}: at most {duration(most)}"
            found.append(Verdict(goal, duration(starts[name]), starts[name] <= most))
    if "import numpy" in starts:
        beyond = starts["import numpy, numba_grad"] - starts["import numpy"]
        goal = "import of numba_grad: at most 0.1 s beyond NumPy's"
        found.append(Verdict(goal, duration(beyond), beyond <= 0.1))
    return found


def _against_jax(report: dict[str, Any]) -> list[Verdict]:
    """Over the programs that both have."""
    ratios = []
    for measured in report["programs"].values():
        single = {**report, "programs": {"": measured}}
        ours, theirs = (_seconds(single, key, FIRST) for key in ("numba_grad jit, cold", "jax"))
        if ours and theirs:
            ratios.append(ours[0] / theirs[0])
    if not ratios:
        return []
    ratio = geometric_mean(ratios)
    text = f"{ratio:.2f} times, over {len(ratios)} programs"
    return [Verdict("jit, cold: at most JAX's time in the geometric mean", text, ratio <= 1.0)]


def _same_for_any_steps(report: dict[str, Any]) -> list[Verdict]:
    """Kernels and lines of a program, for each number of steps from 20 on."""
    families: dict[str, list[tuple[int, int]]] = {}
    for name, measured in report["programs"].items():
        figures = measured["rows"].get("numba_grad jit, cold", {}).get("figures")
        if figures and measured["steps"] >= 20:
            counts = (figures["kernels"], figures["lines"])
            families.setdefault(name.rpartition(",")[0], []).append(counts)
    several = {name: counts for name, counts in families.items() if len(counts) > 1}
    if not several:
        return []
    different = [name for name, counts in several.items() if len(set(counts)) > 1]
    text = f"{len(several) - len(different)} of {len(several)}"
    if different:
        text += f"; not {', '.join(different)}"
    goal = "jit: as many kernels and lines for any number of steps from 20 on"
    return [Verdict(goal, text, not different)]


def _an_operation(report: dict[str, Any]) -> list[Verdict]:
    """What one more operation costs the first call: from a number of steps to the next."""
    families: dict[str, list[tuple[float, float]]] = {}
    for name, measured in report["programs"].items():
        recorded = measured["rows"].get("numba_grad, cold", {}).get("figures", {})
        jitted = measured["rows"].get("numba_grad jit, cold", {})
        if measured["steps"] and "operations" in recorded and report["clock"] in jitted:
            found = (recorded["operations"], jitted[report["clock"]][FIRST])
            families.setdefault(name.rpartition(",")[0], []).append(found)
    costs = []
    for points in families.values():
        (few, little), (many, much) = sorted(points)[0], sorted(points)[-1]
        if many > 5 * few:
            costs.append((much - little) / (many - few))
    if not costs:
        return []
    above = sum(cost > 15e-6 for cost in costs)
    text = f"{duration(max(max(costs), 0.0))}; {above} of {len(costs)} above"
    return [Verdict("jit, cold, one more operation: at most 15 us", text, not above)]


def _of_looks(report: dict[str, Any]) -> list[Verdict]:
    """Programs that look at values: the first gradient, and an operation of the last call."""
    found = []
    first = _seconds(report, "numba_grad, cold", FIRST, lambda m: m["group"] == "looks")
    if first:
        goal = "programs that look at values, cold: none above 1 s"
        found.append(Verdict(goal, duration(max(first)), max(first) <= 1.0))
    rows = [
        measured["rows"].get("numba_grad, cold", {})
        for measured in report["programs"].values()
        if measured["group"] == "looks"
    ]
    costs = [
        row[report["clock"]][-1] / row["figures"]["operations"]
        for row in rows
        if row.get("figures", {}).get("operations")
    ]
    if costs:
        goal = "programs that look at values, fourth call: at most 30 us an operation"
        found.append(Verdict(goal, duration(max(costs)), max(costs) <= 30e-6))
    return found


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
