"""The operators of tensors: arithmetic, comparisons, bits, assignments such as `x += y`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.autograd.tensor_class import is_tensor, new_tensor, recorded_tensor
from numba_grad.dtypes import can_cast
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.arrays import (
    as_node,
    is_scalar,
    operands,
    scalar_leaf,
)
from numba_grad.frontend.functions import contractions, elementwise
from numba_grad.graph.node import (
    NO_PARAMS,
    OPS,
    Inferred,
    Node,
    inferred_of,
    record,
    recorded,
)
from numba_grad.ops.families import cast

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor

Operator = Callable[["Tensor", Any], "Tensor"]
Prepare = Callable[..., tuple[Node, ...]]  # from a ufunc and its operands to nodes of its dtypes

_SUPPORTED_OPERANDS = (np.ndarray, np.generic, list, tuple)


# Of one operator, by the types of its operands, or the class of a Python number in place of one:
# what is known of results where nothing is cast. 0.5 us instead of 3.
Known = dict[Any, Inferred]
_MOST_KNOWN = 1 << 12
# The same by the number itself, which a loop says again in each step: its leaf, and what is known.
Numbers = dict[Any, tuple[Node, Inferred]]
_MOST_NUMBERS = 1 << 8


def _recorded(
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


def _binary(ufunc: np.ufunc) -> Operator:
    """The method for an operator: `x + other`."""
    op = OPS[ufunc.__name__]
    prepare = _operands_of(ufunc)
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
        elif not _is_operand(other):
            return NotImplemented
        return new_tensor(_recorded(ufunc, known, (self, other), prepare))

    return operate


def _reflected(ufunc: np.ufunc) -> Operator:
    """The method for an operator with the tensor on the right: `other + x`."""
    op = OPS[ufunc.__name__]
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
        elif not _is_operand(other):
            return NotImplemented
        return new_tensor(_recorded(ufunc, known, (other, self)))

    return operate


def _met(
    ufunc: np.ufunc, known: Known, numbers: Numbers, key: tuple[Any, Any], number: Any
) -> tuple[Node, Inferred] | None:
    """A Python number as an operand of this operator, with what is known of the result, from now on
    in `numbers`. None where that is not known, or the number does not fit."""
    inferred = known.get(key)
    if inferred is None:
        return None
    type = key[0] if key[1] is number.__class__ else key[1]
    try:
        found = scalar_leaf(number, type.dtype, ufunc), inferred
    except OverflowError:
        return None
    if number or number.__class__ is int:  # 0.0 == -0.0
        if len(numbers) >= _MOST_NUMBERS:
            numbers.clear()
        numbers[*key, number] = found
    return found


def _in_place(ufunc: np.ufunc) -> Operator:
    """The method for an assignment: `x += other`."""
    op = OPS[ufunc.__name__]
    known: Known = {}

    def result(tensor: "Tensor", other: Any) -> Node:
        if other.__class__ is tensor.__class__:  # as in `_binary`
            x, y = tensor._node, other._node
            found = known.get(x.type if y.type is x.type else (x.type, y.type))
            if found is not None:
                return recorded(op, (x, y), NO_PARAMS, found)
        return _recorded(ufunc, known, (tensor, other))

    return _assigning(ufunc.__name__, result)


def _assigning(name: str, result: Callable[["Tensor", Any], Node]) -> Operator:
    """The method that gives the tensor the value of `result`: the handle moves on to a new node,
    and so do those of what shows the same elements. Of a number it makes another, as in NumPy."""

    def operate(self: "Tensor", other: Any) -> "Tensor":
        if other.__class__ is not self.__class__ and not _is_operand(other):
            return NotImplemented
        if views.is_number(self):
            return new_tensor(result(self, other))
        _replace(self, result(self, other), name)
        return self

    return operate


def _unary(ufunc: np.ufunc) -> Callable[["Tensor"], "Tensor"]:
    op = OPS[ufunc.__name__]
    known: Known = {}

    def operate(self: "Tensor") -> "Tensor":
        x = self._node
        found = known.get(x.type)
        if found is None:
            return new_tensor(_recorded(ufunc, known, (self,)))
        return recorded_tensor(op, (x,), x.requires_grad, NO_PARAMS, found)

    return operate


def _operands_of(ufunc: np.ufunc) -> Prepare:
    if ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
        return elementwise.comparison_operands
    return operands


def _is_operand(value: object) -> bool:
    if is_tensor(value) or is_scalar(value) or isinstance(value, _SUPPORTED_OPERANDS):
        return True
    kind = type(value)
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


def _replace(tensor: "Tensor", new: Node, operation: str) -> None:
    """Give `tensor` the value `new`, which keeps its shape and dtype, as in NumPy."""
    old = tensor._node
    if new.type is old.type:
        views.assign(tensor, new)
        return
    if new.shape != old.shape:
        raise ShapeError(
            explain(
                operation,
                "the result does not fit into the tensor assigned to",
                got={"tensor": old.type, "result": new.type},
                expected=f"operands that broadcast to {old.shape}",
                fix="x = x + y, a new tensor",
            )
        )
    if not can_cast(new.dtype, old.dtype, "same_kind"):
        raise DTypeError(
            explain(
                operation,
                f"cannot assign {new.dtype} to a tensor of {old.dtype}",
                got={"tensor": old.type, "result": new.type},
                fix=f"x = x.astype({new.dtype.name!r}) first",
            )
        )
    views.assign(tensor, cast(new, old.dtype))


def write_result(out: "Tensor", result: Node, operation: str) -> "Tensor":
    """Assign what `operation` gives to the tensor `out`, and return that, as NumPy's `out=` does.

    Gradients flow through it. A number, such as `x[0]`, is refused, since it shows no array.
    """
    if views.is_number(out):
        raise TypeError(
            explain(
                operation,
                "out= is a number, not an array that could be written into",
                got={"out": out._node.type},
                fix="x[0, ...] in place of x[0]; ng.zeros(()) for a new one",
            )
        )
    _replace(out, result, operation)
    return out


class Operators:
    """Abstract: the part of Tensor that makes `x + y` an operation on nodes.

    An operand that is neither array nor number gets its say by `NotImplemented`.
    """

    __slots__ = ()

    _node: Node

    # NumPy's scalars and arrays leave operators to us through __array_ufunc__.
    __add__ = _binary(np.add)
    __sub__ = _binary(np.subtract)
    __mul__ = _binary(np.multiply)
    __truediv__ = _binary(np.divide)
    __floordiv__ = _binary(np.floor_divide)
    __mod__ = _binary(np.remainder)
    __and__ = _binary(np.bitwise_and)
    __or__ = _binary(np.bitwise_or)
    __xor__ = _binary(np.bitwise_xor)
    __lshift__ = _binary(np.left_shift)
    __rshift__ = _binary(np.right_shift)
    __lt__ = _binary(np.less)
    __le__ = _binary(np.less_equal)
    __gt__ = _binary(np.greater)
    __ge__ = _binary(np.greater_equal)
    __eq__ = _binary(np.equal)  # type: ignore[assignment]
    __ne__ = _binary(np.not_equal)  # type: ignore[assignment]

    __radd__ = _reflected(np.add)
    __rsub__ = _reflected(np.subtract)
    __rmul__ = _reflected(np.multiply)
    __rtruediv__ = _reflected(np.divide)
    __rfloordiv__ = _reflected(np.floor_divide)
    __rmod__ = _reflected(np.remainder)
    __rand__ = _reflected(np.bitwise_and)
    __ror__ = _reflected(np.bitwise_or)
    __rxor__ = _reflected(np.bitwise_xor)
    __rlshift__ = _reflected(np.left_shift)
    __rrshift__ = _reflected(np.right_shift)

    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.divide)
    __ifloordiv__ = _in_place(np.floor_divide)
    __imod__ = _in_place(np.remainder)
    __iand__ = _in_place(np.bitwise_and)
    __ior__ = _in_place(np.bitwise_or)
    __ixor__ = _in_place(np.bitwise_xor)
    __ilshift__ = _in_place(np.left_shift)
    __irshift__ = _in_place(np.right_shift)
    __ipow__ = _assigning("power", elementwise.power_node)
    __imatmul__ = _assigning("matmul", lambda x, y: contractions.matmul(x, y)._node)

    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)

    # Equality is element by element, so tensors are told apart by identity, as in torch.
    __hash__ = object.__hash__

    def __pow__(self, exponent: Any) -> "Tensor":
        if exponent.__class__ is not int and not _is_operand(exponent):
            return NotImplemented
        return new_tensor(elementwise.power_node(self, exponent))

    def __rpow__(self, base: Any) -> "Tensor":
        if not _is_operand(base):
            return NotImplemented
        return new_tensor(elementwise.power_node(base, self))

    def __matmul__(self, other: Any) -> "Tensor":
        return contractions.matmul(self, other) if _is_operand(other) else NotImplemented

    def __rmatmul__(self, other: Any) -> "Tensor":
        return contractions.matmul(other, self) if _is_operand(other) else NotImplemented

    def __divmod__(self, other: Any) -> "tuple[Tensor, Tensor]":
        return elementwise.divmod(self, other) if _is_operand(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> "tuple[Tensor, Tensor]":
        return elementwise.divmod(other, self) if _is_operand(other) else NotImplemented
