"""gamma, its logarithm, digamma, trigamma and zeta. Coefficients: perf/math_coefficients.py.

Small arguments are moved to an interval with a polynomial, by gamma(x + 1) = x gamma(x); large ones
have Stirling's series (DLMF 5.11), its tail fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numba_grad.compiler.elementary.exponential import clamp, exp, exp_of_sum
from numba_grad.compiler.elementary.logarithm import log, log1p
from numba_grad.compiler.elementary.power import log_as_sum, power
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    FLOAT64,
    Value,
    absolute,
    fast_two_sum,
    fma,
    library_call,
    polynomial,
    polynomial_in_one_chain,
    product,
    rarely,
    round_down,
    round_half_even,
    select,
    to_float32,
    to_float64,
    two_sum,
)
from numba_grad.compiler.elementary.scipy_functions import rarely_scipy


@dataclass(frozen=True, slots=True)
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
    # digamma(x) / (x - zero) in x - 1.5, for 1 <= x <= 2, and its zero there as a sum
    digamma_near: tuple[float, ...]
    digamma_zero: tuple[float, float]
    # (log(x) - 1/(2 x) - digamma(x)) x**2 in 1/x**2, from x = 6 on
    digamma_far: tuple[float, ...]
    # (trigamma(x) - 1/x - 1/(2 x**2)) x**3 in 1/x**2, from x = 6 on
    trigamma_far: tuple[float, ...]
    # (1/r - pi cot(pi r)) / r and (pi / sin(pi r))**2 - 1/r**2 in r**2, for |r| <= 1/2
    cotangent: tuple[float, ...]
    cosecant: tuple[float, ...]


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
        digamma_near=(
            0.9510558760318328,
            -0.4236274212814607,
            0.240542484240829,
            -0.1484049230538536,
            0.09498872444615694,
            -0.061922133277860614,
            0.040760834361559396,
            -0.02697579656544024,
            0.017907234840597672,
            -0.011908222165617635,
            0.007927273572677345,
            -0.005279910254593899,
            0.0035151747888603705,
            -0.0023457164280791753,
            0.0015852899797503437,
            -0.001035309886110689,
            0.0005856572999789441,
            -0.0004895972065781501,
            0.0006378268548983353,
            -0.0001383287831056948,
            -0.00043226128589587894,
            -0.00018314830232655694,
            0.0005035012944897754,
        ),
        digamma_zero=(
            float.fromhex("0x1.762d86356be3fp+0"),
            float.fromhex("0x1.b86a722197829p-54"),
        ),
        digamma_far=(
            0.08333333333333333,
            -0.008333333333306266,
            0.0039682539421757165,
            -0.004166656988104207,
            0.00757395633829143,
            -0.020904125559523784,
            0.07167987158893242,
            -0.02007989991077413,
            -5.444929864209937,
            53.52022062420113,
        ),
        trigamma_far=(
            0.16666666666666666,
            -0.033333333333277634,
            0.023809523754250675,
            -0.03333331212558844,
            0.07575346581306044,
            -0.2526594391279968,
            1.1363663490473128,
            -5.845455450271216,
            23.319836732737457,
            -22.442598223501957,
        ),
        cotangent=(
            3.289868133696453,
            2.164646467422281,
            2.0346861239673406,
            2.0081547126016206,
            2.0019891360023454,
            2.0004927693021433,
            2.0001061628448666,
            2.00033880997908,
            1.9958724651896302,
            2.0401471536829794,
            1.7160848878237156,
            3.455837938006243,
            -3.3120895913174135,
            15.244935226628588,
            -18.74975316411563,
            18.583034895283955,
        ),
        cosecant=(
            3.289868133696453,
            6.493939402266831,
            10.173430619843938,
            14.057082986864229,
            18.01790234407015,
            22.00541434686158,
            26.001576713148605,
            30.00084862840349,
            33.993143224334496,
            38.092505622824646,
            41.08295462983118,
            52.8541705219565,
            11.474349432814998,
            215.01038650037444,
            -430.39954714149536,
            1089.3752269302033,
            -1303.487175649946,
            996.0117106754049,
        ),
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
        digamma_near=(
            0.9510558843612671,
            -0.4236275553703308,
            0.24053837358951569,
            -0.1483951210975647,
            0.09511782974004745,
            -0.06210977956652641,
            0.039359062910079956,
            -0.025499971583485603,
            0.023929867893457413,
            -0.016883600503206253,
        ),
        digamma_zero=(float.fromhex("0x1.762d86p+0"), float.fromhex("0x1.ab5f2p-27")),
        digamma_far=(
            0.0833333283662796,
            -0.008331662975251675,
            0.0038044084794819355,
        ),
        trigamma_far=(
            0.166666641831398,
            -0.03332022577524185,
            0.022516818717122078,
        ),
        cotangent=(
            3.289868116378784,
            2.164653778076172,
            2.0341808795928955,
            2.0213563442230225,
            1.8350881338119507,
            3.1157243251800537,
            -1.9145536422729492,
            8.271576881408691,
        ),
        cosecant=(
            3.289868116378784,
            6.493946552276611,
            10.172955513000488,
            14.068256378173828,
            17.913286209106445,
            22.146541595458984,
            30.26775550842285,
            -0.19396187365055084,
            107.7679443359375,
        ),
    ),
}
_HALF_LOG_2_PI = math.log(2 * math.pi) / 2


def gammaln(x: Value) -> Value:
    """log |gamma(x)|. Negative x are left to the C library."""
    result = rarely(x < 0, _log_gamma(x), "lgamma", x)
    # SciPy's value at -inf.
    return select(x == 0, math.inf, select((x != x) | (x == -math.inf), x, result))


def _log_gamma(x: Value) -> Value:
    """log(gamma(x)) for x > 0."""
    form = _FORMATS[x.kind]
    is_far = x >= 7.0
    y = select((x > 0) & ~is_far, x, 2.0)
    # gamma(y) is gamma(2 + u) times the factor, or divided by it where y is below 1.25: one
    # logarithm serves all.
    u, factor = y - 2.0, y.like(1.0)
    for k in range(1, 5):
        is_above = y >= 2.0 + k
        factor = select(is_above, factor * (y - float(k)), factor)
        u = select(is_above, y - (2.0 + k), u)
    is_below = y < 1.25
    is_least = y < 0.5
    u = select(is_least, y, select(is_below, y - 1.0, u))
    factor = select(is_least, fma(y, y, y), select(is_below, y, factor))
    logarithm = log(select(is_far, x, factor))
    near = fma(u, polynomial(u, form.log_gamma_near), select(is_below, -logarithm, logarithm))
    tail = _log_gamma_tail(select(is_far, x, 7.0))
    far = fma(x - 0.5, logarithm - 1.0, tail + (_HALF_LOG_2_PI - 0.5))
    return select(is_far, far, near)


def _log_gamma_tail(x: Value) -> Value:
    """log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi)/2) for x >= 7."""
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, _FORMATS[x.kind].log_gamma_far)


def betaln(a: Value, b: Value) -> Value:
    """log |beta(a, b)|. Negative arguments are left to SciPy."""
    result = rarely_scipy((a <= 0) | (b <= 0), _log_beta(a, b), "betaln", a, b)
    return select((a != a) | (b != b), a + b, result)


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


def gamma(x: Value) -> Value:
    """Negative x are left to the C library."""
    form = _FORMATS[x.kind]
    is_far = x >= 10.0
    y = select((x > 0) & ~is_far, x, 2.0)
    u, factor = y - 2.0, y.like(1.0)
    for k in range(1, 8):
        is_above = y >= 2.0 + k
        factor = select(is_above, factor * (y - float(k)), factor)
        u = select(is_above, y - (2.0 + k), u)
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
    if x.kind == FLOAT32:
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


def digamma(x: Value) -> Value:
    form = _FORMATS[x.kind]
    is_negative = x < 0
    y = absolute(x)
    is_far = y >= 6.0
    safe = select(is_far, 1.0, y)
    # digamma(y) = digamma(w) + the sum of 1/(y - k), a fraction; for y below 1 without its -1/y.
    zero, zero_low = form.digamma_zero
    is_below = safe < 1.0
    from_zero = select(is_below, safe - (zero - 1.0), safe - zero)
    u = select(is_below, safe - 0.5, safe - 1.5)
    above, below = safe.like(0.0), safe.like(1.0)
    for k in range(1, 5):
        is_above = safe >= 1.0 + k
        step = safe - float(k)
        above = select(is_above, fma(above, step, below), above)
        below = select(is_above, below * step, below)
        from_zero = select(is_above, step - zero, from_zero)
        u = select(is_above, step - 1.5, u)
    near = (from_zero - zero_low) * polynomial_in_one_chain(u, form.digamma_near) + above / below
    inverse = 1.0 / select(is_far, y, 6.0)
    tail = fma(inverse, polynomial(inverse * inverse, form.digamma_far), 0.5)
    value = select(is_far, log(select(is_far, y, 6.0)) - inverse * tail, near)

    # digamma(-y) = digamma(y) + 1/y + pi cot(pi y)
    r = y - round_half_even(y)
    cotangent = 1.0 / r - r * polynomial(r * r, form.cotangent)
    first = 1.0 / y
    reflected = select(y < 1.0, value, value + first) + select(r == 0, math.nan, cotangent)
    positive = select(y < 1.0, value - 1.0 / x, value)
    return select(is_negative, reflected, positive)


def trigamma(x: Value) -> Value:
    """The derivative of digamma."""
    form = _FORMATS[x.kind]
    y = absolute(x)
    is_far = y >= 6.0
    # trigamma(y) = trigamma(y + n) + the sum of 1/(y + k)**2, a fraction; the first is left out.
    safe = select(is_far, 6.0, y)
    above, below, shifted = safe.like(0.0), safe.like(1.0), safe
    for k in range(6):
        is_short = safe < 6.0 - k
        if k:
            square = (safe + float(k)) * (safe + float(k))
            above = select(is_short, fma(above, square, below), above)
            below = select(is_short, below * square, below)
        shifted = select(is_short, safe + (k + 1.0), shifted)
    inverse = 1.0 / select(is_far, y, shifted)
    square = inverse * inverse
    tail = fma(inverse, polynomial(square, form.trigamma_far), 0.5)
    value = fma(square, tail, inverse) + above / below
    first = 1.0 / (y * y)

    # trigamma(-y) = (pi / sin(pi y))**2 - trigamma(1 + y)
    r = y - round_half_even(y)
    square = r * r
    cosecant = select(r == 0, math.inf, 1.0 / square + polynomial(square, form.cosecant))
    reflected = cosecant - select(is_far, value - first, value)
    positive = select(is_far, value, value + first)
    # Numbers beyond 2**52 are integers: poles. SciPy has one at -inf, too.
    reflected = select(y == math.inf, math.inf, reflected)
    return select(x < 0, reflected, positive)


# Bernoulli's numbers B(2 k) / (2 k)!
_EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -5.28419013868749322e-10,
    1.3382536530684678861e-11,
    -3.389680296322582717e-13,
    8.5860620562778451694e-15,
    -2.1748686985580619227e-16,
    5.5090028283602295302e-18,
    -1.3954464685812524713e-19,
)
# sum of (q + k)**-x for k from 0 to n - 1. The rounding error of q + k counts x times; it is
# corrected to first order.
_SUM_OF_POWERS = """\
define internal double @numba_grad.sum_of_powers(double %x, double %q, double %n) noinline \
nounwind willreturn memory(none) {
entry:
  %power = fneg double %x
  br label %body
body:
  %k = phi double [ 0.0, %entry ], [ %next, %body ]
  %sum = phi double [ 0.0, %entry ], [ %total, %body ]
  %base = fadd double %q, %k
  %rounded = call double @pow(double %base, double %power) nounwind willreturn memory(none)
  %part = fsub double %base, %q
  %rest = fsub double %base, %part
  %error_of_q = fsub double %q, %rest
  %error_of_k = fsub double %k, %part
  %error = fadd double %error_of_q, %error_of_k
  %relative = fdiv double %error, %base
  %change = fmul double %power, %relative
  %correction = fmul double %rounded, %change
  %term = fadd double %rounded, %correction
  %total = fadd double %sum, %term
  %next = fadd double %k, 1.0
  %more = fcmp olt double %next, %n
  br i1 %more, label %body, label %done
done:
  ret double %total
}
"""


def zeta(x: Value, q: Value) -> Value:
    """Hurwitz's zeta: the sum of (q + k)**-x over all k from 0 on.

    The first terms one by one, then the formula of Euler and Maclaurin (DLMF 25.11.28). Negative q
    have a meaning for integer x; below -1e6, where the sum is long, the result is NaN.
    """
    if x.kind == FLOAT32:
        return to_float32(zeta(to_float64(x), to_float64(q)))
    is_defined = (x > 1.0) & (x < math.inf) & (q < math.inf)
    is_defined = is_defined & ((q > 0) | ((q > -1e6) & (x == round_down(x))))
    s, start = select(is_defined, x, 2.0), select(is_defined, q, 1.0)
    count = 10.0 + round_down(select(start < 0, -start, 0.0))
    s.trace.declarations["pow"] = ("double", ("double", "double"))
    total = library_call("numba_grad.sum_of_powers", s, start, count, definition=_SUM_OF_POWERS)
    end, error = two_sum(start, count)
    last = power(end, -s)
    last = last - last * (s * (error / end))
    inverse = 1.0 / end
    square = inverse * inverse
    tail = fma(end, 1.0 / (s - 1.0), 0.5)
    factor = s * inverse
    for k, coefficient in enumerate(_EULER_MACLAURIN):
        tail = fma(factor, coefficient, tail)
        factor = factor * ((s + (2.0 * k + 1)) * (s + (2.0 * k + 2))) * square
    result = fma(last, tail, total)
    is_pole = (x == 1.0) | ((x > 1.0) & (q <= 0) & (q == round_down(q)))
    is_zero = (q == math.inf) & (x > 1.0) & (x < math.inf)
    result = select(is_defined, result, select(is_zero, x.like(0.0), math.nan))
    return select(is_pole & (q == q), math.inf, result)
