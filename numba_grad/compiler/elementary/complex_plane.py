"""Functions of complex numbers, as pairs of real and imaginary part. Formulas have no branches.

Zeros, infinities and NaN give the values of C99's Annex G, which are NumPy's. Where it leaves the
sign of a part open, the formula has it as it comes.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary import exponential, logarithm, trigonometric
from numba_grad.compiler.elementary.exponential import FORMATS
from numba_grad.compiler.elementary.llvm_writer import defined
from numba_grad.compiler.elementary.logarithm import log_of_sum, split_sum
from numba_grad.compiler.elementary.registry import COMPLEX, FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    FLOAT32,
    FLOAT64,
    Value,
    absolute,
    bits,
    c_function,
    copy_sign,
    either,
    fma,
    from_bits,
    product,
    rarely,
    select,
    shared,
    shared_of_pairs,
    square_root,
    two_sum,
)

Pair = tuple[Value, Value]


@formula(COMPLEX)
def real(x: Value, y: Value) -> Value:
    return x


@formula(COMPLEX)
def imag(x: Value, y: Value) -> Value:
    return y


@formula(COMPLEX)
def conjugate(x: Value, y: Value) -> Pair:
    return x, -y


@formula(FLOATING)
def make_complex(x: Value, y: Value) -> Pair:
    return x, y


@formula(COMPLEX, name="isnan")
def is_nan(x: Value, y: Value) -> Value:
    return (x != x) | (y != y)


@formula(COMPLEX, name="isinf")
def is_infinite(x: Value, y: Value) -> Value:
    return (absolute(x) == math.inf) | (absolute(y) == math.inf)


@formula(COMPLEX, name="isfinite")
def is_finite(x: Value, y: Value) -> Value:
    return (absolute(x) < math.inf) & (absolute(y) < math.inf)


# The order of complex numbers, NumPy's: by real parts, then imaginary parts. Comparisons with a
# number that has a NaN in either part are false.


@formula(COMPLEX)
def less(x: Value, y: Value, u: Value, v: Value) -> Value:
    return _are_parts_ordered(x < u, y, v) | ((x == u) & (y < v))


@formula(COMPLEX)
def less_equal(x: Value, y: Value, u: Value, v: Value) -> Value:
    return _are_parts_ordered(x < u, y, v) | ((x == u) & (y <= v))


@formula(COMPLEX)
def greater(x: Value, y: Value, u: Value, v: Value) -> Value:
    return less(u, v, x, y)


@formula(COMPLEX)
def greater_equal(x: Value, y: Value, u: Value, v: Value) -> Value:
    return less_equal(u, v, x, y)


def _are_parts_ordered(is_decided: Value, y: Value, v: Value) -> Value:
    return is_decided & (y == y) & (v == v)


@formula(COMPLEX)
def maximum(x: Value, y: Value, u: Value, v: Value) -> Pair:
    """The first of equals, and of those with a NaN."""
    stays = is_nan(x, y) | greater_equal(x, y, u, v)
    return select(stays, x, u), select(stays, y, v)


@formula(COMPLEX)
def minimum(x: Value, y: Value, u: Value, v: Value) -> Pair:
    stays = is_nan(x, y) | less_equal(x, y, u, v)
    return select(stays, x, u), select(stays, y, v)


# Binary exponents beyond which squares overflow, or lose digits to underflow; and how far to move.
_HUGE = {FLOAT64: 500, FLOAT32: 60}
_TINY = {FLOAT64: -450, FLOAT32: -50}
_DOWN = {FLOAT64: 600, FLOAT32: 70}
_UP = {FLOAT64: 600, FLOAT32: 100}


def _scale(x: Value, y: Value) -> tuple[Value, Value, Value]:
    """|x| and |y| times 2**-e, whose squares neither overflow nor vanish, and e."""
    kind = x.kind
    x, y = absolute(x), absolute(y)
    largest = select(x > y, x, y)
    is_huge, is_tiny = largest > 2.0 ** _HUGE[kind], largest < 2.0 ** _TINY[kind]
    factor = select(
        is_huge, x.like(2.0 ** -_DOWN[kind]), select(is_tiny, x.like(2.0 ** _UP[kind]), 1.0)
    )
    e = select(is_huge, x.like(_DOWN[kind]), select(is_tiny, x.like(-_UP[kind]), 0.0))
    return x * factor, y * factor, e


def _unscaled(x: Value, e: Value, root: int = 1) -> Value:
    """x times 2**(e/root), for an e from `_scale`."""
    down, up = 2.0 ** (_DOWN[x.kind] // root), 2.0 ** -(_UP[x.kind] // root)
    return x * select(e > 0, x.like(down), select(e < 0, x.like(up), 1.0))


def _sum_of_squares(x: Value, y: Value) -> Pair:
    """x*x + y*y and its rounding error."""
    x_square, x_low = product(x, x)
    y_square, y_low = product(y, y)
    total, error = two_sum(x_square, y_square)
    return total, error + (x_low + y_low)


def _length(x: Value, y: Value) -> Value:
    """sqrt(x*x + y*y) of what `_scale` gives."""
    total, error = _sum_of_squares(x, y)
    root = square_root(total)
    square, low = product(root, root)
    # One step of Newton's for what the rounded sum and root lost: less than two units in the last
    # place, so that of the factor few digits count.
    lost = ((total - square) - low) + error
    return select(total > 0, fma(lost, 0.5 * _rough_reciprocal(root), root), root)


# Less the bits of x these are those of 1 / x, but for a twentieth.
_BITS_OF_RECIPROCAL = {FLOAT64: 0x7FDE623822FC16E6, FLOAT32: 0x7EF311C7}


def _rough_reciprocal(x: Value) -> Value:
    """1 / x within 0.3 %, for normal x > 0, without a division."""
    word = bits(x)
    guess = from_bits(word.like(_BITS_OF_RECIPROCAL[x.kind]) - word)
    return guess * (2.0 - x * guess)


@formula(COMPLEX, name="absolute")
@formula(FLOATING)
@shared
def hypot(x: Value, y: Value) -> Value:
    a, b, e = _scale(x, y)
    return select(is_infinite(x, y), math.inf, _unscaled(_length(a, b), e))


@formula(COMPLEX)
def sign(x: Value, y: Value) -> Pair:
    """z / |z|, 0 for 0; the direction of an infinite part beside a finite one."""
    a, b, _ = _scale(x, y)
    size = _length(a, b)  # scaled, so that that of a finite number is finite
    is_zero = size == 0
    is_flat, is_steep = (a == math.inf) & (b < math.inf), (b == math.inf) & (a < math.inf)
    real_part = copy_sign(select(is_flat, 1.0, a / size), x)
    imaginary_part = copy_sign(select(is_steep, 1.0, b / size), y)
    return (
        select(is_zero | is_steep, 0.0, real_part),
        select(is_zero | is_flat, 0.0, imaginary_part),
    )


@formula(COMPLEX)
@shared_of_pairs
def divide(x: Value, y: Value, u: Value, v: Value) -> Pair:
    """(x + i y) / (u + i v), scaled by the larger part of the divisor (Smith), as in NumPy."""
    is_swapped = absolute(v) > absolute(u)
    larger, smaller = select(is_swapped, v, u), select(is_swapped, u, v)
    ratio = smaller / larger
    divisor = fma(smaller, ratio, larger)
    a, b = select(is_swapped, y, x), select(is_swapped, x, y)
    real_part = fma(b, ratio, a) / divisor
    # (y - x v/u) or (y u/v - x): with these signs, differences of equals are +0.
    a, b = select(is_swapped, y, -x), select(is_swapped, -x, y)
    imaginary_part = fma(a, ratio, b) / divisor
    is_zero = (u == 0) & (v == 0)
    return (
        select(is_zero, x / absolute(u), real_part),
        select(is_zero, y / absolute(u), imaginary_part),
    )


@formula(COMPLEX)
def reciprocal(x: Value, y: Value) -> Pair:
    is_swapped = absolute(y) > absolute(x)
    larger, smaller = select(is_swapped, y, x), select(is_swapped, x, y)
    ratio = smaller / larger
    divisor = fma(smaller, ratio, larger)
    major, minor = 1.0 / divisor, ratio / divisor
    # 0 gives NaN in both parts, as in NumPy.
    return select(is_swapped, minor, major), -select(is_swapped, major, minor)


@formula(COMPLEX)
def square(x: Value, y: Value) -> Pair:
    # Adding 0 makes the -0 of (-1 + i)**2 the 0 of x*x - y*y.
    return (x - y) * (x + y) + 0.0, x * y * 2.0


@formula(COMPLEX)
@shared_of_pairs
def exp(x: Value, y: Value) -> Pair:
    # Above `bend` the result may be finite although exp(x) is not.
    bend = FORMATS[x.kind].exp_overflow - 3.0
    is_large = x > bend
    growth = exponential.exp(select(is_large, x - bend, x))
    factor = select(is_large, x.like(math.exp(bend)), 1.0)
    real_part = growth * trigonometric.cos(y) * factor
    imaginary_part = select(y == 0, y, growth * trigonometric.sin(y) * factor)
    # In an unknown direction: 0 for x = -inf, a real part of unknown sign for x = inf.
    is_lost = ~(absolute(y) < math.inf) & (absolute(x) == math.inf)
    real_part = select(is_lost, growth, real_part)
    return real_part, select(is_lost & (x < 0), copy_sign(x.like(0.0), y), imaginary_part)


@formula(COMPLEX)
@shared_of_pairs
def log(x: Value, y: Value) -> Pair:
    a, b, e = _scale(x, y)
    total, error = _sum_of_squares(a, b)
    k, f = split_sum(total, error)
    size = log_of_sum(k + e * 2.0, f) * 0.5
    size = select(total < math.inf, size, total)
    size = select(total > 0, size, select(total == 0, -math.inf, total))
    size = select(is_infinite(x, y), math.inf, size)
    return size, trigonometric.atan2(y, x)


@formula(COMPLEX)
@shared_of_pairs
def sqrt(x: Value, y: Value) -> Pair:
    a, b, e = _scale(x, y)
    total, _ = _sum_of_squares(a, b)
    # t*t = (|x| + |z|) / 2, and the other part is y / (2 t), of a y that scaling may make 0.
    t = _unscaled(square_root((a + square_root(total)) * 0.5), e, root=2)
    other = select(t == 0, 0.0, absolute(y) / (t + t))
    is_left = x < 0
    real_part = select(is_left, other, t)
    imaginary_part = select(is_left, t, other)
    # sqrt(-inf + iy) = 0 + i inf, sqrt(inf + iy) = inf + i0, sqrt(x + i inf) = inf + i inf
    is_far = absolute(x) == math.inf
    zero = absolute(y) * 0.0  # or NaN
    real_part = select(is_far, select(is_left, zero, math.inf), real_part)
    imaginary_part = select(is_far, select(is_left, x.like(math.inf), zero), imaginary_part)
    is_high = absolute(y) == math.inf
    real_part = select(is_high, math.inf, real_part)
    imaginary_part = select(is_high, math.inf, imaginary_part)
    return real_part, copy_sign(imaginary_part, y)


# cos y and sin y are NaN where y is NaN or infinite: an unknown direction, of which 0 and infinity
# know nothing.


def _below_overflow(x: Value) -> Pair:
    """What has an exponential below overflow, and the factor that is missing: beside sines and
    cosines, sinh(x) and cosh(x) may be infinite although their products are not."""
    overflow = FORMATS[x.kind].exp_overflow
    shift = overflow - 33.0  # leaves so much that sinh and cosh are half of an exponential
    is_large = absolute(x) > overflow - 3.0
    rest = select(is_large, x - copy_sign(x.like(shift), x), x)
    return rest, select(is_large, x.like(math.exp(shift)), 1.0)


@formula(COMPLEX)
@shared_of_pairs
def sinh(x: Value, y: Value) -> Pair:
    cosine = trigonometric.cos(y)
    is_known = (x == 0) | (absolute(x) == math.inf)
    cosine = select(is_known & (cosine != cosine), 1.0, cosine)
    rest, factor = _below_overflow(x)
    imaginary_part = exponential.cosh(rest) * trigonometric.sin(y) * factor
    return exponential.sinh(rest) * cosine * factor, select(y == 0, y, imaginary_part)


@formula(COMPLEX)
@shared_of_pairs
def cosh(x: Value, y: Value) -> Pair:
    cosine, sine = trigonometric.cos(y), trigonometric.sin(y)
    cosine = select((absolute(x) == math.inf) & (cosine != cosine), 1.0, cosine)
    sine = select((x == 0) & (sine != sine), 1.0, sine)
    rest, factor = _below_overflow(x)
    growth = select(y == 0, copy_sign(x.like(1.0), x), exponential.sinh(rest))
    return exponential.cosh(rest) * cosine * factor, growth * sine * factor


@formula(COMPLEX)
@shared_of_pairs
def tanh(x: Value, y: Value) -> Pair:
    # Kahan: with t = tan y and s = sinh x, nothing cancels.
    form = FORMATS[x.kind]
    limit = 0.4 * (form.mantissa_bits + 3)
    clamped = exponential.clamp(x, -limit, limit)
    t = trigonometric.tan(y)
    s = exponential.sinh(clamped)
    beta = fma(t, t, 1.0)
    rho = square_root(fma(s, s, 1.0))
    divisor = fma(beta, s * s, 1.0)
    near_real, near_imaginary = beta * rho * s / divisor, t / divisor
    # Far out: 1, and an imaginary part of 4 sin y cos y exp(-2|x|).
    is_far = absolute(x) >= limit
    slope = trigonometric.sin(y) * trigonometric.cos(y) * 4.0
    far_imaginary = slope * exponential.exp(absolute(x) * -2.0)
    # An unknown direction counts neither at 0 nor at infinity. There the standard of array
    # libraries has the sign of y, where C99 has that of sin 2y.
    far_imaginary = select(absolute(x) == math.inf, copy_sign(x.like(0.0), y), far_imaginary)
    far_real = fma(far_imaginary, 0.0, copy_sign(x.like(1.0), x))
    real_part = select(is_far, far_real, select(x == 0, x, near_real))
    imaginary_part = select(is_far, far_imaginary, near_imaginary)
    return real_part, select(y == 0, y, imaginary_part)


# sin(z) = -i sinh(i z), cos(z) = cosh(i z), tan(z) = -i tanh(i z), with i z = -y + i x.


@formula(COMPLEX)
def sin(x: Value, y: Value) -> Pair:
    real_part, imaginary_part = sinh(-y, x)
    return imaginary_part, -real_part


@formula(COMPLEX)
def cos(x: Value, y: Value) -> Pair:
    return cosh(-y, x)


@formula(COMPLEX)
def tan(x: Value, y: Value) -> Pair:
    real_part, imaginary_part = tanh(-y, x)
    return imaginary_part, -real_part


@formula(COMPLEX)
def power(x: Value, y: Value, u: Value, v: Value) -> Pair:
    """exp((u + i v) log(x + i y)). 0 to a power with positive real part is 0; to 0, all is 1."""
    size, angle = log(x, y)
    # A real exponent does not turn 0 * inf into NaN.
    turn = select(v == 0, 0.0, size * v)
    real_part, imaginary_part = exp(size * u - angle * v, turn + angle * u)
    is_zero = (x == 0) & (y == 0)
    real_part = select(is_zero, select(u > 0, x.like(0.0), math.nan), real_part)
    imaginary_part = select(is_zero, select(u > 0, x.like(0.0), math.nan), imaginary_part)
    is_one = (u == 0) & (v == 0)
    return select(is_one, 1.0, real_part), select(is_one, 0.0, imaginary_part)


@formula(COMPLEX)
def exp2(x: Value, y: Value) -> Pair:
    return exp(x * math.log(2), y * math.log(2))


@formula(COMPLEX)
def expm1(x: Value, y: Value) -> Pair:
    # exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin(y/2)**2, but for huge or infinite x
    half = trigonometric.sin(y * 0.5)
    # Adding 0: expm1(-0 + i0) is 0 + i0 in the standard of array libraries.
    near = fma(exponential.expm1(x), trigonometric.cos(y), 0.0) - half * half * 2.0
    real_part, imaginary_part = exp(x, y)
    is_far = absolute(x) > FORMATS[x.kind].mantissa_bits
    return select(is_far, real_part - 1.0, near), imaginary_part


@formula(COMPLEX)
def log1p(x: Value, y: Value) -> Pair:
    # |1 + z|**2 - 1 = x (2 + x) + y*y, without the cancellation of 1 + z; for large z, log(z).
    square, square_low = product(y, y)
    linear, linear_low = product(x, x + 2.0)
    total, error = two_sum(linear, square)
    near = logarithm.log1p(total + (error + (linear_low + square_low))) * 0.5
    real_part, imaginary_part = log(x + 1.0, y)
    is_near = (absolute(x) < 0.5) & (absolute(y) < 0.5)
    return select(is_near, near, real_part), imaginary_part


@formula(COMPLEX)
def log2(x: Value, y: Value) -> Pair:
    real_part, imaginary_part = log(x, y)
    return real_part * (1 / math.log(2)), imaginary_part * (1 / math.log(2))


@formula(COMPLEX)
def log10(x: Value, y: Value) -> Pair:
    real_part, imaginary_part = log(x, y)
    return real_part * (1 / math.log(10)), imaginary_part * (1 / math.log(10))


def multiply(x: Value, y: Value, u: Value, v: Value) -> Pair:
    return x * u - y * v, x * v + y * u


def _zero_for_zero(x: Value, y: Value, factor: Pair) -> Pair:
    """(x + i y) times a factor, and 0 for 0 times all but NaN."""
    is_zero = (x == 0) & (y == 0) & ~is_nan(*factor)
    real_part, imaginary_part = multiply(x, y, *factor)
    return select(is_zero, 0.0, real_part), select(is_zero, 0.0, imaginary_part)


@formula(COMPLEX)
def xlogy(x: Value, y: Value, u: Value, v: Value) -> Pair:
    return _zero_for_zero(x, y, log(u, v))


@formula(COMPLEX)
def xlog1py(x: Value, y: Value, u: Value, v: Value) -> Pair:
    return _zero_for_zero(x, y, log1p(u, v))


@formula(COMPLEX)
def sigmoid(x: Value, y: Value) -> Pair:
    """1 / (1 + exp(-z)). Never exp of a number with positive real part."""
    is_left = x < 0
    real_part, imaginary_part = exp(-absolute(x), select(is_left, y, -y))
    numerator = select(is_left, real_part, 1.0), select(is_left, imaginary_part, 0.0)
    return divide(*numerator, real_part + 1.0, imaginary_part)


# The inverse functions, after Kahan: products of square roots, exact on the branch cuts.

# Selects are next to infinity only, and for imaginary numbers, whose real parts are known, NaN or
# not. They do not wait for results: the loops have little else to do while one comes.


@formula(COMPLEX)
@shared_of_pairs
def asin(x: Value, y: Value) -> Pair:
    a, b = sqrt(1.0 - x, -y)
    c, d = sqrt(1.0 + x, y)
    is_wide = absolute(x) == math.inf
    across = select(is_wide, absolute(y), a * c - b * d)
    height = select(is_wide, copy_sign(x.like(math.inf), y), a * d - b * c)
    return select(x == 0, x, trigonometric.atan2(x, across)), logarithm.asinh(height)


@formula(COMPLEX)
@shared_of_pairs
def acos(x: Value, y: Value) -> Pair:
    a, b = sqrt(1.0 - x, -y)
    c, d = sqrt(1.0 + x, y)
    # Twice the angle of the roots; where y is infinite, so is a, and the angle of z is the result.
    is_high = absolute(y) == math.inf
    angle = trigonometric.atan2(a, select(is_high, x, c)) * select(is_high, x.like(1.0), 2.0)
    height = select(absolute(x) == math.inf, copy_sign(x.like(math.inf), -y), c * b - d * a)
    return select(x == 0, math.pi / 2, angle), logarithm.asinh(height)


@formula(COMPLEX)
def acosh(x: Value, y: Value) -> Pair:
    # i acos z or -i acos z, whichever is on the right
    real_part, imaginary_part = acos(x, y)
    return absolute(imaginary_part), copy_sign(real_part, y)


def far_atanh(x: Value, y: Value) -> Value:
    """The real part of atanh(x + iy), for x, y >= 0: where the square of |z| overflows, x / |z|**2;
    or else where x = 1 and the square of y vanishes: log(2/y) / 2."""

    def of_large() -> Value:
        is_wide = x > y
        longer, shorter = select(is_wide, x, y), select(is_wide, y, x)
        ratio = shorter / longer
        return x / longer / (ratio * ratio + 1.0) / longer

    return either(x + y > 2.0, of_large, lambda: (math.log(2.0) - c_function("log", y)) * 0.5)


@formula(COMPLEX)
@shared_of_pairs
def atanh(x: Value, y: Value) -> Pair:
    # Odd: of |x|, or the quotient would be close to -1.
    size, height = absolute(x), absolute(y)
    across = 1.0 - size
    square = fma(across, across, y * y)
    is_large = size + height > 2.0 ** _HUGE[x.kind]
    is_far = is_large | (square < 2.0 ** (2 * _TINY[x.kind]))
    real_part = logarithm.log1p(size * 4.0 / square) * 0.25
    far = defined(far_atanh)
    real_part = rarely(is_far, real_part, far.symbol, size, height, definition=far)
    # 1 - x*x - y*y, which cancels near the unit circle.
    total, error = _sum_of_squares(x, y)
    angle = trigonometric.atan2(y * 2.0, (1.0 - total) - error) * 0.5
    is_high = height == math.inf
    angle = select(is_large | is_high, copy_sign(x.like(math.pi / 2), y), angle)
    # That of imaginary and of infinite numbers is known, NaN or not.
    real_part = select(is_high | (size == math.inf) | (x == 0), 0.0, real_part)
    return copy_sign(real_part, x), angle


@formula(COMPLEX)
def asinh(x: Value, y: Value) -> Pair:
    real_part, imaginary_part = asin(-y, x)
    return imaginary_part, -real_part


@formula(COMPLEX)
def atan(x: Value, y: Value) -> Pair:
    real_part, imaginary_part = atanh(-y, x)
    return imaginary_part, -real_part
