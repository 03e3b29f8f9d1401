"""What is left after a kernel failed, and after a fork."""

import os

import numpy as np
import pytest

from numba_grad.errors import ContextLostError, DeviceError, KernelError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda import driver as driver_module
from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.interface import DriverError
from tests.cuda.host_driver import HostDriver, installed
from tests.processes import run_python


class Kernels(HostDriver):
    def run_kernel(self, source, name, grid, block, parameters):
        pass


@pytest.fixture(params=[False, True], ids=["at once", "late"])
def kernels(request):
    with installed(Kernels(devices=1, late=request.param)) as driver:
        yield driver


def launch(driver, *names):
    """Say that these are launched, and launch the last one."""
    word = np.zeros(1, np.int64)
    with active(0):
        function = driver.function(driver.load_module(b"def kernel(n): pass"), "kernel")
        for name in names:
            driver.note_launch(0, name)
        driver.launch(function, (1, 1, 1), (1, 1, 1), 0, 0, word.ctypes.data, 8)


def test_a_kernels_error_is_reported_once_with_its_name(kernels):
    x = arrays.zeros((3,), float)
    kernels.fail_next_kernel()
    launch(kernels, "gather: float64[3]")
    with pytest.raises(KernelError) as caught:
        x.to_host()
    message = str(caught.value)
    assert message.startswith("gather: float64[3]: a kernel failed on the GPU")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in message
    assert "a new process" in message
    later = (
        x.to_host,
        lambda: arrays.zeros((3,), float),
        cuda.synchronize,
        cuda.Stream,
        lambda: cuda.Event().record(),
        cuda.memory_stats,
        cuda.empty_cache,
    )
    for call in later:
        with pytest.raises(ContextLostError, match=r"lost by *: gather: float64\[3\]"):
            call()
    del x  # nothing is given back to a context that is not there


def test_all_that_may_have_failed_is_named(kernels):
    kernels.fail_next_kernel("CUDA_ERROR_LAUNCH_FAILED")
    launch(kernels, "add", "add", "exp")
    with pytest.raises(KernelError, match="one of add, exp: a kernel failed"):
        cuda.synchronize()


def test_what_is_done_cannot_have_failed(kernels):
    launch(kernels, "add")
    cuda.current_stream().synchronize()
    kernels.fail_next_kernel()
    launch(kernels, "exp")
    with pytest.raises(KernelError, match=r"^exp: a kernel failed"):
        cuda.synchronize()


def test_long_lists_of_suspects_are_cut(kernels):
    kernels.fail_next_kernel()
    launch(kernels, *(f"step{k}" for k in range(20)))
    with pytest.raises(KernelError, match=r"one of step12, .*step19 and 12 more"):
        cuda.synchronize()


def test_kernels_of_other_libraries_fail_too(kernels):
    kernels.fail_next_kernel()
    with active(0):
        word = np.zeros(1, np.int64)
        function = kernels.function(kernels.load_module(b"def kernel(n): pass"), "kernel")
        kernels.launch(function, (1, 1, 1), (1, 1, 1), 0, 0, word.ctypes.data, 8)
    with pytest.raises(KernelError, match="not launched by numba_grad"):
        cuda.synchronize()


def test_other_errors_leave_the_context_alone(kernels):
    with active(0):
        module = kernels.load_module(b"def kernel(n): pass")
        with pytest.raises(DriverError, match="CUDA_ERROR_NOT_FOUND") as caught:
            kernels.function(module, "nothing")
    assert caught.value.code == "CUDA_ERROR_NOT_FOUND"
    cuda.synchronize()


def in_a_child(work):
    """What `work` returns in a forked child, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.thorough(but="late")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_told(driver):
    x = arrays.from_host(np.arange(3.0))
    stream, event = cuda.Stream(), cuda.Event().record()
    for work in (x.to_host, x.copy, cuda.synchronize, cuda.Stream, stream.synchronize, event.query):
        text = in_a_child(work)
        assert text.startswith("DeviceError: cuda: this process was forked"), text
        assert "multiprocessing.get_context('spawn')" in text
    assert in_a_child(cuda.is_available) == "False"

    def forget():
        nonlocal x, stream, event
        x = stream = event = None  # finalizers have nothing to do there
        return driver.calls[calls:]

    calls = len(driver.calls)
    assert in_a_child(forget) == "[]"
    np.testing.assert_array_equal(x.to_host(), np.arange(3.0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_of_a_process_in_which_another_thread_starts_cuda_is_told(monkeypatch):
    monkeypatch.setattr(driver_module, "_driver", None)
    monkeypatch.setattr(driver_module, "_is_starting", True)
    text = in_a_child(cuda.synchronize)
    assert text.startswith("DeviceError: cuda: this process was forked"), text


def test_a_fork_before_cuda_is_used_does_no_harm():
    code = """
import os
import numba_grad as ng
from numba_grad.errors import CudaUnavailableError, DeviceError
if os.fork() == 0:
    try:
        ng.cuda.current_device()
    except CudaUnavailableError:
        pass  # and not that it was forked
    os._exit(0)
_, status = os.wait()
assert status == 0
"""
    run_python(code)


def test_nothing_is_left_to_do_at_the_end_of_the_process():
    code = """
import numpy as np
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda.driver import install
from tests.cuda.host_driver import HostDriver
install(HostDriver())
x = arrays.from_host(np.arange(3.0))
x.owner.use_on(cuda.Stream())
stream, event = cuda.Stream(), cuda.Event().record()
"""
    run_python(code, quietly=True)


def test_errors_are_those_of_devices():
    assert issubclass(ContextLostError, DeviceError)
