"""The tables of a report, for a terminal and for the documentation, from what `run.py` writes."""

from pathlib import Path
from typing import Any

SCALES = {"us": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6, "ns": 1e9}
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

Workload = dict[str, Any]


def as_table(report: dict[str, Any]) -> str:
    """Plain text."""
    lines = []
    for workload in report["workloads"].values():
        unit = workload["unit"]
        lines += ["", f"{workload['title']} ({unit}; load {workload['load']:.1f})"]
        lines += ["  " + line for line in _aligned([_HEADER, *_rows(workload)])]
        lines += [f"  goal: {text}: {verdict}" for text, verdict in judged(workload)]
    return "\n".join(lines)


def as_markdown(report: dict[str, Any]) -> str:
    """One table of times for each workload, one of goals."""
    machine = report["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
    lines = [
        f"Measured on {report['date']}: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['threads']} threads, Python {machine['python']}, {versions}; numba_grad at "
        f"{machine['commit']}.",
        "",
        "| Goal | Measured | |",
        "|---|---|---|",
    ]
    for workload in report["workloads"].values():
        for goal, (text, verdict) in zip(workload["goals"], judged(workload), strict=True):
            measured, _, word = verdict.rpartition(", ")
            if word == "not reached" and goal.get("if_missed"):
                word += f": {goal['if_missed']}"
            lines.append(f"| {workload['title']}: {text} | {measured} | {word} |")
    for workload in report["workloads"].values():
        lines += ["", f"**{workload['title']}** ({workload['unit']})", ""]
        lines += ["| " + " | ".join(_HEADER) + " |", "|---" + "|---:" * 5 + "|---|"]
        lines += ["| " + " | ".join(row) + " |" for row in _rows(workload)]
    return "\n".join(lines)


def write_section(document: Path, text: str) -> None:
    """Replaces what is between the marks."""
    before, _, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


_HEADER = [
    "",
    "median",
    "least",
    "most",
    "runs",
    "ratio",
    "first run (s), figures, or why there is none",
]


def _rows(workload: Workload) -> list[list[str]]:
    ours = workload["rows"].get("numba_grad", {}).get("median")
    rows = []
    for name, row in workload["rows"].items():
        if "reason" in row:
            rows.append([name, "", "", "", "", "", row["reason"].replace("|", "/")])
            continue
        scale = SCALES[workload["unit"]]
        times = [_number(row[key], scale) for key in ("median", "least", "most")]
        ratio = f"{row['median'] / ours:.2f}" if ours and row["median"] else ""
        figures = {key: x for key, x in row["figures"].items() if key != "error"}
        text = ", ".join(f"{key} {_number(x, 1.0)}" for key, x in figures.items())
        rows.append([name, *times, str(row["runs"]), ratio, text])
    return rows


def _number(x: float | None, scale: float) -> str:
    if x is None:
        return ""
    return f"{x * scale:.3g}" if abs(x * scale) < 1000 else f"{x * scale:.0f}"


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


def judged(workload: Workload) -> list[tuple[str, str]]:
    """Each goal in words, and what was measured with 'reached' or 'not reached'."""
    judges = {"AtMost": _at_most, "TimesFaster": _times_faster, "SameFigure": _same_figure}
    return [judges[goal["kind"]](workload, goal) for goal in workload["goals"]]


def _verdict(measured: str, is_reached: bool) -> str:
    return f"{measured}, {'reached' if is_reached else 'not reached'}"


def _at_most(workload: Workload, goal: dict[str, Any]) -> tuple[str, str]:
    is_time = goal["figure"] == "median"
    unit = f" {workload['unit']}" if is_time else ""
    what = goal["implementation"] if is_time else f"{goal['implementation']}, {goal['figure']}"
    text = f"{what}: at most {goal['limit']:g}{unit}"
    row = workload["rows"].get(goal["implementation"], {})
    value = row.get("median") if is_time else row.get("figures", {}).get(goal["figure"])
    if value is None:
        return text, _verdict("no figure", False)
    scale = SCALES[workload["unit"]] if is_time else 1.0
    return text, _verdict(f"{_number(value, scale)}{unit}", value * scale <= goal["limit"])


def _times_faster(workload: Workload, goal: dict[str, Any]) -> tuple[str, str]:
    rows = workload["rows"]
    peers = {
        name: rows[name]["median"] for name in goal["peers"] if rows.get(name, {}).get("median")
    }
    text = (
        f"at least {goal['factor']:g} times the speed of the fastest of {', '.join(goal['peers'])}"
    )
    ours = rows.get(goal["implementation"], {}).get("median")
    if ours is None or not peers:
        return text, _verdict("no figure", False)
    best = min(peers, key=lambda name: peers[name])
    ratio = peers[best] / ours
    return text, _verdict(f"{ratio:.2f} times {best}", ratio >= goal["factor"])


def _same_figure(workload: Workload, goal: dict[str, Any]) -> tuple[str, str]:
    found = {
        name: workload["rows"].get(name, {}).get("figures", {}).get(goal["figure"])
        for name in goal["implementations"]
    }
    text = f"{goal['figure']} the same for {' and '.join(found)}"
    values = set(found.values())
    return text, _verdict(
        " and ".join(f"{x}" for x in found.values()), len(values) == 1 and None not in values
    )
