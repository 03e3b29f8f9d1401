"""Derivatives of functions, their composition, and their errors."""

import concurrent.futures
import dataclasses

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import ShapeError
from numba_grad.testing import check_gradients

RNG = np.random.default_rng(1)


def array(*shape):
    return RNG.standard_normal(shape)


@dataclasses.dataclass
class Line:
    slope: object
    offset: object


# Grad, value_and_grad.


def test_gradient_of_a_sum():
    x = array(3, 4)
    np.testing.assert_allclose(ng.grad(lambda x: np.sin(x).sum())(x), np.cos(x), rtol=1e-14)


def test_value_and_gradient():
    value, gradient = ng.value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    assert float(value) == 5.0
    np.testing.assert_array_equal(gradient, [2.0, 4.0])


def test_python_floats_are_float64():
    gradient = ng.grad(lambda x: x**3)(2.0)
    assert gradient.dtype == np.float64
    assert gradient.shape == ()
    assert float(gradient) == 12.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_have_the_dtype_of_the_argument(dtype):
    assert ng.grad(lambda x: np.exp(x).sum())(np.ones(3, dtype)).dtype == dtype


def test_tensors_may_be_passed():
    x = ng.tensor([1.0, 2.0])
    gradient = ng.grad(lambda x: (x**2).sum())(x)
    np.testing.assert_array_equal(gradient, [2.0, 4.0])
    assert not gradient.requires_grad


@pytest.mark.parametrize(
    ("argnums", "expected"), [(0, 3.0), (1, 2.0), (-1, 2.0), (np.int64(1), 2.0)]
)
def test_argnums_choose_the_argument(argnums, expected):
    assert float(ng.grad(lambda x, y: x * y, argnums)(2.0, 3.0)) == expected


def test_several_argnums_give_a_tuple_in_their_order():
    gradients = ng.grad(lambda x, y, z: x * y * z, (2, 0))(2.0, 3.0, 5.0)
    assert [float(g) for g in gradients] == [6.0, 15.0]
    assert isinstance(ng.grad(lambda x: x, (0,))(1.0), tuple)


def test_other_arguments_arrive_as_they_are():
    seen = []

    def f(x, mode, *, scale):
        seen.extend([mode, scale])
        return x * scale

    scale = np.float64(3.0)
    assert float(ng.grad(f)(1.0, "mode", scale=scale)) == 3.0
    assert seen[0] == "mode"
    assert seen[1] is scale


def test_arguments_may_be_nested():
    tree = {"a": [1.0, (np.array([2.0, 3.0]), None)], "line": Line(slope=4.0, offset=5.0)}

    def f(t):
        return t["a"][0] * t["a"][1][0].sum() + t["line"].slope * t["line"].offset

    gradient = ng.grad(f)(tree)
    assert float(gradient["a"][0]) == 5.0
    np.testing.assert_array_equal(gradient["a"][1][0], [1.0, 1.0])
    assert gradient["a"][1][1] is None
    assert isinstance(gradient["line"], Line)
    assert (float(gradient["line"].slope), float(gradient["line"].offset)) == (5.0, 4.0)


def test_unused_arguments_have_gradient_zero():
    gradients = ng.grad(lambda x, y: x.sum(), (0, 1))(array(2), array(3, 2))
    np.testing.assert_array_equal(gradients[1], np.zeros((3, 2)))


def test_constant_functions_have_gradient_zero():
    value, gradient = ng.value_and_grad(lambda x: 3.0)(array(2))
    assert float(value) == 3.0
    np.testing.assert_array_equal(gradient, np.zeros(2))


