"""Functions that are made of functions: what `grad(f)` and its relatives return.

They are pickled as functions are, by name, where a module has them under one; else with what they
are made of. So they reach the processes of a `ProcessPoolExecutor`, or of joblib.
"""

import copy
import functools
import sys
import types
from collections.abc import Callable
from typing import Any


class DerivedFunction:
    """A function made of another one, by `make(*args)`."""

    def __init__(
        self,
        f: Callable[..., Any],
        call: Callable[..., Any],
        made_by: tuple[Callable[..., Any], tuple[Any, ...]],
    ) -> None:
        wrap_like(self, f)
        self._call = call
        self._made_by = made_by

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, *self._made_by)

    def __copy__(self) -> "DerivedFunction":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "DerivedFunction":
        return deep_copied(self, *self._made_by, memo)


def derived_from(
    f: Callable[..., Any], make: Callable[..., Any], *args: Any
) -> Callable[[Callable[..., Any]], DerivedFunction]:
    """A decorator for what calls of `make(f, *args)` run: with name and signature of `f`."""
    return lambda call: DerivedFunction(f, call, (make, (f, *args)))


def wrap_like(wrapper: Any, f: Callable[..., Any]) -> None:
    """`functools.update_wrapper`, but for the attributes of what is not a plain function: these
    are its state."""
    updated = functools.WRAPPER_UPDATES if isinstance(f, types.FunctionType) else ()
    functools.update_wrapper(wrapper, f, updated=updated)


def reduced(
    function: Any, make: Callable[..., Any], args: tuple[Any, ...]
) -> str | tuple[Any, ...]:
    """What `__reduce__` returns: the name of the function in its module, or how it is made."""
    return _own_name(function) or (make, args)


def deep_copied(
    function: Any, make: Callable[..., Any], args: tuple[Any, ...], memo: dict[int, Any]
) -> Any:
    """Itself, as of every function, unless it was made of something that is not its own copy, as
    a method of an object."""
    copied = copy.deepcopy(args, memo)
    is_same = all(x is y for x, y in zip(args, copied, strict=True))
    return function if is_same else make(*copied)


def _own_name(function: Any) -> str | None:
    module = getattr(function, "__module__", None)
    if module == "__main__" and _is_pickled_by_value():
        return None
    names = vars(sys.modules.get(module, types.ModuleType(""))) if module else {}
    found: Any = names.get("")
    path = getattr(function, "__qualname__", "").split(".")
    if path[0] in names and "<locals>" not in path:
        found = functools.reduce(lambda x, name: getattr(x, name, None), path[1:], names[path[0]])
    if found is function:
        return ".".join(path)
    return next((name for name, value in list(names.items()) if value is function), None)


def _is_pickled_by_value() -> bool:
    """Whether cloudpickle asks, which has the functions of a script travel with their code: the
    workers of joblib do not run the script."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").rpartition(".")[2].startswith("cloudpickle"):
            return True
        frame = frame.f_back
    return False
