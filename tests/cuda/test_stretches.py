"""Walks launch what recurs between two looks at the device as one graph: with the values, the order
and the errors of single launches."""

import gc
import itertools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda import device_loops, stretches
from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.streams import Stream
from numba_grad.runtime.cuda.stretches import Stretches
from tests.cuda.host_driver import HostDriver, HostExecutable, installed
from tests.threads import run_in_threads

XS = np.linspace(0.5, 1.5, 7)


def counted(calls, kind):
    return sum(call.startswith(kind) for call in calls)


def executables(driver):
    return sum(isinstance(thing, HostExecutable) for thing in driver._handles.values())


def descent(x, count, rate=0.05):
    """A `while` of a known number of trips, which the host does not know."""

    def body(carried):
        trips, x = carried
        return trips + 1, x - rate * (x * x).sum() * x

    return ng.while_loop(lambda carried: carried[0] < count, body, (x[0] * 0.0, x))[1]


def steps_in_trips(x, count):
    """A loop of known length in one that goes by values."""

    def body(carried):
        trips, c = carried
        return trips + 1, ng.scan(
            lambda c, row: (0.7 * np.sin(c) + 0.1 * row * row.sum(), None), c, x
        )[0]

    return ng.while_loop(lambda carried: carried[0] < count, body, (x[0, 0] * 0.0, x[0]))[1]


def chosen_in_trips(x, count):
    """Branches that go by values."""

    def body(carried):
        trips, x = carried
        branches = [lambda x: x - 0.1 * x.sum() * x, lambda x: x + 0.2 * (x * x).sum(), np.sin]
        return trips + 1, ng.switch(trips % 3, branches, x)

    return ng.while_loop(lambda carried: carried[0] < count, body, (0, x))[1]


def growing(x, count):
    """Reads further elements in each trip, without end if `count` is more than there are."""

    def body(carried):
        k, total = carried
        return k + 1, total + x[k] + (x * x).sum()

    return ng.while_loop(lambda carried: carried[0] < count, body, (1, 0.0))[1]


@pytest.fixture
def seen(monkeypatch):
    """The host sees each trip."""
    monkeypatch.setattr(device_loops, "_FEWEST_SEEN", 1 << 62)


# Values


@pytest.mark.thorough(but="descent|chosen")
@pytest.mark.parametrize("f", [descent, steps_in_trips, chosen_in_trips, growing])
def test_many_trips_on_any_gpu(gpu, f):
    x = {steps_in_trips: np.stack([XS, XS[::-1]]), growing: np.arange(101.0)}.get(f, XS)
    jitted = ng.jit(f)
    on_gpu, count = ng.tensor(x, device=gpu), ng.tensor(100, device=gpu)
    kept = [jitted(on_gpu, count) for _ in range(4)]
    for found in kept:
        np.testing.assert_allclose(found.cpu().numpy(), jitted(x, 100), rtol=1e-10)


def test_an_error_in_a_graph_ends_a_loop_without_end(gpu):
    x = ng.tensor(np.arange(40.0), device=gpu)
    with pytest.raises(IndexError, match="index 40 is out of bounds"):
        ng.jit(growing)(x, ng.tensor(1 << 40, device=gpu)).item()
    assert ng.sum(x).item() == 780


