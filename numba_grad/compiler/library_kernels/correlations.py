"""Sliding sums of products along the last axis."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    LibraryCall,
    LibraryStep,
    Memory,
    Shape,
    grain_for,
    kernel_dtype,
)
from numba_grad.compiler.library_kernels.registry import LibraryKernel, Translated, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Tasks

__all__ = ["correlate_call"]

_CORRELATION_COLUMNS = 1024  # results of a tile, which stay in the first-level cache


def correlate_call(
    dtype: np.dtype,
    x_shape: Shape,
    y_size: int,
    size: int,
    *,
    offset: int,
    one_by_one: bool = False,
) -> LibraryCall:
    """result[i] = sum over j of x[i + offset + j] y[j], for i < `size`, in each row.

    The sums of many results of a short y grow together, a term of each at a time; a few results of
    a long y are a sum after the other, as all are if `one_by_one`. Inputs: x, y. One output.
    """
    rows = math.prod(x_shape[:-1])
    words = (
        *(Memory("input"), Memory("input", 1), Memory("output")),
        *(x_shape[-1], y_size, size, offset),
    )
    if one_by_one or size < y_size:
        step = LibraryStep(
            _sums_source(dtype), words, Tasks(rows * size, grain_for(y_size, 1 << 14))
        )
    else:
        tiles = -(-size // _CORRELATION_COLUMNS)
        step = LibraryStep(
            _tiles_source(dtype),
            (*words, _CORRELATION_COLUMNS, tiles),
            Tasks(
                rows * tiles, grain_for(max(y_size, 1) * min(size, _CORRELATION_COLUMNS), 1 << 14)
            ),
        )
    return LibraryCall((step,))


_OPERANDS = """\
def kernel(args, lo, hi):
    x = buffer(args, 0, {dtype})
    y = buffer(args, 1, {dtype})
    out = buffer(args, 2, {dtype})
    n = integer(args, 3)
    m = integer(args, 4)
    size = integer(args, 5)
    offset = integer(args, 6)
"""


def _tiles_source(dtype: np.dtype) -> str:
    """Four terms at a time, but next to the ends of x: twice as fast as one, which loads and stores
    a result for each product.

    Words: x, y, out, their lengths, offset, results of a tile, tiles. Task: (row, tile).
    """
    name = kernel_dtype(dtype)
    return f"""\
{_OPERANDS.format(dtype=name)}\
    width = integer(args, 7)
    tiles = integer(args, 8)
    for task in range(lo, hi):
        row = task // tiles
        begin = task % tiles * width
        end = min(begin + width, size)
        result = row * size
        for i in range(begin, end):
            out[result + i] = {name}(0)
        for j in range(0, m - 3, 4):
            term = row * m + j
            place = row * n + offset + j
            y0 = y[term]
            y1 = y[term + 1]
            y2 = y[term + 2]
            y3 = y[term + 3]
            first = max(begin, -offset - j)
            last = min(end, n - offset - j - 3)
            for i in range(first, last):
                p = place + i
                front = x[p] * y0 + x[p + 1] * y1
                out[result + i] += front + (x[p + 2] * y2 + x[p + 3] * y3)
            for k in range(4):
                inside = max(begin, -offset - j - k)
                outside = min(end, n - offset - j - k)
                for i in range(inside, min(first, outside)):
                    out[result + i] += x[place + k + i] * y[term + k]
                for i in range(max(first, last), outside):
                    out[result + i] += x[place + k + i] * y[term + k]
        for j in range(m - m % 4, m):
            factor = y[row * m + j]
            place = row * n + offset + j
            for i in range(max(begin, -offset - j), min(end, n - offset - j)):
                out[result + i] += x[place + i] * factor
"""


def _sums_source(dtype: np.dtype) -> str:
    """Words: x, y, out, their lengths, offset. Task: result."""
    name = kernel_dtype(dtype)
    return f"""\
{_OPERANDS.format(dtype=name)}\
    for task in range(lo, hi):
        row = task // size
        i = task % size
        place = row * n + offset + i
        total = {name}(0)
        for j in range(max(0, -offset - i), min(m, n - offset - i)):
            total = reduce_add(total, {name}(x[place + j] * y[row * m + j]))
        out[task] = total
"""


@lowers("correlate", by=correlate_call, on_gpus=Translated({"one_by_one": True}))
def _correlate(kernel: LibraryKernel, node: Node) -> LibraryCall:
    x, y = node.inputs
    size, offset = node.params["size"], node.params["offset"]
    return kernel(node.dtype, x.shape, y.shape[-1], size, offset=offset)
