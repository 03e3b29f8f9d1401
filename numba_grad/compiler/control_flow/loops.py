"""Loops of a known number of steps, and loops that end when a condition says so."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from numba_grad.compiler.control_flow.carried_state import (
    after,
    again_in,
    followers_in,
    moved,
    overwriting_in,
    state_of,
    step_of_several,
    two_buffers,
)
from numba_grad.compiler.control_flow.joinable_steps import (
    TOGETHER,
    SumOfSteps,
    SumsOfSteps,
    may_be_together,
    sums_of_steps,
)
from numba_grad.compiler.control_flow.register_loops import StraightLineCode
from numba_grad.compiler.control_flow.steps_together import joined_steps
from numba_grad.compiler.control_flow.writer import (
    ENDLESS,
    BodySteps,
    Moving,
    Shown,
    Writer,
    fits_in_registers,
    line_of,
    rows_from,
)
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.words import Errors, OwnWord, Pointer
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.types import Type, array_type
from numba_grad.graph.walk import substitute
from numba_grad.ops.families import zeros_like
from numba_grad.runtime.plan import Control, ErrorSite
from numba_grad.runtime.progress import label_in


def write_loop(writer: Writer, call: Node) -> None:
    body: ClosedGraph = call.params["body"]
    carried, sequences = call.params["carried"], call.params["sequences"]
    length, reverse = call.params["length"], call.params["reverse"]
    types = [node.type for node in body.outputs]
    rows = [
        (
            call.inputs[k].type.of_shape(call.inputs[k].shape[1:]),
            rows_from(
                writer.input(k), call.inputs[k].type.nbytes // max(length, 1), length, reverse
            ),
        )
        for k in range(carried, carried + sequences)
    ]
    constants = [writer.input(k) for k in range(carried + sequences, len(call.inputs))]
    line = None
    if fits_in_registers(types[:carried]):
        # All of it, whoever needs what: a loop that is run again for its adjoint has the same bits.
        steps = writer.compiled(body, range(len(types)))
        line = line_of(steps, constants, types[:carried], sequences)
    if line is not None:
        _write_in_registers(writer, call, line, rows)
    else:
        _InMemory(writer, call, [moving for _, moving in rows], constants).write()


def _write_in_registers(
    writer: Writer, call: Node, line: StraightLineCode, rows: Sequence[tuple[Type, Moving]]
) -> None:
    body: ClosedGraph = call.params["body"]
    carried, length, reverse = (call.params[name] for name in ("carried", "length", "reverse"))
    types = [node.type for node in body.outputs]
    results = [
        (types[k], writer.rows_of(k, types[k], length, reverse)) for k in range(carried, len(types))
    ]
    held = [(type, Pointer(writer.temporary(type.nbytes), 0)) for type in types[:carried]]
    for k, (type, pointer) in enumerate(held):
        writer.copy(writer.input(k), pointer, type)
    entries = [
        writer.rows_of(len(types) + k, type, length, reverse)
        for k, type in enumerate(types[:carried])
    ]
    label = label_in(body.name)
    writer.register_loop(line, None, held, rows, results, entries, length, label)
    for k, (type, pointer) in enumerate(held):
        writer.finish(k, pointer, type)


class _InMemory:
    """A loop whose state is in memory from step to step."""

    def __init__(
        self, writer: Writer, call: Node, rows: Sequence[Moving], constants: Sequence[Pointer]
    ) -> None:
        self.writer, self.rows, self.constants = writer, rows, constants
        body: ClosedGraph = call.params["body"]
        self.body = body
        self.carried: int = call.params["carried"]
        self.length: int = call.params["length"]
        self.reverse: bool = call.params["reverse"]
        self.sums: int = call.params["sums"]
        self.label = label_in(body.name)
        carried, needed = self.carried, writer.is_needed
        self.types = types = [node.type for node in body.outputs]
        self.entries = {k: len(types) + k for k in range(carried) if needed(len(types) + k)}
        again = {
            k: number
            for k, number in again_in(body, carried).items()
            if not (needed(k) and writer.is_own(k))
        }
        elsewhere = {*followers_in(body, carried), *again}
        self.outputs = [k for k in range(len(types)) if k not in elsewhere]
        self.again = {k: number for k, number in again.items() if needed(k)}
        self.kept = {*self.entries, *self.again.values()}
        self.reads: dict[int, Moving] = {}
        self.writes = {
            k: writer.rows_of(k, types[k], self.length, self.reverse)
            for k in self.outputs
            if k >= carried
        }

    def write(self) -> None:
        if self.writer.target.joins_steps and self.length >= TOGETHER and self.label is None:
            if may_be_together(self.body, self.carried):
                self.write_together()
                return
            sums = sums_of_steps(self.body, self.carried, self.sums)
            if sums.sums:
                self.write_with_sums(sums)
                return
        steps = self.compiled(())
        self.write_steps(steps, 0)
        self.finish(range(self.carried))

    # Memory

    def compiled(self, left_out: Collection[int], read_later: Collection[int] = ()) -> BodySteps:
        """The steps of a body, but for some of its outputs, and memory for what is carried. What is
        read later is there for more steps than one."""
        own = self.types[: self.carried]
        outputs = [k for k in self.outputs if k not in left_out]
        kept = {*self.kept, *left_out, *read_later}
        overwriting = overwriting_in(self.body, own, kept, outputs, self.sums)
        steps = self.writer.compiled(self.body, outputs, overwriting)
        in_place = [k for k, number in overwriting.results.items() if number in steps.in_place]
        self.place([*in_place, *left_out], read_later)
        return steps

    def place(self, in_place: Collection[int] = (), read_later: Collection[int] = ()) -> None:
        writer = self.writer
        state = state_of(
            writer,
            self.body,
            self.types[: self.carried],
            self.entries,
            self.length,
            reverse=self.reverse,
            in_place=in_place,
            again=self.again,
            read_later=read_later,
        )
        for k, read in enumerate(state.reads):
            writer.copy(writer.input(k), read.start, self.types[k])
        self.reads = dict(enumerate(state.reads))
        self.writes |= dict(zip(state.computed, state.writes, strict=True))

    def finish(self, numbers: Iterable[int]) -> None:
        for k in numbers:
            self.writer.finish(k, after(self.reads[k], self.length), self.types[k])

    # Steps

    def write_steps(self, steps: BodySteps, first: int) -> None:
        """Steps one by one, from that one on."""
        arguments = [moved(x, first) for x in (*self.reads.values(), *self.rows)]
        places = [moved(self.writes[k], first) for k in self.outputs]
        given = [*arguments, *self.constants]
        shown = None if self.label is None else Shown(self.label)
        own = self.writer.body
        self.writer.loop(self.length - first, lambda _: own(steps, given, places), shown=shown)

    def write_together(self) -> None:
        """Passes of several steps each. Of what is kept of none but the last of them there is one
        for each pass."""
        writer, passes = self.writer, self.length // TOGETHER
        joined = joined_steps(
            self.body.arguments, self.body.outputs, self.carried, len(self.rows), TOGETHER
        )
        self.place()
        of_states = {k for k in self.writes if k in self.kept or k >= self.carried}
        arguments = [
            step_of_several(x, 0, TOGETHER) if k in of_states else x for k, x in self.reads.items()
        ]
        arguments += [step_of_several(x, n, TOGETHER) for n in range(TOGETHER) for x in self.rows]
        wanted: list[Node] = []
        places: list[Moving] = []
        for number, outputs in enumerate(joined.outputs):
            for k, moving in self.writes.items():
                if k in of_states:
                    wanted.append(outputs[k])
                    places.append(step_of_several(moving, number, TOGETHER))
                elif number == TOGETHER - 1:
                    wanted.append(outputs[k])
                    places.append(moving)
        steps = writer.compiled_nodes(wanted, joined.arguments)
        given = [*arguments, *self.constants]
        writer.loop(passes, lambda _: writer.body(steps, given, places))
        # As if each step had moved what only passes did.
        back = passes - passes * TOGETHER
        for found in (self.reads, self.writes):
            found.update({k: moved(x, back) for k, x in found.items() if k not in of_states})
        if self.length % TOGETHER:
            left = writer.compiled(self.body, self.outputs)
            self.write_steps(left, passes * TOGETHER)
        self.finish(range(self.carried))

    def write_with_sums(self, found: SumsOfSteps) -> None:
        """Several steps, and behind them what they add to sums, in one kernel."""
        writer, types = self.writer, self.types
        numbers = [x.number for x in found.sums]
        steps = self.compiled(numbers, found.read)
        self.outputs = [k for k in self.outputs if k not in numbers]
        held = [argument(x.added.type) for x in found.sums]
        buffers = [two_buffers(writer, x.type) for x in held]
        for sum, node, (read, _) in zip(found.sums, held, buffers, strict=True):
            if sum.region is None:
                writer.copy(writer.input(sum.number), read.start, node.type)
            else:
                self.write_graph(zeros_like(node), [], read.start)
        passes, left = divmod(self.length, TOGETHER)
        self.write_passes(found, steps, held, buffers, 0, TOGETHER, passes)
        if left:
            now = [(moved(x, passes), moved(y, passes)) for x, y in buffers]
            self.write_passes(found, steps, held, now, passes * TOGETHER, left, 1)
        self.finish([k for k in range(self.carried) if k not in numbers])
        for sum, node, (read, _) in zip(found.sums, held, buffers, strict=True):
            final, type = after(read, passes + (left > 0)), types[sum.number]
            if sum.region is not None and writer.is_needed(sum.number):
                place = Pointer(writer.temporary(type.nbytes), 0)
                whole = argument(type)
                added = record(OPS["add_slice"], (whole, node), sum.region)
                self.write_graph(added, [(whole, writer.input(sum.number)), (node, final)], place)
                final = place
            writer.finish(sum.number, final, type)

    def write_graph(
        self, node: Node, given: Sequence[tuple[Node, Pointer]], place: Pointer
    ) -> None:
        steps = self.writer.compiled_nodes([node], [x for x, _ in given])
        self.writer.body(steps, [pointer for _, pointer in given], [place])

    def write_passes(
        self,
        found: SumsOfSteps,
        steps: BodySteps,
        held: Sequence[Node],
        buffers: Sequence[tuple[Moving, Moving]],
        first: int,
        count: int,
        passes: int,
    ) -> None:
        """Passes of `count` steps each, and of what these add to sums, from step `first` on."""
        writer, body = self.writer, self.body
        own = [body.arguments[k] for k in found.read] + [*body.arguments[self.carried :]]
        sums = [_with_step(x, node, body) for x, node in zip(found.sums, held, strict=True)]
        rows = [*[self.reads[k] for k in found.read], *self.rows]
        joined = joined_steps([*held, *own], sums, len(held), len(rows), count)
        added = writer.compiled_nodes(joined.outputs[-1], joined.arguments)

        def of_step(moving: Moving, number: int) -> Moving:
            return step_of_several(moved(moving, first), number, count)

        def inside(_: int) -> list[tuple[int, Moving]]:
            moving: list[tuple[int, Moving]] = []
            for n in range(count):
                given = [of_step(x, n) for x in (*self.reads.values(), *self.rows)]
                places = [of_step(self.writes[k], n) for k in self.outputs]
                moving += writer.body(steps, [*given, *self.constants], places)
            given = [read for read, _ in buffers]
            given += [of_step(x, n) for n in range(count) for x in rows]
            places = [written for _, written in buffers]
            return moving + writer.body(added, [*given, *self.constants], places)

        writer.loop(passes, inside)


def _with_step(sum: SumOfSteps, held: Node, body: ClosedGraph) -> Node:
    """A sum, or the region of it that steps add to, with what a step adds."""
    if sum.region is not None:
        # Rounded, as it is where it is added to a region in memory.
        return OPS["add"](held, OPS["positive"](sum.added))
    [result] = substitute([sum.added], {body.arguments[sum.number]: held})
    return result


_BOOLEAN = array_type((), np.dtype(np.bool_))

# Words: whether the loop would go on, and how many passes it took, which the adjoint reads; the
# error record and its site.
UNFINISHED_SOURCE = """\
# while: unfinished
def kernel(args, lo, hi):
    holds = buffer(args, 0, bool_)
    count = buffer(args, 1, int64)
    if holds[0]:
        count[0] = check_index(1, 1, integer(args, 2), integer(args, 3))
