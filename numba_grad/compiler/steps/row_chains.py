"""Kernels that work on the same rows, run together on a few rows at a time.

    mean = x.sum(axis=1) / n                             each is a kernel: a sum cannot be read
    variance = ((x - mean)**2).sum(axis=1) / n           before it is finished
    y = (x - mean) / sqrt(variance + eps)

One after the other, each reads all of `x` from memory. But no row of a result needs anything of
another row, so all kernels may first do some rows that stay in the cache, then the next ones: a
*chain*. So may kernels that go through the same points, where one would be too long.

Which kernels may be a chain follows from what they read and write, and is found here. Whether that
is worth it, and how a chain is run, are a target's (`cpu_row_chains.py`, `cuda/row_chains.py`).
"""

import heapq
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import Axis, Buffer, Load, LoopNest
from numba_grad.compiler.segment_memory import SegmentMemory
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Pointer
from numba_grad.immutable import immutable

# How many of the steps that follow and share memory a chain is looked for among: with all of them
# for each first one, the work would grow with the square of their number.
REACH = 64


@immutable
class AffineAccess:
    """Where a kernel reads or writes an array."""

    memory: SegmentMemory
    factors: dict[str, int]  # the position: the sum of loop variables, times these, and `constant`
    constant: int
    itemsize: int
    is_write: bool


@dataclass(slots=True, eq=False)
class Candidate:
    """A step, with what is known of its accesses; of a library call, nothing but its memory."""

    step: ScheduledStep
    kernel: LoopNest | None
    accesses: list[AffineAccess]
    memories: frozenset[SegmentMemory] = field(init=False)
    written: frozenset[SegmentMemory] = field(init=False)

    def __post_init__(self) -> None:
        self.memories = self.written = frozenset(self.step.memory)
        if self.accesses:
            self.written = frozenset(x.memory for x in self.accesses if x.is_write)


@immutable
class Chaining:
    """A target's part."""

    # (kernel, rows) -> the axes whose points may be cut into that many rows, None if none may
    row_axes: Callable[[LoopNest, int], Sequence[Axis] | None]
    is_worth: Callable[[Sequence[Candidate], int], bool]  # (members, rows)
    step: Callable[[Sequence[Candidate], int], ScheduledStep]  # (members, rows)


def _follows_loops(kernel: LoopNest | None) -> bool:
    return kernel is not None and not kernel.blocks_word and bool(kernel.axes)


def _candidate(step: ScheduledStep, kernel: LoopNest | None) -> Candidate:
    """`kernel`: what the step was made from, None if that does not follow its loops."""
    if kernel is None or not _follows_loops(kernel):
        return Candidate(step, None, [])
    accesses = []
    arguments = {word.name: word.value for word in kernel.words}
    for buffer, position, is_write in _accesses(kernel):
        word = step.words[buffer.word]
        assert isinstance(word, Pointer)
        itemsize = buffer.dtype.itemsize
        accesses.append(
            AffineAccess(
                word.memory,  # type: ignore[arg-type]
                _factors(position, arguments),
                position.constant + word.offset // itemsize,
                itemsize,
                is_write,
            )
        )
    return Candidate(step, kernel, accesses)


def _accesses(kernel: LoopNest) -> Iterator[tuple[Buffer, Index, bool]]:
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


def _factors(position: Index, arguments: Mapping[str, int]) -> dict[str, int]:
    """What each variable is multiplied by. A term may be written as "i0 * s3", with an argument."""
    result: dict[str, int] = {}
    for term, factor in position.terms:
        name, *others = term.split(" * ")
        value = factor.value * math.prod(arguments[other] for other in others)
        result[name] = result.get(name, 0) + value
    return result


def with_row_chains(
    steps: Sequence[tuple[ScheduledStep, LoopNest | None]],
    nbytes_of: Callable[[SegmentMemory], int | None],
    chaining: Chaining,
) -> list[ScheduledStep]:
    """The steps, with chains in place of their members.

    What stands between two members and does not belong to them comes after the chain.

    Parameters
    ----------
    steps : each with the kernel that it was made from, None if it does not follow its loops
    nbytes_of : of a memory that holds one array of the segment's own
    """
    if sum(_follows_loops(kernel) for _, kernel in steps) < 2:
        return [step for step, _ in steps]
    candidates = [_candidate(step, kernel) for step, kernel in steps]
    search = _Search(candidates, nbytes_of, chaining)
    chains = {first: search.chain_from(first) for first in range(len(candidates))}
    return [
        chains[number] or x.step
        for number, x in enumerate(candidates)
        if search.place[number] == number
    ]


