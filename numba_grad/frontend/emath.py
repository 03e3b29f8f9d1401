"""Public as `numba_grad.emath`: functions of real numbers whose results are complex where one is
out of range, as those of numpy.emath (numpy.lib.scimath).

Which dtype they have depends on values, so these are looked at; complex operands are not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import TracingError, explain
from numba_grad.frontend.functions import elementwise, powers, reductions
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, wrap
from numba_grad.graph.node import Node
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["arccos", "arcsin", "arctanh", "log", "log2", "log10", "logn", "power", "sqrt"]

_SMALL = (np.int8, np.uint8, np.int16, np.uint16, np.float32)  # whose complex numbers are complex64


def sqrt(x: ArrayLike) -> "Tensor":
    """Square roots; of negative numbers, imaginary ones.

    Raises
    ------
    TracingError
        For real `x` inside jit and vmap, where there is no value. So for the functions below.
    """
    return elementwise.sqrt(_complex_where("sqrt", x, _is_negative))


def log(x: ArrayLike) -> "Tensor":
    """Natural logarithms; of negative numbers with an imaginary part of pi."""
    return elementwise.log(_complex_where("log", x, _is_negative))


def log2(x: ArrayLike) -> "Tensor":
    """Logarithms to base 2, as `log`."""
    return elementwise.log2(_complex_where("log2", x, _is_negative))


def log10(x: ArrayLike) -> "Tensor":
    """Logarithms to base 10, as `log`."""
    return elementwise.log10(_complex_where("log10", x, _is_negative))


def logn(n: ArrayLike, x: ArrayLike) -> "Tensor":
    """Logarithms to base n, as `log`."""
    return log(x) / log(n)


def power(x: ArrayLike, p: ArrayLike) -> "Tensor":
    """x to the power p, complex if one of `x` is negative; floating if one of `p` is."""
    exponent = as_node(p)
    if exponent.dtype.kind == "i" and _is_any("power", exponent, _is_negative(wrap(exponent))):
        exponent = cast(exponent, np.dtype(np.float64))
    return powers.power(_complex_where("power", x, _is_negative), wrap(exponent))


def arccos(x: ArrayLike) -> "Tensor":
    """Angles with these cosines; complex if one is beyond 1."""
    return elementwise.arccos(_complex_where("arccos", x, _exceeds_one))


def arcsin(x: ArrayLike) -> "Tensor":
    """Angles with these sines; complex if one is beyond 1."""
    return elementwise.arcsin(_complex_where("arcsin", x, _exceeds_one))


def arctanh(x: ArrayLike) -> "Tensor":
    """Numbers with these hyperbolic tangents; complex if one is beyond 1."""
    return elementwise.arctanh(_complex_where("arctanh", x, _exceeds_one))


def _complex_where(name: str, x: ArrayLike, is_outside: "Callable[[Tensor], Tensor]") -> "Tensor":
    node = as_node(x)
    if node.dtype.kind != "c" and _is_any(name, node, is_outside(wrap(node))):
        node = cast(node, np.dtype(np.complex64 if node.dtype.type in _SMALL else np.complex128))
    return wrap(node)


def _is_any(name: str, x: Node, condition: "Tensor") -> bool:
    if is_traced(condition._node):
        raise TracingError(
            explain(
                f"numpy.emath.{name}",
                "whether the result is complex depends on values, which are not there while a "
                "function is being traced",
                got={"x": x.type},
                fix=f"numpy.{'log' if name == 'logn' else name}(x), which is nan out of its range; "
                f"numpy.emath.{name}(x.astype(complex)), which is complex",
            )
        )
    return bool(reductions.any(condition))


def _is_negative(x: "Tensor") -> "Tensor":
    return elementwise.less(x, 0)


def _exceeds_one(x: "Tensor") -> "Tensor":
    return elementwise.greater(elementwise.abs(x), 1)
