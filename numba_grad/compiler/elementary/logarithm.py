"""log, log2, log10, log1p and the inverse hyperbolic functions.

x = 2**k m with m in [sqrt(1/2), sqrt(2)), then log m = 2 atanh(s), s = (m - 1)/(m + 1), as an odd
polynomial (coefficients: perf/math_coefficients.py).
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.exponential import FORMATS, exp
from numba_grad.compiler.elementary.registry import FLOATING, formula
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
    select,
    shared,
    square_root,
    two_sum,
)
from numba_grad.immutable import immutable

# (atanh(s)/s - 1) / s**2, in s**2
_ATANH_TAIL = {
    FLOAT64: (
        0.33333333333333676,
        0.19999999999704668,
        0.14285714371849284,
        0.11111099213402462,
        0.09091786257913392,
        0.0765691343206912,
        0.07399161587827865,
    ),
    FLOAT32: (0.3333338797092438, 0.19988784193992615, 0.14935730397701263),
}
_SQRT_HALF_BITS = {FLOAT64: 0x3FE6A09E667F3BCD, FLOAT32: 0x3F3504F3}
_LEAST_NORMAL = {FLOAT64: 2.0**-1022, FLOAT32: 2.0**-126}


@immutable
class _Base:
    """1/log(base) and log(2)/log(base), each as a sum; k times the latter's high part is exact."""

    inverse_high: float
    inverse_low: float
    two_high: float
    two_low: float


