"""Matrix products: tiles in shared memory and registers, single elements of small ones; cuBLAS
where it is installed."""

import math
from collections.abc import Callable
from textwrap import indent

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    blocks_for,
    computed_name,
    each_task,
    kernel_source,
    merged_axes,
    pointer_to,
    stored_name,
    walk_of_stack,
    zero,
)
from numba_grad.compiler.cuda.library_kernels.registry import Options, stands_for
from numba_grad.compiler.library_kernels import LibraryCall, MatrixOperand, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep
from numba_grad.compiler.library_kernels.matrix_stacks import words_of_stack
from numba_grad.immutable import immutable
from numba_grad.runtime.cuda import libraries
from numba_grad.runtime.plan import Grid

# What cuBLAS is for.
BLAS_DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
# Memory that cuBLAS may use for one product: what NVIDIA recommends for sm_90, less for a result
# whose partial sums could not fill it. Part of the plan, so that graphs may run side by side.
_MOST_WORKSPACE = 32 << 20
_LEAST_WORKSPACE = 1 << 20

# Blocks that a product should have before its sums are cut into parts, and the shortest part.
_ENOUGH_BLOCKS = 256
_SHORTEST_PART = 256
_MOST_PARTS = 64


# Results of so few elements, of sums that short, are an element to a thread: most of a tile would
# be empty. Up to the last number of rows and columns also where cuBLAS is installed.
_FEW_ELEMENTS = 256
_SHORT_SUM = 256
_SMALLEST = 16


@immutable
class Tile:
    """What a block of 256 threads computes: `per_thread` squared elements in each of them, by steps
    of `depth` along the sums."""

    side: int
    depth: int
    per_thread: int


# From where on there are enough of them, a large tile reads memory half as often.
_SMALL, _MEDIUM, _LARGE = Tile(32, 16, 2), Tile(64, 16, 4), Tile(128, 8, 8)
# Two rows of a tile start in different banks.
_PADDING = 4


