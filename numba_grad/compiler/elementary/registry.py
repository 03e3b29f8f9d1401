"""The functions of kernel source, by name: beside each formula stands which function it is, and for
which types (`formula`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# Families of types: each has its own formula of a function. Complex numbers are pairs of values.
BOOLEAN, SIGNED, UNSIGNED = "boolean", "signed", "unsigned"
FLOATING, COMPLEX = "floating", "complex"

# In which type the arguments meet.
COMMON = "common"  # the one NumPy promotes them to
WIDEST_INTEGER = "widest integer"  # that, but integers in 64 bits, cut off by whoever stores them
OF_FIRST = "of the first"  # the same for the first argument alone: the others are literals


@dataclass(slots=True, eq=False)
class ElementaryFunction:
    name: str
    arity: int
    formulas: dict[str, Callable[..., Any]] = field(default_factory=dict)  # by family
    computed_in: str = COMMON

    def family(self, family: str) -> str | None:
        """The family that values of a family are computed in: without a formula of their own,
        bools count as unsigned integers, and these as floating numbers, of 64 bits."""
        if family == BOOLEAN and BOOLEAN not in self.formulas:
            family = UNSIGNED
        if family in (SIGNED, UNSIGNED) and family not in self.formulas:
            family = FLOATING
        return family if family in self.formulas else None


FUNCTIONS: dict[str, ElementaryFunction] = {}


def formula(
    *families: str,
    name: str = "",
    arity: int = 0,
    also: tuple[str, ...] = (),
    computed_in: str = COMMON,
) -> Callable[[F], F]:
    """A decorator for the formula of a function for these families of types.

    Parameters
    ----------
    name : of the function in kernel source; by default that of the formula
    arity : how many arguments it has; by default as many as the formula, or half of them for pairs
    also : names of NumPy and SciPy for the same function
    computed_in : in which type the arguments meet: one formula of a function says it
    """

    def register(formula: F) -> F:
        known = name or formula.__name__
        function = FUNCTIONS.get(known)
        if function is None:
            count = _parameters(formula) // (2 if COMPLEX in families else 1)
            function = FUNCTIONS[known] = ElementaryFunction(known, arity or count)
        if computed_in != COMMON:
            function.computed_in = computed_in
        for family in families:
            assert family not in function.formulas, f"{known}: two formulas for {family} types"
            function.formulas[family] = formula
        for alias in also:
            FUNCTIONS[alias] = function
        return formula

    return register


def _parameters(formula: Any) -> int:
    """How many there are; `inspect` takes a hundred times as long to say so."""
    while hasattr(formula, "__wrapped__"):
        formula = formula.__wrapped__
    return formula.__code__.co_argcount
