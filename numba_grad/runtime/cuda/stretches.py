"""Stretches of a walk that recur are launched as one graph each.

A *stretch* is what a walk launches between two numbers that the host reads from the device, however
many rows are in between: in a loop that goes by values the body, and what computes the condition of
the next trip. Where a trip repeats the steps and words of an earlier one, which it does as soon as
the rings of what is carried have come round, a graph that was captured then is one launch for all.

So the walk only notes what it comes to, with the words as they are then, and it is launched at the
end of the stretch: step by step where the words are new.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from numba_grad.runtime.cuda import graphs
from numba_grad.runtime.cuda.interface import Driver
from numba_grad.runtime.cuda.streams import Stream

# Longer stretches are cut: meanwhile the device may be waiting for the first of these steps.
MOST_JOINED = 64
_MOST_WORDS = 1 << 12
# A loop is known to repeat its words if it does so within so many stretches. As many graphs are
# kept of those that begin at a step; and after more with new words that step is given up, until
# the next run: for instance where each trip stores a row.
_PERIOD = 32
# On an H200 capturing, instantiating and destroying a graph takes 60 us and 3 us for each step, and
# a step saves 3 us each time that it is launched with it. So it pays for itself when what was
# launched step by step, with the same words, comes to so many steps.
_FEWEST_LAUNCHED = 24

# A step: its number, the stream, and the address of its words.
Launch = Callable[[int, Stream, int], None]


class _Beginning:
    """What is known of the stretches that begin at one step."""

    __slots__ = ("graphs", "missed", "seen", "turn")

    def __init__(self) -> None:
        # By steps and words: executables, and the turns in which they were launched last.
        self.graphs: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        # By hashes of these: how many times they were launched step by step.
        self.seen: OrderedDict[int, int] = OrderedDict()
        self.turn = 0
        self.missed = 0  # stretches with new words, one after the other

    def pays(self, key: bytes, count: int) -> bool:
        """Whether these `count` steps, of which there is no graph, should get one."""
        number = hash(key)
        times = self.seen.pop(number, 0)
        self.missed = 0 if times else self.missed + 1
        if times * count >= _FEWEST_LAUNCHED and self._has_room():
            return True
        self.seen[number] = times + 1
        if len(self.seen) > _PERIOD:
            self.seen.popitem(last=False)
        return False

    def _has_room(self) -> bool:
        if len(self.graphs) < _PERIOD:
            return True
        # What is still in use stays: of a longer period some stretches are graphs, the same ones.
        _, turn = next(iter(self.graphs.values()))
        return self.turn - turn > 2 * _PERIOD

    def take_oldest(self) -> int | None:
        """The executable that another one takes the place of, if there are enough."""
        if len(self.graphs) < _PERIOD:
            return None
        _, (found, _) = self.graphs.popitem(last=False)
        return found


class Stretches:
    """The graphs of one activation, and the stretch that its walk is in.

    Parameters
    ----------
    driver : of `stream`
    stream : where everything is launched
    starts : where the words of each step begin, and where all words end
    can_be_repeated : whether graphs can repeat a step, for each
    words : of the plan, as the walk changes them
    launch : launches one step
    """

    def __init__(
        self,
        driver: Driver,
        stream: Stream,
        starts: Sequence[int],
        can_be_repeated: Sequence[bool],
        words: np.ndarray,
        launch: Launch,
    ) -> None:
        self._driver, self._stream, self._launch = driver, stream, launch
        self._starts, self._can_be_repeated = starts, can_be_repeated
        self._words, self._words_address = words.data, words.ctypes.data
        noted = np.empty(_MOST_WORDS, np.int64)
        self._noted, self._noted_address = noted.data, noted.ctypes.data
        self._beginnings: dict[int, _Beginning] = {}
        # Of the stretch: what is known of its first step; whether it is launched as it comes; its
        # parts, as first step, end, and where their words are noted, behind the first step.
        self._beginning: _Beginning | None = None
        self._is_direct = False
        self._parts: list[tuple[int, int, int]] = []
        self._noted_words = self._noted_steps = 0

    def begin(self) -> None:
        """A walk begins: nothing is noted, and nothing given up."""
        for beginning in self._beginnings.values():
            beginning.missed = 0

    def add(self, step: int, end: int) -> None:
        """The walk has come to these steps, which can be repeated if the first one can."""
        first, last = self._starts[step], self._starts[end]
        size, place = last - first, self._noted_words + 1
        if not self._can_be_repeated[step] or size >= _MOST_WORDS:
            self.end()
            self._launch_each([(step, end, first)], self._words_address, self._stream)
            return
        if place + size > _MOST_WORDS or self._noted_steps + end - step > MOST_JOINED:
            self.end()
            place = 1
        if self._beginning is None:
            beginning = self._beginnings.get(step)
            if beginning is None:
                beginning = self._beginnings[step] = _Beginning()
            self._beginning, self._is_direct = beginning, beginning.missed > _PERIOD
        if self._is_direct:
            self._launch_each([(step, end, first)], self._words_address, self._stream)
            return
        self._noted[place - 1] = step
        self._noted[place : place + size] = self._words[first:last]
        self._parts.append((step, end, place))
        self._noted_words = place + size
        self._noted_steps += end - step

    def end(self) -> None:
        """Launch what is noted: the walk needs it done, or what comes next is no part of it."""
        beginning, parts = self._beginning, self._parts
        if beginning is None:
            return
        words, steps = self._noted_words, self._noted_steps
        self._beginning, self._parts, self._noted_words, self._noted_steps = None, [], 0, 0
        if steps > 1:
            executable = self._graph(beginning, parts, self._noted[:words].tobytes(), steps)
            if executable is not None:
                self._driver.launch_graph(executable, self._stream.handle)
                return
        self._launch_each(parts, self._noted_address, self._stream)

    def executables(self) -> list[int]:
        """All there are, for who destroys them."""
        beginnings = self._beginnings.values()
        return [executable for each in beginnings for executable, _ in each.graphs.values()]

    def _launch_each(
        self, parts: Sequence[tuple[int, int, int]], address: int, stream: Stream
    ) -> None:
        starts = self._starts
        for first, end, place in parts:
            words = address + 8 * (place - starts[first])
            for step in range(first, end):
                self._launch(step, stream, words + 8 * starts[step])

    def _graph(
        self, beginning: _Beginning, parts: Sequence[tuple[int, int, int]], key: bytes, count: int
    ) -> int | None:
        """The executable of these parts, of `count` steps in all, if there is one or it pays."""
        beginning.turn += 1
        found = beginning.graphs.pop(key, None)
        if found is not None:
            executable, _ = found
            beginning.missed = 0
        elif beginning.pays(key, count):
            executable = graphs.executable(
                self._driver,
                self._stream.device.index,
                lambda streams: self._launch_each(parts, self._noted_address, streams[0]),
                beginning.take_oldest,
            )
        else:
            return None
        beginning.graphs[key] = executable, beginning.turn
        return executable
