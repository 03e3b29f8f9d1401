"""What code names: variables, attributes of these, and what it does with them. From bytecode.

named_in(code)       a `Named`, that of nested functions and comprehensions included
named_as(names)      one of code that reads attributes of these names
is_of_library(file)  whether code is installed, and not the user's; of modules and classes, too
contents_of(cell)    what a variable that functions share holds, or UNASSIGNED
runs_code(value)     whether each look at an attribute of it runs code of the user's
"""

import builtins
import contextlib
import dis
import functools
import importlib.util
import os
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from numba_grad.immutable import NamedTuple

OWN_PLACE = str(Path(__file__).parents[2]) + os.sep
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")
# Methods of lists, dicts and sets: who only calls these keeps a record.
_WRITES = frozenset(
    {"append", "appendleft", "extend", "insert", "add", "update", "clear", "remove"}
)
_MADE_WHILE_RUNNING = 1 << 9  # Py_TPFLAGS_HEAPTYPE, of `cls.__flags__`
UNASSIGNED = object()  # what a variable without a value holds, and a key that is not there

NamedPlace = tuple[str, str, tuple[str, ...]]  # "global", "cell" or "local", name, attributes


class Named(NamedTuple):
    """What the code of a function names.

    A variable or an attribute that the code only assigns, counts up (`calls += 1`) or adds to
    (`log.append(x)`, `log[k] = x`) is a record of its own.
    """

    places: tuple[NamedPlace, ...]  # all of what is loaded
    # Of variables that functions share, and of attributes of anything:
    read: frozenset[str]
    appended: frozenset[str]  # `x.append(y)`, `x[k] = y`
    updated: frozenset[str]  # `x += y`
    names: frozenset[str]  # of all globals and attributes, loaded or stored
    modules: frozenset[str]  # that it imports, as `imported_module` takes them
    reads_any: bool  # attributes by names that are computed

    def is_read(self, name: str, held: Any) -> bool:
        """Whether the variable or attribute of this name, which holds this, is more than a record
        of what was done."""
        if name in self.read:
            return True
        if name in self.appended and not isinstance(held, list | dict | set | deque):
            return True
        return name in self.updated and not isinstance(held, int | float | complex | str)

    def is_attribute_read(self, name: str, held: Any) -> bool:
        """The same of an attribute, of anything. A name that is computed may be that of any other
        than of such records."""
        is_any = self.reads_any and name not in self.updated and name not in self.appended
        return is_any or self.is_read(name, held)

    @classmethod
    def together(cls, several: "Iterable[Named]") -> "Named":
        """What all of them name; without the places, which are of each one."""
        all_ = list(several)
        return cls(
            (),
            frozenset().union(*(x.read for x in all_)),
            frozenset().union(*(x.appended for x in all_)),
            frozenset().union(*(x.updated for x in all_)),
            frozenset().union(*(x.names for x in all_)),
            frozenset().union(*(x.modules for x in all_)),
            any(x.reads_any for x in all_),
        )


@functools.lru_cache(maxsize=1024)
def named_in(code: types.CodeType) -> Named:
    """What this code names, and what is defined in it."""
    places: dict[NamedPlace, None] = {}
    # `getattr(x, "rate")`, too.
    read = {x for x in _texts_in(code.co_consts) if x.isidentifier()}
    appended: set[str] = set()
    updated: set[str] = set()
    instructions = [x for x in dis.get_instructions(code) if x.opname not in _NOTHING]
    place: NamedPlace | None = None
    for k, instruction in enumerate(instructions):
        if _is_for_super(instructions, k):
            continue
        given = instruction.argval
        # From Python 3.13 on one instruction may be about two; attributes are of the last one.
        name: Any = given[-1] if isinstance(given, tuple) and given else given
        if instruction.opname in _ATTRIBUTES:
            if place is not None:
                place = (place[0], place[1], (*place[2], name))
            is_update = k > 0 and instructions[k - 1].opname == "COPY"
        else:
            if place is not None:
                places[place] = None
                place = None
            kind = _kind_of(instruction.opname)
            if kind is None:
                continue
            place = (kind, name, ())
            if kind == "local":
                continue
            is_update = _is_update(instructions, k)
        if is_update:
            updated.add(name)
        elif _is_appended_to(instructions, k) or _is_item_written(instructions, k):
            appended.add(name)
        else:
            read.add(name)
    own = Named(
        tuple(places),
        frozenset(read),
        frozenset(appended),
        frozenset(updated),
        frozenset(code.co_names),
        frozenset(
            _level(instructions[k - 2]) + x.argval
            for k, x in enumerate(instructions)
            if x.opname == "IMPORT_NAME"
        ),
        not _DYNAMIC.isdisjoint(code.co_names),
    )
    inner = [named_in(x) for x in code.co_consts if isinstance(x, types.CodeType)]
    if not inner:
        return own
    # Locals of its own are not ours, and ours are cells there.
    places.update((x, None) for y in inner for x in y.places if x[0] != "local")
    return Named.together([own, *inner])._replace(places=tuple(places))


