"""`ng.custom_op`: users' kernels in graphs, plans, gradients and batches."""

import importlib.util

import numba
import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.user_kernels import compilation
from numba_grad.errors import DeviceError, DTypeError, GradientError, KernelError, ShapeError
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.graph.node import argument
from numba_grad.graph.types import array_type
from numba_grad.ops.custom_kernels import ArrayArgument, CudaLaunch, NumberArgument
from tests.threads import run_in_threads

X = np.array([0.5, -1.25, 2.0, 0.125])
FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)


def cube_kernel(x, out):
    """x * x * x"""
    for i in range(x.shape[0]):
        out[i] = x[i] * x[i] * x[i]


@numba.njit
def cube_adjoint_kernel(g, x, out):
    for i in range(x.shape[0]):
        out[i] = 3.0 * x[i] * x[i] * g[i]


cube_adjoint = ng.custom_op(
    "cube_adjoint",
    cube_adjoint_kernel,
    shape=lambda g, x: x.shape,
    vjp=lambda h, out, g, x: (cube_adjoint(h, x), 6 * x * g * h),
)
cube = ng.custom_op(
    "cube",
    cube_kernel,
    shape=lambda x: x.shape,
    vjp=lambda g, out, x: cube_adjoint(g, x),
)


# Values


def test_it_computes_what_the_kernel_does(engine):
    y = cube(X)
    assert isinstance(y, ng.Tensor)
    np.testing.assert_array_equal(y.numpy(), X * X * X)
    assert cube.__doc__ == "x * x * x"
    assert repr(cube) == "<custom_op cube(x)>"


def test_it_is_a_step_of_a_plan_beside_others(engine):
    f = ng.jit(lambda x: ng.sum(cube(2 * x) + cube(x)))
    for x in (X, X[:2], X):
        np.testing.assert_allclose(f(x), np.sum(9 * x**3), rtol=1e-14)


def test_a_plan_calls_native_code_only():
    ran = []

    def double(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i] + x[i]

    def shape(x):
        ran.append(x.shape)
        return x.shape

    op = ng.custom_op("double_it", double, shape=shape)
    f = ng.jit(lambda x: op(x) - 1)
    f(X)
    count = len(ran)
    np.testing.assert_array_equal(f(X), 2 * X - 1)
    assert len(ran) == count
    lowered = f.lower(X)
    names = [kernel.name for kernel in lowered.kernels]
    assert names == ["k0 double_it: float64", "k1 subtract: float64, 1-d"]
    assert lowered.kernels[0].nbytes == 2 * X.nbytes
    assert len(lowered.profile(X)) == 2
    for arguments in ((), (X[:2],), (X, X)):
        with pytest.raises(TypeError, match="another signature than those that were lowered"):
            lowered.profile(*arguments)
    assert "kernel=double_it" in lowered.graph


def test_equal_calls_are_computed_once():
    f = ng.jit(lambda x: (cube(x), cube(x) + 1))
    assert sum(kernel.count for kernel in f.lower(X).kernels if "cube" in kernel.name) == 1


@pytest.mark.thorough
def test_each_dtype_and_number_of_dimensions_is_compiled_for():
    def total(x, y, out):
        out[()] = x.sum() + y.sum()

    op = ng.custom_op("total", total, shape=lambda x, y: ())
    for x, y in [
        (np.ones((2, 3)), np.float32(2)),
        (np.ones((2, 3), np.float32), np.ones(4, np.complex64)),
        (np.array(3), np.zeros((0, 2), np.int8)),
    ]:
        result = op(x, y).numpy()
        assert result.dtype == np.result_type(x, y)
        assert result == x.sum() + y.sum()


def test_inputs_are_contiguous_and_results_fresh(engine):
    def copy(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j]

    op = ng.custom_op("copy_matrix", copy, shape=lambda x: x.shape)
    x = np.arange(24.0).reshape(4, 6)
    t = ng.tensor(x)
    for given, expected in [(t.T, x.T), (t[::2, ::-3], x[::2, ::-3]), (x[1:, 1:3], x[1:, 1:3])]:
        np.testing.assert_array_equal(op(given).numpy(), expected)


