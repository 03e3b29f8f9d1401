"""Which bytes a step reads and writes, and the same of some of its rows.

Of a kernel that was made from a loop nest, bounds: the least and the greatest position that each
load and store can come to. Of any other step, all of the memory that it points to.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Buffer,
    IndexValue,
    Let,
    Load,
    LoopNest,
    Store,
    Variant,
)
from numba_grad.compiler.steps.schedule import ScheduledStep, written_words
from numba_grad.compiler.words import KernelAddress, OwnWord, Pointer
from numba_grad.immutable import immutable

_EVERYTHING = 1 << 62

# (memory of a step) -> the name of that memory in the plan, and the first byte there
NameOf = Callable[[object], tuple[object, int]]
Bounds = tuple[int, int]  # the least and the greatest value


@immutable
class Access:
    """Bytes of one memory, from `first` to before `end`."""

    memory: object
    first: int
    end: int
    is_written: bool

    def is_in_the_way_of(self, other: "Access") -> bool:
        return (
            (self.is_written or other.is_written)
            and self.memory == other.memory
            and self.first < other.end
            and other.first < self.end
        )


def accesses_of(
    step: ScheduledStep, name_of: NameOf, rows: tuple[int, int] | None = None
) -> list[Access]:
    """What a step reads and writes; `rows`: those of them alone (`row_count`), from the first to
    before the second."""
    kernel = step.loop_nest
    nest = None if kernel is None else _Touched(kernel, rows)
    written = step.written if kernel is None else written_words(kernel)
    found = []
    for number, word in enumerate(step.words):
        if not isinstance(word, Pointer):
            continue
        memory, first = name_of(word.memory)
        first += word.offset
        if nest is None or number in nest.unknown:
            is_written = written is None or number in written
            found.append(Access(memory, -_EVERYTHING, _EVERYTHING, is_written))
            continue
        for is_written, bytes_of in ((False, nest.read), (True, nest.written)):
            if number in bytes_of:
                low, high = bytes_of[number]
                found.append(Access(memory, first + low, first + high + 1, is_written))
    return found


def row_count(step: ScheduledStep) -> int:
    """How many rows a step can be cut into, which do not need each other; 0 if it cannot be."""
    nest = step.loop_nest
    if nest is None or nest.accumulators or not nest.axes:
        return 0
    if any(isinstance(word, (KernelAddress, OwnWord)) for word in step.words):
        return 0  # it calls other kernels, or knows where its words are
    return nest.axes[0].extent


def tasks_of_row(step: ScheduledStep) -> int:
    assert step.loop_nest is not None
    return math.prod(axis.extent for axis in step.loop_nest.axes[1:])


class _Touched:
    """The bytes that a kernel reads and writes, by the number of the word that points to them."""

    def __init__(self, kernel: LoopNest, rows: tuple[int, int] | None) -> None:
        self.read: dict[int, Bounds] = {}
        self.written: dict[int, Bounds] = {}
        self.unknown: set[int] = set()
        ranges = {word.name: (word.value, word.value) for word in kernel.words}
        ranges |= {axis.variable: (0, axis.extent - 1) for axis in kernel.axes}
        if rows is not None:
            ranges[kernel.axes[0].variable] = (rows[0], rows[1] - 1)
        for variant in kernel.variants:
            # What stands before the loops is done whatever their ranges are.
            self._look_at(variant.lets[0] if variant.lets else [], [], ranges)
            self._look_at_variant(kernel, variant, ranges)
        for accumulator in kernel.accumulators:
            if accumulator.buffer is not None:
                self.unknown.add(accumulator.buffer.word)

    def _look_at_variant(
        self, kernel: LoopNest, variant: Variant, ranges: Mapping[str, Bounds]
    ) -> None:
        of_rows = dict(ranges)
        for part in variant.where:
            of_rows[part.variable] = _cut(part.variable, part.start, part.stop, of_rows)
        if not variant.where and kernel.axes:
            _leave_to(kernel.variants[:-1], kernel.axes[0].variable, of_rows)
        if _is_empty(of_rows):
            return
        of_rows = self._look_at([let for level in variant.lets[1:] for let in level], [], of_rows)
        for piece in variant.pieces:
            of_piece = dict(of_rows)
            if kernel.axes:
                inner = kernel.axes[-1].variable
                of_piece[inner] = _cut(inner, piece.start, piece.stop, of_piece)
            if not _is_empty(of_piece):
                self._look_at(piece.body.lets, piece.body.stores, of_piece)

    def _look_at(
        self, lets: Iterable[Let], stores: Iterable[Store], ranges: Mapping[str, Bounds]
    ) -> dict[str, Bounds]:
        """Note loads and stores; the ranges, with those of the indices that are computed here."""
        known = dict(ranges)
        for let in lets:
            match let.expression:
                case Load(buffer, position):
                    self._add(self.read, buffer, position, known)
                case IndexValue(index):
                    bounds = _bounds(index, known)
                    if bounds is not None:
                        known[let.name] = bounds
        for store in stores:
            self._add(self.written, store.buffer, store.position, known)
        return known

    def _add(
        self, noted: dict[int, Bounds], buffer: Buffer, index: Index, ranges: Mapping[str, Bounds]
    ) -> None:
        bounds = _bounds(index, ranges)
        if bounds is None:
            self.unknown.add(buffer.word)
            return
        size = buffer.dtype.itemsize
        low, high = bounds[0] * size, bounds[1] * size + size - 1
        before = noted.get(buffer.word, (low, high))
        noted[buffer.word] = min(low, before[0]), max(high, before[1])


def _cut(variable: str, start: str, stop: str, ranges: Mapping[str, Bounds]) -> Bounds:
    """The part of the range of a variable from `start` to before `stop`: numbers, or words."""
    low, high = ranges[variable]
    first = int(start) if start.isdecimal() else ranges[start][0]
    end = int(stop) if stop.isdecimal() else ranges[stop][1]
    return max(low, first), min(high, end - 1)


def _leave_to(special: Sequence[Variant], variable: str, ranges: dict[str, Bounds]) -> None:
    """Take the rows that these are for off either end of the range of an axis."""
    low, high = ranges[variable]
    taken = [
        _cut(part.variable, part.start, part.stop, ranges)
        for variant in special
        for part in variant.where
        if len(variant.where) == 1 and part.variable == variable
    ]
    for first, last in sorted(taken):
        if first <= low <= last:
            low = last + 1
    for first, last in sorted(taken, reverse=True):
        if first <= high <= last:
            high = first - 1
    ranges[variable] = low, high


def _is_empty(ranges: Mapping[str, Bounds]) -> bool:
    return any(low > high for low, high in ranges.values())


def _bounds(index: Index, ranges: Mapping[str, Bounds]) -> Bounds | None:
    """None if it depends on what no range is known of."""
    low = high = index.constant
    for text, factor in index.terms:
        term = (factor.value, factor.value)
        for name in text.split(" * "):
            if name not in ranges:
                return None
            ends = [a * b for a in term for b in ranges[name]]
            term = min(ends), max(ends)
        low, high = low + term[0], high + term[1]
    return low, high
