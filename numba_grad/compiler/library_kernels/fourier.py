"""Fourier transforms along one axis, by PocketFFT."""

import math
import struct
import textwrap

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    LibraryStep,
    LibraryWord,
    Memory,
    Shape,
    Symbol,
    grain_for,
    kernel_dtype,
)
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.ops.fourier import scale_of
from numba_grad.runtime.plan import ErrorSite, Tasks

__all__ = ["fourier_call"]

# PocketFFT makes the twiddle factors of a length anew in each call, at the price of one to two
# lines. So a call gets as many lines as hold this many elements, and at least two: it transforms
# them together, in vector registers.
_CALL_ELEMENTS = 1 << 16
_CHUNK_ELEMENTS = 1 << 12  # some 30 us: what a launch over the threads should be worth
# Of an axis that is not the last PocketFFT reads two lines at a time, a part of a cache line of
# each element. Longer lines than this are copied first, to rows that fit the cache; and so are the
# lines of an axis with few elements after it, of which there would be few in a call.
_LONGEST_IN_PLACE = 256
_COLUMNS = 8  # lines copied at a time: whole cache lines
_COPIED_ELEMENTS = 1 << 13
_COPYING_TASKS = 32  # each with scratch memory of its own


def fourier_call(
    function: str,
    dtype: np.dtype,
    out_dtype: np.dtype,
    shape: Shape,
    axis: int,
    n_out: int,
    scale: float,
) -> LibraryCall:
    """`scale` times the transform of each line along an axis. Input: x, of `shape`. One output.

    `function` is "fft" or "ifft" (complex to complex), "rfft_n_even" or "rfft_n_odd" (real to the
    n_out = n // 2 + 1 frequencies that are not negative), "irfft" (from these to n_out numbers).
    """
    n = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    outer = math.prod(shape[:axis])
    is_copied = inner > 1 and (inner < _COLUMNS or max(n, n_out) > _LONGEST_IN_PLACE)
    make_step = _copying_step if is_copied else _direct_step
    (scale_word,) = struct.unpack("q", struct.pack("d", scale))
    symbol = f"pocketfft.{function}.{dtype.name}"
    words: tuple[LibraryWord, ...] = (
        Memory("input"),
        Memory("output"),
        Symbol(symbol),
        Symbol(f"{symbol}.data") if function in ("fft", "ifft") else 0,
        *(n, n_out, scale_word),
        Errors(),
        ErrorSite("memory", function),
    )
    return make_step(words, dtype, out_dtype, outer, inner, n, n_out)


