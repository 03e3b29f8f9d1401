"""Functions without a series: signs, comparisons, rounding, and division with remainder.

Results are NumPy's, bit for bit. Integer division by zero gives 0 and never traps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numba_grad.compiler.elementary.llvm_writer import defined
from numba_grad.compiler.elementary.registry import (
    BOOLEAN,
    COMPLEX,
    FLOATING,
    SIGNED,
    UNSIGNED,
    formula,
)
from numba_grad.compiler.elementary.scalar import (
    BOOL,
    FLOAT32,
    INT64,
    Results,
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
    repeated,
    round_down,
    round_to_zero,
    select,
    shared,
    shift_right_signed,
)


@formula(FLOATING, name="isnan")
def is_nan(x: Value) -> Value:
    return x != x


@formula(FLOATING, name="isinf")
def is_infinite(x: Value) -> Value:
    return absolute(x) == math.inf


@formula(FLOATING, name="isfinite")
def is_finite(x: Value) -> Value:
    return absolute(x) < math.inf


@formula(FLOATING)
def sign(x: Value) -> Value:
    # NaN stays NaN, and -0.0 becomes 0.0.
    return select(x > 0, 1.0, select(x < 0, -1.0, select(x == 0, 0.0, x)))


@formula(FLOATING)
def maximum(x: Value, y: Value) -> Value:
    return select((x >= y) | (x != x), x, y)


@formula(FLOATING)
def minimum(x: Value, y: Value) -> Value:
    return select((x <= y) | (x != x), x, y)


@formula(FLOATING)
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


@formula(FLOATING)
def remainder(x: Value, y: Value) -> Value:
    """The remainder with the sign of y."""
    result = fmod(x, y)
    result = select((result != 0) & ((result < 0) ^ (y < 0)), result + y, result)
    return select(result == 0, copy_sign(result, y), result)


@formula(FLOATING)
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


@formula(FLOATING, SIGNED, UNSIGNED)
def square(x: Value) -> Value:
    return x * x


@formula(FLOATING)
def reciprocal(x: Value) -> Value:
    return 1.0 / x


# Integers of any width.


@formula(SIGNED, name="absolute")
def absolute_signed(x: Value) -> Value:
    return select(x < 0, -x, x)


@formula(SIGNED, name="sign")
def sign_signed(x: Value) -> Value:
    return select(x > 0, 1, select(x < 0, x.like(-1), 0))


@formula(UNSIGNED, name="sign")
def sign_unsigned(x: Value) -> Value:
    return select(x == 0, x, 1)


@formula(SIGNED, UNSIGNED, name="floor")
@formula(SIGNED, UNSIGNED, name="ceil")
@formula(SIGNED, UNSIGNED, name="trunc")
@formula(SIGNED, UNSIGNED, name="rint")
@formula(UNSIGNED, name="absolute")
@formula(FLOATING, name="real")
@formula(FLOATING, SIGNED, UNSIGNED, name="conjugate")
def unchanged(x: Value) -> Value:
    return x


@formula(SIGNED, name="maximum")
def maximum_signed(x: Value, y: Value) -> Value:
    return select(x > y, x, y)


@formula(SIGNED, name="minimum")
def minimum_signed(x: Value, y: Value) -> Value:
    return select(x < y, x, y)


@formula(UNSIGNED, name="maximum")
def maximum_unsigned(x: Value, y: Value) -> Value:
    return select(is_less_unsigned(x, y), y, x)


@formula(UNSIGNED, name="minimum")
def minimum_unsigned(x: Value, y: Value) -> Value:
    return select(is_less_unsigned(x, y), x, y)


def _divide_to_zero(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder; (0, 0) for y == 0, and no trap for the least integer over -1."""
    safe = select((y == 0) | (y == -1), 1, y)
    quotient, rest = divide_signed(x, safe)
    quotient = select(y == -1, -x, quotient)
    return select(y == 0, 0, quotient), rest


@formula(SIGNED, name="fmod")
def fmod_signed(x: Value, y: Value) -> Value:
    return _divide_to_zero(x, y)[1]


