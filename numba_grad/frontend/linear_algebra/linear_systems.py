"""Functions of numpy.linalg and scipy.linalg that solve linear equations."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import FLOAT64, INT64, is_storage_only
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.reductions import reduced, squared_magnitude
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, common_dtype, wrap
from numba_grad.frontend.inputs.caught_errors import may_be_singular
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.immutable import NamedTuple
from numba_grad.ops import singular_values  # noqa: F401 - fills OPS
from numba_grad.ops.contraction import conjugate_transpose, matmul, matrix_transpose
from numba_grad.ops.factorizations import inverse_order, permutation, rows_in_order
from numba_grad.ops.families import broadcast_to, cast, full, real_dtype, reshape
from numba_grad.ops.linalg import solve_system
from numba_grad.ops.matrices import as_column, block, identity
from numba_grad.ops.triangles import matrix_of_triangle

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


class LstsqResult(NamedTuple):
    """What `lstsq` returns: as NumPy's tuple, with names."""

    solution: "Tensor"
    residuals: "Tensor"
    rank: "Tensor"
    singular_values: "Tensor"


def for_lapack(operation: str, *arrays: ArrayLike) -> tuple[Node, ...]:
    """Nodes of one dtype that LAPACK has."""
    nodes = common_dtype(arrays)
    if nodes[0].dtype.kind in "bui":
        return tuple([cast(node, FLOAT64) for node in nodes])
    if is_storage_only(nodes[0].dtype):
        raise DTypeError(
            explain(
                operation,
                f"{nodes[0].dtype.name} is not supported",
                got={f"argument {k}": node.type for k, node in enumerate(nodes)},
                fix="x.astype(numpy.float32)",
            )
        )
    return nodes


def _without_integers(*arrays: ArrayLike) -> list[Node]:
    """Integers are float64 here, in NumPy, also beside float32."""
    nodes = [as_node(x) for x in arrays]
    return [cast(node, FLOAT64) if node.dtype.kind in "bui" else node for node in nodes]


def matrix_for_lapack(operation: str, a: ArrayLike) -> Node:
    """As `for_lapack`, of matrices."""
    (matrix,) = for_lapack(operation, a)
    if len(matrix.shape) < 2:
        problem, expected = "not a matrix", "(..., m, n)"
        raise np.linalg.LinAlgError(
            explain(operation, problem, got={"a": matrix.type}, expected=expected)
        )
    return matrix


@may_be_singular
def solve(a: ArrayLike, b: ArrayLike, /) -> "Tensor":
    """The x with a @ x = b, by LU factorization.

    Parameters
    ----------
    a : Tensor, (..., n, n)
    b : Tensor, (n,) for one vector, else (..., n, k)

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if it is singular.
    """
    matrix, right = for_lapack("solve", *_without_integers(a, b))
    if len(right.shape) != 1:
        return wrap(solve_system(matrix, right))
    solution = solve_system(matrix, reshape(right, (*right.shape, 1)))
    return wrap(reshape(solution, solution.shape[:-1]))


@may_be_singular
def inv(a: ArrayLike, /) -> "Tensor":
    """The inverse of each matrix. `solve(a, b)` is faster and more accurate than `inv(a) @ b`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if it is singular.
    """
    return wrap(OPS["inv"](matrix_for_lapack("inv", a)))


@may_be_singular
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> "Tensor":
    """The x with a @ x = b for triangular `a`, of which only the one triangle is read.

    Parameters
    ----------
    a : Tensor, (..., n, n)
    b : Tensor, (n,) for one vector, else (..., n, k)
    trans : 0 or "N" for a, 1 or "T" for its transpose, 2 or "C" for its conjugate transpose
    lower : whether `a` is lower triangular
    unit_diagonal : whether the diagonal counts as ones, whatever it holds

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if there is a zero on its diagonal.
    """
    matrix, right = for_lapack("solve_triangular", a, b)
    turned = _turned("solve_triangular", matrix, trans)
    is_vector = len(right.shape) == 1
    solution = OPS["solve_triangular"](
        turned,
        as_column(right) if is_vector else right,
        lower=bool(lower) != (turned is not matrix),
        unit_diagonal=bool(unit_diagonal),
    )
    return wrap(reshape(solution, solution.shape[:-1]) if is_vector else solution)


def _turned(operation: str, a: Node, trans: int | str) -> Node:
    """The matrix, its transpose or its conjugate transpose, by SciPy's `trans`."""
    if trans in (0, "N"):
        return a
    if len(a.shape) < 2:
        got: dict[str, object] = {"a": a.type}
        raise np.linalg.LinAlgError(explain(operation, "not a matrix", got=got))
    if trans in (1, "T"):
        return matrix_transpose(a)
    if trans in (2, "C"):
        return conjugate_transpose(a)
    raise ValueError(explain(operation, f"trans={trans!r}", expected="0, 1, 2, 'N', 'T' or 'C'"))


# LU


