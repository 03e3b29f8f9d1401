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
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.dtypes import is_storage_only
from numba_grad.graph.node import Node
from numba_grad.immutable import immutable
from numba_grad.runtime.plan import Tasks

__all__ = ["cumprod_call", "cumsum_call", "cumulative_position_call", "linear_recurrence_call"]

_SCAN_COLUMNS = 512
_FEW_COLUMNS = 8  # fewer make no vector


def cumsum_call(
    dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """Sums along an axis, up to each element, or from each one on. Input: x. One output."""
    return _scan_call(_cumsum_scan(dtype, out_dtype, reverse), shape, axis)


def cumprod_call(dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int) -> LibraryCall:
    """Products along an axis, up to each element. Input: x. One output."""
    return _scan_call(_cumprod_scan(dtype, out_dtype), shape, axis)


def linear_recurrence_call(
    dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """y[i] = a[i] y[i - 1] + b[i] along an axis, or y[i + 1]. Inputs: a, b. One output."""
    return _scan_call(_linear_recurrence_scan(dtype, reverse), shape, axis, Memory("input", 1))


def cumulative_position_call(
    dtype: np.dtype, shape: Shape, axis: int, *, comparison: str
) -> LibraryCall:
    """int64 positions of the last element along an axis, up to each one, that compares with all
    before it; of the last NaN if there is one. Input: x. One output."""
    return _scan_call(_cumulative_position_scan(dtype, comparison), shape, axis)


@immutable
class _Scan:
    """Results are `first_value` at the first element along the axis, then `combined`: of what is at
    `place`, of the number `i` of the step and of the result `{before}`. Half precision is carried
    on as it was before it was rounded.
    """

    dtype: np.dtype
    out_dtype: np.dtype
    first_value: str
    combined: str
    more: str = ""  # what else is read, from word 4 on
    reverse: bool = False


def _cumsum_scan(dtype: np.dtype, out_dtype: np.dtype, reverse: bool) -> _Scan:
    value = f"{value_dtype(out_dtype)}(x[place])"
    combined = sum_text(out_dtype, "{before}", value)
    return _Scan(dtype, out_dtype, value, combined, reverse=reverse)


def _cumprod_scan(dtype: np.dtype, out_dtype: np.dtype) -> _Scan:
    value = f"{value_dtype(out_dtype)}(x[place])"
    return _Scan(dtype, out_dtype, value, f"{{before}} * {value}")


def _linear_recurrence_scan(dtype: np.dtype, reverse: bool) -> _Scan:
    more = f"    b = buffer(args, 4, {kernel_dtype(dtype)})\n"
    return _Scan(dtype, dtype, "b[place]", "x[place] * {before} + b[place]", more, reverse)


def _cumulative_position_scan(dtype: np.dtype, comparison: str) -> _Scan:
    source = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    best = "x[place + ({before} - i) * inner]"
    is_new = f"(x[place] {comparison} {best}) | (x[place] != x[place])"
    combined = f"select({is_new}, int64(i), {{before}})"
    return _Scan(source, np.dtype(np.int64), "int64(0)", combined)


def _scan_call(scan: _Scan, shape: Shape, axis: int, *more: Memory) -> LibraryCall:
    n = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    lines = math.prod(shape[:axis]) if n else 0
    if inner < _FEW_COLUMNS:
        words = (Memory("input"), Memory("output"), n, inner, *more)
        step = LibraryStep(_line_source(scan), words, Tasks(lines * inner, grain_for(n, 1 << 14)))
    else:
        tiles = -(-inner // _SCAN_COLUMNS)
        words = (Memory("input"), Memory("output"), n, inner, *more, _SCAN_COLUMNS, tiles)
        grain = grain_for(n * min(inner, _SCAN_COLUMNS), 1 << 14)
        step = LibraryStep(_row_source(scan), words, Tasks(lines * tiles, grain))
    return LibraryCall((step,))


def _head(scan: _Scan) -> str:
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {kernel_dtype(scan.dtype)})
    out = buffer(args, 1, {kernel_dtype(scan.out_dtype)})
    n = integer(args, 2)
    inner = integer(args, 3)
{scan.more}"""


def _line_source(scan: _Scan) -> str:
    """With the result before in a register: an element takes as long as an addition. Task: a line
    along the axis.

    Words: x, out, length of the axis, elements after one step, and what `more` reads.
    """
    first, step = (" + n - 1", "-") if scan.reverse else ("", "")
    return f"""\
{_head(scan)}\
    for task in range(lo, hi):
        place = (task // inner * n{first}) * inner + task % inner
        before = {scan.first_value}
        out[place] = before
        for i in range(1, n):
            place += {step}inner
            before = {scan.combined.format(before="before")}
            out[place] = before
"""


def _row_source(scan: _Scan) -> str:
    """A row across the axis after the other. Task: (lines before the axis, tile of the columns).

    Words: as above, then columns of a tile, and tiles.
    """
    first, step, back = ("(n - 1)", "-", "+") if scan.reverse else ("0", "", "-")
    before, store = f"out[place {back} inner]", "out[place] = {value}\n"
    carried = ""
    if is_storage_only(scan.out_dtype):
        before = "carried[place - row - first]"
        carried = f"    carried = local({_SCAN_COLUMNS}, {value_dtype(scan.out_dtype)})\n"
        store = f"{before} = {{value}}\nout[place] = {before}\n"
    combined = scan.combined.format(before=before)
    width = 5 if scan.more else 4
    return f"""\
{_head(scan)}\
    width = integer(args, {width})
    tiles = integer(args, {width + 1})
{carried}    for task in range(lo, hi):
        first = task % tiles * width
        end = min(first + width, inner)
        row = (task // tiles * n + {first}) * inner
        for place in range(row + first, row + end):
{indent(store.format(value=scan.first_value), " " * 12)}\
        for i in range(1, n):
            row += {step}inner
            for place in range(row + first, row + end):
{indent(store.format(value=combined), " " * 16)}\
"""


@lowers("cumsum", by=cumsum_call)
def _cumsum(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (x,) = node.inputs
    return kernel(x.dtype, node.dtype, x.shape, node.params["axis"], reverse=node.params["reverse"])


@lowers("cumprod", by=cumprod_call)
def _cumprod(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (x,) = node.inputs
    return kernel(x.dtype, node.dtype, x.shape, node.params["axis"])


@lowers("linear_recurrence", by=linear_recurrence_call)
def _linear_recurrence(kernel: LibraryKernel, node: Node) -> LibraryCall:
    axis, reverse = node.params["axis"], node.params["reverse"]
    return kernel(node.dtype, node.shape, axis, reverse=reverse)


@lowers("cumargmax", "cumargmin", by=cumulative_position_call)
def _cumulative_position(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (x,) = node.inputs
    comparison = {"cumargmax": ">=", "cumargmin": "<="}[node.op.name]
    return kernel(x.dtype, x.shape, node.params["axis"], comparison=comparison)
