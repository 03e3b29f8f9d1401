"""Streams and events, current streams, and what is captured from streams."""

import threading

import numpy as np
import pytest

from numba_grad.errors import DeviceError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda.devices import active, cuda_device
from tests.cuda.host_driver import HostDriver, Misuse, installed


class ForeignStream:
    def __init__(self, handle, as_method=True):
        pair = (0, handle)
        self.__cuda_stream__ = (lambda: pair) if as_method else pair


def test_the_current_stream_is_a_threads_own(driver):
    first = cuda.current_stream()
    assert first == cuda.default_stream()
    assert first.handle == 0
    side, other = cuda.Stream(), cuda.Stream(device=1)
    seen = []
    with cuda.stream(side) as entered:
        assert entered is side is cuda.current_stream()
        thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
        thread.start()
        thread.join()
        with cuda.stream(other):
            assert cuda.current_device() is cuda_device(1)
            assert cuda.current_stream() is other
            assert cuda.current_stream(0) is side
        assert cuda.current_stream() is side
        assert cuda.current_stream(1) == cuda.default_stream(1)
    assert seen == [first]
    assert cuda.current_stream() == first


def test_streams_of_others(driver):
    own = cuda.Stream()
    for foreign in (ForeignStream(own.handle), ForeignStream(own.handle, False), own.handle):
        assert cuda.external_stream(foreign) == own
    assert cuda.external_stream(1) is cuda.external_stream(0) is cuda.default_stream()
    assert cuda.external_stream(own) is own
    assert own.__cuda_stream__() == (0, own.handle)
    for wrong in (-1, "stream", None, True, 1.5):
        with pytest.raises(DeviceError, match="not a CUDA stream"):
            cuda.external_stream(wrong)


def test_streams_of_others_are_not_destroyed(driver):
    own = cuda.Stream()
    foreign = cuda.external_stream(own.handle)
    del foreign
    own.synchronize()
    assert own.query()


def test_streams_of_others_live_as_long_as_what_was_made_on_them(driver):
    class Theirs(ForeignStream):
        def __init__(self):
            self.stream = cuda.Stream()
            super().__init__(self.stream.handle)

    with cuda.stream(Theirs()):
        array = arrays.from_host(np.arange(3.0))
    np.testing.assert_array_equal(array.to_host(), np.arange(3.0))
    del array
    cuda.synchronize()
    assert driver.live_bytes() == 0


def test_streams_wait_for_each_other(driver):
    side = cuda.Stream()
    array = arrays.from_host(np.arange(3.0))
    side.wait_stream(cuda.current_stream())
    copy = array.copy(stream=side)
    event = side.record_event()
    assert event.device is cuda_device(0)
    cuda.current_stream().wait_event(event)
    again = copy.copy()
    np.testing.assert_array_equal(again.to_host(), np.arange(3.0))
    assert event.query()
    assert side.query()
    side.synchronize()


def test_a_forgotten_wait_is_seen():
    with installed(HostDriver(late=True)) as driver:
        array = arrays.from_host(np.arange(3.0))
        side = cuda.Stream()
        target = arrays.empty((3,), float, stream=side)
        with active(0):
            driver.copy_on_device(target.address, array.address, 24, side.handle)
        with pytest.raises(Misuse, match="before its stream has come to allocate it"):
            side.synchronize()


def test_arrays_know_the_stream_that_writes_them(driver):
    with cuda.stream(cuda.Stream()):
        array = arrays.from_host(np.arange(3.0))
    with cuda.stream(cuda.Stream()):
        copy = array.copy()
        there = array.copy("cuda:1")
    for each in (array, copy, there):
        np.testing.assert_array_equal(each.to_host(), np.arange(3.0))


def test_streams_of_two_devices(driver):
    event = cuda.Stream(device=1).record_event()
    cuda.current_stream().wait_event(event)  # across devices
    with pytest.raises(DeviceError, match="belongs to the device"):
        event.record()
    cuda.synchronize()