def lu_factor(a: ArrayLike) -> "tuple[Tensor, Tensor]":
    """The LU factorization with row exchanges, as SciPy's: for `lu_solve`.

    Parameters
    ----------
    a : Tensor, (..., m, n)

    Returns
    -------
    lu : Tensor, (..., m, n)
        U in the upper triangle, and below it L, whose diagonal is ones.
    piv : Tensor, (..., min(m, n)), int32
        Row i was exchanged with row piv[i], in turn.

    Notes
    -----
    A singular matrix is no error. Its factors have no gradient: that raises LinAlgError.
    """
    packed = OPS["lu"](matrix_for_lapack("lu_factor", a))
    m, n = packed.shape[-2], packed.shape[-1] - 1
    pivots = block(packed, 0, min(m, n), n, 1)
    real = OPS["real"](pivots) if pivots.dtype.kind == "c" else pivots
    whole = cast(reshape(real, pivots.shape[:-1]), np.dtype(np.int32))
    return wrap(block(packed, 0, m, 0, n)), wrap(whole)


@may_be_singular
def lu_solve(
    lu_and_piv: "tuple[ArrayLike, ArrayLike]", b: ArrayLike, trans: int | str = 0
) -> "Tensor":
    """The x with a @ x = b, from `lu_factor(a)`.

    Parameters
    ----------
    lu_and_piv : (..., n, n) and (..., n), as `lu_factor` returns
    b : Tensor, (n,) for one vector, else (..., n, k)
    trans : 0 for a, 1 for its transpose, 2 for its conjugate transpose

    Raises
    ------
    numpy.linalg.LinAlgError
        When computed, if `a` is singular, or a pivot is not the number of a row.
    """
    lu, piv = lu_and_piv
    factors, right = for_lapack("lu_solve", lu, b)
    pivots = as_node(piv)
    if len(factors.shape) < 2 or pivots.shape != factors.shape[:-1]:
        problem = "lu and piv do not fit together"
        got: dict[str, object] = {"lu": factors.type, "piv": pivots.type}
        expected = "(..., n, n) and (..., n)"
        raise ShapeError(explain("lu_solve", problem, got=got, expected=expected))
    order = permutation(cast(pivots, INT64), rows=factors.shape[-2])
    is_vector = len(right.shape) == 1
    column = as_column(right) if is_vector else right
    if column.shape[-2] != factors.shape[-1]:
        problem = "b does not have as many rows as lu"
        got = {"lu": factors.type, "b": right.type}
        raise ShapeError(explain("lu_solve", problem, got=got))
    turned = _turned("lu_solve", factors, trans)
    triangular = OPS["solve_triangular"]
    if turned is factors:
        steps = ((True, True), (False, False))
        column = rows_in_order(column, order)
    else:
        steps = ((True, False), (False, True))
    for lower, unit_diagonal in steps:
        column = triangular(turned, column, lower=lower, unit_diagonal=unit_diagonal)
    if turned is not factors:
        column = rows_in_order(column, inverse_order(order))
    return wrap(reshape(column, column.shape[:-1]) if is_vector else column)


# Least squares


def _default_tolerance(matrix: Node) -> float:
    return float(np.finfo(matrix.dtype).eps) * max(matrix.shape[-2:])


def tolerances(operation: str, matrix: Node, rtol: ArrayLike | None) -> Node:
    """A relative tolerance for each matrix: rounding, by default. Without gradient."""
    dtype = real_dtype(matrix.dtype)
    if rtol is None:
        rtol = _default_tolerance(matrix)
    node = as_node(rtol)
    if node.dtype.kind == "c":
        problem = "a tolerance must be real"
        raise DTypeError(explain(operation, problem, got={"rtol": node.type}))
    try:
        return broadcast_to(OPS["detach"](cast(node, dtype)), matrix.shape[:-2])
    except ShapeError:
        problem = "as many tolerances as matrices are needed, or one"
        got: dict[str, object] = {"a": matrix.type, "rtol": node.type}
        raise ShapeError(explain(operation, problem, got=got)) from None


@may_be_singular
def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> LstsqResult:
    """The shortest x that minimizes the norm of a @ x - b, by singular values.

    Parameters
    ----------
    a : Tensor, (..., m, n)
    b : Tensor, (m,) for one vector, else (..., m, k)
    rcond : singular values up to `rcond` times the largest count as 0; by default machine precision
        times max(m, n); -1 for machine precision

    Returns
    -------
    solution : Tensor, (n,) or (..., n, k)
    residuals : Tensor, (1,) or (..., k); (0,) if m <= n
        The sums of squares of b - a @ x. NumPy's are empty also where the rank is below n.
    rank : Tensor, (...), int64
    singular_values : Tensor, (..., min(m, n))

    Notes
    -----
    The gradient is exact wherever the rank does not change (Golub and Pereyra, 1973).

    Raises
    ------
    numpy.linalg.LinAlgError
        If `b` has not as many rows as `a`; when computed, if `a` has nan.
    """
    matrix, right = for_lapack("lstsq", *_without_integers(a, b))
    if len(matrix.shape) < 2:
        matrix = matrix_for_lapack("lstsq", a)
    m, n = matrix.shape[-2:]
    is_vector = len(right.shape) == 1
    column = as_column(right) if is_vector else right
    if rcond is not None and rcond < 0:
        rcond = float(np.finfo(matrix.dtype).eps)
    tolerance = tolerances("lstsq", matrix, rcond)
    solution = OPS["lstsq"](matrix, column, tolerance)
    if m > n:
        rest = squared_magnitude(column - matmul(matrix, solution))
        residuals = reduced("sum", rest, len(rest.shape) - 2)
    else:
        residuals = full(0, (0,), real_dtype(matrix.dtype), matrix.type.device)
    values = OPS["svdvals"](matrix)
    if is_vector:
        solution = reshape(solution, solution.shape[:-1])
    return LstsqResult(
        wrap(solution), wrap(residuals), wrap(rank_of(values, tolerance)), wrap(values)
    )


