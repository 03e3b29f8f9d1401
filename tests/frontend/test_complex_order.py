"""The order of complex numbers: NumPy's, by real parts, then by imaginary parts, nan where it has.

Derivatives of the primitives to second order: tests/ops/test_registry.py.
"""

import itertools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError
from numba_grad.testing import check_gradients

pytestmark = pytest.mark.usefixtures("engine")

INF, NAN = np.inf, np.nan
# Every pair of these is compared: equal parts, signed zeros, infinities, nan in either part.
NUMBERS = np.array([complex(x, y) for x in (0.0, -0.0, 1, NAN, INF) for y in (0.0, 2, NAN, -INF)])
LEFT, RIGHT = (x.ravel() for x in np.meshgrid(NUMBERS, NUMBERS, indexing="ij"))
RNG = np.random.default_rng(0)
TIES = (RNG.integers(0, 3, (7, 40)) + 1j * RNG.integers(0, 3, (7, 40))).astype(complex)
HOLES = np.where(RNG.random(TIES.shape) < 0.05, complex(1, NAN), TIES)
HOLES = np.where(RNG.random(TIES.shape) < 0.05, complex(NAN, 2), HOLES)
ARRAYS = {
    "ties": TIES,
    "nan": HOLES,
    "single": HOLES.astype(np.complex64),
    "strided": HOLES[::2, ::3],
}


