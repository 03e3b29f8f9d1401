"""Kummer's function: SciPy's where that ends soon, as it counts steps by a parameter or by x.

Sources: DLMF 13.2.2, 13.2.39 and 13.7.2.
"""

from __future__ import annotations

import math
from types import FunctionType

from numba_grad.compiler.elementary.llvm_writer import defined
from numba_grad.compiler.elementary.registry import COMPLEX, FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    Results,
    Value,
    absolute,
    c_function,
    call_defined,
    either,
    library_call,
    repeated,
    round_down,
    round_half_even,
    select,
)
from numba_grad.compiler.elementary.scipy_functions import (
    Pair,
    scipy_definition,
    scipy_function_of_complex,
)

# Up to these SciPy's functions take some 20 ms at most; the complex one has no digit left beyond.
_LARGEST = 1e6
_MOST_STEPS = 1e5

_TINY = 2.0**-57
_LOST = 2.0**32  # of a sum: 6 digits are left


def _called(function: FunctionType, *arguments: Value) -> Value:
    """Rare, and not worth LLVM's optimizing: it would make a first call take 1.07 times as long."""
    return call_defined(defined(function, is_rare=True), *arguments)


def kummer_series(a: Value, b: Value, x: Value) -> Value:
    """The sum of the series, NaN where fewer than 6 digits of it remain or where it is too long.

    It is over at a term that does not count if all further ones are half of the one before, or
    less. Denominators of b < 0 are small again next to n = -b; the terms there have passed below
    1e-1000 if |x| is below -b / 50 and |a| below -2 b (Stirling's formula).
    """
    size = absolute(x)
    are_past = (size * 50.0 <= -b) & (absolute(a) <= -b * 2.0)
    least = select(are_past, 0.0, -b * 2.0)

    def step(n: Value, term: Value, total: Value, magnitude: Value) -> Results:
        rise, after = a + n, n + 1.0
        term = term * ((rise / (b + n)) * (x / after))
        total, magnitude = total + term, magnitude + absolute(term)
        bound = (absolute(b + after) * (after + 1.0)) * 0.5
        falls = ((absolute(a) + after) * size <= bound) & (after >= least)
        is_whole = (falls & (absolute(term) <= magnitude * _TINY)) | (rise == 0.0)
        return (after, term, total, magnitude, is_whole), is_whole | (after >= 32768.0)

    start = (0.0, 1.0, 1.0, 1.0)
    _, _, total, magnitude, is_whole = repeated(step, *map(x.like, start))
    is_finite = magnitude < math.inf
    is_sum = is_whole & (magnitude <= absolute(total) * _LOST) & is_finite
    has_one_sign = (a > 0) & (b > 0) & (x > 0)
    return select(~is_finite & has_one_sign, math.inf, select(is_sum, total, math.nan))


def kummer_far(a: Value, b: Value, x: Value, c: Value, left: Value) -> Value:
    """The expansion for large x > 0 of exp(-left) times the function, where c = a - b: NaN unless
    terms fall at once, also those of the part that it leaves out, which does not count, and 6
    digits are right."""

    def expansion() -> Value:
        def step(k: Value, term: Value, total: Value) -> Results:
            after = k + 1.0
            factor = ((after - a) / after) * ((k - c) / x)
            term = term * factor
            falls = absolute(factor) <= 0.875
            counts = absolute(term) > _TINY
            return (after, term, total + term, falls), ~(falls & counts)

        _, _, total, falls = repeated(step, *map(x.like, (0.0, 1.0, 1.0)))
        return select(falls, _far_from_sum(a, b, x, c, left, total), math.nan)

    return either(absolute(a * (c + 1.0)) <= x, expansion, lambda: x.like(math.nan))


def _far_from_sum(a: Value, b: Value, x: Value, c: Value, left: Value, total: Value) -> Value:
    rest = -c
    log_x = c_function("log", x)
    log_a, log_b, log_rest = (c_function("lgamma", y) for y in (a, b, rest))
    power = c * log_x
    largest = _least_of(x, 2.0**1023)
    exponent = ((largest - left) + power) + (log_b - log_a)
    left_out = ((rest - a) * _least_of(log_x, 710.0) - largest) + (log_a - log_rest)
    sizes = (absolute(power) + (largest - left)) + (absolute(log_a) + absolute(log_b))
    is_out_of_range = absolute(exponent) >= sizes * 2.0**-20 + 1024.0
    holds = ((sizes <= _LOST) | is_out_of_range) & ~(left_out > -37.0)
    root = c_function("exp", exponent * 0.5)
    result = (root * total) * root
    halves = (_least_of(round_down(a), 0.0) + _least_of(round_down(b), 0.0)) * 0.5
    signed = select(round_down(halves) != halves, -result, result)
    return select(holds, signed, math.nan)