@formula(SIGNED, name="remainder")
def remainder_signed(x: Value, y: Value) -> Value:
    rest = _divide_to_zero(x, y)[1]
    return select((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)


@formula(SIGNED, name="floor_divide")
def floor_divide_signed(x: Value, y: Value) -> Value:
    quotient, rest = _divide_to_zero(x, y)
    return select((rest != 0) & ((rest < 0) ^ (y < 0)), quotient - 1, quotient)


@formula(UNSIGNED, name="fmod")
@formula(UNSIGNED, name="remainder")
def remainder_unsigned(x: Value, y: Value) -> Value:
    return select(y == 0, 0, divide_unsigned(x, select(y == 0, 1, y))[1])


@formula(UNSIGNED, name="floor_divide")
def floor_divide_unsigned(x: Value, y: Value) -> Value:
    return select(y == 0, 0, divide_unsigned(x, select(y == 0, 1, y))[0])


@formula(SIGNED, name="reciprocal")
def reciprocal_signed(x: Value) -> Value:
    return _divide_to_zero(x.like(1), x)[0]


@formula(UNSIGNED, name="reciprocal")
def reciprocal_unsigned(x: Value) -> Value:
    return floor_divide_unsigned(x.like(1), x)


@formula(SIGNED, UNSIGNED, BOOLEAN)
def invert(x: Value) -> Value:
    return ~x


def _width(x: Value) -> int:
    return int(x.kind[1:])


@formula(SIGNED, UNSIGNED)
def left_shift(x: Value, y: Value) -> Value:
    """0 for shifts by all bits or more, and for negative ones."""
    is_within = is_less_unsigned(y, y.like(_width(x)))
    return select(is_within, x << select(is_within, y, 0), 0)


@formula(SIGNED, name="right_shift")
def right_shift_signed(x: Value, y: Value) -> Value:
    """0 or -1 for shifts by all bits or more, and for negative ones."""
    last = _width(x) - 1
    return shift_right_signed(x, select(is_less_unsigned(y, y.like(last)), y, last))


@formula(UNSIGNED, name="right_shift")
def right_shift_unsigned(x: Value, y: Value) -> Value:
    is_within = is_less_unsigned(y, y.like(_width(x)))
    return select(is_within, x >> select(is_within, y, 0), 0)


def integer_power(x: Value, y: Value) -> Value:
    def step(base: Value, left: Value, result: Value) -> Results:
        halved = left >> 1
        after = result * select((left & 1) != 0, base, 1)
        return (base * base, halved, after), halved == 0

    return repeated(step, x, y, x.like(1))[2]


@formula(UNSIGNED, name="power")
def power_unsigned(x: Value, y: Value) -> Value:
    """Of 64-bit integers, wrapping around."""
    return call_defined(defined(integer_power, kind=INT64), x, y)


@formula(SIGNED, name="power")
def power_signed(x: Value, y: Value) -> Value:
    """Negative exponents, which NumPy refuses, give the power truncated to an integer."""
    result = power_unsigned(x, select(y < 0, 0, y))
    inverse = select(x == -1, select((y & 1) == 0, x.like(1), -1), select(x == 1, x, 0))
    return select(y < 0, inverse, result)


# Integers are always finite numbers.


@formula(SIGNED, UNSIGNED, name="isnan")
@formula(SIGNED, UNSIGNED, name="isinf")
def never(x: Value) -> Value:
    return x.trace.constant(BOOL, False)


@formula(SIGNED, UNSIGNED, name="isfinite")
def always(x: Value) -> Value:
    return x.trace.constant(BOOL, True)


@formula(FLOATING, name="imag")
def no_imaginary_part(x: Value) -> Value:
    return x.like(0.0)


@formula(FLOATING)
def divide(x: Value, y: Value) -> Value:
    return x / y


# Truth values of numbers of any family.


def _logical(name: str, arity: int, combine: Callable[..., Value]) -> None:
    def of_numbers(*arguments: Value) -> Value:
        return combine(*(is_true(x) for x in arguments))

    def of_complex(*parts: Value) -> Value:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return combine(*(is_true(x) | is_true(y) for x, y in pairs))

    formula(BOOLEAN, SIGNED, UNSIGNED, FLOATING, name=name, arity=arity)(of_numbers)
    formula(COMPLEX, name=name, arity=arity)(of_complex)


_logical("logical_not", 1, lambda x: ~x)
_logical("logical_and", 2, lambda x, y: x & y)
_logical("logical_or", 2, lambda x, y: x | y)
_logical("logical_xor", 2, lambda x, y: x ^ y)
