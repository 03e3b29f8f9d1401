"""Rows that the steps of a Python loop assign to an array: `states[k + 1] = step(states[k])`.

Each assignment gives another array, of which the next step changes the next row. As the inputs of
one loop these would be arrays of all rows that go from step to step. So a row that is read again is
what was assigned to it, and once a loop is found, the array after it has the rows of all steps
assigned at once.
"""

import enum

import numpy as np

from numba_grad.graph.node import OPS, Node

UPDATE, SLICE = OPS["update_slice"], OPS["slice"]


class RowAccess(enum.IntEnum):
    """What an operation has to do with one whole row of an array."""

    NONE = 0
    ASSIGNS = 1
    READS = 2


def row_access(node: Node) -> RowAccess:
    params = node.params
    if node.op is UPDATE:
        array, value = node.inputs
        is_row = value.shape == (1, *array.shape[1:])
        return RowAccess.ASSIGNS if is_row and _is_whole(params) else RowAccess.NONE
    if node.op is SLICE and node.inputs:
        is_row = params["sizes"] == (1, *node.inputs[0].shape[1:])
        return RowAccess.READS if is_row and _is_whole(params) else RowAccess.NONE
    return RowAccess.NONE


def _is_whole(params: dict[str, tuple[int, ...]]) -> bool:
    return not any(params["starts"][1:]) and all(step == 1 for step in params["steps"][1:])


class _Chain:
    """Assignments to one array, each to what the one before has left."""

    __slots__ = ("base", "last", "rows")

    def __init__(self, base: int) -> None:
        self.base = self.last = base  # the number of the array before the first
        self.rows: dict[int, list[tuple[int, int]]] = {}  # (assignment, value)


def rows_read_again(
    accesses: np.ndarray, rows: np.ndarray, inputs: np.ndarray, first_inputs: np.ndarray
) -> tuple[dict[int, int], dict[int, int]]:
    """For each read of a row that was assigned, the number of what was assigned to it; for reads of
    other rows, that of the array before all assignments.

    Parameters
    ----------
    accesses : of each node, those `RowAccess` that count
    rows : of each node with one, its row
    inputs, first_inputs : the numbers of what nodes read, and where those of each node begin
    """
    chains: dict[int, _Chain] = {}  # by the number of an assignment
    assigned: dict[int, int] = {}
    before: dict[int, int] = {}
    numbers = np.flatnonzero(accesses)
    sources = inputs[first_inputs[numbers]]
    for number, source, row in zip(
        numbers.tolist(), sources.tolist(), rows[numbers].tolist(), strict=True
    ):
        chain = chains.get(source)
        if accesses[number] == RowAccess.ASSIGNS:
            if chain is None or chain.last != source:
                chain = _Chain(source)
            chains[number] = chain
            chain.last = number
            value = int(inputs[first_inputs[number] + 1])
            chain.rows.setdefault(row, []).append((number, value))
        elif chain is not None:
            found = [value for k, value in chain.rows.get(row, ()) if k <= source]
            if found:
                assigned[number] = found[-1]
            else:
                before[number] = chain.base
    return assigned, before
