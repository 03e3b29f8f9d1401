"""`scan`, `fori_loop`, `while_loop`, `map`: against the same loop in Python."""

import dataclasses
import gc
import signal
import threading
import time

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import programs
from numba_grad.compiler.building import build
from numba_grad.compiler.control_flow import loops
from numba_grad.config import configure
from numba_grad.errors import GradientError, ShapeError, TracingError
from numba_grad.graph import traced_bodies

RNG = np.random.default_rng(5)
XS = np.linspace(0.5, 1.5, 7)


@dataclasses.dataclass
class Particle:
    position: object
    momentum: object
    label: object = None


def step(c, x):
    return np.sin(c) * x, c * x


def scanned(c, xs, **options):
    final, ys = ng.scan(step, c, xs, **options)
    return final + (ys * ys).sum()


def looped(c, xs, reverse=False):
    rows = [None] * len(xs)
    for k in range(len(xs))[:: -1 if reverse else 1]:
        c, rows[k] = step(c, xs[k])
    return c + (np.stack(rows) ** 2).sum()


def assert_same(result, expected, rtol=1e-12):
    for x, y in zip(result, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-14)


def numbers(result):
    return [np.asarray(x.detach() if isinstance(x, ng.Tensor) else x) for x in result]


def newton(a):
    """The square root."""
    return ng.while_loop(lambda x: np.abs(x * x - a) > 1e-13, lambda x: (x + a / x) / 2, a)


def counted(a, count):
    """A `while` whose number of steps is an argument."""
    return ng.while_loop(
        lambda c: c[0] < count, lambda c: (c[0] + 1, np.sin(c[1] * a) + 0.1 * c[1] * c[1]), (0, a)
    )[1]


def counted_in_python(a, count):
    c = a
    for _ in range(count):
        c = np.sin(c * a) + 0.1 * c * c
    return c


# Values and derivatives


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_scan_has_value_and_gradient_of_the_loop_in_python(transform, reverse):
    f = transform(ng.value_and_grad(lambda c, xs: scanned(c, xs, reverse=reverse), (0, 1)))
    value, gradients = f(0.3, XS)
    expected, of_loop = ng.value_and_grad(lambda c, xs: looped(c, xs, reverse), (0, 1))(0.3, XS)
    assert_same([value, *gradients], [expected, *of_loop])


def test_second_derivatives_of_scan():
    result = ng.hessian(scanned, (0, 1))(0.3, XS)
    expected = ng.hessian(looped, (0, 1))(0.3, XS)
    for row, expected_row in zip(result, expected, strict=True):
        assert_same(row, expected_row, rtol=1e-11)


def test_gradients_agree_with_finite_differences():
    ng.autograd.gradcheck(
        scanned,
        (ng.tensor(0.3, requires_grad=True), ng.tensor(XS, requires_grad=True)),
    )
    ng.autograd.gradgradcheck(lambda a: counted(a, 5), (ng.tensor(0.7, requires_grad=True),))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_floats_and_complex_numbers(dtype):
    xs = (np.arange(5) / 5 + 0.1).astype(dtype)
    if np.iscomplexobj(xs):
        xs += xs.dtype.type(0.3j)

    def by_scan(xs):
        return ng.scan(lambda c, x: (np.sin(c) * x + x, None), xs[0], xs)[0].real

    def by_loop(xs):
        c = xs[0]
        for k in range(5):
            c = np.sin(c) * xs[k] + xs[k]
        return c.real

    rtol = 1e-5 if xs.real.dtype == np.float32 else 1e-13
    result, expected = ng.value_and_grad(by_scan)(xs), ng.value_and_grad(by_loop)(xs)
    assert result[0].dtype == xs.real.dtype
    assert result[1].dtype == dtype
    assert_same(result, expected, rtol)


@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_while_is_differentiated_whatever_its_length(transform):
    np.testing.assert_allclose(transform(newton)(2.0), np.sqrt(2), rtol=1e-14)
    np.testing.assert_allclose(transform(ng.grad(newton))(2.0), 0.5 / np.sqrt(2), rtol=1e-12)
    for count in (0, 1, 9):
        value = transform(ng.value_and_grad(counted))(0.7, count)
        assert_same(value, ng.value_and_grad(counted_in_python)(0.7, count))


@pytest.mark.thorough
def test_higher_derivatives_of_while():
    f, expected = counted, counted_in_python
    for _ in range(3):
        f, expected = ng.grad(f), ng.grad(expected)
        np.testing.assert_allclose(f(0.7, 9), expected(0.7, 9), rtol=1e-11)


def test_forward_mode_and_its_mixtures():
    _, tangent = ng.jvp(lambda a: counted(a, 9), (0.7,), (1.0,))
    first, second = (ng.grad(counted_in_python), ng.grad(ng.grad(counted_in_python)))
    np.testing.assert_allclose(tangent, first(0.7, 9), rtol=1e-12)
    _, over_reverse = ng.jvp(lambda a: ng.grad(counted)(a, 9), (0.7,), (1.0,))
    reverse_over = ng.grad(lambda a: ng.jvp(lambda a: counted(a, 9), (a,), (1.0,))[1])(0.7)
    assert_same([over_reverse, reverse_over], [second(0.7, 9)] * 2, rtol=1e-11)
    np.testing.assert_allclose(
        ng.jacfwd(lambda xs: scanned(0.3, xs))(XS), ng.grad(looped, 1)(0.3, XS), rtol=1e-12
    )


def test_fori_loop_is_range():
    assert int(ng.fori_loop(-2, 5, lambda i, total: total + i, 0)) == sum(range(-2, 5))
    assert float(ng.fori_loop(5, 2, lambda i, x: x * 2, 1.0)) == 1.0


@pytest.mark.parametrize("argument", [5, np.int64(5), np.int32(5)], ids=["int", "int64", "int32"])
def test_one_compilation_for_all_bounds_that_are_known_when_the_loop_runs(argument):
    traces = []

    @ng.jit
    def power(x, n):
        traces.append(n)
        return ng.fori_loop(0, n, lambda i, y: y * x + i, 1.0)

    gradient = ng.jit(ng.grad(lambda x, n: ng.fori_loop(0, n, lambda i, y: y * x, 1.0)))
    for n in (argument, type(argument)(2), type(argument)(0), type(argument)(-3)):
        expected = 1.0
        for i in range(int(n)):
            expected = expected * 0.9 + i
        np.testing.assert_allclose(power(0.9, n), expected, rtol=1e-15)
        n = max(int(n), 0)
        np.testing.assert_allclose(gradient(0.9, type(argument)(n)), n * 0.9 ** max(n - 1, 0))
    assert len(traces) == 1


