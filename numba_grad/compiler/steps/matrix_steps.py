"""Operations of linear algebra -> library calls."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.compiler.library_kernels import LibraryCall
from numba_grad.graph.node import Node

# Of the library of kernels, as in `library_steps.call_of`, and a node.
Call = Callable[[Any, Node], LibraryCall]


def _count(x: Node) -> int:
    """How many matrices."""
    return math.prod(x.shape[:-2])


def _solve(kernels: Any, node: Node) -> LibraryCall:
    a, b = node.inputs
    return kernels.solve_call(node.dtype, a.shape[-1], b.shape[-1], a.shape[:-2], b.shape[:-2])


def _solve_triangular(kernels: Any, node: Node) -> LibraryCall:
    a, b = node.inputs
    return kernels.solve_triangular_call(
        node.dtype, a.shape[-1], b.shape[-1], a.shape[:-2], b.shape[:-2], **node.params
    )


def _lstsq(kernels: Any, node: Node) -> LibraryCall:
    a, b, _ = node.inputs
    *a_stack, m, n = a.shape
    return kernels.lstsq_call(node.dtype, m, n, b.shape[-1], tuple(a_stack), b.shape[:-2])


def _square(name: str) -> Call:
    """A call of (dtype, n, count) for square matrices."""

    def of_node(kernels: Any, node: Node) -> LibraryCall:
        a = node.inputs[0]
        return getattr(kernels, name)(a.dtype, a.shape[-1], _count(a), **node.params)

    return of_node


def _lu(kernels: Any, node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernels.lu_call(a.dtype, m, n, _count(a))


def _permutation(kernels: Any, node: Node) -> LibraryCall:
    (pivots,) = node.inputs
    count = math.prod(pivots.shape[:-1])
    return kernels.permutation_call(node.shape[-1], pivots.shape[-1], count)


def _qr(kernels: Any, node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernels.qr_call(a.dtype, m, n, _count(a), mode=node.params["mode"])


def _eigh(*, vectors: bool) -> Call:
    def of_node(kernels: Any, node: Node) -> LibraryCall:
        (a,) = node.inputs
        lower = node.params["lower"]
        return kernels.eigh_call(a.dtype, a.shape[-1], _count(a), lower=lower, vectors=vectors)

    return of_node


def _eig(*, vectors: bool) -> Call:
    def of_node(kernels: Any, node: Node) -> LibraryCall:
        (a,) = node.inputs
        return kernels.eig_call(a.dtype, a.shape[-1], _count(a), vectors=vectors)

    return of_node


def _svd(kernels: Any, node: Node) -> LibraryCall:
    (a,) = node.inputs
    part = "full" if node.params["full"] else "reduced"
    m, n = a.shape[-2:]
    return kernels.svd_call(a.dtype, m, n, _count(a), part=part)


def _svdvals(kernels: Any, node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernels.svd_call(a.dtype, m, n, _count(a), part="values")


def _solve_sylvester(kernels: Any, node: Node) -> LibraryCall:
    a, b, _ = node.inputs
    return kernels.solve_sylvester_call(node.dtype, a.shape[-1], b.shape[-1], _count(a))


def _solve_banded(kernels: Any, node: Node) -> LibraryCall:
    bands, b = node.inputs
    n, columns = b.shape[-2:]
    return kernels.solve_banded_call(node.dtype, n, columns, _count(bands), **node.params)


MATRIX_CALLS: dict[str, Call] = {
    "inv": _square("inv_call"),
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "lstsq": _lstsq,
    "cholesky": _square("cholesky_call"),
    "lu": _lu,
    "permutation": _permutation,
    "qr": _qr,
    "eigh": _eigh(vectors=True),
    "eigvalsh": _eigh(vectors=False),
    "eig": _eig(vectors=True),
    "eigvals": _eig(vectors=False),
    "svd": _svd,
    "svdvals": _svdvals,
    "det": _square("det_call"),
    "slogdet": _square("slogdet_call"),
    "cofactor": _square("cofactor_call"),
    "cofactor_in_direction": _square("cofactor_in_direction_call"),
    "expm": _square("expm_call"),
    "sqrtm": _square("sqrtm_call"),
    "solve_sylvester": _solve_sylvester,
    "solve_banded": _solve_banded,
}

# Roughly, the additions and multiplications for one matrix of m rows and n columns, k the smaller
# number: Golub and Van Loan, Matrix computations (2013).
_OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "solve": lambda m, n, k: 2 * n**3 // 3,
    "inv": lambda m, n, k: 8 * n**3 // 3,
    "solve_triangular": lambda m, n, k: 0,
    "lstsq": lambda m, n, k: 14 * m * n * k + 8 * k**3,
    "cholesky": lambda m, n, k: n**3 // 3,
    "lu": lambda m, n, k: 2 * m * n * k - (m + n) * k**2 + 2 * k**3 // 3,
    "qr": lambda m, n, k: 4 * m * n * k - 4 * k**3 // 3,
    "eigh": lambda m, n, k: 9 * n**3,
    "eigvalsh": lambda m, n, k: 4 * n**3 // 3,
    "eig": lambda m, n, k: 25 * n**3,
    "eigvals": lambda m, n, k: 10 * n**3,
    "svd": lambda m, n, k: 14 * m * n * k + 8 * k**3,
    "svdvals": lambda m, n, k: 4 * m * n * k - 4 * k**3 // 3,
    "det": lambda m, n, k: 2 * n**3 // 3,
    "slogdet": lambda m, n, k: 2 * n**3 // 3,
    "cofactor": lambda m, n, k: 2 * n**3,
    "cofactor_in_direction": lambda m, n, k: 30 * n**3,
    "expm": lambda m, n, k: 18 * n**3,
    "sqrtm": lambda m, n, k: 100 * n**3,
    "solve_sylvester": lambda m, n, k: 100 * n**3,
    "solve_banded": lambda m, n, k: m * m * n,
}
# With each right side: those of a triangular system, and of a product.
_SYSTEMS = {"solve": 2, "solve_triangular": 1, "lstsq": 4}


def operations(node: Node) -> int | None:
    """Roughly, what the step computes, for profiles; None if it is not of linear algebra."""
    of_matrix = _OPERATIONS.get(node.op.name)
    if of_matrix is None:
        return None
    m, n = node.inputs[0].shape[-2:]
    count = math.prod(np.broadcast_shapes(*[x.shape[:-2] for x in node.inputs[:2]]))
    total = of_matrix(m, n, min(m, n))
    if node.op.name in _SYSTEMS:
        total += _SYSTEMS[node.op.name] * m * n * node.shape[-1]
    return count * total * (4 if node.inputs[0].dtype.kind == "c" else 1)
