"""Factors and solutions of matrices without elements: zeros, and ones on a diagonal."""

import math

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    blocks_for,
    each_task,
    kernel_source,
    pointer_to,
    zero,
)
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.library_kernels import LibraryCall, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep, Shape
from numba_grad.runtime.plan import Grid


def _are_without_elements(dtype: np.dtype, m: int, n: int, *others: object) -> bool:
    return 0 in (m, n)


@stands_for(of_cpu.svd_call, takes=_are_without_elements)
def svd_call(dtype: np.dtype, m: int, n: int, count: int, *, part: str) -> LibraryCall:
    """As the CPU's. Of one of the two factors there is no row, the other one is an identity, and
    there are no values, which leaves a row of zeros."""
    width = max(m, n) if part == "full" else 0
    return _diagonal_call(dtype, count * (width + 1), width, period=width + 1)


@stands_for(of_cpu.lstsq_call, takes=_are_without_elements)
def lstsq_call(
    dtype: np.dtype, m: int, n: int, columns: int, a_stack: Shape, b_stack: Shape
) -> LibraryCall:
    """As the CPU's: the shortest solution is zero."""
    rows = math.prod(np.broadcast_shapes(a_stack, b_stack)) * n
    return _diagonal_call(dtype, rows, columns, period=0)


def _diagonal_call(dtype: np.dtype, rows: int, width: int, *, period: int) -> LibraryCall:
    """Zeros, (rows, width); of each so many rows one after the other the k-th has a one at k."""
    body = f"out[task] = {zero(dtype)}\n"
    parameters = [("out", pointer_to(dtype.name)), ("width", "int64"), ("tasks", "int64")]
    words = [Memory("output"), width, rows * width]
    if period:
        body += f"if task % width == task // width % period:\n    out[task] = {zero(dtype, 1)}\n"
        parameters.append(("period", "int64"))
        words.append(period)
    tasks = rows * width
    source = kernel_source(parameters, each_task(body))
    step = LibraryStep(source, tuple(words), Grid(blocks_for(tasks), THREADS))
    return LibraryCall((step,) if tasks else ())