def _numbers_of_rows(candidates: Sequence[Candidate]) -> list[int]:
    """What may be a number of rows: of results that are summed up one by one, else of points."""
    of_sums, of_points = [], []
    for x in candidates:
        if x.kernel is None or x.kernel.accumulates_in_memory:
            continue
        rows = math.prod(axis.extent for axis in x.kernel.kept)
        if rows > 1:
            (of_sums if x.kernel.reduced else of_points).append(rows)
    return list(dict.fromkeys(of_sums + of_points))


class _Search:
    """For chains among `candidates`, from the first one on."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        nbytes_of: Callable[[SegmentMemory], int | None],
        chaining: Chaining,
    ) -> None:
        self.candidates = candidates
        self.nbytes_of = nbytes_of
        self.chaining = chaining
        # Where each candidate runs: at its own number, or at that of the first one of its chain.
        self.place = list(range(len(candidates)))
        # For each one those that must run before it, and those that use one of its memories next.
        self.needed: list[set[int]] = []
        self.next_users: list[set[int]] = [set() for _ in candidates]
        last_user: dict[SegmentMemory, int] = {}
        last_writer: dict[SegmentMemory, int] = {}
        readers: dict[SegmentMemory, list[int]] = {}  # since then
        for number, x in enumerate(candidates):
            needed: set[int] = set()
            for memory in x.memories:
                if memory in last_user:
                    self.next_users[last_user[memory]].add(number)
                last_user[memory] = number
                if memory in last_writer:
                    needed.add(last_writer[memory])
                if memory in x.written:
                    needed.update(readers.pop(memory, ()))
                    last_writer[memory] = number
                else:
                    readers.setdefault(memory, []).append(number)
            self.needed.append(needed)

    def chain_from(self, first: int) -> ScheduledStep | None:
        """The chain that this candidate begins, None if there is none that is worth it."""
        if self.candidates[first].kernel is None or self.place[first] != first:
            return None
        reach = self.reach(first)
        for rows in _numbers_of_rows([self.candidates[number] for number in (first, *reach)]):
            numbers = self.members(first, reach, rows)
            members = [self.candidates[number] for number in numbers]
            if len(members) > 1 and self.chaining.is_worth(members, rows):
                for number in numbers:
                    self.place[number] = first
                return self.chaining.step(members, rows)
        return None

    def reach(self, first: int) -> list[int]:
        """The next `REACH` that share memory with this candidate, or with others of them."""
        result: list[int] = []
        ahead = sorted(self.next_users[first])
        while ahead and len(result) < REACH:
            number = heapq.heappop(ahead)
            if not result or number != result[-1]:
                result.append(number)
                for user in self.next_users[number]:
                    heapq.heappush(ahead, user)
        return result

    def members(self, first: int, reach: Sequence[int], rows: int) -> list[int]:
        """The candidates that are a chain over `rows` with the first one, which share memory."""
        used, written = set[SegmentMemory](), set[SegmentMemory]()
        users: dict[SegmentMemory, list[Candidate]] = {}
        members: list[int] = []
        for number in (first, *reach):
            x = self.candidates[number]
            if members and (
                used.isdisjoint(x.memories)
                or any(self.place[k] >= first and k not in members for k in self.needed[number])
            ):
                continue
            # What it writes over, others may have read.
            new = x.written - written
            readers = [y for memory in new for y in users.get(memory, ())]
            if self.keeps_rows(x, rows, written | new) and all(
                self.keeps_rows(y, rows, new) for y in readers
            ):
                members.append(number)
                used |= x.memories
                written |= new
                for memory in x.memories:
                    users.setdefault(memory, []).append(x)
            elif not members:
                break
        return members

    def keeps_rows(self, x: Candidate, rows: int, written: Collection[SegmentMemory]) -> bool:
        """Whether row r of the work of `x` touches only row r of each array in `written`."""
        kernel = x.kernel
        outer = None if kernel is None else self.chaining.row_axes(kernel, rows)
        if kernel is None or outer is None or math.prod(axis.extent for axis in outer) % rows:
            return False
        steps = _strides_of_rows([axis.extent for axis in outer], rows)
        if steps is None:
            return False
        names = [axis.variable for axis in outer]
        extents = {axis.variable: axis.extent for axis in kernel.axes}
        for access in x.accesses:
            if access.memory not in written:
                continue
            nbytes = self.nbytes_of(access.memory)
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
    access: AffineAccess,
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
