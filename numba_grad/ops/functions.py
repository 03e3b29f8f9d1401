"""Elementary functions: powers, exponentials, logarithms, trigonometric, hyperbolic, erf.

Derivatives reuse the result where that loses no accuracy. The rules for complex numbers and for
kinks are those of `elementwise.py`.
"""

import math
from collections.abc import Callable

import numpy as np

from numba_grad.dtypes import finfo
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node, Op
from numba_grad.ops.elementwise import (
    absolute,
    conjugated,
    imag,
    is_zero,
    multiply,
    one_minus,
    plus,
    real_part,
    scaled,
    square,
    unary,
    where,
    zero_where,
)
from numba_grad.ops.families import FLOATING, INEXACT, NUMERIC, elementwise, literal
from numba_grad.ops.logic import (
    equal,
    greater,
    greater_equal,
    isinf,
    logical_and,
    logical_not,
)

LOG_2 = math.log(2)
LOG_10 = math.log(10)
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _one_minus_square(x: Node) -> Node:
    """1 - x*x without cancellation next to 1."""
    if x.dtype.kind != "c":
        return multiply(one_minus(x), plus(x, 1))
    return -(_less(x, 1) * _less(x, -1))


def _one_plus_square(x: Node) -> Node:
    return plus(square(x), 1) if x.dtype.kind != "c" else _less(square(x), -1)


def _less(x: Node, term: float) -> Node:
    """A complex number less a real one. On a cut the sign of a zero says which side `x` is on: it
    stays in a difference, where the sum of -0 and 0 is 0."""
    return x - literal(term, x.dtype)


# Powers and roots.


def _power_vjp_x(g: Node, out: Node, x: Node, y: Node) -> Node:
    """y * x**(y-1), and 0 for y = 0 also where x**-1 is not finite, in all orders."""
    size = absolute(x)
    smallest = literal(float(finfo(size.dtype).tiny), size.dtype)
    # "Not greater" rather than "less", so that x**0 has no slope where x is NaN.
    is_constant = logical_and(is_zero(y), logical_not(greater(size, smallest)))
    exponent = where(is_constant, literal(0, y.dtype), plus(y, -1))
    return g * conjugated(zero_where(is_constant, y * power(x, exponent)))


def _power_vjp_y(g: Node, out: Node, x: Node, y: Node) -> Node:
    """out * log(x), and 0 for x = 0, y >= 0."""
    real_y = real_part(y)
    is_constant = logical_and(is_zero(x), greater_equal(real_y, literal(0, real_y.dtype)))
    if y.dtype.kind == "c":
        is_constant = logical_and(is_constant, is_zero(imag(y)))
    safe_x = where(is_constant, literal(1, x.dtype), x)
    return g * conjugated(out * log(safe_x))


power = elementwise(
    "power",
    vjp=(_power_vjp_x, _power_vjp_y),
    dtypes=NUMERIC,
    samples=((0.5, 3), (0, 3)),
    cost=40,
    saves=("inputs", "out"),
)


def is_power_of_integers(node: Node) -> bool:
    """Whether this is a power that a negative exponent makes an error."""
    return node.op is power and node.dtype.kind == "i"


sqrt = unary("sqrt", over=lambda out: scaled(out, 2), samples=(0.1, 4), cost=6)


# Exponents beyond this one are left to pow. Each derivative has one less than what it is taken of.
MOST_WITH_ROOT = 8


def _half_integer_power_expression(*, exponent: float) -> str:
    """Products and a root. Of -0.0 and of minus infinity the power is that of the magnitude."""
    if abs(exponent) > MOST_WITH_ROOT:
        return f"power({{x}}, cast({exponent}, {{dtype}}))"
    base = "select(isinf({x}) | ({x} == 0), absolute({x}), {x})"
    text = " * ".join([*[base] * int(abs(exponent)), f"sqrt({base})"])
    return f"reciprocal({text})" if exponent < 0 else text


