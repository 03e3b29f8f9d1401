"""Devices by name, and the current one."""

import threading

import numpy as np
import pytest

from numba_grad.errors import DeviceError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import devices
from numba_grad.runtime.cuda.devices import CPU, cuda_device, cuda_index, parse_device


class OfAnotherLibrary:
    def __str__(self):
        return "cuda:1"


def test_devices_have_names(driver):
    assert parse_device(None) is parse_device("cpu") is parse_device(CPU) is CPU
    assert parse_device("cuda") is parse_device("cuda:0") is cuda_device(0)
    assert parse_device("cuda:1") is parse_device(OfAnotherLibrary()) is cuda_device(1)
    assert parse_device(cuda_device(1)) is cuda_device(1)
    assert [str(device) for device in (CPU, cuda_device(1))] == ["cpu", "cuda:1"]
    assert repr(cuda_device(1)) == "device('cuda:1')"


@pytest.mark.parametrize(
    "name", ["gpu", "", "cuda:-1", "cuda:x", "cuda:", "cuda: 1", "cuda:+1", "cuda:1_0", "CUDA", 3.5]
)
def test_what_is_no_device(driver, name):
    with pytest.raises(DeviceError, match="no such device") as caught:
        parse_device(name)
    assert repr(name) in str(caught.value)
    assert "'cuda:0'" in str(caught.value)


def test_gpus_that_are_not_there(driver):
    with pytest.raises(DeviceError, match=r"(?s)'cuda:2'.*GPUs *: 2.*'cuda:0' to 'cuda:1'"):
        parse_device("cuda:2")
    for wrong in (2, -1, "cpu", np.int64(5)):
        with pytest.raises(DeviceError):
            cuda_index(wrong)
    assert [cuda_index(right) for right in (1, np.int32(1), "cuda:1", cuda_device(1))] == [1] * 4


def test_the_current_device_is_a_threads_own(driver):
    seen = []
    with cuda.device(1) as device:
        assert device is cuda.current_device() is parse_device("cuda") is cuda_device(1)
        thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
        thread.start()
        thread.join()
        with cuda.device("cuda:0"):
            assert cuda.current_stream().device is cuda_device(0)
        assert cuda.current_stream().device is cuda_device(1)
    assert seen == [cuda_device(0)]
    assert cuda.current_device() is cuda_device(0)


def test_the_current_device_comes_back_after_an_error(driver):
    block = cuda.device(1)
    with pytest.raises(ZeroDivisionError), block, block:
        _ = 1 / 0
    assert cuda.current_device() is cuda_device(0)


def test_the_context_of_another_library_is_left_as_it_was(driver):
    driver.activate(1)  # as cupy.cuda.Device(1).use() would
    with devices.active(0):
        assert driver.activate(0) is None
    assert driver.activate(1) is None


def test_properties(driver):
    properties = cuda.get_device_properties(1)
    assert cuda.get_device_name("cuda:1") == properties.name == "host memory 1"
    assert properties.total_memory == driver.total_memory
    assert cuda.is_available()
    assert cuda.device_count() == 2
