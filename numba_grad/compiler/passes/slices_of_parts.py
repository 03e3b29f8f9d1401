"""A slice of an array that is put together is put together of slices, if nothing reads the array as
a whole.

    p = concatenate(u[:1], u, u[-1:])        p[2:]   -> concatenate(u[1:], u[-1:])
    g = add_slice(pad(a), b), the adjoint    g[1:-1] -> add_slice(pad(a[...]), b[...])

So edges that an array is padded with on several axes, and what their adjoints add, are found while
compiling: corners that no slice reads are gone, and neither the padded array nor its cotangent is
stored. Each element is computed of the same numbers in the same order.
"""

from collections.abc import Sequence

from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import full, reshape
from numba_grad.ops.movement import Shape, region_params, slice_params

# Parts of one concatenation: an array and its ends.
_MOST_PARTS = 3
# That are looked at for one slice. The adjoint of edges in space, of a stencil of seven points, has
# some 100; edges of edges of edges would have three times as many each time.
_MOST_LOOKED_AT = 200


def slices_of_parts(outputs: list[Node]) -> list[Node]:
    """`outputs`, with slices of parts in place of slices of what these are parts of."""
    order = toposort(outputs)
    if not any(_is_dense_slice(node) and _is_joined(node.inputs[0]) for node in order):
        return outputs
    parts = _Parts(order, outputs)
    return [parts.done[output] for output in outputs]


def _is_dense_slice(node: Node) -> bool:
    return (
        node.op.name == "slice"
        and all(step == 1 for step in node.params["steps"])
        and 0 not in node.shape
    )


def _is_joined(node: Node) -> bool:
    """Whether it is put together of parts without gaps."""
    match node.op.name:
        case "concatenate":
            return len(node.inputs) <= _MOST_PARTS
        case "add_slice":
            return all(step == 1 for step in node.params["steps"])
        case "pad":
            return not any(node.params["interior"])
    return False


class _Parts:
    """Goes through the graph.

    `whole` : what is an output, or read by anything but slices, directly or as a part of what is
    axes : of an array that is not, along which axes it is put together of parts, and they of theirs
    """

    def __init__(self, order: Sequence[Node], outputs: Sequence[Node]) -> None:
        self.whole = set(outputs)
        for node in reversed(order):
            if not _is_dense_slice(node) and (node in self.whole or not _is_joined(node)):
                self.whole.update(node.inputs)
        self.axes: dict[Node, frozenset[int]] = {}
        self.done: dict[Node, Node] = {}
        self.looked_at = 0
        for node in order:
            self.axes[node] = self._axes_of(node)
            self.done[node] = self._now(node)

    def _axes_of(self, node: Node) -> frozenset[int]:
        if not self._is_looked_through(node):
            return frozenset()
        sizes = [x.shape for x in node.inputs]
        own = [k for k, n in enumerate(node.shape) if any(size[k] != n for size in sizes)]
        if node.op.name in ("slice", "pad"):  # zeros around an array are read through for nothing
            own = []
        return frozenset(own).union(*[self.axes[x] for x in node.inputs])

    def _is_looked_through(self, node: Node) -> bool:
        if _is_dense_slice(node):
            return "dropped" not in node.params
        return _is_joined(node) and node not in self.whole

    def _now(self, node: Node) -> Node:
        # Along one axis there are no corners, and such an array is read through as it is.
        if _is_dense_slice(node) and len(self.axes[node.inputs[0]]) > 1:
            sizes = node.params["sizes"]
            self.looked_at = 0
            part = self._part(node.inputs[0], node.params["starts"], sizes)
            if self.looked_at <= _MOST_LOOKED_AT:
                part = full(0, sizes, node.dtype) if part is None else part
                return reshape(part, node.shape)
        inputs = tuple([self.done[x] for x in node.inputs])
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        return record(node.op, inputs, node.params)

    def _part(self, x: Node, starts: Shape, sizes: Shape) -> Node | None:
        """That region of `x`; None where a pad has filled in nothing but zeros."""
        if sizes == x.shape:
            return self.done[x]
        self.looked_at += 1
        if self.looked_at <= _MOST_LOOKED_AT and self._is_looked_through(x):
            if x.op.name == "slice":
                moved = tuple([a + b for a, b in zip(starts, x.params["starts"], strict=True)])
                return self._part(x.inputs[0], moved, sizes)
            if x.op.name == "concatenate":
                return self._of_concatenation(x, starts, sizes)
            return self._of_sum(x, starts, sizes)
        steps = (1,) * len(starts)
        return record(OPS["slice"], (self.done[x],), slice_params(starts, sizes, steps))

    def _of_concatenation(self, x: Node, starts: Shape, sizes: Shape) -> Node:
        axis = x.params["axis"]
        origin = [0] * len(starts)
        parts = []
        for y in x.inputs:
            here = _overlap(starts, sizes, origin, y.shape)
            if here is not None:
                part = self._part(y, here.inside, here.sizes)
                parts.append(full(0, here.sizes, x.dtype) if part is None else part)
            origin[axis] += y.shape[axis]
        return parts[0] if len(parts) == 1 else record(x.op, tuple(parts), {"axis": axis})

    def _of_sum(self, x: Node, starts: Shape, sizes: Shape) -> Node | None:
        """Of an array with another one added to a region of it, or of one between zeros."""
        if x.op.name == "pad":
            before, origin = None, x.params["low"]
        else:
            before, origin = self._part(x.inputs[0], starts, sizes), x.params["starts"]
        here = _overlap(starts, sizes, origin, x.inputs[-1].shape)
        part = None if here is None else self._part(x.inputs[-1], here.inside, here.sizes)
        if here is None or part is None:
            return before
        if before is not None:
            region = region_params(here.place, (1,) * len(sizes))
            return record(OPS["add_slice"], (before, part), region)
        high = [n - k - m for n, k, m in zip(sizes, here.place, here.sizes, strict=True)]
        if not any((*here.place, *high)):
            return part
        around = {"low": here.place, "high": tuple(high), "interior": (0,) * len(high)}
        return record(OPS["pad"], (part,), around)


class _Overlap(NamedTuple):
    """Of a region with a part."""

    inside: Shape  # where it starts in the part
    place: Shape  # and in the region
    sizes: Shape


def _overlap(starts: Shape, sizes: Shape, origin: Sequence[int], extent: Shape) -> _Overlap | None:
    """Of the region of these starts and sizes with the part of that extent at `origin`."""
    low = [max(pair) for pair in zip(starts, origin, strict=True)]
    high = [min(a + n, b + m) for a, n, b, m in zip(starts, sizes, origin, extent, strict=True)]
    if any(a >= b for a, b in zip(low, high, strict=True)):
        return None
    return _Overlap(
        tuple([a - b for a, b in zip(low, origin, strict=True)]),
        tuple([a - b for a, b in zip(low, starts, strict=True)]),
        tuple([b - a for a, b in zip(low, high, strict=True)]),
    )
