"""Functions of numpy.linalg that measure vectors and matrices: norms, condition, rank."""

from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import BOOL, INT64
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.reductions import (
    Axis,
    kept,
    reduced,
    root_with_gradient_0_at_0,
    squared_magnitude,
)
from numba_grad.frontend.functions.shapes import moved_axes
from numba_grad.frontend.inputs.arrays import ArrayLike, as_inexact, as_node, wrap
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.frontend.linear_algebra.linear_systems import (
    hermitian_of_lower,
    matrix_for_lapack,
    rank_of,
    tolerances,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes
from numba_grad.ops.families import broadcast_to, cast, full, reshape
from numba_grad.ops.matrices import as_column, block, diagonal_of, identity

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

Order = float | str | None


@by_types(operands=1)
def norm(x: ArrayLike, ord: Order = None, axis: Axis = None, keepdims: bool = False) -> "Tensor":
    """The norm of vectors, or of matrices.

    Parameters
    ----------
    ord : of vectors: any number, 2 by default; of matrices (two axes): "fro", by default, "nuc", 1,
        -1, 2, -2, inf or -inf
    axis : an axis for vectors, two for matrices; by default all of `x`, which with `ord` must be
        1-d or 2-d

    Raises
    ------
    ValueError
        If there is no such norm, or it is a least number of none.

    Notes
    -----
    Gradient 0 at 0, where 2-norms have a kink. Of several largest or smallest singular values, or
    sums, all share the gradient.
    """
    if isinstance(x, Selection):
        return x.called(norm, (x, ord, axis, keepdims), {})
    node = as_inexact(x)
    rank = len(node.shape)
    if axis is None and ord is not None and rank not in (1, 2):
        raise ShapeError(
            explain("norm", "needs axis= to say what", got={"x": node.type, "ord": ord})
        )
    if axis is None and ord is None:
        return wrap(_vector_norm(node, 2, tuple(range(rank)), keepdims))
    axes = tuple(range(rank)) if axis is None else axis
    if isinstance(axes, tuple) and len(axes) == 2:
        return wrap(_matrix_norm(node, ord, axes, keepdims))
    if isinstance(axes, tuple) and len(axes) != 1:
        problem = "takes one axis, for vectors, or two, for matrices"
        raise ValueError(explain("norm", problem, got={"x": node.type, "axis": axis}))
    return wrap(_vector_norm(node, 2 if ord is None else ord, axes, keepdims))


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> "Tensor":
    """The norm of vectors along `axis`; of all elements by default. Gradient 0 at 0."""
    return wrap(_vector_norm(as_inexact(x), ord, axis, keepdims))


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Order = "fro") -> "Tensor":
    """The norm of the matrices in the last two axes; see `norm`."""
    node = as_inexact(x)
    if len(node.shape) < 2:
        problem, expected = "not a matrix", "(..., m, n)"
        raise ShapeError(explain("matrix_norm", problem, got={"x": node.type}, expected=expected))
    return wrap(_matrix_norm(node, ord, (-2, -1), keepdims))


def _vector_norm(x: Node, ord: Order, axis: Axis, keepdims: bool) -> Node:
    if isinstance(ord, str):
        raise ValueError(explain("norm", f"no vector norm {ord!r}", expected="a number"))
    if ord in (None, 2):
        return root_with_gradient_0_at_0(
            reduced("sum", squared_magnitude(x), axis, keepdims, "norm")
        )
    size = OPS["absolute"](x)
    if ord in (np.inf, -np.inf):
        is_nan = OPS["isnan"](size)
        numbers = OPS["where"](is_nan, full(0, (), size.dtype), size)
        if ord == np.inf:
            found = _largest(numbers, axis, keepdims)
        else:
            found = reduced("min", numbers, axis, keepdims, "norm")
        # nan has the gradient 0 here, as in PyTorch; that of `max` is nan.
        has_nan = reduced("any", is_nan, axis, keepdims, "norm")
        return OPS["where"](has_nan, full(np.nan, (), size.dtype), found)
    if ord == 0:
        is_nonzero = cast(cast(x, BOOL), size.dtype)
        return reduced("sum", is_nonzero, axis, keepdims, "norm")
    if ord == 1:
        return reduced("sum", size, axis, keepdims, "norm")
    powers = _powers(size, ord) if ord < 1 else OPS["power"](size, _constant(ord, size))
    total = reduced("sum", powers, axis, keepdims, "norm")
    exponent = _constant(1 / ord, total)
    if ord < 0:
        return OPS["power"](total, exponent)
    # At 0 the slope of the root is infinite. As in `root_with_gradient_0_at_0`.
    zero = full(0, (), total.dtype)
    is_zero = OPS["equal"](total, zero)
    root = OPS["power"](OPS["where"](is_zero, full(1, (), total.dtype), total), exponent)
    return OPS["where"](is_zero, zero, root)


def _powers(sizes: Node, ord: float) -> Node:
    """`sizes` to a power below 1, whose slope at 0 is infinite, with the slope 0 there."""
    is_zero = OPS["equal"](sizes, full(0, (), sizes.dtype))
    others = OPS["where"](is_zero, full(1, (), sizes.dtype), sizes)
    powers = OPS["power"](others, _constant(ord, sizes))
    return OPS["where"](is_zero, full(0 if ord > 0 else np.inf, (), sizes.dtype), powers)


def _largest(sizes: Node, axis: Axis, keepdims: bool = False) -> Node:
    """The largest of numbers that are not negative; of none of them 0, as in NumPy."""
    axes = normalize_axes("norm", axis, len(sizes.shape))
    is_empty = 0 in [sizes.shape[k] for k in axes]
    return reduced("sum" if is_empty else "max", sizes, axis, keepdims, "norm")


