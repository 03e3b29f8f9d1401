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
from numba_grad.ops.functions import erf, exp, log, sqrt
from numba_grad.ops.logic import equal, less, logical_or
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
    is_small = less(absolute(m), number(0.1, m))
    near = where(is_small, m, number(0, m))
    series = number(0, m)
    for coefficient in reversed(_NEAR_0):
        series = plus(series * near, coefficient)
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
