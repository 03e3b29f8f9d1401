"""Special functions: errors against mpmath, limits against SciPy, derivatives where they are hard.

Values in each dtype, derivatives of each primitive to second order, batching: tests/ops.
"""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import numba_grad as ng
from numba_grad import special
from numba_grad.errors import DTypeError, GradientError
from numba_grad.testing import check_gradients
from tests.processes import run_python

INF, NAN = np.inf, np.nan
RNG = np.random.default_rng(0)


def uniform(low, high, count=150):
    return RNG.uniform(low, high, count)


def spread(low, high, count=100):
    """Powers of ten, every exponent alike."""
    return 10 ** RNG.uniform(low, high, count)


def both(*parts):
    return np.concatenate(parts)


@dataclass(frozen=True)
class Case:
    """A function, what it is exactly, where, and the bound that its docstring gives."""

    exact: Callable
    arguments: tuple
    ulp: float = 0.0  # units in the last place of the result
    eps: float = 0.0  # or units of eps, relative to 1 or the result if that is larger


def _erfcinv(y):
    x = mp.mpf(float(scipy.special.erfcinv(float(y))))
    for _ in range(3):  # Newton's method on the logarithm
        tail = mp.erfc(x)
        x += (mp.log(tail) - mp.log(y)) * tail * mp.exp(x * x) * mp.sqrt(mp.pi) / 2
    return x


def _erfinv(x):
    return _erfcinv(1 - x)


