"""What the parts of a loop or a branch can reach besides its variables.

An operation leaves it as it is: parts are traced once, whether they will run or not, so what they
do to other things would be done once as well. It is looked at before and after.
"""

import array
import dataclasses
import functools
import gc
import operator
import pickle
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from numba_grad.errors import TracingError
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.guards import is_of_library
from numba_grad.frontend.python_control_flow.flattened_values import (
    UNASSIGNED,
    Part,
    contents_of,
    is_container,
    never_changes,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.tensors.python_numbers import is_number
from numba_grad.frontend.tensors.tensor import Tensor

_MOST_ITEMS = 1000  # of a container that is looked at
_MOST_IN_ALL = 5_000  # some milliseconds
_MOST_BYTES = 2**18  # of an array, as copied in some microseconds
_DEEPEST = 3  # containers in containers, and iterators of iterators
_CONTAINERS = (list, dict, set, deque)
_BUFFERS = (bytearray, memoryview, array.array)
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_CACHED = type(functools.lru_cache(int))
_DEFINED = (types.FunctionType, types.BuiltinFunctionType, type)
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_CONSTANT = (str, bytes, type(None), np.generic, types.ModuleType, types.CodeType)


@dataclass(frozen=True, slots=True)
class _Global:
    """A variable of a module."""

    name: str
    variables: dict[str, Any]

    @property
    def held(self) -> Any:
        return self.variables.get(self.name, UNASSIGNED)


class _Reached(NamedTuple):
    name: str  # as it is written
    thing: Any
    before: Any  # what it was like
    is_memo: bool  # new keys are what a function that is called remembers


class Surroundings:
    """What can be reached, as it is now."""

    def __init__(
        self,
        site: Site,
        cells: Mapping[str, types.CellType],
        own: Sequence[str],
        parts: Iterable[Part],
    ) -> None:
        """`cells`: the variables that the parts share with the function; `own` names those that
        are theirs to change."""
        self._site = site
        self._reached: list[_Reached] = []
        self.changed: Any = UNASSIGNED  # what `check` has found, and might be a variable instead
        self._names: set[str] = set()  # that functions use
        self._left = _MOST_IN_ALL
        self._pending: list[tuple[str, types.FunctionType]] = []
        held = {name: contents_of(cell) for name, cell in cells.items()}
        # What its own variables hold is theirs to change, also where functions close over it.
        kept = [held[x] for x in own if isinstance(held[x], Tensor) or is_container(held[x])]
        self._seen = {id(cells[name]) for name in own} | {id(x) for x in kept}
        for name, cell in cells.items():
            if name not in own:
                self._look_at_variable(name, cell)
        for part in parts:
            self._look_at_globals(part, is_called=False)
        self._look_at_functions()
        if "random" in self._names:
            # What is drawn from without a generator. To read its state takes 0.2 ms.
            self._look("np.random", np.random.mtrand._rand)
            self._look("random", random._inst)
        self._seen.clear()
        for name in own:
            self._look_into_own(name, held[name])

    def check(self) -> None:
        """After tracing: raise an error if something has changed."""
        for reached in self._reached:
            if not _is_as_before(reached):
                if not _has_grown(reached):
                    self.changed = reached.thing
                raise TracingError(
                    self._site.refusal(reached.name, *_change_of(reached, self._site))
                )

    def put_back(self) -> None:
        """Have containers hold what they did."""
        for _, thing, before, is_memo in self._reached:
            if isinstance(thing, list):
                thing[:] = before
            elif isinstance(thing, dict) and not is_memo:
                thing.clear()
                thing.update(zip(before[::2], before[1::2], strict=True))
            elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
                for key, item in zip(before[::2], before[1::2], strict=True):
                    object.__setattr__(thing, key, item)

    # Looking

    def _look_at_variable(self, name: str, cell: types.CellType) -> None:
        """A variable that functions share."""
        if id(cell) not in self._seen:
            self._seen.add(id(cell))
            held = contents_of(cell)
            self._reached.append(_Reached(name, cell, held, False))
            self._look(name, held)

    def _look_at_functions(self) -> None:
        """What the functions share that were found, what they keep from call to call, and name."""
        while self._pending:
            name, function = self._pending.pop()
            for item in (*(function.__defaults__ or ()), function.__dict__):
                self._look(name, item)
            cells = function.__closure__ or ()
            for shared, cell in zip(function.__code__.co_freevars, cells, strict=True):
                self._look_at_variable(shared, cell)
            self._look_at_globals(function, is_called=True)

    def _look_at_globals(self, function: types.FunctionType, *, is_called: bool) -> None:
        names, variables = _names_in(function.__code__), function.__globals__
        self._names.update(names)
        for name in sorted(names):
            if name in variables:
                held = variables[name]
                if is_called and not isinstance(held, (*_DEFINED, types.ModuleType)):
                    variable = _Global(name, variables)
                    self._reached.append(_Reached(name, variable, [held], False))
                self._look(name, held, is_memo=is_called)

    def _look_into_own(self, name: str, held: Any) -> None:
        """What is in one may be a stand-in later, but a list stays a list, and an object itself."""
        if not is_container(held):
            self._look(name, held)
            return
        leaves, structure = trees.flatten(held)
        if any(map(_may_be_changed, leaves)):
            for path, leaf in zip(trees.leaf_names(structure, name), leaves, strict=True):
                if _may_be_changed(leaf):
                    self._look(path, leaf)

    def _look(self, name: str, thing: Any, depth: int = 0, *, is_memo: bool = False) -> None:
        if isinstance(thing, (types.MethodType, types.BuiltinMethodType)):
            self._look(name, getattr(thing, "__func__", None), depth)
            thing = thing.__self__
        if isinstance(thing, _CACHED):
            thing = thing.__wrapped__
        if id(thing) in self._seen or depth > _DEEPEST or _cannot_change(thing):
            return
        self._seen.add(id(thing))
        if isinstance(thing, types.FunctionType):
            if not is_of_library(thing.__code__.co_filename):
                self._pending.append((name, thing))
            return
        if isinstance(thing, functools.partial):
            for item in (thing.func, *thing.args, *thing.keywords.values()):
                self._look(name, item, depth + 1)
            return
        inside = _inside_of(thing)
        if inside is None or self._left < 0:
            return
        is_memo = is_memo and isinstance(thing, dict)
        if not isinstance(thing, tuple):
            self._reached.append(_Reached(name, thing, _state_of(thing), is_memo))
        is_object = not isinstance(thing, (*_CONTAINERS, tuple))
        self._left -= len(inside)
        for key, item in [x for x in inside if type(x[1]) not in _PLAIN]:
            path = f"{name}.{key}" if is_object else f"{name}[{key!r}]"
            self._look(path, item, depth + 1)
        if is_object:
            self._look(type(thing).__name__, type(thing))


def _is_as_before(reached: _Reached) -> bool:
    thing, before = reached.thing, reached.before
    now = _state_of(thing)
    if isinstance(before, bytes):
        return now == before
    if not isinstance(before, list):
        return now is before
    if reached.is_memo:
        # Whatever else it has remembered since, in the order of coming.
        now = now[: len(before)]
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _has_grown(reached: _Reached) -> bool:
    return isinstance(reached.thing, list) and len(reached.thing) > len(reached.before)


def _change_of(reached: _Reached, site: Site) -> tuple[str, str]:
    """What has been done to it, and what to do instead."""
    name, thing = reached.name, reached.thing
    if isinstance(thing, (types.CellType, _Global)):
        return "is assigned to by a function that is called", "return it"
    if _has_grown(reached):
        return "is a list that grows", site.instead_of_growing(name)
    fix = "variables of the function's own, for what changes"
    if isinstance(thing, _GENERATORS):
        fix = "ng.random, with a key for each step"
    return f"(of type {type(thing).__name__}) is changed", fix


@functools.lru_cache(maxsize=4096)
def _names_in(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes in it, and in what is defined there."""
    inner = [_names_in(x) for x in code.co_consts if isinstance(x, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def _cannot_change(thing: Any) -> bool:
    return thing is UNASSIGNED or is_number(thing) or isinstance(thing, _CONSTANT)


def _may_be_changed(leaf: Any) -> bool:
    """Whether it is an object of which others see what a part does to it."""
    return isinstance(leaf, np.ndarray) or not (
        isinstance(leaf, Tensor) or is_number(leaf) or never_changes(leaf)
    )


def _inside_of(thing: Any) -> Sequence[tuple[Any, Any]] | None:
    """What a thing holds, by key, position or attribute; None if nobody looks into it."""
    if isinstance(thing, (Tensor, *_GENERATORS)) or _is_iterator(thing):
        return ()
    if isinstance(thing, (np.ndarray, *_BUFFERS)):
        size = thing.nbytes if isinstance(thing, (np.ndarray, memoryview)) else len(thing)
        return () if size <= _MOST_BYTES else None
    if isinstance(thing, (*_CONTAINERS, tuple)):
        if len(thing) > _MOST_ITEMS:
            return None
        inside = thing.items() if isinstance(thing, dict) else enumerate(thing)
    elif _is_of_library_class(thing if isinstance(thing, type) else type(thing)):
        return None  # what libraries keep for themselves
    else:
        inside = _attributes_of(thing).items()
    return [*inside]


def _is_iterator(thing: Any) -> bool:
    return isinstance(thing, Iterator) and _is_of_library_class(type(thing))


def _is_of_library_class(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    return is_of_library(file) if file else module.__name__ in sys.builtin_module_names


def _state_of(thing: Any) -> Any:
    """What shows whether something has changed."""
    if isinstance(thing, types.CellType):
        return contents_of(thing)
    if isinstance(thing, _Global):
        return [thing.held]
    if isinstance(thing, Tensor):
        return thing._node
    if isinstance(thing, np.ndarray):
        return b"" if thing.dtype.hasobject else thing.tobytes()
    if isinstance(thing, _BUFFERS):
        return bytes(thing)
    if isinstance(thing, np.random.Generator):
        return pickle.dumps(thing.bit_generator.state)
    if isinstance(thing, np.random.RandomState):
        return pickle.dumps(thing.get_state())
    if isinstance(thing, random.Random):
        return pickle.dumps(thing.getstate())
    if _is_iterator(thing):
        return repr(_position_of(thing)).encode()
    if not isinstance(thing, (*_CONTAINERS, tuple)):
        thing = _attributes_of(thing)
    if isinstance(thing, dict):
        return [x for pair in thing.items() for x in pair]
    return list(thing)


def _position_of(iterator: Any, depth: int = 0) -> object:
    """How far an iterator is, as far as it says so."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        held = [] if frame is None else [id(x) for x in frame.f_locals.values()]
        return frame and frame.f_lasti, held
    own = repr(iterator), operator.length_hint(iterator, -1)
    inner = [x for x in gc.get_referents(iterator) if isinstance(x, (Iterator, tuple))]
    inner = [y for x in inner for y in (x if isinstance(x, tuple) else (x,))]
    within = depth < _DEEPEST
    return own, [_position_of(x, depth + 1) for x in inner if within and _is_iterator(x)]


def _attributes_of(thing: Any) -> dict[str, Any]:
    """What an object or a class holds, but for what it remembers as a `cached_property`."""
    if isinstance(thing, type):
        return {k: v for k, v in vars(thing).items() if k[:2] != "__"}
    names = [x for cls in type(thing).__mro__ for x in getattr(cls, "__slots__", ())]
    in_slots = {x: getattr(thing, x) for x in names if x[:2] != "__" and hasattr(thing, x)}
    found = in_slots | getattr(thing, "__dict__", {})
    of_class = type(thing)
    return {
        k: v
        for k, v in found.items()
        if not isinstance(getattr(of_class, k, None), functools.cached_property)
    }
