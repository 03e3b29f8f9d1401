"""Linear systems, Cholesky and LU factors of small matrices, a warp for each."""

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels import warp_stacks
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    WARP,
    indented,
    zero,
)
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.cuda.library_kernels.warp_stacks import (
    FAILED,
    LOADED,
    eliminated,
    matrix_call,
    site_of,
    system_call,
)
from numba_grad.compiler.library_kernels import LibraryCall
from numba_grad.compiler.library_kernels.calls import Shape


@stands_for(of_cpu.inv_call, takes=warp_stacks.squares)
def inv_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    site = site_of(of_cpu.inv_call(dtype, n, count))
    body = LOADED + eliminated(dtype) + _checked(dtype) + _columns(_identity(dtype) + _SUBSTITUTED)
    integers = {"rows": n, "n": n, "columns": n}
    return matrix_call(dtype, body, count if n else 0, integers, site=site)


@stands_for(of_cpu.solve_call, takes=warp_stacks.systems)
def solve_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape
) -> LibraryCall:
    """As the CPU's."""
    site = site_of(of_cpu.solve_call(dtype, n, columns, a_stack, b_stack))
    body = LOADED + eliminated(dtype) + _checked(dtype) + _columns(_RIGHT + _SUBSTITUTED)
    return system_call(dtype, body, n, columns, a_stack, b_stack, site)


@stands_for(of_cpu.solve_triangular_call, takes=warp_stacks.systems)
def solve_triangular_call(
    dtype: np.dtype,
    n: int,
    columns: int,
    a_stack: Shape,
    b_stack: Shape,
    *,
    lower: bool,
    unit_diagonal: bool,
) -> LibraryCall:
    """As the CPU's."""
    params = {"lower": lower, "unit_diagonal": unit_diagonal}
    site = site_of(of_cpu.solve_triangular_call(dtype, n, columns, a_stack, b_stack, **params))
    substituted = _substituted(lower=lower, divides=not unit_diagonal)
    check = "" if unit_diagonal else _checked(dtype)
    body = LOADED + check + _columns(_RIGHT + substituted)
    return system_call(dtype, body, n, columns, a_stack, b_stack, site)


@stands_for(of_cpu.cholesky_call, takes=warp_stacks.squares)
def cholesky_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    site = site_of(of_cpu.cholesky_call(dtype, n, count))
    body = LOADED + _cholesky(dtype)
    return matrix_call(dtype, body, count if n else 0, {"rows": n, "n": n}, site=site)


@stands_for(of_cpu.lu_call, takes=warp_stacks.rectangles)
def lu_call(dtype: np.dtype, m: int, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    store = """\
row = 0
while row < rows:
    if thread < n:
        out[(matrix * rows + row) * (n + 1) + thread] = tile[row * 33 + thread]
    row += 1
if thread < rows:
    out[(matrix * rows + thread) * (n + 1) + n] = swaps[thread] if thread < min(rows, n) else thread
"""
    body = LOADED + eliminated(dtype) + store
    return matrix_call(dtype, body, count if m else 0, {"rows": m, "n": n})


def _checked(dtype: np.dtype) -> str:
    return f"""\
is_bad = False
k = 0
while k < n:
    is_bad = is_bad or tile[k * 33 + k] == {zero(dtype)}
    k += 1
{FAILED}"""


def _columns(body: str) -> str:
    """`body` for each right side, a column of `out`, by one lane."""
    return f"""\
first = matrix * n * columns
column = int64(thread)
while column < columns:
{indented(body, 1)}\
    column += {WARP}
"""


_SWAPPED = """\
k = 0
while k < n:
    other = first + int64(swaps[k]) * columns + column
    kept = out[first + k * columns + column]
    out[first + k * columns + column] = out[other]
    out[other] = kept
    k += 1
"""


_RIGHT = """\
k = 0
while k < n:
    out[first + k * columns + column] = b[y_start + k * columns + column]
    k += 1
"""


def _identity(dtype: np.dtype) -> str:
    return f"""\
k = 0
while k < n:
    out[first + k * columns + column] = {zero(dtype, 1)} if k == column else {zero(dtype)}
    k += 1
"""


def _substituted(*, lower: bool, divides: bool) -> str:
    """From the first row on, or from the last one.

    Counted upwards either way: of `while k >= 0 and k < n` with a falling 64-bit k and a loop
    inside, NVVM 13.0 makes nothing at all.
    """
    row, start, end = ("solved", "0", "k") if lower else ("n - 1 - solved", "k + 1", "n")
    quotient = " / tile[k * 33 + k]" if divides else ""
    return f"""\
solved = 0
while solved < n:
    k = {row}
    total = out[first + k * columns + column]
    j = {start}
    while j < {end}:
        total -= tile[k * 33 + j] * out[first + j * columns + column]
        j += 1
    out[first + k * columns + column] = total{quotient}
    solved += 1
"""


_SUBSTITUTED = (
    _SWAPPED + _substituted(lower=True, divides=False) + _substituted(lower=False, divides=True)
)


def _cholesky(dtype: np.dtype) -> str:
    """The comparison is LAPACK's: nan is let through."""
    real, factor, conjugate = "", "root", ""
    if dtype.kind == "c":
        part = "float32" if dtype == np.complex64 else "float64"
        real, factor, conjugate = ".real", f"complex(root, {part}(0.0))", ".conjugate()"
    number = zero(np.finfo(dtype).dtype)
    return f"""\
is_bad = False
k = 0
while k < n:
    rest = tile[k * 33 + k]{real}
    is_bad = is_bad or rest <= {number}
    root = math.sqrt(rest)
    cuda.syncthreads()
    if thread == k:
        tile[k * 33 + k] = {factor}
    if thread > k and thread < n:
        tile[thread * 33 + k] = tile[thread * 33 + k] / root
    cuda.syncthreads()
    if thread > k and thread < n:
        j = k + 1
        while j <= thread:
            tile[thread * 33 + j] -= tile[thread * 33 + k] * tile[j * 33 + k]{conjugate}
            j += 1
    cuda.syncthreads()
    k += 1
{FAILED}\
row = 0
while row < n:
    if thread < n:
        out[(matrix * n + row) * n + thread] = {zero(dtype)}
        if thread <= row:
            out[(matrix * n + row) * n + thread] = tile[row * 33 + thread]
    row += 1
"""
