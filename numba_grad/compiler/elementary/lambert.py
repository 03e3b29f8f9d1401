"""Lambert's W, the inverse of w exp(w), on its two real branches.

Coefficients: perf/math_coefficients.py. In float64 throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numba_grad.compiler.elementary.logarithm import log, log1p
from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    Value,
    absolute,
    fma,
    polynomial,
    polynomial_in_one_chain,
    product,
    select,
    square_root,
    to_float32,
    to_float64,
)

# (W + 1) / p with p = sqrt(2 (e x + 1)), negative for branch -1, for |p| <= 1/2
_NEAR = (
    1.0,
    -0.33333333333333337,
    0.15277777777777388,
    -0.07962962962960898,
    0.04450231481543358,
    -0.025984714875578376,
    0.01563563249404481,
    -0.00961689193672972,
    0.006014544465689835,
    -0.0038113001988335092,
    0.0024408556469332062,
    -0.0015768976310353239,
    0.0010265188850607356,
    -0.000672379023361828,
    0.00044060841719674524,
    -0.00029066631610306194,
    0.00020302564991643237,
    -0.00013780270453840978,
    6.237140500665857e-05,
    -3.7438189891400614e-05,
    7.541662863215448e-05,
    -5.417846172069973e-05,
)
# W / x in p, for 0.48 <= p <= 2.2
_GUESS = (
    2.682798865402051,
    -2.4799355111529424,
    1.5915039267584918,
    -0.688201677306425,
    0.1738577639378196,
    -0.01900146142621794,
)
E_LOW = float.fromhex("0x1.4d57ee2b1013ap-53")  # e - float(e)


@formula(FLOATING)
def lambertw(x: Value) -> Value:
    """W >= -1; NaN for x < -1/e."""
    return _in_double(_principal, x)


@formula(FLOATING)
def lambertw_below(x: Value) -> Value:
    """W <= -1, for -1/e <= x < 0; -inf at 0, else NaN."""
    return _in_double(_lower, x)


def _in_double(formula: Callable[[Value], Value], x: Value) -> Value:
    if x.kind == FLOAT32:
        return to_float32(formula(to_float64(x)))
    return formula(x)


def _distance(x: Value) -> tuple[Value, Value]:
    """e x + 1, accurate where it is small, and sqrt(2 (e x + 1))."""
    high, low = product(x, math.e)
    total = (high + 1.0) + fma(x, E_LOW, low)
    # The number next to -1/e may be below it by less than a unit in its last place.
    total = select((total < 0) & (total > -1e-16), 0.0, total)
    return total, square_root(select(total > 0, total, 0.0) * 2.0)


def _improved(w: Value, z: Value) -> Value:
    """One step of fourth order, from z = log(x/w) - w (Fritsch, Shafer and Crowley 1973)."""
    one = w + 1.0
    q = one * 2.0 * (one + z * (2 / 3))
    return fma(w, z / one * ((q - z) / (q - z * 2.0)), w)


def _principal(x: Value) -> Value:
    above, p = _distance(select(x < 1.0, x, 1.0))
    near = fma(p, polynomial_in_one_chain(p, _NEAR), -1.0)
    safe = select((p > 0.5) & (x < math.inf), x, 1.0)
    safe = select(safe == 0, 1.0, safe)
    # Winitzki's (2003), for larger x.
    logarithm = log1p(select(safe >= 0.5, safe, 1.0))
    large = logarithm * (1.0 - log1p(logarithm) / (logarithm + 2.0))
    guess = select(safe < 0.5, safe * polynomial(p, _GUESS), large)
    for _ in range(2):
        guess = _improved(guess, log(safe / guess) - guess)
    result = select(p > 0.5, select((x == 0) | (x == math.inf), x, guess), near)
    result = select((above < 0) | (x < -1.0), math.nan, result)
    return select(x == x, result, x)


def _lower(x: Value) -> Value:
    above, p = _distance(x)
    near = fma(-p, polynomial_in_one_chain(-p, _NEAR), -1.0)
    safe = select((x < 0) & (p > 0.5), -x, 0.1)
    logarithm = log(safe)
    # Barry, Parlange, Li and others (2000): within 0.03 percent.
    sigma = -1.0 - logarithm
    root = square_root(sigma)
    exponent = root * -0.0201
    # exp(exponent), which is between -0.6 and 0, to the few digits that matter.
    decay = fma(exponent, fma(exponent, fma(exponent, 1 / 6, 0.5), 1.0), 1.0)
    inner = root * (0.3361 * math.sqrt(0.5)) / fma(sigma * -0.0042, decay, 1.0)
    guess = -1.0 - sigma - (2 / 0.3361) * (1.0 - 1.0 / (inner + 1.0))
    for _ in range(2):
        guess = _improved(guess, logarithm - log(-guess) - guess)
    result = select(p > 0.5, guess, near)
    result = select((above < 0) | (x < -1.0) | (x > 0), math.nan, result)
    result = select(absolute(x) == 0, -math.inf, result)
    return select(x == x, result, x)