def test_python_numbers_take_the_dtype_beside_them():
    def scaled(x, factor, out):
        for i in range(x.shape[0]):
            out[i] = x[i] * factor[()]

    op = ng.custom_op("scaled", scaled, shape=lambda x, factor: x.shape)
    assert op(X.astype(np.float32), 3.0).dtype == np.float32
    assert op(X.astype(np.float32), np.float64(3)).dtype == np.float64
    np.testing.assert_array_equal(op(X, factor=3).numpy(), 3 * X)


@pytest.mark.thorough
def test_kernels_may_allocate_and_use_numpy():
    def centred(x, out):
        copy = np.zeros(x.shape[0])
        for i in range(x.shape[0]):
            copy[i] = x[i] - np.mean(x)
        out[:] = copy

    op = ng.custom_op("centred", centred, shape=lambda x: x.shape)
    np.testing.assert_allclose(op(X).numpy(), X - X.mean(), rtol=1e-15)


def test_empty_arrays(engine):
    assert cube(np.zeros(0)).numpy().shape == (0,)


def test_division_by_zero_is_as_in_numpy():
    def inverse(x, out):
        for i in range(x.shape[0]):
            out[i] = 1.0 / x[i]

    op = ng.custom_op("inverse", inverse, shape=lambda x: x.shape)
    np.testing.assert_array_equal(op(np.array([0.0, 2.0])).numpy(), [np.inf, 0.5])


def test_an_operation_can_be_defined_again():
    def one(x, out):
        out[0] = 1.0

    def two(x, out):
        out[0] = 2.0

    results = []
    for kernel in (one, two):
        op = ng.custom_op("again", kernel, shape=lambda x: x.shape)
        results.append(ng.jit(lambda x, op=op: op(x))(X)[0])
    assert results == [1.0, 2.0]


def test_several_threads_may_compile_and_run_it():
    def negated(x, out):
        for i in range(x.shape[0]):
            out[i] = -x[i]

    op = ng.custom_op("negated", negated, shape=lambda x: x.shape)

    def work(k):
        for _ in range(20):
            np.testing.assert_array_equal(op(X + k).numpy(), -(X + k))

    run_in_threads(work, range(4))


# Numbers


def power_kernel(x, out, factor, exponent, negate):
    for i in range(x.shape[0]):
        out[i] = factor * x[i] ** exponent
        if negate:
            out[i] = -out[i]


power = ng.custom_op(
    "scaled_power",
    power_kernel,
    shape=lambda x, *, factor, exponent=2, negate=False: x.shape,
    vjp=lambda g, out, x, factor, exponent, negate: (
        power(x, factor=factor * exponent, exponent=exponent - 1, negate=negate) * g
    ),
)


def test_keyword_arguments_are_numbers_of_the_kernel(engine):
    np.testing.assert_allclose(power(X, factor=0.5).numpy(), 0.5 * X**2, rtol=1e-15)
    np.testing.assert_allclose(
        power(x=X, factor=-2, exponent=3, negate=True).numpy(), 2 * X**3, rtol=1e-15
    )
    assert "scaled_power(x, *, factor, exponent=2, negate=False)" in repr(power)


def test_equal_numbers_of_different_kinds_are_not_mixed_up(engine):
    def kind(x, out, value):
        out[0] = value / 2  # 0.5 for a float; of integers, too

    def is_negative_zero(x, out, value):
        out[0] = 1.0 / value

    op = ng.custom_op("kind", kind, shape=lambda x, *, value: (1,))
    assert [float(op(X, value=v)[0]) for v in (1, 1.0, True, np.float32(1))] == [0.5] * 4
    assert {k.kernel for k in [op]} == {op.kernel}
    sign = ng.custom_op("is_negative_zero", is_negative_zero, shape=lambda x, *, value: (1,))
    if engine == "native":  # Python raises
        assert [float(sign(X, value=v)[0]) for v in (0.0, -0.0)] == [np.inf, -np.inf]


