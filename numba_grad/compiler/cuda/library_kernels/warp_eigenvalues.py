"""Eigenvalues and eigenvectors of small Hermitian matrices, a warp for each: Jacobi's method.

Golub and Van Loan, Matrix computations (2013), 8.5: rotations make the elements off the diagonal 0,
one after the other, until all are small at once. Signs and phases of vectors are not LAPACK's.
"""

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels import warp_stacks
from numba_grad.compiler.cuda.library_kernels.kernel_source import WARP, indented, zero
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.cuda.library_kernels.warp_stacks import (
    FAILED,
    LOADED,
    PITCH,
    conjugate,
    element_size,
    matrix_call,
    site_of,
)
from numba_grad.compiler.library_kernels import LibraryCall

# More than matrices of 32 rows need, by far: convergence is quadratic.
_SWEEPS = 30


@stands_for(of_cpu.eigh_call, takes=warp_stacks.all_squares)
def eigh_call(dtype: np.dtype, n: int, count: int, *, lower: bool, vectors: bool) -> LibraryCall:
    """As the CPU's."""
    site = site_of(of_cpu.eigh_call(dtype, n, count, lower=lower, vectors=vectors))
    body = LOADED + _mirrored(dtype, lower=lower) + _diagonalized(dtype, vectors=vectors) + FAILED
    body += _stored(dtype, vectors=vectors)
    result = np.finfo(dtype).dtype if not vectors else dtype
    integers = {"rows": n, "n": n}
    return matrix_call(dtype, body, count if n else 0, integers, site=site, result=result)


def _mirrored(dtype: np.dtype, *, lower: bool) -> str:
    """Both triangles from the one that is read, and a real diagonal; `poison` is nan where an
    element is not finite, which then counts as 0."""
    real = np.finfo(dtype).dtype.name
    is_read = "thread < row" if lower else "thread > row"
    other = conjugate(dtype, "x")
    diagonal = f"complex(x.real, {real}(0.0))" if dtype.kind == "c" else "x"
    diagonal_size = "abs(x.real)" if dtype.kind == "c" else "abs(x)"
    return f"""\
sizes = cuda.shared.array({WARP}, {real})
size = {real}(0.0)
row = 0
while row < n:
    if thread < n and ({is_read} or thread == row):
        x = tile[row * 33 + thread]
        size = max(size, {element_size("x", dtype.name)}) if thread != row else size
        if thread == row:
            size = max(size, {diagonal_size})
            tile[row * 33 + thread] = {diagonal}
        if x != x:
            size = {real}(inf)
    row += 1
sizes[thread] = size
cuda.syncthreads()
row = 0
while row < n:
    if thread < n and {is_read}:
        x = tile[row * 33 + thread]
        tile[thread * 33 + row] = {other}
    row += 1
largest = {real}(0.0)
row = 0
while row < n:
    largest = max(largest, sizes[row])
    row += 1
poison = largest - largest
cuda.syncthreads()
if poison != {real}(0.0):
    largest = {real}(0.0)
    row = 0
    while row < n:
        if thread < n:
            tile[row * 33 + thread] = {zero(dtype)}
        row += 1
    cuda.syncthreads()
"""


def _diagonalized(dtype: np.dtype, *, vectors: bool) -> str:
    real = np.finfo(dtype).dtype.name
    eps = f"{real}({float(np.finfo(dtype).eps) / 8!r})"
    one = f"{real}(1.0)"
    number = f"complex({{}}, {real}(0.0))" if dtype.kind == "c" else "{}"
    part = ".real" if dtype.kind == "c" else ""
    phase, turned = "element / size", conjugate(dtype, "phase")
    rotations = f"""\
x = tile[thread * 33 + p]
y = tile[thread * 33 + q]
tile[thread * 33 + p] = cosine * x - sine * {turned} * y
tile[thread * 33 + q] = sine * phase * x + cosine * y
"""
    of_vectors = """\
x = columns[thread * 33 + p]
y = columns[thread * 33 + q]
columns[thread * 33 + p] = cosine * x - sine * TURNED * y
columns[thread * 33 + q] = sine * phase * x + cosine * y
""".replace("TURNED", turned)
    start = f"""\
columns = cuda.shared.array({WARP * PITCH}, {dtype.name})
row = 0
while row < n:
    columns[row * 33 + thread] = {zero(dtype, 1)} if row == thread else {zero(dtype)}
    row += 1
"""
    return f"""\
{start if vectors else ""}\
limit = largest * {eps}
is_bad = largest > {real}(0.0)
sweep = 0
while is_bad and sweep < {_SWEEPS}:
    is_bad = False
    p = 0
    while p < n - 1:
        q = p + 1
        while q < n:
            cuda.syncthreads()
            element = tile[p * 33 + q]
            size = abs(element)
            first = tile[p * 33 + p]{part}
            second = tile[q * 33 + q]{part}
            cuda.syncthreads()
            if size > limit:
                is_bad = True
                phase = {phase}
                ratio = (second - first) / (size + size)
                tangent = {one} / (abs(ratio) + math.sqrt({one} + ratio * ratio))
                if ratio < {real}(0.0):
                    tangent = -tangent
                cosine = {one} / math.sqrt({one} + tangent * tangent)
                sine = tangent * cosine
                if thread < n:
{indented(rotations, 5)}\
{indented(of_vectors, 5) if vectors else ""}\
                cuda.syncthreads()
                if thread < n:
                    x = tile[p * 33 + thread]
                    y = tile[q * 33 + thread]
                    tile[p * 33 + thread] = cosine * x - sine * phase * y
                    tile[q * 33 + thread] = sine * {turned} * x + cosine * y
                cuda.syncthreads()
                if thread == p:
                    tile[p * 33 + p] = {number.format("first - tangent * size")}
                    tile[p * 33 + q] = {zero(dtype)}
                if thread == q:
                    tile[q * 33 + q] = {number.format("second + tangent * size")}
                    tile[q * 33 + p] = {zero(dtype)}
            q += 1
        p += 1
    sweep += 1
cuda.syncthreads()
"""


def _stored(dtype: np.dtype, *, vectors: bool) -> str:
    """Ascending: where a lane's eigenvalue goes is how many come before it."""
    part = ".real" if dtype.kind == "c" else ""
    own = "out[matrix * n + place] = value + poison\n"
    if vectors:
        own = """\
start = matrix * (n + 1) * n
row = 0
while row < n:
    out[start + row * n + place] = columns[row * 33 + thread] + poison
    row += 1
out[start + n * n + place] = value + poison
"""
    return f"""\
if thread < n:
    value = tile[thread * 33 + thread]{part}
    place = 0
    row = 0
    while row < n:
        other = tile[row * 33 + row]{part}
        if other < value or (other == value and row < thread):
            place += 1
        row += 1
{indented(own, 1)}"""
