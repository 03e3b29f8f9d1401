"""Matrices of up to 32 rows and columns: a warp for each, in shared memory.

A lane has a column, or a row, at a time. Pivots are LAPACK's: the first of the largest in a column,
where nan counts as the largest, so that it is not lost.
"""

import math
from collections.abc import Sequence

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels.source import (
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
from numba_grad.runtime.plan import ErrorSite

LARGEST = WARP
_PITCH = WARP + 1  # of rows in shared memory: a column lies in all banks


def inv_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    site = _site(of_cpu.inv_call(dtype, n, count))
    body = (
        _LOADED + _eliminated(dtype) + _checked(dtype) + _columns(_identity(dtype) + _SUBSTITUTED)
    )
    integers = {"rows": n, "n": n, "columns": n}
    return _call(dtype, body, count if n else 0, integers, site=site)


def solve_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape, *, note: str = ""
) -> LibraryCall:
    """As the CPU's."""
    site = _site(of_cpu.solve_call(dtype, n, columns, a_stack, b_stack, note=note))
    body = _LOADED + _eliminated(dtype) + _checked(dtype) + _columns(_RIGHT + _SUBSTITUTED)
    return _system_call(dtype, body, n, columns, a_stack, b_stack, site)


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
    site = _site(of_cpu.solve_triangular_call(dtype, n, columns, a_stack, b_stack, **params))
    substituted = _substituted(lower=lower, divides=not unit_diagonal)
    check = "" if unit_diagonal else _checked(dtype)
    body = _LOADED + check + _columns(_RIGHT + substituted)
    return _system_call(dtype, body, n, columns, a_stack, b_stack, site)


def cholesky_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    site = _site(of_cpu.cholesky_call(dtype, n, count))
    body = _LOADED + _cholesky(dtype)
    return _call(dtype, body, count if n else 0, {"rows": n, "n": n}, site=site)


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
    body = _LOADED + _eliminated(dtype) + store
    return _call(dtype, body, count if m else 0, {"rows": m, "n": n})


def det_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's. Of products none overflows on the way that does not in the end."""
    body = f"""\
{_product(dtype, "n")}\
while scale > 0:
    value = value * {_LARGE}
    scale -= 1
while scale < 0:
    value = value * {_SMALL}
    scale += 1
if thread == 0:
    out[matrix] = {dtype.name}(value)
"""
    return _call(dtype, _LOADED + _eliminated(dtype) + body, count, {"rows": n, "n": n})


def _product(dtype: np.dtype, count: str) -> str:
    """`parity` times the first pivots: `value`, to be multiplied by 2**64 `scale` times."""
    wide = _wide(dtype)
    brought = "".join(
        f"""\
    while {_size(name, wide)} > {_LARGE} and {_size(name, wide)} < float64(inf):
        {name} = {name} * {_SMALL}
        scale += 1
    while {_size(name, wide)} < {_SMALL} and {_size(name, wide)} > float64(0.0):
        {name} = {name} * {_LARGE}
        scale -= 1
{after}"""
        for name, after in (("factor", "    value = value * factor\n"), ("value", "    k += 1\n"))
    )
    return f"""\
value = {_wide_number(dtype, "parity")}
scale = 0
k = 0
while k < {count}:
    factor = {wide}(tile[k * 33 + k])
{brought}"""


def cofactor_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's, exact also for singular matrices.

    With all of the matrix to choose pivots from, a = P L U Q; for U of the rows (U1, u) and (0, d)
    the adjugate of a is det(P Q) det(U1) Q^T ((d U1^-1, -U1^-1 u), (0, 1)) L^-1 P^T, in which
    nothing is divided by the last pivot. If U1 is singular, all cofactors are 0.
    """
    wide = _wide(dtype)
    body = f"""\
{_eliminated_completely(dtype)}\
{_product(dtype, "n - 1")}\
if thread < n:
    first = (matrix * n + thread) * n
    k = 0
    while k < n:
        out[first + k] = {zero(dtype)}
        k += 1
    out[first + thread] = {zero(dtype, 1)}
    k = 0
    while k < n:
        kept = out[first + k]
        out[first + k] = out[first + int64(swaps[k])]
        out[first + int64(swaps[k])] = kept
        k += 1
    k = 1
    while k < n:
        j = 0
        while j < k:
            out[first + k] -= tile[k * 33 + j] * out[first + j]
            j += 1
        k += 1
    last = out[first + n - 1]
    k = n - 2
    while k >= 0:
        total = tile[(n - 1) * 33 + n - 1] * out[first + k] - tile[k * 33 + n - 1] * last
        j = k + 1
        while j < n - 1:
            total -= tile[k * 33 + j] * out[first + j]
            j += 1
        if tile[k * 33 + k] != {zero(dtype)}:
            total = total / tile[k * 33 + k]
        out[first + k] = total
        k -= 1
    k = n - 1
    while k >= 0:
        kept = out[first + k]
        out[first + k] = out[first + int64(column_swaps[k])]
        out[first + int64(column_swaps[k])] = kept
        k -= 1
    k = 0
    while k < n:
        product = value * {wide}(out[first + k])
        more = scale
        while more > 0:
            product = product * {_LARGE}
            more -= 1
        while more < 0:
            product = product * {_SMALL}
            more += 1
        out[first + k] = {dtype.name}(product)
        k += 1