def _direct_step(
    words: tuple[LibraryWord, ...],
    dtype: np.dtype,
    out_dtype: np.dtype,
    outer: int,
    inner: int,
    n: int,
    n_out: int,
) -> LibraryCall:
    """PocketFFT reads and writes lines where they are."""
    if inner == 1:
        # All lines in one row of lines.
        outer, lines, line, step = 1, outer, (n, n_out), 1
    else:
        lines, line, step = inner, (1, 1), inner
    longest = max(n, n_out)
    lines_of_call = max(2, _CALL_ELEMENTS // longest)
    calls = -(-lines // lines_of_call)
    sizes = (dtype.itemsize, out_dtype.itemsize)
    strides = [number * size for number, size in zip(line, sizes, strict=True)]
    strides += [step * size for size in sizes]
    strides += [length * inner * size for length, size in zip((n, n_out), sizes, strict=True)]
    work = min(lines, lines_of_call) * longest
    step = LibraryStep(
        _direct_source(dtype, out_dtype),
        (*words, lines, lines_of_call, calls, *strides),
        Tasks(outer * calls, grain_for(work, _CHUNK_ELEMENTS)),
    )
    return LibraryCall((step,))


def _copying_step(
    words: tuple[LibraryWord, ...],
    dtype: np.dtype,
    out_dtype: np.dtype,
    outer: int,
    inner: int,
    n: int,
    n_out: int,
) -> LibraryCall:
    """Lines are copied to rows of scratch memory, transformed there, and copied to their place."""
    lines, longest = outer * inner, max(n, n_out)
    lines_of_call = max(1, _COPIED_ELEMENTS // longest // _COLUMNS) * _COLUMNS
    lines_of_call = min(lines_of_call, max(1, -(-lines // _COLUMNS)) * _COLUMNS)
    tasks = min(-(-lines // lines_of_call), _COPYING_TASKS)
    # A little longer than a power of two: else the starts of all rows would fall on one set of the
    # cache.
    row, row_out = n + _COLUMNS, n_out + _COLUMNS
    rows_out_place = lines_of_call * row * dtype.itemsize
    room = rows_out_place + lines_of_call * row_out * out_dtype.itemsize
    step = LibraryStep(
        _copying_source(dtype, out_dtype),
        (
            *words,
            *(lines, lines_of_call, tasks, inner, row, row_out),
            Memory("scratch"),
            *(room, rows_out_place),
        ),
        Tasks(tasks, grain_for(-(-lines // max(1, tasks)) * longest, _CHUNK_ELEMENTS)),
    )
    return LibraryCall((step,), tasks * room)


# The arguments of a loop: three pointers; the number of lines, n, n_out; the strides from line to
# line of x, scale, out, and from element to element of x, out. Then the scale.
_ARGUMENTS = """\
    words = pointer(args, int64)
    n = words[4]
    n_out = words[5]
    lines = words[9]
    lines_of_call = words[10]
    place = stack_words(12)
    numbers = pointer(place, int64)
    scale = pointer(place + 88, {real})
    scale[0] = {real}(bitcast(words[6], float64))
    numbers[1] = place + 88
    numbers[4] = n
    numbers[5] = n_out
    numbers[7] = 0
"""


def _arguments(dtype: np.dtype) -> str:
    return _ARGUMENTS.format(real=np.finfo(dtype).dtype.name)


# A signaling nan, in the upper half of a float64 or as a float32: what no arithmetic gives.
_MARKS = {4: 0x7FA5A3C1, 8: 0x7FF5A3C1}


def _call(out_dtype: np.dtype, spaces: int) -> str:
    """The call of a loop. It returns nothing, and Python's error state is that of the thread.

    But where it finds no memory it writes nothing, and the mark that was there before stays.
    """
    size = np.finfo(out_dtype).dtype.itemsize
    text = f"""\
mark = pointer(numbers[2] + {size - 4}, uint32)
mark[0] = uint32({_MARKS[size]})
call(words[2], place, place + 24, place + 48, words[3])
if mark[0] == uint32({_MARKS[size]}):
    if atomic_compare_exchange(words[7], 0, 1) == 0:
        record = pointer(words[7], int64)
        record[1] = words[8]
        record[2] = n
        record[3] = n_out
"""
    return textwrap.indent(text, " " * spaces)


def _direct_source(dtype: np.dtype, out_dtype: np.dtype) -> str:
    """Words: x, out, function, its data, n, n_out, bits of the scale, error record, site; lines of
    a group, lines of a call, calls of a group; then bytes from line to line of x, of out, from
    element to element of x, of out, from group to group of x, of out. Task: (group, call).
    """
    return f"""\
def kernel(args, lo, hi):
{_arguments(dtype)}\
    calls = words[11]
    numbers[6] = words[12]
    numbers[8] = words[13]
    numbers[9] = words[14]
    numbers[10] = words[15]
    for task in range(lo, hi):
        group = task // calls
        line = task % calls * lines_of_call
        numbers[0] = words[0] + group * words[16] + line * words[12]
        numbers[2] = words[1] + group * words[17] + line * words[13]
        numbers[3] = min(lines_of_call, lines - line)
{_call(out_dtype, 8)}\
"""


def _copying_source(dtype: np.dtype, out_dtype: np.dtype) -> str:
    """Words: x, out, function, its data, n, n_out, bits of the scale, error record, site; lines,
    lines of a call, tasks, elements after one step of the axis, length of a row for x, for out,
    scratch memory, its bytes for each task, where the rows for out begin. Task: calls, every
    `tasks`-th.
    """
    size, size_out = dtype.itemsize, out_dtype.itemsize
    return f"""\
def kernel(args, lo, hi):
{_arguments(dtype)}\
    tasks = words[11]
    inner = words[12]
    row = words[13]
    row_out = words[14]
    numbers[6] = row * {size}
    numbers[8] = row_out * {size_out}
    numbers[9] = {size}
    numbers[10] = {size_out}
    x = pointer(words[0], {kernel_dtype(dtype)})
    out = pointer(words[1], {kernel_dtype(out_dtype)})
    for task in range(lo, hi):
        rows_place = words[15] + task * words[16]
        rows = pointer(rows_place, {kernel_dtype(dtype)})
        rows_out_place = rows_place + words[17]
        rows_out = pointer(rows_out_place, {kernel_dtype(out_dtype)})
        numbers[0] = rows_place
        numbers[2] = rows_out_place
        for first in range(task * lines_of_call, lines, tasks * lines_of_call):
            end = min(first + lines_of_call, lines)
            line = first
            while line < end:
                column = line % inner
                width = min({_COLUMNS}, min(end - line, inner - column))
                source = line // inner * n * inner + column
                target = (line - first) * row
                for i in range(n):
                    for j in range(width):
                        rows[target + j * row + i] = x[source + j]
                    source += inner
                line += width
            numbers[3] = end - first
{_call(out_dtype, 12)}\
            line = first
            while line < end:
                column = line % inner
                width = min({_COLUMNS}, min(end - line, inner - column))
                source = (line - first) * row_out
                target = line // inner * n_out * inner + column
                for i in range(n_out):
                    for j in range(width):
                        out[target + j] = rows_out[source + j * row_out + i]
                    target += inner
                line += width
"""


def _operations(node: Node) -> int:
    return 5 * node.type.size * node.shape[node.params["axis"]].bit_length()


@lowers("fft", by=fourier_call, operations=_operations)
def _fft(kernel: LibraryKernel, node: Node) -> LibraryCall:
    inverse = node.params["inverse"]
    return _transform(kernel, node, "ifft" if inverse else "fft", inverse=inverse)


@lowers("rfft", by=fourier_call, operations=_operations)
def _rfft(kernel: LibraryKernel, node: Node) -> LibraryCall:
    is_odd = node.inputs[0].shape[node.params["axis"]] % 2
    return _transform(kernel, node, "rfft_n_odd" if is_odd else "rfft_n_even")


@lowers("irfft", by=fourier_call, operations=_operations)
def _irfft(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return _transform(kernel, node, "irfft", inverse=True)


def _transform(
    kernel: LibraryKernel, node: Node, function: str, *, inverse: bool = False
) -> LibraryCall:
    (x,) = node.inputs
    axis = node.params["axis"]
    points = (node if inverse else x).shape[axis]
    scale = scale_of(points, node.params["norm"], inverse=inverse)
    return kernel(function, x.dtype, node.dtype, x.shape, axis, node.shape[axis], scale)
