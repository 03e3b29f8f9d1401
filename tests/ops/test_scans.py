"""cumsum and argsort against NumPy: directions, dtypes, stability, NaN."""

import re

import numpy as np
import pytest

from numba_grad.errors import AxisError
from numba_grad.graph.node import leaf
from numba_grad.graph.types import DTYPES
from numba_grad.ops import elementwise, leaves, reductions  # noqa: F401
from numba_grad.ops.scans import cumsum
from numba_grad.ops.sorting import argsort


def cases(op):
    for k, (arrays, params) in enumerate(op.example(np.random.default_rng(0))):
        yield pytest.param(arrays, params, id=f"{op.name}-{k}")


@pytest.mark.parametrize(("arrays", "params"), list(cases(cumsum)))
def test_adjoint_of_cumsum(arrays, params, check_adjoint):
    check_adjoint(lambda x: cumsum(x, **params), *arrays, rng=np.random.default_rng(1))


@pytest.mark.parametrize(("arrays", "params"), list(cases(cumsum)))
def test_batching_of_cumsum_matches_a_loop(arrays, params, check_batching):
    check_batching(cumsum, arrays, params)


@pytest.mark.parametrize(("arrays", "params"), list(cases(argsort)))
def test_batching_of_argsort_matches_a_loop(arrays, params, check_batching):
    check_batching(argsort, arrays, params)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cumsum_has_the_dtype_of_numpy(dtype, value):
    x = np.ones((2, 3), dtype)
    node = cumsum(leaf(x), axis=1)
    assert node.dtype == np.cumsum(x, 1).dtype
    np.testing.assert_array_equal(value(node), np.cumsum(x, 1))


def test_reversed_cumsum_runs_from_the_end(value):
    x = leaf(np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(value(cumsum(x, axis=0, reverse=True)), [7, 6, 4])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_argsort_is_stable_in_both_directions(dtype, descending, value):
    x = np.random.default_rng(0).integers(0, 3, 20).astype(dtype)
    order = value(argsort(leaf(x), axis=0, descending=descending))
    ordered = x[order].real.astype(float) * (-1 if descending else 1)
    assert (np.diff(ordered) >= 0).all()
    assert (np.diff(order)[np.diff(ordered) == 0] > 0).all()


def test_argsort_descending_orders_the_least_integer_last(value):
    least = np.iinfo(np.int8).min
    x = leaf(np.array([least, 5, -1, 127], np.int8))
    assert value(argsort(x, axis=0, descending=True)).tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize("descending", [False, True])
def test_nan_comes_last(descending, value):
    x = leaf(np.array([np.nan, 1.0, np.inf, np.nan, -np.inf]))
    expected = [2, 1, 4, 0, 3] if descending else [4, 1, 2, 0, 3]
    assert value(argsort(x, axis=0, descending=descending)).tolist() == expected


def test_argsort_has_no_gradient():
    x = leaf(np.ones(3), requires_grad=True)
    assert not argsort(x, axis=0).requires_grad


@pytest.mark.parametrize("op", [cumsum, argsort])
def test_axis_out_of_range(op):
    text = (
        f"{op.name}: axis out of range\n  x    : float64[2]\n  axis : 1\n  expected: 0 <= axis < 1"
    )
    with pytest.raises(AxisError, match=re.escape(text)):
        op(leaf(np.ones(2)), axis=1)
    with pytest.raises(AxisError, match=re.escape("try: x.reshape(1)")):
        op(leaf(np.array(1.0)), axis=0)
