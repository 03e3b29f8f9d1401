"""Determinants, by LAPACK's LU factorization."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.contraction import conjugate_transpose, matmul, matrix_transpose
from numba_grad.ops.elementwise import conjugated, real_part
from numba_grad.ops.families import broadcast_to, cast, reshape, structural, total, zeros_like
from numba_grad.ops.linalg import inv
from numba_grad.ops.matrices import block, check_matrices, diagonal_of, same_square
from numba_grad.ops.movement import array_of


def _stretched(numbers: Node) -> Node:
    """A number for each matrix as (..., 1, 1)."""
    return reshape(numbers, (*numbers.shape, 1, 1))


def _examples(rng: "np.random.Generator") -> list[Any]:
    shapes = ((3, 3), (2, 3, 3), (0, 0), (2, 0, 0), (0, 2, 2))
    return [((array_of(rng, *shape) + np.eye(shape[-1]),), {}) for shape in shapes]


# det


def _infer_det(a: Type) -> Type:
    check_matrices("det", a, square=True)
    return array_type(a.shape[:-2], a.dtype)


# Giles (2008), 2.2.4, with cofactors in place of det(a) a^-T.
def _det_vjp(g: Node, out: Node, a: Node) -> Node:
    return OPS["multiply"](_stretched(g), conjugated(cofactor(a)))


def _det_jvp(tangents: Sequence[Node], out: Node, a: Node) -> Node:
    return _sum_of_products(tangents[0], cofactor(a))


def _sum_of_products(x: Node, y: Node) -> Node:
    """A number for each matrix: the elements of two, multiplied and summed."""
    rank = len(x.shape)
    return OPS["sum"](OPS["multiply"](x, y), axes=(rank - 2, rank - 1))


det = structural(
    "det",
    infer=_infer_det,
    reference=np.linalg.det,
    vjp=(_det_vjp,),
    saves=("inputs",),
    example=_examples,
    jvp=_det_jvp,
)


# cofactor: the derivative of the determinant by each element; also that of singular matrices.


def _cofactor_reference(a: np.ndarray) -> np.ndarray:
    """By singular values, as products of all but one of them: Stewart, On the adjugate matrix
    (1998)."""
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return (
        phase[..., None, None] * ((u * others[..., None, :].astype(a.dtype)) @ vh).conj()
    ).astype(a.dtype)


def _cofactor_vjp(g: Node, out: Node, a: Node) -> Node:
    return conjugated(_cofactors_in_direction(a, conjugated(g)))


def _cofactors_in_direction(a: Node, e: Node) -> Node:
    """How the cofactors of `a` change in the direction `e`."""
    n = a.shape[-1]
    if n < 2:
        return zeros_like(a)
    if n == 2:
        return cofactor(e)  # they are linear in the matrix
    if n == 3:
        return _minors(a, e) + _minors(e, a)
    return cofactor_in_direction(a, e)


def _minors(x: Node, y: Node) -> Node:
    """For 3 x 3 matrices x[i+1, j+1] y[i+2, j+2] - x[i+1, j+2] y[i+2, j+1], numbers modulo 3: the
    cofactors of x, if y is x."""
    x, y = (_repeated(z) for z in (x, y))
    first = OPS["multiply"](block(x, 1, 3, 1, 3), block(y, 2, 3, 2, 3))
    return first - OPS["multiply"](block(x, 1, 3, 2, 3), block(y, 2, 3, 1, 3))


def _repeated(x: Node) -> Node:
    """A 3 x 3 matrix with its first rows and columns once more after the last: 5 x 5."""
    rank = len(x.shape)
    x = OPS["concatenate"](x, block(x, 0, 2, 0, 3), axis=rank - 2)
    return OPS["concatenate"](x, block(x, 0, 5, 0, 2), axis=rank - 1)


cofactor = structural(
    "cofactor",
    infer=same_square("cofactor"),
    reference=_cofactor_reference,
    vjp=(_cofactor_vjp,),
    saves=("inputs",),
    example=_examples,
    jvp=lambda tangents, out, a: _cofactors_in_direction(a, tangents[0]),
)


# cofactor_in_direction: the derivative of the cofactors by the matrix, times a matrix `e`; also
# that of singular matrices. It is symmetric: exchanged with the cotangent, `e` gives the adjoint.


def _infer_cofactor_in_direction(a: Type, e: Type) -> Type:
    check_matrices("cofactor_in_direction", a, square=True)
    if a != e:
        got: dict[str, object] = {"a": a, "e": e}
        raise ShapeError(explain("cofactor_in_direction", "not of one type", got=got))
    return a


def _cofactor_in_direction_reference(a: np.ndarray, e: np.ndarray) -> np.ndarray:
    """As `_cofactor_reference`: of a diagonal matrix, by products of all but two elements."""
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    i, j, k = np.ogrid[:n, :n, :n]
    others = np.where((k == i) | (k == j), 1, s[..., None, None, :]).prod(-1)
    others = np.where(np.eye(n, dtype=bool), 0, others).astype(a.dtype)
    turned = adjoint_array(u) @ e @ adjoint_array(vh)
    diagonal = others @ np.diagonal(turned, axis1=-2, axis2=-1)[..., None]
    change = diagonal * np.eye(n) - others * np.swapaxes(turned, -1, -2)
    phase = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return (phase * (u.conj() @ change @ vh.conj())).astype(a.dtype)


def adjoint_array(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2).conj()


# With d = det(a), x = a^-1 and C the cofactors, d x^T, their derivative in the direction e is
# tr(x e) C - x^T e^T C, and this is the derivative of that in the direction h, which is symmetric
# in e and h too. A singular matrix does not have it in this form: there `inv` raises.
def _second_change(a: Node, e: Node, h: Node) -> Node:
    x = inv(a)
    c, c_h = cofactor(a), cofactor_in_direction(a, h)
    x_e, x_h = matmul(x, e), matmul(x, h)
    turned_e, turned_h = (matrix_transpose(matmul(z, x)) for z in (e, h))
    return (
        OPS["multiply"](_trace(x_e), c_h)
        - OPS["multiply"](_trace(matmul(x_h, x_e)), c)
        + matmul(turned_h, matmul(turned_e, c))
        - matmul(turned_e, c_h)
    )


def _trace(x: Node) -> Node:
    """The sum of the diagonal, for each element of the matrix."""
    total = OPS["sum"](diagonal_of(x), axes=(len(x.shape) - 2,))
    return broadcast_to(_stretched(total), x.shape)


def _cofactor_in_direction_jvp(
    tangents: Sequence[Node | None], out: Node, a: Node, e: Node
) -> Node | None:
    of_a, of_e = tangents
    return total(
        [
            None if of_a is None else _second_change(a, e, of_a),
            None if of_e is None else cofactor_in_direction(a, of_e),
        ]
    )


cofactor_in_direction = structural(
    "cofactor_in_direction",
    infer=_infer_cofactor_in_direction,
    reference=_cofactor_in_direction_reference,
    vjp=(
        lambda g, out, a, e: conjugated(_second_change(a, e, conjugated(g))),
        lambda g, out, a, e: conjugated(cofactor_in_direction(a, conjugated(g))),
    ),
    saves=("inputs",),
    example=lambda rng: [
        ((array_of(rng, *shape) + 2 * np.eye(shape[-1]), array_of(rng, *shape)), {})
        for shape in ((4, 4), (2, 4, 4), (2, 2), (1, 1), (0, 0), (0, 4, 4))
    ],
    jvp=_cofactor_in_direction_jvp,
)


# slogdet: the sign, or for complex matrices the phase, and the logarithm of the magnitude.


def _infer_slogdet(a: Type) -> Type:
    check_matrices("slogdet", a, square=True)
    return array_type((*a.shape[:-2], 2), a.dtype)


def _slogdet_reference(a: np.ndarray) -> np.ndarray:
    sign, logarithm = np.linalg.slogdet(a)
    return np.stack([sign, logarithm.astype(a.dtype)], axis=-1)


# With t = tr(a^-1 da), the logarithm changes by the real part of t, and the phase by i times the
# imaginary part of t times itself. Giles (2008), 2.2.3. A singular matrix has no derivative: there
# `inv` raises.
def _slogdet_vjp(g: Node, out: Node, a: Node) -> Node:
    as_matrix = (*a.shape[:-2], 1, 2)
    sign = block(reshape(out, as_matrix), 0, 1, 0, 1)
    g_sign = block(reshape(g, as_matrix), 0, 1, 0, 1)
    weight = real_part(block(reshape(g, as_matrix), 0, 1, 1, 1))
    if a.dtype.kind == "c":
        turn = OPS["imag"](OPS["multiply"](g_sign, OPS["conjugate"](sign)))
        weight = OPS["make_complex"](weight, turn)
    return OPS["multiply"](cast(weight, a.dtype), conjugate_transpose(inv(a)))


def _slogdet_jvp(tangents: Sequence[Node], out: Node, a: Node) -> Node:
    change = _sum_of_products(tangents[0], matrix_transpose(inv(a)))
    as_pair = (*change.shape, 1)
    logarithm = reshape(cast(real_part(change), a.dtype), as_pair)
    if a.dtype.kind != "c":
        return OPS["concatenate"](zeros_like(logarithm), logarithm, axis=len(as_pair) - 1)
    sign = reshape(block(reshape(out, (*a.shape[:-2], 1, 2)), 0, 1, 0, 1), as_pair)
    turn = OPS["make_complex"](zeros_like(OPS["imag"](change)), OPS["imag"](change))
    return OPS["concatenate"](
        OPS["multiply"](reshape(turn, as_pair), sign), logarithm, axis=len(as_pair) - 1
    )


slogdet = structural(
    "slogdet",
    infer=_infer_slogdet,
    reference=_slogdet_reference,
    vjp=(_slogdet_vjp,),
    saves=("inputs", "out"),
    example=_examples,
    jvp=_slogdet_jvp,
)
