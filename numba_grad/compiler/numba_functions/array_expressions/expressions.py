"""An array by its elements, stored or not."""

from collections.abc import Callable
from typing import Any

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import COMPLEX, Memory, Scalar, Value, View
from numba_grad.immutable import immutable

Indices = tuple[Value, ...]


@immutable
class Expression:
    """An array that is not stored: what an element is, and which arrays that reads."""

    shape: Indices
    dtype: str
    element: Callable[[Indices], Value]
    reads: tuple[View, ...]
    is_view: bool = False  # for NumPy: who writes to it, or to what it reads, is refused
    is_in_order: bool = True  # an element is made of the elements that have its place in `reads`

    @property
    def rank(self) -> int:
        return len(self.shape)


@immutable
class Method:
    """`array.name`, which is called."""

    name: str
    array: Any


@immutable
class Listed:
    """A list in the text of a call."""

    items: tuple[Any, ...]


Array = Memory | View | Expression


def is_number(meaning: Any) -> bool:
    return isinstance(meaning, Scalar | bool | int | float)


def is_array(meaning: Any) -> bool:
    return isinstance(meaning, Memory | View | Expression)


def is_complex(meaning: Any) -> bool:
    return getattr(meaning, "dtype", "") in COMPLEX


def stored(translation: Any, array: Array) -> Memory | View:
    """An array in memory."""
    if not isinstance(array, Expression):
        return array
    builder: Builder = translation.builder
    memory = builder.allocate("values", array.dtype, array.shape)
    with builder.elements(array.shape) as at:
        builder.store(memory, at, array.element(at))
    if array.is_view:
        translation.share(memory, array.reads[0].memory)
    return memory
