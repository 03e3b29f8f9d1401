"""Eigenvalues and eigenvectors, by LAPACK."""

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory
from numba_grad.compiler.library_kernels.lapack import (
    BLOCK,
    FAILED,
    copied_by_columns,
    lapack,
    less_itself,
    letter,
    real_name,
    stack_call,
)
from numba_grad.compiler.library_kernels.matrix_operations import number_of_matrices, of_matrix
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import ErrorSite

__all__ = ["eig_call", "eigh_call"]

_FAILURE = "eigenvalues"


def eigh_call(dtype: np.dtype, n: int, count: int, *, lower: bool, vectors: bool) -> LibraryCall:
    """Eigenvalues, ascending, of Hermitian matrices of which one triangle is read.

    Input: a. One output: the eigenvalues, real, (n,); with `vectors` (n + 1, n), the matrix whose
    columns are the eigenvectors, and the eigenvalues as a last row. NaN where a is not finite.
    """
    name = dtype.name
    real = real_name(dtype)
    is_complex = dtype.kind == "c"
    if vectors:
        work_size = (2 * n + n * n if is_complex else 1 + 6 * n + 2 * n * n) + BLOCK * n
        real_size = 1 + 5 * n + 2 * n * n
        integer_size = 3 + 5 * n
    else:
        work_size, real_size, integer_size = 2 * n + 1 + BLOCK * n, n, 1
    work = "work_at, work_size_at"
    rooms = {"factors": (n * n, name), "values": (n, real), "work": (work_size, name)}
    if is_complex:
        rooms["real_work"] = (real_size, real)
        work += ", real_work_at, real_size_at"
    rooms["integers"] = (integer_size, "int64")
    store = _EIGENVECTORS if vectors else _EIGENVALUES
    return stack_call(
        count=count if n else 0,
        products=(9 if vectors else 2) * n**3,
        operands={
            "a": (Memory("input"), name),
            "out": (Memory("output"), name if vectors else real),
        },
        words={
            "syevd": lapack(dtype, "heevd", real_name="syevd"),
            "n": n,
            "lower": int(lower),
            "job": letter("V" if vectors else "N"),
            "triangle": letter("L" if lower else "U"),
            "work_size": work_size,
            "real_size": real_size,
            "integer_size": integer_size,
        },
        rooms=rooms,
        sites={"diverged": ErrorSite(_FAILURE, "eigh" if vectors else "eigvalsh")},
        body=f"""\
start = matrix * n * n
poison = {real}(0)
for i in range(n):
    for j in range(n):
        x = a[start + i * n + j]
        factors[j * n + i] = x
        if i == j or (i > j) == (lower != 0):
            poison += {less_itself(dtype)}
if poison == 0:
    call(syevd, job_at, triangle_at, n_at, factors_at, n_at, values_at, {work},
         integers_at, integer_size_at, info_at, 1, 1)
    if {FAILED}:
        fail(diverged)
else:
    for i in range(n * n):
        factors[i] = poison
    for i in range(n):
        values[i] = poison
{store}""",
    )


_EIGENVALUES = """\
for i in range(n):
    out[matrix * n + i] = values[i]
"""
_EIGENVECTORS = """\
start = matrix * (n + 1) * n
for i in range(n):
    for j in range(n):
        out[start + i * n + j] = factors[j * n + i]
    out[start + n * n + i] = values[i]
"""


def eig_call(dtype: np.dtype, n: int, count: int, *, vectors: bool) -> LibraryCall:
    """Eigenvalues of square matrices, in LAPACK's order; complex.

    Input: a, real or complex. One output: the eigenvalues, (n,); with `vectors` (n + 1, n), the
    matrix whose columns are the eigenvectors, of norm 1, and the eigenvalues as a last row.
    """
    name = dtype.name
    real = real_name(dtype)
    is_complex = dtype.kind == "c"
    result = "complex64" if real == "float32" else "complex128"
    work_size = max(1, (4 + 2 * BLOCK) * n)
    right = n * n if vectors else 1
    rooms = {"factors": (n * n, name), "right": (right, name), "work": (work_size, name)}
    if is_complex:
        rooms |= {"values": (n, name), "real_work": (2 * n, real)}
        values, work = "values_at", "work_at, work_size_at, real_work_at"
        store_value = "values[j]"
    else:
        rooms |= {"values": (n, real), "imaginary": (n, real)}
        values, work = "values_at, imaginary_at", "work_at, work_size_at"
        store_value = "make_complex(values[j], imaginary[j])"
    store_vectors = _COMPLEX_VECTORS if is_complex else _PAIRED_VECTORS
    stride = "(n + 1) * n" if vectors else "n"
    return stack_call(
        count=count if n else 0,
        products=25 * n**3,
        operands={"a": (Memory("input"), name), "out": (Memory("output"), result)},
        words={
            "geev": lapack(dtype, "geev"),
            "n": n,
            "job": letter("V" if vectors else "N"),
            "no_job": letter("N"),
            "work_size": work_size,
        },
        rooms=rooms,
        sites={
            "not_finite": ErrorSite("not finite", "eig" if vectors else "eigvals"),
            "diverged": ErrorSite(_FAILURE, "eig" if vectors else "eigvals"),
        },
        body=f"""\
start = matrix * n * n
poison = {real}(0)
{copied_by_columns(dtype, "a", "factors")}
if not (poison == 0):
    fail(not_finite)
call(geev, no_job_at, job_at, n_at, factors_at, n_at, {values}, right_at, n_at, right_at, n_at,
     {work}, info_at, 1, 1)
if {FAILED}:
    fail(diverged)
start = matrix * {stride}
{store_vectors if vectors else ""}\
for j in range(n):
    out[start + j] = {store_value}
""",
    )


_COMPLEX_VECTORS = """\
for i in range(n):
    for j in range(n):
        out[start + i * n + j] = right[j * n + i]
start += n * n
"""
# Of a pair of conjugate eigenvalues LAPACK gives the real and the imaginary part of one vector.
_PAIRED_VECTORS = """\
for i in range(n):
    second = 0
    for j in range(n):
        if imaginary[j] == 0:
            out[start + i * n + j] = make_complex(right[j * n + i], right[j * n + i] * 0)
        elif second == 0:
            part = right[(j + 1) * n + i]
            out[start + i * n + j] = make_complex(right[j * n + i], part)
            out[start + i * n + j + 1] = make_complex(right[j * n + i], -part)
            second = 1
        else:
            second = 0
start += n * n
"""


@lowers("eigh", by=eigh_call, operations=of_matrix(lambda m, n, k: 9 * n**3))
def _eigh(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return _hermitian(kernel, node, vectors=True)


@lowers("eigvalsh", by=eigh_call, operations=of_matrix(lambda m, n, k: 4 * n**3 // 3))
def _eigvalsh(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return _hermitian(kernel, node, vectors=False)


def _hermitian(kernel: LibraryKernel, node: Node, *, vectors: bool) -> LibraryCall:
    (a,) = node.inputs
    lower = node.params["lower"]
    return kernel(a.dtype, a.shape[-1], number_of_matrices(a), lower=lower, vectors=vectors)


@lowers("eig", by=eig_call, operations=of_matrix(lambda m, n, k: 25 * n**3))
def _eig(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (a,) = node.inputs
    return kernel(a.dtype, a.shape[-1], number_of_matrices(a), vectors=True)


@lowers("eigvals", by=eig_call, operations=of_matrix(lambda m, n, k: 10 * n**3))
def _eigvals(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (a,) = node.inputs
    return kernel(a.dtype, a.shape[-1], number_of_matrices(a), vectors=False)
