"""`matrix @ x` of a sparse matrix of SciPy's, a constant, and a tensor."""

import functools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.linalg

import numba_grad as ng
from numba_grad.errors import GradientError, ShapeError, TracingError

DENSE = np.array([[1.5, 2.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.5], [4.0, 0.0, 5.0, 0.0]])
X = np.array([1.2, 0.7, 3.0, -0.4])
Y = np.array([0.3, -1.1, 2.0])
FORMATS = ["csr", "csc", "coo", "bsr", "dia"]


def matrix_of(dense: np.ndarray, format: str, kind: str = "array") -> Any:
    return getattr(sparse, f"{format}_{kind}")(dense)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", [*FORMATS, "lil", "dok"])
def test_products_are_those_of_the_dense_matrix(format, kind):
    matrix = matrix_of(DENSE, format, kind)
    tensor = ng.tensor(X)
    for product in (matrix @ tensor, matrix.dot(tensor)):
        assert isinstance(product, ng.Tensor)
        np.testing.assert_allclose(product, DENSE @ X, rtol=1e-15)
    np.testing.assert_allclose(ng.tensor(Y) @ matrix, Y @ DENSE, rtol=1e-15)
    columns = np.stack([X, X**2], axis=1)
    np.testing.assert_allclose(matrix @ ng.tensor(columns), DENSE @ columns, rtol=1e-15)
    np.testing.assert_allclose(ng.tensor(columns.T) @ matrix.T, columns.T @ DENSE.T, rtol=1e-15)
    if kind == "matrix":
        np.testing.assert_allclose(matrix * tensor, DENSE @ X, rtol=1e-15)


@pytest.mark.thorough(but="False")
@pytest.mark.parametrize("is_jitted", [False, True])
def test_derivatives(is_jitted):
    matrix = matrix_of(DENSE, "csr")
    together = ng.jit if is_jitted else lambda f: f
    gradient = together(ng.grad(lambda x: np.sum((matrix @ x) ** 3)))
    np.testing.assert_allclose(gradient(X), 3 * DENSE.T @ (DENSE @ X) ** 2, rtol=1e-14)
    gradient = together(ng.grad(lambda y: np.sum((y @ matrix) ** 2)))
    np.testing.assert_allclose(gradient(Y), 2 * DENSE @ (DENSE.T @ Y), rtol=1e-14)
    ng.testing.check_gradients(together(lambda x: np.sin(matrix @ x)), X)
    rows = together(ng.vmap(lambda x: matrix @ x))(np.stack([X, 2 * X]))
    np.testing.assert_allclose(rows, np.stack([DENSE @ X, 2 * DENSE @ X]), rtol=1e-15)
    forward = together(ng.jacfwd(lambda x: matrix @ x))
    np.testing.assert_allclose(forward(X), DENSE, rtol=1e-15)


def test_dtypes_are_those_of_products():
    def dtype_of(dtype: Any, of_x: Any) -> np.dtype:
        return (sparse.csr_array(np.eye(3, dtype=dtype)) @ ng.tensor(np.ones(3, of_x))).dtype

    assert dtype_of("f", "f") == "f"
    assert dtype_of("f", "d") == "d"
    assert dtype_of("i", "d") == "d"
    assert dtype_of("D", "d") == "D"
    assert dtype_of("i8", "i8") == "i8"


def test_a_tensor_keeps_what_the_matrix_was():
    matrix = matrix_of(DENSE, "csr")
    product = matrix @ ng.tensor(X)
    matrix.data *= 2
    np.testing.assert_allclose(product, DENSE @ X, rtol=1e-15)


def changes(matrix: Any) -> Any:
    """Changes the matrix in all ways, one after the other."""
    yield "nothing"
    matrix.data[...] = matrix.data * 2
    yield "elements in place"
    matrix.data = matrix.data * 3
    yield "other elements"
    if hasattr(matrix, "indices"):
        matrix.indices[...] = matrix.indices[::-1].copy()
        yield "places of elements"
    if matrix.format == "dia":
        matrix.offsets[...] = matrix.offsets[::-1].copy()
        yield "diagonals"
    if matrix.format == "csr":
        with warnings.catch_warnings(action="ignore", category=sparse.SparseEfficiencyWarning):
            matrix[0, 0] = matrix[2, 2] + 1
        yield "an element more"


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("copies", [1, 2000])  # whose arrays are compared, or too large for that
@pytest.mark.parametrize("way", ["A @ x", "A.T @ x", "x @ A"])
@pytest.mark.parametrize("format", FORMATS)
def test_jitted_functions_see_that_the_matrix_has_changed(format, way, copies):
    blocks = sparse.kron(sparse.identity(copies), sparse.csr_array(DENSE[:, :3]))
    matrix = matrix_of(blocks, format)
    x = np.tile(X[:3], copies)
    product = eval(f"lambda A, x: {way}")
    jitted = ng.jit(lambda x: product(matrix, x))
    for change in changes(matrix):
        expected = product(matrix.tocsr(), x)
        np.testing.assert_allclose(jitted(x), expected, rtol=1e-14, err_msg=change)


def test_a_matrix_goes_along_with_a_function():
    matrix = matrix_of(DENSE, "csr")

    def product(matrix, x):
        return matrix @ x

    with pytest.raises(TypeError, match=r"functools\.partial\(f, x\)"):
        ng.jit(product)(matrix, X)
    jitted = ng.jit(functools.partial(product, matrix))
    np.testing.assert_allclose(jitted(X), DENSE @ X, rtol=1e-15)
    matrix.data *= 3
    np.testing.assert_allclose(jitted(X), 3 * (DENSE @ X), rtol=1e-15)


@pytest.mark.parametrize("control_flow", [False, True])
def test_products_in_loops(control_flow):
    matrix = matrix_of(DENSE[:, :3] / 5, "csc")

    def scanned(x):
        return np.sum(ng.scan(lambda x, _: (x - 0.1 * (matrix @ x), None), x, length=5)[0])

    def until_small(x):
        while np.sum(x) > 1:
            x = x - 0.1 * (matrix @ x)
        return np.sum(x)

    f = until_small if control_flow else scanned
    step = np.eye(3) - 0.1 * matrix.toarray()
    x, product = X[:3], np.eye(3)
    for _ in range(100 if control_flow else 5):
        if control_flow and np.sum(product @ x) <= 1:
            break
        product = step @ product
    gradient = ng.jit(ng.grad(f), control_flow=control_flow)
    np.testing.assert_allclose(gradient(x), product.sum(axis=0), rtol=1e-12)


def test_what_is_not_possible_says_what_to_type():
    matrix = matrix_of(DENSE, "csr")
    with pytest.raises(ShapeError, match="sparse"):
        matrix @ ng.tensor(Y)
    square = sparse.csc_array(np.diag(X))
    for use, advice in (
        (lambda x: sparse.csr_array((x, (range(4), range(4)))), r"np\.bincount\(rows"),
        (lambda x: matrix.multiply(x), r"\(A @ v\) \* x"),
        (lambda x: scipy.sparse.linalg.spsolve(square, x), r"ng\.callback"),
    ):
        with pytest.raises(GradientError, match=advice):
            ng.grad(lambda x, use=use: use(x).sum())(X)
    listed = matrix_of(DENSE, "lil")
    with pytest.raises(TracingError, match=r"A\.tocsr\(\)"):
        ng.jit(lambda x: listed @ x)(X)