@pytest.mark.usefixtures("seen")
def test_trips_become_graphs(emulated):
    f = ng.jit(descent)
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(40.0, device="cuda:0")
    expected = descent(XS, 40.0)
    emulated.calls.clear()
    np.testing.assert_allclose(f(x, count).tolist(), expected, rtol=1e-12)
    launches, graphs = [counted(emulated.calls, kind) for kind in ("launch ", "launch_graph")]
    # A trip is the body and the next condition; the states lie in two places in turn.
    assert executables(emulated) == 2
    assert graphs == 40 - 2 * (stretches._FEWEST_LAUNCHED // 2)
    assert emulated.calls.count("copy_to_host") == 42  # with the result
    # What the arena holds lies where it did, so the next run begins with graphs.
    emulated.calls.clear()
    np.testing.assert_allclose(f(x, count).tolist(), expected, rtol=1e-12)
    assert counted(emulated.calls, "launch_graph") == 40
    assert counted(emulated.calls, "launch ") < launches / 3


@pytest.mark.thorough(but="late")
@pytest.mark.parametrize("count", [0.0, 1.0, 5.0, 60.0])
def test_numbers_of_trips(emulated, count):
    f = ng.jit(ng.value_and_grad(lambda x, count: descent(x, count).sum()))
    x = ng.tensor(XS, device="cuda:0")
    wanted, wanted_gradient = ng.value_and_grad(lambda x: descent(x, count).sum())(XS)
    for _ in range(3):
        value, gradient = f(x, ng.tensor(count, device="cuda:0"))
        np.testing.assert_allclose(value.item(), wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient.tolist(), wanted_gradient, rtol=1e-11)


@pytest.mark.thorough(but="late")
@pytest.mark.parametrize("f", [steps_in_trips, chosen_in_trips])
def test_loops_and_branches_in_trips(emulated, f):
    x = np.stack([XS, XS[::-1], 0.3 * XS]) if f is steps_in_trips else XS
    expected = [f(x, count) for count in (80, 83)]
    jitted = ng.jit(f)
    on_gpu = ng.tensor(x, device="cuda:0")
    for count, value in zip((80, 83, 80), (*expected, expected[0]), strict=True):
        emulated.calls.clear()
        found = jitted(on_gpu, ng.tensor(count, device="cuda:0"))
        np.testing.assert_allclose(found.tolist(), value, rtol=1e-11)
        assert counted(emulated.calls, "launch_graph") > 0


def check_runs_with_other_arrays(f, count):
    """Graphs know addresses, and never serve others."""
    jitted = ng.jit(f)
    kept = []
    for k in range(8):
        x = (1 + 0.1 * k) * XS
        on_gpu = ng.tensor(x, device="cuda:0")
        kept.append((on_gpu, jitted(on_gpu, ng.tensor(count, device="cuda:0")), f(x, count)))
    for _, found, expected in kept:
        np.testing.assert_allclose(found.tolist(), expected, rtol=1e-12)


@pytest.mark.thorough(but="late")
def test_runs_with_other_arrays(emulated):
    check_runs_with_other_arrays(descent, 25.0)


def test_clocks_see_single_launches(emulated):
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(40.0, device="cuda:0")
    f = ng.jit(descent)
    lowered = f.lower(x, count)
    f(x, count)
    emulated.calls.clear()
    lowered.profile(x, count, repeats=1)
    timed = emulated.calls[emulated.calls.index("record_event") :]
    assert counted(timed, "launch_graph") == 0


def test_a_loop_runs_in_the_stream_of_its_call(late):
    x, count = ng.tensor(XS, device="cuda:1"), ng.tensor(30.0, device="cuda:1")
    f = ng.jit(descent)
    side = ng.cuda.Stream("cuda:1")
    for _ in range(2):
        with ng.cuda.stream(side):
            value = f(np.exp(x) / 3, count)
        np.testing.assert_allclose(value.tolist(), descent(np.exp(XS) / 3, 30.0), rtol=1e-12)


def test_threads(emulated):
    f = ng.jit(descent)
    found = [[] for _ in range(4)]

    def work(k):
        x = ng.tensor((1 + 0.1 * k) * XS, device="cuda:0")
        for _ in range(3):
            with ng.cuda.stream(ng.cuda.Stream()):
                found[k].append(f(x, ng.tensor(20.0 + k, device="cuda:0")).tolist())

    run_in_threads(work, range(4))
    for k, values in enumerate(found):
        expected = descent((1 + 0.1 * k) * XS, 20.0 + k)
        np.testing.assert_allclose(values, [expected] * 3, rtol=1e-12)


# Failures


@pytest.mark.thorough
@pytest.mark.usefixtures("seen")
def test_a_kernel_that_fails_in_a_graph(emulated):
    f = ng.jit(descent)
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(30.0, device="cuda:0")
    f(x, count).tolist()
    launch_graph, launched = emulated.launch_graph, []

    def fail_at_the_tenth(executable, stream):
        launched.append(executable)
        if len(launched) == 10:
            emulated.fail_next_kernel()
        launch_graph(executable, stream)

    emulated.launch_graph = fail_at_the_tenth
    with pytest.raises(ng.errors.KernelError, match="multiply"):
        f(x, count)
    assert len(launched) == 10
    with pytest.raises(ng.errors.ContextLostError):
        f(x, count)
    del f, x, count  # nothing is called any more
    gc.collect()


@pytest.mark.thorough
@pytest.mark.usefixtures("seen")
def test_what_interrupts_a_walk_leaves_nothing(emulated):
    f = ng.jit(descent)
    x, count = ng.tensor(XS, device="cuda:0"), ng.tensor(30.0, device="cuda:0")
    expected = f(x, count).tolist()
    assert executables(emulated) == 2
    copy, copied = emulated.copy_to_pinned, []

    def interrupt(*arguments):
        copied.append(arguments)
        if len(copied) == 17:
            raise KeyboardInterrupt
        copy(*arguments)

    emulated.copy_to_pinned = interrupt
    with pytest.raises(KeyboardInterrupt):
        f(x, count)
    gc.collect()
    assert executables(emulated) == 0
    assert f(x, count).tolist() == expected
    del f
    gc.collect()
    assert executables(emulated) == 0


# The rule by itself, for steps of one kernel whose only word says which it is


class Kernels(HostDriver):
    def __init__(self, late):
        super().__init__(devices=1, late=late)
        self.done = []

    def run_kernel(self, source, name, grid, block, parameters):
        self.done.append(int.from_bytes(parameters, "little"))


class Steps:
    """`count` steps; `trip` launches them with the numbers that it is given."""

    def __init__(self, driver, count):
        self.driver, self.count = driver, count
        self.function = driver.function(driver.load_module(b"def kernel(n): pass"), "kernel")
        self.words = np.zeros(count, np.int64)
        self.stream = Stream(0)
        self.stretches = Stretches(
            driver,
            self.stream,
            list(range(count + 1)),
            [True] * count,
            self.words,
            self.launch,
        )
        self.expected = []

    def launch(self, step, stream, address):
        one = (1, 1, 1)
        self.driver.launch(self.function, one, one, 0, stream.handle, address, 8)

    def trip(self, numbers):
        """The names of the calls that launch these."""
        self.expected += numbers
        self.driver.calls.clear()
        for step, number in enumerate(numbers):
            self.words[step] = number
            self.stretches.add(step, step + 1)
            self.words[step] = -1  # what is launched later has the words of now
        self.stretches.end()
        calls = list(self.driver.calls)
        self.driver.synchronize_stream(self.stream.handle)
        assert self.driver.done == self.expected
        return calls

    def trips(self, several):
        """The calls of the last one."""
        return [self.trip(numbers) for numbers in several][-1]


@pytest.fixture(params=[False, True], ids=["at once", "late"])
def kernels(request):
    with installed(Kernels(request.param)) as driver, active(0):
        yield driver


@pytest.mark.parametrize("period", [1, 2, 5])
def test_words_that_recur_are_captured_once(kernels, period):
    steps = Steps(kernels, 4)
    # So many steps, launched one by one, cost what a graph costs.
    before = stretches._FEWEST_LAUNCHED // 4
    for trip in range(period * (before + 5)):
        numbers = [10 * (trip % period) + k for k in range(4)]
        calls = steps.trip(numbers)
        if trip < period * before:
            assert calls == ["launch kernel"] * 4
        elif trip < period * (before + 1):
            assert calls == ["launch kernel"] * 4 + ["launch_graph"]
        else:
            assert calls == ["launch_graph"]
    assert executables(kernels) == period == len(steps.stretches.executables())


def test_words_that_never_recur_are_given_up(kernels, monkeypatch):
    steps = Steps(kernels, 4)
    looked_up = []
    pays = stretches._Beginning.pays
    monkeypatch.setattr(
        stretches._Beginning, "pays", lambda *own: looked_up.append(own) or pays(*own)
    )
    numbers = itertools.count()
    for _ in range(100):
        assert steps.trip([next(numbers) for _ in range(4)]) == ["launch kernel"] * 4
    assert len(looked_up) == stretches._PERIOD + 1
    steps.stretches.begin()  # the next run, in which they recur
    assert steps.trips([[1, 2, 3, 4]] * 10) == ["launch_graph"]


@pytest.mark.thorough(but="late")
def test_graphs_are_few(kernels):
    """Of more words than there are graphs for some are graphs, and stay so; what is not used any
    more makes room."""
    steps = Steps(kernels, 24)
    most = stretches._PERIOD

    def numbers(trip):
        return [100 * trip + k for k in range(24)]

    calls = steps.trips([numbers(trip % most) for trip in range(4 * most)])
    assert calls == ["launch_graph"]
    assert executables(kernels) == most
    period = most + most // 2
    last = [steps.trip(numbers(trip % period))[-1] for trip in range(5 * most)]
    assert last[-period:].count("launch_graph") == most
    assert executables(kernels) == most
    calls = steps.trips([numbers(1000 + trip % 2) for trip in range(4 * most)])
    assert calls == ["launch_graph"]
    assert executables(kernels) == most


def test_long_stretches_are_cut(kernels):
    steps = Steps(kernels, 100)
    assert steps.trips([list(range(100))] * 3) == ["launch_graph"] * 2
    assert executables(kernels) == 2


def test_single_steps_are_launched(kernels):
    steps = Steps(kernels, 1)
    for _ in range(60):
        assert steps.trip([1]) == ["launch kernel"]


def test_what_no_graph_repeats_is_launched_where_it_comes(kernels):
    steps = Steps(kernels, 5)
    steps.stretches._can_be_repeated = [True, True, False, True, True]
    calls = steps.trips([[1, 2, 3, 4, 5]] * 20)
    assert calls == ["launch_graph", "launch kernel", "launch_graph"]
