"""Functions of NumPy that write into their first argument, as `x[index] = v` does.

That is a tensor: its handle moves on to a new node, expressions recorded before keep the old
values, and gradients flow to what was written and to what stayed.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.dtypes import BOOL, INT64, can_cast
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.indexing import (
    brought_into_range,
    mask_value,
    places_along_axis,
    places_of_nodes,
)
from numba_grad.frontend.functions.shapes import cycled
from numba_grad.frontend.inputs.arrays import ArrayLike, as_assigned, as_node, is_scalar, node_of
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import broadcast_to, cast, flattened, placed, reshape
from numba_grad.ops.index_expressions import assign_index
from numba_grad.ops.indexing import gather, scatter_set

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]


def _target(operation: str, x: Any) -> Node:
    """The node of the tensor that is written into."""
    node = node_of(x)
    if node is None:
        raise TypeError(
            explain(
                operation,
                f"cannot write into a {type(x).__name__}: there would be no gradient",
                expected="a tensor to write into",
                fix="ng.tensor(x) in its place, or .detach().numpy() of what is written",
            )
        )
    return node


def _values(values: ArrayLike, x: Node) -> Node:
    """What to write, in the dtype of `x`."""
    return cast(as_assigned(values, x), x.dtype)


def put(x: "Tensor", ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Assign `v` to the elements of the tensor `x` with the numbers `ind` in row-major order.

    `v` starts again where it is shorter than `ind`. Of several values for one element the last
    stays. `mode` is what to do with a number out of range: "raise", "wrap" around, or "clip".

    Raises
    ------
    IndexError
        If a number is out of range; for numbers that are not known yet, when they are computed.
    """
    node = _target("put", x)
    index = places_of_nodes(ind)
    if not isinstance(index, Node):
        index = np.asarray(index)
        index = index.astype(np.int64) if index.size == 0 else index
    if mode != "raise":
        index = brought_into_range("put", as_node(index), node.type.size, mode)
    values = flattened(_values(v, node))
    if not index.size if isinstance(index, np.ndarray) else not index.type.size:
        return
    if not values.type.size:
        return
    shape = index.shape
    values = reshape(cycled(values, int(np.prod(shape, dtype=int))), shape)
    written = assign_index(flattened(node), index, values, mask_value)
    views.assign(x, reshape(written, node.shape))


def put_along_axis(
    x: "Tensor", indices: ArrayLike, values: ArrayLike, axis: int | None = -1
) -> None:
    """Assign along `axis`, in each place to its own element: x[i, indices[i, k]] = values[i, k].

    `indices` has as many axes as `x`, and `values` broadcasts to it. Of several values for one
    element the last stays. Without an axis, `x` counts as flattened.

    Raises
    ------
    IndexError
        If an index is out of range; for indices that are not known yet, when they are computed.
    """
    node = _target("put_along_axis", x)
    target = flattened(node) if axis is None else node
    positions = places_along_axis(
        "put_along_axis", target, as_node(indices), 0 if axis is None else axis
    )
    written = _values(values, node)
    shape = positions[0].shape
    if len(written.shape) > len(shape):  # as in NumPy's assignment, further axes of size 1
        written = reshape(written, written.shape[len(written.shape) - len(shape) :])
    result = scatter_set(target, broadcast_to(written, shape), *positions, checked=True)
    views.assign(x, reshape(result, node.shape))


def place(x: "Tensor", mask: ArrayLike, vals: ArrayLike) -> None:
    """Assign the elements of `vals`, one after the other, where the mask is true.

    `vals` starts again where there are more true elements. The value of the mask is not needed.
    """
    node = _target("place", x)
    chosen = _mask_of("place", mask, node)
    values = flattened(_values(vals, node))
    if not values.type.size:
        if node.type.size and mask_value(chosen).any():
            raise ValueError(explain("place", "no values", got={"vals": values.type}))
        return
    if values.type.size == 1:
        taken = broadcast_to(values, chosen.shape)
    else:
        # The number of a true element among the true ones.
        number = OPS["cumsum"](cast(chosen, INT64), axis=0, reverse=False) - as_node(1)
        number = OPS["remainder"](number, as_node(values.type.size))
        taken = gather(values, number, checked=False)
    result = OPS["where"](chosen, taken, flattened(node))
    views.assign(x, reshape(result, node.shape))


