"""Sorting and binary search. Stable; NaN last, and -0.0 equal to 0.0, as in NumPy."""

import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    LibraryCall,
    LibraryStep,
    Memory,
    Shape,
    grain_for,
    kernel_dtype,
    value_dtype,
)
from numba_grad.compiler.library_kernels.registry import BY_TASK, LibraryKernel, lowers
from numba_grad.dtypes import computed_in, is_floating, is_inexact
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Tasks

__all__ = ["argsort_call", "searchsorted_call"]


# From so many elements on for each byte of a key, bytes are counted rather than elements compared:
# below, clearing the counts takes longer than merging.
_LEAST_COUNTED = 16


def argsort_call(
    dtype: np.dtype, shape: Shape, axis: int, *, descending: bool = False
) -> LibraryCall:
    """The int64 positions along an axis that would sort it. Input: x. One output."""
    n = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    tasks = math.prod(shape[:axis]) * inner
    key = computed_in(dtype).itemsize
    is_counted = dtype.kind != "c" and max(64, _LEAST_COUNTED * key) <= n < 1 << 31
    # Two halves for the keys of each line, two for their positions.
    key_bytes = _aligned(2 * tasks * n * key)
    order_bytes = _aligned(2 * tasks * n * (4 if is_counted else 8))
    words = (
        Memory("input", 0),
        Memory("output"),
        Memory("scratch"),
        Memory("scratch", 0, key_bytes),
        n,
        inner,
    )
    source = _counting_source if is_counted else _merging_source
    step = LibraryStep(
        source(dtype, descending),
        words,
        Tasks(tasks if n else 0, grain_for(n * max(1, n.bit_length()), 1 << 11)),
    )
    return LibraryCall((step,), key_bytes + order_bytes)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _comes_before(dtype: np.dtype, a: str, b: str) -> str:
    """NumPy's order as an expression; complex numbers by real, then by imaginary part."""
    if is_floating(dtype):
        return f"({a} < {b}) | (({b} != {b}) & ({a} == {a}))"
    if dtype.kind != "c":
        return f"{a} < {b}"
    parts = [(f"{a}.{part}", f"{b}.{part}") for part in ("real", "imag")]
    (ar, br), (ai, bi) = parts
    is_a_good, is_b_bad = f"({ai} == {ai})", f"({bi} != {bi})"
    are_equal = f"(({ar} == {br}) | (({ar} != {ar}) & ({br} != {br})))"
    return (
        f"(({ar} < {br}) & ({is_a_good} | {is_b_bad}))"
        f" | (({ar} > {br}) & {is_b_bad} & {is_a_good})"
        f" | ({are_equal} & (({ai} < {bi}) | ({is_b_bad} & {is_a_good})))"
        f" | (({br} != {br}) & ({ar} == {ar}))"
    )


def _merging_source(dtype: np.dtype, descending: bool) -> str:
    """Insertion sort in runs of 16, then runs are merged, between two halves of the scratch.

    Words: x, out, keys, order, length of the axis, elements after one step along it.
    Task: line along the axis. Descending: the keys are turned round, so NaN stays last.
    """
    key = "x[start + i * inner]"
    if descending:
        key = f"-{key}" if is_inexact(dtype) else f"not {key}" if dtype.kind == "b" else f"~{key}"
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {kernel_dtype(dtype)})
    out = buffer(args, 1, int64)
    keys = buffer(args, 2, {value_dtype(dtype)})
    order = buffer(args, 3, int64)
    n = integer(args, 4)
    inner = integer(args, 5)
    for task in range(lo, hi):
        start = task // inner * n * inner + task % inner
        source = 2 * n * task
        target = source + n
        for i in range(n):
            keys[source + i] = {key}
            order[source + i] = i
        for first in range(0, n, 16):
            for i in range(first + 1, min(first + 16, n)):
                key = keys[source + i]
                number = order[source + i]
                j = i - 1
                while j >= first:
                    other = keys[source + j]
                    if not ({_comes_before(dtype, "key", "other")}):
                        break
                    keys[source + j + 1] = other
                    order[source + j + 1] = order[source + j]
                    j -= 1
                keys[source + j + 1] = key
                order[source + j + 1] = number
        width = 16
        while width < n:
            for first in range(0, n, 2 * width):
                left = first
                left_end = min(first + width, n)
                right = left_end
                right_end = min(first + 2 * width, n)
                place = first
                while left < left_end and right < right_end:
                    key = keys[source + right]
                    other = keys[source + left]
                    if {_comes_before(dtype, "key", "other")}:
                        keys[target + place] = key
                        order[target + place] = order[source + right]
                        right += 1
                    else:
                        keys[target + place] = other
                        order[target + place] = order[source + left]
                        left += 1
                    place += 1
                while left < left_end:
                    keys[target + place] = keys[source + left]
                    order[target + place] = order[source + left]
                    left += 1
                    place += 1
                while right < right_end:
                    keys[target + place] = keys[source + right]
                    order[target + place] = order[source + right]
                    right += 1
                    place += 1
            swapped = source
            source = target
            target = swapped
            width *= 2
        for i in range(n):
            out[start + i * inner] = order[source + i]
