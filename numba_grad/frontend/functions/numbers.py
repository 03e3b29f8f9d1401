"""Functions of single numbers as such: the parts and neighbours of floating-point numbers, divisors
and bits of integers, and of which kind a number is."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import FLOAT32, finfo, is_floating, is_storage_only
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.functions.elementwise import imag, trunc, zeros_of_same_dtype
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    operands,
    scalar_leaf,
    value_of,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import cast, full

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "bitwise_count",
    "fix",
    "frexp",
    "gcd",
    "iscomplex",
    "iscomplexobj",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "lcm",
    "ldexp",
    "modf",
    "nextafter",
    "real_if_close",
    "spacing",
]


# Parts and neighbours


def frexp(x: ArrayLike, /) -> "tuple[Tensor, Tensor]":
    """(m, k) with x = m * 2**k, where m is from 1/2 to 1 and k an integer.

    For 0, infinities and nan (x, 0). The gradient is that of m, with k a constant.
    """
    (node,) = operands(np.frexp, (x,))
    exponent = OPS["frexp_exponent"](node)
    return wrap(OPS["ldexp"](node, cast(-exponent, node.dtype))), wrap(exponent)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """x1 * 2**x2 for integers x2, rounded once, also where 2**x2 itself would overflow."""
    x, exponent = operands(np.ldexp, (x1, x2))
    return wrap(OPS["ldexp"](x, cast(exponent, x.dtype)))


def modf(x: ArrayLike, /) -> "tuple[Tensor, Tensor]":
    """(x - trunc(x), trunc(x)), both with the sign of x; infinities have no fraction.

    The gradient of the fraction is 1, that of the whole number 0.
    """
    (node,) = operands(np.modf, (x,))
    no_fraction = OPS["copysign"](zeros_of_same_dtype(node), node)
    fraction = OPS["fmod"](node, full(1, (), node.dtype))
    fraction = OPS["where"](OPS["isinf"](node), OPS["detach"](no_fraction), fraction)
    return wrap(fraction), wrap(OPS["trunc"](node))


def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The floating-point number next to x1 on the side of x2; x2 if they are equal.

    The gradient by x1 is 1, by x2 0.
    """
    x, y = operands(np.nextafter, (x1, x2))
    return wrap(_next_half(x, y) if is_storage_only(x.dtype) else OPS["nextafter"](x, y))


def _next_half(x: Node, y: Node) -> Node:
    """`nextafter` in half precision, which kernels compute in float32: there the sum of a number
    and a step of theirs is exact."""
    dtype, limits = x.dtype, finfo(x.dtype)
    digits, least = float(limits.nmant + 1), float(limits.minexp + 1)
    x, y = cast(x, FLOAT32), cast(y, FLOAT32)
    zero = zeros_of_same_dtype(x)
    # Numbers of so many digits from 2**(k - 1) to 2**k, and below the normal ones as many numbers
    # as in the least power of 2 of those.
    k = OPS["maximum"](cast(OPS["frexp_exponent"](x), FLOAT32), scalar_leaf(least, FLOAT32))
    is_up = OPS["less"](x, y)
    is_outward = OPS["logical_xor"](is_up, OPS["less"](x, zero))
    is_least = OPS["equal"](OPS["absolute"](x), OPS["ldexp"](scalar_leaf(0.5, FLOAT32), k))
    is_normal = OPS["greater"](k, scalar_leaf(least, FLOAT32))
    is_halved = OPS["logical_and"](
        OPS["logical_and"](is_least, is_normal), OPS["logical_not"](is_outward)
    )
    places = [scalar_leaf(p, FLOAT32) for p in (digits + 1, digits)]
    places = OPS["where"](is_halved, *places)
    size = OPS["ldexp"](full(1, (), FLOAT32), k - places)
    size = OPS["where"](OPS["equal"](x, zero), scalar_leaf(2.0 ** (least - digits), FLOAT32), size)
    step = OPS["detach"](OPS["where"](is_up, size, -size))
    largest = OPS["copysign"](scalar_leaf(float(limits.max), FLOAT32), x)
    moved = OPS["where"](OPS["isinf"](x), OPS["detach"](largest), x + step)
    # The zero after the least number has its sign; of equal numbers it is y, also that of a zero.
    is_zero = OPS["logical_and"](OPS["equal"](moved, zero), OPS["not_equal"](x, zero))
    moved = OPS["where"](is_zero, OPS["detach"](OPS["copysign"](zero, x)), moved)
    result = OPS["where"](OPS["equal"](x, y), OPS["nextafter"](x, y), moved)
    return cast(OPS["where"](OPS["isnan"](y), OPS["detach"](y), result), dtype)