_BASE_2 = {
    FLOAT64: _Base(
        float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56"), 1.0, 0.0
    ),
    FLOAT32: _Base(float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0cp-26"), 1.0, 0.0),
}
_BASE_10 = {
    FLOAT64: _Base(
        float.fromhex("0x1.bcb7b1526e50ep-2"),
        float.fromhex("0x1.95355baaafad3p-57"),
        float.fromhex("0x1.34413509f7800p-2"),
        float.fromhex("0x1.fef311f12b358p-46"),
    ),
    FLOAT32: _Base(
        float.fromhex("0x1.bcb7b2p-2"),
        float.fromhex("-0x1.5b235ep-27"),
        float.fromhex("0x1.344000p-2"),
        float.fromhex("0x1.3509f8p-18"),
    ),
}


def split_exponent(x: Value) -> tuple[Value, Value]:
    """(k, m) with x = 2**k m and m in [sqrt(1/2), sqrt(2)), for finite x > 0."""
    form = FORMATS[x.kind]
    is_subnormal = x < _LEAST_NORMAL[x.kind]
    raised = form.mantissa_bits + 2
    x = select(is_subnormal, x * 2.0**raised, x)
    one = form.exponent_bias << form.mantissa_bits
    shifted = bits(x) + (one - _SQRT_HALF_BITS[x.kind])
    exponent = shifted >> form.mantissa_bits
    m = from_bits((shifted & ((1 << form.mantissa_bits) - 1)) + _SQRT_HALF_BITS[x.kind])
    # An integer to a floating number: in the mantissa of 2**52. (AVX2 has no such conversion.)
    anchor = 2.0**form.mantissa_bits
    k = from_bits(exponent | ((form.exponent_bias + form.mantissa_bits) << form.mantissa_bits))
    offset = anchor + form.exponent_bias
    return k - select(is_subnormal, x.like(offset + raised), offset), m


def with_special_values(x: Value, result: Value) -> Value:
    """A logarithm of x, right for x that is 0, negative, infinite or NaN as well."""
    result = select(x < math.inf, result, x)
    return select(x > 0, result, select(x == 0, x.like(-math.inf), math.nan))


def log_parts(f: Value) -> tuple[Value, Value]:
    """(f**2/2, rest) with log(1 + f) = f - f**2/2 + rest."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return half_square, s * fma(z * 2.0, polynomial(z, _ATANH_TAIL[f.kind]), half_square)


def log_of_sum(k: Value, f: Value) -> Value:
    """k log 2 + log(1 + f)"""
    form = FORMATS[f.kind]
    half_square, rest = log_parts(f)
    return fma(k, form.log2_high, f - (half_square - fma(k, form.log2_low, rest)))


@formula(FLOATING)
@shared
def log(x: Value) -> Value:
    k, m = split_exponent(x)
    return with_special_values(x, log_of_sum(k, m - 1.0))


def _log_to_base(x: Value, base: _Base) -> Value:
    k, m = split_exponent(x)
    half_square, rest = log_parts(m - 1.0)
    high, low = fast_two_sum(m - 1.0, -half_square)
    low = low + rest
    result, error = product(high, base.inverse_high)
    error = fma(low, base.inverse_high, fma(high, base.inverse_low, error))
    total, error_2 = fast_two_sum(k * base.two_high, result)
    result = total + (error_2 + fma(k, base.two_low, error))
    return with_special_values(x, result)


@formula(FLOATING)
def log2(x: Value) -> Value:
    return _log_to_base(x, _BASE_2[x.kind])


@formula(FLOATING)
def log10(x: Value) -> Value:
    return _log_to_base(x, _BASE_10[x.kind])


def split_sum(total: Value, error: Value) -> tuple[Value, Value]:
    """(k, f) with total + error = 2**k (1 + f), for an error below the last place of `total`."""
    form = FORMATS[total.kind]
    k, m = split_exponent(total)
    # 2**-k = m / total, by subtracting exponents.
    ratio = from_bits(bits(m) - bits(total) + (form.exponent_bias << form.mantissa_bits))
    # Beyond, 2**-k would be subnormal or worse, and logarithms are so large that f hardly counts.
    error = select(total < 2.0 ** (form.exponent_bias - 10), error * ratio, 0.0)
    return k, (m - 1.0) + error


@formula(FLOATING)
@shared
def log1p(x: Value) -> Value:
    form = FORMATS[x.kind]
    total, error = two_sum(x.like(1.0), x)
    k, f = split_sum(total, error)
    result = with_special_values(total, log_of_sum(k, f))
    return select(absolute(x) < 2.0 ** -(form.mantissa_bits + 2), x, result)


@formula(FLOATING, also=("arcsinh",))
@shared
def asinh(x: Value) -> Value:
    size = absolute(x)
    square = size * size
    # log(|x| + sqrt(x**2 + 1)), as a log1p; for large |x|, where the square overflows, log(2|x|).
    small = size + square / (1.0 + square_root(square + 1.0))
    return copy_sign(_log1p_or_log_of_double(size, small), x)


@formula(FLOATING)
def log_sigmoid(x: Value) -> Value:
    """log(1 / (1 + exp(-x)))"""
    return select(x < 0, x, 0.0) - log1p(exp(-absolute(x)))


@formula(FLOATING, also=("arccosh",))
def acosh(x: Value) -> Value:
    t = x - 1.0
    result = _log1p_or_log_of_double(x, t + square_root(t * 2.0 + t * t))
    return select(x >= 1.0, result, math.nan)


def _log1p_or_log_of_double(x: Value, y: Value) -> Value:
    """log(1 + y), or log(2 x) for large x."""
    form = FORMATS[x.kind]
    is_large = x > 2.0 ** (form.mantissa_bits // 2 + 2)
    total, error = two_sum(x.like(1.0), y)
    total, error = select(is_large, x, total), select(is_large, 0.0, error)
    k, f = split_sum(total, error)
    k = select(is_large, k + 1.0, k)
    result = log_of_sum(k, f)
    result = select(total < math.inf, result, total)
    return select(y < 2.0 ** -(form.mantissa_bits + 2), y, result)


@formula(FLOATING, also=("arctanh",))
def atanh(x: Value) -> Value:
    size = absolute(x)
    return copy_sign(log1p((size + size) / (1.0 - size)) * 0.5, x)
