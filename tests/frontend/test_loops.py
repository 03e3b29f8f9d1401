"""`scan`, `fori_loop`, `while_loop`, `map`: against the same loop in Python."""

import dataclasses
import signal
import threading
import time

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import build
from numba_grad.config import configure
from numba_grad.errors import GradientError, TracingError
from tests.threads import run_in_threads

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


def counted(a, count, memory=None):
    """A `while` whose number of steps is an argument."""
    return ng.while_loop(
        lambda c: c[0] < count,
        lambda c: (c[0] + 1, np.sin(c[1] * a) + 0.1 * c[1] * c[1]),
        (0, a),
        memory=memory,
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
        traces.append(1)
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


# Batches


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

    run_in_threads(run, expected)
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
