"""Matrix products: BLAS in tiles, plain loops for small ones."""

import itertools
import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import (
    BLAS_LETTERS,
    LibraryCall,
    LibraryStep,
    Memory,
    Shape,
    Symbol,
    grain_for,
    kernel_dtype,
    value_dtype,
)
from numba_grad.compiler.library_kernels.matrix_stacks import (
    steps_of_stack,
    walk_stack,
    words_of_stack,
)
from numba_grad.compiler.library_kernels.operands import extents_of_product, operand
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.dtypes import is_storage_only
from numba_grad.graph.node import Node
from numba_grad.immutable import immutable
from numba_grad.runtime.plan import Tasks

__all__ = ["MatrixOperand", "adds_by_itself", "matmul_add_call", "matmul_call"]

_TILE_TOGETHER = 128  # tiles of so many rows reach 97% of the speed of one call for all rows
_TILE_COLUMNS = 256
_FEWEST_TILES = 4
_TILE_PRODUCTS = 1 << 18  # multiplications that are worth a task of their own
_PART_LENGTH = 2048  # of a long summed axis
_CHUNK_PRODUCTS = 1 << 18  # 10 us: what a launch over the threads should be worth
_LONGEST_WRITTEN_OUT = 4
_FEWEST_WRITTEN_OUT = 256  # products of one shape, for which a kernel of its own is worth it
_LOOP_PRODUCTS = 64  # up to here a plain loop is faster than a call of BLAS, which takes 40 ns


@immutable
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
    count, stack_words = _stacks(m, n, k, x, y)
    is_conjugated = x.is_conjugated or y.is_conjugated
    if dtype.name in BLAS_LETTERS and (is_conjugated or m * n * k > _LOOP_PRODUCTS):
        return _blas_matmul(dtype, m, n, k, x, y, count, stack_words)
    steps = steps_of_stack(np.broadcast_shapes(x.stack, y.stack), x.stack, y.stack, m * k, k * n)
    is_small = min(m, n, k) > 0 and max(m, n, k) <= _LONGEST_WRITTEN_OUT
    if steps and is_small and count >= _FEWEST_WRITTEN_OUT and dtype.name in BLAS_LETTERS:
        return LibraryCall((_written_out(dtype, m, n, k, x, y, count, steps),))
    return LibraryCall((_loop_matmul(dtype, m, n, k, x, y, count, stack_words),))


def matmul_add_call(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    x: MatrixOperand,
    y: MatrixOperand,
    *,
    in_place: bool,
) -> LibraryCall:
    """out = addend + x @ y, added by BLAS; the same dtypes, shapes as in `matmul_call`.

    Inputs: addend, x, y. One output; in place it is the addend.
    """
    count, stack_words = _stacks(m, n, k, x, y)
    product = _blas_matmul(dtype, m, n, k, x, y, count, stack_words, first_input=1, adds=True)
    if in_place:
        return product
    size = count * m * n
    words = (Memory("input", 0), Memory("output"), 1, size)
    copy = LibraryStep(_sum_of_parts_source(dtype), words, Tasks(size, 1 << 14))
    return LibraryCall((copy, *product.steps), product.scratch_bytes)


def adds_by_itself(dtype: np.dtype, m: int, n: int, k: int) -> bool:
    """Whether `matmul_add_call` is worth having: where BLAS does the product, in one piece."""
    return dtype.name in BLAS_LETTERS and m * n * k > _LOOP_PRODUCTS and k <= 2 * _PART_LENGTH


def _stacks(m: int, n: int, k: int, x: MatrixOperand, y: MatrixOperand) -> tuple[int, list[int]]:
    """The number of products, and the words that say where each operand's matrices are."""
    stack = np.broadcast_shapes(x.stack, y.stack)
    return math.prod(stack), words_of_stack(stack, x.stack, y.stack, m * k, k * n)


