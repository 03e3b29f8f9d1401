"""Factorizations by LAPACK: Cholesky, LU, QR. Several factors are parts of one packed result."""

import math
from typing import Any, Literal

import numpy as np

from numba_grad.dtypes import INT64
from numba_grad.errors import DTypeError, explain
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.contraction import conjugate_transpose, matmul, matrix_transpose
from numba_grad.ops.elementwise import real_part, scaled
from numba_grad.ops.families import broadcast_to, cast, reshape, structural
from numba_grad.ops.linalg import solve_triangular
from numba_grad.ops.matrices import (
    block,
    check_matrices,
    diagonal_matrix,
    diagonal_of,
    lower_triangle,
    same_square,
    upper_triangle,
)
from numba_grad.ops.movement import array_of
from numba_grad.ops.triangles import gradient_of_triangle

# cholesky


# Murray, Differentiation of the Cholesky decomposition (2016).
def _cholesky_vjp(g: Node, out: Node, a: Node) -> Node:
    inner = matmul(conjugate_transpose(out), g)
    core = lower_triangle(inner) - scaled(diagonal_matrix(diagonal_of(inner)), 0.5)
    adjoint = conjugate_transpose(out)
    left = solve_triangular(adjoint, core, lower=False, unit_diagonal=False)
    right = solve_triangular(adjoint, conjugate_transpose(left), lower=False, unit_diagonal=False)
    return gradient_of_triangle(right, a, lower=True)


def positive_definite(rng: "np.random.Generator", *shape: int) -> np.ndarray:
    """For tests: far from singular."""
    x = array_of(rng, *shape)
    return x @ x.mT + np.eye(shape[-1])


def _cholesky_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = ((3, 3), (2, 3, 3), (0, 0), (0, 2, 2))
    general = positive_definite(rng, 3, 3) + np.triu(array_of(rng, 3, 3), 1)
    return [*[((positive_definite(rng, *shape),), {}) for shape in shapes], ((general,), {})]


cholesky = structural(
    "cholesky",
    infer=same_square("cholesky"),
    reference=np.linalg.cholesky,
    vjp=(_cholesky_vjp,),
    saves=("inputs", "out"),
    example=_cholesky_examples,
    extras={"domain": "hermitian"},
)


# lu: L below the diagonal and U from it on, and as a last column the row that each row, from the
# first on, was exchanged with.


def _infer_lu(a: Type) -> Type:
    check_matrices("lu_factor", a)
    return array_type((*a.shape[:-1], a.shape[-1] + 1), a.dtype)


def _lu_reference(a: np.ndarray) -> np.ndarray:
    """Row by row, as the matrices of tests are small."""
    *stack, m, n = a.shape
    result = np.zeros((*stack, m, n + 1), a.dtype)
    for position in np.ndindex(*stack):
        factors = a[position].copy()
        result[(*position, slice(None), n)] = np.arange(m)
        for k in range(min(m, n)):
            pivot = k + int(np.argmax(_size(factors[k:, k])))
            result[(*position, k, n)] = pivot
            factors[[k, pivot]] = factors[[pivot, k]]
            if factors[k, k] != 0:
                factors[k + 1 :, k] /= factors[k, k]
            factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
        result[(*position, slice(None), slice(0, n))] = factors
    return result


def _size(x: np.ndarray) -> np.ndarray:
    """What LAPACK compares."""
    return np.abs(np.real(x)) + np.abs(np.imag(x))


def row_order(packed: Node) -> Node:
    """The permutation of rows that `lu` made: row `order[i]` of a is row i of L U."""
    m, columns = packed.shape[-2:]
    least = min(m, columns - 1)
    pivots = real_part(block(packed, 0, least, columns - 1, 1))
    return permutation(reshape(cast(pivots, INT64), (*packed.shape[:-2], least)), rows=m)


