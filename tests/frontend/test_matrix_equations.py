"""sqrtm, solve_sylvester, solve_banded, block_diag and toeplitz, against SciPy's."""

import re

import numpy as np
import pytest
import scipy.linalg

import numba_grad as ng
from numba_grad.errors import ShapeError, TracingError
from numba_grad.testing import check_gradients

RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 4)) + 6 * np.eye(4)
B = RNG.standard_normal((3, 3)) + 4 * np.eye(3)
Q = RNG.standard_normal((4, 3))
BANDS = RNG.standard_normal((4, 6)) + 4 * np.eye(4)[1][:, None]
RIGHT = RNG.standard_normal((6, 2))


@pytest.mark.thorough(but="complex64")
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_values_are_scipys(dtype):
    rotated = 1j if np.dtype(dtype).kind == "c" else 1
    a, b, q, bands, right = ((x * rotated).astype(dtype) for x in (A, B, Q, BANDS, RIGHT))
    tolerance = 100 * float(np.finfo(dtype).eps)
    for found, expected in (
        (ng.linalg.sqrtm(a), scipy.linalg.sqrtm(a)),
        (ng.linalg.solve_sylvester(a, b, q), scipy.linalg.solve_sylvester(a, b, q)),
        (
            ng.linalg.solve_banded((2, 1), bands, right),
            scipy.linalg.solve_banded((2, 1), bands, right),
        ),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_stacks_broadcast_and_vectors_stay_vectors():
    stack = np.stack([A, 2 * A])
    np.testing.assert_allclose(ng.linalg.sqrtm(stack)[1], scipy.linalg.sqrtm(2 * A), rtol=1e-12)
    found = ng.linalg.solve_sylvester(stack, B, Q)
    np.testing.assert_allclose(found[1], scipy.linalg.solve_sylvester(2 * A, B, Q), rtol=1e-12)
    x = ng.linalg.solve_banded((2, 1), BANDS, RIGHT[:, 0])
    assert x.shape == (6,)
    mapped = ng.vmap(lambda b: ng.linalg.solve_banded((2, 1), BANDS, b))(RIGHT.T)
    np.testing.assert_allclose(mapped[0], x, rtol=1e-14)


@pytest.mark.thorough
def test_gradients():
    check_gradients(ng.linalg.sqrtm, A[:3, :3])
    check_gradients(ng.linalg.solve_sylvester, A[:2, :2], B, Q[:2])
    check_gradients(lambda ab, b: ng.linalg.solve_banded((2, 1), ab, b), BANDS, RIGHT[:, 0])


def test_roots_that_do_not_exist_are_nan():
    for matrix in (-np.eye(2), [[0.0, 1.0], [0.0, 0.0]], [[np.inf, 0.0], [0.0, 1.0]]):
        assert np.isnan(np.asarray(ng.linalg.sqrtm(matrix))).any()
    np.testing.assert_allclose(ng.linalg.sqrtm(-np.eye(2) + 0j), 1j * np.eye(2))
    assert ng.linalg.sqrtm(np.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]
    # Of a rotation by a quarter: real, though its eigenvalues are not.
    root = np.asarray(ng.linalg.sqrtm([[0.0, -1.0], [1.0, 0.0]]))
    np.testing.assert_allclose(root @ root, [[0, -1], [1, 0]], atol=1e-15)


@pytest.mark.thorough(but="float")
@pytest.mark.parametrize("dtype", [float, complex])
def test_singular_systems_are_errors(dtype):
    eye = np.eye(2, dtype=dtype)
    with pytest.raises(np.linalg.LinAlgError, match="solve_sylvester: Singular"):
        ng.linalg.solve_sylvester(eye, -eye, eye).numpy()
    with pytest.raises(np.linalg.LinAlgError, match="solve_banded: Singular"):
        ng.linalg.solve_banded((1, 1), np.zeros((3, 4), dtype), np.ones(4, dtype)).numpy()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="solve_banded: shapes do not fit"):
        ng.linalg.solve_banded((1, 1), BANDS, RIGHT)
    with pytest.raises(ValueError, match="negative"):
        ng.linalg.solve_banded((-1, 5), BANDS, RIGHT)
    with pytest.raises(ShapeError, match="solve_sylvester: shapes do not fit"):
        ng.linalg.solve_sylvester(A, B, Q.T)
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        ng.linalg.sqrtm(Q)


def test_scipys_functions_name_ours():
    x = ng.tensor(A, requires_grad=True)
    arguments = {"sqrtm": "", "expm": "", "cholesky": ", upper=True", "inv": "", "det": ""}
    for name, more in arguments.items():
        message = re.escape(f"ng.linalg.{name}(...{more})")
        with pytest.raises(RuntimeError, match=message):
            getattr(scipy.linalg, name)(x)
        with pytest.raises(TracingError, match=message):
            ng.jit(getattr(scipy.linalg, name))(A)


@pytest.mark.parametrize(
    "arrays",
    [
        (A, Q, B.astype(np.float32)),
        (np.float32([1, 2]), 3, 1j * Q),
        (np.zeros((0, 2)), [[1, 2]], []),
        (),
    ],
    ids=["matrices", "a vector and a number", "empty", "none"],
)
def test_block_diag_is_scipys(arrays):
    found, expected = ng.linalg.block_diag(*arrays), scipy.linalg.block_diag(*arrays)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_block_diag_of_stacks_and_its_gradient():
    stack = np.stack([A, 2 * A])
    expected = [scipy.linalg.block_diag(a, Q) for a in stack]
    np.testing.assert_array_equal(ng.linalg.block_diag(stack, Q), expected)
    mapped = ng.vmap(ng.linalg.block_diag, in_axes=(0, None))(stack, Q)
    np.testing.assert_array_equal(mapped, expected)
    check_gradients(ng.linalg.block_diag, A[:2], Q[0])


@pytest.mark.parametrize(
    "arrays",
    [
        (Q[0], A[1]),
        (1j * Q[0],),
        (np.float32([1, 2]), [3, 4, 5]),
        ([7],),
        (Q, A[0]),
        (Q[0], np.stack([A, A])),
    ],
    ids=["column and row", "conjugate", "dtypes", "one", "stack of columns", "stacks of rows"],
)
def test_toeplitz_is_scipys(arrays):
    found = ng.linalg.toeplitz(*arrays)
    each = np.vectorize(scipy.linalg.toeplitz, signature="(m)->(m,m)")
    if len(arrays) == 2:
        each = np.vectorize(scipy.linalg.toeplitz, signature="(m),(n)->(m,n)")
    expected = each(*arrays)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_gradients_of_toeplitz():
    check_gradients(lambda c, r: ng.linalg.toeplitz(c, r) ** 2, Q[0], A[1])
    check_gradients(lambda c: ng.linalg.toeplitz(c)[1:] ** 2, Q[0])
    mapped = ng.vmap(ng.linalg.toeplitz, in_axes=(0, None))(Q, A[0])
    np.testing.assert_array_equal(mapped, ng.linalg.toeplitz(Q, A[0]))
