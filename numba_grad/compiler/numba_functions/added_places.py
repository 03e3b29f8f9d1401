"""Where a loop adds to elements: the places, and one pass of the loop without these additions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from numba_grad.compiler.numba_functions.analyses import is_long
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.index_ranges import Form, IndexRanges
from numba_grad.compiler.numba_functions.regions import (
    FLOATS,
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


@dataclass(slots=True)
class AddedPlace:
    """Where something is added, and what."""

    store: Store
    forms: tuple[Form, ...]  # of its indices
    axis: int | None  # along which each pass goes on by an element; None: all add to one element
    values: list[Value] = field(default_factory=list)

    @property
    def is_contiguous(self) -> bool:
        return self.axis is not None and self.axis == len(self.forms) - 1

    @property
    def may_stay(self) -> bool:
        """Whether a loop that adds there can be vector code as it is."""
        is_variable = not self.store.memory.rank
        return self.is_contiguous or (is_variable and self.store.in_any_order)


@dataclass(slots=True)
class AddedPlaces:
    """Finds them. `is_reordered`: an element may be added to in another order."""

    ranges: IndexRanges
    is_reordered: bool

    def of(self, loop: For) -> tuple[list[AddedPlace], bool]:
        """The places that something else than the loop is to add to; none if it is to stay. And
        whether some of them are neighbours along a row."""
        if not _may_be_without_additions(loop):
            return [], False
        own = {s.memory for s in loop.body if isinstance(s, Allocate)}
        loads = [s for s in loop.body if isinstance(s, Load) and s.memory not in own]
        stores = [s for s in loop.body if isinstance(s, Store) and s.memory not in own]
        places: list[AddedPlace] = []
        has_neighbours = False
        for memory in dict.fromkeys(s.memory for s in stores):
            here = [s for s in stores if s.memory == memory]
            read_here = [s for s in loads if s.memory == memory]
            if read_here or memory.dtype not in FLOATS or not all(s.is_added for s in here):
                if not self._is_next_in_each_pass(loop, here, read_here):
                    return [], False
                continue
            found = self._distinct(loop, here)
            if found is None or not (self.is_reordered or _adds_once(found)):
                return [], False
            has_neighbours |= sum(p.is_contiguous for p in found) > 1
            if len(found) > 1 or not found[0].may_stay:
                places += found
        return places, has_neighbours

    def _is_next_in_each_pass(
        self, loop: For, stores: Sequence[Store], loads: Sequence[Load]
    ) -> bool:
        """Whether these are of one element, which is the next one of a row in each pass."""
        if len({s.indices for s in (*stores, *loads)}) > 1:
            return False
        place = self._place(loop, stores[0])
        return place is not None and place.is_contiguous

    def _distinct(self, loop: For, stores: Sequence[Store]) -> list[AddedPlace] | None:
        """The places of one memory; None if one is not known."""
        result: dict[object, AddedPlace] = {}
        for s in stores:
            place = self._place(loop, s)
            if place is None:
                return None
            key = tuple((f.constant, frozenset(f.atoms.items())) for f in place.forms)
            result.setdefault(key, place).values.append(s.value)
        return list(result.values())

    def _place(self, loop: For, store: Store) -> AddedPlace | None:
        """None if the indices are no forms of the loop's index and of what is outside of it."""
        inside = {defined(s) for s in loop.body}
        forms = [form for x in store.indices if (form := self.ranges.form(x)) is not None]
        if len(forms) < len(store.indices) or any(a in inside for f in forms for a in f.atoms):
            return None
        axes = [k for k, form in enumerate(forms) if loop.index in form.atoms]
        if len(axes) > 1 or any(abs(forms[k].atoms[loop.index]) > 1 for k in axes):
            return None
        return AddedPlace(store, tuple(forms), axes[0] if axes else None)


def _may_be_without_additions(loop: For) -> bool:
    """Whether a loop is long, and straight code without arrays of its own."""
    if loop.leave is not None or loop.step not in (1, -1) or not is_long(loop):
        return False
    if not all(isinstance(s, Define | Size | Load | Store | Pop | Allocate) for s in loop.body):
        return False
    return not any(isinstance(s, Allocate) and s.memory.rank for s in loop.body)


def _adds_once(places: Sequence[AddedPlace]) -> bool:
    """Whether a pass adds to a memory at one place, one value."""
    return len(places) == 1 and len(places[0].values) == 1


def computed(
    builder: Builder,
    loop: For,
    places: Sequence[AddedPlace],
    index: Value,
    kept_at: Callable[[tuple[Value, ...], str], tuple[Memory, tuple[Value, ...]]],
) -> None:
    """Write one pass of the loop. What it adds to `places` is stored, once for equal values, where
    `kept_at` says for the values, and the dtype of their sum."""
    scattered = {place.store.memory for place in places}
    rest = [s for s in loop.body if not (isinstance(s, Store) and s.memory in scattered)]
    rest = _without_unused(rest, [x for place in places for x in place.values])
    builder.body += substituted(rest, {loop.index: index})
    sums = {tuple(place.values): place.store.memory.dtype for place in places}
    for values, dtype in sums.items():
        builder.store(*kept_at(values, dtype), total(builder, values))


def total(builder: Builder, values: Sequence[Value]) -> Value:
    first, *others = values
    for value in others:
        first = builder.define("add", first, value)
    return first


def added(
    builder: Builder, bodies: Sequence[Statement], store: Store, names: dict[Scalar, Value]
) -> None:
    """Write a store in another loop; `bodies` has what its indices are computed by."""
    own = computing(bodies, store.indices)
    names = names | {s.target: builder.scalar(s.target.dtype) for s in own}
    builder.body += substituted([*own, store], names)


def computing(statements: Sequence[Statement], values: Collection[Value]) -> list[Define | Size]:
    """What integers are computed by."""
    wanted = {x for x in values if isinstance(x, Scalar)}
    result: list[Define | Size] = []
    for s in reversed(statements):
        if isinstance(s, Define | Size) and s.target in wanted:
            result.append(s)
            wanted |= {x for x in operands(s) if isinstance(x, Scalar)}
    return result[::-1]


def _without_unused(statements: Sequence[Statement], wanted: Sequence[Value]) -> list[Statement]:
    """Straight code without what neither it nor `wanted` uses."""
    used = set(wanted)
    result: list[Statement] = []
    for s in reversed(statements):
        if isinstance(s, Define | Size | Load) and s.target not in used:
            continue
        used |= set(operands(s))
        result.append(s)
    return result[::-1]