def _upper(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def _log_ndtr(x):
    return mp.log(_upper(-x)) if x < 0 else mp.log1p(-_upper(x))


def _log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _lower_gamma(a, x):
    return mp.gammainc(a, 0, mp.mpf(float(x)), regularized=True)


def _zeta(x, q):
    with mp.workdps(80):  # mpmath loses as many digits as the sum has fewer than 1
        return mp.zeta(x, q)


def _relative_entropy(x, y):
    return x * (mp.log(x) - mp.log(y))


def _scaled_bessel_i(order):
    return lambda x: mp.besseli(order, x) * mp.exp(-abs(x))


def _scaled_bessel_k(order, x):
    return mp.besselk(order, x) * mp.exp(x)


def _dawson(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _voigt(x, sigma, gamma):
    z = mp.mpc(x, gamma) / (sigma * mp.sqrt(2))
    return mp.re(mp.exp(-z * z) * mp.erfc(-1j * z)) / (sigma * mp.sqrt(2 * mp.pi))


POSITIVE = both(uniform(0.01, 12), uniform(0, 170), spread(-200, 0))
CASES = {
    "erfinv": Case(_erfinv, (uniform(-0.9999, 0.9999),), ulp=3),
    "erfcinv": Case(_erfcinv, (both(uniform(0.001, 1.999), spread(-290, 0)),), ulp=3),
    "erfcx": Case(
        lambda x: mp.exp(x * x) * mp.erfc(x),
        (both(uniform(-26, 1), uniform(0, 30), spread(-8, 8)),),
        ulp=5,
    ),
    "ndtr": Case(lambda x: _upper(-x), (both(uniform(-37, 10), uniform(-3, 3)),), ulp=4),
    "log_ndtr": Case(_log_ndtr, (both(uniform(-40, 35), uniform(-3, 3)),), ulp=4.5),
    "ndtri": Case(
        lambda p: -mp.sqrt(2) * _erfcinv(2 * p),
        (both(uniform(0.001, 0.999), spread(-290, -1)),),
        ulp=4,
    ),
    "gamma": Case(mp.gamma, (POSITIVE,), ulp=4.5),
    "rgamma": Case(mp.rgamma, (uniform(-4, 30),), eps=3),
    "gammaln": Case(
        mp.loggamma,
        (both(POSITIVE, spread(1, 290), 1 + uniform(-0.1, 0.1), 2 + uniform(-0.1, 0.1)),),
        ulp=4,
    ),
    "digamma": Case(
        mp.digamma, (both(POSITIVE, spread(1, 290), 1.4616 + uniform(-0.01, 0.01)),), ulp=2.5
    ),
    "polygamma": Case(
        lambda n, x: mp.psi(int(n), x), (np.full(100, 3.0), uniform(0.1, 30, 100)), ulp=10
    ),
    "beta": Case(mp.beta, (uniform(0.1, 2), uniform(0.1, 2)), eps=7),
    "betaln": Case(
        _log_beta,
        (both(uniform(0, 40), spread(-5, 5)), both(uniform(0, 40), spread(-5, 5))),
        eps=8,
    ),
    "gammainc": Case(
        _lower_gamma,
        (uniform(0.1, 30, 60), uniform(0, 30, 60)),
        eps=10,
    ),
    "gammaincc": Case(
        lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        (uniform(0.1, 30, 60), uniform(0, 30, 60)),
        eps=10,
    ),
    "betainc": Case(
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        (uniform(0.1, 20, 40), uniform(0.1, 20, 40), uniform(0, 1, 40)),
        eps=10,
    ),
    "zeta": Case(
        _zeta,
        (
            both(uniform(1.1, 30, 60), np.floor(uniform(2, 9, 30))),
            both(uniform(0.01, 40, 60), uniform(-20, 0, 30)),
        ),
        ulp=8,
    ),
    "expit": Case(lambda x: 1 / (1 + mp.exp(-x)), (uniform(-50, 50),), ulp=1.5),
    "logit": Case(
        lambda p: mp.log(p) - mp.log1p(-p),
        (both(uniform(0, 1), spread(-300, 0), 0.5 + uniform(-0.01, 0.01)),),
        ulp=1.5,
    ),
    "log_expit": Case(lambda x: -mp.log1p(mp.exp(-x)), (uniform(-50, 50),), ulp=1.5),
    "xlogy": Case(lambda x, y: x * mp.log(y), (uniform(-3, 3), uniform(0, 3)), ulp=2),
    "xlog1py": Case(lambda x, y: x * mp.log1p(y), (uniform(-3, 3), uniform(-1, 3)), ulp=2),
    "entr": Case(lambda x: -x * mp.log(x), (both(uniform(0, 3), spread(-200, 100)),), ulp=2),
    "rel_entr": Case(
        _relative_entropy,
        (both(uniform(0, 3), 1 + uniform(-0.01, 0.01)), both(uniform(0, 3), 1 + uniform(0, 0.01))),
        ulp=2,
    ),
    "kl_div": Case(
        lambda x, y: _relative_entropy(x, y) - x + y,
        (uniform(1, 1.24), uniform(1, 1.24)),
        ulp=4,
    ),
    "j0": Case(lambda x: mp.besselj(0, x), (uniform(-100, 100),), eps=6),
    "j1": Case(lambda x: mp.besselj(1, x), (uniform(-100, 100),), eps=6),
    "y0": Case(lambda x: mp.bessely(0, x), (uniform(0, 100),), eps=8),
    "y1": Case(lambda x: mp.bessely(1, x), (uniform(0, 100),), eps=8),
    "jv": Case(mp.besselj, (np.floor(uniform(-10, 10)), uniform(-40, 40)), eps=5),
    "iv": Case(mp.besseli, (uniform(-10, 10), uniform(0, 40)), ulp=12),
    "ive": Case(
        lambda v, x: mp.besseli(v, x) * mp.exp(-x), (uniform(0, 10), uniform(0, 40)), eps=20
    ),
    "kv": Case(mp.besselk, (uniform(-10, 10), uniform(0, 40)), ulp=1000),
    "kve": Case(_scaled_bessel_k, (uniform(-10, 10), uniform(0, 40)), ulp=1000),
    "k0": Case(lambda x: mp.besselk(0, x), (both(uniform(0, 40), spread(-200, 0)),), ulp=6),
    "k1": Case(lambda x: mp.besselk(1, x), (both(uniform(0, 40), spread(-200, 0)),), ulp=6),
    "k0e": Case(lambda x: _scaled_bessel_k(0, x), (both(uniform(0, 40), spread(-9, 9)),), ulp=6),
    "k1e": Case(lambda x: _scaled_bessel_k(1, x), (both(uniform(0, 40), spread(-9, 9)),), ulp=6),
    "yv": Case(mp.bessely, (uniform(0, 10), uniform(0, 40)), eps=20),
    "i0": Case(lambda x: mp.besseli(0, x), (uniform(-40, 40),), ulp=4),
    "i1": Case(lambda x: mp.besseli(1, x), (uniform(-40, 40),), ulp=12),
    "i0e": Case(_scaled_bessel_i(0), (uniform(-400, 400),), ulp=4),
    "i1e": Case(_scaled_bessel_i(1), (uniform(-400, 400),), ulp=6),
    "exp1": Case(mp.e1, (both(uniform(0, 40), spread(-10, 0)),), ulp=5),
    "expi": Case(mp.ei, (uniform(-40, 40),), eps=15),
    "lambertw": Case(
        lambda x: mp.re(mp.lambertw(x)),
        (both(uniform(-0.367, 3), spread(-100, 100), [0.5]),),
        ulp=3.5,
    ),
    "ellipk": Case(mp.ellipk, (both(uniform(-1, 1), 1 - spread(-15, 0), -spread(0, 290)),), ulp=5),
    "ellipkm1": Case(lambda p: mp.ellipk(1 - p), (spread(-15, 30),), ulp=5),
    "ellipe": Case(mp.ellipe, (both(uniform(-1, 1), 1 - spread(-15, 0), -spread(0, 290)),), ulp=6),
    "erfi": Case(mp.erfi, (both(uniform(-20, 20), spread(-9, 0)),), ulp=300),
    "dawsn": Case(_dawson, (both(uniform(-20, 20), spread(-9, 0)),), ulp=100),
    "voigt_profile": Case(
        _voigt, (uniform(-9, 9, 60), uniform(0.1, 3, 60), uniform(0, 3, 60)), eps=5
    ),
    "hyp1f1": Case(
        mp.hyp1f1, (uniform(0.1, 5, 60), uniform(0.1, 5, 60), uniform(-5, 5, 60)), eps=200
    ),
}


def value_of(name, *arrays):
    return np.asarray(getattr(special, name)(*arrays))


@pytest.mark.thorough(but=r"^(?!k[01]e)", every=9)
@pytest.mark.parametrize("name", CASES)
def test_error_is_below_the_stated_bound(name):
    case = CASES[name]
    eps = float(np.finfo(np.float64).eps)
    with mp.workdps(40):
        for *x, y in zip(*case.arguments, value_of(name, *case.arguments), strict=True):
            exact = mp.re(case.exact(*[mp.mpf(float(number)) for number in x]))
            if abs(exact) > np.finfo(np.float64).max:
                assert y == INF
                continue
            unit = eps * max(1, abs(exact))
            if case.ulp:
                unit = max(mp.ldexp(eps, mp.frexp(exact)[1] - 1), mp.mpf(2) ** -1074)
            assert abs(mp.mpf(float(y)) - exact) <= (case.ulp or case.eps) * unit, x


def test_integrals_and_the_lower_branch_are_accurate_too():
    x, z = both(uniform(0, 40), spread(-10, 3)), both(-uniform(0, 0.3678), -spread(-280, -1))
    sine, cosine = (np.asarray(part) for part in special.sici(x))
    lower = np.asarray(special.lambertw(z, -1))
    riemann = np.asarray(special.zeta(1 + x))
    for k in range(len(x)):
        for found, exact in (
            (sine[k], mp.si(x[k])),
            (cosine[k], mp.ci(x[k])),
            (riemann[k], mp.zeta(1 + x[k])),
        ):
            assert abs(found - exact) <= 4 * 2.3e-16 * max(1, abs(exact)), x[k]
    for w, argument in zip(lower, z, strict=True):
        exact = mp.re(mp.lambertw(mp.mpf(float(argument)), -1))
        assert abs(w - exact) <= 3.5 * 2.3e-16 * abs(exact), argument


def test_first_terms_of_zeta_that_overflow_are_infinite():
    x, q = np.array([2000.0, 6.0, 3.0, 1e3]), np.array([0.5, 1e-60, 1e-200, 1.5])
    assert special.zeta(x, q).numpy().tolist() == [np.inf, np.inf, np.inf, 1.5**-1000]
    small = np.array([1e-300, 1e-200, 0.0])
    np.testing.assert_array_equal(special.polygamma(2, small), [-np.inf] * 3)
    np.testing.assert_array_equal(special.polygamma(5, small), [np.inf] * 3)


def test_negative_arguments_of_gamma_functions():
    x = -uniform(0, 30, 200)
    names = ("gamma", "gammaln", "digamma")
    found = [value_of(name, x) for name in names] + [np.asarray(special.polygamma(1, x))]
    eps = float(np.finfo(np.float64).eps)
    for k, number in enumerate(x):
        z = mp.mpf(float(number))
        gamma = mp.gamma(z)
        assert abs(found[0][k] - gamma) <= 10 * eps * abs(gamma), number
        logarithm = mp.log(abs(gamma))
        assert abs(found[1][k] - logarithm) <= 5 * eps * max(abs(logarithm), 1), number
        reflection = abs(mp.pi * mp.cot(mp.pi * z)) + abs(mp.digamma(1 - z))
        assert abs(found[2][k] - mp.digamma(z)) <= 4 * eps * reflection, number
        trigamma = mp.psi(1, z)
        assert abs(found[3][k] - trigamma) <= 2.5 * eps * trigamma, number


def test_digamma_is_accurate_where_its_terms_are_small():
    x = -0.5 + np.array([0.0, 1e-15, -1e-9, 1e-4, -0.03, 0.05, 0.0384])
    for number, found in zip(x, value_of("digamma", x), strict=True):
        exact = mp.digamma(mp.mpf(float(number)))
        assert abs(found - exact) <= 3 * float(np.finfo(np.float64).eps) * abs(exact), number


def test_float32_does_not_overflow_on_the_way():
    x = np.array([2.8e38, -2.0e19], np.float32)
    np.testing.assert_allclose(
        special.erfcx(x[:1]), scipy.special.erfcx(np.float64(x[:1])), rtol=1e-6
    )
    np.testing.assert_allclose(
        special.log_ndtr(x[1:]), scipy.special.log_ndtr(np.float64(x[1:])), rtol=1e-6
    )


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("name", CASES)
def test_float32_agrees_with_float64_and_stays_float32(name):
    with np.errstate(all="ignore"):
        arrays = [a.astype(np.float32) for a in CASES[name].arguments]
        keep = np.all([np.isfinite(a) & ((a == 0) | (abs(a) > 1e-30)) for a in arrays], axis=0)
        arrays = [a[keep] for a in arrays]
        single, double = value_of(name, *arrays), value_of(name, *[np.float64(a) for a in arrays])
        expected = double.astype(np.float32)
    assert single.dtype == np.float32
    # In units of eps, relative to 1 where the function has zeros in the sampled range.
    np.testing.assert_allclose(single, expected, rtol=3e-6, atol=1.2e-6)


# Limits

EDGES = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 700, -700, 1e300, -1e300, INF, -INF, NAN])
UNARY = (
    "erf erfc erfinv erfcinv erfcx ndtr log_ndtr ndtri gamma rgamma gammaln loggamma psi expit "
    "logit log_expit entr j0 j1 y0 y1 i0 i1 i0e i1e k0 k1 k0e k1e exp1 expi "
    "sici zeta gammasgn ellipk ellipkm1 ellipe erfi dawsn wofz"
)
BINARY = "xlogy xlog1py rel_entr kl_div beta betaln gammainc gammaincc zeta iv ive kv kve yv"


