"""The rows of a plan that decide which step comes next, walked by the host.

Kernels are launched on the way, as often as rows say. The words are in memory of the host, as is
what schedules decide; a condition that kernels compute is read from the device, which waits for
them. Where nothing depends on values, the walk can be captured: the graph repeats the loop.
"""

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from numba_grad.runtime.plan import Control, LeaveWord, LoopWord, MoveWord, Plan

# How often somebody looks whether a kernel has found something wrong, and at bars: seconds.
_SLICE = 0.1


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
        else:
            return None
    return count


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
_LEAVE = int(Control.LEAVE)


class NumberOfDeviceError(Exception):
    """A walk that may not ask the device needs a number of it."""


def _refuse(*_: int) -> Any:
    raise NumberOfDeviceError


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
    go_on : called where a loop may be left by a condition of the device, with that step: whether
        the loop goes on, after trips that it had the device do, or None if it did nothing
    """

    def __init__(
        self,
        steps: Sequence[tuple[int, ...]],
        ends: Sequence[int],
        words: np.ndarray,
        launch: Callable[[int, int], None],
        read: Callable[[int, int], int],
        write: Callable[[int, int], None],
        look: Callable[[int], None],
        go_on: Callable[[int], bool | None] = lambda step: None,
    ) -> None:
        self._steps, self._ends = steps, ends
        self.words = words
        self._words: Any = words.data
        self._first, self._end = words.ctypes.data, words.ctypes.data + words.nbytes
        self._launch, self._read, self._write, self._look = launch, read, write, look
        self._go_on = go_on
        self._step_of_leave = {own: k for k, (kind, own, *_) in enumerate(steps) if kind == _LEAVE}
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
        goes_on = None
        if not self._is_word(condition):
            goes_on = self._go_on(self._step_of_leave[own])
        if goes_on is None:
            goes_on = self.number(condition, 1)
        if goes_on:
            return 0
        passes = words[self._place(words[own + LeaveWord.LOOP_ADDRESS]) + _COUNTER]
        address = words[own + LeaveWord.COUNTER_ADDRESS]
        if self._is_word(address):
            words[self._place(address)] = passes
        else:
            self._write(address, passes)
        return words[own + LeaveWord.SKIPPED]

    def _switch(self, own: int) -> int:
        words = self._words
        chosen = self.number(words[own])
        return words[own + 2 + min(max(chosen, 0), words[own + 1] - 1)]

    # The loop that a LEAVE, by its step, may leave

    def _loop(self, leave: int) -> int:
        own = self._steps[leave][1]
        return self._place(self._words[own + LeaveWord.LOOP_ADDRESS])

    def address_of_condition(self, leave: int) -> int:
        return self._words[self._steps[leave][1] + _CONDITION_ADDRESS]

    def places_of_loop(self, leave: int) -> np.ndarray:
        """Of the words that say what a trip does, and where its results are afterwards; not of the
        number of trips."""
        loop = self._loop(leave)
        address = self._first + 8 * loop
        ends = (own for kind, own, *_ in self._steps[leave:] if kind == Control.REPEAT)
        end = next(own for own in ends if self._words[own] == address)
        moved = [word for word, *_ in self._moves[loop] if not loop < word < end]
        return np.array([*range(loop + _COUNTER + 1, end), *moved])

    def trips_left(self, leave: int) -> int:
        """How many more trips end where the condition is asked, whatever it says."""
        loop = self._loop(leave)
        return self._words[loop + _TRIPS] - self._words[loop + _COUNTER] - 1

    def count_trips(self, leave: int, trips: int) -> None:
        self._words[self._loop(leave) + _COUNTER] += trips

    def trial(self) -> Self:
        """A walk that is where this one is, and changes nothing."""
        trial = copy.copy(self)
        trial.words = self.words.copy()
        trial._words = trial.words.data
        trial._moves = dict(self._moves)
        trial._read = trial._write = _refuse
        trial._go_on = _refuse
        trial._look = lambda step: None
        return trial

    def goes_round(self, leave: int, launch: Callable[[int, int], None]) -> bool:
        """Walk from this step until it comes next again, unless that needs numbers of the
        device."""
        self._launch = launch
        try:
            self._run(leave + 1, leave)
        except NumberOfDeviceError:
            return False
        return True

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
