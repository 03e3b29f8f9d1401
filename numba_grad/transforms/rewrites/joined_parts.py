"""Arrays that are put together of parts, by whichever means, and parts that are read of them.

    b = np.zeros((n, 3)); b[:, 0] = x; b[:, 1] = y; b[:, 2] = z        np.stack([x, y, z], axis=1)
    sliding_window_view(u, (2, 2))[..., 1, 0], np.stack([x, y])[1]     u[1:, :-1], y

The derivative of an assignment is the cotangent without a part, and that of a slice zeros around a
part. Of a concatenation, and of nothing at all, there is less to add up.
"""

from collections.abc import Collection, Sequence

from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.survey import are_free
from numba_grad.graph.walk import lets_gradients_through
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import concatenated, slice_params
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

_CONCATENATE, _SLICE, _TRANSPOSE = OPS["concatenate"], OPS["slice"], OPS["transpose"]
_RESHAPE, _UPDATE = OPS["reshape"], OPS["update_slice"]
_PUT_TOGETHER = (_CONCATENATE, _TRANSPOSE)
MOST_PARTS = 16  # an array of more is memory that those who compute the parts write to


def with_joined_parts(order: Sequence[Node], roots: Collection[Node]) -> list[Node]:
    """`order`, inputs before users, with parts joined and read where they are, as `with_replaced`
    says."""
    read_whole = _read_whole(order, roots)

    def rule(node: Node) -> Node | None:
        if node.op is _SLICE:
            return _part_of_joined(node, read_whole)
        return _joined(node) if node.op is _UPDATE else None

    return with_replaced(order, roots, rule)


def _read_whole(order: Sequence[Node], roots: Collection[Node]) -> set[Node]:
    """What is put together, and read by others than slices: as the state of a step, which is in
    memory then, where parts are as well read."""
    whole = set(roots)
    for node in reversed(order):
        if node.op is not _SLICE and (node.op not in _PUT_TOGETHER or node in whole):
            whole.update(node.inputs)
    return whole


def _joined(node: Node) -> Node | None:
    """An assignment after which nothing is left of what was there before the first one, of parts
    that are equally long: not of a first state and all others, of which a loop may have any number.
    """
    axes = [k for k, n in enumerate(node.shape) if node.inputs[1].shape[k] != n]
    if len(axes) != 1:
        return None
    (axis,) = axes
    parts: dict[int, Node] = {}  # by where they begin along the axis
    left, x, value_size = node.shape[axis], node, node.inputs[1].shape[axis]
    if left > MOST_PARTS * value_size:
        return None  # as of a long row by elements, each of which would look at those before it
    while left and len(parts) < MOST_PARTS and x.op is _UPDATE and set(x.params["steps"]) == {1}:
        before, value = x.inputs
        start, size = x.params["starts"][axis], value.shape[axis]
        is_known = start in parts and parts[start].shape[axis] == size
        is_beside = all(k + y.shape[axis] <= start or start + size <= k for k, y in parts.items())
        if value.type.size * node.shape[axis] != node.type.size * size:
            return None  # along another axis
        if size != value_size or not (is_known or is_beside):
            return None
        if not is_known:
            parts[start] = value
            left -= size
        if x is not node and not _is_seen_through(x):
            return None
        x = before
    return None if left else concatenated([y for _, y in sorted(parts.items())], axis)


def _part_of_joined(node: Node, read_whole: Collection[Node]) -> Node | None:
    """A slice of what lies in one of the parts that an array is put together of."""
    (x,) = node.inputs
    axes = list(range(len(x.shape)))  # where in `x` those of the slice are
    starts, sizes, steps = (list(node.params[name]) for name in ("starts", "sizes", "steps"))
    is_part = False
    while x.op in _PUT_TOGETHER and x not in read_whole and _is_seen_through(x):
        if x.op is _TRANSPOSE:
            axes = [x.params["axes"][axis] for axis in axes]
            (x,) = x.inputs
            continue
        k = axes.index(x.params["axis"])
        part, place = _at(x, starts[k])
        if part is None or starts[k] + (sizes[k] - 1) * steps[k] >= place + part.shape[axes[k]]:
            return None
        starts[k] -= place
        x, is_part = part, True
    if not is_part:
        return None
    own = sorted(range(len(axes)), key=axes.__getitem__)  # the slice's axes in the order of `x`
    params = slice_params(*(tuple([numbers[k] for k in own]) for numbers in (starts, sizes, steps)))
    if params["sizes"] != x.shape:
        x = record(_SLICE, (x,), params)
    order = [k for k in own if sizes[k] != 1]
    if order != sorted(order):
        x = record(_TRANSPOSE, (x,), {"axes": tuple(axes)})
    return _in_shape(x, node.shape)


def _is_seen_through(x: Node) -> bool:
    """Whether what it is made of may be read instead."""
    return all(are_free([x])) and lets_gradients_through(x)


def _at(x: Node, place: int) -> tuple[Node | None, int]:
    """The part of a concatenation that has an element along its axis, and where it begins."""
    before = 0
    for part in x.inputs:
        extent = part.shape[x.params["axis"]]
        if place < before + extent:
            return part, before
        before += extent
    return None, before


def _in_shape(x: Node, shape: tuple[int, ...]) -> Node:
    while x.op is _RESHAPE and x.shape != shape and _is_seen_through(x):
        (x,) = x.inputs
    return x if x.shape == shape else reshape(x, shape)
