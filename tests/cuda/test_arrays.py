"""Arrays on a GPU: copies both ways and between devices, and who keeps which memory alive."""

import itertools

import numpy as np
import pytest

from numba_grad.errors import DeviceError, ShapeError
from numba_grad.runtime.cuda import arrays, devices, streams
from tests.cuda.host_driver import HostDriver, Misuse, installed

DTYPES = ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 1, 5)])
def test_what_is_copied_to_the_device_comes_back(driver, dtype, shape):
    value = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    array = arrays.from_host(value)
    assert (array.shape, array.dtype, array.device) == (shape, value.dtype, devices.cuda_device(0))
    back = array.to_host()
    assert back.dtype == value.dtype
    np.testing.assert_array_equal(back, value)


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_host_array_may_be_written_to_at_once(driver, size):
    value = np.ones(size)
    array = arrays.from_host(value)
    value[:] = 2.0
    np.testing.assert_array_equal(array.to_host(), np.ones(size))


@pytest.mark.parametrize("size", [10, 100_000])
def test_strided_host_arrays_are_put_in_order(driver, size):
    value = np.arange(4.0 * size).reshape(2 * size, 2)[::-2].T
    np.testing.assert_array_equal(arrays.from_host(value).to_host(), value)


def test_zeros(driver):
    np.testing.assert_array_equal(arrays.zeros((3, 2), np.float32).to_host(), np.zeros((3, 2)))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty_arrays_have_no_memory(driver, shape):
    array = arrays.from_host(np.zeros(shape))
    assert (array.address, array.nbytes, driver.calls) == (0, 0, [])
    assert array.to_host().shape == array.copy("cuda:1").shape == shape
    assert arrays.zeros(shape, float).size == 0


def test_a_reshaped_array_shares_memory_and_keeps_it(driver):
    array = arrays.from_host(np.arange(6.0))
    table = array.reshape((2, 3))
    del array
    np.testing.assert_array_equal(table.to_host(), np.arange(6.0).reshape(2, 3))
    with pytest.raises(ShapeError, match="another number of elements"):
        table.reshape((4, 2))
    assert driver.live_bytes() == 48
    del table
    driver.synchronize(0)
    assert driver.live_bytes() == 0


def test_copies_between_devices(driver):
    value = np.arange(5.0)
    array = arrays.from_host(value)
    other = array.copy("cuda:1")
    assert other.device == devices.cuda_device(1)
    del array
    np.testing.assert_array_equal(other.to_host(), value)
    np.testing.assert_array_equal(other.copy(0).to_host(), value)


def test_copies_are_other_memory(driver):
    array = arrays.from_host(np.zeros(3))
    copy = array.copy()
    array.fill_from(np.ones(3))
    np.testing.assert_array_equal(copy.to_host(), np.zeros(3))


def test_fill_from_takes_equal_shapes_and_dtypes(driver):
    array = arrays.zeros((2, 3), np.float32)
    with pytest.raises(ShapeError, match=r"float64\[3\]"):
        array.fill_from(np.zeros(3))


def test_objects_are_refused(driver):
    with pytest.raises(DeviceError, match="Python objects"):
        arrays.from_host(np.array([None]))


def test_more_elements_than_32_bits_count():
    size = 2**31 + 8
    with installed(HostDriver(total_memory=1 << 40)) as driver:
        # Only pages that are touched become memory: not by filling with NaN.
        driver.new_bytes = lambda nbytes: np.zeros(nbytes, np.uint8)
        array = arrays.empty((2, size // 2), np.int8)
        assert (array.size, array.nbytes) == (size, size)
        end = array.address + size - 4
        tail = arrays.DeviceArray(end, (4,), array.dtype, array.device, array.owner)
        tail.fill_from(np.arange(4, dtype=np.int8))
        np.testing.assert_array_equal(driver.memory(end), np.arange(4))


def test_the_host_driver_sees_what_is_wrong(driver):
    array = arrays.from_host(np.zeros(4))
    address = array.address
    beyond = arrays.DeviceArray(address, (5,), array.dtype, array.device, None)
    with pytest.raises(Misuse, match="run 8 bytes over the end"):
        beyond.to_host()
    elsewhere = arrays.DeviceArray(address, (4,), array.dtype, devices.cuda_device(1), None)
    with pytest.raises(Misuse, match="is on device 0, and used on device 1"):
        elsewhere.to_host()
    del array
    freed = arrays.DeviceArray(address, (4,), beyond.dtype, beyond.device, None)
    with pytest.raises(Misuse, match="after it was freed"):
        freed.to_host()
    with pytest.raises(Misuse, match="is in no allocation"):
        driver.memory(12345)


def test_memory_used_by_another_stream_is_kept_for_it():
    """Late streams run in the order in which they are waited for: each order has to be right."""
    for order in itertools.permutations(range(3)):
        with installed(HostDriver(late=True)) as driver:
            side = streams.Stream()
            array = arrays.from_host(np.arange(4.0))
            side.wait_stream(streams.current_stream())
            copy = array.copy(stream=side)
            del array  # freed on the default stream, if `side` were not known to use it
            other = arrays.zeros((4,), float)
            waits = (side.synchronize, streams.current_stream().synchronize, other.to_host)
            for k in order:
                waits[k]()
            np.testing.assert_array_equal(copy.to_host(side), np.arange(4.0))
            driver.synchronize(0)
            assert driver.live_bytes() == 64


def test_forgetting_to_say_who_uses_memory_is_seen():
    """What the test before would miss if the driver did not see it."""
    with installed(HostDriver(late=True)) as driver:
        side = streams.Stream()
        array = arrays.from_host(np.arange(4.0))
        side.wait_stream(streams.current_stream())
        target = arrays.empty((4,), float, stream=side)
        with devices.active(0):
            driver.copy_on_device(target.address, array.address, 32, side.handle)
        del array
        streams.current_stream().synchronize()
        with pytest.raises(Misuse, match="after it was freed"):
            side.synchronize()
