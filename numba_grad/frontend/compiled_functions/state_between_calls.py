"""What a jitted function changes besides its arguments: attributes, variables, items of lists.

    StateBetweenCalls   what a trace has changed of the surroundings
    StandIns            tensors in the places of arrays and numbers, during a trace

Python makes these changes when it runs the function, so a compiled function whose results depend on
them is run by Python again at each call, and what it has put somewhere gets its value when the call
has computed it. Where tensors alone replace tensors of the same type (`self.u = self.u + v`), the
compiled function reads the former and puts the latter in place itself. For arrays and numbers,
tensors stand in their places during the second trace, so that all uses of them are recorded.
"""

import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd.state import rebind
from numba_grad.frontend.inputs.arrays import as_node, is_stand_in, own_array
from numba_grad.frontend.inputs.code_names import (
    UNASSIGNED,
    Named,
    attributes_in_dict,
    named_in,
)
from numba_grad.frontend.inputs.guards import is_same
from numba_grad.frontend.inputs.surroundings import (
    PLAIN,
    GlobalVariable,
    GradientOf,
    Reached,
    Surroundings,
    attribute_of,
    set_attribute,
    state_of,
)
from numba_grad.frontend.tensors.python_numbers import handle_like
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple


class PlaceOfState(NamedTuple):
    """A variable, an attribute, or an item of a list or dict."""

    thing: Any  # that it is in
    key: Any  # of the item or attribute, UNASSIGNED for anything else

    @property
    def is_attribute(self) -> bool:
        return not (self.key is UNASSIGNED or isinstance(self.thing, dict | list))

    @property
    def held(self) -> Any:
        """What is there now."""
        thing, key = self
        if key is UNASSIGNED:
            return state_of(thing)
        if isinstance(thing, list):
            return thing[key] if key < len(thing) else UNASSIGNED
        return thing.get(key, UNASSIGNED) if isinstance(thing, dict) else attribute_of(thing, key)

    @property
    def written(self) -> tuple[Any, str, Any]:
        """Something, how the place is written behind it, and what its key is, where that is written
        as `{key}`."""
        thing, key = self
        if isinstance(thing, GlobalVariable):
            return thing.variables, "[{key}]", thing.name
        if key is UNASSIGNED:
            return thing, ".cell_contents", None
        if not self.is_attribute:
            return thing, "[{key}]", key
        is_in_dict = not isinstance(thing, type) and key in attributes_in_dict(thing)
        return thing, ".__dict__[{key}]" if is_in_dict else f".{key}", key

    def put(self, held: Any) -> None:
        thing, key = self
        if isinstance(thing, GlobalVariable):
            thing.variables[thing.name] = held
        elif key is UNASSIGNED:
            thing.cell_contents = held
        elif isinstance(thing, dict | list):
            thing[key] = held
        else:
            set_attribute(thing, key, held)


class StandIns:
    """Tensors in the places of arrays and numbers, while it lasts."""

    def __init__(self, places: Sequence[PlaceOfState]) -> None:
        self._held: dict[int, tuple[PlaceOfState, Tensor, Any]] = {}  # by the `id` of the tensor
        for place in places:
            held = place.held
            if type(held) in _KINDS and np.asarray(held).dtype.kind in "biufc":
                tensor = handle_like(held, leaf(own_array(held)))
                self._held[id(tensor)] = place, tensor, held
                place.put(tensor)

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def tensors(self) -> list[Tensor]:
        return [tensor for _, tensor, _ in self._held.values()]

    def original(self, held: Any) -> Any:
        """What `held` stands for, or itself."""
        return self._held[id(held)][2] if id(held) in self._held else held

    def place_of(self, tensor: Tensor) -> PlaceOfState:
        return self._held[id(tensor)][0]

    def assigned_to(self, tensor: Any) -> Any:
        """What an assignment in place is to, where the trace has made it to this tensor: a place,
        for what will be there at a call, if this is the stand-in that is there still."""
        if id(tensor) not in self._held:
            return tensor
        place, _, held = self._held[id(tensor)]
        return place if place.held is tensor else held

    def leave(self) -> None:
        """Have the arrays and numbers in their places again, where nothing else is now."""
        for place, tensor, held in self._held.values():
            if place.held is tensor:
                place.put(held)


_KINDS: tuple[type, ...] = (np.ndarray, int, float, np.float64, np.float32, np.int64)


