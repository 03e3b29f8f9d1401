"""Messages under way while steps compute: the order of steps between their start and their end.

A step that has messages on their way comes as early as may be, and the one that waits for them as
late, so that there is work in between:

- steps after it that have nothing to do with the messages come before the wait;
- of a stencil that reads what arrives the rows that do not, its interior; the others, its rim, come
  after. These are tasks of one kernel, which does not know: nothing is stored, or read, twice;
- steps before it that the messages do not need come after the start.

What the order must keep is what steps read and write (`accesses.py`), and that messages start, and
are waited for at once, in the order of the program on all ranks: what is moved may differ between
them, as the sizes do.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from numba_grad.compiler.steps.accesses import (
    Access,
    NameOf,
    accesses_of,
    row_count,
    tasks_of_row,
)
from numba_grad.compiler.steps.cpu_steps import TASK_MULTIPLE, nanoseconds
from numba_grad.compiler.steps.schedule import Phase, ScheduledStep
from numba_grad.compiler.words import KernelAddress

# Work that is looked for, in nanoseconds: messages of a few rows take 1 to 20 us, and longer where
# a rank comes late. And steps that are looked at for it, on either side.
_ENOUGH = 100_000
_MOST_STEPS = 64
# An interior is worth two more calls of its kernel, some 30 ns each, from so many nanoseconds on,
# as estimated: in the cache it takes a fifth.
_LEAST_INTERIOR = 3_000
# Rows at either end that may read what arrives, at most.
_WIDEST_RIM = 64

PART_SOURCE = """\
def kernel(args, lo, hi):
    # some tasks of a kernel, of which the words follow
    words = pointer(args, int64)
    function = pointer(words[0], int64)
    call(function[0], args + 16, lo + words[1], hi + words[1])
"""


@dataclass(slots=True, eq=False)
class Unit:
    """A step among others. `name_of`: names of its memory in the plan."""

    step: ScheduledStep
    name_of: NameOf
    owner: int  # the number of what the memory of its words is of
    rows: tuple[int, int] | None = None
    accesses: list[Access] = field(init=False)

    def __post_init__(self) -> None:
        self.accesses = accesses_of(self.step, self.name_of, self.rows)

    @property
    def time(self) -> float:
        if self.step.phase is not Phase.NONE:
            return 0.0
        share = 1.0
        if self.rows is not None:
            share = (self.rows[1] - self.rows[0]) / row_count(self.step)
        return share * nanoseconds(self.step.nbytes, self.step.flops)

    def is_in_the_way_of(self, other: "Unit") -> bool:
        """Whether the two must stay in their order."""
        if {self.step.phase, other.step.phase} <= {Phase.START, Phase.WHOLE}:
            return True
        return any(a.is_in_the_way_of(b) for a in self.accesses for b in other.accesses)

    def part(self, first: int, end: int) -> "Unit":
        return Unit(self.step, self.name_of, self.owner, (first, end))

    @property
    def placed_step(self) -> ScheduledStep:
        """The step, of these rows alone."""
        return self.step if self.rows is None else _part(self.step, *self.rows)


def _part(step: ScheduledStep, first: int, end: int) -> ScheduledStep:
    size, rows = tasks_of_row(step), row_count(step)
    share = replace(
        step,
        nbytes=step.nbytes * (end - first) // rows,
        flops=step.flops * (end - first) // rows,
    )
    return replace(
        share,
        source=PART_SOURCE,
        words=[KernelAddress(step.source), first * size, *step.words],
        launch=step.launch._replace(number=(end - first) * size),
        parts=[share],
        written=None,
        loop_nest=None,
    )


def overlapped(units: Sequence[Unit]) -> list[Unit]:
    """The same steps in the order in which messages are under way while others compute."""
    result: list[Unit] = []
    coming = deque(units)
    while coming:
        unit = coming.popleft()
        if unit.step.phase is not Phase.END:
            result.append(unit)
            continue
        ahead, delayed, time = _gone_ahead(unit, coming)
        if time < _ENOUGH:
            _put_after_start(unit, result, _ENOUGH - time)
        # What is delayed by this wait may be gone ahead of by others.
        result += [*ahead, unit]
        coming.extendleft(reversed(delayed[1:]))
    return result


def _gone_ahead(wait: Unit, coming: deque[Unit]) -> tuple[list[Unit], list[Unit], float]:
    """Of what comes after a wait, which is taken from `coming`: what can be done before it, what
    cannot, which begins with the wait itself, and the time of the former."""
    ahead: list[Unit] = []
    delayed = [wait]
    time, looked_at = 0.0, 0
    while coming and time < _ENOUGH and looked_at < _MOST_STEPS:
        unit = coming.popleft()
        looked_at += 1
        if unit.step.phase is Phase.END or any(unit.is_in_the_way_of(x) for x in delayed):
            interior = _interior(unit, delayed)
            if interior is None:
                delayed.append(unit)
                continue
            first, end = interior
            delayed += [
                unit.part(*rim)
                for rim in ((0, first), (end, row_count(unit.step)))
                if rim[0] < rim[1]
            ]
            unit = unit.part(first, end)
        ahead.append(unit)
        time += unit.time
    return ahead, delayed, time


def _interior(unit: Unit, delayed: Iterable[Unit]) -> tuple[int, int] | None:
    """The rows of a step that need nothing of what is delayed, if they are worth it."""
    rows = row_count(unit.step)
    if not rows or unit.rows is not None or unit.time < _LEAST_INTERIOR:
        return None
    # Vector code goes along a single axis in steps, which begin where they do for threads.
    least = TASK_MULTIPLE if tasks_of_row(unit.step) == 1 else 1

    def is_free(first: int, end: int) -> bool:
        part = unit.part(first, end)
        return not any(part.is_in_the_way_of(x) for x in delayed)

    width = least
    while width <= _WIDEST_RIM * least and 2 * width < rows:
        first, end = width, (rows - width) // least * least
        if first < end and is_free(first, end):
            # Each end as far out as it goes.
            first = next(k for k in range(0, first + 1, least) if is_free(k, end))
            ends = [rows, *range(rows // least * least, end, -least), end]
            end = next(k for k in ends if is_free(first, k))
            return (first, end) if unit.part(first, end).time >= _LEAST_INTERIOR else None
        width *= 2
    return None


def _put_after_start(wait: Unit, before: list[Unit], enough: float) -> None:
    """Move what the messages do not need from before their start, in `before`, to after it."""
    start = len(before) - 1
    while start >= 0 and not _starts(before[start], wait):
        start -= 1
    if start < 0:
        return
    needed, moved = [before[start]], []
    time = 0.0
    position = start
    while position > 0 and time < enough and start - position < _MOST_STEPS:
        position -= 1
        unit = before[position]
        if unit.step.phase is not Phase.NONE:
            position += 1
            break  # what is there is done while other messages are under way
        if any(unit.is_in_the_way_of(x) for x in needed):
            needed.append(unit)
        else:
            moved.append(unit)
            time += unit.time
    before[position : start + 1] = [*reversed(needed), *reversed(moved)]


def _starts(unit: Unit, wait: Unit) -> bool:
    return unit.step.phase is Phase.START and unit.is_in_the_way_of(wait)
