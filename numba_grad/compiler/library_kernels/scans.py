"""Scans: sums, products, recurrences and positions of extremes, up to each element."""

import math
from textwrap import indent

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
from numba_grad.dtypes import is_storage_only

_SCAN_COLUMNS = 512


def cumsum_call(
    dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """Sums along an axis, up to each element, or from each one on. Input: x. One output."""
    return _scan_call(_cumsum_source(dtype, out_dtype, reverse), shape, axis)


def cumprod_call(dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int) -> LibraryCall:
    """Products along an axis, up to each element. Input: x. One output."""
    return _scan_call(_cumprod_source(dtype, out_dtype), shape, axis)


def linear_recurrence_call(
    dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """y[i] = a[i] y[i - 1] + b[i] along an axis, or y[i + 1]. Inputs: a, b. One output."""
    return _scan_call(_linear_recurrence_source(dtype, reverse), shape, axis, Memory("input", 1))


def cumulative_position_call(
    dtype: np.dtype, shape: Shape, axis: int, *, comparison: str
) -> LibraryCall:
    """int64 positions of the last element along an axis, up to each one, that compares with all
    before it; of the last NaN if there is one. Input: x. One output."""
    return _scan_call(_cumulative_position_source(dtype, comparison), shape, axis)


def _scan_call(source: str, shape: Shape, axis: int, *more: Memory) -> LibraryCall:
    n = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    tiles = -(-inner // _SCAN_COLUMNS)
    words = (Memory("input"), Memory("output"), n, inner, _SCAN_COLUMNS, tiles, *more)
    step = LibraryStep(
        source,
        words,
        math.prod(shape[:axis]) * tiles if n else 0,
        grain_for(n * min(inner, _SCAN_COLUMNS), 1 << 14),
    )
    return LibraryCall((step,))


def _cumsum_source(dtype: np.dtype, out_dtype: np.dtype, reverse: bool) -> str:
    name = value_dtype(out_dtype)
    combined = sum_text(out_dtype, "{before}", f"{name}(x[row + column])")
    return _scan_source(dtype, out_dtype, f"{name}(x[row + column])", combined, reverse=reverse)


def _cumprod_source(dtype: np.dtype, out_dtype: np.dtype) -> str:
    value = f"{value_dtype(out_dtype)}(x[row + column])"
    return _scan_source(dtype, out_dtype, value, f"{{before}} * {value}")


def _linear_recurrence_source(dtype: np.dtype, reverse: bool) -> str:
    return _scan_source(
        dtype,
        dtype,
        "b[row + column]",
        "x[row + column] * {before} + b[row + column]",
        f"    b = buffer(args, 6, {kernel_dtype(dtype)})\n",
        reverse=reverse,
    )


def _cumulative_position_source(dtype: np.dtype, comparison: str) -> str:
    source = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    best = "x[row + ({before} - i) * inner + column]"
    new = "x[row + column]"
    is_new = f"({new} {comparison} {best}) | ({new} != {new})"
    combined = f"select({is_new}, int64(i), {{before}})"
    return _scan_source(source, np.dtype(np.int64), "int64(0)", combined)


def _scan_source(
    dtype: np.dtype,
    out_dtype: np.dtype,
    first_value: str,
    combined: str,
    more: str = "",
    *,
    reverse: bool = False,
) -> str:
    """Results are `first_value` at the first element, then `combined`, of what is at `row + column`
    and of the result `{before}`. Half precision is carried on as it was before it was rounded.

    Words: x, out, length of the axis, elements after one step, columns of a tile, tiles, and what
    `more` reads. Task: (lines before the axis, tile of what comes after it).
    """
    first, step = ("(n - 1)", "-") if reverse else ("0", "")
    before, store = "out[before + column]", "out[row + column] = {value}\n"
    if is_storage_only(out_dtype):
        before = "carried[column - first]"
        more += f"    carried = local({_SCAN_COLUMNS}, {value_dtype(out_dtype)})\n"
        store = f"{before} = {{value}}\nout[row + column] = {before}\n"
    combined = combined.format(before=before)
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {kernel_dtype(dtype)})
    out = buffer(args, 1, {kernel_dtype(out_dtype)})
    n = integer(args, 2)
    inner = integer(args, 3)
    width = integer(args, 4)
    tiles = integer(args, 5)
{more}    for task in range(lo, hi):
        first = task % tiles * width
        end = min(first + width, inner)
        row = (task // tiles * n + {first}) * inner
        for column in range(first, end):
{indent(store.format(value=first_value), " " * 12)}\
        for i in range(1, n):
            before = row
            row += {step}inner
            for column in range(first, end):
{indent(store.format(value=combined), " " * 16)}\
"""
