"""exp and what follows from it: exp2, expm1, sigmoid, sinh, cosh, tanh.

x = k log 2 + r with |r| <= log(2)/2, then a polynomial in r. Coefficients here and in the other
files: perf/math_coefficients.py.
"""

from __future__ import annotations

import math

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
)
from numba_grad.immutable import immutable


@immutable
class Format:
    """What the formulas need to know about a floating type."""

    mantissa_bits: int
    exponent_bias: int
    # Adding it rounds to an integer, which then stands in the lowest bits.
    round_shift: float
    # log 2 = high + low, where k * high is exact for every exponent k.
    log2_high: float
    log2_low: float
    # Beyond these exp is inf, or 0; a little wider than needed.
    exp_overflow: float
    exp_underflow: float
    # (exp(r) - 1 - r) / r**2
    exp_tail: tuple[float, ...]
    # (sinh(r)/r - 1) / r**2 and (cosh(r) - 1 - r**2/2) / r**4, in r**2
    sinh_tail: tuple[float, ...]
    cosh_tail: tuple[float, ...]


FORMATS = {
    FLOAT64: Format(
        mantissa_bits=52,
        exponent_bias=1023,
        round_shift=1.5 * 2.0**52,
        log2_high=float.fromhex("0x1.62e42fefa3800p-1"),
        log2_low=float.fromhex("0x1.ef35793c76730p-45"),
        exp_overflow=710.0,
        exp_underflow=-746.0,
        exp_tail=(
            0.5000000000000012,
            0.166666666666667,
            0.0416666666665155,
            0.008333333333307196,
            0.0013888888947003557,
            0.00019841269917448027,
            2.4801489947556577e-05,
            2.7557216195837894e-06,
            2.7631280329817706e-07,
            2.5117906654691425e-08,
        ),
        sinh_tail=(
            0.16666666666666677,
            0.008333333333321386,
            0.00019841269886814456,
            2.7557243454754763e-06,
            2.510931951712872e-08,
        ),
        cosh_tail=(
            0.041666666666666685,
            0.0013888888888873283,
            2.480158734920223e-05,
            2.7557251819396096e-07,
            2.092177008947226e-09,
        ),
    ),
    FLOAT32: Format(
        mantissa_bits=23,
        exponent_bias=127,
        round_shift=1.5 * 2.0**23,
        log2_high=float.fromhex("0x1.62e400p-1"),
        log2_low=float.fromhex("0x1.7f7d1cp-20"),
        exp_overflow=89.0,
        exp_underflow=-104.0,
        exp_tail=(
            0.5,
            0.16666515171527863,
            0.04166658595204353,
            0.008369325660169125,
            0.001392098143696785,
        ),
        sinh_tail=(0.1666654348373413, 0.0083665382117033),
        cosh_tail=(0.041666459292173386, 0.0013935426250100136),
    ),
}


