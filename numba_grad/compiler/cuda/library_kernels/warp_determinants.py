"""Determinants of small matrices and their derivatives, a warp for each."""

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels import warp_stacks
from numba_grad.compiler.cuda.library_kernels.kernel_source import WARP, indented, zero
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.cuda.library_kernels.warp_stacks import (
    LOADED,
    ROWS_EXCHANGED,
    element_size,
    eliminated,
    matrix_call,
    reduced,
)
from numba_grad.compiler.library_kernels import LibraryCall
from numba_grad.compiler.library_kernels.lapack import wide_name

# Products are kept within these.
_LARGE, _SMALL = f"float64({2.0**64!r})", f"float64({2.0**-64!r})"


@stands_for(of_cpu.det_call, takes=warp_stacks.squares)
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
    return matrix_call(dtype, LOADED + eliminated(dtype) + body, count, {"rows": n, "n": n})


def _product(dtype: np.dtype, count: str) -> str:
    """`parity` times the first pivots: `value`, to be multiplied by 2**64 `scale` times."""
    wide = wide_name(dtype)
    brought = "".join(
        f"""\
    while {element_size(name, wide)} > {_LARGE} and {element_size(name, wide)} < float64(inf):
        {name} = {name} * {_SMALL}
        scale += 1
    while {element_size(name, wide)} < {_SMALL} and {element_size(name, wide)} > float64(0.0):
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


@stands_for(of_cpu.cofactor_call, takes=warp_stacks.all_squares)
def cofactor_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's, exact also for singular matrices.

    With all of the matrix to choose pivots from, a = P L U Q; for U of the rows (U1, u) and (0, d)
    the adjugate of a is det(P Q) det(U1) Q^T ((d U1^-1, -U1^-1 u), (0, 1)) L^-1 P^T, in which
    nothing is divided by the last pivot. If U1 is singular, all cofactors are 0.
    """
    wide = wide_name(dtype)
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
    return matrix_call(dtype, LOADED + body, count if n else 0, {"rows": n, "n": n})


@stands_for(of_cpu.slogdet_call, takes=warp_stacks.squares)
def slogdet_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """As the CPU's."""
    wide, one = wide_name(dtype), _wide_number(dtype, "parity")
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
    return matrix_call(dtype, LOADED + eliminated(dtype) + body, count, {"rows": n, "n": n})


def _wide_number(dtype: np.dtype, text: str) -> str:
    return f"complex(float64({text}), float64(0.0))" if dtype.kind == "c" else f"float64({text})"


def _eliminated_completely(dtype: np.dtype) -> str:
    """As `eliminated`, with the largest of all remaining elements as the pivot."""
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
            other = {element_size("tile[row * 33 + thread]", dtype.name)}
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
{indented(ROWS_EXCHANGED, 1)}\
    cuda.syncthreads()
    if thread < n:
        kept = tile[thread * 33 + k]
        tile[thread * 33 + k] = tile[thread * 33 + chosen]
        tile[thread * 33 + chosen] = kept
    if thread == 0:
        swaps[k] = place
        column_swaps[k] = chosen
    cuda.syncthreads()
{reduced(dtype)}"""
