"""`r_` and `c_`, against NumPy's."""

import numpy as np
import pytest

import numba_grad as ng

A = np.arange(3.0)
M = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    "key",
    [
        (0, A, 5),
        (A, np.float32(1)),
        (slice(1, 4), A, slice(0, 1, 5j)),
        A,
        slice(3),
        ("-1", M, M),
        ("0,2", A, M),
        ("0,2,0", A, A),
        ("1,2,0", A, A),
        ("0,3,1", A),
        ("0,3,-1", A),
        ("0,3,0", M, M),
        (np.float32([1]), 2.5),
        (np.array([1], np.int8), 1),
    ],
)
def test_r_is_numpys(key):
    expected, result = np.r_[key], ng.r_[key]
    assert (result.dtype, result.tolist()) == (expected.dtype, expected.tolist())


@pytest.mark.parametrize("key", [(A, A), (M, [8, 9]), (0, 1), slice(2), ("0,2,0", A)])
def test_c_is_numpys(key):
    expected, result = np.c_[key], ng.c_[key]
    assert (result.dtype, result.tolist()) == (expected.dtype, expected.tolist())


def test_gradients_flow_through_them():
    slope = ng.grad(lambda x: ng.sum(ng.r_[x**2, 1, x[:1]]) + ng.sum(ng.c_[x, x]))(A)
    assert slope.tolist() == [3, 4, 6]


@pytest.mark.parametrize("key", ["r", "1 2; 3 4", "0,1,2,3"])
def test_matrices_are_refused(key):
    with pytest.raises(ValueError, match="matrices"):
        ng.r_[key, A]
