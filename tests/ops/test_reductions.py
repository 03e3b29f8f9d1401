"""Reductions: derivatives against torch at ties and zeros, NaN, dtypes, empty axes, errors."""

import numpy as np
import pytest

from numba_grad.compiler.evaluate import evaluate
from numba_grad.errors import AxisError, DTypeError
from numba_grad.graph.node import OPS, leaf
from numba_grad.ops import elementwise, functions, leaves, movement, reductions  # noqa: F401
from numba_grad.transforms.vjp import cotangents, reached

torch = pytest.importorskip("torch")

NAN = np.nan


def value(node):
    evaluate([node])
    return node.value


def gradient(name, x, axes, g=None):
    """Of the sum of the results, weighted by `g`."""
    x_node = leaf(np.asarray(x), True)
    out = OPS[name](x_node, axes=axes)
    g = np.ones(out.shape, out.dtype) if g is None else g
    return value(cotangents([out], [leaf(g)], reached([out]))[x_node])


def hessian(name, x, axes):
    """Of the sum of the results: one backward pass through the gradient for each element."""
    x_node = leaf(x, True)
    out = OPS[name](x_node, axes=axes)
    first = cotangents([out], [leaf(np.ones(out.shape, x.dtype))], reached([out]))[x_node]
    rows = []
    for k in range(x.size):
        direction = np.zeros(x.shape, x.dtype)
        direction.flat[k] = 1
        rows.append(cotangents([first], [leaf(direction)], reached([first]))[x_node])
    evaluate(rows)
    return np.array([row.value.ravel() for row in rows])


WITH_ZEROS = [
    [2.0, 3.0, 5.0, 7.0],
    [2.0, 0.0, 5.0, 7.0],
    [2.0, 0.0, -0.0, 7.0],
    [0.0, 0.0, 0.0, 7.0],
    [0.0, 0.0, 0.0, 0.0],
]


@pytest.mark.parametrize("row", WITH_ZEROS, ids=str)
def test_derivatives_of_prod_are_exact_with_zeros(row, engine):
    x = np.array(row)
    others = [np.prod(np.delete(x, k)) for k in range(4)]
    np.testing.assert_allclose(gradient("prod", x, (0,)), others, rtol=1e-15)
    pairs = [[0.0 if j == k else np.prod(np.delete(x, [j, k])) for j in range(4)] for k in range(4)]
    np.testing.assert_allclose(hessian("prod", x, (0,)), pairs, rtol=1e-15, atol=1e-15)


def test_prod_over_axes_counts_zeros_per_result(engine):
    x = np.array(WITH_ZEROS).reshape(5, 2, 2)
    expected = torch.tensor(x, requires_grad=True)
    expected.reshape(5, 4).prod(1).sum().backward()
    np.testing.assert_allclose(gradient("prod", x, (1, 2)), expected.grad.numpy(), rtol=1e-15)


def test_prod_of_complex_numbers_with_a_zero(engine):
    x = np.array([1 + 2j, 0, 3 - 1j])
    g = np.array(2 - 1j)
    expected = [0, g * np.conj((1 + 2j) * (3 - 1j)), 0]
    np.testing.assert_allclose(gradient("prod", x, (0,), g), expected, rtol=1e-15)


def test_prod_that_overflows_or_underflows_without_zeros(engine):
    x = np.array([1e200, 1e200, 2.0])
    np.testing.assert_array_equal(gradient("prod", x, (0,)), [np.inf, np.inf, np.inf])


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()], ids=str)
def test_ties_of_extremes_share_as_in_torch(name, axes, engine):
    x = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, -0.0], [0.0, -1.0, -1.0]])
    t = torch.tensor(x, requires_grad=True)
    {"max": torch.amax, "min": torch.amin}[name](t, axes or ()).sum().backward()
    if axes:
        np.testing.assert_allclose(gradient(name, x, axes), t.grad.numpy(), rtol=1e-15)
    else:  # no axes: nothing is reduced, while torch reduces all
        np.testing.assert_array_equal(gradient(name, x, axes), np.ones((3, 3)))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_infinities_have_slopes(name, engine):
    sign = 1 if name == "max" else -1
    assert gradient(name, np.array([1.0, sign * np.inf]), (0,)).tolist() == [0, 1]
    assert gradient(name, np.full(2, -sign * np.inf), (0,)).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_is_the_extreme_and_so_are_the_slopes(name, engine):
    x = np.array([1.0, NAN, 3.0])
    assert np.isnan(value(OPS[name](leaf(x), axes=(0,))))
    assert np.isnan(gradient(name, x, (0,))).all()


