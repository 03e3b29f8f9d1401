"""What a variable of the function stands for in the text that is translated."""

from typing import Any, TypeAlias

from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Expression,
    Listed,
    Method,
)
from numba_grad.compiler.numba_functions.regions import Memory, Value, View
from numba_grad.immutable import immutable


@immutable
class Range:
    start: Value
    stop: Value
    step: Value
    is_parallel: bool = False


@immutable
class Elements:
    """`zip` or `enumerate` of arrays and ranges, or these themselves."""

    # "zip", "enumerate", "array", "range", "tuple", "flat", "ndenumerate", or "ndindex", whose
    # parts are lengths
    kind: str
    parts: tuple[Any, ...]
    start: Value = 0
    of: "NumberList | None" = None  # the array is that of a list


@immutable
class Flat:
    """`array.flat`."""

    array: Memory | View


@immutable
class NumberList:
    """A list of numbers: the first of `values`, as many as `count` says."""

    values: Memory
    count: Memory


@immutable
class Known:
    """What is known while compiling: a function, a module, a type, a string, None, a slice."""

    value: Any


# Scalars, arrays, tuples, and the others above.
Meaning: TypeAlias = Any


class Stale:
    """A name of an array that has been swapped, or overwritten, since."""


ANOTHER_NAME = (
    "another name, or a view, of an array whose variable has been given another array since,",
    "",
    "a .copy() of it; or ",
)


def flattened(meaning: Meaning) -> list[Meaning]:
    """The parts of a tuple, of those in it, too; another meaning alone."""
    if isinstance(meaning, tuple):
        return [part for inner in meaning for part in flattened(inner)]
    return [meaning]


def memories_of(meaning: Meaning) -> frozenset[Memory]:
    """The arrays that something reads."""
    if isinstance(meaning, Memory):
        return frozenset([meaning])
    if isinstance(meaning, View):
        return frozenset([meaning.memory])
    if isinstance(meaning, Expression):
        return frozenset([view.memory for view in meaning.reads])
    if isinstance(meaning, Method | Flat):
        return memories_of(meaning.array)
    if isinstance(meaning, Elements):
        return memories_of(meaning.parts)
    if isinstance(meaning, Listed):
        return memories_of(meaning.items)
    if isinstance(meaning, tuple):
        return frozenset([memory for part in meaning for memory in memories_of(part)])
    return frozenset()
