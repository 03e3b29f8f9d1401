"""Steps that are not generated from loops: BLAS, LAPACK, sorting, scans, scattering.

Each function returns a `LibraryCall`: kernel sources with the words of their steps, where memory
is still by role (`Memory`). How work is cut into tasks depends on sizes and dtypes alone, so
results do not depend on the number of threads.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from numba_grad.runtime.plan import SERIAL, ErrorSite, PlanBuilder, WordValue

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a word points: byte `offset` into an operand's memory.

    `role` is "input", "output" or "scratch"; `number` counts the inputs and outputs.
    """

    role: str
    number: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A word that holds the address of a library function."""

    name: str


@dataclass(frozen=True, slots=True)
class Errors:
    """A word that holds the address of the error record."""


LibraryWord = int | Memory | Symbol | Errors | ErrorSite


@dataclass(frozen=True, slots=True)
class LibraryStep:
    """One step: a kernel's source, its words, and how it may be cut."""

    source: str
    words: tuple[LibraryWord, ...]
    tasks: int
    grain: int = SERIAL


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """The steps of one operation, in order, and the memory that they need for themselves."""

    steps: tuple[LibraryStep, ...]
    scratch_bytes: int = 0


def append_call(
    builder: PlanBuilder,
    call: LibraryCall,
    kernel_number: Callable[[str], int],
    *,
    inputs: Sequence[tuple[int, int]],
    outputs: Sequence[tuple[int, int]],
    scratch: tuple[int, int] = (0, 0),
) -> None:
    """Append the steps to a plan; operands are (base, byte offset), kernels are found by source."""
    places = {"input": inputs, "output": outputs, "scratch": [scratch]}

    def value(word: LibraryWord) -> WordValue:
        match word:
            case Memory(role, number, offset):
                base, start = places[role][number]
                return base, start + offset
            case Symbol(name):
                return builder.symbol(name), 0
            case Errors():
                return builder.errors, 0
            case ErrorSite():
                return builder.site(word)
            case _:
                return int(word)

    for step in call.steps:
        words = [value(word) for word in step.words]
        builder.step(kernel_number(step.source), words, step.tasks, step.grain)


def _kernel_dtype(dtype: np.dtype) -> str:
    return "bool_" if dtype == np.bool_ else dtype.name


def _value_dtype(dtype: np.dtype) -> str:
    """What an element is once it is loaded."""
    return "float32" if dtype == np.float16 else _kernel_dtype(dtype)


def _grain(work_of_task: int, work_of_chunk: int) -> int:
    return max(1, work_of_chunk // max(1, work_of_task))


# Stacks of matrices. Their words: the rank of the result's stack, then for each axis the size
# and the strides in the two operands, in elements.


def _stack_words(
    stack: Shape, x_stack: Shape, y_stack: Shape, x_size: int, y_size: int
) -> list[int]:
    words = [len(stack)]
    x_strides = _stack_strides(stack, x_stack, x_size)
    y_strides = _stack_strides(stack, y_stack, y_size)
    for size, x_stride, y_stride in zip(stack, x_strides, y_strides, strict=True):
        words += [size, x_stride, y_stride]
    return words


def _stack_strides(stack: Shape, own: Shape, matrix_size: int) -> list[int]:
    """The strides of a C-contiguous operand, 0 where it is broadcast."""
    strides = []
    stride = matrix_size
    for size in reversed(own):
        strides.append(0 if size == 1 else stride)
        stride *= size
    strides += [0] * (len(stack) - len(own))
    return strides[::-1]


def _walk_stack(rank_word: int, number: str) -> str:
    return f"""\
        x_start = 0
        y_start = 0
        rest = {number}
        for axis in range(words[{rank_word}] - 1, -1, -1):
            size = words[{rank_word} + 1 + 3 * axis]
            along = rest % size
            rest = rest // size
            x_start += along * words[{rank_word} + 2 + 3 * axis]
            y_start += along * words[{rank_word} + 3 + 3 * axis]
"""


# Matrix products.

_BLAS_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}

