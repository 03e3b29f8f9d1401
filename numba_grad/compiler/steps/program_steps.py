"""Steps of a segment: a kernel's text, and what its words will hold."""

import enum
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numba_grad.compiler.emission import emit_cpu
from numba_grad.compiler.library_kernels.registry import LOWERINGS, one_for_each_element
from numba_grad.compiler.loop_nests.groups import Place
from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import Buffer, Load
from numba_grad.compiler.loop_nests.kernel_ir import Kernel as LoopKernel
from numba_grad.compiler.steps import library_steps
from numba_grad.compiler.steps.library_steps import Pointer
from numba_grad.graph.node import Node

# Work below this many nanoseconds, as estimated, is not worth waking another thread for.
PARALLEL_NANOSECONDS = 30_000
# Chunks are multiples of this, so that vectorized loops split at the same places for any number of
# threads.
TASK_MULTIPLE = 64
# Results of this size are written past the caches where that is done by scalar stores: the caches
# would read each line first, and have dropped it before anyone asks for it.
STREAMED_BYTES = 1 << 25


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
# An int, a Pointer, "errors", ("site", operation, axis), ErrorSite, ("symbol", name),
# ("kernel", source): where the address of that kernel stands, ("words", n): the own word n.
Word = object


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
    tasks: int
    grain: int
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


def library_program_step(
    node: Node, step: library_steps.LoweredStep, *, in_place: bool
) -> ProgramStep:
    """A library call's step, with its traffic and operations for profiles."""
    memory: list[Any] = [word.source for word in step.words if isinstance(word, Pointer)]
    nbytes = node.type.nbytes + sum(x.type.nbytes for x in node.inputs)
    lowering = LOWERINGS.get(node.op.name)
    flops = (lowering.operations if lowering else one_for_each_element)(node)
    if in_place and node.op.name in ("scatter_add", "scatter_set"):
        x, v = node.inputs[:2]
        nbytes += v.type.nbytes - x.type.nbytes - node.type.nbytes
        flops = v.type.size
    name = node.params["kernel"].name if node.op.name == "custom_kernel" else node.op.name
    source = f"# {name}: {node.dtype.name}\n{step.source}"
    return ProgramStep(
        source,
        step.words,
        step.tasks,
        step.grain,
        memory,
        nbytes,
        flops,
        written=step.written,
    )


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
        source = partials.get(place.source, place.source)
        if isinstance(source, External | Output | Small | Temporary):
            memory.append(source)
            words.append(Pointer(source, place.offset))
        else:
            words.append(source)
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


def program_step(kernel: LoopKernel, partials: dict[object, Temporary]) -> ProgramStep:
    """A kernel's text, its words, and how its tasks may be cut."""
    words, memory = arguments_of(kernel, partials)
    nbytes, flops = work_of(kernel)
    tasks = emit_cpu.number_of_tasks(kernel)
    return ProgramStep(
        emit_cpu.emit(kernel, _streamed(kernel)),
        words,
        tasks,
        grain_of(tasks, nanoseconds(nbytes, flops)),
        memory,
        nbytes,
        flops,
        loop_nest=kernel,
    )


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
    return sum(buffer.dtype.itemsize * n for buffer, n in _elements_of_a_point(kernel).items())


def _elements_of_a_point(kernel: LoopKernel) -> dict[Buffer, int]:
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


def _streamed(kernel: LoopKernel) -> list[Buffer]:
    """Results of a plan that no cache would still have when they are read."""
    points = math.prod(axis.extent for axis in kernel.axes)
    elements = _elements_of_a_point(kernel)
    return [
        buffer
        for buffer in kernel.buffers
        if buffer.dtype.kind in "fiu"
        and buffer.dtype.itemsize in (4, 8)
        and points * elements[buffer] * buffer.dtype.itemsize >= STREAMED_BYTES
        and isinstance(_source_of(kernel, buffer), Output)
    ]


def _source_of(kernel: LoopKernel, buffer: Buffer) -> object:
    source = kernel.words[buffer.word].source
    return source.source if isinstance(source, Place) else source


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