def test_scan_of_a_length_that_is_known_when_it_runs():
    f = ng.jit(lambda n: ng.scan(lambda c, _: ((c[0] * 2, c[1]), None), (1.0, 3), None, n))
    (doubled, same), nothing = f(np.int64(10))
    assert (float(doubled), int(same), nothing) == (1024.0, 3, None)
    with pytest.raises(TracingError, match="so the shape of ys"):
        ng.jit(lambda n: ng.scan(lambda c, _: (c, c), 1.0, None, n))(3)
    with pytest.raises(TracingError, match="there are rows for some number"):
        ng.jit(lambda n: ng.scan(lambda c, x: (c, x), 1.0, XS, n))(7)


def test_map_is_the_function_of_each_row():
    x = RNG.standard_normal((5, 3))
    for size in (None, 1, 2, 5, 9):
        value, gradient = ng.value_and_grad(
            lambda x: ng.map(lambda row: {"s": (row * row).sum(), "n": None}, x, batch_size=size)[  # noqa: B023
                "s"
            ].sum()
        )(x)
        np.testing.assert_allclose(value, (x * x).sum(), rtol=1e-14)
        np.testing.assert_array_equal(gradient, 2 * x)
    empty = ng.map(lambda row: row.sum(), np.zeros((0, 3)), batch_size=2)
    assert (empty.shape, empty.dtype) == ((0,), np.float64)


# What is carried


def test_containers_are_carried():
    init = {"p": Particle(np.ones(2), np.zeros(2)), "t": (0.0, None, [3])}

    def move(state, x):
        p, (t, nothing, [n]) = state["p"], state["t"]
        p = Particle(p.position + x * p.momentum, p.momentum - x * p.position, p.label)
        return {"t": (t + x, nothing, [n + 1]), "p": p}, (p.position, {"t": t})

    final, (positions, times) = ng.scan(move, init, np.arange(3.0))
    state, rows = init, []
    for x in range(3):
        state, y = move(state, float(x))
        rows.append(y)
    assert isinstance(final["p"], Particle)
    assert final["p"].label is None
    np.testing.assert_array_equal(final["p"].momentum, state["p"].momentum)
    np.testing.assert_array_equal(positions, np.stack([y[0] for y in rows]))
    np.testing.assert_array_equal(times["t"], [0.0, 0.0, 1.0])
    assert [int(final["t"][2][0]), float(final["t"][0])] == [6, 3.0]


def test_nothing_may_be_carried_and_nothing_returned():
    assert ng.scan(lambda c, x: (None, None), None, length=3) == (None, None)
    none, doubled = ng.scan(lambda c, x: (None, 2 * x), None, XS)
    assert none is None
    np.testing.assert_array_equal(doubled, 2 * XS)
    assert ng.fori_loop(0, 3, lambda i, c: c, ()) == ()


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_carries_swapped_passed_through_and_doubled(length):
    def turn(c, x):
        a, b, d, _ = c
        return (b, a, d, a), (a, a, x)

    def weighed(init, xs):
        (a, b, d, e), (y, z, w) = ng.scan(turn, init, xs)
        return a + 2 * b + 3 * d + 5 * e + y.sum() + 7 * (z * w).sum()

    def in_python(init, xs):
        total = 0.0
        for k in range(length):
            a = init[0]
            init, _ = turn(init, xs[k])
            total = total + a + 7 * a * xs[k]
        return total + init[0] + 2 * init[1] + 3 * init[2] + 5 * init[3]

    init, xs = (1.0, 2.0, 3.0, 4.0), np.arange(1.0, 1.0 + length)
    result = ng.value_and_grad(weighed, (0, 1))(init, xs)
    expected = ng.value_and_grad(in_python, (0, 1))(init, xs)
    assert_same([result[0], *result[1][0]], [expected[0], *expected[1][0]])
    np.testing.assert_allclose(result[1][1], expected[1][1])


def test_delay_lines_of_arrays():
    def delayed(c, x):
        a, b, d = c
        return (0.5 * d + x, a, b), d

    def in_python(a):
        c, total = (a, 2 * a, 3 * a), 0.0
        for x in XS:
            c, y = delayed(c, x)
            total = total + (y * y).sum()
        return total + c[2].sum()

    def by_scan(a):
        c, ys = ng.scan(delayed, (a, 2 * a, 3 * a), XS)
        return (ys * ys).sum() + c[2].sum()

    a = RNG.standard_normal(40)
    result, expected = ng.value_and_grad(by_scan)(a), ng.value_and_grad(in_python)(a)
    assert_same(result, expected)


def test_one_array_as_carry_rows_and_constant():
    a = np.arange(4.0)

    def by_scan(a):
        return ng.scan(lambda c, x: (c + x * a, c), a, a)[0].sum()

    np.testing.assert_array_equal(ng.grad(by_scan)(a), 13 * np.ones(4))


@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_python_numbers_in_init_take_the_dtype_of_what_follows(transform):
    xs = np.ones(3, np.float32)
    for number in (0, 0.0):
        final, ys = transform(lambda n, xs: ng.scan(lambda c, x: (c + x.sum(), c), n, xs))(
            number, xs
        )
        direct, _ = ng.scan(lambda c, x: (c + x.sum(), c), np.float32(0), xs)
        assert (final.dtype, ys.dtype, float(final)) == (direct.dtype, direct.dtype, 3.0)
        last = transform(lambda n, xs: ng.while_loop(lambda c: c < 5, lambda c: c + xs.sum(), n))(
            number, xs
        )
        assert float(last) == 6.0
    assert ng.scan(lambda c, x: (c * 2, None), 1, None, 3)[0].dtype == np.int64
    assert ng.scan(lambda c, x: (c * 1j, None), 1.0, None, 3)[0].dtype == np.complex128


def test_python_numbers_that_steps_return_take_the_dtype_of_the_carry():
    final, _ = ng.scan(lambda c, x: (0.5, None), np.float32(1), XS)
    assert (final.dtype, float(final)) == (np.float32, 0.5)
    final = ng.while_loop(lambda c: c > 0, lambda c: 0, np.float32(1))
    assert (final.dtype, float(final)) == (np.float32, 0.0)


