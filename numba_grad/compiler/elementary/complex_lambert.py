"""Lambert's W of complex numbers, on every branch. In float64 throughout.

Next to the branch point -1/e, which belongs to branch 0, from above to -1 and from below to 1, its
series; elsewhere Halley's method, five steps from a guess (Corless and others, On the Lambert W
function, 1996). Branch cuts are theirs and SciPy's.
"""

from __future__ import annotations

import math
from fractions import Fraction

from numba_grad.compiler.elementary import complex_plane as plane
from numba_grad.compiler.elementary.complex_plane import Pair
from numba_grad.compiler.elementary.lambert import E_LOW
from numba_grad.compiler.elementary.registry import COMPLEX, formula
from numba_grad.compiler.elementary.scalar import (
    Value,
    absolute,
    copy_sign,
    fma,
    narrowed,
    product,
    select,
    to_float64,
)

_STEPS = 5


def _coefficients(count: int) -> list[float]:
    """Of W in sqrt(2 (e z + 1)): equations 4.23 and 4.24 of the paper."""
    mu, alpha = [Fraction(-1), Fraction(1)], [Fraction(2), Fraction(-1)]
    for k in range(2, count):
        alpha.append(sum((mu[j] * mu[k + 1 - j] for j in range(2, k)), Fraction(0)))
        before = mu[k - 2] / 2 + alpha[k - 2] / 4
        mu.append(before * Fraction(k - 1, k + 1) - alpha[k] / 2 - mu[k - 1] / (k + 1))
    return [float(m) for m in mu]


# The rest is below 1e-18 for arguments up to 1/4: the radius of convergence is sqrt(2).
_SERIES = _coefficients(24)
_MOST = 0.25


@formula(COMPLEX, name="complex_lambertw")
def lambertw(x: Value, y: Value, branch: Value, _: Value) -> Pair:
    real, imaginary = _lambertw(to_float64(x), to_float64(y), to_float64(branch))
    return narrowed(real, x), narrowed(imaginary, x)


def _lambertw(x: Value, y: Value, branch: Value) -> Pair:
    is_principal = branch == 0
    is_above = copy_sign(x.like(1.0), y) > 0
    is_real = _is_real(x, y, branch)
    is_other = ((branch == -1.0) & is_above) | ((branch == 1.0) & ~is_above) | is_real
    p, q = _distance(x, y)
    p, q = select(is_other, -p, p), select(is_other, -q, q)
    has_branch_point = is_principal | is_other
    is_near = has_branch_point & (absolute(p) < _MOST) & (absolute(q) < _MOST)
    is_near = is_near & (fma(p, p, q * q) < _MOST * _MOST)

    across = x + math.exp(-1)
    is_guessed_near = has_branch_point & (fma(across, across, y * y) < 0.09)
    u, v = _far_guess(x, y, branch, is_real)
    near_u, near_v = _polynomial(p, q, _SERIES[:4])
    u, v = select(is_guessed_near, near_u, u), select(is_guessed_near, near_v, v)
    for _ in range(_STEPS):
        u, v = _improved(x, y, u, v)

    near_u, near_v = _polynomial(p, q, _SERIES)
    u, v = select(is_near, near_u, u), select(is_near, near_v, v)
    # At 0 the principal branch is 0, and the others infinite; at infinity all are, with an angle.
    is_zero, is_infinite = (x == 0) & (y == 0), plane.is_infinite(x, y)
    end_u = select(is_principal, x, -math.inf)
    u = select(is_zero, end_u, select(is_infinite, math.inf, u))
    _, angle = plane.log(x, y)
    v = select(is_zero, 0.0, select(is_infinite, fma(branch, 2 * math.pi, angle), v))
    is_nan = plane.is_nan(x, y)
    return select(is_nan, math.nan, u), select(is_nan, math.nan, v)


def _distance(x: Value, y: Value) -> Pair:
    """sqrt(2 (e z + 1)), accurate where it is small."""
    high, low = product(x, math.e)
    total = (high + 1.0) + fma(x, E_LOW, low)
    return plane.sqrt(total * 2.0, fma(y, math.e, y * E_LOW) * 2.0)


def _polynomial(x: Value, y: Value, coefficients: list[float]) -> Pair:
    u, v = x.like(coefficients[-1]), x.like(0.0)
    for coefficient in coefficients[-2::-1]:
        u, v = plane.multiply(u, v, x, y)
        u = u + coefficient
    return u, v


def _is_real(x: Value, y: Value, branch: Value) -> Value:
    """Whether W is the real number of branch -1. On the cut, -0.0 counts as below it: there that
    number belongs to branch 1, but to -1 as well, as for SciPy."""
    is_branch = (branch == -1.0) | ((branch == 1.0) & (copy_sign(x.like(1.0), y) < 0))
    return is_branch & (y == 0) & (x < 0) & (x > -math.exp(-1))


def _far_guess(x: Value, y: Value, branch: Value, is_real: Value) -> Pair:
    """Away from the branch point: Winitzki's (2003) for the principal branch, right of the origin
    and next to it; else L - log(L) + log(L)/L with the logarithm L of that branch."""
    is_right = (branch == 0) & (x > -0.1 - absolute(y))
    a, b = plane.log1p(select(is_right, x, 1.0), select(is_right, y, 0.0))
    c, d = plane.log1p(a, b)
    c, d = plane.divide(c, d, a + 2.0, b)
    right = plane.multiply(a, b, 1.0 - c, -d)

    # Where W is real the logarithms are those of -z and -L.
    is_left = is_right | ((x == 0) & (y == 0))
    a, b = plane.log(select(is_left, 1.5, select(is_real, -x, x)), select(is_left, 0.0, y))
    b = select(is_real, 0.0, fma(branch, 2 * math.pi, b))
    sign = select(is_real, x.like(-1.0), 1.0)
    c, d = plane.log(a * sign, b * sign)
    e, f = plane.divide(c, d, a, b)
    left = (a - c) + e, (b - d) + f
    return select(is_right, right[0], left[0]), select(is_right, right[1], left[1])


def _improved(x: Value, y: Value, u: Value, v: Value) -> Pair:
    """One step of Halley's for w exp(w) = z, divided by exp(w) where that is large."""
    is_right = u >= 0
    sign = select(is_right, u.like(-1.0), 1.0)
    a, b = plane.exp(u * sign, v * sign)
    c, d = plane.multiply(select(is_right, x, u), select(is_right, y, v), a, b)
    # f = w - z exp(-w), or w exp(w) - z
    f = select(is_right, u - c, c - x), select(is_right, v - d, d - y)
    slope = plane.multiply(u + 1.0, v, select(is_right, 1.0, a), select(is_right, 0.0, b))
    ratio = plane.divide(u + 2.0, v, (u + 1.0) * 2.0, v * 2.0)
    bend = plane.multiply(*ratio, *f)
    step = plane.divide(*f, slope[0] - bend[0], slope[1] - bend[1])
    return u - step[0], v - step[1]
