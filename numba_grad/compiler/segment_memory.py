"""The memory that a segment reads and writes, by what it is for. Where that is follows when the
segment has its place in a plan."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class External:
    """Memory from outside of the segment: number `number` in order of first use."""

    number: int


@dataclass(frozen=True, slots=True)
class Output:
    """The array of a result that has memory of its own."""

    number: int


@dataclass(frozen=True, slots=True)
class Small:
    """The block that holds all small results of one dtype of this segment."""

    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory needed within the segment only."""

    number: int


@dataclass(frozen=True, slots=True)
class FileMemory:
    """A file in a directory, which is memory while the plan runs."""

    directory: str
    nbytes: int
    number: int  # that tells the files of a plan from each other


SegmentMemory = External | Output | Small | Temporary | FileMemory


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lives: in which memory, and from which element on (in a `Word`, from which
    byte)."""

    memory: object
    offset: int = 0
