"""Rows that the steps of a Python loop assign to an array: `states[k + 1] = step(states[k])`. Or
its columns, `states[:, k + 1] = ...`: a row here is what has one index along one axis.

Each assignment gives another array, of which the next step changes the next row, or a part of it.
As the inputs of one loop these would be arrays of all rows that go from step to step. So a part of
a row that is read again is what was assigned to it, a window of a few rows is these one after the
other, and once a loop is found, the array after it has those of all steps assigned at once.
"""

import functools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

import numpy as np

from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple
from numba_grad.transforms.loop_sizes import FEWEST_STEPS, LONGEST_WINDOW

UPDATE, SLICE = OPS["update_slice"], OPS["slice"]

_number_of = itemgetter(0)
MOST_PARTS = 16  # of one row, each assigned for itself: beyond, they are looked at as they are


class RowAccess:
    """What an operation has to do with one row of an array, or a part of one, or a few of these.

    Plain numbers: to name a member of an enumeration takes 0.4 us, 3 % of a search for loops.
    """

    NONE = 0
    ASSIGNS = 1
    READS = 2
    READS_WINDOW = 3
    WRITES = 4  # any elements (`written_parts.py`)


Place = tuple[int, ...]


class RowPart(NamedTuple):
    """Which elements of a row, along the other axes, and along which axis the rows are."""

    starts: Place
    sizes: Place
    steps: Place
    axis: int = 0

    def of_rows(self, first: int, count: int, distance: int) -> tuple[Place, Place, Place]:
        """Starts, sizes and steps of the part in several rows."""
        given = (first, self.starts), (count, self.sizes), (distance, self.steps)
        starts, sizes, steps = [(*x[: self.axis], row, *x[self.axis :]) for row, x in given]
        return starts, sizes, steps

    def meets(self, other: "RowPart") -> bool:
        """Whether they may have elements in common, if they are of one row."""
        return all(
            start < other_start + (other_size - 1) * other_step + 1
            and other_start < start + (size - 1) * step + 1
            for start, size, step, other_start, other_size, other_step in zip(
                *self[:3], *other[:3], strict=True
            )
        )

    def within(self, other: "RowPart") -> "RowPart | None":
        """The same elements as a part of another one, if they all belong to it, and that has all
        between its first and last one."""
        is_inside = all(
            other_step == 1 and other_start <= start and last <= other_start + other_size - 1
            for start, last, other_start, other_size, other_step in zip(
                self.starts, self._last(), *other[:3], strict=True
            )
        )
        if not is_inside:
            return None
        starts = tuple([a - b for a, b in zip(self.starts, other.starts, strict=True)])
        return self._replace(starts=starts)

    def _last(self) -> list[int]:
        """The last index along each axis."""
        return [start + (size - 1) * step for start, size, step in zip(*self[:3], strict=True)]


def row_access(node: Node) -> int:
    if node.op is UPDATE:
        array, value = node.inputs
        return _access(True, array.type.shape, value.type.shape)
    if node.op is SLICE and node.inputs:
        return _access(False, node.inputs[0].type.shape, node.params["sizes"])
    return RowAccess.NONE


# By shapes, of which a loop has few, and many rows.
@functools.lru_cache(maxsize=1 << 12)
def _access(is_assignment: bool, shape: Place, sizes: Place) -> int:
    axis = _axis(shape, sizes)
    if is_assignment:
        is_one_of_several = sizes[axis : axis + 1] == (1,) and shape[axis] > 1
        return RowAccess.ASSIGNS if is_one_of_several else RowAccess.NONE
    count = sizes[axis] if shape else 0
    if count == 1:
        return RowAccess.READS
    is_window = 2 <= count <= LONGEST_WINDOW and count < shape[axis]
    return RowAccess.READS_WINDOW if is_window else RowAccess.NONE


def row_axis(node: Node) -> int:
    """Along which axis an assignment or a slice has one index."""
    return _axis(node.inputs[0].type.shape, _sizes(node))


def _sizes(node: Node) -> Place:
    return node.inputs[1].type.shape if node.op is UPDATE else node.params["sizes"]


@functools.lru_cache(maxsize=1 << 12)
def _axis(shape: Place, sizes: Place) -> int:
    if len(shape) < 2 or (sizes[0] == 1 and shape[0] >= FEWEST_STEPS):
        return 0
    return axis_of_rows(shape, [k for k, size in enumerate(sizes) if size == 1 < shape[k]])


def axis_of_rows(shape: Place, axes: Sequence[int]) -> int:
    """Along which one of `axes`, those of several places that are gone through one by one, an array
    has rows: the first axis, but where that is shorter than any loop is, the longest."""
    if not axes or (axes[0] == 0 and shape[0] >= FEWEST_STEPS):
        return 0
    return max(axes, key=shape.__getitem__)


def row_part(node: Node) -> RowPart:
    """Of a node that has to do with rows."""
    params, sizes, axis = node.params, _sizes(node), row_axis(node)
    starts, steps, after = params["starts"], params["steps"], axis + 1
    return RowPart(
        starts[:axis] + starts[after:],
        sizes[:axis] + sizes[after:],
        steps[:axis] + steps[after:],
        axis,
    )


