"""`PythonNumber`: what stands for a Python number in a function that is traced or differentiated.

Its value is not known, or has a gradient; else it behaves as the number would. Beside arrays and
tensors it is weakly typed, and takes their dtype (NEP 50); beside other Python numbers, the result
stands for a Python number again. What NumPy's functions make of it has a dtype of its own, as what
they make of Python numbers: `np.sqrt(2.0)` is float64.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.functions.elementwise import comparison_operands
from numba_grad.frontend.functions.powers import power_node
from numba_grad.frontend.inputs.arrays import (
    DEFAULT_DTYPES,
    as_node,
    is_scalar,
    operands,
    register_stand_in,
    wrap,
)
from numba_grad.frontend.inputs.known_results import is_operand, is_repeated
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import cast, zeros_like

INT64, FLOAT64 = DEFAULT_DTYPES[int], DEFAULT_DTYPES[float]

Rule = Callable[[np.ufunc, Any, Any], tuple[Node, ...]]


def is_number(value: object) -> bool:
    """Whether this is a Python number, bools included, or stands for one."""
    return value.__class__ is PythonNumber or is_scalar(value)


def handle_like(value: object, node: Node) -> Tensor:
    """A tensor of `node`, which takes the place of `value`: weakly typed if that is."""
    if not is_number(value):
        return wrap(node)
    return PythonNumber(node if node.handle is None else OPS["identity"](node))


def _arithmetic(ufunc: np.ufunc, x: Any, y: Any) -> tuple[Node, ...]:
    """Numbers as operands by Python's rules: a bool is an integer."""
    return operands(ufunc, (_as_integer(as_node(x)), _as_integer(as_node(y))))


def _bitwise(ufunc: np.ufunc, x: Any, y: Any) -> tuple[Node, ...]:
    return operands(ufunc, (as_node(x), as_node(y)))


def _comparison(ufunc: np.ufunc, x: Any, y: Any) -> tuple[Node, ...]:
    return comparison_operands(ufunc, (as_node(x), as_node(y)))


def _as_integer(node: Node) -> Node:
    return cast(node, INT64) if node.dtype.kind == "b" else node


def _of_both(
    ufunc: np.ufunc,
    of_numbers: Rule = _arithmetic,
    of_arrays: Callable[..., tuple[Node, ...]] = operands,
    *,
    reflected: bool = False,
) -> Callable[["PythonNumber", Any], Any]:
    """The method for an operator: a number if both operands are, else a tensor."""
    op = OPS[ufunc.__name__]

    def operate(self: "PythonNumber", other: Any) -> Any:
        x, y = (other, self) if reflected else (self, other)
        if is_number(other):
            return PythonNumber(op(*of_numbers(ufunc, x, y)))
        if is_operand(other) and not (ufunc is np.multiply and is_repeated(other, self)):
            return wrap(op(*of_arrays(ufunc, (x, y))))
        return NotImplemented

    return operate


def _operators(ufunc: np.ufunc, rule: Rule = _arithmetic) -> tuple[Callable[..., Any], ...]:
    """`number + other`, and `other + number`."""
    return _of_both(ufunc, rule), _of_both(ufunc, rule, reflected=True)


def _comparing(ufunc: np.ufunc) -> Callable[["PythonNumber", Any], Any]:
    return _of_both(ufunc, _comparison, comparison_operands)


def _of_one(ufunc: np.ufunc) -> Callable[["PythonNumber"], "PythonNumber"]:
    op = OPS[ufunc.__name__]

    def operate(self: "PythonNumber") -> "PythonNumber":
        return PythonNumber(op(*operands(ufunc, (_as_integer(self._node),))))

    return operate


def _power(base: Any, exponent: Any) -> Any:
    if not is_number(base) or not is_number(exponent):
        if is_operand(base) and is_operand(exponent):
            return wrap(power_node(base, exponent))
        return NotImplemented
    if exponent.__class__ is PythonNumber:
        return PythonNumber(OPS["power"](*_arithmetic(np.power, base, exponent)))
    node = _as_integer(as_node(base))
    if exponent.__class__ is int and exponent < 0 and node.dtype.kind in "iu":
        node = cast(node, FLOAT64)
    return PythonNumber(power_node(node, exponent))


