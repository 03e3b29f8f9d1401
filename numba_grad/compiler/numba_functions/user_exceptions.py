"""Exceptions of users' own, in generated source."""

import importlib
import operator
from typing import Any


def exception_named(module: str, name: str) -> Any:
    """The class of this name in a module."""
    return operator.attrgetter(name)(importlib.import_module(module))


def name_in_source(error: Any) -> str:
    """What source calls an exception that is neither built in nor NumPy's.

    Raises
    ------
    LookupError
        If its module has none of that name, as for one that is made in a function.
    """
    try:
        found = exception_named(error.__module__, error.__qualname__)
    except (ImportError, AttributeError):
        found = None
    if found is not error:
        raise LookupError(error)
    return f"exception_named({error.__module__!r}, {error.__qualname__!r})"