def half_integer_power(x: Node, exponent: float) -> Node:
    """`x` to a multiple of one half that is no integer."""
    if exponent == 0.5:
        return sqrt(x)
    return _half_integer_power(x, exponent=exponent)


_half_integer_power = elementwise(
    "half_integer_power",
    expression=_half_integer_power_expression,
    reference=lambda x, *, exponent: np.power(x, x.dtype.type(exponent)),
    vjp=(lambda g, out, x, *, exponent: g * scaled(half_integer_power(x, exponent - 1), exponent),),
    dtypes=FLOATING,
    samples=((0.5, 3),),
    cost=12,
    input_names=("x",),
    params_samples=tuple({"exponent": k / 2} for k in (3, -1, -3, 5, -7, 17)),
)


cbrt = unary(
    "cbrt", over=lambda out: scaled(square(out), 3), samples=(0.1, 4), cost=20, dtypes="efd"
)


def _one_for_zero(x: Node) -> Node:
    """A divisor that is never 0, for numerators that are 0 where `x` is."""
    return where(is_zero(x), literal(1, x.dtype), x)


# The slopes at the origin are 0.
hypot = elementwise(
    "hypot",
    vjp=(
        lambda g, out, x, y: g * (x / _one_for_zero(out)),
        lambda g, out, x, y: g * (y / _one_for_zero(out)),
    ),
    dtypes="efd",
    samples=((0.5, 3), (-3, 3)),
    cost=15,
    saves=("inputs", "out"),
)


# Exponentials and logarithms.

exp = unary("exp", lambda out: out, samples=(-2, 2), cost=12)
exp2 = unary("exp2", lambda out: scaled(out, LOG_2), samples=(-2, 2), cost=12)


