"""Loops that go by values as nodes of captured graphs, loops inside of them included.

Trips are captured until the loop's words come round, as pointers to the rings of what is carried
do. After each a small kernel decides whether there is another one:

    decide; while: (trip; decide; if: (trip; decide; ...))

Each `if` is in the one before: its trip follows where the words have not come round yet. Where a
loop inside is left decides what the words are that say where its results lie. So what comes behind
it, up to the next decision on the loop around it, is captured for each way of leaving it:

    trip = ...; decide; while: (...); switch: (rest; decide) or (rest; decide) ...

So is what comes behind a choice with such loops in its branches, for each of these.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from numba_grad.immutable import NamedTuple
from numba_grad.runtime.cuda.conditional_nodes import ConditionalNodes
from numba_grad.runtime.cuda.interface import NodeKind
from numba_grad.runtime.cuda.rows import HostNeededError, PlacesOfLoop, Standing, Walk
from numba_grad.runtime.cuda.stretches import Launch

# Of a graph: trips until words come round, steps, and nodes, which take 0.1 ms each to make.
_MOST_TRIPS = 8
_MOST_STEPS = 1 << 10
_MOST_NODES = 24
# Trips that a loop inside has at least, if it may be one: the device does not count them.
_FEWEST_ALLOWED = 1 << 32


class Stop(NamedTuple):
    """Where the device may stop: the row that may leave a loop, and what the walk is like there."""

    leave: int
    standing: Standing


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop that is being written."""

    leave: int
    places: PlacesOfLoop
    conditions: list[int]  # the loop's, and those of the rest of its trips
    behind: int  # the condition of what is behind it
    around: "_Loop | None"
    # After no trip, one, and so on: numbers of stops, and words that recur.
    stops: list[int] = field(default_factory=list)
    words: list[np.ndarray] = field(default_factory=list)
    trip: int = 0  # that is written
    is_split: bool = False  # whether the rest of that was written, in branches

    def following(self, trip: int) -> int:
        """The condition of what comes after a trip."""
        return self.conditions[(trip + 1) % len(self.conditions)]


