"""What a function can reach besides its arguments, before and after it is traced.

    Surroundings   variables that functions share, and the containers, objects, arrays, iterators
                   and random generators in these; `changed()` says what is not as it was
    drawing_nothing(operation, f)  refuses an `f` that draws random numbers, once for all steps
    UNASSIGNED     what a variable without a value holds, and a key that is not there

A trace runs a function once, so what the function does to other things is done once as well. To
see that, there is no need to know how: by a name, an alias, a method of a list, `setattr`.
"""

import array
import contextlib
import functools
import gc
import operator
import pickle
import random
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd.state import set_grad
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.errors import TracingError, explain
from numba_grad.frontend.inputs.code_names import (
    OF_ANNOTATIONS,
    UNASSIGNED,
    attributes_in_dict,
    attributes_in_slots,
    contents_of,
    imported_module,
    is_class_of_library,
    is_module_of_library,
    is_of_library,
    named_in,
    runs_code,
)
from numba_grad.immutable import NamedTuple, immutable

_MOST_ITEMS = 5_000  # of a container that is looked into; longer ones are copied
_MOST_IN_ALL = 20_000  # some 10 ms
_MOST_BYTES = (
    2**18
)  # of an array that is copied, in some microseconds; of larger ones there are sums
_SAMPLES = 4096
_DEEPEST = 8  # containers in containers
_DEEPEST_ITERATOR = 3  # iterators of iterators
_SEQUENCES = (list, deque, set)
_CONTAINERS = (*_SEQUENCES, dict, tuple)
_BUFFERS = (bytearray, memoryview, array.array)
# Modules whose functions draw without a generator that is named.
_DRAWN_FROM = ("random", "numpy.random", "numba_grad.numpy.random")
_CACHED = type(functools.lru_cache(int))
_DEFINED = (types.FunctionType, types.BuiltinFunctionType, type)
PLAIN = (int, float, complex, bool, str, bytes, type(None))
_CONSTANT = (*PLAIN, np.generic, types.ModuleType, types.CodeType)


@immutable
class GlobalVariable:
    """A variable of a module."""

    name: str
    variables: dict[str, Any]

    @property
    def held(self) -> Any:
        return self.variables.get(self.name, UNASSIGNED)


class GradientOf:
    """What has the `grad` of a tensor as its attribute."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    @property
    def grad(self) -> Any:
        state = self._tensor._node.autograd
        return None if state is None else state.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        set_grad(self._tensor, value)


class Reached(NamedTuple):
    """A thing, and what it was like: what a variable holds; what is under the keys of a dict or the
    attributes of an object; the items of a sequence; else bytes, or a tensor's node."""

    name: str  # as it is written
    holder: str | None  # the variable or attribute that holds it, if one does
    thing: Any
    before: Any
    is_memo: bool  # new keys are what a function that is called remembers

    def is_as_before(self) -> bool:
        before, now = self.before, state_of(self.thing)
        if isinstance(self.thing, types.CellType | GlobalVariable):
            return now is before
        if isinstance(before, bytes):
            return now == before
        if isinstance(before, list):
            return len(now) == len(before) and all(map(operator.is_, now, before))
        if isinstance(before, dict):
            if len(now) != len(before) and not self.is_memo:
                return False
            return all(now.get(key, UNASSIGNED) is held for key, held in before.items())
        return now is before

    def has_grown(self) -> bool:
        return isinstance(self.thing, list) and len(self.thing) > len(self.before)

    def put_back(self) -> None:
        """Have it hold what it did; of large arrays, iterators and generators, nothing."""
        thing, before = self.thing, self.before
        if isinstance(thing, types.CellType):
            if before is not UNASSIGNED:
                thing.cell_contents = before
            elif contents_of(thing) is not UNASSIGNED:
                del thing.cell_contents
        elif isinstance(thing, GlobalVariable):
            thing.variables[thing.name] = before
        elif isinstance(thing, np.ndarray):
            if before and thing.nbytes <= _MOST_BYTES:
                thing[...] = np.frombuffer(before, thing.dtype).reshape(thing.shape)
        elif isinstance(thing, list):
            thing[:] = before
        elif isinstance(thing, deque | set):
            thing.clear()
            (thing.extend if isinstance(thing, deque) else thing.update)(before)
        elif isinstance(thing, dict):
            thing.clear()
            thing.update(before)
        elif isinstance(before, dict):
            delete = type.__delattr__ if isinstance(thing, type) else object.__delattr__
            for key in _attributes_of(thing).keys() - before.keys():
                delete(thing, key)
            for key, held in before.items():
                set_attribute(thing, key, held)


