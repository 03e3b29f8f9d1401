"""Derivatives of special functions by their parameters, element by element, in float64."""

import itertools
import math

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, call_of_elements
from numba_grad.compiler.library_kernels.registry import BY_TASK, LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.ops.series import (
    EULER_MACLAURIN,
    LEAST_ACCURACY,
    LEAST_ARGUMENT,
    LEAST_EXPONENT,
    MOST_TERMS,
)

__all__ = [
    "bessel_k_derivative_call",
    "beta_moment_call",
    "gamma_moment_call",
    "hyp1f1_derivative_call",
    "zeta_derivative_call",
]


def beta_moment_call(dtype: np.dtype, size: int, by_a: int, by_b: int) -> LibraryCall:
    """`ops.parameters.beta_moment`. Inputs: a, b, x; one output, of `size`."""
    return call_of_elements(_beta_moment_source(dtype, by_a, by_b), 3, size, cost=1500)


def gamma_moment_call(dtype: np.dtype, size: int, order: int) -> LibraryCall:
    """`ops.random.gamma_moment`. Inputs: x, a; one output, of `size`."""
    return call_of_elements(_gamma_moment_source(dtype, order), 2, size, cost=1024)


def zeta_derivative_call(dtype: np.dtype, size: int, order: int) -> LibraryCall:
    """`ops.parameters.zeta_derivative`. Inputs: x, q; one output, of `size`."""
    return call_of_elements(_zeta_source(dtype, order), 2, size, cost=600)


def hyp1f1_derivative_call(dtype: np.dtype, size: int, by_a: int, by_b: int) -> LibraryCall:
    """`ops.parameters.hyp1f1_derivative`. Inputs: a, b, x; one output, of `size`."""
    return call_of_elements(_hyp1f1_source(dtype, by_a, by_b), 3, size, cost=1000)


def bessel_k_derivative_call(dtype: np.dtype, size: int, by_v: int, by_x: int) -> LibraryCall:
    """`ops.parameters.bessel_k_derivative`. Inputs: v, x; one output, of `size`."""
    return call_of_elements(_bessel_k_source(dtype, by_v, by_x), 2, size, cost=1000)


# More of the beta distribution: the integrand falls more slowly where it is far from x.
_NODES_OF_GAMMA, _NODES_OF_BETA = 64, 72


def _nodes_source(count: int) -> str:
    """The double exponential rule on the half line (Takahasi and Mori, 1974): s exp(t - exp(-t)), t
    in equal steps. It gives all digits of integrands that fall like exp(-v / s)."""
    return f"""\
    nodes = local({count}, float64)
    weights = local({count}, float64)
    for k in range({count}):
        t = -3.7 + 0.125 * float64(k)
        nodes[k] = exp(t - exp(-t))
        weights[k] = 0.125 * nodes[k] * (1.0 + exp(-t))
"""


def _gamma_moment_source(dtype: np.dtype, order: int) -> str:
    """Words: x, a, out. Above x in terms of y = exp(w) - 1, which falls more slowly."""
    factors = " * w" * order
    return f"""\
def kernel(args, lo, hi):
    points = buffer(args, 0, {dtype.name})
    shapes = buffer(args, 1, {dtype.name})
    out = buffer(args, 2, {dtype.name})
{_nodes_source(_NODES_OF_GAMMA)}\
    for i in range(lo, hi):
        x = float64(points[i])
        a = float64(shapes[i])
        width = 1.0 / (absolute(x - a) + sqrt(x))
        total = 0.0
        if x > a:
            for k in range({_NODES_OF_GAMMA}):
                y = width * nodes[k]
                w = log1p(y)
                term = weights[k] * exp((a - 1.0) * w - x * y)
                total = reduce_add(total, term{factors})
        else:
            width = -width
            for k in range({_NODES_OF_GAMMA}):
                w = width * nodes[k]
                term = weights[k] * exp(a * w - x * expm1(w))
                total = reduce_add(total, term{factors})
        out[i] = {dtype.name}(x * width * total)
"""


def _beta_moment_source(dtype: np.dtype, by_a: int, by_b: int) -> str:
    """The integral over w = log(t / x), or to the right of x over w = log((1 - t) / (1 - x)): of
    exp(p w + q v), where v is the other logarithm. It falls at the rate p - q x / (1 - x) at
    w = 0, and at the rate p far away, so that one width suits all of it.
    """
    left = " * w" * by_a + " * v" * by_b
    right = " * v" * by_a + " * w" * by_b

    def sums(factors: str) -> str:
        return f"""\
            for k in range({_NODES_OF_BETA}):
                w = -width * nodes[k]
                v = log1p(-ratio * expm1(w))
                term = weights[k] * exp(p * w + q * v)
                total = reduce_add(total, term{factors})
"""

    return f"""\
def kernel(args, lo, hi):
    shapes_a = buffer(args, 0, {dtype.name})
    shapes_b = buffer(args, 1, {dtype.name})
    points = buffer(args, 2, {dtype.name})
    out = buffer(args, 3, {dtype.name})
{_nodes_source(_NODES_OF_BETA)}\
    for i in range(lo, hi):
        a = float64(shapes_a[i])
        b = float64(shapes_b[i])
        x = float64(points[i])
        is_left = x * (a + b) <= a
        p = select(is_left, a, b)
        q = select(is_left, b, a) - 1.0
        y = select(is_left, x, 1.0 - x)
        rest = select(is_left, 1.0 - x, x)
        ratio = y / rest
        growth = select(q > 0.0, q, 0.0) * ratio
        width = 1.0 / (absolute(p - growth) + sqrt(growth / rest))
        total = 0.0
        if is_left:
{sums(left)}\
        else:
            y = -y
{sums(right)}\
        out[i] = {dtype.name}(y * width * total)
"""