def test_events_that_were_never_recorded(driver):
    event = cuda.Event()
    event.wait()
    event.synchronize()
    assert event.query()
    assert event.device is None


def test_time_between_events(driver):
    start, stop = cuda.Event(timing=True), cuda.Event(timing=True)
    with pytest.raises(DeviceError, match="recorded=False"):
        start.elapsed_time(stop)
    start.record()
    stop.record()
    stop.synchronize()
    assert 0 <= start.elapsed_time(stop) < 1000
    with pytest.raises(DeviceError, match="timing=False"):
        start.elapsed_time(cuda.Event().record())


def test_a_wait_is_for_the_recording_that_it_knew(driver):
    side = cuda.Stream()
    event = cuda.Event().record()
    side.wait_event(event)
    event.record(side)  # again, after the wait: not a circle
    side.synchronize()
    assert event.query()


class Kernels(HostDriver):
    """Runs `kernel(memory, *words)`: the module's text is Python."""

    def run_kernel(self, source, name, grid, block, parameters):
        scope = {"np": np}
        exec(source, scope)

        def at(address):
            return self.memory(int(address), 8).view(np.float64)

        scope[name](at, *np.frombuffer(parameters, np.int64))


DOUBLE = b"def kernel(at, n, x, y):\n    at(y)[:n] = 2 * at(x)[:n]\n"
ADD = b"def kernel(at, n, x, y, z):\n    at(z)[:n] = at(x)[:n] + at(y)[:n]\n"


@pytest.fixture(params=[False, True], ids=["at once", "late"])
def kernels(request):
    with installed(Kernels(late=request.param)) as driver:
        yield driver


def launch(driver, source, stream, *words):
    function = driver.kept.get(source)
    if function is None:
        function = driver.kept[source] = driver.function(driver.load_module(source), "kernel")
    parameters = np.array(words, np.int64)
    driver.launch(
        function, (1, 1, 1), (32, 1, 1), 0, stream.handle, parameters.ctypes.data, parameters.nbytes
    )


def test_kernels_are_launched_with_words(kernels):
    x = arrays.from_host(np.arange(4.0))
    y = arrays.empty((4,), float)
    with active(0):
        launch(kernels, DOUBLE, cuda.current_stream(), 4, x.address, y.address)
    np.testing.assert_array_equal(y.to_host(), 2 * np.arange(4.0))
    assert kernels.launches == [("kernel", (1, 1, 1), (32, 1, 1))]


def branches(driver, main, side, x, a, b, y):
    """y = 2x + 4x, with 2x on one stream and 4x on another one."""
    fork, join = cuda.Event(), cuda.Event()
    fork.record(main).wait(side)
    launch(driver, DOUBLE, side, 4, x.address, b.address)
    launch(driver, DOUBLE, side, 4, b.address, b.address)
    launch(driver, DOUBLE, main, 4, x.address, a.address)
    join.record(side).wait(main)
    launch(driver, ADD, main, 4, a.address, b.address, y.address)