def clamp(x: Value, low: float, high: float) -> Value:
    """x within [low, high]; NaN stays NaN."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def round_to_integer(x: Value, factor: float = 1.0) -> tuple[Value, Value]:
    """The integer nearest to x * factor, as floating number and as integer."""
    shift = FORMATS[x.kind].round_shift
    shifted = fma(x, factor, shift) if factor != 1.0 else x + shift
    return shifted - shift, bits(shifted) - bits(x.like(shift))


def power_of_two(exponent: Value, bias: int = 0) -> Value:
    """2**(exponent + bias) for a normal result, from an integer."""
    form = FORMATS["double" if exponent.kind == "i64" else "float"]
    return from_bits((exponent + (form.exponent_bias + bias)) << form.mantissa_bits)


def scale_by_power_of_two(x: Value, exponent: Value) -> Value:
    """x * 2**exponent, for exponents up to twice the range: rounded once if subnormal."""
    form = FORMATS[x.kind]
    biased = exponent + 2 * form.exponent_bias
    half = biased >> 1
    rest = biased - half
    x = x * from_bits(half << form.mantissa_bits)
    return x * from_bits(rest << form.mantissa_bits)


def reduce(x: Value) -> tuple[Value, Value, Value]:
    """(k, r, rest) with x = k log 2 + r + rest; k an integer."""
    form = FORMATS[x.kind]
    k, integer = round_to_integer(x, 1 / math.log(2))
    exact = fma(k, -form.log2_high, x)
    low = k * form.log2_low
    r = exact - low
    return integer, r, (exact - r) - low


def exp_minus_one(r: Value, rest: Value | None = None) -> Value:
    """exp(r + rest) - 1 for |r| <= log(2)/2 and a rest below the last place of r."""
    tail = polynomial(r, FORMATS[r.kind].exp_tail)
    return r + (r * r * tail if rest is None else fma(r * r, tail, rest))


@formula(FLOATING)
@shared
def exp(x: Value) -> Value:
    form = FORMATS[x.kind]
    x = clamp(x, form.exp_underflow, form.exp_overflow)
    k, integer = round_to_integer(x, 1 / math.log(2))
    r = fma(k, -form.log2_low, fma(k, -form.log2_high, x))
    return scale_by_power_of_two(exp_minus_one(r) + 1.0, integer)


def exp_within_range(x: Value) -> Value:
    """exp where it neither overflows nor becomes subnormal."""
    form = FORMATS[x.kind]
    k, integer = round_to_integer(x, 1 / math.log(2))
    r = fma(k, -form.log2_low, fma(k, -form.log2_high, x))
    return (exp_minus_one(r) + 1.0) * power_of_two(integer)


@formula(FLOATING)
@shared
def exp2(x: Value) -> Value:
    form = FORMATS[x.kind]
    x = clamp(x, form.exp_underflow / math.log(2), form.exp_overflow / math.log(2))
    k, integer = round_to_integer(x)
    high, low = product(x - k, form.log2_high)
    r, rest = fast_two_sum(high, fma(x - k, form.log2_low, low))
    return scale_by_power_of_two(exp_minus_one(r, rest) + 1.0, integer)


@formula(FLOATING)
@shared
def expm1(x: Value) -> Value:
    form = FORMATS[x.kind]
    y = clamp(x, -1.5 * (form.mantissa_bits + 2) * math.log(2), form.exp_overflow)
    integer, r, rest = reduce(y)
    # 2**k (p + 1) - 1, by halves: 2**k itself may overflow.
    half = power_of_two(integer, -1)
    result = fma(exp_minus_one(r, rest), half, half - 0.5) * 2.0
    return select(absolute(x) < 2.0 ** -(form.mantissa_bits + 2), x, result)


def exp_of_sum(high: Value, low: Value) -> Value:
    """exp(high + low) for a small `low`, to hardly more than half a unit in the last place."""
    form = FORMATS[high.kind]
    high = clamp(high, form.exp_underflow, form.exp_overflow)
    k, integer = round_to_integer(high, 1 / math.log(2))
    r, rest = fast_two_sum(fma(k, -form.log2_high, high), fma(k, -form.log2_low, low))
    tail = fma(r * r, polynomial(r, form.exp_tail), rest)
    head, error = fast_two_sum(high.like(1.0), r)
    return scale_by_power_of_two(head + (error + tail), integer)


@formula(FLOATING, also=("expit",))
@shared
def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)). Never exp of a positive number, which would lose results near 0."""
    form = FORMATS[x.kind]
    size = absolute(x)
    integer, r, rest = reduce(select(size > -form.exp_underflow, form.exp_underflow, -size))
    head, head_error = fast_two_sum(x.like(1.0), exp_minus_one(r, rest))
    e = scale_by_power_of_two(head, integer)
    total, total_error = fast_two_sum(x.like(1.0), e)
    result = select(x < 0, e, 1.0) / total
    # First-order corrections of the two roundings: 2.3 ulp without, 1 with.
    inverse = select(x < 0, 1.0 - result, result)
    correction = fma(-total_error, inverse, select(x < 0, head_error, 0.0))
    return fma(result, correction, result)


def _hyperbolic(x: Value) -> tuple[Value, Value, Value, Value]:
    """For |x| = k log 2 + r: sinh(r), cosh(r) - 1, and sinh and cosh of k log 2, over four."""
    form = FORMATS[x.kind]
    limit = form.exp_overflow + 1  # sinh overflows half a unit after exp
    size = absolute(x)
    integer, r, rest = reduce(select(size > limit, limit, size))
    square = r * r
    sinh = r + fma(r * square, polynomial(square, form.sinh_tail), rest)
    cosh = square * fma(square, polynomial(square, form.cosh_tail), 0.5)
    growing = power_of_two(integer, -3)
    # 2**-k is below the last place of 2**k long before it would be subnormal.
    capped = select(integer > 100, 100, integer)
    shrinking = power_of_two(-capped, -3)
    return sinh, cosh, growing - shrinking, growing + shrinking


@formula(FLOATING)
@shared
def sinh(x: Value) -> Value:
    s, c, big_s, big_c = _hyperbolic(x)
    result = (big_s + fma(big_s, c, big_c * s)) * 4.0
    is_small = absolute(x) < 2.0 ** -(FORMATS[x.kind].mantissa_bits // 2 + 2)
    return select(is_small, x, copy_sign(result, x))


@formula(FLOATING)
@shared
def cosh(x: Value) -> Value:
    s, c, big_s, big_c = _hyperbolic(x)
    return (big_c + fma(big_c, c, big_s * s)) * 4.0


@formula(FLOATING)
@shared
def tanh(x: Value) -> Value:
    """(exp(2|x|) - 1) / (exp(2|x|) + 1), with the rounding errors of both carried along."""
    form = FORMATS[x.kind]
    size = absolute(x)
    limit = 0.4 * (form.mantissa_bits + 3)  # 1 - tanh is below half a last place from here
    integer, r, rest = reduce(select(size > limit, limit, size) * 2.0)
    scale = power_of_two(integer)
    tail = fma(r * r, polynomial(r, form.exp_tail), rest)
    p, p_low = fast_two_sum(r, tail)
    whole = scale - 1.0
    # For k = 0 the first is zero; for k > 0 it is the larger.
    numerator, error = fast_two_sum(whole, scale * p)
    error = fma(p_low, scale, error)
    denominator = numerator + 2.0
    error_2 = select(
        numerator > 2.0, (numerator - denominator) + 2.0, (2.0 - denominator) + numerator
    )
    inverse = 1.0 / denominator
    quotient = numerator * inverse
    residual, residual_low = product(quotient, denominator)
    left = ((numerator - residual) - residual_low) + fma(-quotient, error + error_2, error)
    return copy_sign(fma(left, inverse, quotient), x)
