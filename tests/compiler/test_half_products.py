"""Products of matrices of half precision are BLAS's, in float32."""

import importlib.util

import numpy as np
import pytest

import numba_grad as ng

DTYPES = ["float16", *(["bfloat16"] if importlib.util.find_spec("ml_dtypes") else [])]


def operands(name):
    rng = np.random.default_rng(0)
    shapes = ((40, 30), (30, 50), (2, 50, 3))
    return [ng.tensor(rng.normal(size=shape), dtype=name).detach() for shape in shapes]


@pytest.mark.parametrize("name", DTYPES)
def test_values_are_rounded_products_of_float32(name):
    x, y, z = operands(name)
    found = ng.jit(lambda x, y, z: (x @ y) @ z)(x, y, z)
    x, y, z = (a.astype(np.float32) for a in (x, y, z))
    expected = ((x @ y).astype(name).astype(np.float32) @ z).astype(name)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("name", DTYPES)
def test_blas_computes_them(name):
    x, y, _ = operands(name)
    steps = ng.jit(lambda x, y: x @ y).lower(x, y).kernels
    (product,) = [step for step in steps if "matmul" in step.name]
    assert "float32" in product.name
