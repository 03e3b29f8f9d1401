"""Derivatives of special functions by their parameters: integrals and series, of every order.

All inputs have one shape, and float32 is computed in float64. Each operation is closed under
differentiation: the derivatives of one order are made of the next orders, and of lower ones.
"""

import math
from typing import Any

import numpy as np

from numba_grad.graph.node import Node
from numba_grad.ops.elementwise import one_minus, plus, reciprocal, scaled
from numba_grad.ops.families import total
from numba_grad.ops.random import function_of_elements, next_order
from numba_grad.ops.series import (
    EULER_MACLAURIN,
    LEAST_ACCURACY,
    LEAST_ARGUMENT,
    LEAST_EXPONENT,
    MOST_TERMS,
)

# beta_moment


def _beta_moment_reference(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, *, by_a: int, by_b: int
) -> np.ndarray:
    t = -3.7 + 0.125 * np.arange(72)
    nodes = np.exp(t - np.exp(-t))
    weights = 0.125 * nodes * (1 + np.exp(-t))
    dtype = x.dtype
    a, b, x = (np.asarray(value, np.float64)[..., None] for value in (a, b, x))
    is_left = x * (a + b) <= a
    p, q = np.where(is_left, a, b), np.where(is_left, b - 1, a - 1)
    y, rest = np.where(is_left, x, 1 - x), np.where(is_left, 1 - x, x)
    ratio = y / rest
    growth = np.maximum(q, 0) * ratio
    width = 1 / (np.abs(p - growth) + np.sqrt(growth / rest))
    near = -width * nodes
    far = np.log1p(-ratio * np.expm1(near))
    power = np.where(is_left, near, far) ** by_a * np.where(is_left, far, near) ** by_b
    sums = (weights * np.exp(p * near + q * far) * power).sum(-1)
    return (sums * (np.where(is_left, y, -y) * width)[..., 0]).astype(dtype)


def _beta_moment_vjp_x(
    g: Node, out: Node, a: Node, b: Node, x: Node, *, by_a: int, by_b: int
) -> Node:
    rest = one_minus(x)
    slope = (plus(b, -1) / rest - plus(a, -1) / x) * out
    if by_a == by_b == 0:
        slope = plus(slope, 1)
    if by_a:
        slope = slope - scaled(beta_moment(a, b, x, by_a=by_a - 1, by_b=by_b) / x, by_a)
    if by_b:
        slope = slope + scaled(beta_moment(a, b, x, by_a=by_a, by_b=by_b - 1) / rest, by_b)
    return g * slope


def _beta_moment_examples(rng: "np.random.Generator") -> list[Any]:
    # Not at x == a / (a + b), where the side changes.
    a = np.array([1.0, 1.5, 3.0, 10.0, 200.0, 0.3, 5.0, 2.0])
    b = np.array([1.0, 4.0, 2.5, 12.0, 190.0, 2.0, 0.2, 1.5])
    x = np.array([0.1, 0.6, 0.3, 0.4, 0.55, 0.7, 0.3, 0.9])
    return [
        ((a, b, x), {"by_a": 0, "by_b": 0}),
        ((a, b, x), {"by_a": 1, "by_b": 0}),
        ((a.reshape(2, 4), b.reshape(2, 4), x.reshape(2, 4)), {"by_a": 0, "by_b": 1}),
        ((np.array(2.0), np.array(1.25), np.array(0.3)), {"by_a": 2, "by_b": 1}),
        (tuple(np.zeros((0, 2)) for _ in range(3)), {"by_a": 0, "by_b": 0}),
    ]


# The integral of the beta density over its value at x, times log(t / x)**by_a and
# log((1 - t) / (1 - x))**by_b: over t from 0 to x, or, if x is above a / (a + b), from 1 to x.
# The derivatives of incomplete beta functions by a and b are made of these.
beta_moment = function_of_elements(
    "beta_moment",
    ("a", "b", "x"),
    reference=_beta_moment_reference,
    vjp=(
        next_order("beta_moment", "by_a"),
        next_order("beta_moment", "by_b"),
        _beta_moment_vjp_x,
    ),
    saves=("inputs", "out"),
    example=_beta_moment_examples,
)


# zeta_derivative


