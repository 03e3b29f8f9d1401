"""Special functions: the error and gamma functions and their relatives, entropies, logit, zeta.

Names are SciPy's; all compute in float32 and float64, and those that are analytic functions for
SciPy also in complex64 and complex128. The other special functions are in
`bessel.py`. Derivatives are classical (DLMF, chapters 5, 7, 8, 25); what has a comment is how they
keep accurate, or finite, where the textbook's form would not.
"""

import math
from collections.abc import Callable

import numpy as np

from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node
from numba_grad.graph.types import broadcast_shapes
from numba_grad.ops.elementwise import (
    absolute,
    conjugated,
    floor,
    imag,
    is_zero,
    multiply,
    one_minus,
    plus,
    real_part,
    reciprocal,
    scaled,
    square,
    unary,
    where,
    zero_where,
)
from numba_grad.ops.families import broadcast_to, elementwise, literal, scipy_reference
from numba_grad.ops.functions import cos, exp, log, log1p, power, sigmoid, sin
from numba_grad.ops.logic import (
    equal,
    greater,
    less,
    less_equal,
    logical_and,
    logical_not,
)
from numba_grad.ops.parameters import beta_moment, zeta_derivative
from numba_grad.ops.random import gamma_moment

DTYPES = "fd"
ANALYTIC = "fdFD"
ROOT_PI = math.sqrt(math.pi)
ROOT_2_PI = math.sqrt(2 * math.pi)
ROOT_HALF = math.sqrt(0.5)
LOG_2_PI = math.log(2 * math.pi)


def number(value: float, like: Node) -> Node:
    return literal(value, like.dtype)


def stretched(name: str, **inputs: Node) -> list[Node]:
    """`inputs` broadcast to one shape, which operations with kernels of their own need."""
    shape = broadcast_shapes(name, tuple(inputs), tuple(x.type for x in inputs.values()))
    return [broadcast_to(x, shape) for x in inputs.values()]


def one_where(condition: Node, x: Node) -> Node:
    """`x`, and 1 where `condition` holds: an operand that makes no infinity."""
    return where(condition, number(1, x), x)


# The error function's relatives, and the normal distribution.

erfinv = unary(
    "erfinv",
    lambda out: scaled(exp(square(out)), ROOT_PI / 2),
    samples=(-0.9, 0.9),
    cost=60,
    dtypes=DTYPES,
)

erfcinv = unary(
    "erfcinv",
    lambda out: scaled(exp(square(out)), -ROOT_PI / 2),
    samples=(0.1, 1.9),
    cost=80,
    dtypes=DTYPES,
)


def is_right_of(x: Node, limit: float) -> Node:
    """Whether the real part of `x` is greater."""
    part = real_part(x)
    return greater(part, literal(limit, part.dtype))


def _erfcx_slope(out: Node, x: Node) -> Node:
    """2 x out - 2/sqrt(pi); for large x, where these two cancel, their asymptotic series.

    That holds on the right. On the left, erfcx(x) = 2 exp(x**2) - erfcx(-x): for real x the slope
    is the first one's, in the plane the second counts too.
    """
    is_complex = x.dtype.kind == "c"
    is_left = logical_not(is_right_of(x, 0)) if is_complex else None
    is_large = is_right_of(absolute(x) if is_complex else x, 50)
    small_x = zero_where(is_large, x)
    near = plus(scaled(small_x * zero_where(is_large, out), 2), -2 / ROOT_PI)
    inverse = square(reciprocal(where(is_large, x, number(50, x))))
    # 2/sqrt(pi) (-1/2 s + 3/4 s**2 - 15/8 s**3 + ...), s = 1/x**2
    series = scaled(inverse, -945 / 32)
    for coefficient in (105 / 16, -15 / 8, 3 / 4, -1 / 2):
        series = multiply(plus(series, coefficient), inverse)
    far = scaled(series, 2 / ROOT_PI)
    if is_left is not None:
        far_left = zero_where(logical_not(logical_and(is_large, is_left)), x)
        far = far + scaled(far_left * exp(square(far_left)), 4)
    return where(is_large, far, near)


erfcx = unary("erfcx", _erfcx_slope, samples=(-2, 4), cost=60, dtypes=ANALYTIC)


