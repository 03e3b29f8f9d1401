"""The rows of a plan that decide which step comes next, walked by the host.

Kernels are launched on the way, as often as rows say. The words are in memory of the host, as is
what schedules decide; a condition that kernels compute is read from the device, which waits for
them. Where no number of trips depends on values, the walk can be captured: the graph repeats the
loops, and has all branches.
"""

import bisect
import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from numba_grad.immutable import NamedTuple
from numba_grad.runtime.plan import Control, LeaveWord, LoopWord, MoveWord, Plan

# How often somebody looks whether a kernel has found something wrong, and at bars: seconds.
_SLICE = 0.1


# On an H200 a node that chooses takes 0.1 ms to make, again for other addresses, and one that
# launches 3 us. Counted so, a graph has no more than 15 of them (`engine.py`).
_LAUNCHES_OF_A_CHOICE = 1 << 11


def launches_of(plan: Plan) -> int | None:
    """How many steps a run launches; None if that depends on values."""
    return _launches(plan, 0, len(plan.steps))


def _launches(plan: Plan, first: int, end: int) -> int | None:
    count, step = 0, first
    while step < end:
        kernel, position = plan.steps[step, :2].tolist()
        step += 1
        if kernel >= 0:
            count += 1
        elif kernel == Control.LOOP:
            words = plan.words[position : position + LoopWord.END]
            is_relocated = (plan.relocations[:, 0] == position + LoopWord.TRIPS_ADDRESS).any()
            length = int(words[LoopWord.LENGTH])
            inside = _launches(plan, step, step + length)
            if is_relocated or inside is None:
                return None
            count += int(words[LoopWord.TRIPS]) * inside
            step += length + 1
        elif kernel == Control.SKIP:
            step += int(plan.words[position])
        elif kernel == Control.SWITCH and plan.is_elsewhere(position):
            meeting = meeting_of(step - 1, plan.steps, plan.words)
            starts = plan.words[position + 2 : position + 2 + plan.words[position + 1]].tolist()
            branches = [_launches(plan, step + start, meeting) for start in starts]
            if None in branches:
                return None
            count += _LAUNCHES_OF_A_CHOICE + sum(filter(None, branches))
            step = meeting
        else:
            return None
    return count


def meeting_of(switch: int, steps: Any, words: Any) -> int:
    """The step in which the branches of a SWITCH meet: the last row of each leads there."""
    _, own, *_ = steps[switch]
    row = switch + words[own + 3]  # before the second branch
    return int(row + 1 + words[steps[row][1]])


def straight_ends(
    steps: Sequence[tuple[int, ...]], may_be_joined: Sequence[bool], most: int
) -> list[int]:
    """For each step where those end that are launched with it, one after the other: before the next
    row, or step that may not be joined to others, and after `most` of them."""
    ends = list(range(1, len(steps) + 1))
    end = len(steps)
    for number in reversed(range(len(steps))):
        if steps[number][0] < 0 or not may_be_joined[number]:
            end = number
        else:
            ends[number] = min(end, number + most)
    return ends


# As plain numbers: members of an enumeration are looked up, and added, at a few times the price.
_COUNTER, _TRIPS, _TRIPS_ADDRESS = map(
    int, (LoopWord.COUNTER, LoopWord.TRIPS, LoopWord.TRIPS_ADDRESS)
)
_LENGTH = int(LoopWord.LENGTH)
_CONDITION_ADDRESS = int(LeaveWord.CONDITION_ADDRESS)
_COUNTER_ADDRESS = int(LeaveWord.COUNTER_ADDRESS)


class HostNeededError(Exception):
    """A walk that may not ask the device comes to what only the host can do."""


def refuse(*_: int) -> Any:
    raise HostNeededError


# What a walk does with a choice of the device: its address, the steps that branches begin with, and
# that in which they meet; the step that comes next.
Fork = Callable[[int, list[int], int], int]


class Standing(NamedTuple):
    """Where a walk is in a loop: the loop's words, and what is known of those inside that were
    entered."""

    words: np.ndarray
    moves: dict[int, list[tuple[int, int, int, int]]]


class PlacesOfLoop(NamedTuple):
    """Of words that say what the next trip does, and where its results are afterwards, but for its
    counter; `recurring`: without what loops inside begin with anew, or leave behind; and the places
    of these loops."""

    all: np.ndarray
    recurring: np.ndarray
    inside: list[int]


