"""Bessel functions, integrals of exponentials and circular functions, Lambert's W, hyp1f1.

Names are SciPy's; all compute in float32 and float64, and those that are analytic functions for
SciPy also in complex64 and complex128. Kernels call SciPy's C functions, except for Lambert's W.
Derivatives: DLMF 10.6, 10.29, 6.2, 13.3.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node, Op
from numba_grad.ops.elementwise import (
    absolute,
    conjugated,
    is_zero,
    multiply,
    plus,
    real,
    scaled,
    sign,
    square,
    unary,
    where,
    zero_where,
)
from numba_grad.ops.families import cast, elementwise, scipy_reference
from numba_grad.ops.functions import cos, exp, sin
from numba_grad.ops.logic import equal, less, logical_and
from numba_grad.ops.parameters import bessel_k_derivative, hyp1f1_derivative
from numba_grad.ops.special import (
    ANALYTIC,
    DTYPES,
    number,
    one_where,
    stretched,
)


def _over_x(out: Node, x: Node) -> Node:
    """out / x, which is 1/2 at 0."""
    is_at_zero = is_zero(x)
    return where(is_at_zero, number(0.5, x), out / one_where(is_at_zero, x))


# Bessel functions. Slopes of the first kind need no division: they are differences of neighbours.


def _of_real_parts(name: str) -> Callable[..., np.ndarray]:
    """SciPy's function, of real numbers and then one that may be complex."""
    function = scipy_reference(name)

    def reference(*arrays: np.ndarray) -> np.ndarray:
        *parameters, x = arrays
        return function(*map(np.real, parameters), x).astype(x.dtype)

    return reference


_NO_DERIVATIVE_BY_ORDER = {
    "v": "the derivative of Bessel functions by their order has no kernel here"
}

# Orders are real; where x is complex they are passed as complex numbers, whose real part counts.
jv = elementwise(
    "jv",
    expression="bessel_j({v}, {x})",
    reference=_of_real_parts("jv"),
    vjp=(
        None,
        lambda g, out, v, x: g * conjugated(scaled(jv(plus(v, -1), x) - jv(plus(v, 1), x), 0.5)),
    ),
    no_derivative=_NO_DERIVATIVE_BY_ORDER,
    dtypes=ANALYTIC,
    samples=((0, 4), (0.5, 9)),
    cost=800,
)


def _bessel(name: str, slope: Callable[..., Node] | None = None, **record: Any) -> Op:
    """One of those of a whole order."""
    return unary(name, slope, expression=f"bessel_{name}({{x}})", dtypes=DTYPES, **record)


j0 = _bessel("j0", minus=lambda x: j1(x), samples=(-9, 9), cost=150)
j1 = _bessel("j1", lambda x: scaled(j0(x) - jv(number(2, x), x), 0.5), samples=(-9, 9), cost=150)
y0 = _bessel("y0", minus=lambda x: y1(x), samples=(0.5, 9), cost=200)
y1 = _bessel("y1", lambda out, x: y0(x) - out / x, samples=(0.5, 9), cost=200)
i0 = _bessel("i0", lambda x: i1(x), reference=scipy_reference("i0"), samples=(-3, 3), cost=150)
i1 = _bessel("i1", lambda out, x: i0(x) - _over_x(out, x), samples=(-3, 3), cost=150)

# exp(-|x|) has a kink at 0; the slope there is 0, as sign(0) is, in the exponential's part.
i0e = _bessel("i0e", lambda out, x: i1e(x) - sign(x) * out, samples=(-3, 3), cost=150)

i1e = _bessel(
    "i1e", lambda out, x: i0e(x) - _over_x(out, x) - sign(x) * out, samples=(-3, 3), cost=150
)


iv = elementwise(
    "iv",
    expression="bessel_i({v}, {x})",
    vjp=(
        None,
        lambda g, out, v, x: g * scaled(iv(plus(v, -1), x) + iv(plus(v, 1), x), 0.5),
    ),
    no_derivative=_NO_DERIVATIVE_BY_ORDER,
    dtypes=DTYPES,
    samples=((0, 4), (0.5, 5)),
    cost=800,
)