def _normal_density(x: Node) -> Node:
    return scaled(exp(scaled(square(x), -0.5)), 1 / ROOT_2_PI)


ndtr = unary("ndtr", _normal_density, samples=(-3, 3), cost=50, dtypes=ANALYTIC)


def _log_ndtr_slope(out: Node, x: Node) -> Node:
    """The density over the probability: for negative x both may be 0, and for positive the scaled
    error function overflows."""
    is_positive = is_right_of(x, 0)
    negative = zero_where(is_positive, x)
    below = reciprocal(scaled(erfcx(scaled(negative, -ROOT_HALF)), math.sqrt(math.pi / 2)))
    positive = where(is_positive, x, number(0, x))
    above = exp(scaled(square(positive), -0.5) - where(is_positive, out, number(0, x)))
    return where(is_positive, scaled(above, 1 / ROOT_2_PI), below)


log_ndtr = unary("log_ndtr", _log_ndtr_slope, samples=(-3, 3), cost=70, dtypes=ANALYTIC)

ndtri = unary(
    "ndtri",
    lambda out: scaled(exp(scaled(square(out), 0.5)), ROOT_2_PI),
    samples=(0.1, 0.9),
    cost=80,
    dtypes=DTYPES,
)


# The gamma function and its relatives.

gamma = unary("gamma", lambda out, x: out * digamma(x), samples=(0.3, 4), cost=90, dtypes=ANALYTIC)


def _rgamma_slope(out: Node, x: Node) -> Node:
    """-digamma(x) out; at the poles of gamma, x = -n, where that is inf * 0, (-1)**n n!."""
    part = real_part(x)
    is_pole = logical_and(less_equal(part, number(0, part)), equal(floor(part), part))
    if x.dtype.kind == "c":
        is_pole = logical_and(is_pole, is_zero(imag(x)))
    at_pole = zero_where(logical_not(is_pole), x)
    factorial = gamma(one_minus(at_pole)) * cos(scaled(at_pole, math.pi))
    return where(is_pole, factorial, -(digamma(one_where(is_pole, x)) * out))


rgamma = unary("rgamma", _rgamma_slope, samples=(0.3, 4), cost=200, dtypes=ANALYTIC)
gammaln = unary("gammaln", lambda x: digamma(x), samples=(0.3, 9), cost=70, dtypes=DTYPES)

# The principal branch: analytic but for a cut along the negative real axis, where gammaln is even.
loggamma = unary("loggamma", lambda x: digamma(x), samples=(0.3, 9), cost=400, dtypes="FD")


def _digamma_slope(x: Node) -> Node:
    return integer_zeta(x, exponent=2) if x.dtype.kind == "c" else trigamma(x)


digamma = unary(
    "digamma",
    _digamma_slope,
    reference=scipy_reference("psi"),
    samples=(0.3, 9),
    cost=90,
    dtypes=ANALYTIC,
)


def _trigamma_reference(x: np.ndarray) -> np.ndarray:
    special = imported("scipy.special")
    return np.asarray(special.polygamma(1, x)).astype(x.dtype)


trigamma = unary(
    "trigamma",
    lambda x: scaled(zeta(number(3, x), x), -2),
    reference=_trigamma_reference,
    samples=(0.3, 9),
    cost=60,
    dtypes=DTYPES,
)


def _zeta_slope(x: Node, q: Node) -> Node:
    """By x; NaN where zeta is, and for negative q."""
    x, q = stretched("zeta", x=x, q=q)
    is_defined = greater(x, number(1, x))
    slope = zeta_derivative(where(is_defined, x, number(2, x)), q, order=1)
    return where(is_defined, slope, number(math.nan, x))


zeta = elementwise(
    "zeta",
    input_names=("x", "q"),
    vjp=(
        lambda g, out, x, q: g * _zeta_slope(x, q),
        lambda g, out, x, q: g * -(x * zeta(plus(x, 1), q)),
    ),
    dtypes=DTYPES,
    samples=((1.5, 5), (0.5, 9)),
    cost=600,
)


