"""The variables of a loop or a branch, in the cells that its parts share with the function."""

import dataclasses
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.errors import TracingError
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.frontend.inputs.code_names import UNASSIGNED, contents_of
from numba_grad.frontend.python_control_flow.flattened_values import (
    MISSING,
    FlattenedValue,
    Part,
    is_container,
    never_changes,
    taken_apart,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.python_control_flow.surroundings_of_parts import SurroundingsOfParts
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import traced_bodies
from numba_grad.graph.node import OPS, Node

# Tensors of a container, by their numbers among its leaves, with the nodes that they had.
Leaves = dict[int, tuple[Tensor, Node]]


class AssignedVariables:
    """What the parts of one loop or branch assign, and what they read."""

    def __init__(self, site: Site, parts: Iterable[Part | None]) -> None:
        self.site = site
        self.cells: dict[str, types.CellType] = {}
        given = [part for part in parts if part is not None]
        for part in given:
            cells = part.__closure__ or ()
            self.cells.update(zip(part.__code__.co_freevars, cells, strict=True))
        self.names = [x for x in dict.fromkeys((*site.assigned, *site.changed)) if x in self.cells]
        self._before = {name: contents_of(cell) for name, cell in self.cells.items()}
        self._check_changed()
        self._surroundings = SurroundingsOfParts(site, self.cells, self.names, given)
        self._in_containers: dict[str, Leaves] = {}  # tensors that parts get in containers
        self._written: dict[str, set[int]] = {}  # numbers of those that parts change in place
        self._replaced: dict[str, set[int]] = {}  # and that have others in their places afterwards

    # Values

    def value(self, name: str) -> FlattenedValue:
        held = contents_of(self.cells[name])
        return MISSING if held is UNASSIGNED else taken_apart(held)

    def value_after(self, name: str) -> FlattenedValue:
        """After a part: with the tensors of before in containers where it has left them alone, so
        that they are no results."""
        value, given = self.value(name), self._in_containers.get(name)
        if not given:
            return value
        before = taken_apart(self._before[name]).leaves
        leaves = [
            before[k] if k in given and given[k][0] is x and given[k][1] is x._node else x
            for k, x in enumerate(value.leaves)
        ]
        return FlattenedValue(leaves, value.structure)

    @property
    def arrays_that_change(self) -> list[str]:
        """Names of tensors that may change in place."""
        changed = [name for name in self.names if name in self.site.changed]
        return [x for x in changed if type(h := self._before[x]) is Tensor and not never_changes(h)]

    @property
    def containers_that_change(self) -> list[str]:
        """Names of containers that change, or whose tensors do."""
        return [x for x in self.names if x in self.site.changed and is_container(self._before[x])]

    def put(self, name: str, held: Any) -> None:
        self.cells[name].cell_contents = held

    def begin_part(self) -> None:
        """Note which tensors a part gets in containers: others may hold them as well."""
        for name in self.names:
            if is_container(self._before[name]):
                leaves = self.value(name).leaves
                self._in_containers[name] = {
                    k: (x, x._node) for k, x in enumerate(leaves) if type(x) is Tensor
                }

    def end_part(self) -> None:
        """Note which of them it has changed in place."""
        for name, given in self._in_containers.items():
            now = self.value(name).leaves
            for k, (tensor, node) in given.items():
                if k >= len(now) or now[k] is not tensor:
                    self._replaced.setdefault(name, set()).add(k)
                elif tensor._node is not node:
                    self._written.setdefault(name, set()).add(k)
                    self._check_alone(name, taken_apart(self._before[name]).leaves[k])

    def forget(self, name: str) -> None:
        """Have a variable without a value, as before it is assigned."""
        if contents_of(self.cells[name]) is not UNASSIGNED:
            del self.cells[name].cell_contents

    def restore(self) -> None:
        """Put the values of before in place: handles of their own for what may change in place."""
        self._put_before(_renewed)

    def put_back(self) -> None:
        """Have the variables hold what they did before the parts were traced, itself."""
        self._put_before(lambda held: held)

    def _put_before(self, of_changed: Callable[[Any], Any]) -> None:
        for name in self.names:
            held = self._before[name]
            if held is UNASSIGNED:
                self.forget(name)
            else:
                self.put(name, of_changed(held) if name in self.site.changed else held)

    def undo(self) -> None:
        """Have containers hold what they did before the parts were traced.

        Raises
        ------
        TracingError
            If something else has changed.
        """
        self._surroundings.put_back()
        self.check_around()

    def changed_by_calls(self, assigned: Node | None) -> str | None:
        """A variable that the parts read alone, and that a function which they call changes in
        place. `assigned`: what a tensor was that could not be assigned to."""
        for name, held in self._before.items():
            if name in self.site.read and held is not UNASSIGNED:
                if held is self._surroundings.first_changed and is_container(held):
                    return name
                leaves = taken_apart(held).leaves if is_container(held) else (held,)
                if any(type(x) is Tensor and x._node is assigned for x in leaves):
                    return name
        return None

    def finish(self, name: str, held: Any, *, is_same: bool) -> None:
        """Have a variable hold a result. `is_same`: the parts changed what it held in place, if
        anything. Then it holds the same thing as before, for others may hold that as well."""
        before = self._before[name]
        same = self._in_containers.get(name, {}).keys() - self._replaced.get(name, set())
        if same:
            held = _with_tensors_of(before, held, same, self._written.get(name, set()))
        if is_same and name in self.site.changed and before is not UNASSIGNED:
            held = _written_over(before, held)
        self.put(name, held)

    # What must not change

    def check_around(self) -> None:
        """After tracing: raise an error if something else has changed."""
        self._surroundings.check()

    def _check_changed(self) -> None:
        """Refuse what cannot be changed in place inside of an operation."""
        if self.site.foreign:
            raise self._refused(
                self.site.foreign[0],
                "is not a variable of this function, and is assigned to",
                fix="a variable of the function's own, that is returned",
            )
        for name in self.site.changed:
            held = self._before.get(name, UNASSIGNED)
            if isinstance(held, np.ndarray):
                raise self._refused(
                    name,
                    "is a NumPy array, and is changed in place",
                    fix=f"{name} = np.zeros(..., like=x), or ng.zeros(...), where {name} is made; "
                    f"or {name} = ng.tensor({name}) before",
                )
            if held is UNASSIGNED or never_changes(held):
                continue
            if isinstance(held, Tensor):
                self._check_alone(name, held)
            elif not is_container(held):
                raise self._refused(
                    name,
                    f"is an object of {type(held).__name__}, and is changed in place",
                    fix="variables of the function's own, for what changes; or a dataclass",
                )

    def _check_alone(self, name: str, tensor: Tensor) -> None:
        others = [x for x, held in self._before.items() if x != name and _holds(held, tensor)]
        if not others and not _has_views(tensor):
            return
        is_inside = self._before[name] is not tensor
        if others:
            relation = "is" if self._before[others[0]] is tensor else "holds"
            other = f"`{others[0]}` {relation} the same tensor"
            way = f"{name} in place of `{others[0]}`"
        else:
            other, way = "views show its elements", f"{name}[index] wherever a view of it is used"
        copied = f"x.copy() of what {name} gets" if is_inside else f"{name} = {name}.copy()"
        raise self._refused(
            name,
            f"{'holds a tensor that is' if is_inside else 'is'} changed in place, and {other}",
            fix=f"{way}; or {copied} before, for an array of its own",
        )

    def _refused(self, name: str, problem: str, fix: str) -> TracingError:
        return TracingError(self.site.refusal(name, problem, fix))


def with_what_calls_change(
    site: Site, parts: Sequence[Part | None], record: Callable[[AssignedVariables], None]
) -> None:
    """Record a loop or a branch. The source says what its statements change; what functions that
    they call change in place is found while it is traced, and is then a variable of it as well."""
    while True:
        variables = AssignedVariables(site, parts)
        traced_bodies.current.assigned = None
        try:
            record(variables)
            return
        except TracingError:
            name = variables.changed_by_calls(traced_bodies.current.assigned)
            variables.put_back()
            if name is None:
                raise
        variables.undo()
        site = site.changing(name)


def _holds(held: Any, tensor: Tensor) -> bool:
    inside = taken_apart(held).leaves if is_container(held) else (held,)
    return any(x is tensor for x in inside)


def _renewed(held: Any) -> Any:
    """The same values, in tensors and containers of their own."""
    leaves, structure = trees.flatten(held)
    return trees.unflatten(
        structure, [wrap(OPS["identity"](x._node)) if type(x) is Tensor else x for x in leaves]
    )


def _written_over(before: Any, after: Any) -> Any:
    """`before`, with the values of `after` in it, where it can be changed."""
    if type(before) is Tensor and isinstance(after, Tensor):
        if before._node.type is not after._node.type or views.is_number(before):
            return after
        views.assign(before, after._node)
    elif isinstance(before, list):
        before[:] = after
    elif isinstance(before, dict):
        before.update(after)
    elif dataclasses.is_dataclass(before):
        for field in dataclasses.fields(before):
            object.__setattr__(before, field.name, getattr(after, field.name))
    else:
        return after
    return before


def _with_tensors_of(before: Any, after: Any, same: set[int], written: set[int]) -> Any:
    """A container, with the tensors that are in `before` at the places `same`; they get the values
    of `after` if they were written to."""
    former = trees.flatten(before)[0]
    found, structure = trees.flatten(after)
    for k in same if len(former) == len(found) else ():
        if type(former[k]) is Tensor:
            found[k] = _written_over(former[k], found[k]) if k in written else former[k]
    return trees.unflatten(structure, found)


def _has_views(tensor: Tensor) -> bool:
    view = tensor._view
    if view is None:
        return False
    found = [reference() for reference in list(view.members.values())]
    return any(x is not None and x is not tensor and x._view is not None for x in found)
