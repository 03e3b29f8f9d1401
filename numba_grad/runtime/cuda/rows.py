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


class Walk:
    """One walk through the rows.

    Parameters
    ----------
    steps : those of the plan
    words : filled in, for this walk alone
    launch : does a step, by its number
    read, write : an int64 (`read`: or a boolean, of so many bytes) of the device
    look : called every 0.1 s with the step that comes next
    """

    def __init__(
        self,
        steps: Sequence[tuple[int, ...]],
        words: np.ndarray,
        launch: Callable[[int], None],
        read: Callable[[int, int], int],
        write: Callable[[int, int], None],
        look: Callable[[int], None],
    ) -> None:
        self._steps = steps
        self._words: Any = words.data
        self._first, self._end = words.ctypes.data, words.ctypes.data + words.nbytes
        self._launch, self._read, self._write, self._look = launch, read, write, look

    def run(self) -> None:
        steps, launch = self._steps, self._launch
        rows = {
            Control.LOOP: self._enter,
            Control.REPEAT: self._repeat,
            Control.LEAVE: self._leave,
            Control.SWITCH: self._switch,
            Control.SKIP: lambda own: self._words[own],
        }
        step, count = 0, len(steps)
        deadline = time.monotonic() + _SLICE
        while step < count:
            kernel, own, *_ = steps[step]
            if kernel >= 0:
                launch(step)
            else:
                step += rows[Control(kernel)](own)
                if time.monotonic() > deadline:
                    self._look(step + 1)
                    deadline = time.monotonic() + _SLICE
            step += 1

    # What a row does; how many steps it skips.

    def _enter(self, own: int) -> int:
        words = self._words
        if words[own + LoopWord.TRIPS_ADDRESS]:
            words[own + LoopWord.TRIPS] = self.number(words[own + LoopWord.TRIPS_ADDRESS])
        words[own + LoopWord.COUNTER] = 0
        for move in self._moves(own):
            start = words[move + MoveWord.START]
            if words[move + MoveWord.FIRST_ADDRESS]:
                first = self.number(words[move + MoveWord.FIRST_ADDRESS])
                start += first * words[move + MoveWord.FIRST_STRIDE]
            words[self._place(words[move + MoveWord.TARGET])] = start
        return 0 if words[own + LoopWord.TRIPS] > 0 else words[own + LoopWord.LENGTH] + 1

    def _repeat(self, own: int) -> int:
        words = self._words
        loop = self._place(words[own])
        words[loop + LoopWord.COUNTER] += 1
        for move in self._moves(loop):
            target = self._place(words[move + MoveWord.TARGET])
            moved = words[target] + words[move + MoveWord.STRIDE]
            if moved >= words[move + MoveWord.LIMIT]:
                moved -= words[move + MoveWord.RING]
            words[target] = moved
        is_done = words[loop + LoopWord.COUNTER] >= words[loop + LoopWord.TRIPS]
        return 0 if is_done else -words[loop + LoopWord.LENGTH] - 1

    def _leave(self, own: int) -> int:
        words = self._words
        if self.number(words[own + LeaveWord.CONDITION_ADDRESS], 1):
            return 0
        passes = words[self._place(words[own + LeaveWord.LOOP_ADDRESS]) + LoopWord.COUNTER]
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

    def _moves(self, loop: int) -> range:
        first = loop + LoopWord.END
        return range(first, first + self._words[loop + LoopWord.MOVES] * MoveWord.END, MoveWord.END)

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