def assert_same(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=3e-13, atol=1e-15)


@pytest.mark.parametrize("name", UNARY.split())
def test_limits_are_those_of_scipy(name):
    with np.errstate(all="ignore"):
        found, expected = getattr(special, name)(EDGES), getattr(scipy.special, name)(EDGES)
    if name == "sici":
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    else:
        assert_same(found, expected)


@pytest.mark.parametrize("name", BINARY.split())
def test_limits_of_pairs_are_those_of_scipy(name):
    is_logarithm = name in ("xlogy", "xlog1py", "rel_entr", "kl_div")
    values = EDGES if is_logarithm else EDGES[np.abs(EDGES) <= 3]
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        assert_same(getattr(special, name)(x, y), getattr(scipy.special, name)(x, y))


COMPOSED = ("exprel", "boxcox", "inv_boxcox", "huber", "pseudo_huber")


@pytest.mark.parametrize("name", COMPOSED)
def test_functions_that_are_formulas_have_scipys_limits(name):
    others = np.array([0.0, 1, -1, 2, 0.5, 1e-5, -1e-9, -2])
    arrays = [EDGES] if name == "exprel" else [a.ravel() for a in np.meshgrid(EDGES, others)]
    arrays = arrays[::-1] if "huber" in name else arrays
    if name == "pseudo_huber":  # SciPy's overflows for large ones
        arrays = [a[np.abs(arrays[1]) != 1e300] for a in arrays]
    with np.errstate(all="ignore"):
        assert_same(getattr(special, name)(*arrays), getattr(scipy.special, name)(*arrays))