def _riemann_zeta_slope(x: Node) -> Node:
    """For negative x that of 2 (2 pi)**(x - 1) sin(pi x / 2) gamma(1 - x) zeta(1 - x), whose sum
    converges (DLMF 25.4.2). Not next to 0, where the sine and a pole cancel."""
    is_negative = less(x, number(-0.5, x))
    one = number(1, x)
    near = zeta_derivative(where(is_negative, number(2, x), x), broadcast_to(one, x.shape), order=1)
    below = where(is_negative, x, number(-1, x))
    mirrored = one_minus(below)
    factor = scaled(gamma(mirrored) * exp(scaled(plus(below, -1), LOG_2_PI)), 2)
    angle = scaled(below, math.pi / 2)
    # The sine by x, and by way of the two other factors.
    growth = scaled(cos(angle), math.pi / 2) - sin(angle) * plus(digamma(mirrored), -LOG_2_PI)
    derivative = zeta_derivative(mirrored, broadcast_to(one, x.shape), order=1)
    far = factor * (growth * riemann_zeta(mirrored) - sin(angle) * derivative)
    return where(is_negative, far, near)


riemann_zeta = unary(
    "riemann_zeta",
    _riemann_zeta_slope,
    reference=scipy_reference("zeta"),
    samples=(1.5, 5),
    cost=200,
    dtypes=DTYPES,
)

# The order of a polygamma function, as an operand of the formula for all orders: a formula of
# integers, which has another derivative by it than the function would, if that had one.
polygamma_order = elementwise(
    "polygamma_order",
    expression="{n}",
    reference=np.copy,
    vjp=(None,),
    no_derivative={"n": "it is defined for integers"},
    dtypes=DTYPES,
    samples=((0, 4),),
    saves=(),
)


def _integer_zeta_reference(q: np.ndarray, *, exponent: int) -> np.ndarray:
    """By NumPy, as SciPy has none for complex numbers: terms to the right of 30, then 12 more of
    the expansion for large numbers (DLMF 25.11.43)."""
    special = imported("scipy.special")
    q = np.array(q, np.complex128)
    total = np.zeros_like(q)
    for _ in range(int(np.ceil(np.clip(30 - np.real(q), 0, 1e4)).max(initial=0))):
        is_left = np.real(q) < 30
        total[is_left] += q[is_left] ** -exponent
        q[is_left] += 1
    total += q ** (1 - exponent) / (exponent - 1) + q**-exponent / 2
    for k, coefficient in enumerate(special.bernoulli(24)[2::2], 1):
        rising = special.poch(exponent, 2 * k - 1) / special.factorial(2 * k)
        total += coefficient * rising * q ** (1 - exponent - 2 * k)
    return total


# The sum of (k + x)**-exponent, for exponents from 2 on: the derivatives of digamma, but for a
# factor.
integer_zeta = elementwise(
    "integer_zeta",
    expression=lambda exponent: f"integer_zeta({{x}}, {exponent})",
    reference=lambda x, exponent: _integer_zeta_reference(x, exponent=exponent).astype(x.dtype),
    vjp=(
        lambda g, out, x, exponent: (
            g * conjugated(scaled(integer_zeta(x, exponent=exponent + 1), -exponent))
        ),
    ),
    dtypes="FD",
    samples=((0.3, 9),),
    cost=900,
    input_names=("x",),
    params_samples=({"exponent": 2}, {"exponent": 3}, {"exponent": 7}),
)

beta = elementwise(
    "beta",
    input_names=("a", "b"),
    vjp=(
        lambda g, out, a, b: g * (out * (digamma(a) - digamma(a + b))),
        lambda g, out, a, b: g * (out * (digamma(b) - digamma(a + b))),
    ),
    dtypes=DTYPES,
    samples=((0.5, 4), (0.5, 4)),
    cost=400,
    saves=("inputs", "out"),
)

betaln = elementwise(
    "betaln",
    input_names=("a", "b"),
    vjp=(
        lambda g, out, a, b: g * (digamma(a) - digamma(a + b)),
        lambda g, out, a, b: g * (digamma(b) - digamma(a + b)),
    ),
    dtypes=DTYPES,
    samples=((0.5, 4), (0.5, 4)),
    cost=400,
)


def _power_density(x: Node, exponent: Node, factor: Callable[[Node], Node]) -> Node:
    """x**exponent * exp(factor(x)), without overflow on the way.

    At x = 0 the logarithm of the power would make a NaN of derivatives.
    """
    at_zero = is_zero(x)
    logarithm = multiply(exponent, log(one_where(at_zero, x))) + factor(x)
    edge = power(where(at_zero, x, number(1, x)), exponent) * exp(factor(x))
    return where(at_zero, edge, exp(zero_where(at_zero, logarithm)))


