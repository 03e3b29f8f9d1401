"""Special functions that are formulas of other operations, or have such derivatives.

Sources: the arithmetic-geometric mean for elliptic integrals (DLMF 19.8, 19.4); Faddeeva's function
w(z) = erfcx(-i z) and its relatives (DLMF 7.2, 7.19).
"""

import math

from numba_grad.graph.node import Node
from numba_grad.ops.elementwise import (
    absolute,
    imag,
    is_zero,
    make_complex,
    one_minus,
    plus,
    real,
    scaled,
    square,
    where,
    zero_where,
)
from numba_grad.ops.families import elementwise
from numba_grad.ops.functions import erf, exp, expm1, hypot, log, log1p, sqrt
from numba_grad.ops.logic import equal, less, less_equal, logical_and, logical_or
from numba_grad.ops.special import DTYPES, ROOT_2_PI, ROOT_PI, erfcx, number, one_where

# From 1 and 1e-154, the square root of the smallest number, to each other.
_STEPS = 13


def elliptic_k(complement: Node) -> Node:
    """The complete integral of the first kind, by 1 - m; NaN where that is negative."""
    is_infinite = equal(complement, number(math.inf, complement))
    at_end = is_zero(complement)
    p = one_where(logical_or(at_end, is_infinite), complement)
    a, b = number(1, p), sqrt(p)
    for _ in range(_STEPS):
        a, b = scaled(a + b, 0.5), sqrt(a * b)
    # At the end, what has the same limit and slope.
    edge = where(at_end, complement, number(1, p))
    return zero_where(is_infinite, where(at_end, -log(edge), number(math.pi / 2, p) / a))


# Of (K - E) / m next to 0, in powers of m.
_NEAR_0 = [math.pi / 4]
for _k in range(17):
    _NEAR_0.append(_NEAR_0[-1] * (_k + 0.5) * (_k + 1.5) / ((_k + 2) * (_k + 1)))


def _ellipe_slope(m: Node) -> Node:
    is_small, series = _series(m, 0.1, _NEAR_0)
    far = where(is_small, number(0.5, m), m)
    return scaled(where(is_small, series, (elliptic_k(one_minus(far)) - ellipe(far)) / far), -0.5)


ellipe = elementwise(
    "ellipe",
    vjp=(lambda g, out, m: g * _ellipe_slope(m),),
    dtypes=DTYPES,
    samples=((-2, 0.9),),
    cost=200,
    input_names=("m",),
)


def faddeeva(x: Node, y: Node) -> Node:
    """exp(-z**2) erfc(-i z) of z = x + i y, given in real numbers."""
    return erfcx(make_complex(y, -x))


def erfi(z: Node) -> Node:
    if z.dtype.kind != "c":
        return imag(erf(make_complex(number(0, z), z)))
    turned = erf(make_complex(-imag(z), real(z)))
    return make_complex(imag(turned), -real(turned))


def dawson(z: Node) -> Node:
    """sqrt(pi)/2 exp(-z**2) erfi(z)."""
    if z.dtype.kind != "c":
        return scaled(imag(faddeeva(z, number(0, z))), ROOT_PI / 2)
    difference = exp(-square(z)) - faddeeva(real(z), imag(z))
    return scaled(make_complex(-imag(difference), real(difference)), ROOT_PI / 2)


def voigt(x: Node, sigma: Node, gamma: Node) -> Node:
    """The real part of w((x + i gamma) / (sigma sqrt(2))), over sigma sqrt(2 pi); for sigma = 0
    Lorentz's profile."""
    is_lorentz = is_zero(sigma)
    safe = one_where(is_lorentz, sigma)
    width = scaled(safe, math.sqrt(2))
    profile = real(faddeeva(x / width, gamma / width)) / scaled(safe, ROOT_2_PI)
    lorentz_gamma = where(is_lorentz, gamma, number(1, x))
    distance = square(x) + square(lorentz_gamma)
    is_peak = is_zero(distance)  # of no width at all
    lorentz = scaled(lorentz_gamma / one_where(is_peak, distance), 1 / math.pi)
    lorentz = where(is_peak, number(math.inf, x), lorentz)
    return where(is_lorentz, lorentz, profile)


