"""Eigenvalues and eigenvectors by LAPACK. Both are rows of one packed result: vectors, values."""

import numpy as np

from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.contraction import conjugate_transpose, matmul
from numba_grad.ops.elementwise import real_part
from numba_grad.ops.families import cast, real_dtype, reshape, structural, zeros_like
from numba_grad.ops.matrices import (
    as_column,
    as_row,
    block,
    check_matrices,
    diagonal_matrix,
    diagonal_of,
    divided_where,
    product,
    rounding_of,
    skew_part,
)
from numba_grad.ops.movement import array_of
from numba_grad.ops.triangles import gradient_of_triangle


def _vectors_and_values(packed: Node) -> tuple[Node, Node]:
    """The matrix with the eigenvectors as columns, and the eigenvalues as a matrix of one row."""
    n = packed.shape[-1]
    return block(packed, 0, n, 0, n), block(packed, n, 1, 0, n)


def _as_vector(row: Node) -> Node:
    return reshape(row, (*row.shape[:-2], row.shape[-1]))


def _gaps(values: Node) -> tuple[Node, Node]:
    """values[j] - values[i], and whether that is more than rounding; (..., n, n)."""
    row = as_row(values)
    gaps = row - as_column(values)
    size = OPS["absolute"](gaps)
    return gaps, OPS["greater"](size, rounding_of(row, values.shape[-1]))


# eigh


def _infer_eigh(a: Type, *, lower: bool) -> Type:
    check_matrices("eigh", a, square=True)
    n = a.shape[-1]
    return array_type((*a.shape[:-2], n + 1, n), a.dtype)


def _eigh_reference(a: np.ndarray, *, lower: bool) -> np.ndarray:
    values, vectors = np.linalg.eigh(a, "L" if lower else "U")
    return np.concatenate([vectors, values[..., None, :]], axis=-2).astype(a.dtype)


# Giles, An extended collection of matrix derivative results for forward and reverse mode automatic
# differentiation (2008), 3.1. Which vectors span the space of equal eigenvalues is not defined, nor
# are signs and phases. What is asked within such a space is left out, so the gradient is finite,
# and right for functions that do not depend on that choice: of the span, and of equal eigenvalues
# in equal parts.
def _eigh_vjp(g: Node, out: Node, a: Node, *, lower: bool) -> Node:
    if a.shape[-1] == 0:
        return zeros_like(a)
    vectors, values = _vectors_and_values(out)
    g_vectors, g_values = _vectors_and_values(g)
    turned = conjugate_transpose(vectors)
    gaps, is_distinct = _gaps(_as_vector(real_part(values)))
    turns = divided_where(is_distinct, skew_part(matmul(turned, g_vectors)), gaps)
    stretches = cast(_as_vector(real_part(g_values)), a.dtype)
    both = product(vectors, turns + diagonal_matrix(stretches), turned)
    return gradient_of_triangle(both, a, lower=lower)


def hermitian(rng: "np.random.Generator", *shape: int) -> np.ndarray:
    """For tests: eigenvalues well apart."""
    x = array_of(rng, *shape)
    return x + x.mT + 3 * np.diag(np.arange(shape[-1]))


def _eigh_examples(rng: "np.random.Generator") -> list:
    shapes = [
        ((3, 3), True),
        ((3, 3), False),
        ((2, 3, 3), True),
        ((0, 0), True),
        ((0, 2, 2), False),
    ]
    general = [((hermitian(rng, 3, 3) + np.triu(array_of(rng, 3, 3), 1),), {"lower": True})]
    return [*[((hermitian(rng, *shape),), {"lower": lower}) for shape, lower in shapes], *general]


eigh = structural(
    "eigh",
    infer=_infer_eigh,
    reference=_eigh_reference,
    vjp=(_eigh_vjp,),
    saves=("inputs", "out"),
    example=_eigh_examples,
    extras={"domain": "hermitian"},
)


# eigvalsh


def _infer_eigvalsh(a: Type, *, lower: bool) -> Type:
    check_matrices("eigvalsh", a, square=True)
    return array_type(a.shape[:-1], real_dtype(a.dtype))


def _eigvalsh_reference(a: np.ndarray, *, lower: bool) -> np.ndarray:
    return np.linalg.eigvalsh(a, "L" if lower else "U")