def _gamma_density(a: Node, x: Node) -> Node:
    is_infinite = equal(x, number(math.inf, x))  # there, its logarithm would be inf - inf
    density = _power_density(one_where(is_infinite, x), plus(a, -1), lambda x: -(x + gammaln(a)))
    return zero_where(is_infinite, density)


def _slope_by_shape(a: Node, x: Node) -> Node:
    """The derivative of gammainc by a: the density, integrated with log(t) - digamma(a) over t on
    one side of x, the one with less of it.

    For a < 1, where that integral converges slowly, by P(a, x) = P(a + 1, x) + (a density).
    """
    a, x = stretched("gammainc", a=a, x=x)
    is_inside = logical_and(greater(x, number(0, x)), less(x, number(math.inf, x)))
    x = where(is_inside, x, number(1, x))
    is_small = less(a, number(1, a))
    raised = where(is_small, plus(a, 1), a)
    distance = log(x) - digamma(raised)
    moments = distance * gamma_moment(x, raised, order=0) + gamma_moment(x, raised, order=1)
    slope = -(_gamma_density(raised, x) * moments)
    rest = _gamma_density(raised, x) * distance
    slope = slope + where(is_small, rest, number(0, x))
    return where(is_inside, slope, number(0, x))


gammainc = elementwise(
    "gammainc",
    input_names=("a", "x"),
    vjp=(
        lambda g, out, a, x: g * _slope_by_shape(a, x),
        lambda g, out, a, x: g * _gamma_density(a, x),
    ),
    dtypes=DTYPES,
    samples=((0.5, 4), (0.2, 6)),
    cost=600,
)

gammaincc = elementwise(
    "gammaincc",
    input_names=("a", "x"),
    vjp=(
        lambda g, out, a, x: -(g * _slope_by_shape(a, x)),
        lambda g, out, a, x: -(g * _gamma_density(a, x)),
    ),
    dtypes=DTYPES,
    samples=((0.5, 4), (0.2, 6)),
    cost=600,
)


def _beta_density(a: Node, b: Node, x: Node) -> Node:
    at_end = equal(x, number(1, x))
    rest = one_where(at_end, one_minus(x))
    # At x = 1 as at 0: the power itself.
    edge = power(where(at_end, one_minus(x), number(1, x)), plus(b, -1))
    left = _power_density(
        x,
        plus(a, -1),
        lambda x: zero_where(at_end, multiply(plus(b, -1), log(rest))) - betaln(a, b),
    )
    return left * edge


def _slopes_by_shapes(a: Node, b: Node, x: Node, of_a: bool) -> Node:
    """The derivative of betainc by a or b: the density, integrated with log(t) - digamma(a) +
    digamma(a + b), or with log(1 - t) in place of log(t), over t on one side of x.

    That converges slowly where an end that is near has a parameter below 1, which is raised then:
    I(a, b) = I(a + 1, b) + jump, I(a, b) = I(a, b + 1) - jump (DLMF 8.17.20, 8.17.21).
    """
    a, b, x = stretched("betainc", a=a, b=b, x=x)
    zero, one = number(0, x), number(1, x)
    is_inside = logical_and(greater(x, zero), less(x, one))
    x = where(is_inside, x, number(0.5, x))
    is_low = less_equal(x, number(0.5, x))
    raises_a = logical_and(less(a, one), is_low)
    raises_b = logical_and(less(b, one), logical_not(is_low))
    raised_a, raised_b = where(raises_a, plus(a, 1), a), where(raises_b, plus(b, 1), b)
    own, (by_a, by_b) = (raised_a, (1, 0)) if of_a else (raised_b, (0, 1))
    logarithm = log(x) if of_a else log1p(-x)
    distance = logarithm - digamma(own) + digamma(raised_a + raised_b)
    moments = distance * beta_moment(raised_a, raised_b, x, by_a=0, by_b=0)
    moments = moments + beta_moment(raised_a, raised_b, x, by_a=by_a, by_b=by_b)
    slope = _beta_density(raised_a, raised_b, x) * moments

    exponent = multiply(a, log(x)) + multiply(b, log1p(-x)) - betaln(raised_a, raised_b)
    jump = exp(exponent - log(a + b)) * (logarithm - digamma(own) + digamma(a + b))
    slope = slope + where(raises_a, jump, where(raises_b, -jump, zero))
    return where(is_inside, slope, zero)


