"""Loops of a known number of steps, and loops that end when a condition says so."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from numba_grad.compiler.control_flow.carried_state import (
    after,
    again_in,
    followers_in,
    overwriting_in,
    state_of,
    step_of_several,
)
from numba_grad.compiler.control_flow.register_loops import StraightLineCode
from numba_grad.compiler.control_flow.steps_together import (
    NO_SUMS,
    TOGETHER,
    SumsOfSteps,
    joined_steps,
    may_be_together,
    sums_of_steps,
)
from numba_grad.compiler.control_flow.writer import (
    ENDLESS,
    NO_OVERWRITING,
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
    line = None
    if fits_in_registers(types[:carried]):
        # All of it, whoever needs what: a loop that is run again for its adjoint has the same bits.
        steps = writer.compiled(body, range(len(types)))
        line = line_of(steps, constants, types[:carried], sequences)
    if line is not None:
        _write_in_registers(writer, call, line, rows)
    else:
        _write_in_memory(writer, call, [moving for _, moving in rows], constants)


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


def _write_in_memory(
    writer: Writer, call: Node, rows: Sequence[Moving], constants: Sequence[Pointer]
) -> None:
    body: ClosedGraph = call.params["body"]
    carried, length, reverse = (call.params[name] for name in ("carried", "length", "reverse"))
    types = [node.type for node in body.outputs]
    entries = {k: len(types) + k for k in range(carried) if writer.is_needed(len(types) + k)}
    followers = followers_in(body, carried)
    again = {
        k: number
        for k, number in again_in(body, carried).items()
        if not (writer.is_needed(k) and writer.is_own(k))
    }
    outputs = [k for k in range(len(types)) if k not in followers and k not in again]
    results = {k: writer.rows_of(k, types[k], length, reverse) for k in outputs if k >= carried}
    again = {k: number for k, number in again.items() if writer.is_needed(k)}
    kept = {*entries, *again.values()}
    label = label_in(body.name)
    sums = NO_SUMS
    is_together = False
    if length >= TOGETHER and label is None and writer.joins_steps:
        is_together = may_be_together(body, carried)
        if not is_together:
            sums = sums_of_steps(body, carried, call.params["sums"])
    passes = length // TOGETHER if is_together or sums.numbers else 0
    left = length - passes * TOGETHER
    outputs = [k for k in outputs if k not in sums.numbers]
    overwriting, steps = NO_OVERWRITING, None
    if not is_together:
        without = {*kept, *sums.read, *sums.numbers}
        overwriting = overwriting_in(body, types[:carried], without, outputs, call.params["sums"])
    if left or not is_together:
        steps = writer.compiled(body, outputs, overwriting)
    in_place = () if steps is None else steps.in_place
    state = state_of(
        writer,
        body,
        types[:carried],
        entries,
        length,
        reverse=reverse,
        in_place=[k for k, number in overwriting.results.items() if number in in_place],
        again=again,
        read_later=sums.read,
        steps=TOGETHER,
    )
    for k, read in enumerate(state.reads):
        writer.copy(writer.input(k), read.start, types[k])
    reads = dict(enumerate(state.reads))
    writes = {**dict(zip(state.computed, state.writes, strict=True)), **results}
    of_states = {k for k in range(len(types)) if k in kept or k >= carried}
    if steps is not None and sums.numbers:
        of_states = {k for k in range(len(types)) if k not in sums.numbers}
        _write_with_sums(writer, call, passes, sums, steps, outputs, reads, writes, rows, constants)
    elif passes:
        _write_together(writer, call, passes, of_states, reads, writes, rows, constants)
    if passes:
        reads, writes = (
            {k: _moved(x, passes * (TOGETHER if k in of_states else 1)) for k, x in found.items()}
            for found in (reads, writes)
        )
        rows = [_moved(x, passes * TOGETHER) for x in rows]
    if steps is not None:
        arguments = [*reads.values(), *rows, *constants]
        bodies = [(steps, [writes[k] for k in outputs])]
        if left and sums.numbers:
            of_step = writer.compiled(body, sums.numbers)
            bodies.append((of_step, [writes[k] for k in sums.numbers]))
        shown = None if label is None else Shown(label)

        def inside(_: int) -> list[tuple[int, Moving]]:
            return [x for own, places in bodies for x in writer.body(own, arguments, places)]

        writer.loop(left, inside, shown=shown)
    for k, read in reads.items():
        writer.finish(k, after(read, left), types[k])


def _write_with_sums(
    writer: Writer,
    call: Node,
    passes: int,
    sums: SumsOfSteps,
    steps: BodySteps,
    outputs: Sequence[int],
    reads: Mapping[int, Moving],
    writes: Mapping[int, Moving],
    rows: Sequence[Moving],
    constants: Sequence[Pointer],
) -> None:
    """Passes of several steps each, and behind these what they add to sums."""
    body: ClosedGraph = call.params["body"]
    carried = call.params["carried"]
    own = [
        *[body.arguments[k] for k in (*sums.numbers, *sums.read)],
        *body.arguments[carried:],
    ]
    of_rows = [*[reads[k] for k in sums.read], *rows]
    joined = joined_steps(
        own, [body.outputs[k] for k in sums.numbers], len(sums.numbers), len(of_rows)
    )
    added = writer.compiled_nodes(joined.outputs[-1], joined.arguments)
    places = [writes[k] for k in sums.numbers]
    arguments = [reads[k] for k in sums.numbers]
    arguments += [step_of_several(x, n, TOGETHER) for n in range(TOGETHER) for x in of_rows]

    def inside(_: int) -> list[tuple[int, Moving]]:
        moving: list[tuple[int, Moving]] = []
        for n in range(TOGETHER):
            given = [step_of_several(x, n, TOGETHER) for x in (*reads.values(), *rows)]
            results = [step_of_several(writes[k], n, TOGETHER) for k in outputs]
            moving += writer.body(steps, [*given, *constants], results)
        return moving + writer.body(added, [*arguments, *constants], places)

    writer.loop(passes, inside)


def _write_together(
    writer: Writer,
    call: Node,
    passes: int,
    of_states: Collection[int],
    reads: Mapping[int, Moving],
    writes: Mapping[int, Moving],
    rows: Sequence[Moving],
    constants: Sequence[Pointer],
) -> None:
    """Passes of several steps each. `of_states`: outputs of which there is one for each step."""
    body: ClosedGraph = call.params["body"]
    joined = joined_steps(body.arguments, body.outputs, call.params["carried"], len(rows))
    of_step = partial(step_of_several, steps=TOGETHER)
    arguments = [of_step(x, 0) if k in of_states else x for k, x in reads.items()]
    arguments += [of_step(x, number) for number in range(TOGETHER) for x in rows]
    wanted: list[Node] = []
    places: list[Moving] = []
    for number, outputs in enumerate(joined.outputs):
        for k, moving in writes.items():
            if k in of_states:
                wanted.append(outputs[k])
                places.append(of_step(moving, number))
            elif number == TOGETHER - 1:
                wanted.append(outputs[k])
                places.append(moving)
    steps = writer.compiled_nodes(wanted, joined.arguments)
    writer.loop(passes, lambda _: writer.body(steps, [*arguments, *constants], places))


def _moved(moving: Moving, passes: int) -> Moving:
    return replace(moving, start=after(moving, passes))


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