class Walk:
    """One walk through the rows.

    Parameters
    ----------
    steps : those of the plan
    ends : where the straight part ends that begins with a step, see `straight_ends`
    words : filled in, for this walk alone
    launch : does the steps from one number to another
    read, write : an int64 (`read`: or a boolean, of so many bytes) of the device
    look : called every 0.1 s with the step that comes next
    go_on : called where a loop may be left by a condition of the device, with the place of that
        row's words: the step that comes next, after what it had the device do, or None if it did
        nothing
    fork : None where the walk asks the device, and goes one way
    """

    def __init__(
        self,
        steps: Sequence[tuple[int, ...]],
        ends: Sequence[int],
        words: np.ndarray,
        launch: Callable[[int, int], None],
        read: Callable[[int, int], int] = refuse,
        write: Callable[[int, int], None] = refuse,
        look: Callable[[int], None] = lambda step: None,
        go_on: Callable[[int], int | None] = lambda leave: None,
        fork: Fork | None = None,
    ) -> None:
        self._steps, self._ends = steps, ends
        self.words = words
        self._words: Any = words.data
        self._first, self._end = words.ctypes.data, words.ctypes.data + words.nbytes
        self._launch, self._read, self._write, self._look = launch, read, write, look
        self._go_on, self._fork = go_on, fork
        # Of each loop that was entered: what its REPEAT does to which words.
        self._moves: dict[int, list[tuple[int, int, int, int]]] = {}

    def run(self) -> None:
        self._run(0, len(self._steps))

    def _run(self, step: int, last: int) -> None:
        """From a step until another one comes next."""
        steps, ends, launch = self._steps, self._ends, self._launch
        # By their numbers, which count from the end.
        rows: list[Any] = [None] * (1 - min(Control))
        rows[Control.LOOP] = self._enter
        rows[Control.REPEAT] = self._repeat
        rows[Control.LEAVE] = self._leave
        rows[Control.SWITCH] = self._switch
        rows[Control.SKIP] = self._words.__getitem__
        monotonic = time.monotonic
        deadline = monotonic() + _SLICE
        while step != last:
            kernel, own, _, _ = steps[step]
            if kernel >= 0:
                end = ends[step]
                launch(step, end)
                step = end
                continue
            step += 1 + rows[kernel](own)
            if monotonic() > deadline:
                self._look(step)
                deadline = monotonic() + _SLICE

    # What a row does; how many steps it skips.

    def _enter(self, own: int) -> int:
        words = self._words
        if words[own + _TRIPS_ADDRESS]:
            words[own + _TRIPS] = self.number(words[own + _TRIPS_ADDRESS])
        words[own + _COUNTER] = 0
        first = own + LoopWord.END
        end = first + words[own + LoopWord.MOVES] * MoveWord.END
        moves = self._moves[own] = []
        for place in range(first, end, MoveWord.END):
            move = words[place : place + MoveWord.END].tolist()
            target, start, stride, limit, ring, first_address, first_stride = move
            if first_address:
                start += self.number(first_address) * first_stride
            word = self._place(target)
            words[word] = start
            moves.append((word, stride, limit, ring))
        return 0 if words[own + _TRIPS] > 0 else words[own + _LENGTH] + 1

    def _repeat(self, own: int) -> int:
        words = self._words
        loop = (words[own] - self._first) // 8
        for word, stride, limit, ring in self._moves[loop]:
            moved = words[word] + stride
            words[word] = moved - ring if moved >= limit else moved
        passes = words[loop + _COUNTER] = words[loop + _COUNTER] + 1
        return 0 if passes >= words[loop + _TRIPS] else -words[loop + _LENGTH] - 1

    def _leave(self, own: int) -> int:
        words = self._words
        condition = words[own + _CONDITION_ADDRESS]
        if not self._is_word(condition):
            step = self._go_on(own)
            if step is not None:
                return step - self.step_of(own) - 1
        return 0 if self.number(condition, 1) else self._out_of_loop(own)

    def _out_of_loop(self, own: int) -> int:
        words = self._words
        passes = words[self._place(words[own + LeaveWord.LOOP_ADDRESS]) + _COUNTER]
        address = words[own + _COUNTER_ADDRESS]
        if self._is_word(address):
            words[self._place(address)] = passes
        else:
            self._write(address, passes)
        return words[own + LeaveWord.SKIPPED]

    def _switch(self, own: int) -> int:
        words = self._words
        if self._fork is not None and not self._is_word(words[own]):
            return self._all_branches(own)
        chosen = self.number(words[own])
        return words[own + 2 + min(max(chosen, 0), words[own + 1] - 1)]

    def _all_branches(self, own: int) -> int:
        words, first = self._words, self.step_of(own) + 1
        meeting = meeting_of(first - 1, self._steps, words)
        starts = words[own + 2 : own + 2 + words[own + 1]].tolist()
        assert self._fork is not None
        return self._fork(words[own], [first + start for start in starts], meeting) - first

    def step_of(self, own: int) -> int:
        """The row whose words are at this place."""
        return bisect.bisect_right(self._steps, own, key=lambda step: step[1]) - 1

    # The loop that a LEAVE, with its words at a place, may leave

    def _loop(self, leave: int) -> int:
        return self._place(self._words[leave + LeaveWord.LOOP_ADDRESS])

    def address_of_condition(self, leave: int) -> int:
        return self._words[leave + _CONDITION_ADDRESS]

    def places_of_loop(self, leave: int) -> PlacesOfLoop:
        words, loop = self._words, self._loop(leave)
        step = self.step_of(loop)
        repeat = step + 1 + words[loop + _LENGTH]
        _, end, *_ = self._steps[repeat]
        anew: set[int] = set()
        inside: list[int] = []
        for kind, own, *_ in self._steps[step + 1 : repeat]:
            if kind == Control.LOOP:
                inside.append(own)
                anew.update([own + _COUNTER, own + _TRIPS, *self._targets(own)])
            elif kind == Control.LEAVE and self._is_word(words[own + _COUNTER_ADDRESS]):
                anew.add(self._place(words[own + _COUNTER_ADDRESS]))
        places = dict.fromkeys([*range(loop, end), *self._targets(loop)])
        del places[loop + _COUNTER]
        recurring = [place for place in places if place not in anew]
        return PlacesOfLoop(np.array(list(places)), np.array(recurring), inside)

    def _targets(self, loop: int) -> list[int]:
        """The places of the words that a loop moves."""
        words, first = self._words, loop + LoopWord.END
        end = first + words[loop + LoopWord.MOVES] * MoveWord.END
        return [self._place(words[k + MoveWord.TARGET]) for k in range(first, end, MoveWord.END)]

    def trips_left(self, leave: int) -> int:
        """How many more trips end where the condition is asked, whatever it says."""
        loop = self._loop(leave)
        return self._words[loop + _TRIPS] - self._words[loop + _COUNTER] - 1

    def is_shown(self, leave: int) -> bool:
        """Whether somebody looks at its progress."""
        return self._words[self._loop(leave) + LoopWord.SITE] >= 0

    def count_trips(self, leave: int, trips: int) -> None:
        self._words[self._loop(leave) + _COUNTER] += trips

    def after_loop(self, leave: int) -> int:
        """The step that comes next where the loop is left now, which is noted."""
        return self.step_of(leave) + 1 + self._out_of_loop(leave)

    # Walks of their own

    def copied(
        self,
        launch: Callable[[int, int], None],
        fork: Fork,
        go_on: Callable[[int], int | None] = refuse,
    ) -> Self:
        """A walk that is where this one is, changes nothing of it, and asks the device nothing."""
        other = copy.copy(self)
        other.words = self.words.copy()
        other._words = other.words.data
        other._moves = dict(self._moves)
        other._launch, other._fork, other._go_on = launch, fork, go_on
        other._read = other._write = refuse
        other._look = lambda step: None
        return other

    def standing(self, places: PlacesOfLoop) -> Standing:
        entered = [loop for loop in places.inside if loop in self._moves]
        return Standing(self.words[places.all], {loop: self._moves[loop] for loop in entered})

    def stand(self, standing: Standing, places: PlacesOfLoop) -> None:
        """Go where another walk of this loop was."""
        self.words[places.all] = standing.words
        self._moves.update(standing.moves)

    def walk(self, step: int, last: int) -> None:
        """From a step until another one comes next."""
        self._run(step, last)

    def walk_all(self, steps: Sequence[int], last: int) -> int:
        """From each of these until that one comes next, which it does now."""
        for step in steps:
            self._run(step, last)
        return last

    def may_leave(self, first: int, end: int) -> bool:
        """Whether there are loops among these steps that go by values."""
        return any(kind == Control.LEAVE for kind, *_ in self._steps[first:end])

    # Memory

    def _is_word(self, address: int) -> bool:
        return self._first <= address < self._end

    def _place(self, address: int) -> int:
        """The number of the word at an address."""
        return (address - self._first) // 8

    def number(self, address: int, nbytes: int = 8) -> int:
        """What is at an address of the host's words, or of the device."""
        if self._is_word(address):
            return self._words[self._place(address)]
        return self._read(address, nbytes)