def _of_kind(kind: type, node: Node, *, is_number: bool) -> Any:
    """The value of `node`, as an array or number if that is what there was; else a tensor. What
    stood for a number, `is_number`, is one: it stays weakly typed."""
    is_tensor = issubclass(kind, Tensor) and not is_number
    if is_tensor or node.value is None or node.requires_grad:
        return handle_like(0 if is_number else None, node)
    value = np.asarray(node.value)
    return value.item() if is_number else value[()]


class Change(NamedTuple):
    """One thing that is not what it was."""

    reached: Reached
    key: Any  # of the item or attribute, UNASSIGNED for anything else
    before: Any
    after: Any

    @property
    def place(self) -> PlaceOfState:
        return PlaceOfState(self.reached.thing, self.key)

    @property
    def name(self) -> str:
        reached, key = self.reached, self.key
        if key is UNASSIGNED:
            return reached.name
        if not self.place.is_attribute:
            return f"{reached.name}[{key!r}]"
        return f"{reached.name}.{key}" if reached.name else str(key)

    @property
    def is_gradient(self) -> bool:
        return isinstance(self.reached.thing, GradientOf)

    def is_record(self, named: Named, other_holders: Collection[str | None]) -> bool:
        """Whether no code that the function may run reads it, by whatever name. Gradients are for
        who has the tensor."""
        if self.is_gradient:
            return False
        is_attribute = self.place.is_attribute
        holders = [self.key] if is_attribute else [self.reached.holder, *other_holders]
        names = [x for x in holders if x is not None]
        if len(names) < len(holders):
            return False
        is_variable = self.key is UNASSIGNED
        held = self.before if is_attribute or is_variable else self.reached.thing
        # What is assigned to such a name only, each time, is a record as well; sums are not.
        is_last = (is_attribute or is_variable) and names[0] not in named.updated
        is_sum = isinstance(self.after, Tensor) and not is_last
        is_read = named.is_attribute_read if is_attribute else named.is_read
        return not any(is_read(name, held) for name in names) and not is_sum


def _is_writable(change: Change) -> bool:
    """Whether it is about one place, where something else can be put."""
    is_variable = isinstance(change.place.thing, types.CellType | GlobalVariable)
    return is_variable or change.key is not UNASSIGNED


def _changes_of(reached: Reached) -> Iterator[Change]:
    before, now = reached.before, state_of(reached.thing)
    if isinstance(reached.thing, types.CellType | GlobalVariable):
        if not _is_equal(before, now):
            yield Change(reached, UNASSIGNED, before, now)
    elif isinstance(before, dict):
        for key in {**before, **now}:
            old, new = before.get(key, UNASSIGNED), now.get(key, UNASSIGNED)
            if old is not new and not _is_equal(old, new):
                yield Change(reached, key, old, new)
    elif isinstance(reached.thing, list) and len(now) >= len(before):
        for k, new in enumerate(now):
            old = before[k] if k < len(before) else UNASSIGNED
            if old is not new and not _is_equal(old, new):
                yield Change(reached, k, old, new)
    elif not _is_equal(before, now):
        yield Change(reached, UNASSIGNED, before, now)


def _is_equal(old: Any, new: Any) -> bool:
    return isinstance(old, PLAIN) and is_same(new, old)