def _series(x: Node, limit: float, coefficients: list[float]) -> tuple[Node, Node]:
    """Where |x| is below `limit`, and there the sum of powers: with all derivatives at 0."""
    is_small = less(absolute(x), number(limit, x))
    near = where(is_small, x, number(0, x))
    total = number(0, x)
    for coefficient in reversed(coefficients):
        total = plus(total * near, coefficient)
    return is_small, total


_EXPREL = [1 / math.factorial(k + 1) for k in range(15)]
_LOG1P = [(-1) ** k / (k + 1) for k in range(17)]


def exprel(x: Node) -> Node:
    """expm1(x) / x."""
    is_small, series = _series(x, 0.5, _EXPREL)
    is_infinite = equal(x, number(math.inf, x))
    safe = one_where(logical_or(is_small, is_infinite), x)
    return where(is_small, series, where(is_infinite, x, expm1(safe) / safe))


def _product(lmbda: Node, y: Node) -> Node:
    """0 for lmbda = 0, of infinite numbers too."""
    is_undefined = logical_and(is_zero(lmbda), equal(absolute(y), number(math.inf, y)))
    return lmbda * one_where(is_undefined, y)


def boxcox(x: Node, lmbda: Node) -> Node:
    """(x**lmbda - 1) / lmbda, and its limit log(x) next to lmbda = 0."""
    logarithm = log(x)
    exponent = _product(lmbda, logarithm)
    is_small, series = _series(exponent, 0.5, _EXPREL)
    far = expm1(exponent) / one_where(is_small, lmbda)
    return where(is_small, where(is_small, logarithm, number(1, x)) * series, far)


def inv_boxcox(y: Node, lmbda: Node) -> Node:
    """(lmbda y + 1)**(1 / lmbda), and its limit exp(y) next to lmbda = 0."""
    product = _product(lmbda, y)
    is_small, series = _series(product, 0.1, _LOG1P)
    safe = where(is_small, number(1, y), product)
    return exp(where(is_small, y * series, log1p(safe) / one_where(is_small, lmbda)))


def huber(delta: Node, r: Node) -> Node:
    size = absolute(r)
    value = where(
        less_equal(size, delta),
        scaled(square(r), 0.5),
        delta * (size - scaled(delta, 0.5)),
    )
    return where(less(delta, number(0, delta)), number(math.inf, r), value)


def pseudo_huber(delta: Node, r: Node) -> Node:
    """delta**2 (sqrt(1 + (r / delta)**2) - 1), without that difference."""
    at_zero, size = is_zero(delta), absolute(r)
    is_infinite = equal(size, number(math.inf, r))
    finite = one_where(is_infinite, r)
    ratio = finite / one_where(at_zero, delta)
    value = finite * (finite / plus(hypot(number(1, r), ratio), 1))
    value = zero_where(at_zero, where(is_infinite, size, value))
    return where(less(delta, number(0, delta)), number(math.inf, r), value)


# Of a polynomial's recurrence: of degree k + 1 from x, k, and those of degree k and k - 1.
_RECURRENCES = {
    "eval_legendre": lambda x, k, p, q: scaled(
        scaled(x * p, 2 * k + 1) - scaled(q, k), 1 / (k + 1)
    ),
    "eval_chebyt": lambda x, k, p, q: scaled(x * p, 2) - q,
    "eval_hermite": lambda x, k, p, q: scaled(x * p - scaled(q, k), 2),
    "eval_laguerre": lambda x, k, p, q: scaled(plus(-x, 2 * k + 1) * p - scaled(q, k), 1 / (k + 1)),
}
_FIRST = {"eval_hermite": lambda x: scaled(x, 2), "eval_laguerre": one_minus}


def orthogonal_polynomial(name: str, degree: int, x: Node) -> Node:
    before, result = where(equal(x, x), number(1, x), x), _FIRST.get(name, lambda x: x)(x)
    if degree == 0:
        return before
    for k in range(1, degree):
        before, result = result, _RECURRENCES[name](x, k, result, before)
    return result