def rank_of(values: Node, tolerance: Node) -> Node:
    """How many singular values are more than the tolerance times the largest."""
    if values.shape[-1] == 0:
        return full(0, values.shape[:-1], INT64, values.type.device)
    axis = len(values.shape) - 1
    largest = reduced("max", values, axis)
    limit = as_column(OPS["multiply"](largest, tolerance))
    return reduced("sum", cast(OPS["greater"](values, limit), INT64), axis)


@may_be_singular
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = 1e-15,
) -> "Tensor":
    """The pseudoinverse of each matrix (Moore and Penrose), by singular values.

    Parameters
    ----------
    a : Tensor, (..., m, n)
    rcond, rtol : singular values up to that, times the largest, count as 0: a number, or one for
        each matrix. By default NumPy's 1e-15; with rtol=None, and by default in single precision,
        machine precision times max(m, n)
    hermitian : read the lower triangle only, and take the matrix for Hermitian

    Notes
    -----
    The gradient is exact wherever the rank does not change, also where singular values are equal
    (Golub and Pereyra, 1973). With `hermitian`, it is Hermitian where the matrix is, to rounding.
    Elsewhere what is not read has the derivative 0.

    Raises
    ------
    numpy.linalg.LinAlgError
        When computed, if there is nan.
    """
    matrix = matrix_for_lapack("pinv", a)
    if hermitian:
        matrix = hermitian_of_lower("pinv", matrix)
    if rcond is None:
        # NumPy's default is for double precision, in which it computes.
        is_single = np.finfo(matrix.dtype).eps > 1e-15
        rcond = None if is_single and rtol.__class__ is float and rtol == 1e-15 else rtol
    tolerance = tolerances("pinv", matrix, rcond)
    return wrap(OPS["lstsq"](matrix, identity(matrix.shape[-2], matrix.dtype), tolerance))


def hermitian_of_lower(operation: str, matrix: Node) -> Node:
    """The Hermitian matrix that the lower triangle stands for."""
    if matrix.shape[-1] != matrix.shape[-2]:
        got: dict[str, object] = {"a": matrix.type}
        raise np.linalg.LinAlgError(explain(operation, "not square", got=got))
    return matrix_of_triangle(matrix, lower=True)


# Tensor equations


@may_be_singular
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | None = None) -> "Tensor":
    """The x with tensordot(a, x, axes=x.ndim) = b.

    Parameters
    ----------
    a : Tensor, of the shape of b followed by that of x, with as many elements in both parts
    b : Tensor
    axes : axes of `a` to move to its end first

    Raises
    ------
    numpy.linalg.LinAlgError
        If the shapes do not make a square system; when computed, if it is singular.
    """
    left, right = for_lapack("tensorsolve", a, b)
    rank = len(left.shape)
    if axes is not None:
        numbers = (axes,) if isinstance(axes, int) else axes
        moved = [normalize_axis("tensorsolve", axis, rank) for axis in numbers]
        order = (*[k for k in range(rank) if k not in moved], *moved)
        left = OPS["transpose"](left, axes=order)
    shape = left.shape[len(right.shape) :]
    size = math.prod(shape)
    if size != right.type.size or left.type.size != size**2:
        problem = "a must have as many elements as b has, squared"
        got: dict[str, object] = {"a": left.type, "b": right.type}
        raise np.linalg.LinAlgError(explain("tensorsolve", problem, got=got))
    solution = solve_system(reshape(left, (size, size)), reshape(right, (size, 1)))
    return wrap(reshape(solution, shape))


@may_be_singular
def tensorinv(a: ArrayLike, ind: int = 2) -> "Tensor":
    """The inverse with respect to tensordot(a, x, ind): of the matrix that `a` is when its first
    `ind` axes are taken together, and the others.

    Raises
    ------
    numpy.linalg.LinAlgError
        If that matrix is not square; when computed, if it is singular.
    """
    (node,) = for_lapack("tensorinv", a)
    if ind <= 0:
        raise ValueError(explain("tensorinv", f"ind={ind}", expected="a positive number of axes"))
    first, last = node.shape[:ind], node.shape[ind:]
    rows, columns = math.prod(first), math.prod(last)
    return wrap(reshape(inv(reshape(node, (rows, columns)))._node, (*last, *first)))
