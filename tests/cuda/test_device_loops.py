"""Loops that go by values, gone on with by the device: with the values, errors and interrupts of
loops of which the host sees each trip, and few calls of the driver."""

import gc

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda import device_loops
from numba_grad.runtime.cuda.interface import NodeKind
from tests.cuda.test_stretches import (
    XS,
    check_runs_with_other_arrays,
    chosen_in_trips,
    descent,
    executables,
    growing,
    steps_in_trips,
)


def newton_in_trips(x, count):
    """A `while` in a `while`: the inner one ends when it has converged."""

    def root(a):
        def body(carried):
            y, _ = carried
            return 0.5 * (y + a / y), y

        return ng.while_loop(lambda c: np.abs(c[0] - c[1]).max() > 1e-12, body, (a + 1.0, a))[0]

    def body(carried):
        trips, x = carried
        return trips + 1, 0.5 * x + root(x)

    return ng.while_loop(lambda carried: carried[0] < count, body, (0, x))[1]


def rotating(x, count):
    """Three states change places."""

    def body(carried):
        trips, a, b, c = carried
        return trips + 1, b, c, 0.5 * (a + b) - 0.1 * np.sin(c)

    _, a, b, c = ng.while_loop(lambda carried: carried[0] < count, body, (0, x, 2 * x, x**2))
    return a + 10 * b + 100 * c


PROGRAMS = [descent, steps_in_trips, chosen_in_trips, growing, newton_in_trips, rotating]


@pytest.mark.thorough(but="rotating")
@pytest.mark.parametrize("f", PROGRAMS)
def test_many_trips_on_any_gpu(gpu, f):
    x = {steps_in_trips: np.stack([XS, XS[::-1]]), growing: np.arange(1001.0)}.get(f, XS)
    jitted = ng.jit(f)
    on_gpu = ng.tensor(x, device=gpu)
    for count in (100, 3, 101, 0, 33, 100):
        found = jitted(on_gpu, ng.tensor(count, device=gpu))
        np.testing.assert_allclose(found.cpu().numpy(), jitted(x, count), rtol=1e-10)


@pytest.mark.thorough
def test_gradients_on_any_gpu(gpu):
    """Of states that are kept the addresses never recur."""
    jitted = ng.jit(ng.value_and_grad(lambda x, count: rotating(x, count).sum()))
    for count in (50, 2, 120, 120, 0):
        value, gradient = jitted(ng.tensor(XS, device=gpu), ng.tensor(count, device=gpu))
        wanted, wanted_gradient = jitted(XS, count)
        np.testing.assert_allclose(value.item(), wanted, rtol=1e-10)
        np.testing.assert_allclose(gradient.cpu().numpy(), wanted_gradient, rtol=1e-10)


@pytest.mark.thorough(but="late")
def test_the_host_stays_out(emulated, monkeypatch):
    monkeypatch.setattr(device_loops, "_SECONDS", 1e9)
    f = ng.jit(descent)
    x = ng.tensor(XS, device="cuda:0")

    def calls(count):
        emulated.calls.clear()
        found = f(x, float(count)).tolist()
        np.testing.assert_allclose(found, descent(XS, float(count)), rtol=1e-11)
        return [emulated.calls.count(kind) for kind in ("launch_graph", "copy_to_host")]

    calls(200)
    before = executables(emulated)
    # The result, and what is left of the number of trips that the host allows.
    assert calls(50) == [1, 2]
    assert calls(0) == [1, 2]
    graphs, reads = calls(1000)
    # In between the host does a trip.
    assert graphs == 2 * (reads - 1) - 1 <= 9
    assert executables(emulated) == before


@pytest.mark.thorough
def test_more_trips_are_allowed_where_they_are_quick(emulated, monkeypatch):
    f = ng.jit(descent)
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(300.0, device="cuda:0")

    def launched():
        emulated.calls.clear()
        f(x, count).tolist()
        return emulated.calls.count("launch_graph")

    monkeypatch.setattr(device_loops, "_SECONDS", 1e9)
    launched(), launched()
    assert launched() == 1
    monkeypatch.setattr(device_loops, "_SECONDS", 0.0)
    assert launched() <= launched() < launched()


@pytest.mark.thorough(but="late")
def test_runs_with_other_arrays(emulated):
    check_runs_with_other_arrays(rotating, 90)


def test_an_error_ends_a_loop_without_end(gpu):
    x = ng.tensor(np.arange(400.0), device=gpu)
    with pytest.raises(IndexError, match="index 400 is out of bounds"):
        ng.jit(growing)(x, ng.tensor(1 << 40, device=gpu)).item()
    assert ng.sum(x).item() == 79800


