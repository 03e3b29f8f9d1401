"""What a variable of a loop or a branch holds: arrays and numbers of certain types, in containers,
and what is neither, which stays as it is."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.dtypes import kind_of
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, is_scalar
from numba_grad.frontend.inputs.guards import is_same
from numba_grad.frontend.tensors.python_numbers import handle_like, is_number
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.ops.families import cast

Part = Callable[..., Any]  # a function made of statements or of an expression

_PLAIN = (str, bytes, bool, int, float, complex, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What a leaf may be: an array or a number of a type, or one thing that stays."""

    type: Type | None  # None for what is no array
    is_number: bool = False  # a Python number, weakly typed
    constant: Any = None

    def is_same(self, other: "Kind") -> bool:
        if self.type is None or other.type is None:
            both = self.type is other.type
            return both and _is_same_thing(self.constant, other.constant)
        return self.type is other.type and self.is_number == other.is_number

    def __str__(self) -> str:
        if self.type is None:
            return f"{type(self.constant).__name__} {_shortened(self.constant)}"
        if self.is_number:
            return f"a Python {_PYTHON_NAMES[self.type.dtype.kind]}"
        return str(self.type)


_PYTHON_NAMES = {"b": "bool", "i": "int", "f": "float", "c": "complex"}


@dataclass(frozen=True, slots=True, eq=False)
class FlattenedValue:
    """What a variable holds."""

    leaves: list[Any]
    structure: trees.Structure

    @property
    def kinds(self) -> "list[Kind]":
        return [_kind_of(x) for x in self.leaves]


MISSING = FlattenedValue([], trees.flatten(None)[1])  # of a variable that has not been assigned


def never_changes(held: Any) -> bool:
    """Whether `x += 1` gives `x` another value, and leaves this one as it is."""
    if type(held) is Tensor:
        return views.is_number(held)
    return is_number(held) or isinstance(held, (np.generic, str, bytes, type(None)))


def is_container(held: Any) -> bool:
    return isinstance(held, (list, dict, tuple)) or (
        dataclasses.is_dataclass(held) and not isinstance(held, type)
    )


def taken_apart(held: Any) -> FlattenedValue:
    """`held`, taken apart."""
    return FlattenedValue(*trees.flatten(held))


def _kind_of(leaf: Any) -> Kind:
    if is_number(leaf):
        return Kind(as_node(leaf).type, is_number=True)
    is_array = isinstance(leaf, Tensor) or (
        isinstance(leaf, (np.ndarray, np.generic)) and kind_of(leaf.dtype) in "biufc"
    )
    return Kind(as_node(leaf).type) if is_array else Kind(None, constant=leaf)


def joined(first: Kind, second: Kind) -> Kind | None:
    """The kind that has room for both; None if there is none.

    Python numbers take the dtype of an array without axes, as wherever they meet one; arrays keep
    their types.
    """
    if first.type is None or second.type is None or first.is_same(second):
        return first if first.is_same(second) else None
    if not first.is_number and not second.is_number:
        return None
    if first.is_number and second.is_number:
        wider = np.result_type(first.type.dtype, second.type.dtype)
        return Kind(first.type if wider == first.type.dtype else second.type, is_number=True)
    number, array = (first, second) if first.is_number else (second, first)
    assert number.type is not None and array.type is not None
    if array.type.shape or _ORDER[number.type.dtype.kind] > _ORDER[array.type.dtype.kind]:
        return None
    return array


_ORDER = {kind: number for number, kinds in enumerate(("b", "iu", "f", "c")) for kind in kinds}


def is_same_number(first: Any, second: Any) -> bool:
    """Whether both are one Python number, which so needs no operation."""
    return is_scalar(first) and is_scalar(second) and is_same(first, second)


def node_as(leaf: Any, kind: Kind) -> Node:
    """A leaf as a node of this kind, which it has room for."""
    assert kind.type is not None
    return cast(as_node(leaf), kind.type.dtype)


def zero_of(kind: Kind) -> Any:
    """Something of a kind, for what nobody will read."""
    if kind.type is None:
        return kind.constant
    zero = np.zeros(kind.type.shape, kind.type.dtype)
    return zero.item() if kind.is_number else zero


def unassigned(kind: Kind) -> Any:
    """What is in a variable where nothing was assigned to it, if `has_nan(kind)`."""
    assert kind.type is not None
    nan = np.full(kind.type.shape, np.nan, kind.type.dtype)
    return nan.item() if kind.is_number else nan


def has_nan(kind: Kind) -> bool:
    return kind.type is not None and kind.type.dtype.kind in "fc"


def leaf_of(node: Node, kind: Kind) -> Tensor:
    """A handle on a node that stands for a leaf of this kind."""
    return handle_like(0 if kind.is_number else None, node)


def rebuilt(value: FlattenedValue, kinds: Sequence[Kind], nodes: Sequence[Node]) -> Any:
    """What a variable holds, with new nodes for its arrays and numbers, in order."""
    rest = iter(nodes)
    leaves = [k.constant if k.type is None else leaf_of(next(rest), k) for k in kinds]
    return trees.unflatten(value.structure, leaves)


def _is_same_thing(first: Any, second: Any) -> bool:
    return first is second or (isinstance(first, _PLAIN) and is_same(first, second))


def _shortened(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 50 else text[:47] + "..."
