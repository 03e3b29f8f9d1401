"""How a kernel is spread over a device: functions of sizes alone, so that results are, too."""

import math
from collections.abc import Collection

from numba_grad.compiler.cuda.dependences import names_in, reduction_lets, used_by
from numba_grad.compiler.loop_nests.iteration_spaces import ONE
from numba_grad.compiler.loop_nests.kernel_ir import Axis, Let, Load, LoopNest, Variant
from numba_grad.compiler.loop_nests.loop_cuts import fewest_blocks
from numba_grad.runtime.plan import Grid

WARP = 32
THREADS_PER_BLOCK = 256
# More than any device runs at once, by far; a thread has more than one task then.
MOST_BLOCKS = 1 << 15
# Threads that a reduction should have: 132 multiprocessors of an H200 hold 2048 each.
ENOUGH_THREADS = 1 << 18
# Points that a thread sums up at least before it is worth to have more parts, which another kernel
# combines. Some loads are on their way at the same time, so that few take as long as one.
POINTS_IN_ROWS = 4
POINTS_IN_COLUMNS = 8
# Of a kernel without reductions: bytes that a thread loads at once, points that these may be, and
# operations of a point beyond which there are enough of other threads to wait for memory.
BYTES_AT_ONCE = 16
MOST_POINTS_AT_ONCE = 4
MOST_OPERATIONS_AT_ONCE = 16
# The same of a reduction, whose threads have no stores to wait for. The gradient of layer
# normalization on an H200, a warp for each row: 1.40 ms by one point at a time, 1.22 with 16 bytes,
# 1.15 with 32, 1.30 with 64. Sums of everything hardly change.
BYTES_SUMMED_AT_ONCE = 32
MOST_POINTS_SUMMED_AT_ONCE = 8
# Registers of a kernel that sums: with so many, four blocks run at once, and what one waits for
# another one computes. Forces of all pairs on an H200: 82 registers and two blocks 2.04 ms, 72 and
# three 1.48, 64 and four 1.41; of other interactions with 66 to 72 registers 0.91 to 0.98 of the
# time. Kernels without sums, which wait for memory, are slower with fewer registers.
MOST_REGISTERS_OF_SUMS = 64
# Elements of a square that goes through shared memory to be transposed: a warp wide. And how many
# values may do so, which are 8.25 KiB each in float64.
SIDE = WARP
MOST_SQUARES = 2
# What a block has without asking for more.
SHARED_BYTES = 48 * 1024
WIDEST_VALUE = 16
# Threads of a block that share a result where neighbouring threads have neighbouring results: those
# of different warps, or of different quarters of warps where results are few.
SHARING_COLUMNS = THREADS_PER_BLOCK // WARP
SHARING_FEW_COLUMNS = WARP
# Results that many threads have one each of: no more threads would run at once.
ENOUGH_RESULTS = ENOUGH_THREADS // 2
# Of this many results or fewer, neighbouring threads share one even where they read the same.
FEW_RESULTS = WARP
# Lanes that share a result in rows too short for a warp.
SHORT = 8
# Points of a row from which a whole block shares it, if the results are too few to fill a device.
LONG = 2 * THREADS_PER_BLOCK


def points_at_once(kernel: LoopNest, known: Collection[str] = ()) -> int:
    """How many points a thread loads before it stores the first; `known` are values that need no
    loads.

    Memory is as fast as there are bytes on their way, which must be some 30 KiB for each
    multiprocessor: more than its 2048 threads ask for with one small load each.
    """
    return _points_at_once(kernel, known, BYTES_AT_ONCE, MOST_POINTS_AT_ONCE)


def points_summed_at_once(kernel: LoopNest, known: Collection[str]) -> int:
    """How many points a thread of a reduction loads before it adds the first."""
    if any(piece.body.stores for variant in kernel.variants for piece in variant.pieces):
        return 1
    return _points_at_once(kernel, known, BYTES_SUMMED_AT_ONCE, MOST_POINTS_SUMMED_AT_ONCE)