def test_numbers_are_words_of_a_plan_and_compile_nothing():
    compiled = []
    for factor in (1.0, 2.0, 3.0):
        f = ng.jit(lambda x, factor=factor: power(x, factor=factor))
        compiled.append(f.lower(X).kernels[0].kernel.address)
        np.testing.assert_array_equal(f(X), factor * X**2)
    assert len(set(compiled)) == 1


def test_gradient_with_numbers():
    ng.testing.check_gradients(lambda x: power(x, factor=0.5, exponent=4), X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factor": "2"}, "`factor` must be an int, a float or a bool"),
        ({"factor": np.ones(2)}, "`factor` must be an int, a float or a bool"),
        ({"factor": 1 << 70}, "does not fit"),
        ({}, r"(?s)other arguments.*scaled_power\(x, \*, factor"),
        ({"factor": 1, "other": 2}, "other arguments"),
    ],
)
def test_wrong_numbers(arguments, message):
    with pytest.raises((TypeError, OverflowError), match=message):
        power(X, **arguments)


def test_wrong_number_of_arrays():
    with pytest.raises(TypeError, match=r"(?s)cube: called with other.*arrays *: 2.*cube\(x\)"):
        cube(X, X)


# Several results


def extremes_kernel(x, values, where):
    for i in range(x.shape[0]):
        where[i] = np.argmax(x[i])
        values[i] = x[i, where[i]]


extremes = ng.custom_op(
    "extremes",
    extremes_kernel,
    shape=lambda x: [x.shape[:1], x.shape[:1]],
    dtype=[None, np.int64],
    vjp=lambda g, out, x: ng.where(np.arange(x.shape[1]) == out[1][:, None], g[0][:, None], 0),
)


def moments_kernel(x, mean, powers):
    mean[()] = x.sum() / x.size
    for i in range(x.size):
        powers[0, i] = x[i] ** 2
        powers[1, i] = x[i] ** 3


moments = ng.custom_op(
    "moments",
    moments_kernel,
    shape=lambda x: [(), (2, x.size)],
    vjp=lambda g, out, x: g[0] / x.size + 2 * x * g[1][0] + 3 * x**2 * g[1][1],
)


def test_several_results(engine):
    mean, powers = moments(X)
    np.testing.assert_allclose(mean.numpy(), X.mean(), rtol=1e-15)
    np.testing.assert_allclose(powers.numpy(), [X**2, X**3], rtol=1e-15)
    ng.testing.check_gradients(moments, X)
    ng.testing.check_gradients(lambda x: moments(x)[1], X)


@pytest.mark.thorough(but="^native-int32-float64|reference")
@pytest.mark.parametrize("of_values", [np.float64, np.float32])
@pytest.mark.parametrize("of_positions", [np.int64, np.int32, np.uint64])
def test_several_results_of_different_dtypes(engine, of_values, of_positions):
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(of_values)
    x[2, 1] = np.nan
    op = ng.custom_op(
        "extremes_of",
        extremes_kernel,
        shape=lambda x: [x.shape[:1], x.shape[:1]],
        dtype=lambda x: [x.dtype, of_positions],
    )
    for values, where in (op(x), ng.jit(op)(x)):
        assert (values.dtype, where.dtype) == (of_values, of_positions)
        np.testing.assert_array_equal(np.asarray(where), np.argmax(x, 1))
        np.testing.assert_array_equal(np.asarray(values), x[np.arange(5), np.argmax(x, 1)])


def test_bits_of_several_results_stay_as_they_are():
    numbers = np.array([0, 1, -1, 1 << 31, 1 << 32, (1 << 62) + 5, -(1 << 63), -(1 << 31)])

    def split(x, small, large, floats):
        for i in range(x.shape[0]):
            small[i] = x[i]
            large[i] = x[i]
            floats[i] = x[i]

    op = ng.custom_op(
        "split",
        split,
        shape=lambda x: [x.shape, x.shape, x.shape],
        dtype=[np.int32, np.int64, np.float64],
    )
    small, large, floats = op(numbers)
    np.testing.assert_array_equal(small.numpy(), numbers.astype(np.int32))
    np.testing.assert_array_equal(large.numpy(), numbers)
    np.testing.assert_array_equal(floats.numpy(), numbers.astype(float))


