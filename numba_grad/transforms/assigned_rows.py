"""Rows that the steps of a Python loop assign to an array: `states[k + 1] = step(states[k])`.

Each assignment gives another array, of which the next step changes the next row, or a part of it.
As the inputs of one loop these would be arrays of all rows that go from step to step. So a part of
a row that is read again is what was assigned to it, and once a loop is found, the array after it
has those of all steps assigned at once.
"""

import enum
from typing import NamedTuple

import numpy as np

from numba_grad.graph.node import OPS, Node

UPDATE, SLICE = OPS["update_slice"], OPS["slice"]

_MOST_PARTS = 16  # of one row, each assigned for itself: beyond, they are looked at as they are


class RowAccess(enum.IntEnum):
    """What an operation has to do with one row of an array, or a part of one."""

    NONE = 0
    ASSIGNS = 1
    READS = 2


class RowPart(NamedTuple):
    """Which elements of a row, along the other axes."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    def meets(self, other: "RowPart") -> bool:
        """Whether they may have elements in common."""
        return all(
            start < other_start + (other_size - 1) * other_step + 1
            and other_start < start + (size - 1) * step + 1
            for start, size, step, other_start, other_size, other_step in zip(
                *self, *other, strict=True
            )
        )


def row_access(node: Node) -> RowAccess:
    if node.op is UPDATE:
        array, value = node.inputs
        is_one_of_several = value.shape[:1] == (1,) and array.shape[0] > 1
        return RowAccess.ASSIGNS if is_one_of_several else RowAccess.NONE
    if node.op is SLICE and node.inputs:
        return RowAccess.READS if node.params["sizes"][:1] == (1,) else RowAccess.NONE
    return RowAccess.NONE


def row_part(node: Node) -> RowPart:
    """Of a node that has a `RowAccess`."""
    sizes = node.inputs[1].shape if node.op is UPDATE else node.params["sizes"]
    return RowPart(node.params["starts"][1:], sizes[1:], node.params["steps"][1:])


class _Chain:
    """Assignments to one array, each to what the one before has left."""

    __slots__ = ("base", "last", "rows")

    def __init__(self, base: int) -> None:
        self.base = base  # the number of the array before the first
        self.last = base
        # By row and part: (assignment, value).
        self.rows: dict[int, dict[int, list[tuple[int, int]]]] = {}

    def assign(self, number: int, value: int, row: int, part: int) -> None:
        self.last = number
        self.rows.setdefault(row, {}).setdefault(part, []).append((number, value))

    def found(self, source: int, row: int, part: int, parts: list[RowPart]) -> "_Found | None":
        """What `source`, one of these arrays, has there; None if that is of too many parts."""
        assigned = self.rows.get(row, {})
        if len(assigned) > _MOST_PARTS:
            return None
        latest, found = -1, _Found(None, self.base)
        for other, numbers in assigned.items():
            if other == part or parts[other].meets(parts[part]):
                number, value = next((x for x in reversed(numbers) if x[0] <= source), (-1, -1))
                if number > latest:
                    latest, found = number, _Found(value if other == part else None, number)
        return found


class _Found(NamedTuple):
    assigned: int | None  # the number of what was assigned, if that was just this part
    array: int  # that of the array as it was then


class RowAccesses(NamedTuple):
    """For each node its `RowAccess`, the row, and the number of the `RowPart` among `parts`."""

    kinds: np.ndarray
    rows: np.ndarray
    part_numbers: np.ndarray
    parts: list[RowPart]


def rows_read_again(
    accesses: RowAccesses, inputs: np.ndarray, first_inputs: np.ndarray
) -> tuple[dict[int, int], dict[int, int]]:
    """For each read of what was assigned, the number of that; for others of arrays with assigned
    rows, that of the first array that has the same there.

    Parameters
    ----------
    inputs, first_inputs : the numbers of what nodes read, and where those of each node begin
    """
    chains: dict[int, _Chain] = {}  # by the number of an assignment
    assigned: dict[int, int] = {}
    before: dict[int, int] = {}
    numbers = np.flatnonzero(accesses.kinds)
    sources = inputs[first_inputs[numbers]]
    rows, part_numbers = accesses.rows[numbers].tolist(), accesses.part_numbers[numbers].tolist()
    for number, source, row, part in zip(
        numbers.tolist(), sources.tolist(), rows, part_numbers, strict=True
    ):
        chain = chains.get(source)
        if accesses.kinds[number] == RowAccess.ASSIGNS:
            if chain is None or chain.last != source:
                chain = _Chain(source)
            chains[number] = chain
            chain.assign(number, int(inputs[first_inputs[number] + 1]), row, part)
        elif chain is not None:
            found = chain.found(source, row, part, accesses.parts)
            if found is not None and found.assigned is not None:
                assigned[number] = found.assigned
            elif found is not None:
                before[number] = found.array
    return assigned, before
