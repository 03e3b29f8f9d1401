"""Loops whose points never meet: a step computes each element of what is carried from the same
element alone, besides rows and constants. So whoever does a point can do all of its steps, with the
state in registers, where a device has a thread for each point."""

import itertools
import math
from collections.abc import Iterator, Sequence

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Body,
    Buffer,
    IndexValue,
    Let,
    Load,
    LoopNest,
    Store,
)
from numba_grad.graph.types import Type
from numba_grad.immutable import NamedTuple, immutable
from numba_grad.runtime.plan import MOST_WORDS_OF_A_LAUNCH, Launch

# Elements that a point carries: beyond, they are no longer in registers.
MOST_CARRIED = 64


class Pointee(NamedTuple):
    """What a pointer of a nest points to, and the first element there.

    By `kind` and number: what is "carried", at the beginning of a step or, as "next", at its end; a
    "row" of a sequence; a "result" of the step; memory of the "arena" for what it needs meanwhile.
    """

    kind: str
    number: int
    first: int


class PointElement(NamedTuple):
    """An element of such memory, as a function of the loop variables of a point."""

    kind: str
    number: int
    factors: frozenset[tuple[str, int]]
    constant: int


@immutable
class Member:
    """A nest of the body; `pointees` of the words that point to memory of the loop's own."""

    nest: LoopNest
    pointees: dict[int, Pointee]

    @property
    def body(self) -> Body:
        return self.nest.variants[0].pieces[0].body

    @property
    def lets(self) -> Iterator[Let]:
        [variant] = self.nest.variants
        return itertools.chain(*variant.lets, self.body.lets)

    def pointee(self, buffer: Buffer) -> Pointee | None:
        return self.pointees.get(buffer.word)

    def element(self, access: Load | Store) -> PointElement | None:
        """What is read or written; None where values decide that."""
        pointee = self.pointees[access.buffer.word]
        sizes = {word.name: word.value for word in self.nest.words if word.memory is None}
        variables = {axis.variable for axis in self.nest.axes}
        factors: dict[str, int] = {}
        constant = pointee.first + access.position.literal
        for text, factor in access.position.terms:
            names = text.split(" * ")
            value = factor.value * math.prod(sizes[name] for name in names if name in sizes)
            moving = [name for name in names if name not in sizes]
            if not moving:
                constant += value
            elif len(moving) == 1 and moving[0] in variables:
                factors[moving[0]] = factors.get(moving[0], 0) + value
            else:
                return None
        return PointElement(pointee.kind, pointee.number, frozenset(factors.items()), constant)


@immutable
class PointLoop:
    """A loop. Its `members`, the nests of the body, run one after the other, over the same axes or
    without any: then whoever does a point computes that as well, and the first point stores it."""

    members: Sequence[Member]
    carried: Sequence[Type]
    rows: Sequence[Type]
    results: Sequence[Type]
    # What somebody reads, by number: what is carried out, what is carried into each step, results
    read_out: frozenset[int]
    read_entries: frozenset[int]
    read_results: frozenset[int]

    @property
    def main(self) -> Member:
        """That which has axes, if one has."""
        return max(self.members, key=lambda member: len(member.nest.axes))

    @property
    def points(self) -> int:
        return math.prod(axis.extent for axis in self.main.nest.axes)

    @property
    def operations(self) -> int:
        """Of a point in a step, roughly."""
        return sum(max(1, member.nest.operations) for member in self.members)

    @property
    def can_be_done(self) -> bool:
        """Whether points never meet, and what they carry fits in registers."""
        words = sum(len(member.nest.words) for member in self.members)
        words += 4 * len(self.carried) + 2 * (len(self.rows) + len(self.results))
        if words >= MOST_WORDS_OF_A_LAUNCH:
            return False
        axes = _extents(self.main.nest)
        stored: set[PointElement] = set()
        read: set[PointElement] = set()
        for member in self.members:
            if not _is_plain(member.nest) or _extents(member.nest) not in ([], axes):
                return False
            for let in member.lets:
                load = let.expression
                if not isinstance(load, Load) or (pointee := member.pointee(load.buffer)) is None:
                    continue
                element = member.element(load)
                if pointee.kind == "carried" and element is not None:
                    read.add(element._replace(kind="next"))
                elif pointee.kind != "row" and element not in stored:
                    return False
            for store in member.body.stores:
                element = None if member.pointee(store.buffer) is None else member.element(store)
                if element is None:
                    return False
                stored.add(element)
        carried = sum(element.kind == "next" for element in stored)
        return read <= stored and carried <= MOST_CARRIED


@immutable
class KernelOfLoop:
    """The source of all steps of a loop, its launch, and what its words hold: "steps", how many to
    do; ("in", k) and ("out", k), what is carried; ("row", k), ("result", k), ("entry", k), the
    first row in memory, and ("row stride", k), ..., elements from the row of a step to that of the
    next one; ("word", member, k), a word of a nest."""

    source: str
    launch: Launch
    words: list[tuple[str, *tuple[int, ...]]]


def _extents(nest: LoopNest) -> list[tuple[str, int]]:
    return [(axis.variable, axis.extent) for axis in nest.axes]


def _is_plain(nest: LoopNest) -> bool:
    """Whether it does the same at each point."""
    if nest.accumulators or len(nest.variants) != 1:
        return False
    [variant] = nest.variants
    return len(variant.pieces) == 1 and not variant.pieces[0].body.updates


def varying_lets(member: Member) -> set[str]:
    """The names of those that are not the same in all steps."""
    varying: set[str] = set()
    for let in member.lets:
        match let.expression:
            case Load(buffer, position):
                if member.pointee(buffer) is not None or not varying.isdisjoint(_names(position)):
                    varying.add(let.name)
            case IndexValue(index):
                if not varying.isdisjoint(_names(index)):
                    varying.add(let.name)
            case Apply(_, operands, _, _):
                if any(name in varying for _, name in operands):
                    varying.add(let.name)
    return varying


def _names(index: Index) -> list[str]:
    return [name for text, _ in index.terms for name in text.split(" * ")]
