"""Singular values, singular vectors and least squares by LAPACK."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.contraction import broadcast_stacks, conjugate_transpose, matmul
from numba_grad.ops.elementwise import real_part
from numba_grad.ops.families import (
    aligned,
    broadcast_to,
    cast,
    real_dtype,
    reshape,
    structural,
    sum_to,
    zeros_like,
)
from numba_grad.ops.matrices import (
    as_row,
    block,
    check_matrices,
    check_right_side,
    diagonal_matrix,
    divided_where,
    identity,
    product,
    rounding_of,
    skew_part,
)
from numba_grad.ops.movement import array_of

# svd: the rows of U, those of V, and the singular values as a last row.


def _infer_svd(a: Type, *, full: bool) -> Type:
    check_matrices("svd", a)
    *stack, m, n = a.shape
    return array_type((*stack, m + n + 1, max(m, n) if full else min(m, n)), a.dtype)


def _svd_reference(a: np.ndarray, *, full: bool) -> np.ndarray:
    *stack, m, n = a.shape
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    result = np.zeros((*stack, m + n + 1, max(m, n) if full else min(m, n)), a.dtype)
    result[..., :m, : u.shape[-1]] = u
    result[..., m : m + n, : vh.shape[-2]] = vh.conj().mT
    result[..., m + n, : s.shape[-1]] = s
    return result


def _parts(packed: Node, m: int, n: int) -> tuple[Node, Node, Node]:
    """U and V with as many columns as there are singular values, and these as a row, real."""
    k = min(m, n)
    u, v = block(packed, 0, m, 0, k), block(packed, m, n, 0, k)
    return u, v, real_part(block(packed, m + n, 1, 0, k))


def _without_turning(basis: Node, g: Node, start: int, packed: Node, g_packed: Node) -> Node:
    """The cotangent of `basis` together with that of the vectors that complete it."""
    rows, k = basis.shape[-2:]
    if packed.shape[-1] < rows or rows == k:
        return g
    others = block(packed, start, rows, k, rows - k)
    g_others = block(g_packed, start, rows, k, rows - k)
    return g - matmul(others, matmul(conjugate_transpose(g_others), basis))


# Townsend, Differentiating the singular value decomposition (2016), with the sum and the difference
# of the turns of U and V taken apart: one is divided by differences of singular values and the
# other by sums, which stay apart from 0 where singular values are equal. So the gradient of what
# does not depend on the choice of vectors for equal singular values, as U V^H, is accurate. What is
# asked of that choice is left out, as is what would be divided by a singular value of 0.
# Vectors that complete U or V to a basis count by their span.
def _svd_vjp(g: Node, out: Node, a: Node, *, full: bool) -> Node:
    m, n = a.shape[-2:]
    if min(m, n) == 0:
        return zeros_like(a)
    u, v, values = _parts(out, m, n)
    g_u, g_v, g_values = _parts(g, m, n)
    g_u = _without_turning(u, g_u, 0, out, g)
    g_v = _without_turning(v, g_v, m, out, g)
    column = conjugate_transpose(values)
    rounding = rounding_of(values, max(m, n))
    along_u = matmul(conjugate_transpose(u), g_u)
    along_v = matmul(conjugate_transpose(v), g_v)
    turn_u, turn_v = skew_part(along_u), skew_part(along_v)
    gaps, sums = values - column, values + column
    is_distinct = OPS["greater"](OPS["absolute"](gaps), rounding)
    together = divided_where(is_distinct, turn_u + turn_v, gaps)
    against = divided_where(OPS["greater"](sums, rounding), turn_u - turn_v, sums)
    stretches = cast(reshape(g_values, (*a.shape[:-2], min(m, n))), a.dtype)
    v_adjoint = conjugate_transpose(v)
    result = product(u, together + against + diagonal_matrix(stretches), v_adjoint)
    is_nonzero = OPS["greater"](values, rounding)
    if m > n:
        outside = g_u - matmul(u, along_u)
        result = result + matmul(divided_where(is_nonzero, outside, values), v_adjoint)
    if n > m:
        outside = g_v - matmul(v, along_v)
        scaled = divided_where(is_nonzero, outside, values)
        result = result + matmul(u, conjugate_transpose(scaled))
    return result


_SVD_SHAPES = ((3, 3), (3, 2), (2, 3), (2, 3, 2), (0, 0), (0, 2, 2), (3, 0), (0, 3))


def _svd_examples(rng: "np.random.Generator") -> list[Any]:
    # Of vectors that complete a basis, one is defined up to its sign; more are not.
    full = [(3, 2), (2, 3), (3, 0), (0, 3)]
    return [
        *[((array_of(rng, *shape),), {"full": False}) for shape in _SVD_SHAPES],
        *[((array_of(rng, *shape),), {"full": True}) for shape in full],
    ]


svd = structural(
    "svd",
    infer=_infer_svd,
    reference=_svd_reference,
    vjp=(_svd_vjp,),
    saves=("out",),
    example=_svd_examples,
)


# svdvals


def _infer_svdvals(a: Type) -> Type:
    check_matrices("svdvals", a)
    return array_type((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a.dtype))


# Giles (2008), 3.2; a subgradient where singular values are equal or 0.
def _svdvals_vjp(g: Node, out: Node, a: Node) -> Node:
    u, v, _ = _parts(svd(a, full=False), *a.shape[-2:])
    weighted = OPS["multiply"](u, as_row(cast(g, a.dtype)))
    return matmul(weighted, conjugate_transpose(v))


svdvals = structural(
    "svdvals",
    infer=_infer_svdvals,
    reference=np.linalg.svdvals,
    vjp=(_svdvals_vjp,),
    saves=("inputs",),
    example=lambda rng: [((array_of(rng, *shape),), {}) for shape in _SVD_SHAPES],
)


# lstsq: singular values up to `tolerance` times the largest count as 0.


def _infer_lstsq(a: Type, b: Type, tolerance: Type) -> Type:
    check_matrices("lstsq", a)
    check_right_side("lstsq", a, b, np.linalg.LinAlgError)
    if tolerance != array_type(a.shape[:-2], real_dtype(a.dtype)):
        raise ShapeError(
            explain(
                "lstsq",
                "one tolerance is needed for each matrix",
                got={"a": a, "tolerance": tolerance},
                expected=f"{real_dtype(a.dtype)}{list(a.shape[:-2])}",
            )
        )
    stack = broadcast_stacks("lstsq", {"a": a, "b": b})
    return array_type((*stack, a.shape[-1], b.shape[-1]), a.dtype)


def _lstsq_reference(a: np.ndarray, b: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    if 0 in a.shape[-2:]:
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*stack, a.shape[-1], b.shape[-1]), a.dtype)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    inverse = np.where(s > tolerance[..., None] * s[..., :1], 1 / s, 0)[..., None]
    return vh.conj().mT @ (inverse.astype(a.dtype) * (u.conj().mT @ b))


# Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems
# whose variables separate (1973), 4.12: exact wherever the rank does not change. In terms of the
# pseudoinverse, of which one is enough for derivatives of all orders.
def _lstsq_vjp_a(g: Node, out: Node, a: Node, b: Node, tolerance: Node) -> Node:
    m, n = a.shape[-2:]
    inverse = lstsq(a, identity(m, a.dtype), tolerance)
    inverse_adjoint = conjugate_transpose(inverse)
    weight = matmul(inverse_adjoint, g)
    gradient = -matmul(weight, conjugate_transpose(out))
    if m > 0 and n > 0:
        residual = b - matmul(a, out)
        spread = matmul(inverse, weight)
        gradient = gradient + matmul(residual, conjugate_transpose(spread))
        outside = g - matmul(conjugate_transpose(a), weight)
        back = matmul(inverse_adjoint, out)
        gradient = gradient + matmul(back, conjugate_transpose(outside))
    return sum_to(gradient, a.shape)


def _lstsq_vjp_b(g: Node, out: Node, a: Node, b: Node, tolerance: Node) -> Node:
    inverse = lstsq(a, identity(a.shape[-2], a.dtype), tolerance)
    return sum_to(matmul(conjugate_transpose(inverse), g), b.shape)


# The rank is a step function of the tolerance.
def _no_slope(g: Node, out: Node, a: Node, b: Node, tolerance: Node) -> Node:
    return zeros_like(tolerance)


def _batch_lstsq(is_batched: Sequence[bool], a: Node, b: Node, tolerance: Node) -> Node:
    if not is_batched[0] and is_batched[2]:
        a = broadcast_to(a, (tolerance.shape[0], *a.shape))
        is_batched = (True, *is_batched[1:])
    if is_batched[0] and not is_batched[2]:
        tolerance = broadcast_to(tolerance, a.shape[:-2])
    a, b = aligned(is_batched[:2], a, b)
    return lstsq(a, b, reshape(tolerance, a.shape[:-2]))


def _lstsq_examples(rng: "np.random.Generator") -> list[Any]:
    shapes = [
        ((4, 2), (4, 3)),
        ((2, 4), (2, 1)),
        ((3, 3), (3, 2)),
        ((2, 3, 2), (3, 1)),
        ((3, 2), (2, 3, 1)),
        ((2, 0), (2, 1)),
        ((0, 2), (0, 1)),
        ((0, 3, 2), (3, 2)),
    ]
    cases = []
    for a_shape, b_shape in shapes:
        a, b = array_of(rng, *a_shape), array_of(rng, *b_shape)
        cases.append(((a, b, np.full(a_shape[:-2], 1e-9)), {}))
    return cases


lstsq = structural(
    "lstsq",
    infer=_infer_lstsq,
    reference=_lstsq_reference,
    vjp=(_lstsq_vjp_a, _lstsq_vjp_b, _no_slope),
    batch=_batch_lstsq,
    saves=("inputs", "out"),
    example=_lstsq_examples,
)
