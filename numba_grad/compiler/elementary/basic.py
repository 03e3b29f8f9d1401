"""Functions without a series: signs, comparisons, rounding, and division with remainder.

Results are NumPy's, bit for bit. Integer division by zero gives 0 and never traps.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    Definition,
    Value,
    absolute,
    call_defined,
    copy_sign,
    divide_signed,
    divide_unsigned,
    fma,
    is_less_unsigned,
    product,
    rarely,
    round_down,
    round_to_zero,
    select,
    shared,
    shift_right_signed,
)


def is_nan(x: Value) -> Value:
    return x != x


def is_infinite(x: Value) -> Value:
    return absolute(x) == math.inf


def is_finite(x: Value) -> Value:
    return absolute(x) < math.inf


def sign(x: Value) -> Value:
    # NaN stays NaN, and -0.0 becomes 0.0.
    return select(x > 0, 1.0, select(x < 0, -1.0, select(x == 0, 0.0, x)))


def maximum(x: Value, y: Value) -> Value:
    return select((x >= y) | (x != x), x, y)


def minimum(x: Value, y: Value) -> Value:
    return select((x <= y) | (x != x), x, y)


@shared
def fmod(x: Value, y: Value) -> Value:
    """The remainder with the sign of x, exact."""
    size, modulus = absolute(x), absolute(y)
    quotient = round_to_zero(size / modulus)
    # Exact: a multiple of the last place of y, smaller than y. The division may have rounded up to
    # the next integer; the remainder is then negative, and correct after adding y once.
    if x.trace.has_fma:
        remainder = fma(-quotient, modulus, size)
    else:
        high, low = product(quotient, modulus)
        remainder = (size - high) - low
    remainder = select(remainder < 0, remainder + modulus, remainder)
    remainder = copy_sign(select(size < modulus, size, remainder), x)
    # Beyond, the quotient has more digits than fit. The negation also catches NaN and infinity.
    is_exact = (quotient < (2.0**24 if x.kind == FLOAT32 else 2.0**53)) | (size < modulus)
    if not x.trace.has_fma:  # the error of a product underflows, or its halves overflow
        limit = 2.0**100 if x.kind == FLOAT32 else 2.0**960
        is_exact = is_exact & (modulus > 1 / limit) & (modulus < limit)
    return rarely(~is_exact, remainder, "fmod", x, y)


def remainder(x: Value, y: Value) -> Value:
    """The remainder with the sign of y."""
    result = fmod(x, y)
    result = select((result != 0) & ((result < 0) ^ (y < 0)), result + y, result)
    return select(result == 0, copy_sign(result, y), result)


def floor_divide(x: Value, y: Value) -> Value:
    # NumPy's own steps: floor(x / y) would be wrong where the division rounds up to an integer.
    result = fmod(x, y)
    quotient = (x - result) / y
    quotient = select((result != 0) & ((result < 0) ^ (y < 0)), quotient - 1.0, quotient)
    below = round_down(quotient)
    below = select(quotient - below > 0.5, below + 1.0, below)
    below = select(quotient == 0, copy_sign(x.like(0.0), x / y), below)
    return select(y == 0, x / y, below)


def is_true(x: Value) -> Value:
    return x != 0


def square(x: Value) -> Value:
    return x * x


def reciprocal(x: Value) -> Value:
    return 1.0 / x


# Integers of any width.


def absolute_signed(x: Value) -> Value:
    return select(x < 0, -x, x)


def sign_signed(x: Value) -> Value:
    return select(x > 0, 1, select(x < 0, x.like(-1), 0))


def sign_unsigned(x: Value) -> Value:
    return select(x == 0, x, 1)


def unchanged(x: Value) -> Value:
    return x


def maximum_signed(x: Value, y: Value) -> Value:
    return select(x > y, x, y)


def minimum_signed(x: Value, y: Value) -> Value:
    return select(x < y, x, y)


def maximum_unsigned(x: Value, y: Value) -> Value:
    return select(is_less_unsigned(x, y), y, x)


def minimum_unsigned(x: Value, y: Value) -> Value:
    return select(is_less_unsigned(x, y), x, y)


def _divide_to_zero(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder; (0, 0) for y == 0, and no trap for the least integer over -1."""
    safe = select((y == 0) | (y == -1), 1, y)
    quotient, rest = divide_signed(x, safe)
    quotient = select(y == -1, -x, quotient)
    return select(y == 0, 0, quotient), rest


def fmod_signed(x: Value, y: Value) -> Value:
    return _divide_to_zero(x, y)[1]


def remainder_signed(x: Value, y: Value) -> Value:
    rest = _divide_to_zero(x, y)[1]
    return select((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)


def floor_divide_signed(x: Value, y: Value) -> Value:
    quotient, rest = _divide_to_zero(x, y)
    return select((rest != 0) & ((rest < 0) ^ (y < 0)), quotient - 1, quotient)


def remainder_unsigned(x: Value, y: Value) -> Value:
    return select(y == 0, 0, divide_unsigned(x, select(y == 0, 1, y))[1])


def floor_divide_unsigned(x: Value, y: Value) -> Value:
    return select(y == 0, 0, divide_unsigned(x, select(y == 0, 1, y))[0])


def reciprocal_signed(x: Value) -> Value:
    return _divide_to_zero(x.like(1), x)[0]


def reciprocal_unsigned(x: Value) -> Value:
    return floor_divide_unsigned(x.like(1), x)


def invert(x: Value) -> Value:
    return ~x


def _width(x: Value) -> int:
    return int(x.kind[1:])


def left_shift(x: Value, y: Value) -> Value:
    """0 for shifts by all bits or more, and for negative ones."""
    is_within = is_less_unsigned(y, y.like(_width(x)))
    return select(is_within, x << select(is_within, y, 0), 0)


def right_shift_signed(x: Value, y: Value) -> Value:
    """0 or -1 for shifts by all bits or more, and for negative ones."""
    last = _width(x) - 1
    return shift_right_signed(x, select(is_less_unsigned(y, y.like(last)), y, last))


def right_shift_unsigned(x: Value, y: Value) -> Value:
    is_within = is_less_unsigned(y, y.like(_width(x)))
    return select(is_within, x >> select(is_within, y, 0), 0)


_INTEGER_POWER = Definition(
    "numba_grad.integer_power",
    """\
define internal i64 @numba_grad.integer_power(i64 %x, i64 %y) noinline nounwind memory(none) {
entry:
  br label %test
test:
  %base = phi i64 [ %x, %entry ], [ %squared, %body ]
  %left = phi i64 [ %y, %entry ], [ %halved, %body ]
  %result = phi i64 [ 1, %entry ], [ %next, %body ]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %exit, label %body
body:
  %digit = and i64 %left, 1
  %odd = icmp ne i64 %digit, 0
  %factor = select i1 %odd, i64 %base, i64 1
  %next = mul i64 %result, %factor
  %squared = mul i64 %base, %base
  %halved = lshr i64 %left, 1
  br label %test
exit:
  ret i64 %result
}
""",
)


def power_unsigned(x: Value, y: Value) -> Value:
    """Of 64-bit integers, wrapping around."""
    return call_defined(_INTEGER_POWER, x, y)


def power_signed(x: Value, y: Value) -> Value:
    """Negative exponents, which NumPy refuses, give the power truncated to an integer."""
    result = power_unsigned(x, select(y < 0, 0, y))
    inverse = select(x == -1, select((y & 1) == 0, x.like(1), -1), select(x == 1, x, 0))
    return select(y < 0, inverse, result)
