"""The kernel IR: what an emitter turns into source. No target is known here.

    LoopNest    words, axes, accumulators, variants      one kernel
    Variant     rows it is for, lets by level, pieces    one way through the loop nest
    Piece       a range of the innermost loop, and a body
    Body        lets, updates of accumulators, stores

Loops nest in the order of `LoopNest.axes`. A let belongs to a *level*: 0 is outside of all loops, k
inside of the k-th.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import Index, sizes_count
from numba_grad.compiler.scalar_expressions import Term
from numba_grad.immutable import NamedTuple, immutable

OTHER = "other_"  # before the name of an accumulator: that of another part of what is reduced


# Tuples where a kernel has thousands, which are made, compared and looked up all the time: see
# `Factor`.
class Buffer(NamedTuple):
    """A pointer argument of a kernel, the one with the number `word`."""

    name: str
    word: int
    dtype: np.dtype


class Load(NamedTuple):
    buffer: Buffer
    position: Index


class Constant(NamedTuple):
    bytes: bytes
    dtype: np.dtype


@immutable
class IndexValue:
    """An int64 made of loop variables and arguments."""

    index: Index


class Apply(NamedTuple):
    """A scalar expression of values, words and loop variables, by their names."""

    term: Term
    operands: tuple[tuple[str, str], ...]
    dtype: np.dtype
    # whether the result must be cast to `dtype`, since the target may compute in a wider one
    casts: bool


Expression = Load | Constant | IndexValue | Apply


class Let(NamedTuple):
    name: str
    expression: Expression


class Store(NamedTuple):
    buffer: Buffer
    position: Index
    value: str


@immutable
class Accumulator:
    """A running result of a reduction: a local variable, or an element of memory."""

    name: str
    identity: Constant
    buffer: Buffer | None  # where it goes in the end; None for a local that only helps another one
    position: Index  # of the kept axes
    block_size: str  # the argument that holds the elements between results of neighbouring blocks


class Update(NamedTuple):
    """`name = expression`, once per innermost point: of an accumulator, or a local that others
    need."""

    name: str
    expression: Apply


@dataclass(slots=True)
class Body:
    lets: list[Let] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)


@immutable
class Axis:
    variable: str
    extent: int
    word: str  # the name of the argument that holds the extent
    reduced: bool


@immutable
class IndexRange:
    """`start <= variable < stop`, both names of arguments."""

    variable: str
    start: str
    stop: str


@dataclass(slots=True)
class Piece:
    """The innermost loop over a range."""

    start: str
    stop: str
    body: Body
    is_scalar: bool = False  # of a few elements: not worth vector code


def first_of(variable: str) -> str:
    """The variable that holds where a piece begins, in a body that several pieces have."""
    return f"first_{variable}"


@dataclass(slots=True)
class Variant:
    """A way through the nest for the rows where every one of `where` holds (all rows if empty)."""

    where: list[IndexRange]
    lets: list[list[Let]]  # by level, without the innermost
    pieces: list[Piece]

    @property
    def has_common_body(self) -> bool:
        """Whether all of several pieces have the same body, which may name `first_of`."""
        return len(self.pieces) > 1 and self.pieces[0].body is self.pieces[-1].body


@immutable
class Word:
    """One argument: an integer, or a pointer to what `memory` names."""

    name: str
    value: int = 0
    memory: object = None  # of a pointer


# A nest of few points is written as vectors where that takes LLVM no passes, and else as scalars:
# passes were a third of what programs on small matrices took to compile, for the same time to run.
FEW_POINTS = 16
SHORT_ROW = 8  # a row with fewer elements is less than a vector
MOST_IN_SHORT_ROWS = 256


@dataclass(slots=True)
class LoopNest:
    """One loop nest. `compiler/emission/emit_cpu.py` says what a task is."""

    axes: list[Axis]  # in the order of loops
    words: list[Word]
    buffers: list[Buffer]
    accumulators: list[Accumulator]
    variants: list[Variant]
    comment: list[str]
    blocks: int  # into how many parts the outermost reduced axis is cut
    blocks_word: (
        str  # the name of the argument that holds it, "" if there are no reductions in blocks
    )
    operations: int  # scalar operations per innermost point, roughly
    # How the accumulators of another part, named with `OTHER`, are added to these. An accumulator
    # that starts from its identity changes nothing: (extreme, index 0) does so for argmax, too.
    merges: list[Update] = field(default_factory=list)

    @property
    def kept(self) -> list[Axis]:
        return [axis for axis in self.axes if not axis.reduced]

    @property
    def reduced(self) -> list[Axis]:
        return [axis for axis in self.axes if axis.reduced]

    @property
    def has_few_points(self) -> bool:
        """Whether vector code is hardly run, if it is run at all."""
        if not self.axes or not sizes_count():
            return False
        points = math.prod(axis.extent for axis in self.axes)
        is_of_short_rows = self.axes[-1].extent < SHORT_ROW and points <= MOST_IN_SHORT_ROWS
        return is_of_short_rows or points <= FEW_POINTS

    @property
    def accumulates_in_memory(self) -> bool:
        """Whether the innermost loop runs over results, not over what is summed."""
        return bool(self.accumulators) and not self.axes[-1].reduced
