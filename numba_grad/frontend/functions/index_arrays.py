"""Functions of NumPy that make arrays of indices: of triangles, of grids, of flat positions."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import INT64
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.creation import Shape, as_shape
from numba_grad.frontend.functions.indexing import brought_into_range, nonzero
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    known_value,
    wrap,
)
from numba_grad.graph.node import OPS, Node, leaf, numbers
from numba_grad.graph.types import broadcast_shapes
from numba_grad.ops.families import broadcast_to, cast, reshape
from numba_grad.ops.indexing import gather

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "diag_indices",
    "diag_indices_from",
    "indices",
    "ix_",
    "mask_indices",
    "mgrid",
    "ogrid",
    "ravel_multi_index",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]


def _tensors(arrays: Sequence[np.ndarray]) -> "tuple[Tensor, ...]":
    return tuple([wrap(numbers(np.ascontiguousarray(array))) for array in arrays])


# Triangles and diagonals


def tril_indices(n: int, k: int = 0, m: int | None = None) -> "tuple[Tensor, ...]":
    """Rows and columns of the elements at and below diagonal number `k` of an n by m matrix."""
    return _tensors(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> "tuple[Tensor, ...]":
    """Rows and columns of the elements at and above diagonal number `k` of an n by m matrix."""
    return _tensors(np.triu_indices(n, k, m))


def tril_indices_from(x: ArrayLike, k: int = 0) -> "tuple[Tensor, ...]":
    """As `tril_indices`, for a matrix of the shape of `x`."""
    rows, columns = _matrix_shape("tril_indices_from", x)
    return tril_indices(rows, k, columns)


def triu_indices_from(x: ArrayLike, k: int = 0) -> "tuple[Tensor, ...]":
    """As `triu_indices`, for a matrix of the shape of `x`."""
    rows, columns = _matrix_shape("triu_indices_from", x)
    return triu_indices(rows, k, columns)


def _matrix_shape(operation: str, x: ArrayLike) -> tuple[int, int]:
    node = as_node(x)
    if len(node.shape) != 2:
        raise ShapeError(explain(operation, "not a matrix", got={"x": node.type}))
    return node.shape[0], node.shape[1]


def diag_indices(n: int, ndim: int = 2) -> "tuple[Tensor, ...]":
    """The indices of the diagonal of an array with `ndim` axes of size `n`."""
    return tuple([wrap(OPS["iota"](size=operator.index(n), dtype=INT64)) for _ in range(ndim)])


def diag_indices_from(x: ArrayLike) -> "tuple[Tensor, ...]":
    """As `diag_indices`, for an array of the shape of `x`."""
    node = as_node(x)
    if len(node.shape) < 2 or len(set(node.shape)) > 1:
        raise ShapeError(
            explain(
                "diag_indices_from",
                "no diagonal",
                got={"x": node.type},
                expected="two axes or more, all of one size",
            )
        )
    return diag_indices(node.shape[0], len(node.shape))


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> "tuple[Tensor, ...]":
    """Where `mask_func(ones((n, n)), k)`, a function such as `triu`, is not 0."""
    return nonzero(mask_func(wrap(leaf(np.ones((n, n), np.int64))), k))


# Grids


def ix_(*sequences: ArrayLike) -> "tuple[Tensor, ...]":
    """Indices of every combination: x[ng.ix_([0, 2], [1, 3])] is 2 by 2. Masks are computed now."""
    results = []
    for number, sequence in enumerate(sequences):
        node = as_node(sequence)
        if len(node.shape) != 1:
            got: dict[str, object] = {f"sequence {number}": node.type}
            raise ShapeError(explain("ix_", "not 1-d", got=got))
        if node.dtype.kind == "b":
            node = as_node(nonzero(node)[0])
        if not node.type.size:
            node = cast(node, INT64)
        shape = [1] * len(sequences)
        shape[number] = node.type.size
        results.append(wrap(reshape(node, tuple(shape))))
    return tuple(results)


def indices(
    dimensions: Sequence[int], dtype: object = int, sparse: bool = False
) -> "Tensor | tuple[Tensor, ...]":
    """The index along each axis, over an array of these sizes: (number of axes, *dimensions).

    With `sparse`, a tuple with one tensor for each axis, of size 1 along the others.
    """
    shape = as_shape("indices", dimensions)
    wanted = as_optional_dtype(dtype) or INT64
    grids = []
    for axis, size in enumerate(shape):
        alone = tuple([size if k == axis else 1 for k in range(len(shape))])
        grids.append(cast(reshape(OPS["iota"](size=size, dtype=INT64), alone), wanted))
    if sparse:
        return tuple([wrap(grid) for grid in grids])
    if not grids:
        return wrap(leaf(np.zeros((0,), wanted)))
    rows = [reshape(broadcast_to(grid, shape), (1, *shape)) for grid in grids]
    return wrap(OPS["concatenate"](*rows, axis=0))


class _Grid:
    """`mgrid` or `ogrid`: a grid of coordinates, written as slices.

    A step j, as in `ng.mgrid[0:1:5j]`, is a number of points, the last included. Numbers only: the
    coordinates have no gradient.
    """

    __slots__ = ("_numpys",)

    def __init__(self, numpys: Any) -> None:
        self._numpys = numpys

    def __getitem__(self, key: Any) -> Any:
        grids = self._numpys[key]
        return _tensors(grids) if isinstance(grids, tuple) else _tensors([grids])[0]


mgrid = _Grid(np.mgrid)
ogrid = _Grid(np.ogrid)


# Positions


def unravel_index(indices: ArrayLike, shape: Shape, order: str = "C") -> "tuple[Tensor, ...]":
    """The index along each axis of elements that are given by their numbers in row-major order.

    With order="F", in column-major order.

    Raises
    ------
    ValueError
        If a number is out of range. For numbers that are not known yet, an IndexError when they are
        computed.
    """
    sizes = as_shape("unravel_index", shape)
    node = _positions("unravel_index", "indices", indices)
    node = _checked("unravel_index", "indices", node, math.prod(sizes))
    results: list[Node] = []
    for size in _from_the_fastest(sizes, order, "unravel_index"):
        results.append(OPS["remainder"](node, as_node(size)))
        node = OPS["floor_divide"](node, as_node(size))
    return tuple([wrap(result) for result in (results[::-1] if order == "C" else results)])


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Shape,
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> "Tensor":
    """The numbers, in row-major order, of elements that are given by an index along each axis.

    `mode`, one or one for each axis, is what to do with an index out of range: "raise", "wrap"
    around, or "clip". With order="F", in column-major order.

    Raises
    ------
    ValueError
        If an index is out of range. For indices that are not known yet, an IndexError when they are
        computed.
    """
    operation = "ravel_multi_index"
    sizes = as_shape(operation, dims)
    if len(multi_index) != len(sizes):
        raise ValueError(
            explain(
                operation,
                "needs an index for each axis",
                got={"indices": len(multi_index), "dims": sizes},
            )
        )
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    nodes = []
    for axis, (given, size, how) in enumerate(zip(multi_index, sizes, modes, strict=True)):
        name = f"index of axis {axis}"
        node = _positions(operation, name, given)
        if how == "raise":
            nodes.append(_checked(operation, name, node, size))
        else:
            nodes.append(brought_into_range(operation, node, size, how))
    names = [f"index of axis {axis}" for axis in range(len(nodes))]
    shape = broadcast_shapes(operation, names, [node.type for node in nodes])
    faster = _from_the_fastest(sizes, order, operation)
    total, stride = as_node(0), 1
    for node, size in zip(nodes[::-1] if order == "C" else nodes, faster, strict=True):
        total = OPS["add"](total, OPS["multiply"](node, as_node(stride)))
        stride *= size
    return wrap(broadcast_to(total, shape))


def _from_the_fastest(sizes: tuple[int, ...], order: str, operation: str) -> tuple[int, ...]:
    """The sizes of the axes, from the one along which neighbours have neighbouring numbers."""
    if order not in ("C", "F"):
        raise ValueError(explain(operation, f"order={order!r}", expected="'C' or 'F'"))
    return sizes[::-1] if order == "C" else sizes


def _positions(operation: str, name: str, given: ArrayLike) -> Node:
    node = as_node(given)
    if node.dtype.kind not in "iu" and node.type.size:
        raise DTypeError(
            explain(operation, "not integers", got={name: node.type}, expected="an integer dtype")
        )
    return cast(node, INT64)


def _checked(operation: str, name: str, node: Node, size: int) -> Node:
    """`node`, whose integers are from 0 to size - 1: now, or when they are computed."""
    known = known_value(node)
    if known is None:
        # A lookup in 0, 1, 2, ... is the integer itself, and refuses one that is out of range.
        negative = OPS["less"](node, as_node(0))
        index = OPS["where"](negative, as_node(size), node)
        return gather(OPS["iota"](size=size, dtype=INT64), index, checked=True)
    bad = (known < 0) | (known >= size)
    if bad.any():
        raise ValueError(
            explain(
                operation,
                f"index {known[bad][0]} is out of range",
                got={name: node.type, "size": size},
                expected=f"0 <= index < {size}",
            )
        )
    return node