"""
    return _call(dtype, _LOADED + body, count if n else 0, {"rows": n, "n": n})


def slogdet_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    wide, one = _wide(dtype), _wide_number(dtype, "parity")
    logarithm = "logarithm"
    if dtype.kind == "c":
        logarithm = "complex(logarithm, float64(0.0))"
    body = f"""\
value = {one}
logarithm = float64(0.0)
k = 0
while k < n:
    factor = {wide}(tile[k * 33 + k])
    size = abs(factor)
    logarithm += math.log(size)
    if size == float64(0.0):
        value = value * float64(0.0)
    elif size - size == float64(0.0):
        value = value * (factor / size)
    k += 1
if thread == 0:
    out[2 * matrix] = {dtype.name}(value)
    out[2 * matrix + 1] = {dtype.name}({logarithm})
"""
    return _call(dtype, _LOADED + _eliminated(dtype) + body, count, {"rows": n, "n": n})


# Products are kept within these, 2**64 and 2**-64.
_LARGE = f"float64({2.0**64!r})"
_SMALL = f"float64({2.0**-64!r})"


def _wide(dtype: np.dtype) -> str:
    return "complex128" if dtype.kind == "c" else "float64"


def _wide_number(dtype: np.dtype, text: str) -> str:
    return f"complex(float64({text}), float64(0.0))" if dtype.kind == "c" else f"float64({text})"


def _size(element: str, dtype: str) -> str:
    """What LAPACK compares."""
    if dtype.startswith("complex"):
        return f"(abs({element}.real) + abs({element}.imag))"
    return f"abs({element})"


def _site(call: LibraryCall) -> ErrorSite:
    (site,) = [word for step in call.steps for word in step.words if isinstance(word, ErrorSite)]
    return site


# Calls: operands a, b of systems, out; then errors, if there is a site; then integers.


def _call(
    dtype: np.dtype,
    body: str,
    count: int,
    integers: dict[str, int],
    *,
    site: ErrorSite | None = None,
) -> LibraryCall:
    size = integers["rows"] * integers["n"]
    return _stack_call(dtype, body, count, integers, [(count, size, 0)], site, has_right=False)


def _system_call(
    dtype: np.dtype,
    body: str,
    n: int,
    columns: int,
    a_stack: Shape,
    b_stack: Shape,
    site: ErrorSite,
) -> LibraryCall:
    stack = np.broadcast_shapes(a_stack, b_stack)
    axes = merged_axes(words_of_stack(stack, a_stack, b_stack, n * n, n * columns))
    count = math.prod(stack) if n and columns else 0
    integers = {"rows": n, "n": n, "columns": columns}
    return _stack_call(dtype, body, count, integers, axes, site, has_right=True)


def _stack_call(
    dtype: np.dtype,
    body: str,
    count: int,
    integers: dict[str, int],
    axes: Sequence[tuple[int, int, int]],
    site: ErrorSite | None,
    *,
    has_right: bool,
) -> LibraryCall:
    walk, names = walk_of_stack(len(axes))
    pointer = pointer_to(dtype.name)
    parameters = [("a", pointer), *([("b", pointer)] if has_right else []), ("out", pointer)]
    words: list[LibraryWord] = [Memory("input", k) for k in range(1 + has_right)]
    words.append(Memory("output"))
    if site is not None:
        parameters += [("errors", pointer_to("int64")), ("site", "int64")]
        words += [Errors(), site]
    parameters += [(name, "int64") for name in (*integers, "count", *names)]
    words += [*integers.values(), count, *(word for axis in axes for word in axis)]
    head = f"""\