@pytest.mark.thorough(but="late")
def test_a_kernel_that_fails_on_the_way(emulated):
    f = ng.jit(descent)
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(300.0, device="cuda:0")
    f(x, count).tolist()
    launch_graph = emulated.launch_graph

    def fail(executable, stream):
        emulated.fail_next_kernel()
        launch_graph(executable, stream)

    emulated.launch_graph = fail
    with pytest.raises(ng.errors.KernelError, match="multiply"):
        f(x, count)
    del f, x, count
    gc.collect()


@pytest.mark.thorough
def test_interrupts_leave_nothing(emulated):
    f = ng.jit(descent)
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(300.0, device="cuda:0")
    expected = f(x, count).tolist()
    copy = emulated.copy_to_pinned

    def interrupt(*arguments):
        raise KeyboardInterrupt

    emulated.copy_to_pinned = interrupt
    with pytest.raises(KeyboardInterrupt):
        f(x, count)
    emulated.copy_to_pinned = copy
    gc.collect()
    assert executables(emulated) == 0
    assert f(x, count).tolist() == expected
    del f
    gc.collect()
    assert executables(emulated) == 0


def test_streams(late):
    x = ng.tensor(XS, device="cuda:1")
    f = ng.jit(descent)
    side = ng.cuda.Stream("cuda:1")
    for count in (300.0, 20.0, 301.0):
        with ng.cuda.stream(side):
            value = f(np.exp(x) / 3, ng.tensor(count, device="cuda:1"))
        np.testing.assert_allclose(value.tolist(), descent(np.exp(XS) / 3, count), rtol=1e-11)


# Loops in loops


def counted_inside(a, count, step):
    return ng.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, step(c[1])), (0, a))[1]


def one_after_the_other(x, count):
    """Two in each trip, of no step at times, and each of them as many as the trip says."""

    def body(carried):
        k, x, y = carried
        x = counted_inside(x + y, k % 3, lambda x: np.sin(x) + 0.1 * x.sum())
        y = counted_inside(y - x, k * k % 4, np.cos)
        return k + 1, x / (1 + np.abs(x).max()), y / (1 + np.abs(y).max())

    _, x, y = ng.while_loop(lambda carried: carried[0] < count, body, (0, x, 2 * x))
    return x + 10 * y


def three_deep(x, count):
    def innermost(a, count):
        return counted_inside(a, count, lambda x: np.sin(x) + 0.1 * x.sum())

    def inner(a, count):
        def body(carried):
            k, x = carried
            return k + 1, 0.9 * innermost(x, (count + k) % 3)

        return ng.while_loop(lambda carried: carried[0] < count % 4, body, (0, a))[1]

    def body(carried):
        k, x = carried
        return k + 1, 0.5 * x + inner(x, k)

    return ng.while_loop(lambda carried: carried[0] < count, body, (0, x))[1]


def in_steps(x, count):
    """Within steps of a known number: of these nodes there would be too many."""

    def body(carried):
        k, x = carried
        x = ng.fori_loop(0, 2, lambda j, x: counted_inside(x, (k + j) % 3, np.sin) + x.sum() / 9, x)
        return k + 1, ng.cond(k % 2 == 0, np.sin, np.tanh, x)

    return ng.while_loop(lambda carried: carried[0] < count, body, (0, x))[1]


def in_a_branch(x, count):
    """And a choice after it."""

    def body(carried):
        k, x = carried
        x = ng.cond(k % 2 == 0, lambda x: counted_inside(x, k % 5, np.sin), np.cos, x)
        return k + 1, ng.cond(x.sum() > 1, lambda x: 0.5 * x, lambda x: x + 1, x)

    return ng.while_loop(lambda carried: carried[0] < count, body, (0, x))[1]


NESTED = [newton_in_trips, one_after_the_other, three_deep, in_steps, in_a_branch]


@pytest.mark.thorough(but="newton_in_trips")
@pytest.mark.parametrize("f", NESTED)
def test_loops_in_loops_on_any_gpu(gpu, f):
    jitted = ng.jit(f)
    x = ng.tensor(XS, device=gpu)
    for count in (60, 3, 61, 0, 60):
        found = jitted(x, count)
        np.testing.assert_allclose(found.cpu().numpy(), jitted(XS, count), rtol=1e-10)


