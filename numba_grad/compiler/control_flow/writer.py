"""The steps of bodies, between rows that say which step comes next (`runtime/plan.py`), and their
memory.

A body is compiled as any graph, with its memory left open (`Opened`). Here its arguments and
results become places in the memory of the segment that the loop is. What changes from pass to pass
are pointers (`Moving`): rows of sequences and results move by a stride, and what is carried is read
from one buffer and written to another, in a ring of buffers (`carried_state.py`).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numba_grad.compiler.control_flow.register_loops import (
    GOES_ON,
    PROGRESS_WORDS,
    TRIPS,
    register_loop,
    start_source,
)
from numba_grad.compiler.control_flow.scalar_code import (
    ARENA,
    MOST_CARRIED,
    PROGRESS,
    Beginning,
    BodySteps,
    KnownTrips,
    Opened,
    ScalarCode,
)
from numba_grad.compiler.partition.flat_graph import ClosedGraph, FlatGraph, flatten
from numba_grad.compiler.passes.small_branches import small_branches
from numba_grad.compiler.segment_memory import FileMemory, Output, Place, Temporary
from numba_grad.compiler.steps.schedule import Phase, ScheduledStep
from numba_grad.compiler.target import Target
from numba_grad.compiler.words import OwnWord, Pointer, Word
from numba_grad.errors import InternalError
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.types import Type
from numba_grad.graph.walk import substitute, value_inputs
from numba_grad.immutable import NamedTuple, immutable
from numba_grad.ops.control import item
from numba_grad.runtime.plan import SERIAL, Control, ErrorSite, LoopWord, MoveWord, Tasks
from numba_grad.runtime.progress import SITE_OF_PROGRESS

_files = itertools.count()
# Trips of a loop that something else ends.
ENDLESS = 1 << 62


@immutable
class AmongWords:
    """Memory among the words of the steps, from the one of this number on: where the host walks
    rows."""

    position: int


@immutable
class Overwriting:
    """What a body may do to its arguments: by the number of an argument that of the result which
    may take its memory; to those of `sums` products may be added there."""

    results: dict[int, int]
    sums: frozenset[int] = frozenset()


CompileBody = Callable[[FlatGraph, Overwriting], BodySteps]
NO_OVERWRITING = Overwriting({})


class Moving(NamedTuple):
    """A pointer that changes from pass to pass of a loop, by a stride.

    `limit`: where it goes back by the bytes of a `ring`; `first`: where the number of strides is by
    which it begins further on.
    """

    start: Pointer
    stride: int = 0
    limit: Pointer | None = None
    ring: int = 0
    first: Pointer | None = None
    first_stride: int = 0

    def after(self, offset: int) -> "Moving":
        """The same, some bytes further."""
        limit = None if self.limit is None else further(self.limit, offset)
        return self._replace(start=further(self.start, offset), limit=limit)


@immutable
class Shown:
    """A loop whose progress is shown. If a kernel counts its steps: where it does, and where it is
    said how many there will be."""

    label: str
    count: Pointer | None = None
    total: Pointer | None = None
    counts_down: bool = False  # whether those left are counted


def further(pointer: Pointer, offset: int) -> Pointer:
    return Pointer(pointer.memory, pointer.offset + offset)


@dataclass(slots=True, eq=False)
class Writer:
    """Steps, one after the other, and the memory that they use."""

    call: Node
    numbers: list[int]
    places: list[Place]
    has_own_memory: list[bool]
    compile_body: CompileBody
    target: Target
    most_passes: int = ENDLESS  # of a loop that ends when values say so
    steps: list[ScheduledStep] = field(default_factory=list)
    temporaries: list[int] = field(default_factory=list)
    word_count: int = 0
    placed: dict[int, Place] = field(default_factory=dict)  # results, by number

    # Memory

    @property
    def result_places(self) -> list[Place]:
        return [self.placed[number] for number in self.numbers]

    def temporary(self, nbytes: int) -> Temporary:
        self.temporaries.append(nbytes)
        return Temporary(len(self.temporaries) - 1)

    def kept_memory(self, nbytes: int, directory: str) -> Pointer:
        """Memory for states, in a file if there is a directory for it."""
        if not directory:
            return Pointer(self.temporary(nbytes), 0)
        return Pointer(FileMemory(directory, nbytes, next(_files)), 0)

    def input(self, number: int) -> Pointer:
        place = self.places[number]
        itemsize = self.call.inputs[number].dtype.itemsize
        return Pointer(place.memory, place.offset * itemsize)

    def output(self, number: int) -> Pointer:
        """The array of a result that is needed."""
        source = Output(self.numbers.index(number))
        self.placed[number] = Place(source)
        return Pointer(source, 0)

    def is_needed(self, number: int) -> bool:
        return number in self.numbers

    def is_own(self, number: int) -> bool:
        return self.has_own_memory[self.numbers.index(number)]

    # What rows read that say which step comes next

    def memory_of_rows(self, nbytes: int, first: int = 0) -> Pointer:
        """Memory for what decides which step comes next. Where the host has it, it begins with the
        int64 `first`."""
        if self.target.host is None:
            return Pointer(self.temporary(nbytes), 0)
        # More words of a row that leads to the next step.
        position = self.control(Control.SKIP, [0, first, *[0] * (nbytes // 8 - 1)])
        return Pointer(AmongWords(position + 1), 0)

    def number_of_rows(self, pointer: Pointer, known: int | None) -> Pointer:
        """Where an int64 that is in the memory of kernels can be read by rows, and by kernels of
        theirs; `known`: what it is, if that is known."""
        if self.target.host is None:
            return pointer
        if known is not None:
            return self.memory_of_rows(8, known)
        target = self.memory_of_rows(8)
        step = ScheduledStep(
            self.target.host.number, [], Tasks(1, 1), [], 0, 0, written=frozenset()
        )
        self.pointing(step, [pointer, target])
        return target

    def kernel_of_rows(self, source: str, words: Sequence[Word | Moving]) -> None:
        """Append a small kernel over memory of rows."""
        host = self.target.host
        self.kernel(source if host is None else host.kernel(source), words)

    def _relative(self, word: Word, position: int) -> Word:
        """A word of a step whose words begin at `position`, with words counted from there."""
        if isinstance(word, Pointer) and isinstance(word.memory, AmongWords):
            return OwnWord(word.memory.position + word.offset // 8 - position)
        return word

    # Steps

    def append(self, step: ScheduledStep) -> int:
        """Append a step; the position of its words."""
        position = self.word_count
        step.words = [
            self._relative(word, position) if word.__class__ is Pointer else word
            for word in step.words
        ]
        step.memory = [source for source in step.memory if not isinstance(source, AmongWords)]
        self.steps.append(step)
        self.word_count += len(step.words)
        return position

    def control(self, kind: Control, words: list[Word]) -> int:
        memory: list[Any] = [word.memory for word in words if isinstance(word, Pointer)]
        return self.append(
            ScheduledStep("", words, Tasks(0, SERIAL), memory, 0, 0, control=int(kind))
        )

    def copy(
        self, source: "Pointer | Moving", target: "Pointer | Moving", type: Type
    ) -> list[tuple[int, Moving]]:
        """Append a copy of an array; the words that move, by position."""
        if not type.nbytes:
            return []
        step = self.target.copy_step(type.dtype.itemsize, type.nbytes)
        step.origin = type
        return self.pointing(step, [source, target, *step.words])

    def pointing(
        self, step: ScheduledStep, words: Sequence[Word | Moving]
    ) -> list[tuple[int, Moving]]:
        """Append a step with these words; which of them move, by position."""
        moving: list[tuple[int, Moving]] = []
        own: list[Word] = []
        memory: list[Any] = []
        for word in words:
            if isinstance(word, int):  # as most are
                own.append(word)
            elif isinstance(word, Moving):
                moving.append((self.word_count + len(own), word))
                pointers = (word.start, word.first)
                memory += [p.memory for p in pointers if p is not None]
                own.append(0)
            else:
                if isinstance(word, Pointer):
                    memory.append(word.memory)
                own.append(word)
        self.append(step.over(own, memory))
        return moving

    def compiled(
        self,
        target: ClosedGraph,
        outputs: Sequence[int],
        overwriting: Overwriting = NO_OVERWRITING,
    ) -> BodySteps:
        """The steps of some of a graph's outputs."""
        wanted = [target.outputs[k] for k in outputs]
        return self.compiled_nodes(wanted, target.arguments, overwriting)

    def compiled_nodes(
        self,
        wanted: Sequence[Node],
        arguments: Sequence[Node],
        overwriting: Overwriting = NO_OVERWRITING,
    ) -> BodySteps:
        # Without other names: a message on its way goes to where its buffer is, not to a copy.
        wanted = small_branches(substitute(wanted, {}, _without_alias))
        return self.compile_body(flatten(_distinct(wanted, arguments), arguments), overwriting)

    def body(
        self,
        body: BodySteps,
        arguments: Sequence["Pointer | Moving"],
        results: Sequence["Pointer | Moving"],
    ) -> list[tuple[int, Moving]]:
        """Append the steps of a body; the words that move, by position."""
        arena = Pointer(self.temporary(body.arena_bytes), 0) if body.arena_bytes else None
        opened = {
            "argument": arguments,
            "result": results,
            "arena": [arena],
        }

        def placed(word: Word) -> Word | Moving:
            if not (isinstance(word, Pointer) and isinstance(word.memory, Opened)):
                return word
            place = opened[word.memory.kind][word.memory.number]
            if place is None:
                raise InternalError("control steps: a body uses an arena that it lacks")
            if isinstance(place, Moving):
                return place.after(word.offset)
            return further(place, word.offset)

        return [
            moved
            for step in body.steps
            for moved in self.pointing(
                step, [word if isinstance(word, int) else placed(word) for word in step.words]
            )
        ]

    def loop(
        self,
        trips: "int | Pointer",
        inside: Callable[[int], list[tuple[int, Moving]]],
        leaving: "Sequence[tuple[Pointer | Moving, Pointer | Moving, Type]]" = (),
        shown: "Shown | None" = None,
    ) -> None:
        """Append a loop over the steps that `inside` appends, and move the words it returns.
        `inside` is told where the words of the loop are.

        `leaving`: what is copied after it, from where a moving pointer is then, to where.
        """
        head: list[Word] = [0] * LoopWord.END
        if isinstance(trips, int):
            head[LoopWord.TRIPS] = trips
        else:
            head[LoopWord.TRIPS_ADDRESS] = trips
        head[LoopWord.SITE] = -1
        if shown is not None:
            head[LoopWord.SITE] = ErrorSite(SITE_OF_PROGRESS, shown.label)
            head[LoopWord.COUNT_ADDRESS] = 0 if shown.count is None else shown.count
            head[LoopWord.TOTAL_ADDRESS] = 0 if shown.total is None else shown.total
            head[LoopWord.COUNTS_DOWN] = int(shown.counts_down)
        # The words inside come after those of the loop, whose number depends on the moves: what is
        # inside is appended first, and once more when that is known.
        number, count, kept = len(self.steps), self.word_count, len(self.temporaries)
        leaving = [copied for copied in leaving if copied[2].nbytes]
        pointers = [p for source, copied, _ in leaving for p in (source, copied)]
        moves = len(inside(0)) + sum(isinstance(p, Moving) for p in pointers)
        length = len(self.steps) - number
        del self.steps[number:]
        del self.temporaries[kept:]
        self.word_count = count
        head[LoopWord.LENGTH] = length
        head[LoopWord.MOVES] = moves
        start = self.control(Control.LOOP, [*head, *[0] * (moves * MoveWord.END)])
        words = self.steps[-1].words
        moving = inside(start)
        self.control(Control.REPEAT, [OwnWord(start - self.word_count)])
        end = len(self.steps)
        for source, target, type in leaving:
            moving += self.copy(source, target, type)
        for k, (position, move) in enumerate(moving):
            entry = LoopWord.END + k * MoveWord.END
            words[entry + MoveWord.TARGET] = OwnWord(position - start)
            words[entry + MoveWord.START] = move.start
            words[entry + MoveWord.STRIDE] = move.stride
            words[entry + MoveWord.LIMIT] = 0 if move.limit is None else move.limit
            words[entry + MoveWord.RING] = move.ring
            first = 0 if move.first is None else self._relative(move.first, start)
            words[entry + MoveWord.FIRST_ADDRESS] = first
            words[entry + MoveWord.FIRST_STRIDE] = move.first_stride
        self.lives_from(number, end)

    def length_of(self, append: Callable[[], None]) -> int:
        """How many steps something appends."""
        number, count, kept = len(self.steps), self.word_count, len(self.temporaries)
        append()
        result = len(self.steps) - number
        del self.steps[number:]
        del self.temporaries[kept:]
        self.word_count = count
        return result

    def kernel(
        self,
        source: str,
        words: Sequence[Word | Moving],
        written: frozenset[int] | None = None,
        phase: Phase = Phase.NONE,
    ) -> None:
        """Append a small kernel of our own."""
        step = ScheduledStep(source, [], Tasks(1, 1), [], 0, 0, written=written, phase=phase)
        self.pointing(step, words)

    def finish(self, number: int, final: Pointer, type: Type) -> None:
        """Say where a carried value is at the end."""
        if not self.is_needed(number):
            return
        if self.is_own(number):
            self.copy(final, self.output(number), type)
        else:
            self.placed[number] = Place(final.memory, final.offset // type.dtype.itemsize)

    def finish_rows(self, number: int, type: Type, length: int) -> None:
        """Copy rows that lie in other memory, if they must be an array of their own."""
        if self.is_own(number):
            place, rows = self.placed[number], type.of_shape((length, *type.shape))
            source = Pointer(place.memory, place.offset * type.dtype.itemsize)
            self.copy(source, self.output(number), rows)

    def rows_of(self, number: int, type: Type, length: int, reverse: bool) -> "Moving":
        """The rows of a result; of one that nobody needs, memory for one."""
        if self.is_needed(number):
            return rows_from(self.output(number), type.nbytes, length, reverse)
        return self.unread(type)

    def unread(self, type: Type) -> "Moving":
        return Moving(Pointer(self.temporary(type.nbytes), 0))

    def register_loop(
        self,
        code: ScalarCode,
        test: ScalarCode | None,
        carried: Sequence[tuple[Type, Pointer]],
        rows: Sequence[tuple[Type, Moving]],
        results: Sequence[tuple[Type, Moving]],
        entries: Sequence[Moving],
        trips: "int | Pointer",
        label: str | None = None,
    ) -> Pointer:
        """Append a loop that holds what is carried in registers; where it counts its steps.

        What is carried is in memory of its own, before and after.
        """
        types = [type for type, _ in carried]
        made = register_loop(
            code, test, types, [type for type, _ in rows], [type for type, _ in results]
        )
        progress = Pointer(self.temporary(8 * PROGRESS_WORDS), 0)
        words: dict[object, Word | Moving] = {**made.values, PROGRESS: progress}
        if ARENA in made.words:
            words[ARENA] = Pointer(self.temporary(code.arena_bytes), 0)
        words |= {("carried", k): pointer for k, (_, pointer) in enumerate(carried)}
        of_entries = list(zip(types, entries, strict=True))
        for name, group in (("row", rows), ("result", results), ("entry", of_entries)):
            for k, (type, moving) in enumerate(group):
                # The pointer to the row of the first step.
                at_first = moving.start if moving.first is None else moving._replace(stride=0)
                words[name, k] = at_first
                words[f"{name} stride", k] = moving.stride // type.dtype.itemsize
        is_moving = any(isinstance(word, Moving) for word in words.values())
        from_memory = isinstance(trips, Pointer)
        self.kernel(start_source(from_memory=from_memory), [progress, trips])
        self.steps[-1].origin = Beginning()
        own = [words[key] for key in made.words]
        step = ScheduledStep(made.source, [], Tasks(1, 1), [], 0, made.operations)
        if isinstance(trips, int) and trips <= made.steps_of_a_run and not is_moving:
            if label is None:
                step.origin = KnownTrips(made, trips)
            self.pointing(step, own)
            return progress
        passes = Pointer(self.temporary(8), 0)

        def inside(start: int) -> list[tuple[int, Moving]]:
            moving = self.pointing(step, own)
            goes_on = further(progress, 8 * GOES_ON)
            loop_words = OwnWord(start - self.word_count)
            self.control(Control.LEAVE, [goes_on, 1, loop_words, passes])
            return moving

        shown = None
        if label is not None:
            shown = Shown(label, progress, further(progress, 8 * TRIPS))
        self.loop(ENDLESS, inside, shown=shown)
        return progress

    def fits_in_registers(self, types: Sequence[Type]) -> bool:
        """Whether what a loop carries may: only then is its body worth a look as straight-line
        code, in the language of the processor's kernels."""
        return self.target.host is None and sum(type.size for type in types) <= MOST_CARRIED

    def lives_from(self, first: int, end: int) -> None:
        """What these steps use lives from the first to the last of them: they run in any order."""
        used = dict.fromkeys(x for step in self.steps[first:end] for x in step.memory)
        for step in (self.steps[first], self.steps[end - 1]):
            step.memory = list(used)


def _without_alias(node: Node) -> Node | None:
    if node.op is not item or node.inputs[0].op.name not in ("custom", "pack"):
        return None
    return value_inputs(node)[0]


def _distinct(outputs: Sequence[Node], arguments: Sequence[Node]) -> list[Node]:
    """The outputs, where one that is an argument or another output is a copy."""
    seen = set(arguments)
    result = []
    for node in outputs:
        if node in seen or node.value is not None:
            node = record(OPS["reshape"], (node,), {"shape": node.shape})
        seen.add(node)
        result.append(node)
    return result


def rows_from(start: Pointer, nbytes: int, length: int, reverse: bool) -> Moving:
    if reverse:
        return Moving(further(start, max(length - 1, 0) * nbytes), -nbytes)
    return Moving(start, nbytes)