class StateBetweenCalls:
    """What the trace of a function has changed of its surroundings, but for records: `changes`;
    with the tensors there that calls compute, `tensors`."""

    def __init__(
        self,
        around: Surroundings,
        stand_ins: StandIns,
        arguments: Sequence[Tensor],
        first_serial: int,
        is_of_surroundings: Callable[[Node], bool],
    ) -> None:
        """`arguments`, and the first of the nodes, are the trace's own. `is_of_surroundings`: what
        is computed of things around the function alone, and may have another value later."""
        self._around = around
        self._stand_ins = stand_ins
        self._numbers = {id(x): k for k, x in enumerate(arguments)}
        self._arguments = arguments  # which go by their `id`
        changed = [y for x in around.changed() for y in _changes_of(x)]
        after = [x.after for x in changed if isinstance(x.after, Tensor)]
        # Tensors that would go on to have the values of the trace; those that are made of arguments
        # say that they have none.
        self._lasting = {id(x) for x in after if is_of_surroundings(x._node)}
        self.has_changed = bool(changed or stand_ins)
        self.changes, self._records = self._parted(changed)
        self._left_out: list[Change] = [] if self.changes else changed
        self.tensors = self._tensors_in_changes(first_serial)
        self._computed = {id(x) for x in self.tensors}
        self._moved: dict[int, PlaceOfState] = {}  # by the `id` of a tensor: where calls find it
        self.is_replayed = False  # calls make the changes themselves
        self._is_first = True  # nothing was given yet

    def _parted(self, changed: list[Change]) -> tuple[list[Change], list[Change]]:
        """What calls go on from, and records, which come along for nothing where calls put
        something else in place anyway; counts as well, but these go on from what they are."""
        named = _names_that_run(self._around) if changed else Named.together([])
        others = self._around.other_holders
        is_state = [
            not x.is_record(named, others.get(id(x.reached.thing), ()))
            or id(x.after) in self._lasting
            for x in changed
        ]
        if not any(is_state):
            return [], []
        state: list[Change] = []
        records: list[Change] = []
        for change, is_read in zip(changed, is_state, strict=True):
            if is_read or type(self._stand_ins.original(change.before)) in (int, float):
                state.append(change)
            elif isinstance(change.after, Tensor):
                records.append(change)
        return state, records

    def __bool__(self) -> bool:
        return bool(self.changes)

    def described(self) -> dict[str, object]:
        """What has changed, for a message."""
        found: dict[str, object] = {}
        for change in self.changes[:4]:
            before = self._stand_ins.original(change.before)
            if before is UNASSIGNED:
                found[change.name] = f"new, of type {type(change.after).__name__}"
            elif isinstance(before, bytes | list | dict):
                found[change.name] = f"of type {type(change.reached.thing).__name__}, changed"
            else:
                number = f"{before!r}, " if isinstance(before, int | float) else ""
                found[change.name] = f"{number}of type {type(before).__name__}"
        return found

    @property
    def is_rerun(self) -> bool:
        """Whether Python has to run the function at each call."""
        return bool(self.changes or self._stand_ins) and not self.is_replayed

    def _tensors_in_changes(self, first_serial: int) -> list[Tensor]:
        all_ = (*self.changes, *self._records)
        after = [x.after for x in all_ if id(x.after) not in self._numbers]
        found = {id(x): x for y in after for x in _traced_in(y, first_serial)}
        return list(found.values())

    def forget_unread(self, read: set[Node]) -> None:
        """Take tensors that replace tensors for records, too, if the function has not read these:
        `read` has what it did. If that leaves nothing, later calls need not know. What it has only
        put somewhere else is state, as where two arrays are swapped."""
        found = self._around.times_found
        rest = [
            x
            for x in self.changes
            if not _replaces_unread(x, read) or found[id(x.after)] or id(x.after) in self._lasting
        ]
        if not rest:
            self._left_out = [*self.changes, *self._records]
            self.changes, self._records, self.tensors = [], [], []

    def places_of(self, assigned: Sequence[Any]) -> list[tuple[Any, str, Any, Any]]:
        """Where these tensors are, which the function assigns to, as `Guard.and_still` says: in a
        place that only assignments read, nobody else looks for another one."""
        wanted = {id(x) for x in assigned}
        reached = self._around.reached if wanted else ()
        places = [place for x in reached for place, held in _places_in(x) if id(held) in wanted]
        return [(*x.written, x.held) for x in places if id(x.held) in wanted]

    def left_behind(self) -> list[tuple[Any, str, Any, Any]]:
        """Where the trace has left tensors that calls do not put there anew: where others put
        something else, or assign to these, Python runs the function again, as `Guard.and_still`
        says."""
        kept = [x for x in self._left_out if isinstance(x.after, Tensor)]
        self._left_out = []
        places = [(*x.place.written, x.after) for x in kept if _is_writable(x)]
        return [*places, *[(x.after, "._node", None, x.after._node) for x in kept]]

    def forget_tensors_of(self, arguments: set[Node]) -> bool:
        """Leave out what holds tensors that depend on these, of functions that were traced inside.
        Whether nothing was read there."""
        others = {id(x) for x in self.tensors if _depends_on(x._node, arguments)}
        self._records = [x for x in self._records if id(x.after) not in others]
        others &= {id(y) for x in self.changes for y in _tensors_in(x.after)}
        left_out = [x for x in self.changes if id(x.after) in others]
        self.changes = [x for x in self.changes if id(x.after) not in others]
        self.tensors = [x for x in self.tensors if id(x) not in others]
        if any(isinstance(x.before, Tensor) for x in left_out) or len(left_out) < len(others):
            self.changes = left_out or self.changes
            return False
        return True

    def tensors_read_at_calls(
        self, asked: set[Node], assigned: Sequence[Any], *, is_assigning: bool
    ) -> dict[Node, Any]:
        """What stands for the tensors that were replaced, by node, if calls can go on from those
        that are there then: `is_replayed`. `asked`: whose values were asked for; `assigned`, and
        whether these or arguments are: what changes in place."""
        is_asked = any(x._node in asked for x in self._stand_ins.tensors)
        put = [x.after for x in (*self.changes, *self._records)]
        is_known = all(self._is_known_at_calls(x, is_assigning) for x in put)
        self.is_replayed = (
            is_known
            and not is_asked
            and all(
                isinstance(x.before, Tensor)
                and x.before._node not in asked
                and not any(x.before is y for y in assigned)
                and self._is_found_once(x.before)
                for x in self.changes
            )
        )
        if not self.is_replayed:
            return {}
        for change in (*self.changes, *self._records):
            if id(change.after) in self._computed or id(change.after) in self._numbers:
                continue
            if isinstance(change.after, Tensor):
                self._moved[id(change.after)] = self._places_of(change.after)[0]
        for change in (*self.changes, *self._records):
            # As this call goes on from it, too.
            change.place.put(self._stand_ins.original(change.before))
        self._is_first = False
        found = {x.before._node: _Held(x.place) for x in self.changes}
        for tensor in self._stand_ins.tensors:
            found[tensor._node] = _Held(self._stand_ins.place_of(tensor))
        for change in (*self.changes, *self._records):
            if id(change.after) in self._moved:
                found[change.after._node] = _Held(self._moved[id(change.after)])
        self._forget_what_was_there()
        return found

    def gradients_read_at_calls(
        self, gradients: Sequence[tuple[Tensor, Tensor]], asked: set[Node], assigned: Sequence[Any]
    ) -> list[tuple[Tensor, Node, Any]]:
        """Those tensors of which calls can go on from the `.grad` that is there then, after another
        backward pass; with its node now, and what stands for it."""
        return [
            (tensor, gradient._node, _Held(PlaceOfState(GradientOf(tensor), "grad")))
            for tensor, gradient in gradients
            if self._is_found_once(gradient)
            and gradient._node not in asked
            and not any(gradient is x for x in assigned)
        ]

    def _forget_what_was_there(self) -> None:
        """It would stay in memory as long as this does. Of what has changed, its kind is enough."""
        self.changes, self._records = (
            [
                x._replace(
                    reached=x.reached._replace(before=None),
                    before=type(self._stand_ins.original(x.before)),
                )
                for x in changes
            ]
            for changes in (self.changes, self._records)
        )
        self._around, self._stand_ins = Surroundings(), StandIns([])

    def _is_known_at_calls(self, after: Any, is_assigning: bool) -> bool:
        """Whether calls know what is put somewhere: what they compute or are given, numbers and
        text, and what is in one other place when they begin; there it stays the same thing, so
        nothing may change in place meanwhile."""
        if isinstance(after, PLAIN) or id(after) in self._computed or id(after) in self._numbers:
            return True
        is_in_one_place = isinstance(after, Tensor) and len(self._places_of(after)) == 1
        return is_in_one_place and self._is_found_once(after) and not is_assigning

    def _is_found_once(self, tensor: Tensor) -> bool:
        """Whether what the trace has read of it can only be from its place."""
        return self._around.is_complete and self._around.times_found[id(tensor)] == 1

    def _places_of(self, tensor: Tensor) -> list[PlaceOfState]:
        """Where it was before the trace."""
        places = [y for x in self._around.reached for y in _places_in(x)]
        return [place for place, held in places if held is tensor]

    @property
    def places_of_values(self) -> list[PlaceOfState]:
        """Where arrays and numbers are that have changed: stand-ins for these may help, if nothing
        else has, as what is in an array."""
        fit = [isinstance(x.after, (Tensor, *_KINDS)) and _is_writable(x) for x in self.changes]
        if not all(fit):
            return []
        found = [x.place for x in self.changes]
        known = [self._stand_ins.place_of(x) for x in self._stand_ins.tensors]
        return list({(id(x.thing), x.key): x for x in (*found, *known)}.values())

    def give(self, nodes: Sequence[Node], leaves: Sequence[Any], *, as_tensors: bool) -> None:
        """Have what has changed hold these, the values of `tensors`. `leaves`: the arguments of the
        call; `as_tensors`: whether a tensor is among them."""
        computed = {id(x): node for x, node in zip(self.tensors, nodes, strict=True)}
        moved = {key: place.held for key, place in self._moved.items()}
        is_first, self._is_first = self._is_first, False
        if is_first:
            for tensor, node in zip(self.tensors, nodes, strict=True):
                rebind(tensor, node if node.handle is None else OPS["identity"](node))
        for change in (*self.changes, *self._records):
            key = id(change.after)
            was = change.before
            kind = was if self.is_replayed else type(self._stand_ins.original(was))
            if key in self._numbers:
                change.place.put(leaves[self._numbers[key]])
            elif key in moved:
                change.place.put(moved[key])
            elif key in computed:
                is_number = is_stand_in(change.after)
                if is_number or not (is_first and as_tensors) or kind in _KINDS:
                    change.place.put(_of_kind(kind, computed[key], is_number=is_number))
            elif is_first:
                self._give_first(change, kind)
            elif isinstance(change.after, PLAIN):
                change.place.put(change.after)

    def _give_first(self, change: Change, kind: type) -> None:
        """What the trace has put there without a computation of its own is there already; but for
        stand-ins, and what was computed of them to decide something."""
        original = self._stand_ins.original(change.after)
        if original is not change.after:
            change.place.put(original)
        elif isinstance(change.after, Tensor) and kind in _KINDS:
            is_number = is_stand_in(change.after)
            change.place.put(_of_kind(kind, change.after._node, is_number=is_number))

    def undo(self) -> None:
        """Have everything be what it was before the trace."""
        self._around.put_back()
        self._stand_ins.leave()


