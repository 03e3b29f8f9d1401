"""Nests of loops that add to neighbouring rows, written so that each element is added to once.

The adjoint of a stencil adds what a pass computes to `a[i - 1, j]`, `a[i, j]` and `a[i + 1, j]`.
Here a row of passes keeps what is to be added, in a ring of as many rows as it is added to; then
the row of `a` that no later pass adds to is given the sum of all that belongs to it:

    for i in range(n):                      for i in range(n):
        for j in range(m):                      for j in range(m):
            x = ...                                 ring[i % 3, j + 1] = ...
            a[i - 1, j] += x                    for j in range(m):
            a[i, j - 1] += x                        a[i - 1, j] += ring[i % 3, j + 1] + ...
            ...                             for i in range(n, n + 2): ...

Around the ring's rows there is room that holds -0.0, which changes no sum: so there is no test at
a rim. All is done in a fixed order. Rows of several places of a row are the other half of it
(`loop_distribution.py`).
"""

from collections.abc import Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.added_places import (
    AddedPlace,
    AddedPlaces,
    added,
    computed,
    computing,
    total,
)
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Define,
    For,
    Load,
    Memory,
    Pop,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    defined,
    operands,
    substituted,
)
from numba_grad.immutable import immutable

_MOST_ROWS = 5  # that a pass adds to
_WIDEST = 8  # from the first to the last place of a row


@immutable
class _Source:
    """A place that a pass adds to, as an element sees it: how many rows ago the pass was, and by
    how many passes of its row the element comes later."""

    place: AddedPlace
    rows: int
    passes: int


@immutable
class _Gathering:
    """What the elements of a row get at once."""

    sources: list[_Source]

    @property
    def rows(self) -> int:
        return max(source.rows for source in self.sources)

    @property
    def spread(self) -> int:
        return max(source.passes for source in self.sources)

    @property
    def indices(self) -> tuple[Value, ...]:
        """Of the first element, in the row that has got everything."""
        row = next(s.place.store for s in self.sources if not s.rows).indices
        first = next(s.place.store for s in self.sources if not s.passes).indices
        return (*row[:-1], first[-1])


@immutable
class _Nest:
    outer: For
    inner: For
    places: list[AddedPlace]
    gatherings: list[_Gathering]


def gathered(loop: For, found: AddedPlaces, builder: Builder) -> list[Statement] | None:
    """The statements that stand for such a nest; None if the loop is none."""
    nest = _nest(loop, found)
    if nest is None:
        return None
    result: list[Statement] = []
    with builder.region(result):
        _Writer(nest, builder).write()
    return result


# Which nests.


def _nest(outer: For, found: AddedPlaces) -> _Nest | None:
    inner = [s for s in outer.body if isinstance(s, For)]
    rest = [s for s in outer.body if not isinstance(s, For)]
    if not found.is_reordered or outer.leave is not None or outer.step not in (1, -1):
        return None
    if len(inner) != 1 or not _has_equal_rows(outer, inner[0]):
        return None
    if not all(isinstance(s, Define | Size | Load | Store | Pop | Allocate) for s in rest):
        return None
    places, _ = found.of(inner[0])
    scattered = {place.store.memory for place in places}
    if any(isinstance(s, Load | Store) and s.memory in scattered for s in rest):
        return None
    if any(isinstance(s, Allocate) and (s.memory.rank or s.memory in scattered) for s in rest):
        return None
    gatherings = _gatherings(outer, inner[0], places)
    if not gatherings or not any(gathering.rows for gathering in gatherings):
        return None
    return _Nest(outer, inner[0], places, gatherings)


def _has_equal_rows(outer: For, inner: For) -> bool:
    """Whether the passes of the inner loop are the same in all of the outer one."""
    own = computing(outer.body, (inner.start, inner.stop))
    changing = {defined(s) for s in outer.body} - {s.target for s in own} | {outer.index}
    used = [inner.start, inner.stop, *[x for s in own for x in operands(s)]]
    return not any(x in changing for x in used)


def _gatherings(outer: For, inner: For, places: Sequence[AddedPlace]) -> list[_Gathering]:
    """The places, by the rows that they are in; none if one cannot be gathered."""
    inside = {defined(s) for s in (*outer.body, *inner.body)} - {outer.index}
    groups: dict[object, list[tuple[AddedPlace, int, int]]] = {}
    for place in places:
        if not place.is_contiguous or place.forms[-1].atoms[inner.index] != 1:
            return []
        *others, last = place.forms
        moving = [k for k, form in enumerate(others) if outer.index in form.atoms]
        if outer.index in last.atoms or len(moving) > 1:
            return []
        if any(others[k].atoms[outer.index] != 1 for k in moving):
            return []
        if any(a in inside and a != inner.index for form in place.forms for a in form.atoms):
            return []
        row = others[moving[0]].constant if moving else 0
        key: list[object] = [place.store.memory, *moving, frozenset(last.atoms.items())]
        for k, form in enumerate(others):
            key.append((0 if k in moving else form.constant, frozenset(form.atoms.items())))
        groups.setdefault(tuple(key), []).append((place, row, last.constant))
    result = [_gathering(outer.step == 1, group) for group in groups.values()]
    are_near = all(g.rows < _MOST_ROWS and g.spread <= _WIDEST for g in result)
    return result if are_near else []


def _gathering(goes_up: bool, group: Sequence[tuple[AddedPlace, int, int]]) -> _Gathering:
    rows = [row for _, row, _ in group]
    first = min(start for _, _, start in group)
    sources = [
        _Source(place, row - min(rows) if goes_up else max(rows) - row, start - first)
        for place, row, start in group
    ]
    # An element's terms are added in the order in which they were computed.
    return _Gathering(sorted(sources, key=lambda s: (-s.rows, -s.passes)))


