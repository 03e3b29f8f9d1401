"""Singular value decompositions and least squares, by LAPACK."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, LibraryWord, Memory, Shape
from numba_grad.compiler.library_kernels.lapack import (
    BLOCK,
    FAILED,
    STACK_STARTS,
    blas,
    conjugate,
    lapack,
    less_itself,
    letter,
    real_name,
    stack_call,
)
from numba_grad.compiler.library_kernels.matrix_operations import number_of_matrices, of_matrix
from numba_grad.compiler.library_kernels.matrix_stacks import words_of_stack
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import ErrorSite

__all__ = ["lstsq_call", "svd_call"]

_FAILURE = "singular values"


def svd_call(dtype: np.dtype, m: int, n: int, count: int, *, part: str) -> LibraryCall:
    """The singular values, descending, of a[m, n], and the vectors.

    Input: a. One output: for `part` "values" the values alone, real, (k,) with k = min(m, n). Else
    (m + n + 1, w): the rows of U, then those of V, then the values, where w is k for "reduced" and
    max(m, n) for "full"; zero where there is nothing. All NaN if an element is infinite.
    """
    name = dtype.name
    real = real_name(dtype)
    least = min(m, n)
    width = {"values": 0, "reduced": least, "full": max(m, n)}[part]
    u_width, v_width = (m, n) if part == "full" else (least, least)
    is_empty = not (least if part == "values" else (m + n + 1) * width)
    job = {"values": "N", "reduced": "S", "full": "A"}[part]
    store = _store_values() if part == "values" else _store_vectors(dtype)
    decompose = _decompose(dtype)
    return stack_call(
        count=0 if is_empty else count,
        products=(4 if part == "values" else 22) * m * n * least,
        operands={
            "a": (Memory("input"), name),
            "out": (Memory("output"), real if part == "values" else name),
        },
        words={**_gesdd_words(dtype, m, n, u_width, v_width, job), "width": width},
        rooms=_gesdd_rooms(dtype, m, n, u_width, v_width, job),
        sites={"diverged": ErrorSite(_FAILURE, "svdvals" if part == "values" else "svd")},
        body=f"start = matrix * m * n\n{decompose}{store}",
    )


def _gesdd_sizes(m: int, n: int, job: str) -> tuple[int, int]:
    """Elements of the work arrays, the second of which is for complex matrices only: real."""
    least, most = min(m, n), max(m, n)
    blocks = BLOCK * (m + n)
    if job == "N":
        return 3 * least + most + 7 * least + blocks, 7 * least
    real_size = max(5 * least * least + 7 * least, 2 * most * least + 2 * least * least + least)
    return 5 * least * least + 7 * least + most + blocks, real_size


def _gesdd_words(
    dtype: np.dtype, m: int, n: int, u_width: int, v_width: int, job: str
) -> dict[str, LibraryWord]:
    return {
        "gesdd": lapack(dtype, "gesdd"),
        "m": m,
        "n": n,
        "least": min(m, n),
        "leading": max(1, m),
        "u_width": u_width,
        "v_width": v_width,
        "v_leading": max(1, v_width),
        "job": letter(job),
        "work_size": _gesdd_sizes(m, n, job)[0],
    }


def _gesdd_rooms(
    dtype: np.dtype, m: int, n: int, u_width: int, v_width: int, job: str
) -> dict[str, tuple[int, str]]:
    work_size, real_size = _gesdd_sizes(m, n, job)
    has_vectors = job != "N"
    return {
        "factors": (m * n, dtype.name),
        "values": (min(m, n), real_name(dtype)),
        "left": (m * u_width if has_vectors else 1, dtype.name),
        "right": (v_width * n if has_vectors else 1, dtype.name),
        "work": (work_size, dtype.name),
        "real_work": (real_size if dtype.kind == "c" else 0, real_name(dtype)),
        "integers": (8 * min(m, n), "int64"),
    }


def _decompose(dtype: np.dtype) -> str:
    """`left` (m, u_width), `values` and `right` (v_width, n) of the matrix at `start`, by columns.

    LAPACK does not see what is not finite: of that it may make anything.
    """
    real = real_name(dtype)
    if dtype.kind == "c":
        is_nan = "x.real != x.real or x.imag != x.imag"
        work = "work_at, work_size_at, real_work_at"
    else:
        is_nan, work = "x != x", "work_at, work_size_at"
    return f"""\
poison = {real}(0)
nans = 0
for i in range(m):
    for j in range(n):
        x = a[start + i * n + j]
        factors[j * m + i] = x
        poison += {less_itself(dtype)}
        if {is_nan}:
            nans += 1
if nans > 0:
    fail(diverged)
for i in range(m * u_width):
    if job != {letter("N")}:
        left[i] = {real}(i % (m + 1) == 0)
for i in range(v_width * n):
    if job != {letter("N")}:
        right[i] = {real}(i % (v_width + 1) == 0)
