"""Derivatives of statistics and of functions of samples, and what they refuse."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.testing import check_gradients

X = np.random.default_rng(0).standard_normal((3, 5))
Y = np.random.default_rng(1).standard_normal((3, 5))
WITH_NAN = np.where(np.abs(X) < 0.3, np.nan, X)
QUANTILES = np.array([0.13, 0.57, 0.8])

DIFFERENTIABLE = {
    "average": (lambda x, w: ng.average(x, 1, w), X, np.exp(Y)),
    "average of an axis": (lambda x, w: ng.average(x, 1, w), X, np.exp(Y[0])),
    "median": (lambda x: ng.median(x, 1), X),
    "median of an even number": (lambda x: ng.median(x[:, :4], 1), X),
    "quantile": (lambda x, q: ng.quantile(x, q, 1), X, QUANTILES),
    "quantile, hazen": (lambda x, q: ng.quantile(x, q, 0, method="hazen"), X, QUANTILES),
    "percentile": (lambda x: ng.percentile(x, 40.0), X),
    "weighted quantile": (
        lambda x: ng.quantile(x, QUANTILES, 1, weights=np.exp(Y[0]), method="inverted_cdf") ** 2,
        X,
    ),
    "nanquantile": (lambda x: ng.nanquantile(np.where(np.isnan(WITH_NAN), np.nan, x), 0.4), X),
    "cov": (lambda x, y: ng.cov(x, y), X, Y),
    "weighted cov": (lambda x, w: ng.cov(x, aweights=w), X, np.exp(Y[0])),
    "corrcoef": (lambda x: ng.corrcoef(x), X),
    "complex cov": (lambda x, y: ng.cov(x + 1j * y), X, Y),
    **{
        name: (lambda x, f=name: getattr(ng, f)(np.where(np.isnan(WITH_NAN), np.nan, x), 1), X)
        for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")
    },
    "trapezoid": (lambda y, x: ng.trapezoid(y, x), X, np.cumsum(np.exp(Y[0]))),
    "gradient": (lambda f: ng.gradient(f), X),
    "gradient of places": (lambda f, x: ng.gradient(f, x, axis=1), X, np.cumsum(np.exp(Y[0]))),
    "gradient of edge order 2": (
        lambda f, x: ng.gradient(f, x, axis=1, edge_order=2),
        X,
        np.cumsum(np.exp(Y[0])),
    ),
    "unwrap": (lambda x: ng.unwrap(3 * x), X),
    "polyval": (lambda p, x: ng.polyval(p, x), Y[0], X),
    "cross": (lambda x, y: ng.cross(x, y, axis=0), X, Y),
    "vander": (lambda x: ng.vander(x, 4), X[0]),
    "kron": (lambda x, y: ng.kron(x, y), X, Y[:2, :2]),
    "sinc": (lambda x: ng.sinc(x), np.array([0.0, 1e-9, 0.1, 0.158, 0.16, 1.0, -2.5])),
    "logaddexp2": (lambda x, y: ng.logaddexp2(x, y), X, Y),
    "rot90": (lambda x: ng.rot90(x), X),
}


@pytest.mark.thorough(but="reference", every=16)
@pytest.mark.usefixtures("engine_of_derivatives")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name], elements=16)


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jit_gives_the_same(name):
    f, *arrays = DIFFERENTIABLE[name]
    expected, found = f(*arrays), ng.jit(f)(*arrays)
    for a, b in zip(_parts(expected), _parts(found), strict=True):
        np.testing.assert_allclose(np.asarray(b), a.numpy(), rtol=1e-12, atol=1e-12)


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


def test_nan_flows_through_and_none_comes_back():
    x = ng.tensor([1.0, np.nan, 4.0], requires_grad=True)
    for f in (ng.nansum, ng.nanmean, ng.nanvar, ng.nanstd, ng.nanmax, ng.nanmedian):
        (g,) = ng.autograd.grad(f(x), x)
        assert np.isfinite(g.numpy()).all() and g.numpy()[1] == 0
    for f in (ng.median, lambda x: ng.quantile(x, 0.2)):
        assert np.isnan(f(x).item())


def test_infinite_elements_are_those_of_numpys_median():
    for row in (
        [1, 2, np.inf],
        [1, 2, np.inf, np.inf],
        [-np.inf, 1],
        [np.inf, np.inf],
        [-np.inf, 3],
    ):
        assert ng.median(np.array(row)).item() == np.median(row)
    x = ng.tensor([1.0, 2.0, np.inf], requires_grad=True)
    np.testing.assert_array_equal(ng.autograd.grad(ng.median(x), x)[0], [0, 1, 0])
    # The nearest elements are finite.
    assert ng.quantile(np.array([1.0, 2.0, 3.0, np.inf, np.inf]), 0.5).item() == 3


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("n", [5000, 70_000])
def test_half_precision_does_not_count_elements(n):
    x = np.random.default_rng(0).random(n).astype(np.float16)
    for method in ("linear", "lower", "hazen", "midpoint", "closest_observation"):
        for name in ("quantile", "nanquantile"):
            found = getattr(ng, name)(ng.array(x), 0.3, method=method)
            expected = getattr(np, name)(x, 0.3, method=method)
            assert found.dtype == np.float16
            np.testing.assert_array_equal(found, expected, f"{name} {method}")
    np.testing.assert_array_equal(ng.median(ng.array(x)), np.median(x))
    # NumPy counts in the dtype of such q, and has nan.
    found = ng.percentile(ng.array(x), np.array([10, 90], np.float16))
    np.testing.assert_allclose(found, np.percentile(x.astype(float), [10, 90]), rtol=2e-3)


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("axis", [None, 0, 1, (1, 0)])
def test_weights_of_quantiles(name, axis):
    weights = np.array([[0.0, 1, 2, 0.5, 0], [3, 0, 1, 1, 1], [1, 1, 0, 2, 0]])
    if axis == 1:
        weights = weights[1] if name == "quantile" else weights[[1, 1, 1]]  # NumPy fails on those
    for x in (X, np.round(X), WITH_NAN):
        for q in (0.0, 0.35, [0.1, 0.5, 1.0]):
            kwargs = {"axis": axis, "weights": weights, "method": "inverted_cdf", "keepdims": True}
            if name == "nanquantile" and axis == 0 and x is WITH_NAN:
                kwargs["weights"] = np.abs(Y)
            expected = getattr(np, name)(x, q, **kwargs)
            np.testing.assert_array_equal(getattr(ng, name)(x, q, **kwargs), expected)


@pytest.mark.thorough(but="float32")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_weighted_quantiles_compare_in_the_dtype_of_q(dtype):
    x, weights = np.array([15, 20, 35, 40, 50], dtype), np.ones(5, np.float32)
    for q in (0.4, 1, np.float32(0.4), np.array([0.2, 0.4, 0.6], np.float16)):
        kwargs = {"weights": weights, "method": "inverted_cdf"}
        np.testing.assert_array_equal(ng.quantile(x, q, **kwargs), np.quantile(x, q, **kwargs))


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("q", [1, [0, 1], np.array([True, False])])
@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile"])
def test_integer_quantiles_are_elements(name, q):
    for x in (np.arange(3), np.arange(3, dtype=np.float32)):
        found, expected = getattr(ng, name)(x, q), getattr(np, name)(x, q)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("q", [0.25, np.float64(0.25), np.float32(0.25), np.float16(0.25)])
def test_a_number_of_numpys_is_no_python_number_for_quantiles(q):
    for dtype in (np.float16, np.float32):
        x = np.array([0.1, 0.7, 2.3], dtype)
        found, expected = ng.quantile(x, q), np.quantile(x, q)
        np.testing.assert_allclose(found, expected, rtol=float(np.finfo(dtype).eps))
        assert found.dtype == expected.dtype


def test_a_complex_dtype_that_is_asked_for_is_that_of_the_variance():
    for x in (X, X * 1j):
        found, expected = ng.var(x, dtype=complex), np.var(x, dtype=complex)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert found.dtype == expected.dtype


def test_only_nan():
    x = np.full((2, 3), np.nan)
    for f in (ng.nanmean, ng.nanvar, ng.nanstd, ng.nanmax, ng.nanmin, ng.nanmedian):
        assert np.isnan(f(x, 1).numpy()).all()
    assert ng.nansum(x).item() == 0 and ng.nanprod(x).item() == 1


def test_the_derivative_of_sinc_at_zero():
    second = ng.grad(ng.grad(lambda x: ng.sinc(x)))
    assert abs(second(0.0).item() + np.pi**2 / 3) < 1e-14


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.quantile(x, 1.5), ValueError, r"quantile: q must be from 0 to 1\n"),
        (lambda x: ng.percentile(x, [-1, 50]), ValueError, "percentile: q must be from 0 to 100"),
        (lambda x: ng.quantile(x, 0.5, method="best"), ValueError, "expected: one of"),
        (lambda x: ng.quantile(x, 0.5, weights=x), ValueError, "only one method is defined"),
        (
            lambda x: ng.quantile(x, 0.5, weights=[1, -1, 1], method="inverted_cdf"),
            ValueError,
            "weights below 0",
        ),
        (
            lambda x: ng.quantile(x, 0.5, weights=[1, 1], method="inverted_cdf"),
            ValueError,
            "neither the shape of x, nor that of one axis",
        ),
        (lambda x: ng.quantile(x * 1j, 0.5), TypeError, "quantile: not defined for complex"),
        (lambda x: ng.quantile(x[:0], 0.5), IndexError, "quantile: no elements along the axis"),
        (lambda x: ng.average(x, weights=[1, 2]), TypeError, "need an axis"),
        (lambda x: ng.average(x, 0, [1, 2]), ValueError, "neither the shape of x"),
        (lambda x: ng.cov(x[None, None]), ValueError, "cov: more than two axes"),
        (lambda x: ng.cov(x, fweights=[1, 2]), ValueError, "one weight for each observation"),
        (lambda x: ng.gradient(x[:1]), ValueError, "edge_order=1 needs 2 elements along axis 0"),
        (lambda x: ng.gradient(x, 1.0, 2.0), TypeError, "one for each axis"),
        (lambda x: ng.gradient(x * x[:, None], x), TypeError, "one for each axis"),
        (lambda x: ng.gradient(x, [1.0, 2.0]), ValueError, "have another length"),
        (lambda x: ng.cross(x[:1], x[:1]), ValueError, "cross: needs two or three"),
        (lambda x: ng.linalg.cross(x[:2], x[:2]), ValueError, "linalg.cross: needs three comp"),
        (lambda x: ng.polyval(x[0], x), ValueError, "polyval: p has no axis"),
        (lambda x: ng.rot90(x[None], axes=(1, 1)), ValueError, "rot90: needs two axes"),
        (lambda x: ng.vsplit(x, 1), ValueError, "vsplit: needs 2 axes"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor([1.0, 2.0, 3.0]))
