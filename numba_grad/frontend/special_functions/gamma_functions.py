"""The gamma function's relatives: beta, zeta, digamma, incomplete ones."""

import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, node_of, wrap
from numba_grad.frontend.special_functions.operands import (
    apply,
    apply_analytic,
    is_complex,
    operands,
    real_operands,
)
from numba_grad.graph.node import OPS
from numba_grad.ops.families import literal

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def gamma(x: ArrayLike, /) -> "Tensor":
    """The gamma function: (x - 1)! for integers.

    Notes
    -----
    inf or -inf at 0 by its sign, nan at negative integers. Error below 4.5 ulp for positive x; for
    negative x, which are slow, that of the C library's tgamma.
    """
    return apply_analytic("gamma", x)


def rgamma(x: ArrayLike, /) -> "Tensor":
    """1 / gamma(x), 0 where gamma has poles; the gradient is exact there, too. SciPy's, 3 eps."""
    return apply_analytic("rgamma", x)


def gammaln(x: ArrayLike, /) -> "Tensor":
    """log |gamma(x)|: inf at the poles 0, -1, -2, ...

    Notes
    -----
    Error below 4 ulp, also next to the zeros 1 and 2; for negative x, which are slow, that of the C
    library's lgamma.
    """
    return wrap(OPS["gammaln"](*real_operands("gammaln", (x,), "loggamma(x)")))


def gammasgn(x: ArrayLike, /) -> "Tensor":
    """The sign of gamma(x): 1 or -1, the sign of a zero at 0, nan at negative integers and -inf.

    The gradient is 0.
    """
    (node,) = real_operands("gammasgn", (x,))
    zero, one, two, nan = (literal(value, node.dtype) for value in (0, 1, 2, np.nan))
    floor = OPS["floor"](node)
    is_pole = OPS["equal"](floor, node)
    below = OPS["where"](is_pole, nan, two * OPS["remainder"](floor, two) - one)
    signs = OPS["where"](OPS["less"](node, zero), -below, OPS["copysign"](one, node))
    return wrap(OPS["where"](OPS["isnan"](node), nan, signs))


def multigammaln(a: ArrayLike, d: int) -> "Tensor":
    """The logarithm of the multivariate gamma function of dimension `d`, for a > (d - 1) / 2.

    nan for smaller `a`, where SciPy raises ValueError: values are not known when this is recorded.
    Error: that of `gammaln` for each of the d terms.

    Raises
    ------
    ValueError
        If `d` is not a positive integer.
    """
    dimension = operator.index(d)
    if dimension < 1:
        raise ValueError(
            explain("multigammaln", "no such dimension", got={"d": d}, expected="1, 2, ...")
        )
    (node,) = real_operands("multigammaln", (a,))
    is_inside = OPS["greater"](node, literal((dimension - 1) / 2, node.dtype))
    safe = OPS["where"](is_inside, node, literal(dimension, node.dtype))
    total = literal(dimension * (dimension - 1) / 4 * math.log(math.pi), node.dtype)
    for k in range(dimension):
        total = total + OPS["gammaln"](safe - literal(k / 2, node.dtype))
    return wrap(OPS["where"](is_inside, total, literal(np.nan, node.dtype)))


def loggamma(x: ArrayLike, /) -> "Tensor":
    """The logarithm of the gamma function, analytic but for a cut along the negative real axis.

    Complex x: SciPy's, error below 30 eps. Real x: gammaln(x), but nan for negative x.
    """
    (node,) = operands((x,))
    if node.dtype.kind == "c":
        return wrap(OPS["loggamma"](node))
    is_negative = OPS["less"](node, literal(0, node.dtype))
    safe = OPS["where"](is_negative, literal(1, node.dtype), node)
    return wrap(OPS["where"](is_negative, literal(np.nan, node.dtype), OPS["gammaln"](safe)))


def digamma(x: ArrayLike, /) -> "Tensor":
    """The derivative of log(gamma(x)); -inf at 0, nan at negative integers.

    Notes
    -----
    Error below 2.5 ulp for positive x, next to the zero at 1.46 too. For negative x it is small
    compared with pi cot(pi x), a term of the result: next to a zero the two may cancel.
    """
    return apply_analytic("digamma", x)