betainc = elementwise(
    "betainc",
    input_names=("a", "b", "x"),
    vjp=(
        lambda g, out, a, b, x: g * _slopes_by_shapes(a, b, x, True),
        lambda g, out, a, b, x: g * _slopes_by_shapes(a, b, x, False),
        lambda g, out, a, b, x: g * _beta_density(a, b, x),
    ),
    dtypes=DTYPES,
    samples=((0.5, 4), (0.5, 4), (0.1, 0.9)),
    cost=900,
)


# Logits, and products with logarithms.


def _log_expit_reference(x: np.ndarray) -> np.ndarray:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


log_expit = unary(
    "log_expit",
    lambda x: sigmoid(-x),
    expression="log_sigmoid({x})",
    reference=_log_expit_reference,
    samples=(-3, 3),
    cost=35,
    dtypes=DTYPES,
)


def _logit_vjp(g: Node, out: Node, x: Node) -> Node:
    """1 / (x (1 - x)); NaN where that is negative and logit is NaN, as in torch."""
    variance = x * one_minus(x)
    is_outside = less(variance, number(0, x))
    return g / where(is_outside, number(math.nan, x), variance)


logit = elementwise(
    "logit",
    vjp=(_logit_vjp,),
    dtypes=DTYPES,
    samples=((0.1, 0.9),),
    cost=30,
)


def _is_cut_off(x: Node, y: Node, limit: float) -> Node:
    """Where x log(y) is 0 for any y: torch's slope by x there is 0, too. In the plane, only where
    the logarithm is infinite."""
    is_beyond = equal if y.dtype.kind == "c" else less_equal
    return logical_and(is_zero(x), is_beyond(y, number(limit, y)))


def _xlogy_vjp_x(g: Node, out: Node, x: Node, y: Node) -> Node:
    is_cut_off = _is_cut_off(x, y, 0)
    return zero_where(is_cut_off, g) * conjugated(log(one_where(is_cut_off, y)))


def _ratio(x: Node, y: Node) -> Node:
    """x / y, and 0 for x = y = 0."""
    is_undefined = logical_and(is_zero(x), is_zero(y))
    return x / one_where(is_undefined, y)


xlogy = elementwise(
    "xlogy",
    vjp=(_xlogy_vjp_x, lambda g, out, x, y: g * conjugated(_ratio(x, y))),
    dtypes=ANALYTIC,
    samples=((-3, 3), (0.2, 4)),
    cost=15,
)


def _xlog1py_vjp_x(g: Node, out: Node, x: Node, y: Node) -> Node:
    is_cut_off = _is_cut_off(x, y, -1)
    return zero_where(is_cut_off, g) * conjugated(log1p(zero_where(is_cut_off, y)))


xlog1py = elementwise(
    "xlog1py",
    vjp=(_xlog1py_vjp_x, lambda g, out, x, y: g * conjugated(_ratio(x, plus(y, 1)))),
    dtypes=ANALYTIC,
    samples=((-3, 3), (-0.8, 4)),
    cost=18,
)

# The slope at 0 is inf, and NaN for negative x: torch's.
entr = unary("entr", minus=lambda x: plus(log(x), 1), samples=(0.2, 4), cost=15, dtypes=DTYPES)


def _log_of_ratio(x: Node, y: Node) -> Node:
    return log(x) - log(y)


# At x = 0 the slopes by x are -inf: one-sided limits.
rel_entr = elementwise(
    "rel_entr",
    vjp=(
        lambda g, out, x, y: g * plus(_log_of_ratio(x, y), 1),
        lambda g, out, x, y: -(g * _ratio(x, y)),
    ),
    dtypes=DTYPES,
    samples=((0.2, 4), (0.2, 4)),
    cost=30,
)

kl_div = elementwise(
    "kl_div",
    vjp=(
        lambda g, out, x, y: g * _log_of_ratio(x, y),
        lambda g, out, x, y: g * one_minus(_ratio(x, y)),
    ),
    dtypes=DTYPES,
    samples=((0.2, 4), (0.2, 4)),
    cost=30,
)
