"""power: exp(y log x) with the logarithm, and the product, to twice the digits; cbrt."""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.exponential import (
    FORMATS,
    clamp,
    exp_of_sum,
    power_of_two,
    round_to_integer,
)
from numba_grad.compiler.elementary.logarithm import split_exponent
from numba_grad.compiler.elementary.registry import (
    FLOATING,
    FUNCTIONS,
    OF_FIRST,
    WIDEST_INTEGER,
    ElementaryFunction,
    formula,
)
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    FLOAT64,
    Value,
    absolute,
    bits,
    copy_sign,
    fast_two_sum,
    fma,
    from_bits,
    polynomial,
    product,
    round_to_zero,
    select,
    shared,
    to_float32,
    to_float64,
)

# (atanh(s)/s - 1 - s**2/3) / s**4, in s**2
_ATANH_TAIL = (
    0.1999999999999999,
    0.14285714285721932,
    0.11111111108890269,
    0.09090909422732857,
    0.07692279155055602,
    0.06668134800115608,
    0.05837834102667156,
    0.05991376027196672,
)
_THIRD = {
    FLOAT64: (1 / 3, float.fromhex("0x1.5555555555555p-56")),
    FLOAT32: (float.fromhex("0x1.555556p-2"), float.fromhex("-0x1.555556p-27")),
}
# For float32, computed in float64: (atanh(s)/s - 1) / s**2 in s**2, and (exp(r) - 1 - r) / r**2.
_ATANH_TAIL_SHORT = (
    0.33333333337923193,
    0.1999999780236576,
    0.14286055567953362,
    0.11088049822088814,
    0.09792760069992687,
)
_EXP_TAIL_SHORT = (
    0.4999999999953,
    0.1666666678669921,
    0.04166666704662853,
    0.008333281250200771,
    0.001388879781787762,
    0.00019909257341135821,
    2.4886878016506833e-05,
)


@formula(FLOATING, computed_in=WIDEST_INTEGER)
@shared
def power(x: Value, y: Value) -> Value:
    size = absolute(x)
    if x.kind == FLOAT32 and x.trace.has_fast_float64:
        result = _power_of_positive_float32(size, y)
    else:
        result = _power_of_positive(size, y)
    return _with_special_values(x, y, result)


# The exponent is a literal, whatever its type.
FUNCTIONS["integer_power"] = ElementaryFunction(
    "integer_power", 2, FUNCTIONS["power"].formulas, OF_FIRST
)


def log_as_sum(x: Value) -> tuple[Value, Value]:
    """log x for finite x > 0, with a relative error of 2**-66 or so."""
    form = FORMATS[x.kind]
    k, m = split_exponent(x)
    f = m - 1.0
    # s = f / (m + 1)
    total, total_low = fast_two_sum(x.like(1.0), m)
    swapped = (m - total) + 1.0  # where m > 1 the other order is the exact one
    total_low = select(m > 1.0, swapped, total_low)
    inverse = 1.0 / total
    s = f * inverse
    back, back_low = product(s, total)
    s_low = (((f - back) - back_low) - s * total_low) * inverse
    s, s_low = fast_two_sum(s, s_low)
    # log m = 2 s (1 + z (1/3 + z tail)), z = s*s
    z, z_low = product(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    third, third_low = _THIRD[x.kind]
    t, t_low = fast_two_sum(x.like(third), z * polynomial(z, _ATANH_TAIL))
    t_low = t_low + third_low
    v, v_low = product(z, t)
    v_low = v_low + fma(z, t_low, z_low * t)
    w, w_low = product(s, v)
    w_low = w_low + fma(s, v_low, s_low * v)
    high, low = fast_two_sum(s, w)
    low = low + (s_low + w_low)
    # k is 0 or the larger term.
    result, error = fast_two_sum(k * form.log2_high, high * 2.0)
    error = error + fma(k, form.log2_low, low * 2.0)
    return fast_two_sum(result, error)


def _log_of_limits(x: Value, logarithm: Value) -> Value:
    """The logarithm, right for 0, infinity and NaN too."""
    return select(x == 0, -math.inf, select(x < math.inf, logarithm, x))


def _power_of_positive(x: Value, y: Value) -> Value:
    high, low = log_as_sum(x)
    high = _log_of_limits(x, high)
    exponent, error = product(y, high)
    error = fma(y, low, error)
    # Where the result is 0 or infinite the error is not a number.
    error = select(absolute(exponent) < 1000.0, error, 0.0)
    return exp_of_sum(exponent, error)


def _power_of_positive_float32(x: Value, y: Value) -> Value:
    """In float64, which holds the logarithm to more digits than the result needs."""
    x, y = to_float64(x), to_float64(y)
    form = FORMATS[FLOAT64]
    k, m = split_exponent(x)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    logarithm = fma(s, fma(z * 2.0, polynomial(z, _ATANH_TAIL_SHORT), 2.0), k * math.log(2))
    exponent = clamp(y * _log_of_limits(x, logarithm), -150.0, 150.0)
    k, integer = round_to_integer(exponent, 1 / math.log(2))
    r = fma(k, -math.log(2), exponent)
    result = fma(r * r, polynomial(r, _EXP_TAIL_SHORT), r) + 1.0
    # Exponents stay far inside the range of float64; float32 rounds, overflows and underflows.
    return to_float32(from_bits(bits(result) + (integer << form.mantissa_bits)))


def _with_special_values(x: Value, y: Value, result: Value) -> Value:
    """The power of x from that of |x|, and what IEEE 754 wants of limits."""
    sign_bit = 63 if x.kind == FLOAT64 else 31
    is_integer = round_to_zero(y) == y
    half = y * 0.5
    is_odd = is_integer & (round_to_zero(half) != half)
    sign = (bits(x) >> sign_bit) << sign_bit
    result = select(is_odd, from_bits(bits(result) | sign), result)
    is_undefined = (x < 0) & (x > -math.inf) & ~is_integer & (y == y)
    result = select(is_undefined, math.nan, result)
    # 1 to any power, even NaN, and -1 to an infinite one.
    is_one = (y == 0) | (x == 1.0) | ((x == -1.0) & (absolute(y) == math.inf))
    return select(is_one, 1.0, result)


# The cube root of m in [sqrt(1/2), sqrt(2)], to 2**-16.
_CUBE_ROOT = (
    0.45166748546779195,
    0.9048164769808863,
    -0.5356278035527853,
    0.2169359230347716,
    -0.037787837024489804,
)


@formula(FLOATING)
def cbrt(x: Value) -> Value:
    size = absolute(x)
    k, m = split_exponent(size)
    third, integer = round_to_integer(k, 1 / 3)
    rest = k - third * 3.0  # -1, 0 or 1
    is_up, is_down = rest > 0, rest < 0
    t = m * select(is_up, x.like(2.0), select(is_down, x.like(0.5), 1.0))
    root = polynomial(m, _CUBE_ROOT) * select(
        is_up, x.like(2 ** (1 / 3)), select(is_down, x.like(0.5 ** (1 / 3)), 1.0)
    )
    # A step of Halley's, then one of Newton's with an exact residual.
    cube = root * root * root
    root = root * ((cube + t * 2.0) / (cube * 2.0 + t))
    square, square_low = product(root, root)
    cube, cube_low = product(square, root)
    residual = ((t - cube) - cube_low) - square_low * root
    root = fma(residual / square, 1 / 3, root)
    result = root * power_of_two(integer)
    return select((size > 0) & (size < math.inf), copy_sign(result, x), x)