def _zeta_source(dtype: np.dtype, order: int) -> str:
    """The first terms one by one, then the formula of Euler and Maclaurin (DLMF 25.11.28), by x.

    The derivatives of u**-x log(u)**order by u are u**(-x - j) times polynomials in log(u): their
    values, and those of their derivatives over factorials, are d0, d1, ...
    """
    power = " * logarithm" * order
    steps: list[str] = []
    for k in range(1, order + 1):
        steps += [
            "head = head * logarithm",
            f"integral = (head + {float(k)} * integral) / (s - 1.0)",
        ]
    powers = ["1.0"] + [" * ".join(["logarithm"] * k) for k in range(1, order + 1)]
    steps += [
        f"d{k} = {float(math.comb(order, k))} * ({powers[order - k]})" for k in range(order + 1)
    ]
    steps.append("tail = 0.5 * d0")
    for j in range(2 * len(EULER_MACLAURIN) - 1):
        for k in range(order + 1):
            above = f"{float(k + 1)} * d{k + 1} - " if k < order else "-"
            steps.append(f"d{k} = ({above}(s + {float(j)}) * d{k}) / end")
        if j % 2 == 0:
            steps.append(f"tail -= {EULER_MACLAURIN[j // 2]!r} * d0")
    text = "\n".join(f"            {step}" for step in steps)
    return f"""\
def kernel(args, lo, hi):
    exponents = buffer(args, 0, {dtype.name})
    starts = buffer(args, 1, {dtype.name})
    out = buffer(args, 2, {dtype.name})
    for i in range(lo, hi):
        s = float64(exponents[i])
        q = float64(starts[i])
        result = nan
        if s >= {LEAST_EXPONENT!r} and s < inf and q > 0.0 and q < inf:
            total = 0.0
            for k in range(10):
                base = q + float64(k)
                part = base - q
                error = (q - (base - part)) + (float64(k) - part)
                logarithm = log(base)
                term = power(base, -s)
                term -= term * (s * (error / base))
                total += term{power}
            end = q + 10.0
            logarithm = log(end)
            last = power(end, -s)
            head = end
            integral = head / (s - 1.0)
{text}
            if last > 0.0:
                total += last * (integral + tail)
            result = {"-total" if order % 2 else "total"}
        out[i] = {dtype.name}(result)
"""


def _hyp1f1_source(dtype: np.dtype, by_a: int, by_b: int) -> str:
    """The series of the function, its terms as polynomials in the changes of a and b.

    Coefficient c_i_j of a term is its derivative, over i! j!. The quotient of two terms is linear
    in the changes above and below, hence a recurrence. For negative x by Kummer's transformation
    (DLMF 13.2.39): all terms of exp(x) hyp1f1(b - a, b, -x) soon have one sign. The exponential is
    multiplied in pieces, as terms grow.
    """
    pairs = list(itertools.product(range(by_a + 1), range(by_b + 1)))
    starts, terms, moves, scales, largest = [], [], [], [], []
    for i, j in pairs:
        starts.append(f"c_{i}_{j} = {1.0 if i == j == 0 else 0.0}")
        text = f"numerator * c_{i}_{j}"
        if i:
            text += f" + turn_a * c_{i - 1}_{j}"
        if j:
            text += f" + select(is_negative, c_{i}_{j - 1}, 0.0)"  # not 0 * inf
        below = f" - next_{i}_{j - 1}" if j else ""
        terms.append(f"next_{i}_{j} = (({text}) * step{below}) / denominator")
        moves.append(f"c_{i}_{j} = next_{i}_{j}")
        largest.append(f"largest = max(largest, absolute(c_{i}_{j}))")
        scales.append(f"c_{i}_{j} *= scale")

    def lines(texts: list[str], depth: int) -> str:
        return "\n".join(" " * 4 * depth + text for text in texts)

    factorials = float(math.factorial(by_a) * math.factorial(by_b))
    return f"""\
def kernel(args, lo, hi):
    shapes_a = buffer(args, 0, {dtype.name})
    shapes_b = buffer(args, 1, {dtype.name})
    points = buffer(args, 2, {dtype.name})
    out = buffer(args, 3, {dtype.name})
    for element in range(lo, hi):
        a = float64(shapes_a[element])
        b = float64(shapes_b[element])
        x = float64(points[element])
        is_negative = x < 0.0
        first = select(is_negative, b - a, a)
        turn_a = select(is_negative, -1.0, 1.0)
        size = absolute(x)
        left = select(is_negative, size, 0.0)
        all_three = a + b + x
        is_defined = (all_three - all_three == 0.0) & ((b > 0.0) | (b != floor(b)))
        is_done = False
{lines(starts, 2)}
        total = c_{by_a}_{by_b}
        magnitude = total
        n = 0.0
        while is_defined and not is_done and n < {float(MOST_TERMS)}:
            step = size / (n + 1.0)
            numerator = first + n
            denominator = b + n
{lines(terms, 3)}
{lines(moves, 3)}
            total += c_{by_a}_{by_b}
            magnitude += absolute(c_{by_a}_{by_b})
            n += 1.0
            bound = 0.5 * absolute(b + n) * (n + 1.0)
            if n > -2.0 * b and (absolute(first) + n) * size <= bound:
                largest = 0.0
{lines(largest, 4)}
                is_done = largest <= 1e-17 * magnitude
            if left > 0.0 and magnitude > 1e200:
                piece = min(left, 400.0)
                left -= piece
                scale = exp(-piece)
                total *= scale
                magnitude *= scale
{lines(scales, 4)}
        scale = exp(-left) * {factorials!r}
        total *= scale
        magnitude *= scale
        is_lost = {2.0**-52!r} * magnitude > {LEAST_ACCURACY!r} * max(1.0, absolute(total))
        out[element] = {dtype.name}(select(is_done & ~is_lost, total, nan))
"""


