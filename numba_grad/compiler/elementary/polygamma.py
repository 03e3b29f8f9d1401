"""The derivatives of log(gamma): digamma, trigamma, and zeta. Coefficients:
perf/math_coefficients.py.

Small arguments are moved by digamma(x + 1) = digamma(x) + 1/x, to an interval with a polynomial or
to the asymptotic series (DLMF 5.11), its tail fitted; negative ones are reflected.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.llvm_writer import defined
from numba_grad.compiler.elementary.logarithm import log
from numba_grad.compiler.elementary.power import power
from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    FLOAT64,
    Results,
    Value,
    absolute,
    c_function,
    copy_sign,
    fma,
    library_call,
    polynomial,
    polynomial_in_one_chain,
    repeated,
    round_down,
    round_half_even,
    select,
    to_float32,
    to_float64,
    two_sum,
)
from numba_grad.immutable import immutable
from numba_grad.ops.series import EULER_MACLAURIN


@immutable
class _Format:
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


@formula(FLOATING)
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
    # By r, or by what is left to 1/2, next to which it is small: a product with that.
    left = 0.5 - absolute(r)
    is_by_left = left < 0.25
    square = select(is_by_left, left * left, r * r)
    product = fma(-square, polynomial(square, form.cotangent), 1.0)
    cotangent = select(is_by_left, math.pi**2 * copy_sign(left, r), product) / select(
        is_by_left, product, r
    )
    first = 1.0 / y
    reflected = select(y < 1.0, value, value + first) + select(r == 0, math.nan, cotangent)
    positive = select(y < 1.0, value - 1.0 / x, value)
    return select(is_negative, reflected, positive)


@formula(FLOATING)
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


def sum_of_powers(x: Value, q: Value, n: Value) -> Value:
    """The sum of (q + k)**-x for k from 0 to n - 1.

    The rounding error of q + k counts x times; it is corrected to first order. Where there is none
    the power may have overflowed: inf * 0 is nan.
    """

    def step(k: Value, total: Value) -> Results:
        base = q + k
        rounded = c_function("pow", base, -x)
        part = base - q
        error = (q - (base - part)) + (k - part)
        corrected = rounded + rounded * (-x * (error / base))
        term = select(error == 0, rounded, corrected)
        return (k + 1.0, total + term), ~(k + 1.0 < n)

    return repeated(step, x.like(0.0), x.like(0.0))[1]


@formula(FLOATING)
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
    definition = defined(sum_of_powers)
    total = library_call(definition.symbol, s, start, count, definition=definition)
    end, error = two_sum(start, count)
    last = power(end, -s)
    last = last - last * (s * (error / end))
    inverse = 1.0 / end
    square = inverse * inverse
    tail = fma(end, 1.0 / (s - 1.0), 0.5)
    factor = s * inverse
    for k, coefficient in enumerate(EULER_MACLAURIN):
        tail = fma(factor, coefficient, tail)
        factor = factor * ((s + (2.0 * k + 1)) * (s + (2.0 * k + 2))) * square
    result = fma(last, tail, total)
    is_pole = (x == 1.0) | ((x > 1.0) & (q <= 0) & (q == round_down(q)))
    is_zero = (q == math.inf) & (x > 1.0) & (x < math.inf)
    result = select(is_defined, result, select(is_zero, x.like(0.0), math.nan))
    return select(is_pole & (q == q), math.inf, result)