def test_integers_and_booleans_are_carried_without_derivatives():
    def f(a):
        def body(c, x):
            n, flag, y = c
            return (n + 1, flag & (x > 0.6), np.where(flag, y * a, y) + n), n

        (_, flag, y), ns = ng.scan(body, (0, True, 1.0), XS)
        assert ns.dtype == np.int64
        assert flag.dtype == np.bool_
        return y

    def in_python(a):
        n, flag, y = 0, True, 1.0
        for x in XS:
            y = (y * a if flag else y) + n
            n, flag = n + 1, flag and x > 0.6
        return y

    assert_same(ng.value_and_grad(f)(1.3), ng.value_and_grad(in_python)(1.3))


@pytest.mark.parametrize("shape", [(0,), (0, 3), ()])
def test_empty_arrays_and_scalars_are_carried(shape):
    a = np.ones(shape)
    (final, ys), gradient = (
        ng.scan(lambda c, x: (c + x * a, c), a, np.ones(4)),
        ng.grad(lambda a: ng.scan(lambda c, x: (c * a, c), a, np.ones(4))[0].sum())(a),
    )
    assert (final.shape, ys.shape, gradient.shape) == (shape, (4, *shape), shape)
    np.testing.assert_array_equal(final, 5 * a)
    np.testing.assert_array_equal(gradient, 5 * a)


def test_no_steps_at_all():
    def f(c, a, xs):
        final, ys = ng.scan(lambda c, x: (c * a + x, c), c, xs)
        return final + ys.sum()

    value, gradients = ng.value_and_grad(f, (0, 1, 2))(3.0, 2.0, np.zeros(0))
    assert [float(x) for x in (value, *gradients[:2])] == [3.0, 1.0, 0.0]
    assert gradients[2].shape == (0,)
    assert float(ng.grad(lambda a: counted(a, 0))(0.5)) == 1.0


# Surroundings


def test_closures_over_tensors_arrays_and_pending_values():
    w = ng.tensor(2.0, requires_grad=True)
    pending, array = w * 3, np.arange(3.0)
    final, _ = ng.scan(lambda c, x: (c * pending + x * array.sum(), w * c), 1.0, np.arange(3.0))
    final.backward()

    def in_python(w):
        c = 1.0
        for x in range(3):
            c = c * (w * 3) + x * array.sum()
        return c

    np.testing.assert_allclose(final.detach(), in_python(2.0))
    np.testing.assert_allclose(w.grad, ng.grad(in_python)(2.0))


def test_arrays_closed_over_are_as_they_are_at_the_call():
    array = np.ones(3)
    f = ng.jit(lambda c: ng.fori_loop(0, 2, lambda i, c: c + array, c))
    np.testing.assert_array_equal(f(np.zeros(3)), 2 * np.ones(3))
    array[1] = 5.0
    np.testing.assert_array_equal(f(np.zeros(3)), [2.0, 10.0, 2.0])


def test_loops_in_loops():
    def in_python(a):
        v, k = 1.0, 0
        while float(v.detach() if isinstance(v, ng.Tensor) else v) < 100:
            for x in range(4):
                v = v * a + x if k % 2 else v * a
            k += 1
        return v

    def nested(a):
        def body(c):
            v, k = c
            v = ng.scan(
                lambda v, x: (
                    ng.cond(k % 2 == 1, lambda v: v * a + x, lambda v: v * a, v),
                    None,
                ),
                v,
                np.arange(4.0),
            )[0]
            return v, k + 1

        return ng.while_loop(lambda c: c[0] < 100, body, (1.0, 0))[0]

    for f in (nested, ng.jit(nested)):
        assert_same(ng.value_and_grad(f)(1.5), ng.value_and_grad(in_python)(1.5))
    second = ng.grad(ng.grad(nested))(1.5)
    np.testing.assert_allclose(second, ng.grad(ng.grad(in_python))(1.5), rtol=1e-11)


def test_loops_in_a_loop_of_pythons():
    def f(a):
        return sum(ng.fori_loop(0, k, lambda i, c: c * a + i, 1.0) for k in range(4))

    def in_python(a):
        total = 0.0
        for k in range(4):
            c = 1.0
            for i in range(k):
                c = c * a + i
            total = total + c
        return total

    assert_same(ng.value_and_grad(f)(1.5), ng.value_and_grad(in_python)(1.5))


def test_hooks_see_the_cotangents_around_a_loop():
    w, seen = ng.tensor(2.0, requires_grad=True), []
    y = w * 1
    y.register_hook(lambda g: seen.append(float(g)) or 10 * g)
    final = ng.fori_loop(0, 3, lambda i, c: c * y, 1.0)
    final.register_hook(lambda g: seen.append(float(g)))
    final.backward()
    assert seen == [1.0, 12.0]
    assert float(w.grad) == 120.0


def test_anomaly_mode_names_the_line_of_the_loop():
    a = ng.tensor(-1.0, requires_grad=True)
    with ng.autograd.detect_anomaly():
        final = ng.fori_loop(0, 2, lambda i, c: np.sqrt(c), a)
        with (
            np.errstate(invalid="ignore"),
            pytest.raises(GradientError, match=r"(?s)the derivative of loop .*test_loops\.py"),
        ):
            final.backward()


def test_random_numbers_are_those_of_their_keys():
    key = ng.random.key(0)

    def walk(a, k):
        return a * 0.9 + ng.random.normal(ng.random.fold_in(key, k)), a

    final, path = ng.scan(walk, 0.0, np.arange(20))
    a, rows = 0.0, []
    for k in range(20):
        a, y = walk(a, k)
        rows.append(np.asarray(y))
    np.testing.assert_allclose(final, a, rtol=1e-13)
    np.testing.assert_allclose(path, rows, rtol=1e-13)


# Batches


def test_anomaly_mode_and_checked_passes_know_bodies():
    def f(a, xs):
        last = ng.fori_loop(0, counted(a, 3).astype(int) + 2, lambda i, y: y * a, a)
        return scanned(a, xs, memory="2 states") + last + ng.cond(a > 0, np.sin, np.cos, a)

    expected = ng.grad(f)(0.7, XS)
    a = ng.tensor(0.7, requires_grad=True)
    with ng.autograd.detect_anomaly(), configure(check_passes=True):
        f(a, XS).backward()
        assert_same([a.grad, ng.jit(ng.grad(f))(0.7, XS)], [expected] * 2)


