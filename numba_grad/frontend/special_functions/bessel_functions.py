"""Bessel functions, all of them SciPy's."""

import operator
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.inputs.arrays import ArrayLike, wrap
from numba_grad.frontend.special_functions.operands import (
    apply,
    operands_with_real_parameters,
    real_operands,
)
from numba_grad.graph.node import OPS
from numba_grad.ops.families import literal

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def j0(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the first kind of order 0. Error below 6 eps."""
    return wrap(OPS["j0"](*real_operands("j0", (x,), "jv(0, x)")))


def j1(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the first kind of order 1. Error below 6 eps."""
    return wrap(OPS["j1"](*real_operands("j1", (x,), "jv(1, x)")))


def y0(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of order 0; nan for x < 0. Error below 8 eps."""
    return apply("y0", x)


def y1(x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of order 1; nan for x < 0. Error below 8 eps."""
    return apply("y1", x)


def yn(n: int, x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of integer order; -inf at 0, nan for x < 0.

    Raises
    ------
    TypeError
        If `n` is not one integer.

    Notes
    -----
    From those of order 0 and 1 by recurrence, as SciPy's, so that large orders take long. Error
    below 20 eps for n up to 10, next to zeros relative to 1.
    """
    try:
        order = operator.index(n)
    except TypeError:
        got: dict[str, object] = {"n": n}
        raise TypeError(
            explain("yn", "the order is one integer", got=got, fix="yv, for orders that are floats")
        ) from None
    (node,) = real_operands("yn", (x,))
    first = OPS["y0"](node)
    if order == 0:
        return wrap(first)
    sign = -1 if order < 0 and order % 2 else 1
    is_zero = OPS["equal"](node, literal(0, node.dtype))
    inverse = literal(2, node.dtype) / OPS["where"](is_zero, literal(1, node.dtype), node)
    before, result = first, OPS["y1"](node)
    for k in range(1, abs(order)):
        before, result = result, literal(k, node.dtype) * inverse * result - before
    # Where it overflows, two infinities meet in the next step.
    is_positive = OPS["greater"](node, literal(0, node.dtype))
    has_overflown = OPS["logical_and"](OPS["isnan"](result), is_positive)
    result = OPS["where"](has_overflown, literal(-np.inf, node.dtype), result)
    return wrap(literal(sign, node.dtype) * OPS["where"](is_zero, first, result))


def jv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the first kind of any real order v; for v no integer, of x >= 0.

    Raises
    ------
    GradientError
        By a differentiation by `v`.

    Notes
    -----
    Error below 5 eps for v up to 10 and x up to 40; it grows with both.
    """
    return wrap(OPS["jv"](*operands_with_real_parameters("jv", v, x)))


def iv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of any real order v; for v no integer, of x >= 0. SciPy's.

    Raises
    ------
    GradientError
        By a differentiation by `v`.

    Notes
    -----
    Error below 10 eps for v up to 10 and x up to 40, of complex `x` there is none.
    """
    return apply("iv", v, x)


def ive(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """exp(-|x|) iv(v, x), without overflow."""
    return apply("ive", v, x)


def i0(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of order 0. Error below 4 ulp."""
    return apply("i0", x)


def i1(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of order 1. Error below 12 ulp."""
    return apply("i1", x)


def i0e(x: ArrayLike, /) -> "Tensor":
    """exp(-|x|) i0(x), without overflow. Error below 4 ulp."""
    return apply("i0e", x)


def i1e(x: ArrayLike, /) -> "Tensor":
    """exp(-|x|) i1(x), without overflow. Error below 6 ulp."""
    return apply("i1e", x)


def k0(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of the second kind of order 0; inf at 0, nan for x < 0.

    Error below 6 ulp.
    """
    return apply("k0", x)


def k1(x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of the second kind of order 1; inf at 0, nan for x < 0.

    Error below 6 ulp.
    """
    return apply("k1", x)


def k0e(x: ArrayLike, /) -> "Tensor":
    """exp(x) k0(x), without underflow. Error below 6 ulp."""
    return apply("k0e", x)


def k1e(x: ArrayLike, /) -> "Tensor":
    """exp(x) k1(x), without underflow. Error below 6 ulp."""
    return apply("k1e", x)


def kv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The modified Bessel function of the second kind of any real order v; inf at 0, nan for x < 0.

    Notes
    -----
    SciPy's. Error below 1,000 ulp for v up to 10 and x up to 40, and mostly 10: for v below 1 it is
    largest, next to x = 2. Derivatives by `v`, of any order, and those of `kve` are integrals of
    their own, with errors below 20 eps for x above 0.1 there; nan for x below 1e-300.
    """
    return apply("kv", v, x)


def kve(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """exp(x) kv(v, x), without underflow; nan for x above 1e9. SciPy's; derivatives as `kv`'s."""
    return apply("kve", v, x)


def yv(v: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The Bessel function of the second kind of any real order v; nan for x < 0. SciPy's.

    Raises
    ------
    GradientError
        By a differentiation by `v`.

    Notes
    -----
    Error below 20 eps for v from 0 to 10 and x up to 40, relative to 1 or to the result.
    """
    return apply("yv", v, x)


# SciPy's other names for the same functions.
jn = jv
kn = kv
