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
these names, and operators. Which object has which is not asked. Nor may a name of the text appear
where it was not: in an object beside the method of its class, in a class above the one that has
it, or in a module beside the builtin function.
"""

import array
import functools
import operator
import re
import types
import weakref
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np

from numba_grad.autograd.function import Function
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.frontend.inputs.code_names import (
    OF_ANNOTATIONS,
    OWN_PLACE,
    UNASSIGNED,
    Named,
    attributes_in_dict,
    attributes_in_slots,
    contents_of,
    imported_module,
    is_class_of_library,
    is_module_of_library,
    is_of_library,
    named_as,
    named_in,
    runs_code,
)
from numba_grad.frontend.inputs.tracing import Check, is_compared_in_place, owner_of
from numba_grad.immutable import NamedTuple

MOST_CONDITIONS = 8192  # 0.1 ms; most functions have less than ten
MOST_BYTES = 1024  # of an array that is compared by content: 0.1 us
_MOST_BYTES_UNREAD = 65536  # of one that only NumPy computes with, as in `x * array.mean()`: 5 us
_FEW_ITEMS = 32  # of a list or dict: each is compared by itself
_MOST_ITEMS = 4096
_MOST_NUMBERS = 32768  # of a list of nothing else, which is compared at once: 20 ns each

_NAME = re.compile(r"\b[a-z]\w*\b")
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)
_MAKERS = frozenset({"__new__", "__init__", "__post_init__"})
# What is not run by operators on what is there, or for Python's own purposes.
_NOT_OPERATORS = _MAKERS | frozenset(
    {"__repr__", "__str__", "__format__", "__del__", "__hash__", "__sizeof__", "__dir__"}
    | {"__setattr__", "__delattr__", "__init_subclass__", "__class_getitem__", "__deepcopy__"}
    | {"__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__"}
    | OF_ANNOTATIONS
)
_OF_METHODS = types.FunctionType | staticmethod | classmethod | property
_MAPPINGS = dict | types.MappingProxyType
_BUFFERS = bytearray | memoryview | array.array


class Guard:
    """What was found around a function. `holds` is None if that was nothing; `is_complete` says
    whether all of it is compared."""

    __slots__ = ("_conditions", "_names", "holds", "is_complete")

    def __init__(
        self, conditions: "list[_Condition]", names: dict[str, Any], is_complete: bool = True
    ) -> None:
        self._conditions = conditions
        self._names = names
        self.is_complete = is_complete
        self.holds = CheckLater(conditions, names) if conditions else None

    def without_arrays(self, owners_read: Container[int]) -> "Guard":
        """Without the contents of large arrays that are read at each call, of whose owners these
        are the ids."""
        kept = [
            x
            for x in self._conditions
            if x.array is None or id(owner_of(x.array)) not in owners_read
        ]
        return self._with(kept)

    def without_own_changes(self) -> "Guard":
        """After tracing: without what tracing itself has changed."""
        if self.holds is None or self.holds():
            return self
        namespace = dict(self._names)
        return self._with([x for x in self._conditions if _holds(x, namespace)])

    def and_still(self, held: "Iterable[tuple[Any, str, Any, Any]]") -> "Guard":
        """With conditions more: that each of these things has something at a place in it, which is
        written behind it (`.x`, `[{key}]` with this key)."""
        names, conditions = dict(self._names), list(self._conditions)
        for thing, place, key, what in held:
            container, name, expected = (f"h{len(names)}{part}" for part in ("", "k", "x"))
            names |= {container: thing, name: key, expected: what}
            conditions.append(_Condition(f"{container}{place.format(key=name)} is {expected}"))
        return self if len(conditions) == len(self._conditions) else Guard(conditions, names)

    def _with(self, kept: "list[_Condition]") -> "Guard":
        """With these of the conditions alone, and what they name: the rest may go."""
        if len(kept) == len(self._conditions):
            return self
        used = {name for x in kept for name in _NAME.findall(x.text)}
        return Guard(kept, {k: v for k, v in self._names.items() if k in used})


class _Condition(NamedTuple):
    text: str
    array: np.ndarray | None = None  # whose content it is, if that is large


class CheckLater:
    """A check that is compiled for the second call, which asks first: Python takes 15 us for each
    condition. `replace`, if it is set, is given what to ask from then on."""

    __slots__ = ("_compiled", "_conditions", "_names", "replace")

    def __init__(self, conditions: list[_Condition], names: dict[str, Any]) -> None:
        self._conditions = conditions
        self._names = names
        self._compiled: Check | None = None
        self.replace: Callable[[Check], None] | None = None

    def __call__(self) -> bool:
        if self._compiled is None:
            self._compiled = _compiled(self._conditions, self._names)
            if self.replace is not None:
                self.replace(self._compiled)
        return self._compiled()


def _compiled(conditions: list[_Condition], names: dict[str, Any]) -> Check:
    joined = "\n        and ".join([x.text for x in conditions])
    source = (
        "def holds():\n    try:\n        return (\n        "
        f"{joined}\n        )\n    except (LookupError, AttributeError, ValueError):\n"
        "        return False  # deleted, or an empty cell\n"
    )
    namespace = dict(names)
    exec(compile(source, "<guard of a jitted function>", "exec"), namespace)
    return namespace["holds"]


def _holds(condition: _Condition, namespace: dict[str, Any]) -> bool:
    try:
        return eval(condition.text, namespace)
    except (LookupError, AttributeError, ValueError):
        return False


def guard_of(f: Callable[..., Any], given: Iterable[Any] = ()) -> Guard:
    """A guard of what `f` names, as it is now, and of what is in its arguments `given`."""
    survey = _Survey()
    survey.follow(f)
    for value in given:
        survey.look_at(value)
    survey.go_on()
    survey.nothing_is_hidden()
    return Guard(survey.conditions, survey.names, survey.is_complete and not survey.is_full())


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
        self._named = Named.together([])  # by all code that is looked into
        self._known: set[Any] = set()
        self._kept: list[Any] = []  # whose ids are known
        self._builtins: dict[int, tuple[dict[str, Any], set[str]]] = {}  # of these globals
        self._is_first = True
        self.is_complete = True  # but for what there was no more room for

    def go_on(self) -> None:
        while not self.is_full():
            if self._pending:
                self._look_into(*self._pending.popleft())
            elif self._seen < len(self._objects):
                self._seen += 1
                self._look_through(self._objects[self._seen - 1])
            elif self._long:
                self._each_item(*self._long.popleft())
            else:
                return

    def nothing_is_hidden(self) -> None:
        """Require that what was found stays the first thing that Python finds: that an object, a
        class or a module does not get a name that it does not have."""
        for variables, names in self._builtins.values():
            text = f"{self._name(variables)}.keys().isdisjoint({self._name(frozenset(names))})"
            self._require(text)
        for value in self._objects:
            if runs_code(value) or isinstance(value, types.ModuleType):
                continue
            own = type(value)
            is_class = isinstance(value, type)
            if not is_class and (_is_namespace(own) or not is_class_of_library(own)):
                name = self._name(value)
                if value.__class__ is own:
                    self._require(f"{name}.__class__ is {self._name(own)}")
                if own.__dictoffset__:
                    self._has_no_more(name, attributes_in_dict(value))
            for cls in value.__mro__ if is_class else own.__mro__:
                if not is_class_of_library(cls) and self._is_new("names", id(cls)):
                    self._has_no_more(self._name(cls), vars(cls))

    def _has_no_more(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Nothing is asked while there are as many, since who has one less is not what it was."""
        same = f"len({name}.__dict__) == {len(attributes)}"
        absent = self._name(self._named.read.difference(attributes))
        is_any = self._named.reads_any
        self._require(
            same if is_any else f"({same} or {name}.__dict__.keys().isdisjoint({absent}))"
        )

    def look_at(self, value: Any) -> None:
        """Require that what is in `value` stays as it is."""
        if not runs_code(value):
            self._contents(self._name(value), value)

    def is_full(self) -> bool:
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

    def _require(self, text: str, array: np.ndarray | None = None) -> None:
        if not self.is_full():
            self.conditions.append(_Condition(text, array))

    # Functions

    def follow(self, value: Any, receiver: Any = UNASSIGNED) -> None:
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
            self._contents(self._name(value.keywords), value.keywords)
            for item in (*value.args, *value.keywords.values()):
                self._contents(self._name(item), item)
                self._find_module(item)
        elif isinstance(value, operator.attrgetter | operator.methodcaller):
            texts = [x for x in value.__reduce__()[1] if isinstance(x, str)]
            self._also_named(named_as(".".join(texts).split(".")))
        elif isinstance(value, staticmethod | classmethod):
            self.follow(value.__func__, UNASSIGNED if isinstance(value, staticmethod) else receiver)
        elif "__wrapped__" in getattr(value, "__dict__", ()):
            self.follow(value.__wrapped__, receiver)
            for rule in getattr(value, "rules", ()):  # of a function with a derivative of its own
                self.follow(rule)
        elif isinstance(value, type):
            if issubclass(value, Function):
                for name in ("forward", "backward"):  # what `apply` calls
                    self.follow(_static_attribute(value, name))
            elif not is_class_of_library(value):
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
        is_own = code.co_filename.startswith(OWN_PLACE)
        is_first, self._is_first = self._is_first, False
        if is_own or (not is_first and is_of_library(code.co_filename)):
            self._follow_made_with([contents_of(cell) for cell in cells.values()])
            return
        own = self._name(function)
        self._require(f"{own}.__code__ is {self._name(code)}")
        for name in ("__defaults__", "__kwdefaults__"):
            defaults = getattr(function, name)
            if defaults:
                self._value(f"{own}.{name}", defaults)
        named = named_in(code)
        self._also_named(named)
        if receiver is not UNASSIGNED:
            self._find(receiver)
        for name in named.modules:
            self._find_module(imported_module(name, function.__globals__))
        self._look_at_places(function, receiver, named, cells)

    def _follow_made_with(self, values: Iterable[Any]) -> None:
        """What a function of a library was made with: the function that a decorator was given."""
        for value in values:
            for made_with in value.values() if isinstance(value, dict) else (value,):
                if callable(made_with):
                    self.follow(made_with)

    def _look_at_places(
        self, function: types.FunctionType, receiver: Any, named: Named, cells: dict[str, Any]
    ) -> None:
        """Look at what is in the variables that a function names."""
        code = function.__code__
        first = code.co_varnames[0] if receiver is not UNASSIGNED and code.co_argcount else None
        for place in named.places:
            if self.is_full():
                return
            kind, name, attributes = place
            container: Any = None
            if name == first and kind in ("local", "cell"):
                value = receiver
            elif kind == "global":
                value = function.__globals__.get(name, UNASSIGNED)
                container = function.__globals__
            elif kind == "cell" and name in cells:
                value = contents_of(cells[name])
                container = cells[name]
            else:
                continue
            is_record = kind != "local" and not named.is_read(name, value)
            if value is UNASSIGNED and kind == "global":
                variables = function.__globals__
                self._builtins.setdefault(id(variables), (variables, set()))[1].add(name)
            if value is UNASSIGNED or is_record:
                continue
            if container is not None and self._is_new(kind, id(container), name):
                key = f"[{name!r}]" if kind == "global" else ".cell_contents"
                self._value(self._name(container) + key, value)
            self._attributes(value, attributes, named)

    def _also_named(self, named: Named) -> None:
        all_named = Named.together([self._named, named])
        if all_named != self._named:
            self._named = all_named
            self._seen = 0  # the objects have more to say now

    def _attributes(self, value: Any, names: tuple[str, ...], named: Named) -> None:
        for name in names:
            if runs_code(value):
                return
            if isinstance(value, np.ndarray) or is_tensor(value) or is_module_of_library(value):
                return
            found = _found_attribute(value, name)
            if found is UNASSIGNED:
                return
            if isinstance(value, type) and isinstance(found, types.FunctionType):
                self._method(value, name, found, UNASSIGNED)
                return
            if _is_bound(value, name, found):
                self._method(value if isinstance(value, type) else type(value), name, found, value)
                return
            if not named.is_read(name, found):
                return
            if self._is_new("attribute", id(value), name):
                self._kept.append(value)
                self._value(f"{self._name(value)}.{name}", found)
            value = found
        self._find_module(value)  # which may get another name

    def _method(self, cls: type, name: str, found: Any, receiver: Any) -> None:
        place = f"{self._name(cls)}.{name}"
        is_wrapped = isinstance(found, staticmethod | classmethod)
        if isinstance(found, classmethod):  # a new method at each look
            place = f"{place}.__func__"
        is_function = is_wrapped or isinstance(found, types.FunctionType | property)
        if is_function and self._is_new("attribute", id(cls), name):
            self._require(f"{place} is {self._name(found.__func__ if is_wrapped else found)}")
        self.follow(found.fget if isinstance(found, property) else found, receiver)

    # Objects

    def _find(self, value: Any) -> None:
        if self._is_new("object", id(value)):
            self._kept.append(value)
            self._objects.append(value)

    def _find_module(self, value: Any) -> None:
        """Of a module that is reached in another way than by its name, attributes count as those of
        any object do."""
        if isinstance(value, types.ModuleType) and not is_module_of_library(value):
            self._find(value)

    def _look_through(self, value: Any) -> None:
        """Its attributes of the names that are read of anything."""
        if runs_code(value):
            return
        is_class = isinstance(value, type)
        if not is_class:
            self._look_through_attributes(value)
        classes: tuple[type, ...] = type(value).__mro__
        for cls in (*value.__mro__, *classes) if is_class else classes:
            if not is_class_of_library(cls):
                self._look_through_class(cls, UNASSIGNED if is_class else value)

    def _look_through_attributes(self, value: Any) -> None:
        cls = type(value)
        is_module = cls is types.ModuleType
        is_of_library = is_class_of_library(cls) and not is_module
        is_sparse = str(cls.__module__).startswith("scipy.sparse.")  # products read their arrays
        # Who reads any attribute of something does not mean those of figures and loggers.
        is_record = _is_namespace(cls) or not (is_of_library or is_module)
        named = self._named if is_record else self._named._replace(reads_any=False)
        for name, text, found in _own_attributes(value):
            if is_of_library and isinstance(found, types.FunctionType | types.MethodType):
                self.follow(found)  # as `numpy.vectorize` has one
            is_read = named.is_attribute_read(name, found) and not _is_own(cls)
            is_read |= is_sparse and isinstance(found, np.ndarray | tuple)
            if is_read and self._is_new("attribute", id(value), name):
                self._value(text.format(self._name(value)), found)
                if is_sparse and isinstance(found, np.ndarray):
                    self._elements(found)
                if not is_module:
                    self._find_module(found)

    def _look_through_class(self, cls: type, receiver: Any) -> None:
        for name, found in list(vars(cls).items()):
            is_operator = name.startswith("__") and name.endswith("__")
            if is_operator:
                is_read = isinstance(found, types.FunctionType) and name not in _NOT_OPERATORS
            else:
                is_read = self._named.is_attribute_read(name, found)
            if not is_read:
                continue
            if isinstance(found, _OF_METHODS):
                self._method(cls, name, found, receiver)
            elif isinstance(found, types.MemberDescriptorType):
                continue
            elif hasattr(type(found), "__get__"):
                self.follow(getattr(found, "func", None), receiver)  # a property that is kept
                self._find(found)
            elif self._is_new("attribute", id(cls), name):
                self._value(f"{self._name(cls)}.{name}", found)

    # Values

    def _value(self, place: str, value: Any) -> None:
        """Require that `value` stays at `place`, and as it is."""
        expected = self._name(value)
        if runs_code(value):
            self._require(f"{place} is {expected}")
            return
        if _is_plain(value):
            self._require(f"({place} is {expected} or is_same({place}, {expected}))")
            return
        if not is_module_of_library(value):
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
        elif isinstance(value, tuple | list | deque | _MAPPINGS):
            self._items(name, value)
            if type(value) not in (tuple, list, dict, deque, types.MappingProxyType):
                self._find(value)
        elif isinstance(value, _BUFFERS):
            if memoryview(value).nbytes <= _MOST_BYTES_UNREAD:
                self._require(f"bytes({name}) == {self._name(bytes(value))}")
        elif isinstance(value, ContextVar):
            self._value(f"{name}.get(None)", value.get(None))
        elif isinstance(value, weakref.ref):
            self._value(f"{name}()", value())
        elif isinstance(value, UserDict | UserList | ChainMap):
            held = "maps" if isinstance(value, ChainMap) else "data"
            self._contents(f"{name}.{held}", getattr(value, held))
            self._find(value)
        elif isinstance(value, set | frozenset):
            if len(value) <= _MOST_NUMBERS and all(map(_is_plain, value)):
                self._require(f"{name} == {self._name(frozenset(value))}")
            else:
                self.is_complete = False
        elif not isinstance(value, types.ModuleType):
            if callable(value):
                self.follow(value)
            if not isinstance(value, type):
                self._find(value)

    def _array(self, name: str, array: np.ndarray) -> None:
        self._require(f"{name}.shape == {array.shape!r}")
        if array.nbytes <= _MOST_BYTES_UNREAD:
            large = array if array.nbytes > MOST_BYTES else None
            if is_compared_in_place(array):
                same = f"{self._name(bytearray(array.data))} == {name}"
            else:
                same = f"{name}.tobytes() == {self._name(array.tobytes())}"
            self._require(same, large)

    def _elements(self, array: np.ndarray) -> None:
        """Of a sparse matrix whose transpose may be read: that has arrays of its own."""
        if array.nbytes > _MOST_BYTES_UNREAD and not array.dtype.hasobject:
            expected = self._name(array.tobytes())
            self._require(f"{self._name(array)}.tobytes() == {expected}", array)

    def _items(self, name: str, container: Any) -> None:
        if len(container) <= _FEW_ITEMS:
            self._each_item(name, container)
        elif len(container) <= _MOST_NUMBERS and all(map(_is_plain, _values_of(container))):
            text = f"{name}.values()" if isinstance(container, _MAPPINGS) else name
            if isinstance(container, _MAPPINGS):
                self._keys(name, container)
            expected = self._name(tuple(_values_of(container)))
            self._require(f"are_same({text}, {expected})")
        elif len(container) <= _MOST_ITEMS:
            self._long.append((name, container))
        else:
            self.is_complete = False

    def _each_item(self, name: str, container: Any) -> None:
        if isinstance(container, _MAPPINGS):
            self._keys(name, container)
        else:
            self._require(f"len({name}) == {len(container)}")
        for key, item in list(_items_of(container)):
            self._value(f"{name}[{self._name(key)}]", item)
            self._find_module(item)

    def _keys(self, name: str, container: Mapping[Any, Any]) -> None:
        """In their order, too, which loops follow."""
        self._require(f"tuple({name}) == {self._name(tuple(container))}")


