"""Kernels that work on the same rows, run together on a few rows at a time.

    mean = x.sum(axis=1) / n                             each is a kernel: a sum cannot be read
    variance = ((x - mean)**2).sum(axis=1) / n           before it is finished
    y = (x - mean) / sqrt(variance + eps)

One after the other, each reads all of `x` from memory. But no row of a result needs anything of
another row, so all kernels may first do some rows that stay in the cache, then the next ones: a
*chain*. So may kernels that go through the same points, where one would be too long. A chain is a
step of its own, whose kernel calls those of its members; their code does not change and does not
know.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from numba_grad.compiler.emit_cpu import number_of_tasks
from numba_grad.compiler.library_steps import Pointer
from numba_grad.compiler.loops import Buffer, Load
from numba_grad.compiler.loops import Kernel as LoopKernel
from numba_grad.compiler.program_steps import (
    TASK_MULTIPLE,
    ProgramStep,
    Source,
    grain_of,
    nanoseconds,
)
from numba_grad.compiler.spaces import Index

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


@dataclass(frozen=True, slots=True)
class Access:
    """Where a kernel reads or writes an array."""

    source: Source
    factors: dict[str, int]  # the position: the sum of loop variables, times these, and `constant`
    constant: int
    itemsize: int
    is_write: bool


@dataclass(slots=True, eq=False)
class Candidate:
    """A step, with what is known of its accesses; of a library call, nothing but its memory."""

    step: ProgramStep
    kernel: LoopKernel | None
    accesses: list[Access]

    @property
    def sources(self) -> set[Source]:
        return set(self.step.memory)

    @property
    def written(self) -> set[Source]:
        if not self.accesses:
            return self.sources
        return {access.source for access in self.accesses if access.is_write}


def candidate(step: ProgramStep, kernel: LoopKernel | None) -> Candidate:
    """`kernel`: what the step was made from, None if that does not follow its loops."""
    if kernel is None or kernel.blocks_word or not kernel.axes:
        return Candidate(step, None, [])
    accesses = []
    for buffer, position, is_write in _accesses(kernel):
        word = step.words[buffer.word]
        assert isinstance(word, Pointer)
        itemsize = buffer.dtype.itemsize
        accesses.append(
            Access(
                word.source,  # type: ignore[arg-type]
                _factors(position, kernel),
                position.constant + word.offset // itemsize,
                itemsize,
                is_write,
            )
        )
    return Candidate(step, kernel, accesses)


def _accesses(kernel: LoopKernel) -> Iterator[tuple[Buffer, Index, bool]]:
    """(buffer, position, whether it is written)"""
    for accumulator in kernel.accumulators:
        if accumulator.buffer is not None:
            yield accumulator.buffer, accumulator.position, True
    for variant in kernel.variants:
        lets = [let for level in variant.lets for let in level]
        for piece in variant.pieces:
            lets += piece.body.lets
            for store in piece.body.stores:
                yield store.buffer, store.position, True
        for let in lets:
            if isinstance(let.expression, Load):
                yield let.expression.buffer, let.expression.position, False


def _factors(position: Index, kernel: LoopKernel) -> dict[str, int]:
    """What each variable is multiplied by. A term may be written as "i0 * s3", with an argument."""
    arguments = {word.name: word.value for word in kernel.words}
    result: dict[str, int] = {}
    for term, factor in position.terms:
        name, *others = term.split(" * ")
        value = factor.value * math.prod(arguments[other] for other in others)
        result[name] = result.get(name, 0) + value
    return result


def with_row_chains(
    candidates: Sequence[Candidate], nbytes_of: Callable[[Source], int | None]
) -> list[ProgramStep]:
    """The steps, with chains in place of their members.

    What stands between two members and does not belong to them comes after the chain.
    """
    rest = list(candidates)
    while True:
        for rows in _numbers_of_rows(rest):
            found = _first_chain(rest, rows, nbytes_of)
            if found is not None:
                rest = found
                break
        else:
            return [x.step for x in rest]


def _numbers_of_rows(candidates: Sequence[Candidate]) -> list[int]:
    """What may be a number of rows: of results that are summed up one by one, else of points."""
    of_sums, of_points = [], []
    for x in candidates:
        if x.kernel is None or x.kernel.accumulates_in_memory:
            continue
        rows = math.prod(axis.extent for axis in x.kernel.kept)
        if rows >= FEWEST_ROWS:
            (of_sums if x.kernel.reduced else of_points).append(rows)
    return list(dict.fromkeys(of_sums + of_points))


def _first_chain(
    candidates: list[Candidate], rows: int, nbytes_of: Callable[[Source], int | None]
) -> list[Candidate] | None:
    """`candidates` with a chain over `rows`, None if there is none that is worth it."""
    for start, first in enumerate(candidates):
        if not _keeps_rows(first, rows, first.written, nbytes_of):
            continue
        members, delayed = [first], []
        written, used = first.written, first.sources
        for x in candidates[start + 1 :]:
            if (
                not used.isdisjoint(x.sources)
                and _keeps_rows(x, rows, written | x.written, nbytes_of)
                and all(_are_independent(x, y) for y in delayed)
            ):
                members.append(x)
                written = written | x.written
                used = used | x.sources
            else:
                delayed.append(x)
        if _shared_bytes(members) >= LEAST_SHARED_BYTES:
            return [*candidates[:start], _chain(members, rows), *delayed]
    return None


def _are_independent(x: Candidate, y: Candidate) -> bool:
    return x.written.isdisjoint(y.sources) and y.written.isdisjoint(x.sources)


def _shared_bytes(members: Sequence[Candidate]) -> int:
    """Of the arrays that more than one member goes through, roughly."""
    users: dict[Source, list[int]] = {}
    for x in members:
        for source in x.sources:
            users.setdefault(source, []).append(x.step.nbytes // max(1, len(x.step.memory)))
    return sum(min(sizes) for sizes in users.values() if len(sizes) > 1)


def _keeps_rows(
    x: Candidate, rows: int, written: set[Source], nbytes_of: Callable[[Source], int | None]
) -> bool:
    """Whether row r of the work of `x` touches only row r of each array in `written`."""
    kernel = x.kernel
    if kernel is None or number_of_tasks(kernel) % rows:
        return False
    outer = kernel.kept[:-1] if kernel.accumulates_in_memory else kernel.kept
    if math.prod(axis.extent for axis in outer) % rows:
        return False
    steps = _strides_of_rows([axis.extent for axis in outer], rows)
    if steps is None:
        return False
    names = [axis.variable for axis in outer]
    extents = {axis.variable: axis.extent for axis in kernel.axes}
    for access in x.accesses:
        if access.source not in written:
            continue
        nbytes = nbytes_of(access.source)
        if nbytes is None:
            return False
        elements, remainder = divmod(nbytes, access.itemsize * rows)
        if remainder or not _is_in_row(access, names, steps, extents, elements):
            return False
    return True


def _strides_of_rows(extents: Sequence[int], rows: int) -> list[tuple[int, int]] | None:
    """For each outer axis by how many rows its index moves, and of how many indices a row is made.

    (stride, 1) for axes that number the rows; (1, m) for one of which m indices are one row; (0, n)
    for axes within a row. None if rows do not follow from the axes' order.
    """
    result = []
    left = rows
    for extent in extents:
        if left % extent == 0:
            left //= extent
            result.append((left, 1))
        elif left > 1 and extent % left == 0:
            result.append((1, extent // left))
            left = 1
        elif left == 1:
            result.append((0, extent))
        else:
            return None
    return result if left == 1 else None


def _is_in_row(
    access: Access,
    names: Sequence[str],
    steps: Sequence[tuple[int, int]],
    extents: dict[str, int],
    elements: int,
) -> bool:
    """Whether the position lies within the `elements` of the row that the outer axes say."""
    lowest = highest = access.constant
    factors = dict(access.factors)
    if not factors.keys() <= extents.keys():
        return False  # an index that was loaded
    for name, (stride, count) in zip(names, steps, strict=True):
        factor = factors.pop(name, 0)
        if stride and factor * count != stride * elements:
            return False
        # The indices of one row that are left.
        highest += max(0, factor * (count - 1))
        lowest += min(0, factor * (count - 1))
    for name, factor in factors.items():
        highest += max(0, factor * (extents[name] - 1))
        lowest += min(0, factor * (extents[name] - 1))
    return lowest >= 0 and highest < elements


def _chain(members: Sequence[Candidate], rows: int) -> Candidate:
    steps = [x.step for x in members]
    bytes_of_row = max(step.nbytes for step in steps) / rows
    block = max(1, min(rows, int(BLOCK_BYTES / bytes_of_row)))
    if block > TASK_MULTIPLE:
        block -= block % TASK_MULTIPLE
    tasks = -(-rows // block)
    header = 3 + 3 * len(steps)
    words: list[object] = [rows, block, len(steps)]
    start = header
    for step in steps:
        words += [("kernel", step.source), ("words", start), step.tasks // rows]
        start += len(step.words)
    words += [word for step in steps for word in step.words]
    chain = ProgramStep(
        SOURCE,
        words,
        tasks,
        grain_of(tasks, sum(nanoseconds(step.nbytes, step.flops) for step in steps)),
        list(dict.fromkeys(source for step in steps for source in step.memory)),
        sum(step.nbytes for step in steps),
        sum(step.flops for step in steps),
        steps,
    )
    written = set().union(*(x.written for x in members))
    return Candidate(chain, None, [Access(source, {}, 0, 1, True) for source in written])
