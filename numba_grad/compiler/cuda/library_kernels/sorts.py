"""Sorting: tiles by bitonic networks in shared memory, then merged, twice as many at a time.

Elements become unsigned keys that have their order, with NaN last and both zeros equal, as in
NumPy. Which steps there are depends on sizes alone. All of it is stable.
"""

import math
from dataclasses import dataclass

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    kernel_source,
    pointer_to,
    stored_name,
)
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.library_kernels import LibraryCall, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep, LibraryWord, Shape
from numba_grad.dtypes import computed_in, is_storage_only
from numba_grad.errors import KernelError, explain
from numba_grad.runtime.plan import Grid

# Elements of a line that one block sorts; a line of more is merged from tiles of the most.
_TILES = (64, 256, 1024)
TILE = _TILES[-1]


@stands_for(of_cpu.argsort_call)
def argsort_call(
    dtype: np.dtype, shape: Shape, axis: int, *, descending: bool = False
) -> LibraryCall:
    """The int64 positions along an axis that would sort it. Input: x. One output."""
    n, inner = shape[axis], math.prod(shape[axis + 1 :])
    lines = math.prod(shape[:axis]) * inner
    if n == 0 or lines == 0:
        return LibraryCall(())
    sort = Sort(dtype, lines, n, inner, Memory("input"), descending=descending)
    last = len(sort.key_parts) - 1
    for part in range(last + 1):
        sort.append(part, Memory("output") if part == last else None)
    return LibraryCall(tuple(sort.steps), sort.scratch_bytes)


@dataclass(slots=True)
class _Half:
    """One of two rooms for keys and for positions, in the scratch memory."""

    keys: Memory
    order: Memory


