"""Loops of adjoints that add to neighbouring elements, cut into loops that can be vector code.

The adjoint of a stencil adds to `a[i - 1]`, `a[i]` and `a[i + 1]` in one pass: each pass has to
wait for the stores of the one before, and no compiler makes vector code of it. Here some passes
first compute what is to be added, into small arrays, and then each place of `a` has a loop of its
own, which adds it. Measured with a heat equation: 1.8 ns an element for 2.4 to 3.6.

An element is added to in another order than by the loop as it was, always the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.index_ranges import IndexRanges
from numba_grad.compiler.numba_functions.regions import (
    FLOATS,
    Allocate,
    Define,
    For,
    Load,
    Memory,
    Parallel,
    Pop,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    defined,
    operands,
    substituted,
    with_regions,
)

# Passes that are done together: what they add stays in the first cache.
_TOGETHER = 128
_FEWEST_PASSES = 16


def with_scatters_apart(body: list[Statement], builder: Builder) -> list[Statement]:
    """The statements, with such loops in parts."""
    return _Writer(builder, IndexRanges(body)).whole(body)


@dataclass(slots=True)
class _Place:
    """Where something is added, and what."""

    store: Store
    values: list[Value] = field(default_factory=list)


class _Writer:
    def __init__(self, builder: Builder, ranges: IndexRanges) -> None:
        self.builder = builder
        self.ranges = ranges
        self.sums: dict[tuple[int, str], Memory] = {}  # what is to be added, by number and dtype

    def whole(self, statements: Sequence[Statement]) -> list[Statement]:
        """All that one thread does, with the arrays that it needs for it."""
        result = self.region(statements)
        return [*[Allocate(m, (_TOGETHER,), None) for m in self.sums.values()], *result]

    def region(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, Parallel):
                own = _Writer(self.builder, self.ranges)
                result.append(with_regions(s, own.whole))
                continue
            if isinstance(s, For):
                places = self._places(s)
                if places:
                    with self.builder.region(result):
                        self._apart(s, places)
                    continue
            result.append(with_regions(s, self.region))
        return result

    # Which loops.

    def _places(self, loop: For) -> list[_Place]:
        """The places that loops of their own are to add to; none if the loop is to stay."""
        if loop.leave is not None or loop.step not in (1, -1) or not self._is_long(loop):
            return []
        if not all(isinstance(s, Define | Size | Load | Store | Pop | Allocate) for s in loop.body):
            return []
        own = {s.memory for s in loop.body if isinstance(s, Allocate)}
        if any(m.rank for m in own):
            return []
        loads = [s for s in loop.body if isinstance(s, Load) and s.memory not in own]
        stores = [s for s in loop.body if isinstance(s, Store) and s.memory not in own]
        read = {s.memory for s in loads}
        places: list[_Place] = []
        has_neighbours = False
        for memory in dict.fromkeys(s.memory for s in stores):
            here = [s for s in stores if s.memory == memory]
            if memory not in read and memory.dtype in FLOATS and all(s.is_added for s in here):
                found = self._distinct(loop, here)
                if found is None:
                    return []
                moving = [p for p in found if self._steps(loop.index, p.store)]
                has_neighbours |= len(moving) > 1
                if len(found) > 1 or not moving:
                    places += found
                continue
            all_of = [*here, *[s for s in loads if s.memory == memory]]
            indices = {s.indices for s in all_of}
            if len(indices) > 1 or not self._steps(loop.index, here[0]):
                return []
        return places if has_neighbours else []

    def _is_long(self, loop: For) -> bool:
        ends = loop.start, loop.stop
        if not all(type(x) is int for x in ends):
            return True
        return abs(loop.stop - loop.start) >= _FEWEST_PASSES  # type: ignore[operator]

    def _distinct(self, loop: For, stores: Sequence[Store]) -> list[_Place] | None:
        """The places of one memory; None if one is not known, or not along the last axis."""
        inside = {defined(s) for s in loop.body}
        result: dict[object, _Place] = {}
        for s in stores:
            forms = [form for x in s.indices if (form := self.ranges.form(x)) is not None]
            if len(forms) < len(s.indices) or any(a in inside for f in forms for a in f.atoms):
                return None
            if any(loop.index in form.atoms for form in forms[:-1]):
                return None
            if forms and abs(forms[-1].atoms.get(loop.index, 0)) > 1:
                return None
            key = tuple((f.constant, frozenset(f.atoms.items())) for f in forms)
            result.setdefault(key, _Place(s)).values.append(s.value)
        return list(result.values())

    def _steps(self, index: Scalar, store: Store) -> bool:
        """Whether successive passes store to successive elements."""
        forms = [form for x in store.indices if (form := self.ranges.form(x)) is not None]
        if not forms or len(forms) < len(store.indices):
            return False
        is_fixed = not any(index in form.atoms for form in forms[:-1])
        return is_fixed and abs(forms[-1].atoms.get(index, 0)) == 1

    # How they are written.

    def _apart(self, loop: For, places: Sequence[_Place]) -> None:
        builder, step = self.builder, loop.step
        ends = (loop.stop, loop.start) if step == 1 else (loop.start, loop.stop)
        passes = builder.define("subtract", *ends)
        scattered = {place.store.memory for place in places}
        rest = [s for s in loop.body if not (isinstance(s, Store) and s.memory in scattered)]
        with builder.loop(passes, 0, _TOGETHER) as before:
            left = builder.define("subtract", passes, before)
            count = builder.define("least", left, _TOGETHER)
            advance = "add" if step == 1 else "subtract"
            first = builder.define(advance, loop.start, before)

            def each(write: Callable[[Scalar, Value], None]) -> None:
                with builder.loop(count) as k:
                    write(k, builder.define(advance, first, k))

            numbers: dict[tuple[Value, ...], Memory] = {}

            def compute(k: Scalar, index: Value) -> None:
                names: dict[Scalar, Value] = {loop.index: index}
                builder.body += substituted(rest, names)
                for place in places:
                    values = tuple(place.values)
                    if values not in numbers:
                        total, *others = values
                        for value in others:
                            total = builder.define("add", total, value)
                        numbers[values] = self._sums(len(numbers), place.store.memory.dtype)
                        builder.store(numbers[values], (k,), total)

            each(compute)
            for place in places:

                def add(k: Scalar, index: Value, place: _Place = place) -> None:
                    value = builder.load(numbers[tuple(place.values)], k)
                    own = self._indices(loop, place.store)
                    names: dict[Scalar, Value] = {loop.index: index}
                    names |= {s.target: builder.scalar(s.target.dtype) for s in own}
                    store = Store(place.store.memory, place.store.indices, value, is_added=True)
                    builder.body += substituted([*own, store], names)

                each(add)

    def _sums(self, number: int, dtype: str) -> Memory:
        key = number, dtype
        if key not in self.sums:
            self.sums[key] = self.builder.memory("sums", dtype, 1)
        return self.sums[key]

    def _indices(self, loop: For, store: Store) -> list[Define | Size]:
        """What the indices of a store are computed by, in the loop."""
        wanted = {x for x in store.indices if isinstance(x, Scalar)}
        result: list[Define | Size] = []
        for s in reversed(loop.body):
            if isinstance(s, Define | Size) and s.target in wanted:
                result.append(s)
                wanted |= {x for x in operands(s) if isinstance(x, Scalar)}
        return result[::-1]
