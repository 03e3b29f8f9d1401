"""Steps of loop nests on the processor: their text, and how many tasks are worth a thread."""

import math

from numba_grad.compiler.emission import emit_cpu
from numba_grad.compiler.emission.transposed_rows import transposed_rows
from numba_grad.compiler.loop_nests.kernel_ir import Buffer, LoopNest
from numba_grad.compiler.segment_memory import Output, Place, Temporary
from numba_grad.compiler.steps.memory_traffic import elements_of_a_point, work_of
from numba_grad.compiler.steps.schedule import ScheduledStep, arguments_of
from numba_grad.runtime.plan import Tasks

# Work below this many nanoseconds, as estimated, is not worth waking another thread for.
PARALLEL_NANOSECONDS = 30_000
# Chunks are multiples of this, so that vectorized loops split at the same places for any number of
# threads.
TASK_MULTIPLE = 64
# Results of this size are written past the caches where that is done by scalar stores: the caches
# would read each line first, and have dropped it before anyone asks for it.
STREAMED_BYTES = 1 << 25


def kernel_step(kernel: LoopNest, partials: dict[object, Temporary]) -> ScheduledStep:
    """A kernel's text, its words, and how its tasks may be cut."""
    words, memory = arguments_of(kernel, partials)
    nbytes, flops = work_of(kernel)
    tasks = emit_cpu.number_of_tasks(kernel)
    return ScheduledStep(
        emit_cpu.emit(transposed_rows(kernel, _streamed(kernel))),
        words,
        Tasks(tasks, grain_of(tasks, nanoseconds(nbytes, flops))),
        memory,
        nbytes,
        flops,
        loop_nest=kernel,
    )


def _streamed(kernel: LoopNest) -> list[Buffer]:
    """Results of a plan that no cache would still have when they are read."""
    points = math.prod(axis.extent for axis in kernel.axes)
    elements = elements_of_a_point(kernel)
    return [
        buffer
        for buffer in kernel.buffers
        if buffer.dtype.kind in "fiu"
        and buffer.dtype.itemsize in (4, 8)
        and points * elements[buffer] * buffer.dtype.itemsize >= STREAMED_BYTES
        and isinstance(_memory_of(kernel, buffer), Output)
    ]


def _memory_of(kernel: LoopNest, buffer: Buffer) -> object:
    memory = kernel.words[buffer.word].memory
    return memory.memory if isinstance(memory, Place) else memory


def nanoseconds(nbytes: int, flops: int) -> float:
    """Roughly: four operations of vector code, and 10 bytes of memory traffic, in each."""
    return 0.25 * flops + 0.1 * nbytes


def grain_of(tasks: int, time: float) -> int:
    """The least number of tasks that is worth a thread of its own; `time` in nanoseconds."""
    if time < 2 * PARALLEL_NANOSECONDS or tasks < 2:
        return max(tasks, 1)
    grain = max(1, math.ceil(PARALLEL_NANOSECONDS / (time / tasks)))
    if grain > TASK_MULTIPLE:
        grain = -(-grain // TASK_MULTIPLE) * TASK_MULTIPLE
    return grain
