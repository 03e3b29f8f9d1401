"""Dual numbers: levels, in torch's words."""

import threading

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.autograd import forward_ad
from numba_grad.graph import observers

X = np.linspace(0.2, 1.4, 5)
V = np.array([1.0, -0.5, 2.0, 0.25, -1.0])


def damped(x):
    return np.exp(-0.5 * x) * np.sin(2.0 * x)


def slope_of_damped(x, v):
    return np.exp(-0.5 * x) * (2 * np.cos(2 * x) - 0.5 * np.sin(2 * x)) * v


def dual(x=X, v=V, **options):
    return forward_ad.make_dual(ng.tensor(x, **options), ng.tensor(v))


def tangent(x):
    return forward_ad.unpack_dual(x).tangent


@pytest.mark.parametrize("requires_grad", [True, False])
def test_tangents_follow_operations(requires_grad):
    with forward_ad.dual_level() as level:
        assert level == 0
        x = dual(requires_grad=requires_grad)
        y, slope = forward_ad.unpack_dual(damped(x))
        assert y.requires_grad == x.requires_grad == requires_grad
        np.testing.assert_allclose(y.detach(), damped(X))
        np.testing.assert_allclose(slope.detach(), slope_of_damped(X, V))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_scenario_is_torchs():
    torch = pytest.importorskip("torch")
    forward = torch.autograd.forward_ad
    with forward.dual_level(), forward_ad.dual_level():
        theirs = forward.make_dual(torch.from_numpy(X), torch.from_numpy(V))
        ours = dual()
        for f in (
            lambda x: x * x,
            lambda x: x.detach() * x,
            lambda x: x.sum() / x[1],
            lambda x: (x > 0.5) * x,
            lambda x: abs(x - 0.8),
        ):
            expected, found = forward.unpack_dual(f(theirs)), forward_ad.unpack_dual(f(ours))
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13)
        assert forward.unpack_dual(theirs.detach()).tangent is None
        assert tangent(ours.detach()) is None
        assert forward.unpack_dual(forward.unpack_dual(theirs).primal).tangent is None
        assert tangent(forward_ad.unpack_dual(ours).primal) is None
        assert tangent(ng.tensor(X)) is None


def test_tangents_do_not_depend_on_recording_history():
    with forward_ad.dual_level(), ng.no_grad():
        np.testing.assert_allclose(tangent(damped(dual())), slope_of_damped(X, V))


def test_a_value_may_be_looked_at():
    with forward_ad.dual_level():
        x = dual()
        y = np.sin(x)
        while y.max().item() > 0.3:
            y = y * 0.5
        np.testing.assert_allclose(tangent(y), np.cos(X) * V / 4, rtol=1e-12)


def test_assignments_change_the_tangent():
    with forward_ad.dual_level():
        x = dual()
        x[1] = 3.0
        x[2:] += x[0]
        np.testing.assert_allclose(tangent(x), [1.0, 0.0, 3.0, 1.25, 0.0])


def test_a_level_ends():
    with forward_ad.dual_level():
        x = dual()
        y = damped(x)
    assert tangent(y) is None
    assert observers._Registered.collectors == 0
    with forward_ad.dual_level():
        assert tangent(y) is None
        assert tangent(y * dual()) is not None


def test_a_level_ends_after_an_error():
    with pytest.raises(ZeroDivisionError), forward_ad.dual_level():
        raise ZeroDivisionError
    forward_ad.enter_dual_level()
    forward_ad.exit_dual_level()


def test_a_function_may_be_a_level():
    @forward_ad.dual_level()
    def slope(x, v):
        return tangent(damped(dual(x, v)))

    np.testing.assert_allclose(slope(X, V), slope_of_damped(X, V))


def test_levels_do_not_nest_and_end_once():
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match="not the last one"):
            forward_ad.exit_dual_level(level=3)
    with pytest.raises(RuntimeError, match="not the last one"):
        forward_ad.exit_dual_level()


