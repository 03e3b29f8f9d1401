"""Stacks of matrices of up to 32 rows and columns: a warp for each, in shared memory.

A lane has a column, or a row, at a time. Pivots are LAPACK's: the first of the largest in a column,
where nan counts as the largest, so that it is not lost.
"""

import math
from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    WARP,
    indented,
    kernel_source,
    merged_axes,
    pointer_to,
    walk_of_stack,
    zero,
)
from numba_grad.compiler.library_kernels import Errors, LibraryCall, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep, LibraryWord, Shape
from numba_grad.compiler.library_kernels.matrix_stacks import words_of_stack
from numba_grad.compiler.library_kernels.small_matrices import is_small
from numba_grad.runtime.plan import ErrorSite, Grid

LARGEST = WARP
# From row to row of a matrix in shared memory, so that a column lies in all banks; 33 in texts.
PITCH = WARP + 1


def site_of(call: LibraryCall) -> ErrorSite:
    """What the CPU's call tells of a bad matrix."""
    (site,) = [word for step in call.steps for word in step.words if isinstance(word, ErrorSite)]
    return site


# What a warp does: matrices that fit one, but those that the CPU's kernels write out.


def squares(dtype: np.dtype, n: int, *others: object) -> bool:
    return n <= LARGEST and not is_small(n)


def all_squares(dtype: np.dtype, n: int, *others: object) -> bool:
    return n <= LARGEST  # the CPU needs a library for any


def systems(dtype: np.dtype, n: int, columns: int, *others: object) -> bool:
    return n <= LARGEST and not is_small(n, columns)


def rectangles(dtype: np.dtype, m: int, n: int, *others: object) -> bool:
    return max(m, n) <= LARGEST


def matrix_call(
    dtype: np.dtype,
    body: str,
    count: int,
    integers: dict[str, int],
    *,
    site: ErrorSite | None = None,
    result: np.dtype | None = None,
) -> LibraryCall:
    """A step that runs `body` for each `matrix` of a stack, in which `a` starts at `x_start`.

    `integers` are names with values, among them `rows` and the number of columns, `n`. In `body`
    `thread` is the lane, `tile` and `swaps` are shared, and with a `site` it may fail (`FAILED`).
    Results are of dtype `result`, if that is another one.
    """
    size = integers["rows"] * integers["n"]
    axes = [(count, size, 0)]
    return _stack_call(dtype, body, count, integers, axes, site, result or dtype, has_right=False)


def system_call(
    dtype: np.dtype,
    body: str,
    n: int,
    columns: int,
    a_stack: Shape,
    b_stack: Shape,
    site: ErrorSite,
) -> LibraryCall:
    """The same with right sides `b`, which start at `y_start`; stacks broadcast."""
    stack = np.broadcast_shapes(a_stack, b_stack)
    axes = merged_axes(words_of_stack(stack, a_stack, b_stack, n * n, n * columns))
    count = math.prod(stack) if n and columns else 0
    integers = {"rows": n, "n": n, "columns": columns}
    return _stack_call(dtype, body, count, integers, axes, site, dtype, has_right=True)


def _stack_call(
    dtype: np.dtype,
    body: str,
    count: int,
    integers: dict[str, int],
    axes: Sequence[tuple[int, int, int]],
    site: ErrorSite | None,
    result: np.dtype,
    *,
    has_right: bool,
) -> LibraryCall:
    walk, names = walk_of_stack(len(axes))
    pointer = pointer_to(dtype.name)
    parameters = [("a", pointer), *([("b", pointer)] if has_right else [])]
    parameters.append(("out", pointer_to(result.name)))
    words: list[LibraryWord] = [Memory("input", k) for k in range(1 + has_right)]
    words.append(Memory("output"))
    if site is not None:
        parameters += [("errors", pointer_to("int64")), ("site", "int64")]
        words += [Errors(), site]
    parameters += [(name, "int64") for name in (*integers, "count", *names)]
    words += [*integers.values(), count, *(word for axis in axes for word in axis)]
    head = f"""\
tile = cuda.shared.array({WARP * PITCH}, {dtype.name})
swaps = cuda.shared.array({WARP}, int32)
thread = int32(cuda.threadIdx.x)
matrix = int64(cuda.blockIdx.x)
{walk}"""
    source = kernel_source(parameters, head + body)
    return LibraryCall((LibraryStep(source, tuple(words), Grid(count, WARP)),))


# The matrix, into `tile`.
LOADED = """\
row = 0
while row < rows:
    if thread < n:
        tile[row * 33 + thread] = a[x_start + row * n + thread]
    row += 1
cuda.syncthreads()
"""


# Reports the matrix where `is_bad`.
FAILED = """\
if is_bad:
    if thread == 0:
        if compare_and_swap(errors, int64(0), int64(1)) == int64(0):
            errors[1] = site
            errors[2] = matrix
            errors[3] = count
"""


# Rows k and `place` of `tile`.
ROWS_EXCHANGED = """\
if thread < n:
    kept = tile[k * 33 + thread]
    tile[k * 33 + thread] = tile[place * 33 + thread]
    tile[place * 33 + thread] = kept
"""


def element_size(element: str, dtype: str) -> str:
    """What LAPACK compares."""
    if dtype.startswith("complex"):
        return f"(abs({element}.real) + abs({element}.imag))"
    return f"abs({element})"


def conjugate(dtype: np.dtype, text: str) -> str:
    return f"{text}.conjugate()" if dtype.kind == "c" else text


def eliminated(dtype: np.dtype) -> str:
    """L below the diagonal and U from it on; which rows were exchanged, and the sign of that."""
    return f"""\
parity = 1
k = 0
while k < min(rows, n):
    place = k
    size = {element_size("tile[k * 33 + k]", dtype.name)}
    row = k + 1
    while row < rows:
        other = {element_size("tile[row * 33 + k]", dtype.name)}
        if other > size or other != other:
            size = other
            place = row
        row += 1
    cuda.syncthreads()
    if place != k:
        parity = -parity
{indented(ROWS_EXCHANGED, 2)}\
    if thread == 0:
        swaps[k] = place
    cuda.syncthreads()
{reduced(dtype)}"""


def reduced(dtype: np.dtype) -> str:
    """The end of a step of elimination: L below the pivot at k, and what is left to its right."""
    return f"""\
    pivot = tile[k * 33 + k]
    if pivot != {zero(dtype)} and thread > k and thread < rows:
        tile[thread * 33 + k] = tile[thread * 33 + k] / pivot
    cuda.syncthreads()
    if thread > k and thread < n:
        row = k + 1
        while row < rows:
            tile[row * 33 + thread] -= tile[row * 33 + k] * tile[k * 33 + thread]
            row += 1
    cuda.syncthreads()
    k += 1
"""