def test_positions_are_those_of_the_first_extreme_or_nan(engine):
    x = np.array([[1, 3, 3], [2, 2, 2], [NAN, 5, NAN], [-np.inf, -np.inf, np.inf], [-0.0, 0.0, 0]])
    nodes = [OPS[name](leaf(x), axis=1) for name in ("argmax", "argmin")]
    evaluate(nodes)
    for node, function in zip(nodes, (np.argmax, np.argmin), strict=True):
        assert node.value.dtype == np.int64
        np.testing.assert_array_equal(node.value, function(x, axis=1))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_the_least_integers_and_bools(name, engine):
    for x in (np.full(20, -128, np.int8), np.zeros(20, bool), np.full(20, 255, np.uint8)):
        assert value(OPS[name](leaf(x), axis=0)) == 0


@pytest.mark.parametrize("length", [1, 7, 8, 9, 1000, 100_003])
def test_long_axes(length, engine):
    x = np.random.default_rng(0).standard_normal(length)
    nodes = [OPS[name](leaf(x), axes=(0,)) for name in ("sum", "max", "min")]
    nodes.append(OPS["argmax"](leaf(x), axis=0))
    evaluate(nodes)
    np.testing.assert_allclose(nodes[0].value, x.sum(), rtol=1e-12)
    assert [node.value for node in nodes[1:]] == [x.max(), x.min(), x.argmax()]


def test_integer_sums_wrap_in_their_own_dtype(engine):
    x = np.full(300, 100, np.int8)
    node = OPS["sum"](leaf(x), axes=(0,))
    assert node.dtype == np.int8
    assert value(node) == np.add.reduce(x, dtype=np.int8)


def test_reductions_over_nothing(engine):
    empty = leaf(np.zeros((2, 0)))
    nodes = [OPS[name](empty, axes=(1,)) for name in ("sum", "prod")]
    nodes += [OPS[name](leaf(np.zeros((2, 0), bool)), axes=(1,)) for name in ("any", "all")]
    evaluate(nodes)
    wanted = [[0, 0], [1, 1], [False, False], [True, True]]
    assert [node.value.tolist() for node in nodes] == wanted
    assert gradient("prod", np.zeros((2, 0)), (1,)).shape == (2, 0)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_nothing_are_errors(name):
    params = {"axis": 1} if name.startswith("arg") else {"axes": (1,)}
    with pytest.raises(ValueError, match=f"{name}: zero-size array"):
        OPS[name](leaf(np.zeros((2, 0))), **params)


@pytest.mark.parametrize("axes", [(2,), (-1,), (1, 0), (0, 0)], ids=str)
def test_axes_that_are_not_sorted_numbers_are_refused(axes):
    with pytest.raises(AxisError, match="sum: axes out of range, repeated or not sorted"):
        OPS["sum"](leaf(np.zeros((2, 3))), axes=axes)


def test_dtypes_without_a_sum_are_refused():
    with pytest.raises(DTypeError, match="sum: not defined for this dtype"):
        OPS["sum"](leaf(np.zeros(2, bool)), axes=(0,))


def test_integer_results_have_no_gradient():
    x = leaf(np.ones(3), True)
    assert not OPS["argmax"](x, axis=0).requires_grad
    assert OPS["sum"](x, axes=(0,)).requires_grad
