"""Products of a large matrix and a vector are loops, with what is around them."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.partition import flat_graph
from numba_grad.compiler.passes import vector_products

SIDES = (1500, 40)


@pytest.fixture(autouse=True)
def _small_matrices_count(monkeypatch):
    monkeypatch.setattr(vector_products, "LEAST_ELEMENTS", 1)
    # A segment that another test compiled would be taken as it is.
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())


def operands(dtype=np.float64):
    rng = np.random.default_rng(0)
    m, n = SIDES
    return [x.astype(dtype) for x in (rng.normal(size=(m, n)), rng.normal(size=n))]


FUNCTIONS = {
    "rows": lambda a, v: a @ v,
    "columns": lambda a, v: v[:1] * (a.T @ a[:, 0]),
    "from the left": lambda a, v: (a @ v) @ a,
    "made and used": lambda a, v: np.tanh(np.exp(-a) @ (2.0 * v)) + 1.0,
    "a dot product": lambda a, v: a.reshape(-1) @ a.reshape(-1),
    "one row": lambda a, v: v[None, :] @ a.T,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_numpys_and_no_library_is_called(name, dtype):
    f = FUNCTIONS[name]
    args = operands(dtype)
    jitted = ng.jit(lambda a, v: f(a, v))
    tolerance = 1e-12 if dtype == np.float64 else 2e-4
    expected = f(*args)
    np.testing.assert_allclose(
        np.asarray(jitted(*args)), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
    )
    assert not any("matmul" in kernel.name for kernel in jitted.lower(*args).kernels)


def test_gradients_are_those_of_the_reference_engine():
    def loss(v, a):
        return np.logaddexp(0.0, a @ v).mean() + (v @ a[: SIDES[1]]).sum()

    a, v = operands()
    found = ng.jit(ng.grad(loss, argnums=(0, 1)))(v, a)
    with ng.configure(engine="reference"):
        expected = ng.grad(loss, argnums=(0, 1))(v, a)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-10, atol=1e-12)


def test_nan_and_infinity_stay_in_their_rows():
    a, v = operands()
    a[3, 5], a[7, 2] = np.nan, np.inf
    found = np.asarray(ng.jit(lambda a, v: a @ v)(a, v))
    np.testing.assert_allclose(found, a @ v, rtol=1e-11, atol=1e-12)


def test_small_matrices_go_to_the_library(monkeypatch):
    monkeypatch.setattr(vector_products, "LEAST_ELEMENTS", 1 << 40)
    a, v = operands()
    lowered = ng.jit(lambda a, v: a @ v - 3.0).lower(a, v)
    assert any("matmul" in kernel.name for kernel in lowered.kernels)


def pairs(x):
    return np.exp(-np.sum((x[:, None] - x) ** 2, axis=-1))


MADE_OF_PAIRS = {
    "weights": lambda x, v: np.sum(np.sin(pairs(x) @ v)),
    "a form": lambda x, v: v @ (pairs(x) @ v),
    "from both sides": lambda x, v: v @ pairs(x) @ v,
    "by einsum": lambda x, v: np.einsum("i,ij,j->", v, pairs(x), v),
    "not symmetric": lambda x, v: v @ np.tanh(x[:, :1] - 2.0 * x[:, 1]) @ np.cos(v),
    "products of points": lambda x, v: v @ (np.exp(-np.sum(x**2, 1) - x @ x.T) @ v),
}


@pytest.mark.parametrize("name", MADE_OF_PAIRS)
def test_a_matrix_that_is_computed_for_a_product_is_not_stored(name, monkeypatch):
    monkeypatch.setattr(vector_products, "LEAST_ELEMENTS", 1 << 20)
    f = MADE_OF_PAIRS[name]
    x, v = np.random.default_rng(1).normal(size=(70, 2)), np.linspace(-1.0, 1.0, 70)
    found = ng.jit(ng.value_and_grad(f, (0, 1)))
    value, gradients = found(x, v)
    np.testing.assert_allclose(value, f(x, v), rtol=1e-12)
    with ng.configure(engine="reference"):
        expected = ng.grad(f, (0, 1))(x, v)
    for own, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(own, np.asarray(other), rtol=1e-10, atol=1e-12)
    assert not any("matmul" in kernel.name for kernel in found.lower(x, v).kernels)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a, v: np.sum(np.tanh((a * a) @ v)),  # of a matrix in memory
        lambda x, a, v: np.sum((pairs(x) @ a) @ v),  # a product of matrices
    ],
)
def test_other_products_stay(f, monkeypatch):
    monkeypatch.setattr(vector_products, "LEAST_ELEMENTS", 1 << 20)
    rng = np.random.default_rng(1)
    args = rng.normal(size=(60, 2)), rng.normal(size=(60, 60)), rng.normal(size=60)
    assert any("matmul" in kernel.name for kernel in ng.jit(f).lower(*args).kernels)


def test_pairs_are_computed_once_where_they_are_symmetric():
    x, v = np.random.default_rng(1).normal(size=(60, 2)), np.linspace(-1.0, 1.0, 60)
    gradient = ng.grad(MADE_OF_PAIRS["a form"], (0, 1))
    kernels = ng.jit(gradient).lower(x, v).kernels
    assert sum(kernel.source.count("exp(") for kernel in kernels) == 1


def test_what_several_products_are_made_of_is_computed_once(monkeypatch):
    monkeypatch.setattr(vector_products, "LEAST_ELEMENTS", 1 << 20)
    rng = np.random.default_rng(1)
    a, x, v = rng.normal(size=(20, 20)), rng.normal(size=(20, 2)), rng.normal(size=20)

    def f(a, x, v):
        solution = np.linalg.solve(a, pairs(x) @ v)
        return (pairs(2.0 * x) @ solution) * (pairs(3.0 * x) @ solution)

    lowered = ng.jit(f).lower(a, x, v)
    assert sum(kernel.count for kernel in lowered.kernels if "solve" in kernel.name) == 1


def test_columns_that_are_computed_are_not_stored_for_a_product():
    def f(x, v):
        b = np.zeros((len(x), 5), like=x)
        for k in range(5):
            b[:, k] = np.sin((k + 1) * x)
        return np.sum((b @ v) ** 2)

    x, v = np.linspace(0.0, 1.0, 60), np.linspace(-1.0, 1.0, 5)
    found = ng.jit(ng.value_and_grad(f, (0, 1)))
    assert not any("matmul" in kernel.name for kernel in found.lower(x, v).kernels)
    products = np.sin(np.outer(x, np.arange(1, 6))) @ v
    np.testing.assert_allclose(found(x, v)[0], np.sum(products**2), rtol=1e-13)
    ng.testing.check_gradients(f, x, v)