def _expm1_reference(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "c":
        return np.expm1(x)
    # NumPy multiplies inf by 0 where the real part is infinite.
    return np.where(np.isfinite(np.real(x)), np.expm1(x), np.exp(x) - x.dtype.type(1))


# Not out + 1, which is 0 for x below -37.
expm1 = unary("expm1", lambda x: exp(x), reference=_expm1_reference, samples=(-2, 2), cost=15)


def _distance(x: Node, y: Node) -> Node:
    """x - y, and 0 for equal infinities."""
    return zero_where(logical_and(equal(x, y), isinf(x)), x - y)


def _log_of_sum(name: str, total: str, reference: np.ufunc, scale: float) -> Op:
    """The logarithm of a sum of two powers, relative to the larger one, so that none overflows.

    `total` has the logarithm of 1 + the smaller power, which is that of {distance}. A slope is the
    part that a power has in the sum: half for equal infinities, as of their maximum.
    """
    # As `_distance`: both share the power of it.
    distance = "select(({x} == {y}) & isinf({x}), cast(0, {dtype}), {x} - {y})"
    return elementwise(
        name,
        expression="maximum({x}, {y}) + " + total.replace("{distance}", f"-absolute({distance})"),
        reference=reference,
        vjp=(
            lambda g, out, x, y: g * sigmoid(scaled(_distance(x, y), scale)),
            lambda g, out, x, y: g * sigmoid(-scaled(_distance(x, y), scale)),
        ),
        dtypes="efd",
        samples=((0, 2), (-2, 2)),  # where the sum is 1, the logarithm has few digits
        cost=30,
    )


logaddexp = _log_of_sum("logaddexp", "log1p(exp({distance}))", np.logaddexp, 1.0)
logaddexp2 = _log_of_sum(
    "logaddexp2", f"log1p(exp2({{distance}})) * cast({1 / LOG_2}, {{dtype}})", np.logaddexp2, LOG_2
)

# 1/x also for negative x, where the value is NaN: torch's convention.
log = unary("log", over=lambda x: x, samples=(0.1, 4), cost=12)
log1p = unary("log1p", over=lambda x: plus(x, 1), samples=(-0.8, 4), cost=15)
log2 = unary("log2", over=lambda x: scaled(x, LOG_2), samples=(0.1, 4), cost=12)
log10 = unary("log10", over=lambda x: scaled(x, LOG_10), samples=(0.1, 4), cost=12)


# Trigonometric.

sin = unary("sin", lambda x: cos(x), samples=(-4, 4), cost=14)
cos = unary("cos", minus=lambda x: sin(x), samples=(-4, 4), cost=14)
tan = unary("tan", lambda out: plus(square(out), 1), samples=(-1.2, 1.2), cost=20)
arcsin = unary("arcsin", over=lambda x: sqrt(_one_minus_square(x)), samples=(-0.9, 0.9), cost=18)
arccos = unary("arccos", over=lambda x: -sqrt(_one_minus_square(x)), samples=(-0.9, 0.9), cost=18)
arctan = unary("arctan", over=lambda x: plus(square(x), 1), samples=(-0.9, 0.9), cost=16)


def _angle_slope(g: Node, across: Node, x: Node, y: Node) -> Node:
    """g * across / (x*x + y*y) without overflow or underflow; 0 at the origin."""
    distance = _one_for_zero(hypot(x, y))
    return g * (across / distance / distance)


arctan2 = elementwise(
    "arctan2",
    expression="arctan2({y}, {x})",
    vjp=(
        lambda g, out, y, x: _angle_slope(g, x, x, y),
        lambda g, out, y, x: -_angle_slope(g, y, x, y),
    ),
    dtypes="efd",
    samples=((0.5, 3), (-3, 3)),
    cost=25,
)


# Hyperbolic.

sinh = unary("sinh", lambda x: cosh(x), samples=(-2, 2), cost=20)
cosh = unary("cosh", lambda x: sinh(x), samples=(-2, 2), cost=18)
tanh = unary("tanh", lambda out: one_minus(square(out)), samples=(-1.5, 1.5), cost=18)
arcsinh = unary("arcsinh", over=lambda x: sqrt(_one_plus_square(x)), samples=(-0.9, 0.9), cost=22)


def _arccosh_vjp(g: Node, out: Node, x: Node) -> Node:
    """1 / sqrt(x*x - 1) without cancellation next to 1."""
    below, above = plus(x, -1), plus(x, 1)
    if x.dtype.kind == "c":
        # One root of the product would have the wrong sign in the left half of the plane.
        return g / conjugated(sqrt(below) * sqrt(above))
    # At -1 the product is -0, as PyTorch's x*x - 1 is not.
    return g / sqrt(plus(below * above, 0))


arccosh = elementwise(
    "arccosh",
    vjp=(_arccosh_vjp,),
    dtypes=INEXACT,
    samples=((1.2, 4),),
    cost=20,
)

arctanh = unary("arctanh", over=_one_minus_square, samples=(-0.8, 0.8), cost=20)


# Sigmoid and error function.


def _sigmoid_reference(x: np.ndarray) -> np.ndarray:
    one = x.dtype.type(1)
    if x.dtype.kind == "c":
        return one / (one + np.exp(-x))
    # exp of a negative number on both sides: no overflow, and no loss for very negative x.
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, one, decay) / (one + decay)


sigmoid = unary(
    "sigmoid",
    lambda out: out * one_minus(out),
    reference=_sigmoid_reference,
    samples=(-3, 3),
    cost=18,
)


def _error_function_reference(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """NumPy has none: the C library's, through Python, in double precision, but of complex numbers
    SciPy's."""
    of_number = np.vectorize(getattr(math, name), otypes=[np.float64])

    def reference(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind == "c":
            return np.asarray(getattr(imported("scipy.special"), name)(x))
        return of_number(x).astype(x.dtype)

    return reference


def _bell(x: Node) -> Node:
    """The derivative of erf."""
    return scaled(exp(-square(x)), TWO_OVER_ROOT_PI)


erf = unary("erf", _bell, reference=_error_function_reference("erf"), samples=(-2, 2), cost=25)

erfc = unary(
    "erfc", minus=_bell, reference=_error_function_reference("erfc"), samples=(-2, 2), cost=30
)
