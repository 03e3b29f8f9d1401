"""Products of matrices that BLAS adds to a sum itself."""

import numpy as np
import pytest

import numba_grad as ng


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def kernel_names(f, *args) -> list[str]:
    return [kernel.name for kernel in ng.jit(f).lower(*args).kernels]


def recurrent(w, xs):
    h = ng.zeros((8, 16))
    for k in range(xs.shape[0]):
        h = ng.tanh(xs[k] + h @ w)
    return (h * h).sum()


def test_gradients_of_weights_are_added_by_blas(rng):
    w, xs = 0.3 * rng.normal(size=(16, 16)), rng.normal(size=(60, 8, 16))
    value, gradient = ng.jit(ng.value_and_grad(recurrent))(w, xs)
    names = kernel_names(ng.value_and_grad(recurrent), w, xs)
    assert any("matmul_add" in name for name in names)
    with ng.configure(engine="reference"):
        expected_value, expected = ng.value_and_grad(recurrent)(w, xs)
    np.testing.assert_allclose(value, expected_value.numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient, expected.numpy(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_sums_of_products(rng, dtype):
    a, b, c, d = [rng.normal(size=(9, 9)).astype(dtype) for _ in range(4)]

    def f(a, b, c, d):
        return a @ b + c.T @ d + d @ a.T

    names = kernel_names(f, a, b, c, d)
    assert len(names) == 2 and any("matmul_add" in name for name in names)
    expected = a @ b + c.T @ d + d @ a.T
    tolerance = 30 * np.finfo(dtype).eps
    found = ng.jit(f)(a, b, c, d)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=30 * tolerance)


def test_a_sum_that_is_wanted_itself_is_not_written_over(rng):
    a, b, c, d = [rng.normal(size=(9, 9)) for _ in range(4)]

    def f(a, b, c, d):
        first = a @ b
        both = first + c @ d
        return first, both, first + d @ c

    for found, expected in zip(ng.jit(f)(a, b, c, d), f(a, b, c, d), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_arguments_are_not_written_over(rng):
    s, x, y = [rng.normal(size=(9, 9)) for _ in range(3)]
    before = s.copy()
    added = ng.jit(lambda s, x, y: s + x @ y)
    np.testing.assert_allclose(added(s, x, y), before + x @ y, rtol=1e-12)
    tensor = ng.tensor(s)
    added(tensor, x, y)
    np.testing.assert_array_equal(tensor.numpy(), before)


def test_long_sums_across_segments(rng):
    xs, ys = rng.normal(size=(400, 12, 5)), rng.normal(size=(400, 5, 7))

    def f(xs, ys):
        total = ng.zeros((12, 7))
        partial = []
        for k in range(xs.shape[0]):
            total = total + ng.sin(xs[k]) @ ng.cos(ys[k])
            if k % 100 == 50:
                partial.append(total)
        return total, *partial

    expected = np.cumsum(np.sin(xs) @ np.cos(ys), axis=0)
    total, *partial = ng.jit(f)(xs, ys)
    np.testing.assert_allclose(total, expected[-1], rtol=1e-10, atol=1e-11)
    for found, k in zip(partial, (50, 150, 250, 350), strict=True):
        np.testing.assert_allclose(found, expected[k], rtol=1e-10, atol=1e-11)


def test_stacks_empty_products_and_products_with_themselves(rng):
    a, b = rng.normal(size=(3, 6, 6)), rng.normal(size=(6, 6))

    def f(a, b):
        square = a @ b
        return square + (a @ a + b @ a)

    np.testing.assert_allclose(ng.jit(f)(a, b), f(a, b), rtol=1e-11)
    empty = ng.jit(lambda x, y, z: x @ y + z @ z)(np.ones((6, 0)), np.ones((0, 6)), b)
    np.testing.assert_allclose(empty, b @ b, rtol=1e-12)
