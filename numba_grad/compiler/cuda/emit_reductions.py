"""Reductions: which threads share a result, and how they combine what they have.

A task is a result and one of the parts that the outermost reduced axis is cut into.

- One thread does a task alone where there are many results: neighbours have neighbouring results.
- By columns, a block has 32 neighbouring results, or 8 where there are few: as many threads as are
  left share each, take its points in turns, and combine in shared memory. What all results read,
  as in interactions of all pairs, the block brings to shared memory first, a tile of it at a time,
  and computes there what depends on nothing else.
- By rows, neighbouring threads take neighbouring points, and combine by shuffles: lanes of a warp,
  or all of a block, whose warps combine in shared memory.

Every order of combining is fixed by sizes.
"""

import math

import numpy as np

from numba_grad.compiler.cuda.dependences import ReductionLets, reduction_lets
from numba_grad.compiler.cuda.emit_batches import compute_point, loads_of_points, local_arrays
from numba_grad.compiler.cuda.expressions import storage_name
from numba_grad.compiler.cuda.kernel_text import BOOL, KernelText
from numba_grad.compiler.cuda.launch import (
    THREADS_PER_BLOCK,
    WARP,
    grid_of_blocks,
    grid_of_tasks,
    is_by_columns,
    is_tiled,
    points_summed_at_once,
    staged_lets,
    threads_per_result,
)
from numba_grad.compiler.loop_nests.kernel_ir import OTHER, Accumulator, Axis, Let, LoopNest
from numba_grad.dtypes import computed_in
from numba_grad.runtime.plan import Grid

ALL_LANES = "0xffffffff"
WARPS = THREADS_PER_BLOCK // WARP


