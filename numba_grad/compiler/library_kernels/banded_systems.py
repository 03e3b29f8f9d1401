"""Banded linear systems: elimination with row exchanges, in loops that look at the band alone."""

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory
from numba_grad.compiler.library_kernels.lapack import stack_call
from numba_grad.compiler.library_kernels.matrix_operations import number_of_matrices, of_matrix
from numba_grad.compiler.library_kernels.registry import BY_MATRIX, LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import ErrorSite

__all__ = ["solve_banded_call"]


def solve_banded_call(
    dtype: np.dtype, n: int, columns: int, count: int, *, lower: int, upper: int
) -> LibraryCall:
    """The x of a x = b, for a with so many diagonals below and above the main one.

    Inputs: the diagonals (lower + upper + 1, n), the uppermost first, each element in its column;
    b (n, columns). One output. A singular matrix is an error at the site.
    """
    name = dtype.name
    width = 2 * lower + upper + 1  # exchanged rows have `lower` elements more
    return stack_call(
        count=count if n and columns else 0,
        products=n * (lower + 1) * (width + columns),
        operands={
            "bands": (Memory("input", 0), name),
            "b": (Memory("input", 1), name),
            "out": (Memory("output"), name),
        },
        words={"n": n, "columns": columns, "lower": lower, "upper": upper, "width": width},
        rooms={"rows": (n * width, name)},
        sites={"singular": ErrorSite("singular", "solve_banded")},
        body=f"""\
start = matrix * n * columns
band_start = matrix * n * (lower + upper + 1)
for i in range(n):
    for c in range(width):
        j = i - lower + c
        x = {name}(0)
        if j >= 0 and j < n and c <= lower + upper:
            x = bands[band_start + (upper + i - j) * n + j]
        rows[i * width + c] = x
    for c in range(columns):
        out[start + i * columns + c] = b[start + i * columns + c]
is_singular = 0
for k in range(n):
    below = min(k + lower, n - 1) + 1
    end = min(k + lower + upper, n - 1) + 1
    pivot = k
    largest = absolute(rows[k * width + lower])
    for i in range(k + 1, below):
        size = absolute(rows[i * width + k - i + lower])
        if size > largest:
            largest = size
            pivot = i
    if largest == 0:
        is_singular = 1
        rows[k * width + lower] = {name}(1)  # complex numbers are not to be divided by 0 in kernels
    if pivot != k:
        for j in range(k, end):
            x = rows[k * width + j - k + lower]
            rows[k * width + j - k + lower] = rows[pivot * width + j - pivot + lower]
            rows[pivot * width + j - pivot + lower] = x
        for c in range(columns):
            x = out[start + k * columns + c]
            out[start + k * columns + c] = out[start + pivot * columns + c]
            out[start + pivot * columns + c] = x
    for i in range(k + 1, below):
        factor = rows[i * width + k - i + lower] / rows[k * width + lower]
        for j in range(k + 1, end):
            x = rows[i * width + j - i + lower] - factor * rows[k * width + j - k + lower]
            rows[i * width + j - i + lower] = x
        for c in range(columns):
            x = out[start + i * columns + c] - factor * out[start + k * columns + c]
            out[start + i * columns + c] = x
if is_singular != 0:
    fail(singular)
for k in range(n - 1, -1, -1):
    end = min(k + lower + upper, n - 1) + 1
    for c in range(columns):
        x = out[start + k * columns + c]
        for j in range(k + 1, end):
            x = x - rows[k * width + j - k + lower] * out[start + j * columns + c]
        out[start + k * columns + c] = x / rows[k * width + lower]
""",
    )


@lowers(
    "solve_banded",
    by=solve_banded_call,
    operations=of_matrix(lambda m, n, k: m * m * n),
    on_gpus=BY_MATRIX,
)
def _solve_banded(kernel: LibraryKernel, node: Node) -> LibraryCall:
    bands, b = node.inputs
    n, columns = b.shape[-2:]
    return kernel(node.dtype, n, columns, number_of_matrices(bands), **node.params)
