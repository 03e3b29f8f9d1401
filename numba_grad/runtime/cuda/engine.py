"""Replays plans on GPUs: the first run launches each kernel, later ones one captured graph.

    Program      a plan made ready to run on one GPU; `run(*inputs)` returns the outputs
    Activation   what one run at a time needs: the words, host values on their way, captured graphs

A plan is the same as the CPU's (`runtime/plan.py`), but that steps have a `Grid`. All of a kernel's
parameters are eight bytes long, so the words of a step are its parameter block as they stand.

Nothing here waits for the GPU, but loops that go by values, and more branches than a graph has,
which the host reads (`rows.py`; `stretches.py`, `device_loops.py`). What a kernel found wrong (an
index out of range) is recorded on the device, and raised when the host next asks for values
(`checks.py`).
"""

import ctypes
import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from numba_grad.locks import new_lock
from numba_grad.runtime.cuda import checks, graphs
from numba_grad.runtime.cuda.arrays import STAGED_BYTES, DeviceArray, empty
from numba_grad.runtime.cuda.branches import MOST_STEPS, Turn, turns
from numba_grad.runtime.cuda.conditional_nodes import ConditionalNodes, Deciding, say_refused
from numba_grad.runtime.cuda.device_loops import DeviceLoops
from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.driver import current_driver, running_driver
from numba_grad.runtime.cuda.interface import Driver, DriverError
from numba_grad.runtime.cuda.memory import (
    Allocation,
    allocate,
    give_back_pinned_number,
    take_pinned_number,
)
from numba_grad.runtime.cuda.rows import Walk, launches_of, straight_ends
from numba_grad.runtime.cuda.streams import Event, Stream, current_stream
from numba_grad.runtime.cuda.stretches import MOST_JOINED, Stretches
from numba_grad.runtime.library import symbol_address
from numba_grad.runtime.plan import Control, Plan
from numba_grad.runtime.progress import Bars, shown_loops

# From so many steps on a graph pays: launching one costs what a few kernels cost. Of a loop each
# repetition is a node of the graph, which is memory.
_FEWEST_CAPTURED = 4
_MOST_CAPTURED = 1 << 15
# Graphs kept for one activation: a loop that holds two results in turn has two sets of addresses.
_KEPT_GRAPHS = 2
# Streams that a program keeps memory and graphs for: some programs make one for each call.
_KEPT_STREAMS = 4
# Larger arenas are borrowed from the pool for each run, so that many plans share the memory.
_KEPT_ARENA_BYTES = 1 << 26
_ALIGNMENT = 16
_MOST_NAMES = 6


class DeviceCode(Protocol):
    """A compiled kernel, as a plan has it."""

    @property
    def code(self) -> bytes: ...

    @property
    def entry_name(self) -> str: ...

    @property
    def source(self) -> str: ...


class HostCall(Protocol):
    """A step that the host does: a call of a library, which gives work to the stream."""

    is_capturable: bool

    def __call__(self, stream: Stream, words: Sequence[int]) -> None: ...


