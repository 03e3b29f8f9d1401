"""`numpy.emath`: functions of real numbers whose results are complex where one is out of range.

Which dtype they have depends on values, so these are looked at; complex operands are not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.errors import TracingError, explain
from numba_grad.frontend.functions import elementwise, powers, reductions
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, wrap
from numba_grad.graph.node import Node
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__: list[str] = []

_SMALL = (np.int8, np.uint8, np.int16, np.uint16, np.float32)  # whose complex numbers are complex64


def _is_any(name: str, x: Node, condition: "Tensor") -> bool:
    if is_traced(condition._node):
        raise TracingError(
            explain(
                name,
                "whether the result is complex depends on values, which are not there while a "
                "function is being traced",
                got={"x": x.type},
                fix=f"{name.replace('.emath', '')}(x), which is nan out of its range; "
                f"{name}(x.astype(complex)), which is complex",
            )
        )
    return bool(reductions.any(condition))


def _complex_where(name: str, x: ArrayLike, is_outside: "Callable[[Tensor], Tensor]") -> "Tensor":
    node = as_node(x)
    if node.dtype.kind != "c" and _is_any(name, node, is_outside(wrap(node))):
        node = cast(node, np.dtype(np.complex64 if node.dtype.type in _SMALL else np.complex128))
    return wrap(node)


def _is_negative(x: "Tensor") -> "Tensor":
    return elementwise.less(x, 0)


def _exceeds_one(x: "Tensor") -> "Tensor":
    return elementwise.greater(elementwise.abs(x), 1)


def _of_one(
    function: Callable[[Any], "Tensor"], is_outside: "Callable[[Tensor], Tensor]"
) -> Callable[[ArrayLike], "Tensor"]:
    name = f"numpy.emath.{function.__name__}"
    return lambda x: function(_complex_where(name, x, is_outside))


def _logn(n: ArrayLike, x: ArrayLike) -> "Tensor":
    return _log(x) / _log(n)


def _power(x: ArrayLike, p: ArrayLike) -> "Tensor":
    exponent = as_node(p)
    if exponent.dtype.kind in "iu" and _is_any("numpy.emath.power", exponent, wrap(exponent) < 0):
        exponent = cast(exponent, np.dtype(np.float64))
    return powers.power(_complex_where("numpy.emath.power", x, _is_negative), wrap(exponent))


_log = _of_one(elementwise.log, _is_negative)

of_function: dict[Callable[..., Any], Callable[..., Any]] = {
    np.emath.sqrt: _of_one(elementwise.sqrt, _is_negative),
    np.emath.log: _log,
    np.emath.log2: _of_one(elementwise.log2, _is_negative),
    np.emath.log10: _of_one(elementwise.log10, _is_negative),
    np.emath.logn: _logn,
    np.emath.power: _power,
    np.emath.arccos: _of_one(elementwise.arccos, _exceeds_one),
    np.emath.arcsin: _of_one(elementwise.arcsin, _exceeds_one),
    np.emath.arctanh: _of_one(elementwise.arctanh, _exceeds_one),
}