# Giles (2008), 3.1; of equal eigenvalues a subgradient.
def _eigvalsh_vjp(g: Node, out: Node, a: Node, *, lower: bool) -> Node:
    vectors, _ = _vectors_and_values(eigh(a, lower=lower))
    weighted = OPS["multiply"](vectors, as_row(cast(g, a.dtype)))
    both = matmul(weighted, conjugate_transpose(vectors))
    return gradient_of_triangle(both, a, lower=lower)


eigvalsh = structural(
    "eigvalsh",
    infer=_infer_eigvalsh,
    reference=_eigvalsh_reference,
    vjp=(_eigvalsh_vjp,),
    saves=("inputs",),
    example=_eigh_examples,
    extras={"domain": "hermitian"},
)


# eig


def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype, np.complex64)


def _infer_eig(a: Type) -> Type:
    check_matrices("eig", a, square=True)
    n = a.shape[-1]
    return array_type((*a.shape[:-2], n + 1, n), _complex_dtype(a.dtype))


def _eig_reference(a: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eig(a)
    packed = np.concatenate([vectors, values[..., None, :]], axis=-2)
    return packed.astype(_complex_dtype(a.dtype))


# Boeddeker, Hanebrink, Drude, Heymann and Haeb-Umbach, On the computation of complex-valued
# gradients with application to statistically optimum beamforming (2017), 4.6. Vectors keep their
# norm, and their phase is not defined: right for functions that do not depend on it. Eigenvalues
# must be distinct; what is asked of the vectors of equal ones is left out.
def _eig_vjp(g: Node, out: Node, a: Node) -> Node:
    if a.shape[-1] == 0:
        return zeros_like(a)
    vectors, values = _vectors_and_values(out)
    g_vectors, g_values = _vectors_and_values(g)
    turned = conjugate_transpose(vectors)
    inner = matmul(turned, g_vectors)
    along = cast(real_part(diagonal_of(inner)), out.dtype)
    across = inner - OPS["multiply"](matmul(turned, vectors), as_row(along))
    gaps, is_distinct = _gaps(_as_vector(values))
    turns = divided_where(is_distinct, across, OPS["conjugate"](gaps))
    return _by_inverse_vectors(turns + diagonal_matrix(_as_vector(g_values)), turned, a)


def _by_inverse_vectors(core: Node, turned: Node, a: Node) -> Node:
    """V^-H core V^H."""
    gradient = OPS["solve"](turned, matmul(core, turned))
    return cast(gradient if a.dtype.kind == "c" else OPS["real"](gradient), a.dtype)


def _eig_examples(rng: "np.random.Generator") -> list:
    # Not symmetric, and eigenvalues are real: of complex ones the phase of the vectors, and so
    # the result, is not differentiable.
    shapes = ((3, 3), (2, 3, 3), (0, 0), (0, 2, 2))
    return [
        ((array_of(rng, *shape) / 4 + 3 * np.diag(np.arange(shape[-1])),), {}) for shape in shapes
    ]


eig = structural(
    "eig",
    infer=_infer_eig,
    reference=_eig_reference,
    vjp=(_eig_vjp,),
    saves=("out",),
    example=_eig_examples,
    extras={"domain": "simple spectrum"},
)


# eigvals


def _infer_eigvals(a: Type) -> Type:
    check_matrices("eigvals", a, square=True)
    return array_type(a.shape[:-1], _complex_dtype(a.dtype))


def _eigvals_reference(a: np.ndarray) -> np.ndarray:
    return np.linalg.eigvals(a).astype(_complex_dtype(a.dtype))


# Giles (2008), 3.1; a matrix without a basis of eigenvectors is an error of `solve`.
def _eigvals_vjp(g: Node, out: Node, a: Node) -> Node:
    vectors, _ = _vectors_and_values(eig(a))
    return _by_inverse_vectors(diagonal_matrix(g), conjugate_transpose(vectors), a)


eigvals = structural(
    "eigvals",
    infer=_infer_eigvals,
    reference=_eigvals_reference,
    vjp=(_eigvals_vjp,),
    saves=("inputs",),
    example=_eig_examples,
    extras={"domain": "simple spectrum"},
)
