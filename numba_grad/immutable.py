"""Small classes whose instances never change.

immutable    a decorator: a frozen dataclass
NamedTuple   as that of `typing`
"""

import functools
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: Class) -> Class:
    """A frozen dataclass with slots, equal by its fields, as type checkers see it.

    While a program runs nothing refuses an assignment: what would do so makes instances four times
    as slow. `dataclass` has Python compile the text of each function, 0.2 ms a class, 60 of which a
    process imports with the compiler. Here one is compiled for each number of fields, and the
    others are the same instructions with other names.
    """
    has_factories = any(map(_has_factory, _values_of_fields(cls)))
    made: Any = dataclass(
        slots=True, init=has_factories, eq=has_factories, unsafe_hash=has_factories, repr=False
    )(cls)
    if not has_factories:
        own = fields(made)
        defaults = tuple([f.default for f in own if f.default is not MISSING])
        names = {_name_of_field(k): f.name for k, f in enumerate(own)}
        for function in _functions_of_fields(len(own)):
            given = defaults if function.__name__ == "__init__" else ()
            setattr(made, function.__name__, _renamed(function, names, cls.__qualname__, given))
    if "__repr__" not in vars(cls):
        made.__repr__ = _shown
    return made


def _values_of_fields(cls: type) -> list[object]:
    """What the class says of its own ones, and what is known of those that it inherits."""
    return [*vars(cls).values(), *getattr(cls, "__dataclass_fields__", {}).values()]


def _has_factory(value: object) -> bool:
    return isinstance(value, Field) and value.default_factory is not MISSING


if TYPE_CHECKING or sys.version_info >= (3, 14):  # where annotations are not there at once
    from typing import NamedTuple
else:

    class _NamedTuples(type):
        """Makes the classes that derive from `NamedTuple`.

        That of `typing` has Python compile a text for each, 46 us, 53 times while the package is
        imported. Here one is compiled for each number of fields; to give it other names takes 9.
        """

        def __new__(cls, name: str, bases: tuple[type, ...], own: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, own)
            names = tuple(own.get("__annotations__", ()))
            of_count = _tuple_of_fields(len(names))
            defaults = tuple([own[x] for x in names if x in own])
            renamed = dict(zip(of_count._fields, names, strict=True))
            made = _renamed(of_count.__new__, renamed, name, defaults)
            getters = {x: vars(of_count)[k] for k, x in renamed.items()}
            shared = {"__slots__": (), "__repr__": _shown, "_replace": _replaced}
            of_fields = {"__new__": made, "_fields": names, "__match_args__": names}
            return type(name, (of_count,), shared | own | getters | of_fields)

    NamedTuple = _NamedTuples("NamedTuple", (), {})


@functools.cache
def _tuple_of_fields(count: int) -> Any:
    return namedtuple("fields", [_name_of_field(k) for k in range(count)])


def _replaced(self: Any, **changes: Any) -> Any:
    values = [changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
    if changes:
        raise ValueError(f"{type(self).__qualname__} has no field {next(iter(changes))!r}")
    return self._make(values)


def _name_of_field(number: int) -> str:
    return f"field_{number}"


@functools.cache
def _functions_of_fields(count: int) -> tuple[FunctionType, ...]:
    """What a class with so many fields has."""
    names = [_name_of_field(k) for k in range(count)]
    own, others = ("".join([f"{x}.{name}, " for name in names]) for x in ("self", "other"))
    found: dict[str, FunctionType] = {}
    exec(
        f"def __init__(self, {', '.join(names)}):\n"
        + "".join([f"    self.{name} = {name}\n" for name in names])
        + "    return\n"
        "def __eq__(self, other):\n"
        "    if other.__class__ is not self.__class__:\n"
        "        return NotImplemented\n"
        f"    return ({own}) == ({others})\n"
        "def __hash__(self):\n"
        f"    return hash(({own}))\n",
        found,
    )
    return found["__init__"], found["__eq__"], found["__hash__"]


def _renamed(
    function: FunctionType, names: dict[str, str], owner: str, defaults: tuple[Any, ...]
) -> Callable[..., Any]:
    code = function.__code__
    code = code.replace(
        co_names=tuple([names.get(name, name) for name in code.co_names]),
        co_varnames=tuple([names.get(name, name) for name in code.co_varnames]),
        co_qualname=f"{owner}.{function.__name__}",
    )
    return FunctionType(code, function.__globals__, function.__name__, defaults)


def _shown(self: Any) -> str:
    parts = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
    return f"{type(self).__qualname__}({', '.join(parts)})"
