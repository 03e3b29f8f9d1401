"""The memory that a segment reads and writes, by what it is for. Where that is follows when the
segment has its place in a plan."""

import numpy as np

from numba_grad.immutable import immutable


@immutable
class External:
    """Memory from outside of the segment: number `number` in order of first use."""

    number: int


@immutable
class Output:
    """The array of a result that has memory of its own."""

    number: int


@immutable
class Small:
    """The block that holds all small results of one dtype of this segment."""

    dtype: np.dtype


@immutable
class Temporary:
    """Memory needed within the segment only."""

    number: int


@immutable
class FileMemory:
    """A file in a directory, which is memory while the plan runs."""

    directory: str
    nbytes: int
    number: int  # that tells the files of a plan from each other


SegmentMemory = External | Output | Small | Temporary | FileMemory


@immutable
class Place:
    """Where a value lives: in which memory, and from which element on (in a `Word`, from which
    byte)."""

    memory: object
    offset: int = 0