def test_gradient_of_one_of_several_results():
    x = np.random.default_rng(0).standard_normal((5, 3))
    expected = (x == x.max(1, keepdims=True)).astype(float)
    np.testing.assert_array_equal(ng.grad(lambda x: extremes(x)[0].sum())(x), expected)


def test_a_list_of_one_shape_gives_a_tuple():
    op = ng.custom_op("listed", cube_kernel, shape=lambda x: [x.shape], vjp=lambda g, out, x: g[0])
    (y,) = op(X)
    np.testing.assert_array_equal(y.numpy(), X**3)
    np.testing.assert_array_equal(ng.grad(lambda x: op(x)[0].sum())(X), np.ones(4))


def test_results_that_do_not_fit_in_one_array():
    op = ng.custom_op(
        "unequal",
        moments_kernel,
        shape=lambda x: [(), (2, x.size)],
        dtype=[np.complex64, np.float64],
    )
    with pytest.raises(DTypeError, match=r"(?s)unequal: several results.*result 0 : complex64"):
        op(X)


# Derivatives


def test_gradients_of_any_order(engine):
    ng.testing.check_gradients(lambda x: cube(x) * x, X, order=3)


def test_gradient_in_a_plan():
    f = ng.jit(ng.value_and_grad(lambda x: (cube(x) * x).sum()))
    value, gradient = f(X)
    np.testing.assert_allclose(value, np.sum(X**4), rtol=1e-14)
    np.testing.assert_allclose(gradient, 4 * X**3, rtol=1e-14)


def test_hessian_and_forward_mode():
    np.testing.assert_allclose(ng.hessian(lambda x: cube(x).sum())(X), np.diag(6 * X), rtol=1e-14)
    value, tangent = ng.jvp(cube, (X,), (np.ones(4),))
    np.testing.assert_allclose(value, X**3)
    np.testing.assert_allclose(tangent, 3 * X**2)


def test_backward_is_that_of_torch():
    x = ng.tensor(X, requires_grad=True)
    y = cube(x)
    assert y.grad_fn.name() == "cubeBackward"
    assert y.requires_grad
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X**2, rtol=1e-14)
    with pytest.raises(GradientError, match="second time"):
        y.sum().backward()
    with ng.no_grad():
        assert not cube(x).requires_grad


def test_a_computed_result_is_not_computed_again_for_its_derivative():
    given = []

    def vjp(g, out, x):
        given.append(out)
        return g * 3 * out / x

    op = ng.custom_op("known", cube_kernel, shape=lambda x: x.shape, vjp=vjp)
    x = ng.tensor(X, requires_grad=True)
    y = op(x)
    np.testing.assert_array_equal(y.detach().numpy(), X**3)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2, rtol=1e-15)
    assert given[0] is y


def test_a_jitted_function_in_another():
    inner = ng.jit(lambda x: cube(x) * 2)
    outer = ng.jit(ng.grad(lambda x: (inner(inner(x))).sum()))
    np.testing.assert_allclose(outer(X), 9 * 16 * X**8, rtol=1e-13)


def test_an_input_without_a_derivative():
    def take(x, i, out):
        out[()] = x[i[()]]

    op = ng.custom_op(
        "take_one",
        take,
        shape=lambda x, i: (),
        dtype=lambda x, i: x.dtype,
        vjp=lambda g, out, x, i: (ng.where(np.arange(x.shape[0]) == i, g, 0), None),
    )
    np.testing.assert_array_equal(ng.grad(lambda x: op(x, 2))(X), [0, 0, 1, 0])


