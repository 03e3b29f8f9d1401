"""Which steps of a plan may run beside each other: each gets one of a few streams, and the steps of
other streams that it has to wait for.

Two steps are in order if one writes memory that the other uses. A step follows, on its stream, the
last one that it needs, if nothing else has followed that; else it starts a branch.
"""

from dataclasses import dataclass, field

import numpy as np

from numba_grad.immutable import immutable

STREAMS = 4
# In longer plans each step's memory would be compared with too much else; nor do loops over time,
# which have so many steps, have branches.
MOST_STEPS = 2048


@immutable
class Turn:
    """Where a step runs, and the steps elsewhere that it waits for."""

    stream: int
    waits: tuple[int, ...]


@dataclass(slots=True)
class _Range:
    """Bytes of one base that are used alike."""

    first: int
    end: int
    writer: int | None = None
    readers: list[int] = field(default_factory=list)


def turns(count: int, accesses: np.ndarray) -> list[Turn]:
    """The turn of each of `count` steps.

    `accesses` has rows of (step, base, first byte, end, whether it is written), by step.
    """
    needed = _needed(count, accesses)
    result: list[Turn] = []
    last_on: list[int | None] = [None] * STREAMS
    position: list[int] = []  # of each step on its stream, counted from 1
    lengths = [0] * STREAMS
    # How far along each stream everything is done before a step ends.
    clocks: list[list[int]] = []
    for step in range(count):
        own = sorted(needed[step])
        stream = _stream_for(own, result, last_on, lengths)
        clock = [0] * STREAMS
        previous = last_on[stream]
        if previous is not None:
            clock = clocks[previous].copy()
        waits = []
        for other in reversed(own):
            there = result[other].stream
            if clock[there] < position[other]:
                waits.append(other)
                clock = [max(a, b) for a, b in zip(clock, clocks[other], strict=True)]
        lengths[stream] += 1
        position.append(lengths[stream])
        clock[stream] = lengths[stream]
        clocks.append(clock)
        last_on[stream] = step
        result.append(Turn(stream, tuple(waits)))
    return result


def _stream_for(
    needed: list[int], turns_so_far: list[Turn], last_on: list[int | None], lengths: list[int]
) -> int:
    for step in reversed(needed):
        stream = turns_so_far[step].stream
        if last_on[stream] == step:
            return stream
    return min(range(STREAMS), key=lambda stream: lengths[stream])


def _needed(count: int, accesses: np.ndarray) -> list[set[int]]:
    """For each step, earlier ones that it must come after; those that follow from them may be
    missing."""
    needed: list[set[int]] = [set() for _ in range(count)]
    ranges: dict[int, list[_Range]] = {}
    for step, base, first, end, is_written in accesses.tolist():
        of_base = ranges.setdefault(base, [])
        kept: list[_Range] = []
        own = _Range(first, end)
        for other in of_base:
            if other.end <= first or end <= other.first:
                kept.append(other)
                continue
            if other.writer is not None:
                needed[step].add(other.writer)
            if is_written:
                needed[step].update(other.readers)
                # What is written over entirely is known by its writer from now on.
                if not (first <= other.first and other.end <= end):
                    kept.append(other)
            elif (other.first, other.end) == (first, end):
                own = other
            else:
                kept.append(other)
        if is_written:
            own = _Range(first, end, step)
        else:
            own.readers.append(step)
        kept.append(own)
        ranges[base] = kept
    for step, before in enumerate(needed):
        before.discard(step)
    return needed