class Program:
    """A plan made ready to run on one GPU. Any number of threads may run it at once."""

    def __init__(
        self, plan: Plan, device: int, build: Callable[[str], DeviceCode] | None = None
    ) -> None:
        """`build` makes the kernels of conditional nodes. Without it, the host decides."""
        self.plan = plan
        self.device = device
        self.build = build
        self.driver: Driver = current_driver()
        with active(device):
            self.kernels = [
                kernel if callable(kernel) else loaded_function(self.driver, device, kernel)
                for kernel in plan.kernels
            ]
        self.steps = [tuple(row) for row in plan.steps.tolist()]
        self.starts = [*plan.steps[:, 1].tolist(), len(plan.words)]
        self.targets, self.bases_of_words, self.offsets = plan.relocations.T.copy()
        can_be_captured = [_can_be_captured(kernel) for kernel in plan.kernels]
        self.has_rows = bool((plan.steps[:, 0] < 0).any())
        self.shown_loops = shown_loops(plan)
        launches = launches_of(plan) if self.has_rows else len(self.steps)
        self.has_choices = bool((plan.steps[:, 0] == Control.SWITCH).any())
        if self.has_choices and build is None:
            launches = None
        self.is_captured = (
            all(can_be_captured)
            and launches is not None
            and launches >= _FEWEST_CAPTURED
            and not (self.has_rows and (launches > _MOST_CAPTURED or self.shown_loops))
        )
        # Of each step, rows included: whether graphs can repeat it, and where those end that are
        # launched with it.
        self.can_be_repeated = [step[0] < 0 or can_be_captured[step[0]] for step in self.steps]
        self.ends = straight_ends(self.steps, self.can_be_repeated, MOST_JOINED)
        self.name = _name(plan.kernels)
        self.turns: list[Turn] | None = None
        may_branch = self.is_captured and not self.has_rows and len(self.steps) <= MOST_STEPS
        if may_branch and plan.accesses is not None:
            self.turns = turns(len(self.steps), plan.accesses)
        self._free: OrderedDict[Stream, list[Activation]] = OrderedDict()
        self._free_lock = new_lock()

    def run(self, *inputs: Any) -> list[DeviceArray]:
        """The outputs, in new arrays, as the current stream will have them.

        `inputs` are arrays on the device, or numbers and small arrays on the host. What another
        stream of ours computed is waited for, by the stream.
        """
        stream = current_stream(self.device)
        with self._free_lock:
            free = self._free.get(stream)
            activation = free.pop() if free else None
        if activation is None:
            activation = Activation(self, stream)
        with active(self.device):
            outputs = activation.run(inputs)
        # Not in a `finally`: what an exception interrupted is dropped.
        with self._free_lock:
            self._free.setdefault(stream, []).append(activation)
            self._free.move_to_end(stream)
            if len(self._free) > _KEPT_STREAMS:
                self._free.popitem(last=False)
        return outputs

    def launch(self, number: int, stream: Stream, address: int) -> None:
        """One step, with the words at an address, of which nothing is needed afterwards."""
        kernel, start, blocks, threads = self.steps[number]
        function = self.kernels[kernel]
        count = self.starts[number + 1] - start
        if callable(function):
            function(stream, list((ctypes.c_int64 * count).from_address(address)))
            return
        extents = (blocks, 1, 1), (threads, 1, 1)
        self.driver.launch(function, *extents, 0, stream.handle, address, 8 * count)

    def deciding(self) -> Deciding:
        """The kernels of conditional nodes, which are loaded now."""
        build, driver, device = self.build, self.driver, self.device
        assert build is not None
        return Deciding.loaded(lambda source: loaded_function(driver, device, build(source)))

    def profile(self, *inputs: Any, repeats: int = 1) -> np.ndarray:
        """Mean seconds of each step over `repeats` runs, by events, after one that is not counted.

        Steps are launched one by one, so a short one's time is at least that of an event, 1 to 2
        microseconds.
        """
        stream = current_stream(self.device)
        activation = Activation(self, stream)
        with active(self.device):
            outputs = activation.run(inputs)
            del outputs
            seconds = np.zeros(len(self.steps))
            for _ in range(repeats):
                clock = Clock(seconds)
                activation.run(inputs, clock)
                clock.read()
        return seconds / repeats


# Launches whose events wait to be read: a loop has any number of them.
_MOST_EVENTS = 1 << 12


class Clock:
    """Adds the time of each step that is launched to `seconds`."""

    def __init__(self, seconds: np.ndarray) -> None:
        self.seconds = seconds
        self._open: list[tuple[int, Event, Event]] = []

    def launch(self, number: int, stream: Stream, launch: Callable[[int, Stream], None]) -> None:
        start, stop = Event(timing=True), Event(timing=True)
        start.record(stream)
        launch(number, stream)
        stop.record(stream)
        self._open.append((number, start, stop))
        if len(self._open) >= _MOST_EVENTS:
            self.read()

    def read(self) -> None:
        """Wait for what was launched."""
        for number, start, stop in self._open:
            stop.synchronize()
            self.seconds[number] += start.elapsed_time(stop) / 1e3
        self._open.clear()