def set_attribute(thing: Any, name: str, held: Any) -> None:
    """`thing.name = held`, without code of the user's that runs then."""
    if isinstance(thing, type):
        type.__setattr__(thing, name, held)
    else:
        object.__setattr__(thing, name, held)


class Surroundings:
    """What can be reached, as it is now."""

    def __init__(self) -> None:
        self.reached: list[Reached] = []
        # Functions that were found, each with the variable or attribute that holds it.
        self.functions: list[tuple[str | None, types.FunctionType]] = []
        # What else holds a thing than what it was found by first, by its `id`.
        self.other_holders: dict[int, set[str | None]] = {}
        self._names: set[str] = set()  # that functions use
        # How often each tensor was found, by its `id`; and whether nothing was left out.
        self.times_found: Counter[int] = Counter()
        self.is_complete = True
        self._left = _MOST_IN_ALL
        self._seen: set[Any] = set()
        self._pending: list[tuple[str, types.FunctionType]] = []
        self._modules: dict[str, types.ModuleType] = {}  # as they are written

    @classmethod
    def of(cls, f: Any, arguments: Sequence[Any] = ()) -> "Surroundings":
        """Those of a function, a method, or anything that can be called; and objects that it is
        given."""
        found = cls()
        found.look_at("", f, None)
        for x in arguments:
            found.look_at(type(x).__name__, x, None)
        found.follow()
        return found

    def changed(self) -> Iterator[Reached]:
        """What is not as it was."""
        return (x for x in self.reached if not x.is_as_before())

    def put_back(self) -> None:
        """Have everything hold what it did."""
        for reached in [*self.changed()]:
            reached.put_back()

    # Looking

    def look_at_variable(self, name: str, cell: types.CellType) -> None:
        """A variable that functions share."""
        if id(cell) not in self._seen:
            self._seen.add(id(cell))
            held = contents_of(cell)
            self.reached.append(Reached(name, name, cell, held, False))
            self.look_at(name, held, name)

    def follow(self) -> None:
        """Look at what the functions that were found share, keep from call to call, and name."""
        while self._pending or self._find_in_modules():
            name, function = self._pending.pop()
            for item in (*(function.__defaults__ or ()), function.__dict__):
                self.look_at(name, item, None)
            cells = function.__closure__ or ()
            for shared, cell in zip(function.__code__.co_freevars, cells, strict=True):
                self.look_at_variable(shared, cell)
            self.look_at_globals(function, is_called=True)
            for module in named_in(function.__code__).modules:
                self.look_at(module, imported_module(module, function.__globals__), None)
        if "random" in self._names:
            # What is drawn from without a generator. To read its state takes 0.2 ms.
            self._names.discard("random")
            self.look_at("random", random._inst, None)
            before = state_of(_NUMPYS_OWN)
            self.reached.append(Reached("np.random", None, _NUMPYS_OWN, before, False))

    def _find_in_modules(self) -> bool:
        """Look at what modules of the user's hold under the names that functions use; whether there
        are other functions."""
        for name, module in [*self._modules.items()]:
            if module.__name__ in _DRAWN_FROM:
                self._names.add("random")
            if is_module_of_library(module):
                continue
            variables = vars(module)
            for key in sorted(self._names & variables.keys()):
                self._look_at_global(f"{name}.{key}", key, variables, is_called=True)
        return bool(self._pending)

    def look_at_globals(self, function: types.FunctionType, *, is_called: bool) -> None:
        names, variables = named_in(function.__code__).names, function.__globals__
        self._names.update(names)
        for name in sorted(names & variables.keys()):
            self._look_at_global(name, name, variables, is_called=is_called)

    def _look_at_global(
        self, name: str, key: str, variables: dict[str, Any], *, is_called: bool
    ) -> None:
        """Look at a variable of a module, which is written like this."""
        if (id(variables), key) in self._seen:
            return
        self._seen.add((id(variables), key))
        held = variables[key]
        if is_called and not isinstance(held, (*_DEFINED, types.ModuleType)):
            self.reached.append(Reached(name, key, GlobalVariable(key, variables), held, False))
        self.look_at(name, held, key, is_memo=is_called)

    def look_at(
        self,
        name: str,
        thing: Any,
        holder: str | None,
        depth: int = 0,
        *,
        is_memo: bool = False,
    ) -> None:
        """Look at a thing that is written like this, and at what is in it."""
        if runs_code(thing):
            return
        if isinstance(thing, (types.MethodType, types.BuiltinMethodType)):
            self.look_at(name, getattr(thing, "__func__", None), holder, depth)
            thing = thing.__self__
        thing = _unwrapped(thing)
        if isinstance(thing, types.ModuleType):
            self._modules.setdefault(name, thing)
        if thing is UNASSIGNED or isinstance(thing, _CONSTANT):
            return
        if is_tensor(thing):
            self.times_found[id(thing)] += 1
        if id(thing) in self._seen:
            self.other_holders.setdefault(id(thing), set()).add(holder)
            return
        if depth > _DEEPEST:
            self.is_complete = False
            return
        self._seen.add(id(thing))
        if isinstance(thing, types.FunctionType):
            self._look_at_function(name, thing, holder)
            return
        if isinstance(thing, functools.partial):
            for item in (thing.func, *thing.args, *thing.keywords.values()):
                self.look_at(name, item, None, depth + 1)
            return
        if isinstance(thing, property):
            for item in (thing.fget, thing.fset, thing.fdel):
                self.look_at(name, item, holder, depth)
            return
        inside = _inside_of(thing)
        if inside is None or self._left < 0:
            self.is_complete &= inside is None and not isinstance(thing, _CONTAINERS)
            return
        is_memo = is_memo and isinstance(thing, dict)
        if not isinstance(thing, tuple):
            self.reached.append(Reached(name, holder, thing, state_of(thing), is_memo))
        if is_tensor(thing) and thing._node.requires_grad:
            self._look_at_gradient(name, thing, depth)
        is_object = not isinstance(thing, _CONTAINERS)
        if isinstance(thing, _CONTAINERS) and len(thing) > _MOST_ITEMS:
            self.is_complete = False
        self._left -= len(inside)
        for key, item in [x for x in inside if type(x[1]) not in PLAIN]:
            if is_object:
                self.look_at(f"{name}.{key}" if name else key, item, key, depth + 1)
            else:
                self.look_at(f"{name}[{key!r}]", item, None, depth + 1)
        if is_object:
            self.look_at(type(thing).__name__, type(thing), None)

    def _look_at_gradient(self, name: str, tensor: Any, depth: int) -> None:
        own = GradientOf(tensor)
        self.reached.append(Reached(name, None, own, state_of(own), False))
        self.look_at(f"{name}.grad", own.grad, "grad", depth + 1)

    def _look_at_function(
        self, name: str, function: types.FunctionType, holder: str | None
    ) -> None:
        wrapped = function.__dict__.get("__wrapped__")
        if wrapped is not None:
            self.look_at(name, wrapped, holder)
        if not is_of_library(function.__code__.co_filename):
            self._pending.append((name, function))
            self.functions.append((holder, function))