def test_branches_are_captured_and_replayed(kernels):
    x = arrays.from_host(np.arange(4.0))
    a, b, y = (arrays.zeros((4,), float) for _ in range(3))
    cuda.synchronize()
    main, side = cuda.Stream(), cuda.Stream()
    with active(0):
        for source in (DOUBLE, ADD):  # modules are not loaded while capturing
            kernels.kept[source] = kernels.function(kernels.load_module(source), "kernel")
        kernels.begin_capture(main.handle)
        branches(kernels, main, side, x, a, b, y)
        assert kernels.is_capturing(main.handle)
        assert kernels.is_capturing(side.handle)
        graph = kernels.end_capture(main.handle)
        assert not kernels.is_capturing(side.handle)
        assert kernels.launches == []
        executable = kernels.instantiate(graph)
        for k in range(3):
            x.fill_from(np.full(4, float(k)))
            kernels.launch_graph(executable, cuda.current_stream().handle)
            np.testing.assert_array_equal(y.to_host(), np.full(4, 6.0 * k))

        # The same form with another result: put into the executable graph.
        z = arrays.zeros((4,), float)
        cuda.synchronize()
        kernels.begin_capture(main.handle)
        branches(kernels, main, side, x, a, b, z)
        other = kernels.end_capture(main.handle)
        assert kernels.update(executable, other)
        kernels.launch_graph(executable, cuda.current_stream().handle)
        np.testing.assert_array_equal(z.to_host(), np.full(4, 12.0))

        kernels.begin_capture(main.handle)
        launch(kernels, DOUBLE, main, 4, x.address, a.address)
        shorter = kernels.end_capture(main.handle)
        assert not kernels.update(executable, shorter)
        for handle in (graph, other, shorter):
            kernels.destroy_graph(handle)
        kernels.destroy_executable(executable)


def test_what_a_capture_does_not_allow(kernels):
    x = arrays.zeros((4,), float)
    main, side = cuda.Stream(), cuda.Stream()
    cuda.synchronize()
    event = cuda.Event()
    with active(0):
        with pytest.raises(Misuse, match="the default stream cannot be captured"):
            kernels.begin_capture(0)
        kernels.begin_capture(main.handle)
        for call in (
            main.synchronize,
            main.query,
            cuda.synchronize,
            lambda: arrays.empty((3,), float, stream=main),
            lambda: event.record(main).synchronize(),
            lambda: kernels.load_module(DOUBLE),
        ):
            with pytest.raises(Misuse, match="captured"):
                call()
        event.record(main).wait(side)
        kernels.fill(x.address, 0, 8, side.handle)
        with pytest.raises(Misuse, match="was not joined"):
            kernels.end_capture(main.handle)
        main.wait_stream(side)
        kernels.end_capture(main.handle)


def test_a_missing_dependency_in_a_graph_is_seen():
    """Graphs run in another order than they were captured in, where they may."""
    with installed(Kernels(late=True)) as driver:
        x, a, y = (arrays.from_host(np.ones(4)) for _ in range(3))
        cuda.synchronize()
        main, side = cuda.Stream(), cuda.Stream()
        with active(0):
            for source in (DOUBLE, ADD):
                driver.kept[source] = driver.function(driver.load_module(source), "kernel")
            driver.begin_capture(main.handle)
            side.wait_stream(main)
            launch(driver, DOUBLE, side, 4, x.address, a.address)
            launch(driver, ADD, main, 4, a.address, a.address, y.address)  # does not wait for it
            main.wait_stream(side)
            executable = driver.instantiate(driver.end_capture(main.handle))
            driver.launch_graph(executable, 0)
        np.testing.assert_array_equal(y.to_host(), np.full(4, 2.0))  # not 4


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((0, 1, 1), (32, 1, 1), "is not within"),
        ((1, 70000, 1), (32, 1, 1), "is not within"),
        ((1, 1, 1), (2048, 1, 1), "is not within"),
        ((1, 1, 1), (512, 4, 1), "more than 1024 threads"),
    ],
)
def test_limits_of_launches(kernels, grid, block, message):
    with active(0):
        function = kernels.function(kernels.load_module(DOUBLE), "kernel")
        words = np.zeros(3, np.int64)
        with pytest.raises(Misuse, match=message):
            kernels.launch(function, grid, block, 0, 0, words.ctypes.data, 24)
        with pytest.raises(Misuse, match="shared memory"):
            kernels.launch(function, (1, 1, 1), (1, 1, 1), 1 << 16, 0, words.ctypes.data, 24)
        kernels.allow_shared_memory(function, 1 << 16)
        with active(1), pytest.raises(Misuse, match="a module of device 0"):
            kernels.launch(function, (1, 1, 1), (1, 1, 1), 0, 0, words.ctypes.data, 24)
