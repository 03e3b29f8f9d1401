"""Loops that add to elements, cut into loops that can be vector code.

The adjoint of a stencil adds to `a[i - 1]`, `a[i]` and `a[i + 1]` in one pass: each pass has to
wait for the stores of the one before, and no compiler makes vector code of it. Nor does one of a
loop with a sum, as the order of additions is fixed, though its quotients and roots would gain from
it. Here some passes first compute what is to be added, into small arrays, and then it is added, by
loops of their own. Measured with a heat equation: 1.8 ns an element for 2.4 to 3.6.

In an adjoint an element is added to in another order than by the loop as it was, always the same;
elsewhere values are bitwise those of before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from numba_grad.compiler.numba_functions.added_places import (
    AddedPlace,
    AddedPlaces,
    added,
    computed,
    total,
)
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.gathered_rows import gathered
from numba_grad.compiler.numba_functions.index_ranges import IndexRanges
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Define,
    For,
    Memory,
    Parallel,
    Scalar,
    Statement,
    Store,
    Value,
    with_regions,
)

# Passes that are done together: what they add stays in the first cache.
_TOGETHER = 128
# Neighbours along a row that are not farther apart are added at once.
_WIDEST = 8
# What vector code gains, by operation; a loop with sums is cut for at least `_WORTHWHILE`. An
# N-body step (a quotient and a root for three sums) takes 1.1 of its time in parts, its adjoint
# (three quotients and a root for six) 0.6.
_GAINS = {
    **dict.fromkeys(("divide", "sqrt"), 1),
    **dict.fromkeys(("cbrt", "hypot", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"), 3),
    **dict.fromkeys(("sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "erfc", "logaddexp"), 3),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arctan2"), 3),
    **dict.fromkeys(("arcsinh", "arccosh", "arctanh"), 3),
}
_WORTHWHILE = 3


def with_distributed_loops(
    body: list[Statement], builder: Builder, *, is_reordered: bool
) -> list[Statement]:
    """The statements, with such loops in parts; `is_reordered`: an element may be added to in
    another order."""
    return _Writer(builder, AddedPlaces(IndexRanges(body), is_reordered)).whole(body)


class _Writer:
    def __init__(self, builder: Builder, found: AddedPlaces) -> None:
        self.builder = builder
        self.found = found
        self.sums: dict[tuple[int, str], Memory] = {}  # what is to be added, by number and dtype

    def whole(self, statements: Sequence[Statement]) -> list[Statement]:
        """All that one thread does, with the arrays that it needs for it."""
        result = self.region(statements)
        length = _TOGETHER + 2 * _WIDEST
        return [*[Allocate(m, (length,), None) for m in self.sums.values()], *result]

    def region(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, Parallel):
                own = _Writer(self.builder, self.found)
                result.append(with_regions(s, own.whole))
                continue
            if isinstance(s, For):
                rows = gathered(s, self.found, self.builder)
                if rows is not None:
                    result += rows
                    continue
                places = self._places(s)
                if places:
                    with self.builder.region(result):
                        self._apart(s, places)
                    continue
            result.append(with_regions(s, self.region))
        return result

    def _places(self, loop: For) -> list[AddedPlace]:
        """The places that loops of their own are to add to; none if the loop is to stay."""
        places, has_neighbours = self.found.of(loop)
        gain = sum(_GAINS.get(s.operation, 0) for s in loop.body if isinstance(s, Define))
        return places if has_neighbours or gain >= _WORTHWHILE else []

    # How they are written.

    def _apart(self, loop: For, places: Sequence[AddedPlace]) -> None:
        builder, step = self.builder, loop.step
        ends = (loop.stop, loop.start) if step == 1 else (loop.start, loop.stop)
        passes = builder.define("subtract", *ends)
        groups = _added_together(loop, places)
        reach = max(group.spread for group in groups)
        with builder.loop(passes, 0, _TOGETHER) as before:
            left = builder.define("subtract", passes, before)
            count = builder.define("least", left, _TOGETHER)
            lowest = builder.define("add" if step == 1 else "subtract", loop.start, before)
            # Small arrays are gone through in the direction of the loop, so that vectors of them
            # and of its own arrays are loaded alike.
            ordered: tuple[Value, ...] = (count,)
            if step == -1:
                last = builder.define("subtract", count, 1)
                lowest = builder.define("subtract", lowest, last)
                ordered = (-1, last, -1)
            with builder.loop(*ordered) as k:
                sums = self._computed(loop, places, k, lowest, reach)
            for memory in sums.values() if reach else ():
                for place in range(reach):
                    builder.store(memory, (place,), -0.0)  # which changes no sum, not even -0.0
                    after = builder.define("add", count, place + reach)
                    builder.store(memory, (after,), -0.0)
            for group in groups:
                if group.is_one_element:
                    passes_of_group = ordered
                else:
                    passes_of_group = (builder.define("add", count, group.spread),)
                with builder.loop(*passes_of_group) as k:
                    self._added(loop, group, sums, k, lowest, reach)

    def _computed(
        self, loop: For, places: Sequence[AddedPlace], k: Scalar, lowest: Value, reach: int
    ) -> dict[tuple[Value, ...], Memory]:
        """One pass of the loop, with what it adds stored; where, by what it is."""
        builder = self.builder
        result: dict[tuple[Value, ...], Memory] = {}

        def kept_at(values: tuple[Value, ...], dtype: str) -> tuple[Memory, tuple[Value, ...]]:
            result[values] = self._sums(len(result), dtype)
            return result[values], (builder.define("add", k, reach),)

        computed(builder, loop, places, builder.define("add", lowest, k), kept_at)
        return result

    def _added(
        self,
        loop: For,
        group: "_Group",
        sums: dict[tuple[Value, ...], Memory],
        k: Scalar,
        lowest: Value,
        reach: int,
    ) -> None:
        """A pass of the loop that adds to the places of a group."""
        builder = self.builder
        index = builder.define("add", lowest, k)
        by_element: dict[tuple[Memory, tuple[Value, ...]], list[Value]] = {}
        for place, offset in group.places:
            where = builder.define("add", k, reach - offset)
            value = builder.load(sums[tuple(place.values)], where)
            element = (group.places[0][0] if group.spread else place).store
            by_element.setdefault((element.memory, element.indices), []).append(value)
        for (memory, indices), values in by_element.items():
            store = Store(memory, indices, total(builder, values), True, self.found.is_reordered)
            added(builder, loop.body, store, {loop.index: index})

    def _sums(self, number: int, dtype: str) -> Memory:
        key = number, dtype
        if key not in self.sums:
            self.sums[key] = self.builder.memory("sums", dtype, 1)
        return self.sums[key]


@dataclass(slots=True)
class _Group:
    """Places that one loop adds to."""

    places: list[tuple[AddedPlace, int]]  # and by how many passes later it comes to an element

    @property
    def is_one_element(self) -> bool:
        return self.places[0][0].axis is None

    @property
    def spread(self) -> int:
        return max(offset for _, offset in self.places)


def _added_together(loop: For, places: Sequence[AddedPlace]) -> list[_Group]:
    """A loop each: neighbours along a row, whose sums an element gets at once; components of a row,
    as they share its cache lines; elements that all passes add to, as each waits for the addition
    before."""
    groups: dict[object, list[AddedPlace]] = {}
    for place in places:
        key: list[object] = []
        if place.axis is not None:
            moving = place.forms[place.axis]
            is_neighbour = place.is_contiguous and moving.atoms[loop.index] == 1
            others = place.forms[:-1] if is_neighbour else [moving]
            key += [place.store.memory, place.axis, is_neighbour, frozenset(moving.atoms.items())]
            key += [(form.constant, frozenset(form.atoms.items())) for form in others]
        groups.setdefault(tuple(key), []).append(place)
    result: list[_Group] = []
    for together in groups.values():
        constants = [0 for _ in together]
        if together[0].is_contiguous:
            together.sort(key=lambda place: place.forms[-1].constant)
            constants = [place.forms[-1].constant for place in together]
        while together:
            near = [k for k, x in enumerate(constants) if x - constants[0] <= _WIDEST]
            result.append(_Group([(together[k], constants[k] - constants[0]) for k in near]))
            together, constants = together[len(near) :], constants[len(near) :]
    return result