def named_as(names: Iterable[str]) -> Named:
    """What code names that reads attributes of these names."""
    return Named.together([])._replace(read=frozenset(names))


def _level(instruction: dis.Instruction) -> str:
    """The dots of an import, as of `from ..package import name`: a number that is loaded."""
    return "." * instruction.argval if isinstance(instruction.argval, int) else ""


def _texts_in(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple | frozenset):
            yield from _texts_in(constant)


_NOTHING = frozenset({"CACHE", "RESUME", "NOP", "PUSH_NULL", "PRECALL", "EXTENDED_ARG"})
# What Python 3.14 makes of the annotations in a class: functions, which who asks for these calls.
OF_ANNOTATIONS = frozenset({"__annotate__", "__annotate_func__"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
# Who names one of these may read any attribute.
_DYNAMIC = frozenset({"getattr", "vars", "__dict__", "attrgetter", "asdict", "astuple", "deepcopy"})


def _kind_of(operation: str) -> str | None:
    if operation in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
        return "global"
    if operation in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
        return "cell"
    return "local" if "LOAD_FAST" in operation else None


def _is_for_super(instructions: list[dis.Instruction], k: int) -> bool:
    """Whether the class is loaded that `super().f` stands in; before Python 3.12 nobody sees it."""
    following = instructions[k + 2 : k + 3]
    return instructions[k].argval == "__class__" and any(
        x.opname == "LOAD_SUPER_ATTR" for x in following
    )


def _is_update(instructions: list[dis.Instruction], k: int) -> bool:
    """Whether a variable is loaded for `x += y`, with a single name or number y."""
    following = instructions[k + 1 : k + 4]
    if len(following) < 3:
        return False
    operand, operation, store = following
    return (
        operand.opname.startswith("LOAD_")
        and operation.opname == "BINARY_OP"
        and operation.argrepr.endswith("=")
        and store.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_NAME")
        and store.argval == instructions[k].argval
    )


def _is_appended_to(instructions: list[dis.Instruction], k: int) -> bool:
    following = instructions[k + 1 : k + 2]
    return any(x.opname in _ATTRIBUTES and x.argval in _WRITES for x in following)


def _is_item_written(instructions: list[dis.Instruction], k: int) -> bool:
    """Whether something is loaded for `x[i] = y` or `x[i] += y`, with a single name or number i."""
    following = [x.opname for x in instructions[k + 1 : k + 4]]
    if not following or not following[0].startswith("LOAD_"):
        return False
    return following[1:2] == ["STORE_SUBSCR"] or following[1:3] == ["COPY", "COPY"]


@functools.lru_cache(maxsize=4096)
def is_of_library(file: str) -> bool:
    """Whether code of this file is installed, and none of the user's own."""
    return file.startswith(("<frozen ", _STANDARD_LIBRARY, OWN_PLACE)) or bool(
        _PACKAGES.search(file)
    )


def imported_module(name: str, variables: dict[str, Any]) -> types.ModuleType | None:
    """The module that code with these global variables imports by a name, which begins with a dot
    for each level where it is relative; None if nobody has imported it."""
    if name.startswith("."):
        package = str(variables.get("__package__"))
        try:
            name = importlib.util.resolve_name(name, package)
        except ImportError:
            return None
    return sys.modules.get(name)


def is_module_of_library(value: Any) -> bool:
    if not isinstance(value, types.ModuleType):
        return False
    file = vars(value).get("__file__")
    if file is None:
        return value.__name__ in sys.builtin_module_names
    return is_of_library(file)


def is_class_of_library(cls: type) -> bool:
    module = sys.modules.get(str(cls.__module__))
    if module is builtins and cls.__flags__ & _MADE_WHILE_RUNNING:
        return False  # by `exec`, in a namespace without `__name__`
    return module is not None and is_module_of_library(module)


def contents_of(cell: types.CellType) -> Any:
    """What a variable holds, or UNASSIGNED."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNASSIGNED


def attributes_in_dict(value: Any) -> dict[str, Any]:
    """The attributes that are in its `__dict__`, without code of the user's that gives others."""
    if isinstance(value, threading.local):
        return value.__dict__  # this thread's
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def attributes_in_slots(value: Any) -> Iterator[tuple[type, str, Any]]:
    """The class that has a slot, its name as Python has it (`_Model__x`), and what is there."""
    for cls in type(value).__mro__:
        if "__slots__" in vars(cls):
            for name, slot in vars(cls).items():
                if isinstance(slot, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):  # not assigned yet
                        yield cls, name, slot.__get__(value)


def runs_code(value: Any) -> bool:
    """Whether each look at an attribute runs code of the user's, even `isinstance`."""
    cls = type(value)
    return type(cls.__getattribute__) is types.FunctionType and not issubclass(cls, np.ndarray)