def polygamma(n: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The n-th derivative of digamma, for integers n >= 0.

    Raises
    ------
    ValueError
        If `n` is a number that is negative or no integer.
    GradientError
        By a differentiation by `n`.

    Notes
    -----
    Error below 2.5 ulp for n = 0 and 1, and 10 beyond. For x < -1e6 and n > 1 the result is nan.
    """
    if node_of(n) is None and np.ndim(n) == 0:
        return _polygamma_of_order(n, x)
    if is_complex(x) and not is_complex(n):
        raise DTypeError(
            explain(
                "polygamma",
                "for complex x the order must be a number",
                got={"n": as_node(n).type, "x": as_node(x).type},
                fix="[polygamma(k, x) for k in ...]",
            )
        )
    order, node = real_operands("polygamma", (n, x))
    order = OPS["polygamma_order"](order)
    zero, one, two = (literal(value, order.dtype) for value in (0, 1, 2))
    is_zero = OPS["equal"](order, zero)
    exponent = OPS["where"](is_zero, two, order + one)
    sign = two * OPS["remainder"](order, two) - one
    higher = sign * OPS["gamma"](exponent) * OPS["zeta"](exponent, node)
    return wrap(OPS["where"](is_zero, OPS["digamma"](node), higher))


def _polygamma_of_order(n: ArrayLike, x: ArrayLike) -> "Tensor":
    if n != int(n) or n < 0:
        raise ValueError(
            explain("polygamma", "no derivative of this order", got={"n": n}, expected="0, 1, ...")
        )
    n = int(n)
    (node,) = operands((x,))
    if n == 0:
        return wrap(OPS["digamma"](node))
    factor = (-1.0) ** (n + 1) * (math.factorial(n) if n <= 170 else math.inf)
    if node.dtype.kind == "c":
        values = OPS["integer_zeta"](node, exponent=n + 1)
    elif n == 1:
        return wrap(OPS["trigamma"](node))
    else:
        values = OPS["zeta"](literal(n + 1, node.dtype), node)
    return wrap(literal(factor, node.dtype) * values)


def beta(a: ArrayLike, b: ArrayLike, /) -> "Tensor":
    """gamma(a) gamma(b) / gamma(a + b).

    Error below 2 + |log(beta)| units of eps; SciPy's where an argument is negative.
    """
    return apply("beta", a, b)


def betaln(a: ArrayLike, b: ArrayLike, /) -> "Tensor":
    """log |beta(a, b)|. Error below 8 eps; SciPy's where an argument is negative."""
    return apply("betaln", a, b)


def gammainc(a: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The regularized lower incomplete gamma function P(a, x), for a >= 0 and x >= 0.

    SciPy's. Error below 10 eps. Derivatives by `a`, of any order, are integrals by quadrature, with
    errors of some 10 eps for `a` up to 200, and 200 eps at 10,000.
    """
    return apply("gammainc", a, x)


def gammaincc(a: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """1 - gammainc(a, x), accurate for large x. SciPy's; derivatives as those of `gammainc`."""
    return apply("gammaincc", a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> "Tensor":
    """The regularized incomplete beta function, for positive a and b, and x from 0 to 1.

    Notes
    -----
    SciPy's. Error below 10 eps. Derivatives by `a` and `b`, of any order, are integrals by
    quadrature. Errors of the first ones, relative to themselves also in the tails: up to 100 eps
    for `a` and `b` up to 10, 500 eps up to 100, 1,000 up to 1,000, and 3,000 up to 10,000.
    """
    return apply("betainc", a, b, x)


def zeta(x: ArrayLike, q: ArrayLike | None = None, /) -> "Tensor":
    """The sum of (k + q)**-x over k = 0, 1, ...; Riemann's zeta function without `q`.

    Notes
    -----
    With `q`: nan for x < 1, and for q < 0 unless x is an integer and q above -1e6; error below 8
    ulp. Without: SciPy's, for all real x, error below 3 eps for x > 1, and 30 eps for negative x.

    Derivatives by `x`, of any order, are sums of their own, nan for negative q: errors below 10 eps
    for x > 1, and 90 eps down to -5, relative to 1 or the derivative if that is larger; below it
    they grow with the derivative, to 200 eps at -20 and 7,000 at -100.
    """
    if q is None:
        return apply("riemann_zeta", x)
    return apply("zeta", x, q)


# SciPy's other name for it.
psi = digamma
