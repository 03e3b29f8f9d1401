"""Matrices of up to four rows, whose kernels are written out, and of up to 16, beside NumPy.

Derivatives of the operations: tests/ops, with matrices of three rows.
"""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.testing import check_gradients

CASES = [
    *[("float64", n) for n in (1, 2, 3, 4, 5)],
    *[("complex128", 2), ("complex128", 4), ("complex64", 3), ("float32", 4)],
    # In loops.
    *[("float64", 9), ("float64", 16), ("complex64", 6), ("float64", 17)],
]


def stack(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def assert_close(found, expected, digits=1):
    """To some units of the dtype's rounding, of the largest element."""
    found, expected = np.asarray(found), np.asarray(expected)
    eps = np.finfo(found.dtype).eps
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=digits * 30 * eps * scale)


@pytest.mark.thorough(but="float64-[13]$")
@pytest.mark.parametrize(("dtype", "n"), CASES)
def test_they_agree_with_numpy(dtype, n):
    a, b = stack(dtype, 40, n, n) + 2 * np.eye(n, dtype=dtype), stack(dtype, 40, n, 2, seed=1)
    wide = a.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    assert_close(ng.linalg.solve(a, b), np.linalg.solve(wide, b), digits=20)
    assert_close(ng.linalg.inv(a), np.linalg.inv(wide), digits=20)
    assert_close(ng.linalg.det(a), np.linalg.det(wide))
    for found, expected in zip(ng.linalg.slogdet(a), np.linalg.slogdet(wide), strict=True):
        assert_close(found, expected, digits=4)
    positive = wide @ wide.conj().mT + np.eye(n)
    assert_close(ng.linalg.cholesky(positive.astype(dtype)), np.linalg.cholesky(positive), digits=4)
    triangle = np.tril(wide) + n * np.eye(n)
    found = ng.linalg.solve_triangular(triangle.astype(dtype), b, lower=True)
    assert_close(found, np.linalg.solve(triangle, b), digits=50)


@pytest.mark.thorough(but="^[34]$")
@pytest.mark.parametrize("n", (2, 3, 4, 7))
def test_rows_are_exchanged_where_pivots_are_zero_or_small(n):
    orders = np.array([np.random.default_rng(seed).permutation(n) for seed in range(24)])
    a = np.eye(n)[orders] * np.arange(1, n + 1)
    np.testing.assert_array_equal(ng.linalg.inv(a) @ a, np.broadcast_to(np.eye(n), a.shape))
    np.testing.assert_array_equal(ng.linalg.det(a), np.round(np.linalg.det(a)))
    x = np.arange(1.0, n + 1)[:, None]
    small = a + 1e-17
    np.testing.assert_allclose(ng.linalg.solve(small, small @ x), x + 0 * a[..., :1], rtol=1e-14)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("n", (1, 3, 4, 7))
@pytest.mark.parametrize("dtype", ("float64", "complex128"))
def test_singular_matrices_are_named(n, dtype):
    a = stack(dtype, 6, n, n) + 3 * np.eye(n)
    a[4, :, 0] = 0
    with pytest.raises(np.linalg.LinAlgError, match="number 4 of the batch"):
        ng.linalg.inv(a).numpy()
    with pytest.raises(np.linalg.LinAlgError, match="number 4 of the batch"):
        ng.linalg.solve(a, np.ones((n, 1), dtype)).numpy()
    assert ng.linalg.det(a)[4].item() == 0
    sign, logarithm = ng.linalg.slogdet(a)
    assert sign[4].item() == 0
    assert logarithm[4].item() == -np.inf
    triangle = np.tril(a)
    triangle[4, -1, -1] = 0
    with pytest.raises(np.linalg.LinAlgError, match="number 4 of the batch"):
        ng.linalg.solve_triangular(triangle, np.ones((n, 1), dtype), lower=True).numpy()
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        ng.linalg.cholesky(np.eye(n)[None] * np.array([1.0, -1.0])[:, None, None]).numpy()
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        ng.linalg.cholesky(np.zeros((n, n), dtype)).numpy()


@pytest.mark.parametrize(
    "f", [np.linalg.inv, lambda a: np.linalg.solve(a, a[:, :, :1]), np.linalg.cholesky]
)
def test_one_of_many_is_singular(f):
    """They are vector code, which goes on with the others."""
    a = stack("float64", 100, 3, 3)
    a = a @ a.swapaxes(1, 2) + np.eye(3)
    compiled = ng.jit(lambda a: f(a))
    assert_close(compiled(a), f(a), digits=10)
    assert not any("continue" in kernel.source for kernel in compiled.lower(a).kernels)
    for number in (0, 37, 99):
        bad = a.copy()
        bad[number] = -np.ones((3, 3))
        with pytest.raises(np.linalg.LinAlgError, match=rf"\b{number}\b"):
            np.asarray(compiled(bad))


