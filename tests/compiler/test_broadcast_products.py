"""Sums of broadcast products are products of matrices."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.partition.broadcast_products import with_products_of_matrices
from numba_grad.compiler.partition.flat_graph import flatten

random = np.random.default_rng(0)
X, Y = random.normal(size=(40, 36)), random.normal(size=(36, 30))
IMAGES, WEIGHTS = random.normal(size=(9, 4, 5, 6)), random.normal(size=(4, 5, 6, 40))

# With the same as one product of matrices.
WAYS = {
    "columns last": lambda x, y: np.sum(x[:, :, None] * y, axis=1),
    "terms last": lambda x, y: np.sum(x[:, None] * y.T, axis=-1),
    "terms first": lambda x, y: (x.T[:, :, None] * y[:, None, :]).sum(0),
    "turned": lambda x, y: np.sum(y.T[:, :, None] * x.T, axis=1).T,
    "kept axis": lambda x, y: np.sum(x[:, :, None] * y, axis=1, keepdims=True)[:, 0],
    "stretched": lambda x, y: np.sum(
        np.broadcast_to(x[:, :, None], (40, 36, 30)) * np.broadcast_to(y, (40, 36, 30)), axis=1
    ),
    "two axes of terms": lambda x, y: np.sum(
        x.reshape(40, 6, 6, 1) * y.reshape(1, 6, 6, 30), axis=(1, 2)
    ),
    "two axes of rows": lambda x, y: np.sum(
        x.reshape(8, 5, 1, 36) * y.T[:, None, None].transpose(1, 2, 0, 3), axis=-1
    ).reshape(40, 30),
}


def operations(node):
    return {x.op.name for x in with_products_of_matrices(flatten([node])).nodes}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", WAYS)
def test_sums_of_broadcast_products(name):
    f = WAYS[name]
    assert "matmul" in operations(f(ng.tensor(X), ng.tensor(Y))._node)
    gradients = ng.jit(ng.value_and_grad(lambda x, y: np.sum(np.sin(f(x, y))), argnums=(0, 1)))
    # Nor do derivatives sum anything, but all sines.
    kernels = gradients.lower(X, Y).kernels
    assert sum(kernel.source.count("reduce_add(") for kernel in kernels) == 1
    value, found = gradients(X, Y)
    product = X @ Y
    np.testing.assert_allclose(ng.jit(f)(X, Y), product, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(value, np.sum(np.sin(product)), rtol=1e-12)
    np.testing.assert_allclose(found[0], np.cos(product) @ Y.T, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found[1], X.T @ np.cos(product), rtol=1e-11, atol=1e-12)


def test_a_pixel_of_a_convolution():
    def pixel(x, w):
        return np.sum(x[:, :, :, :, None] * w[None], axis=(1, 2, 3))

    assert "matmul" in operations(pixel(ng.tensor(IMAGES), ng.tensor(WEIGHTS))._node)
    expected = np.tensordot(IMAGES, WEIGHTS, 3)
    np.testing.assert_allclose(ng.jit(pixel)(IMAGES, WEIGHTS), expected, rtol=1e-12, atol=1e-12)


# Sums of products that are none of matrices, or small.
OTHERS = {
    "one vector": lambda x, y: np.sum(x * y[:, 0], axis=1),
    "row by row": lambda x, y: np.sum(x[:36, :30] * y, axis=1),
    "for each of a stack": lambda x, y: np.sum(x[:36, :, None] * y[:, None, :], axis=1),
    "of each factor alone": lambda x, y: np.sum(x[:, :, None] * y[0], axis=1),
    "tiny": lambda x, y: np.sum(x[:7, :, None] * y, axis=1),
    "few terms": lambda x, y: np.sum(x[:, :3, None] * y[:3], axis=1),
    "a product that others read": lambda x, y: (lambda p: np.sum(p, axis=1) + np.max(p, axis=1))(
        x[:, :, None] * y
    ),
}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_of_products_stay(name):
    f = OTHERS[name]
    assert "matmul" not in operations(f(ng.tensor(X), ng.tensor(Y))._node)
    np.testing.assert_allclose(ng.jit(f)(X, Y), f(X, Y), rtol=1e-11, atol=1e-12)
