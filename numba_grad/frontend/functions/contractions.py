"""Functions of NumPy that multiply and sum: matrix products and their generalizations.

All come down to the primitive `matmul` on stacks of matrices, or to a fused product and sum where
each result is one dot product.
"""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.autograd.views import view_of
from numba_grad.compiler.partition.roles import MOST_WINDOWS, REARRANGEMENTS, RENAMINGS
from numba_grad.dtypes import BOOL, INT64
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.reductions import sum as sum_of
from numba_grad.frontend.functions.shapes import moved_axes
from numba_grad.frontend.inputs.arrays import ArrayLike, as_arrays, as_node, operands, wrap
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.families import axes_params, broadcast_to, flattened, full, reshape
from numba_grad.ops.index_expressions import take_index

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "diag",
    "diagflat",
    "diagonal",
    "dot",
    "inner",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]

FEW = 16  # elements that are written out
_SMALL_MATRIX = 1 << 10  # elements, of which a copy takes no longer than a call


@by_types(operands=2, reads_history=True)
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The matrix product of the last two axes; the axes before them broadcast.

    A 1-d `x1` is a row, a 1-d `x2` a column; that axis is not in the result.

    Raises
    ------
    ShapeError
        If the last axis of `x1` and the last but one of `x2` differ, or for 0-d operands.
    """
    x, y = operands(np.matmul, (x1, x2))
    if not x.shape or not y.shape or x.shape[-1] != y.shape[max(len(y.shape) - 2, 0)]:
        raise ShapeError(
            explain(
                "matmul",
                "shapes do not fit",
                got={"x1": x.type, "x2": y.type},
                expected="(..., m, k) and (..., k, n), or (k,) in place of one of them",
                fix=_matmul_fix(x, y),
            )
        )
    if len(x.shape) == len(y.shape) == 1:
        return wrap(sum_of_products(x, y, 0))
    is_row, is_column = len(x.shape) == 1 and len(y.shape) == 2, len(y.shape) == 1
    if (is_column and is_stencil(x, y)) or (is_row and is_stencil(y, x)):
        return tensordot(x, y, 1)
    is_small = len(x.shape) > 2 and math.prod(x.shape[-2:]) <= _SMALL_MATRIX
    if is_small and len(y.shape) == 2 and x.op.name == "slice":
        # Copied, it is one product: in memory as it is, each matrix has a call of its own.
        rows = reshape(x, (math.prod(x.shape[:-1]), y.shape[0]))
        return wrap(reshape(OPS["matmul"](rows, y), (*x.shape[:-1], y.shape[1])))
    left = reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    right = reshape(y, (*y.shape, 1)) if len(y.shape) == 1 else y
    result = record(OPS["matmul"], (left, right))
    shape = list(result.shape)
    if len(y.shape) == 1:
        del shape[-1]
    if len(x.shape) == 1:
        del shape[-2 + (len(y.shape) == 1)]
    return wrap(reshape(result, tuple(shape)))


def _matmul_fix(x: Node, y: Node) -> str:
    if not x.shape or not y.shape:
        return "x1 * x2, where one is a scalar"
    turned_fits = len(y.shape) > 1 and x.shape[-1] == y.shape[-1]
    return "x1 @ x2.mT" if turned_fits else ""


def sum_of_products(x: Node, y: Node, axis: int) -> Node:
    """sum(x * y) over one axis, in the dtype of both."""
    product = record(OPS["multiply"], (x, y))
    op = OPS["any" if product.dtype == BOOL else "sum"]
    return record(op, (product,), axes_params((axis,)))


@by_types(operands=2, reads_history=True)
def dot(x1: ArrayLike, x2: ArrayLike) -> "Tensor":
    """The product over the last axis of `x1` and the last but one (or only) axis of `x2`.

    For matrices and vectors that is `matmul`, for scalars `multiply`.
    """
    x, y = as_arrays((x1, x2))
    if not x.shape or not y.shape:
        return wrap(OPS["multiply"](x, y))
    if len(x.shape) <= 2 and len(y.shape) <= 2:
        return matmul(x, y)
    return tensordot(x, y, ([-1], [max(len(y.shape) - 2, 0)]))


@by_types(operands=2, reads_history=True)
def vdot(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """sum(conj(x1) * x2) over all elements."""
    x, y = (flattened(node) for node in as_arrays((x1, x2)))
    return vecdot(x, y)


@by_types(operands=2, reads_history=True)
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> "Tensor":
    """sum(conj(x1) * x2) over `axis`; the other axes broadcast."""
    x, y = operands(np.vecdot, (x1, x2))
    sides = []
    for name, node in (("x1", x), ("x2", y)):
        if not node.shape:
            raise ShapeError(explain("vecdot", "needs an axis", got={name: node.type}))
        number = normalize_axis("vecdot", axis, len(node.shape))
        sides.append(moved_axes(node, number, -1))
    x, y = sides
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            explain(
                "vecdot",
                "the axis has different sizes",
                got={"x1": x.type, "x2": y.type, "axis": axis},
            )
        )
    if x.dtype.kind == "c":
        x = OPS["conjugate"](x)
    return wrap(sum_of_products(x, y, max(len(x.shape), len(y.shape)) - 1))


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The products of matrices and vectors, the last two axes and the last; those before broadcast.

    Raises
    ------
    ShapeError
        If the last axes differ, or there are too few.
    """
    x, y = operands(np.matvec, (x1, x2))
    if len(x.shape) < 2 or not y.shape or x.shape[-1] != y.shape[-1]:
        raise _vector_error("matvec", x, y, "(..., m, n) and (..., n)")
    column = OPS["matmul"](x, reshape(y, (*y.shape, 1)))
    return wrap(reshape(column, column.shape[:-1]))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The products of vectors, complex conjugated, and matrices, the last axis and the last two;
    those before broadcast.

    Raises
    ------
    ShapeError
        If the last axis of `x1` and the last but one of `x2` differ, or there are too few.
    """
    x, y = operands(np.vecmat, (x1, x2))
    if len(y.shape) < 2 or not x.shape or x.shape[-1] != y.shape[-2]:
        raise _vector_error("vecmat", x, y, "(..., n) and (..., n, m)")
    if x.dtype.kind == "c":
        x = OPS["conjugate"](x)
    row = OPS["matmul"](reshape(x, (*x.shape[:-1], 1, x.shape[-1])), y)
    return wrap(reshape(row, (*row.shape[:-2], row.shape[-1])))


def _vector_error(operation: str, x: Node, y: Node, expected: str) -> ShapeError:
    got: dict[str, object] = {"x1": x.type, "x2": y.type}
    return ShapeError(explain(operation, "shapes do not fit", got=got, expected=expected))


@by_types(operands=2, reads_history=True)
def inner(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The product over the last axes of both."""
    x, y = as_arrays((x1, x2))
    if not x.shape or not y.shape:
        return wrap(OPS["multiply"](x, y))
    return tensordot(x, y, ([-1], [-1]))


