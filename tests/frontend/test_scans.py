"""Sums, products, extremes and recurrences so far: values, and derivatives of all orders."""

import numpy as np
import pytest
import scipy.special

import numba_grad as ng
from numba_grad.errors import AxisError, ShapeError
from numba_grad.testing import check_gradients
from tests.frontend.agreement import check_jit_and_vmap

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5))
Z = X + 1j * RNG.standard_normal((3, 5))
WITH_ZEROS = np.array([[1.5, 0.0, -2.0, 0.0, 0.7], [0.0, 0.3, 1.1, 2.0, -0.4]])

DIFFERENTIABLE = {
    "cumprod": (lambda x: ng.cumprod(x, 1), X),
    "cumprod, flattened": (ng.cumprod, X),
    "cumprod of zeros": (lambda x: ng.cumprod(x, 1), WITH_ZEROS),
    "cumprod of columns": (lambda x: ng.cumprod(x, 0), WITH_ZEROS),
    "complex cumprod": (lambda x: ng.cumprod(x, -1), Z),
    "nancumprod": (lambda x: ng.nancumprod(np.where(X < 0, np.nan, x), 1), X),
    "cumulative_prod": (
        lambda x: ng.cumulative_prod(x, axis=1, include_initial=True),
        WITH_ZEROS,
    ),
    "cumulative_sum": (lambda x: ng.cumulative_sum(x, axis=0, include_initial=True), X),
    "cummax": (lambda x: ng.cummax(x, 1), X),
    "cummin": (lambda x: ng.cummin(x * x, 0), X),
    "logcumsumexp": (lambda x: ng.logcumsumexp(x, 1), 9 * X),
    "logcumsumexp of columns": (lambda x: ng.logcumsumexp(x, 0), X),
    "complex logcumsumexp": (lambda x: ng.logcumsumexp(x, 1), 2 * Z),
    "recurrence": (lambda a, b: ng.linear_recurrence(a, b), X, X[::-1].copy()),
    "reversed recurrence": (lambda a, b: ng.linear_recurrence(a, b, 0, reverse=True), X[0], X),
    "complex recurrence": (lambda a, b: ng.linear_recurrence(a, b, 1), Z, X + 1j),
}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name, numpy_engine):
    check_gradients(*DIFFERENTIABLE[name])


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jit_and_vmap_give_the_same(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name])


def test_third_derivatives_of_a_product_with_two_zeros():
    def f(x):
        return ng.cumprod(x)[-1]

    x = np.array([2.0, 0.0, 3.0, 0.0])
    third = ng.jacobian(ng.hessian(f))(x).numpy()
    # d3/dx0 dx1 dx3 leaves x2; d3/dx1 dx2 dx3 leaves x0.
    assert (third[0, 1, 3], third[1, 2, 3], third[0, 1, 2]) == (3.0, 2.0, 0.0)


@pytest.mark.thorough(but="float64-cum(prod|max)")
@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_those_of_torch(name, dtype):
    torch = pytest.importorskip("torch")
    values = RNG.integers(-2, 3, (4, 6)).astype(dtype)
    weights = RNG.standard_normal(values.shape).astype(dtype)
    for axis in (0, 1):
        theirs = torch.tensor(values, requires_grad=True)
        result = getattr(torch, name)(theirs, axis)
        result = result if isinstance(result, torch.Tensor) else result.values
        (result * torch.tensor(weights)).sum().backward()
        ours = ng.tensor(values, requires_grad=True)
        out = getattr(ng, name)(ours, axis)
        (out * weights).sum().backward()
        assert out.dtype == dtype
        np.testing.assert_allclose(out.detach(), result.detach(), rtol=2e-6)
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32"])
def test_values_and_dtypes_are_numpys(dtype, numpy_engine):
    x = np.array([[2, 1, 3, 0], [1, 5, 4, 7]]).astype(dtype)
    t = ng.tensor(x)
    for axis in (0, 1, None):
        for name in ("cumprod", "cumsum"):
            expected = getattr(np, name)(x, axis)
            result = getattr(np, name)(t, axis)
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum):
        expected = ufunc.accumulate(x.astype(int) if dtype == "bool" else x)
        np.testing.assert_array_equal(ufunc.accumulate(t), expected)
    assert np.maximum.accumulate(t).dtype == x.dtype
    for name in ("cumulative_sum", "cumulative_prod"):
        expected = getattr(np, name)(x, axis=1, include_initial=True, dtype="float32")
        result = getattr(np, name)(t, axis=1, include_initial=True, dtype="float32")
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_nan_and_infinity():
    x = np.array([1.0, np.inf, -np.inf, np.nan, 2.0])
    np.testing.assert_array_equal(ng.cummax(x), np.maximum.accumulate(x))
    np.testing.assert_array_equal(ng.cummin(x), np.minimum.accumulate(x))
    np.testing.assert_array_equal(ng.cumprod(x), np.cumprod(x))
    np.testing.assert_array_equal(ng.nancumprod(x), np.nancumprod(x))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ng.logcumsumexp(x), np.logaddexp.accumulate(x))


def test_logcumsumexp_of_terms_far_apart():
    x = np.array([-np.inf, -np.inf, -1000.0, 0.0, -1000.0, 1000.0, 999.0, -np.inf])
    t = ng.tensor(x, requires_grad=True)
    result = ng.logcumsumexp(t)
    np.testing.assert_allclose(result.detach(), np.logaddexp.accumulate(x), rtol=1e-15)
    result[2:].sum().backward()
    gradient = t.grad.numpy()
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[[0, 1, 7]], 0)
    np.testing.assert_allclose(gradient.sum(), 6)


def test_logcumsumexp_of_complex_numbers():
    z = np.array([1 + 2j, 800 - 1j, 1.5j - 3, 800 + 2j, 1e4, complex(np.nan, 1)])
    found = np.asarray(ng.logcumsumexp(z[:5]))
    for n in range(1, 6):
        np.testing.assert_allclose(found[n - 1], scipy.special.logsumexp(z[:n]), rtol=1e-14)
    assert np.isnan(np.asarray(ng.logcumsumexp(z))[-1])
    start = np.array([complex(-np.inf, 0), 1 + 1j])
    np.testing.assert_array_equal(ng.logcumsumexp(start), start)
    assert ng.logcumsumexp(z.astype(np.complex64)).dtype == np.complex64


def test_logcumsumexp_of_many_terms_is_accurate():
    x = RNG.standard_normal(20_000)
    exact = np.log(np.cumsum(np.exp(x.astype(np.longdouble))))
    error = np.abs(ng.logcumsumexp(x).numpy() - exact)
    assert error.max() < 2e-14


@pytest.mark.parametrize("f", [ng.cumprod, ng.cummax, ng.logcumsumexp])
def test_empty_and_zero_dimensional(f):
    assert f(np.zeros((0, 3)), 0).shape == (0, 3)
    assert f(np.zeros((3, 0)), 0).shape == (3, 0)
    assert f(np.array(2.0)).numpy().tolist() == [2.0]
    strided = np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(f(strided, 1), f(strided.copy(), 1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.cumprod(x, 2), AxisError, "cumprod: axis out of range"),
        (lambda x: ng.cumulative_sum(x), ShapeError, "cumulative_sum: needs axis= where"),
        (lambda x: ng.cumulative_prod(x), ShapeError, "cumulative_prod: needs axis= where"),
        (lambda x: ng.linear_recurrence(x, x[:1, :2]), ShapeError, "linear_recurrence: shapes"),
        (lambda x: np.subtract.accumulate(x), TypeError, "numpy.subtract.accumulate: not supp"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor(np.ones((2, 3))))
