"""Steps of a segment, on any device: a kernel's text, and what its words will hold."""

import enum
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numba_grad.compiler.loop_nests.groups import Place
from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import Buffer, Load
from numba_grad.compiler.loop_nests.kernel_ir import Kernel as LoopKernel
from numba_grad.compiler.words import Pointer, Word
from numba_grad.runtime.plan import Launch


@dataclass(frozen=True, slots=True)
class External:
    """Memory from outside of the segment: number `number` in order of first use."""

    number: int


@dataclass(frozen=True, slots=True)
class Output:
    """The array of a result that has memory of its own."""

    number: int


@dataclass(frozen=True, slots=True)
class Small:
    """The block that holds all small results of one dtype of this segment."""

    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory needed within the segment only."""

    number: int


@dataclass(frozen=True, slots=True)
class FileMemory:
    """A file in a directory, which is memory while the plan runs."""

    directory: str
    nbytes: int
    number: int  # that tells the files of a plan from each other


Source = External | Output | Small | Temporary | FileMemory


class Phase(enum.Enum):
    """What a step does with messages to other processes."""

    NONE = 0
    WHOLE = 1  # sends and receives, and waits
    START = 2  # has messages on their way
    END = 3  # waits for them


@dataclass(slots=True)
class ProgramStep:
    """A kernel and its arguments."""

    source: str
    words: list[Word]
    launch: Launch
    memory: list[Source]  # what it reads or writes
    nbytes: int
    flops: int
    parts: "list[ProgramStep]" = field(default_factory=list)  # of a chain: its members
    written: frozenset[int] | None = None  # the words of what it writes; None: maybe all
    control: int = 0  # a `Control`, which runs no kernel
    loop_nest: LoopKernel | None = None  # what the kernel was made from
    phase: Phase = Phase.NONE

    @property
    def sources(self) -> list[str]:
        """All kernels that it runs."""
        if self.control:
            return []
        return [self.source, *[part.source for part in self.parts]]


def arguments_of(
    kernel: LoopKernel, partials: dict[object, Temporary]
) -> tuple[list[Word], list[Source]]:
    """What a kernel's words hold, and the memory that they point to."""
    words: list[Word] = []
    memory: list[Source] = []
    for word in kernel.words:
        if word.source is None:
            words.append(word.value)
            continue
        place = word.source if isinstance(word.source, Place) else Place(word.source)
        source: Any = partials.get(place.source, place.source)
        if isinstance(source, External | Output | Small | Temporary):
            memory.append(source)
            words.append(Pointer(source, place.offset))
        else:
            words.append(source)  # `Errors` or an `ErrorSite`
    return words, memory


def written_words(kernel: LoopKernel) -> frozenset[int]:
    """The numbers of the words that point to what the kernel writes."""
    bodies = [piece.body for variant in kernel.variants for piece in variant.pieces]
    stored = {store.buffer.word for body in bodies for store in body.stores}
    results = {a.buffer.word for a in kernel.accumulators if a.buffer is not None}
    return frozenset(stored | results)


def work_of(kernel: LoopKernel) -> tuple[int, int]:
    """Bytes of memory traffic, and scalar operations."""
    points = math.prod(axis.extent for axis in kernel.axes)
    return points * _bytes_of_a_point(kernel), points * kernel.operations


def bytes_of_buffers(kernel: LoopKernel) -> dict[Buffer, int]:
    """Bytes of what the kernel reads and writes, each element once: the least traffic that there
    can be, where caches hold what is read again."""
    extents = {axis.variable: axis.extent for axis in kernel.axes}
    positions: dict[Buffer, set[Index]] = {buffer: set() for buffer in kernel.buffers}
    for variant in kernel.variants:
        bodies = [piece.body for piece in variant.pieces]
        lets = [*variant.lets, *[body.lets for body in bodies]]
        for let in itertools.chain.from_iterable(lets):
            if isinstance(let.expression, Load):
                positions[let.expression.buffer].add(let.expression.position)
        for store in itertools.chain.from_iterable(body.stores for body in bodies):
            positions[store.buffer].add(store.position)
    for accumulator in kernel.accumulators:
        if accumulator.buffer is not None:
            positions[accumulator.buffer].add(accumulator.position)
    result = {}
    for buffer, used in positions.items():
        points = rows = 1
        for where in used:
            names = [name.partition(" ")[0] for name, _ in where.terms]
            points = max(points, math.prod(extents.get(name, 1) for name in names))
            factors = [abs(f.value) for name, f in where.terms if f.literal and name in extents]
            rows = max(rows, *factors, 1)
        result[buffer] = buffer.dtype.itemsize * points * min(rows, len(used))
    return result


def _bytes_of_a_point(kernel: LoopKernel) -> int:
    return sum(buffer.dtype.itemsize * n for buffer, n in elements_of_a_point(kernel).items())


def elements_of_a_point(kernel: LoopKernel) -> dict[Buffer, int]:
    """One element of each buffer, or as many components of a row as are used."""
    positions: dict[Buffer, set[Index]] = {buffer: set() for buffer in kernel.buffers}
    body = kernel.variants[-1].pieces[0].body
    for let in body.lets:
        if isinstance(let.expression, Load):
            positions[let.expression.buffer].add(let.expression.position)
    for store in body.stores:
        positions[store.buffer].add(store.position)
    variable = kernel.axes[-1].variable if kernel.axes else ""
    result: dict[Buffer, int] = {}
    for buffer, used in positions.items():
        factors = (factor for where in used for name, factor in where.terms if name == variable)
        row = max((abs(factor.value) for factor in factors if factor.literal), default=1)
        result[buffer] = max(1, min(row, len(used)))
    return result
