"""Row chains on GPUs: one kernel, in which a few threads do all of a row before the next one."""

import math
from collections.abc import Sequence

from numba_grad.compiler.cuda import costs
from numba_grad.compiler.cuda.emit_row_chains import emit_row_chain
from numba_grad.compiler.cuda.launch import SHORT, THREADS_PER_BLOCK, WARP
from numba_grad.compiler.loop_nests.kernel_ir import Axis, LoopNest
from numba_grad.compiler.segment_memory import SegmentMemory
from numba_grad.compiler.steps.memory_traffic import bytes_of_buffers
from numba_grad.compiler.steps.row_chains import Candidate, Chaining
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Pointer, Word
from numba_grad.runtime.plan import MOST_WORDS_OF_A_LAUNCH

# Points that one thread may sum up alone, where a row has several results.
MOST_ALONE = 64
# Points of a row from which a block does it rather than a warp, which waits for no other. On an
# H200 softmax of float32 takes 0.25 ms by warps and 0.30 by blocks in rows of 1024, 0.40 and 0.30
# in rows of 2048, 0.37 and 0.27 in rows of 4096.
LONG_ROW = 8 * THREADS_PER_BLOCK


def _row_axes(kernel: LoopNest, rows: int) -> Sequence[Axis] | None:
    """Kept axes, unless a row would keep few of its threads busy for long."""
    results = math.prod(axis.extent for axis in kernel.kept) // rows
    summed = math.prod(axis.extent for axis in kernel.reduced)
    if kernel.reduced and 1 < results < THREADS_PER_BLOCK and summed > MOST_ALONE:
        return None
    return kernel.kept


def _is_worth(members: Sequence[Candidate], rows: int) -> bool:
    if sum(len(x.step.words) for x in members) >= MOST_WORDS_OF_A_LAUNCH:
        return False
    apart = sum(
        costs.seconds(x.step.nbytes, x.step.flops, math.prod(x.step.launch)) for x in members
    )
    threads = rows * _threads_of_row(members, rows)
    flops = sum(x.step.flops for x in members)
    return costs.seconds(_bytes_of_chain(members, rows), flops, threads) < apart


def _threads_of_row(members: Sequence[Candidate], rows: int) -> int:
    """1, 32 or 256."""
    points = max(math.prod(axis.extent for axis in _kernel(x).axes) // rows for x in members)
    if points <= SHORT:
        return 1
    # Also where there are enough rows for warps: what is read again must still be in a cache.
    return THREADS_PER_BLOCK if points >= LONG_ROW else WARP


def _bytes_of_chain(members: Sequence[Candidate], rows: int) -> int:
    """Of memory traffic: each array once, if the rows that are done at the same time fit the
    cache."""
    once: dict[SegmentMemory, int] = {}
    total = 0
    for x in members:
        for buffer, nbytes in bytes_of_buffers(_kernel(x)).items():
            word = x.step.words[buffer.word]
            assert isinstance(word, Pointer)
            memory: SegmentMemory = word.memory  # type: ignore[assignment]
            once[memory] = max(once.get(memory, 0), nbytes)
            total += nbytes
    resident = costs.MULTIPROCESSORS * costs.THREADS_OF_MULTIPROCESSOR
    at_once = min(rows, resident // _threads_of_row(members, rows))
    nbytes = sum(once.values())
    return nbytes if nbytes / rows * at_once <= costs.CACHE_BYTES else total


def _step(members: Sequence[Candidate], rows: int) -> ScheduledStep:
    steps = [x.step for x in members]
    kernels = [_kernel(x) for x in members]
    emitted = emit_row_chain(kernels, rows, _threads_of_row(members, rows))
    words: list[Word] = [rows]
    written: set[int] = set()
    for step in steps:
        assert step.written is not None
        written.update(len(words) + word for word in step.written)
        words += step.words
    return ScheduledStep(
        emitted.source,
        words,
        emitted.grid,
        list(dict.fromkeys(memory for step in steps for memory in step.memory)),
        _bytes_of_chain(members, rows),
        sum(step.flops for step in steps),
        written=frozenset(written),
    )


def _kernel(x: Candidate) -> LoopNest:
    assert x.kernel is not None  # members follow loops
    return x.kernel


CHAINING = Chaining(_row_axes, _is_worth, _step)