def test_no_vjp_is_an_error_with_the_name():
    op = ng.custom_op("rough", cube_kernel, shape=lambda x: x.shape)
    assert not op(X).requires_grad
    y = op(ng.tensor(X, requires_grad=True))
    with pytest.raises(GradientError, match=r"(?s)rough: has no derivative.*vjp=lambda g, out, x"):
        y.sum().backward()
    with pytest.raises(GradientError, match="rough: has no derivative"):
        ng.jit(ng.grad(lambda x: op(x).sum()))(X)


def test_an_error_in_a_vjp_names_the_operation():
    op = ng.custom_op(
        "failing", cube_kernel, shape=lambda x: x.shape, vjp=lambda g, out, x: g.reshape(7)
    )
    with pytest.raises(ShapeError) as caught:
        ng.grad(lambda x: op(x).sum())(X)
    assert "in the vjp of failing" in caught.value.__notes__


@pytest.mark.parametrize(
    ("vjp", "message"),
    [
        (lambda g, out, x: (g, g), r"(?s)careless: its vjp must return .*returned : 2"),
        (lambda g, out, x: g[:2], "invalid gradient at index 0"),
        (lambda g, out, x: np.ones(4), "expected a Tensor or None for argument 0"),
    ],
)
def test_wrong_vjp(vjp, message):
    op = ng.custom_op("careless", cube_kernel, shape=lambda x: x.shape, vjp=vjp)
    with pytest.raises(GradientError, match=message):
        ng.grad(lambda x: op(x).sum())(X)


# Batches


@pytest.mark.thorough(but="native-False|reference")
@pytest.mark.parametrize("jitted", [False, True])
def test_vmap_calls_it_for_each_member(engine, jitted):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((6, 3, 4)), rng.standard_normal((6, 4))

    def row_products(x, w, out):
        for i in range(x.shape[0]):
            out[i] = np.sum(x[i] * w)

    op = ng.custom_op(
        "row_products",
        row_products,
        shape=lambda x, w: x.shape[:1],
        vjp=lambda g, out, x, w: (g[:, None] * w, (g[:, None] * x).sum(0)),
    )
    wrapped = ng.jit if jitted else (lambda f: f)
    both = wrapped(ng.vmap(op))
    np.testing.assert_allclose(both(x, w), np.einsum("bij,bj->bi", x, w), rtol=1e-12)
    first = wrapped(ng.vmap(op, in_axes=(0, None)))
    np.testing.assert_allclose(first(x, w[0]), x @ w[0], rtol=1e-12)
    nested = wrapped(ng.vmap(ng.vmap(op, in_axes=(None, 0)), in_axes=(0, None)))
    np.testing.assert_allclose(nested(x, w), np.einsum("bij,cj->bci", x, w), rtol=1e-12)
    gradient = wrapped(ng.vmap(ng.grad(lambda x, w: op(x, w).sum(), argnums=1)))
    np.testing.assert_allclose(gradient(x, w), x.sum(1), rtol=1e-12)


def test_vmap_of_several_results_and_of_tasks():
    x = np.random.default_rng(0).standard_normal((6, 5))
    means, powers = ng.vmap(moments)(x)
    np.testing.assert_allclose(means, x.mean(1), rtol=1e-13)
    np.testing.assert_allclose(powers, np.stack([x**2, x**3], 1), rtol=1e-13)
    np.testing.assert_array_equal(ng.vmap(where_cut)(x), np.zeros((6, 5)))
    assert ng.vmap(cube)(np.zeros((0, 3))).shape == (0, 3)


# Tasks


def where_cut_kernel(first, last, x, out):
    for i in range(first, last):
        out[i] = first


where_cut = ng.custom_op(
    "where_cut",
    where_cut_kernel,
    shape=lambda x: x.shape,
    tasks=lambda x: x.shape[0],
    grain=10,
)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_tasks(threads):
    with ng.configure(threads=threads):
        first = where_cut(np.zeros(1000)).numpy()
        cuts = np.unique(first)
        assert len(cuts) == 1 if threads == 1 else len(cuts) > 1
        assert np.all(np.diff(np.flatnonzero(np.diff(first))) >= 10)
        np.testing.assert_array_equal(where_cut(np.zeros(9)).numpy(), np.zeros(9))


