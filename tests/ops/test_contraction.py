"""matmul: adjoints in each operand, broadcasting stacks, batching, refusals."""

import re

import numpy as np
import pytest

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.errors import DTypeError, ShapeError
from numba_grad.graph.node import leaf
from numba_grad.graph.walk import toposort
from numba_grad.ops import elementwise, leaves, reductions  # noqa: F401
from numba_grad.ops.contraction import matmul


def cases():
    for arrays, _ in matmul.example(np.random.default_rng(0)):
        yield pytest.param(*arrays, id=" @ ".join(str(a.shape) for a in arrays))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("x", "y"), list(cases()))
def test_adjoint_in_each_operand(x, y, is_complex, check_adjoint):
    if is_complex:
        x, y = x + 1j * x[::-1], y - 2j * y
    rng = np.random.default_rng(1)
    check_adjoint(lambda x: matmul(x, leaf(y)), x, rng=rng)
    check_adjoint(lambda y: matmul(leaf(x), y), y, rng=rng)


@pytest.mark.parametrize(("x", "y"), list(cases()))
def test_batching_matches_a_loop(x, y, check_batching):
    check_batching(matmul, (x, y), {})


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex64"])
def test_dtype_is_that_of_numpy(dtype, value):
    x = np.ones((2, 3), dtype)
    node = matmul(leaf(x), leaf(x.T.copy()))
    assert node.dtype == (x @ x.T).dtype
    np.testing.assert_array_equal(value(node), x @ x.T)


@pytest.mark.parametrize(
    ("x", "y", "error", "text"),
    [
        (
            np.ones((2, 3)),
            np.ones((2, 3)),
            ShapeError,
            "matmul: the last axis of x and the last but one of y do not agree\n"
            "  x : float64[2, 3]\n  y : float64[2, 3]",
        ),
        (np.ones(3), np.ones((3, 2)), ShapeError, "expected: x of shape (..., m, k)"),
        (
            np.ones((4, 2, 3)),
            np.ones((5, 3, 2)),
            ShapeError,
            "matmul: stacks of matrices do not broadcast together",
        ),
        (np.ones((2, 3)), np.ones((3, 2), "f"), DTypeError, "matmul: different dtypes"),
    ],
)
def test_refusals_name_the_arguments(x, y, error, text):
    with pytest.raises(error, match=re.escape(text)):
        matmul(leaf(x), leaf(y))


def test_a_matrix_times_a_batch_of_vectors_is_one_product():
    x, vectors = leaf(np.arange(6.0).reshape(2, 3)), leaf(np.arange(12.0).reshape(4, 3, 1))
    batched = matmul.batch([False, True], x, vectors)
    products = [n for n in toposort([batched]) if n.op.name == "matmul"]
    assert [n.shape for n in products] == [(2, 4)]
    (found,) = evaluate_with_numpy([batched])
    np.testing.assert_array_equal(found, x.value @ vectors.value)