def _points_at_once(
    kernel: LoopNest, known: Collection[str], bytes_at_once: int, most_points: int
) -> int:
    (*special, variant) = kernel.variants
    if special or len(variant.pieces) > 1 or not kernel.axes:
        return 1
    loads = batched_loads(variant)
    if loads is None:
        return 1
    loads = [(name, load) for name, load in loads if name not in known]
    nbytes = sum(load.buffer.dtype.itemsize for _, load in loads)
    points = min(most_points, bytes_at_once // max(nbytes, 1))
    is_heavy = kernel.operations > MOST_OPERATIONS_AT_ONCE
    return 1 if is_heavy or not loads or points < 2 else points


def transposed_axis(kernel: LoopNest) -> Axis | None:
    """The axis along which a kernel reads neighbours, other than the innermost one; None if there
    is none, or if it would not fit through shared memory."""
    (*special, variant) = kernel.variants
    if special or len(variant.pieces) > 1 or len(kernel.axes) < 2:
        return None
    loads = batched_loads(variant) or []
    *outer, along = kernel.axes
    for across in outer:
        turned = [load for _, load in loads if is_transposed(load, across, along)]
        if turned:
            return across if len(turned) <= MOST_SQUARES else None
    return None


def is_transposed(load: Load, across: Axis, along: Axis) -> bool:
    """Whether neighbours along `across` are neighbours in memory, and those along `along` are
    rows."""
    has_neighbours = (across.variable, ONE) in load.position.terms
    return has_neighbours and any(
        name.startswith(f"{along.variable} * ") for name, _ in load.position.terms
    )


def batched_loads(variant: Variant) -> list[tuple[str, Load]] | None:
    """What is loaded at each point, by name; None if some of it depends on other values."""
    lets = [let for level in variant.lets[1:] for let in level]
    for piece in variant.pieces:
        lets += piece.body.lets
    computed = {let.name for let in lets}
    loads = [(let.name, let.expression) for let in lets if isinstance(let.expression, Load)]
    if any(computed & set(names_in(load)) for _, load in loads):
        return None
    return loads


def grid_of_tasks(threads: int) -> Grid:
    """A grid of at least `threads` threads if it can be."""
    block = min(THREADS_PER_BLOCK, max(WARP, -(-threads // WARP) * WARP))
    return Grid(max(1, min(-(-threads // block), MOST_BLOCKS)), block)


def grid_of_blocks(blocks: int) -> Grid:
    """A grid of `blocks` whole blocks if it can be."""
    return Grid(min(blocks, MOST_BLOCKS), THREADS_PER_BLOCK)


def reduction_blocks(kept: int, summed: int, outermost: int, in_memory: bool) -> int:
    """Into how many parts the outermost reduced axis is cut.

    Parameters
    ----------
    kept, summed : how many results there are, and points that each sums
    outermost : the extent of the outermost reduced axis
    in_memory : whether neighbouring threads have neighbouring results
    """
    if in_memory:
        threads = max(kept, WARP) * SHARING_COLUMNS
        most = summed // (SHARING_COLUMNS * POINTS_IN_COLUMNS)
        # What the other kernel combines is not cut again.
        most = min(most, fewest_blocks() * SHARING_COLUMNS * POINTS_IN_COLUMNS - 1)
    else:
        threads = kept * THREADS_PER_BLOCK
        most = summed // (THREADS_PER_BLOCK * POINTS_IN_ROWS)
    most = min(most, outermost)
    wanted = -(-ENOUGH_THREADS // max(threads, 1))
    if wanted < 2 or most < fewest_blocks():
        return 1
    return max(min(wanted, most), fewest_blocks())


def threads_per_result(kernel: LoopNest) -> int:
    """Threads that share a result and a part: 1, 8, 32 or 256.

    In `is_by_columns` kernels those share one that are 32 or 8 apart, so that neighbours have
    neighbouring results; in others neighbouring threads.
    """
    results = math.prod(axis.extent for axis in kernel.kept) * kernel.blocks
    summed = math.prod(axis.extent for axis in kernel.reduced) // kernel.blocks
    if is_by_columns(kernel):
        is_alone = results >= ENOUGH_RESULTS or summed < 2 * SHARING_COLUMNS
        too_large = bytes_of_accumulators(kernel) * THREADS_PER_BLOCK > SHARED_BYTES
        if too_large or (is_alone and not is_tiled(kernel)):
            return 1
        are_few = results * SHARING_COLUMNS < ENOUGH_THREADS // 2
        return SHARING_FEW_COLUMNS if are_few and summed >= LONG else SHARING_COLUMNS
    # Sums of everything: the same text, whatever their size.
    if not kernel.kept or (summed >= LONG and results * THREADS_PER_BLOCK <= 2 * ENOUGH_THREADS):
        return THREADS_PER_BLOCK
    return WARP if summed > 4 * SHORT else SHORT


def is_by_columns(kernel: LoopNest) -> bool:
    """Whether the threads of a warp have neighbouring results, not neighbouring points."""
    if kernel.accumulates_in_memory:
        return True
    results = math.prod(axis.extent for axis in kernel.kept)
    if results <= FEW_RESULTS:
        return False
    return not any(reduction_lets(kernel, variant).loads_of_points for variant in kernel.variants)


def is_tiled(kernel: LoopNest) -> bool:
    """Whether what all results read goes through shared memory: interactions of all pairs."""
    if len(kernel.variants) > 1 or len(kernel.reduced) != 1 or not kernel.kept:
        return False
    (variant,) = kernel.variants
    lets = reduction_lets(kernel, variant)
    if len(variant.pieces) > 1 or variant.pieces[0].body.stores or lets.loads_of_points:
        return False
    if not is_by_columns(kernel) or not lets.loads_of_reduced:
        return False
    staged = WIDEST_VALUE * len(staged_lets(kernel))
    return (bytes_of_accumulators(kernel) + staged) * THREADS_PER_BLOCK <= SHARED_BYTES


def staged_lets(kernel: LoopNest) -> list[Let]:
    """What of a tiled kernel goes through shared memory: computed once for all results."""
    (variant,) = kernel.variants
    lets = reduction_lets(kernel, variant)
    used = used_by(lets.of_points, variant)
    return [let for let in lets.of_reduced if let.name in used]


def bytes_of_accumulators(kernel: LoopNest) -> int:
    """Of one thread."""
    return sum(accumulator.identity.dtype.itemsize for accumulator in kernel.accumulators)
