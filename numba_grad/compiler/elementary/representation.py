"""How numbers are written: exponents and neighbours of floats, divisors and bits of integers."""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.basic import absolute_signed, is_nan
from numba_grad.compiler.elementary.exponential import (
    FORMATS,
    clamp,
    power_of_two,
    round_to_integer,
)
from numba_grad.compiler.elementary.registry import (
    FLOATING,
    SIGNED,
    UNSIGNED,
    WIDEST_INTEGER,
    formula,
)
from numba_grad.compiler.elementary.scalar import (
    Definition,
    Value,
    absolute,
    bits,
    call_defined,
    copy_sign,
    divide_unsigned,
    from_bits,
    select,
)


@formula(FLOATING, name="nextafter")
def next_after(x: Value, y: Value) -> Value:
    """The neighbour of x on the side of y; y where they are equal."""
    word = bits(x)
    is_outward = (x < y) ^ (x < 0)
    neighbour = from_bits(word + select(is_outward, word.like(1), -1))
    least = copy_sign(from_bits(word.like(1)), y)
    result = select(x == y, y, select(x == 0, least, neighbour))
    return select(is_nan(x) | is_nan(y), x + y, result)


@formula(FLOATING)
def ldexp(x: Value, exponent: Value) -> Value:
    """x * 2**exponent, rounded once; the exponent is a whole number, as a float.

    Factors that are powers of two. Those below 1 leave at least the digits of one number for the
    last of them, which alone may then round to a subnormal number.
    """
    form = FORMATS[x.kind]
    high, low = form.exponent_bias, 1 - form.exponent_bias
    down = low + form.mantissa_bits + 1
    # Enough from the least subnormal number to the largest, and back.
    k = clamp(exponent, 3.0 * low, 3.0 * high)
    for _ in range(2):
        is_high, is_low = k > high, k < low
        x = x * select(is_high, x.like(2.0**high), select(is_low, x.like(2.0**down), 1.0))
        k = k - select(is_high, x.like(high), select(is_low, x.like(down), 0.0))
    _, integer = round_to_integer(clamp(k, low, high))
    return x * power_of_two(integer)


@formula(FLOATING)
def frexp_exponent(x: Value) -> Value:
    """k with |x| = 2**k m and m in [1/2, 1), as a float; 0 for 0, infinity and NaN."""
    form = FORMATS[x.kind]
    size = absolute(x)
    is_subnormal = size < 2.0 ** (1 - form.exponent_bias)
    raised = form.mantissa_bits + 2
    word = bits(select(is_subnormal, size * 2.0**raised, size)) >> form.mantissa_bits
    # An integer to a floating number: in the mantissa of 2**52.
    anchor = form.exponent_bias + form.mantissa_bits
    k = from_bits(word | (anchor << form.mantissa_bits))
    offset = 2.0**form.mantissa_bits + form.exponent_bias - 1
    k = k - select(is_subnormal, x.like(offset + raised), offset)
    return select((size > 0) & (size < math.inf), k, 0.0)


# Integers


_GREATEST_COMMON_DIVISOR = Definition(
    "numba_grad.gcd",
    """\
define internal i64 @numba_grad.gcd(i64 %x, i64 %y) noinline nounwind memory(none) {
entry:
  br label %test
test:
  %a = phi i64 [ %x, %entry ], [ %b, %body ]
  %b = phi i64 [ %y, %entry ], [ %rest, %body ]
  %done = icmp eq i64 %b, 0
  br i1 %done, label %exit, label %body
body:
  %rest = urem i64 %a, %b
  br label %test
exit:
  ret i64 %a
}
""",
)


@formula(UNSIGNED, name="gcd", computed_in=WIDEST_INTEGER)
def gcd_unsigned(x: Value, y: Value) -> Value:
    """Of 64-bit integers, by Euclid; gcd(x, 0) = x."""
    return call_defined(_GREATEST_COMMON_DIVISOR, x, y)


@formula(SIGNED, name="gcd")
def gcd_signed(x: Value, y: Value) -> Value:
    return gcd_unsigned(absolute_signed(x), absolute_signed(y))


@formula(UNSIGNED, name="lcm", computed_in=WIDEST_INTEGER)
def lcm_unsigned(x: Value, y: Value) -> Value:
    """Of 64-bit integers, wrapping around; 0 if one of them is 0."""
    divisor = gcd_unsigned(x, y)
    return divide_unsigned(x, select(divisor == 0, 1, divisor))[0] * y


@formula(SIGNED, name="lcm")
def lcm_signed(x: Value, y: Value) -> Value:
    return lcm_unsigned(absolute_signed(x), absolute_signed(y))


@formula(UNSIGNED, name="bitwise_count")
def count_bits(x: Value) -> Value:
    return x.trace.function("ctpop", x)


@formula(SIGNED, name="bitwise_count")
def count_bits_signed(x: Value) -> Value:
    """Of the absolute value, as in NumPy."""
    return count_bits(absolute_signed(x))