def _no_assignment(self: "PythonNumber", other: Any) -> Any:
    """`x += 1` gives `x` another value, and who else has the old one keeps it: Python does that if
    there is no way to do it in place."""
    return NotImplemented


# What is known of an integer at the call only


class Limit(NamedTuple):
    """Which integers an argument may be: one that is cast to int8 must fit that, and one that is
    the exponent of an integer must not be negative."""

    number: int  # of the argument
    dtype: np.dtype | None  # None for an exponent

    def check(self, operation: str, value: Any) -> None:
        """Raise what NumPy raises for such a number: OverflowError, ValueError."""
        if value.__class__ is not int:  # nor is it known here
            return
        if self.dtype is not None:
            np.array(value, self.dtype)
        elif value < 0:
            raise ValueError(
                explain(
                    operation,
                    "integers to negative integer powers are not allowed",
                    got={"exponent": value},
                    fix=f"{float(value)} as exponent, or as base a float",
                )
            )


def limits_on(arguments: Sequence[Node], nodes: Iterable[Node]) -> list[Limit]:
    """Those that the operations `nodes` put on Python integers among the arguments."""
    numbers = {node: k for k, node in enumerate(arguments) if node.dtype.kind in "iu"}
    limits: set[Limit] = set()
    for node in nodes if numbers else ():
        if node.op.name not in ("cast", "power") or node.dtype.kind not in "iu":
            continue
        is_cast = node.op.name == "cast"
        number = numbers.get(node.inputs[0 if is_cast else 1])
        if number is not None:
            limits.add(Limit(number, node.dtype if is_cast else None))
    return list(limits)


@final
class PythonNumber(Tensor):
    """A 0-d tensor that stands for a Python number."""

    __slots__ = ()

    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.divide)
    __floordiv__, __rfloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__ = _operators(np.remainder)
    __lshift__, __rlshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__ = _operators(np.right_shift)
    __and__, __rand__ = _operators(np.bitwise_and, _bitwise)
    __or__, __ror__ = _operators(np.bitwise_or, _bitwise)
    __xor__, __rxor__ = _operators(np.bitwise_xor, _bitwise)

    __lt__ = _comparing(np.less)
    __le__ = _comparing(np.less_equal)
    __gt__ = _comparing(np.greater)
    __ge__ = _comparing(np.greater_equal)
    __eq__ = _comparing(np.equal)  # type: ignore[assignment]
    __ne__ = _comparing(np.not_equal)  # type: ignore[assignment]
    __hash__ = Tensor.__hash__

    __neg__ = _of_one(np.negative)
    __pos__ = _of_one(np.positive)
    __abs__ = _of_one(np.absolute)
    __invert__ = _of_one(np.invert)

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = _no_assignment
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = __ipow__ = _no_assignment

    def __pow__(self, exponent: Any) -> Any:
        return _power(self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return _power(base, self)

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self)

    # As those of Python's numbers, nobody assigns to these.
    @property
    def real(self) -> "PythonNumber":  # pyright: ignore[reportIncompatibleMethodOverride]
        """The real part."""
        return self if self._node.dtype.kind != "c" else PythonNumber(OPS["real"](self._node))

    @property
    def imag(self) -> "PythonNumber":  # pyright: ignore[reportIncompatibleMethodOverride]
        """The imaginary part: zero for a real number."""
        node = self._node
        return PythonNumber(OPS["imag"](node) if node.dtype.kind == "c" else zeros_like(node))

    def conjugate(self) -> "PythonNumber":
        """The complex conjugate."""
        return self if self._node.dtype.kind != "c" else PythonNumber(OPS["conjugate"](self._node))

    conj = conjugate


register_stand_in(PythonNumber)