# The kink of exp(-|x|) at 0 is as in i0e.
ive = elementwise(
    "ive",
    expression="bessel_ie({v}, {x})",
    vjp=(
        None,
        lambda g, out, v, x: (
            g * (scaled(ive(plus(v, -1), x) + ive(plus(v, 1), x), 0.5) - sign(x) * out)
        ),
    ),
    no_derivative=_NO_DERIVATIVE_BY_ORDER,
    dtypes=DTYPES,
    samples=((0, 4), (0.5, 5)),
    cost=800,
    saves=("inputs", "out"),
)


def _yv_slope(v: Node, x: Node) -> Node:
    """Of two infinities, at 0 and next to it, the one of the larger order counts."""
    below, above = yv(plus(v, -1), x), yv(plus(v, 1), x)
    is_infinite = logical_and(equal(above, number(-math.inf, x)), less(number(-1, v), v))
    return scaled(zero_where(is_infinite, below) - above, 0.5)


yv = elementwise(
    "yv",
    expression="bessel_y({v}, {x})",
    vjp=(
        None,
        lambda g, out, v, x: g * _yv_slope(v, x),
    ),
    no_derivative=_NO_DERIVATIVE_BY_ORDER,
    dtypes=DTYPES,
    samples=((0, 4), (0.5, 9)),
    cost=900,
)


# Of the second kind. The slope of one that is scaled is the difference of two that are nearly the
# same where x is large: an integral of its own.


def _scaled_k_slope(v: Node, x: Node, *, by_v: int = 0, by_x: int = 0) -> Node:
    return bessel_k_derivative(*stretched("kve", v=v, x=x), by_v=by_v, by_x=by_x)


k0 = _bessel("k0", minus=lambda x: k1(x), samples=(0.3, 6), cost=150)
k1 = _bessel("k1", minus=lambda out, x: k0(x) + out / x, samples=(0.3, 6), cost=150)
k0e = _bessel("k0e", lambda x: _scaled_k_slope(number(0, x), x, by_x=1), samples=(0.3, 6), cost=150)
k1e = _bessel("k1e", lambda x: _scaled_k_slope(number(1, x), x, by_x=1), samples=(0.3, 6), cost=150)


def _k_slope_by_order(v: Node, x: Node) -> Node:
    """By halves, as exp(-x) alone may underflow."""
    half = exp(scaled(x, -0.5))
    return _scaled_k_slope(v, x, by_v=1) * half * half


kv = elementwise(
    "kv",
    expression="bessel_k({v}, {x})",
    vjp=(
        lambda g, out, v, x: g * _k_slope_by_order(v, x),
        lambda g, out, v, x: g * scaled(kv(plus(v, -1), x) + kv(plus(v, 1), x), -0.5),
    ),
    dtypes=DTYPES,
    samples=((0, 4), (0.3, 6)),
    cost=900,
)

kve = elementwise(
    "kve",
    expression="bessel_ke({v}, {x})",
    vjp=(
        lambda g, out, v, x: g * _scaled_k_slope(v, x, by_v=1),
        lambda g, out, v, x: g * _scaled_k_slope(v, x, by_x=1),
    ),
    dtypes=DTYPES,
    samples=((0, 4), (0.3, 6)),
    cost=900,
)


# Exponential, sine and cosine integrals.

exp1 = unary("exp1", minus=lambda x: exp(-x) / x, samples=(0.2, 5), cost=300, dtypes=ANALYTIC)
expi = unary("expi", lambda x: exp(x) / x, samples=(0.2, 5), cost=300, dtypes=ANALYTIC)


def _sine_over_x(x: Node) -> Node:
    """sin(x) / x with all its derivatives: next to 0 its series, whose rest is below 1e-18."""
    size = absolute(x)
    is_small = less(size, number(0.5, size))
    near = square(where(is_small, x, number(0, x)))
    series = number(0, x)
    for k in range(7, -1, -1):
        series = plus(multiply(series, near), (-1) ** k / math.factorial(2 * k + 1))
    safe = one_where(is_small, x)
    return where(is_small, series, sin(safe) / safe)