def _longest_tile(m: int, n: int, k: int, count: int) -> tuple[int, int]:
    """Rows and columns. Smaller where there would be few tiles, up to twice as fast on 2 threads:
    one that starts late leaves its share to the other."""
    rows, columns = min(m, _TILE_TOGETHER), min(n, _TILE_COLUMNS)
    while (
        0 < count * -(-m // max(rows, 1)) * -(-n // max(columns, 1)) < _FEWEST_TILES
        and rows * columns * k >= 2 * _TILE_PRODUCTS
    ):
        if rows >= columns:
            rows = -(-rows // 2)
        else:
            columns = -(-columns // 2)
    return max(rows, 1), max(columns, 1)


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
    *,
    first_input: int = 0,
    adds: bool = False,
) -> LibraryCall:
    """`adds`: to what is in the output already."""
    first, second = first_input, first_input + 1
    if not (x.is_conjugated or y.is_conjugated):
        m, n, x, y, are_exchanged = _of_vectors(m, n, k, x, y)
        if are_exchanged:
            first, second = second, first
            stack_words = _stacks(m, n, k, x, y)[1]
    limit = max(1, m * n * k // _TILE_PRODUCTS)
    longest_m, longest_n = _longest_tile(m, n, k, count)
    tile_m, tiles_m = _tiles(m, longest_m, limit)
    tile_n, tiles_n = _tiles(n, longest_n, max(1, limit // max(tiles_m, 1)))
    if adds or tiles_m * tiles_n * count > 2 or k <= 2 * _PART_LENGTH:
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
            Memory("input", first),
            Memory("input", second),
            result,
            Symbol(f"blas.{BLAS_LETTERS[dtype.name]}gemm"),
            *(m, n, k, tile_m, tiles_m, tile_n, tiles_n, tile_k, count),
            *(_transposition(x), _transposition(y)),
            m if x.is_transposed else k,
            k if y.is_transposed else n,
            int(adds),
            *stack_words,
        ),
        Tasks(tasks, grain_for(min(tile_m, m) * min(tile_n, n) * tile_k, _CHUNK_PRODUCTS)),
    )
    if parts == 1:
        return LibraryCall((gemm,))
    size = count * m * n
    words = (Memory("scratch"), Memory("output"), parts, size)
    adding = LibraryStep(_sum_of_parts_source(dtype), words, Tasks(size, 1 << 14))
    return LibraryCall((gemm, adding), parts * size * dtype.itemsize)


def _of_vectors(
    m: int, n: int, k: int, x: MatrixOperand, y: MatrixOperand
) -> tuple[int, int, MatrixOperand, MatrixOperand, bool]:
    """Rows, columns and operands, in the form in which BLAS is fastest where one is a vector, and
    whether the operands are exchanged: a column is the same memory as a row.

    The others take up to three times as long, a sum of 20 products for each of 10,000 rows 170 us
    instead of 74.
    """
    if k == 1:
        return m, n, MatrixOperand(x.stack, is_transposed=True), MatrixOperand(y.stack), False
    if m == 1:
        x = MatrixOperand(x.stack)
    if n == 1:
        y = MatrixOperand(y.stack)
    if n == 1 and not x.is_transposed and m < k:
        return 1, m, y, MatrixOperand(x.stack, is_transposed=True), True
    if m == 1 and y.is_transposed and n >= k:
        return n, 1, MatrixOperand(y.stack), x, True
    return m, n, x, y, False


def _transposition(operand: MatrixOperand) -> int:
    return (2 if operand.is_conjugated else 1) if operand.is_transposed else 0


def _gemm_source(dtype: np.dtype) -> str:
    """Tiles by BLAS, which counts columns first: it is asked for y^T @ x^T, the transposed result.

    Words: x, y, out, function, m, n, k, rows of a tile, tiles of rows, columns of a tile, tiles of
    columns, length of a part of the sum, matrices in the stack, transposition of x, of y (0 none,
    1 transposed, 2 and conjugated), row stride of x, of y, whether the product is added to what is
    in out, then the stack.
    Task: (part of the sum, matrix, tile of rows, tile of columns), the last running fastest.

    All that takes time is BLAS's: LLVM's passes took 40 ms of a first run for nothing.
    """
    part = np.finfo(dtype).dtype  # of a complex number, its parts
    alpha, beta = 64 // part.itemsize, 80 // part.itemsize
    return f"""\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    few_points()
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
    scalars[{alpha}] = 1.0
    scalars[{beta}] = {part.name}(words[17])
    for task in range(lo, hi):
        tile = quotient(task, words[10])
        column = (task - tile * words[10]) * words[9]
        number = quotient(tile, words[8])
        row = (tile - number * words[8]) * words[7]
        part = quotient(number, words[12])
        first = part * words[11]
{walk_stack(18, "number - part * words[12]")}\
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
    by_columns = not y.is_transposed and not is_storage_only(dtype)
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
    return LibraryStep(source, words, Tasks(count * m, grain_for(n * k, _CHUNK_PRODUCTS // 16)))


def _sum_of_products(dtype: np.dtype, total: str, x: str, y: str) -> str:
    if dtype == np.bool_:
        return f"{total} | ({x} & {y})"
    return f"{total} + {x} * {y}"


def _written_out(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    x: MatrixOperand,
    y: MatrixOperand,
    count: int,
    steps: tuple[int, int],
) -> LibraryStep:
    """Stacks of small matrices, without loops. Words: x, y, out, the steps. Task: a product."""

    def element(name: str, operand: MatrixOperand, i: int, j: int, rows: int, columns: int) -> str:
        place = j * rows + i if operand.is_transposed else i * columns + j
        return f"{name}[{name}_start + {place}]"

    lines = []
    for i, j in itertools.product(range(m), range(n)):
        terms = [f"{element('x', x, i, p, m, k)} * {element('y', y, p, j, k, n)}" for p in range(k)]
        lines.append(f"        out[matrix * {m * n} + {i * n + j}] = {' + '.join(terms)}\n")
    source = f"""\
def kernel(args, lo, hi):
    x = buffer(args, 0, {dtype.name})
    y = buffer(args, 1, {dtype.name})
    out = buffer(args, 2, {dtype.name})
    x_step = integer(args, 3)
    y_step = integer(args, 4)
    for matrix in range(lo, hi):
        x_start = matrix * x_step
        y_start = matrix * y_step
{"".join(lines)}"""
    words = (Memory("input", 0), Memory("input", 1), Memory("output"), *steps)
    return LibraryStep(source, words, Tasks(count, grain_for(m * n * k, _CHUNK_PRODUCTS // 16)))


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


_TOGETHER = 4  # rows, or elements, that a pass of the inner loop has a part of


def _columns_source(dtype: np.dtype) -> str:
    """A row of the result at a time, as a sum of rows of y; y is not transposed.

    Words: x, y, out, m, n, k, strides of x along m and k, of y along k and n, then the stack.
    Task: row of the result.
    """
    name = kernel_dtype(dtype)
    several, one = _rows_added(dtype, _TOGETHER), _rows_added(dtype, 1)
    return (
        _LOOP_HEAD.format(dtype=name)
        + walk_stack(10, "quotient(task, m)")
        + f"""\
        x_start = x_start + task % m * integer(args, 6)
        start = task * n
        for j in range(n):
            out[start + j] = {name}(0)
        together = k - k % {_TOGETHER}
        for block in range(quotient(k, {_TOGETHER})):
            p = block * {_TOGETHER}
{several}        for p in range(together, k):
{one}"""
    )


def _rows_added(dtype: np.dtype, count: int) -> str:
    """A part of the body of `_columns_source`."""
    factors, sums = [], ["sum0 = out[start + j]"]
    for r in range(count):
        factors.append(f"factor{r} = x[x_start + (p + {r}) * x_step]")
        factors.append(f"row{r} = y_start + (p + {r}) * y_step")
        value = _sum_of_products(dtype, f"sum{r}", f"factor{r}", f"y[row{r} + j]")
        sums.append(f"sum{r + 1} = {value}")
    sums.append(f"out[start + j] = sum{count}")
    lines = [*factors, "for j in range(n):", *[f"    {line}" for line in sums]]
    return "".join([f"            {line}\n" for line in lines])


def _elements_source(dtype: np.dtype) -> str:
    """An element of the result at a time. Words and tasks as in `_columns_source`."""
    several, one = _elements_at_once(dtype, _TOGETHER), _elements_at_once(dtype, 1)
    return (
        _LOOP_HEAD.format(dtype=kernel_dtype(dtype))
        + walk_stack(10, "quotient(task, m)")
        + f"""\
        x_start = x_start + task % m * integer(args, 6)
        y_row = integer(args, 9)
        together = n - n % {_TOGETHER}
        for block in range(quotient(n, {_TOGETHER})):
            j = block * {_TOGETHER}
{several}        for j in range(together, n):
{one}"""
    )


def _elements_at_once(dtype: np.dtype, count: int) -> str:
    """A part of the body of `_elements_source`."""
    name = value_dtype(dtype)
    columns, totals, results = [], [], []
    for r in range(count):
        columns += [f"column{r} = y_start + (j + {r}) * y_row", f"total{r} = {name}(0)"]
        value = _sum_of_products(dtype, f"total{r}", "factor", f"y[column{r} + place]")
        totals.append(f"    total{r} = {name}({value})")
        results.append(f"out[task * n + j + {r}] = total{r}")
    loop = ["for p in range(k):", "    p = opaque(p)", "    factor = x[x_start + p * x_step]"]
    lines = [*columns, *loop, "    place = p * y_step", *totals, *results]
    return "".join([f"            {line}\n" for line in lines])


def _operations(node: Node) -> int:
    return 2 * node.type.size * node.inputs[-2].shape[-1]


@lowers("matmul", by=matmul_call, operations=_operations)
def _matmul(kernel: LibraryKernel, node: Node) -> LibraryCall:
    x, y = node.inputs
    return kernel(node.dtype, *extents_of_product(x, y), _matrix_operand(x), _matrix_operand(y))


@lowers("matmul_add", by=matmul_add_call, operations=_operations, in_place=True)
def _matmul_add(kernel: LibraryKernel, node: Node) -> LibraryCall:
    _, x, y = node.inputs
    return kernel(node.dtype, *extents_of_product(x, y), _matrix_operand(x), _matrix_operand(y))


def _matrix_operand(x: Node) -> MatrixOperand:
    found = operand(x)
    return MatrixOperand(found.shape[:-2], found.is_transposed)
