"""sin, cos, tan and their inverses.

Arguments are reduced to |r| <= pi/4 with pi/2 in three parts. That is exact enough to a bound far
beyond usual arguments; larger ones go to the C library, lane by lane.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.exponential import round_to_integer
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
    rarely,
    select,
    shared,
    square_root,
)
from numba_grad.immutable import immutable


@immutable
class _Format:
    # pi/2 in parts of full width: with a fused operation the first step is exact.
    fused_parts: tuple[float, float, float]
    fused_limit: float
    # The same in parts short enough that multiples of all but the last are exact.
    short_parts: tuple[float, float, float, float]
    short_limit: float
    # (sin(r)/r - 1) / r**2 and (cos(r) - 1 + r**2/2) / r**4, in r**2
    sin_tail: tuple[float, ...]
    cos_tail: tuple[float, ...]
    # (atan(t)/t - 1) / t**2 and (asin(t)/t - 1) / t**2, in t**2
    atan_tail: tuple[float, ...]
    asin_tail: tuple[float, ...]


_FORMATS = {
    FLOAT64: _Format(
        fused_parts=(
            float.fromhex("0x1.921fb54442d18p+0"),
            float.fromhex("0x1.1a62633145c07p-54"),
            float.fromhex("-0x1.f1976b7ed8fbcp-110"),
        ),
        fused_limit=2.0**30,
        short_parts=(
            float.fromhex("0x1.921fb54400000p+0"),
            float.fromhex("0x1.0b4611a600000p-34"),
            float.fromhex("0x1.3198a2e000000p-69"),
            float.fromhex("0x1.b839a252049c1p-104"),
        ),
        short_limit=2.0**20,
        sin_tail=(
            -0.16666666666666632,
            0.008333333333322486,
            -0.00019841269829853355,
            2.7557313705051127e-06,
            -2.5050759885833257e-08,
            1.5896886198631853e-10,
        ),
        cos_tail=(
            0.0416666666666666,
            -0.001388888888887447,
            2.4801587289666902e-05,
            -2.7557314399260275e-07,
            2.087572899249304e-09,
            -1.1359917173419734e-11,
        ),
        atan_tail=(
            -0.333333333333332,
            0.19999999999953766,
            -0.1428571428021191,
            0.11111110784128178,
            -0.09090897774476189,
            0.07692060471934743,
            -0.06663106518882361,
            0.05847904025719566,
            -0.05039356622175902,
            0.03806552251463582,
            -0.01790788291783687,
        ),
        asin_tail=(
            0.16666666666665383,
            0.07500000000342946,
            0.04464285682354491,
            0.03038195932901104,
            0.022371753573565974,
            0.017359770375299937,
            0.01388460551804873,
            0.012173234133934448,
            0.006511043930749916,
            0.019573397742038614,
            -0.016293296266421814,
            0.031958446599860184,
        ),
    ),
    FLOAT32: _Format(
        fused_parts=(
            float.fromhex("0x1.921fb6p+0"),
            float.fromhex("-0x1.777a5cp-25"),
            float.fromhex("-0x1.ee59dap-50"),
        ),
        fused_limit=2.0**17,
        short_parts=(
            float.fromhex("0x1.920000p+0"),
            float.fromhex("0x1.fb4000p-12"),
            float.fromhex("0x1.444000p-24"),
            float.fromhex("0x1.68c234p-39"),
        ),
        short_limit=2.0**12,
        sin_tail=(-0.16666655242443085, 0.008332191966474056, -0.00019518785120453686),
        cos_tail=(0.04166664555668831, -0.00138873013202101, 2.443067751300987e-05),
        atan_tail=(
            -0.33332955837249756,
            0.19977924227714539,
            -0.1387966126203537,
            0.08059294521808624,
        ),
        asin_tail=(
            0.16666753590106964,
            0.07495252043008804,
            0.0454760417342186,
            0.024152090772986412,
            0.042211808264255524,
        ),
    ),
}


@immutable
class _Reduced:
    """x = quadrant pi/2 + r, with sine and cosine of r and their rounding errors."""

    quadrant: Value
    sin: Value
    sin_low: Value
    cos: Value
    cos_low: Value
    is_large: Value  # or not finite: nothing else here holds


def _reduce(x: Value) -> _Reduced:
    form = _FORMATS[x.kind]
    has_fma = x.trace.has_fma
    first, *middle, last = form.fused_parts if has_fma else form.short_parts
    k, quadrant = round_to_integer(x, 2 / math.pi)
    # Exact: with fma, a multiple of the last place of `first` smaller than 1.
    r = fma(k, -first, x)
    rest = k * -last
    for part in middle:
        high, low = product(k, part) if has_fma else (k * part, k.like(0.0))
        shorter = r - high
        rest = rest + (((r - shorter) - high) - low)
        r = shorter
    total = r + rest
    rest = (r - total) + rest
    r = total

    z = r * r
    half = z * 0.5
    head = 1.0 - half
    tail = ((1.0 - head) - half) + fma(z * z, polynomial(z, form.cos_tail), -(r * rest))
    cos, cos_low = fast_two_sum(head, tail)
    sin, sin_low = fast_two_sum(r, fma(r * z, polynomial(z, form.sin_tail), rest * cos))
    limit = form.fused_limit if has_fma else form.short_limit
    return _Reduced(quadrant, sin, sin_low, cos, cos_low, ~(absolute(x) <= limit))


def _turned(quadrant: Value, even: Value, odd: Value) -> Value:
    """even, odd, -even, -odd in quadrants 0, 1, 2, 3."""
    value = select((quadrant & 1) == 0, even, odd)
    sign_bit = 62 if value.kind == FLOAT64 else 30
    return from_bits(bits(value) ^ ((quadrant & 2) << sign_bit))


@formula(FLOATING)
@shared
def sin(x: Value) -> Value:
    reduced = _reduce(x)
    result = _turned(reduced.quadrant, reduced.sin, reduced.cos)
    # Only here for the sign of zero.
    result = select(x == 0, x, result)
    return rarely(reduced.is_large, result, "sin", x)


@formula(FLOATING)
@shared
def cos(x: Value) -> Value:
    reduced = _reduce(x)
    result = _turned(reduced.quadrant + 1, reduced.sin, reduced.cos)
    return rarely(reduced.is_large, result, "cos", x)


@formula(FLOATING)
@shared
def tan(x: Value) -> Value:
    reduced = _reduce(x)
    is_even = (reduced.quadrant & 1) == 0
    numerator = select(is_even, reduced.sin, -reduced.cos)
    denominator = select(is_even, reduced.cos, reduced.sin)
    error = select(is_even, reduced.sin_low, -reduced.cos_low)
    error_below = select(is_even, reduced.cos_low, reduced.sin_low)
    inverse = 1.0 / denominator
    result = numerator * inverse
    back, back_low = product(result, denominator)
    left = ((numerator - back) - back_low) + fma(-result, error_below, error)
    result = fma(left, inverse, result)
    result = select(x == 0, x, result)
    return rarely(reduced.is_large, result, "tan", x)


_PI_PARTS = {
    FLOAT64: (math.pi, float.fromhex("0x1.1a62633145c07p-53")),
    FLOAT32: (float.fromhex("0x1.921fb6p+1"), float.fromhex("-0x1.777a5cp-24")),
}


def _atan_of_ratio(y: Value, x: Value) -> Value:
    """atan(y / x) in [0, pi/2] for y, x >= 0, not both 0."""
    form = _FORMATS[x.kind]
    pi, pi_low = _PI_PARTS[x.kind]
    is_steep = y > x * (math.sqrt(2) + 1)
    is_flat = y <= x * (math.sqrt(2) - 1)
    # atan(y/x) = pi/4 + atan((y - x)/(y + x)) = pi/2 + atan(-x/y)
    numerator = select(is_flat, y, select(is_steep, -x, y - x))
    denominator = select(is_flat, x, select(is_steep, y, y + x))
    t = numerator / denominator
    z = t * t
    offset = select(is_flat, x.like(0.0), select(is_steep, x.like(pi / 2), pi / 4))
    offset_low = select(is_flat, x.like(0.0), select(is_steep, x.like(pi_low / 2), pi_low / 4))
    return offset + (t + fma(t * z, polynomial(z, form.atan_tail), offset_low))


@formula(FLOATING, also=("arctan",))
def atan(x: Value) -> Value:
    size = absolute(x)
    size = select(size > 1e18, 1e18, size)  # infinity would give 0 * inf
    return copy_sign(_atan_of_ratio(size, x.like(1.0)), x)


@formula(FLOATING, also=("arctan2",))
@shared
def atan2(y: Value, x: Value) -> Value:
    width, height = absolute(x), absolute(y)
    # Sums and products must neither overflow nor lose digits below the least normal number.
    largest = select(width > height, width, height)
    huge, tiny, up = (
        (2.0**1000, 2.0**-900, 2.0**110) if x.kind == FLOAT64 else (2.0**120, 2.0**-90, 2.0**30)
    )
    factor = select(largest > huge, x.like(0.125), select(largest < tiny, x.like(up), 1.0))
    both_infinite = (width == math.inf) & (height == math.inf)
    width = select(both_infinite | ((x == 0) & (y == 0)), 1.0, width * factor)
    height = select(both_infinite, 1.0, height * factor)
    # One infinite: the ratio is 0 or infinite whatever the other is.
    height = select((height == math.inf) & (width < math.inf), 1.0, height)
    width = select((absolute(y) == math.inf) & (absolute(x) < math.inf), 0.0, width)
    height = select((absolute(x) == math.inf) & (absolute(y) < math.inf), 0.0, height)
    width = select((absolute(x) == math.inf) & (absolute(y) < math.inf), 1.0, width)
    pi, pi_low = _PI_PARTS[x.kind]
    angle = _atan_of_ratio(height, width)
    is_left = (bits(x) >> (63 if x.kind == FLOAT64 else 31)) == 1
    angle = select(is_left, (pi - (angle - pi_low)), angle)
    return copy_sign(angle, y)


def _asin_tail(z: Value) -> Value:
    return polynomial(z, _FORMATS[z.kind].asin_tail)


@formula(FLOATING, also=("arcsin",))
def asin(x: Value) -> Value:
    size = absolute(x)
    pi, pi_low = _PI_PARTS[x.kind]
    is_outer = size > 0.5
    # asin(x) = pi/2 - 2 asin(sqrt((1 - x)/2)) for x > 1/2
    z = select(is_outer, (1.0 - size) * 0.5, size * size)
    s = select(is_outer, square_root(z), size)
    tail = s * z * _asin_tail(z)
    # The error of the square root, first order.
    square, square_low = product(s, s)
    correction = select(s == 0, 0.0, ((z - square) - square_low) / (s + s))
    outer = pi / 2 - ((s + (tail + (correction - pi_low * 0.25))) * 2.0)
    return copy_sign(select(is_outer, outer, s + tail), x)


@formula(FLOATING, also=("arccos",))
def acos(x: Value) -> Value:
    size = absolute(x)
    pi, pi_low = _PI_PARTS[x.kind]
    is_outer = size > 0.5
    z = select(is_outer, (1.0 - size) * 0.5, size * size)
    s = select(is_outer, square_root(z), size)
    tail = s * z * _asin_tail(z)
    square, square_low = product(s, s)
    correction = select(s == 0, 0.0, ((z - square) - square_low) / (s + s))
    inner = copy_sign(s + tail, x)
    inner = pi / 2 - (inner - pi_low / 2)
    outer = (s + (tail + correction)) * 2.0
    outer = select(x < 0, pi - (outer - pi_low), outer)
    return select(is_outer, outer, inner)
