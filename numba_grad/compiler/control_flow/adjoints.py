"""Adjoints within a memory budget: a schedule says, action by action, what to do
(`checkpoint_schedule.py`)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from numba_grad.compiler.control_flow.carried_state import (
    chains_of,
    followers_in,
    state_of,
    two_buffers,
)
from numba_grad.compiler.control_flow.checkpoint_schedule import (
    NEXT_SOURCE,
    PLACE_SOURCE,
    START_SOURCE,
    Action,
    ScheduleWord,
    schedule_bytes,
)
from numba_grad.compiler.control_flow.writer import (
    ENDLESS,
    Moving,
    Shown,
    Writer,
    fits_in_registers,
    further,
    line_of,
)
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.words import OwnWord, Pointer
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.runtime.plan import Control
from numba_grad.runtime.progress import label_in


def write_adjoint(writer: Writer, call: Node) -> None:
    _Adjoint(writer, call).write()


class _Link(NamedTuple):
    """Where a carried value is in the memory of kept states, which it shares with those that are
    its former values. In a run of states one after the other these overlap: each is one array
    further than the one before, so that what is but a former value is there already."""

    first: Pointer  # in the first slot
    arrays: int  # of a slot


class _Adjoint:
    """Memory: the kept states, one more, buffers of the state, two of what is carried back."""

    def __init__(self, writer: Writer, call: Node) -> None:
        self.writer = writer
        self.slots: int = call.params["slots"]
        self.length: int = call.params["length"]  # None if there are no rows, maybe
        self.reverse: bool = call.params["reverse"]
        body: ClosedGraph = call.params["body"]
        backward: ClosedGraph = call.params["backward"]
        self.sequences: int = call.params["sequences"]
        held, carried, rows = (call.params[name] for name in ("held", "carried", "rows"))
        sequences = self.sequences
        inputs = range(1, len(call.inputs))
        of_held, of_state = inputs[:held], inputs[held : held + carried]
        of_rows = inputs[held + carried : held + carried + rows]
        self.schedule = writer.memory_of_rows(schedule_bytes(self.slots))
        self.steps = writer.number_of_rows(writer.input(0), self.length)
        self.types = [call.inputs[k].type for k in of_state]
        self.types_held = [call.inputs[k].type for k in of_held]
        self.buffers_held = [two_buffers(writer, type) for type in self.types_held]
        for k, (read, _), type in zip(of_held, self.buffers_held, self.types_held, strict=True):
            writer.copy(writer.input(k), read.start, type)
        # Rows of the loop, with their types, as steps forward and steps back read them.
        row_types = [call.inputs[k].type.of_shape(call.inputs[k].shape[1:]) for k in of_rows]
        pairs = list(zip(of_rows, row_types, strict=True))
        self.rows_forward = [
            (type, self.row(writer.input(k), type, is_return=False))
            for k, type in pairs[:sequences]
        ]
        self.rows_back = [
            (type, self.row(writer.input(k), type, is_return=True)) for k, type in pairs
        ]
        self.constants = [writer.input(k) for k in inputs[held + carried + rows :]]
        self.own_constants = self.constants[: len(body.arguments) - carried - sequences]
        self.stacks = [
            (node.type, self.row(writer.output(k), node.type, is_return=True))
            if writer.is_needed(k)
            else (node.type, writer.unread(node.type))
            for k, node in enumerate(backward.outputs[held:], start=held)
        ]
        self.compile_steps(call)
        self.links = self.memory_of_states(body, call.params["directory"])
        self.places = {
            link.arrays: writer.memory_of_rows(8) for link in self.links if link.arrays > 1
        }
        for k, link, type in zip(of_state, self.links, self.types, strict=True):
            writer.copy(writer.input(k), link.first, type)
        self.state = state_of(writer, body, self.types, {}, None)
        self.unread_results = [
            (node.type, writer.unread(node.type)) for node in body.outputs[carried:]
        ]
        self.unread_entries = [writer.unread(type) for type in self.types]
        self.unread_held = [writer.unread(type) for type in self.types_held]
        self.shown = None
        label = label_in(backward.name)
        if label is not None:
            left = self.scheduled(ScheduleWord.LEFT)
            self.shown = Shown(label, left, self.steps, counts_down=True)

    def compile_steps(self, call: Node) -> None:
        writer = self.writer
        body: ClosedGraph = call.params["body"]
        backward: ClosedGraph = call.params["backward"]
        carried, rows = call.params["carried"], call.params["rows"]
        # All of it, as in the loop itself: so steps that are done again have the same bits.
        self.computed: Sequence[int] = range(len(body.outputs))
        self.forward_line = None
        if fits_in_registers(self.types):
            self.forward = writer.compiled(body, self.computed)
            constants = self.own_constants
            self.forward_line = line_of(self.forward, constants, self.types, self.sequences)
        if self.forward_line is None:
            followers = followers_in(body, carried)
            self.computed = [k for k in self.computed if k not in followers]
            self.forward = writer.compiled(body, self.computed)
        self.kept_results: dict[int, tuple[Type, Moving]] = {}
        self.backward = writer.compiled(backward, range(len(backward.outputs)))
        self.backward_line = line_of(self.backward, self.constants, self.types_held, carried + rows)
        if self.backward_line is None and call.params["kept"]:
            self.read_results(call)

    def read_results(self, call: Node) -> None:
        """Steps back read some results of steps that are done again: outside of registers."""
        reading: ClosedGraph = call.params["reading"]
        results = call.params["body"].outputs
        for k in call.params["kept"]:
            self.kept_results[k] = results[k].type, self.writer.unread(results[k].type)
        self.backward = self.writer.compiled(reading, range(len(reading.outputs)))

    # Memory

    def scheduled(self, word: ScheduleWord) -> Pointer:
        return further(self.schedule, 8 * word)

    def row(self, start: Pointer, type: Type, *, is_return: bool) -> Moving:
        """The row of a step: that of the action's first one, and on from there."""
        forward = -type.nbytes if self.reverse else type.nbytes
        first = further(start, (self.length - 1) * type.nbytes) if self.reverse else start
        stride = -forward if is_return else forward
        return Moving(first, stride, first=self.scheduled(ScheduleWord.STEP), first_stride=forward)

    def memory_of_states(self, body: ClosedGraph, directory: str) -> list[_Link]:
        """Where each of the carried values is in it."""
        carried = len(self.types)
        followers = {} if self.forward_line is not None else followers_in(body, carried)
        found: dict[int, _Link] = {}
        for chain in chains_of(followers, carried):
            nbytes, count = self.types[chain[0]].nbytes, len(chain)
            memory = self.writer.kept_memory((self.slots + 1) * count * nbytes, directory)
            for age, k in enumerate(chain):
                found[k] = _Link(further(memory, (count - 1 - age) * nbytes), count)
        return [found[k] for k in range(carried)]

    def slot(self, number: int, word: ScheduleWord, stride: int = 0) -> Moving:
        """The slot of a kept state that a word of the schedule names, and on from there."""
        nbytes, link = self.types[number].nbytes, self.links[number]
        first = self.scheduled(word)
        return Moving(link.first, stride * nbytes, first=first, first_stride=link.arrays * nbytes)

    def state_to_go_back_from(self, number: int) -> Moving:
        """That of the last step of a run, and those before it."""
        nbytes, link = self.types[number].nbytes, self.links[number]
        if link.arrays == 1:
            return self.slot(number, ScheduleWord.SLOT, -1)
        return Moving(link.first, -nbytes, first=self.places[link.arrays], first_stride=nbytes)

    # Actions

    def write(self) -> None:
        writer = self.writer
        running = self.scheduled(ScheduleWord.IS_RUNNING)
        actions: dict[Action, Callable[[], None]] = {
            Action.LEAP: self.leap,
            Action.STORE: self.store,
            Action.RETURN: self.go_back,
        }
        # After each action a row leads to the end.
        lengths = [writer.length_of(actions[action]) for action in Action]
        starts = np.cumsum([0, *[length + 1 for length in lengths]]).tolist()
        passes = writer.memory_of_rows(8)

        def inside(start: int) -> list[tuple[int, Moving]]:
            writer.kernel_of_rows(NEXT_SOURCE, [running])
            loop_words = OwnWord(start - writer.word_count)
            writer.control(Control.LEAVE, [running, 2 + starts[-1], loop_words, passes])
            chosen = self.scheduled(ScheduleWord.ACTION)
            writer.control(Control.SWITCH, [chosen, len(Action), *starts[:-1]])
            for action, end in zip(Action, starts[1:], strict=True):
                actions[action]()
                writer.control(Control.SKIP, [starts[-1] - end])
            return []

        writer.kernel_of_rows(START_SOURCE, [running, self.steps, self.slots])
        first = len(writer.steps)
        writer.loop(ENDLESS, inside, shown=self.shown if self.backward_line is not None else None)
        writer.lives_from(first, len(writer.steps))
        for k, ((read, _), type) in enumerate(zip(self.buffers_held, self.types_held, strict=True)):
            if writer.is_needed(k):
                writer.copy(read.start, writer.output(k), type)

    def leap(self) -> None:
        """Steps whose states are not kept, but for the last one."""
        carried = range(len(self.types))
        if self.forward_line is not None:
            self.run_in_registers(self.unread_entries)
            self.store_state(ScheduleWord.TARGET)
            return
        self.load_state()
        reads = self.state.reads
        leaving = [(reads[k], self.slot(k, ScheduleWord.TARGET), self.types[k]) for k in carried]
        self.run(reads, self.state.writes, leaving)

    def store(self) -> None:
        """Steps whose states are all kept."""
        reads = [self.slot(k, ScheduleWord.SLOT, 1) for k in range(len(self.types))]
        if self.forward_line is not None:
            self.run_in_registers(reads)
            self.store_state(ScheduleWord.PENDING_SLOT)
            return
        self.run(reads, [reads[k].after(self.types[k].nbytes) for k in self.state.computed])

    def run(
        self,
        reads: Sequence[Moving],
        writes: Sequence[Moving],
        leaving: Sequence[tuple[Moving, Moving, Type]] = (),
    ) -> None:
        """Steps of the loop."""
        writer = self.writer
        arguments = [*reads, *[moving for _, moving in self.rows_forward], *self.own_constants]
        results = [*writes, *[moving for _, moving in self.unread_results]]
        count = self.scheduled(ScheduleWord.COUNT)
        writer.loop(count, lambda _: writer.body(self.forward, arguments, results), leaving)

    def run_in_registers(self, entries: Sequence[Moving]) -> None:
        assert self.forward_line is not None
        self.load_state()
        state = [(t, read.start) for t, read in zip(self.types, self.state.reads, strict=True)]
        self.writer.register_loop(
            self.forward_line,
            None,
            state,
            self.rows_forward,
            self.unread_results,
            entries,
            self.scheduled(ScheduleWord.COUNT),
        )

    def load_state(self) -> None:
        self._copy_states(
            [
                (self.slot(k, ScheduleWord.SLOT), read.start)
                for k, read in enumerate(self.state.reads)
            ]
        )

    def store_state(self, word: ScheduleWord) -> None:
        self._copy_states(
            [(read.start, self.slot(k, word)) for k, read in enumerate(self.state.reads)]
        )

    def _copy_states(self, copies: Sequence[tuple[Pointer | Moving, Pointer | Moving]]) -> None:
        # In a loop of one step: at its entry moving pointers are where the schedule says.
        def copied(_: int) -> list[tuple[int, Moving]]:
            return [
                moved
                for (source, target), type in zip(copies, self.types, strict=True)
                for moved in self.writer.copy(source, target, type)
            ]

        self.writer.loop(1, copied)

    def go_back(self) -> None:
        """Steps back, from states that are kept."""
        writer = self.writer
        count = self.scheduled(ScheduleWord.COUNT)
        reads = [read for read, _ in self.buffers_held]
        for arrays, place in self.places.items():
            writer.kernel_of_rows(PLACE_SOURCE, [self.schedule, place, arrays])
        states = [self.state_to_go_back_from(k) for k in range(len(self.types))]
        if self.backward_line is not None:
            held = [(t, read.start) for t, read in zip(self.types_held, reads, strict=True)]
            rows = [*zip(self.types, states, strict=True), *self.rows_back]
            writer.register_loop(
                self.backward_line, None, held, rows, self.stacks, self.unread_held, count
            )
            return
        rows_back = [moving for _, moving in self.rows_back]
        rows, cotangents = rows_back[: self.sequences], rows_back[self.sequences :]
        kept = [moving for _, moving in self.kept_results.values()]
        arguments = [*reads, *states, *rows, *kept, *cotangents, *self.constants]
        results = [write for _, write in self.buffers_held]
        results += [moving for _, moving in self.stacks]
        leaving = [(x, x.start, type) for x, type in zip(reads, self.types_held, strict=True)]

        def inside(_: int) -> list[tuple[int, Moving]]:
            moving: list[tuple[int, Moving]] = []
            if kept:
                given = [*states, *rows, *self.own_constants]
                moving = writer.body(self.forward, given, self.unread_but_kept())
            return moving + writer.body(self.backward, arguments, results)

        writer.loop(count, inside, leaving, self.shown)

    def unread_but_kept(self) -> list[Moving]:
        """Where a step is done again whose results the step back reads."""
        places = self.unread_entries + [moving for _, moving in self.unread_results]
        kept = self.kept_results
        return [kept[k][1] if k in kept else places[k] for k in self.computed]
