"""Rows that the steps of a loop read and leave: those of an array, all at once, and those of what
they have left, one by one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numba_grad.graph.node import OPS, Node, leaf, record
from numba_grad.graph.walk import lets_gradients_through
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import region_params, slice_params
from numba_grad.transforms.rerolling.assigned_rows import RowPart

_HIGHEST_BLOCK = 16  # of rows, which overlap those of the next step or leave out some
_SLICE, _CONCATENATE = OPS["slice"], OPS["concatenate"]
_FLIP = OPS["flip"]


def rows_in_front(x: Node, params: Mapping[str, Any], axis: int) -> tuple[Node, Mapping[str, Any]]:
    """An array, and the params of a slice of it, with the axis of rows as the first one."""
    if not axis:
        return x, params
    axes = (axis, *range(axis), *range(axis + 1, len(x.shape)))
    names = ("starts", "sizes", "steps")
    moved = {name: tuple([params[name][k] for k in axes]) for name in names}
    return record(OPS["transpose"], (x,), {"axes": axes}), moved


def elements_of(x: Node) -> tuple[Node, Mapping[str, Any]]:
    """All elements of an array as rows, and the params of a slice of one of them."""
    return reshape(x, (x.type.size,)), {"starts": (0,), "sizes": (1,), "steps": (1,)}


def rows_along(rows: Node, axis: int) -> Node:
    """Rows that lie along the first axis, along another one."""
    if not axis:
        return rows
    axes = (*range(1, axis + 1), 0, *range(axis + 1, len(rows.shape)))
    return record(OPS["transpose"], (rows,), {"axes": axes})


def any_rows(x: Node, params: Mapping[str, Any], starts: np.ndarray) -> Node | None:
    """Slices as the one of these params, but of these rows."""
    height, *sizes = params["sizes"]
    if height > 1:
        return None
    rows = OPS["gather"](x, leaf(starts.copy()), checked=False)
    part = region_params((0, *params["starts"][1:]), (1, *params["steps"][1:]))
    return record(_SLICE, (rows,), {**part, "sizes": (len(starts), *sizes)})


def picked_row(x: Node, params: Mapping[str, Any], row: Node) -> Node:
    """The slice of these params, but of the row that is told."""
    _, *sizes = params["sizes"]
    picked = OPS["gather"](x, row, checked=False)
    part = region_params(params["starts"][1:], params["steps"][1:])
    return record(_SLICE, (picked,), {**part, "sizes": tuple(sizes)}) if sizes else picked


def blocks(x: Node, params: Mapping[str, Any], first: int, move: int, count: int) -> Node | None:
    """`count` slices as the one of these params, the first of which begins at the row `first`, and
    each `move` rows after the one before. None where these would be many slices."""
    height, *sizes = params["sizes"]
    others = params["starts"][1:], params["steps"][1:]

    def rows(start: int, length: int, step: int) -> Node:
        starts, steps = ((value, *rest) for value, rest in zip((start, step), others, strict=True))
        return record(_SLICE, (x,), {"starts": starts, "sizes": (length, *sizes), "steps": steps})

    if height == 1:
        return rows(first, count, move)
    shape = (count, height, *sizes)
    if height == move:
        return reshape(rows(first, count * height, 1), shape)
    if height > _HIGHEST_BLOCK:
        return None
    parts = [reshape(rows(first + k, count, move), (count, 1, *sizes)) for k in range(height)]
    return record(_CONCATENATE, tuple(parts), {"axis": 1})


def columns(
    x: Node, params: Mapping[str, Any], starts: np.ndarray, first: int, move: int, count: int
) -> Node | None:
    """Slices as the one of these params, but which begin at each of these places in a row, side by
    side: of `count` rows from `first` on, `move` apart, or below 0 in the other order. None unless
    they are elements along one axis, at equal distances."""
    distances = np.diff(starts[:, 1:], axis=0)
    axes = 1 + np.flatnonzero(distances.any(axis=0))
    if len(axes) != 1 or (distances != distances[0]).any():
        return None
    axis = int(axes[0])
    places = starts[:, axis].tolist()
    apart = places[1] - places[0]
    if params["sizes"][axis] != 1:
        return None
    changes = {"starts": min(places), "sizes": len(places), "steps": abs(apart)}
    part = {
        name: (*params[name][:axis], value, *params[name][axis + 1 :])
        for name, value in changes.items()
    }
    rows = blocks(x, part, first, abs(move), count)
    if rows is None:
        return None
    turned = [place for place, distance in ((0, move), (axis, apart)) if distance < 0]
    rows = _FLIP(rows, axes=tuple(turned)) if turned else rows
    others = [k for k in range(1, len(rows.shape)) if k != axis]
    return rows if axis == 1 else record(OPS["transpose"], (rows,), {"axes": (0, axis, *others)})


def flipped(rows: Node) -> Node:
    return _FLIP(rows, axes=(0,))


class RowsOfPlace(NamedTuple):
    """What a place of a step has left: of step `k` the row `first + k * stride` of `stack`. Passes
    of a loop inside of the steps leave rows side by side."""

    stack: Node
    first: int = 0
    stride: int = 1

    def row(self, step: int) -> int:
        return self.first + step * self.stride

    def of_all_steps(self, count: int) -> Node:
        if self.stride == 1:
            return self.stack
        rest = self.stack.shape[1:]
        starts, steps = (self.first, *(0 for _ in rest)), (self.stride, *(1 for _ in rest))
        params = {"starts": starts, "sizes": (count, *rest), "steps": steps}
        return record(_SLICE, (self.stack,), params)


def row_of(stack: Node, step: int) -> Node:
    rest = len(stack.shape) - 1
    params = slice_params(
        (step, *(0,) * rest), (1, *stack.shape[1:]), (1,) * (rest + 1), dropped=(0,)
    )
    return record(_SLICE, (stack,), params)


def rows_of(stack: Node, first: int, count: int, axis: int) -> Node:
    """Some rows, along an axis."""
    rest = stack.shape[1:]
    x = stack
    if count < stack.shape[0]:
        starts = (first, *(0 for _ in rest))
        steps = tuple(1 for _ in stack.shape)
        x = record(_SLICE, (x,), {"starts": starts, "sizes": (count, *rest), "steps": steps})
    return rows_along(x, axis)


def one_after_the_other(values: Sequence[Node]) -> Node:
    """Several values as the rows of one; one as it is."""
    if len(values) == 1:
        return values[0]
    rows = tuple([reshape(x, (1, *x.shape)) for x in values])
    return record(_CONCATENATE, rows, {"axis": 0})


def row_read(node: Node) -> tuple[Node, int] | None:
    """The array that a node is a row of, and which one."""
    if node.op is not _SLICE or not lets_gradients_through(node):
        return None
    [x], params = node.inputs, node.params
    is_row = bool(x.shape) and params["sizes"] == (1, *x.shape[1:]) and node.shape == x.shape[1:]
    return (x, params["starts"][0]) if is_row else None


def put_together(values: Sequence[Node], rows: Sequence[tuple[Node, int] | None]) -> Node:
    """`one_after_the_other`, where those that are rows of one array, at equal distances, are a
    part of it."""
    pieces, first = [], 0
    while first < len(values):
        count, apart = _rows_from(rows, first)
        row = rows[first]
        if row is None or count == 1:
            pieces.append(reshape(values[first], (1, *values[first].shape)))
        else:
            x, start = row
            rest = x.shape[1:]
            part = region_params((start, *(0 for _ in rest)), (apart, *(1 for _ in rest)))
            pieces.append(record(_SLICE, (x,), {**part, "sizes": (count, *rest)}))
        first += count
    if len(values) == 1:
        return values[0]
    return record(_CONCATENATE, tuple(pieces), {"axis": 0}) if len(pieces) > 1 else pieces[0]


def _rows_from(rows: Sequence[tuple[Node, int] | None], first: int) -> tuple[int, int]:
    """How many of one array follow each other there, and how far from each other."""
    apart, last = 0, rows[first]
    for count, row in enumerate(rows[first + 1 :], 1):
        distance = row[1] - last[1] if row and last and row[0] is last[0] else 0
        if distance <= 0 or (apart and distance != apart):
            return count, apart
        apart, last = distance, row
    return len(rows) - first, apart


def as_read_again(node: Node, rows: Sequence[Node], part: RowPart | None = None) -> Node:
    """What a read of rows gives, of what was assigned to them, or of a part of that."""
    x = rows[0] if len(rows) == 1 else record(_CONCATENATE, tuple(rows), {"axis": 0})
    if part is not None:
        starts, sizes, steps = part.of_rows(0, 1, 1)
        x = record(_SLICE, (x,), {"starts": starts, "sizes": sizes, "steps": steps})
    x = reshape(x, node.shape)
    return x if node.requires_grad else OPS["detach"](x)