def rows_in_order(x: Node, order: Node) -> Node:
    """Row i of each result is row `order[..., i]` of x; stacks broadcast."""
    *stack, m, n = x.shape
    stack = np.broadcast_shapes(tuple(stack), order.shape[:-1])
    x = broadcast_to(x, (*stack, m, n))
    count = math.prod(stack)
    order = reshape(broadcast_to(order, (*stack, m)), (count, m))
    matrices = broadcast_to(reshape(OPS["iota"](size=count, dtype=INT64), (count, 1)), (count, m))
    rows = OPS["gather"](reshape(x, (count, m, n)), matrices, order, checked=False)
    return reshape(rows, (*stack, m, n))


def inverse_order(order: Node) -> Node:
    return OPS["argsort"](order, axis=len(order.shape) - 1, descending=False)


# Of a square matrix, P a = L U, by triangular parts: de Hoog, Anderssen and Lukas, Differentiation
# of matrix functionals using triangular factorization (2011), 3.6. What is right of the square is
# L^-1 times its columns, what is below is its rows times U^-1.
def _lu_vjp(g: Node, out: Node, a: Node) -> Node:
    m, n = a.shape[-2:]
    k = min(m, n)
    corner = block(out, 0, k, 0, k)
    corner_adjoint = conjugate_transpose(corner)
    upper = upper_triangle(corner)
    lower = corner - upper  # without the ones of its diagonal
    g_lower = lower_triangle(block(g, 0, k, 0, k), strict=True)
    g_upper = upper_triangle(block(g, 0, k, 0, k))
    beside = below = None
    if n > k:
        beside = _solve_unit(corner_adjoint, block(g, 0, k, k, n - k))
        right = conjugate_transpose(block(out, 0, k, k, n - k))
        g_lower = g_lower - lower_triangle(matmul(beside, right), strict=True)
    if m > k:
        turned = conjugate_transpose(block(g, k, m - k, 0, k))
        below = conjugate_transpose(
            solve_triangular(corner, turned, lower=False, unit_diagonal=False)
        )
        under = conjugate_transpose(block(out, k, m - k, 0, k))
        g_upper = g_upper - upper_triangle(matmul(under, below))
    core = lower_triangle(
        matmul(conjugate_transpose(lower), g_lower) + g_lower, strict=True
    ) + upper_triangle(matmul(g_upper, conjugate_transpose(upper)))
    left = _solve_unit(corner_adjoint, core)
    square = conjugate_transpose(
        solve_triangular(corner, conjugate_transpose(left), lower=False, unit_diagonal=False)
    )
    axis = len(a.shape) - 2
    if beside is not None:
        square = OPS["concatenate"](square, beside, axis=axis + 1)
    if below is not None:
        square = OPS["concatenate"](square, below, axis=axis)
    return rows_in_order(square, inverse_order(row_order(out)))


def _solve_unit(adjoint: Node, b: Node) -> Node:
    """L^-H b, where `adjoint` has L^H above its diagonal."""
    return solve_triangular(adjoint, b, lower=False, unit_diagonal=True)


def _lu_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [(3, 3), (4, 2), (2, 5), (2, 3, 3), (0, 0), (0, 2, 2), (3, 0)]
    return [((array_of(rng, *shape),), {}) for shape in shapes]


lu = structural(
    "lu",
    infer=_infer_lu,
    reference=_lu_reference,
    vjp=(_lu_vjp,),
    saves=("out",),
    example=_lu_examples,
)


# permutation: the order of `rows` rows after exchanges, in turn, of row i with row pivots[i].


def _infer_permutation(pivots: Type, *, rows: int) -> Type:
    if pivots.dtype != np.int64:
        problem = "pivots must be int64"
        raise DTypeError(explain("permutation", problem, got={"pivots": pivots}))
    return array_type((*pivots.shape[:-1], rows), np.dtype(np.int64))


def _permutation_reference(pivots: np.ndarray, *, rows: int) -> np.ndarray:
    result = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for position in np.ndindex(*pivots.shape[:-1]):
        for i, other in enumerate(pivots[position]):
            result[(*position, [i, other])] = result[(*position, [other, i])]
    return result