def outer(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """x1[i] * x2[j] for all elements of both."""
    x, y = as_arrays((x1, x2))
    return wrap(OPS["multiply"](reshape(x, (x.type.size, 1)), reshape(y, (1, y.type.size))))


@by_types(operands=2, reads_history=True)
def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    axes: int | Sequence[int | Sequence[int]] = 2,
) -> "Tensor":
    """Products summed over some axes of `x1` and as many of `x2`.

    Parameters
    ----------
    axes : (axes of x1, axes of x2) in pairs; or n for the last n of `x1` and the first n of `x2`
    """
    x, y = as_arrays((x1, x2))
    x_axes, y_axes = _paired_axes(x, y, axes)
    x_free = [k for k in range(len(x.shape)) if k not in x_axes]
    y_free = [k for k in range(len(y.shape)) if k not in y_axes]
    shape = tuple([x.shape[k] for k in x_free] + [y.shape[k] for k in y_free])
    shared = math.prod([x.shape[k] for k in x_axes])
    if is_stencil(x, y) and not y_free:
        return wrap(stencil(in_order(x, (*x_free, *x_axes)), in_order(y, tuple(y_axes))))
    if is_stencil(y, x) and not x_free:
        return wrap(stencil(in_order(y, (*y_free, *y_axes)), in_order(x, tuple(x_axes))))
    left = reshape(
        in_order(x, (*x_free, *x_axes)), (math.prod([x.shape[k] for k in x_free]), shared)
    )
    right = reshape(
        in_order(y, (*y_axes, *y_free)), (shared, math.prod([y.shape[k] for k in y_free]))
    )
    if not shape:
        flat = (reshape(left, (shared,)), reshape(right, (shared,)))
        return wrap(sum_of_products(*flat, 0))
    return wrap(reshape(OPS["matmul"](left, right), shape))


def is_stencil(x: Node, weights: Node) -> bool:
    """Whether the product with all of these few weights had better be sums in a loop, as `x` is a
    stack of arrays, or of slices of one, which then is never stored."""
    size = weights.type.size
    if size > MOST_WINDOWS or x.dtype != weights.dtype or x.dtype.char not in "fdFD":
        return False
    while x.op.name in REARRANGEMENTS and x.inputs:  # none once it is computed
        x = x.inputs[0]
    if x.op.name != "concatenate" or x.value is not None:
        return False
    axis, count = x.params["axis"], len(x.inputs)
    if x.shape[axis] != count or size % count:
        return False  # not along what is summed, most likely
    if count <= FEW:
        return size <= 2 * FEW
    others = [n for k, n in enumerate(x.shape) if k != axis and n != 1]
    windows = len([*filter(_is_window, x.inputs)])
    return size == count and min(others, default=0) > FEW and 2 * windows > count