def test_what_cannot_be_dual():
    with pytest.raises(RuntimeError, match="no level exists"):
        dual()
    with forward_ad.dual_level():
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            dual(np.arange(5))
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            dual(v=np.arange(5))
        with pytest.raises(RuntimeError, match=r"(?s)not of the type of the tensor.*float64\[2\]"):
            dual(v=np.ones(2))
        with pytest.raises(RuntimeError, match="not of the type of the tensor"):
            dual(v=V + 1j)
        with pytest.raises(TypeError, match="primal must be a Tensor"):
            forward_ad.make_dual(X, ng.tensor(V))
    assert forward_ad.unpack_dual(ng.tensor(X)).tangent is None


def test_levels_belong_to_threads():
    seen = []
    with forward_ad.dual_level():
        x = dual()
        thread = threading.Thread(target=lambda: seen.append(tangent(x * x)))
        thread.start()
        thread.join()
        assert tangent(x * x) is not None
    assert seen == [None]


def test_reverse_mode_over_tangents():
    x = ng.tensor(X, requires_grad=True)
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, ng.tensor(V)) ** 3
        tangent(y).sum().backward()
    np.testing.assert_allclose(x.grad, 6 * X * V)


def test_gradients_have_tangents():
    with forward_ad.dual_level():
        x = dual(requires_grad=True)
        (g,) = ng.autograd.grad((x**3).sum(), x)
        np.testing.assert_allclose(g, 3 * X**2)
        np.testing.assert_allclose(tangent(g), 6 * X * V)
        leaf = ng.tensor(X, requires_grad=True)
        (forward_ad.make_dual(leaf, ng.tensor(V)) ** 3).sum().backward()
        np.testing.assert_allclose(tangent(leaf.grad), 6 * X * V)


def test_transforms_keep_tangents():
    with forward_ad.dual_level():
        x = dual()
        np.testing.assert_allclose(tangent(ng.grad(lambda x: (x**3).sum())(x)), 6 * X * V)
        value, pushed = ng.jvp(lambda x: x**3, (x,), (V,))
        np.testing.assert_allclose(tangent(value), 3 * X**2 * V)
        np.testing.assert_allclose(tangent(pushed), 6 * X * V * V)
        np.testing.assert_allclose(tangent(ng.vmap(lambda x: x**3)(x)), 3 * X**2 * V)


def test_jitted_functions_keep_tangents():
    f = ng.jit(damped)
    f(ng.tensor(X))
    with forward_ad.dual_level():
        x = dual()
        for _ in range(2):
            np.testing.assert_allclose(tangent(f(x)), slope_of_damped(X, V))
            x.numpy()  # now its value is known
        scaled = ng.jit(lambda y: x * y)
        np.testing.assert_allclose(tangent(scaled(np.ones(5))), V)

    def slope(x, v):
        with forward_ad.dual_level():
            return tangent(f(forward_ad.make_dual(x, v)))

    found = ng.jit(slope)(ng.tensor(X), ng.tensor(V))
    np.testing.assert_allclose(found, slope_of_damped(X, V))


class Square(ng.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 2 * x * t + 100


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_function_has_the_tangent_of_its_jvp(requires_grad):
    with forward_ad.dual_level():
        y = np.sin(Square.apply(dual(requires_grad=requires_grad)))
        expected = np.cos(X**2) * (2 * X * V + 100)
        np.testing.assert_allclose(tangent(y).detach(), expected)
        assert tangent(tangent(y)) is None


def test_a_function_without_jvp_is_an_error():
    class Cube(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x * x

    with forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match="implement the jvp function"):
            Cube.apply(dual())
        assert Cube.apply(ng.tensor(X)).shape == (5,)


def test_a_custom_operation_has_the_tangent_of_its_jvp():
    def half(x, out):
        for i in range(x.size):
            out[i] = 0.5 * x[i]

    shape = lambda x: x.shape  # noqa: E731
    op = ng.custom_op("half", half, shape=shape, jvp=lambda tangents, out, x: 0.5 * tangents[0])
    with forward_ad.dual_level():
        np.testing.assert_allclose(tangent(op(dual())), 0.5 * V)
        with pytest.raises(NotImplementedError, match="jvp"):
            ng.custom_op("half", half, shape=shape)(dual())
