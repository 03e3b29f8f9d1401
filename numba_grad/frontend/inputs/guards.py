"""What a jitted function finds around itself, and whether it is still as it was when traced.

    guard_of(f, given)   a `Guard` of what the code of `f` names: its cells and globals, attributes
                         of these (`model.rate`), what is in lists and dicts, and the same of the
                         functions of the user's that it calls, as far as they can be seen
    Guard                holds() -> whether all of it is as it was; some 15 ns for each thing

Objects are compared by identity, numbers and text by value and type, arrays of up to 1 KiB by
identity and content. The comparison is one generated expression, for a call of a jitted function
costs a microsecond.

Code reaches an object by more ways than its text shows: a local name, an item, `super()`, an
operator, what a generator yields. So of every object that is found, in whatever way, all attributes
count whose names are in the text of any function that is looked into, and so do the methods of
these names, and operators. Which object has which is not asked.
"""

import dis
import functools
import operator
import os
import re
import sys
import types
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from numba_grad.autograd.function import Function
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.frontend.inputs.tracing import owner_of

MOST_CONDITIONS = 1024  # 15 us; most functions have less than ten
MOST_BYTES = 1024  # of an array that is compared by content: 0.1 us
_MOST_BYTES_UNREAD = 65536  # of one that only NumPy computes with, as in `x * array.mean()`: 5 us
_FEW_ITEMS = 32  # of a list or dict: each is compared by itself
_MOST_ITEMS = 512
_MOST_NUMBERS = 8192  # of a list of nothing else, which is compared at once: 20 ns each

_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)
_OWN_PLACE = str(Path(__file__).parents[2]) + os.sep
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")
# Of lists, dicts and sets: who calls these keeps books of his own.
_WRITES = frozenset(
    {"append", "extend", "insert", "add", "update", "setdefault", "clear", "pop", "remove"}
)
# Who says one of these may read any attribute, by a name that is computed.
_READ_ANY = frozenset(
    {"getattr", "vars", "__dict__", "attrgetter", "asdict", "astuple", "deepcopy"}
)
_MAKERS = frozenset({"__new__", "__init__", "__post_init__"})
# What is not run by operators on what is there, or for Python's own purposes.
_NOT_OPERATORS = _MAKERS | frozenset(
    {"__repr__", "__str__", "__format__", "__del__", "__hash__", "__sizeof__", "__dir__"}
    | {"__setattr__", "__delattr__", "__init_subclass__", "__class_getitem__", "__deepcopy__"}
    | {"__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__"}
)
_OF_METHODS = types.FunctionType | staticmethod | classmethod | property
_MISSING = object()


class Guard:
    """What was found around a function. `holds` is None if that was nothing."""

    __slots__ = ("_conditions", "_names", "holds")

    def __init__(self, conditions: "list[_Condition]", names: dict[str, Any]) -> None:
        self._conditions = conditions
        self._names = names
        self.holds = _compiled([c.text for c in conditions], names)

    def after_tracing(self, owners_read: Container[int]) -> "Guard":
        """Without the contents of large arrays that are read at each call, of whose owners these
        are the ids, and without those that tracing itself has changed, as a list of calls that the
        function keeps."""
        kept = [
            c
            for c in self._conditions
            if c.array is None or id(owner_of(c.array)) not in owners_read
        ]
        holds = _compiled([c.text for c in kept], self._names)
        if holds is not None and not holds():
            kept = [
                c
                for c in kept
                if not c.is_content or _compiled([c.text], self._names)()  # type: ignore[misc]
            ]
        return self if len(kept) == len(self._conditions) else Guard(kept, self._names)


class _Condition(NamedTuple):
    text: str
    is_content: bool  # of something that is still the same object
    array: np.ndarray | None = None  # whose content it is, if that is large
    attribute: tuple[type, str] | None = None  # which it is about, of an object of this class