class Activation:
    """What one run of a program at a time needs, on one stream."""

    def __init__(self, program: Program, stream: Stream) -> None:
        self.program = program
        self.stream = stream
        self.words = program.plan.words.copy()
        self.words_address = self.words.ctypes.data
        self.bases = np.zeros(program.plan.base_count, np.int64)
        symbols = program.plan.symbols
        self.bases[len(self.bases) - len(symbols) :] = [symbol_address(name) for name in symbols]
        self.written_bases = b""  # that the words hold
        self.graphs: OrderedDict[bytes, int] = OrderedDict()  # executables by the bases in them
        self.runs = 0
        self.host_values: Allocation | None = None  # where inputs from the host go
        self.block = b""  # what they are
        self.stretches: Stretches | None = None  # of walks
        self.device_loops: DeviceLoops | None = None
        self.number = np.zeros(1, np.int64)  # that rows write to the device
        self.pinned: ctypes.c_int64 | None = None  # where those go that rows read from it
        self.record: Allocation | None = None  # of errors that kernels find
        # Kept, so that its address stays that of the captured graphs.
        self.arena: Allocation | None = None
        if 0 < program.plan.arena_bytes <= _KEPT_ARENA_BYTES:
            self.arena = allocate(program.plan.arena_bytes, stream)

    def __del__(self) -> None:
        pinned = getattr(self, "pinned", None)
        if pinned is not None:
            give_back_pinned_number(self.program.driver, self.program.device, pinned)
        # Without these if making this was interrupted.
        executables = list(getattr(self, "graphs", {}).values())
        for each in (getattr(self, "stretches", None), getattr(self, "device_loops", None)):
            if each is not None:
                executables += each.executables()
        if not executables:
            return
        driver = self.program.driver
        if driver is running_driver() and not driver.is_lost:
            with active(self.program.device):
                for executable in executables:
                    driver.destroy_executable(executable)

    def run(self, inputs: Sequence[Any], clock: Clock | None = None) -> list[DeviceArray]:
        program, plan, stream = self.program, self.program.plan, self.stream
        bases = self.bases
        self._place_inputs(inputs)
        outputs = [empty(shape, dtype, program.device, stream) for shape, dtype in plan.outputs]
        first = plan.input_count
        for number, output in enumerate(outputs, start=first):
            bases[number] = output.address
        first += len(outputs)
        # A large one goes back in the order of the stream: after this run.
        arena = self.arena
        if arena is None and plan.arena_bytes:
            arena = allocate(plan.arena_bytes, stream)
        bases[first] = arena.address if arena is not None else 0
        if plan.sites and self.record is None:
            self.record = checks.new_record(stream)
        bases[first + 1] = self.record.address if self.record is not None else 0
        bases[first + 3] = self.words_address
        program.driver.note_launch(stream.handle, program.name)
        graph = self._graph() if clock is None and program.is_captured and self.runs else None
        if graph is None:
            self._write_words()
            self._launch_all(stream, clock)
        else:
            program.driver.launch_graph(graph, stream.handle)
        self.runs += 1
        if self.record is not None:
            checks.add(self.record, plan.sites)
        return outputs

    def _place_inputs(self, inputs: Sequence[Any]) -> None:
        """The addresses of the inputs; what is on the host is copied, all of it at once."""
        on_host: list[tuple[int, np.ndarray]] = []
        self.block = b""
        for number, value in enumerate(inputs):
            if isinstance(value, DeviceArray):
                value.wait_for_writer(self.stream)
                self.bases[number] = value.address
            else:
                on_host.append((number, value))
        if not on_host:
            return
        offsets: list[int] = []
        nbytes = 0
        for _, value in on_host:
            offsets.append(nbytes)
            nbytes += -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
        if self.host_values is None or self.host_values.nbytes < nbytes:
            # The plan's own, so that its address stays that of the captured graph.
            self.host_values = allocate(max(nbytes, 1), self.stream)
        block = np.zeros(nbytes, np.uint8)
        for (number, value), offset in zip(on_host, offsets, strict=True):
            block[offset : offset + value.nbytes] = value.reshape(-1).view(np.uint8)
            self.bases[number] = self.host_values.address + offset
        self.block = block.tobytes() if self.program.has_rows else b""
        if nbytes:
            # Of pageable memory the driver has a copy when it returns, if it is small.
            driver = self.program.driver
            driver.copy_to_device(
                self.host_values.address, block.ctypes.data, nbytes, self.stream.handle
            )
            if nbytes > STAGED_BYTES:
                driver.synchronize_stream(self.stream.handle)

    def _write_words(self) -> None:
        bases = self.bases.tobytes()
        if bases == self.written_bases:
            return
        program = self.program
        self.words[program.targets] = self.bases[program.bases_of_words] + program.offsets
        self.written_bases = bases

    def _launch_all(
        self, stream: Stream, clock: Clock | None = None, nodes: ConditionalNodes | None = None
    ) -> None:
        """`nodes`: where a graph is captured that has choices."""

        def launch(first: int, end: int) -> None:
            for number in range(first, end):
                if clock is None:
                    self._launch(number, stream if nodes is None else nodes.stream)
                else:
                    clock.launch(number, stream, self._launch)

        program = self.program
        if not program.has_rows:
            launch(0, len(program.steps))
        elif program.is_captured or clock is not None:
            self._walk(stream, launch, nodes=nodes)
        else:
            if self.stretches is None:
                self.stretches = Stretches(
                    program.driver,
                    stream,
                    program.starts,
                    program.can_be_repeated,
                    self.words,
                    program.launch,
                )
                if program.build is not None:
                    self.device_loops = DeviceLoops(
                        program.driver,
                        stream,
                        program.starts,
                        program.can_be_repeated,
                        program.launch,
                        program.deciding,
                    )
            self.stretches.begin()
            self._walk(stream, self.stretches.add, self.stretches.end, self.device_loops)

    # Rows that decide which step comes next

    def _walk(
        self,
        stream: Stream,
        launch: Callable[[int, int], None],
        finish: Callable[[], None] = lambda: None,
        loops: DeviceLoops | None = None,
        nodes: ConditionalNodes | None = None,
    ) -> None:
        """`finish` launches what `launch` may have put off; `loops` has the device go on; to
        `nodes` all branches are captured."""
        program = self.program

        def read(address: int, nbytes: int) -> int:
            own = self._own_number(address, nbytes)
            if own is not None:
                return own
            finish()
            return self._read(stream, address, nbytes)

        def write(address: int, number: int) -> None:
            finish()
            self.number[0] = number
            # Of pageable memory the driver has a copy when it returns.
            program.driver.copy_to_device(
                address, self.number.ctypes.data, self.number.nbytes, stream.handle
            )

        bars = None
        if program.shown_loops:
            bars = Bars(program.shown_loops, lambda address: walk.number(address))

        def look(step: int) -> None:
            if stream is not self.stream:
                return  # while a graph is captured nothing runs
            finish()
            # Without what failed a loop may never end.
            if self.record is not None:
                checks.add(self.record, program.plan.sites)
                checks.check(program.device)
            if bars is not None:
                bars.show(self.words, step)

        def go_on(leave: int) -> int | None:
            if loops is None:
                return None
            return loops.go_on(walk, leave, finish, lambda address: self._read(stream, address, 8))

        def choose(index: int, steps: list[int], meeting: int) -> int:
            assert nodes is not None
            nodes.choose(index, [functools.partial(walk.walk, step, meeting) for step in steps])
            return meeting

        fork = None if nodes is None else choose
        walk = Walk(program.steps, program.ends, self.words, launch, read, write, look, go_on, fork)
        is_finished = False
        try:
            walk.run()
            finish()
            is_finished = True
        finally:
            if bars is not None:
                bars.close(self.words, is_finished=is_finished)

    def _own_number(self, address: int, nbytes: int) -> int | None:
        """What the host gave to the device for this run, if that is what is there."""
        if self.host_values is None:
            return None
        place = address - self.host_values.address
        if not 0 <= place < len(self.block):
            return None
        return int.from_bytes(self.block[place : place + nbytes], sys.byteorder, signed=True)

    def _read(self, stream: Stream, address: int, nbytes: int) -> int:
        # Not here while it is used: where an exception comes, a copy may still be under way.
        number, self.pinned = self.pinned, None
        if number is None:
            number = take_pinned_number(stream.device.index)
        number.value = 0
        self.program.driver.copy_to_pinned(ctypes.addressof(number), address, nbytes, stream.handle)
        self.pinned = number
        return number.value

    def _launch_in_branches(self, streams: list[Stream], turns: list[Turn]) -> None:
        """Into a graph: what does not depend on each other goes to different streams, which all
        start from the first one and come back to it."""
        events: dict[int, Event] = {}
        waited_for = {step for turn in turns for step in turn.waits}
        start = Event().record(streams[0])
        is_in_use = [stream is streams[0] for stream in streams]
        for number, turn in enumerate(turns):
            stream = streams[turn.stream]
            if not is_in_use[turn.stream]:
                start.wait(stream)
                is_in_use[turn.stream] = True
            for other in turn.waits:
                events[other].wait(stream)
            self._launch(number, stream)
            if number in waited_for:
                events[number] = Event().record(stream)
        for stream, is_used in zip(streams[1:], is_in_use[1:], strict=True):
            if is_used:
                Event().record(stream).wait(streams[0])

    def _launch(self, number: int, stream: Stream) -> None:
        program = self.program
        program.launch(number, stream, self.words_address + 8 * program.starts[number])

    def _graph(self) -> int | None:
        """The captured launches, with the addresses of this run; None where the driver has no nodes
        that choose: then the host does, from now on."""
        key = self.bases.tobytes()
        found = self.graphs.get(key)
        if found is not None:
            self.graphs.move_to_end(key)
            return found
        program = self.program
        self._write_words()

        # Before anything is captured: it may wait for the device.
        deciding = program.deciding() if program.has_choices else None

        def launch(streams: list[Stream]) -> None:
            if program.turns is not None:
                self._launch_in_branches(streams, program.turns)
                return
            nodes = None
            if deciding is not None:
                nodes = ConditionalNodes(program.driver, streams[0], deciding)
            self._launch_all(streams[0], nodes=nodes)

        def take_oldest() -> int | None:
            is_full = len(self.graphs) >= _KEPT_GRAPHS
            return self.graphs.popitem(last=False)[1] if is_full else None

        try:
            executable = graphs.executable(program.driver, program.device, launch, take_oldest)
        except DriverError as error:
            if not program.has_choices:
                raise
            say_refused(error)
            program.is_captured = False
            return None
        self.graphs[key] = executable
        return executable


