"""Operations of two operands that remember what is known of their results, by the operands' types.

A loop records the same few again in each step: what NumPy's promotion gives, and what is inferred,
takes three times as long to find out as all the rest. Operators and functions share it.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.autograd.tensor_class import is_tensor, new_tensor, recorded_tensor
from numba_grad.errors import explain
from numba_grad.frontend.inputs.arrays import as_node, is_scalar, operands, scalar_leaf
from numba_grad.graph.node import NO_PARAMS, OPS, Inferred, Node, inferred_of, record

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

Operator = Callable[["Tensor", Any], "Tensor"]
Prepare = Callable[..., tuple[Node, ...]]  # from a ufunc and its operands to nodes of its dtypes

# Numbers of other classes than Python's own, as members of an IntEnum, are arrays, as in NumPy.
_SUPPORTED_OPERANDS = (np.ndarray, np.generic, list, tuple, int, float, complex)

# What needs no look at whether it is an operand, beside tensors.
QUICK = frozenset({float, int, np.ndarray, np.float64})

# Of one operator, by the types of its operands, or the class of a Python number in place of one:
# what is known of results where nothing is cast. 0.5 us instead of 3.
Known = dict[Any, Inferred]
_MOST_KNOWN = 1 << 12
# The same by the number itself, which a loop says again in each step: its leaf, and what is known.
Numbers = dict[Any, tuple[Node, Inferred]]
_MOST_NUMBERS = 1 << 8


def recorded_with(
    ufunc: np.ufunc, known: Known, values: tuple[Any, ...], prepare: Prepare = operands
) -> Node:
    """The operation on whatever operands, from now on in `known` if it casts none of them."""
    op, nodes = OPS[ufunc.__name__], prepare(ufunc, values)
    node = record(op, nodes)
    key: list[Any] = []
    for value, x in zip(values, nodes, strict=True):
        if value is x or (is_tensor(value) and value._node is x):
            key.append(x.type)
        elif (value.__class__ is float or value.__class__ is int) and x.value is not None:
            key.append(value.__class__)
    dtypes = {x.type.dtype for x in nodes}
    if len(key) == len(nodes) and len(dtypes) == 1:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[key[0] if key[0] is key[-1] else tuple(key)] = inferred_of(
            op, [x.type for x in nodes]
        )
    return node


@functools.cache
def on_tensor(ufunc: np.ufunc, prepare: Prepare = operands) -> Operator:
    """`ufunc(x, other)` for a tensor x, as an operator."""
    op, is_product = OPS[ufunc.__name__], ufunc is np.multiply
    known: Known = {}
    numbers: Numbers = {}

    # The paths before the last line are for speed alone. Classes that derive from Tensor have
    # operators of their own.
    def operate(self: "Tensor", other: Any) -> "Tensor":
        kind, x = other.__class__, self._node
        type = x.type
        if kind is self.__class__:
            y = other._node
            found = known.get(type if y.type is type else (type, y.type))
            if found is not None:
                flows = x.requires_grad or y.requires_grad
                return recorded_tensor(op, (x, y), flows, NO_PARAMS, found)
        elif kind is float or kind is int:
            found = numbers.get((type, kind, other)) or _met(
                ufunc, known, numbers, (type, kind), other
            )
            if found is not None:
                y, inferred = found
                return recorded_tensor(op, (x, y), x.requires_grad, NO_PARAMS, inferred)
        elif kind is np.ndarray or kind is np.float64:  # a row of data, an element
            other = as_node(other)
            found = known.get(type if other.type is type else (type, other.type))
            if found is not None:
                flows = x.requires_grad or other.requires_grad
                return recorded_tensor(op, (x, other), flows, NO_PARAMS, found)
        elif not is_operand(other) or (is_product and is_repeated(other, self)):
            return NotImplemented
        return new_tensor(recorded_with(ufunc, known, (self, other), prepare))

    return operate


def _refused(tensor: "Tensor", other: Any) -> Any:
    return NotImplemented


def on_the_right(ufunc: np.ufunc, foreign: Operator = _refused) -> Operator:
    """The same with the tensor on the right: `other + x`, as an operator. `foreign` has the say
    where `other` is neither an array nor a number."""
    op, is_product = OPS[ufunc.__name__], ufunc is np.multiply
    known: Known = {}
    numbers: Numbers = {}

    def operate(self: "Tensor", other: Any) -> "Tensor":
        kind, x = other.__class__, self._node
        if kind is float or kind is int:
            type = x.type
            found = numbers.get((kind, type, other)) or _met(
                ufunc, known, numbers, (kind, type), other
            )
            if found is not None:
                y, inferred = found
                return recorded_tensor(op, (y, x), x.requires_grad, NO_PARAMS, inferred)
        elif not is_operand(other):
            return foreign(self, other)
        elif is_product and is_repeated(other, self):
            return NotImplemented
        return new_tensor(recorded_with(ufunc, known, (other, self)))

    return operate


def is_repeated(other: Any, times: "Tensor") -> bool:
    """Whether a product is Python's of a list, `[0] * n`: NumPy's integers are such a number, and
    its arrays without axes are not."""
    return (
        isinstance(other, list | tuple)
        and times._node.dtype.kind in "iu"
        and views.is_number(times)
    )


def _met(
    ufunc: np.ufunc, known: Known, numbers: Numbers, key: tuple[Any, Any], number: Any
) -> tuple[Node, Inferred] | None:
    """A Python number as an operand of this operator, with what is known of the result, from now on
    in `numbers`. None where that is not known, or the number does not fit."""
    inferred = known.get(key)
    if inferred is None:
        return None
    # 0.0 == -0.0
    own_key = (*key, number if number or number.__class__ is int else repr(number))
    found = numbers.get(own_key)
    if found is None:
        type = key[0] if key[1] is number.__class__ else key[1]
        try:
            found = scalar_leaf(number, type.dtype, ufunc), inferred
        except OverflowError:
            return None
        if len(numbers) >= _MOST_NUMBERS:
            numbers.clear()
        numbers[own_key] = found
    return found


def is_operand(value: object) -> bool:
    if is_tensor(value) or is_scalar(value) or isinstance(value, _SUPPORTED_OPERANDS):
        return True
    kind = type(value)
    if hasattr(kind, "__pandas_priority__"):  # a column of a table: its values, in their order
        return True
    if hasattr(kind, "__dlpack__"):
        # Theirs would say that 'Tensor' and 'Tensor' are unsupported.
        raise TypeError(
            explain(
                "operator",
                "an array of another library, where gradients would end",
                got={"y": f"{kind.__module__}.{kind.__qualname__}"},
                fix="ng.tensor(y) or ng.from_dlpack(y), a copy; copy=False shares its memory",
            )
        )
    return False
