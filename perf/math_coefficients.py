"""Minimax polynomials of `numba_grad/compiler/elementary/`, by Remez exchange in mpmath.

    python perf/math_coefficients.py [name ...]

prints the coefficients, constant term first, and the weighted error as a power of two. Each
coefficient is rounded to the dtype before those after it are fitted.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
from scipy.special import erfcinv

mp.mp.dps = 45

GRID = 400


@dataclass(frozen=True)
class Fit:
    """function(t) ~ sum c_k t**k on [low, high]; the error counts times weight(t)."""

    name: str
    function: Callable
    low: mp.mpf
    high: mp.mpf
    degree: int
    weight: Callable = lambda t: mp.mpf(1)
    dtype: type = np.float64


def solve(values, weights, points, degree, fixed):
    """Coefficients after the fixed ones, by the exchange algorithm on a grid."""
    count = degree + 1 - len(fixed)
    offset = len(fixed)
    targets = (
        [v - mp.polyval(fixed[::-1], t) for v, t in zip(values, points, strict=True)]
        if fixed
        else values
    )
    # Scaled to at most 1, or the matrix looks singular.
    scale = max(abs(t) for t in points)
    powers = [[(t / scale) ** (offset + k) for k in range(count)] for t in points]
    chosen = [
        round((1 - np.cos(np.pi * (j + 0.5) / (count + 1))) / 2 * (len(points) - 1))
        for j in range(count + 1)
    ]
    for _ in range(12):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, j in enumerate(chosen):
            for k in range(count):
                matrix[row, k] = powers[j][k] * weights[j]
            matrix[row, count] = (-1) ** row
            right[row] = targets[j] * weights[j]
        solution = mp.lu_solve(matrix, right)
        coefficients = list(solution[:count])
        level = abs(solution[count])
        errors = [
            w * (v - mp.fdot(p, coefficients))
            for w, v, p in zip(weights, targets, powers, strict=True)
        ]
        extrema = []
        for j, e in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = j
            else:
                extrema.append(j)
        while len(extrema) > count + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extrema) < count + 1 or extrema == chosen or worst < level * 1.01:
            break
        chosen = extrema
    return [c / scale ** (offset + k) for k, c in enumerate(coefficients)], worst


def fit(problem: Fit):
    low, high = mp.mpf(problem.low), mp.mpf(problem.high)
    points = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (j + mp.mpf(0.5)) / GRID)
        for j in range(GRID)
    ]
    values = [problem.function(t) for t in points]
    weights = [problem.weight(t) for t in points]

    def rounded(c):
        return mp.mpf(float(problem.dtype(float(c))))

    def error(chosen):
        return max(
            abs(w * (v - mp.polyval(chosen[::-1], t)))
            for w, v, t in zip(weights, values, points, strict=True)
        )

    best, ideal = solve(values, weights, points, problem.degree, [])
    best = [rounded(c) for c in best]
    fixed = []
    while len(fixed) <= problem.degree:
        try:
            coefficients, _ = solve(values, weights, points, problem.degree, fixed)
        except ZeroDivisionError:  # the rest hardly counts: singular
            break
        fixed.append(rounded(coefficients[0]))
        candidate = fixed + [rounded(c) for c in coefficients[1:]]
        best = min(best, candidate, key=error)
    return [float(c) for c in best], float(mp.log(ideal, 2)), float(mp.log(error(best), 2))


def over(function, terms, power):
    """(function(t) - sum of its first terms) / t**power, without cancellation near 0."""

    def quotient(t):
        with mp.workdps(90):
            t = mp.mpf(t)
            return (function(t) - mp.polyval([mp.mpf(c) for c in terms[::-1]], t)) / t**power

    return quotient


def of_square(function):
    return lambda z: function(mp.sqrt(z))


HALF_LOG2 = mp.log(2) / 2 * 1.0001
PI_4 = mp.pi / 4 * 1.0001
SQRT2_S = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * 1.001
F32 = np.float32


def atanh_tail(z):
    # log((1+s)/(1-s)) = 2 s (1 + z tail(z)), z = s*s
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1) / z


def atan_tail(z):
    s = mp.sqrt(z)
    return (mp.atan(s) / s - 1) / z


def asin_tail(z):
    s = mp.sqrt(z)
    return (mp.asin(s) / s - 1) / z


def sin_tail(z):
    s = mp.sqrt(z)
    return (mp.sin(s) / s - 1) / z


def cos_tail(z):
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def sinh_tail(z):
    s = mp.sqrt(z)
    return (mp.sinh(s) / s - 1) / z


def cosh_tail(z):
    return (mp.cosh(mp.sqrt(z)) - 1 - z / 2) / z**2


def erf_small(z):
    s = mp.sqrt(z)
    return mp.erf(s) / s


def erfc_scaled(t):
    """exp(x*x) erfc(x) (1 + 2x) in t = (x - K)/(x + K), which maps [0, inf) to [-1, 1)."""
    x = ERFC_CENTRE * (1 + t) / (1 - t)
    with mp.workdps(60):
        return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def erfc_variable(x):
    return mobius(x, ERFC_CENTRE)


ERFC_CENTRE = 4


def erfinv_ratio(w):
    """erfinv(x)/x with w = -log(1 - x*x)"""
    with mp.workdps(60):
        if w < mp.mpf(10) ** -20:
            return mp.sqrt(mp.pi) / 2
        x = mp.sqrt(-mp.expm1(-w))
        complement = mp.exp(-w) / (1 + x)
        # Newton's method; mpmath's own erfinv has half the digits near 1.
        y = mp.mpf(float(erfcinv(float(complement))))
        for _ in range(3):
            y += (mp.erfc(y) - complement) * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
        return y / x


def mobius(s, k):
    return (mp.mpf(s) - k) / (mp.mpf(s) + k)


def erfinv_far(k):
    return lambda t: erfinv_ratio((k * (1 + t) / (1 - t)) ** 2)


def scaled_erfc_to_infinity(t):
    """`erfc_scaled` up to x = inf, where t = 1."""
    return 2 / mp.sqrt(mp.pi) if t == 1 else erfc_scaled(mp.mpf(t))


def erfcinv_ratio(w):
    """erfcinv(y)/(1 - y) with w = -log(y (2 - y)), for any small y"""
    with mp.workdps(60):
        log_y = -w - mp.log(1 + mp.sqrt(-mp.expm1(-w)))
        z = mp.sqrt(-log_y)
        for _ in range(10):  # Newton's method on the logarithm
            tail = mp.erfc(z)
            z += (mp.log(tail) - log_y) * tail * mp.exp(z * z) * mp.sqrt(mp.pi) / 2
        return z / (1 - mp.exp(log_y))


def erfcinv_far(k):
    return lambda t: erfcinv_ratio((k * (1 + t) / (1 - t)) ** 2)


# The positive zero of digamma.
DIGAMMA_ZERO = mp.findroot(mp.digamma, 1.46163)


def digamma_near(u):
    """digamma(x) / (x - zero) with u = x - 1.5"""
    x = mp.mpf(1.5) + u
    if abs(x - DIGAMMA_ZERO) < mp.mpf(10) ** -20:
        return mp.psi(1, DIGAMMA_ZERO)
    return mp.digamma(x) / (x - DIGAMMA_ZERO)


def digamma_far(z):
    """(log(x) - 1/(2 x) - digamma(x)) x**2 with z = 1/x**2"""
    with mp.workdps(70):
        x = 1 / mp.sqrt(z)
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def trigamma_far(z):
    """(trigamma(x) - 1/x - 1/(2 x**2)) x**3 with z = 1/x**2"""
    with mp.workdps(70):
        x = 1 / mp.sqrt(z)
        return (mp.psi(1, x) - 1 / x - 1 / (2 * x * x)) * x**3


def log_gamma_near(u):
    """log(gamma(2 + u)) / u"""
    return 1 - mp.euler if u == 0 else mp.loggamma(2 + u) / u


def log_gamma_far(z):
    """x (log(gamma(x)) - (x - 1/2) log(x) + x - log(2 pi)/2) with z = 1/x**2"""
    with mp.workdps(70):
        x = 1 / mp.sqrt(z)
        return x * (mp.loggamma(x) - (x - mp.mpf(0.5)) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def gamma_near(u):
    """(gamma(2 + u) - 1) / u"""
    return 1 - mp.euler if u == 0 else (mp.gamma(2 + u) - 1) / u


def stirling(t):
    """gamma(x) / (sqrt(2 pi) x**(x - 1/2) exp(-x)) with t = 1/x"""
    with mp.workdps(70):
        x = 1 / t
        return mp.exp(mp.loggamma(x) - (x - mp.mpf(0.5)) * mp.log(x) + x) / mp.sqrt(2 * mp.pi)


def cotangent_tail(z):
    """(1/r - pi cot(pi r)) / r in z = r**2"""
    with mp.workdps(70):
        r = mp.sqrt(z)
        return (1 / r - mp.pi * mp.cot(mp.pi * r)) / r


def cosecant_tail(z):
    """(pi / sin(pi r))**2 - 1/r**2 in z = r**2"""
    with mp.workdps(70):
        r = mp.sqrt(z)
        return (mp.pi / mp.sin(mp.pi * r)) ** 2 - 1 / z


def lambertw_at(p):
    """lambertw(x) with x = (p**2/2 - 1)/e, on branch 0 for p > 0, else on branch -1"""
    with mp.workdps(90):
        x = (mp.mpf(p) ** 2 / 2 - 1) / mp.e
        return mp.re(mp.lambertw(x, 0 if p > 0 else -1))


def lambertw_near(p):
    """(lambertw(x) + 1) / p next to the branch point"""
    return mp.mpf(1) if abs(p) < mp.mpf(10) ** -25 else (lambertw_at(p) + 1) / p


TAN_PI_8 = (mp.sqrt(2) - 1) ** 2 * 1.001
ERF_SPLIT = mp.mpf(1)

FITS = [
    Fit("exp64", over(mp.exp, [1, 1], 2), -HALF_LOG2, HALF_LOG2, 9, lambda t: t * t),
    Fit("exp32", over(mp.exp, [1, 1], 2), -HALF_LOG2, HALF_LOG2, 4, lambda t: t * t, F32),
    Fit("log64", atanh_tail, mp.mpf(10) ** -9, SQRT2_S, 6, lambda z: z),
    Fit("log32", atanh_tail, mp.mpf(10) ** -6, SQRT2_S, 2, lambda z: z, F32),
    Fit(
        "pow64",
        lambda z: (atanh_tail(z) - mp.mpf(1) / 3) / z,
        mp.mpf(10) ** -7,
        SQRT2_S,
        7,
        lambda z: z * z,
    ),
    Fit("pow32", atanh_tail, mp.mpf(10) ** -9, SQRT2_S, 4, lambda z: z),
    Fit("sin64", sin_tail, mp.mpf(10) ** -9, PI_4**2, 5, lambda z: z),
    Fit("cos64", cos_tail, mp.mpf(10) ** -7, PI_4**2, 5, lambda z: z * z),
    Fit("sin32", sin_tail, mp.mpf(10) ** -6, PI_4**2, 2, lambda z: z, F32),
    Fit("cos32", cos_tail, mp.mpf(10) ** -6, PI_4**2, 2, lambda z: z * z, F32),
    Fit("sinh64", sinh_tail, mp.mpf(10) ** -9, HALF_LOG2**2, 4, lambda z: z),
    Fit("cosh64", cosh_tail, mp.mpf(10) ** -7, HALF_LOG2**2, 4, lambda z: z * z),
    Fit("sinh32", sinh_tail, mp.mpf(10) ** -6, HALF_LOG2**2, 1, lambda z: z, F32),
    Fit("cosh32", cosh_tail, mp.mpf(10) ** -6, HALF_LOG2**2, 1, lambda z: z * z, F32),
    Fit("atan64", atan_tail, mp.mpf(10) ** -9, TAN_PI_8, 10, lambda z: z),
    Fit("atan32", atan_tail, mp.mpf(10) ** -6, TAN_PI_8, 3, lambda z: z, F32),
    Fit("asin64", asin_tail, mp.mpf(10) ** -9, mp.mpf(0.25), 11, lambda z: z),
    Fit("asin32", asin_tail, mp.mpf(10) ** -6, mp.mpf(0.25), 4, lambda z: z, F32),
    Fit("pow_exp32", over(mp.exp, [1, 1], 2), -HALF_LOG2, HALF_LOG2, 6, lambda t: t * t),
    # A first guess of the cube root, of m in [sqrt(1/2), sqrt(2)]
    Fit("cbrt", mp.cbrt, mp.sqrt(0.5), mp.sqrt(2), 4, lambda m: 1 / mp.cbrt(m)),
    # erf(x) = x + x p(x*x) below the split, 1 - exp(-q(x)) above.
    Fit(
        "erf_small64",
        lambda z: erf_small(z) - 1,
        mp.mpf(10) ** -12,
        ERF_SPLIT**2,
        11,
        lambda z: 1 / erf_small(z),
    ),
    Fit(
        "erf_small32",
        lambda z: erf_small(z) - 1,
        mp.mpf(10) ** -9,
        ERF_SPLIT**2,
        6,
        lambda z: 1 / erf_small(z),
        F32,
    ),
    Fit("erf_large64", lambda x: -mp.log(mp.erfc(x)), ERF_SPLIT, mp.mpf(6), 16, mp.erfc),
    Fit("erf_large32", lambda x: -mp.log(mp.erfc(x)), ERF_SPLIT, mp.mpf(4), 7, mp.erfc, F32),
    # erfinv(x)/x in w - 2.5 up to w = 5, then in t = (sqrt(w) - K)/(sqrt(w) + K)
    Fit("erfinv_near64", lambda t: erfinv_ratio(t + 2.5), -2.5, 2.5, 22),
    Fit("erfinv_near32", lambda t: erfinv_ratio(t + 2.5), -2.5, 2.5, 9, dtype=F32),
    Fit("erfinv_far64", erfinv_far(3.75), mobius(5**0.5, 3.75), mobius(6.1, 3.75), 27),
    Fit("erfinv_far32", erfinv_far(3), mobius(5**0.5, 3), mobius(4.1, 3), 9, dtype=F32),
    Fit("erfc64", erfc_scaled, -1, erfc_variable(27.3), 22, lambda t: 1 / erfc_scaled(t)),
    Fit("erfc32", erfc_scaled, -1, erfc_variable(10.1), 11, lambda t: 1 / erfc_scaled(t), F32),
    Fit("erfcx64", scaled_erfc_to_infinity, -1, 1, 26),
    Fit("erfcx32", scaled_erfc_to_infinity, -1, 1, 12, dtype=F32),
    # erfcinv(y)/(1 - y) where y is less than 1 - x for any x below 1
    Fit("erfcinv64", erfcinv_far(11), mobius(6, 11), mobius(27.4, 11), 27),
    Fit("erfcinv32", erfcinv_far(6), mobius(4, 6), mobius(10.3, 6), 11, dtype=F32),
    Fit("digamma_near64", digamma_near, -0.5, 0.5, 22),
    Fit("digamma_near32", digamma_near, -0.5, 0.5, 9, dtype=F32),
    Fit("digamma_far64", digamma_far, mp.mpf(10) ** -9, mp.mpf(1) / 36, 9),
    Fit("digamma_far32", digamma_far, mp.mpf(10) ** -6, mp.mpf(1) / 36, 2, dtype=F32),
    Fit("trigamma_far64", trigamma_far, mp.mpf(10) ** -9, mp.mpf(1) / 36, 9),
    Fit("trigamma_far32", trigamma_far, mp.mpf(10) ** -6, mp.mpf(1) / 36, 2, dtype=F32),
    Fit("log_gamma_near64", log_gamma_near, -0.75, 1, 26),
    Fit("log_gamma_near32", log_gamma_near, -0.75, 1, 11, dtype=F32),
    Fit("log_gamma_far64", log_gamma_far, mp.mpf(10) ** -9, mp.mpf(1) / 49, 7),
    Fit("log_gamma_far32", log_gamma_far, mp.mpf(10) ** -6, mp.mpf(1) / 49, 2, dtype=F32),
    Fit("gamma_near64", gamma_near, 0, 1, 16),
    Fit("gamma_near32", gamma_near, 0, 1, 7, dtype=F32),
    Fit("stirling64", stirling, mp.mpf(10) ** -6, 0.1, 10),
    Fit("stirling32", stirling, mp.mpf(10) ** -4, 0.1, 3, dtype=F32),
    Fit("cotangent64", cotangent_tail, mp.mpf(10) ** -9, 0.25, 15),
    Fit("cotangent32", cotangent_tail, mp.mpf(10) ** -6, 0.25, 7, dtype=F32),
    Fit("cosecant64", cosecant_tail, mp.mpf(10) ** -9, 0.25, 17),
    Fit("lambertw_near", lambertw_near, -0.5, 0.5, 21),
    # A first guess of lambertw(x)/x for x from -0.32 to 0.52
    Fit("lambertw_guess", lambda p: mp.exp(-lambertw_at(p)), 0.48, 2.2, 5),
    Fit("cosecant32", cosecant_tail, mp.mpf(10) ** -6, 0.25, 8, dtype=F32),
]

if __name__ == "__main__":
    for problem in FITS:
        if len(sys.argv) > 1 and problem.name not in sys.argv[1:]:
            continue
        coefficients, ideal, rounded = fit(problem)
        print(f"{problem.name}: error 2**{ideal:.1f}, 2**{rounded:.1f} after rounding")
        for c in coefficients:
            print(f"    {c!r},")
