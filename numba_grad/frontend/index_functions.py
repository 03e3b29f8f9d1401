"""Functions of NumPy that take elements by index."""

from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.arrays import ArrayLike, as_node, node_of, value_of, wrap
from numba_grad.frontend.reduction_functions import INT64
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.types import array_type, broadcast_shapes, normalize_axis
from numba_grad.ops.families import broadcast_to, cast, reshape
from numba_grad.ops.index_expressions import take_index

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor


def index_of_nodes(index: Any) -> Any:
    """An index expression with its tensors as nodes."""
    if index.__class__ is tuple:
        return tuple([_entry_of_node(entry) for entry in index])
    return _entry_of_node(index)


def _entry_of_node(entry: Any) -> Any:
    if entry.__class__ is slice:
        return entry
    node = node_of(entry)
    return entry if node is None else node


def mask_value(node: Node) -> np.ndarray:
    """The value of a mask whose number of true elements is the shape of a result."""
    return value_of(node, "index by a mask")


def take(
    x: ArrayLike, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise"
) -> "Tensor":
    """The elements of `x` at `indices` along `axis`, or of the flattened `x` by default.

    `mode` is what to do with an index out of range: "raise", "wrap" around, or "clip" to the ends.

    Raises
    ------
    IndexError
        If an index is out of range; for indices that are not known yet, when they are computed.
    """
    node = as_node(x)
    if axis is None:
        node = reshape(node, (node.type.size,))
        axis = 0
    number = normalize_axis("take", axis, len(node.shape))
    index = index_of_nodes(indices)
    if not isinstance(index, Node):
        index = np.asarray(index)
        if index.size == 0:
            index = index.astype(np.int64)
    if mode != "raise":
        index = _brought_into_range(as_node(index), node.shape[number], mode)
    return wrap(take_index(node, ((slice(None),) * number) + (index,), mask_value))


def _brought_into_range(index: Node, size: int, mode: str) -> Node:
    if mode not in ("wrap", "clip"):
        expected = "'raise', 'wrap' or 'clip'"
        raise ValueError(explain("take", f"mode={mode!r}", expected=expected))
    if size == 0 and index.type.size:
        raise IndexError(explain("take", "the axis is empty", got={"indices": index.type}))
    index = cast(index, INT64)
    limits = [leaf(np.array(n)) for n in (size, 0, size - 1)]
    if mode == "wrap":
        return OPS["remainder"](index, limits[0])
    return OPS["minimum"](OPS["maximum"](index, limits[1]), limits[2])


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> "Tensor":
    """Along `axis`, in each place its own elements: result[i, k] = x[i, indices[i, k]].

    `indices` has as many axes as `x`; the others broadcast.
    """
    node, index = as_node(x), as_node(indices)
    if axis is None:
        node = reshape(node, (node.type.size,))
        axis = 0
    number = normalize_axis("take_along_axis", axis, len(node.shape))
    if len(index.shape) != len(node.shape) or index.dtype.kind not in "iu":
        problem = "indices must be integers, with as many axes as x"
        got: dict[str, object] = {"x": node.type, "indices": index.type}
        error = ShapeError if index.dtype.kind in "iu" else IndexError
        raise error(explain("take_along_axis", problem, got=got))
    return wrap(taken_along(node, index, number, checked=True))


def taken_along(x: Node, index: Node, axis: int, *, checked: bool) -> Node:
    """As `take_along_axis`, on nodes."""
    around = list(x.shape), list(index.shape)
    for shape in around:
        shape[axis] = 1
    types = [array_type(tuple(shape), INT64) for shape in around]
    common = list(broadcast_shapes("take_along_axis", ("x", "indices"), types))
    stretched = list(common)
    stretched[axis] = x.shape[axis]
    x = broadcast_to(x, tuple(stretched))
    shape = list(common)
    shape[axis] = index.shape[axis]
    index = broadcast_to(index, tuple(shape))
    positions = [
        index if k == axis else _positions_along(tuple(shape), k) for k in range(len(shape))
    ]
    return OPS["gather"](x, *positions, checked=checked)


def _positions_along(shape: tuple[int, ...], axis: int) -> Node:
    """0, 1, 2, ... along `axis`, over `shape`."""
    alone = tuple([n if k == axis else 1 for k, n in enumerate(shape)])
    return broadcast_to(reshape(OPS["iota"](size=shape[axis], dtype=INT64), alone), shape)


def nonzero(x: ArrayLike) -> "tuple[Tensor, ...]":
    """The indices of the elements that are not 0: one tensor for each axis. Computes `x` now."""
    value = value_of(as_node(x), "nonzero")
    return tuple([wrap(leaf(np.ascontiguousarray(index))) for index in value.nonzero()])