"""


def write_while(writer: Writer, call: Node) -> None:
    test: ClosedGraph = call.params["test"]
    body: ClosedGraph = call.params["body"]
    carried, of_test = call.params["carried"], call.params["constants_of_test"]
    label = label_in(body.name)
    types = [node.type for node in call.inputs[:carried]]
    constants = [writer.input(k) for k in range(carried, len(call.inputs))]
    steps_of_test = writer.compiled(test, [0])
    line = line_of_test = None
    if fits_in_registers(types):
        steps_of_body = writer.compiled(body, range(carried))
        line = line_of(steps_of_body, constants[of_test:], types, 0)
        line_of_test = line_of(steps_of_test, constants[:of_test], types, 0)
    if line is not None and line_of_test is not None:
        held = [(type, Pointer(writer.temporary(type.nbytes), 0)) for type in types]
        for k, (type, pointer) in enumerate(held):
            writer.copy(writer.input(k), pointer, type)
        unread = [writer.unread(type) for type in types]
        progress = writer.register_loop(line, line_of_test, held, [], [], unread, ENDLESS, label)
        for k, (type, pointer) in enumerate(held):
            writer.finish(k, pointer, type)
        writer.finish(carried, progress, call.type.items[carried])
        return
    followers = followers_in(body, carried)
    outputs = [k for k in range(carried) if k not in followers]
    overwriting = overwriting_in(body, types, (), outputs)
    steps_of_body = writer.compiled(body, outputs, overwriting)
    in_place = [k for k, number in overwriting.results.items() if number in steps_of_body.in_place]
    state = state_of(writer, body, types, {}, None, in_place=in_place)
    reads, writes = state.reads, state.writes
    for k, read in enumerate(reads):
        writer.copy(writer.input(k), read.start, types[k])
    holds = Pointer(writer.temporary(_BOOLEAN.nbytes), 0)
    is_counted = writer.is_needed(carried)
    count = writer.output(carried) if is_counted else writer.memory_of_rows(8)

    def inside(start: int) -> list[tuple[int, Moving]]:
        moving = writer.body(steps_of_test, [*reads, *constants[:of_test]], [holds])
        own = writer.word_count
        skipped = len(steps_of_body.steps) + 1
        writer.control(Control.LEAVE, [holds, skipped, OwnWord(start - own), count])
        return moving + writer.body(steps_of_body, [*reads, *constants[of_test:]], writes)

    leaving = [
        (reads[k], writer.output(k), types[k]) for k in range(carried) if writer.is_needed(k)
    ]
    shown = None if label is None else Shown(label)
    writer.loop(writer.most_passes, inside, leaving=leaving, shown=shown)
    if writer.most_passes != ENDLESS:
        writer.kernel(UNFINISHED_SOURCE, [holds, count, Errors(), ErrorSite("unfinished", "")])
