"""Products with logarithms, of which the limits count: xlogy, entr, rel_entr, kl_div; and logit."""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.exponential import FORMATS
from numba_grad.compiler.elementary.logarithm import (
    log,
    log1p,
    log_of_sum,
    log_parts,
    split_sum,
)
from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.compiler.elementary.scalar import (
    Value,
    absolute,
    fma,
    select,
    two_sum,
)


@formula(FLOATING)
def xlogy(x: Value, y: Value) -> Value:
    """x log(y), and 0 where x is 0 and y is not NaN."""
    return select((x == 0) & (y == y), 0.0, x * log(y))


@formula(FLOATING)
def xlog1py(x: Value, y: Value) -> Value:
    return select((x == 0) & (y == y), 0.0, x * log1p(y))


@formula(FLOATING)
def entr(x: Value) -> Value:
    """-x log(x)"""
    inside = select(x > 0, -(x * log(x)), select(x == 0, x.like(0.0), -math.inf))
    return select(x == x, inside, x)


def _log_of_ratio(x: Value, y: Value) -> Value:
    """log(x / y) of positive numbers, accurate where they are close."""
    ratio = x / y
    is_close = (ratio > 0.5) & (ratio < 2.0)
    total, error = two_sum(x.like(1.0), (x - y) / y)
    # The ratio, where it is neither 0 nor infinite nor subnormal.
    form = FORMATS[x.kind]
    least = 2.0 ** (1 - form.exponent_bias)
    is_within = (ratio >= least) & (ratio < math.inf)
    total = select(is_close, total, select(is_within, ratio, 1.0))
    k, f = split_sum(total, select(is_close, error, 0.0))
    return select(is_within, log_of_sum(k, f), log(x) - log(y))


@formula(FLOATING)
def rel_entr(x: Value, y: Value) -> Value:
    """x log(x / y) for positive x and y, 0 for x = 0 <= y, else inf."""
    return _of_distributions(x, y, x * _log_of_ratio(x, y), x.like(0.0))


@formula(FLOATING)
def kl_div(x: Value, y: Value) -> Value:
    """rel_entr(x, y) - x + y"""
    # (1 + d) log(1 + d) - d with d = x/y - 1: where d is small its terms cancel, up to the square.
    d = (x - y) / y
    is_small = absolute(d) < 0.25
    near = select(is_small, d, 0.0)
    half_square, rest = log_parts(near)
    small = y * fma(half_square, 1.0 - near, fma(near, rest, rest))
    inside = select(is_small, small, (x * _log_of_ratio(x, y) - x) + y)
    return _of_distributions(x, y, inside, y)


def _of_distributions(x: Value, y: Value, inside: Value, at_zero: Value) -> Value:
    edge = select((x == 0) & (y >= 0), at_zero, math.inf)
    result = select((x > 0) & (y > 0), inside, edge)
    return select((x == x) & (y == y), result, x + y)


@formula(FLOATING)
def logit(p: Value) -> Value:
    """log(p / (1 - p)), accurate next to 1/2."""
    form = FORMATS[p.kind]
    other = 1.0 - p
    smaller = select(p < 0.5, p, other)
    # Exact: both are multiples of the last place of p.
    difference = absolute(p - 0.5) * 2.0
    # Raised where the quotient would overflow.
    is_tiny = smaller < 2.0 ** (3 - form.exponent_bias)
    raised = 64.0
    quotient = difference / select(is_tiny, smaller * 2.0**raised, smaller)
    size = log1p(quotient)
    size = select(is_tiny, size + raised * math.log(2), size)
    size = select(smaller == 0, math.inf, size)
    result = select(p < 0.5, -size, size)
    return select((p >= 0) & (p <= 1.0), result, math.nan)
