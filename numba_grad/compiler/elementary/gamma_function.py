"""gamma, beta, and their logarithms. Coefficients: perf/math_coefficients.py.

Small arguments are moved to an interval with a polynomial, by gamma(x + 1) = x gamma(x); large ones
have Stirling's series (DLMF 5.11), its tail fitted.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.exponential import clamp, exp, exp_of_sum
from numba_grad.compiler.elementary.logarithm import log, log1p
from numba_grad.compiler.elementary.power import log_as_sum
from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    FLOAT64,
    Value,
    fast_two_sum,
    fma,
    polynomial,
    product,
    rarely,
    select,
    shared,
    to_float32,
    to_float64,
)
from numba_grad.compiler.elementary.scipy_functions import rarely_scipy
from numba_grad.immutable import immutable


@immutable
class _Format:
    # log(gamma(2 + u)) / u, for -3/4 <= u <= 1
    log_gamma_near: tuple[float, ...]
    # x (log(gamma(x)) - (x - 1/2) log(x) + x - log(2 pi)/2) in 1/x**2, from x = 7 on
    log_gamma_far: tuple[float, ...]
    # (gamma(2 + u) - 1) / u, for 0 <= u <= 1
    gamma_near: tuple[float, ...]
    # gamma(x) / (sqrt(2 pi) x**(x - 1/2) exp(-x)) in 1/x, from x = 10 on
    stirling: tuple[float, ...]
    gamma_limit: float  # gamma overflows before


_FORMATS = {
    FLOAT64: _Format(
        log_gamma_near=(
            0.42278433509846713,
            0.3224670334241131,
            -0.06735230105319588,
            0.020580808427802893,
            -0.007385551028841359,
            0.002890510329974741,
            -0.0011927539066512128,
            0.0005096695390615661,
            -0.0002231548385667243,
            9.945737111820764e-05,
            -4.492547716731037e-05,
            2.0507999666536848e-05,
            -9.444095063594869e-06,
            4.372563600583632e-06,
            -2.020749559250112e-06,
            9.568124399062423e-07,
            -4.984970560938552e-07,
            2.2371407848469007e-07,
            -1.4840054818519393e-08,
            3.4621529606760978e-09,
            -1.1348787502128219e-07,
            8.334740216902667e-08,
            4.351467699049422e-08,
            -5.753105024797891e-08,
            -4.504827150099693e-09,
            2.1140599729731386e-08,
            -6.1753010276798545e-09,
        ),
        log_gamma_far=(
            0.08333333333333333,
            -0.0027777777777553123,
            0.0007936507758223765,
            -0.0005952327756605641,
            0.000840990766641127,
            -0.001861091103512235,
            0.004265022115900379,
            0.006729472530538551,
        ),
        gamma_near=(
            0.42278433509846713,
            0.41184033042643914,
            0.08157691924723082,
            0.07424901074615685,
            -0.00026698189606309196,
            0.011154043377191798,
            -0.0028526253547718006,
            0.0021038101653341012,
            -0.0009190416669504297,
            0.0004886911120560379,
            -0.00023686939810539984,
            0.00011423395567361364,
            -5.0354194628887164e-05,
            1.912635314431144e-05,
            -5.628238312686977e-06,
            1.1066902789879723e-06,
            -1.0642314049715624e-07,
        ),
        stirling=(
            1.0,
            0.08333333333333334,
            0.0034722222222177165,
            -0.002681327159733042,
            -0.00022947215738011246,
            0.0007840423038703678,
            6.963543105849475e-05,
            -0.0005903673425181459,
            -7.441173920453634e-05,
            0.0010213116842549491,
            -0.0007872427331168655,
        ),
        gamma_limit=172.0,
    ),
    FLOAT32: _Format(
        log_gamma_near=(
            0.42278432846069336,
            0.32246705889701843,
            -0.06735177338123322,
            0.020580044016242027,
            -0.00739208422601223,
            0.0028978248592466116,
            -0.00116487976629287,
            0.00047956674825400114,
            -0.0002689043467398733,
            0.00015335857460740954,
            -2.6115754735656083e-05,
            -1.1246911526541226e-05,
        ),
        log_gamma_far=(
            0.0833333358168602,
            -0.002778628608211875,
            0.000823532638605684,
        ),
        gamma_near=(
            0.42278432846069336,
            0.4118407964706421,
            0.0815722793340683,
            0.07425382733345032,
            -0.00016923029033932835,
            0.010669601149857044,
            -0.001812488422729075,
            0.0008608895004726946,
        ),
        stirling=(
            1.0,
            0.083333320915699,
            0.003473188728094101,
            -0.0027048878837376833,
        ),
        gamma_limit=36.0,
    ),
}
_HALF_LOG_2_PI = math.log(2 * math.pi) / 2


@formula(FLOATING)
def gammaln(x: Value) -> Value:
    """log |gamma(x)|. Negative x are left to the C library."""
    result = rarely(x < 0, _log_gamma(x), "lgamma", x)
    # SciPy's value at -inf.
    return select(x == 0, math.inf, select((x != x) | (x == -math.inf), x, result))


@shared
def _log_gamma(x: Value) -> Value:
    """log(gamma(x)) for x > 0."""
    form = _FORMATS[x.kind]
    is_far = x >= 7.0
    y = select((x > 0) & ~is_far, x, 2.0)
    # gamma(y) is gamma(2 + u) times the factor, or divided by it where y is below 1.25: one
    # logarithm serves all.
    u, factor = _above_two(y, 7)
    is_below = y < 1.25
    is_least = y < 0.5
    u = select(is_least, y, select(is_below, y - 1.0, u))
    factor = select(is_least, fma(y, y, y), select(is_below, y, factor))
    logarithm = log(select(is_far, x, factor))
    near = fma(u, polynomial(u, form.log_gamma_near), select(is_below, -logarithm, logarithm))
    tail = _log_gamma_tail(select(is_far, x, 7.0))
    far = fma(x - 0.5, logarithm - 1.0, tail + (_HALF_LOG_2_PI - 0.5))
    return select(is_far, far, near)


def _above_two(y: Value, end: int) -> tuple[Value, Value]:
    """u from 0 to 1, and a factor, for gamma(y) = factor gamma(2 + u): of y from 2 up to `end`."""
    u, factor = y - 2.0, y.like(1.0)
    for k in range(1, end - 2):
        is_above = y >= 2.0 + k
        factor = select(is_above, factor * (y - float(k)), factor)
        u = select(is_above, y - (2.0 + k), u)
    return u, factor


def _log_gamma_tail(x: Value) -> Value:
    """log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi)/2) for x >= 7."""
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, _FORMATS[x.kind].log_gamma_far)


@formula(FLOATING)
def betaln(a: Value, b: Value) -> Value:
    """log |beta(a, b)|. Negative arguments are left to SciPy."""
    result = rarely_scipy((a <= 0) | (b <= 0), _log_beta(a, b), "betaln", a, b)
    return select((a != a) | (b != b), a + b, result)


@formula(FLOATING)
def beta(a: Value, b: Value) -> Value:
    result = exp(_log_beta(a, b))
    result = rarely_scipy((a <= 0) | (b <= 0), result, "beta", a, b)
    return select((a != a) | (b != b), a + b, result)


def _log_beta(a: Value, b: Value) -> Value:
    """log(gamma(a)) + log(gamma(b)) - log(gamma(a + b)); where these are large, what is left of
    Stirling's formula after cancellation (Didonato and Morris 1992).
    """
    large, small = select(a > b, a, b), select(a > b, b, a)
    of_small = _log_gamma(small)
    direct = of_small + (_log_gamma(large) - _log_gamma(large + small))
    far = select(large >= 7.0, large, 7.0)
    total = far + small
    ratio = fma(-(far - 0.5), log1p(small / far), _log_gamma_tail(far)) - _log_gamma_tail(total)
    # small >= 7: small log(small / total), else - small log(total), and the rest of log(gamma).
    is_both = small >= 7.0
    other = select(is_both, small, 7.0)
    logarithm = log(select(is_both, other / total, total))
    one_far = of_small + fma(-small, logarithm - 1.0, ratio)
    rest = _log_gamma_tail(other) + fma(log(other), -0.5, _HALF_LOG_2_PI)
    both_far = fma(small, logarithm, rest + ratio)
    result = select(is_both, both_far, select(large >= 7.0, one_far, direct))
    return select((large == math.inf) & (small < math.inf), -math.inf, result)


@formula(FLOATING)
def gamma(x: Value) -> Value:
    """Negative x are left to the C library."""
    form = _FORMATS[x.kind]
    is_far = x >= 10.0
    y = select((x > 0) & ~is_far, x, 2.0)
    u, factor = _above_two(y, 10)
    u = select(y < 1.0, y, select(y < 2.0, y - 1.0, u))
    divisor = select(y < 1.0, fma(y, y, y), select(y < 2.0, y, 1.0))
    value = fma(u, polynomial(u, form.gamma_near), 1.0)
    near = value * factor / divisor

    far = _stirling(clamp(select(is_far, x, 10.0), 10.0, form.gamma_limit))
    result = select(is_far, far, near)
    result = rarely(x < 0, result, "tgamma", x)
    result = select(x == 0, 1.0 / x, select(x < math.inf, result, x))
    return select(x == -math.inf, math.nan, result)


def _stirling(x: Value) -> Value:
    form = _FORMATS[x.kind]
    series = polynomial(1.0 / x, form.stirling) * math.sqrt(2 * math.pi)
    if x.kind == FLOAT32 and x.trace.has_fast_float64:
        y = to_float64(x)
        exponent = exp_of_sum(fma(y - 0.5, log(y), -y), y.like(0.0))
        return to_float32(exponent * to_float64(series))
    # (x - 1/2) log(x) - x = (x - 1/2) (log(x) - 1) - 1/2, to more digits than one number holds:
    # it is up to 700, and its error becomes a relative one.
    high, low = log_as_sum(x)
    rest = high - 1.0
    rest_low = ((high - rest) - 1.0) + low
    exponent, error = product(x - 0.5, rest)
    exponent, error_2 = fast_two_sum(exponent, exponent.like(-0.5))
    return exp_of_sum(exponent, fma(x - 0.5, rest_low, error) + error_2) * series
