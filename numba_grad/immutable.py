"""Small classes whose instances never change."""

import functools
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from types import FunctionType
from typing import Any, TypeVar, dataclass_transform

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
            setattr(made, function.__name__, _renamed(function, names, cls, defaults))
    if "__repr__" not in vars(cls):
        made.__repr__ = _shown
    return made


def _values_of_fields(cls: type) -> list[object]:
    """What the class says of its own ones, and what is known of those that it inherits."""
    return [*vars(cls).values(), *getattr(cls, "__dataclass_fields__", {}).values()]


def _has_factory(value: object) -> bool:
    return isinstance(value, Field) and value.default_factory is not MISSING


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
    function: FunctionType, names: dict[str, str], owner: type, defaults: tuple[Any, ...]
) -> Callable[..., Any]:
    code = function.__code__
    code = code.replace(
        co_names=tuple([names.get(name, name) for name in code.co_names]),
        co_varnames=tuple([names.get(name, name) for name in code.co_varnames]),
        co_qualname=f"{owner.__qualname__}.{code.co_name}",
    )
    is_init = code.co_name == "__init__"
    return FunctionType(code, function.__globals__, code.co_name, defaults if is_init else None)


def _shown(self: Any) -> str:
    parts = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
    return f"{type(self).__qualname__}({', '.join(parts)})"
