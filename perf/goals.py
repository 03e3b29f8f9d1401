"""What numba_grad is to reach on a workload, and whether it did."""

from dataclasses import dataclass
from typing import Any, Protocol

PEERS = (
    "torch",
    "torch.compile",
    "torch nn.LSTM",
    "jax",
    "jax scan",
    "drjit",
    "pytensor",
    "autograd",
)
HAND = ("by hand",)

Rows = dict[str, dict[str, Any]]  # of one workload and size, by implementation


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal in words, what was measured, and whether that is enough."""

    goal: str
    measured: str
    is_reached: bool
    if_missed: str = ""


class Goal(Protocol):
    """`sizes`: those that it is for; empty for all."""

    @property
    def sizes(self) -> tuple[str, ...]: ...

    def judge(self, rows: Rows) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class AtMost:
    """A limit for a figure; the median time, in seconds, is one of them."""

    limit: float
    figure: str = "median"
    implementation: str = "numba_grad"
    if_missed: str = ""  # the reason found
    sizes: tuple[str, ...] = ()

    def judge(self, rows: Rows) -> Verdict:
        goal = f"{self.implementation}: {self.figure} at most {self.limit:g}"
        value = figure_of(rows, self.implementation, self.figure)
        if value is None:
            return Verdict(goal, "no figure", False, self.if_missed)
        return Verdict(goal, f"{value:.3g}", value <= self.limit, self.if_missed)


@dataclass(frozen=True, slots=True)
class Times:
    """A factor to the least of the peers that ran: in speed, or in another figure.

    `Times(2.0)` asks for half the time of the fastest peer, `Times(1.0, figure="peak (MB)",
    peers=("torch",))` for no more memory than torch takes.
    """

    factor: float
    peers: tuple[str, ...] = PEERS
    figure: str = "median"
    implementation: str = "numba_grad"
    if_missed: str = ""  # the reason found
    sizes: tuple[str, ...] = ()

    def judge(self, rows: Rows) -> Verdict:
        what = "faster" if self.figure == "median" else f"less {self.figure}"
        against = "best peer" if self.peers is PEERS else " or ".join(self.peers)
        goal = f"{self.implementation}: {self.factor:.3g} times {what} than {against}"
        ours = figure_of(rows, self.implementation, self.figure)
        found = best_of(rows, self.peers, self.figure)
        if ours is None or found is None:
            return Verdict(goal, "no figure", False, self.if_missed)
        best, theirs = found
        ratio = theirs / max(ours, 1e-12)
        measured = f"{ratio:.2f} ({best})"
        return Verdict(goal, measured, ratio >= self.factor, self.if_missed)


@dataclass(frozen=True, slots=True)
class SameFigure:
    """A figure that is the same for all of some implementations."""

    figure: str
    implementations: tuple[str, ...]
    if_missed: str = ""
    sizes: tuple[str, ...] = ()

    def judge(self, rows: Rows) -> Verdict:
        goal = f"{self.figure} the same for {' and '.join(self.implementations)}"
        found = [figure_of(rows, name, self.figure) for name in self.implementations]
        is_same = None not in found and len(set(found)) == 1
        measured = " and ".join("none" if x is None else f"{x:g}" for x in found)
        return Verdict(goal, measured, is_same, self.if_missed)


@dataclass(frozen=True, slots=True)
class EachWay:
    """A factor that ways of writing the same problem stay within, to the fastest of them all."""

    factor: float
    ways: tuple[str, ...]  # besides "numba_grad"
    if_missed: str = ""
    sizes: tuple[str, ...] = ()

    def judge(self, rows: Rows) -> Verdict:
        goal = f"written otherwise: within {self.factor:.3g} times the best way"
        ratios = ratios_to_best(rows, self.ways)
        missing = [name for name in self.ways if name not in ratios]
        if missing:
            return Verdict(goal, f"no figure of {', '.join(missing)}", False, self.if_missed)
        worst = max(ratios, key=lambda name: ratios[name])
        measured = f"{ratios[worst]:.2f} ({worst})"
        return Verdict(goal, measured, ratios[worst] <= self.factor, self.if_missed)


def ratios_to_best(rows: Rows, ways: tuple[str, ...]) -> dict[str, float]:
    """How many times the time of the fastest way each takes, of those that have one."""
    medians = {
        name: median
        for name in ("numba_grad", *ways)
        if (median := figure_of(rows, name, "median")) is not None
    }
    return {name: median / min(medians.values()) for name, median in medians.items()}


def figure_of(rows: Rows, implementation: str, figure: str) -> float | None:
    row = rows.get(implementation, {})
    return row.get("median") if figure == "median" else row.get("figures", {}).get(figure)


def best_of(rows: Rows, names: tuple[str, ...], figure: str = "median") -> tuple[str, float] | None:
    """The one with the least figure, of those that have it. Variants count: "jax, on device"."""
    found = {
        name: value
        for name in rows
        if (name in names or name.split(",")[0] in names)
        and (value := figure_of(rows, name, figure)) is not None
    }
    if not found:
        return None
    best = min(found, key=lambda name: found[name])
    return best, found[best]


# Those that nearly every workload has.
NEVER_SLOWER = Times(0.9)
LIKE_BY_HAND = Times(0.85, peers=HAND)
# Of the whole process, as a batch job is charged for it: some libraries load all their code before
# the first run, others what it needs.
NO_MORE_MEMORY = Times(1.0, peers=("torch",), figure="process peak (MB)")
NO_MORE_THAN_SCAN = Times(1 / 1.1, peers=("jax scan",), figure="process peak (MB)")