def _items_of(container: Any) -> Iterator[tuple[Any, Any]]:
    return (
        iter(container.items()) if isinstance(container, _MAPPINGS) else iter(enumerate(container))
    )


def _values_of(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, _MAPPINGS) else container


def _is_namespace(cls: type) -> bool:
    """Whether its objects are nothing but what users put into them."""
    return cls.__name__ in ("SimpleNamespace", "Namespace")


def _is_own(cls: type) -> bool:
    return str(cls.__module__).startswith("numba_grad.")


def _own_attributes(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Name, text that reads it, and value of each attribute. No code of the user's runs."""
    for name, found in list(attributes_in_dict(value).items()):
        yield name, f"{{}}.__dict__[{name!r}]", found
    for cls, name, found in attributes_in_slots(value):
        if not is_class_of_library(cls):
            yield name, f"{{}}.{name}", found


def _found_attribute(value: Any, name: str) -> Any:
    """What `value.name` is, or the descriptor that gives it. No code of the user's runs."""
    if isinstance(value, types.ModuleType):
        return vars(value).get(name, UNASSIGNED)
    if isinstance(value, type):
        return _static_attribute(value, name)
    of_class = _static_attribute(type(value), name)
    if isinstance(of_class, types.MemberDescriptorType):
        return getattr(value, name, UNASSIGNED)
    if isinstance(of_class, property):
        return of_class
    own = attributes_in_dict(value).get(name, UNASSIGNED)
    return of_class if own is UNASSIGNED else own


def _static_attribute(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return UNASSIGNED


def _is_bound(value: Any, name: str, found: Any) -> bool:
    """Whether `value.name` is made of `found` at each look: a method."""
    if isinstance(value, types.ModuleType) or not hasattr(type(found), "__get__"):
        return False
    if isinstance(value, type):
        return True
    # A function that an object has in its dictionary or in a slot is an attribute as any other.
    return name not in attributes_in_dict(value) and found is _static_attribute(type(value), name)
