"""A user's Function where torch is no guide: messages, attributes, and other transforms."""

import weakref

import numpy as np
import pytest

import numba_grad as ng

X = np.array([1.0, 2.0, 3.0])


class FiveX(ng.autograd.Function):
    """x * x with a derivative that tells whether it was used: 5 x."""

    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * x * 5 + 0 * y


def times_x(x):
    return FiveX.apply(x) * x  # derivative 5 x * x + x * x


class Cube(ng.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @ng.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def variable():
    return ng.tensor(X, requires_grad=True)


def test_attributes_of_ctx_collide_with_nothing():
    class Attributes(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.name, ctx.context, ctx.release, ctx.pullback = "mine", 1, 2, 3
            ctx.tensor_count = ctx.result_types = "x"
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert (ctx.name, ctx.context, ctx.release, ctx.pullback) == ("mine", 1, 2, 3)
            return g * 2

    x = variable()
    y = Attributes.apply(x)
    assert y.grad_fn.name() == "AttributesBackward"
    assert y.grad_fn.pullback == 3
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])


def test_mark_dirty_is_refused():
    class Dirty(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x

    with pytest.raises(NotImplementedError, match=r"ctx\.mark_dirty is not supported"):
        Dirty.apply(variable())


def test_functions_are_not_instantiated():
    with pytest.raises(TypeError, match=r"call Cube\.apply"):
        Cube()


def test_wrong_number_of_gradients_names_both_numbers():
    class Short(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="incorrect number of gradients") as caught:
        Short.apply(variable(), 2).sum().backward()
    assert "ShortBackward" in str(caught.value)
    assert "arguments of forward : 2" in str(caught.value)


def test_both_backward_and_vjp():
    class Both(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        vjp = backward

    with pytest.raises(RuntimeError, match="names for one function"):
        Both.apply(variable()).sum().backward()


def test_saved_values_are_those_of_then():
    """Assignment gives a tensor a new value; what was saved keeps the old one."""
    x = variable()
    y = x * 1
    z = FiveX.apply(y)
    y += 100
    z.sum().backward()
    np.testing.assert_array_equal(x.grad, 5 * X)


def test_saved_tensors_are_freed_with_the_history():
    x = ng.tensor(X, requires_grad=True)
    y = x * 2
    value = weakref.ref(y._node)
    loss = FiveX.apply(y).sum()
    del y
    assert value() is not None
    loss.backward()
    assert value() is None
    assert loss.item() > 0


def test_nothing_is_computed_by_apply():
    y = FiveX.apply(variable())
    assert y._node.value is None


def test_forward_may_read_values():
    class Branch(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 2 if x.sum().item() > 0 else 3
            return x * ctx.factor

        @staticmethod
        def backward(ctx, g):
            assert isinstance(g.numpy(), np.ndarray)
            return g * ctx.factor

    x = variable()
    Branch.apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])


@pytest.mark.usefixtures("native")
def test_on_compiled_kernels():
    x = variable()
    (times_x(x) * 2).sum().backward()
    np.testing.assert_array_equal(x.grad, 12 * X * X)


# Under other transforms.


def long(x):
    for _ in range(200):
        x = x * 1.0
    return times_x(x)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize(
    "function",
    [
        times_x,
        ng.jit(times_x),
        ng.jit(ng.jit(times_x)),
        ng.jit(long),
        lambda x: ng.vmap(times_x)(x),
        lambda x: ng.jit(ng.vmap(times_x))(x),
        lambda x: ng.vmap(ng.jit(times_x))(x),
    ],
    ids=["plain", "jit", "jit of jit", "jit, long", "vmap", "jit of vmap", "vmap of jit"],
)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_users_derivative_is_used(function, engine):
    with ng.configure(engine=engine):
        x = variable()
        y = function(x)
        np.testing.assert_array_equal(y.detach(), X**3)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad, 6 * X * X)
        np.testing.assert_array_equal(ng.grad(lambda x: function(x).sum())(X), 6 * X * X)


@pytest.mark.parametrize("function", [times_x, ng.jit(times_x)], ids=["plain", "jit"])
def test_second_derivatives(function):
    x = variable()
    (g,) = ng.autograd.grad(function(x).sum(), x, create_graph=True)
    np.testing.assert_array_equal(ng.autograd.grad(g.sum(), x)[0], 15 * X)  # 5 x * x + 5 x * x


@pytest.mark.parametrize(
    "function", [Cube.apply, ng.jit(Cube.apply), ng.jit(lambda x: long(x) * 0 + Cube.apply(x))]
)
def test_once_differentiable_under_jit(function):
    x = variable()
    (g,) = ng.autograd.grad((function(x) * x).sum(), x, create_graph=True)
    np.testing.assert_array_equal(g.detach(), 4 * X**3)
    (h,) = ng.autograd.grad(g.sum(), x)
    assert not np.array_equal(h, 12 * X**2)


def test_no_grad_inside_of_a_jitted_function():
    @ng.jit
    def f(x):
        with ng.no_grad():
            y = x * 2
        return x * y

    x = variable()
    f(x).sum().backward()
    np.testing.assert_array_equal(x.grad, 2 * X)


def test_backward_that_closes_over_a_variable_under_jit():
    weight = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)

    class Weighted(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.doubled = x * 2
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.doubled * weight

    x = variable()
    (g,) = ng.autograd.grad(ng.jit(Weighted.apply)(x).sum(), x, create_graph=True)
    np.testing.assert_array_equal(g.detach(), 2 * X * X)
    np.testing.assert_array_equal(ng.autograd.grad(g.sum(), weight)[0], 2 * X)


def test_sum_over_the_batch_for_an_argument_that_is_not_batched():
    def scaled(weight):
        return ng.vmap(lambda x: FiveX.apply(x * weight))(ng.tensor([[1.0], [2.0]])).sum()

    np.testing.assert_array_equal(ng.grad(scaled)(np.array([3.0])), [5 * 3.0 + 2 * 5 * 6.0])
