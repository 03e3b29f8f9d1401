"""`vmap`: axes, structures, composition."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(3)


def array(*shape):
    return RNG.standard_normal(shape)


def test_a_function_of_vectors_is_applied_to_every_row():
    x, w = array(5, 3), array(3)
    result = ng.vmap(lambda row: (np.sin(row) * w).sum())(x)
    np.testing.assert_allclose(result, (np.sin(x) * w).sum(1), rtol=1e-14)


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
def test_axes_are_counted_as_in_numpy(in_axis, out_axis):
    x = array(2, 3, 4)
    result = ng.vmap(np.exp, in_axes=in_axis, out_axes=out_axis)(x)
    np.testing.assert_allclose(
        result, np.moveaxis(np.exp(np.moveaxis(x, in_axis, 0)), 0, out_axis), rtol=1e-15
    )


def test_an_axis_of_none_is_the_same_value_for_all():
    x, y = array(5, 3), array(3)
    result = ng.vmap(lambda a, b: a @ b, in_axes=(0, None))(x, y)
    np.testing.assert_allclose(result, x @ y, rtol=1e-14)


def test_trees_have_prefixes_of_axes():
    p = {"w": array(3, 5), "b": array(2)}
    result = ng.vmap(
        lambda p: {"sum": p["w"].sum(), "both": (p["b"], p["w"])}, ({"w": 1, "b": None},)
    )(p)
    np.testing.assert_allclose(result["sum"], p["w"].sum(0), rtol=1e-14)
    np.testing.assert_array_equal(result["both"][0], np.tile(p["b"], (5, 1)))
    np.testing.assert_array_equal(result["both"][1], p["w"].T)


def test_a_constant_result_is_repeated():
    result = ng.vmap(lambda x: 2.0)(array(3))
    np.testing.assert_array_equal(result, [2.0, 2.0, 2.0])


def test_what_is_the_same_for_all_is_a_result_once():
    x = np.arange(3.0)
    double, shared = ng.vmap(lambda x, w: (2 * x, w + 1), (0, None), (0, None))(x, 3.0)
    np.testing.assert_array_equal(double, 2 * x)
    assert float(shared) == 4.0 and shared.shape == ()
    gradient = ng.grad(lambda w: ng.vmap(lambda _: w * w, out_axes=None)(x))(3.0)
    assert float(gradient) == 6.0
    with pytest.raises(ValueError, match="out_axes is None for what differs between examples"):
        ng.vmap(lambda x: x, out_axes=None)(x)
    with pytest.raises(TypeError, match="integers, or None"):
        ng.vmap(lambda x: x, out_axes=0.5)(x)


def test_vmap_of_vmap():
    x, y = array(4), array(5)
    outer = ng.vmap(ng.vmap(lambda a, b: a * b + a, (None, 0)), (0, None))
    np.testing.assert_allclose(outer(x, y), x[:, None] * y + x[:, None], rtol=1e-15)


def test_gradients_per_example():
    x, w = array(5, 3), array(3)
    result = ng.vmap(ng.grad(lambda w, x: np.tanh(x @ w)), (None, 0))(w, x)
    np.testing.assert_allclose(result, x / np.cosh(x @ w)[:, None] ** 2, rtol=1e-12)


def test_gradients_through_vmap():
    x = array(5, 3)
    gradient = ng.grad(lambda x: ng.vmap(lambda row: np.exp(row).sum())(x).sum())(x)
    np.testing.assert_allclose(gradient, np.exp(x), rtol=1e-14)


def test_tensors_that_require_grad_get_gradients_through_vmap():
    x, w = ng.tensor(array(5, 3), requires_grad=True), ng.tensor(array(3), requires_grad=True)
    ng.vmap(lambda row: (row * w).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad, np.tile(w.detach().numpy(), (5, 1)))
    np.testing.assert_allclose(w.grad, x.detach().numpy().sum(0))


def test_gradients_taken_inside_are_not_history_outside():
    x = ng.tensor(array(5), requires_grad=True)
    inner = ng.vmap(ng.grad(lambda a: a**3))(x)
    assert inner.requires_grad
    (second,) = ng.autograd.grad(inner.sum(), x)
    np.testing.assert_allclose(second, 6 * x.detach().numpy(), rtol=1e-14)
    assert not ng.vmap(ng.grad(lambda a: a**3))(array(5)).requires_grad


def test_indexing_and_assignment_are_batched():
    x, i = array(5, 4), np.array([3, 0, 1, 1, 2])

    def f(row, k):
        row[0] = row[k] * 2
        return row

    expected = x.copy()
    expected[:, 0] = x[np.arange(5), i] * 2
    np.testing.assert_allclose(ng.vmap(f)(x, i), expected, rtol=1e-15)


def test_sizes_must_agree():
    with pytest.raises(ValueError, match=r"arguments\[1\]'? *: size 4"):
        ng.vmap(lambda a, b: a)(array(3), array(4))


def test_something_must_be_mapped():
    with pytest.raises(ValueError, match="nothing to map over"):
        ng.vmap(lambda a: a, None)(array(3))


def test_numbers_have_no_axis():
    with pytest.raises(ValueError, match="in_axes=None for this argument"):
        ng.vmap(lambda a, b: a)(array(3), 1.0)


def test_axes_out_of_range_are_refused():
    with pytest.raises(np.exceptions.AxisError, match="axis out of range"):
        ng.vmap(np.sin, 2)(array(3, 3))
    with pytest.raises(np.exceptions.AxisError, match="axis out of range"):
        ng.vmap(np.sin, 0, 2)(array(3, 3))


def test_axes_must_match_the_arguments():
    with pytest.raises(ValueError, match="one entry for each positional argument"):
        ng.vmap(lambda a, b: a, (0,))(array(3), array(3))
    with pytest.raises(ValueError, match="in_axes does not match"):
        ng.vmap(lambda p: p["a"], ({"b": 0},))({"a": array(3)})


def test_values_do_not_exist_inside():
    with pytest.raises(TypeError):
        ng.vmap(lambda a: a if a > 0 else -a)(array(3))