# How they are written.


class _Writer:
    def __init__(self, nest: _Nest, builder: Builder) -> None:
        self.nest = nest
        self.builder = builder
        self.reach = max(gathering.spread for gathering in nest.gatherings)
        # For what is added, by what it is: a ring, and how many rows ago it is still read.
        self.rings: dict[tuple[Value, ...], tuple[Memory, int]] = {}

    def write(self) -> None:
        builder, outer, inner = self.builder, self.nest.outer, self.nest.inner
        start, stop = self._bounds_of_rows()
        first, end = (start, stop) if inner.step == 1 else (stop, start)
        lowest = first if inner.step == 1 else builder.define("add", first, 1)
        passes = builder.define("most", builder.define("subtract", end, first), 0)
        self._make_rings(passes)
        loop = replace(outer, body=[])
        builder.body.append(loop)
        with builder.region(loop.body):
            for s in outer.body:
                if s is inner:
                    self._row(lowest, passes)
                else:
                    builder.body.append(s)
            for gathering in self.nest.gatherings:
                self._gather(gathering, outer.index, lowest, passes)
        self._rest(lowest, passes)

    def _bounds_of_rows(self) -> tuple[Value, Value]:
        inner = self.nest.inner
        own = computing(self.nest.outer.body, (inner.start, inner.stop))
        names: dict[Scalar, Value] = {s.target: self.builder.scalar(s.target.dtype) for s in own}
        self.builder.body += substituted([*own], names)
        start, stop = (
            names.get(x, x) if isinstance(x, Scalar) else x for x in (inner.start, inner.stop)
        )
        return start, stop

    def _make_rings(self, passes: Value) -> None:
        rows: dict[tuple[Value, ...], int] = {}
        for gathering in self.nest.gatherings:
            for source in gathering.sources:
                values = tuple(source.place.values)
                rows[values] = max(rows.get(values, 0), source.rows)
        dtypes = {tuple(p.values): p.store.memory.dtype for p in self.nest.places}
        length = self.builder.define("add", passes, 2 * self.reach)
        for values, count in rows.items():
            ring = self.builder.allocate("ring", dtypes[values], (count + 1, length), -0.0)
            self.rings[values] = ring, count

    def _slot(self, index: Scalar, values: tuple[Value, ...], rows: int) -> tuple[Memory, Value]:
        """Where in its ring the row is that was computed some rows before that of an index."""
        ring, most = self.rings[values]
        if not most:
            return ring, 0
        outer = self.nest.outer
        ends = (index, outer.start) if outer.step == 1 else (outer.start, index)
        number = self.builder.define("subtract", *ends)
        before = self.builder.define("add", number, most + 1 - rows)
        return ring, self.builder.define("mod", before, most + 1, dtype="int64")

    def _row(self, lowest: Value, passes: Value) -> None:
        builder, nest = self.builder, self.nest
        slots = {values: self._slot(nest.outer.index, values, 0) for values in self.rings}
        span: tuple[Value, ...] = (passes,)
        if nest.inner.step == -1:  # As the tape has it.
            span = -1, builder.define("subtract", passes, 1), -1
        with builder.loop(*span) as k:

            def kept_at(values: tuple[Value, ...], _: str) -> tuple[Memory, tuple[Value, ...]]:
                ring, slot = slots[values]
                return ring, (slot, builder.define("add", k, self.reach))

            index = builder.define("add", lowest, k)
            computed(builder, nest.inner, nest.places, index, kept_at)

    def _gather(self, gathering: _Gathering, row: Scalar, lowest: Value, passes: Value) -> None:
        """Add to the row that gets nothing from rows after that of an index of the outer loop."""
        builder, nest = self.builder, self.nest
        slots = [self._slot(row, tuple(s.place.values), s.rows) for s in gathering.sources]
        count = builder.define("add", passes, gathering.spread)
        if gathering.spread:
            count = builder.define("select", builder.define("greater", passes, 0), count, 0)
        with builder.loop(count) as k:
            terms = [
                builder.load(ring, slot, builder.define("add", k, self.reach - source.passes))
                for (ring, slot), source in zip(slots, gathering.sources, strict=True)
            ]
            memory = gathering.sources[0].place.store.memory
            store = Store(memory, gathering.indices, total(builder, terms), True, True)
            names = {nest.inner.index: builder.define("add", lowest, k), nest.outer.index: row}
            added(builder, [*nest.outer.body, *nest.inner.body], store, names)

    def _rest(self, lowest: Value, passes: Value) -> None:
        """The rows that the last passes of the outer loop have added to."""
        builder, outer = self.builder, self.nest.outer
        rows = max(gathering.rows for gathering in self.nest.gatherings)
        ends = (outer.start, outer.stop) if outer.step == 1 else (outer.stop, outer.start)
        has_passes = builder.define("less", *ends)
        with builder.loop(builder.define("select", has_passes, rows, 0)) as number:
            ahead = "add" if outer.step == 1 else "subtract"
            index = builder.define(ahead, outer.stop, number)
            assert isinstance(index, Scalar)
            for values in self.rings:
                ring, slot = self._slot(index, values, 0)
                with builder.loop(builder.size(ring, 1)) as k:
                    builder.store(ring, (slot, k), -0.0)
            for gathering in self.nest.gatherings:
                if gathering.rows == rows:
                    self._gather(gathering, index, lowest, passes)
                elif gathering.rows:
                    with builder.branch(builder.define("less", number, gathering.rows)):
                        self._gather(gathering, index, lowest, passes)
