"""Small classes whose instances never change."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: Class) -> Class:
    """A frozen dataclass with slots, equal by its fields, as type checkers see it.

    While a program runs nothing refuses an assignment: what would do so makes instances four times
    as slow. `dataclass` has Python compile the text of the other functions, 0.2 ms a class, in the
    first gradient of a process that imports the compiler: three classes in four have no use for
    them there. So they are made when they are first called.
    """
    made: Any = dataclass(slots=True, init=False, eq=False, repr=False)(cls)
    for name in ("__init__", "__eq__", "__hash__"):
        # Who writes `__eq__` gets None for a hash from Python.
        if vars(made).get(name) is None:
            setattr(made, name, _made_when_called(made, name))
    if "__repr__" not in vars(cls):
        made.__repr__ = _shown
    return made


def _made_when_called(cls: type, name: str) -> Callable[..., Any]:
    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        setattr(cls, name, vars(_with_functions(cls, name))[name])
        return getattr(cls, name)(self, *args, **kwargs)

    return function


def _with_functions(cls: Any, name: str) -> type:
    """A dataclass with the fields of `cls`, and only the functions that are wanted with `name`."""
    own = fields(cls)
    body: dict[str, Any] = {"__annotations__": {f.name: f.type for f in own}}
    for f in own:
        if f.default_factory is not MISSING:
            body[f.name] = field(default_factory=f.default_factory)
        elif f.default is not MISSING:
            body[f.name] = f.default
    is_made = name == "__init__"
    found = type(cls.__name__, (), {"__module__": cls.__module__, "__doc__": cls.__doc__, **body})
    return dataclass(init=is_made, eq=not is_made, unsafe_hash=not is_made, repr=False)(found)


def _shown(self: Any) -> str:
    parts = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
    return f"{type(self).__qualname__}({', '.join(parts)})"
