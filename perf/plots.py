"""The plots of a report: speed against each peer, time against size, as SVG files for `docs/`."""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt

from perf.goals import best_of
from perf.report import COLUMNS, Entry, entries, is_gradient

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "numba_grad"  # the same file for the same figures


def draw(report: dict[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    measured = list(entries(report))
    gradients = [entry for entry in measured if is_gradient(entry) and entry.figure("median")]
    decades = [entry for entry in gradients if entry.name == "elementwise_sizes"]
    _save(_speeds([e for e in gradients if e not in decades]), folder / "speeds.svg")
    if decades:
        _save(_linear(decades), folder / "elementwise_sizes.svg")


def _save(figure: Any, file: Path) -> None:
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _speeds(measured: list[Entry]) -> Any:
    """Each workload a line, each peer a mark: how many times our time it takes."""
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.24 * len(measured)))
    marks = iter("|osD^vP")
    for column, names in COLUMNS.items():
        found = [(k, entry.ratio(names)) for k, entry in enumerate(measured)]
        places = [(ratio, k) for k, ratio in found if ratio]
        if places:
            style = {"markersize": 12} if column == "by hand" else {"markersize": 5}
            axes.plot(*zip(*places, strict=True), next(marks), label=column, **style)
    axes.axvline(1.0, color="black", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_yticks(range(len(measured)), [f"{e.title[:60]}, {e.size}" for e in measured])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("times the time of numba_grad (right of 1: slower than numba_grad)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _linear(measured: list[Entry]) -> Any:
    figure, axes = plt.subplots(figsize=(6, 4))
    for column, names in {"numba_grad": ("numba_grad",), **COLUMNS}.items():
        found = [(next(iter(e.module.SIZES[e.size])), best_of(e.rows, names)) for e in measured]
        places = [(elements, best[1]) for elements, best in found if best]
        if places:
            axes.plot(*zip(*places, strict=True), "o-", label=column)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("elements")
    axes.set_ylabel("seconds for a value and gradient")
    axes.set_title(measured[0].title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