def emit_reduction(text: KernelText) -> Grid:
    """The body of a reduction's kernel."""
    kernel = text.kernel
    tasks = math.prod(axis.extent for axis in kernel.kept) * kernel.blocks
    threads = threads_per_result(kernel)
    if threads == 1:
        _emit_alone(text)
        return grid_of_tasks(tasks)
    if is_by_columns(kernel):
        columns = THREADS_PER_BLOCK // threads
        _emit_columns(text, columns)
        groups = -(-(tasks // kernel.blocks) // columns) * kernel.blocks
        return grid_of_blocks(groups)
    if threads == THREADS_PER_BLOCK:
        _emit_blocks(text)
        return grid_of_blocks(tasks)
    _emit_lanes(text, threads)
    return grid_of_tasks(tasks * threads)


# The templates


def _emit_alone(text: KernelText) -> None:
    with text.tasks(_number_of_tasks(text)):
        _decode_task(text, is_block_outside=True)
        text.start_accumulators()
        lets = of_results(text)
        bounds_of_part(text)
        nested_loops(text, lets)
        text.write_results()


def _emit_lanes(text: KernelText, lanes: int) -> None:
    """`lanes` neighbouring threads share a task: a warp, or a part of one."""
    unsigned = text.indices.unsigned
    text.line(f"tasks = {unsigned}({_number_of_tasks(text)})")
    text.line(f"lane = int32(cuda.threadIdx.x % {lanes})")
    text.line(f"thread = {text.thread()}")
    text.line(f"step = {unsigned}(cuda.gridDim.x * (cuda.blockDim.x // {lanes}))")
    if lanes == WARP:
        text.line(f"task = {unsigned}(thread // {WARP})")
        with text.block("while task < tasks:"):
            _decode_task(text)
            text.start_accumulators()
            strided_loop(text, of_results(text), "lane", lanes)
            combine_lanes(text, lanes)
            with text.block("if lane == 0:"):
                text.write_results()
            text.line(f"task = {unsigned}(task + step)")
        return
    # Lanes of a warp stay together: those past the last task have nothing to add up.
    in_warp = WARP // lanes
    text.line(f"first = {unsigned}(thread // {WARP} * {in_warp})")
    with text.block("while first < tasks:"):
        text.line(f"task = {unsigned}(first + thread % {WARP} // {lanes})")
        text.start_accumulators()
        with text.block("if task < tasks:"):
            _decode_task(text)
            strided_loop(text, of_results(text), "lane", lanes)
        combine_lanes(text, lanes)
        with text.block("if lane == 0 and task < tasks:"):
            text.write_results()
        text.line(f"first = {unsigned}(first + step)")


def _emit_blocks(text: KernelText) -> None:
    """All threads of a block share a task."""
    unsigned = text.indices.unsigned
    text.line(f"tasks = {unsigned}({_number_of_tasks(text)})")
    start_warps(text)
    _shared_accumulators(text, WARPS)
    text.line(f"task = {unsigned}(cuda.blockIdx.x)")
    with text.block("while task < tasks:"):
        _decode_task(text)
        text.start_accumulators()
        strided_loop(text, of_results(text), "cuda.threadIdx.x", THREADS_PER_BLOCK)
        combine_warps(text)
        text.line(f"task = {unsigned}(task + cuda.gridDim.x)")


def _emit_columns(text: KernelText, columns: int) -> None:
    """The threads of a block that are `columns` apart share a result."""
    kernel = text.kernel
    signed, unsigned = text.indices.signed, text.indices.unsigned
    is_with_tiles = is_tiled(kernel)
    sharing = THREADS_PER_BLOCK // columns
    text.line("thread = int32(cuda.threadIdx.x)")
    text.line(f"column = int32(thread % {columns})")
    text.line(f"row = int32(thread // {columns})")
    _shared_accumulators(text, THREADS_PER_BLOCK)
    staged = staged_lets(kernel) if is_with_tiles else []
    text.line(f"results = {text.divisor(text.product(kernel.kept))}")
    text.line(
        f"groups = {unsigned}((results + {unsigned}({columns - 1})) // {unsigned}({columns}))"
    )
    number = f"groups * {unsigned}({kernel.blocks_word})" if kernel.blocks_word else "groups"
    tiles = _TileArrays(text, staged)
    text.line(f"group = {unsigned}(cuda.blockIdx.x)")
    with text.block(f"while group < {number}:"):
        group = "group"
        if kernel.blocks_word:
            text.line(f"block = {signed}(group // groups)")
            group = "group % groups"
        text.line(f"result = {unsigned}({group} * {unsigned}({columns}) + {unsigned}(column))")
        text.start_accumulators()
        if is_with_tiles:
            # All threads come to the barriers: those past the last result do that one again.
            text.line(f"own = {unsigned}(min(result, results - {unsigned}(1)))")
            text.decode("own", kernel.kept)
            lets = of_results(text)
            bounds_of_part(text)
            _tiled_loop(text, lets, staged, tiles, sharing)
        else:
            with text.block("if result < results:"):
                text.decode("result", kernel.kept)
                strided_loop(text, of_results(text), "row", sharing)
        _to_shared(text, "thread")
        text.line("cuda.syncthreads()")
        text.line(f"half = {sharing // 2}")
        with text.block("while half > 0:"):
            with text.block("if row < half:"):
                for accumulator in kernel.accumulators:
                    other = _from_shared(accumulator, f"thread + half * {columns}")
                    _other(text, accumulator, other)
                _merge(text)
                _to_shared(text, "thread")
            text.line("cuda.syncthreads()")
            text.line("half >>= 1")
        with text.block("if row == 0 and result < results:"):
            text.write_results()
        text.line(f"group = {unsigned}(group + cuda.gridDim.x)")


# Tasks


def _number_of_tasks(text: KernelText) -> str:
    words = [axis.word for axis in text.kernel.kept]
    if text.kernel.blocks_word:
        words.append(text.kernel.blocks_word)
    return " * ".join(words) or "1"


def _decode_task(text: KernelText, *, is_block_outside: bool = False) -> None:
    """`task` -> the block and the indices of kept axes."""
    kernel = text.kernel
    signed, unsigned = text.indices.signed, text.indices.unsigned
    number = "task"
    if kernel.blocks_word:
        if is_block_outside:  # neighbours have neighbouring results
            text.line(f"results = {text.divisor(text.product(kernel.kept))}")
            text.line(f"block = {signed}(task // results)")
            text.line(f"result = {unsigned}(task % results)")
        else:
            blocks = text.divisor(kernel.blocks_word)
            text.line(f"block = {signed}(task % {blocks})")
            text.line(f"result = {unsigned}(task // {blocks})")
        number = "result"
    text.decode(number, kernel.kept)


def bounds_of_part(text: KernelText) -> None:
    """`start` and `stop` of the outermost reduced axis."""
    first = text.kernel.reduced[0].word
    signed = text.indices.signed
    if not text.kernel.blocks_word:
        text.line(f"start = {signed}(0)")
        text.line(f"stop = {signed}({first})")
        return
    blocks = f"max(uint64({text.kernel.blocks_word}), uint64(1))"
    text.line(f"start = {signed}(uint64({first}) * uint64(block) // {blocks})")
    text.line(f"stop = {signed}(uint64({first}) * uint64(block + 1) // {blocks})")


# Loops over points


def of_results(text: KernelText) -> ReductionLets | None:
    """Write what depends on the result alone; the rest, None if variants differ in it."""
    if len(text.kernel.variants) > 1:
        return None
    lets = reduction_lets(text.kernel, text.kernel.variants[0])
    text.lets(lets.of_results)
    return lets


def _at_point(text: KernelText, lets: ReductionLets | None) -> None:
    if lets is None:
        text.at_point(range(1, len(text.kernel.axes)))
        return
    (variant,) = text.kernel.variants
    for let in _in_order(text, lets):
        text.lets([let])
    if len(variant.pieces) > 1:
        text.at_point(range(0))
        return
    text.updates(variant.pieces[0].body)


def _in_order(text: KernelText, lets: ReductionLets) -> list[Let]:
    """Lets of points and of reduced axes as they were: each after those that it needs."""
    (variant,) = text.kernel.variants
    written = {let.name for let in lets.of_results}
    everything = [let for level in variant.lets[1:] for let in level]
    if len(variant.pieces) == 1:
        everything += variant.pieces[0].body.lets
    return [let for let in everything if let.name not in written]


def nested_loops(text: KernelText, lets: ReductionLets | None) -> None:
    """All points of a task, one after another."""
    first, *rest = text.kernel.reduced
    signed = text.indices.signed

    def nest(axes: list) -> None:
        if not axes:
            _at_point(text, lets)
            return
        axis, *inner = axes
        with text.block(f"for {axis.variable} in range({signed}(0), {axis.word}):"):
            nest(inner)

    with text.block(f"for {first.variable} in range(start, stop):"):
        nest(rest)


def strided_loop(text: KernelText, lets: ReductionLets | None, first: str, step: int) -> None:
    """Every `step`-th point of a task, from number `first` on.

    Parts take their points in turns: at any time all blocks read neighbouring memory.
    """
    kernel = text.kernel
    signed, unsigned = text.indices.signed, text.indices.unsigned
    stride = str(step)
    if kernel.blocks_word:
        first, stride = f"block * {step} + {first}", f"{kernel.blocks_word} * {step}"
    outermost, *inner = kernel.reduced
    points = points_summed_at_once(kernel, text.dtypes) if lets is not None and not inner else 1
    if points > 1:
        _batched_loop(text, outermost, points, first, stride)
        return
    span = f"{signed}({first}), {text.product(kernel.reduced)}, {signed}({stride})"
    if not inner:
        with text.block(f"for {outermost.variable} in range({span}):"):
            _at_point(text, lets)
        return
    with text.block(f"for point in range({span}):"):
        text.decode(f"{unsigned}(point)", kernel.reduced)
        _at_point(text, lets)


def _batched_loop(text: KernelText, axis: Axis, points: int, first: str, stride: str) -> None:
    """The same, loading so many points before it adds the first. Past the end the last one is
    loaded again, so that loads need no condition, and not added."""
    signed, unsigned = text.indices.signed, text.indices.unsigned
    loads = loads_of_points(text)
    local_arrays(text, loads, points)
    # Unsigned, for there what lies past the end is no negative number.
    text.line(f"own = {unsigned}({first})")
    text.line(f"end = {unsigned}({axis.word})")
    text.line(f"stride = {unsigned}({stride})")
    with text.block("while own < end:"):
        with text.block(f"for turn in range({points}):"):
            text.line(f"point = {unsigned}(own + turn * stride)")
            text.line(f"{axis.variable} = {signed}(min(point, end - {unsigned}(1)))")
            for name, load in loads:
                text.line(f"loaded_{name}[turn] = {text.element(load)}")
        with text.block(f"for turn in range({points}):"):
            text.line(f"point = {unsigned}(own + turn * stride)")
            with text.block("if point < end:"):
                text.line(f"{axis.variable} = {signed}(point)")
                compute_point(text, {name: f"loaded_{name}[turn]" for name, _ in loads})
                text.updates(text.kernel.variants[0].pieces[0].body)
        text.line(f"own = {unsigned}(own + {points} * stride)")


class _TileArrays:
    """Shared arrays of what all results read; one element for each thread of the block."""

    def __init__(self, text: KernelText, staged: list[Let]) -> None:
        # Their dtypes are known once the values are written: the definitions come before.
        self.names = {let.name: f"tile_{let.name}" for let in staged}
        for let in staged:
            dtype = text.dtype_of(let)
            text.line(
                f"{self.names[let.name]} = cuda.shared.array({THREADS_PER_BLOCK}, "
                f"{storage_name(dtype)})"
            )


def _tiled_loop(
    text: KernelText,
    lets: ReductionLets | None,
    staged: list[Let],
    tiles: _TileArrays,
    sharing: int,
) -> None:
    """The points of each tile, which the block brings to shared memory before; every thread that
    shares a result takes one in its turn."""
    assert lets is not None
    signed = text.indices.signed
    (axis,) = text.kernel.reduced
    (variant,) = text.kernel.variants
    text.line("first = start")
    with text.block("while first < stop:"):
        text.line("cuda.syncthreads()")
        text.line(f"{axis.variable} = {signed}(first + thread)")
        with text.block(f"if {axis.variable} < stop:"):
            text.lets(lets.of_reduced)
            for let in staged:
                value = f"uint8({let.name})" if text.dtypes[let.name] == BOOL else let.name
                text.line(f"{tiles.names[let.name]}[thread] = {value}")
        text.line("cuda.syncthreads()")
        text.line(f"count = int32(min({THREADS_PER_BLOCK}, stop - first))")
        with text.block(f"for place in range(row, count, int32({sharing})):"):
            text.line(f"{axis.variable} = {signed}(first + place)")
            for let in staged:
                is_bool = text.dtypes[let.name] == BOOL
                value = f"{tiles.names[let.name]}[place]" + (" != 0" if is_bool else "")
                text.line(f"{let.name} = {value}")
            text.lets(lets.of_points)
            text.updates(variant.pieces[0].body)
        text.line(f"first = {signed}(first + {THREADS_PER_BLOCK})")


# Combining


def combine_lanes(text: KernelText, lanes: int) -> None:
    """The first of `lanes` lanes gets the combination of all, halves first."""
    text.line(f"distance = {lanes // 2}")
    with text.block("while distance > 0:"):
        for accumulator in text.kernel.accumulators:
            dtype = computed_in(accumulator.identity.dtype)
            _other(text, accumulator, _shuffled(accumulator.name, dtype))
        _merge(text)
        text.line("distance >>= 1")


def start_warps(text: KernelText) -> None:
    """What `combine_warps` needs, beside `shared_arrays` of `WARPS` elements."""
    text.line("lane = int32(cuda.threadIdx.x % 32)")
    text.line("warp = int32(cuda.threadIdx.x // 32)")


def combine_warps(text: KernelText) -> None:
    """Write what all threads of a block have, combined."""
    combine_lanes(text, WARP)
    with text.block("if lane == 0:"):
        _to_shared(text, "warp")
    text.line("cuda.syncthreads()")
    with text.block("if warp == 0:"):
        # Lanes past the warps have what the last one has, and no one asks for theirs.
        text.line(f"place = min(lane, int32({WARPS - 1}))")
        for accumulator in text.kernel.accumulators:
            text.line(f"{accumulator.name} = {_from_shared(accumulator, 'place')}")
        combine_lanes(text, WARPS)
        with text.block("if lane == 0:"):
            text.write_results()
    text.line("cuda.syncthreads()")


def _shuffled(name: str, dtype: np.dtype) -> str:
    """The value of the lane `distance` further: hardware moves 32 or 64 bits."""

    def moved(value: str) -> str:
        return f"cuda.shfl_down_sync({ALL_LANES}, {value}, distance)"

    if dtype == BOOL:
        return f"{moved(f'int32({name})')} != 0"
    if dtype.kind == "c":
        return f"{dtype.name}(complex({moved(name + '.real')}, {moved(name + '.imag')}))"
    if dtype.kind == "f" or dtype.name in ("int32", "int64"):
        return moved(name)
    carrier = "int64" if dtype.itemsize == 8 or dtype.name == "uint32" else "int32"
    return f"{dtype.name}({moved(f'{carrier}({name})')})"


def _other(text: KernelText, accumulator: Accumulator, value: str) -> None:
    name = OTHER + accumulator.name
    text.dtypes[name] = computed_in(accumulator.identity.dtype)
    text.line(f"{name} = {value}")


def _merge(text: KernelText) -> None:
    for update in text.kernel.merges:
        text.update(update)


def shared_arrays(kernel: LoopNest, size: int) -> dict[str, str]:
    """For each accumulator an array of a block, by name."""
    return {
        f"shared_{accumulator.name}": f"cuda.shared.array({size}, "
        f"{storage_name(computed_in(accumulator.identity.dtype))})"
        for accumulator in kernel.accumulators
    }


def _shared_accumulators(text: KernelText, size: int) -> None:
    for name, array in shared_arrays(text.kernel, size).items():
        text.line(f"{name} = {array}")


def _to_shared(text: KernelText, where: str) -> None:
    for accumulator in text.kernel.accumulators:
        is_bool = accumulator.identity.dtype == BOOL
        value = f"uint8({accumulator.name})" if is_bool else accumulator.name
        text.line(f"shared_{accumulator.name}[{where}] = {value}")


def _from_shared(accumulator: Accumulator, where: str) -> str:
    value = f"shared_{accumulator.name}[{where}]"
    return f"{value} != 0" if accumulator.identity.dtype == BOOL else value