def _sici_reference(part: int, x: np.ndarray) -> np.ndarray:
    return np.asarray(imported("scipy.special").sici(x)[part]).astype(x.dtype)


sine_integral = unary(
    "sine_integral",
    _sine_over_x,
    reference=lambda x: _sici_reference(0, x),
    samples=(-6, 6),
    cost=300,
    dtypes=ANALYTIC,
)

cosine_integral = unary(
    "cosine_integral",
    lambda x: cos(x) / x,
    reference=lambda x: _sici_reference(1, x),
    samples=(0.3, 6),
    cost=300,
    dtypes=ANALYTIC,
)


# Lambert's W, and Kummer's function.


def _lambertw_reference(branch: int, x: np.ndarray) -> np.ndarray:
    w = imported("scipy.special").lambertw(x, branch)
    return np.where((w.imag == 0) | np.isnan(x), w.real, np.nan).astype(x.dtype)


def _lambertw_slope(out: Node) -> Node:
    """exp(-W) / (1 + W): inf at the branch point."""
    return exp(-out) / plus(out, 1)


lambertw = unary(
    "lambertw",
    _lambertw_slope,
    reference=lambda x: _lambertw_reference(0, x),
    samples=(-0.3, 4),
    cost=90,
    dtypes=DTYPES,
)

lambertw_below = unary(
    "lambertw_below",
    _lambertw_slope,
    reference=lambda x: _lambertw_reference(-1, x),
    samples=(-0.3, -0.02),
    cost=90,
    dtypes=DTYPES,
)


def _lambertw_branch_reference(x: np.ndarray, *, branch: int) -> np.ndarray:
    return imported("scipy.special").lambertw(x, branch).astype(x.dtype)


lambertw_branch = elementwise(
    "lambertw_branch",
    expression=lambda branch: f"complex_lambertw({{x}}, {branch})",
    reference=_lambertw_branch_reference,
    vjp=(lambda g, out, x, branch: g * conjugated(_lambertw_slope(out)),),
    dtypes="FD",
    samples=((0.3, 4),),
    cost=900,
    saves=("out",),
    input_names=("x",),
    params_samples=tuple({"branch": k} for k in (0, -1, 1, 3)),
)


def _hyp1f1_slope(a: Node, b: Node, x: Node, *, by_a: int, by_b: int) -> Node:
    return hyp1f1_derivative(*stretched("hyp1f1", a=a, b=b, x=x), by_a=by_a, by_b=by_b)


hyp1f1 = elementwise(
    "hyp1f1",
    expression="hyp1f1({a}, {b}, {x})",
    vjp=(
        lambda g, out, a, b, x: g * _hyp1f1_slope(a, b, x, by_a=1, by_b=0),
        lambda g, out, a, b, x: g * _hyp1f1_slope(a, b, x, by_a=0, by_b=1),
        lambda g, out, a, b, x: g * (a / b * hyp1f1(plus(a, 1), plus(b, 1), x)),
    ),
    dtypes=DTYPES,
    samples=((0.5, 3), (0.5, 3), (-2, 2)),
    cost=900,
)


def _complex_hyp1f1_slope(a: Node, b: Node, x: Node) -> Node:
    ratio = cast(real(a) / real(b), x.dtype)
    return ratio * complex_hyp1f1(plus(a, 1), plus(b, 1), x)


# Of complex x; the parameters are real, as the order of jv.
complex_hyp1f1 = elementwise(
    "complex_hyp1f1",
    expression="hyp1f1({a}, {b}, {x})",
    reference=_of_real_parts("hyp1f1"),
    vjp=(None, None, lambda g, out, a, b, x: g * conjugated(_complex_hyp1f1_slope(a, b, x))),
    no_derivative={
        "a": "for complex x it has no kernel here",
        "b": "for complex x it has no kernel here",
    },
    dtypes="FD",
    samples=((0.5, 3), (0.5, 3), (-2, 2)),
    cost=900,
)
