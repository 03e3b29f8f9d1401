"""Cumulative sums."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    LibraryCall,
    LibraryStep,
    Memory,
    Shape,
    grain_for,
    kernel_dtype,
    sum_text,
    value_dtype,
)

_SCAN_COLUMNS = 512


def cumsum_call(
    dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """Sums along an axis, up to each element, or from each one on. Input: x. One output."""
    n = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    tiles = -(-inner // _SCAN_COLUMNS)
    words = (Memory("input"), Memory("output"), n, inner, _SCAN_COLUMNS, tiles)
    step = LibraryStep(
        _cumsum_source(dtype, out_dtype, reverse),
        words,
        math.prod(shape[:axis]) * tiles if n else 0,
        grain_for(n * min(inner, _SCAN_COLUMNS), 1 << 14),
    )
    return LibraryCall((step,))


def _cumsum_source(dtype: np.dtype, out_dtype: np.dtype, reverse: bool) -> str:
    """Words: x, out, length of the axis, elements after one step, columns of a tile, tiles.

    Task: (lines before the axis, tile of what comes after it).
    """
    name = value_dtype(out_dtype)
    combined = sum_text(out_dtype, "out[before + column]", f"{name}(x[row + column])")
    first, step = ("(n - 1)", "-") if reverse else ("0", "")
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {kernel_dtype(dtype)})
    out = buffer(args, 1, {kernel_dtype(out_dtype)})
    n = integer(args, 2)
    inner = integer(args, 3)
    width = integer(args, 4)
    tiles = integer(args, 5)
    for task in range(lo, hi):
        first = task % tiles * width
        end = min(first + width, inner)
        row = (task // tiles * n + {first}) * inner
        for column in range(first, end):
            out[row + column] = {name}(x[row + column])
        for i in range(1, n):
            before = row
            row += {step}inner
            for column in range(first, end):
                out[row + column] = {combined}
"""