def test_a_wrong_number_of_tasks():
    op = ng.custom_op(
        "halved", where_cut_kernel, shape=lambda x: x.shape, tasks=lambda x: x.size / 2
    )
    with pytest.raises(KernelError, match=r"halved: `tasks` must be an int"):
        op(X).numpy()


# Elementwise


def test_elementwise_kernels_broadcast(engine):
    def mixed(x, y):
        return x * x + y if x > y else y

    op = ng.custom_op(
        "mixed",
        mixed,
        elementwise=True,
        vjp=lambda g, out, x, y: (ng.where(x > y, 2 * x, 0) * g, g),
    )
    y = np.array([[0.25], [-3.0]])
    expected = np.where(y < X, X * X + y, y)
    np.testing.assert_allclose(op(X, y).numpy(), expected, rtol=1e-15)
    np.testing.assert_allclose(op(X, 0.25).numpy(), expected[0], rtol=1e-15)
    assert op(1.0, 2.0).shape == ()
    assert op(np.zeros((0, 4)), X).shape == (0, 4)
    assert op(X.astype(np.float32), 1).dtype == np.float32
    ng.testing.check_gradients(op, X, y)
    np.testing.assert_allclose(ng.vmap(op, in_axes=(None, 0))(X, y), expected, rtol=1e-15)
    with pytest.raises(ShapeError, match=r"(?s)mixed: shapes do not broadcast.*x.*y"):
        op(X, np.zeros(3))


def test_elementwise_kernels_of_numba_with_another_dtype():
    @numba.njit
    def is_small(x):
        return abs(x) < 1

    op = ng.custom_op("is_small", is_small, elementwise=True, dtype=bool)
    x = np.linspace(-2, 2, 100_000)
    np.testing.assert_array_equal(ng.jit(op)(x), np.abs(x) < 1)


def test_an_elementwise_kernel_from_a_ufunc():
    @numba.vectorize
    def shifted_product(x, y):
        return x * y + 1

    op = ng.custom_op("shifted_product", shifted_product, elementwise=True)
    np.testing.assert_array_equal(op(X, X).numpy(), X * X + 1)


@pytest.mark.parametrize(
    ("kernel", "more", "message"),
    [
        (cube_kernel, {"shape": lambda x: x.shape}, "an elementwise operation has no shape"),
        (lambda x, *, k: x, {}, "an elementwise operation has no keyword arguments"),
    ],
)
def test_what_elementwise_operations_do_not_have(kernel, more, message):
    with pytest.raises(TypeError, match=message):
        ng.custom_op("elements", kernel, elementwise=True, **more)


# Exceptions


def picky_kernel(x, out):
    for i in range(x.shape[0]):
        if x[i] < 0:
            raise ValueError("negative at", i)
        out[i] = x[i]
    if x.shape[0] > 100:
        raise OverflowError("too long")


picky = ng.custom_op("picky", picky_kernel, shape=lambda x: x.shape)


@pytest.mark.parametrize("wrapped", [ng.jit, lambda f: lambda x: f(x).numpy()])
def test_an_exception_in_a_kernel_is_raised_with_the_name(wrapped):
    f = wrapped(picky)
    for _ in range(2):
        np.testing.assert_array_equal(f(np.ones(4)), np.ones(4))
        with pytest.raises(ValueError, match="negative at") as caught:
            f(X)
        assert caught.value.args == ("negative at", 1)
        assert caught.value.__notes__ == ["in the kernel of picky"]
    with pytest.raises(OverflowError, match="too long"):
        f(np.ones(101))


def test_an_exception_in_one_of_several_threads():
    def last_task(first, last, x, out):
        for i in range(first, last):
            if i == 999:
                raise RuntimeError("the last")

    op = ng.custom_op("last_task", last_task, shape=lambda x: (), tasks=lambda x: 1000, grain=1)
    with ng.configure(threads=2), pytest.raises(RuntimeError, match="the last"):
        op(X).numpy()


