"""Progress of loops, shown while a plan runs.

A loop that is to be shown has a label in the name of its body, which its derivatives and batched
forms take over. In a plan its LOOP has an error site for it (`runtime/plan.py`); the native engine,
which comes back to Python every 0.1 s, reads the words of such loops, and hands them to `Bars`.
"""

import ctypes
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.fresh_thread import imported
from numba_grad.immutable import NamedTuple
from numba_grad.runtime.plan import Control, LoopWord, Plan

_MARK = " with progress "
_ENDLESS = 1 << 60  # more steps than any loop has: how many is not known
SITE_OF_PROGRESS = "progress"  # the kind of the site


def with_label(name: str, label: str) -> str:
    """The name of the body of a loop that is to be shown."""
    return f"{name}{_MARK}{label}"


def label_in(name: str) -> str | None:
    """The label of a loop, from the name of its body; None: it is not to be shown."""
    made_of, mark, label = name.partition(_MARK)
    if not mark:
        return None
    for prefix, what in (("vjp of ", "gradient"), ("member of ", "members of a batch")):
        if prefix in made_of:
            return f"{label} ({what})"
    return label


def is_installed() -> bool:
    """Whether there is what draws bars."""
    return importlib.util.find_spec("tqdm") is not None


class ShownLoop(NamedTuple):
    """A LOOP of a plan: its row, the position of its words, its label."""

    row: int
    words: int
    label: str


def shown_loops(plan: Plan) -> list[ShownLoop]:
    """The loops of a plan that are to be shown."""
    rows = np.flatnonzero(plan.steps[:, 0] == Control.LOOP)
    positions = plan.steps[rows, 1]
    sites = plan.words[positions + LoopWord.SITE]
    return [
        ShownLoop(int(row), int(position), plan.sites[site].operation)
        for row, position, site in zip(rows, positions, sites, strict=True)
        if site >= 0
    ]


def _number_at(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


class Bars:
    """A bar for each loop that a run has been seen in. `read`: an int64 at an address."""

    def __init__(self, loops: Sequence[ShownLoop], read: Callable[[int], int] = _number_at) -> None:
        self._loops = loops
        self._read = read
        self._bars: dict[ShownLoop, Any] = {}
        self._draw: Callable[..., Any] = imported("tqdm.auto").tqdm

    def show(self, words: np.ndarray, row: int) -> None:
        """Draw the loops that the run is in, before it goes on with this row."""
        for loop in self._loops:
            own = words[loop.words :]
            is_inside = loop.row < row <= loop.row + own[LoopWord.LENGTH] + 1
            # Between two entries of a loop that counts down, the next steps count as done.
            if is_inside or (loop in self._bars and not own[LoopWord.COUNTS_DOWN]):
                self._update(loop, own, is_inside=is_inside)

    def _update(self, loop: ShownLoop, own: np.ndarray, *, is_inside: bool) -> None:
        count, total = int(own[LoopWord.COUNTER]), int(own[LoopWord.TRIPS])
        if own[LoopWord.COUNT_ADDRESS]:
            # A kernel counts; the LOOP is over its runs.
            count, total = [
                self._read(int(own[word]))
                for word in (LoopWord.COUNT_ADDRESS, LoopWord.TOTAL_ADDRESS)
            ]
            if own[LoopWord.COUNTS_DOWN]:
                # The steps of this LOOP are no longer among those left from its beginning on.
                trips = int(own[LoopWord.TRIPS])
                ahead = 0 if trips >= _ENDLESS else trips - int(own[LoopWord.COUNTER])
                count = total - count - ahead
        bar = self._bars.get(loop)
        if bar is None:
            total = None if total >= _ENDLESS else total
            # What was done before anybody looked is left out of the rate.
            bar = self._draw(total=total, desc=loop.label, initial=count, mininterval=0)
            self._bars[loop] = bar
        if not is_inside and bar.total is not None:
            count = bar.total
        if count != bar.n:
            bar.n = count
            bar.refresh()

    def close(self, words: np.ndarray, *, is_finished: bool) -> None:
        """Leave the bars as they are; where all loops have come to their end, at that."""
        for loop, bar in self._bars.items():
            if is_finished:
                self._update(loop, words[loop.words :], is_inside=False)
            bar.close()