def _compiled(conditions: list[str], names: dict[str, Any]) -> Callable[[], bool] | None:
    if not conditions:
        return None
    joined = "\n        and ".join(conditions)
    source = (
        "def holds():\n    try:\n        return (\n        "
        f"{joined}\n        )\n    except (LookupError, AttributeError, ValueError):\n"
        "        return False  # deleted, or an empty cell\n"
    )
    namespace = dict(names)
    exec(compile(source, "<guard of a jitted function>", "exec"), namespace)
    return namespace["holds"]


def guard_of(f: Callable[..., Any], given: Iterable[Any] = ()) -> Guard:
    """A guard of what `f` names, as it is now, and of what is in its arguments `given`."""
    survey = _Survey()
    survey.follow(f)
    for value in given:
        survey.look_at(value)
    survey.go_on()
    return Guard([c for c in survey.conditions if not survey.is_kept(c)], survey.names)


def is_same(value: Any, expected: Any) -> bool:
    """Whether two numbers, texts, or tuples of them are equal in type, value and sign."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, np.generic):
        return value.dtype == expected.dtype and value.tobytes() == expected.tobytes()
    if isinstance(expected, float | complex):
        return repr(value) == repr(expected)  # 0.0 == -0.0, and nan is not nan
    if isinstance(expected, tuple):
        return len(value) == len(expected) and all(map(is_same, value, expected))
    return value == expected


def are_same(values: Iterable[Any], expected: tuple[Any, ...]) -> bool:
    """Whether numbers and texts are equal one by one, as `is_same` says. Of a list that nobody
    has changed they are the same objects."""
    values = tuple(values)
    if len(values) != len(expected):
        return False
    return all(map(operator.is_, values, expected)) or all(map(is_same, values, expected))


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return len(value) <= _FEW_ITEMS and all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


@functools.lru_cache(maxsize=4096)
def is_of_library(file: str) -> bool:
    """Whether code of this file is installed, and none of the user's own."""
    return file.startswith(("<frozen ", _STANDARD_LIBRARY, _OWN_PLACE)) or bool(
        _PACKAGES.search(file)
    )


# What code names

_Place = tuple[str, str, tuple[str, ...]]  # "global", "cell" or "local", name, attributes


class _Named(NamedTuple):
    """What the code of a function names, and what it assigns to: the books that it keeps."""

    places: tuple[_Place, ...]
    stored: frozenset[_Place]
    stored_attributes: frozenset[str]  # of what is not known: `x.count += 1`
    attributes: frozenset[str]  # that it may read of anything
    reads_any: bool  # attribute, by a name that is not in its text
    modules: frozenset[str]  # that it imports


@functools.lru_cache(maxsize=1024)
def _named_in(code: types.CodeType) -> _Named:
    """That of nested functions and comprehensions included."""
    places: dict[_Place, None] = {}
    stored: set[_Place] = set()
    stored_attributes: set[str] = set()
    attributes = {x for x in _texts_in(code.co_consts) if x.isidentifier()}
    modules: set[str] = set()
    reads_any = not _READ_ANY.isdisjoint(code.co_names)
    place: _Place | None = None
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") or "SUPER" in name:
            attributes.add(instruction.argval)
            if place is not None:
                place = (place[0], place[1], (*place[2], instruction.argval))
            continue
        if name == "STORE_ATTR":
            if place is None:
                stored_attributes.add(instruction.argval)
            else:
                stored.add((place[0], place[1], (*place[2], instruction.argval)))
        if place is not None:
            places[place] = None
            place = None
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            place = ("global", instruction.argval, ())
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            place = ("cell", instruction.argval, ())
        elif "LOAD_FAST" in name:
            # From Python 3.13 on one instruction may be about two; attributes are of the last one.
            given = instruction.argval
            place = ("local", given if isinstance(given, str) else given[-1], ())
        elif name == "IMPORT_NAME":
            modules.add(instruction.argval)
        elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            stored.add(("global", instruction.argval, ()))
        elif name == "STORE_DEREF":
            stored.add(("cell", instruction.argval, ()))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _named_in(constant)
            # Locals of its own are not ours, and ours are cells there.
            places.update((place, None) for place in inner.places if place[0] != "local")
            stored |= inner.stored
            stored_attributes |= inner.stored_attributes
            attributes |= inner.attributes
            reads_any |= inner.reads_any
            modules |= inner.modules
    return _Named(
        tuple(places),
        frozenset(stored),
        frozenset(stored_attributes),
        frozenset(attributes),
        reads_any,
        frozenset(modules),
    )