def loaded_function(driver: Driver, device: int, kernel: DeviceCode) -> int:
    """The kernel, loaded on a device once."""
    key = ("function", device, kernel)
    found = driver.kept.get(key)
    if found is None:
        with driver.capturing:  # loading may wait for the device
            found = driver.kept.get(key)
            if found is None:
                module = driver.load_module(kernel.code)
                found = driver.kept[key] = driver.function(module, kernel.entry_name)
    return found


def _can_be_captured(kernel: Any) -> bool:
    call: HostCall = kernel
    return not callable(kernel) or call.is_capturable


def _name(kernels: Sequence[Any]) -> str:
    """What the plan computes, for the message of a kernel that fails."""
    names: dict[str, None] = {}
    for kernel in kernels:
        names.update(dict.fromkeys(_operations(kernel.source)))
    listed = list(names)
    more = ", ..." if len(listed) > _MOST_NAMES else ""
    return ", ".join(listed[:_MOST_NAMES]) + more


@functools.lru_cache(maxsize=1 << 12)
def _operations(source: str) -> tuple[str, ...]:
    """The operations that a kernel's comments name: "# add: float64, 1-d"."""
    lines = [line.strip() for line in source.splitlines()]
    return tuple(
        [line[2:].partition(":")[0] for line in lines if line.startswith("# ") and ":" in line]
    )
