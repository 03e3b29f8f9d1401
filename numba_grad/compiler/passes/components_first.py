"""What loops compute of pairs of rows, of windows or of smaller arrays has components first.

    np.sum((x[:, None] - y) ** 2, axis=-1)      with points x, y in 2 to 16 dimensions
    ->      np.sum((x.T[:, :, None] - y.T[:, None]) ** 2, axis=0)

Vector code takes the same component of several points, which lie apart in memory. A loop over pairs
reads each of them as often as there are points on the other side: so rows are stored as columns
once (`Roots.are_columns_of_pairs`), rather than in blocks in each turn of the outer loop
(`transposed_rows.py`), and so is what is computed of windows along an array. Arrays in memory that
are as large as what is made of them stay: they are read as often as they would be stored.
"""

import math

from numba_grad.compiler.loop_nests.iteration_spaces import loop_axes
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import broadcast_to, reshape

_TRANSPOSE, _BROADCAST, _MULTIPLY = OPS["transpose"], OPS["broadcast_to"], OPS["multiply"]


class _Moved(NamedTuple):
    node: Node
    components: int  # the number of its first axes, which were the last ones


def components_first(outputs: list[Node]) -> list[Node]:
    """`outputs`, with the components of pairs and windows moved to the front."""
    if not any(_components(node.shape) for node in toposort(outputs)):
        return outputs
    return substitute(outputs, {}, _Moves().change)


class _Moves:
    def __init__(self) -> None:
        self.moved: dict[Node, _Moved] = {}  # of a node, the same with its components first
        self.columns: dict[Node, Node] = {}  # of rows, which both sides of pairs may be
        # Elements of the largest array in memory that a node is made of.
        self.largest: dict[Node, int] = {}

    def change(self, node: Node) -> Node | None:
        """What a rebuilt node is changed to."""
        found = self.moved_of(node)
        self.largest[node] = node.type.size
        if node.inputs and node.op.family in ("elementwise", "movement", "reduction"):
            self.largest[node] = max([self.largest_source(x) for x in node.inputs])
        if found is not None:
            self.largest[found] = self.largest[node]
        return found

    def moved_of(self, node: Node) -> Node | None:
        moved = self.moved
        if node.op.family == "reduction" and node.inputs[0] in moved:
            return _reduced(node, moved[node.inputs[0]])
        count = _components(node.shape)
        if node.op.family != "elementwise" or not count:
            return None
        inputs = [_without_broadcast(x) for x in node.inputs]
        # An outer product is a cotangent of a weighted sum mostly, which is read part by part.
        is_larger = all(x.type.size < node.type.size for x in inputs) and node.op is not _MULTIPLY
        if not is_larger and not any(
            x in moved or _rows(x, node) or self.are_windows(x) for x in inputs
        ):
            return None
        own = [self.first(x, node, count) for x in inputs]
        first = tuple([x for x in own if x is not None])
        if len(first) < len(own):
            return None
        new = record(node.op, first, dict(node.params))
        shape = node.shape[-count:] + node.shape[:-count]
        if new.shape != shape:
            new = broadcast_to(new, shape)
        back = record(_TRANSPOSE, (new,), {"axes": _order(len(new.shape), len(new.shape) - count)})
        moved[back] = _Moved(new, count)
        return back

    def are_windows(self, x: Node) -> bool:
        """Whether it is parts of smaller arrays, side by side along its last axes."""
        is_moved = x.op.family == "movement" and _components(x.shape) > 0
        return is_moved and self.largest_source(x) < x.type.size

    def largest_source(self, x: Node) -> int:
        return self.largest.get(x) or x.type.size

    def first(self, x: Node, user: Node, count: int) -> Node | None:
        """`x` with the last axes of its user moved to the front; None if it is in memory in another
        order."""
        shape = (1,) * (len(user.shape) - len(x.shape)) + x.shape
        other, last = shape[:-count], shape[-count:]
        rows, moved = _rows(x, user), self.moved.get(x)
        if moved is not None and moved.components == count:
            return reshape(moved.node, last + other)
        if rows is not None and count == 1:
            columns = self.columns.get(rows)
            if columns is None:
                columns = self.columns[rows] = record(_TRANSPOSE, (rows,), {"axes": (1, 0)})
            return reshape(columns, last + other)
        if math.prod(other) == 1 or math.prod(last) == 1:
            return reshape(x, last + other)
        if moved is None and not self.are_windows(x):
            return None
        return record(_TRANSPOSE, (reshape(x, shape),), {"axes": _order(len(shape), count)})


def _components(shape: tuple[int, ...]) -> int:
    """The number of last axes that are written out, beside loops over others, and would be as the
    first ones: in small arrays they are not."""
    loops = loop_axes(shape)
    count = len(shape) - 1 - loops[-1] if loops else 0
    if not count or math.prod(shape[-count:]) == 1:
        return 0
    return count if loop_axes(shape[-count:] + shape[:-count])[0] >= count else 0


def _order(rank: int, count: int) -> tuple[int, ...]:
    """The axes of an array, the last few first."""
    return (*range(rank - count, rank), *range(rank - count))


def _without_broadcast(x: Node) -> Node:
    return x.inputs[0] if x.op is _BROADCAST else x


def _rows(x: Node, user: Node) -> Node | None:
    """The rows of components that `x` is, but for axes of one element, if `user` reads them once
    for each of other rows."""
    while x.op.name == "reshape" and _lengths(x) == _lengths(x.inputs[0]):
        (x,) = x.inputs
    is_row = len(x.shape) == 2 and x.shape[0] > 1 and x.shape[1] == user.shape[-1]
    return x if is_row and 2 * x.type.size <= user.type.size else None


def _lengths(x: Node) -> list[int]:
    return [n for n in x.shape if n != 1]


def _reduced(node: Node, moved: _Moved) -> Node | None:
    """The reduction of what has been moved."""
    if node.op.name in ARG_REDUCTIONS:
        return None
    x, count = moved
    order = _order(len(x.shape), count)
    axes = [order.index(axis) for axis in node.params["axes"]]
    result = record(node.op, (x,), dict(node.params) | {"axes": tuple(sorted(axes))})
    left = sum(axis not in axes for axis in range(count))
    rank = len(result.shape)
    if left in (0, rank):
        return result
    return record(_TRANSPOSE, (result,), {"axes": _order(rank, rank - left)})
