"""Loops that go by values, gone on with by the device alone: conditional nodes of captured graphs
(`loop_nodes.py`).

The host only says how often the device may decide on a trip, of the loop or of one inside, so that
it comes by often enough to see errors and Ctrl-C; and goes on where the device stopped.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from numba_grad.runtime.cuda import graphs
from numba_grad.runtime.cuda.conditional_nodes import (
    ConditionalNodes,
    Deciding,
    answer_of,
    say_refused,
)
from numba_grad.runtime.cuda.interface import Driver, DriverError
from numba_grad.runtime.cuda.loop_nodes import LoopNodes, Stop
from numba_grad.runtime.cuda.memory import Allocation, allocate
from numba_grad.runtime.cuda.rows import HostNeededError, PlacesOfLoop, Walk
from numba_grad.runtime.cuda.streams import Stream
from numba_grad.runtime.cuda.stretches import Launch

# How many times the host comes to the same words before they get a graph, which takes 0.3 ms to
# make (on an H200) and saves some 15 us each time.
_FEWEST_SEEN = 16
_MOST_SEEN = 64
_MOST_GRAPHS = 4  # of one loop
# Decisions that the host allows at first; it aims at so many seconds.
_FIRST_TRIPS = 64
_MOST_TRIPS = 1 << 20
_SECONDS = 0.02


@dataclass(slots=True)
class _Graph:
    executable: int
    period: int  # trips until the loop's words come round
    stops: list[Stop]


class _Loop:
    """What is known of one loop."""

    __slots__ = ("graphs", "is_refused", "missed", "most_trips", "places", "seen")

    def __init__(self, places: PlacesOfLoop) -> None:
        self.places = places
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
        self._decisions: Allocation | None = None  # the numbers of `DECISION_SOURCE`
        self._numbers = np.zeros(3, np.int64)  # the same, on their way

    def executables(self) -> list[int]:
        """All there are, for who destroys them."""
        return [each.executable for loop in self._loops.values() for each in loop.graphs.values()]

    def go_on(
        self, walk: Walk, leave: int, finish: Callable[[], None], read: Callable[[int], int]
    ) -> int | None:
        """Let the device do trips of the loop that the walk may leave at this step.

        Returns the step that comes next then, or None if nothing was done: the loop's words are
        new, or too few trips were seen with them. `finish` launches what the walk came to before,
        and `read` reads an int64 of the device.
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
        # So that, if no loop is inside, the words are those of this graph again when the host has
        # done one trip more.
        most = max(most - (most + 1) % graph.period, 1)
        finish()
        began = time.monotonic()
        self._numbers[:] = most + 1, -1, 0  # the first decision is on the first trip
        address, stream = self._decisions_address(), self._stream.handle
        # Of pageable memory the driver has a copy when it returns.
        self._driver.copy_to_device(
            address, self._numbers.ctypes.data, self._numbers.nbytes, stream
        )
        self._driver.launch_graph(graph.executable, stream)
        trips, place, goes_on = answer_of(read(address + 16))
        stop = graph.stops[place]
        walk.stand(stop.standing, loop.places)
        walk.count_trips(leave, trips)
        seconds = time.monotonic() - began
        if goes_on and seconds < _SECONDS / 2:
            loop.most_trips = min(2 * loop.most_trips, _MOST_TRIPS)
        elif seconds > 2 * _SECONDS:
            loop.most_trips = max(loop.most_trips // 2, 1)
        return walk.step_of(stop.leave) + 1 if goes_on else walk.after_loop(leave)

    def _graph(self, loop: _Loop, walk: Walk, leave: int) -> _Graph | None:
        """The graph of the trips from here on, if there is one or it pays."""
        key = walk.words[loop.places.recurring].tobytes()
        found = loop.graphs.get(key)
        if found is not None:
            loop.missed = 0
            loop.graphs.move_to_end(key)
            return found
        if not loop.pays(key):
            return None
        found = self._captured(loop, walk, leave)
        if found is None:
            loop.is_refused = True
        else:
            loop.graphs[key] = found
        return found

    def _captured(self, loop: _Loop, walk: Walk, leave: int) -> _Graph | None:
        """The graph, if the device can do all of it."""

        def written(nodes: ConditionalNodes | None, numbers: int) -> LoopNodes:
            return LoopNodes(
                walk, nodes, self._starts, self._can_be_repeated, self._launch, numbers
            )

        try:
            written(None, 0).write(leave)
        except HostNeededError:
            return None
        # Before anything is captured: it may wait for the device.
        kernels, numbers = self._deciding(), self._decisions_address()
        period, stops = 0, []

        def capture(streams: list[Stream]) -> None:
            nonlocal period, stops
            own = written(ConditionalNodes(self._driver, streams[0], kernels), numbers)
            period, stops = own.write(leave), own.stops

        device = self._stream.device.index
        try:
            executable = graphs.executable(self._driver, device, capture, loop.take_oldest)
        except DriverError as error:
            say_refused(error)
            return None
        return _Graph(executable, period, stops)

    def _decisions_address(self) -> int:
        if self._decisions is None:
            self._decisions = allocate(self._numbers.nbytes, self._stream)
        return self._decisions.address