def test_zeros_and_nan():
    zero = np.zeros((3, 3))
    assert ng.linalg.det(zero).item() == 0
    spoiled = np.eye(3) * 4 + 0.1
    spoiled[1, 0] = np.nan
    for found in (ng.linalg.inv(spoiled), ng.linalg.solve(spoiled, np.ones((3, 1)))):
        assert np.isnan(found).all()
    assert np.isnan(ng.linalg.det(spoiled)).item()
    np.testing.assert_array_equal(
        np.isnan(ng.linalg.cholesky(spoiled)), np.isnan(np.linalg.cholesky(spoiled))
    )


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", ("float64", "complex128"))
def test_products_do_not_overflow_on_the_way(dtype):
    a = np.array([np.diag([1e-200, 1e200, 1e-180, 1e180]), np.diag([1e180, 1e200, 1e-200, 1e-180])])
    a = a.astype(dtype)
    np.testing.assert_allclose(ng.linalg.det(a), [1, 1], rtol=1e-14)
    slopes = ng.grad(lambda a: ng.real(ng.linalg.det(a)).sum())(a)
    expected = np.stack([np.diag(1 / np.diagonal(matrix)) for matrix in a])
    np.testing.assert_allclose(slopes, expected, rtol=1e-13)


def test_the_slope_of_the_determinant_of_singular_matrices():
    rows = stack("float64", 5, 4, 4)
    rows[0, 3] = rows[0, 0] + rows[0, 1]
    rows[1, 2:] = rows[1, :2]
    rows[2] = 0
    found = np.asarray(ng.grad(lambda a: ng.linalg.det(a).sum())(rows))
    for number in range(5):
        for i, j in np.ndindex(4, 4):
            minor = np.delete(np.delete(rows[number], i, 0), j, 1)
            expected = (-1) ** (i + j) * np.linalg.det(minor)
            assert abs(found[number, i, j] - expected) < 1e-13


STACKS = [((), (300,)), ((300,), ()), ((300,), (300,)), ((2, 1), (1, 3)), ((0,), (0,))]


@pytest.mark.parametrize(("left", "right"), STACKS)
def test_stacks_broadcast(left, right):
    a = stack("float64", *left, 3, 3) + 4 * np.eye(3)
    b = stack("float64", *right, 3, 2, seed=1)
    np.testing.assert_allclose(ng.linalg.solve(a, b), np.linalg.solve(a, b), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ng.matmul(a, b), a @ b, rtol=1e-13, atol=1e-14)
    turned = ng.matmul(ng.tensor(b).mT, ng.tensor(a).mT)
    np.testing.assert_allclose(turned, b.mT @ a.mT, rtol=1e-13, atol=1e-14)


@pytest.mark.thorough(but="^float32")
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 3), (1, 4, 1), (4, 4, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ("float32", "complex128"))
def test_many_small_products(shape, dtype):
    m, k, n = shape
    x, y = stack(dtype, 300, m, k), stack(dtype, 300, k, n, seed=1)
    assert_close(ng.matmul(x, y), x @ y)
    assert_close(ng.matmul(x, ng.tensor(y.mT.copy()).mT), x @ y)


@pytest.mark.thorough
def test_gradients_of_stacks_that_are_not_contiguous():
    a = np.asfortranarray(stack("float64", 4, 4, 3) + 4)[::2, 1:, ::-1] + 5 * np.eye(3)
    for function in (ng.linalg.inv, ng.linalg.det, lambda a: ng.linalg.slogdet(a)[1]):
        check_gradients(function, a)
    check_gradients(lambda a: ng.linalg.cholesky(a @ a.mT), a)


def test_products_with_views_of_what_has_been_looked_at():
    """Whose way to where they come from is gone once they are computed."""
    weights = ng.tensor(np.arange(6.0)).reshape(2, 3)
    row = ng.tensor([1.0, 0.5])
    for _ in range(3):
        product = row @ weights
        assert float(product[0]) == row.tolist() @ np.arange(6.0).reshape(2, 3)[:, 0]
        stacked = ng.stack([weights[:, 1], weights[:, 2]])
        assert float((stacked @ row)[0]) == pytest.approx(weights.numpy()[:, 1] @ row.tolist())
        row = ng.stack([product[0], product[1]]) / 10.0
