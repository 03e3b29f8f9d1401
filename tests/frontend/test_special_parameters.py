"""Derivatives of special functions by their parameters: errors against mpmath, ends, higher orders.

The operations that they are made of: tests/ops, with differences to second order.
"""

import mpmath as mp
import numpy as np
import pytest

import numba_grad as ng
from numba_grad import special
from numba_grad.errors import GradientError
from numba_grad.testing import check_gradients

INF, NAN = np.inf, np.nan
EPS = 2.0**-52
RNG = np.random.default_rng(5)
STEP = mp.mpf(10) ** -18


def slope(f, k, *arrays):
    """The derivative of each result of f by its own element of argument k."""
    return np.asarray(ng.grad(lambda *x: f(*x).sum(), argnums=k)(*arrays))


def exact_slope(f, k, *numbers):
    numbers = [mp.mpf(float(number)) for number in numbers]
    ends = []
    for sign in (1, -1):
        moved = list(numbers)
        moved[k] += sign * STEP * abs(moved[k])
        ends.append(f(*moved))
    return (ends[0] - ends[1]) / (2 * STEP * abs(numbers[k]))


def assert_accurate(function, exact, k, arrays, *, eps, floor=0.0, digits=50):
    """Errors in units of eps, relative to the exact slope, or to `floor` where that is larger."""
    found = slope(function, k, *arrays)
    with mp.workdps(digits):
        for y, *x in zip(found, *arrays, strict=True):
            expected = exact_slope(exact, k, *x)
            error = abs(mp.mpf(float(y)) - expected)
            assert error <= eps * EPS * max(floor, abs(expected)), (k, x, y, float(expected))


# betainc


def _betainc(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("low", "high", "eps"), [(-2, 0, 100), (-1, 1, 300), (0, 2, 1000), (2, 3, 3000)]
)
def test_betainc_by_its_shapes(low, high, eps):
    """Relative to the slope itself, in the tails, too."""
    a, b = (10 ** RNG.uniform(low, high, 25) for _ in range(2))
    x = np.clip(RNG.beta(a, b), 1e-200, 1 - 1e-15)
    for k in (0, 1):
        assert_accurate(special.betainc, _betainc, k, (a, b, x), eps=eps)


@pytest.mark.thorough
def test_betainc_by_its_shapes_in_deep_tails():
    a = np.array([3.0, 30.0, 0.2, 12.0])
    b = np.array([30.0, 3.0, 40.0, 0.3])
    x = np.array([1e-12, 0.01, 0.9, 1e-6])
    for k in (0, 1):
        assert_accurate(special.betainc, _betainc, k, (a, b, x), eps=300, digits=120)


@pytest.mark.thorough
def test_betainc_is_flat_at_the_ends_and_undefined_beyond():
    a, x = np.full(4, 2.0), np.array([0.0, 1.0, -0.0, NAN])
    for k in (0, 1):
        found = slope(special.betainc, k, a, a + 1, x)
        np.testing.assert_array_equal(found[:3], 0)
    beyond = slope(special.betainc, 0, np.array([-1.0]), np.array([2.0]), np.array([0.5]))
    assert np.isnan(beyond).all()


# zeta


def _hurwitz(x, q):
    with mp.workdps(80):
        return mp.zeta(x, q)


@pytest.mark.parametrize(
    ("x", "q"),
    [
        (RNG.uniform(1.01, 9, 25), 10 ** RNG.uniform(-1, 1, 25)),
        (RNG.uniform(9, 40, 25), 10 ** RNG.uniform(-1, 3, 25)),
        (1 + 10 ** RNG.uniform(-6, -1, 15), RNG.uniform(0.5, 3, 15)),
    ],
)
def test_zeta_by_its_exponent(x, q):
    # Below 1 and above it the logarithms of the terms have different signs.
    assert_accurate(special.zeta, _hurwitz, 0, (x, q), eps=15, floor=1e-3)


def test_riemann_zeta():
    for x, eps in (
        (RNG.uniform(1.01, 30, 20), 10),
        (RNG.uniform(0, 0.99, 20), 60),
        (-RNG.uniform(0, 5, 20), 60),
        (-RNG.uniform(5, 20, 20), 600),
    ):
        assert_accurate(special.zeta, mp.zeta, 0, (x,), eps=eps, floor=0.1)
    found = slope(special.zeta, 0, np.array([0.0, -2.0, INF, NAN]))
    expected = [-np.log(2 * np.pi) / 2, -mp.zeta(3) / (4 * mp.pi**2), NAN, NAN]
    np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-14)