def _texts_in(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple | frozenset):
            yield from _texts_in(constant)


# What is found under these names


class _Survey:
    """Goes from a function to what it names, nearest first."""

    def __init__(self) -> None:
        self.conditions: list[_Condition] = []
        self.names: dict[str, Any] = {"is_same": is_same, "are_same": are_same}
        self._pending: deque[tuple[types.FunctionType, Any]] = deque()
        self._objects: list[Any] = []  # that were found, in whatever way
        self._seen = 0  # of these, with the attributes known so far
        self._long: deque[tuple[str, Any]] = deque()  # lists and dicts, after all else
        self._attributes_read: set[str] = set()
        self._records: set[tuple[type, str]] = set()  # that methods keep which may not be called
        self._reads_any = False
        self._known: set[Any] = set()
        self._kept: list[Any] = []  # whose ids are known
        self._is_first = True

    def go_on(self) -> None:
        while not self._is_full():
            if self._pending:
                self._look_into(*self._pending.popleft())
            elif self._seen < len(self._objects):
                self._seen += 1
                self._look_through(self._objects[self._seen - 1])
            elif self._long:
                self._each_item(*self._long.popleft())
            else:
                return

    def look_at(self, value: Any) -> None:
        """Require that what is in `value` stays as it is."""
        if not _runs_code(value):
            self._contents(self._name(value), value)

    def _is_full(self) -> bool:
        return len(self.conditions) >= MOST_CONDITIONS

    def _is_new(self, *key: Any) -> bool:
        if key in self._known:
            return False
        self._known.add(key)
        return True

    def _name(self, value: Any) -> str:
        name = f"v{len(self.names)}"
        self.names[name] = value
        return name

    def _require(
        self, text: str, is_content: bool = False, array: np.ndarray | None = None
    ) -> None:
        if not self._is_full():
            self.conditions.append(_Condition(text, is_content, array))

    # Functions

    def follow(self, value: Any, receiver: Any = _MISSING) -> None:
        """Look into what can be called, later. A jitted function that is called while another is
        traced has a guard of its own."""
        if getattr(type(value), "has_guard", False):
            return
        if isinstance(value, types.MethodType):
            self.follow(value.__func__, value.__self__)
            self._find(value.__self__)
            if isinstance(value.__self__, type):
                self.follow(value.__self__)
        elif isinstance(value, types.FunctionType):
            if self._is_new(id(value), id(receiver)):
                self._kept += (value, receiver)
                self._pending.append((value, receiver))
        elif isinstance(value, functools.partial):
            self.follow(value.func)
            for item in (*value.args, *value.keywords.values()):
                self._contents(self._name(item), item)
        elif isinstance(value, staticmethod | classmethod):
            self.follow(value.__func__, _MISSING if isinstance(value, staticmethod) else receiver)
        elif "__wrapped__" in getattr(value, "__dict__", ()):
            self.follow(value.__wrapped__, receiver)
            for rule in getattr(value, "rules", ()):  # of a function with a derivative of its own
                self.follow(rule)
        elif isinstance(value, type):
            if issubclass(value, Function):
                for name in ("forward", "backward"):  # what `apply` calls
                    self.follow(_static_attribute(value, name))
            elif not _is_class_of_library(value):
                self._find(value)
                for name in _MAKERS:
                    self.follow(_static_attribute(value, name))
        else:
            method = _static_attribute(type(value), "__call__")
            if isinstance(method, types.FunctionType):
                self._method(type(value), "__call__", method, value)

    def _look_into(self, function: types.FunctionType, receiver: Any) -> None:
        code = function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        is_own = code.co_filename.startswith(_OWN_PLACE)
        is_first, self._is_first = self._is_first, False
        if is_own or (not is_first and is_of_library(code.co_filename)):
            # Only what it was made with: the function that a decorator was given.
            for cell in cells.values():
                value = _contents_of(cell)
                for made_with in value.values() if isinstance(value, dict) else (value,):
                    if callable(made_with):
                        self.follow(made_with)
            return
        own = self._name(function)
        self._require(f"{own}.__code__ is {self._name(code)}")
        for name in ("__defaults__", "__kwdefaults__"):
            defaults = getattr(function, name)
            if defaults:
                self._value(f"{own}.{name}", defaults)
        named = _named_in(code)
        if self._reads_any < named.reads_any or not named.attributes <= self._attributes_read:
            self._reads_any |= named.reads_any
            self._attributes_read |= named.attributes
            self._seen = 0  # the objects have more to say now
        if receiver is not _MISSING:
            self._find(receiver)
        for name in named.modules:
            module = sys.modules.get(name)
            if module is not None and not _is_module_of_library(module):
                self._find(module)
        first = code.co_varnames[0] if receiver is not _MISSING and code.co_argcount else None
        for place in named.places:
            if self._is_full():
                return
            kind, name, attributes = place
            container: Any = None
            if name == first and kind in ("local", "cell"):
                value = receiver
            elif kind == "global":
                value = function.__globals__.get(name, _MISSING)
                container = function.__globals__
            elif kind == "cell" and name in cells:
                value = _contents_of(cells[name])
                container = cells[name]
            else:
                continue
            if value is _MISSING or (kind, name, ()) in named.stored:
                continue
            if attributes and attributes[-1] in _WRITES and isinstance(value, list | dict | set):
                self._known.add(("contents", id(value)))
                self._kept.append(value)
                continue
            if container is not None and self._is_new(kind, id(container), name):
                key = f"[{name!r}]" if kind == "global" else ".cell_contents"
                self._value(self._name(container) + key, value)
            self._attributes(value, place, named)

    def _attributes(self, value: Any, place: _Place, named: _Named) -> None:
        kind, variable, names = place
        for number, name in enumerate(names, start=1):
            if _runs_code(value):
                return
            if (kind, variable, names[:number]) in named.stored or name in named.stored_attributes:
                return
            if isinstance(value, np.ndarray) or is_tensor(value) or _is_module_of_library(value):
                return
            found = _found_attribute(value, name)
            if found is _MISSING:
                return
            if isinstance(value, type) and isinstance(found, types.FunctionType):
                self._method(value, name, found, _MISSING)
                return
            if _is_bound(value, name, found):
                self._method(type(value), name, found, value)
                return
            if isinstance(found, list | dict | set) and names[-1] in _WRITES:
                return
            if self._is_new("attribute", id(value), name):
                self._kept.append(value)
                self._value(f"{self._name(value)}.{name}", found)
            value = found

    def _method(self, cls: type, name: str, found: Any, receiver: Any) -> None:
        # Others, as class methods, are new objects at each look.
        is_stable = isinstance(found, types.FunctionType | property)
        if is_stable and self._is_new("attribute", id(cls), name):
            self._require(f"{self._name(cls)}.{name} is {self._name(found)}")
        self.follow(found.fget if isinstance(found, property) else found, receiver)

    # Objects

    def is_kept(self, condition: _Condition) -> bool:
        """Whether it is about a record that a method of the object keeps, as a number of calls.
        Such a method was found by its name alone, so it need not be one that is called."""
        if condition.attribute is None:
            return False
        cls, name = condition.attribute
        return any((base, name) in self._records for base in cls.__mro__)

    def _find(self, value: Any) -> None:
        if self._is_new("object", id(value)):
            self._kept.append(value)
            self._objects.append(value)

    def _look_through(self, value: Any) -> None:
        """Its attributes of the names that are read of anything."""
        if _runs_code(value):
            return
        is_class = isinstance(value, type)
        if not is_class:
            self._look_through_attributes(value)
        for cls in value.__mro__ if is_class else type(value).__mro__:
            if not _is_class_of_library(cls):
                self._look_through_class(cls, _MISSING if is_class else value)

    def _look_through_attributes(self, value: Any) -> None:
        cls = type(value)
        is_module = cls is types.ModuleType
        is_of_library = _is_class_of_library(cls) and not is_module
        # Who reads any attribute of something does not mean those of figures and loggers.
        is_record = cls.__name__ in ("SimpleNamespace", "Namespace") or not (
            is_of_library or is_module
        )
        for name, text, found in _own_attributes(value):
            if is_of_library and isinstance(found, types.FunctionType | types.MethodType):
                self.follow(found)  # as `numpy.vectorize` has one
            is_read = name in self._attributes_read or (self._reads_any and is_record)
            if is_read and not _is_own(cls) and self._is_new("attribute", id(value), name):
                # What the function itself changes in it while it is traced is its own record.
                self._as_contents(text.format(self._name(value)), found, (cls, name))

    def _look_through_class(self, cls: type, receiver: Any) -> None:
        for name, found in list(vars(cls).items()):
            is_operator = name.startswith("__") and name.endswith("__")
            if is_operator:
                if isinstance(found, types.FunctionType) and name not in _NOT_OPERATORS:
                    self._note_records(cls, name, found)
                    self.follow(found, receiver)
            elif name not in self._attributes_read and not self._reads_any:
                continue
            elif isinstance(found, _OF_METHODS):
                self._note_records(cls, name, found)
                self._method(cls, name, found, receiver)
            elif isinstance(found, types.MemberDescriptorType):
                continue
            elif hasattr(type(found), "__get__"):
                self.follow(getattr(found, "func", None), receiver)  # a property that is kept
                self._find(found)
            elif self._is_new("attribute", id(cls), name):
                self._as_contents(f"{self._name(cls)}.{name}", found)

    def _note_records(self, cls: type, name: str, method: Any) -> None:
        code = getattr(method, "__code__", None)
        if code is None or not code.co_argcount or name.startswith(("__i", "__set")):
            return
        named, first = _named_in(code), code.co_varnames[0]
        self._records |= {(cls, attribute) for attribute in named.stored_attributes}
        for _, variable, attributes in named.stored:
            if variable == first and len(attributes) == 1:
                self._records.add((cls, attributes[0]))
        for _, variable, attributes in named.places:
            if variable == first and len(attributes) == 2 and attributes[1] in _WRITES:
                self._records.add((cls, attributes[0]))

    # Values

    def _as_contents(
        self, place: str, value: Any, attribute: tuple[type, str] | None = None
    ) -> None:
        before = len(self.conditions)
        self._value(place, value)
        self.conditions[before:] = [
            c._replace(is_content=True, attribute=c.attribute or attribute)
            for c in self.conditions[before:]
        ]

    def _value(self, place: str, value: Any) -> None:
        """Require that `value` stays at `place`, and as it is."""
        expected = self._name(value)
        if _runs_code(value):
            self._require(f"{place} is {expected}")
            return
        if _is_plain(value):
            self._require(f"({place} is {expected} or is_same({place}, {expected}))")
            return
        if not _is_module_of_library(value):
            self._require(f"{place} is {expected}")
        self._contents(expected, value)

    def _contents(self, name: str, value: Any) -> None:
        """Require that what is in `value` stays as it is."""
        if _is_plain(value) or is_tensor(value) or not self._is_new("contents", id(value)):
            return
        self._kept.append(value)
        if isinstance(value, np.ndarray):
            if not value.dtype.hasobject:
                self._array(name, value)
            elif value.dtype == object:
                self._items(f"{name}.flat", value.flat)
        elif isinstance(value, tuple | list | dict | deque):
            self._items(name, value)
            if type(value) not in (tuple, list, dict, deque):
                self._find(value)
        elif isinstance(value, UserDict | UserList | ChainMap):
            held = "maps" if isinstance(value, ChainMap) else "data"
            self._contents(f"{name}.{held}", getattr(value, held))
            self._find(value)
        elif isinstance(value, set | frozenset):
            if len(value) <= _MOST_NUMBERS and all(map(_is_plain, value)):
                self._require(f"{name} == {self._name(frozenset(value))}", is_content=True)
        elif not isinstance(value, types.ModuleType):
            if callable(value):
                self.follow(value)
            if not isinstance(value, type):
                self._find(value)

    def _array(self, name: str, array: np.ndarray) -> None:
        self._require(f"{name}.shape == {array.shape!r}", is_content=True)
        if array.nbytes <= _MOST_BYTES_UNREAD:
            large = array if array.nbytes > MOST_BYTES else None
            same = f"{name}.tobytes() == {self._name(array.tobytes())}"
            self._require(same, is_content=True, array=large)

    def _items(self, name: str, container: Any) -> None:
        if len(container) <= _FEW_ITEMS:
            self._each_item(name, container)
        elif len(container) <= _MOST_NUMBERS and all(map(_is_plain, _values_of(container))):
            text = f"{name}.values()" if isinstance(container, dict) else name
            if isinstance(container, dict):
                self._keys(name, container)
            expected = self._name(tuple(_values_of(container)))
            self._require(f"are_same({text}, {expected})", is_content=True)
        elif len(container) <= _MOST_ITEMS:
            self._long.append((name, container))

    def _each_item(self, name: str, container: Any) -> None:
        if isinstance(container, dict):
            self._keys(name, container)
        else:
            self._require(f"len({name}) == {len(container)}", is_content=True)
        for key, item in list(_items_of(container)):
            self._as_contents(f"{name}[{self._name(key)}]", item)

    def _keys(self, name: str, container: dict[Any, Any]) -> None:
        """In their order, too, which loops follow."""
        self._require(f"tuple({name}) == {self._name(tuple(container))}", is_content=True)


