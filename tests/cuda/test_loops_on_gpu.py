"""Loops and branches on a GPU: values and derivatives are the CPU's, and the host walks them."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import DeviceError
from numba_grad.runtime.progress import is_installed
from numba_grad.transforms import python_loops
from numba_grad.transforms.rerolling import repeated_steps, rerolling
from tests.frontend.test_loops import counted, newton

XS = np.linspace(0.5, 1.5, 7)


def on_host(result):
    """All numbers of nested results, as arrays of the CPU."""
    if isinstance(result, tuple | list):
        return [x for part in result for x in on_host(part)]
    return [np.asarray(result.detach().cpu() if isinstance(result, ng.Tensor) else result)]


def assert_same(result, expected, rtol=1e-12):
    for x, y in zip(on_host(result), on_host(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-14)


def scanned(c, xs, **options):
    final, ys = ng.scan(lambda c, x: (np.sin(c) * x, c * x), c, xs, **options)
    return final + (ys * ys).sum()


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(gpu, reverse):
    def f(c, xs):
        return scanned(c, xs, reverse=reverse)

    xs = ng.tensor(XS, device=gpu)
    expected = ng.value_and_grad(f, (0, 1))(0.3, XS)
    value, (of_c, of_xs) = ng.value_and_grad(f, (0, 1))(0.3, xs)
    assert (value.device, of_c.device, of_xs.device) == (gpu, "cpu", gpu)
    assert_same([value, of_c, of_xs], expected)
    replayed = ng.jit(ng.value_and_grad(f, (0, 1)))
    for _ in range(3):  # launched, captured, replayed
        assert_same(replayed(0.3, xs), expected)
    assert_same(replayed(0.4, xs), ng.value_and_grad(f, (0, 1))(0.4, XS))


def by_scan(k):
    (x, _), ys = ng.scan(
        lambda state, t: ((state[0] * k + state[1] * t, state[1] @ ng.eye(3)), state[0]),
        (ng.zeros(3), ng.ones(3)),
        ng.linspace(0.1, 0.4, 5),
    )
    return (x * ng.sum(ys, 0)).sum()


def by_rows_alone(k):
    return ng.scan(lambda state, row: (state, row * k), 0.0, ng.ones((5, 3)))[1].sum()


def by_fori_loop(k):
    start = ng.exp(-ng.linspace(0.0, 1.0, 3))
    return ng.fori_loop(0, 7, lambda _, u: u + k * (ng.roll(u, 1) - u), start).sum()


def by_while_loop(k):
    def goes_on(state):
        return (state[0] < 5.0 * k).any()

    x, _ = ng.while_loop(goes_on, lambda s: (s[0] + s[1] * k, s[1]), (ng.zeros(3), ng.ones(3)))
    return (x * x).sum()


def by_loop_in_loop(k):
    def step(_, x):
        return ng.fori_loop(0, 3, lambda _, y: y * k + 0.1, x)

    return ng.fori_loop(0, 4, step, ng.array([0.1, 0.2, 0.3])).sum()


def by_cond(k):
    return ng.cond(k.sum() > 0, lambda x: x * k, lambda x: x - k, ng.array([1.0, 2.0, 3.0])).sum()


def by_checkpoint(k):
    return ng.checkpoint(lambda x: ng.sin(x * k))(ng.arange(3.0)).sum()


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    "f",
    [
        *(by_scan, by_rows_alone, by_fori_loop, by_while_loop, by_loop_in_loop, by_cond),
        by_checkpoint,
    ],
)
def test_states_that_begin_as_numbers_on_no_device(gpu, f):
    k = np.array([0.2, 0.3, 0.4])
    on_gpu = ng.tensor(k, device=gpu)
    expected = ng.value_and_grad(f)(k)
    assert_same(ng.value_and_grad(f)(on_gpu), expected)
    assert_same(ng.jit(ng.value_and_grad(f))(on_gpu), expected)


@pytest.mark.thorough
def test_second_derivatives_and_forward_mode_of_scan(gpu):
    xs = ng.tensor(XS, device=gpu)
    assert_same(ng.hessian(scanned, 1)(0.3, xs), ng.hessian(scanned, 1)(0.3, XS), rtol=1e-11)
    assert_same(ng.jacfwd(scanned, 1)(0.3, xs), ng.grad(scanned, 1)(0.3, XS))


def test_while(gpu):
    a = ng.tensor(2.0, device=gpu)
    assert newton(a).device == gpu
    f = newton
    for _ in range(3):
        assert_same(f(a), f(2.0))
        f = ng.grad(f)
    assert_same(ng.jvp(newton, (a,), (ng.tensor(1.0, device=gpu),)), [2**0.5, 0.5**1.5])
    gradient = ng.jit(ng.grad(counted))
    for count in (9, 0, 2):
        assert_same(gradient(ng.tensor(0.7, device=gpu), count), ng.grad(counted)(0.7, count))


@pytest.mark.thorough
def test_gradients_within_a_budget_have_the_same_bits(gpu):
    xs, a = ng.tensor(XS, device=gpu), ng.tensor(0.7, device=gpu)
    kept = ng.grad(scanned, (0, 1))(0.3, xs)
    kept_by_while = ng.grad(counted)(a, 9)
    for states in (1, 3):
        memory = f"{states} states"
        computed_again = ng.grad(lambda c, xs: scanned(c, xs, memory=memory), (0, 1))(0.3, xs)  # noqa: B023
        for x, y in zip(on_host(computed_again), on_host(kept), strict=True):
            np.testing.assert_array_equal(x, y)
        again = ng.grad(lambda a: counted(a, 9, memory))(a)  # noqa: B023
        np.testing.assert_array_equal(*on_host([again, kept_by_while]))
    of_adjoint = ng.grad(lambda a: ng.grad(lambda a: counted(a, 9, "2 states"))(a))
    assert_same(of_adjoint(a), of_adjoint(0.7), rtol=1e-11)


def test_arrays_of_several_carried_values(gpu):
    """A delay line, which reads earlier buffers of a ring, and an array that changes in place."""

    def wave(speed, field, memory=None):
        def step(state, k):
            now, before, trace = state
            bend = np.roll(now, 1) - 2 * now + np.roll(now, -1)
            trace = trace.copy()
            trace[k] = now[3]
            return (2 * now - before + speed * bend, now, trace), None

        init = (field, field, ng.zeros(6))
        (now, before, trace), _ = ng.scan(step, init, ng.arange(6), memory=memory)
        return (now * before).sum() + (trace * trace).sum()

    field = np.exp(-0.5 * (np.arange(20.0) - 8) ** 2)
    expected = ng.value_and_grad(wave, (0, 1))(0.3, field)
    on_gpu = ng.tensor(field, device=gpu)
    for memory in (None, "2 states"):
        f = ng.jit(ng.value_and_grad(lambda c, x: wave(c, x, memory), (0, 1)))  # noqa: B023
        assert_same(f(0.3, on_gpu), expected)
        assert_same(f(0.3, on_gpu), expected)


def test_branches(gpu):
    def either(x):
        return ng.cond(x > 0, np.log, lambda x: 3.0 * x, x)

    def chosen(k, x):
        return ng.switch(k, [lambda x: x, lambda x: x * x, np.exp], x)

    xs = np.array([-1.0, 2.0, 0.0])
    assert_same(ng.vmap(ng.grad(either))(ng.tensor(xs, device=gpu)), np.array([3.0, 0.5, 3.0]))
    x = ng.tensor(0.5, device=gpu)
    gradient = ng.jit(ng.value_and_grad(chosen, 1))
    for k in range(-1, 4):
        assert_same(gradient(k, x), ng.value_and_grad(chosen, 1)(k, 0.5))
    assert_same(ng.grad(ng.grad(chosen, 1), 1)(ng.tensor(2, device=gpu), x), np.exp(0.5))
    # Where one of the functions reads something on a GPU, all results are there.
    assert ng.cond(False, lambda: x * 2, lambda: 1.0).device == gpu


def test_bounds_that_are_known_when_the_loop_runs(gpu):
    traces = []

    @ng.jit
    def power(x, n):
        traces.append(1)
        return ng.fori_loop(0, n, lambda i, y: y * x + i, 1.0)

    x = ng.tensor(0.9, device=gpu)
    for n in (3, 5, 0):
        assert_same(power(x, n), ng.fori_loop(0, n, lambda i, y: y * 0.9 + i, 1.0))
    assert len(traces) == 1


def test_loops_in_loops(gpu):
    def f(x):
        def inner(c, row):
            return ng.cond(row > 1, lambda c: c * row, lambda c: c + row, c), None

        def outer(c):
            return c[0] + 1, ng.scan(inner, c[1], x)[0] * 0.5

        return ng.while_loop(lambda c: c[0] < 3, outer, (0, 1.0))[1]

    expected = ng.value_and_grad(f)(XS)
    g = ng.jit(ng.value_and_grad(f))
    for _ in range(2):
        assert_same(g(ng.tensor(XS, device=gpu)), expected)
    rows = np.stack([XS, XS[::-1]])
    assert_same(ng.vmap(f)(ng.tensor(rows, device=gpu)), ng.vmap(f)(rows))


def test_python_loops_in_loops_stay_step_by_step(gpu, monkeypatch, looks_are_not_kept):
    """There several steps are one launch."""
    monkeypatch.setattr(repeated_steps, "_SHORT", 32)
    monkeypatch.setattr(python_loops, "FEWEST_NODES", 64)
    found = []
    original = rerolling._Loop.made

    def noted(self):
        found.append(self.steps.inner_period)
        return original(self)

    monkeypatch.setattr(rerolling._Loop, "made", noted)

    def f(x):
        total = 0.0
        for _ in range(14):
            for _ in range(10):
                x = x + 0.1 * np.sin(x) * np.cos(x * x) - 0.01 * x
            total = total + (x * x).sum()
        return total

    expected = ng.value_and_grad(f)(XS)
    assert any(found)
    found.clear()
    assert_same(ng.jit(ng.value_and_grad(f))(ng.tensor(XS, device=gpu)), expected)
    assert not any(found)


def test_map_and_batches(gpu):
    x = np.arange(10.0).reshape(5, 2)
    on_gpu = ng.tensor(x, device=gpu)
    for size in (None, 2):
        mapped = ng.map(lambda row: (row * row).sum(), on_gpu, batch_size=size)
        assert_same(mapped, (x * x).sum(1))
    assert_same(
        ng.vmap(ng.grad(lambda c, xs: scanned(c, xs)), (0, None))(on_gpu[:, 1], on_gpu[:, 0] / 9),
        ng.vmap(ng.grad(lambda c, xs: scanned(c, xs)), (0, None))(x[:, 1], x[:, 0] / 9),
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int32"])
def test_dtypes(gpu, dtype):
    xs = np.arange(1, 5).astype(dtype)

    def f(xs):
        return ng.scan(lambda c, x: (c + x * x, c), xs[0], xs)

    final, entries = f(ng.tensor(xs, device=gpu))
    assert (final.dtype, entries.dtype) == (xs.dtype, xs.dtype)
    assert_same([final, entries], f(xs), rtol=1e-3 if dtype == "float16" else 1e-6)


def test_devices_of_what_is_carried(gpu):
    a = ng.tensor([1.0, 2.0], device=gpu)
    # Numbers go along with what a step reads.
    final = ng.fori_loop(0, 3, lambda i, total: total + a.sum() * i, 0.0)
    assert_same(final, 9.0)
    assert final.device == gpu
    with pytest.raises(DeviceError, match="states on a GPU cannot go to a file"):
        ng.scan(lambda c, x: (c + x, None), a[0], a, memory="disk:.:1 MB")
    with pytest.raises(DeviceError, match="scan: tensors on different devices, cpu and cuda"):
        ng.scan(lambda c, x: (c + x, None), np.zeros(2), a)
    with pytest.raises(DeviceError, match="add: tensors on different devices"):
        ng.fori_loop(0, 3, lambda i, total: total + a, np.zeros(2))


def test_an_error_ends_a_loop_that_would_not_end(gpu):
    x = ng.tensor([1.0, 2.0], device=gpu)
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        ng.while_loop(lambda c: c[0] > 0, lambda c: (c[0] + 1, c[1] + x[c[0]]), (1, 0.0))[1].item()


def test_profile(gpu):
    x = ng.tensor(XS, device=gpu)
    for f in (lambda x: scanned(0.3, x), lambda x: counted(x[0], 3)):
        lowered = ng.jit(f).lower(x)
        assert len(lowered.profile(x)) == len(lowered.kernels)


# How it runs


def test_a_loop_of_known_length_is_captured_and_others_are_walked(emulated):
    def decaying(x):
        return ng.fori_loop(0, 5, lambda _, x: x - 0.1 * (x * x).sum(), x)

    x = ng.tensor(XS, device="cuda:0")
    f = ng.jit(decaying)
    f(x)
    emulated.calls.clear()
    values = [f(x), f(x)]
    assert emulated.calls.count("launch_graph") == 2
    assert "copy_to_host" not in emulated.calls
    assert_same(values, [decaying(XS)] * 2)

    g = ng.jit(lambda a: counted(a, 4))
    a = ng.tensor(0.7, device="cuda:0")
    g(a)
    emulated.calls.clear()
    g(a)
    assert "launch_graph" not in emulated.calls
    assert emulated.calls.count("copy_to_host") == 5  # the condition, each time


def test_what_the_host_knows_is_not_read_from_the_device(emulated):
    f = ng.jit(lambda k, x: ng.switch(k, [np.sin, np.cos], x))
    x = ng.tensor(0.5, device="cuda:0")
    for k in (0, 1):
        emulated.calls.clear()
        value = f(np.int64(k), x)
        assert "copy_to_host" not in emulated.calls
        assert_same(value, [np.sin, np.cos][k](0.5))
    # The schedule of an adjoint is the host's.
    gradient = ng.jit(ng.grad(lambda xs: scanned(0.3, xs, memory="2 states")))
    xs = ng.tensor(XS, device="cuda:0")
    emulated.calls.clear()
    value = gradient(xs)
    assert "copy_to_host" not in emulated.calls
    assert_same(value, ng.grad(scanned, 1)(0.3, XS))


def test_streams(emulated):
    side = ng.cuda.Stream()
    x = ng.tensor(XS, device="cuda:0", requires_grad=True)
    with ng.cuda.stream(side):
        value = counted(x[0], 4) + scanned(0.3, x)
    value.backward()
    expected = ng.grad(lambda x: counted(x[0], 4) + scanned(0.3, x))(XS)
    assert_same(x.grad, expected)


def test_in_anomaly_mode_and_with_checked_passes(gpu):
    x = ng.tensor(XS, device=gpu, requires_grad=True)
    with ng.autograd.detect_anomaly(), configure(check_passes=True):
        scanned(0.3, x).backward()
    assert_same(x.grad, ng.grad(scanned, 1)(0.3, XS))


@pytest.mark.skipif(not is_installed(), reason="needs tqdm")
def test_progress(gpu, capsys):
    x = ng.tensor(XS, device=gpu, requires_grad=True)
    ng.scan(lambda c, x: (c * x, None), 1.0, x, progress="steps", memory="2 states")[0].backward()
    assert_same(x.grad, ng.grad(lambda x: np.prod(x))(XS))