def test_bounds_are_checked_where_numba_is_told_to():
    @numba.njit(boundscheck=True)
    def beyond(x, out):
        out[0] = x[x.shape[0]]

    op = ng.custom_op("beyond", beyond, shape=lambda x: (1,))
    with pytest.raises(IndexError, match="out of bounds") as caught:
        op(X).numpy()
    assert caught.value.__notes__ == ["in the kernel of beyond"]


# What Numba compiles


def test_a_function_of_given_types():
    @numba.njit("void(float64[::1], float64[::1])")
    def same(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i]

    op = ng.custom_op("same", same, shape=lambda x: x.shape)
    np.testing.assert_array_equal(op(X).numpy(), X)
    with pytest.raises(KernelError, match="same: its kernel is compiled for other types"):
        op(X.astype(np.float32)).numpy()


@pytest.mark.thorough
def test_numbas_own_cache_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    path = tmp_path / "kernels_of_mine.py"
    path.write_text(
        "import numba\n\n"
        "@numba.njit(cache=True)\n"
        "def triple(x, out):\n"
        "    t = x + x\n"
        "    out[:] = t + x\n"
    )
    hits = []
    for _ in range(2):
        spec = importlib.util.spec_from_file_location("kernels_of_mine", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        op = ng.custom_op("triple", module.triple, shape=lambda x: x.shape)
        np.testing.assert_array_equal(op(X).numpy(), 3 * X)
        function = module.triple.py_func
        (own,) = [d for d in compilation._dispatchers.values() if d.py_func is function]
        hits.append(sum(own.stats.cache_hits.values()))
    assert hits == [0, 1]


NAMES = ["not", "of", "an", "array"]  # no text for the disk cache: compiled in each process


def counts_names(x, out):
    out[0] = len(NAMES)


def test_numba_told_not_to_compile(monkeypatch):
    op = ng.custom_op("counts_names", counts_names, shape=lambda x: (1,))
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(KernelError, match=r'(?s)NUMBA_DISABLE_JIT.*engine="reference"'):
        op(X).numpy()
    with ng.configure(engine="reference"):
        assert op(X).numpy() == 4


def writes_to_input(x, out):
    x[0] = 1.0


def returns(x, out):
    return x[0]


def runs_python(x, out):
    with numba.objmode():
        x.sum()


def takes_more(x, y, out):
    out[:] = x


def is_no_numba(x, out):
    out[0] = "text"


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (writes_to_input, r"(?s)wrong: Numba cannot compile this kernel.*x .*readonly"),
        (returns, r"(?s)wrong: a kernel must write.*returns : float64"),
        (runs_python, r"(?s)wrong: a kernel cannot run Python code"),
        (takes_more, r"(?s)wrong: its kernel cannot be called with 2 arguments.*\(x, y, out\)"),
        (is_no_numba, r"(?s)wrong: Numba cannot compile this kernel.*result"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_kernels_that_cannot_be(kernel, message):
    op = ng.custom_op("wrong", kernel, shape=lambda x: x.shape)
    with pytest.raises(KernelError, match=message):
        op(X).numpy()


def test_inputs_are_read_only_in_python_too():
    op = ng.custom_op("writes", writes_to_input, shape=lambda x: x.shape)
    with ng.configure(engine="reference"), pytest.raises(ValueError, match="read-only"):
        op(X).numpy()


# Definitions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "f", "shape": lambda x: ()}, "f: needs a kernel"),
        ({"name": "f", "cpu": cube_kernel}, "f: needs a rule for the shape"),
        ({"name": "f", "cpu": 3, "shape": lambda x: ()}, "f: `cpu` must be a function that Numba"),
        ({"name": "f", "cpu": np.sin, "elementwise": True}, "f: `cpu` must be .*(?s:.*)numba.njit"),
        ({"name": "f", "cpu": cube_kernel, "shape": lambda *x: ()}, "(?s)at least one array.*x"),
        ({"name": "f", "cpu": cube_kernel, "shape": lambda: ()}, "at least one array"),
        ({"name": "f", "cpu": cube_kernel, "shape": (3,)}, "f: `shape` must be a function"),
    ],
)
def test_definitions_that_do_not_fit_together(arguments, message):
    with pytest.raises(TypeError, match=message):
        ng.custom_op(**arguments)


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({"shape": lambda x: (-1,)}, ShapeError, r"(?s)ruled: its rule for `shape`.*\(-1,\)"),
        ({"shape": lambda x: x}, ShapeError, "ruled: its rule for `shape`"),
        ({"shape": lambda x: [], "dtype": None}, ShapeError, "a shape and a dtype for each"),
        ({"shape": lambda x: [(), ()], "dtype": [None]}, ShapeError, "a shape and a dtype"),
        ({"shape": lambda x: (), "dtype": object}, DTypeError, "not a supported dtype"),
        ({"shape": lambda x: (x.shape[2],)}, IndexError, "tuple index"),
    ],
)
def test_rules_that_give_something_else(rules, error, message):
    op = ng.custom_op("ruled", cube_kernel, **rules)
    with pytest.raises(error, match=message) as caught:
        op(X)
    if error is IndexError:
        assert "in the rule for `shape` of ruled" in caught.value.__notes__[0]


