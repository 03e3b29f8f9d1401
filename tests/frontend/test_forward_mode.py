"""Forward mode: jvp, linearize, jacfwd, jacobian in both modes, Functions and custom operations."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import GradientError
from numba_grad.frontend.derivatives import jacobians

X = np.linspace(0.2, 1.4, 5)
V = np.array([1.0, -0.5, 2.0, 0.25, -1.0])
STEP = 1e-6


def damped(x):
    return np.exp(-0.5 * x) * np.sin(2.0 * x)


def difference(f, x, v):
    return (np.asarray(f(x + STEP * v)) - np.asarray(f(x - STEP * v))) / (2 * STEP)


def relaxed(x, steps=30):
    """A loop: Python runs it, each step from the last."""
    for _ in range(steps):
        x = x + 0.1 * np.sin(np.roll(x, 1)) * x
    return x


# Jvp.


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_jvp_in_each_engine(engine):
    for f in (damped, relaxed, lambda x: np.cumprod(x) @ np.ones((5, 2))):
        with ng.configure(engine=engine):
            value, tangent = ng.jvp(f, (X,), (V,))
        np.testing.assert_allclose(value, f(X), rtol=1e-12)
        np.testing.assert_allclose(tangent, difference(f, X, V), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_jvp_under_jit_in_each_engine(engine):
    for f in (damped, relaxed):
        with ng.configure(engine=engine):
            value, tangent = ng.jit(lambda x, v, f=f: ng.jvp(f, (x,), (v,)))(X, V)
        np.testing.assert_allclose(value, f(X), rtol=1e-12)
        np.testing.assert_allclose(tangent, difference(f, X, V), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "float16"])
def test_value_and_tangent_have_the_dtype_of_the_function(dtype):
    x = X.astype(dtype)
    value, tangent = ng.jvp(damped, (x,), (x,))
    assert value.dtype == tangent.dtype == dtype


def test_jvp_of_empty_and_0d():
    for x in (np.zeros((0, 3)), np.array(0.5)):
        value, tangent = ng.jvp(damped, (x,), (np.ones(x.shape),))
        assert value.shape == tangent.shape == x.shape
    assert ng.jvp(np.max, (np.array([1.0]),), (np.array([3.0]),))[1].item() == 3.0


def test_tangents_of_integers_and_constants_are_zero():
    _, (of_position, of_constant, of_x) = ng.jvp(
        lambda x: (np.argmax(x), np.ones(2), x), (X,), (V,)
    )
    assert (of_position.dtype, of_position.item()) == (np.int64, 0)
    np.testing.assert_array_equal(of_constant, np.zeros(2))
    np.testing.assert_array_equal(of_x, V)


def test_a_value_that_was_looked_at_has_a_tangent():
    def f(x):
        y = np.sin(x)
        while np.max(np.abs(y)) > 0.3:
            y = y * 0.5
        return y * x

    _, tangent = ng.jvp(f, (X,), (V,))
    np.testing.assert_allclose(tangent, difference(f, X, V), rtol=1e-6)


def test_assignments_have_tangents():
    def f(x):
        y = x * 1.0
        y[1:3] = x[:2] ** 2
        y[np.array([0, 4, 4])] += np.array([1.0, 2.0, 3.0]) * x[0]
        return y

    _, tangent = ng.jvp(f, (X,), (V,))

    def in_numpy(x):
        y = x.copy()
        y[1:3] = x[:2] ** 2
        y[np.array([0, 4, 4])] += np.array([1.0, 2.0, 3.0]) * x[0]
        return y

    np.testing.assert_allclose(tangent, difference(in_numpy, X, V), rtol=1e-6)


def test_aux_is_computed_with_the_values():
    value, tangent, aux = ng.jvp(lambda x: (x * 2, {"square": x * x}), (X,), (V,), has_aux=True)
    np.testing.assert_array_equal(value, 2 * X)
    np.testing.assert_array_equal(tangent, 2 * V)
    np.testing.assert_array_equal(aux["square"], X * X)
    assert not aux["square"].requires_grad


def test_jvp_of_jvp_does_not_confuse_directions():
    """d/dx (x d/dy (x + y)) is 1: the inner derivative is that by y alone."""
    inner = lambda x: ng.jvp(lambda y: x + y, (1.0,), (1.0,))[1]  # noqa: E731
    _, tangent = ng.jvp(lambda x: x * inner(x), (3.0,), (1.0,))
    assert tangent.item() == 1.0


def test_second_order_in_all_four_ways():
    def f(x):
        return (np.sin(x) * x[::-1] ** 2).sum()

    forward = ng.jvp(lambda x: ng.jvp(f, (x,), (V,))[1], (X,), (V,))[1]
    forward_over_reverse = ng.jvp(ng.grad(f), (X,), (V,))[1] @ V
    reverse_over_forward = ng.grad(lambda x: ng.jvp(f, (x,), (V,))[1])(X) @ V
    reverse = ng.grad(lambda x: (ng.grad(f)(x) * V).sum())(X) @ V
    for product in (forward, forward_over_reverse, reverse_over_forward):
        np.testing.assert_allclose(product, reverse, rtol=1e-12)


BODIES = {
    "scan": lambda x: ng.scan(lambda c, t: (np.sin(c) * t, c**2), x[0], x)[1].sum(),
    "map": lambda x: (ng.map(lambda t: t * x, x) ** 3).sum(),
    "fori_loop": lambda x: ng.fori_loop(0, 3, lambda k, c: c * x, x).sum(),
    "while_loop": lambda x: ng.while_loop(lambda c: c.sum() < 9.0, lambda c: c**2 + x, x).sum(),
    "cond": lambda x: ng.cond(x[0] > 0, lambda v: v**4, lambda v: v, x).sum(),
    "switch": lambda x: ng.switch(1, [lambda v: v, lambda v: v**4], x).sum(),
    "checkpoint": lambda x: ng.checkpoint(lambda v: v**4)(x).sum(),
    "call": lambda x: ng.jit(lambda v: v**4)(x).sum(),
}


@pytest.mark.thorough(but="^cond$")
@pytest.mark.parametrize("name", BODIES)
def test_columns_of_columns_through_bodies(name):
    """Who batches a body may record nothing, but its batched form is differentiated again."""
    f, x = BODIES[name], ng.tensor(X[:2] + 0.3)
    rows_of_rows = ng.jacrev(ng.jacrev(f))(x)
    ng.jacfwd(f)(x), ng.jacfwd(ng.grad(f))(x)  # now they are batched, and remembered
    np.testing.assert_allclose(ng.jacfwd(ng.jacfwd(f))(x), rows_of_rows, rtol=1e-12, atol=1e-12)
    thrice = ng.jacrev(ng.jacrev(ng.jacrev(f)))(x)
    by_columns = ng.jacfwd(ng.jacfwd(ng.jacfwd(f)))(x)
    np.testing.assert_allclose(by_columns, thrice, rtol=1e-12, atol=1e-12)


def test_vmap_of_jvp_and_jvp_of_vmap():
    rows, directions = np.stack([X, V]), np.stack([V, X])
    expected = np.stack(
        [ng.jvp(damped, (x,), (v,))[1] for x, v in zip(rows, directions, strict=True)]
    )
    batched = ng.vmap(lambda x, v: ng.jvp(damped, (x,), (v,))[1])(rows, directions)
    _, tangent = ng.jvp(ng.vmap(damped), (rows,), (directions,))
    np.testing.assert_allclose(batched, expected, rtol=1e-14)
    np.testing.assert_allclose(tangent, expected, rtol=1e-14)


def test_jvp_of_a_jitted_function():
    step = ng.jit(lambda x: (np.sin(x) * x, np.floor(x), x.sum()))

    def f(x):
        y, _, total = step(x)
        return step(y)[0] * total

    value, tangent = ng.jvp(f, (X,), (V,))
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(tangent, difference(f, X, V), rtol=1e-6)
    in_jit = ng.jit(lambda x, v: ng.jvp(f, (x,), (v,))[1])(X, V)
    np.testing.assert_allclose(in_jit, tangent, rtol=1e-12)


def test_a_loop_keeps_nothing_of_its_past():
    """Memory for values and tangents of one step, whatever the number of steps."""
    x = np.linspace(0, 1, 1000)

    def peak(steps):
        run = ng.jit(lambda x, v: ng.jvp(lambda x: relaxed(x, steps), (x,), (v,)))
        return run.lower(x, x).peak_memory

    assert peak(200) == peak(100)


def test_a_jacobian_by_columns_keeps_nothing_of_the_past():
    x = np.linspace(0, 1, 1000)

    def peak(steps):
        run = ng.jit(ng.jacfwd(lambda rates: relaxed(x * rates[0] + rates[1], steps)))
        return run.lower(np.array([0.5, 0.1])).peak_memory

    assert peak(200) == peak(100)


def test_values_of_hooked_tensors_keep_their_hooks():
    seen = []

    def f(x):
        y = x * x
        y.register_hook(lambda g: seen.append(g) or g)
        return y * x

    outer = ng.grad(lambda x: sum(part.sum() for part in ng.jvp(f, (x,), (V,))))
    np.testing.assert_allclose(outer(X), 3 * X**2 + 6 * X * V, rtol=1e-12)
    assert seen


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_jvp_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    m = np.sin(np.arange(25.0) ** 2).reshape(5, 5) + 3 * np.eye(5)
    cases = [
        (lambda np, x: np.tanh(x) / (1 + x * x), (X,)),
        (lambda np, x: np.cumsum(x, 0) * np.logaddexp(x, 2 * x), (X,)),
        (lambda np, x: np.linalg.eigvalsh(x + x.T), (m,)),
        (lambda np, x: np.linalg.slogdet(x)[1] * np.linalg.inv(x), (m,)),
        (lambda np, x: np.linalg.svdvals(x), (m[:, :3],)),
        (lambda np, x: np.linalg.cholesky(x @ x.T), (m,)),
        (lambda np, x: np.fft.fft(x * (1 + 2j)), (X + 1j * V,)),
        (lambda np, x: abs(x) * x.real, (X + 1j * V,)),
    ]
    for f, (x,) in cases:
        v = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
        ours = ng.jvp(lambda x, f=f: f(np, x), (x,), (v,))
        theirs = torch.func.jvp(
            lambda x, f=f: f(torch, x), (torch.from_numpy(x),), (torch.from_numpy(v),)
        )
        for own, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(own, expected.numpy(), rtol=1e-10, atol=1e-12)


# Linearize.


def test_linearize_runs_the_function_once():
    calls = []

    def f(x, y):
        calls.append(1)
        return {"product": x * y, "sine": np.sin(x)}

    value, f_jvp = ng.linearize(f, X, V)
    np.testing.assert_allclose(value["product"], X * V)
    for v, w in ((V, X), (X, 0 * X), (0 * X, V)):
        tangent = f_jvp(v, w)
        np.testing.assert_allclose(tangent["product"], v * V + X * w, rtol=1e-12)
        np.testing.assert_allclose(tangent["sine"], np.cos(X) * v, rtol=1e-12)
    assert len(calls) == 1


def test_linearize_with_aux_and_nested_arguments():
    value, f_jvp, aux = ng.linearize(
        lambda p: (p["a"] * p["b"][0], p["a"] + 1), {"a": 2.0, "b": [3.0]}, has_aux=True
    )
    assert (value.item(), aux.item()) == (6.0, 3.0)
    assert f_jvp({"a": 1.0, "b": [10.0]}).item() == 23.0


def test_linearize_is_differentiable_and_goes_into_jit():
    def slope(x):
        return ng.linearize(np.sin, x)[1](1.0)

    np.testing.assert_allclose(ng.grad(slope)(0.5), -np.sin(0.5))
    np.testing.assert_allclose(ng.jit(slope)(0.5), np.cos(0.5))
    np.testing.assert_allclose(ng.vmap(slope)(X), np.cos(X))


def test_linearize_wants_a_tangent_for_each_primal():
    _, f_jvp = ng.linearize(np.sin, X)
    with pytest.raises(ValueError, match="each primal needs one tangent"):
        f_jvp()
    with pytest.raises(ValueError, match=r"(?s)linearize.*type of its value"):
        f_jvp(np.ones(2))


# Jacobians.


FUNCTIONS = {
    "wide": lambda x: (x * x).sum(),
    "tall": lambda x: np.outer(x, np.sin(x)),
    "several": lambda x: {"a": x[1:] * x[:-1], "b": (x.sum(), x)},
    "constant": lambda x: (np.ones(3), x * 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_of_both_modes_are_equal(name):
    f = FUNCTIONS[name]
    reverse, forward = ng.jacrev(f)(X), ng.jacfwd(f)(X)
    assert_equal_trees(forward, reverse)
    assert_equal_trees(ng.jacobian(f)(X), reverse)
    assert_equal_trees(ng.jacobian(f, mode="forward")(X), forward)
    assert_equal_trees(ng.jacobian(f, mode="reverse")(X), reverse)


def assert_equal_trees(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, tuple | list):
        for a, b in zip(found, expected, strict=True):
            assert_equal_trees(a, b)
        return
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_jacobians_of_several_and_nested_arguments():
    def f(p, y):
        return p["a"] * y, p["b"] @ y

    p = {"a": np.array(2.0), "b": np.arange(10.0).reshape(2, 5)}
    for argnums in (0, 1, (0, 1), (1,)):
        assert_equal_trees(ng.jacfwd(f, argnums)(p, X), ng.jacrev(f, argnums)(p, X))


def test_jacfwd_with_aux():
    for make in (ng.jacfwd, ng.jacrev, ng.jacobian):
        jacobian, aux = make(lambda x: (x * x, x.sum()), has_aux=True)(X)
        np.testing.assert_allclose(jacobian, 2 * np.diag(X))
        np.testing.assert_allclose(aux, X.sum())


def test_complex_jacobians_of_both_modes_are_equal():
    z = X + 1j * V
    for f in (
        lambda z: z**3,
        lambda z: abs(z) ** 2,
        lambda z: (z.real * 2, np.exp(z)),
        lambda z: z.imag,
    ):
        assert_equal_trees(ng.jacfwd(f)(z), ng.jacrev(f)(z))
    assert_equal_trees(*(make(lambda x: np.exp(1j * x))(X) for make in (ng.jacfwd, ng.jacrev)))


def test_jacobians_have_the_dtype_of_the_argument():
    x = X.astype(np.float32)
    for make in (ng.jacfwd, ng.jacrev):
        assert make(lambda x: x * np.arange(5.0))(x).dtype == np.float32
        assert make(lambda x: x * np.complex64(1j))(x).dtype == np.complex64


def test_jacobian_takes_the_mode_with_fewer_passes(monkeypatch):
    taken = []
    for mode in ("rows", "columns"):
        original = getattr(jacobians, f"_{mode}")
        monkeypatch.setattr(
            jacobians,
            f"_{mode}",
            lambda *args, mode=mode, original=original: taken.append(mode) or original(*args),
        )
    ng.jacobian(lambda x: x.sum())(X)
    ng.jacobian(lambda x: x * x)(X)
    ng.jacobian(lambda x: np.outer(x, x))(X)
    ng.hessian(lambda x: (x**3).sum())(X)
    assert taken == ["rows", "columns", "columns", "rows", "columns"]


def test_jacobian_takes_no_other_modes():
    with pytest.raises(ValueError, match=r"(?s)no such mode.*sideways.*auto, reverse, forward"):
        ng.jacobian(np.sin, mode="sideways")


def test_jacobians_of_empty_arguments_and_results():
    for make in (ng.jacfwd, ng.jacrev, ng.jacobian):
        assert make(lambda x: x[:0])(X).shape == (0, 5)
        assert make(lambda x: x.sum() * np.ones(3))(np.zeros(0)).shape == (3, 0)


def test_hessian_of_complex_and_several_arguments():
    def f(x, y):
        return (np.sin(x) * y[::-1] ** 2).sum()

    (xx, xy), (yx, yy) = ng.hessian(f, argnums=(0, 1))(X, V)
    np.testing.assert_allclose(xx, np.diag(-np.sin(X) * V[::-1] ** 2), atol=1e-12)
    np.testing.assert_allclose(xy, np.asarray(yx).T, atol=1e-12)
    np.testing.assert_allclose(yy, np.diag(2 * np.sin(X)[::-1]), atol=1e-12)


# Functions of the user's.


class Square(ng.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * ctx.scale * x * g, None


class SquareWithJvp(Square):
    @staticmethod
    def jvp(ctx, t, scale):
        assert scale is None
        (x,) = ctx.saved_tensors
        return 2 * ctx.scale * x * t + 100  # to tell it from the other


@pytest.mark.parametrize(("function", "offset"), [(Square, 0.0), (SquareWithJvp, 100.0)])
def test_a_function_has_the_tangent_of_its_jvp_or_of_its_backward(function, offset):
    def f(x):
        return np.sin(function.apply(x, 3.0))

    expected = np.cos(3 * X**2) * (6 * X * V + offset)
    runs = {
        "plain": lambda: ng.jvp(f, (X,), (V,))[1],
        "jit": lambda: ng.jit(lambda x, v: ng.jvp(f, (x,), (v,))[1])(X, V),
        "of jit": lambda: ng.jvp(ng.jit(f), (X,), (V,))[1],
        "vmap": lambda: ng.vmap(lambda x, v: ng.jvp(f, (x,), (v,))[1])(X, V),
        "of vmap": lambda: ng.jvp(ng.vmap(f), (X,), (V,))[1],
        "linearize": lambda: ng.linearize(f, X)[1](V),
    }
    for name, run in runs.items():
        np.testing.assert_allclose(run(), expected, rtol=1e-12, err_msg=name)


def test_a_jvp_is_differentiated_again():
    second = ng.grad(lambda x: ng.jvp(lambda x: SquareWithJvp.apply(x, 3.0), (x,), (V,))[1].sum())
    np.testing.assert_allclose(second(X), 6 * V)


def test_jvp_finds_what_was_saved_for_forward():
    class Product(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, y)
            return x * y, x + y

        @staticmethod
        def jvp(ctx, of_x, of_y):
            x, y = ctx.saved_tensors
            return of_x * y + x * of_y, None

    _, (of_product, of_sum) = ng.jvp(Product.apply, (X, V), (V, X))
    np.testing.assert_allclose(of_product, V * V + X * X)
    np.testing.assert_array_equal(of_sum, np.zeros(5))


def test_tangents_that_are_zero_reach_jvp_as_zeros_or_none():
    seen = []

    class Sum(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, materializes):
            ctx.set_materialize_grads(materializes)
            return x + y

        @staticmethod
        def jvp(ctx, of_x, of_y, _):
            seen.append(of_y)
            return of_x

    for materializes in (True, False):
        ng.jvp(lambda x, m=materializes: Sum.apply(x, ng.tensor(V), m), (X,), (V,))
    np.testing.assert_array_equal(seen[0], np.zeros(5))
    assert seen[1] is None


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda t: (t, t), "incorrect number of tangents"),
        (lambda t: t[:2], "invalid tangent for result 0"),
        (lambda t: 3.0, "expected a Tensor or None for result 0"),
    ],
)
def test_what_jvp_must_return(returned, message):
    class Wrong(Square):
        @staticmethod
        def jvp(ctx, t, scale):
            return returned(t)

    with pytest.raises(GradientError, match=message):
        ng.jvp(lambda x: Wrong.apply(x, 3.0), (X,), (V,))


class OnceDifferentiable(Square):
    @staticmethod
    @ng.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * ctx.scale * x * g, None


def test_a_backward_that_cannot_be_differentiated_has_no_tangent():
    with pytest.raises(GradientError, match=r"(?s)marked with @once_differentiable.*jvp\("):
        ng.jvp(lambda x: OnceDifferentiable.apply(x, 3.0), (X,), (V,))


def test_jacobian_is_by_reverse_mode_where_a_function_has_no_jvp():
    jacobian = ng.jacobian(lambda x: OnceDifferentiable.apply(x, 3.0))(X)
    np.testing.assert_allclose(jacobian, np.diag(6 * X))


def test_a_custom_operation_may_have_a_jvp():
    def cube(x, out):
        for i in range(x.size):
            out[i] = x[i] ** 3

    op = ng.custom_op(
        "cube_with_jvp",
        cube,
        shape=lambda x: x.shape,
        jvp=lambda tangents, out, x: 3 * x * x * tangents[0],
    )
    np.testing.assert_allclose(ng.jvp(op, (X,), (V,))[1], 3 * X**2 * V, rtol=1e-12)
    np.testing.assert_allclose(ng.jacfwd(op)(X), np.diag(3 * X**2), rtol=1e-12)


def test_a_custom_operation_without_derivatives_has_no_tangent():
    def half(x, out):
        for i in range(x.size):
            out[i] = 0.5 * x[i]

    adjoint = ng.custom_op("half_adjoint", half, shape=lambda x: x.shape)
    op = ng.custom_op("half", half, shape=lambda x: x.shape, vjp=lambda g, out, x: adjoint(g))
    with pytest.raises(GradientError, match="half"):
        ng.jvp(op, (X,), (V,))


# Checks against finite differences.


@pytest.mark.thorough
def test_gradcheck_checks_forward_mode():
    x, z = (ng.tensor(a, requires_grad=True) for a in (X, X + 1j * V))
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    for fast in (True, False):
        assert ng.autograd.gradcheck(relaxed, (x,), fast_mode=fast, **options)
        assert ng.autograd.gradcheck(
            lambda z: (abs(z) * z, z.real), (z,), fast_mode=fast, check_backward_ad=False, **options
        )
    assert ng.autograd.gradgradcheck(damped, (x,), check_fwd_over_rev=True)


def test_gradcheck_finds_a_wrong_jvp():
    x = ng.tensor(X, requires_grad=True)
    for fast in (True, False):
        with pytest.raises(RuntimeError, match="Jacobian mismatch in forward mode for output 0"):
            ng.autograd.gradcheck(
                lambda x: SquareWithJvp.apply(x, 3.0), (x,), check_forward_ad=True, fast_mode=fast
            )
    assert ng.autograd.gradcheck(lambda x: SquareWithJvp.apply(x, 3.0), (x,))


def test_gradcheck_has_something_to_check():
    x = ng.tensor(X, requires_grad=True)
    with pytest.raises(ValueError, match="check_forward_ad or check_backward_ad"):
        ng.autograd.gradcheck(damped, (x,), check_backward_ad=False)
    with pytest.raises(ValueError, match="needs check_forward_ad=True"):
        ng.autograd.gradcheck(damped, (x,), check_batched_forward_grad=True)