if poison == 0:
    if least > 0:
        call(gesdd, job_at, m_at, n_at, factors_at, leading_at, values_at, left_at, leading_at,
             right_at, v_leading_at, {work}, integers_at, info_at, 1)
        if {FAILED}:
            fail(diverged)
else:
    for i in range(least):
        values[i] = poison
    if job != {letter("N")}:
        for i in range(m * u_width):
            left[i] = poison
        for i in range(v_width * n):
            right[i] = poison
"""


def _store_values() -> str:
    return """\
for i in range(least):
    out[matrix * least + i] = values[i]
"""


def _store_vectors(dtype: np.dtype) -> str:
    return f"""\
start = matrix * (m + n + 1) * width
for i in range((m + n + 1) * width):
    out[start + i] = 0
for i in range(m):
    for j in range(u_width):
        out[start + i * width + j] = left[j * m + i]
start += m * width
for i in range(n):
    for j in range(v_width):
        out[start + i * width + j] = {conjugate(dtype, "right[i * v_width + j]")}
start += n * width
for j in range(least):
    out[start + j] = values[j]
"""


def lstsq_call(
    dtype: np.dtype, m: int, n: int, columns: int, a_stack: Shape, b_stack: Shape
) -> LibraryCall:
    """The shortest x that minimizes |a x - b|, for a[..., m, n] and b[..., m, columns].

    Inputs: a, b, and for each matrix a the real number times the largest singular value up to which
    singular values count as 0. One output, (..., n, columns).
    """
    name = dtype.name
    least = min(m, n)
    stack = np.broadcast_shapes(a_stack, b_stack)
    return stack_call(
        count=math.prod(stack) if n and columns else 0,
        products=22 * m * n * least + (m + n) * least * columns,
        operands={
            "a": (Memory("input", 0), name),
            "b": (Memory("input", 1), name),
            "tolerance": (Memory("input", 2), real_name(dtype)),
            "out": (Memory("output"), name),
        },
        words={
            **_gesdd_words(dtype, m, n, least, least, "S"),
            "gemm": blas(dtype, "gemm"),
            "columns": columns,
            "as_it_is": letter("N"),
        },
        rooms={
            **_gesdd_rooms(dtype, m, n, least, least, "S"),
            "coordinates": (least * columns, name),
            "one": (1, name),
            "zero": (1, name),
        },
        sites={"diverged": ErrorSite(_FAILURE, "lstsq")},
        tail=words_of_stack(stack, a_stack, b_stack, m * n, m * columns),
        body=_lstsq_body(dtype),
    )


def _lstsq_body(dtype: np.dtype) -> str:
    """x = V (U^H b / s). BLAS counts columns first: it sees b^T, and makes x^T."""
    name, size = dtype.name, dtype.itemsize
    conjugates = ""
    if dtype.kind == "c":
        conjugates = """\
for i in range(m * least):
    left[i] = conjugate(left[i])
for i in range(least * n):
    right[i] = conjugate(right[i])
"""
    return f"""\
{STACK_STARTS}
start = x_start
x_at = out_at + matrix * n * columns * {size}
if least == 0:
    for i in range(n * columns):
        out[matrix * n * columns + i] = 0
    continue
{_decompose(dtype)}\
{conjugates}\
one[0] = 1
zero[0] = 0
call(gemm, as_it_is_at, as_it_is_at, columns_at, least_at, m_at, one_at,
     b_at + y_start * {size}, columns_at, left_at, m_at, zero_at, coordinates_at, columns_at, 1, 1)
limit = tolerance[start // (m * n)] * values[0]
for k in range(least):
    factor = {real_name(dtype)}(0)
    if not (values[k] <= limit):
        factor = 1 / values[k]
    for j in range(columns):
        coordinates[k * columns + j] = coordinates[k * columns + j] * {name}(factor)
call(gemm, as_it_is_at, as_it_is_at, columns_at, n_at, least_at, one_at, coordinates_at, columns_at,
     right_at, least_at, zero_at, x_at, columns_at, 1, 1)
"""


@lowers("svd", by=svd_call, operations=of_matrix(lambda m, n, k: 14 * m * n * k + 8 * k**3))
def _svd(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return _of_rectangles(kernel, node, "full" if node.params["full"] else "reduced")


@lowers("svdvals", by=svd_call, operations=of_matrix(lambda m, n, k: 4 * m * n * k - 4 * k**3 // 3))
def _svdvals(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return _of_rectangles(kernel, node, "values")


def _of_rectangles(kernel: LibraryKernel, node: Node, part: str) -> LibraryCall:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    return kernel(a.dtype, m, n, number_of_matrices(a), part=part)


@lowers(
    "lstsq",
    by=lstsq_call,
    operations=of_matrix(lambda m, n, k: 14 * m * n * k + 8 * k**3, for_each_right_side=4),
)
def _lstsq(kernel: LibraryKernel, node: Node) -> LibraryCall:
    a, b, _ = node.inputs
    *a_stack, m, n = a.shape
    return kernel(node.dtype, m, n, b.shape[-1], tuple(a_stack), b.shape[:-2])