def _constant(value: float, like: Node) -> Node:
    return broadcast_to(as_node(float(value), like=like), ())


def _matrix_norm(x: Node, ord: Order, axes: Axis, keepdims: bool) -> Node:
    rank = len(x.shape)
    normalize_axes("norm", axes, rank)  # raises on repeated ones
    row, column = (axis % rank for axis in axes)  # type: ignore[union-attr]
    if ord in (None, "fro"):
        return _vector_norm(x, 2, (row, column), keepdims)
    if ord in ("nuc", 2, -2):
        values = OPS["svdvals"](matrix_for_lapack("norm", moved_axes(x, [row, column], [-2, -1])))
        if ord == 2:
            result = _largest(values, -1)
        else:
            result = reduced("sum" if ord == "nuc" else "min", values, -1, operation="norm")
        return kept(result, x, (row, column)) if keepdims else result
    if ord not in (1, -1, np.inf, -np.inf):
        expected = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise ValueError(explain("norm", f"no matrix norm {ord!r}", expected=expected))
    summed, compared = (row, column) if ord in (1, -1) else (column, row)
    totals = reduced("sum", OPS["absolute"](x), summed, True)
    if ord > 0:
        result = _largest(totals, compared, True)
    else:
        result = reduced("min", totals, compared, True, "norm")
    if keepdims:
        return result
    return reshape(result, tuple([n for k, n in enumerate(x.shape) if k not in (row, column)]))


def cond(x: ArrayLike, p: Order = None) -> "Tensor":
    """The condition number: the norm of each matrix times that of its inverse.

    Parameters
    ----------
    x : Tensor, (..., m, n); square but for p in (None, 2, -2)
    p : None or 2 for the quotient of the largest and the smallest singular value, -2 for the
        inverse of that; else as `ord` of `norm`

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix has no element, or is not square where it must be.

    Notes
    -----
    inf for singular matrices, as in NumPy.
    """
    matrix = matrix_for_lapack("cond", x)
    got: dict[str, object] = {"x": matrix.type, "p": p}
    if matrix.type.size == 0 and 0 in matrix.shape[-2:]:
        raise np.linalg.LinAlgError(explain("cond", "not defined on empty arrays", got=got))
    if p in (None, 2, -2):
        values = OPS["svdvals"](matrix)
        k = values.shape[-1]
        row = reshape(values, (*values.shape[:-1], 1, k))
        largest, smallest = block(row, 0, 1, 0, 1), block(row, 0, 1, k - 1, 1)
        pair = (smallest, largest) if p == -2 else (largest, smallest)
        return wrap(_without_new_nan(reshape(OPS["divide"](*pair), values.shape[:-1]), matrix))
    n = matrix.shape[-1]
    if matrix.shape[-2] != n:
        raise np.linalg.LinAlgError(explain("cond", "not square", got=got, expected="(..., n, n)"))
    # A pivot of 0 is what `solve` would raise on. Such a matrix is not inverted at all.
    pivots = diagonal_of(block(OPS["lu"](OPS["detach"](matrix)), 0, n, 0, n))
    zero = full(0, (), pivots.dtype)
    is_singular = reduced("any", OPS["equal"](pivots, zero), -1)
    unit = identity(n, matrix.dtype)
    regular = OPS["where"](
        broadcast_to(as_column(as_column(is_singular)), matrix.shape), unit, matrix
    )
    inverse = OPS["solve"](regular, unit)
    product = OPS["multiply"](
        _matrix_norm(matrix, p, (-2, -1), False), _matrix_norm(inverse, p, (-2, -1), False)
    )
    infinite = full(np.inf, (), product.dtype)
    return wrap(_without_new_nan(OPS["where"](is_singular, infinite, product), matrix))


def _without_new_nan(numbers: Node, matrix: Node) -> Node:
    """inf where nan came from 0 / 0 or 0 * inf, not from the matrix."""
    is_given = reduced("any", OPS["isnan"](matrix), (-2, -1))
    is_new = OPS["logical_and"](OPS["isnan"](numbers), OPS["logical_not"](is_given))
    return OPS["where"](is_new, full(np.inf, (), numbers.dtype), numbers)


def matrix_rank(
    A: ArrayLike,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> "Tensor":
    """How many singular values are not 0: int64, without gradient.

    Parameters
    ----------
    A : Tensor, (..., m, n); of less than two axes, the rank is whether anything is not 0
    tol : singular values up to that count as 0: a number, or one for each matrix
    rtol : instead of `tol`, relative to the largest one; by default machine precision times
        max(m, n)
    hermitian : take the matrix for Hermitian, by its lower triangle
    """
    if tol is not None and rtol is not None:
        raise ValueError(explain("matrix_rank", "tol= and rtol= are given, which is one too many"))
    node = as_node(A)
    if len(node.shape) < 2:
        return wrap(cast(reduced("any", cast(node, BOOL), None), INT64))
    matrix = matrix_for_lapack("matrix_rank", node)
    if hermitian:
        matrix = hermitian_of_lower("matrix_rank", matrix)
    values = OPS["svdvals"](matrix)
    if tol is None:
        return wrap(rank_of(values, tolerances("matrix_rank", matrix, rtol)))
    limit = as_column(tolerances("matrix_rank", matrix, tol))
    return wrap(reduced("sum", cast(OPS["greater"](values, limit), INT64), -1))
