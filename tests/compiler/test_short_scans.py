"""Scans of few elements beside a loop are no kernels of their own, and give what scans give."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(9)
X = RNG.normal(size=(40, 5))

WAYS = {
    "sums": lambda x: np.cumsum(np.sin(x), axis=1),
    "sums from the end": lambda x: np.cumsum(x[:, ::-1] ** 2, axis=1)[:, ::-1],
    "products": lambda x: np.cumprod(np.cos(x), axis=-1),
    "of rows": lambda x: np.cumprod(np.cos(x.T), axis=0) * 2.0,
    "of two axes": lambda x: np.cumsum(np.sin(x.reshape(20, 2, 5)), axis=1),
    "with zeros": lambda x: np.cumprod(np.where(x > 0.5, 0.0, x), axis=1),
    "complex": lambda x: abs(np.cumprod(x + 1j * x[:, ::-1], axis=1)) ** 2,
    "of one": lambda x: np.cumsum(np.sin(x[:, :1]), axis=1),
}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_derivatives(name, dtype):
    f, x = WAYS[name], X.astype(dtype)
    rtol = 1e-4 if dtype == np.float32 else 1e-11
    gradient = ng.value_and_grad(lambda x: np.sum(np.tanh(f(x))))
    lowered = ng.jit(gradient).lower(x)
    assert not any(kernel.name.startswith(("cum", "linear")) for kernel in lowered.kernels)
    value, found = ng.jit(gradient)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(value, np.sum(np.tanh(f(x))), rtol=rtol)
    with ng.configure(engine="reference"):
        _, expected = gradient(x)
    np.testing.assert_allclose(found, np.asarray(expected), rtol=rtol, atol=rtol)


def test_values_are_those_of_numpy_to_the_bit():
    x = RNG.normal(size=(40, 16)) * 10.0 ** RNG.integers(-9, 9, size=(40, 16))
    x[3, 2], x[5, 7], x[6, 1] = np.nan, np.inf, -0.0
    x[7] = -0.0
    for scan in (np.cumsum, np.cumprod):
        found = ng.jit(lambda x, scan=scan: scan(x, axis=1))(x)
        expected = scan(x, axis=1)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("shape", [(5,), (40, 17), (0, 5), (40, 0)])
def test_others_stay(shape):
    x = RNG.normal(size=shape)
    found = ng.jit(lambda x: np.cumsum(x, axis=-1) * 2.0)
    np.testing.assert_allclose(found(x), 2.0 * np.cumsum(x, axis=-1), rtol=1e-13)
