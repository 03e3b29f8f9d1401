"""Loops of a known number of steps, and loops that end when a condition says so."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from numba_grad.compiler.control_flow.added_together import AddedTogether
from numba_grad.compiler.control_flow.carried_state import (
    after,
    again_in,
    followers_in,
    moved,
    overwriting_in,
    state_of,
    step_of_several,
)
from numba_grad.compiler.control_flow.joinable_steps import (
    TOGETHER,
    SumsOfSteps,
    may_be_together,
    sums_added_together,
)
from numba_grad.compiler.control_flow.point_loops import write_point_loop
from numba_grad.compiler.control_flow.scalar_code import BodySteps, ScalarCode, scalar_code
from numba_grad.compiler.control_flow.steps_together import joined_steps
from numba_grad.compiler.control_flow.writer import (
    ENDLESS,
    Moving,
    Shown,
    Writer,
    rows_from,
)
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.words import Errors, OwnWord, Pointer
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type, array_type
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
    code = None
    if writer.fits_in_registers(types[:carried]):
        # All of it, whoever needs what: a loop that is run again for its adjoint has the same bits.
        steps = writer.compiled(body, range(len(types)))
        code = scalar_code(steps, constants, carried, sequences)
    if code is not None:
        _write_in_registers(writer, call, code, rows)
    elif label_in(body.name) is not None or not write_point_loop(writer, call, rows, constants):
        _InMemory(writer, call, [moving for _, moving in rows], constants).write(call)


def _write_in_registers(
    writer: Writer, call: Node, code: ScalarCode, rows: Sequence[tuple[Type, Moving]]
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
    writer.register_loop(code, None, held, rows, results, entries, length, label)
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

    def write(self, call: Node) -> None:
        if self.writer.target.joins_steps and self.length >= TOGETHER and self.label is None:
            if may_be_together(self.body, self.carried):
                self.write_together()
                return
            sums = sums_added_together(call)
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
            if k in self.entries:
                self.writer.finish_rows(self.entries[k], self.types[k], self.length)

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
        writer = self.writer
        together = AddedTogether(writer, self.body, self.carried, found)
        numbers, buffers = together.numbers, together.buffers
        steps = self.compiled(numbers, found.read)
        self.outputs = [k for k in self.outputs if k not in numbers]
        together.begin([writer.input(k) for k in numbers])

        def write_passes(first: int, count: int, done: int, passes: int) -> None:
            inside = together.inside(
                steps,
                count,
                [(moved(read, done), moved(write, done)) for read, write in buffers],
                {k: moved(x, first) for k, x in self.reads.items()},
                [moved(x, first) for x in self.rows],
                [moved(self.writes[k], first) for k in self.outputs],
                self.constants,
            )
            writer.loop(passes, inside)

        passes, left = divmod(self.length, TOGETHER)
        write_passes(0, TOGETHER, 0, passes)
        if left:
            write_passes(passes * TOGETHER, left, passes, 1)
        self.finish([k for k in range(self.carried) if k not in numbers])
        for number, (k, (read, _)) in enumerate(zip(numbers, buffers, strict=True)):
            final = after(read, passes + (left > 0))
            if writer.is_needed(k):
                final = together.whole(number, writer.input(k), final, self.types[k])
            writer.finish(k, final, self.types[k])


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
    code = code_of_test = None
    if writer.fits_in_registers(types):
        steps_of_body = writer.compiled(body, range(carried))
        code = scalar_code(steps_of_body, constants[of_test:], carried, 0)
        code_of_test = scalar_code(steps_of_test, constants[:of_test], carried, 0)
    if code is not None and code_of_test is not None and not code_of_test.has_loops:
        held = [(type, Pointer(writer.temporary(type.nbytes), 0)) for type in types]
        for k, (type, pointer) in enumerate(held):
            writer.copy(writer.input(k), pointer, type)
        unread = [writer.unread(type) for type in types]
        progress = writer.register_loop(code, code_of_test, held, [], [], unread, ENDLESS, label)
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
