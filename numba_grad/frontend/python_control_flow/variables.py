"""The variables of a loop or a branch, in the cells that its parts share with the function, and
what else parts can reach, which an operation must leave as it is."""

import dataclasses
import functools
import pickle
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.errors import TracingError
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.frontend.inputs.guards import is_of_library
from numba_grad.frontend.python_control_flow.flattened_values import (
    MISSING,
    FlattenedValue,
    taken_apart,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.tensors.python_numbers import is_number
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node

Part = Callable[..., Any]  # a function made of statements or of an expression

_UNASSIGNED = object()
# Tensors of a container, by their numbers among its leaves, with the nodes that they had.
Leaves = dict[int, tuple[Tensor, Node]]
_MOST_ITEMS = 1000  # of a container that is looked at
_MOST_BYTES = 2**18  # of an array, as copied in some microseconds
_DEEPEST = 3  # containers in containers
_CONTAINERS = (list, dict, set, deque)
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


class AssignedVariables:
    """What the parts of one loop or branch assign, and what they read."""

    def __init__(self, site: Site, parts: Iterable[Part | None]) -> None:
        self.site = site
        self.cells: dict[str, types.CellType] = {}
        self._globals: dict[str, Any] = {}
        self._global_names: dict[str, None] = {}
        for part in parts:
            if part is not None:
                cells = part.__closure__ or ()
                self.cells.update(zip(part.__code__.co_freevars, cells, strict=True))
                self._globals = part.__globals__
                self._global_names.update(dict.fromkeys(part.__code__.co_names))
        self.names = [x for x in dict.fromkeys((*site.assigned, *site.changed)) if x in self.cells]
        self._before = {name: contents_of(cell) for name, cell in self.cells.items()}
        self._check_changed()
        self._reachable = [*self._look_around()]
        self._in_containers: dict[str, Leaves] = {}  # tensors that parts get in containers
        self._written: dict[str, set[int]] = {}  # numbers of those that parts change in place
        self._replaced: dict[str, set[int]] = {}  # and that have others in their places afterwards
        self._around_changed: Any = _UNASSIGNED  # something else that a part has changed

    # Values

    def value(self, name: str) -> FlattenedValue:
        held = contents_of(self.cells[name])
        return MISSING if held is _UNASSIGNED else taken_apart(held)

    @property
    def arrays_that_change(self) -> list[str]:
        """Names of tensors that may change in place."""
        changed = [name for name in self.names if name in self.site.changed]
        return [
            x for x in changed if type(h := self._before[x]) is Tensor and not _never_changes(h)
        ]

    @property
    def containers_that_change(self) -> list[str]:
        """Names of containers that change, or whose tensors do."""
        return [x for x in self.names if x in self.site.changed and _is_container(self._before[x])]

    def put(self, name: str, held: Any) -> None:
        self.cells[name].cell_contents = held

    def begin_part(self) -> None:
        """Note which tensors a part gets in containers: others may hold them as well."""
        for name in self.names:
            if _is_container(self._before[name]):
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
        if contents_of(self.cells[name]) is not _UNASSIGNED:
            del self.cells[name].cell_contents

    def restore(self) -> None:
        """Put the values of before in place: handles of their own for what may change in place."""
        for name in self.names:
            held = self._before[name]
            if held is _UNASSIGNED:
                self.forget(name)
            else:
                self.put(name, _renewed(held) if name in self.site.changed else held)

    def put_back(self) -> None:
        """Have the variables hold what they did before the parts were traced."""
        for name in self.names:
            held = self._before[name]
            if held is _UNASSIGNED:
                self.forget(name)
            else:
                self.put(name, held)

    def undo(self) -> None:
        """Have containers hold what they did before the parts were traced.

        Raises
        ------
        TracingError
            If something else has changed.
        """
        for _, thing, before in self._reachable:
            if isinstance(thing, list):
                thing[:] = before
            elif isinstance(thing, dict):
                thing.clear()
                thing.update(zip(before[::2], before[1::2], strict=True))
            elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
                for key, item in zip(before[::2], before[1::2], strict=True):
                    object.__setattr__(thing, key, item)
        self.check_around()

    def changed_by_calls(self, assigned: Node | None) -> str | None:
        """A variable that the parts read alone, and that a function which they call changes in
        place. `assigned`: what a tensor was that could not be assigned to."""
        for name, held in self._before.items():
            if name in self.site.read and held is not _UNASSIGNED:
                if held is self._around_changed and _is_container(held):
                    return name
                leaves = taken_apart(held).leaves if _is_container(held) else (held,)
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
        if is_same and name in self.site.changed and before is not _UNASSIGNED:
            held = _written_over(before, held)
        self.put(name, held)

    # What must not change

    def _check_changed(self) -> None:
        """Refuse what cannot be changed in place inside of an operation."""
        if self.site.foreign:
            raise self._refused(
                self.site.foreign[0],
                "is not a variable of this function, and is assigned to",
                fix="a variable of the function's own, that is returned",
            )
        for name in self.site.changed:
            held = self._before.get(name, _UNASSIGNED)
            if isinstance(held, np.ndarray):
                raise self._refused(
                    name,
                    "is a NumPy array, and is changed in place",
                    fix=f"{name} = np.zeros(..., like=x), or ng.zeros(...), where {name} is made; "
                    f"or {name} = ng.tensor({name}) before",
                )
            if held is _UNASSIGNED or _never_changes(held):
                continue
            if isinstance(held, Tensor):
                self._check_alone(name, held)
            elif not _is_container(held):
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
        return TracingError(
            self.site.explain(
                f"the condition is known at run time only; `{name}` {problem}", fix=fix
            )
        )

    def _look_around(self) -> "Iterator[tuple[str, Any, Any]]":
        """What else can be reached: (how it is written, thing, what it is like now)."""
        seen: set[int] = set()
        around = {k: v for k, v in self._before.items() if k not in self.names}
        for name in self._global_names:
            if name in self._globals:
                around[name] = self._globals[name]
        cells = {name: self.cells[name] for name in around if name in self.cells}
        if "random" in self._names_in_reach(around.values()):
            # What is drawn from without a generator. To read its state takes 0.2 ms.
            around |= {"np.random": np.random.mtrand._rand, "random": random._inst}
        for held in around.values():
            cells |= {k: v for k, v in _cells_of(held).items() if k not in cells}
        own = [self.cells[name] for name in self.names]
        for name, cell in cells.items():
            if not any(cell is x for x in own):
                yield name, cell, contents_of(cell)
        # What its own variables hold is theirs to change, also where functions close over it.
        seen |= {id(x) for x in map(self._before.get, self.names) if _is_container(x)}
        seen |= {id(x) for x in map(self._before.get, self.names) if isinstance(x, Tensor)}
        for name, held in around.items():
            yield from _contents(name, held, seen, 0)
        seen.clear()
        for name in self.names:
            # What is in it may be a stand-in later, but a list stays a list, and an object itself.
            held = self._before[name]
            if not _is_container(held):
                yield from _contents(name, held, seen, 0)
                continue
            leaves, structure = trees.flatten(held)
            if any(map(_may_be_changed, leaves)):
                for path, leaf in zip(trees.leaf_names(structure, name), leaves, strict=True):
                    if _may_be_changed(leaf):
                        yield from _contents(path, leaf, seen, 0)

    def _names_in_reach(self, around: Iterable[Any]) -> set[str]:
        """Names that the parts use, and the functions of the same module that they can call."""
        names = {*self._global_names}
        pending = [x for x in around if isinstance(x, types.FunctionType)]
        while pending:
            new = {*pending.pop().__code__.co_names} - names
            names |= new
            found = [self._globals.get(name) for name in new]
            pending += [x for x in found if isinstance(x, types.FunctionType)]
        return names

    def check_around(self) -> None:
        """After tracing: raise an error if something else has changed."""
        for name, thing, before in self._reachable:
            if isinstance(thing, types.CellType):
                if contents_of(thing) is not before:
                    raise self._refused(
                        name, "is assigned to by a function that is called", "return it"
                    )
                continue
            now = _state_of(thing)
            if isinstance(before, bytes):
                is_same = now == before
            elif isinstance(before, list):
                is_same = len(now) == len(before) and all(map(_is, now, before))
            else:
                is_same = now is before
            if is_same:
                continue
            if isinstance(thing, list) and len(now) > len(before):
                raise self._refused(name, "is a list that grows", fix=GROWING.format(name=name))
            self._around_changed = thing
            raise self._refused(
                name,
                f"(of type {type(thing).__name__}) is changed",
                fix="ng.random, with a key for each step"
                if isinstance(thing, _GENERATORS)
                else "variables of the function's own, for what changes",
            )


GROWING = (
    "ng.scan, which stacks what the steps return, as np.stack({name}) would; or "
    "{name} = np.zeros((n, ...), like=x) before the loop, and {name}[i] = ..."
)


def contents_of(cell: types.CellType) -> Any:
    """What a variable holds, or _UNASSIGNED."""
    try:
        return cell.cell_contents
    except ValueError:
        return _UNASSIGNED


def _cells_of(held: Any) -> dict[str, types.CellType]:
    """The variables that a function shares with others."""
    if not isinstance(held, types.FunctionType):
        return {}
    return dict(zip(held.__code__.co_freevars, held.__closure__ or (), strict=True))


def _is(x: Any, y: Any) -> bool:
    return x is y


def _holds(held: Any, tensor: Tensor) -> bool:
    inside = taken_apart(held).leaves if _is_container(held) else (held,)
    return any(x is tensor for x in inside)


def _never_changes(held: Any) -> bool:
    """Whether `x += 1` gives `x` another value, and leaves this one as it is."""
    if type(held) is Tensor:
        return views.is_number(held)
    return is_number(held) or isinstance(held, (np.generic, str, bytes, type(None)))


def _is_container(held: Any) -> bool:
    return isinstance(held, (list, dict, tuple)) or (
        dataclasses.is_dataclass(held) and not isinstance(held, type)
    )


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


def _contents(
    name: str, thing: Any, seen: set[int], depth: int
) -> "Iterator[tuple[str, Any, Any]]":
    if isinstance(thing, (types.MethodType, types.BuiltinMethodType)):
        thing = thing.__self__
    if id(thing) in seen or depth > _DEEPEST:
        return
    if isinstance(thing, Tensor):
        seen.add(id(thing))
        yield name, thing, thing._node
        return
    if isinstance(thing, np.ndarray):
        if thing.nbytes <= _MOST_BYTES:
            seen.add(id(thing))
            yield name, thing, _state_of(thing)
        return
    if isinstance(thing, _GENERATORS):
        yield name, thing, _state_of(thing)
        return
    if isinstance(thing, types.FunctionType):
        seen.add(id(thing))
        # What it keeps from call to call. Its variables are known by name.
        kept = [contents_of(x) for x in thing.__closure__ or ()]
        for item in (*kept, *(thing.__defaults__ or ()), thing.__dict__):
            yield from _contents(name, item, seen, depth + 1)
        return
    if isinstance(thing, functools.partial):
        for item in (thing.func, *thing.args, *thing.keywords.values()):
            yield from _contents(name, item, seen, depth + 1)
        return
    if isinstance(thing, (types.ModuleType, type)):
        return
    is_object = not isinstance(thing, (*_CONTAINERS, tuple))
    if is_object and _is_of_library_class(thing):
        return  # what libraries keep for themselves
    inside = _attributes_of(thing) if is_object else thing
    if len(inside) > _MOST_ITEMS:
        return
    seen.add(id(thing))
    if not isinstance(thing, tuple):
        yield name, thing, _state_of(thing)
    items = inside.items() if isinstance(inside, dict) else enumerate(inside)
    for key, item in list(items):
        path = f"{name}.{key}" if is_object else f"{name}[{key!r}]"
        yield from _contents(path, item, seen, depth + 1)


def _is_of_library_class(thing: Any) -> bool:
    module = sys.modules.get(type(thing).__module__)
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    return is_of_library(file) if file else module.__name__ in sys.builtin_module_names


def _state_of(thing: Any) -> Any:
    """What shows whether something has changed."""
    if isinstance(thing, Tensor):
        return thing._node
    if isinstance(thing, np.ndarray):
        return b"" if thing.dtype.hasobject else thing.tobytes()
    if isinstance(thing, np.random.Generator):
        return pickle.dumps(thing.bit_generator.state)
    if isinstance(thing, np.random.RandomState):
        return pickle.dumps(thing.get_state())
    if isinstance(thing, random.Random):
        return pickle.dumps(thing.getstate())
    if not isinstance(thing, (*_CONTAINERS, tuple)):
        thing = _attributes_of(thing)
    if isinstance(thing, dict):
        return [x for pair in thing.items() for x in pair]
    return list(thing)


def _attributes_of(thing: Any) -> dict[str, Any]:
    """What an object holds."""
    names = [x for cls in type(thing).__mro__ for x in getattr(cls, "__slots__", ())]
    in_slots = {x: getattr(thing, x) for x in names if x[:2] != "__" and hasattr(thing, x)}
    return in_slots | getattr(thing, "__dict__", {})


def _may_be_changed(leaf: Any) -> bool:
    """Whether it is an object of which others see what a part does to it."""
    return isinstance(leaf, np.ndarray) or not (
        isinstance(leaf, Tensor) or is_number(leaf) or _never_changes(leaf)
    )
