"""Loops that go by values, gone on with by the device alone: conditional nodes of captured graphs.

Where the words of a loop's steps come round after some trips, as pointers to the rings of what is
carried do, these trips are one graph, in which a small kernel decides after each whether there is
another one:

    decide; while: (trip; decide; if: (trip; decide; ...))

Each `if` is in the one before: its trip follows where the words have not come round yet. The host
only says how many trips there may be, so that it comes by often enough to see errors and Ctrl-C.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from numba_grad.runtime.cuda import graphs
from numba_grad.runtime.cuda.conditional_nodes import ConditionalNodes, Deciding, say_refused
from numba_grad.runtime.cuda.interface import Driver, DriverError
from numba_grad.runtime.cuda.memory import Allocation, allocate
from numba_grad.runtime.cuda.rows import NumberOfDeviceError, Walk
from numba_grad.runtime.cuda.streams import Stream
from numba_grad.runtime.cuda.stretches import Launch

# Trips until words come round, steps of all of them, and choices, which take 0.1 ms each to make.
_MOST_TRIPS_OF_A_GRAPH = 8
_MOST_STEPS_OF_A_GRAPH = 1 << 10
_MOST_CHOICES = 16
# How many times the host comes to the same words before they get a graph, which takes 0.3 ms to
# make (on an H200) and saves some 15 us each time.
_FEWEST_SEEN = 16
_MOST_SEEN = 64
_MOST_GRAPHS = 4  # of one loop
# Trips that the host allows at first; it aims at so many seconds.
_FIRST_TRIPS = 64
_MOST_TRIPS = 1 << 20
_SECONDS = 0.02


@dataclass(slots=True)
class _Graph:
    executable: int
    words: list[np.ndarray]  # of the loop, after no trip, one, and so on


class _Loop:
    """What is known of one loop."""

    __slots__ = ("graphs", "is_refused", "missed", "most_trips", "places", "seen")

    def __init__(self, places: np.ndarray) -> None:
        self.places = places  # of its words
        self.graphs: OrderedDict[bytes, _Graph] = OrderedDict()  # by its words
        self.seen: OrderedDict[bytes, int] = OrderedDict()  # how many times
        self.missed = 0  # words that are new, one after the other
        self.is_refused = False
        self.most_trips = _FIRST_TRIPS

    def pays(self, key: bytes) -> bool:
        """Whether these words, of which there is no graph, should get one."""
        times = self.seen.pop(key, 0)
        self.missed = 0 if times else self.missed + 1
        if times >= _FEWEST_SEEN:
            return True
        self.seen[key] = times + 1
        if len(self.seen) > _MOST_SEEN:
            self.seen.popitem(last=False)
        self.is_refused = self.missed > _MOST_SEEN
        return False

    def take_oldest(self) -> int | None:
        """The executable that another one takes the place of, if there are enough."""
        if len(self.graphs) < _MOST_GRAPHS:
            return None
        _, oldest = self.graphs.popitem(last=False)
        return oldest.executable


class DeviceLoops:
    """The graphs of one activation.

    Parameters
    ----------
    driver : of `stream`
    stream : where everything is launched
    starts : where the words of each step begin, and where all words end
    can_be_repeated : whether graphs can repeat a step, for each
    launch : launches one step: its number, the stream, the address of its words
    deciding : gives the kernels of conditional nodes, when they are needed
    """

    def __init__(
        self,
        driver: Driver,
        stream: Stream,
        starts: Sequence[int],
        can_be_repeated: Sequence[bool],
        launch: Launch,
        deciding: Callable[[], Deciding],
    ) -> None:
        self._driver, self._stream = driver, stream
        self._starts, self._can_be_repeated = starts, can_be_repeated
        self._launch, self._deciding = launch, deciding
        self._loops: dict[int, _Loop] = {}
        self._decisions: Allocation | None = None  # on the device: how many there may be
        self._number = np.zeros(1, np.int64)  # the same, on its way

    def executables(self) -> list[int]:
        """All there are, for who destroys them."""
        return [each.executable for loop in self._loops.values() for each in loop.graphs.values()]

    def go_on(
        self, walk: Walk, leave: int, finish: Callable[[], None], read: Callable[[int], int]
    ) -> bool | None:
        """Let the device do trips of the loop that the walk may leave at this step.

        Returns whether the loop goes on after them, or None if nothing was done: then its words
        are new, or too few trips were seen with them. `finish` launches what the walk came to
        before, and `read` reads an int64 of the device.
        """
        loop = self._loops.get(leave)
        if loop is None:
            loop = self._loops[leave] = _Loop(walk.places_of_loop(leave))
        most = min(loop.most_trips, walk.trips_left(leave))
        if loop.is_refused or most < 1:
            return None
        graph = self._graph(loop, walk, leave)
        if graph is None:
            return None
        # So that the words are those of this graph again when the host has done one trip more.
        period = len(graph.words)
        most = max(most - (most + 1) % period, 1)
        finish()
        began = time.monotonic()
        self._number[0] = most + 1  # the first decision is on the first trip
        address, stream = self._decisions_address(), self._stream.handle
        # Of pageable memory the driver has a copy when it returns.
        self._driver.copy_to_device(address, self._number.ctypes.data, self._number.nbytes, stream)
        self._driver.launch_graph(graph.executable, stream)
        left = read(address)
        goes_on = left >= 0
        trips = most - (left if goes_on else -left - 1)
        walk.words[loop.places] = graph.words[trips % period]
        walk.count_trips(leave, trips)
        seconds = time.monotonic() - began
        if goes_on and seconds < _SECONDS / 2:
            loop.most_trips = min(2 * loop.most_trips, _MOST_TRIPS)
        elif seconds > 2 * _SECONDS:
            loop.most_trips = max(loop.most_trips // 2, 1)
        return goes_on

    def _graph(self, loop: _Loop, walk: Walk, leave: int) -> _Graph | None:
        """The graph of the trips from here on, if there is one or it pays."""
        key = walk.words[loop.places].tobytes()
        found = loop.graphs.get(key)
        if found is not None:
            loop.missed = 0
            loop.graphs.move_to_end(key)
            return found
        if not loop.pays(key):
            return None
        words = self._words_of_trips(walk, leave, loop.places)
        if words is None:
            loop.is_refused = True
            return None
        # Before anything is captured: it may wait for the device.
        kernels, decisions = self._deciding(), self._decisions_address()

        def capture(streams: list[Stream]) -> None:
            nodes = ConditionalNodes(self._driver, streams[0], kernels)
            self._capture(nodes, walk, leave, len(words), decisions)

        try:
            executable = graphs.executable(
                self._driver, self._stream.device.index, capture, loop.take_oldest
            )
        except DriverError as error:
            say_refused(error)
            loop.is_refused = True
            return None
        loop.graphs[key] = found = _Graph(executable, words)
        return found

    def _words_of_trips(
        self, walk: Walk, leave: int, places: np.ndarray
    ) -> list[np.ndarray] | None:
        """The loop's words before each trip until they come round; None if they do not, or if
        something in it is no part of graphs."""
        steps = choices = 0
        can_be_repeated = True

        def launch(step: int, end: int) -> None:
            nonlocal steps, can_be_repeated
            steps += end - step
            can_be_repeated &= self._can_be_repeated[step]

        def fork(address: int, branches: list[Callable[[], None]]) -> None:
            nonlocal choices
            choices += 1
            for branch in branches:
                branch()

        trial = walk.copied(launch, fork)
        words: list[np.ndarray] = []
        for _ in range(_MOST_TRIPS_OF_A_GRAPH):
            words.append(trial.words[places])
            try:
                trial.go_round(leave)
            except NumberOfDeviceError:
                return None
            if not can_be_repeated or steps > _MOST_STEPS_OF_A_GRAPH or choices > _MOST_CHOICES:
                return None
            if np.array_equal(trial.words[places], words[0]):
                return words
        return None

    def _capture(
        self,
        nodes: ConditionalNodes,
        walk: Walk,
        leave: int,
        trips: int,
        decisions: int,
    ) -> None:
        """Into the graph that is captured: so many trips."""

        def launch(first: int, end: int) -> None:
            address = own.words.ctypes.data
            for step in range(first, end):
                self._launch(step, nodes.stream, address + 8 * self._starts[step])

        own = walk.copied(launch, nodes.choose)
        goes_on = walk.address_of_condition(leave)
        conditions = [nodes.new_condition() for _ in range(trips)]
        loop = conditions[0]

        def write(trip: int) -> None:
            own.go_round(leave)
            if trip + 1 == trips:
                nodes.decide(goes_on, decisions, loop, loop)
                return
            rest = conditions[trip + 1]
            nodes.decide(goes_on, decisions, rest, loop)
            nodes.follow(rest, lambda: write(trip + 1))

        nodes.decide(goes_on, decisions, loop, loop)
        nodes.repeat(loop, lambda: write(0))

    def _decisions_address(self) -> int:
        if self._decisions is None:
            self._decisions = allocate(self._number.nbytes, self._stream)
        return self._decisions.address
