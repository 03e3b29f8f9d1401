"""gather, scatter_add, scatter_set: duplicates, range errors, adjoints, batching."""

import re

import numpy as np
import pytest

from numba_grad.errors import DTypeError, ShapeError
from numba_grad.graph.node import leaf
from numba_grad.ops import elementwise, leaves, reductions  # noqa: F401
from numba_grad.ops.indexing import gather, scatter_add, scatter_set

SCATTERS = (scatter_add, scatter_set)


def cases(*ops):
    for op in ops:
        for k, (arrays, params) in enumerate(op.example(np.random.default_rng(0))):
            yield pytest.param(op, arrays, params, id=f"{op.name}-{k}")


@pytest.mark.parametrize(("op", "arrays", "params"), list(cases(gather)))
def test_adjoint_of_gather(op, arrays, params, check_adjoint):
    x, *indices = arrays
    nodes = [leaf(i) for i in indices]
    check_adjoint(lambda x: op(x, *nodes, **params), x, rng=np.random.default_rng(1))


@pytest.mark.parametrize(("op", "arrays", "params"), list(cases(*SCATTERS)))
def test_adjoint_of_scatter(op, arrays, params, check_adjoint):
    x, v, *indices = arrays
    nodes = [leaf(i) for i in indices]
    check_adjoint(lambda x, v: op(x, v, *nodes, **params), x, v, rng=np.random.default_rng(1))


@pytest.mark.parametrize(("op", "arrays", "params"), list(cases(gather, *SCATTERS)))
def test_batching_matches_a_loop(op, arrays, params, check_batching):
    check_batching(op, arrays, params)


def test_duplicates(value):
    x, v = leaf(np.zeros(3)), leaf(np.array([1.0, 2.0, 4.0]))
    i = leaf(np.array([1, -2, 0]))
    np.testing.assert_array_equal(value(scatter_add(x, v, i, checked=True)), [4, 3, 0])
    np.testing.assert_array_equal(value(scatter_set(x, v, i, checked=True)), [4, 2, 0])
    np.testing.assert_array_equal(x.value, np.zeros(3))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_index_dtypes(dtype, value):
    x = leaf(np.arange(200.0))
    i = leaf(np.array([0, 100, 127], dtype))
    np.testing.assert_array_equal(value(gather(x, i, checked=True)), [0, 100, 127])


@pytest.mark.parametrize("index", [4, -5])
def test_index_out_of_range_when_computed(index, value):
    x, i, j = leaf(np.ones((4, 4))), leaf(np.array([0, 1])), leaf(np.array([2, index]))
    text = f"gather: index {index} is out of bounds for axis 1 with size 4\n  expected: -4 <= index"
    with pytest.raises(IndexError, match=re.escape(text)):
        value(gather(x, i, j, checked=True))
    text = f"scatter_add: index {index} is out of bounds for axis 1 with size 4"
    with pytest.raises(IndexError, match=re.escape(text)):
        value(scatter_add(x, leaf(np.ones(2)), i, j, checked=True))
    text = f"scatter_set: index {index} is out of bounds for axis 3 with size 4"
    with pytest.raises(IndexError, match=re.escape(text)):
        value(scatter_set(x, leaf(np.ones(2)), i, j, checked=True, named_axes=(1, 3)))


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (
            lambda x, v, i: gather(x, leaf(np.ones(2))),
            DTypeError,
            "gather: an index array must be of integers\n  x       : float64[3, 4]\n"
            "  index 0 : float64[2]",
        ),
        (lambda x, v, i: gather(x, i, i, i), IndexError, "gather: too many indices"),
        (lambda x, v, i: gather(x), IndexError, "gather: no index"),
        (
            lambda x, v, i: gather(x, i, leaf(np.array([1]))),
            ShapeError,
            "gather: index arrays of different shapes",
        ),
        (
            lambda x, v, i: gather(leaf(np.ones((0, 2))), i),
            IndexError,
            "gather: no index is in range on an empty axis",
        ),
        (
            lambda x, v, i: scatter_add(x, v, i, i),
            ShapeError,
            "scatter_add: v does not have the shape of what the indices name",
        ),
        (
            lambda x, v, i: scatter_set(x, leaf(np.ones((2, 4), np.float32)), i),
            DTypeError,
            "scatter_set: different dtypes",
        ),
    ],
)
def test_refusals_name_the_arguments(record, error, text):
    x, v, i = leaf(np.ones((3, 4))), leaf(np.ones((2, 4))), leaf(np.array([0, 2]))
    with pytest.raises(error, match=re.escape(text)):
        record(x, v, i)
