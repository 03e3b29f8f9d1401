"""The complete elliptic integral of the second kind: Bulirsch's method, DLMF 19.2.11."""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.registry import FLOATING, formula
from numba_grad.compiler.elementary.scalar import Value, select, square_root

# Enough for 1 - m down to the smallest number.
_STEPS = 13


@formula(FLOATING)
def ellipe(m: Value) -> Value:
    """Of a modulus from 0 to 1, to which others are brought: no term is negative."""
    complement = 1.0 - m
    is_inside = complement <= 1.0
    is_proper = (complement > 0) & (complement < math.inf)
    b = select(is_proper, select(is_inside, complement, 1.0 / complement), 1.0)
    mean = select(b == b, square_root(b), b)
    product, scale, p, a = mean, m.like(1.0), m.like(1.0), m.like(1.0)
    for _ in range(_STEPS):
        last, quotient = a, product / p
        a = a + b / p
        b = b + last * quotient
        b = b + b
        p = p + quotient
        scale = scale + mean
        mean = square_root(product)
        mean = mean + mean
        product = mean * scale
    value = (b + a * scale) / (scale * (scale + p)) * (math.pi / 2)
    value = select(is_inside, value, value * square_root(select(is_proper, complement, 1.0)))
    at_end = select(complement == 0, complement.like(1.0), complement)
    return select(is_proper, value, select(complement < 0, math.nan, at_end))