class Sort:
    """The steps that sort lines of `x`, in scratch memory from byte `start` on."""

    def __init__(
        self,
        dtype: np.dtype,
        lines: int,
        n: int,
        inner: int,
        x: Memory,
        *,
        descending: bool = False,
        start: int = 0,
    ) -> None:
        if n >= 1 << 31:
            raise KernelError(
                explain(
                    "sort",
                    "a line is too long for a GPU",
                    got={"elements": n},
                    expected="under 2**31",
                )
            )
        self.dtype, self.lines, self.n, self.inner, self.x = dtype, lines, n, inner, x
        self.descending = descending
        self.key_parts = ("low", "high") if dtype == np.complex128 else ("whole",)
        self.key_dtype = np.dtype(np.uint64 if dtype.itemsize > 4 else np.uint32)
        key_bytes = _aligned(lines * n * self.key_dtype.itemsize)
        order_bytes = _aligned(lines * n * 4)
        self.halves = []
        for number in range(2):
            first = start + number * (key_bytes + order_bytes)
            self.halves.append(
                _Half(Memory("scratch", 0, first), Memory("scratch", 0, first + key_bytes))
            )
        self.scratch_bytes = start + 2 * (key_bytes + order_bytes)
        self.source = 0  # which half holds what is sorted so far
        self.steps: list[LibraryStep] = []

    @property
    def keys(self) -> Memory:
        """The sorted keys, line by line."""
        return self.halves[self.source].keys

    @property
    def order(self) -> Memory:
        """Their int32 positions."""
        return self.halves[self.source].order

    def append(self, part: int, result: Memory | None) -> None:
        """Sort by a part of the keys, what is equal in the order that an earlier part left.

        The last step writes int64 positions to `result`, along the axis.
        """
        tile = next((size for size in _TILES if size >= self.n), TILE)
        tiles = -(-self.n // tile)
        target = self.halves[1 - self.source]
        is_last = tiles == 1 and result is not None
        words: list[LibraryWord] = [self.x, target.keys]
        words += [result if is_last and result else target.order]
        if part:
            words.append(self.order)
        words += [self.n, self.inner, tiles]
        source = _tile_source(
            self.dtype, self.key_parts[part], tile, self.descending, part > 0, is_last
        )
        self.steps.append(LibraryStep(source, tuple(words), Grid(self.lines * tiles, tile // 2)))
        self.source = 1 - self.source
        width = tile
        while width < self.n:
            is_last = 2 * width >= self.n and result is not None
            before, after = self.halves[self.source], self.halves[1 - self.source]
            words = [before.keys, before.order, after.keys]
            words += [result if is_last and result else after.order]
            words += [self.n, self.inner, width, tiles]
            source = _merge_source(self.key_dtype, is_last)
            self.steps.append(LibraryStep(source, tuple(words), Grid(self.lines * tiles, THREADS)))
            self.source = 1 - self.source
            width *= 2


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


# Keys


def key_function(dtype: np.dtype, descending: bool, name: str = "sort_key") -> str:
    """The text of a device function: the unsigned key of a number."""
    width = 32 if dtype.itemsize <= 4 else 64
    every, sign = f"uint64({(1 << width) - 1})", f"uint64({1 << (width - 1)})"
    turned = f" ^ {every}" if descending else ""
    lines = ["@cuda.jit(device=True)", f"def {name}(value):"]
    if dtype.kind in "bu":
        lines.append(f"    return uint64(value){turned}")
    elif dtype.kind == "i":
        lines.append(f"    return ((uint64(int64(value)) & {every}) ^ {sign}){turned}")
    else:
        bits = "uint64(libdevice.double_as_longlong(value))"
        number = "float64"
        if width == 32:
            bits, number = "uint64(uint32(libdevice.float_as_int(value)))", "float32"
        lines += [
            "    if value != value:",
            f"        return {every}",
            f"    if value == {number}(0.0):",
            f"        return {sign}{turned}",
            f"    if value < {number}(0.0):",
            f"        return ({bits} ^ {every}){turned}",
            f"    return ({bits} ^ {sign}){turned}",
        ]
    return "\n".join(lines) + "\n"


def _complex_key_function(dtype: np.dtype, part: str, descending: bool) -> list[str]:
    """Of a complex number: first those without NaN, by both parts; then, by the other part, those
    with a NaN in the imaginary part; in the real part; in both."""
    real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    width = 8 * real.itemsize
    body = f"""\
@cuda.jit(device=True)
def sort_key(value):
    high = part_key(value.real)
    low = part_key(value.imag)
    if value.imag != value.imag and value.real == value.real:
        low = high
        high = uint64({(1 << width) - 2})
"""
    result = {"whole": "(high << uint64(32)) | low", "high": "high", "low": "low"}[part]
    return [
        key_function(real, descending, "part_key"),
        body + f"    return {result}\n",
    ]


def _key_functions(dtype: np.dtype, part: str, descending: bool) -> list[str]:
    if dtype.kind == "c":
        return _complex_key_function(dtype, part, descending)
    return [key_function(computed_in(dtype), descending)]


# Kernels


def _result_line(is_last: bool, start: str, place: str, value: str) -> str:
    if is_last:
        return (
            f"out[line // inner * n * inner + line % inner + ({start} + {place}) * inner] = {value}"
        )
    return f"order[line * n + {start} + {place}] = {value}"


def _order_parameter(is_last: bool) -> tuple[str, str]:
    return ("out", pointer_to("int64")) if is_last else ("order", pointer_to("int32"))


def _tile_source(
    dtype: np.dtype, part: str, tile: int, descending: bool, is_ordered: bool, is_last: bool
) -> str:
    """Block: (line, tile of it). Bitonic sort of pairs of a key and a place, hence stable.

    Words: x, keys, positions, if `is_ordered` those so far, length of a line, elements after one
    step along it, tiles of a line.
    """
    key = f"uint{32 if dtype.itemsize <= 4 else 64}"
    parameters = [
        ("x", pointer_to(stored_name(dtype))),
        ("keys", pointer_to(key)),
        _order_parameter(is_last),
        *([("before", pointer_to("int32"))] if is_ordered else []),
        *((name, "int64") for name in ("n", "inner", "tiles")),
    ]
    value = "x[line // inner * n * inner + line % inner + {place} * inner]"
    if is_storage_only(dtype):
        value = f"float32({value})"
    place = "int64(before[line * n + first + number])" if is_ordered else "(first + number)"
    position = "before[line * n + first + place]" if is_ordered else "first + place"
    every = (1 << (32 if key == "uint32" else 64)) - 1
    return kernel_source(
        parameters,
        f"""\
tile_keys = cuda.shared.array({tile}, {key})
places = cuda.shared.array({tile}, int32)
thread = int32(cuda.threadIdx.x)
line = int64(cuda.blockIdx.x) // tiles
first = int64(cuda.blockIdx.x) % tiles * {tile}
count = min(n - first, {tile})
for half in range(2):
    number = thread + half * {tile // 2}
    tile_keys[number] = {key}(uint64({every}))
    if number < count:
        tile_keys[number] = {key}(sort_key({value.format(place=place)}))
    places[number] = int32(number)
cuda.syncthreads()
size = 2
while size <= {tile}:
    distance = size >> 1
    while distance > 0:
        low = 2 * thread - (thread & (distance - 1))
        high = low + distance
        low_key = tile_keys[low]
        high_key = tile_keys[high]
        low_place = places[low]
        high_place = places[high]
        is_greater = low_key > high_key or (low_key == high_key and low_place > high_place)
        if is_greater == ((low & size) == 0):
            tile_keys[low] = high_key
            tile_keys[high] = low_key
            places[low] = high_place
            places[high] = low_place
        cuda.syncthreads()
        distance >>= 1
    size <<= 1
for half in range(2):
    number = thread + half * {tile // 2}
    if number < count:
        place = int64(places[number])
        keys[line * n + first + number] = tile_keys[number]
        {_result_line(is_last, "first", "number", position)}
""",
        _key_functions(dtype, part, descending),
    )


def _merge_source(key_dtype: np.dtype, is_last: bool) -> str:
    """Block: (line, tile of the merged line). Pairs of runs of `width` become one.

    Which parts of the two runs a tile has is found by bisection (Green, Odeh and Birk, "Merge
    path", 2014); an element's place in it by bisection of the other run's part.
    Words: keys and positions before, keys and positions after, length of a line, elements after one
    step along it, width, tiles of a line.
    """
    key = key_dtype.name
    parameters = [
        ("keys_before", pointer_to(key)),
        ("order_before", pointer_to("int32")),
        ("keys", pointer_to(key)),
        _order_parameter(is_last),
        *((name, "int64") for name in ("n", "inner", "width", "tiles")),
    ]
    split = """\
@cuda.jit(device=True)
def elements_of_left(keys, left, left_count, right, right_count, merged):
    low = max(int64(0), merged - right_count)
    high = min(merged, left_count)
    while low < high:
        middle = (low + high) >> 1
        if keys[left + middle] <= keys[right + merged - 1 - middle]:
            low = middle + 1
        else:
            high = middle
    return low
"""
    return kernel_source(
        parameters,
        f"""\
tile_keys = cuda.shared.array({TILE}, {key})
thread = int64(cuda.threadIdx.x)
line = int64(cuda.blockIdx.x) // tiles
first = int64(cuda.blockIdx.x) % tiles * {TILE}
pair = first // (2 * width) * (2 * width)
left_count = min(width, n - pair)
right_count = max(int64(0), min(width, n - pair - width))
left = line * n + pair
right = left + width
begin = first - pair
end = min(begin + {TILE}, left_count + right_count)
left_begin = elements_of_left(keys_before, left, left_count, right, right_count, begin)
left_end = elements_of_left(keys_before, left, left_count, right, right_count, end)
right_begin = begin - left_begin
of_left = left_end - left_begin
count = end - begin
number = thread
while number < count:
    source = left + left_begin + number
    if number >= of_left:
        source = right + right_begin + number - of_left
    tile_keys[number] = keys_before[source]
    number += {THREADS}
cuda.syncthreads()
number = thread
while number < count:
    own = tile_keys[number]
    is_left = number < of_left
    low = of_left if is_left else int64(0)
    high = count if is_left else of_left
    start = low
    while low < high:
        middle = (low + high) >> 1
        other = tile_keys[middle]
        if other < own or (other == own and not is_left):
            low = middle + 1
        else:
            high = middle
    own_number = number if is_left else number - of_left
    place = own_number + low - start
    source = left + left_begin + number
    if not is_left:
        source = right + right_begin + number - of_left
    keys[line * n + first + place] = own
    {_result_line(is_last, "first", "place", "order_before[source]")}
    number += {THREADS}
""",
        [split],
    )