def test_half_precision_is_rounded_in_each_step():
    xs = np.array([0.1, 0.7, 1.3], np.float16)

    def by_scan(xs, memory=None):
        final, ys = ng.scan(lambda c, x: (np.sin(c) * x + x, c * c), xs[0], xs, memory=memory)
        return final + ys.sum()

    def by_loop(xs):
        c, ys = xs[0], []
        for k in range(3):
            ys.append(c * c)
            c = np.sin(c) * xs[k] + xs[k]
        return c + np.stack(ys).sum()

    value, gradient = ng.value_and_grad(by_scan)(xs)
    assert (value.dtype, gradient.dtype) == (np.float16, np.float16)
    assert_same([value, gradient], ng.value_and_grad(by_loop)(xs), rtol=2e-3)
    again = ng.grad(lambda xs: by_scan(xs, "1 states"))(xs)
    np.testing.assert_array_equal(again, gradient)
    halved = ng.while_loop(lambda x: x > 0.01, lambda x: x / 2, np.float16(1))
    assert (halved.dtype, float(halved)) == (np.float16, 2.0**-7)


def test_batches_of_states_rows_and_constants():
    a, xs = np.array([0.5, 2.0]), np.arange(6.0).reshape(2, 3)

    def f(c, a, xs):
        final, ys = ng.scan(lambda c, x: (c * a + x, c), c, xs)
        return final, ys

    for axes in ((0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0), (0, None, 0)):
        arguments = [v if axis == 0 else v[0] for v, axis in zip((a, a, xs), axes, strict=True)]
        result = ng.vmap(f, axes)(*arguments)
        for k in range(2):
            one = [v[k] if axis == 0 else v for v, axis in zip(arguments, axes, strict=True)]
            assert_same([y[k] for y in result], f(*one))


def test_members_of_a_while_end_at_their_own_time():
    x = np.array([2.0, 3.0, 100.0, 1e-4])
    np.testing.assert_allclose(ng.vmap(newton)(x), np.sqrt(x), rtol=1e-12)
    np.testing.assert_allclose(ng.vmap(ng.grad(newton))(x), 0.5 / np.sqrt(x), rtol=1e-9)
    np.testing.assert_allclose(
        ng.grad(lambda x: ng.vmap(newton)(x).sum())(x), 0.5 / np.sqrt(x), rtol=1e-9
    )
    trips = ng.vmap(lambda n: ng.while_loop(lambda c: c < n, lambda c: c + 1, 0))(np.arange(5))
    np.testing.assert_array_equal(trips, np.arange(5))
    np.testing.assert_allclose(
        ng.jit(ng.vmap(ng.grad(ng.grad(lambda a: counted(a, 4)))))(x[:2] / 4),
        [ng.grad(ng.grad(counted_in_python))(v / 4, 4) for v in x[:2]],
        rtol=1e-11,
    )


def test_bounds_in_a_batch():
    result = ng.vmap(lambda n: ng.fori_loop(0, n, lambda i, c: c * 2, 1))(np.array([0, 3, 5]))
    np.testing.assert_array_equal(result, [1, 8, 32])


def test_batches_of_batches():
    result = ng.vmap(
        ng.vmap(lambda a, b: ng.while_loop(lambda v: v < b, lambda v: v * a + 1, a), (None, 0)),
        (0, None),
    )(np.array([1.0, 2.0]), np.array([3.0, 10.0, 50.0]))
    np.testing.assert_array_equal(result, [[3.0, 10.0, 50.0], [5.0, 11.0, 95.0]])


# Engines


def test_the_reference_engine_says_the_same():
    def all_of(a):
        return [
            *ng.value_and_grad(lambda a: scanned(a, XS))(a),
            *ng.value_and_grad(lambda a: scanned(a, XS, memory="2 states"))(a),
            *ng.value_and_grad(lambda a: counted(a, 6))(a),
            ng.grad(ng.grad(lambda a: counted(a, 6)))(a),
        ]

    expected = numbers(all_of(0.7))
    with configure(engine="reference"):
        result = numbers(all_of(0.7))
    assert_same(result, expected)


def diffused(a):
    final, ys = ng.scan(
        lambda c, x: (c + 0.1 * x * (np.roll(c, 1, 0) - c) + 0.01 * np.sin(c), c.sum()),
        a,
        np.linspace(0, 1, 6),
    )
    return (final * final).sum() + ys.sum()


def test_bits_do_not_depend_on_threads():
    a = RNG.standard_normal((400, 500))
    bits = []
    for count in (1, 2):
        with configure(threads=count):
            bits.append([x.tobytes() for x in numbers(ng.value_and_grad(diffused)(a))])
    assert bits[0] == bits[1]


def test_a_million_steps():
    f = ng.jit(ng.value_and_grad(lambda a: ng.fori_loop(0, 1_000_000, lambda i, c: c * a + 1, 0.0)))
    assert_same(f(0.5), (2.0, 4.0))
    value = ng.while_loop(lambda c: c[0] < 1_000_000, lambda c: (c[0] + 1, c[1] + 0.5), (0, 0.0))
    assert [float(x) for x in value] == [1e6, 5e5]