def _unwrapped(thing: Any) -> Any:
    """The function that is remembered by a cache, or that a class has as a method of its own."""
    if isinstance(thing, _CACHED):
        thing = thing.__wrapped__
    return thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing


def _inside_of(thing: Any) -> Sequence[tuple[Any, Any]] | None:
    """What a thing holds, by key, position or attribute; None if nobody looks into it."""
    if is_tensor(thing) or draws_numbers(thing) or _is_iterator(thing):
        return ()
    if isinstance(thing, np.ndarray):
        return ()
    if isinstance(thing, _BUFFERS):
        size = thing.nbytes if isinstance(thing, memoryview) else len(thing)
        return () if size <= _MOST_BYTES else None
    if isinstance(thing, _CONTAINERS):
        if len(thing) > _MOST_ITEMS:
            return ()
        inside = thing.items() if isinstance(thing, dict) else enumerate(thing)
    elif isinstance(thing, types.SimpleNamespace):
        inside = vars(thing).items()
    elif is_class_of_library(thing if isinstance(thing, type) else type(thing)):
        # What libraries keep for themselves; not what they were given.
        wrapped = attributes_in_dict(thing).get("__wrapped__")
        return None if wrapped is None else [("__wrapped__", wrapped)]
    else:
        inside = _attributes_of(thing).items()
    return [*inside]