@pytest.mark.parametrize("name", ["legendre", "chebyt", "hermite", "laguerre"])
@pytest.mark.parametrize("degree", [0, 1, 2, 7])
def test_orthogonal_polynomials_are_scipys(name, degree):
    x = np.array([-2.0, -0.3, 0.0, 1.0, 1.7])
    theirs = getattr(scipy.special, f"eval_{name}")
    for found in (getattr(special, f"eval_{name}")(degree, x), theirs(degree, ng.tensor(x))):
        np.testing.assert_allclose(found, theirs(degree, x), rtol=1e-12)
    with pytest.raises(ValueError, match="no polynomial of this degree"):
        getattr(special, f"eval_{name}")(-1, x)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("n", [-3, -2, -1, 0, 1, 2, 5, 30])
def test_yn_is_scipys(n):
    x = both(uniform(0, 100), [0.0, -0.0, 1e-200, 1e-8, -1.0, NAN])
    found, expected = np.asarray(special.yn(n, x)), scipy.special.yn(n, x)
    assert_same(found[-6:], expected[-6:])
    size = np.maximum(1, np.abs(expected[:-6]))
    assert np.all(np.abs(found[:-6] - expected[:-6]) <= 1e-14 * size)
    with pytest.raises(TypeError):
        special.yn(2.5, 1.0)