def test_aux_is_returned_beside_the_gradient():
    def f(x):
        y = np.exp(x)
        return y.sum(), {"y": y, "name": "f"}

    x = array(2)
    gradient, aux = ng.grad(f, has_aux=True)(x)
    np.testing.assert_allclose(gradient, np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(aux["y"], np.exp(x), rtol=1e-15)
    assert aux["name"] == "f"
    assert not aux["y"].requires_grad
    (value, aux), _ = ng.value_and_grad(f, has_aux=True)(x)
    np.testing.assert_allclose(value, np.exp(x).sum(), rtol=1e-15)


def test_values_are_there_while_the_function_runs():
    def f(x):
        return x * 2 if x > 0 else x * 3

    assert float(ng.grad(f)(1.0)) == 2.0
    assert float(ng.grad(f)(-1.0)) == 3.0


def test_functions_may_write_to_their_argument():
    x = np.array([1.0, 2.0])

    def f(x):
        x[0] = 5 * x[1]
        x *= 2
        return x.sum()

    np.testing.assert_array_equal(ng.grad(f)(x), [0.0, 12.0])
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_nothing_of_the_callers_is_written_to():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    ng.grad(lambda t: (t * y).sum())(array(2))
    assert x.grad is None
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0])


def test_complex_gradients_descend():
    z = np.array([1 + 2j, -3j])
    gradient = ng.grad(lambda z: (z * z.conj()).real.sum())(z)
    np.testing.assert_allclose(gradient, 2 * z, rtol=1e-15)


def test_name_and_docstring_are_kept():
    def energy(x):
        """The energy."""
        return x

    assert ng.grad(energy).__name__ == "energy"
    assert ng.grad(energy).__doc__ == "The energy."


# Composition.