class _Chain:
    """Assignments to one array, each to what the one before has left."""

    __slots__ = ("axis", "base", "last", "meetings", "rows")

    def __init__(self, base: int, axis: int, meetings: "_Meetings") -> None:
        self.meetings = meetings
        self.axis = axis  # along which it has rows
        self.base = base  # the number of the array before the first
        self.last = base
        # By row and part: (assignment, value).
        self.rows: dict[int, dict[int, list[tuple[int, int]]]] = {}

    def assign(self, number: int, value: int, row: int, part: int) -> None:
        self.last = number
        self.rows.setdefault(row, {}).setdefault(part, []).append((number, value))

    def found(self, source: int, row: int, part: int) -> "_Found | None":
        """What `source`, one of these arrays, has there; None if that is of too many parts."""
        assigned = self.rows.get(row, {})
        if len(assigned) > MOST_PARTS:
            return None
        latest, found = -1, _Found(None, self.base)
        for other in self.meetings.among(assigned, part):
            numbers = assigned[other]
            place = bisect_right(numbers, source, key=_number_of) - 1
            if place >= 0 and numbers[place][0] > latest:
                latest, value = numbers[place]
                within = None if other == part else self.meetings.within(part, other)
                has_all = other == part or within is not None
                found = _Found(value if has_all else None, latest, within)
        return found


class _Meetings:
    """Which parts have elements in common: asked once of parts that rows have side by side, since
    a step by elements reads a row in each of its parts, and there are many rows."""

    def __init__(self, parts: list[RowPart]) -> None:
        self.parts = parts
        self.known: dict[tuple[int, ...], list[int]] = {}
        self.insides: dict[tuple[int, int], RowPart | None] = {}

    def within(self, part: int, other: int) -> "RowPart | None":
        """Where a part is in another one that has it."""
        if (part, other) not in self.insides:
            self.insides[part, other] = self.parts[part].within(self.parts[other])
        return self.insides[part, other]

    def among(self, others: Iterable[int], part: int) -> list[int]:
        key = (part, *others)
        found = self.known.get(key)
        if found is None:
            own = self.parts[part]
            found = [k for k in others if k == part or self.parts[k].meets(own)]
            self.known[key] = found
        return found


class _Found(NamedTuple):
    assigned: int | None  # the number of what was assigned, if that has all of this part
    array: int  # that of the array as it was then
    within: RowPart | None = None  # which part of what was assigned it is, if not all


class RowAccesses(NamedTuple):
    """For each node its `RowAccess`, the row, or the first one, and the number of the `RowPart`
    among `parts`."""

    kinds: np.ndarray
    rows: np.ndarray
    part_numbers: np.ndarray
    parts: list[RowPart]


class BaseRow(NamedTuple):
    """A part of a row that nobody has assigned yet, of the array with this number."""

    array: int
    row: int
    part_number: int


class ReadAgain(NamedTuple):
    """By the numbers of reads of arrays with assigned rows."""

    assigned: dict[int, int]  # what was assigned there
    within: dict[int, RowPart]  # of those that read a part of that: which
    before: dict[int, int]  # else the first array that has the same there
    windows: dict[int, list["int | BaseRow"]]  # of several rows, what was assigned to each


def rows_read_again(
    accesses: RowAccesses, inputs: np.ndarray, first_inputs: np.ndarray, nodes: Sequence[Node]
) -> ReadAgain:
    """What reads of rows read.

    Parameters
    ----------
    inputs, first_inputs : the numbers of what nodes read, and where those of each node begin
    """
    meetings = _Meetings(accesses.parts)
    chains: dict[int, _Chain] = {}  # by the number of an assignment
    assigned: dict[int, int] = {}
    within: dict[int, RowPart] = {}
    before: dict[int, int] = {}
    windows: dict[int, list[int | BaseRow]] = {}
    early: dict[int, list[int]] = {}  # windows of arrays that nobody has assigned a row to, yet
    numbers = np.flatnonzero(accesses.kinds)
    sources = inputs[first_inputs[numbers]]
    rows, part_numbers = accesses.rows[numbers].tolist(), accesses.part_numbers[numbers].tolist()
    kinds = accesses.kinds[numbers].tolist()
    is_assigned, is_window = RowAccess.ASSIGNS, RowAccess.READS_WINDOW
    for number, kind, source, row, part in zip(
        numbers.tolist(), kinds, sources.tolist(), rows, part_numbers, strict=True
    ):
        chain, axis = chains.get(source), accesses.parts[part].axis
        if kind == is_assigned:
            if chain is None or chain.last != source or chain.axis != axis:
                chain = _Chain(source, axis, meetings)
                for window in early.pop(source, ()):
                    windows[window] = _window(chain, source, nodes[window], accesses, window)
            chains[number] = chain
            chain.assign(number, int(inputs[first_inputs[number] + 1]), row, part)
        elif chain is not None and chain.axis != axis:
            continue
        elif kind == is_window:
            if chain is None:
                early.setdefault(source, []).append(number)
            else:
                windows[number] = _window(chain, source, nodes[number], accesses, number)
        elif chain is not None:
            found = chain.found(source, row, part)
            if found is not None and found.assigned is not None:
                assigned[number] = found.assigned
                if found.within is not None:
                    within[number] = found.within
            elif found is not None:
                before[number] = found.array
    known = {number: found for number, found in windows.items() if found}
    return ReadAgain(assigned, within, before, known)


def _window(
    chain: _Chain, source: int, node: Node, accesses: RowAccesses, number: int
) -> list[int | BaseRow]:
    """What is in the rows of a window; nothing if one of them was assigned in other parts."""
    params, part = node.params, int(accesses.part_numbers[number])
    found: list[int | BaseRow] = []
    for k in range(params["sizes"][0]):
        row = params["starts"][0] + k * params["steps"][0]
        there = chain.found(source, row, part)
        if there is None or there.within is not None:
            return []
        if there.assigned is None and there.array != chain.base:
            return []
        base = BaseRow(chain.base, row, part)
        found.append(base if there.assigned is None else there.assigned)
    return found