def test_two_threads_run_one_jitted_loop():
    f = ng.jit(ng.value_and_grad(lambda a, n: counted(a, n)))
    expected = {n: numbers(f(0.7, n)) for n in (50, 70)}
    found = {n: [] for n in expected}

    def run(n):
        for _ in range(200):
            found[n].append(numbers(f(0.7, n)))

    threads = [threading.Thread(target=run, args=(n,)) for n in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for n, results in found.items():
        assert len(results) == 200
        assert all(x == y for result in results for x, y in zip(result, expected[n], strict=True))


def test_ctrl_c_ends_an_endless_loop():
    for size in ((), (1000,)):
        endless = ng.jit(lambda x: ng.while_loop(lambda c: c.sum() < 1e9, lambda c: c * 0.5, x))
        endless(np.full(size, 2e9))  # compiled
        times = []

        def interrupt(times=times):
            times.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

        timer = threading.Timer(0.2, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            endless(np.ones(size))
        assert time.monotonic() - times[0] < 5
        timer.join()
        np.testing.assert_array_equal(endless(np.full(size, 2e9)), np.full(size, 2e9))


def test_another_length_compiles_no_kernel():
    f = ng.grad(lambda a, xs: ng.scan(lambda c, x: (np.tanh(c * a + x), None), 0.5, xs)[0])
    f(0.5, np.ones(4))
    before = build.statistics().compilations
    for length in (5, 17, 300):
        f(0.5, np.ones(length))
    assert build.statistics().compilations == before


# Bad input


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (
            lambda: ng.scan(
                lambda c, x: ({"p": np.stack([c["p"]] * 2), "q": 0}, x), {"p": 1.0, "q": 2}, XS
            ),
            ShapeError,
            r"(?s)carry\['p'\] before a step : float64\[\].*after it +: float64\[2\]",
        ),
        (
            lambda: ng.scan(lambda c, x: (c + x, x), np.float32(1), XS),
            TypeError,
            r"(?s)carry before a step : float32.*after it +: float64.*try: init with float64",
        ),
        (
            lambda: ng.scan(lambda c, x: ((c, c), x), 1.0, XS),
            TypeError,
            r"(?s)scan: the carry after a step .*\(\*, \*\).*expected: \*",
        ),
        (
            lambda: ng.while_loop(lambda c: c < 3, lambda c: [c], 1.0),
            TypeError,
            "while_loop: val after a step does not have the structure",
        ),
        (
            lambda: ng.while_loop(lambda c: c.sum() < 3, lambda c: c[:1], np.ones(2)),
            ShapeError,
            r"(?s)val before a step : float64\[2\].*after it +: float64\[1\]",
        ),
        (
            lambda: ng.fori_loop(0, 3, lambda i, c: None, 1.0),
            TypeError,
            "fori_loop: the carry after a step does not have the structure",
        ),
        (lambda: ng.scan(lambda c, x: c, 1.0, XS), TypeError, "must return two things"),
        (lambda: ng.scan(lambda c, x: None, 1.0, XS), TypeError, "(?s)two things.*NoneType"),
        (lambda: ng.scan(lambda c, x: (c, x), 1.0, None, -1), ValueError, "a negative length"),
        (lambda: ng.scan(lambda c, x: (c, x), 1.0, None, 2.5), TypeError, "must be an integer"),
        (
            lambda: ng.scan(lambda c, x: (c, None), 1.0, (XS, {"a": XS[1:]})),
            ShapeError,
            r"(?s)xs\[0\] +: 7.*xs\[1\]\['a'\] +: 6",
        ),
        (lambda: ng.scan(lambda c, x: (c, None), 1.0, XS, 3), ShapeError, "(?s)xs .*length : 3"),
        (lambda: ng.scan(lambda c, x: (c, None), 1.0), ValueError, "how many steps"),
        (lambda: ng.scan(lambda c, x: (c, None), 1.0, 2.0), ShapeError, "0-d array has no rows"),
        (lambda: ng.scan(3, 1.0, XS), TypeError, "scan: not a function"),
        (lambda: ng.fori_loop(0, 3, 4, 1.0), TypeError, "fori_loop: not a function"),
        (lambda: ng.while_loop(True, lambda c: c, 1.0), TypeError, "while_loop: not a function"),
        (lambda: ng.map(3, XS), TypeError, "map: not a function"),
        (lambda: ng.map(np.sin, 1.0), ShapeError, "map: a 0-d array"),
        (lambda: ng.map(np.sin, XS, batch_size=0), ValueError, "at least one row"),
        (lambda: ng.map(np.sin, XS, batch_size=1.5), TypeError, "batch_size must be an integer"),
        (lambda: ng.fori_loop(0, 2.5, lambda i, c: c, 1.0), TypeError, "upper must be an integer"),
        (
            lambda: ng.jit(lambda n: ng.fori_loop(0, n, lambda i, c: c, 1.0))(2.5),
            TypeError,
            "upper must be an integer",
        ),
        (
            lambda: ng.while_loop(lambda c: c, lambda c: c - 1, 3.0),
            TypeError,
            "(?s)the condition must be one boolean.*a comparison",
        ),
        (
            lambda: ng.while_loop(lambda c: c < 1, lambda c: c, np.ones(2)),
            ShapeError,
            "(?s)the condition must be one boolean.*np.any",
        ),
    ],
)
def test_what_is_no_loop_is_refused(work, error, message):
    with pytest.raises(error, match=message):
        work()


@pytest.mark.parametrize(
    "look",
    [
        lambda x: -x if x > 1 else x,
        lambda x: x * bool(x),
        lambda x: x * float(x),
        lambda x: x * x.item(),
        lambda x: x * np.asarray(x),
    ],
    ids=["if", "bool", "float", "item", "asarray"],
)
def test_values_are_not_to_be_had_while_a_step_is_traced(look):
    with pytest.raises(TracingError, match="loops and branches"):
        ng.scan(lambda c, x: (c + look(x), None), 1.0, XS)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.numpy(),
        lambda x: float(x + 1),
        lambda x: bool(x > 0),
        lambda x: ng.jit(lambda y: x * y)(2.0).numpy(),
        lambda x: ng.scan(lambda c, y: (c + x, None), 0.0, XS)[0].numpy(),
        lambda x: ng.grad(lambda y: y * x)(2.0).numpy(),
    ],
    ids=["itself", "computed with", "compared", "in jit", "in another loop", "in grad"],
)
def test_a_tensor_that_leaks_out_of_a_step_is_refused_by_name(use):
    leaked = []

    def leaky(c, x):
        leaked.append(c * x)
        return c + x, None

    assert float(ng.scan(leaky, 1.0, XS)[0]) == 1.0 + XS.sum()
    assert "traced" in repr(leaked[-1])
    with pytest.raises(TracingError, match=r"(?s)scan: a tensor of the inside .*leaky, the func"):
        use(leaked[-1])


@pytest.mark.parametrize(
    "use", [lambda x: x + 1, lambda x: 2.0 - x, lambda x: np.sin(x), lambda x: np.stack([x, x])]
)
def test_a_leak_is_named_where_it_is_used_with_the_line_that_made_it(use):
    leaked = []

    def leaky(c, x):
        leaked.append(c * x)  # the line
        return c + x, None

    ng.scan(leaky, 1.0, XS)
    with pytest.raises(TracingError, match=r"leaky, the function of scan\n.*leaked.append.*line"):
        use(leaked[-1])
    assert leaked[-1].shape == ()  # what is known can be asked


