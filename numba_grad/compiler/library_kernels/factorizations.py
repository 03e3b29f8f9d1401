"""Cholesky, LU and QR factorizations, by LAPACK."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory
from numba_grad.compiler.library_kernels.lapack import (
    BLOCK,
    CLEAR_PIVOTS,
    FAILED,
    FIND_PIVOTS,
    lapack,
    letter,
    stack_call,
)
from numba_grad.compiler.library_kernels.matrix_operations import (
    lowers_square_matrices,
    number_of_matrices,
    of_matrix,
)
from numba_grad.compiler.library_kernels.registry import BY_MATRIX, LibraryKernel, lowers
from numba_grad.compiler.library_kernels.small_matrices import (
    cholesky_factor,
    is_small,
    loaded,
    stored,
)
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import ErrorSite

__all__ = ["cholesky_call", "lu_call", "permutation_call", "qr_call"]


def cholesky_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The lower triangular L of a = L L^H; the lower triangle of a is read. One output."""
    name = dtype.name
    operands = {"a": (Memory("input"), name), "out": (Memory("output"), name)}
    sites = {"indefinite": ErrorSite("not positive definite", "cholesky")}
    if is_small(n):
        return stack_call(
            count=count,
            products=n**3 // 3,
            operands=operands,
            sites=sites,
            body=f"""\
start = matrix * {n * n}
{loaded("m", n, n, "a", "start")}
{cholesky_factor("m", n, dtype, "is_indefinite")}
fails(indefinite, is_indefinite)
{stored("m", n, n, "out", "start")}
""",
        )
    return stack_call(
        count=count if n else 0,
        products=n**3 // 3,
        operands=operands,
        words={"potrf": lapack(dtype, "potrf"), "n": n, "upper": letter("U")},
        sites=sites,
        # LAPACK counts columns first: it sees a^T = conj(a) and factorizes it into conj(L) L^T, of
        # which it writes the upper triangular factor.
        body=f"""\
start = matrix * n * n
for i in range(n):
    for j in range(i + 1):
        out[start + i * n + j] = a[start + i * n + j]
    for j in range(i + 1, n):
        out[start + i * n + j] = 0
call(potrf, upper_at, n_at, out_at + start * {dtype.itemsize}, n_at, info_at, 1)
if {FAILED}:
    fail(indefinite)
""",
    )


def lu_call(dtype: np.dtype, m: int, n: int, count: int) -> LibraryCall:
    """L below the diagonal and U from it on, of a[m, n] with its rows exchanged; then a column.

    That column holds for each row, from the first on, the row that it was exchanged with.
    Input: a. One output, (m, n + 1).
    """
    name = dtype.name
    least = min(m, n)
    return stack_call(
        count=count if m else 0,
        products=m * n * least,
        operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
        words={
            "getrf": lapack(dtype, "getrf"),
            "m": m,
            "n": n,
            "leading": max(1, m),
            "pivot_count": least,
        },
        rooms={"factors": (m * n, name), "pivots": (least, "int64")},
        body=f"""\
start = matrix * m * n
for i in range(m):
    for j in range(n):
        factors[j * m + i] = a[start + i * n + j]
{CLEAR_PIVOTS}
call(getrf, m_at, n_at, factors_at, leading_at, pivots_at, info_at)
{FIND_PIVOTS}
start = matrix * m * (n + 1)
for i in range(m):
    for j in range(n):
        out[start + i * (n + 1) + j] = factors[j * m + i]
    out[start + i * (n + 1) + n] = i
for i in range(pivot_count):
    out[start + i * (n + 1) + n] = int64(small_pivots[pivot_step * i]) - 1
""",
    )


def permutation_call(rows: int, pivots: int, count: int) -> LibraryCall:
    """The order of rows after each of the first ones is exchanged with the given one, in turn.

    Input: int64 pivots. One output, int64.
    """
    return stack_call(
        count=count if rows else 0,
        products=rows,
        operands={"given": (Memory("input"), "int64"), "out": (Memory("output"), "int64")},
        words={"rows": rows, "pivots": pivots},
        sites={"outside": ErrorSite("pivots", "lu_solve")},
        body="""\
start = matrix * rows
for i in range(rows):
    out[start + i] = i
misplaced = 0
for i in range(pivots):
    other = given[matrix * pivots + i]
    if other < 0 or other >= rows:
        misplaced += 1
    else:
        kept = out[start + i]
        out[start + i] = out[start + other]
        out[start + other] = kept
if misplaced > 0:
    fail(outside)
""",
    )


def qr_call(dtype: np.dtype, m: int, n: int, count: int, *, mode: str) -> LibraryCall:
    """Orthonormal columns Q and upper triangular R with a = Q R, for a[m, n].

    Input: a. One output: for `mode` "r" R alone, (k, n) with k = min(m, n). Else (m + n, w): the
    rows of Q, then those of R^T, where w is k for "reduced" and m for "complete".
    """
    name = dtype.name
    least = min(m, n)
    width = m if mode == "complete" else least
    bodies = {"r": _R_BODY}
    return stack_call(
        count=count if (least * n if mode == "r" else (m + n) * width) else 0,
        products=m * n * least + m * width * least,
        operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
        words={
            "geqrf": lapack(dtype, "geqrf"),
            "ungqr": lapack(dtype, "ungqr", real_name="orgqr"),
            "m": m,
            "n": n,
            "least": least,
            "width": width,
            "leading": max(1, m),
            "work_size": BLOCK * max(1, n, width),
        },
        rooms={
            "factors": (m * max(n, width), name),
            "scales": (least, name),
            "work": (BLOCK * max(1, n, width), name),
        },
        body=_FACTORIZE_BODY + bodies.get(mode, _QR_BODY),
    )


_FACTORIZE_BODY = """\
start = matrix * m * n
for i in range(m):
    for j in range(n):
        factors[j * m + i] = a[start + i * n + j]
call(geqrf, m_at, n_at, factors_at, leading_at, scales_at, work_at, work_size_at, info_at)
"""
_R_BODY = """\
start = matrix * least * n
for i in range(least):
    for j in range(i):
        out[start + i * n + j] = 0
    for j in range(i, n):
        out[start + i * n + j] = factors[j * m + i]
"""
_QR_BODY = """\
q_start = matrix * (m + n) * width
r_start = q_start + m * width
for j in range(n):
    for i in range(width):
        if i <= j and i < least:
            out[r_start + j * width + i] = factors[j * m + i]
        else:
            out[r_start + j * width + i] = 0
call(ungqr, m_at, width_at, least_at, factors_at, leading_at, scales_at, work_at, work_size_at,
     info_at)
for i in range(m):
    for j in range(width):
        out[q_start + i * width + j] = factors[j * m + i]
"""


lowers_square_matrices(
    "cholesky",
    by=cholesky_call,
    operations=lambda m, n, k: n**3 // 3,
    on_gpus=BY_MATRIX,
)


@lowers(
    "lu",
    by=lu_call,
    operations=of_matrix(lambda m, n, k: 2 * m * n * k - (m + n) * k**2 + 2 * k**3 // 3),
)
def _lu(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernel(a.dtype, m, n, number_of_matrices(a))


@lowers("permutation", by=permutation_call, on_gpus=BY_MATRIX)
def _permutation(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (pivots,) = node.inputs
    count = math.prod(pivots.shape[:-1])
    return kernel(node.shape[-1], pivots.shape[-1], count)


@lowers("qr", by=qr_call, operations=of_matrix(lambda m, n, k: 4 * m * n * k - 4 * k**3 // 3))
def _qr(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernel(a.dtype, m, n, number_of_matrices(a), mode=node.params["mode"])