def putmask(x: "Tensor", mask: ArrayLike, values: ArrayLike) -> None:
    """Assign, where the mask is true, the element of `values` with the same number.

    `values` is repeated to the size of `x` where it is shorter.
    """
    node = _target("putmask", x)
    chosen = _mask_of("putmask", mask, node)
    flat = flattened(_values(values, node))
    if not flat.type.size or not node.type.size:
        return
    result = OPS["where"](chosen, cycled(flat, node.type.size), flattened(node))
    views.assign(x, reshape(result, node.shape))


def _mask_of(operation: str, mask: ArrayLike, x: Node) -> Node:
    """The mask, flat, with an element for each one of `x`."""
    node = cast(as_node(mask), BOOL)
    if node.type.size != x.type.size:
        raise ShapeError(
            explain(
                operation,
                "the mask does not have the size of x",
                got={"x": x.type, "mask": node.type},
                expected=f"{x.type.size} elements",
            )
        )
    return flattened(placed(node, x.type.device))


def copyto(
    dst: "Tensor", src: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True
) -> None:
    """Assign `src`, broadcast, to the tensor `dst`, where the mask `where` is true."""
    node = _target("copyto", dst)
    given = as_node(src, like=node) if is_scalar(src) else as_node(src)
    if not can_cast(given.dtype, node.dtype, casting):
        raise DTypeError(
            explain(
                "copyto",
                f"cannot cast {given.dtype} to {node.dtype} with casting={casting!r}",
                got={"dst": node.type, "src": given.type},
                fix="casting='unsafe'",
            )
        )
    written = assign_index(node, ..., cast(given, node.dtype))
    if where is not True:
        mask = as_node(where)
        if mask.dtype != BOOL:
            got: dict[str, object] = {"where": mask.type}
            raise DTypeError(explain("copyto", "where is not a mask", got=got, expected="bool"))
        mask = broadcast_to(placed(mask, node.type.device), node.shape)
        written = OPS["where"](mask, written, node)
    views.assign(dst, written)


def fill_diagonal(x: "Tensor", val: ArrayLike, wrap: bool = False) -> None:
    """Assign `val` to the elements x[k, k, ...]; an array element by element, as often as needed.

    With `wrap`, the diagonal of a tall matrix starts again one row below where it has ended.
    """
    node = _target("fill_diagonal", x)
    rank = len(node.shape)
    if rank < 2 or (rank > 2 and len(set(node.shape)) > 1):
        raise ShapeError(
            explain(
                "fill_diagonal",
                "no diagonal",
                got={"x": node.type},
                expected="two axes, or more of one size",
            )
        )
    # How far apart x[k, k, ...] and x[k + 1, k + 1, ...] are, in row-major order.
    step = sum(int(np.prod(node.shape[k + 1 :], dtype=int)) for k in range(rank))
    stop = None if wrap or rank > 2 else node.shape[1] * node.shape[1]
    places = range(node.type.size)[slice(0, stop, step)] if node.type.size else range(0)
    values = flattened(_values(val, node))
    if not places or not values.type.size:
        return
    values = cycled(values, len(places))
    if rank == 2 and node.shape[0] == node.shape[1]:
        # A choice fuses with what computes the matrix.
        count = len(places)
        number = OPS["iota"](size=count, dtype=INT64)
        is_diagonal = OPS["equal"](reshape(number, (count, 1)), number)
        views.assign(x, OPS["where"](is_diagonal, reshape(values, (count, 1)), node))
        return
    written = assign_index(flattened(node), slice(0, stop, step), values)
    views.assign(x, reshape(written, node.shape))
