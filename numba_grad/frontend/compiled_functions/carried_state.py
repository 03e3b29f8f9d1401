"""What a jitted function changes besides its arguments: attributes, variables, items of lists.

    surroundings_of(f)   what `f` can reach, before it is traced
    CarriedState         what its trace has changed of that

Python makes these changes when it runs the function, so a compiled function whose results depend on
them is run by Python again at each call, and what it has put somewhere gets its value when the call
has computed it. Where tensors alone replace tensors of the same type (`self.u = self.u + v`), the
compiled function reads the former and puts the latter in place itself.
"""

import types
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from numba_grad.autograd.state import rebind
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.inputs.code_names import UNASSIGNED, Named, named_in
from numba_grad.frontend.inputs.guards import is_same
from numba_grad.frontend.inputs.surroundings import (
    PLAIN,
    GlobalVariable,
    Reached,
    Surroundings,
    state_of,
)
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import Node, leaf


class Change(NamedTuple):
    """One thing that is not what it was."""

    reached: Reached
    key: Any  # of the item or attribute, UNASSIGNED for anything else
    before: Any
    after: Any

    @property
    def name(self) -> str:
        reached, key = self.reached, self.key
        if key is UNASSIGNED:
            return reached.name
        if isinstance(reached.thing, dict | list):
            return f"{reached.name}[{key!r}]"
        return f"{reached.name}.{key}" if reached.name else str(key)

    @property
    def described(self) -> str:
        if self.before is UNASSIGNED:
            return f"new, of type {type(self.after).__name__}"
        if isinstance(self.before, bytes | list | dict):
            return f"of type {type(self.reached.thing).__name__}, changed"
        kind = type(self.before).__name__
        number = f"{self.before!r}, " if isinstance(self.before, int | float) else ""
        return f"{number}of type {kind}"

    def is_record(self, named: Named) -> bool:
        """Whether no code that the function may run reads it."""
        is_attribute = self.key is not UNASSIGNED and not isinstance(
            self.reached.thing, dict | list
        )
        name = self.key if is_attribute else self.reached.holder
        if name is None or (is_attribute and named.reads_any):
            return False
        is_variable = self.key is UNASSIGNED
        held = self.before if is_attribute or is_variable else self.reached.thing
        # What is assigned to such a name only, each time, is a record as well; sums are not.
        is_last = (is_attribute or is_variable) and name not in named.updated
        is_sum = isinstance(self.after, Tensor) and not is_last
        return not named.is_read(name, held) and not is_sum

    def put(self, held: Any) -> None:
        """Have it be this."""
        thing = self.reached.thing
        if isinstance(thing, GlobalVariable):
            thing.variables[thing.name] = held
        elif self.key is UNASSIGNED:
            thing.cell_contents = held
        elif isinstance(thing, dict | list):
            thing[self.key] = held
        else:
            (type if isinstance(thing, type) else object).__setattr__(thing, self.key, held)

    def held(self) -> Any:
        """What is there now."""
        now = state_of(self.reached.thing)
        if self.key is UNASSIGNED:
            return now
        is_there = self.key < len(now) if isinstance(now, list) else self.key in now
        return now[self.key] if is_there else UNASSIGNED


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