def test_what_looks_for_leaks_goes_with_them(monkeypatch):
    # Apart from those of other tests, which may be held by what they raised.
    monkeypatch.setattr(traced_bodies, "_leaks", {})

    def watched():
        ng.tensor(1.0) + 1.0
        return bool(traced_bodies._leaks)

    leaked = []
    ng.scan(lambda c, x: (c + x, c), 1.0, XS)
    gc.collect()
    assert not watched()
    ng.scan(lambda c, x: (c + x, leaked.append(c * x)), 1.0, XS)
    assert watched()
    leaked.clear()
    assert not watched()


def test_nothing_is_looked_for_in_what_only_caches_hold(monkeypatch):
    """A body with a user's function in it stays with what is known of the loop's types."""
    monkeypatch.setattr(traced_bodies, "_leaks", {})

    def squares(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i] ** 2

    square = ng.differentiable(squares)
    halved = ng.jit(lambda x: ng.fori_loop(0, 3, lambda k, s: square(s / 2, np.zeros(4)), x))
    np.testing.assert_array_equal(halved(np.full(4, 2.0)), np.full(4, 1 / 64))
    gc.collect()
    ng.tensor(1.0) + 1.0
    assert not traced_bodies._leaks


def test_a_leak_out_of_a_function_that_raises_is_named():
    leaked = []

    def fails(c, x):
        leaked.append(c * x)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        ng.scan(fails, 1.0, XS)
    with pytest.raises(TracingError, match="fails, the function of scan"):
        leaked[0] * 2


def test_a_leak_inside_of_jit_is_refused_by_name():
    leaked = []

    @ng.jit
    def f(x):
        ng.while_loop(lambda c: c < 3, lambda c: leaked.append(c + 1) or c + 1, x)
        return leaked[-1] * 2

    with pytest.raises(TracingError, match="while_loop: a tensor of the inside"):
        f(1.0)


def test_a_step_may_not_assign_to_its_surroundings():
    u = ng.tensor(np.zeros(3))

    def sets(c, x):
        u[0] = x
        return c + u.sum(), None

    def adds(c, x):
        nonlocal u
        u += x
        return c + u.sum(), None

    for f in (sets, adds):
        with pytest.raises(TracingError, match=rf"scan: {f.__name__} assigns to a tensor of its"):
            ng.scan(f, 0.0, XS)
        with pytest.raises(TracingError, match="assigns to a tensor"):
            ng.jit(lambda xs, f=f: ng.scan(f, 0.0, xs))(XS)
    np.testing.assert_array_equal(u, np.zeros(3))


def test_a_step_may_assign_to_what_it_gets_and_makes():
    def shifted(c, x):
        c[1:] = c[:-1].copy()
        c[0] = x.sum()
        x[0] = 0.0
        made = ng.zeros(3)
        made[1] = c[0]
        return c, (made, x)

    init, xs = np.zeros(3), np.ones((4, 2)) * np.arange(4.0)[:, None]
    final, (made, rows) = ng.scan(shifted, init, xs)
    np.testing.assert_array_equal(final, [6.0, 4.0, 2.0])
    np.testing.assert_array_equal(made[:, 1], 2 * np.arange(4.0))
    np.testing.assert_array_equal(rows[:, 0], np.zeros(4))
    np.testing.assert_array_equal(init, np.zeros(3))
    np.testing.assert_array_equal(xs[:, 0], np.arange(4.0))


def bits_within_budgets(loss, *args):
    """Gradients, where all states are kept and where few are: the first ones."""
    numbers = tuple(range(len(args)))
    all_kept, few = (
        ng.jit(ng.grad(lambda *args, memory=memory: loss(*args, memory), numbers))(*args)
        for memory in (None, "3 states")
    )
    for x, y in zip(all_kept, few, strict=True):
        pairs = zip(x, y, strict=True) if isinstance(x, tuple) else [(x, y)]
        for own, other in pairs:
            assert np.asarray(own).tobytes() == np.asarray(other).tobytes()
    return all_kept


def leapfrog(speed, first, memory):
    def step(state, _):
        before, now = state
        bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
        return (now, 2 * now - before + speed * bend), None

    (before, now), _ = ng.scan(step, (first, first), length=12, memory=memory)
    return (before * now**2).sum()


