"""Hurwitz's zeta of a complex number, for whole exponents: the derivatives of digamma.

In float64 throughout.
"""

from __future__ import annotations

from numba_grad.compiler.elementary import complex_plane as plane
from numba_grad.compiler.elementary.complex_plane import Pair
from numba_grad.compiler.elementary.llvm_writer import defined
from numba_grad.compiler.elementary.polygamma import EULER_MACLAURIN
from numba_grad.compiler.elementary.registry import COMPLEX, formula
from numba_grad.compiler.elementary.scalar import (
    Results,
    Value,
    absolute,
    fma,
    narrowed,
    repeated,
    round_up,
    select,
    to_float64,
)


def complex_power(s: Value, x: Value, y: Value) -> Pair:
    """(x + i y)**s, for whole s from 1 on."""

    def step(k: Value, a: Value, b: Value) -> Results:
        after = k + 1.0
        return (after, a * x - b * y, a * y + b * x), ~(after < s)

    _, real, imaginary = repeated(step, *map(s.like, (0.0, 1.0, 0.0)))
    return real, imaginary


def sum_of_complex_powers(s: Value, x: Value, y: Value, n: Value) -> Pair:
    """The sum of (x + k + i y)**-s for k from 0 to n - 1, for whole s from 1 on."""

    def step(k: Value, a: Value, b: Value) -> Results:
        u, after = x + k, k + 1.0
        size = u * u + y * y
        real, imaginary = s.trace.pair_call(defined(complex_power), s, u / size, -y / size)
        return (after, a + real, b + imaginary), ~(after < n)

    _, real, imaginary = repeated(step, *map(s.like, (0.0, 0.0, 0.0)))
    is_empty = n <= 0
    return select(is_empty, 0.0, real), select(is_empty, 0.0, imaginary)


@formula(COMPLEX)
def integer_zeta(x: Value, y: Value, exponent: Value, _: Value) -> Pair:
    """The sum of (k + q)**-s over all k from 0 on, for whole s from 2 on. NaN at the poles.

    As the real one: the first terms one by one, then the formula of Euler and Maclaurin (DLMF
    25.11.28). That holds to the left of the origin too, far enough above or below it; where the
    terms to add are more than a million the result is NaN.
    """
    a, b, s = to_float64(x), to_float64(y), to_float64(exponent)
    limit = s + 10.0
    count = select((a >= limit) | (absolute(b) >= limit), 0.0, round_up(limit - a))
    is_short = count <= 1e6
    first = s.trace.pair_call(defined(sum_of_complex_powers), s, a, b, select(is_short, count, 0.0))
    inverse = plane.reciprocal(a + count, b)
    square = plane.square(*inverse)
    # end**-s (end / (s - 1) + 1/2 + ...), with end**(1 - s) taken out, which underflows later.
    tail = (s * 0.0 + 0.5, s * 0.0)
    factor = (inverse[0] * s, inverse[1] * s)
    for k, coefficient in enumerate(EULER_MACLAURIN):
        tail = (fma(factor[0], coefficient, tail[0]), fma(factor[1], coefficient, tail[1]))
        growth = (s + (2.0 * k + 1)) * (s + (2.0 * k + 2))
        factor = plane.multiply(*factor, square[0] * growth, square[1] * growth)
    tail = plane.multiply(*tail, *inverse)
    power = s.trace.pair_call(defined(complex_power), s - 1.0, *inverse)
    last = plane.multiply(*power, tail[0] + 1.0 / (s - 1.0), tail[1])
    is_infinite = plane.is_infinite(a, b)
    results = (
        select(is_short, select(is_infinite, 0.0, one + rest), float("nan"))
        for one, rest in zip(first, last, strict=True)
    )
    real, imaginary = (narrowed(result, x) for result in results)
    return real, imaginary