class LoopNodes:
    """One loop, written from where a walk is.

    Parameters
    ----------
    walk : which is not changed
    nodes : None where it is only seen whether this can be done
    starts : where the words of each step begin
    can_be_repeated : whether graphs can repeat a step, for each
    launch : launches one step
    numbers : the address of those of `DECISION_SOURCE`
    """

    def __init__(
        self,
        walk: Walk,
        nodes: ConditionalNodes | None,
        starts: Sequence[int],
        can_be_repeated: Sequence[bool],
        launch: Launch,
        numbers: int,
    ) -> None:
        self._walk = walk.copied(self._launch_all, self._choose, self._inside)
        self._nodes, self._starts = nodes, starts
        self._can_be_repeated, self._launch, self._numbers = can_be_repeated, launch, numbers
        self._steps = self._node_count = 0
        self._places: PlacesOfLoop | None = None  # of the outermost loop
        self._loop: _Loop | None = None  # of which a trip is walked
        self.stops: list[Stop] = []

    def write(self, leave: int) -> int:
        """The loop that this row may leave; after how many trips its words come round."""
        self._places = self._walk.places_of_loop(leave)
        return len(self._written(leave).conditions)

    def _written(self, leave: int, around: _Loop | None = None, behind: int = 0) -> _Loop:
        places = self._walk.places_of_loop(leave)
        if self._walk.trips_left(leave) <= _MOST_TRIPS:
            raise HostNeededError  # the walk would come to its end
        trips = self._trips_until_words_recur(leave, places.recurring)
        conditions = [self._new_condition() for _ in range(trips)]
        loop = _Loop(leave, places, conditions, behind, around)
        self._decide(loop, -1)
        self._add(NodeKind.WHILE, conditions[0], [functools.partial(self._write_trip, loop, 0)])
        return loop

    def _write_trip(self, loop: _Loop, trip: int) -> None:
        """A trip, and those that follow it until words come round."""
        loop.trip = trip
        self._write_rest(loop, self._walk.step_of(loop.leave) + 1)
        if trip + 1 < len(loop.conditions):
            following = functools.partial(self._write_trip, loop, trip + 1)
            self._add(NodeKind.IF, loop.conditions[trip + 1], [following])

    def _write_rest(self, loop: _Loop, step: int) -> None:
        """From a step of a trip on, with the decision on the next one."""
        self._loop, loop.is_split = loop, False
        self._walk.walk(step, self._walk.step_of(loop.leave))
        if not loop.is_split:
            self._decide(loop, loop.trip)

    def _standing(self) -> Standing:
        assert self._places is not None
        return self._walk.standing(self._places)

    def _write_branch(self, loop: _Loop, step: int, standing: Standing) -> None:
        """The rest of a trip, from a step and with words of its own."""
        assert self._places is not None
        self._walk.stand(standing, self._places)
        self._write_rest(loop, step)

    def _inside(self, leave: int) -> int:
        """The walk has come to a loop inside: it, and the rest of the trip for each way out."""
        walk, around = self._walk, self._loop
        assert around is not None
        if walk.trips_left(leave) < _FEWEST_ALLOWED or walk.is_shown(leave):
            raise HostNeededError
        behind = self._new_condition()
        loop = self._written(leave, around, behind)
        step = walk.after_loop(leave)
        branches = [
            functools.partial(self._write_branch, around, step, self.stops[stop].standing)
            for stop in loop.stops
        ]
        self._add(NodeKind.SWITCH, behind, branches)
        around.is_split = True
        return walk.step_of(around.leave)

    def _choose(self, index: int, steps: list[int], meeting: int) -> int:
        """The walk has come to a choice: its branches, with the rest of the trip in each of them if
        there are loops in them, which the device may stop in."""
        walk, loop = self._walk, self._loop
        assert loop is not None
        self._count_node()
        is_split = walk.may_leave(min(steps), meeting)
        if is_split:
            here = self._standing()
            write = [functools.partial(self._write_branch, loop, step, here) for step in steps]
        else:
            write = [functools.partial(walk.walk, step, meeting) for step in steps]
        if self._nodes is not None:
            self._nodes.choose(index, write)
        else:
            for branch in write:
                branch()
        if not is_split:
            return meeting
        loop.is_split = True
        return walk.step_of(loop.leave)

    def _decide(self, loop: _Loop, trip: int) -> None:
        """After a trip, or before the first one."""
        walk, after, around = self._walk, (trip + 1) % len(loop.conditions), loop.around
        words = walk.words[loop.places.recurring]
        if after == len(loop.stops):
            loop.stops.append(len(self.stops))
            loop.words.append(words)
            self.stops.append(Stop(loop.leave, self._standing()))
        elif not np.array_equal(words, loop.words[after]):
            raise HostNeededError  # they depend on the way out of a loop inside
        if self._nodes is None:
            return
        first = loop.conditions[0]
        following = loop.following(trip)
        entered = [following, first]
        if trip < 0 and around is not None:
            entered = [around.following(around.trip), around.conditions[0]]
        self._nodes.decide(
            walk.address_of_condition(loop.leave),
            self._numbers,
            loop.stops[after],
            following,
            first,
            loop.behind,
            after,
            len(loop.conditions) if around is not None else 0,
            *entered,
        )

    def _trips_until_words_recur(self, leave: int, places: np.ndarray) -> int:
        steps = 0

        def count(first: int, end: int) -> None:
            nonlocal steps
            steps += end - first
            if steps > _MOST_STEPS:
                raise HostNeededError

        trial = self._walk.copied(
            count,
            lambda _, steps, meeting: trial.walk_all(steps, meeting),
            lambda inside: trial.after_loop(inside),
        )
        before, leaving = trial.words[places], trial.step_of(leave)
        for trips in range(1, _MOST_TRIPS + 1):
            trial.walk(leaving + 1, leaving)
            if np.array_equal(trial.words[places], before):
                return trips
        raise HostNeededError

    # What is given to nodes

    def _new_condition(self) -> int:
        return 0 if self._nodes is None else self._nodes.new_condition()

    def _add(self, kind: NodeKind, condition: int, writes: list[Callable[[], None]]) -> None:
        self._count_node()
        if self._nodes is not None:
            self._nodes.add(kind, condition, writes)
            return
        for write in writes:
            write()

    def _count_node(self) -> None:
        self._node_count += 1
        if self._node_count > _MOST_NODES:
            raise HostNeededError

    def _launch_all(self, first: int, end: int) -> None:
        self._steps += end - first
        if not self._can_be_repeated[first] or self._steps > _MOST_STEPS:
            raise HostNeededError
        if self._nodes is None:
            return
        address = self._walk.words.ctypes.data
        for step in range(first, end):
            self._launch(step, self._nodes.stream, address + 8 * self._starts[step])
