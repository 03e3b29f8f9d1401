"""Kummer's function: SciPy's where that ends soon, as it counts steps by a parameter or by x.

Sources: DLMF 13.2.2, 13.2.39 and 13.7.2.
"""

from __future__ import annotations

import math

from numba_grad.compiler.elementary.registry import COMPLEX, FLOATING, formula
from numba_grad.compiler.elementary.scalar import Definition, Value, library_call, select
from numba_grad.compiler.elementary.scipy_functions import Pair, scipy_function_of_complex

_PURE = " nounwind willreturn memory(none)"

# Up to these SciPy's functions take some 20 ms at most; the complex one has no digit left beyond.
_LARGEST = 1e6
_MOST_STEPS = 1e5

# Rare, and not worth LLVM's optimizing: that would make a first call take 1.07 times as long.
# In what follows 0x3C60000000000000 is 2**-57, 0x3EB0000000000000 2**-20, 0x41F0000000000000 2**32,
# 0x7FE0000000000000 2**1023, and 0x7FF0000000000000 and 0x7FF8000000000000 are infinity and NaN.

# The sum of the series, NaN where fewer than 6 digits of it remain or where it is too long.
#
# It is over at a term that does not count if all further ones are half of the one before, or less.
# Denominators of b < 0 are small again next to n = -b; the terms there have passed below 1e-1000
# if |x| is below -b / 50 and |a| below -2 b (Stirling's formula).
_SERIES = f"""\
define internal double @numba_grad.kummer_series(double %a, double %b, double %x) \
noinline optnone cold{_PURE} {{
entry:
  %start = call double @llvm.fabs.f64(double %a)
  %size_of_x = call double @llvm.fabs.f64(double %x)
  %minus_b = fneg double %b
  %fiftyfold = fmul double %size_of_x, 50.0
  %is_near = fcmp ole double %fiftyfold, %minus_b
  %twice = fmul double %minus_b, 2.0
  %is_small = fcmp ole double %start, %twice
  %is_harmless = and i1 %is_near, %is_small
  %least = select i1 %is_harmless, double 0.0, double %twice
  br label %body
body:
  %n = phi double [ 0.0, %entry ], [ %next, %body ]
  %term = phi double [ 1.0, %entry ], [ %t, %body ]
  %total = phi double [ 1.0, %entry ], [ %s, %body ]
  %magnitude = phi double [ 1.0, %entry ], [ %m, %body ]
  %rise = fadd double %a, %n
  %fall = fadd double %b, %n
  %next = fadd double %n, 1.0
  %quotient = fdiv double %rise, %fall
  %step = fdiv double %x, %next
  %ratio = fmul double %quotient, %step
  %t = fmul double %term, %ratio
  %s = fadd double %total, %t
  %size = call double @llvm.fabs.f64(double %t)
  %m = fadd double %magnitude, %size
  %part = fmul double %m, 0x3C60000000000000
  %is_little = fcmp ole double %size, %part
  %most = fadd double %start, %next
  %above = fmul double %most, %size_of_x
  %below = fadd double %b, %next
  %size_below = call double @llvm.fabs.f64(double %below)
  %number = fadd double %next, 1.0
  %product = fmul double %size_below, %number
  %bound = fmul double %product, 0.5
  %halves = fcmp ole double %above, %bound
  %is_past = fcmp oge double %next, %least
  %falls = and i1 %halves, %is_past
  %is_over = and i1 %falls, %is_little
  %is_polynomial = fcmp oeq double %rise, 0.0
  %is_whole = or i1 %is_over, %is_polynomial
  %is_long = fcmp oge double %next, 32768.0
  %is_done = or i1 %is_whole, %is_long
  br i1 %is_done, label %done, label %body
done:
  %size_of_sum = call double @llvm.fabs.f64(double %s)
  %limit = fmul double %size_of_sum, 0x41F0000000000000
  %is_accurate = fcmp ole double %m, %limit
  %is_finite = fcmp olt double %m, 0x7FF0000000000000
  %is_positive_a = fcmp ogt double %a, 0.0
  %is_positive_b = fcmp ogt double %b, 0.0
  %is_positive_x = fcmp ogt double %x, 0.0
  %both = and i1 %is_positive_a, %is_positive_b
  %has_one_sign = and i1 %both, %is_positive_x
  %overflows = xor i1 %is_finite, true
  %is_infinite = and i1 %overflows, %has_one_sign
  %holds = and i1 %is_whole, %is_accurate
  %is_a_sum = and i1 %holds, %is_finite
  %sum = select i1 %is_a_sum, double %s, double 0x7FF8000000000000
  %y = select i1 %is_infinite, double 0x7FF0000000000000, double %sum
  ret double %y
}}
"""
# The expansion for large x > 0 of exp(-left) times the function, where c = a - b: NaN unless terms
# fall at once, also those of the part that it leaves out, which does not count, and 6 digits are
# right.
_FAR = f"""\
define internal double @numba_grad.kummer_far(double %a, double %b, double %x, double %c, \
double %left) noinline optnone cold{_PURE} {{
entry:
  %rest = fneg double %c
  %rest_above = fsub double 1.0, %rest
  %growth = fmul double %a, %rest_above
  %size_of_growth = call double @llvm.fabs.f64(double %growth)
  %is_far = fcmp ole double %size_of_growth, %x
  br i1 %is_far, label %body, label %none
body:
  %k = phi double [ 0.0, %entry ], [ %next, %more ]
  %term = phi double [ 1.0, %entry ], [ %t, %more ]
  %total = phi double [ 1.0, %entry ], [ %s, %more ]
  %next = fadd double %k, 1.0
  %one = fsub double %next, %a
  %other = fadd double %rest, %k
  %first = fdiv double %one, %next
  %second = fdiv double %other, %x
  %factor = fmul double %first, %second
  %t = fmul double %term, %factor
  %s = fadd double %total, %t
  %speed = call double @llvm.fabs.f64(double %factor)
  %falls = fcmp ole double %speed, 0.875
  br i1 %falls, label %more, label %none
more:
  %size = call double @llvm.fabs.f64(double %t)
  %counts = fcmp ogt double %size, 0x3C60000000000000
  br i1 %counts, label %body, label %done
done:
  %log_x = call double @log(double %x){_PURE}
  %log_a = call double @lgamma(double %a) nounwind willreturn
  %log_b = call double @lgamma(double %b) nounwind willreturn
  %log_rest = call double @lgamma(double %rest) nounwind willreturn
  %power = fmul double %c, %log_x
  %largest = call double @llvm.minnum.f64(double %x, double 0x7FE0000000000000)
  %exponent_0 = fsub double %largest, %left
  %exponent_1 = fadd double %exponent_0, %power
  %exponent_2 = fsub double %log_b, %log_a
  %exponent = fadd double %exponent_1, %exponent_2
  %difference = fsub double %rest, %a
  %finite_log = call double @llvm.minnum.f64(double %log_x, double 710.0)
  %small_0 = fmul double %difference, %finite_log
  %small_1 = fsub double %small_0, %largest
  %small_2 = fsub double %log_a, %log_rest
  %small = fadd double %small_1, %small_2
  %left_out = fcmp ogt double %small, -37.0
  %size_of_power = call double @llvm.fabs.f64(double %power)
  %size_of_a = call double @llvm.fabs.f64(double %log_a)
  %size_of_b = call double @llvm.fabs.f64(double %log_b)
  %sizes_0 = fadd double %size_of_power, %exponent_0
  %sizes_1 = fadd double %size_of_a, %size_of_b
  %sizes = fadd double %sizes_0, %sizes_1
  %error = fmul double %sizes, 0x3EB0000000000000
  %surely = fadd double %error, 1024.0
  %size_of_exponent = call double @llvm.fabs.f64(double %exponent)
  %is_out_of_range = fcmp oge double %size_of_exponent, %surely
  %is_accurate = fcmp ole double %sizes, 0x41F0000000000000
  %is_known = or i1 %is_accurate, %is_out_of_range
  %is_complete = xor i1 %left_out, true
  %holds = and i1 %is_known, %is_complete
  %half = fmul double %exponent, 0.5
  %root = call double @exp(double %half){_PURE}
  %scaled = fmul double %root, %s
  %y = fmul double %scaled, %root
  %floor_a = call double @llvm.floor.f64(double %a)
  %floor_b = call double @llvm.floor.f64(double %b)
  %low_a = call double @llvm.minnum.f64(double %floor_a, double 0.0)
  %low_b = call double @llvm.minnum.f64(double %floor_b, double 0.0)
  %odds = fadd double %low_a, %low_b
  %halves = fmul double %odds, 0.5
  %whole = call double @llvm.floor.f64(double %halves)
  %is_odd = fcmp une double %whole, %halves
  %minus_y = fneg double %y
  %signed = select i1 %is_odd, double %minus_y, double %y
  %result = select i1 %holds, double %signed, double 0x7FF8000000000000
  ret double %result
none:
  ret double 0x7FF8000000000000
}}
"""
# For numbers of which one is too large for SciPy's function: the expansion for large |x|, or else
# the series; for x < 0 by Kummer's transformation, but where a is -1, -2, ..., where the series
# itself cancels nothing, or where the other one would overflow. Next to poles of gamma(b - a) the
# rounding error of b - a counts, by way of a part that does not fall exponentially.
_BEYOND = f"""\
define internal double @numba_grad.kummer_beyond(double %a, double %b, double %x) \
noinline optnone cold{_PURE} {{
entry:
  %is_nan_of_two = fcmp uno double %a, %b
  %is_nan_x = fcmp uno double %x, %x
  %is_nan = or i1 %is_nan_of_two, %is_nan_x
  %floor_a = call double @llvm.floor.f64(double %a)
  %floor_b = call double @llvm.floor.f64(double %b)
  %is_whole_a = fcmp oeq double %floor_a, %a
  %is_whole_b = fcmp oeq double %floor_b, %b
  %is_low_a = fcmp olt double %a, 0.0
  %is_low_b = fcmp ole double %b, 0.0
  %is_polynomial = and i1 %is_whole_a, %is_low_a
  %is_pole = and i1 %is_whole_b, %is_low_b
  %is_below = fcmp olt double %a, %b
  %is_other = xor i1 %is_polynomial, true
  %is_endless = or i1 %is_below, %is_other
  %is_infinite = and i1 %is_pole, %is_endless
  %size = call double @llvm.fabs.f64(double %x)
  %size_of_a = call double @llvm.fabs.f64(double %a)
  %size_of_b = call double @llvm.fabs.f64(double %b)
  %is_zero_a = fcmp oeq double %a, 0.0
  %is_zero_x = fcmp oeq double %x, 0.0
  %is_zero = or i1 %is_zero_a, %is_zero_x
  %is_finite_a = fcmp olt double %size_of_a, 0x7FF0000000000000
  %is_finite_x = fcmp olt double %size, 0x7FF0000000000000
  %is_finite_b = fcmp olt double %size_of_b, 0x7FF0000000000000
  %is_finite = and i1 %is_finite_a, %is_finite_x
  %is_far_b = xor i1 %is_finite_b, true
  %is_limit = and i1 %is_far_b, %is_finite
  %is_one = or i1 %is_zero, %is_limit
  %is_finite_pair = and i1 %is_finite_a, %is_finite_b
  %is_undefined = xor i1 %is_finite_pair, true
  %edge_0 = select i1 %is_one, double 1.0, double 0x7FF8000000000000
  %edge_1 = select i1 %is_infinite, double 0x7FF0000000000000, double %edge_0
  %edge = select i1 %is_nan, double 0x7FF8000000000000, double %edge_1
  %is_edge_0 = or i1 %is_one, %is_undefined
  %is_edge_1 = or i1 %is_edge_0, %is_infinite
  %is_edge = or i1 %is_edge_1, %is_nan
  br i1 %is_edge, label %at_edge, label %inside
at_edge:
  ret double %edge
inside:
  %is_negative = fcmp olt double %x, 0.0
  %is_turned = and i1 %is_negative, %is_other
  %rest = fsub double %b, %a
  %first = select i1 %is_turned, double %rest, double %a
  %minus_a = fneg double %a
  %minus_rest = fneg double %rest
  %change = select i1 %is_turned, double %minus_a, double %minus_rest
  %largest = call double @llvm.minnum.f64(double %size, double 0x7FE0000000000000)
  %left = select i1 %is_turned, double %largest, double 0.0
  %part = fsub double %rest, %b
  %rest_of_b = fsub double %rest, %part
  %error_of_b = fsub double %b, %rest_of_b
  %error_of_a = fadd double %a, %part
  %error = fsub double %error_of_b, %error_of_a
  %size_of_error = call double @llvm.fabs.f64(double %error)
  %enlarged = fmul double %size_of_error, 1048576.0
  %nearest = call double @llvm.rint.f64(double %rest)
  %offset = fsub double %rest, %nearest
  %distance = call double @llvm.fabs.f64(double %offset)
  %is_close = fcmp ogt double %enlarged, %distance
  %is_next_to_poles = fcmp olt double %rest, 0.5
  %counts = fcmp ogt double %size, 30.0
  %is_closer = and i1 %is_close, %is_next_to_poles
  %is_vague_rest = and i1 %is_closer, %counts
  %is_vague = and i1 %is_vague_rest, %is_turned
  %is_clear = xor i1 %is_vague, true
  %is_large = fcmp ogt double %size, 50.0
  %is_large_and_clear = and i1 %is_large, %is_clear
  %has_expansion = and i1 %is_large_and_clear, %is_other
  br i1 %has_expansion, label %at_large, label %at_small
at_large:
  %argument = select i1 %is_turned, double %size, double %largest
  %far = call double @numba_grad.kummer_far(double %first, double %b, double %argument, \
double %change, double %left)
  %is_known = fcmp ord double %far, %far
  br i1 %is_known, label %expanded, label %at_small
expanded:
  ret double %far
at_small:
  %numerator = fmul double %size_of_a, %size
  %cancels = fcmp ogt double %numerator, %size_of_b
  %is_short = fcmp ole double %size, 700.0
  %reach = fadd double %a, %size
  %alternates = fcmp ogt double %reach, 0.0
  %is_worse = and i1 %cancels, %alternates
  %floor_rest = call double @llvm.floor.f64(double %rest)
  %is_whole_rest = fcmp oeq double %floor_rest, %rest
  %is_low_rest = fcmp ole double %rest, 0.0
  %ends = and i1 %is_whole_rest, %is_low_rest
  %is_finite_sum = or i1 %is_short, %ends
  %has_other = and i1 %is_turned, %is_finite_sum
  %can_turn = and i1 %has_other, %is_clear
  %is_better = and i1 %is_worse, %can_turn
  br i1 %is_better, label %turned, label %direct
direct:
  %sum = call double @numba_grad.kummer_series(double %a, double %b, double %x)
  ret double %sum
turned:
  %other = call double @numba_grad.kummer_series(double %rest, double %b, double %largest)
  %half = fmul double %x, 0.5
  %root = call double @exp(double %half){_PURE}
  %scaled = fmul double %other, %root
  %y = fmul double %scaled, %root
  %is_sum = fcmp olt double %other, 0x7FF0000000000000
  %result = select i1 %is_sum, double %y, double 0x7FF8000000000000
  ret double %result
}}
"""
_HYP1F1 = Definition(
    "numba_grad.hyp1f1",
    f"""\
{_SERIES}{_FAR}{_BEYOND}\
define internal double @numba_grad.hyp1f1(double %a, double %b, double %x){_PURE} {{
entry:
  %size_of_a = call double @llvm.fabs.f64(double %a)
  %size_of_b = call double @llvm.fabs.f64(double %b)
  %size_of_x = call double @llvm.fabs.f64(double %x)
  %is_usual_a = fcmp ole double %size_of_a, {_LARGEST!r}
  %is_usual_b = fcmp ole double %size_of_b, {_LARGEST!r}
  %is_usual_x = fcmp ole double %size_of_x, {_LARGEST!r}
  %are_usual = and i1 %is_usual_a, %is_usual_b
  %is_usual = and i1 %are_usual, %is_usual_x
  br i1 %is_usual, label %usual, label %unusual
usual:
  %y = call double @scipy_special_hyp1f1(double %a, double %b, double %x, i32 0){_PURE}
  ret double %y
unusual:
  %z = call double @numba_grad.kummer_beyond(double %a, double %b, double %x)
  ret double %z
}}
""",
    {
        "scipy_special_hyp1f1": ("double", ("double", "double", "double", "i32")),
        "llvm.minnum.f64": ("double", ("double", "double")),
        **dict.fromkeys(
            ("exp", "log", "lgamma", "llvm.fabs.f64", "llvm.floor.f64", "llvm.rint.f64"),
            ("double", ("double",)),
        ),
    },
)


@formula(FLOATING)
def hyp1f1(a: Value, b: Value, x: Value) -> Value:
    return library_call(_HYP1F1.symbol, a, b, x, definition=_HYP1F1)


@formula(COMPLEX, name="hyp1f1", arity=3)
def complex_hyp1f1(a: Value, _: Value, b: Value, __: Value, x: Value, y: Value) -> Pair:
    """NaN where SciPy's sum of a polynomial, or its steps from one parameter to the next, would be
    too many: long before, it overflows or has no digit left."""
    steps = select(x < 0, b - a, a)
    ends = (a >= -_MOST_STEPS) & (steps <= _MOST_STEPS)
    function = scipy_function_of_complex("hyp1f1", real_arguments=2)
    return function(select(ends, a, math.nan), a, b, b, x, y)