def test_multigammaln_is_scipys_and_nan_outside_of_its_domain():
    a = uniform(1.01, 50)
    np.testing.assert_allclose(
        special.multigammaln(a, 3), scipy.special.multigammaln(a, 3), rtol=1e-14, atol=1e-14
    )
    assert np.isnan(np.asarray(special.multigammaln([0.5, 1.0, NAN, 1.5], 3))).tolist() == [
        *(True, True, True, False)
    ]
    with pytest.raises(ValueError, match="no such dimension"):
        special.multigammaln(a, 0)


def test_lambertw_is_real_or_nan():
    z = np.array([-1 / np.e, -1 / np.e - 1e-9, -0.1, -0.0, 0.0, 1.0, INF, -INF, NAN])
    assert_same(
        special.lambertw(z),
        [-1, NAN, scipy.special.lambertw(-0.1).real, 0, 0, 0.5671432904097838, INF, NAN, NAN],
    )
    expected = [-1, NAN, scipy.special.lambertw(-0.1, -1).real, -INF, -INF, NAN, NAN, NAN, NAN]
    assert_same(special.lambertw(z, -1), expected)


def test_gamma_of_integers_is_exact():
    n = np.arange(1, 11)
    np.testing.assert_array_equal(special.gamma(n), scipy.special.factorial(n - 1, exact=True))


# Derivatives

X = np.linspace(0.3, 2.7, 7)
DIFFERENTIABLE = {
    "polygamma": (lambda x: special.polygamma(2, x), X),
    "polygamma of orders": (lambda x: special.polygamma(np.array([[0], [1], [3]]), x), X),
    "loggamma": (lambda x: special.loggamma(x), X),
    "multigammaln": (lambda x: special.multigammaln(x + 1, 3), X),
    "yn": (lambda x: special.yn(-3, x), X),
    "iv of negative x": (lambda x: special.iv(3, -x), X),
    "ive": (lambda x: special.ive(1.5, x), X),
    "kn": (lambda x: special.kn(2, x), X),
    "kv": (lambda v, x: special.kv(v, x), X - 1.7, X[::-1]),
    "kve": (lambda v, x: special.kve(v, x), X - 1.7, X[::-1]),
    "scaled K": (lambda x: special.k0e(x) * special.k1e(x), np.array([0.3, 2.0, 400.0])),
    "yv": (lambda x: special.yv(-1.5, x), X),
    "zeta": (lambda q: special.zeta(3.0, q), X),
    "exprel": (lambda x: special.exprel(x), np.array([0.0, 1e-9, 0.3, 0.6, -2.0])),
    "boxcox": (
        lambda x, p: special.boxcox(x, p) + special.inv_boxcox(x - 1, p / 2),
        np.array([0.5, 1.0, 3.0, 1.5, 2.0]),
        np.array([0.0, 0.0, 1e-7, 0.2, -0.7]),
    ),
    "huber": (
        lambda d, r: special.huber(d, r) + special.pseudo_huber(d, r - 1),
        X,
        np.array([-3.0, 0.1, 1.0, 4.0, 0.0, -1.0, 2.0]),
    ),
    "polynomials": (
        lambda x: (
            special.eval_legendre(5, x)
            + special.eval_chebyt(4, x)
            + special.eval_hermite(3, x)
            + special.eval_laguerre(4, x)
        ),
        X - 1.5,
    ),
    "elliptic integrals": (
        lambda m: special.ellipk(m) + special.ellipe(m),
        np.array([-30.0, -0.11, -0.09, 0.0, 1e-9, 0.09, 0.11, 0.9]),
    ),
    "erfi and dawsn": (lambda x: special.erfi(x) + special.dawsn(x), X - 1.5),
    "wofz": (lambda x: special.wofz(x).real + 2 * special.wofz(x).imag, X - 1.5),
    "voigt_profile": (lambda x, s, g: special.voigt_profile(x, s, g), X - 1.5, X, X[::-1] - 0.2),
    "sici": (lambda x: special.sici(x)[0] + special.sici(x)[1], X),
    "sine integral next to 0": (lambda x: special.sici(x)[0], np.array([0.0, 1e-4, -0.3, 0.49])),
    "bessel functions at 0": (
        lambda x: special.j0(x) + special.j1(x) + special.i0(x) + special.i1(x),
        np.array([0.0, 1e-3]),
    ),
    "jv of order 3": (lambda x: special.jv(3, x), np.array([-2.0, 0.0, 4.0])),
    "digamma of negative numbers": (lambda x: special.digamma(x), -X + 0.05),
    "gammaln of negative numbers": (lambda x: special.gammaln(x), -X + 0.05),
    "rgamma at a pole": (lambda x: special.rgamma(x), np.array([0.0, -1.0, -2.0, 0.5])),
    "erfcx of large numbers": (lambda x: special.erfcx(x), np.array([49.0, 51.0, 5.0])),
    "log_ndtr in both tails": (lambda x: special.log_ndtr(x), np.array([-30.0, -1.0, 2.0, 5.0])),
    "logsumexp": (lambda x: special.logsumexp(x, axis=0), X),
    "weighted logsumexp": (lambda x, b: special.logsumexp(x, b=b), X, X[::-1] - 0.5),
    "logsumexp and sign": (
        lambda x, b: special.logsumexp(x, b=-b, return_sign=True)[0],
        X,
        X[::-1],
    ),
    "softmax": (lambda x: special.softmax(x), X),
    "log_softmax": (lambda x: special.log_softmax(x, 0), X),
}


