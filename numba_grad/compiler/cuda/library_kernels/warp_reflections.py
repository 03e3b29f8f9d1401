"""QR factorizations of small matrices, a warp for each."""

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
    LOADED,
    PITCH,
    conjugate,
    matrix_call,
)
from numba_grad.compiler.library_kernels import LibraryCall


@stands_for(of_cpu.qr_call, takes=warp_stacks.rectangles)
def qr_call(dtype: np.dtype, m: int, n: int, count: int, *, mode: str) -> LibraryCall:
    """As the CPU's: LAPACK's reflections, and so its signs."""
    least = min(m, n)
    width = m if mode == "complete" else least
    is_empty = not (least * n if mode == "r" else (m + n) * width)
    store = f"""\
row = 0
while row < least:
    if thread < n:
        out[(matrix * least + row) * n + thread] = {zero(dtype)}
        if thread >= row:
            out[(matrix * least + row) * n + thread] = tile[row * 33 + thread]
    row += 1
"""
    if mode != "r":
        store = _orthonormal(dtype)
    integers = {"rows": m, "n": n, "least": least, "width": width}
    body = LOADED + _reflected(dtype) + store
    return matrix_call(dtype, body, 0 if is_empty else count, integers)


def parts(dtype: np.dtype, element: str) -> list[str]:
    return [f"{element}.real", f"{element}.imag"] if dtype.kind == "c" else [element]


def _reflected(dtype: np.dtype) -> str:
    """R from the diagonal on; below it the reflections 1 - scale v v^H, where v starts with 1."""
    real = np.finfo(dtype).dtype.name
    alpha_parts = parts(dtype, "alpha")
    sizes = " + ".join(f"abs({part})" for part in parts(dtype, "x"))
    squares = "".join(
        f"        total += ({part} / largest) * ({part} / largest)\n" for part in parts(dtype, "x")
    )
    is_real = " and alpha.imag == 0" if dtype.kind == "c" else ""
    beta, scale = "beta", f"(beta - {alpha_parts[0]}) / beta"
    if dtype.kind == "c":
        beta = f"complex(beta, {real}(0.0))"
        scale = f"complex({scale}, -alpha.imag / beta)"
    applied = _applied(dtype, "tile", conjugate(dtype, "scale"))
    return f"""\
scales = cuda.shared.array({WARP}, {dtype.name})
k = 0
while k < least:
    alpha = tile[k * 33 + k]
    largest = {real}(0.0)
    others = 0
    row = k
    while row < rows:
        x = tile[row * 33 + k]
        size = {sizes}
        if size > largest:
            largest = size
        if row > k and size != {real}(0.0):
            others += 1
        row += 1
    if largest == {real}(0.0):
        largest = {real}(1.0)
    total = {real}(0.0)
    row = k
    while row < rows:
        x = tile[row * 33 + k]
{squares}\
        row += 1
    beta = -math.copysign(largest * math.sqrt(total), {alpha_parts[0]})
    is_done = others == 0{is_real}
    cuda.syncthreads()
    if not is_done and thread > k and thread < rows:
        tile[thread * 33 + k] = tile[thread * 33 + k] / (alpha - beta)
    if thread == k:
        scales[k] = {zero(dtype)}
        if not is_done:
            scales[k] = {scale}
            tile[k * 33 + k] = {beta}
    cuda.syncthreads()
    scale = scales[k]
    if thread > k and thread < n:
{indented(applied, 2)}\
    cuda.syncthreads()
    k += 1
"""


def _applied(dtype: np.dtype, target: str, scale: str) -> str:
    """The reflection `k` to the column of a lane."""
    element = conjugate(dtype, "tile[row * 33 + k]")
    return f"""\
total = {target}[k * 33 + thread]
row = k + 1
while row < rows:
    total += {element} * {target}[row * 33 + thread]
    row += 1
total = {scale} * total
{target}[k * 33 + thread] -= total
row = k + 1
while row < rows:
    {target}[row * 33 + thread] -= tile[row * 33 + k] * total
    row += 1
"""


def _orthonormal(dtype: np.dtype) -> str:
    """Q, by reflections of columns of the identity; its rows, then those of R^T."""
    applied = _applied(dtype, "columns", "scales[k]").replace("total", "sum_of_column")
    return f"""\
columns = cuda.shared.array({WARP * PITCH}, {dtype.name})
first = matrix * (rows + n) * width
if thread < width:
    row = 0
    while row < rows:
        columns[row * 33 + thread] = {zero(dtype, 1)} if row == thread else {zero(dtype)}
        row += 1
    k = least - 1
    while k >= 0:
{indented(applied, 2)}\
        k -= 1
    row = 0
    while row < rows:
        out[first + row * width + thread] = columns[row * 33 + thread]
        row += 1
    column = 0
    while column < n:
        out[first + (rows + column) * width + thread] = {zero(dtype)}
        if thread <= column and thread < least:
            out[first + (rows + column) * width + thread] = tile[thread * 33 + column]
        column += 1
"""