def test_zeta_has_no_slope_where_it_is_not_defined_for_exponents_nearby():
    found = slope(special.zeta, 0, np.array([3.0, 0.5, 3.0]), np.array([-1.5, 2.0, 2.0]))
    np.testing.assert_array_equal(np.isnan(found), [True, True, False])


# kv and kve


def _scaled_bessel_k(v, x):
    return mp.besselk(v, x) * mp.exp(x)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("orders", "points", "eps"), [(10, (-1, 1.6), 20), (10, (-9, -1), 200), (100, (1, 4), 200)]
)
def test_bessel_k_by_its_order_and_argument(orders, points, eps):
    v, x = RNG.uniform(-orders, orders, 15), 10 ** RNG.uniform(*points, 15)
    for k in (0, 1):
        assert_accurate(special.kve, _scaled_bessel_k, k, (v, x), eps=eps, digits=60)
    x = np.minimum(x, 600)
    assert_accurate(special.kv, mp.besselk, 0, (v, x), eps=eps + 600)


def test_slopes_of_bessel_k_at_the_ends():
    v, x = np.array([0.0, 2.0, -2.0, 0.5, 1.0, NAN]), np.array([0.0, 0.0, 0.0, -1.0, INF, 1.0])
    expected = [[0, INF, -INF, NAN, 0, NAN], [-INF, -INF, -INF, NAN, 0, NAN]]
    for k in (0, 1):
        np.testing.assert_array_equal(slope(special.kve, k, v, x), expected[k])
        np.testing.assert_array_equal(slope(special.kv, k, v, x), expected[k])
    for f in (special.k0, special.k1, special.k0e, special.k1e):
        np.testing.assert_array_equal(slope(f, 0, np.array([0.0, -1.0, INF])), [-INF, NAN, 0])
    # Next to 0, and of orders so large that K is infinite.
    v = np.array([0.0, 0.5, 0.5, 3.0, -3.0, 1e20, -1e20, 1e308, 1e308])
    x = np.array([1e-300, 1e-200, 1e-300, 1e-300, 1e-200, 1.0, 1.0, 1e10, INF])
    root = np.sqrt(np.pi / 8)
    close = [[0, None, None, INF, -INF, INF, -INF, INF, 0]]
    close += [[-1e300, -root * 1e300, -INF, -INF, -INF, -INF, -INF, -INF, 0]]
    for k in (0, 1):
        known = [n for n, value in enumerate(close[k]) if value is not None]
        wanted = np.array([close[k][n] for n in known], float)
        np.testing.assert_allclose(slope(special.kve, k, v[known], x[known]), wanted, rtol=1e-12)
    # Where exp(-x) underflows, but K does not.
    ends = np.asarray(special.kv(np.array([1000.001, 999.999]), 800.0))
    wanted = (ends[0] - ends[1]) / 0.002
    found = slope(special.kv, 0, np.array([1000.0]), np.array([800.0]))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


# hyp1f1


def _uniform(count, *ranges):
    return tuple(RNG.uniform(low, high, count) for low, high in ranges)


@pytest.mark.parametrize(
    ("ranges", "eps"),
    [
        (((0.1, 5), (0.1, 5), (-5, 5)), 60),
        (((0.1, 5), (5, 100), (-100, 100)), 300),
        (((0.1, 20), (0.1, 20), (0, 600)), 500),
        (((-5, 5), (-5, 5), (-10, 10)), 1e4),
    ],
)
def test_hyp1f1_by_its_parameters(ranges, eps):
    arrays = _uniform(25, *ranges)
    for k in (0, 1):
        assert_accurate(special.hyp1f1, mp.hyp1f1, k, arrays, eps=eps, floor=1)


def test_hyp1f1_of_large_negative_arguments():
    """Relative to slopes that are small themselves: no digits are lost where 0 < a < b."""
    b = RNG.uniform(3, 9, 15)
    arrays = (b * RNG.uniform(0.1, 0.9, 15), b, -(10 ** RNG.uniform(1.5, 3.7, 15)))
    for k in (0, 1):
        assert_accurate(special.hyp1f1, mp.hyp1f1, k, arrays, eps=3000)


def test_hyp1f1_never_gives_digits_that_are_not_there():
    """Where terms cancel: at least six digits, or nan."""
    arrays = _uniform(150, (-60, 60), (-60, 60), (-60, 60))
    missing = 0
    for k in (0, 1):
        for y, *x in zip(slope(special.hyp1f1, k, *arrays), *arrays, strict=True):
            missing += bool(np.isnan(y))
            with mp.workdps(80):
                expected = exact_slope(mp.hyp1f1, k, *x)
            if not np.isnan(y):
                assert abs(y - expected) <= 2e-6 * max(1, abs(expected)), (k, x)
    assert 0 < missing < 60


