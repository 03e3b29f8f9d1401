"""The pool: what is lent, kept and given back, by which stream, and what happens without memory."""

import gc
import weakref

import numpy as np
import pytest

from numba_grad.errors import DeviceError, OutOfMemoryError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda.memory import allocate, shown
from numba_grad.runtime.cuda.streams import Stream
from tests.cuda.host_driver import HostDriver, installed
from tests.threads import run_in_threads

MIB = 1 << 20


def test_memory_is_counted(driver):
    x = arrays.zeros((MIB,), np.int8)
    y = arrays.zeros((MIB,), np.int8, "cuda:1")
    assert cuda.memory_allocated() == cuda.memory_allocated("cuda:1") == MIB
    z = arrays.zeros((2 * MIB,), np.int8)
    assert cuda.memory_allocated() == 3 * MIB
    del x, z
    cuda.synchronize()
    stats = cuda.memory_stats()
    assert (stats.used, stats.reserved, stats.used_peak) == (0, 3 * MIB, 3 * MIB)
    assert stats.free == stats.total - stats.reserved
    assert cuda.max_memory_allocated() == 3 * MIB
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == 0
    cuda.empty_cache()
    assert cuda.memory_stats().reserved == 0
    assert cuda.memory_allocated(1) == y.nbytes


def test_memory_goes_back_on_its_own_stream(driver):
    side = cuda.Stream()
    memory = allocate(100, side)
    driver.calls.clear()
    del memory
    assert driver.calls == ["free"]  # waits for nothing
    side.synchronize()
    assert driver.live_bytes() == 0


def test_memory_used_elsewhere_goes_back_after_that(driver):
    memory = allocate(100)
    others = [cuda.Stream(), cuda.Stream()]
    for other in others:
        memory.use_on(cuda.current_stream())  # once is enough
        memory.use_on(other)
    driver.calls.clear()
    del memory
    waited_for = 3  # the stream that it came from, and two others
    assert driver.calls == ["record_event", "wait_event"] * waited_for + ["free"]
    cuda.synchronize()
    assert driver.live_bytes() == 0


def test_streams_that_use_memory_outlive_their_names(driver):
    memory = allocate(100)
    side = cuda.Stream()
    memory.use_on(side)
    del side
    del memory
    cuda.synchronize()
    assert driver.live_bytes() == 0


def test_memory_used_on_another_device_goes_back_after_that(driver):
    x = arrays.from_host(np.arange(4.0))
    other = cuda.Stream(device=1)
    x.owner.use_on(other)
    del x
    cuda.synchronize(0)
    assert driver.live_bytes(0) == 0


@pytest.mark.thorough
def test_the_pool_is_emptied_once_before_giving_up():
    with installed(HostDriver(total_memory=10 * MIB)) as driver:
        kept = allocate(4 * MIB)
        pooled = allocate(5 * MIB)
        del pooled
        driver.calls.clear()
        larger = allocate(6 * MIB)  # 1 is free, 5 are pooled
        assert larger.nbytes == 6 * MIB
        assert driver.memory_info(0).reserved == 10 * MIB
        with pytest.raises(OutOfMemoryError) as caught:
            allocate(MIB)
        message = str(caught.value)
        assert "out of memory on cuda:0" in message
        for part in ("1.00 MiB", "10.00 MiB by tensors", "0 bytes that cannot", "of 10.00 MiB"):
            assert part in message
        assert isinstance(caught.value, MemoryError)
        assert isinstance(caught.value, DeviceError)
        # The other device is not concerned, and this one works on.
        assert allocate(9 * MIB, cuda.current_stream(1)).address
        del larger
        assert allocate(MIB).address
        assert kept.address


def test_more_than_there_is_at_all():
    with (
        installed(HostDriver(total_memory=10 * MIB)),
        pytest.raises(OutOfMemoryError, match=r"4096\.00 GiB"),
    ):
        arrays.empty((1 << 40,), np.int32)


def test_cycles_that_nobody_uses_make_room():
    class Cycle:
        def __init__(self):
            self.itself = self
            self.memory = allocate(6 * MIB)

    gc.disable()
    try:
        with installed(HostDriver(total_memory=10 * MIB)):
            Cycle()
            assert allocate(6 * MIB).address
    finally:
        gc.enable()


@pytest.mark.thorough
def test_cycles_are_collected_at_any_point(driver):
    """A finalizer of one device runs between calls for another one, and leaves that active."""

    class Cycle:
        def __init__(self):
            self.itself = self
            self.memory = allocate(64, cuda.current_stream(1))

    Cycle()
    driver.activate(0)
    gc.collect()
    assert driver.activate(0) is None
    cuda.synchronize(1)
    assert driver.live_bytes(1) == 0


def test_several_threads(driver):
    def work(seed):
        with cuda.device(seed % 2), cuda.stream(cuda.Stream()):
            for k in range(20):
                value = np.full(50 + seed, float(k))
                copy = arrays.from_host(value).copy()
                np.testing.assert_array_equal(copy.to_host(), value)
                there = copy.copy(1 - seed % 2)
                np.testing.assert_array_equal(there.to_host(), value)

    run_in_threads(work, range(4))
    for device in range(2):
        cuda.synchronize(device)
        assert driver.live_bytes(device) == 0


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.50 KiB"), (1 << 30, "1.00 GiB")],
)
def test_sizes_are_shown(nbytes, text):
    assert shown(nbytes) == text


@pytest.mark.thorough
@pytest.mark.parametrize("attempt", range(6))
def test_streams_and_their_memory_are_collected_in_any_order(driver, attempt):
    """Finalizers of a cycle run in whatever order: memory goes back when the stream's work is
    done, also where the stream itself went first."""

    class Knot:
        pass

    stream = Stream()
    parts = [arrays.zeros((100,), np.float64, stream=stream) for _ in range(attempt % 3)]
    knot = Knot()
    members = [stream, *parts] if attempt < 3 else [*parts, stream]
    knot.members, knot.itself = members, knot  # type: ignore[attr-defined]
    weak = weakref.ref(stream)
    del stream, parts, members, knot
    gc.collect()
    assert weak() is None
    driver.synchronize(0)
    assert driver.live_bytes() == 0


def test_memory_goes_back_after_its_stream(driver):
    stream = Stream()
    array = arrays.zeros((100,), np.float64, stream=stream)
    stream.__del__()  # as a collection may do it
    del array
    driver.synchronize(0)
    assert driver.live_bytes() == 0
