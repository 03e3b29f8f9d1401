"""Operations of linear algebra -> library calls."""

import math
from collections.abc import Callable

from numba_grad.compiler import library_kernels as kernels
from numba_grad.compiler.library_kernels import LibraryCall
from numba_grad.graph.node import Node


def _count(x: Node) -> int:
    """How many matrices."""
    return math.prod(x.shape[:-2])


def _solve(node: Node) -> LibraryCall:
    a, b = node.inputs
    return kernels.solve_call(node.dtype, a.shape[-1], b.shape[-1], a.shape[:-2], b.shape[:-2])


def _solve_triangular(node: Node) -> LibraryCall:
    a, b = node.inputs
    return kernels.solve_triangular_call(
        node.dtype, a.shape[-1], b.shape[-1], a.shape[:-2], b.shape[:-2], **node.params
    )


def _lstsq(node: Node) -> LibraryCall:
    a, b, _ = node.inputs
    *a_stack, m, n = a.shape
    return kernels.lstsq_call(node.dtype, m, n, b.shape[-1], tuple(a_stack), b.shape[:-2])


def _square(call: Callable[..., LibraryCall]) -> Callable[[Node], LibraryCall]:
    """A call of (dtype, n, count) for square matrices."""

    def of_node(node: Node) -> LibraryCall:
        (a,) = node.inputs
        return call(a.dtype, a.shape[-1], _count(a), **node.params)

    return of_node


def _lu(node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernels.lu_call(a.dtype, m, n, _count(a))


def _permutation(node: Node) -> LibraryCall:
    (pivots,) = node.inputs
    count = math.prod(pivots.shape[:-1])
    return kernels.permutation_call(node.shape[-1], pivots.shape[-1], count)


def _qr(node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernels.qr_call(a.dtype, m, n, _count(a), mode=node.params["mode"])


def _eigh(*, vectors: bool) -> Callable[[Node], LibraryCall]:
    def of_node(node: Node) -> LibraryCall:
        (a,) = node.inputs
        lower = node.params["lower"]
        return kernels.eigh_call(a.dtype, a.shape[-1], _count(a), lower=lower, vectors=vectors)

    return of_node


def _eig(*, vectors: bool) -> Callable[[Node], LibraryCall]:
    def of_node(node: Node) -> LibraryCall:
        (a,) = node.inputs
        return kernels.eig_call(a.dtype, a.shape[-1], _count(a), vectors=vectors)

    return of_node


def _svd(node: Node) -> LibraryCall:
    (a,) = node.inputs
    part = "full" if node.params["full"] else "reduced"
    m, n = a.shape[-2:]
    return kernels.svd_call(a.dtype, m, n, _count(a), part=part)


def _svdvals(node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernels.svd_call(a.dtype, m, n, _count(a), part="values")


MATRIX_CALLS: dict[str, Callable[[Node], LibraryCall]] = {
    "inv": _square(kernels.inv_call),
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "lstsq": _lstsq,
    "cholesky": _square(kernels.cholesky_call),
    "lu": _lu,
    "permutation": _permutation,
    "qr": _qr,
    "eigh": _eigh(vectors=True),
    "eigvalsh": _eigh(vectors=False),
    "eig": _eig(vectors=True),
    "eigvals": _eig(vectors=False),
    "svd": _svd,
    "svdvals": _svdvals,
    "det": _square(kernels.det_call),
    "slogdet": _square(kernels.slogdet_call),
    "cofactor": _square(kernels.cofactor_call),
    "expm": _square(kernels.expm_call),
}
