"""Loops and branches -> steps of a plan: the steps of their bodies, between rows that say which
step comes next (`runtime/plan.py`).

A body is compiled as any graph, with its memory left open (`Opened`). Here its arguments and
results become places in the memory of the segment that the loop is. What changes from pass to pass
are pointers: rows of sequences and results move by a stride, and what is carried is read from one
buffer and written to another, in turn.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from numba_grad.compiler import checkpoint_schedule
from numba_grad.compiler.checkpoint_schedule import Action, ScheduleWord
from numba_grad.compiler.flat_graph import ClosedGraph, FlatGraph, flatten
from numba_grad.compiler.groups import Place
from numba_grad.compiler.library_kernels.calls import grain_for
from numba_grad.compiler.library_steps import Pointer
from numba_grad.compiler.program_steps import Output, ProgramStep, Temporary
from numba_grad.compiler.register_loops import (
    GOES_ON,
    MOST_CARRIED,
    PROGRESS,
    PROGRESS_WORDS,
    TRIPS,
    Line,
    register_loop,
    start_source,
    straight_line,
)
from numba_grad.compiler.segment_program import SegmentProgram
from numba_grad.errors import InternalError
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.types import Type, array_type
from numba_grad.runtime.plan import SERIAL, Control, ErrorSite, LoopWord, MoveWord
from numba_grad.runtime.progress import SITE_OF_PROGRESS, label_in


@dataclass(frozen=True, slots=True)
class Opened:
    """Memory of a body that who runs it decides about: an "argument", a "result", or the "arena"
    of what it needs meanwhile."""

    kind: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Body:
    """The steps of a graph, over `Opened` memory."""

    steps: list[ProgramStep]
    arena_bytes: int
    in_place: frozenset[int] = frozenset()  # results that are in the memory of their argument


@dataclass(frozen=True, slots=True)
class Overwriting:
    """What a body may do to its arguments: by the number of an argument that of the result which
    may take its memory; to those of `sums` products may be added there."""

    results: dict[int, int]
    sums: frozenset[int] = frozenset()


CompileBody = Callable[[FlatGraph, Overwriting], Body]
NO_OVERWRITING = Overwriting({})


@dataclass(frozen=True, slots=True)
class Moving:
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
        limit = None if self.limit is None else _further(self.limit, offset)
        return replace(self, start=_further(self.start, offset), limit=limit)


@dataclass(frozen=True, slots=True)
class Shown:
    """A loop whose progress is shown. If a kernel counts its steps: where it does, and where it is
    said how many there will be."""

    label: str
    count: Pointer | None = None
    total: Pointer | None = None
    counts_down: bool = False  # whether those left are counted


def _further(pointer: Pointer, offset: int) -> Pointer:
    return Pointer(pointer.source, pointer.offset + offset)


def control_program(
    call: Node,
    numbers: Sequence[int],
    places: Sequence[Place],
    has_own_memory: Sequence[bool],
    compile_body: CompileBody,
) -> SegmentProgram:
    """The program of a segment that is one loop or one branch.

    Parameters
    ----------
    numbers : which results are needed
    places : of the inputs, in memory
    has_own_memory : for each of these results, whether it must be an array of its own
    """
    writer = _Writer(call, list(numbers), list(places), list(has_own_memory), compile_body)
    _WRITERS[call.op.name](writer, call)
    return SegmentProgram(writer.steps, writer.result_places, writer.temporaries, {}, [])


@dataclass(slots=True, eq=False)
class _Writer:
    """Steps, one after the other, and the memory that they use."""

    call: Node
    numbers: list[int]
    places: list[Place]
    has_own_memory: list[bool]
    compile_body: CompileBody
    steps: list[ProgramStep] = field(default_factory=list)
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

    def input(self, number: int) -> Pointer:
        place = self.places[number]
        itemsize = self.call.inputs[number].dtype.itemsize
        return Pointer(place.source, place.offset * itemsize)

    def output(self, number: int) -> Pointer:
        """The array of a result that is needed."""
        source = Output(self.numbers.index(number))
        self.placed[number] = Place(source)
        return Pointer(source, 0)

    def is_needed(self, number: int) -> bool:
        return number in self.numbers

    def is_own(self, number: int) -> bool:
        return self.has_own_memory[self.numbers.index(number)]

    # Steps

    def append(self, step: ProgramStep) -> int:
        """Append a step; the position of its words."""
        position = self.word_count
        self.steps.append(step)
        self.word_count += len(step.words)
        return position

    def control(self, kind: Control, words: list[object]) -> int:
        memory: list[Any] = [word.source for word in words if isinstance(word, Pointer)]
        return self.append(ProgramStep("", words, 0, SERIAL, memory, 0, 0, control=int(kind)))

    def copy(
        self, source: "Pointer | Moving", target: "Pointer | Moving", type: Type
    ) -> list[tuple[int, Moving]]:
        """Append a copy of an array; the words that move, by position."""
        if not type.nbytes:
            return []
        step = ProgramStep(
            copy_source(type.dtype.itemsize),
            [],
            type.nbytes // _unit(type.dtype.itemsize),
            grain_for(1, 1 << 17),
            [],
            2 * type.nbytes,
            0,
            written=frozenset([1]),
        )
        return self.pointing(step, [source, target])

    def pointing(self, step: ProgramStep, words: Sequence[object]) -> list[tuple[int, Moving]]:
        """Append a step with these words; which of them move, by position."""
        moving: list[tuple[int, Moving]] = []
        own: list[object] = []
        memory: list[Any] = []
        for word in words:
            if isinstance(word, Moving):
                moving.append((self.word_count + len(own), word))
                pointers = (word.start, word.first)
                memory += [p.source for p in pointers if p is not None]
                own.append(0)
                continue
            if isinstance(word, Pointer):
                memory.append(word.source)
            own.append(word)
        self.append(replace(step, words=own, memory=memory))
        return moving

    def compiled(
        self,
        target: ClosedGraph,
        outputs: Sequence[int],
        overwriting: Overwriting = NO_OVERWRITING,
    ) -> Body:
        """The steps of some of a graph's outputs."""
        distinct = _distinct([target.outputs[k] for k in outputs], target.arguments)
        return self.compile_body(flatten(distinct, target.arguments), overwriting)

    def body(
        self,
        body: Body,
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

        def placed(word: object) -> object:
            if not (isinstance(word, Pointer) and isinstance(word.source, Opened)):
                return word
            place = opened[word.source.kind][word.source.number]
            if place is None:
                raise InternalError("control steps: a body uses an arena that it lacks")
            if isinstance(place, Moving):
                return place.after(word.offset)
            return _further(place, word.offset)

        return [
            moved
            for step in body.steps
            for moved in self.pointing(step, [placed(word) for word in step.words])
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
        head: list[object] = [0] * LoopWord.END
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
        self.control(Control.REPEAT, [("words", start - self.word_count)])
        end = len(self.steps)
        for source, target, type in leaving:
            moving += self.copy(source, target, type)
        for k, (position, move) in enumerate(moving):
            entry = LoopWord.END + k * MoveWord.END
            words[entry + MoveWord.TARGET] = ("words", position - start)
            words[entry + MoveWord.START] = move.start
            words[entry + MoveWord.STRIDE] = move.stride
            words[entry + MoveWord.LIMIT] = 0 if move.limit is None else move.limit
            words[entry + MoveWord.RING] = move.ring
            words[entry + MoveWord.FIRST_ADDRESS] = 0 if move.first is None else move.first
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

    def kernel(self, source: str, words: Sequence[object]) -> None:
        """Append a small kernel of our own."""
        self.pointing(ProgramStep(source, [], 1, 1, [], 0, 0), words)

    def finish(self, number: int, final: Pointer, type: Type) -> None:
        """Say where a carried value is at the end."""
        if not self.is_needed(number):
            return
        if self.is_own(number):
            self.copy(final, self.output(number), type)
        else:
            self.placed[number] = Place(final.source, final.offset // type.dtype.itemsize)

    def rows_of(self, number: int, type: Type, length: int, reverse: bool) -> "Moving":
        """The rows of a result; of one that nobody needs, memory for one."""
        if self.is_needed(number):
            return _rows(self.output(number), type.nbytes, length, reverse)
        return self.unread(type)

    def unread(self, type: Type) -> "Moving":
        return Moving(Pointer(self.temporary(type.nbytes), 0))

    def register_loop(
        self,
        line: Line,
        test: Line | None,
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
            line, test, types, [type for type, _ in rows], [type for type, _ in results]
        )
        progress = Pointer(self.temporary(8 * PROGRESS_WORDS), 0)
        words: dict[object, object] = {PROGRESS: progress}
        words |= {("carried", k): pointer for k, (_, pointer) in enumerate(carried)}
        of_entries = list(zip(types, entries, strict=True))
        for name, group in (("row", rows), ("result", results), ("entry", of_entries)):
            for k, (type, moving) in enumerate(group):
                # The pointer to the row of the first step.
                at_first = moving.start if moving.first is None else replace(moving, stride=0)
                words[name, k] = at_first
                words[f"{name} stride", k] = moving.stride // type.dtype.itemsize
        is_moving = any(isinstance(word, Moving) for word in words.values())
        from_memory = isinstance(trips, Pointer)
        self.kernel(start_source(from_memory=from_memory), [progress, trips])
        own = [words.get(word, word) for word in made.words]
        step = ProgramStep(made.source, [], 1, 1, [], 0, made.operations)
        if isinstance(trips, int) and trips <= made.steps_of_a_run and not is_moving:
            self.pointing(step, own)
            return progress
        passes = Pointer(self.temporary(8), 0)

        def inside(start: int) -> list[tuple[int, Moving]]:
            moving = self.pointing(step, own)
            goes_on = _further(progress, 8 * GOES_ON)
            loop_words = ("words", start - self.word_count)
            self.control(Control.LEAVE, [goes_on, 1, loop_words, passes])
            return moving

        shown = None
        if label is not None:
            shown = Shown(label, progress, _further(progress, 8 * TRIPS))
        self.loop(_ENDLESS, inside, shown=shown)
        return progress

    def lives_from(self, first: int, end: int) -> None:
        """What these steps use lives from the first to the last of them: they run in any order."""
        used = dict.fromkeys(x for step in self.steps[first:end] for x in step.memory)
        for step in (self.steps[first], self.steps[end - 1]):
            step.memory = list(used)


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


def _unit(itemsize: int) -> int:
    return min(itemsize, 8)


@functools.cache
def copy_source(itemsize: int) -> str:
    """A kernel that copies elements of a size. Task: an element, or half of a complex one."""
    name = f"int{8 * _unit(itemsize)}"
    return f"""\
# copy
def kernel(args, lo, hi):
    x = buffer(args, 0, {name})
    out = buffer(args, 1, {name})
    for i in range(lo, hi):
        out[i] = x[i]
"""


def _line(
    body: Body, constants: Sequence[Pointer], types: Sequence[Type], rows: int
) -> Line | None:
    """The body as straight-line code, if it is, and if what it carries fits in registers."""
    if len(body.steps) != 1 or sum(type.size for type in types) > MOST_CARRIED:
        return None
    [step] = body.steps
    nest = step.loop_nest
    buffers = {} if nest is None else {buffer.word: buffer for buffer in nest.buffers}
    words = [*step.words]
    roles = {}
    for number, word in enumerate(step.words):
        if not (isinstance(word, Pointer) and isinstance(word.source, Opened)):
            continue
        kind, which = word.source.kind, word.source.number
        if number not in buffers or kind == "arena":
            return None
        roles[number] = (kind, which, word.offset // buffers[number].dtype.itemsize)
        if kind == "argument" and which >= len(types) + rows:
            words[number] = _further(constants[which - len(types) - rows], word.offset)
    line = straight_line(step, roles)
    return None if line is None else replace(line, words=words)


_ENDLESS = 1 << 62


# Loops of a known length.


def _write_loop(writer: _Writer, call: Node) -> None:
    body: ClosedGraph = call.params["body"]
    carried, sequences = call.params["carried"], call.params["sequences"]
    length, reverse = call.params["length"], call.params["reverse"]
    label = label_in(body.name)
    types = [node.type for node in body.outputs]
    # All of it, whoever needs what: a loop that is run again for its adjoint has the same bits.
    steps = writer.compiled(body, range(len(types)))
    rows = [
        (
            call.inputs[k].type.of_shape(call.inputs[k].shape[1:]),
            _rows(writer.input(k), call.inputs[k].type.nbytes // max(length, 1), length, reverse),
        )
        for k in range(carried, carried + sequences)
    ]
    constants = [writer.input(k) for k in range(carried + sequences, len(call.inputs))]
    results = [
        (types[k], writer.rows_of(k, types[k], length, reverse)) for k in range(carried, len(types))
    ]
    line = _line(steps, constants, types[:carried], sequences)
    if line is not None:
        held = [(type, Pointer(writer.temporary(type.nbytes), 0)) for type in types[:carried]]
        for k, (type, pointer) in enumerate(held):
            writer.copy(writer.input(k), pointer, type)
        entries = [
            writer.rows_of(len(types) + k, type, length, reverse)
            for k, type in enumerate(types[:carried])
        ]
        writer.register_loop(line, None, held, rows, results, entries, length, label)
        for k, (type, pointer) in enumerate(held):
            writer.finish(k, pointer, type)
        return
    of_carried = types[:carried]
    entries = {k: len(types) + k for k in range(carried) if writer.is_needed(len(types) + k)}
    followers = _followers(body, carried)
    outputs = [k for k in range(len(types)) if k not in followers]
    overwriting = _overwriting(body, of_carried, entries, call.params["sums"])
    steps = writer.compiled(body, outputs, overwriting)
    in_place = [k for k, number in overwriting.results.items() if number in steps.in_place]
    state = _state(writer, body, of_carried, entries, length, reverse=reverse, in_place=in_place)
    for k, read in enumerate(state.reads):
        writer.copy(writer.input(k), read.start, types[k])
    reads = [*state.reads, *[moving for _, moving in rows], *constants]
    writes = [*state.writes, *[moving for _, moving in results]]
    shown = None if label is None else Shown(label)
    writer.loop(length, lambda _: writer.body(steps, reads, writes), shown=shown)
    for k, read in enumerate(state.reads):
        writer.finish(k, _after(read, length), types[k])


def _rows(start: Pointer, nbytes: int, length: int, reverse: bool) -> Moving:
    if reverse:
        return Moving(_further(start, max(length - 1, 0) * nbytes), -nbytes)
    return Moving(start, nbytes)


# What is carried, where it does not fit in registers.

# Elements from which on an array has memory of its own in a segment.
_OF_THEIR_OWN = 17


@dataclass(slots=True)
class _State:
    """Where carried values are from step to step.

    What is computed is written to another buffer than the one that is read, in a ring of buffers.
    What is but the former value of something else, as in a delay line, reads an earlier buffer of
    that ring. Where values at the beginning of all steps are wanted, the ring is long enough for
    all of them. What a body computes in the memory of its argument has one buffer.
    """

    computed: list[int]  # the numbers of what is computed, in the order of the body's results
    reads: list[Moving]
    writes: list[Moving]  # of what is computed


def _followers(body: ClosedGraph, carried: int) -> dict[int, int]:
    """Carried values that are the former values of others: by number, that of the other one, with
    the one that is computed at the end of each chain."""
    number_of = {node: k for k, node in enumerate(body.arguments[:carried])}
    result: dict[int, int] = {}
    taken: set[int] = set()
    for k, node in enumerate(body.outputs[:carried]):
        source = number_of.get(node)
        if source is not None and source not in taken:
            result[k] = source
            taken.add(source)
    for k in list(result):  # cycles have no end: one of each is copied
        seen, last = {k}, k
        while last in result:
            last = result[last]
            if last in seen:
                del result[last]
                break
            seen.add(last)
    return result


def _chains(followers: dict[int, int], carried: int) -> list[list[int]]:
    """Each computed value with those that follow it, the first one first."""
    after = {source: k for k, source in followers.items()}
    result = []
    for k in range(carried):
        if k in followers:
            continue
        chain = [k]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        result.append(chain)
    return result


def _state(
    writer: _Writer,
    body: ClosedGraph,
    types: Sequence[Type],
    entries: dict[int, int],
    length: int | None,
    *,
    reverse: bool = False,
    in_place: Collection[int] = (),
) -> _State:
    """Memory for what is carried, without anything in it.

    `entries`: by the number of a carried value that of the result with its values at the beginning
    of all steps, where that is needed; `in_place`: what the body computes in place.
    """
    followers = _followers(body, len(types))
    reads: dict[int, Moving] = {}
    writes: dict[int, Moving] = {}
    for chain in _chains(followers, len(types)):
        nbytes, size = types[chain[0]].nbytes, types[chain[0]].size
        last = len(chain) - 1
        if any(k in entries for k in chain):
            assert length is not None
            buffers = length + 1 + last
            memory = writer.temporary(buffers * nbytes)
            for age, k in enumerate(chain):
                # At the beginning of step t the value is in buffer t + last - age; in reverse the
                # buffers are taken from the other end.
                first = last - age
                start = buffers - 1 - first if reverse else first
                sign = -1 if reverse else 1
                reads[k] = Moving(Pointer(memory, start * nbytes), sign * nbytes)
                if k in entries:
                    row = start - (length - 1) if reverse else start
                    writer.placed[entries[k]] = Place(memory, row * size)
            writes[chain[0]] = reads[chain[0]].after(reads[chain[0]].stride)
            continue
        if chain[0] in in_place or not nbytes:
            only = Moving(Pointer(writer.temporary(nbytes), 0))
            reads.update(dict.fromkeys(chain, only))
            writes[chain[0]] = only
            continue
        buffers = last + 2
        memory = writer.temporary(buffers * nbytes)
        limit, ring = Pointer(memory, buffers * nbytes), buffers * nbytes
        for age, k in enumerate(chain):
            start = Pointer(memory, (last - age) * nbytes)
            reads[k] = Moving(start, nbytes, limit, ring)
        start = Pointer(memory, (last + 1) * nbytes)
        writes[chain[0]] = Moving(start, nbytes, limit, ring)
    computed = [k for k in range(len(types)) if k not in followers]
    return _State(computed, [reads[k] for k in range(len(types))], [writes[k] for k in computed])


def _after(moving: Moving, passes: int) -> Pointer:
    """Where a pointer is after so many passes."""
    offset = passes * moving.stride
    if moving.limit is not None:
        start = moving.start.offset - (moving.limit.offset - moving.ring)
        offset = (start + offset) % moving.ring - start
    return _further(moving.start, offset)


def _overwriting(
    body: ClosedGraph, types: Sequence[Type], entries: Collection[int], sums: int = 0
) -> Overwriting:
    """What a body may compute in place: large arrays, which nobody wants the former values of."""
    followers = _followers(body, len(types))
    followed = {*followers, *followers.values()}
    computed = [k for k in range(len(types)) if k not in followers]
    results = {
        k: number
        for number, k in enumerate(computed)
        if types[k].size >= _OF_THEIR_OWN and k not in entries and k not in followed
    }
    of_sums = frozenset(k for k in range(len(types) - sums, len(types)) if k in results)
    return Overwriting(results, of_sums)


# Branches.


def _write_branch(writer: _Writer, call: Node) -> None:
    branches: tuple[ClosedGraph, ...] = call.params["branches"]
    bodies = [writer.compiled(branch, writer.numbers) for branch in branches]
    arguments = [writer.input(k) for k in range(1, len(call.inputs))]
    results = [writer.output(k) for k in writer.numbers]
    first = len(writer.steps)
    # After each branch a row leads to the end.
    starts = np.cumsum([0, *[len(body.steps) + 1 for body in bodies]]).tolist()
    writer.control(Control.SWITCH, [writer.input(0), len(bodies), *starts[:-1]])
    for body, end in zip(bodies, starts[1:], strict=True):
        writer.body(body, arguments, results)
        writer.control(Control.SKIP, [starts[-1] - end])
    writer.lives_from(first, len(writer.steps))


# Loops that end when a condition says so.

_BOOLEAN = array_type((), np.dtype(np.bool_))


def _write_while(writer: _Writer, call: Node) -> None:
    test: ClosedGraph = call.params["test"]
    body: ClosedGraph = call.params["body"]
    carried, of_test = call.params["carried"], call.params["constants_of_test"]
    label = label_in(body.name)
    types = [node.type for node in call.inputs[:carried]]
    constants = [writer.input(k) for k in range(carried, len(call.inputs))]
    steps_of_test = writer.compiled(test, [0])
    steps_of_body = writer.compiled(body, range(carried))
    line = _line(steps_of_body, constants[of_test:], types, 0)
    line_of_test = _line(steps_of_test, constants[:of_test], types, 0)
    if line is not None and line_of_test is not None:
        held = [(type, Pointer(writer.temporary(type.nbytes), 0)) for type in types]
        for k, (type, pointer) in enumerate(held):
            writer.copy(writer.input(k), pointer, type)
        unread = [writer.unread(type) for type in types]
        progress = writer.register_loop(line, line_of_test, held, [], [], unread, _ENDLESS, label)
        for k, (type, pointer) in enumerate(held):
            writer.finish(k, pointer, type)
        writer.finish(carried, progress, call.type.items[carried])
        return
    followers = _followers(body, carried)
    overwriting = _overwriting(body, types, ())
    outputs = [k for k in range(carried) if k not in followers]
    steps_of_body = writer.compiled(body, outputs, overwriting)
    in_place = [k for k, number in overwriting.results.items() if number in steps_of_body.in_place]
    state = _state(writer, body, types, {}, None, in_place=in_place)
    reads, writes = state.reads, state.writes
    for k, read in enumerate(reads):
        writer.copy(writer.input(k), read.start, types[k])
    holds = Pointer(writer.temporary(_BOOLEAN.nbytes), 0)
    is_counted = writer.is_needed(carried)
    count = writer.output(carried) if is_counted else Pointer(writer.temporary(8), 0)

    def inside(start: int) -> list[tuple[int, Moving]]:
        moving = writer.body(steps_of_test, [*reads, *constants[:of_test]], [holds])
        own = writer.word_count
        skipped = len(steps_of_body.steps) + 1
        writer.control(Control.LEAVE, [holds, skipped, ("words", start - own), count])
        return moving + writer.body(steps_of_body, [*reads, *constants[of_test:]], writes)

    leaving = [
        (reads[k], writer.output(k), types[k]) for k in range(carried) if writer.is_needed(k)
    ]
    shown = None if label is None else Shown(label)
    writer.loop(_ENDLESS, inside, leaving=leaving, shown=shown)


# Adjoints within a memory budget: a schedule says, action by action, what to do.


def _write_adjoint(writer: _Writer, call: Node) -> None:
    body: ClosedGraph = call.params["body"]
    backward: ClosedGraph = call.params["backward"]
    held, carried = call.params["held"], call.params["carried"]
    sequences, rows = call.params["sequences"], call.params["rows"]
    length, slots = call.params["length"], call.params["slots"]
    inputs = range(1, len(call.inputs))
    of_held, of_state = inputs[:held], inputs[held : held + carried]
    of_rows = inputs[held + carried : held + carried + rows]
    constants = [writer.input(k) for k in inputs[held + carried + rows :]]
    schedule = writer.temporary(checkpoint_schedule.schedule_bytes(slots))

    def scheduled(word: ScheduleWord) -> Pointer:
        return Pointer(schedule, 8 * word)

    def row(start: Pointer, nbytes: int, *, is_return: bool) -> Moving:
        """The row of a step: that of the action's first one, and on from there."""
        forward = -nbytes if call.params["reverse"] else nbytes
        first = _further(start, (length - 1) * nbytes) if call.params["reverse"] else start
        stride = -forward if is_return else forward
        return Moving(first, stride, first=scheduled(ScheduleWord.STEP), first_stride=forward)

    # Memory: the kept states, one more, two buffers of the state, two of what is carried back.
    types = [call.inputs[k].type for k in of_state]
    kept = [Pointer(writer.temporary((slots + 1) * type.nbytes), 0) for type in types]
    buffers = [_two_buffers(writer, type) for type in types]
    types_held = [call.inputs[k].type for k in of_held]
    buffers_held = [_two_buffers(writer, type) for type in types_held]
    for k, pointer, type in zip(of_state, kept, types, strict=True):
        writer.copy(writer.input(k), pointer, type)
    for k, (read, _), type in zip(of_held, buffers_held, types_held, strict=True):
        writer.copy(writer.input(k), read.start, type)

    def slot(number: int, word: ScheduleWord, stride: int = 0) -> Moving:
        nbytes = types[number].nbytes
        return Moving(kept[number], stride * nbytes, first=scheduled(word), first_stride=nbytes)

    sequences_forward = [
        row(writer.input(k), call.inputs[k].type.nbytes // length, is_return=False)
        for k in of_rows[:sequences]
    ]
    sequences_back = [
        row(writer.input(k), call.inputs[k].type.nbytes // length, is_return=True) for k in of_rows
    ]
    own_constants = constants[: len(body.arguments) - carried - sequences]
    stacks = [
        row(writer.output(k), backward.outputs[k].type.nbytes, is_return=True)
        if writer.is_needed(k)
        else writer.unread(backward.outputs[k].type)
        for k in range(held, len(backward.outputs))
    ]
    # All of it, as in the loop itself: so steps that are done again have the same bits.
    forward_steps = writer.compiled(body, range(len(body.outputs)))
    backward_steps = writer.compiled(backward, range(len(backward.outputs)))
    forward_line = _line(forward_steps, own_constants, types, sequences)
    backward_line = _line(backward_steps, constants, types_held, carried + rows)
    unread_results = [(node.type, writer.unread(node.type)) for node in body.outputs[carried:]]
    unread_entries = [writer.unread(type) for type in (*types, *types_held)]
    row_types = [call.inputs[k].type.of_shape(call.inputs[k].shape[1:]) for k in of_rows]
    rows_forward = list(zip(row_types[:sequences], sequences_forward, strict=True))
    count = scheduled(ScheduleWord.COUNT)

    def first_state() -> None:
        def copied(_: int) -> list[tuple[int, Moving]]:
            return [
                moved
                for k, (read, _) in enumerate(buffers)
                for moved in writer.copy(slot(k, ScheduleWord.SLOT), read.start, types[k])
            ]

        writer.loop(1, copied)

    def last_state(word: ScheduleWord) -> None:
        def copied(_: int) -> list[tuple[int, Moving]]:
            return [
                moved
                for k, (read, _) in enumerate(buffers)
                for moved in writer.copy(read.start, slot(k, word), types[k])
            ]

        writer.loop(1, copied)

    def run_forward(entries: Sequence[Moving]) -> None:
        assert forward_line is not None
        first_state()
        own = [(type, read.start) for type, (read, _) in zip(types, buffers, strict=True)]
        writer.register_loop(forward_line, None, own, rows_forward, unread_results, entries, count)

    def leap() -> None:
        if forward_line is not None:
            run_forward(unread_entries[:carried])
            last_state(ScheduleWord.TARGET)
            return
        first_state()
        reads = [read for read, _ in buffers]
        writes = [write for _, write in buffers]
        writer.loop(
            count,
            lambda _: writer.body(
                forward_steps,
                [*reads, *sequences_forward, *own_constants],
                [*writes, *[moving for _, moving in unread_results]],
            ),
            [(reads[k], slot(k, ScheduleWord.TARGET), types[k]) for k in range(carried)],
        )

    def store() -> None:
        if forward_line is not None:
            run_forward([slot(k, ScheduleWord.SLOT, 1) for k in range(carried)])
            last_state(ScheduleWord.PENDING_SLOT)
            return
        reads = [slot(k, ScheduleWord.SLOT, 1) for k in range(carried)]
        writes = [read.after(type.nbytes) for read, type in zip(reads, types, strict=True)]
        writer.loop(
            count,
            lambda _: writer.body(
                forward_steps,
                [*reads, *sequences_forward, *own_constants],
                [*writes, *[moving for _, moving in unread_results]],
            ),
        )

    label, shown = label_in(backward.name), None
    if label is not None:
        shown = Shown(label, scheduled(ScheduleWord.LEFT), writer.input(0), counts_down=True)

    def go_back() -> None:
        reads = [read for read, _ in buffers_held]
        states = [slot(k, ScheduleWord.SLOT, -1) for k in range(carried)]
        if backward_line is not None:
            own = [(t, read.start) for t, read in zip(types_held, reads, strict=True)]
            rows_back = list(zip([*types, *row_types], [*states, *sequences_back], strict=True))
            of_outputs = [node.type for node in backward.outputs[held:]]
            own_stacks = list(zip(of_outputs, stacks, strict=True))
            unread = unread_entries[carried:]
            writer.register_loop(backward_line, None, own, rows_back, own_stacks, unread, count)
            return
        results = [*[write for _, write in buffers_held], *stacks]
        writer.loop(
            count,
            lambda _: writer.body(
                backward_steps, [*reads, *states, *sequences_back, *constants], results
            ),
            [(read, read.start, type) for read, type in zip(reads, types_held, strict=True)],
            shown,
        )

    actions = {Action.LEAP: leap, Action.STORE: store, Action.RETURN: go_back}
    lengths = [writer.length_of(actions[action]) for action in Action]

    def inside(start: int) -> list[tuple[int, Moving]]:
        writer.kernel(checkpoint_schedule.NEXT_SOURCE, [scheduled(ScheduleWord.IS_RUNNING)])
        # After each action a row leads to the end.
        starts = np.cumsum([0, *[n + 1 for n in lengths]]).tolist()
        running = scheduled(ScheduleWord.IS_RUNNING)
        loop_words = ("words", start - writer.word_count)
        writer.control(Control.LEAVE, [running, 2 + starts[-1], loop_words, passes])
        action = scheduled(ScheduleWord.ACTION)
        writer.control(Control.SWITCH, [action, len(Action), *starts[:-1]])
        for action, end in zip(Action, starts[1:], strict=True):
            actions[action]()
            writer.control(Control.SKIP, [starts[-1] - end])
        return []

    passes = Pointer(writer.temporary(8), 0)
    writer.kernel(
        checkpoint_schedule.START_SOURCE,
        [scheduled(ScheduleWord.IS_RUNNING), writer.input(0), slots],
    )
    first = len(writer.steps)
    writer.loop(_ENDLESS, inside, shown=shown if backward_line is not None else None)
    writer.lives_from(first, len(writer.steps))
    for k, (read, _) in enumerate(buffers_held):
        if writer.is_needed(k):
            writer.copy(read.start, writer.output(k), types_held[k])


def _two_buffers(writer: _Writer, type: Type) -> tuple[Moving, Moving]:
    """Where a carried value is read, and where it is written."""
    memory = writer.temporary(2 * type.nbytes)
    limit, ring = Pointer(memory, 2 * type.nbytes), 2 * type.nbytes
    own, other = Pointer(memory, 0), Pointer(memory, type.nbytes)
    return Moving(own, type.nbytes, limit, ring), Moving(other, type.nbytes, limit, ring)


_WRITERS: dict[str, Callable[[_Writer, Node], None]] = {
    "loop": _write_loop,
    "branch": _write_branch,
    "while": _write_while,
    "loop_adjoint": _write_adjoint,
}