@pytest.mark.thorough(but="reference", every=6)
@pytest.mark.usefixtures("engine_of_derivatives")
@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n != "rgamma at a pole"])
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name])


def gradient(f, *arrays):
    tensors = [ng.tensor(a, requires_grad=True) for a in arrays]
    return [np.asarray(g) for g in ng.autograd.grad(f(*tensors).sum(), tensors)]


def test_the_slope_of_rgamma_at_the_poles_of_gamma():
    (slope,) = gradient(special.rgamma, np.array([0.0, -1.0, -2.0, -3.0]))
    np.testing.assert_allclose(slope, [1, -1, 2, -6], rtol=1e-14)


def test_slopes_of_elliptic_integrals_next_to_their_ends():
    m = np.array([0.0, 1e-12, -1e-5, 0.1, -0.1, 0.5, 1 - 1e-6, 1 - 1e-12, -1e3, -1e200])
    with mp.workdps(60):
        for f, exact in ((special.ellipk, mp.ellipk), (special.ellipe, mp.ellipe)):
            for slope, x in zip(gradient(f, m)[0], m, strict=True):
                step = mp.mpf(10) ** -20 * max(1, abs(x))
                expected = (exact(x + step) - exact(x - step)) / (2 * step)
                assert abs(slope - expected) <= 16 * 2.3e-16 * abs(expected), x
    (slope,) = gradient(lambda m: special.ellipk(m) + 2 * special.ellipkm1(1 - m), np.ones(1))
    np.testing.assert_array_equal(slope, [INF])
    np.testing.assert_array_equal(gradient(special.ellipe, np.ones(1))[0], [-INF])


def test_voigts_profile_without_a_width():
    x, sigma, gamma = (np.array(a) for a in ([0.0, 2.0, 0.5, 0.0], [0.0, 0, 0, 1], [0.0, 0, 2, 0]))
    with np.errstate(all="ignore"):
        assert_same(
            special.voigt_profile(x, sigma, gamma), scipy.special.voigt_profile(x, sigma, gamma)
        )
    slopes = gradient(special.voigt_profile, *(np.array([a]) for a in (0.5, 0.0, 2.0)))
    np.testing.assert_allclose(np.ravel(slopes), [-2 / np.pi / 4.25**2, 0, -3.75 / np.pi / 4.25**2])