"""


def _counting_source(dtype: np.dtype, descending: bool) -> str:
    """Sorts by the last byte of unsigned keys, then by the one before it, and so on; bytes that are
    the same everywhere are left out. Stable, without comparisons: five times as fast as merging.

    Words: x, out, keys, order, length of the axis, elements after one step along it.
    Task: line along the axis.
    """
    width = computed_in(dtype).itemsize
    unsigned = f"uint{8 * width}"
    digits = [f"int64(key >> uint64({8 * k})) & 255" for k in range(width)]
    counting = "\n".join(
        f"            counts[{256 * k} + ({digit})] += int32(1)" for k, digit in enumerate(digits)
    )
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {kernel_dtype(dtype)})
    out = buffer(args, 1, int64)
    keys = buffer(args, 2, {unsigned})
    order = buffer(args, 3, int32)
    n = integer(args, 4)
    inner = integer(args, 5)
    counts = local({256 * width}, int32)
    for task in range(lo, hi):
        start = task // inner * n * inner + task % inner
        source = 2 * n * task
        target = source + n
        for i in range({256 * width}):
            counts[i] = int32(0)
        for i in range(n):
            value = x[start + i * inner]
            key = {_unsigned_key(dtype, descending)}
            keys[source + i] = {unsigned}(key)
            order[source + i] = int32(i)
{counting}
        for digit in range({width}):
            shift = uint64(8 * digit)
            first = 256 * digit
            if counts[first + (int64(uint64(keys[source]) >> shift) & 255)] < n:
                before = int32(0)
                for i in range(256):
                    count = counts[first + i]
                    counts[first + i] = before
                    before += count
                for i in range(n):
                    moved = keys[source + i]
                    entry = first + (int64(uint64(moved) >> shift) & 255)
                    place = counts[entry]
                    counts[entry] = place + int32(1)
                    keys[target + place] = moved
                    order[target + place] = order[source + i]
                swapped = source
                source = target
                target = swapped
        for i in range(n):
            out[start + i * inner] = order[source + i]
"""


def _unsigned_key(dtype: np.dtype, descending: bool) -> str:
    """An expression of `value`: a uint64 that has the order of the values; NaN comes last."""
    width = 8 * computed_in(dtype).itemsize
    every, sign = f"uint64({(1 << width) - 1})", f"uint64({1 << (width - 1)})"
    if dtype.kind in "bu":
        key = "uint64(value)"
    elif dtype.kind == "i":
        key = f"((uint64(value) & {every}) ^ {sign})"
    else:
        # Both zeros have one key. Of negative numbers all bits are turned, of others the sign.
        zero = f"{value_dtype(dtype)}(0)"
        pattern = f"uint64(bitcast(select(value == {zero}, {zero}, value), uint{width}))"
        turned = f"select(value < {zero}, {every}, {sign})"
        key = f"({pattern} ^ {turned})"
    if descending:
        key = f"({key} ^ {every})"
    return f"select(value != value, {every}, {key})" if is_floating(dtype) else key


def searchsorted_call(dtype: np.dtype, shape: Shape, values: int, *, right: bool) -> LibraryCall:
    """How many elements of a row come before a value, or (right) do not come after it.

    `shape` is that of x, whose rows are in order; `values` are those of v, equally many for each
    row. Inputs: x, v. One output.
    """
    n = shape[-1]
    rows = math.prod(shape[:-1])
    words = (Memory("input"), Memory("input", 1), Memory("output"), n, values // max(rows, 1))
    step = LibraryStep(
        _searchsorted_source(dtype, right),
        words,
        Tasks(values, grain_for(4 * n.bit_length(), 1 << 11)),
    )
    return LibraryCall((step,))


def _searchsorted_source(dtype: np.dtype, right: bool) -> str:
    """Binary search without branches, which random values would mispredict half of the time.

    Words: x, v, out, length of a row, values of a row. Task: value.
    """
    goes_on = f"not ({_comes_before(dtype, 'key', 'other')})" if right else None
    goes_on = goes_on or _comes_before(dtype, "other", "key")
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {kernel_dtype(dtype)})
    v = buffer(args, 1, {kernel_dtype(dtype)})
    out = buffer(args, 2, int64)
    n = integer(args, 3)
    values = integer(args, 4)
    for task in range(lo, hi):
        key = v[task]
        start = task // values * n
        first = start
        count = n
        while count > 1:
            half = count // 2
            other = x[first + half - 1]
            first = select({goes_on}, first + half, first)
            count -= half
        if count:
            other = x[first]
            first = select({goes_on}, first + 1, first)
        out[task] = first - start
"""


@lowers("argsort", by=argsort_call)
def _argsort(kernel: LibraryKernel, node: Node) -> LibraryCall:
    (x,) = node.inputs
    return kernel(x.dtype, x.shape, node.params["axis"], descending=node.params["descending"])


@lowers("searchsorted", by=searchsorted_call, on_gpus=BY_TASK)
def _searchsorted(kernel: LibraryKernel, node: Node) -> LibraryCall:
    x, v = node.inputs
    return kernel(x.dtype, x.shape, v.type.size, right=node.params["right"])