def _is_window(x: Node) -> bool:
    """Whether an array is elements of another one, which are read there."""
    while x.op.name in ("reshape", *RENAMINGS) and x.inputs:
        (x,) = x.inputs
    return x.op.name in REARRANGEMENTS


def stencil(x: Node, weights: Node) -> Node:
    """The products with `weights` of the last axes of `x`, summed."""
    rank, count = len(x.shape), len(weights.shape)
    spread = reshape(weights, (*[1] * (rank - count), *weights.shape))
    axes = tuple(range(rank - count, rank))
    return record(OPS["sum"], (record(OPS["multiply"], (x, spread)),), axes_params(axes))


def _paired_axes(
    x: Node, y: Node, axes: int | Sequence[int | Sequence[int]]
) -> tuple[list[int], list[int]]:
    rank = len(x.shape)
    if isinstance(axes, Iterable):
        first, second = axes
        pair = [list(side) if isinstance(side, Iterable) else [side] for side in (first, second)]
    else:
        pair = [list(range(rank - axes, rank)), list(range(axes))]
    x_axes = [normalize_axis("tensordot", k, rank) for k in pair[0]]
    y_axes = [normalize_axis("tensordot", k, len(y.shape)) for k in pair[1]]
    sizes = [x.shape[k] for k in x_axes], [y.shape[k] for k in y_axes]
    if sizes[0] != sizes[1] or len(set(x_axes)) != len(x_axes) or len(set(y_axes)) != len(y_axes):
        raise ShapeError(
            explain(
                "tensordot",
                "the axes to sum over do not fit",
                got={"x1": x.type, "x2": y.type, "axes": (x_axes, y_axes)},
                expected="as many different axes of both, of equal sizes in order",
            )
        )
    return x_axes, y_axes


def in_order(x: Node, axes: tuple[int, ...]) -> Node:
    return x if axes == tuple(range(len(axes))) else OPS["transpose"](x, axes=axes)


# Diagonals


@by_types(operands=1)
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
    """The elements of diagonal number `offset` of two axes, along a new last axis. As in NumPy a
    view that nothing can be assigned to."""
    node = as_node(x)
    if len(node.shape) < 2:
        raise ShapeError(explain("diagonal", "needs two axes", got={"x": node.type}))
    axes = [normalize_axis("diagonal", axis, len(node.shape)) for axis in (axis1, axis2)]
    return view_of(x, diagonal_last(moved_axes(node, axes, [-2, -1]), offset))


def diagonal_last(x: Node, offset: int = 0) -> Node:
    """A diagonal of the last two axes, along the last."""
    rows = np.arange(max(-offset, 0), x.shape[-2])
    rows = rows[: max(x.shape[-1] - max(offset, 0), 0)]
    return take_index(x, (Ellipsis, rows, rows + offset))


@by_types(operands=1)
def trace(
    x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: object = None
) -> "Tensor":
    """The sum of a diagonal of two axes."""
    return sum_of(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


@by_types(operands=1)
def diag(x: ArrayLike, k: int = 0) -> "Tensor":
    """Diagonal number `k` of a matrix; or the matrix with `x`, 1-d, as that diagonal."""
    node, k = as_node(x), operator.index(k)
    if len(node.shape) == 2:
        return diagonal(x, k)
    if len(node.shape) != 1:
        raise ShapeError(explain("diag", "not 1-d or 2-d", got={"x": node.type}))
    size = node.shape[0] + abs(k)
    columns = reshape(OPS["iota"](size=size, dtype=INT64), (1, size))
    rows = reshape(OPS["iota"](size=size, dtype=INT64), (size, 1))
    from_row = max(-k, 0)
    spread = OPS["pad"](node, low=(from_row,), high=(max(k, 0),), interior=(0,))
    on_diagonal = OPS["equal"](OPS["subtract"](columns, rows), as_node(k))
    spread = broadcast_to(reshape(spread, (size, 1)), (size, size))
    return wrap(OPS["where"](on_diagonal, spread, full(0, (), node.dtype)))


def diagflat(x: ArrayLike, k: int = 0) -> "Tensor":
    """The matrix with all elements of `x`, in row-major order, as its diagonal number `k`."""
    node = as_node(x)
    return diag(flattened(node), k)