class CarriedState:
    """What the trace of a function has changed of its surroundings, but for records: `changes`;
    with the tensors there that calls compute, `tensors`."""

    def __init__(
        self, around: Surroundings, stand_ins: Sequence[Tensor], first_serial: int
    ) -> None:
        """`stand_ins`: the arguments of the trace; `first_serial`: of its nodes."""
        self._around = around
        self._numbers = {id(x): k for k, x in enumerate(stand_ins)}
        self._stand_ins = stand_ins
        self.changes = [y for x in around.changed() for y in _changes_of(x)]
        self.has_changed = bool(self.changes)  # records included
        if self.changes:
            named = _names_that_run(around)
            self.changes = [x for x in self.changes if not x.is_record(named)]
        self.tensors = self._tensors_in_changes(first_serial)
        self.is_replayed = False  # calls make the changes themselves
        self._is_first = True  # nothing was given yet

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def is_rerun(self) -> bool:
        """Whether Python has to run the function at each call."""
        return bool(self.changes) and not self.is_replayed

    def _tensors_in_changes(self, first_serial: int) -> list[Tensor]:
        after = [x.after for x in self.changes if id(x.after) not in self._numbers]
        found = {id(x): x for y in after for x in _traced_in(y, first_serial)}
        return list(found.values())

    def forget_unread(self, read: set[Node]) -> None:
        """Take tensors that replace tensors for records, too, if the function has not read these:
        `read` has what it did. If that leaves nothing, later calls need not know."""
        rest = [x for x in self.changes if not _replaces_unread(x, read)]
        if not rest:
            self.changes, self.tensors = [], []

    def tensors_read_at_calls(self, asked: set[Node], assigned: Sequence[Any]) -> dict[Node, Any]:
        """What stands for the tensors that were replaced, by node, if calls can go on from those
        that are there then: `is_replayed`. `asked`: whose values were asked for."""
        self.is_replayed = bool(self.changes) and all(
            isinstance(x.before, Tensor)
            and isinstance(x.after, Tensor)
            and _is_alike(x.before._node, x.after._node)
            and x.before._node not in asked
            and not any(x.before is y for y in assigned)
            and self._times_held(x.before) == 1
            for x in self.changes
        )
        if not self.is_replayed:
            return {}
        for change in self.changes:
            change.put(change.before)  # as this call goes on from it, too
        self._is_first = False
        return {x.before._node: _Held(x) for x in self.changes}

    def _times_held(self, tensor: Tensor) -> int:
        times = 0
        for reached in self._around.reached:
            before = reached.before
            held = before.values() if isinstance(before, dict) else before
            held = held if isinstance(before, dict | list) else (before,)
            times += sum(x is tensor for x in held)
        return times

    def give(self, nodes: Sequence[Node], leaves: Sequence[Any], *, as_tensors: bool) -> None:
        """Have what has changed hold these, the values of `tensors`. `leaves`: the arguments of the
        call; `as_tensors`: whether a tensor is among them."""
        computed = {id(x): node for x, node in zip(self.tensors, nodes, strict=True)}
        is_first, self._is_first = self._is_first, False
        if is_first:
            for tensor, node in zip(self.tensors, nodes, strict=True):
                rebind(tensor, node if node.handle is None else leaf(node.value))
        for change in self.changes:
            number = self._numbers.get(id(change.after))
            if number is not None:
                change.put(leaves[number])
            elif not isinstance(change.after, Tensor) or id(change.after) not in computed:
                continue
            elif is_first:
                node = change.after._node
                is_array = not as_tensors and not isinstance(change.before, Tensor)
                if is_array and node.value is not None and not node.requires_grad:
                    change.put(np.asarray(node.value)[()])
            else:
                change.put(Tensor(computed[id(change.after)]))

    def undo(self) -> None:
        """Have everything be what it was before the trace."""
        for reached in [*self._around.changed()]:
            reached.put_back()


class _Held:
    """The tensor that is somewhere, at each look."""

    def __init__(self, change: Change) -> None:
        self._change = change

    @property
    def _node(self) -> Node:
        held = self._change.held()
        return held._node if isinstance(held, Tensor) else as_node(held)


def _replaces_unread(change: Change, read: set[Node]) -> bool:
    before, after = change.before, change.after
    return isinstance(before, Tensor) and isinstance(after, Tensor) and before._node not in read


def _is_alike(x: Node, y: Node) -> bool:
    return x.type == y.type and x.requires_grad == y.requires_grad


def _names_that_run(around: Surroundings) -> Named:
    """What the code names that the function may run: its own, that of special methods, and of what
    it finds under names that such code has."""
    waiting = [(holder, named_in(x.__code__)) for holder, x in around.functions]
    reached: list[Named] = []
    while True:
        names = frozenset().union(*(x.names | x.read for x in reached))
        ready = [x for x in waiting if x[0] is None or x[0][:2] == "__" or x[0] in names]
        if not ready:
            return Named.together(reached)
        reached += [named for _, named in ready]
        waiting = [x for x in waiting if x not in ready]


def _traced_in(held: Any, first_serial: int) -> list[Tensor]:
    """The tensors in this that have no value, of a trace whose first node this is."""
    inside = Surroundings()
    inside.look_at("", held, None)
    found = [x.thing for x in inside.reached if isinstance(x.thing, Tensor)]
    return [x for x in found if x._node.value is None and x._node.serial >= first_serial]


def forget_tensors_of(around: Surroundings, first_serial: int) -> None:
    """After a trace that failed: have what holds tensors of it hold what it did before."""
    for reached in [*around.changed()]:
        if any(_traced_in(x.after, first_serial) for x in _changes_of(reached)):
            reached.put_back()