@pytest.mark.thorough
def test_slopes_of_incomplete_gamma_functions_by_their_shape():
    a = np.array([0.01, 0.3, 0.5, 0.99, 1.0, 3.0, 10.0, 200.0, 5.0, 0.01])
    x = np.array([0.01, 0.3, 3.0, 0.7, 1.0, 1.0, 12.0, 190.0, 0.01, 5.0])
    first = ng.grad(lambda a: special.gammainc(a, x).sum())
    second = ng.grad(lambda a: first(a).sum())
    with mp.workdps(40):
        for k, (by_a, twice) in enumerate(zip(first(a).numpy(), second(a).numpy(), strict=True)):
            for found, order in ((by_a, 1), (twice, 2)):
                exact = mp.diff(lambda t, k=k: _lower_gamma(t, x[k]), mp.mpf(a[k]), order)
                assert abs(found - exact) <= 4e-15 * max(1, abs(exact)), (a[k], x[k])
    slope = ng.grad(lambda a: special.gammaincc(a, np.array([0.0, INF])).sum())
    np.testing.assert_array_equal(slope(np.array([2.0, 2.0])).numpy(), [0, 0])


def test_slopes_of_incomplete_functions_at_the_ends():
    a, x = np.array([0.5, 1.0, 2.0, 3.0]), np.zeros(4)
    slope = ng.grad(lambda x: special.gammainc(a, x).sum())
    np.testing.assert_array_equal(np.asarray(slope(x)), [INF, 1, 0, 0])
    second = ng.grad(lambda x: slope(x).sum())(x)
    np.testing.assert_allclose(second, [-INF, -1, 1, 0], atol=1e-15)
    p, q, x = np.array([1.0, 2.0, 1.0, 2.0]), np.array([2.0, 2.0, 1.0, 1.0]), np.ones(4)
    slope = ng.grad(lambda x: special.betainc(p, q, x).sum())(x)
    np.testing.assert_allclose(slope, [0, 0, 1, 2], atol=1e-15)


def test_slopes_of_products_with_logarithms_at_0():
    x, y = np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.0, 2.0, -1.0, 0.0])
    by_x, by_y = gradient(special.xlogy, x, y)
    np.testing.assert_allclose(by_x, [0, np.log(2), 0, -INF])
    np.testing.assert_allclose(by_y, [0, 0, 0, INF])
    by_x, by_y = gradient(special.xlog1py, x, y - 1)
    np.testing.assert_allclose(by_x, [0, np.log(2), 0, -INF])
    np.testing.assert_allclose(by_y, [0, 0, 0, INF])
    by_x, by_y = gradient(special.kl_div, np.array([0.0, 1.0]), np.array([2.0, 1.0]))
    np.testing.assert_array_equal(by_x, [-INF, 0])
    np.testing.assert_array_equal(by_y, [1, 0])


def test_slopes_far_out_are_finite_and_right():
    x = np.array([-1e6, -40.0, 0.0, 40.0, 1e3])
    slope = np.asarray(ng.grad(lambda x: special.log_ndtr(x).sum())(x))
    hazard = np.sqrt(2 / np.pi) / scipy.special.erfcx(-x[:3] / np.sqrt(2))
    np.testing.assert_allclose(slope[:3], hazard, rtol=1e-14)
    np.testing.assert_allclose(slope[3:], [np.exp(-800) / np.sqrt(2 * np.pi), 0], rtol=1e-10)
    (slope,) = gradient(special.erfcx, np.array([1e5, 1e200]))
    np.testing.assert_allclose(slope, [-1e-10 / np.sqrt(np.pi), 0], rtol=1e-9)
    (slope,) = gradient(special.expit, np.array([-800.0, 0.0, 800.0]))
    np.testing.assert_array_equal(slope, [0, 0.25, 0])


# Not here: digamma, whose gradient torch has to 9 digits only.
OF_TORCH = (
    "erfinv erfcx ndtr log_ndtr ndtri entr gammaln expit logit i0 i0e i1 i1e "
    "xlogy xlog1py gammainc gammaincc"
)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", OF_TORCH.split())
def test_gradients_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    x, y = np.linspace(0.05, 0.95, 7), np.linspace(0.3, 4, 7)
    binary = name in ("xlogy", "xlog1py", "gammainc", "gammaincc")
    theirs = torch.tensor(y if binary else x, requires_grad=True)
    function = getattr(torch.special, name)
    result = function(torch.tensor(x), theirs) if binary else function(theirs)
    result.sum().backward()
    ours = getattr(special, name)
    (slope,) = gradient(lambda t: ours(x, t), y) if binary else gradient(ours, x)
    np.testing.assert_allclose(slope, theirs.grad.numpy(), rtol=1e-12)