class _Held:
    """The tensor that is somewhere, at each look."""

    def __init__(self, place: PlaceOfState) -> None:
        self._place = place

    @property
    def _node(self) -> Node:
        held = self._place.held
        return held._node if isinstance(held, Tensor) else as_node(held)


def _places_in(reached: Reached) -> Iterator[tuple[PlaceOfState, Any]]:
    """Each place in it, with what was there."""
    thing, before = reached.thing, reached.before
    if isinstance(thing, types.CellType | GlobalVariable):
        yield PlaceOfState(thing, UNASSIGNED), before
    elif isinstance(before, dict):
        for key, held in before.items():
            yield PlaceOfState(thing, key), held
    elif isinstance(before, list) and isinstance(thing, list):
        for k, held in enumerate(before):
            yield PlaceOfState(thing, k), held


def _depends_on(node: Node, arguments: set[Node]) -> bool:
    return not arguments.isdisjoint(toposort([node], stop=lambda x: x.value is not None))


def _replaces_unread(change: Change, read: set[Node]) -> bool:
    if change.is_gradient:
        return False
    before, after = change.before, change.after
    return isinstance(before, Tensor) and isinstance(after, Tensor) and before._node not in read


def _names_that_run(around: Surroundings) -> Named:
    """What the code names that the function may run: its own, that of special methods, and of what
    it finds under names that such code has."""
    found = Named.together([])
    waiting = around.functions
    while True:
        names = found.names | found.read
        ready, rest = [], []
        for x in waiting:
            holder = x[0]
            is_ready = holder is None or holder[:2] == "__" or holder in names
            (ready if is_ready else rest).append(x)
        if not ready:
            return found
        found = Named.together([found, *(named_in(x.__code__) for _, x in ready)])
        waiting = rest


def _tensors_in(held: Any) -> list[Tensor]:
    inside = Surroundings()
    inside.look_at("", held, None)
    return [x.thing for x in inside.reached if isinstance(x.thing, Tensor)]


def _traced_in(held: Any, first_serial: int) -> list[Tensor]:
    """The tensors in this that have no value, of a trace whose first node this is."""
    found = _tensors_in(held)
    return [x for x in found if x._node.value is None and x._node.serial >= first_serial]


def forget_tensors_of(around: Surroundings, first_serial: int) -> None:
    """After a trace that failed: have what holds tensors of it hold what it did before."""
    for reached in [*around.changed()]:
        if any(_traced_in(x.after, first_serial) for x in _changes_of(reached)):
            reached.put_back()
