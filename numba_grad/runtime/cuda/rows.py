"""The rows of a plan that decide which step comes next, walked by the host.

Kernels are launched on the way, as often as rows say. The words are in memory of the host, as is
what schedules decide; a condition that kernels compute is read from the device, which waits for
them. Where nothing depends on values, the walk can be captured: the graph repeats the loop.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

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
    ) -> None:
        self._steps, self._ends = steps, ends
        self._words: Any = words.data
        self._first, self._end = words.ctypes.data, words.ctypes.data + words.nbytes
        self._launch, self._read, self._write, self._look = launch, read, write, look
        # Of each loop that was entered: what its REPEAT does to which words.
        self._moves: dict[int, list[tuple[int, int, int, int]]] = {}

    def run(self) -> None:
        steps, ends, launch = self._steps, self._ends, self._launch
        # By their numbers, which count from the end.
        rows: list[Any] = [None] * (1 - min(Control))
        rows[Control.LOOP] = self._enter
        rows[Control.REPEAT] = self._repeat
        rows[Control.LEAVE] = self._leave
        rows[Control.SWITCH] = self._switch
        rows[Control.SKIP] = self._words.__getitem__
        step, count = 0, len(steps)
        monotonic = time.monotonic
        deadline = monotonic() + _SLICE
        while step < count:
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
        if self.number(words[own + _CONDITION_ADDRESS], 1):
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
