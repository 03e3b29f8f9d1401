"""Diagonals of products are sums of products; other elements of products are not touched."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(0)
A, B, C = (RNG.normal(size=shape) for shape in [(7, 5), (5, 7), (5, 5)])


def check(f, *arrays, rtol=1e-12):
    both = ng.value_and_grad(lambda *x: np.sum(abs(f(*x)) ** 2), tuple(range(len(arrays))))
    (value, slopes), (expected, expected_slopes) = ng.jit(both)(*arrays), both(*arrays)
    for x, y in zip([value, *slopes], [expected, *expected_slopes], strict=True):
        np.testing.assert_allclose(x, np.asarray(y), rtol=rtol, atol=rtol * np.abs(y).max())
    np.testing.assert_allclose(ng.jit(f)(*arrays), np.asarray(f(*arrays)), rtol=rtol)


WAYS = [
    lambda a, b: np.trace(a @ b),
    lambda a, b: np.diag(a @ b),
    lambda a, b: np.diagonal(np.dot(a, b)),
    lambda a, b: np.diag(a @ b @ a) + 1.0,  # of a matrix that is not square
    lambda a, b: (a @ b)[np.arange(7), np.arange(7)],
    lambda a, b: np.diag(a @ a.T) * np.trace(b @ a),
    lambda a, b: np.trace((a @ b).T) + np.trace(b.T @ a.T),
]


@pytest.mark.thorough(but="float64", every=2)
@pytest.mark.parametrize("f", WAYS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_values_and_gradients(f, dtype):
    a, b = (x.astype(dtype) * (1 + 0.5j if dtype == np.complex128 else 1) for x in (A, B))
    check(f, a, b, rtol=1e-4 if dtype == np.float32 else 1e-11)


def test_what_is_no_diagonal_stays():
    check(lambda a, b: (a @ b)[np.arange(6), np.arange(1, 7)], A, B)
    check(lambda a, b: (a @ b)[np.arange(7)[::-1], np.arange(7)], A, B)
    check(lambda a, b: np.diag(a @ b, 2), A, B)
    check(lambda a, b: np.diag(a @ b) + np.sum(a @ b, axis=0), A, B)
    check(lambda c: np.trace(np.stack([c @ c, c]), axis1=1, axis2=2), C)


def test_products_with_diagonal_matrices():
    check(lambda a, b: np.diag(a[:, 0]) @ a, A, B)
    check(lambda a, b: a @ np.diag(b[:, 0]) @ b, A, B)
    check(lambda a, b: a.T @ np.diag(a[:, 1]).T @ a, A, B)


@pytest.mark.parametrize("f", WAYS[:3])
def test_no_product_is_computed(f):
    lowered = ng.jit(ng.grad(lambda a: np.sum(f(a, B.repeat(20, axis=1)) ** 2))).lower(
        A.repeat(20, axis=0)
    )
    names = [x.name for x in lowered.kernels]
    assert not any("matmul" in name or "dot" in name for name in names), names
