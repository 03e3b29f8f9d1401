"""The operators of tensors: arithmetic, comparisons, bits, assignments such as `x += y`."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.autograd.tensor_class import new_tensor, recorded_tensor
from numba_grad.dtypes import can_cast
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions import contractions, elementwise
from numba_grad.frontend.functions.powers import power_node
from numba_grad.frontend.inputs.arrays import value_of
from numba_grad.frontend.inputs.known_results import (
    Known,
    Operator,
    is_operand,
    on_tensor,
    on_the_right,
    recorded_with,
)
from numba_grad.graph.node import (
    NO_PARAMS,
    OPS,
    Inferred,
    Node,
    Op,
    inferred_of,
    recorded,
)
from numba_grad.ops.families import cast

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

# Of `x**number`, where that is one operation on `x` alone.
_powers: dict[Any, tuple[Op, dict[str, Any], Inferred]] = {}
_MOST_POWERS = 1 << 10


def _power(x: Node, exponent: float) -> Node:
    """`x**exponent`, from now on in `_powers`."""
    node = power_node(x, exponent)
    if exponent and node.inputs == (x,):
        if len(_powers) >= _MOST_POWERS:
            _powers.clear()
        inferred = inferred_of(node.op, [x.type], node.params)
        _powers[x.type, exponent.__class__, exponent] = node.op, node.params, inferred
    return node


def _binary(ufunc: np.ufunc) -> Operator:
    """The method for an operator: `x + other`."""
    if ufunc in elementwise.COMPARISONS:
        return on_tensor(ufunc, elementwise.comparison_operands)
    return on_tensor(ufunc)


def _in_place(ufunc: np.ufunc) -> Operator:
    """The method for an assignment: `x += other`."""
    op = OPS[ufunc.__name__]
    known: Known = {}

    def result(tensor: "Tensor", other: Any) -> Node:
        if other.__class__ is tensor.__class__:  # as in `on_tensor`
            x, y = tensor._node, other._node
            found = known.get(x.type if y.type is x.type else (x.type, y.type))
            if found is not None:
                return recorded(op, (x, y), NO_PARAMS, found)
        return recorded_with(ufunc, known, (tensor, other))

    return _assigning(ufunc.__name__, result)


def _assigning(name: str, result: Callable[["Tensor", Any], Node]) -> Operator:
    """The method that gives the tensor the value of `result`: the handle moves on to a new node,
    and so do those of what shows the same elements. Of a number it makes another, as in NumPy."""

    def operate(self: "Tensor", other: Any) -> "Tensor":
        if other.__class__ is not self.__class__ and not is_operand(other):
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
            return new_tensor(recorded_with(ufunc, known, (self,)))
        return recorded_tensor(op, (x,), x.requires_grad, NO_PARAMS, found)

    return operate


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


def _sparse_products(value: object) -> Any:
    """The module of products with sparse matrices, if `value` is one of SciPy's; else None. Neither
    is imported before there is one."""
    sparse = sys.modules.get("scipy.sparse")
    if sparse is None or not sparse.issparse(value):
        return None
    return imported("numba_grad.frontend.tensors.sparse_products")


def _times_matrix(tensor: "Tensor", other: Any) -> Any:
    products = _sparse_products(other)
    return products.times_in_place_of_multiply(other, tensor) if products else NotImplemented


class Operators:
    """Abstract: the part of Tensor that makes `x + y` an operation on nodes.

    An operand that is neither array nor number gets its say by `NotImplemented`.
    """

    __slots__ = ()

    _node: Node

    # NumPy's scalars and arrays leave operators to us through __array_ufunc__, and pandas' objects
    # by this: that of a DataFrame is 4,000.
    __pandas_priority__ = 10_000

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

    __radd__ = on_the_right(np.add)
    __rsub__ = on_the_right(np.subtract)
    __rmul__ = on_the_right(np.multiply, _times_matrix)
    __rtruediv__ = on_the_right(np.divide)
    __rfloordiv__ = on_the_right(np.floor_divide)
    __rmod__ = on_the_right(np.remainder)
    __rand__ = on_the_right(np.bitwise_and)
    __ror__ = on_the_right(np.bitwise_or)
    __rxor__ = on_the_right(np.bitwise_xor)
    __rlshift__ = on_the_right(np.left_shift)
    __rrshift__ = on_the_right(np.right_shift)

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
    __ipow__ = _assigning("power", power_node)
    __imatmul__ = _assigning("matmul", lambda x, y: contractions.matmul(x, y)._node)

    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)

    def __hash__(self) -> int:
        # Equality is element by element, so tensors are told apart by identity, as in torch; but
        # what NumPy has scalars for is a key by its value, as these are.
        if self._node.type.shape or not views.is_number(self):
            return object.__hash__(self)
        return hash(value_of(self._node, "hash").item())

    def __pow__(self, exponent: Any) -> "Tensor":
        kind, x = exponent.__class__, self._node
        if kind is int or kind is float:
            found = _powers.get((x.type, kind, exponent))
            if found is None:
                return new_tensor(_power(x, exponent))
            op, params, inferred = found
            return recorded_tensor(op, (x,), x.requires_grad, params, inferred)
        if not is_operand(exponent):
            return NotImplemented
        return new_tensor(power_node(self, exponent))

    def __rpow__(self, base: Any) -> "Tensor":
        if not is_operand(base):
            return NotImplemented
        return new_tensor(power_node(base, self))

    def __matmul__(self, other: Any) -> "Tensor":
        if is_operand(other):
            return contractions.matmul(self, other)
        products = _sparse_products(other)
        return products.times_on_the_right(self, other) if products else NotImplemented

    def __rmatmul__(self, other: Any) -> "Tensor":
        if is_operand(other):
            return contractions.matmul(other, self)
        products = _sparse_products(other)
        return products.times(other, self) if products else NotImplemented

    def __divmod__(self, other: Any) -> "tuple[Tensor, Tensor]":
        return elementwise.divmod(self, other) if is_operand(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> "tuple[Tensor, Tensor]":
        return elementwise.divmod(other, self) if is_operand(other) else NotImplemented