def _items_of(container: Any) -> Iterator[tuple[Any, Any]]:
    return iter(container.items()) if isinstance(container, dict) else iter(enumerate(container))


def _values_of(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _contents_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _is_module_of_library(value: Any) -> bool:
    if not isinstance(value, types.ModuleType):
        return False
    file = vars(value).get("__file__")
    if file is None:
        return value.__name__ in sys.builtin_module_names
    return is_of_library(file)


def _is_class_of_library(cls: type) -> bool:
    module = sys.modules.get(str(cls.__module__))
    return module is not None and _is_module_of_library(module)


def _is_own(cls: type) -> bool:
    return str(cls.__module__).startswith("numba_grad.")


def _own_attributes(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Name, text that reads it, and value of each attribute. No code of the user's runs."""
    for name, found in list(_dict_of(value).items()):
        yield name, f"{{}}.__dict__[{name!r}]", found
    for cls in type(value).__mro__:
        if _is_class_of_library(cls):
            continue
        for name, found in vars(cls).items():
            if isinstance(found, types.MemberDescriptorType):
                try:
                    yield name, f"{{}}.{name}", found.__get__(value)
                except AttributeError:  # not assigned yet
                    continue


def _runs_code(value: Any) -> bool:
    """Whether each look at an attribute runs code of the user's, even `isinstance`."""
    cls = type(value)
    return type(cls.__getattribute__) is types.FunctionType and not issubclass(cls, np.ndarray)


def _dict_of(value: Any) -> dict[str, Any]:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def _found_attribute(value: Any, name: str) -> Any:
    """What `value.name` is, or the descriptor that gives it. No code of the user's runs."""
    if isinstance(value, types.ModuleType):
        return vars(value).get(name, _MISSING)
    if isinstance(value, type):
        return _static_attribute(value, name)
    of_class = _static_attribute(type(value), name)
    if isinstance(of_class, types.MemberDescriptorType):
        return getattr(value, name, _MISSING)
    if isinstance(of_class, property):
        return of_class
    own = _dict_of(value).get(name, _MISSING)
    return of_class if own is _MISSING else own


def _static_attribute(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return _MISSING


def _is_bound(value: Any, name: str, found: Any) -> bool:
    """Whether `value.name` is made of `found` at each look: a method."""
    if isinstance(value, types.ModuleType) or not hasattr(type(found), "__get__"):
        return False
    return isinstance(value, type) or name not in _dict_of(value)