def _least_of(x: Value, bound: float) -> Value:
    return x.trace.function("minnum", x, x.like(bound))


def _is_whole(x: Value) -> Value:
    return round_down(x) == x


def kummer_beyond(a: Value, b: Value, x: Value) -> Value:
    """For numbers of which one is too large for SciPy's function."""
    is_nan = (a != a) | (b != b) | (x != x)
    is_polynomial = _is_whole(a) & (a < 0)
    is_infinite = _is_whole(b) & (b <= 0) & ((a < b) | ~is_polynomial)
    is_finite_a, is_finite_b, is_finite_x = (absolute(y) < math.inf for y in (a, b, x))
    is_one = (a == 0) | (x == 0) | (~is_finite_b & is_finite_a & is_finite_x)
    edge = select(is_infinite, math.inf, select(is_one, x.like(1.0), math.nan))
    is_edge = is_nan | is_infinite | is_one | ~(is_finite_a & is_finite_b)
    return either(
        is_edge,
        lambda: select(is_nan, math.nan, edge),
        lambda: _of_large_numbers(a, b, x, is_polynomial),
    )


def _of_large_numbers(a: Value, b: Value, x: Value, is_polynomial: Value) -> Value:
    """The expansion for large |x|, or else the series; for x < 0 by Kummer's transformation, but
    where a is -1, -2, ..., where the series itself cancels nothing, or where the other one would
    overflow. Next to poles of gamma(b - a) the rounding error of b - a counts, by way of a part
    that does not fall exponentially."""
    is_turned = (x < 0) & ~is_polynomial
    rest = b - a
    size = absolute(x)
    largest = _least_of(size, 2.0**1023)
    part = rest - b
    error = (b - (rest - part)) - (a + part)
    is_close = absolute(error) * 2.0**20 > absolute(rest - round_half_even(rest))
    is_clear = ~(is_close & (rest < 0.5) & (size > 30.0) & is_turned)
    far = either(
        (size > 50.0) & is_clear & ~is_polynomial,
        lambda: _called(
            kummer_far,
            select(is_turned, rest, a),
            b,
            select(is_turned, size, largest),
            select(is_turned, -a, -rest),
            select(is_turned, largest, 0.0),
        ),
        lambda: x.like(math.nan),
    )
    cancels = (absolute(a) * size > absolute(b)) & (a + size > 0)
    is_finite_sum = (size <= 700.0) | (_is_whole(rest) & (rest <= 0))

    def turned() -> Value:
        other = _called(kummer_series, rest, b, largest)
        root = c_function("exp", x * 0.5)
        return select(other < math.inf, (other * root) * root, math.nan)

    def by_series() -> Value:
        can_turn = is_turned & is_finite_sum & is_clear
        return either(cancels & can_turn, turned, lambda: _called(kummer_series, a, b, x))

    return either(far == far, lambda: far, by_series)


def hyp1f1(a: Value, b: Value, x: Value) -> Value:
    is_usual = (absolute(a) <= _LARGEST) & (absolute(b) <= _LARGEST) & (absolute(x) <= _LARGEST)
    return either(
        is_usual,
        lambda: call_defined(scipy_definition("hyp1f1", 3), a, b, x),
        lambda: _called(kummer_beyond, a, b, x),
    )


@formula(FLOATING, name="hyp1f1")
def hyp1f1_called(a: Value, b: Value, x: Value) -> Value:
    definition = defined(hyp1f1)
    return library_call(definition.symbol, a, b, x, definition=definition)


@formula(COMPLEX, name="hyp1f1", arity=3)
def complex_hyp1f1(a: Value, _: Value, b: Value, __: Value, x: Value, y: Value) -> Pair:
    """NaN where SciPy's sum of a polynomial, or its steps from one parameter to the next, would be
    too many: long before, it overflows or has no digit left."""
    steps = select(x < 0, b - a, a)
    ends = (a >= -_MOST_STEPS) & (steps <= _MOST_STEPS)
    function = scipy_function_of_complex("hyp1f1", real_arguments=2)
    return function(select(ends, a, math.nan), a, b, b, x, y)
