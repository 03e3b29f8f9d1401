"""Arrays that are put together of a new part and the rest of an old array, as assignments to that.

    np.concatenate([u[:1], new, u[-1:]])                         u, with new at [1:-1]
    np.vstack([u[0], np.hstack([u[1:-1, :1], new, ...]), u[-1]])       at [1:-1, 1:-1]

An assignment is one operation to read through, and its derivative the cotangent without a part of
it. A concatenation has the derivatives of all its parts, each a small addition to an array.
"""

from collections.abc import Collection, Sequence

from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple
from numba_grad.ops.movement import region_params
from numba_grad.transforms.loop_sizes import LARGEST_VALUE
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

_CONCATENATE, _RESHAPE, _SLICE = OPS["concatenate"], OPS["reshape"], OPS["slice"]
_UPDATE, _IDENTITY = OPS["update_slice"], OPS["identity"]
Place = tuple[int, ...]


class _Part(NamedTuple):
    """A part of an array, of which another part may be new."""

    array: Node
    starts: Place
    sizes: Place
    new: Node | None
    new_starts: Place  # in the array

    def stop(self, axis: int) -> int:
        return self.starts[axis] + self.sizes[axis]

    def is_beside(self, other: "_Part", axis: int) -> bool:
        """Whether both are parts of one array that differ along this axis alone."""
        return self.array is other.array and all(
            k == axis or (self.starts[k], self.sizes[k]) == (other.starts[k], other.sizes[k])
            for k in range(len(self.starts))
        )


def with_kept_ends(order: Sequence[Node], roots: Collection[Node]) -> list[Node]:
    """`order`, inputs before users, where such concatenations are assignments, as `with_replaced`
    says."""
    parts: dict[Node, _Part] = {}

    def assignment(node: Node) -> Node | None:
        part = _part(node, parts)
        if part is None:
            return None
        parts[node] = part
        is_whole = part.sizes == part.array.shape
        if part.new is None or not is_whole or node.type.size <= LARGEST_VALUE:
            return None
        region = region_params(part.new_starts, (1,) * len(part.sizes))
        return _UPDATE(part.array, part.new, **region)

    return with_replaced(order, roots, assignment)


def _part(node: Node, parts: dict[Node, _Part]) -> _Part | None:
    """What part of which array a node is."""
    x = node.inputs[0] if node.inputs else node
    if node.op is _SLICE and set(node.params["steps"]) == {1}:
        starts, sizes = node.params["starts"], node.params["sizes"]
        return _Part(x, starts, sizes, None, starts)
    if node.op is _RESHAPE or node.op is _IDENTITY:
        # A row, `u[0]`, is one of several; functions give another name to what they leave alone.
        part = parts.get(x)
        return part if part is not None and part.sizes == node.shape else None
    return _joined(node, parts) if node.op is _CONCATENATE else None


def _joined(node: Node, parts: dict[Node, _Part]) -> _Part | None:
    """The part that a concatenation of parts, and at most one new one, is."""
    axis = node.params["axis"]
    found = [parts.get(x) for x in node.inputs]
    first = next((part for part in found if part is not None), None)
    if first is None or any(x is not None and not x.is_beside(first, axis) for x in found):
        return None
    if any(x is not None and x.sizes != y.shape for x, y in zip(found, node.inputs, strict=True)):
        return None  # a row that is no part of two axes yet
    # Where the first part is, and with it all others.
    place = first.starts[axis]
    for x in node.inputs[: found.index(first)]:
        place -= x.shape[axis]
    starts = (*first.starts[:axis], place, *first.starts[axis + 1 :])
    new, new_starts = None, starts
    for x, part in zip(node.inputs, found, strict=True):
        is_new = part is None or part.new is not None
        if (part is not None and part.starts[axis] != place) or (is_new and new is not None):
            return None
        if is_new:
            here = (*starts[:axis], place, *starts[axis + 1 :])
            new, new_starts = (x, here) if part is None else (part.new, part.new_starts)
        place += x.shape[axis]
    if min(starts) < 0 or place > first.array.shape[axis]:
        return None
    return _Part(first.array, starts, node.shape, new, new_starts)