def _zeta_derivative_reference(x: np.ndarray, q: np.ndarray, *, order: int) -> np.ndarray:
    dtype = x.dtype
    s, q = np.asarray(x, np.float64), np.asarray(q, np.float64)
    is_defined = (s >= LEAST_EXPONENT) & (s < np.inf) & (q > 0) & (q < np.inf)
    with np.errstate(all="ignore"):
        bases = q[..., None] + np.arange(10)
        total = (bases ** -s[..., None] * np.log(bases) ** order).sum(-1)
        end = q + 10
        last, logarithm = end**-s, np.log(end)
        integral = last * end / (s - 1)
        for k in range(1, order + 1):
            integral = last * end * logarithm**k / (s - 1) + k / (s - 1) * integral
        total = total + integral + last * logarithm**order / 2
        # f(u) = u**-s log(u)**order: its derivatives are u**(-s - j) times polynomials in log(u).
        parts = [math.comb(order, k) * logarithm ** (order - k) for k in range(order + 1)]
        for j in range(2 * len(EULER_MACLAURIN) - 1):
            above = [*parts[1:], 0]
            parts = [((k + 1) * above[k] - (s + j) * parts[k]) / end for k in range(order + 1)]
            if j % 2 == 0:
                total = total - last * EULER_MACLAURIN[j // 2] * parts[0]
    return np.where(is_defined, (-1) ** order * total, np.nan).astype(dtype)


def _zeta_derivative_vjp_q(g: Node, out: Node, x: Node, q: Node, *, order: int) -> Node:
    following = plus(x, 1)
    slope = x * zeta_derivative(following, q, order=order)
    if order:
        slope = slope + scaled(zeta_derivative(following, q, order=order - 1), order)
    return -(g * slope)


def _zeta_derivative_examples(rng: "np.random.Generator") -> list[Any]:
    x = np.array([1.5, 3.0, 0.2, 7.5, 30.0, 2.25])
    q = np.array([1.0, 0.3, 1.0, 4.5, 1.25, 12.0])
    return [
        ((x, q), {"order": 0}),
        ((x, q), {"order": 1}),
        ((x.reshape(2, 3), q.reshape(2, 3)), {"order": 2}),
        ((np.array(2.0), np.array(0.75)), {"order": 3}),
        ((np.zeros((0, 2)), np.zeros((0, 2))), {"order": 1}),
    ]


# The derivatives of Hurwitz's zeta function by its exponent: of the sum of (q + k)**-x over k, for
# q > 0. Where that diverges, x from -1 to 1, those of its continuation, less accurate. Else NaN.
zeta_derivative = function_of_elements(
    "zeta_derivative",
    ("x", "q"),
    reference=_zeta_derivative_reference,
    vjp=(next_order("zeta_derivative", "order"), _zeta_derivative_vjp_q),
    saves=("inputs",),
    example=_zeta_derivative_examples,
)


# hyp1f1_derivative


def _hyp1f1_derivative_reference(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, *, by_a: int, by_b: int
) -> np.ndarray:
    elements = np.broadcast(a, b, x)
    values = [_hyp1f1_derivative(float(p), float(q), float(t), by_a, by_b) for p, q, t in elements]
    return np.array(values, x.dtype).reshape(elements.shape)


def _hyp1f1_derivative(a: float, b: float, x: float, by_a: int, by_b: int) -> float:
    if not math.isfinite(a + b + x) or (b <= 0 and b == math.floor(b)):
        return math.nan
    # Kummer's transformation: exp(x) times the function of b - a, b and -x.
    first, turn_a, turn_b = (a, 1, 0) if x >= 0 else (b - a, -1, 1)
    size, left = abs(x), max(0.0, -x)
    terms = np.zeros((by_a + 1, by_b + 1))
    terms[0, 0] = 1
    total = magnitude = terms[by_a, by_b]
    for n in range(MOST_TERMS):
        following = np.zeros_like(terms)
        for i in range(by_a + 1):
            for j in range(by_b + 1):
                value = (first + n) * terms[i, j]
                value += turn_a * terms[i - 1, j] if i else 0
                value += turn_b * terms[i, j - 1] if j else 0
                value *= size / (n + 1)
                following[i, j] = (value - (following[i, j - 1] if j else 0)) / (b + n)
        terms = following
        total, magnitude = total + terms[by_a, by_b], magnitude + abs(terms[by_a, by_b])
        m = n + 1
        is_falling = m > -2 * b and (abs(first) + m) * size <= 0.5 * abs(b + m) * (m + 1)
        if is_falling and np.abs(terms).max() <= 1e-17 * magnitude:
            break
        if left > 0 and magnitude > 1e200:
            scale = math.exp(-min(left, 400))
            left -= min(left, 400)
            total, magnitude, terms = total * scale, magnitude * scale, terms * scale
    else:
        return math.nan
    scale = math.exp(-left) * math.factorial(by_a) * math.factorial(by_b)
    total, magnitude = total * scale, magnitude * scale
    is_lost = 2.0**-52 * magnitude > LEAST_ACCURACY * max(1, abs(total))
    return math.nan if is_lost else total


def _hyp1f1_derivative_vjp_x(
    g: Node, out: Node, a: Node, b: Node, x: Node, *, by_a: int, by_b: int
) -> Node:
    """Leibniz's rule: by x it is (a / b) hyp1f1(a + 1, b + 1, x), and that by a and b."""

    def times_a(by_b: int) -> Node:
        following = plus(a, 1), plus(b, 1), x
        product = a * hyp1f1_derivative(*following, by_a=by_a, by_b=by_b)
        if by_a:
            lower = hyp1f1_derivative(*following, by_a=by_a - 1, by_b=by_b)
            product = product + scaled(lower, by_a)
        return product

    inverse = reciprocal(b)
    power, terms = inverse, []
    for k in range(by_b + 1):
        factor = float((-1) ** k * math.comb(by_b, k) * math.factorial(k))
        terms.append(scaled(power * times_a(by_b - k), factor))
        power = power * inverse
    slope = total(terms)
    assert slope is not None
    return g * slope


def _hyp1f1_derivative_examples(rng: "np.random.Generator") -> list[Any]:
    a = np.array([1.0, 2.5, 0.3, -0.5, 4.0, 2.0])
    b = np.array([1.5, 0.75, 3.0, 1.25, -0.5, 2.0])
    x = np.array([0.5, -2.0, 3.0, 1.0, -1.5, -4.0])
    return [
        ((a, b, x), {"by_a": 1, "by_b": 0}),
        ((a.reshape(2, 3), b.reshape(2, 3), x.reshape(2, 3)), {"by_a": 0, "by_b": 1}),
        ((a, b, x), {"by_a": 1, "by_b": 1}),
        ((np.array(2.0), np.array(1.25), np.array(-0.3)), {"by_a": 2, "by_b": 1}),
        (tuple(np.zeros((0, 2)) for _ in range(3)), {"by_a": 1, "by_b": 0}),
    ]


# The derivatives of hyp1f1 by its parameters, summed from its series. NaN at the poles of b, where
# fewer than some six digits remain, and where the series is longer than `MOST_TERMS`.
hyp1f1_derivative = function_of_elements(
    "hyp1f1_derivative",
    ("a", "b", "x"),
    reference=_hyp1f1_derivative_reference,
    vjp=(
        next_order("hyp1f1_derivative", "by_a"),
        next_order("hyp1f1_derivative", "by_b"),
        _hyp1f1_derivative_vjp_x,
    ),
    saves=("inputs",),
    example=_hyp1f1_derivative_examples,
)


# bessel_k_derivative


def _bessel_k_derivative_reference(
    v: np.ndarray, x: np.ndarray, *, by_v: int, by_x: int
) -> np.ndarray:
    elements = np.broadcast(v, x)
    values = [_bessel_k_derivative(float(p), float(t), by_v, by_x) for p, t in elements]
    return np.array(values, x.dtype).reshape(elements.shape)


def _bessel_k_derivative(v: float, x: float, by_v: int, by_x: int) -> float:
    """The sum of the trapezoidal rule over all that counts, by NumPy."""
    sign = (-1) ** by_x * (float(np.sign(v)) if by_v % 2 else 1.0)
    v = abs(v)
    if v == math.inf or not (x == 0 or x >= LEAST_ARGUMENT):
        return math.nan
    if x == 0 or x == math.inf or sign == 0:
        return sign * math.inf if x == 0 and sign else 0.0
    size = math.hypot(v, x)
    step = min(0.15, 0.5 / math.sqrt(size))
    peak = max(0.0, math.log(v + size) - math.log(x))
    count = math.ceil(min(peak + 12 + math.log1p(1 / x), 705) / step) if size < 1e4 else 0
    first = 0 if count else max(0, math.floor(peak / step) - 120)
    t = step * np.arange(first, count or first + 360)
    rise = 2 * np.sinh(t / 2) ** 2
    with np.errstate(all="ignore"):
        terms = 0.5 * np.exp(v * t - x * rise)
        terms *= -np.expm1(-2 * v * t) if by_v % 2 else 1 + np.exp(-2 * v * t)
        terms = np.where(terms == 0, 0, terms * t**by_v * rise**by_x)
    if first == 0:
        terms[0] *= 0.5
    return sign * step * float(terms.sum())


def _bessel_k_derivative_examples(rng: "np.random.Generator") -> list[Any]:
    v = np.array([0.0, 2.5, -0.75, 12.0, 0.25, 3.0])
    x = np.array([0.5, 2.0, 1.25, 9.0, 0.03, 40.0])
    return [
        ((v, x), {"by_v": 0, "by_x": 1}),
        ((v.reshape(2, 3), x.reshape(2, 3)), {"by_v": 1, "by_x": 0}),
        ((v, x), {"by_v": 1, "by_x": 2}),
        ((np.array(1.5), np.array(0.75)), {"by_v": 2, "by_x": 1}),
        ((np.zeros((0, 2)), np.zeros((0, 2))), {"by_v": 1, "by_x": 0}),
    ]


# The derivatives of kve, exp(x) K_v(x): of the integral of exp(-x (cosh(t) - 1)) cosh(v t) over
# t > 0. Each has terms of one sign, so that nothing cancels. NaN for x below `LEAST_ARGUMENT`, but
# infinite at 0.
bessel_k_derivative = function_of_elements(
    "bessel_k_derivative",
    ("v", "x"),
    reference=_bessel_k_derivative_reference,
    vjp=(next_order("bessel_k_derivative", "by_v"), next_order("bessel_k_derivative", "by_x")),
    saves=("inputs",),
    example=_bessel_k_derivative_examples,
)
