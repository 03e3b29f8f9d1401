"""Complex functions of real numbers beyond their range: `numpy.emath`, slopes along the cuts."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError
from numba_grad.testing import check_gradients

ARRAYS = [
    *(np.array([0.5, 0.2]), np.array([-1.5, 0.3]), np.array([2, 3]), np.array([-2, 3], np.int8)),
    *(np.array([-2, 0.5], np.float32), np.array([1 + 2j, 2.0]), np.array(-0.0), np.array([])),
    np.array([np.nan, 1]),
]


def same(found, expected):
    found = np.asarray(found)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh"])
def test_functions_of_one_number(name, numpy_engine):
    function = getattr(np.emath, name)
    for x in ARRAYS:
        with np.errstate(all="ignore"):
            same(function(ng.tensor(x)), function(x))


def test_powers_and_logarithms_of_a_base(numpy_engine):
    for x, p in [([2, 4], -2), ([-2.0, 4], 2.5), ([2, 4], [2, -1]), ([2.0, 3], 2), ([1j, 2], -2)]:
        same(np.emath.power(ng.tensor(x), p), np.emath.power(np.array(x), p))
    same(np.emath.logn(2, ng.tensor([-4.0, 8])), np.emath.logn(2, np.array([-4.0, 8])))


def test_gradients_go_through_the_complex_numbers():
    check_gradients(lambda x: np.abs(np.emath.sqrt(x) + 1) ** 2, np.array([-2.0, 3.0]))
    check_gradients(lambda x: np.emath.arcsin(x).imag + x, np.array([0.5, 2.0]))


def test_within_jit_the_dtype_must_be_known():
    with pytest.raises(TracingError, match=r"try: numpy\.sqrt\(x\).*astype\(complex\)"):
        ng.jit(np.emath.sqrt)(np.ones(2))
    same(ng.jit(lambda x: np.emath.sqrt(x + 0j))(-np.ones(2)), [1j, 1j])


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("x", [-2.0, 2.0])
@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctanh", "arccosh", "arcsinh"])
def test_on_a_cut_the_slope_is_that_of_the_side_that_the_sign_of_zero_says(name, x, zero, engine):
    """As of `angles.astype(complex)` beyond the critical one. The cut of arcsinh is along i."""
    function = getattr(np, name)
    along = 1j if name == "arcsinh" else 1

    def at(x):
        return complex(zero, x) if name == "arcsinh" else complex(x, zero)

    expected = (function(at(x + 1e-5)) - function(at(x - 1e-5))) / 2e-5 / along
    for gradient in (
        ng.grad(lambda z: function(z).real),
        ng.jit(ng.grad(lambda z: function(z).real)),
    ):
        slope = np.conj(np.asarray(gradient(np.array(at(x)))))
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-8)