_TILE_ROWS = 128  # tiles of so many rows reach 97% of the speed of one call for all rows
_TILE_COLUMNS = 256
_TILE_PRODUCTS = 1 << 18  # multiplications that are worth a task of their own
_PART_LENGTH = 2048  # of a long summed axis
_CHUNK_PRODUCTS = 1 << 18  # 10 us: what a launch over the threads should be worth
_LOOP_PRODUCTS = 64  # up to here a plain loop is faster than a call of BLAS, which takes 40 ns


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """A C-contiguous stack of matrices, as stored, and how a product is to read them."""

    stack: Shape
    is_transposed: bool = False  # stored with the last two axes exchanged
    is_conjugated: bool = False  # only together with `is_transposed`


def matmul_call(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    x: MatrixOperand,
    y: MatrixOperand,
) -> LibraryCall:
    """out[..., m, n] = x[..., m, k] @ y[..., k, n], stacks broadcast. Any dtype.

    Inputs: x, y. One output.
    """
    stack = np.broadcast_shapes(x.stack, y.stack)
    count = math.prod(stack)
    stack_words = _stack_words(stack, x.stack, y.stack, m * k, k * n)
    is_conjugated = x.is_conjugated or y.is_conjugated
    if dtype.name in _BLAS_LETTERS and (is_conjugated or m * n * k > _LOOP_PRODUCTS):
        return _blas_matmul(dtype, m, n, k, x, y, count, stack_words)
    return LibraryCall((_loop_matmul(dtype, m, n, k, x, y, count, stack_words),))