# For CUDA


def cuda_kernel(x, out):
    pass


def test_without_a_kernel_for_the_cpu():
    op = ng.custom_op("far_away", cuda=cuda_kernel, shape=lambda x: x.shape)
    with pytest.raises(
        DeviceError, match=r"(?s)far_away: has no kernel for cpu, where its inputs are.*cpu="
    ):
        op(X)


def test_on_a_device_that_has_no_kernel():
    x = wrap(argument(array_type((3,), FLOAT64, "cuda:1")))
    with pytest.raises(DeviceError, match=r"(?s)cube: has no kernel for cuda:1.*cuda=\.\.\."):
        cube(x)


def test_arguments_and_launch_of_a_cuda_kernel():
    op = ng.custom_op(
        "launched",
        cuda=cuda_kernel,
        shape=lambda x, *, width, scale: [x.shape, ()],
        dtype=[None, np.int32],
        launch=lambda x, width, scale: ((x.shape[0] // width, 2), 128, 1024),
    )
    inputs, numbers = [array_type((64, 3), FLOAT64)], [("int64", 16), ("float64", 0)]
    assert op.kernel.launch(inputs, numbers) == CudaLaunch((4, 2, 1), (128, 1, 1), 1024)
    assert op.kernel.arguments(inputs, numbers) == (
        ArrayArgument(FLOAT64, 2, False),
        ArrayArgument(FLOAT64, 2, True),
        ArrayArgument(np.dtype(np.int32), 0, True),
        NumberArgument(INT64),
        NumberArgument(FLOAT64),
    )
    default = ng.custom_op("by_default", cuda=cuda_kernel, shape=lambda x: x.shape)
    assert default.kernel.launch(inputs, []) == CudaLaunch((1, 1, 1), (256, 1, 1))


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (lambda x: 3, "must give a grid and a block"),
        (lambda x: (0, 32), "not a grid that CUDA can launch"),
        (lambda x: (1, (64, 32)), "(?s)not a block .*1024 threads"),
        (lambda x: (1, (1, 1, 65)), "(?s)not a block .*at most 1024, 1024, 64"),
        (lambda x: ((1, 65536), 32), "(?s)not a grid .*at most 2147483647, 65535, 65535"),
        (lambda x: ((1, 1, 1, 1), 32), "not a grid that CUDA can launch"),
        (lambda x: (1.5, 32), "`grid` must be an int"),
        (lambda x: (1, 32, -1), "`shared_bytes` must be an int"),
    ],
)
def test_launches_that_cannot_be(launch, message):
    op = ng.custom_op("launched", cuda=cuda_kernel, shape=lambda x: x.shape, launch=launch)
    with pytest.raises(
        KernelError, match=f"launched: .*{message}" if "?" not in message else message
    ):
        op.kernel.launch([array_type((4,), FLOAT64)], [])