class _NumPysGenerator:
    """What `np.random.normal` and the like draw from, which NumPy imports when it is first used."""


_NUMPYS_OWN = _NumPysGenerator()


def draws_numbers(thing: Any) -> bool:
    """Whether random numbers are drawn from it."""
    if thing is _NUMPYS_OWN:
        return True
    # NumPy imports its own when they are first used.
    is_imported = "numpy.random" in sys.modules
    kinds = (np.random.Generator, np.random.RandomState) if is_imported else ()
    return isinstance(thing, (random.Random, *kinds))


# Of functions that could reach nothing to draw from when they were first looked at: their code, and
# what they call by name. To look again takes some microseconds for each thing in reach.
_draw_nothing: dict[tuple[int, ...], list[types.CodeType | type]] = {}
_MOST_KNOWN = 4096


def _codes_of(f: Any) -> list[types.CodeType | type]:
    """The code of a function, a method, or what was made of one, and of functions that it names;
    the types of other things that it may call."""
    while not isinstance(f, types.FunctionType):
        f = getattr(f, "__wrapped__", None) or getattr(f, "__func__", None)
        if f is None:
            return []
    code = f.__code__
    named = [contents_of(cell) for cell in f.__closure__ or ()]
    named += [f.__globals__.get(name) for name in code.co_names]
    return [code, *[getattr(x, "__code__", type(x)) for x in named if callable(x)]]


@contextlib.contextmanager
def drawing_nothing(
    operation: str, *functions: Callable[..., Any], each: str = "step"
) -> Iterator[None]:
    """While functions of a loop are traced, or one of a batch of which `each` is a member: they
    draw no random numbers of NumPy's or Python's.

    Raises
    ------
    TracingError
        If one of them has drawn numbers: all steps would have those of the first one.
    """
    around = []
    for f in functions:
        codes = _codes_of(f)
        key = tuple(map(id, codes))
        if not codes or key not in _draw_nothing:
            around.append((f, Surroundings.of(f)))
            if not any(draws_numbers(x.thing) for x in around[-1][1].reached):
                if len(_draw_nothing) >= _MOST_KNOWN:
                    _draw_nothing.clear()
                _draw_nothing[key] = codes
    yield
    for f, before in around:
        drawn = next((x for x in before.changed() if draws_numbers(x.thing)), None)
        if drawn is not None:
            name = getattr(f, "__name__", None) or type(f).__name__
            raise TracingError(
                explain(
                    operation,
                    f"{name} would draw random numbers once, for all {each}s",
                    got={"from": f"`{drawn.name}`"},
                    fix=f"numbers that are drawn before, a row for each {each}; or ng.random, with "
                    f"ng.random.fold_in(key, i) in {each} i",
                )
            )


