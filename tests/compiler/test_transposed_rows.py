"""Loops over rows of several numbers run in blocks: against NumPy, and in vector code."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.steps import cpu_steps
from numba_grad.config import config, configure

ROWS = [1, 15, 16, 17, 33, 4099]


def is_transposed(f, *args):
    return any("keep_scalar" in kernel.source for kernel in ng.jit(f).lower(*args).kernels)


def softmax(x):
    exp = np.exp(x - x.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def determinant(m):
    (a, b, c), (d, e, f), (g, h, i) = [[m[:, j, k] for k in range(3)] for j in range(3)]
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_eight(rows, dtype):
    x = np.random.default_rng(0).normal(size=(rows, 8)).astype(dtype)
    # One row is written out, and few ones are loops.
    assert is_transposed(softmax, x) == (rows > config.unroll_extent)
    result = ng.jit(softmax)(x)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, softmax(x), rtol=1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("rows", ROWS)
def test_sums_over_rows(rows):
    m = np.random.default_rng(1).normal(size=(rows, 3, 3))
    value, gradient = ng.jit(ng.value_and_grad(lambda m: (determinant(m) ** 2).sum()))(m)
    np.testing.assert_allclose(value, (np.linalg.det(m) ** 2).sum(), rtol=1e-12)
    cofactors = np.linalg.det(m)[:, None, None] * np.swapaxes(np.linalg.inv(m), 1, 2)
    expected = 2 * np.linalg.det(m)[:, None, None] * cofactors
    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.int32, np.bool_, np.float16])
def test_dtypes(dtype):
    x = np.random.default_rng(2).integers(0, 2, size=(50, 6)).astype(dtype)

    def rotated(x):
        y = x * np.roll(x, -1, axis=1)
        for _ in range(7):
            y = y * x
        return y * x[:, :1]

    assert is_transposed(rotated, x)
    result = ng.jit(rotated)(x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, rotated(x))


def test_rows_backwards_and_of_a_larger_array():
    x = np.random.default_rng(3).normal(size=(70, 9))
    w = np.random.default_rng(4).normal(size=(68, 5))

    def f(x, w):
        return (softmax(x)[::-1][2:, 1:6] * w).sum(axis=1), x[:-2, 4:] - w

    for result, expected in zip(ng.jit(f)(x, w), f(x, w), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-13)


def test_rows_along_an_inner_axis():
    x = np.random.default_rng(5).normal(size=(30, 40, 8))

    def f(x, scale):
        exp = np.exp(x * scale)
        return exp / exp.sum(axis=2, keepdims=True)

    scale = np.linspace(0.0, 7.0, 30).reshape(30, 1, 1)
    assert is_transposed(f, x, scale)
    np.testing.assert_allclose(ng.jit(f)(x, scale), f(x, scale), rtol=1e-13)


def test_the_number_of_threads_changes_nothing():
    m = np.random.default_rng(6).normal(size=(100_003, 3, 3))
    f = ng.jit(ng.value_and_grad(lambda m: (determinant(m) ** 2).sum()))
    results = []
    for threads in (1, 2, 3):
        with configure(threads=threads):
            results.append([np.asarray(part).tobytes() for part in f(m)])
    assert results[0] == results[1] == results[2]


def test_a_row_with_nan_stays_the_only_one():
    x = np.ones((100, 8))
    x[37, 5] = np.nan
    result = ng.jit(softmax)(x)
    assert np.isnan(result[37]).all()
    np.testing.assert_allclose(np.delete(result, 37, axis=0), 1 / 8)


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_results_go_past_the_caches(dtype, monkeypatch):
    monkeypatch.setattr(cpu_steps, "STREAMED_BYTES", 1 << 16)
    for rows, is_large in ((20_011, True), (100, False)):
        x = np.random.default_rng(8).normal(size=(rows, 7)).astype(dtype)
        # Another function each time: programs are kept by their graphs.
        jitted = ng.jit(lambda x, rows=rows: softmax(x) * rows)
        assert ("store_past_caches" in jitted.lower(x).kernels[0].source) == is_large
        for threads in (1, 2):
            with configure(threads=threads):
                tolerance = 1e-5 if dtype == np.float32 else 1e-13
                np.testing.assert_allclose(jitted(x), softmax(x) * rows, rtol=tolerance)


def test_short_rows_are_left_to_llvm():
    x = np.ones((1000, 3))
    assert not is_transposed(lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True)), x)


def test_rows_of_little_arithmetic_are_left_to_llvm():
    x = np.ones((1000, 9))
    for f in (lambda x: np.sum(x * x, axis=1), lambda x: x * x[:, :1], lambda x: np.max(x, axis=1)):
        assert not is_transposed(f, x)


def test_bytes_count_the_components_that_are_used():
    x = np.ones((1000, 8))
    (kernel,) = ng.jit(lambda x: x[:, 0] + x[:, 5] * x[:, 7] - x[:, 6]).lower(x).kernels
    assert kernel.nbytes == 1000 * 8 * (4 + 1)


def test_jacobians_of_rows_are_one_kernel():
    """Blocks of a Jacobian that lie side by side are added and joined while they are computed."""

    def residual(p, x):
        return np.exp(-p[0] * x) * p[1] + p[2] * np.sin(p[3] * x) + p[4] * p[5]

    p, x = np.random.default_rng(7).uniform(0.5, 1.5, size=(2000, 6)), np.ones(2000)
    jacobian = ng.jit(ng.vmap(ng.grad(residual)))
    assert len(jacobian.lower(p, x).kernels) == 1
    a, b, c, d, e, f = p.T
    decay = np.exp(-a)
    expected = [-decay * b, decay, np.sin(d), c * np.cos(d), f, e]
    np.testing.assert_allclose(jacobian(p, x), np.stack(expected, axis=1), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_indices_are_tested_apart_from_functions(dtype):
    """Whose vector code a branch would prevent."""

    def f(x, i, j):
        return np.tanh(x[i] * x[j]) + np.exp(x[j])

    x = np.linspace(-1.0, 1.0, 10)
    i, j = np.random.default_rng(0).integers(-10, 10, (2, 1000)).astype(dtype)
    jitted = ng.jit(f)
    [kernel] = jitted.lower(x, i, j).kernels
    test = kernel.source.rindex("check_index(")
    assert test < kernel.source.index("tanh(")
    assert kernel.source.rindex("for ", 0, test) < kernel.source.index("for ", test)
    np.testing.assert_allclose(jitted(x, i, j), f(x, i, j), rtol=1e-14)
    j[777] = 10
    with pytest.raises(IndexError, match="10"):
        jitted(x, i, j)


def test_indices_beside_arithmetic_are_tested_where_they_are_read():
    kernel = ng.jit(lambda x, i: x[i] * 2 + 1).lower(np.ones(10), np.zeros(100, int)).kernels[0]
    assert "first_row" not in kernel.source