@pytest.mark.thorough(but="late-1-three_deep")
@pytest.mark.parametrize("f", NESTED)
@pytest.mark.parametrize("allowed", [1, 2, 3, 7])
def test_the_host_goes_on_where_the_device_stopped(emulated, monkeypatch, f, allowed):
    """In whichever loop: after every decision, or a few."""
    monkeypatch.setattr(device_loops, "_FEWEST_SEEN", 2)
    monkeypatch.setattr(device_loops, "_FIRST_TRIPS", allowed)
    monkeypatch.setattr(device_loops, "_MOST_TRIPS", allowed)
    jitted = ng.jit(f)
    x = ng.tensor(XS, device="cuda:0")
    for count in (20, 20, 9):
        np.testing.assert_allclose(jitted(x, count).tolist(), jitted(XS, count), rtol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("f", [f for f in NESTED if f is not in_steps])
def test_the_host_stays_out_of_loops_in_loops(emulated, monkeypatch, f):
    monkeypatch.setattr(device_loops, "_SECONDS", 1e9)
    jitted = ng.jit(f)
    x = ng.tensor(XS, device="cuda:0")

    def calls(count):
        emulated.calls.clear()
        np.testing.assert_allclose(jitted(x, count).tolist(), jitted(XS, count), rtol=1e-11)
        return [emulated.calls.count(kind) for kind in ("launch_graph", "copy_to_host")]

    for count in (100, 100, 100):
        calls(count)
    assert calls(33) == [1, 2]
    assert calls(0) == [1, 2]
    graphs, reads = calls(100)
    assert graphs < 12 > reads


@pytest.mark.thorough(but="late")
def test_gradients_of_loops_in_loops(emulated):
    jitted = ng.jit(ng.value_and_grad(lambda x, count: one_after_the_other(x, count).sum()))
    for count in (20, 2, 20, 0):
        value, gradient = jitted(ng.tensor(XS, device="cuda:0"), count)
        wanted, wanted_gradient = jitted(XS, count)
        np.testing.assert_allclose(value.item(), wanted, rtol=1e-10)
        np.testing.assert_allclose(gradient.tolist(), wanted_gradient, rtol=1e-10)


@pytest.mark.thorough(but="late")
def test_a_loop_without_end_in_a_loop(emulated, monkeypatch):
    """The device comes back from it: errors are seen, and Ctrl-C is heard."""
    monkeypatch.setattr(device_loops, "_SECONDS", 0.0)

    def f(x, endless, gone_wrong):
        def inside(k):
            def body(carried):
                j, total = carried
                return j + 1, total + x[j % 40 + gone_wrong] + (x * x).sum()

            end = np.where(k == endless, 1 << 40, 2)
            return ng.while_loop(lambda carried: carried[0] < end, body, (0, 0.0))[1]

        def body(carried):
            k, total = carried
            return k + 1, total + inside(k)

        return ng.while_loop(lambda carried: carried[0] < 60, body, (0, 0.0))[1]

    jitted = ng.jit(f)
    x = ng.tensor(np.arange(40.0), device="cuda:0")
    assert jitted(x, 60, 0).item() == pytest.approx(jitted(np.arange(40.0), 60, 0).item())
    with pytest.raises(IndexError, match="index 40 is out of bounds"):
        jitted(x, 50, 1).item()
    launch_graph, launched = emulated.launch_graph, []

    def interrupt(executable, stream):
        launched.append(executable)
        if len(launched) == 300:
            raise KeyboardInterrupt
        launch_graph(executable, stream)

    emulated.launch_graph = interrupt
    with pytest.raises(KeyboardInterrupt):
        jitted(x, 50, 0)


@pytest.mark.thorough(but="late")
def test_a_driver_without_loops_in_loops(emulated):
    """Then the host walks the outer one, and says so."""
    add_conditional = emulated.add_conditional

    def refuse(stream, condition, kind, count):
        if kind is NodeKind.SWITCH:  # which only stands behind loops inside
            emulated.fail("CUDA_ERROR_NOT_SUPPORTED", "add_conditional")
        return add_conditional(stream, condition, kind, count)

    emulated.add_conditional = refuse
    jitted = ng.jit(newton_in_trips)
    x = ng.tensor(XS, device="cuda:0")
    with pytest.warns(RuntimeWarning, match="NOT_SUPPORTED.*the host decides"):
        found = jitted(x, 60)
    np.testing.assert_allclose(found.tolist(), newton_in_trips(XS, 60), rtol=1e-11)
    emulated.calls.clear()
    jitted(x, 60)
    assert emulated.calls.count("launch_graph") >= 60
