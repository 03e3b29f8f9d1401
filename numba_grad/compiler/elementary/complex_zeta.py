"""Hurwitz's zeta of a complex number, for whole exponents: the derivatives of digamma.

In float64 throughout.
"""

from __future__ import annotations

from numba_grad.compiler.elementary import complex_plane as plane
from numba_grad.compiler.elementary.complex_plane import Pair
from numba_grad.compiler.elementary.polygamma import EULER_MACLAURIN
from numba_grad.compiler.elementary.registry import COMPLEX, formula
from numba_grad.compiler.elementary.scalar import (
    DOUBLES,
    Definition,
    Value,
    absolute,
    fma,
    narrowed,
    round_up,
    select,
    to_float64,
)


def _loop(name: str, parameters: str, bound: str, start: float, step: str) -> Definition:
    """A function that goes from (`start`, 0) to (%p, %q) as often as `bound` says: `step` computes
    these from (%a, %b), and from %k, the number of steps before."""
    return Definition(
        f"numba_grad.{name}",
        f"""\
define internal {DOUBLES} @numba_grad.{name}({parameters}) \
noinline nounwind willreturn memory(none) {{
entry:
  br label %head
head:
  %k = phi double [ 0.0, %entry ], [ %next, %body ]
  %a = phi double [ {start}, %entry ], [ %p, %body ]
  %b = phi double [ 0.0, %entry ], [ %q, %body ]
  %more = fcmp olt double %k, {bound}
  br i1 %more, label %body, label %done
body:
{step}\
  %next = fadd double %k, 1.0
  br label %head
done:
  %half = insertvalue {DOUBLES} poison, double %a, 0
  %z = insertvalue {DOUBLES} %half, double %b, 1
  ret {DOUBLES} %z
}}
""",
    )


# (x + i y)**s, for whole s from 0 on.
_POWER = _loop(
    "complex_power",
    "double %s, double %x, double %y",
    "%s",
    1.0,
    """\
  %ax = fmul double %a, %x
  %by = fmul double %b, %y
  %p = fsub double %ax, %by
  %ay = fmul double %a, %y
  %bx = fmul double %b, %x
  %q = fadd double %ay, %bx
""",
)
# The sum of (x + k + i y)**-s for k from 0 to n - 1. It calls the other.
_SUM = _loop(
    "sum_of_complex_powers",
    "double %s, double %x, double %y, double %n",
    "%n",
    0.0,
    f"""\
  %u = fadd double %x, %k
  %uu = fmul double %u, %u
  %yy = fmul double %y, %y
  %size = fadd double %uu, %yy
  %real = fdiv double %u, %size
  %conjugate = fneg double %y
  %imaginary = fdiv double %conjugate, %size
  %term = call {DOUBLES} @numba_grad.complex_power(double %s, double %real, double %imaginary)
  %c = extractvalue {DOUBLES} %term, 0
  %d = extractvalue {DOUBLES} %term, 1
  %p = fadd double %a, %c
  %q = fadd double %b, %d
""",
)


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
    first = s.trace.pair_call(_SUM, s, a, b, select(is_short, count, 0.0))
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
    power = s.trace.pair_call(_POWER, s - 1.0, *inverse)
    last = plane.multiply(*power, tail[0] + 1.0 / (s - 1.0), tail[1])
    is_infinite = plane.is_infinite(a, b)
    results = (
        select(is_short, select(is_infinite, 0.0, one + rest), float("nan"))
        for one, rest in zip(first, last, strict=True)
    )
    real, imaginary = (narrowed(result, x) for result in results)
    return real, imaginary