def _is_iterator(thing: Any) -> bool:
    return isinstance(thing, Iterator) and is_class_of_library(type(thing))


def state_of(thing: Any) -> Any:
    """What shows whether something has changed."""
    if isinstance(thing, types.CellType):
        return contents_of(thing)
    if isinstance(thing, GlobalVariable):
        return thing.held
    if is_tensor(thing):
        return thing._node
    if isinstance(thing, np.ndarray):
        return _bytes_of(thing)
    if isinstance(thing, _BUFFERS):
        return bytes(thing)
    if draws_numbers(thing):
        if thing is _NUMPYS_OWN:
            is_imported = "numpy.random" in sys.modules
            return pickle.dumps(np.random.mtrand._rand.get_state()) if is_imported else b""
        if isinstance(thing, random.Random):
            return pickle.dumps(thing.getstate())
        is_legacy = isinstance(thing, np.random.RandomState)
        return pickle.dumps(thing.get_state() if is_legacy else thing.bit_generator.state)
    if _is_iterator(thing):
        return repr(_position_of(thing)).encode()
    if isinstance(thing, (*_SEQUENCES, tuple)):
        return list(thing)
    return dict(thing) if isinstance(thing, dict) else _attributes_of(thing)


def _bytes_of(array: np.ndarray) -> bytes:
    """Those of an array; of a large one a sum, which changes with any element, and some of them,
    which change where others have their places: 0.03 ms a MiB, with no copy of it."""
    if array.dtype.hasobject or not array.flags.writeable:
        return b""
    if array.nbytes <= _MOST_BYTES:
        return array.tobytes()
    in_order = np.ascontiguousarray(array.T if array.flags.f_contiguous else array)
    elements = in_order.reshape(-1).view(np.uint8)
    words = elements[: elements.size // 8 * 8].view(np.uint64)
    some = words[:: max(1, words.size // _SAMPLES)]
    return words.sum().tobytes() + elements[words.size * 8 :].tobytes() + some.tobytes()


def _position_of(iterator: Any, depth: int = 0) -> object:
    """How far an iterator is, as far as it says so."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        held = [] if frame is None else [id(x) for x in frame.f_locals.values()]
        return frame and frame.f_lasti, held
    own = repr(iterator), operator.length_hint(iterator, -1)
    inner = [x for x in gc.get_referents(iterator) if isinstance(x, (Iterator, tuple))]
    inner = [y for x in inner for y in (x if isinstance(x, tuple) else (x,))]
    within = depth < _DEEPEST_ITERATOR
    return own, [_position_of(x, depth + 1) for x in inner if within and _is_iterator(x)]


def _attributes_of(thing: Any) -> dict[str, Any]:
    """What an object or a class holds, but for what it remembers as a `cached_property`."""
    if isinstance(thing, GradientOf):
        return {"grad": thing.grad}
    if isinstance(thing, type):
        return {
            k: v
            for k, v in vars(thing).items()
            if k[:2] != "__" or (isinstance(v, types.FunctionType) and k not in OF_ANNOTATIONS)
        }
    in_slots = {name: held for _, name, held in attributes_in_slots(thing)}
    found = in_slots | attributes_in_dict(thing)
    of_class = type(thing)
    return {
        k: v
        for k, v in found.items()
        if not isinstance(getattr(of_class, k, None), functools.cached_property)
    }


def attribute_of(thing: Any, name: str) -> Any:
    """An attribute of an object or a class itself, or UNASSIGNED."""
    held = vars(thing) if isinstance(thing, type) else attributes_in_dict(thing)
    try:
        return held[name] if name in held else object.__getattribute__(thing, name)
    except AttributeError:
        return UNASSIGNED