# Calls

SHAPED = (lambda x, y: special.betaln(x, y) + special.gammainc(x, y) * special.erfcx(x),)


@pytest.mark.parametrize("transform", [ng.jit, lambda f: ng.vmap(f, in_axes=(0, None))])
def test_jit_and_vmap_give_the_same(transform):
    (f,) = SHAPED
    x, y = X.reshape(7, 1) * np.ones(3), np.array([0.5, 1.0, 4.0])
    expected = scipy.special.betaln(x, y) + scipy.special.gammainc(x, y) * scipy.special.erfcx(x)
    np.testing.assert_allclose(transform(f)(x, y), expected, rtol=1e-13)


def test_empty_0d_and_strided_arrays():
    (f,) = SHAPED
    assert np.asarray(f(np.zeros((0, 3)), np.ones(3))).shape == (0, 3)
    assert f(1.0, 2.0).shape == ()
    x = np.asfortranarray(np.linspace(0.1, 3, 24).reshape(4, 6))[::2, ::-2]
    np.testing.assert_allclose(f(x, 2.0), np.asarray(f(x.copy(), 2.0)), rtol=0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint64", "float16", "float32"])
def test_single_precision_stays_and_the_rest_is_double(dtype):
    x = np.ones(3, dtype)
    expected = np.float32 if dtype in ("float16", "float32") else np.float64
    assert special.gammaln(x).dtype == expected
    assert special.xlogy(x, 2.0).dtype == expected
    assert special.polygamma(2, x).dtype == expected
    assert special.xlogy(x, np.ones(3)).dtype == np.float64
    assert special.xlogy(1, 2).dtype == np.float64


def test_scipys_functions_reach_ours():
    x = ng.tensor(X, requires_grad=True)
    result = scipy.special.gammaln(x) + scipy.special.sici(x)[0] + np.i0(x)
    expected = scipy.special.gammaln(X) + scipy.special.sici(X)[0] + np.i0(X)
    np.testing.assert_allclose(result.detach(), expected, rtol=1e-13)
    result.sum().backward()
    slope = scipy.special.psi(X) + np.sin(X) / X + scipy.special.i1(X)
    np.testing.assert_allclose(np.asarray(x.grad), slope, rtol=1e-13)


def test_logsumexp_with_weights():
    x = np.array([[1000.0, 0.0, -INF], [0.5, -2.0, 3.0], [-INF] * 3, [INF, 0, 1]])
    b = np.array([[0.0, 2.0, 1.0], [1, -3, 0.5], [1, 1, 1], [0, 1, 1]])
    np.testing.assert_allclose(
        special.logsumexp(x, axis=1, b=b), scipy.special.logsumexp(x, axis=1, b=b)
    )
    ours = special.logsumexp(x[1:2], b=-b[1:2], keepdims=True, return_sign=True)
    theirs = scipy.special.logsumexp(x[1:2], b=-b[1:2], keepdims=True, return_sign=True)
    for a, e in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, e)
    assert np.isnan(special.logsumexp(x[1], b=-b[1]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: special.erfinv(1j), DTypeError, "erfinv: defined for real numbers only"),
        (lambda: special.lambertw(1.0, 2), ValueError, "lambertw: this branch has no real values"),
        (lambda: special.polygamma(-1, 1.0), ValueError, "polygamma: no derivative of this order"),
        (lambda: special.polygamma(0.5, 1.0), ValueError, "polygamma: no derivative of this order"),
        (lambda: gradient(lambda v: special.jv(v, 1.0), X), GradientError, "no derivative by v"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


IMPORTS = """
import sys
import numba_grad as ng
x = ng.tensor([0.5, 1.5], requires_grad=True)
ng.special.gammaln(x).sum().backward()
x.grad.numpy()
print("scipy" in sys.modules)
ng.special.gammainc(2.0, x.detach()).numpy()
print("scipy" in sys.modules, "numba" in sys.modules)
"""


@pytest.mark.thorough
def test_a_warm_start_imports_scipy_only_for_its_own_functions_and_numba_never():
    """The second process finds what the first one compiled, the calls of SciPy among it."""
    _, second = [run_python(IMPORTS, quietly=True) for _ in range(2)]
    assert second.split() == ["False", "True", "False"]
