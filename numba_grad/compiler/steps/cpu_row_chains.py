"""Row chains on the processor: a task is a block of rows, which stays in the cache of a core.

A chain is a step of its own, whose kernel calls those of its members; their code does not change
and does not know.
"""

import math
from collections.abc import Sequence

from numba_grad.compiler.emission.emit_cpu import number_of_tasks
from numba_grad.compiler.loop_nests.kernel_ir import Axis, LoopNest
from numba_grad.compiler.segment_memory import SegmentMemory
from numba_grad.compiler.steps.cpu_steps import TASK_MULTIPLE, grain_of, nanoseconds
from numba_grad.compiler.steps.row_chains import Candidate, Chaining
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import KernelAddress, OwnWord, Word
from numba_grad.runtime.plan import Tasks

# Memory traffic of a block of rows in one kernel: with what the others read, it fits the cache of a
# core.
BLOCK_BYTES = 1 << 18
# Arrays that several members share and that together are smaller stay in the cache anyway.
LEAST_SHARED_BYTES = 1 << 20
FEWEST_ROWS = 16

SOURCE = """\
def kernel(args, lo, hi):
    # rows: several kernels on some rows at a time
    words = pointer(args, int64)
    rows = words[0]
    block = words[1]
    count = words[2]
    for task in range(lo, hi):
        first = task * block
        last = min(first + block, rows)
        for number in range(count):
            function = pointer(words[3 + 3 * number], int64)
            tasks = words[5 + 3 * number]
            call(function[0], words[4 + 3 * number], first * tasks, last * tasks)
"""


def _row_axes(kernel: LoopNest, rows: int) -> Sequence[Axis] | None:
    if rows < FEWEST_ROWS or number_of_tasks(kernel) % rows:
        return None
    return kernel.kept[:-1] if kernel.accumulates_in_memory else kernel.kept


def _is_worth(members: Sequence[Candidate], rows: int) -> bool:
    """By the arrays that more than one member goes through, roughly."""
    del rows
    users: dict[SegmentMemory, list[int]] = {}
    for x in members:
        for memory in x.memories:
            users.setdefault(memory, []).append(x.step.nbytes // max(1, len(x.step.memory)))
    shared = sum(min(sizes) for sizes in users.values() if len(sizes) > 1)
    return shared >= LEAST_SHARED_BYTES


def _step(members: Sequence[Candidate], rows: int) -> ScheduledStep:
    steps = [x.step for x in members]
    bytes_of_row = max(step.nbytes for step in steps) / rows
    block = max(1, min(rows, int(BLOCK_BYTES / bytes_of_row)))
    if block > TASK_MULTIPLE:
        block -= block % TASK_MULTIPLE
    tasks = math.ceil(rows / block)
    header = 3 + 3 * len(steps)
    words: list[Word] = [rows, block, len(steps)]
    start = header
    for step in steps:
        words += [KernelAddress(step.source), OwnWord(start), step.launch[0] // rows]
        start += len(step.words)
    words += [word for step in steps for word in step.words]
    return ScheduledStep(
        SOURCE,
        words,
        Tasks(tasks, grain_of(tasks, sum(nanoseconds(step.nbytes, step.flops) for step in steps))),
        list(dict.fromkeys(memory for step in steps for memory in step.memory)),
        sum(step.nbytes for step in steps),
        sum(step.flops for step in steps),
        steps,
    )


CHAINING = Chaining(_row_axes, _is_worth, _step)