def test_gradients_nest_to_any_order():
    f = np.sin
    expected = [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    for derivative in expected:
        f = ng.grad(f)
        assert float(f(0.7)) == pytest.approx(derivative(0.7), rel=1e-13)


def test_inner_and_outer_variables_are_not_confused():
    # d/dx (x * d/dy (x + y)) = 1; confused derivatives give 2.
    assert float(ng.grad(lambda x: x * ng.grad(lambda y: x + y)(1.0))(1.0)) == 1.0
    # The same with x as the point of the inner derivative: d/dx (x * 2 (x + x)) = 8 x.
    assert float(ng.grad(lambda x: x * ng.grad(lambda y: (x + y) ** 2)(x))(3.0)) == 24.0


def test_the_inner_derivative_depends_on_outer_variables():
    def outer(x):
        return ng.grad(lambda y: y**2 * x**3)(x)

    assert float(outer(2.0)) == 32.0  # 2 x^4
    assert float(ng.grad(outer)(2.0)) == pytest.approx(64.0)  # 8 x^3


def test_tensors_that_require_grad_pass_history_on():
    x = ng.tensor(2.0, requires_grad=True)
    g = ng.grad(lambda t: t**3)(x)
    assert g.requires_grad
    g.backward()
    assert float(x.grad) == 12.0


def test_closed_over_tensors_that_require_grad_pass_history_on():
    w = ng.tensor(3.0, requires_grad=True)
    value, g = ng.value_and_grad(lambda t: t**2 * w)(2.0)
    assert value.requires_grad and g.requires_grad
    (g + value).backward()
    assert float(w.grad) == 4.0 + 4.0


def test_results_without_the_callers_history_have_none():
    w = ng.tensor(3.0, requires_grad=True)
    value, (gx, gy) = ng.value_and_grad(lambda x, y: x * w + y * 2, (0, 1))(1.0, 1.0)
    assert value.requires_grad
    assert gx.requires_grad
    assert not gy.requires_grad


def test_variables_of_inner_calls_are_no_history():
    first = ng.grad(lambda y: ng.grad(lambda z: z**2 * y)(3.0))(2.0)
    assert float(first) == 6.0
    assert not first.requires_grad
    pulled = ng.grad(lambda y: ng.vjp(lambda z: z**2 * y, 3.0)[1](1.0)[0])(2.0)
    assert float(pulled) == 6.0
    assert not pulled.requires_grad


def test_a_pullback_may_be_called_in_a_later_function():
    _, pullback = ng.vjp(lambda x: x**3, 2.0)
    gradient = ng.grad(lambda u: pullback(u**2)[0])(5.0)
    assert float(gradient) == 120.0
    assert not gradient.requires_grad


def test_no_grad_outside_keeps_derivatives_inside():
    x = ng.tensor(2.0, requires_grad=True)
    with ng.no_grad():
        g = ng.grad(lambda t: t**3)(x)
    assert float(g) == 12.0
    assert not g.requires_grad


def test_backward_inside_a_transformed_function():
    def f(x):
        (inner,) = ng.autograd.grad(x**3, x, create_graph=True)
        return inner

    assert float(ng.grad(f)(2.0)) == 12.0


def test_the_backward_pass_of_the_caller_goes_through_a_gradient():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    loss = (ng.grad(lambda t: (t**3).sum())(x) ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(x.grad, 36 * np.array([1.0, 8.0]))


def test_hooks_on_tensors_inside_are_run():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: g + 1)
        return (y * y).sum()

    np.testing.assert_array_equal(ng.grad(f)(np.array([1.0, 2.0])), [81.0, 161.0])


def test_hooks_on_operations_inside_are_run_and_gradients_retained():
    kept = []

    def f(x):
        y = x * 2
        y.grad_fn.register_prehook(lambda gradients: (gradients[0] + 1,))
        y.grad_fn.register_hook(lambda pulled, _: (pulled[0] * 10, *pulled[1:]))
        y.retain_grad()
        kept.append(y)
        return (y * y).sum()

    np.testing.assert_array_equal(ng.grad(f)(np.array([1.0, 2.0])), [100.0, 180.0])
    np.testing.assert_array_equal(kept[0].grad, [4.0, 8.0])


class Tripled(ng.autograd.Function):
    """The square, with a derivative three times too large, to tell rule and formula apart."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * g * y, 3 * g * x


def test_rules_of_users_are_used():
    x, y = array(4, 3), array(3)
    gx, gy = ng.grad(lambda x, y: Tripled.apply(x, x).sum() + y.sum(), (0, 1))(x, y)
    np.testing.assert_allclose(gx, 6 * x, rtol=1e-15)
    product = ng.vmap(Tripled.apply, (0, None))
    np.testing.assert_allclose(product(ng.tensor(x), ng.tensor(y)), x * y, rtol=1e-15)
    gx, gy = ng.grad(lambda x, y: (product(x, y) ** 2).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(gx, 6 * x * y**2, rtol=1e-14)
    np.testing.assert_allclose(gy, (6 * x**2 * y).sum(0), rtol=1e-14)
    inner = ng.vmap(ng.grad(lambda x, y: Tripled.apply(x, y).sum()), (0, None))(x, ng.tensor(y))
    np.testing.assert_allclose(inner, np.tile(3 * y, (4, 1)), rtol=1e-15)


def test_modes_are_restored_after_an_error():
    def f(x):
        raise KeyError("inside")

    for _ in range(2):
        with ng.no_grad(), pytest.raises(KeyError):
            ng.grad(f)(1.0)
    assert ng.is_grad_enabled()
    np.testing.assert_array_equal(ng.grad(lambda x: x.sum())(np.ones(2)), [1.0, 1.0])


# Vjp, jvp.


def test_vjp_pulls_cotangents_back():
    a, x, u = array(3, 4), array(4), array(3)
    value, pullback = ng.vjp(lambda a, x: a @ x, a, x)
    np.testing.assert_allclose(value, a @ x, rtol=1e-14)
    for _ in range(2):
        ga, gx = pullback(u)
        np.testing.assert_allclose(ga, np.outer(u, x), rtol=1e-14)
        np.testing.assert_allclose(gx, a.T @ u, rtol=1e-14, atol=1e-15)  # sums that cancel


def test_vjp_of_nested_results():
    value, pullback, aux = ng.vjp(
        lambda x: ({"s": x.sum(), "x": (x * 2,)}, "aux"), array(2), has_aux=True
    )
    (g,) = pullback({"s": 1.0, "x": (np.array([1.0, 2.0]),)})
    np.testing.assert_array_equal(g, [3.0, 5.0])
    assert aux == "aux"
    assert set(value) == {"s", "x"}


def test_vjp_in_a_differentiated_function():
    def f(x):
        value, pullback = ng.vjp(np.sin, x)
        return pullback(value)[0]  # sin x cos x

    assert float(ng.grad(f)(0.3)) == pytest.approx(np.cos(0.6), rel=1e-13)


def test_vjp_ignores_cotangents_of_integers():
    _, pullback = ng.vjp(lambda x: (x * 2, x.argmax()), array(3))
    (g,) = pullback((np.ones(3), 0))
    np.testing.assert_array_equal(g, [2.0, 2.0, 2.0])


def test_jvp_is_the_directional_derivative():
    x, v, y, w = array(3), array(3), array(3), array(3)
    value, tangent = ng.jvp(lambda x, y: np.sin(x) * y, (x, y), (v, w))
    np.testing.assert_allclose(value, np.sin(x) * y, rtol=1e-14)
    np.testing.assert_allclose(tangent, np.cos(x) * y * v + np.sin(x) * w, rtol=1e-13)


def test_jvp_of_nested_values():
    value, tangent, aux = ng.jvp(
        lambda p: ({"y": p["a"] * p["b"], "n": p["a"].argmax()}, 7),
        ({"a": np.array([1.0, 2.0]), "b": 3.0},),
        ({"a": np.array([1.0, 0.0]), "b": 2.0},),
        has_aux=True,
    )
    np.testing.assert_array_equal(tangent["y"], [5.0, 4.0])
    assert int(tangent["n"]) == 0
    assert int(value["n"]) == 1
    assert aux == 7


def test_complex_jvp_of_a_holomorphic_function():
    z, v = np.array([1 + 2j]), np.array([0.5 - 1j])
    _, tangent = ng.jvp(lambda z: z**3, (z,), (v,))
    np.testing.assert_allclose(tangent, 3 * z**2 * v, rtol=1e-14)


def test_jvp_of_grad_is_grad_of_jvp():
    x, v = array(3), array(3)

    def f(x):
        return (np.sin(x) * x[0]).sum()

    _, forward_over_reverse = ng.jvp(ng.grad(f), (x,), (v,))
    reverse_over_forward = ng.grad(lambda x: ng.jvp(f, (x,), (v,))[1])(x)
    np.testing.assert_allclose(forward_over_reverse, reverse_over_forward, rtol=1e-13)


# Jacobian, hessian, hvp.


def test_jacobian_of_a_matrix_product():
    a, x = array(3, 4), array(4)
    np.testing.assert_allclose(ng.jacobian(lambda x: a @ x)(x), a, rtol=1e-15)


def test_jacobian_has_the_shape_of_result_and_argument():
    x = array(2, 3)
    jacobian = ng.jacobian(lambda x: np.exp(x).T)(x)
    assert jacobian.shape == (3, 2, 2, 3)
    expected = np.einsum("ij,ki,lj->jikl", np.exp(x), np.eye(2), np.eye(3))
    np.testing.assert_allclose(jacobian, expected, rtol=1e-14)


def test_jacobian_of_nested_values():
    result = ng.jacobian(lambda p, y: {"u": p["a"] * y, "v": p["a"].sum()}, (0, 1))(
        {"a": np.ones(2)}, 3.0
    )
    np.testing.assert_array_equal(result["u"][0]["a"], 3 * np.eye(2))
    np.testing.assert_array_equal(result["u"][1], [1.0, 1.0])
    np.testing.assert_array_equal(result["v"][0]["a"], [1.0, 1.0])
    assert float(result["v"][1]) == 0.0


def test_jacobian_with_aux():
    jacobian, aux = ng.jacobian(lambda x: (x * x, "aux"), has_aux=True)(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(jacobian, [[2.0, 0.0], [0.0, 4.0]])
    assert aux == "aux"


def test_jacobian_of_a_constant_is_zero():
    np.testing.assert_array_equal(ng.jacobian(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))


def test_jacobian_of_an_empty_result_is_empty():
    assert ng.jacobian(lambda x: x[:0])(np.ones(3)).shape == (0, 3)


def test_complex_jacobians():
    z, x = np.array([1 + 2j, 3 - 1j]), np.array([0.5, 2.0])
    np.testing.assert_allclose(ng.jacobian(lambda z: z * z)(z), np.diag(2 * z), rtol=1e-15)
    derivative = ng.jacobian(lambda x: np.exp(1j * x))(x)
    np.testing.assert_allclose(derivative, np.diag(1j * np.exp(1j * x)), rtol=1e-14)


def test_jacobian_of_jacobian():
    x = np.array([1.0, 2.0])
    result = ng.jacobian(ng.jacobian(lambda x: x**3))(x)
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = 6.0, 12.0
    np.testing.assert_allclose(result, expected, rtol=1e-15)


def test_hessian_of_a_quadratic_form():
    a, x = array(4, 4), array(4)
    np.testing.assert_allclose(ng.hessian(lambda x: x @ a @ x)(x), a + a.T, rtol=1e-13)


def test_hessian_of_several_arguments_has_mixed_blocks():
    x, y = array(2), array(3)
    h = ng.hessian(lambda x, y: (x**2).sum() * (y**3).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(h[0][1], np.outer(2 * x, 3 * y**2), rtol=1e-13)
    np.testing.assert_allclose(h[1][0], h[0][1].T, rtol=1e-13)
    np.testing.assert_allclose(h[0][0], 2 * np.eye(2) * (y**3).sum(), rtol=1e-13, atol=1e-13)


def test_hessian_of_several_results_has_one_for_each():
    found = ng.hessian(lambda x: {"sum": x.sum() ** 3, "squares": x * x})(np.ones(2))
    np.testing.assert_allclose(found["sum"], np.full((2, 2), 12.0))
    np.testing.assert_allclose(found["squares"], [[[2, 0], [0, 0]], [[0, 0], [0, 2]]])


def test_hessian_is_recorded_once_for_all_its_rows(monkeypatch):
    from numba_grad.graph import node

    def recorded(n):
        count = next(iter([node.next_serial()]))
        ng.hessian(lambda x: np.sin(x * x).sum())(np.ones(n))
        return node.next_serial() - count

    assert recorded(50) == recorded(5)


def test_gradients_through_a_hessian():
    x = array(3)
    gradient = ng.grad(lambda x: ng.hessian(lambda x: (x**4).sum())(x).sum())(x)
    np.testing.assert_allclose(gradient, 24 * x, rtol=1e-13)


def test_hvp_is_a_product_with_the_hessian():
    x, y, v, w = array(3), array(2), array(3), array(2)

    def f(x, y):
        return (np.sin(x) * x[::-1]).sum() * np.exp(y).sum()

    h = ng.hessian(f, (0, 1))(x, y)
    hx, hy = ng.hvp(f, (x, y), (v, w))
    np.testing.assert_allclose(hx, np.asarray(h[0][0]) @ v + np.asarray(h[0][1]) @ w, rtol=1e-12)
    np.testing.assert_allclose(hy, np.asarray(h[1][0]) @ v + np.asarray(h[1][1]) @ w, rtol=1e-12)


def test_hvp_of_a_linear_function_is_zero():
    (product,) = ng.hvp(lambda x: (3 * x).sum(), (np.ones(3),), (np.ones(3),))
    np.testing.assert_array_equal(product, np.zeros(3))


# Jit.


def test_transforms_may_be_jitted():
    x = array(4)

    def f(x):
        return (np.sin(x) * x).sum()

    expected = np.cos(x) * x + np.sin(x)
    value, gradient = ng.jit(ng.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, expected, rtol=1e-14)
    hessian = ng.jit(ng.hessian(f))(x)
    np.testing.assert_allclose(hessian, np.diag(2 * np.cos(x) - x * np.sin(x)), rtol=1e-13)
    _, tangent = ng.jit(lambda x, v: ng.jvp(f, (x,), (v,)))(x, np.ones(4))
    np.testing.assert_allclose(tangent, expected.sum(), rtol=1e-13)
    np.testing.assert_allclose(ng.jit(ng.vmap(ng.grad(np.sin)))(x), np.cos(x), rtol=1e-14)


def test_jitted_functions_may_be_transformed():
    x = array(4)
    f = ng.jit(lambda x: (np.sin(x) * x).sum())
    np.testing.assert_allclose(ng.grad(f)(x), np.cos(x) * x + np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(
        ng.hessian(f)(x), np.diag(2 * np.cos(x) - x * np.sin(x)), rtol=1e-13, atol=1e-15
    )
    rows = array(3, 4)
    np.testing.assert_allclose(ng.vmap(f)(rows), (np.sin(rows) * rows).sum(1), rtol=1e-13)


POINT = np.array([0.3, 0.7, 1.1])
POWER = ng.jit(lambda x: (x**4).sum())


def jitted_with_assignment(x):
    x[0] = 5 * x[1]
    return (x**2).sum()


@pytest.mark.parametrize(
    ("derivative", "expected"),
    [
        (lambda x: ng.grad(ng.jit(ng.grad(lambda y: y**4)))(x[0]), 12 * POINT[0] ** 2),
        (lambda x: ng.jit(ng.grad(ng.jit(ng.grad(lambda y: y**4))))(x[0]), 12 * POINT[0] ** 2),
        (lambda x: ng.grad(lambda y: ng.jit(lambda z: y * z)(2.0))(x[0]), 2.0),
        (lambda x: ng.grad(lambda y: ng.jit(ng.grad(lambda z: z**2 * y))(3.0))(x[0]), 6.0),
        (lambda x: ng.hvp(POWER, (x,), (x,))[0], 12 * POINT**3),
        (lambda x: ng.jvp(POWER, (x,), (x,))[1], 4 * (POINT**4).sum()),
        (lambda x: ng.jit(ng.hessian(POWER))(x), np.diag(12 * POINT**2)),
        (lambda x: ng.jit(lambda x: ng.vjp(np.sin, x)[1](x)[0])(x), np.cos(POINT) * POINT),
        (lambda x: ng.jit(ng.vmap(ng.jit(ng.grad(np.sin))))(x), np.cos(POINT)),
        (lambda x: ng.grad(lambda x: ng.jit(ng.vmap(ng.grad(np.sin)))(x).sum())(x), -np.sin(POINT)),
        (lambda x: ng.vmap(lambda y: ng.jit(lambda z: y * z)(2.0))(x), 2 * POINT),
        (
            lambda x: ng.grad(ng.jit(jitted_with_assignment))(x),
            [0.0, 52 * POINT[1], 2 * POINT[2]],
        ),
        (
            lambda x: ng.jit(ng.grad(lambda x: ((x**2).sum(), 3 * x), has_aux=True))(x)[1],
            3 * POINT,
        ),
    ],
)
def test_transforms_compose_with_jit(derivative, expected):
    np.testing.assert_allclose(derivative(POINT), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x.max(), [0.0, 0.0, 1.0]),
        (np.cumsum, np.tril(np.ones((3, 3)))),
        (lambda x: np.sort(-x), -np.eye(3)[::-1]),
        (lambda x: x[np.array([2, 0, 2])], np.eye(3)[[2, 0, 2]]),
        (lambda x: x[x > 0.5], np.eye(3)[1:]),
        (lambda x: np.where(x > 0.5, x**2, x), np.diag([1.0, 2 * POINT[1], 2 * POINT[2]])),
        (
            lambda x: np.concatenate([x[::-1], np.pad(x, 1)])[1:5],
            [[0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]],
        ),
        (lambda x: np.linalg.solve(np.diag([1.0, 2.0, 4.0]), x), np.diag([1.0, 0.5, 0.25])),
        (lambda x: np.stack([x, 2 * x]).mean(0), 1.5 * np.eye(3)),
    ],
)
def test_jacobians_through_every_family(f, expected):
    np.testing.assert_allclose(ng.jacobian(f)(POINT), expected, rtol=1e-14)


def test_second_derivatives_of_a_product_with_zeros():
    np.testing.assert_array_equal(
        ng.hessian(np.prod)(np.array([0.0, 2.0, 0.0])), [[0, 0, 2], [0, 0, 0], [2, 0, 0]]
    )


def test_threads_differentiate_at_once():
    def worker(n):
        x = np.full(n, 0.5)
        return [float(ng.grad(lambda x: np.sin(x).sum())(x)[0]) for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for values in pool.map(worker, [1, 2, 3, 4]):
            np.testing.assert_allclose(values, np.cos(0.5), rtol=1e-15)


# Errors.


def test_a_result_of_the_wrong_shape_says_what_to_type():
    with pytest.raises(ShapeError, match=r"grad: .*0-d(.|\n)*float64\[3\](.|\n)*f\(x\)\.sum\(\)"):
        ng.grad(lambda x: x)(np.ones(3))


def test_several_results_are_refused():
    with pytest.raises(TypeError, match=r"tuple of length 2(.|\n)*has_aux"):
        ng.grad(lambda x: (x, x))(1.0)
    with pytest.raises(TypeError, match="returned None"):
        ng.grad(lambda x: None)(1.0)
    with pytest.raises(TypeError, match="returned None"):
        ng.jacobian(lambda x: None)(1.0)


def test_integer_and_complex_results_are_refused():
    with pytest.raises(TypeError, match="real, floating number"):
        ng.grad(lambda x: x.argmax())(np.ones(3))
    with pytest.raises(TypeError, match=r"result\.real"):
        ng.grad(lambda x: x * 1j)(1.0)
    with pytest.raises(TypeError, match="only floating and complex"):
        ng.jacobian(lambda x: x.argmax())(np.ones(3))


@pytest.mark.parametrize("x", [2, True, np.arange(3)])
def test_integer_arguments_are_refused(x):
    with pytest.raises(TypeError, match="only floating and complex") as caught:
        ng.grad(lambda x: x["a"])({"a": x})
    assert "argument 0['a']" in caught.value.__notes__[0]


def test_argnums_must_name_arguments():
    with pytest.raises(TypeError, match="not passed"):
        ng.grad(lambda x: x, 1)(1.0)
    with pytest.raises(TypeError, match="by position"):
        ng.grad(lambda x: x)(x=1.0)
    with pytest.raises(ValueError, match="twice"):
        ng.grad(lambda x: x, (0, -1))(1.0)


def test_has_aux_needs_two_results():
    with pytest.raises(TypeError, match="must return two things"):
        ng.grad(lambda x: x, has_aux=True)(1.0)


def test_cotangents_must_match_the_value():
    _, pullback = ng.vjp(lambda x: x, np.ones(3))
    with pytest.raises(ShapeError, match=r"cotangent : float64\[2\]\n  expected: float64\[3\]"):
        pullback(np.ones(2))
    with pytest.raises(TypeError, match=r"complex128\[3\]"):
        pullback(np.ones(3) * 1j)
    _, pullback = ng.vjp(lambda x: (x, x), np.ones(3))
    with pytest.raises(ValueError, match="structure"):
        pullback([np.ones(3), np.ones(3)])


def test_tangents_must_match_the_primals():
    with pytest.raises(ValueError, match="one tangent"):
        ng.jvp(np.sin, (1.0,), ())
    with pytest.raises(ShapeError, match=r"tangents\[0\]"):
        ng.jvp(np.sin, (1.0,), (np.ones(2),))


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="needs a function"):
        ng.grad(3.0)


# Check_gradients.


def test_check_gradients_accepts_right_derivatives():
    check_gradients(
        lambda p, n: np.sin(p["x"]) * p["y"] ** n, {"x": array(3), "y": 2.0}, 2, order=3
    )
    check_gradients(lambda z: z * z.conj() + np.exp(z), array(2) + 1j * array(2))


def test_check_gradients_names_the_wrong_element():
    def wrong(x):
        return (x + x.detach() * np.array([0.0, 1.0])).sum()

    with pytest.raises(AssertionError, match=r"order 1(.|\n)*args\[0\](.|\n)*\(1,\)"):
        check_gradients(wrong, np.array([1.0, 2.0]))


def test_check_gradients_finds_a_wrong_second_derivative():
    def wrong(x):
        # The derivative of x * x is right, and has no derivative itself.
        return x * x.detach() * 2 - (x * x).detach()

    with pytest.raises(AssertionError, match="order 2"):
        check_gradients(wrong, np.array([1.5]))


def test_check_gradients_refuses_single_precision():
    with pytest.raises(TypeError, match="double precision"):
        check_gradients(np.sin, np.ones(2, np.float32))


@pytest.mark.parametrize("product", [ng.jvp, ng.hvp])
def test_primals_and_tangents_are_sequences(product):
    x = np.ones(3)
    for primals, tangents, name in [(x, x, "primals"), (x, (x,), "primals"), ((x,), x, "tangents")]:
        with pytest.raises(TypeError, match=rf"(?s){name} must be a tuple or list.*\(x,\), \(v,\)"):
            product(lambda x: (x**2).sum(), primals, tangents)
    product(lambda x: (x**2).sum(), [x], [x])