permutation = structural(
    "permutation",
    infer=_infer_permutation,
    reference=_permutation_reference,
    vjp=None,
    dtypes="l",
    example=lambda rng: [
        ((np.array(pivots, np.int64).reshape(shape),), {"rows": rows})
        for pivots, shape, rows in (
            ([2, 2, 2], (3,), 3),
            ([1, 1, 3, 3], (2, 2), 4),
            ([], (0,), 2),
            ([], (0, 2), 2),
        )
    ],
)


# qr: the rows of Q, then those of R^T; for mode "r", R alone.


def _infer_qr(a: Type, *, mode: str) -> Type:
    check_matrices("qr", a)
    *stack, m, n = a.shape
    k = min(m, n)
    if mode == "r":
        return array_type((*stack, k, n), a.dtype)
    return array_type((*stack, m + n, m if mode == "complete" else k), a.dtype)


def _qr_reference(a: np.ndarray, *, mode: Literal["reduced", "complete", "r"]) -> np.ndarray:
    if mode == "r":
        return np.asarray(np.linalg.qr(a, "r"))
    q, r = np.linalg.qr(a, mode)
    return np.concatenate([q, r.mT], axis=-2)


# Walter and Lehmann, Algorithmic differentiation of linear algebra functions (2018), for as many
# columns as rows or fewer; Roberts and Roberts, QR and LQ decomposition matrix backpropagation
# algorithms for square, wide, and deep matrices (2020), for more. The further columns of a complete
# Q span what is orthogonal to a; which basis of that they are is not defined, so the gradient is
# that of functions of the span, Q2 Q2^H.
def _qr_vjp(g: Node, out: Node, a: Node, *, mode: str) -> Node:
    m, n = a.shape[-2:]
    k = min(m, n)
    if mode == "r":
        q, r, g_r = block(qr(a, mode="reduced"), 0, m, 0, k), out, g
        g_q = None
    else:
        q = block(out, 0, m, 0, k)
        r = matrix_transpose(block(out, m, n, 0, k))
        g_q = block(g, 0, m, 0, k)
        g_r = matrix_transpose(block(g, m, n, 0, k))
        if mode == "complete" and m > k:
            others = block(out, 0, m, k, m - k)
            g_others = block(g, 0, m, k, m - k)
            g_q = g_q - matmul(others, matmul(conjugate_transpose(g_others), q))
    beside = None
    if n > k:
        right = block(a, 0, m, k, n - k)
        g_right = block(g_r, 0, k, k, n - k)
        share = matmul(right, conjugate_transpose(g_right))
        g_q = share if g_q is None else g_q + share
        beside = matmul(q, g_right)
    corner = block(r, 0, k, 0, k)
    inner = matmul(corner, conjugate_transpose(block(g_r, 0, k, 0, k)))
    if g_q is not None:
        inner = inner - matmul(conjugate_transpose(g_q), q)
    below = lower_triangle(inner, strict=True)
    middle = cast(real_part(diagonal_of(inner)), a.dtype)
    core = matmul(q, below + conjugate_transpose(below) + diagonal_matrix(middle))
    if g_q is not None:
        core = core + g_q
    square = conjugate_transpose(
        solve_triangular(corner, conjugate_transpose(core), lower=False, unit_diagonal=False)
    )
    if beside is None:
        return square
    return OPS["concatenate"](square, beside, axis=len(a.shape) - 1)


def _qr_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [(3, 3), (3, 2), (2, 4), (2, 3, 2), (0, 0), (0, 2, 2), (3, 0), (0, 3)]
    # One column more than a complete Q of m rows has to be: of more, the basis is not defined.
    complete = [(3, 2), (2, 4), (3, 0), (0, 3)]
    return [
        *[((array_of(rng, *s),), {"mode": mode}) for mode in ("reduced", "r") for s in shapes],
        *[((array_of(rng, *s),), {"mode": "complete"}) for s in complete],
    ]


qr = structural(
    "qr",
    infer=_infer_qr,
    reference=_qr_reference,
    vjp=(_qr_vjp,),
    saves=("inputs", "out"),
    example=_qr_examples,
)