def spacing(x: ArrayLike, /) -> "Tensor":
    """The distance to the next number away from 0, with the sign of x; in half precision, as in
    NumPy's, to the next larger number. Gradient 0."""
    (node,) = operands(np.spacing, (x,))
    dtype = node.dtype
    if is_storage_only(dtype):
        larger = cast(_next_half(node, full(np.inf, (), dtype)), FLOAT32)
        distance = cast(OPS["detach"](larger - cast(node, FLOAT32)), dtype)
        return wrap(OPS["where"](OPS["isinf"](node), full(np.nan, (), dtype), distance))
    limits = [full(sign * np.inf, (), node.dtype) for sign in (-1, 1)]
    away = OPS["where"](OPS["less"](node, zeros_of_same_dtype(node)), *limits)
    return wrap(OPS["nextafter"](node, away) - node)


def fix(x: ArrayLike, /) -> "Tensor":
    """`trunc` by NumPy's other name: x without its fraction. Gradient 0."""
    return trunc(x)


# Integers


def gcd(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The greatest common divisor of |x1| and |x2|; gcd(x, 0) = |x|."""
    return wrap(OPS["gcd"](*operands(np.gcd, (x1, x2))))


def lcm(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The least common multiple of |x1| and |x2|; 0 if one of them is 0."""
    return wrap(OPS["lcm"](*operands(np.lcm, (x1, x2))))


def bitwise_count(x: ArrayLike, /) -> "Tensor":
    """How many bits of |x| are 1: a uint8."""
    return wrap(OPS["bitwise_count"](*operands(np.bitwise_count, (x,))))


of_ufunc: dict[np.ufunc, Callable[..., Any]] = {
    np.frexp: frexp,
    np.ldexp: ldexp,
    np.modf: modf,
    np.nextafter: nextafter,
    np.spacing: spacing,
    np.gcd: gcd,
    np.lcm: lcm,
    np.bitwise_count: bitwise_count,
}


# Kinds of numbers


def isposinf(x: ArrayLike, /) -> "Tensor":
    """Whether x is inf; not for complex numbers."""
    return wrap(OPS["equal"](*_with_infinity("isposinf", x, np.inf)))


def isneginf(x: ArrayLike, /) -> "Tensor":
    """Whether x is -inf; not for complex numbers."""
    return wrap(OPS["equal"](*_with_infinity("isneginf", x, -np.inf)))


def _with_infinity(operation: str, x: ArrayLike, infinity: float) -> tuple[Node, Node]:
    node = as_node(x)
    if node.dtype.kind == "c":
        problem = "of complex numbers this would be ambiguous"
        fix = f"{operation}(x.real), {operation}(x.imag)"
        raise DTypeError(explain(operation, problem, got={"x": node.type}, fix=fix))
    if not is_floating(node.dtype):
        node = cast(node, np.dtype(np.float64))
    return node, full(infinity, (), node.dtype)


def isreal(x: ArrayLike, /) -> "Tensor":
    """Whether the imaginary part is 0, element by element."""
    part = imag(x)._node
    return wrap(OPS["equal"](part, zeros_of_same_dtype(part)))


def iscomplex(x: ArrayLike, /) -> "Tensor":
    """Whether the imaginary part is not 0, element by element."""
    part = imag(x)._node
    return wrap(OPS["not_equal"](part, zeros_of_same_dtype(part)))


def isrealobj(x: ArrayLike, /) -> bool:
    """Whether the dtype is real."""
    return as_node(x).dtype.kind != "c"


def iscomplexobj(x: ArrayLike, /) -> bool:
    """Whether the dtype is complex."""
    return as_node(x).dtype.kind == "c"


def real_if_close(a: ArrayLike, tol: float = 100) -> "Tensor":
    """`a`, or its real part if all imaginary parts are nearly 0.

    Parameters
    ----------
    a : Tensor, any shape; if complex, its value is needed now
    tol : float
        What imaginary parts are less than, as a multiple of the machine precision; up to 1, as
        such.

    Raises
    ------
    TracingError
        For complex `a` inside jit and vmap, where there is no value.
    """
    node = as_node(a)
    if node.dtype.kind != "c":
        return wrap(node)
    limit = tol * finfo(node.dtype).eps if tol > 1 else tol
    is_close = (np.abs(np.imag(value_of(node, "real_if_close"))) < limit).all()
    return wrap(OPS["real"](node) if is_close else node)