_LARGEST_ORDER = 1e160  # beyond it K is infinite for every finite argument


def _bessel_k_source(dtype: np.dtype, by_v: int, by_x: int) -> str:
    """The integral by the trapezoidal rule, which converges exponentially: the integrand is even
    and analytic. From the largest exponential up, and then from there down.

    Factors move the largest term up: no further than `farthest`, nor to where `rise` overflows. A
    sum that is infinite stays so: steps of large orders are too small to come anywhere.
    """
    is_odd = by_v % 2 == 1
    factors = " * t" * by_v + " * rise" * by_x
    both = "-expm1(-2.0 * v * t)" if is_odd else "1.0 + exp(-2.0 * v * t)"
    sign = f"select(order < 0.0, {-1.0 if by_x % 2 == 0 else 1.0}, {1.0 - 2.0 * (by_x % 2)})"
    sign = sign if is_odd else f"{1.0 - 2.0 * (by_x % 2)}"
    at_pole = "select(order == 0.0, 0.0, sign * inf)" if is_odd else "sign * inf"
    return f"""\
def kernel(args, lo, hi):
    orders = buffer(args, 0, {dtype.name})
    points = buffer(args, 1, {dtype.name})
    out = buffer(args, 2, {dtype.name})
    for i in range(lo, hi):
        order = float64(orders[i])
        x = float64(points[i])
        v = absolute(order)
        sign = {sign}
        result = nan
        if v < inf and (x == 0.0 or (v > {_LARGEST_ORDER!r} and x > 0.0)):
            result = {at_pole}
        if v < inf and x == inf:
            result = 0.0
        if v <= {_LARGEST_ORDER!r} and x >= {LEAST_ARGUMENT!r} and x < inf:
            larger = max(v, x)
            ratio = min(v, x) / larger
            size = larger * sqrt(1.0 + ratio * ratio)
            step = min(0.15, 0.5 / sqrt(size))
            peak = min(max(0.0, log(v + size) - log(x)), 700.0)
            more = min({by_x + 0.5 * by_v!r} / x, 1e300)
            farthest = min(peak + log(1.0 + more + sqrt(more) * sqrt(more + 2.0)), 705.0)
            first = floor(peak / step)
            total = 0.0
            k = first
            direction = 1.0
            while k >= 0.0:
                t = k * step
                growth = expm1(0.5 * t)
                root = growth + growth / (1.0 + growth)
                rise = 0.5 * root * root
                term = exp(v * t - x * rise) * ({both}){factors}
                term = select(k == 0.0, 0.5 * term, term)
                total += term
                is_over = direction < 0.0 or t >= farthest or total == inf
                if is_over and term <= 1e-18 * total:
                    k = select(direction > 0.0, first, 0.0)
                    direction = -1.0
                k += direction
            result = sign * (0.5 * step * total)
        out[i] = {dtype.name}(result)
"""


@lowers("gamma_moment", by=gamma_moment_call, on_gpus=BY_TASK)
@lowers("beta_moment", by=beta_moment_call, on_gpus=BY_TASK)
@lowers("zeta_derivative", by=zeta_derivative_call, on_gpus=BY_TASK)
@lowers("bessel_k_derivative", by=bessel_k_derivative_call, on_gpus=BY_TASK)
@lowers("hyp1f1_derivative", by=hyp1f1_derivative_call, on_gpus=BY_TASK)
def _of_elements(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return kernel(node.dtype, node.type.size, **node.params)
