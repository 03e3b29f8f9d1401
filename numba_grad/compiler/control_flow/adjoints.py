"""Adjoints within a memory budget: a schedule says, action by action, what to do
(`checkpoint_schedule.py`)."""

from collections.abc import Callable, Sequence

import numpy as np

from numba_grad.compiler.control_flow.added_together import AddedTogether
from numba_grad.compiler.control_flow.carried_state import (
    chains_of,
    followers_in,
    overwriting_in,
    state_of,
    step_of_several,
)
from numba_grad.compiler.control_flow.checkpoint_schedule import (
    NEXT_SOURCE,
    PLACE_SOURCE,
    START_SOURCE,
    Action,
    ScheduleWord,
    schedule_bytes,
)
from numba_grad.compiler.control_flow.joinable_steps import TOGETHER, sums_added_together
from numba_grad.compiler.control_flow.scalar_code import scalar_code
from numba_grad.compiler.control_flow.writer import (
    ENDLESS,
    Moving,
    Shown,
    Writer,
    further,
)
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.words import OwnWord, Pointer
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.immutable import NamedTuple
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
        self.compile_steps_back(call)
        self.held_inputs = [writer.input(k) for k in of_held]
        self.begin()
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
        carried = call.params["carried"]
        # All of it, as in the loop itself: so steps that are done again have the same bits.
        self.computed: Sequence[int] = range(len(body.outputs))
        self.forward_code = None
        if writer.fits_in_registers(self.types):
            self.forward = writer.compiled(body, self.computed)
            constants = self.own_constants
            self.forward_code = scalar_code(self.forward, constants, carried, self.sequences)
        if self.forward_code is None:
            followers = followers_in(body, carried)
            self.computed = [k for k in self.computed if k not in followers]
            self.forward = writer.compiled(body, self.computed)

    def compile_steps_back(self, call: Node) -> None:
        writer, types = self.writer, self.types_held
        backward: ClosedGraph = call.params["backward"]
        self.kept_results: dict[int, Moving] = {}
        self.together: AddedTogether | None = None
        self.backward_code = None
        if writer.fits_in_registers(types):
            rows = call.params["carried"] + call.params["rows"]
            self.backward = writer.compiled(backward, range(len(backward.outputs)))
            self.backward_code = scalar_code(self.backward, self.constants, len(types), rows)
        if self.backward_code is not None:
            self.reads_back = [Moving(Pointer(writer.temporary(t.nbytes), 0)) for t in types]
            self.homes = [read.start for read in self.reads_back]
            return
        # Outside of registers steps back read some results of steps that are done again.
        reading: ClosedGraph = call.params["reading"]
        results = call.params["body"].outputs
        self.kept_results = {k: writer.unread(results[k].type) for k in call.params["kept"]}
        held = len(types)
        followers = followers_in(reading, held)
        self.computed_back = [k for k in range(len(reading.outputs)) if k not in followers]
        read_later: tuple[int, ...] = ()
        if writer.target.joins_steps and label_in(reading.name) is None:
            found = sums_added_together(call)
            if found.sums:
                self.together = AddedTogether(writer, reading, held, found)
                read_later = found.read
        of_sums = [] if self.together is None else self.together.numbers
        self.computed_back = [k for k in self.computed_back if k not in of_sums]
        overwriting = overwriting_in(
            reading, types, read_later, self.computed_back, call.params["sums"]
        )
        self.backward = writer.compiled(reading, self.computed_back, overwriting)
        in_place = [k for k, n in overwriting.results.items() if n in self.backward.in_place]
        state = state_of(
            writer, reading, types, {}, None, in_place=[*in_place, *of_sums], read_later=read_later
        )
        self.reads_back = state.reads
        self.writes_back = dict(zip(state.computed, state.writes, strict=True))
        # Where what is carried back is from one run of steps to the next. From where it is in a
        # ring then, former values cannot be copied to where they were: these overlap.
        self.staying = {*in_place, *of_sums}
        chained = {*followers, *followers.values()}
        self.homes = [
            Pointer(writer.temporary(type.nbytes), 0) if k in chained else read.start
            for k, (read, type) in enumerate(zip(self.reads_back, types, strict=True))
        ]

    def begin(self) -> None:
        """Set what is carried back to what it is at first."""
        inputs = self.held_inputs
        of_sums = [] if self.together is None else self.together.numbers
        for k, (start, home, type) in enumerate(
            zip(inputs, self.homes, self.types_held, strict=True)
        ):
            if k not in of_sums:
                self.writer.copy(start, home, type)
        if self.together is not None:
            self.together.begin([inputs[k] for k in of_sums])

    def finish(self) -> None:
        """Say where what is carried back is in the end."""
        inputs = self.held_inputs
        finals = dict(enumerate(self.homes))
        if self.together is not None:
            for number, k in enumerate(self.together.numbers):
                if self.writer.is_needed(k):
                    read, type = self.together.buffers[number][0].start, self.types_held[k]
                    finals[k] = self.together.whole(number, inputs[k], read, type)
        for k, (final, type) in enumerate(zip(finals.values(), self.types_held, strict=True)):
            if self.writer.is_needed(k):
                self.writer.copy(final, self.writer.output(k), type)

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
        followers = {} if self.forward_code is not None else followers_in(body, carried)
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
        if self.together is not None:
            actions[Action.RETURN_TOGETHER] = self.go_back_together
        # After each action a row leads to the end.
        lengths = [writer.length_of(action) for action in actions.values()]
        starts = np.cumsum([0, *[length + 1 for length in lengths]]).tolist()
        passes = writer.memory_of_rows(8)

        def inside(start: int) -> list[tuple[int, Moving]]:
            writer.kernel_of_rows(NEXT_SOURCE, [running])
            loop_words = OwnWord(start - writer.word_count)
            writer.control(Control.LEAVE, [running, 2 + starts[-1], loop_words, passes])
            chosen = self.scheduled(ScheduleWord.ACTION)
            writer.control(Control.SWITCH, [chosen, len(actions), *starts[:-1]])
            for action, end in zip(actions.values(), starts[1:], strict=True):
                action()
                writer.control(Control.SKIP, [starts[-1] - end])
            return []

        steps_back = 1 if self.together is None else TOGETHER
        writer.kernel_of_rows(START_SOURCE, [running, self.steps, self.slots, steps_back])
        first = len(writer.steps)
        writer.loop(ENDLESS, inside, shown=self.shown if self.backward_code is not None else None)
        writer.lives_from(first, len(writer.steps))
        self.finish()

    def leap(self) -> None:
        """Steps whose states are not kept, but for the last one."""
        carried = range(len(self.types))
        if self.forward_code is not None:
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
        if self.forward_code is not None:
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
        assert self.forward_code is not None
        self.load_state()
        state = [(t, read.start) for t, read in zip(self.types, self.state.reads, strict=True)]
        self.writer.register_loop(
            self.forward_code,
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
        trips = self.scheduled(ScheduleWord.COUNT)
        states = self.states_to_go_back_from()
        if self.backward_code is not None:
            held = list(zip(self.types_held, self.homes, strict=True))
            rows = [*zip(self.types, states, strict=True), *self.rows_back]
            writer.register_loop(
                self.backward_code, None, held, rows, self.stacks, self.unread_held, trips
            )
            return
        if self.together is not None:
            self.go_back_in_passes(self.together, states, 1)
            return
        rows_back = [moving for _, moving in self.rows_back]
        rows, cotangents = rows_back[: self.sequences], rows_back[self.sequences :]
        kept = list(self.kept_results.values())
        arguments = [*self.reads_back, *states, *rows, *kept, *cotangents, *self.constants]
        results = self.results_back()

        def inside(_: int) -> list[tuple[int, Moving]]:
            moving: list[tuple[int, Moving]] = []
            if kept:
                given = [*states, *rows, *self.own_constants]
                moving = writer.body(self.forward, given, self.unread_but_kept())
            return moving + writer.body(self.backward, arguments, results)

        self.leave_home()
        writer.loop(trips, inside, self.coming_home(1), self.shown)

    def go_back_together(self) -> None:
        assert self.together is not None
        self.go_back_in_passes(self.together, self.states_to_go_back_from(), TOGETHER)

    def go_back_in_passes(
        self, together: AddedTogether, states: Sequence[Moving], count: int
    ) -> None:
        """Passes of `count` steps back, and of what these add to sums."""
        inside = together.inside(
            self.backward,
            count,
            together.buffers,
            dict(enumerate(self.reads_back)),
            [*states, *[moving for _, moving in self.rows_back]],
            self.results_back(),
            self.constants,
        )
        leaving = self.coming_home(count)
        for (read, _), node in zip(together.buffers, together.held, strict=True):
            leaving.append((read, read.start, node.type))
        self.leave_home()
        self.writer.loop(self.scheduled(ScheduleWord.COUNT), inside, leaving, self.shown)

    def states_to_go_back_from(self) -> list[Moving]:
        for arrays, place in self.places.items():
            self.writer.kernel_of_rows(PLACE_SOURCE, [self.schedule, place, arrays])
        return [self.state_to_go_back_from(k) for k in range(len(self.types))]

    def results_back(self) -> list[Moving]:
        """Where a step back writes what it computes, but for sums to which several add at once."""
        stacks = [moving for _, moving in self.stacks]
        held = len(self.types_held)
        return [self.writes_back[k] if k < held else stacks[k - held] for k in self.computed_back]

    def leave_home(self) -> None:
        for home, read, type in zip(self.homes, self.reads_back, self.types_held, strict=True):
            if home != read.start:
                self.writer.copy(home, read.start, type)

    def coming_home(self, count: int) -> list[tuple[Pointer | Moving, Pointer | Moving, Type]]:
        """What is carried back, where passes of so many steps leave it, and its home."""
        return [
            (step_of_several(read, 0, count), home, type)
            for k, (read, home, type) in enumerate(
                zip(self.reads_back, self.homes, self.types_held, strict=True)
            )
            if k not in self.staying
        ]

    def unread_but_kept(self) -> list[Moving]:
        """Where a step is done again whose results the step back reads."""
        places = self.unread_entries + [moving for _, moving in self.unread_results]
        kept = self.kept_results
        return [kept[k] if k in kept else places[k] for k in self.computed]
