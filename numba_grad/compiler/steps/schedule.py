"""The steps of a segment in the order in which they run, on any device: the text of each kernel,
and what its words will hold."""

import enum
from dataclasses import dataclass, field
from typing import Any

from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.compiler.segment_memory import (
    External,
    Output,
    Place,
    SegmentMemory,
    Small,
    Temporary,
)
from numba_grad.compiler.words import Pointer, Word
from numba_grad.runtime.plan import Launch


class Phase(enum.Enum):
    """What a step does with messages to other processes."""

    NONE = 0
    WHOLE = 1  # sends and receives, and waits
    START = 2  # has messages on their way
    END = 3  # waits for them


@dataclass(slots=True)
class ScheduledStep:
    """A kernel and its arguments."""

    source: str
    words: list[Word]
    launch: Launch
    memory: list[SegmentMemory]  # what it reads or writes
    nbytes: int
    flops: int
    parts: "list[ScheduledStep]" = field(default_factory=list)  # of a chain: its members
    written: frozenset[int] | None = None  # the words of what it writes; None: maybe all
    control: int = 0  # a `Control`, which runs no kernel
    loop_nest: LoopNest | None = None  # what the kernel was made from
    phase: Phase = Phase.NONE
    # What it does, if a loop around it may do that in a kernel of its own: of a loop or a copy.
    origin: object = None

    def over(self, words: list[Word], memory: list[SegmentMemory]) -> "ScheduledStep":
        """The same step on other memory. Bodies of loops have many, and `replace` takes 3 us."""
        return ScheduledStep(
            self.source,
            words,
            self.launch,
            memory,
            self.nbytes,
            self.flops,
            self.parts,
            self.written,
            self.control,
            self.loop_nest,
            self.phase,
            self.origin,
        )

    @property
    def sources(self) -> list[str]:
        """All kernels that it runs."""
        if self.control:
            return []
        return [self.source, *[part.source for part in self.parts]]


def arguments_of(
    kernel: LoopNest, partials: dict[object, Temporary]
) -> tuple[list[Word], list[SegmentMemory]]:
    """What a kernel's words hold, and the memory that they point to."""
    words: list[Word] = []
    memory: list[SegmentMemory] = []
    for word in kernel.words:
        if word.memory is None:
            words.append(word.value)
            continue
        place = word.memory if isinstance(word.memory, Place) else Place(word.memory)
        pointed_to: Any = partials.get(place.memory, place.memory)
        if isinstance(pointed_to, External | Output | Small | Temporary):
            memory.append(pointed_to)
            words.append(Pointer(pointed_to, place.offset))
        else:
            words.append(pointed_to)  # `Errors` or an `ErrorSite`
    return words, memory


def written_words(kernel: LoopNest) -> frozenset[int]:
    """The numbers of the words that point to what the kernel writes."""
    bodies = [piece.body for variant in kernel.variants for piece in variant.pieces]
    stored = {store.buffer.word for body in bodies for store in body.stores}
    results = {a.buffer.word for a in kernel.accumulators if a.buffer is not None}
    return frozenset(stored | results)
