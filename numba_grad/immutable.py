"""Small classes whose instances never change."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: Class) -> Class:
    """A frozen dataclass with slots, equal by its fields, as type checkers see it.

    While a program runs nothing refuses an assignment. What would do so are two more functions for
    Python to compile, of six, 0.2 ms for each class of the compiler in somebody's first gradient,
    and instances take four times as long to make.
    """
    made: Any = dataclass(slots=True, unsafe_hash=True, repr=False)(cls)
    if "__repr__" not in vars(cls):
        made.__repr__ = _shown
    return made


def _shown(self: Any) -> str:
    parts = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
    return f"{type(self).__qualname__}({', '.join(parts)})"
