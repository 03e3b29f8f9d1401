"""Special functions of complex numbers: errors against mpmath, edges, branches, what is refused.

Values in each dtype, derivatives of each primitive to second order, batching: tests/ops.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import numba_grad as ng
from numba_grad import special
from numba_grad.config import configure
from numba_grad.errors import DTypeError, GradientError
from numba_grad.testing import check_gradients


@pytest.fixture(autouse=True)
def _in_loops() -> Iterator[None]:
    """Written out for each element of a small array, functions as long as these take seconds to
    compile: the branches of `lambertw` took 22."""
    with configure(unroll_extent=0):
        yield


EPS = float(np.finfo(np.float64).eps)
INF, NAN = np.inf, np.nan
RNG = np.random.default_rng(0)


def square(radius, count=60, center=0.0):
    parts = RNG.uniform(-radius, radius, (2, count))
    return center + parts[0] + 1j * parts[1]


def spread(low, high, count=60, center=0.0):
    """Powers of ten in all directions."""
    return center + 10 ** RNG.uniform(low, high, count) * np.exp(
        1j * RNG.uniform(-3.14, 3.14, count)
    )


@dataclass(frozen=True)
class Case:
    """A function, what it is exactly, where, and the bound of docs/numerics.md."""

    function: Callable
    exact: Callable
    z: np.ndarray
    eps: float  # relative to 1, or to the result if that is larger
    is_relative: bool = False  # or to the result alone


def _ndtr(z):
    return mp.erfc(-z / mp.sqrt(2)) / 2


MIXED = np.concatenate([square(3), square(8), spread(-5, 0.5)])
AROUND = np.concatenate([square(3), square(20), spread(-5, 1)])
BRANCHES = np.concatenate(
    [square(3, 200), spread(-12, 0, 100, -np.exp(-1)), spread(-8, 8, 100), -np.abs(square(3)) + 0j]
)
CASES = {
    "erf": Case(special.erf, mp.erf, np.concatenate([square(5), spread(-5, 0.5)]), 60),
    "erfc": Case(special.erfc, mp.erfc, np.concatenate([square(5), spread(-5, 0.5)]), 60),
    "erfcx": Case(
        special.erfcx, lambda z: mp.exp(z * z) * mp.erfc(z), square(8, center=6.0), 60, True
    ),
    "erfi": Case(special.erfi, mp.erfi, square(4), 60),
    "wofz": Case(
        special.wofz, lambda z: mp.exp(-z * z) * mp.erfc(-1j * z), square(8, center=6.0j), 60, True
    ),
    "ndtr": Case(special.ndtr, _ndtr, square(7), 100),
    "log_ndtr": Case(special.log_ndtr, lambda z: mp.log(_ndtr(z)), square(1), 12),
    "gamma": Case(special.gamma, mp.gamma, MIXED, 60),
    "rgamma": Case(special.rgamma, mp.rgamma, MIXED, 60),
    "loggamma": Case(special.loggamma, mp.loggamma, AROUND, 30),
    "digamma": Case(special.digamma, mp.digamma, AROUND, 30),
    "trigamma": Case(lambda z: special.polygamma(1, z), lambda z: mp.zeta(2, z), AROUND, 6),
    "polygamma": Case(lambda z: special.polygamma(3, z), lambda z: 6 * mp.zeta(4, z), AROUND, 20),
    "exp1": Case(special.exp1, mp.e1, AROUND, 20),
    "expi": Case(special.expi, mp.ei, AROUND, 20),
    "si": Case(lambda z: special.sici(z)[0], mp.si, AROUND, 20),
    "ci": Case(lambda z: special.sici(z)[1], mp.ci, AROUND, 20),
    "jv": Case(lambda z: special.jv(2, z), lambda z: mp.besselj(2, z), AROUND, 10),
    "hyp1f1": Case(
        lambda z: special.hyp1f1(1.5, 2.5, z), lambda z: mp.hyp1f1(1.5, 2.5, z), square(8), 60
    ),
    "xlogy": Case(lambda z: special.xlogy(z, z), lambda z: z * mp.log(z), MIXED, 6),
    "xlog1py": Case(lambda z: special.xlog1py(z, z), lambda z: z * mp.log(1 + z), MIXED, 6),
    **{
        f"lambertw {k}": Case(
            lambda z, k=k: special.lambertw(z, k),
            lambda z, k=k: mp.lambertw(z, k),
            BRANCHES,
            6,
            True,
        )
        for k in (0, -1, 1, 2, -5)
    },
}


@pytest.mark.thorough(but="^(expi|rgamma|jv|erfcx)$")
@pytest.mark.parametrize("name", CASES)
def test_error_is_below_the_stated_bound(name):
    case = CASES[name]
    with mp.workdps(50):
        for z, value in zip(case.z, np.asarray(case.function(case.z)), strict=True):
            exact = case.exact(mp.mpc(z.real, z.imag))
            unit = EPS * (abs(exact) if case.is_relative else max(1, abs(exact)))
            assert abs(mp.mpc(value.real, value.imag) - exact) <= case.eps * unit, z


@pytest.mark.thorough(but="^(trigamma|expi|rgamma|jv|erfcx)$")
@pytest.mark.parametrize("name", CASES)
def test_complex64_is_the_same_to_its_precision(name):
    z = CASES[name].z.astype(np.complex64)
    value = CASES[name].function(z)
    assert value.dtype == np.complex64
    expected = np.asarray(CASES[name].function(z.astype(np.complex128)))
    # xlogy computes in single precision, the others in double.
    np.testing.assert_allclose(np.asarray(value), expected, rtol=2e-6, atol=2e-6)


def gradient(function, z):
    return np.asarray(ng.grad(lambda z: ng.real(function(z)).sum())(z))


FAR = {
    # Where neighbouring terms of the slope cancel, or overflow: exact derivatives, conjugated.
    "erfcx": (
        special.erfcx,
        lambda z: 2 * z * mp.exp(z * z) * mp.erfc(z) - 2 / mp.sqrt(mp.pi),
        np.array([300 + 20j, 1e8 + 1j, 60j + 1, -1 + 70j, -80 - 90j, 1e-3 + 55j, 2 + 1j, -3 + 2j]),
    ),
    "log_ndtr": (
        special.log_ndtr,
        lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) / _ndtr(z),
        np.array([-300 + 2j, -30 + 10j, 5 + 1j, 0.5 - 1j, -1e-3 + 2j]),
    ),
    "digamma": (
        special.digamma,
        lambda z: mp.psi(1, z),
        np.array([1e9 + 1j, -30.5 + 0.1j, -30.5 + 40j, -1e4 + 3j, 1e-3j, 1e-8 + 1e-8j]),
    ),
    "rgamma": (
        special.rgamma,
        lambda z: mp.diff(mp.rgamma, z),
        np.array([-3 + 0j, 0j, -1 + 1e-3j, -7.5 + 1j]),
    ),
    "lambertw": (
        lambda z: special.lambertw(z, -1),
        lambda z: mp.lambertw(z, -1) / (z * (1 + mp.lambertw(z, -1))),
        np.array([-0.2 + 0j, 1e-30 + 1e-31j, -0.36 + 1e-3j, 1e10 - 3j]),
    ),
}


@pytest.mark.thorough(but="^(digamma|erfcx|rgamma|log_ndtr)$")
@pytest.mark.parametrize("name", FAR)
def test_slopes_far_out(name):
    function, slope, z = FAR[name]
    found = gradient(function, z)
    with mp.workdps(60):
        exact = np.array([complex(slope(mp.mpc(x.real, x.imag))) for x in z]).conj()
    np.testing.assert_allclose(found, exact, rtol=2e-12)


def test_zeta_of_the_left_half_plane():
    z = np.array([-5.5 + 0.5j, -99.5 + 2j, -1e5 + 0.25j, -3 + 100j, -1e7 + 50j])
    found = np.asarray(special.polygamma(2, z))

    def reflected(z):  # mpmath itself goes to the right in steps of 1, for minutes
        cotangent = mp.cot(mp.pi * z)
        return mp.psi(2, 1 - z) - 2 * mp.pi**3 * cotangent * (1 + cotangent**2)

    with mp.workdps(40):
        exact = [complex(reflected(mp.mpc(x.real, x.imag))) for x in z]
        assert exact[0] == complex(mp.psi(2, mp.mpc(z[0].real, z[0].imag)))
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-16)
    assert np.isnan(np.asarray(special.polygamma(2, np.array([-1e7 + 1j, -3 + 0j])))).all()
    np.testing.assert_array_equal(special.polygamma(1, np.array([complex(INF, 1)])), 0)


GRADIENTS = {
    "sici": lambda z: special.sici(z)[0] * special.sici(z)[1],
    "jv": lambda z: special.jv(1.5, z + 2),
    "hyp1f1": lambda z: special.hyp1f1(0.5, 1.5, z),
    "polygamma 0": lambda z: special.polygamma(0, z + 2),
    "polygamma 2": lambda z: special.polygamma(2, z + 2),
    "xlogy of both": lambda z: special.xlogy(z, z[::-1] + 2),
    "xlogy of a real number": lambda z: special.xlogy(ng.real(z), z + 2),
    "logsumexp": lambda z: special.logsumexp(z, 0),
    "weighted": lambda z: special.logsumexp(z, b=z[::-1] + 3),
    "sign of a sum": lambda z: special.logsumexp(z, b=-2.0, return_sign=True)[1],
    "softmax": lambda z: special.softmax(z) * z,
    "log_softmax": lambda z: special.log_softmax(z) * z,
    "gamma by way of loggamma": lambda z: ng.exp(special.loggamma(z + 2)),
}


@pytest.mark.thorough(but="reference")
@pytest.mark.usefixtures("engine_of_derivatives")
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_to_second_order(name):
    check_gradients(GRADIENTS[name], square(1, 3), rtol=1e-5, atol=1e-7)


def test_no_gradient_of_xlogy_at_zero_is_nan():
    z, y = np.array([0j, 0j, 1 + 1j]), np.array([0j, 2j, 2.0])
    by_z, by_y = ng.grad(lambda z, y: ng.real(special.xlogy(z, y)).sum(), argnums=(0, 1))(z, y)
    np.testing.assert_allclose(by_z, np.array([0, np.log(2j), np.log(2)]).conj())
    np.testing.assert_allclose(by_y, np.array([0, 0, (1 + 1j) / 2]).conj())
    np.testing.assert_array_equal(special.xlogy(z[:1], np.array([complex(NAN, 1)])), NAN)


@pytest.mark.thorough
def test_branches_of_lambertw():
    z = np.array([0, -0.1, -1, 3, INF, -INF, complex(-0.2, -0.0), complex(-2, -0.0)], complex)
    for k in (0, -1, 1, 4):
        with np.errstate(all="ignore"):
            expected = scipy.special.lambertw(z, k)
        found = np.asarray(special.lambertw(z, k))
        np.testing.assert_allclose(found.real, expected.real, rtol=1e-14, atol=1e-15)
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-14, atol=1e-15)
    assert np.isnan(special.lambertw(complex(1, NAN)).item())
    # On the real part of branch -1, and on branch 0, there is no imaginary part at all.
    assert (np.asarray(special.lambertw(np.array([-0.3, -0.01, -1e-20]) + 0j, -1)).imag == 0).all()
    assert (np.asarray(special.lambertw(np.array([-0.3, 0.1, 1e20]) + 0j)).imag == 0).all()


SUMS = [
    np.array([[1 + 2j, 3 - 1j, 900j], [1e3 + 1j, 1e3 - 2j, -1e3]]),
    np.array([-INF + 0j, 1 + 4j]),
]


@pytest.mark.thorough(but="infinite")
@pytest.mark.parametrize("z", SUMS, ids=["finite", "infinite"])
def test_sums_of_exponentials_are_scipys(z):
    for axis in (None, -1):
        np.testing.assert_allclose(
            special.logsumexp(z, axis), scipy.special.logsumexp(z, axis), rtol=1e-13
        )
        np.testing.assert_allclose(
            special.softmax(z, axis), scipy.special.softmax(z, axis), rtol=1e-12, atol=1e-300
        )
    b = np.array([2.0, -1.5, 0.5])[: z.shape[-1]]
    for found, expected in zip(
        special.logsumexp(z, -1, b, return_sign=True),
        scipy.special.logsumexp(z, -1, b, return_sign=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(
        special.logsumexp(z, b=1j * b, keepdims=True),
        scipy.special.logsumexp(z, b=1j * b, keepdims=True),
        rtol=1e-13,
    )


def test_log_softmax_is_scipys():
    z = SUMS[0]
    np.testing.assert_allclose(
        special.log_softmax(z, -1), scipy.special.log_softmax(z, -1), rtol=1e-13
    )


def test_dtypes_are_promoted():
    single, double = np.ones(2, np.float32), np.ones(2)
    assert special.gamma(2j).dtype == np.complex128
    assert special.xlogy(single, 2j).dtype == np.complex64
    assert special.xlogy(double, np.complex64(2j)).dtype == np.complex128
    assert special.xlogy(single, np.ones(2, int) * 1j).dtype == np.complex128
    assert special.jv(np.float32(1), np.ones(2, np.complex64)).dtype == np.complex64


@pytest.mark.thorough
def test_inside_jit_and_vmap():
    z = square(2, 5) + 3

    def function(z):
        return special.lambertw(special.gamma(z), 1) + special.jv(0, z) * special.erf(z)

    expected = np.asarray(function(z))
    np.testing.assert_allclose(ng.jit(function)(z), expected, rtol=1e-12)
    np.testing.assert_allclose(ng.vmap(function)(z), expected, rtol=1e-12)


def test_scipys_functions_take_complex_tensors():
    z = ng.tensor(square(1, 3) + 2)
    for function in (scipy.special.erf, scipy.special.psi, scipy.special.rgamma):
        assert isinstance(function(z), ng.Tensor)
        np.testing.assert_allclose(function(z), function(z.numpy()), rtol=1e-13)


REAL_ONLY = {
    **dict.fromkeys(("erfinv", "erfcinv", "ndtri", "gammaln", "expit", "logit"), (1j,)),
    **dict.fromkeys(("entr", "j0", "j1", "y0", "y1", "i0", "i0e", "i1", "i1e"), (1j,)),
    **dict.fromkeys(("beta", "betaln", "gammainc", "gammaincc", "rel_entr", "kl_div"), (1j, 1.0)),
    "betainc": (1.0, 1.0, 1j),
    "log_expit": (1j,),
}


@pytest.mark.parametrize("name", [name for name in REAL_ONLY if name != "expit"])
def test_functions_of_real_numbers_say_so(name):
    with pytest.raises(DTypeError, match=rf"(?s)^{name}: defined for real numbers only.*complex"):
        getattr(special, name)(*REAL_ONLY[name])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: special.j0(1j), DTypeError, r"try: jv\(0, x\)"),
        (lambda: special.gammaln(1j), DTypeError, r"try: loggamma\(x\)"),
        (lambda: special.jv(1j, 2j), DTypeError, "jv: defined for real numbers only"),
        (lambda: special.hyp1f1(1.0, 1j, 2j), DTypeError, "(?s)hyp1f1: defined for real.*b :"),
        (lambda: special.polygamma(np.ones(2), 1j), DTypeError, "the order must be a number"),
        (lambda: special.lambertw(1.0, 2), ValueError, r"try: lambertw\(z.astype\(complex\), k\)"),
        (
            lambda: ng.grad(lambda b: ng.real(special.hyp1f1(1.0, b, 1j)))(1.0),
            GradientError,
            "no derivative by b: for complex x",
        ),
        (
            lambda: ng.grad(lambda v: ng.real(special.jv(v, 1j)))(1.0),
            GradientError,
            "no derivative by v",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