def test_hyp1f1_at_special_places():
    a = np.array([-2.0, 0.0, 1.5, 1.0, 1.0, 1.0, 2.0, 800.0])
    b = np.array([1.5, 2.5, 2.5, -1.0, 2.0, 2.0, 2.0, 0.5])
    x = np.array([0.7, 0.7, 0.0, 0.7, 3e5, -3e5, NAN, 700.0])
    by_a, by_b = (slope(special.hyp1f1, k, a, b, x) for k in (0, 1))
    for found, k in ((by_a, 0), (by_b, 1)):
        assert found[2] == 0
        assert np.isnan(found[[3, 4, 5, 6]]).all()
        with mp.workdps(40):
            expected = exact_slope(mp.hyp1f1, k, -2.0, 1.5, 0.7)
        assert abs(found[0] - expected) <= 1e-14
    assert by_b[1] == 0
    assert by_a[7] == INF
    assert by_b[7] == -INF


# Higher orders, calls

X = np.linspace(0.15, 0.85, 5)
DIFFERENTIABLE = {
    "betainc": (special.betainc, np.array([0.4, 2.0, 0.7, 5.0, 1.3]), X[::-1] + 0.5, X),
    "zeta": (special.zeta, 1.2 + 2 * X, X[::-1] + 0.3),
    "Riemann's zeta": (special.zeta, np.array([-3.3, -1.0, 0.25, 1.5, 4.0])),
    "hyp1f1": (special.hyp1f1, X, X[::-1] + 0.2, 4 * X - 2),
}


@pytest.mark.thorough(but="reference")
@pytest.mark.usefixtures("engine_of_derivatives")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name])


@pytest.mark.thorough(but=r"1\.75$")
@pytest.mark.parametrize(
    ("function", "exact", "point"),
    [
        (lambda a: special.betainc(a, 2.5, 0.3), lambda a: _betainc(a, 2.5, 0.3), 1.75),
        (lambda b: special.betainc(0.5, b, 0.75), lambda b: _betainc(0.5, b, 0.75), 0.375),
        (lambda s: special.zeta(s, 0.75), lambda s: mp.zeta(s, 0.75), 2.25),
        (lambda b: special.hyp1f1(0.5, b, -3.0), lambda b: mp.hyp1f1(0.5, b, -3), 1.25),
    ],
)
def test_third_derivatives(function, exact, point):
    found = ng.grad(ng.grad(ng.grad(function)))(point).item()
    with mp.workdps(40):
        assert abs(found - mp.diff(exact, point, 3)) <= 1e-12 * abs(found)


def all_slopes(a, b, x):
    def total(a, b, x):
        return (special.betainc(a, b, x) + special.hyp1f1(a, b, -x)).sum()

    return ng.grad(total, argnums=(0, 1))(a, b, x)


@pytest.mark.thorough
def test_jit_and_vmap_give_the_same():
    a, b = X.reshape(5, 1) * np.ones(3) + 0.5, np.array([0.5, 1.0, 4.0])
    x = np.array([0.2, 0.5, 0.75])
    found = ng.jit(ng.vmap(all_slopes, in_axes=(0, None, None)))(a, b, x)
    for k, row in enumerate(a):
        for array, expected in zip(found, all_slopes(row, b, x), strict=True):
            np.testing.assert_allclose(array[k], expected, rtol=1e-13)


@pytest.mark.thorough
def test_single_precision_empty_and_strided_arrays():
    a = np.linspace(0.5, 3, 24).reshape(4, 6)
    arrays = [np.asfortranarray(array)[::2, ::-2] for array in (a, a[::-1], a / 4)]
    expected = all_slopes(*map(np.copy, arrays))
    single = all_slopes(*[array.astype(np.float32) for array in arrays])
    for k, found in enumerate(all_slopes(*arrays)):
        np.testing.assert_array_equal(found, expected[k])
        assert single[k].dtype == np.float32
        np.testing.assert_allclose(single[k], expected[k], rtol=3e-5)
    assert [g.shape for g in all_slopes(*[np.zeros((0, 2))] * 3)] == [(0, 2)] * 2


def test_orders_stay_refused():
    for call, message in (
        (lambda v: special.jv(v, 1.0), "no derivative by v"),
        (lambda n: special.polygamma(n, 1.0), "no derivative by n: it is defined for integers"),
    ):
        with pytest.raises(GradientError, match=message):
            slope(call, 0, np.array([1.0, 2.0]))
    np.testing.assert_allclose(
        slope(lambda x: special.polygamma(np.array([1, 2]), x), 0, np.array([0.5, 0.5])),
        [-16.828796644234320, 97.409091034002437],
        rtol=1e-14,
    )
