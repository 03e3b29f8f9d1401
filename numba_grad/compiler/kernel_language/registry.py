"""The functions of kernel source, and what operators mean in kernels alone.

Numba's own `intrinsic` registers for everybody. These it never sees: `meanings.py` asks them for
types and instructions as they are.
"""

from collections.abc import Callable
from typing import Any


class Intrinsic:
    """A function of kernel source, by `definition(typing_context, *types)`: a signature and what
    writes code, or None where there is no such function of these types."""

    def __init__(self, definition: Callable[..., Any], *, sees_literals: bool = False) -> None:
        self.__name__ = definition.__name__
        self.definition = definition
        self.sees_literals = sees_literals


# Of functions of the module `operator`, for types that Numba does not know or has otherwise.
OPERATORS: dict[Callable[..., Any], Intrinsic] = {}


def intrinsic(definition: Callable[..., Any]) -> Intrinsic:
    """Decorates the definition of a function."""
    return Intrinsic(definition)


def literal_intrinsic(definition: Callable[..., Any]) -> Intrinsic:
    """As `intrinsic`, of a function that looks at the values of constants."""
    return Intrinsic(definition, sees_literals=True)


def means(operator: Callable[..., Any]) -> Callable[[Callable[..., Any]], Intrinsic]:
    """Decorates the definition of what an operator means."""

    def registered(definition: Callable[..., Any]) -> Intrinsic:
        return OPERATORS.setdefault(operator, Intrinsic(definition))

    return registered