def _tiles(extent: int, longest: int, count_limit: int) -> tuple[int, int]:
    """Length and number of tiles of an axis: an even number if several, multiples of 8 long."""
    count = max(1, min(-(-extent // longest), count_limit))
    if count > 1:
        count += count % 2
    length = max(8, -(-extent // (8 * count)) * 8)
    return length, -(-extent // length)


def _blas_matmul(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    x: MatrixOperand,
    y: MatrixOperand,
    count: int,
    stack_words: list[int],
) -> LibraryCall:
    if m == 1 and n == 1 and not y.is_transposed:
        # The same memory as a row, for which BLAS is four times as fast.
        y = MatrixOperand(y.stack, is_transposed=True)
    limit = max(1, m * n * k // _TILE_PRODUCTS)
    tile_m, tiles_m = _tiles(m, _TILE_ROWS, limit)
    tile_n, tiles_n = _tiles(n, _TILE_COLUMNS, max(1, limit // max(tiles_m, 1)))
    if tiles_m * tiles_n * count > 2 or k <= 2 * _PART_LENGTH:
        tile_k, parts = max(k, 1), 1
    else:
        # A small result of long sums: its parts are summed by separate tasks, then added in order.
        parts = min(-(-k // _PART_LENGTH), 16)
        tile_k = -(-k // parts)
        parts = -(-k // tile_k)
    result = Memory("output") if parts == 1 else Memory("scratch")
    tasks = parts * count * tiles_m * tiles_n
    gemm = LibraryStep(
        _gemm_source(dtype),
        (
            Memory("input", 0),
            Memory("input", 1),
            result,
            Symbol(f"blas.{_BLAS_LETTERS[dtype.name]}gemm"),
            *(m, n, k, tile_m, tiles_m, tile_n, tiles_n, tile_k, count),
            *(_transposition(x), _transposition(y)),
            m if x.is_transposed else k,
            k if y.is_transposed else n,
            *stack_words,
        ),
        tasks,
        _grain(min(tile_m, m) * min(tile_n, n) * tile_k, _CHUNK_PRODUCTS),
    )
    if parts == 1:
        return LibraryCall((gemm,))
    size = count * m * n
    words = (Memory("scratch"), Memory("output"), parts, size)
    adding = LibraryStep(_sum_of_parts_source(dtype), words, size, 1 << 14)
    return LibraryCall((gemm, adding), parts * size * dtype.itemsize)


def _transposition(operand: MatrixOperand) -> int:
    return (2 if operand.is_conjugated else 1) if operand.is_transposed else 0


def _gemm_source(dtype: np.dtype) -> str:
    """Tiles by BLAS, which counts columns first: it is asked for y^T @ x^T, the transposed result.

    Words: x, y, out, function, m, n, k, rows of a tile, tiles of rows, columns of a tile, tiles of
    columns, length of a part of the sum, matrices in the stack, transposition of x, of y (0 none,
    1 transposed, 2 and conjugated), row stride of x, of y, then the stack.
    Task: (part of the sum, matrix, tile of rows, tile of columns), the last running fastest.
    """
    part = np.finfo(dtype).dtype  # of a complex number, its parts
    first_scalar = 64 // part.itemsize
    return f"""\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    m = words[4]
    n = words[5]
    k = words[6]
    place = stack_words(16)
    numbers = pointer(place, int64)
    letters = pointer(place, uint8)
    scalars = pointer(place, {part.name})
    for number in range(16):
        numbers[number] = 0
    letters[0] = 78 + 6 * (words[13] == 1) - 11 * (words[13] == 2)  # N, T or C
    letters[8] = 78 + 6 * (words[14] == 1) - 11 * (words[14] == 2)
    numbers[5] = max(words[15], 1)
    numbers[6] = max(words[16], 1)
    numbers[7] = max(n, 1)
    scalars[{first_scalar}] = 1.0
    for task in range(lo, hi):
        column = task % words[10] * words[9]
        row = task // words[10] % words[8] * words[7]
        number = task // words[10] // words[8]
        first = number // words[12] * words[11]
{_walk_stack(17, "number % words[12]")}\
        if words[13] == 0:
            x_start += row * words[15] + first
        else:
            x_start += first * words[15] + row
        if words[14] == 0:
            y_start += first * words[16] + column
        else:
            y_start += column * words[16] + first
        numbers[2] = min(words[7], m - row)
        numbers[3] = min(words[9], n - column)
        numbers[4] = min(words[11], k - first)
        call(
            words[3], place + 8, place, place + 24, place + 16, place + 32, place + 64,
            words[1] + y_start * {dtype.itemsize}, place + 48,
            words[0] + x_start * {dtype.itemsize}, place + 40, place + 80,
            words[2] + ((number * m + row) * n + column) * {dtype.itemsize}, place + 56, 1, 1,
        )
"""


def _sum_of_parts_source(dtype: np.dtype) -> str:
    """Words: parts, out, number of parts, size of out. Task: element."""
    return f"""\
def kernel(args, lo, hi):
    parts = buffer(args, 0, {dtype.name})
    out = buffer(args, 1, {dtype.name})
    size = integer(args, 3)
    for i in range(lo, hi):
        out[i] = parts[i]
    for part in range(1, integer(args, 2)):
        for i in range(lo, hi):
            out[i] = out[i] + parts[part * size + i]
"""


def _loop_matmul(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    x: MatrixOperand,
    y: MatrixOperand,
    count: int,
    stack_words: list[int],
) -> LibraryStep:
    # Half precision is summed in single precision, so not in the result itself.
    by_columns = not y.is_transposed and dtype != np.float16
    words = (
        Memory("input", 0),
        Memory("input", 1),
        Memory("output"),
        *(m, n, k),
        *((1, m) if x.is_transposed else (k, 1)),
        *((1, k) if y.is_transposed else (n, 1)),
        *stack_words,
    )
    source = (_columns_source if by_columns else _elements_source)(dtype)
    return LibraryStep(source, words, count * m, _grain(n * k, _CHUNK_PRODUCTS // 16))


def _sum_of_products(dtype: np.dtype, total: str, x: str, y: str) -> str:
    if dtype == np.bool_:
        return f"{total} | ({x} & {y})"
    return f"{total} + {x} * {y}"


_LOOP_HEAD = """\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    x = buffer(args, 0, {dtype})
    y = buffer(args, 1, {dtype})
    out = buffer(args, 2, {dtype})
    m = integer(args, 3)
    n = integer(args, 4)
    k = integer(args, 5)
    x_step = integer(args, 7)
    y_step = integer(args, 8)
    for task in range(lo, hi):
"""


def _columns_source(dtype: np.dtype) -> str:
    """A row of the result at a time, as a sum of rows of y; y is not transposed.

    Words: x, y, out, m, n, k, strides of x along m and k, of y along k and n, then the stack.
    Task: row of the result.
    """
    name = _kernel_dtype(dtype)
    return (
        _LOOP_HEAD.format(dtype=name)
        + _walk_stack(10, "task // m")
        + f"""\
        x_start += task % m * integer(args, 6)
        start = task * n
        for j in range(n):
            out[start + j] = {name}(0)
        for p in range(k):
            factor = x[x_start + p * x_step]
            row = y_start + p * y_step
            for j in range(n):
                out[start + j] = {_sum_of_products(dtype, "out[start + j]", "factor", "y[row + j]")}
"""
    )


def _elements_source(dtype: np.dtype) -> str:
    """An element of the result at a time. Words and tasks as in `_columns_source`."""
    value = _sum_of_products(dtype, "total", "x[x_start + p * x_step]", "y[column + p * y_step]")
    name = _value_dtype(dtype)
    return (
        _LOOP_HEAD.format(dtype=_kernel_dtype(dtype))
        + _walk_stack(10, "task // m")
        + f"""\
        x_start += task % m * integer(args, 6)
        for j in range(n):
            column = y_start + j * integer(args, 9)
            total = {name}(0)
            for p in range(k):
                total = {name}({value})
            out[task * n + j] = total
"""
    )


# Linear systems.


def solve_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape, *, note: str = ""
) -> LibraryCall:
    """The x of a[..., n, n] @ x = b[..., n, columns], stacks broadcast; float or complex.

    Inputs: a, b. One output. A singular matrix is an error at the site.
    """
    stack = np.broadcast_shapes(a_stack, b_stack)
    count = math.prod(stack)
    letter = _BLAS_LETTERS[dtype.name]
    # A copy of the matrix, which LAPACK overwrites, of the right side by columns, and the pivots.
    room = (n * n + n * columns) * dtype.itemsize + n * 8
    room = -(-room // 64) * 64
    words = (
        Memory("input", 0),
        Memory("input", 1),
        Memory("output"),
        Memory("scratch"),
        Symbol(f"lapack.{letter}getrf"),
        Symbol(f"lapack.{letter}getrs"),
        *(n, columns, room),
        Errors(),
        ErrorSite("singular", "solve", note=note),
        *_stack_words(stack, a_stack, b_stack, n * n, n * columns),
    )
    products = n * n * (n + columns)
    step = LibraryStep(
        _solve_source(dtype), words, count if n and columns else 0, _grain(products, 1 << 15)
    )
    return LibraryCall((step,), max(1, count) * room)


def _solve_source(dtype: np.dtype) -> str:
    """LAPACK counts columns first, so what it factorizes is a^T; it then solves with (a^T)^T.

    Words: a, b, out, scratch, getrf, getrs, n, columns, bytes of scratch for each matrix, error
    record, site, then the stack. Task: matrix.
    """
    name = dtype.name
    size = dtype.itemsize
    return f"""\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    n = words[6]
    columns = words[7]
    a = pointer(words[0], {name})
    b = pointer(words[1], {name})
    out = pointer(words[2], {name})
    place = stack_words(4)
    numbers = pointer(place, int64)
    for task in range(lo, hi):
{_walk_stack(11, "task")}\
        factors_place = words[3] + task * words[8]
        right_place = factors_place + n * n * {size}
        pivots = right_place + n * columns * {size}
        factors = pointer(factors_place, {name})
        right = pointer(right_place, {name})
        for i in range(n * n):
            factors[i] = a[x_start + i]
        for j in range(columns):
            for i in range(n):
                right[j * n + i] = b[y_start + i * columns + j]
        numbers[0] = n
        numbers[1] = columns
        numbers[2] = 0
        numbers[3] = 84  # T
        call(words[4], place, place, factors_place, place, pivots, place + 16)
        if numbers[2] & 0xFFFFFFFF != 0:
            if atomic_compare_exchange(words[9], 0, 1) == 0:
                record = pointer(words[9], int64)
                record[1] = words[10]
                record[2] = task
                record[3] = n
            continue
        call(words[5], place + 24, place, place + 8, factors_place, place, pivots,
             right_place, place, place + 16, 1)
        start = task * n * columns
        for i in range(n):
            for j in range(columns):
                out[start + i * columns + j] = right[j * n + i]
"""


# Sorting. Stable; NaN last, and -0.0 equal to 0.0, as in NumPy.


def argsort_call(
    dtype: np.dtype, shape: Shape, axis: int, *, descending: bool = False
) -> LibraryCall:
    """The int64 positions along an axis that would sort it. Input: x. One output."""
    return _sorting_call(dtype, shape, axis, _argsort_result, descending)


def sort_call(dtype: np.dtype, shape: Shape, axis: int, *, descending: bool = False) -> LibraryCall:
    """The elements along an axis in order. Input: x. One output."""
    return _sorting_call(dtype, shape, axis, _sort_result, descending)


_argsort_result = "order[source + i]"
_sort_result = "x[start + order[source + i] * inner]"


def _sorting_call(
    dtype: np.dtype, shape: Shape, axis: int, result: str, descending: bool
) -> LibraryCall:
    n = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    tasks = math.prod(shape[:axis]) * inner
    key_bytes = -(-2 * tasks * n * np.dtype(_value_numpy(dtype)).itemsize // 64) * 64
    words = (
        Memory("input", 0),
        Memory("output"),
        Memory("scratch"),
        Memory("scratch", 0, key_bytes),
        n,
        inner,
    )
    step = LibraryStep(
        _sorting_source(dtype, result, descending),
        words,
        tasks if n else 0,
        _grain(n * max(1, n.bit_length()), 1 << 11),
    )
    return LibraryCall((step,), key_bytes + 2 * tasks * n * 8)


def _value_numpy(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _comes_before(dtype: np.dtype, a: str, b: str) -> str:
    """NumPy's order as an expression; complex numbers by real, then by imaginary part."""
    if dtype.kind == "f":
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


def _sorting_source(dtype: np.dtype, result: str, descending: bool) -> str:
    """Insertion sort in runs of 16, then runs are merged, between two halves of the scratch.

    Words: x, out, keys, order, length of the axis, elements after one step along it.
    Task: line along the axis. Descending: the keys are turned round, so NaN stays last.
    """
    key = "x[start + i * inner]"
    if descending:
        key = f"-{key}" if dtype.kind in "fc" else f"not {key}" if dtype.kind == "b" else f"~{key}"
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {_kernel_dtype(dtype)})
    out = buffer(args, 1, {"int64" if result is _argsort_result else _kernel_dtype(dtype)})
    keys = buffer(args, 2, {_value_dtype(dtype)})
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
            out[start + i * inner] = {result}
"""


# Cumulative sums.

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
        _grain(n * min(inner, _SCAN_COLUMNS), 1 << 14),
    )
    return LibraryCall((step,))


def _cumsum_source(dtype: np.dtype, out_dtype: np.dtype, reverse: bool) -> str:
    """Words: x, out, length of the axis, elements after one step, columns of a tile, tiles.

    Task: (lines before the axis, tile of what comes after it).
    """
    name = _value_dtype(out_dtype)
    combined = _sum_text(out_dtype, "out[before + column]", f"{name}(x[row + column])")
    first, step = ("(n - 1)", "-") if reverse else ("0", "")
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {_kernel_dtype(dtype)})
    out = buffer(args, 1, {_kernel_dtype(out_dtype)})
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


def _sum_text(dtype: np.dtype, a: str, b: str) -> str:
    return f"{a} | {b}" if dtype == np.bool_ else f"{a} + {b}"


# Scattering.

_SCATTER_COLUMNS = 512


def scatter_call(
    dtype: np.dtype,
    index_dtypes: Sequence[np.dtype],
    sizes: Sequence[int],
    positions: int,
    rest: int,
    *,
    adds: bool,
    sites: Sequence[ErrorSite],
    in_place: bool = False,
) -> LibraryCall:
    """x with v put at, or added to, the places that index arrays name on its first axes.

    In the order of the positions: duplicates add up, and of those that are put the last one wins.
    `sizes` are the lengths of the indexed axes, `rest` the elements of one place; each index array
    has a site. Inputs: x, v, then the index arrays. One output; in place it is the memory of x.
    """
    tiles = -(-rest // _SCATTER_COLUMNS)
    words: list[LibraryWord] = [Memory("output"), Memory("input", 1)]
    words += [positions, rest, _SCATTER_COLUMNS, Errors()]
    for number, (size, site) in enumerate(zip(sizes, sites, strict=True)):
        words += [Memory("input", 2 + number), size, site]
    scatter = LibraryStep(
        _scatter_source(dtype, index_dtypes, adds),
        tuple(words),
        tiles if positions else 0,
        _grain(positions * min(rest, _SCATTER_COLUMNS), 1 << 14),
    )
    if in_place:
        return LibraryCall((scatter,))
    size = math.prod(sizes) * rest
    copy = LibraryStep(_copy_source(dtype), (Memory("input"), Memory("output")), size, 1 << 15)
    return LibraryCall((copy, scatter))


def _copy_source(dtype: np.dtype) -> str:
    """Words: x, out. Task: element."""
    # As integers, so that NaN payloads are kept and half precision is not converted.
    words = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
    name = words[dtype.itemsize]
    return f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {name})
    out = buffer(args, 1, {name})
    for i in range(lo, hi):
        out[i] = x[i]
"""


def _scatter_source(dtype: np.dtype, index_dtypes: Sequence[np.dtype], adds: bool) -> str:
    """Words: out, v, positions, elements of a place, columns of a tile, error record, then for each
    index array: the array, the size of its axis, its site. Task: tile of columns.
    """
    lines = [
        "def kernel(args, lo, hi):",
        f"    out = buffer(args, 0, {_kernel_dtype(dtype)})",
        f"    v = buffer(args, 1, {_kernel_dtype(dtype)})",
        "    rest = integer(args, 3)",
        "    errors = integer(args, 5)",
    ]
    for number, index_dtype in enumerate(index_dtypes):
        word = 6 + 3 * number
        lines += [
            f"    index{number} = buffer(args, {word}, {index_dtype.name})",
            f"    size{number} = integer(args, {word + 1})",
            f"    site{number} = integer(args, {word + 2})",
        ]
    lines += [
        "    for task in range(lo, hi):",
        "        first = task * integer(args, 4)",
        "        end = min(first + integer(args, 4), rest)",
        "        for position in range(integer(args, 2)):",
        "            place = 0",
    ]
    for number in range(len(index_dtypes)):
        checked = f"check_index(int64(index{number}[position]), size{number}, errors, site{number})"
        lines.append(f"            place = place * size{number} + {checked}")
    new = "v[position * rest + column]"
    if adds:
        new = _sum_text(dtype, "out[place * rest + column]", new)
    lines += [
        "            for column in range(first, end):",
        f"                out[place * rest + column] = {new}",
    ]
    return "\n".join(lines) + "\n"