@pytest.mark.thorough
def test_a_cotangent_that_is_minus_a_former_one_is_carried_as_that():
    speed, first = np.random.default_rng(5).random((2, 40))
    found = bits_within_budgets(leapfrog, speed, first)

    def in_python(speed, first):
        before = now = first
        for _ in range(12):
            bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
            before, now = now, 2 * now - before + speed * bend
        return (before * now**2).sum()

    for x, y in zip(found, ng.jit(ng.grad(in_python, (0, 1)))(speed, first), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    second = [
        ng.grad(lambda c, f=f: (ng.grad(f)(c, first) ** 2).sum())(speed)
        for f in (lambda c, u: leapfrog(c, u, None), in_python)
    ]
    np.testing.assert_allclose(*second, rtol=1e-9)
    gradient = ng.jit(ng.grad(lambda c, u: leapfrog(c, u, None))).lower(speed, first)
    assert "negative" not in [k.source.split("#")[1] for k in gradient.kernels]


def test_sums_that_are_parts_of_other_sums_are_added_up_once():
    def loss(rim, force, first, memory):
        def step(u, _):
            inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            return rim + np.pad(inner + force, 1), None

        return (ng.scan(step, first, length=9, memory=memory)[0] ** 2).sum()

    random = np.random.default_rng(6)
    rim, first = random.random((2, 12, 12))
    force = random.random((10, 10))
    of_rim, of_force, _ = bits_within_budgets(loss, rim, force, first)
    np.testing.assert_array_equal(of_rim[1:-1, 1:-1], of_force)


@pytest.mark.parametrize("reverse", [False, True])
def test_results_that_are_what_is_carried_are_stored_once(reverse):
    rows, first = np.random.default_rng(7).random((2, 30, 50))

    def loss(weight, first, memory):
        def step(u, row):
            u = np.tanh(weight * u + row)
            return u, (u, u[0])

        last, (states, heads) = ng.scan(step, first, rows, reverse=reverse, memory=memory)
        return (states[3] * last).sum() + (states**2).sum() + heads.sum()

    bits_within_budgets(loss, 0.7, first[0])

    def in_python(weight, u):
        states = [None] * 30
        for k in range(30)[:: -1 if reverse else 1]:
            u = states[k] = np.tanh(weight * u + rows[k])
        states = np.stack(states)
        return (states[3] * u).sum() + (states**2).sum() + states[:, 0].sum()

    own = ng.jit(ng.value_and_grad(lambda w, u: loss(w, u, None), (0, 1)))(0.7, first[0])
    expected = ng.value_and_grad(in_python, (0, 1))(0.7, first[0])
    for x, y in zip((own[0], *own[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_parts_of_an_array_have_sums_of_their_own():
    weights = 0.3 * np.random.default_rng(8).normal(size=(3, 20, 20))
    first = np.ones((4, 20))

    def loss(weights, first, memory):
        def step(state, _):
            x = state
            for k in range(3):
                x = np.tanh(x @ weights[k] + x)
            return x, None

        return (ng.scan(step, first, length=8, memory=memory)[0] ** 2).sum()

    of_weights, _ = bits_within_budgets(loss, weights, first)

    def in_python(weights):
        x = first
        for k in range(24):
            x = np.tanh(x @ weights[k % 3] + x)
        return (x**2).sum()

    np.testing.assert_allclose(of_weights, ng.grad(in_python)(weights), rtol=1e-11, atol=1e-13)
    graph = str(ng.jit(ng.grad(lambda w: loss(w, first, None))).lower(weights).graph)
    assert "sums=3" in graph


LAST_ROWS = {
    "row": lambda x: (x**2).sum(),
    "parts of it": lambda x: (x[3:] * x[0]).sum() + (x[::2] ** 2).sum(),
    "nothing": lambda x: 0.0,
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("read", LAST_ROWS)
def test_of_rows_that_are_carried_on_the_last_one_is_what_is_carried_out(read, reverse):
    rows, first = np.random.default_rng(9).random((2, 30, 50))
    where = 0 if reverse else -1

    def loss(weight, first, memory, *, by_rows=True):
        def step(u, row):
            new = np.tanh(weight * u["x"] + row)
            return {"x": new, "before": u["x"]}, {"new": new, "old": u["x"]}

        start = {"x": first, "before": 2 * first}
        last, rows_of = ng.scan(step, start, rows, reverse=reverse, memory=memory)
        x, before = last["x"], last["before"]
        if by_rows:
            x, before = rows_of["new"][where], rows_of["old"][where]
        return LAST_ROWS[read](x) + (before * x).sum() + last["x"].sum()

    found = bits_within_budgets(loss, 0.7, first[0])
    expected = ng.grad(lambda w, u: loss(w, u, None, by_rows=False), (0, 1))(0.7, first[0])
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
    calls = [
        ng.jit(lambda w, u, by_rows=by_rows: loss(w, u, None, by_rows=by_rows))
        for by_rows in (True, False)
    ]
    peaks = [call.lower(0.7, first[0]).peak_memory for call in calls]
    assert peaks[0] == peaks[1] < rows.nbytes
    assert calls[0](0.7, first[0]) == calls[1](0.7, first[0]) == loss(0.7, first[0], None)


def test_the_last_rows_of_a_batch_are_what_is_carried_out():
    rows, first = np.random.default_rng(10).random((2, 30, 50))

    def loss(weight, first, by_rows):
        def step(u, row):
            u = np.tanh(weight * u + row)
            return u, u

        last, states = ng.scan(step, first, rows)
        last = states[-1] if by_rows else last
        return (last**2).sum() + last[3] * last[4]

    def of_batch(weight, first, by_rows):
        return ng.vmap(lambda x: loss(weight, x, by_rows))(first).sum()

    own, expected = (
        ng.jit(ng.value_and_grad(lambda w, u, by_rows=by_rows: of_batch(w, u, by_rows), (0, 1)))
        for by_rows in (True, False)
    )
    found = own(0.7, first[:4]), expected(0.7, first[:4])
    for x, y in zip(*[(value, *gradients) for value, gradients in found], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
    assert own.lower(0.7, first[:4]).peak_memory < 1.05 * expected.lower(0.7, first[:4]).peak_memory
    values = [ng.jit(lambda w, u, r=r: of_batch(w, u, r)) for r in (True, False)]
    assert len({f.lower(0.7, first[:4]).peak_memory for f in values}) == 1
    assert values[0](0.7, first[:4]) == values[1](0.7, first[:4])


def test_rows_stay_rows_where_others_than_the_last_are_read():
    rows, first = np.random.default_rng(9).random((2, 30, 50))

    def loss(weight, read):
        def step(u, row):
            u = np.tanh(weight * u + row)
            return u, u

        return read(ng.scan(step, first[0], rows)[1])

    def states(weight):
        u = first[0]
        return np.stack([u := np.tanh(weight * u + row) for row in rows])

    for read in (
        lambda x: (x[-1] * x[-2]).sum(),
        lambda x: (x[-1] + x.sum(axis=0)).sum(),
        lambda x: (x[-2:] ** 2).sum() + x[-1, 3],
        lambda x: (x[::-1][0] * x[0]).sum(),
    ):
        found = ng.jit(ng.value_and_grad(lambda w, read=read: loss(w, read)))(0.7)
        expected = ng.value_and_grad(lambda w, read=read: read(states(w)))(0.7)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# A wave, and a third field that only reads, in one array.


def new_fields(speed, before, now, third):
    bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
    return now, 2 * now - before + speed * bend, 0.9 * third + np.sin(before)


def stacked(speed, s):
    return np.stack(new_fields(speed, s[0], s[1], s[2]))


def stacked_behind(speed, s):
    return np.stack(new_fields(speed, s[:, 0], s[..., 1], s[:, -1]), axis=-1)


def one_after_the_other(speed, s):
    n = len(speed)
    return np.concatenate(new_fields(speed, s[:n], s[n : 2 * n], s[2 * n :]))


def assigned(speed, s):
    new = ng.zeros_like(s)
    new[0] = s[1]
    new[1] = 2 * s[1] - s[0]
    new[1] += speed * (np.roll(s[1], 1) - 2 * s[1] + np.roll(s[1], -1))
    new[2] = 0.9 * s[2] + np.sin(s[0])
    return new


def assigned_to_a_copy(speed, s):
    new = s.copy()
    new[:2] = np.stack([s[1], 2 * s[1] - s[0]])
    bend = np.roll(s[1], 1) - 2 * s[1] + np.roll(s[1], -1)
    new[1, 3:] += (speed * bend)[3:]
    new[1, :3] += (speed * bend)[:3]
    new[2] = 0.9 * new[2] + np.sin(s[0])
    return new


def read_as_a_whole(speed, s):
    return stacked(speed, s) + 0.0 * s


FIELDS = {  # with how the first array is made, and how many arrays are carried
    stacked: (np.stack, 3),
    stacked_behind: (lambda fields: np.stack(fields, axis=1), 3),
    one_after_the_other: (np.concatenate, 3),
    assigned: (np.stack, 3),
    assigned_to_a_copy: (np.stack, 3),
    read_as_a_whole: (np.stack, 1),
}


def loss_of_fields(step):
    put_together, _ = FIELDS[step]
    speed, *fields = np.random.default_rng(11).random((4, 40))
    first, weights = put_together(fields), put_together([np.ones(40), np.arange(40.0), np.ones(40)])

    def loss(speed, first, memory):
        last, (states, parts) = ng.scan(
            lambda s, _: ((new := step(speed, s)), (new, new[1:2])), first, length=9, memory=memory
        )
        return (last * states[3] * weights).sum() + (parts**2).sum() + states[-1].sum()

    return loss, speed, first, weights


@pytest.mark.parametrize("step", FIELDS)
def test_fields_in_one_array_are_carried_one_by_one(step):
    loss, speed, first, _ = loss_of_fields(step)
    graph = ng.jit(lambda c, s: loss(c, s, None)).lower(speed, first).graph
    assert f"carried={FIELDS[step][1]}," in str(graph)


@pytest.mark.thorough(but="^assigned$")
@pytest.mark.parametrize("step", FIELDS)
def test_loops_of_fields_in_one_array_compute_what_python_does(step):
    loss, speed, first, weights = loss_of_fields(step)

    def in_python(speed, first):
        states, parts, s = [], 0.0, first
        for _ in range(9):
            s = step(speed, s)
            states.append(s)
            parts = parts + (s[1:2] ** 2).sum()
        return (s * states[3] * weights).sum() + parts + s.sum()

    value, found = ng.jit(ng.value_and_grad(loss, (0, 1)))(speed, first, None)
    expected, of_python = ng.jit(ng.value_and_grad(in_python, (0, 1)))(speed, first)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for x, y in zip(found, of_python, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("step", FIELDS)
def test_gradients_of_fields_within_budgets_and_forward_mode(step):
    loss, speed, first, _ = loss_of_fields(step)
    found = bits_within_budgets(loss, speed, first)
    directions = np.cos(speed), np.sin(first)
    forward = ng.jvp(lambda c, s: loss(c, s, None), (speed, first), directions)[1]
    backward = sum([(g * t).sum() for g, t in zip(found, directions, strict=True)])
    np.testing.assert_allclose(forward, backward, rtol=1e-11)


@pytest.mark.thorough
def test_fields_of_a_batch_and_second_derivatives():
    speed, *fields = np.random.default_rng(12).random((4, 40))
    first = np.stack(fields)

    def derivatives(step):
        def loss(speed, first):
            return (ng.scan(lambda s, _: (step(speed, s), None), first, length=5)[0] ** 2).sum()

        gradient = ng.grad(loss, argnums=1)
        of_batch = ng.vmap(gradient, in_axes=(None, 0))(speed, np.stack([first, 2 * first]))
        return of_batch, ng.grad(lambda c: (gradient(c, first) ** 2).sum())(speed)

    expected = derivatives(read_as_a_whole)
    for step in (stacked, assigned):
        for x, y in zip(derivatives(step), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11)


# Steps without neighbours, of little to do. Products are carried on, returned, and added up.

CHEAP_STEPS = {
    "decay": (1, lambda s, rate, row: ((rate * s[0],), None)),
    "logistic": (
        1,
        lambda s, rate, row: ((x := s[0] * rate + 0.1 * (1 - s[0]) * s[0] + row,), (x, 2 * s[0])),
    ),
    "oscillator": (
        2,
        lambda s, rate, row: ((s[0] + 0.1 * (v := s[1] - rate * s[0]), v), s[0] * v),
    ),
    "products": (
        2,
        lambda s, rate, row: (
            (x := s[0] * rate, s[0] * rate + s[1]),
            (rate * s[1] + x, s[0] * s[0]),
        ),
    ),
}


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CHEAP_STEPS)
def test_cheap_steps_that_are_done_together_have_the_bits_of_single_ones(name, dtype, monkeypatch):
    fields, step = CHEAP_STEPS[name]
    random = np.random.default_rng(13)
    rate, *first = (0.9 + 0.2 * random.random((1 + fields, 70))).astype(dtype)
    weights = np.arange(70).astype(dtype)
    written = []
    own = loops.joined_steps
    monkeypatch.setattr(loops, "joined_steps", lambda *args: written.append(args) or own(*args))
    monkeypatch.setattr(programs, "ELEMENTS_ONE_BY_ONE", 0)
    for length, reverse in ((4, False), (7, True)):
        rows = random.random((length, 70)).astype(dtype)

        def loss(rate, first, rows, memory, reverse=reverse):
            last, results = ng.scan(
                lambda s, row: step(s, rate, row), first, rows, reverse=reverse, memory=memory
            )
            found = [*last, *(results if isinstance(results, tuple) else [results])]
            return sum([(x * weights).sum() for x in found if x is not None])

        def in_python(rate, s, rows, reverse=reverse):
            total = 0
            for row in rows[::-1] if reverse else rows:
                s, results = step(s, rate, row)
                found = results if isinstance(results, tuple) else [results]
                total = sum([(x * weights).sum() for x in found if x is not None], total)
            return sum([(x * weights).sum() for x in s], total)

        written.clear()
        args = rate, tuple(first), rows
        found = bits_within_budgets(loss, *args)
        lowered = ng.jit(ng.grad(lambda r, s, x: loss(r, s, x, None))).lower(*args)
        assert lowered.kernels and written
        expected = ng.grad(in_python, (0, 1, 2))(*args)
        near = 1e-4 if dtype == "float32" else 1e-12
        for x, y in zip(
            (found[0], *found[1], found[2]), (expected[0], *expected[1], expected[2]), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=near, atol=near * np.abs(y).max())