def tile_for(dtype: np.dtype, m: int, n: int, count: int) -> Tile:
    if min(m, n) <= _SMALL.side or (m + n) * count <= 4 * _MEDIUM.side:
        return _SMALL
    blocks = count * -(-m // _LARGE.side) * -(-n // _LARGE.side)
    fits = np.dtype(computed_name(dtype)).itemsize <= 4
    return _LARGE if fits and blocks >= _ENOUGH_BLOCKS // 2 else _MEDIUM


def _by_options(options: Options) -> dict[str, object]:
    return {
        "has_cublas": lambda: options.libraries and libraries.cublas() is not None,
        "tf32": options.tf32,
    }


@stands_for(of_cpu.matmul_call, given=_by_options)
def matmul_call(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    x: MatrixOperand,
    y: MatrixOperand,
    *,
    has_cublas: Callable[[], bool] = lambda: False,
    tf32: bool = False,
) -> LibraryCall:
    """out[..., m, n] = x[..., m, k] @ y[..., k, n], stacks broadcast. Any dtype.

    Half precision is summed in single precision. Inputs: x, y. One output.
    """
    stack = np.broadcast_shapes(x.stack, y.stack)
    axes = merged_axes(words_of_stack(stack, x.stack, y.stack, m * k, k * n))
    product = _Product(dtype, m, n, k, x.is_transposed, y.is_transposed, axes, math.prod(stack))
    is_for_blas = dtype.name in BLAS_DTYPES and max(m, n, k) > _SMALLEST
    if is_for_blas and product.size * k > 0 and has_cublas():
        return _cublas_call(product, tf32=tf32)
    if m * n <= _FEW_ELEMENTS and k <= _SHORT_SUM:
        return _elements_call(product)
    return _tiles_call(product)


@immutable
class _Product:
    """Products of (m, k) and (k, n), which may be stored transposed."""

    dtype: np.dtype
    m: int
    n: int
    k: int
    x_transposed: bool
    y_transposed: bool
    axes: list[tuple[int, int, int]]  # of the stack: size, and strides in x and y
    count: int  # in the stack

    @property
    def size(self) -> int:
        """Elements of the result."""
        return self.count * self.m * self.n

    @property
    def words_of_axes(self) -> list[int]:
        return [word for axis in self.axes for word in axis]


def _tiles_call(product: _Product) -> LibraryCall:
    dtype, m, n, k, count = product.dtype, product.m, product.n, product.k, product.count
    tile = tile_for(dtype, m, n, count)
    row_tiles, column_tiles = -(-m // tile.side), -(-n // tile.side)
    blocks = count * row_tiles * column_tiles
    parts = _number_of_parts(blocks, k)
    part_length = -(-k // (parts * tile.depth)) * tile.depth
    is_cut = parts > 1
    words = (
        *(Memory("input", 0), Memory("input", 1), Memory("scratch" if is_cut else "output")),
        *(m, n, k, row_tiles, column_tiles, part_length, count),
        *product.words_of_axes,
    )
    multiplying = LibraryStep(
        _tiles_source(product, tile, is_cut=is_cut), words, Grid(parts * blocks, THREADS)
    )
    if not is_cut:
        return LibraryCall((multiplying,))
    adding = LibraryStep(
        _sum_of_parts_source(dtype),
        (Memory("scratch"), Memory("output"), parts, product.size),
        Grid(blocks_for(product.size), THREADS),
    )
    itemsize = np.dtype(computed_name(dtype)).itemsize
    return LibraryCall((multiplying, adding), parts * product.size * itemsize)


def _elements_call(product: _Product) -> LibraryCall:
    m, n, k = product.m, product.n, product.k
    words = (
        *(Memory("input", 0), Memory("input", 1), Memory("output"), m, n, k),
        *((1, m) if product.x_transposed else (k, 1)),
        *((1, k) if product.y_transposed else (n, 1)),
        *(product.size, *product.words_of_axes),
    )
    source = _elements_source(product.dtype, len(product.axes))
    return LibraryCall((LibraryStep(source, words, Grid(blocks_for(product.size), THREADS)),))


def _elements_source(dtype: np.dtype, rank: int) -> str:
    """Words: x, y, out, m, n, k, strides of x along m and k, of y along k and n, elements of the
    result, then the axes of the stack. Task: element of the result."""
    walk, words_of_axes = walk_of_stack(rank)
    stored, name = stored_name(dtype), computed_name(dtype)
    integers = ["m", "n", "k", "x_row", "x_column", "y_row", "y_column", "tasks", *words_of_axes]
    factors = f"{name}(x[x_start + p * x_column])", f"{name}(y[y_start + p * y_row])"
    new = "total | ({} & {})" if dtype == np.bool_ else "total + {} * {}"
    return kernel_source(
        [
            *((pointer, pointer_to(stored)) for pointer in ("x", "y", "out")),
            *((integer, "int64") for integer in integers),
        ],
        each_task(f"""\
matrix = task // (m * n)
{walk}\
x_start += task // n % m * x_row
y_start += task % n * y_column
total = {zero(dtype)}
p = int64(0)
while p < k:
    total = {name}({new.format(*factors)})
    p += 1
out[task] = total
"""),
    )


def _number_of_parts(blocks: int, k: int) -> int:
    """Of the sums: more where there are few results of long sums. By sizes alone."""
    if blocks == 0 or blocks >= _ENOUGH_BLOCKS // 2 or k < 2 * _SHORTEST_PART:
        return 1
    return min(-(-_ENOUGH_BLOCKS // blocks), k // _SHORTEST_PART, _MOST_PARTS)


def _tiles_source(product: _Product, tile: Tile, *, is_cut: bool) -> str:
    """Block: (part of the sum, matrix, tile of rows, tile of columns), the last running fastest.

    Words: x, y, out, m, n, k, tiles of rows, tiles of columns, length of a part of the sum,
    matrices, then for each axis of the stack its size and strides.

    Tiles lie in shared memory with the sums' axis first. A thread has every 16th row and column of
    its tile, so that neighbours read neighbouring banks, and write neighbouring elements.
    """
    dtype = product.dtype
    stored, name = stored_name(dtype), computed_name(dtype)
    walk, words_of_axes = walk_of_stack(len(product.axes))
    integers = ["m", "n", "k", "row_tiles", "column_tiles", "part_length", "count"]
    integers += words_of_axes
    parameters = [
        ("x", pointer_to(stored)),
        ("y", pointer_to(stored)),
        ("out", pointer_to(name if is_cut else stored)),
        *((integer, "int64") for integer in integers),
    ]
    side, depth, own = tile.side, tile.depth, tile.per_thread
    width = side + _PADDING
    across = side // own
    update = f"sums[i * {own} + j] += x_part[i] * y_part[j]"
    if dtype == np.bool_:
        update = f"sums[i * {own} + j] = sums[i * {own} + j] | (x_part[i] & y_part[j])"
    return kernel_source(
        parameters,
        f"""\
x_tile = cuda.shared.array({depth * width}, {name})
y_tile = cuda.shared.array({depth * width}, {name})
sums = cuda.local.array({own * own}, {name})
x_part = cuda.local.array({own}, {name})
y_part = cuda.local.array({own}, {name})
block = int64(cuda.blockIdx.x)
first_column = block % column_tiles * {side}
block = block // column_tiles
first_row = block % row_tiles * {side}
block = block // row_tiles
matrix = block % count
part = block // count
{walk}thread = int32(cuda.threadIdx.x)
own_row = thread // {across}
own_column = thread % {across}
for i in range({own * own}):
    sums[i] = {zero(dtype)}
start = part * part_length
end = min(start + part_length, k)
while start < end:
    for load in range({side * depth // THREADS}):
        place = thread + load * {THREADS}
{_load("x", "first_row", "m", tile, dtype, along_last=not product.x_transposed)}
{_load("y", "first_column", "n", tile, dtype, along_last=product.y_transposed)}
    cuda.syncthreads()
    for p in range({depth}):
        for i in range({own}):
            x_part[i] = x_tile[p * {width} + own_row + i * {across}]
            y_part[i] = y_tile[p * {width} + own_column + i * {across}]
        for i in range({own}):
            for j in range({own}):
                {update}
    cuda.syncthreads()
    start += {depth}
out_start = (part * count + matrix) * m * n
for i in range({own}):
    row = first_row + own_row + i * {across}
    if row < m:
        for j in range({own}):
            column = first_column + own_column + j * {across}
            if column < n:
                out[out_start + row * n + column] = sums[i * {own} + j]
""",
    )


def _load(
    name: str, first: str, extent: str, tile: Tile, dtype: np.dtype, *, along_last: bool
) -> str:
    """An element of a tile by each thread, neighbours in memory by neighbouring threads.

    `along_last`: whether the axis of the sums is the last one in memory.
    """
    if along_last:
        places = f"p = place % {tile.depth}\nline = place // {tile.depth}"
        address = f"({first} + line) * k + start + p"
    else:
        places = f"line = place % {tile.side}\np = place // {tile.side}"
        address = f"(start + p) * {extent} + {first} + line"
    text = f"""\
{places}
value = {zero(dtype)}
if {first} + line < {extent} and start + p < end:
    value = {computed_name(dtype)}({name}[{name}_start + {address}])
{name}_tile[p * {tile.side + _PADDING} + line] = value"""
    return indent(text, "        ")


def _sum_of_parts_source(dtype: np.dtype) -> str:
    """Task: element of the result. The parts are added in their order."""
    name = computed_name(dtype)
    new = "total | parts[part * tasks + task]" if dtype == np.bool_ else None
    return kernel_source(
        [
            ("parts", pointer_to(name)),
            ("out", pointer_to(stored_name(dtype))),
            ("count", "int64"),
            ("tasks", "int64"),
        ],
        each_task(f"""\
total = parts[task]
part = int64(1)
while part < count:
    total = {name}({new or "total + parts[part * tasks + task]"})
    part += 1
out[task] = total
"""),
    )


def _cublas_call(product: _Product, *, tf32: bool) -> LibraryCall:
    """Words: as `_gemm` of `runtime/cuda/libraries.py` takes them."""
    dtype = product.dtype
    workspace = 1 << (4 * product.size * dtype.itemsize).bit_length()
    workspace = max(_LEAST_WORKSPACE, min(workspace, _MOST_WORKSPACE))
    words = (
        *(Memory("input", 0), Memory("input", 1), Memory("output"), Memory("scratch"), workspace),
        *(product.m, product.n, product.k),
        *(int(product.x_transposed), int(product.y_transposed), *product.words_of_axes),
    )
    precision = "tf32" if tf32 and dtype == np.float32 else dtype.name
    step = LibraryStep(f"host: cublas gemm {dtype.name} {precision}", words, Grid(1, 1))
    return LibraryCall((step,), workspace)