def same(found, expected):
    """In both parts, with nan in the same ones."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found.real, expected.real)
    np.testing.assert_array_equal(found.imag, expected.imag)


PAIRS = ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_of_parts(name):
    same(getattr(np, name)(ng.tensor(LEFT), RIGHT), getattr(np, name)(LEFT, RIGHT))


def test_operators_and_mixed_dtypes():
    z, x = ng.tensor(TIES[0]), np.arange(40) % 3
    for found, expected in [
        (z < x, TIES[0] < x),
        (z >= 1, TIES[0] >= 1),
        (z > 1 + 1j, TIES[0] > 1 + 1j),
        (np.maximum(x, z), np.maximum(x, TIES[0])),
        (np.clip(z, 1j, 1 + 1j), np.clip(TIES[0], 1j, 1 + 1j)),
    ]:
        same(found, expected)


REDUCTIONS = ["max", "min", "nanmax", "nanmin", "argmax", "argmin", "ptp"]


@pytest.mark.thorough(but="reference|native-(max|nanmin|argmin)-ties")
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:All-NaN")
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, array):
    x = ARRAYS[array]
    for axis in (0, 1):
        same(getattr(np, name)(ng.tensor(x), axis), getattr(np, name)(x, axis))
    found, expected = getattr(np, name)(ng.tensor(x)).item(), getattr(np, name)(x.copy()).item()
    # Over several axes either library takes elements in an order of its own: another nan.
    assert found == expected or np.isnan([found, expected]).all()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_reductions_of_long_rows():
    x = RNG.integers(0, 90, (3, 20_000)) + 1j * RNG.integers(0, 90, (3, 20_000))
    x[2, 15_000] = complex(0, NAN)
    for name in ("max", "min", "argmax", "argmin"):
        for axis in (0, 1):
            same(getattr(ng, name)(ng.tensor(x), axis), getattr(np, name)(x, axis))


def test_reductions_with_initial_and_where():
    mask = RNG.random(TIES.shape) < 0.3
    for name, start in (("max", -5 - 1j), ("min", 1 + 1j), ("max", 1 + 1j)):
        found = getattr(ng, name)(ng.tensor(TIES), 0, initial=start, where=mask)
        same(found, getattr(np, name)(TIES, 0, initial=start, where=mask))
    same(ng.max(ng.tensor(TIES[:0]), 0, initial=2j), np.max(TIES[:0], 0, initial=2j))
    lowest = np.array([complex(-INF, -INF), complex(-INF, -3)])
    same(ng.max(ng.tensor(lowest)), lowest[1])
    same(ng.argmax(ng.tensor(lowest)), 1)
    with pytest.raises(ValueError, match="max: zero-size array"):
        ng.max(ng.tensor(TIES[:0]), 0)


@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_positions_without_nan(name):
    same(getattr(ng, name)(ng.tensor(HOLES), 1), getattr(np, name)(HOLES, 1))


@pytest.mark.thorough(but="reference|native-strided")
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("array", ARRAYS)
def test_sorting(array):
    x = ARRAYS[array]
    same(np.sort(ng.tensor(x), 1), np.sort(x, 1))
    same(ng.argsort(ng.tensor(x), 1), np.argsort(x, 1, kind="stable"))
    same(np.median(ng.tensor(x), 1), np.median(x, 1))
    same(np.nanmedian(ng.tensor(x), 1), np.nanmedian(x, 1))
    row = np.sort(TIES[0])
    same(ng.searchsorted(row, ng.tensor(TIES)), np.searchsorted(row, TIES))


@pytest.mark.parametrize("array", ["ties", "nan", "strided"])
def test_extremes_so_far(array):
    x = ARRAYS[array]
    for ours, ufunc in ((ng.cummax, np.maximum), (ng.cummin, np.minimum)):
        for axis in (0, 1):
            expected = ufunc.accumulate(x, axis)
            found = np.asarray(ours(ng.tensor(x), axis))
            # The gradient goes to the last nan as in torch, so that may be another nan.
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            same(found[~np.isnan(found)], expected[~np.isnan(found)])
            same(ufunc.accumulate(ng.tensor(x), axis), found)


def test_rounding_is_by_parts():
    x = np.array([complex(0.5, -1.5), complex(INF, 2.25), complex(NAN, 3.75), 123.456 - 7.891j])
    same(np.rint(ng.tensor(x)), np.rint(x))
    for decimals in (0, 1, -1):
        same(np.round(ng.tensor(x), decimals), np.round(x, decimals))
    same(ng.grad(lambda z: ng.real(ng.rint(z)).sum())(x), np.zeros(4, complex))


@pytest.mark.parametrize("deg", [False, True])
def test_angle(deg):
    np.testing.assert_allclose(ng.angle(TIES, deg), np.angle(TIES, deg), rtol=1e-15)


def gradient(function, *arrays):
    loss = lambda *z: ng.real(function(*z) * (2 - 1j)).sum()  # noqa: E731
    return ng.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)


def test_gradients_select_an_element():
    x = np.array([1 + 1j, 1 + 3j, 0 + 9j, 1 + 3j])
    g = 2 + 1j
    same(gradient(ng.max, x)[0], np.array([0, g / 2, 0, g / 2]))
    same(gradient(ng.min, x)[0], np.array([0, 0, g, 0]))
    same(gradient(ng.ptp, x)[0], np.array([0, g / 2, -g, g / 2]))
    same(gradient(ng.cummax, x)[0], np.array([g, 2 * g, 0, g]))
    y = np.array([1 + 2j, 1 + 2j, 1 - 9j, 1 + 3j])
    by_x, by_y = gradient(ng.maximum, x, y)
    same(by_x, np.array([0, g, 0, g / 2]))
    same(by_y, np.array([g, 0, g, g / 2]))
    by_x, by_y = gradient(ng.minimum, np.array([complex(1, NAN)]), np.array([1 + 0j]))
    same(by_x, np.array([g]))
    same(gradient(ng.median, x[:3])[0], np.array([g, 0, 0]))


CALLS = {
    "max": lambda z: ng.max(z, 0),
    "min over two axes": lambda z: ng.min(z, (0, 1)),
    "ptp": lambda z: ng.ptp(z, 1),
    "maximum": lambda z: ng.maximum(z, z[::-1] * 1j),
    "cummin": lambda z: ng.cummin(z, 1),
    "sort": lambda z: ng.sort(z, 0),
    "median": lambda z: ng.median(z, 1),
    "nanmax": lambda z: ng.nanmax(z, 1),
    "clip": lambda z: ng.clip(z, -0.5, 0.5 + 1j),
}


@pytest.mark.thorough(but="reference-(nanmax|cummin|argmin)|native-max$")
@pytest.mark.parametrize("name", CALLS)
def test_gradients_jit_and_vmap(name):
    z = RNG.standard_normal((3, 4, 2)) @ np.array([1, 1j])
    call = CALLS[name]
    check_gradients(lambda z: call(z) ** 2, z, rtol=1e-5, atol=1e-7)
    same(ng.jit(call)(z), call(z))
    stack = np.stack([z, z[::-1]])
    same(ng.vmap(call)(stack), np.stack([np.asarray(call(one)) for one in stack]))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda z: ng.relu(z), DTypeError),
        (lambda z: ng.quantile(z, 0.3), TypeError),
        (lambda z: ng.floor(z), DTypeError),
        (lambda z: ng.heaviside(z, 0.5), DTypeError),
        (lambda z: ng.hypot(z, z), DTypeError),
    ],
)
def test_what_needs_real_numbers_says_so(call, error):
    with pytest.raises(error, match=r"complex|not defined for these dtypes"):
        call(ng.tensor(TIES))


def test_all_orders_of_two_agree():
    """The comparisons and the extremes are of one order, for all pairs without nan."""
    for a, b in itertools.product(TIES[0][:6], TIES[1][:6]):
        assert (ng.maximum(a, b).item() == a) == bool(ng.greater_equal(a, b))
