"""Determinants, by LAPACK's LU factorization."""

from typing import Any

import numpy as np

from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.contraction import conjugate_transpose, matmul, matrix_transpose
from numba_grad.ops.families import broadcast_to, cast, reshape, structural
from numba_grad.ops.linalg import inv, solve
from numba_grad.ops.matrices import batch_stack, block, check_matrices, identity, real_part
from numba_grad.ops.movement import array_of


def _stretched(numbers: Node) -> Node:
    """A number for each matrix as (..., 1, 1)."""
    return reshape(numbers, (*numbers.shape, 1, 1))


def _conjugate(x: Node) -> Node:
    return OPS["conjugate"](x) if x.dtype.kind == "c" else x


def _examples(rng: np.random.Generator) -> list[Any]:
    shapes = ((3, 3), (2, 3, 3), (0, 0), (2, 0, 0), (0, 2, 2))
    return [((array_of(rng, *shape) + np.eye(shape[-1]),), {}) for shape in shapes]


# det


def _infer_det(a: Type) -> Type:
    check_matrices("det", a, square=True)
    return array_type(a.shape[:-2], a.dtype)


def _det_reference(a: np.ndarray) -> np.ndarray:
    return np.linalg.det(a)


def _det_vjp(g: Node, out: Node, a: Node) -> Node:
    return OPS["multiply"](_stretched(g), _conjugate(cofactor(a)))


det = structural(
    "det",
    family="library",
    input_names=("a",),
    infer=_infer_det,
    reference=_det_reference,
    vjp=(_det_vjp,),
    batch=batch_stack("det"),
    saves=("inputs",),
    example=_examples,
)


# cofactor: the derivative of the determinant by each element; also that of singular matrices.


def _infer_cofactor(a: Type) -> Type:
    check_matrices("cofactor", a, square=True)
    return a


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


# The derivative of det(a) a^-T, which a singular matrix does not have in this form: there `solve`
# raises.
def _cofactor_vjp(g: Node, out: Node, a: Node) -> Node:
    n = a.shape[-1]
    rank = len(a.shape)
    products = OPS["multiply"](g, _conjugate(out))
    alpha = _stretched(OPS["sum"](products, axes=(rank - 2, rank - 1)))
    spread = broadcast_to(alpha, a.shape)
    inner = OPS["multiply"](spread, identity(n, a.dtype)) - matmul(
        _conjugate(out), matrix_transpose(g)
    )
    return conjugate_transpose(solve(a, conjugate_transpose(inner)))


cofactor = structural(
    "cofactor",
    family="library",
    input_names=("a",),
    infer=_infer_cofactor,
    reference=_cofactor_reference,
    vjp=(_cofactor_vjp,),
    batch=batch_stack("cofactor"),
    saves=("inputs", "out"),
    example=_examples,
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


slogdet = structural(
    "slogdet",
    family="library",
    input_names=("a",),
    infer=_infer_slogdet,
    reference=_slogdet_reference,
    vjp=(_slogdet_vjp,),
    batch=batch_stack("slogdet"),
    saves=("inputs", "out"),
    example=_examples,
)