tile = cuda.shared.array({WARP * _PITCH}, {dtype.name})
swaps = cuda.shared.array({WARP}, int32)
thread = int32(cuda.threadIdx.x)
matrix = int64(cuda.blockIdx.x)
{walk}"""
    source = kernel_source(parameters, head + body)
    return LibraryCall((LibraryStep(source, tuple(words), count, WARP),))


# Parts of bodies

_LOADED = """\
row = 0
while row < rows:
    if thread < n:
        tile[row * 33 + thread] = a[x_start + row * n + thread]
    row += 1
cuda.syncthreads()
"""


def _eliminated(dtype: np.dtype) -> str:
    """L below the diagonal and U from it on; which rows were exchanged, and the sign of that."""
    return f"""\
parity = 1
k = 0
while k < min(rows, n):
    place = k
    size = {_size("tile[k * 33 + k]", dtype.name)}
    row = k + 1
    while row < rows:
        other = {_size("tile[row * 33 + k]", dtype.name)}
        if other > size or other != other:
            size = other
            place = row
        row += 1
    cuda.syncthreads()
    if place != k:
        parity = -parity
        if thread < n:
            kept = tile[k * 33 + thread]
            tile[k * 33 + thread] = tile[place * 33 + thread]
            tile[place * 33 + thread] = kept
    if thread == 0:
        swaps[k] = place
    cuda.syncthreads()
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


def _eliminated_completely(dtype: np.dtype) -> str:
    """As `_eliminated`, with the largest of all remaining elements as the pivot."""
    real = np.finfo(dtype).dtype.name
    return f"""\
sizes = cuda.shared.array({WARP}, {real})
places = cuda.shared.array({WARP}, int32)
column_swaps = cuda.shared.array({WARP}, int32)
parity = 1
k = 0
while k < n:
    sizes[thread] = {real}(-1.0)
    places[thread] = k
    if thread >= k and thread < n:
        row = k
        while row < n:
            other = {_size("tile[row * 33 + thread]", dtype.name)}
            if other > sizes[thread] or other != other:
                sizes[thread] = other
                places[thread] = row
            row += 1
    cuda.syncthreads()
    chosen = k
    column = k + 1
    while column < n:
        if sizes[column] > sizes[chosen] or sizes[column] != sizes[column]:
            chosen = column
        column += 1
    place = places[chosen]
    if place != k:
        parity = -parity
    if chosen != k:
        parity = -parity
    if thread < n:
        kept = tile[k * 33 + thread]
        tile[k * 33 + thread] = tile[place * 33 + thread]
        tile[place * 33 + thread] = kept
    cuda.syncthreads()
    if thread < n:
        kept = tile[thread * 33 + k]
        tile[thread * 33 + k] = tile[thread * 33 + chosen]
        tile[thread * 33 + chosen] = kept
    if thread == 0:
        swaps[k] = place
        column_swaps[k] = chosen
    cuda.syncthreads()
    pivot = tile[k * 33 + k]
    if pivot != {zero(dtype)} and thread > k and thread < n:
        tile[thread * 33 + k] = tile[thread * 33 + k] / pivot
    cuda.syncthreads()
    if thread > k and thread < n:
        row = k + 1
        while row < n:
            tile[row * 33 + thread] -= tile[row * 33 + k] * tile[k * 33 + thread]
            row += 1
    cuda.syncthreads()
    k += 1
"""


_FAILED = """\
if is_bad:
    if thread == 0:
        if compare_and_swap(errors, int64(0), int64(1)) == int64(0):
            errors[1] = site
            errors[2] = matrix
            errors[3] = count
"""


def _checked(dtype: np.dtype) -> str:
    return f"""\
is_bad = False
k = 0
while k < n:
    is_bad = is_bad or tile[k * 33 + k] == {zero(dtype)}
    k += 1
{_FAILED}"""


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
    first, step, start, end = ("0", "+", "0", "k") if lower else ("n - 1", "-", "k + 1", "n")
    quotient = " / tile[k * 33 + k]" if divides else ""
    return f"""\
k = {first}
while k >= 0 and k < n:
    total = out[first + k * columns + column]
    j = {start}
    while j < {end}:
        total -= tile[k * 33 + j] * out[first + j * columns + column]
        j += 1
    out[first + k * columns + column] = total{quotient}
    k = k {step} 1
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
{_FAILED}\
row = 0
while row < n:
    if thread < n:
        out[(matrix * n + row) * n + thread] = {zero(dtype)}
        if thread <= row:
            out[(matrix * n + row) * n + thread] = tile[row * 33 + thread]
    row += 1
"""
