"""The runtime on a real GPU: `pytest -m cuda tests/cuda`. Skipped where there is none.

What the other tests of this directory show on drivers in host memory is shown here once more where
hardware, the real driver or other libraries could differ.
"""

import subprocess
import sys
import time

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.cuda import build
from numba_grad.errors import ForeignArrayError, OutOfMemoryError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.imports import from_cuda_array_interface
from tests.cuda.requirements import needs_compiler
from tests.processes import run_python
from tests.threads import run_in_threads

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("real_gpu")]


KERNEL = """\
@cuda.jit("void(int64, CPointer(float64), CPointer(float64))")
def kernel(n0, x0, x1):
    # {name}: float64, 1-d
    task = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    while task < n0:
        x1[task] = {expression}
        task += cuda.gridDim.x * cuda.blockDim.x
"""
DOUBLE = KERNEL.format(name="double", expression="x0[task] * float64(2.0)")
# Many dependent steps, so that whoever does not wait sees an old value.
SLOW = KERNEL.format(
    name="slow",
    expression="x0[task]\n        for _ in range(int32(20000)):\n"
    "            x1[task] = math.sqrt(x1[task] * x1[task]) + float64(1.0)",
)
OUTSIDE = KERNEL.format(name="outside", expression="x0[task + int64(1) << int64(40)]")


def function(source):
    driver = current_driver()
    found = driver.kept.get(source)
    if found is None:
        kernel = build.build(source, driver.architecture(0))
        with active(0):
            module = driver.load_module(kernel.code)
            found = driver.kept[source] = driver.function(module, kernel.entry_name)
    return found


def launch(source, x, y, stream=None):
    stream = cuda.current_stream() if stream is None else stream
    words = np.array([x.size, x.address, y.address], np.int64)
    with active(0):
        current_driver().launch(
            function(source), (64, 1, 1), (256, 1, 1), 0, stream.handle, words.ctypes.data, 24
        )


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
def test_copies_both_ways(dtype, size):
    value = np.random.default_rng(0).integers(0, 2, size).astype(dtype)
    array = arrays.from_host(value)
    copy = array.copy()
    value_before = value.copy()
    value[:] = 0
    np.testing.assert_array_equal(array.to_host(), value_before)
    np.testing.assert_array_equal(copy.to_host(), value_before)
    assert not arrays.zeros((size,), dtype).to_host().any()


class OnTheHost:
    """Says that it is on a GPU."""

    value = np.zeros(8)
    __cuda_array_interface__ = {  # noqa: RUF012 - as the protocol has it
        "shape": value.shape,
        "typestr": value.dtype.str,
        "data": (value.ctypes.data, False),
        "version": 3,
    }


def test_what_the_driver_says_of_memory():
    driver = current_driver()
    array = arrays.from_host(np.arange(1000.0))
    found = driver.pointer_attributes(array.address + 8)
    assert found is not None
    assert (found.kind, found.device) == ("device", 0)
    assert driver.pointer_attributes(np.zeros(8).ctypes.data) is None
    with pytest.raises(ForeignArrayError, match="no memory of a GPU"):
        from_cuda_array_interface(OnTheHost())


def test_properties():
    properties = cuda.get_device_properties()
    assert properties.compute_capability >= (7, 5)
    assert properties.warp_size == 32
    assert properties.multiprocessors > 0
    assert properties.total_memory == cuda.memory_stats().total
    assert 1e10 < properties.memory_bandwidth < 1e14 or properties.memory_bandwidth == 0


def test_memory_comes_back():
    cuda.synchronize()
    cuda.empty_cache()
    before = cuda.memory_stats()
    array = arrays.zeros((100 << 20,), np.int8)
    assert cuda.memory_allocated() >= before.used + array.nbytes
    del array
    cuda.synchronize()
    assert cuda.memory_allocated() == before.used
    assert cuda.memory_stats().reserved >= 100 << 20  # kept for the next one
    cuda.empty_cache()
    assert cuda.memory_stats().reserved <= before.reserved + (32 << 20)


def test_too_much_memory_is_refused_and_work_goes_on():
    stats = cuda.memory_stats()
    kept = arrays.from_host(np.arange(10.0))
    with pytest.raises(OutOfMemoryError, match="out of memory on cuda:0"):
        arrays.empty((2 * stats.total,), np.int8)
    # Pieces that together are as large as the device: the pool has to give the first ones back.
    for share in (0.5, 0.3, 0.55, 0.2, 0.6):
        arrays.zeros((int(share * stats.free),), np.int8)
    np.testing.assert_array_equal(kept.to_host(), np.arange(10.0))
    cuda.empty_cache()


@needs_compiler
def test_streams_wait_for_each_other():
    x = arrays.from_host(np.zeros(100_000))
    y, z = arrays.zeros((100_000,), float), arrays.zeros((100_000,), float)
    cuda.synchronize()
    first, second = cuda.Stream(), cuda.Stream()
    for _ in range(5):
        launch(SLOW, x, y, first)
        second.wait_stream(first)
        launch(DOUBLE, y, z, second)
        cuda.current_stream().wait_stream(second)
        np.testing.assert_array_equal(z.to_host(), np.full(100_000, 40000.0))


@needs_compiler
def test_streams_are_asynchronous_and_events_take_the_time():
    x, y = arrays.zeros((100_000,), float), arrays.zeros((100_000,), float)
    launch(SLOW, x, y)
    cuda.synchronize()
    stream = cuda.Stream()
    start, stop = cuda.Event(timing=True), cuda.Event(timing=True)
    before = time.perf_counter()
    start.record(stream)
    for _ in range(10):
        launch(SLOW, x, y, stream)
    stop.record(stream)
    launched = time.perf_counter() - before
    is_done = stop.query()
    stop.synchronize()
    total = time.perf_counter() - before
    assert not is_done
    assert launched < total / 2
    assert 0.2 * total < start.elapsed_time(stop) / 1e3 < 1.1 * total


@needs_compiler
def test_memory_is_not_given_to_others_too_early():
    """Freed while another stream still writes to it: the next owner must not see that."""
    side = cuda.Stream()
    x = arrays.zeros((1 << 20,), float)
    cuda.synchronize()
    for _ in range(20):
        y = arrays.zeros((1 << 20,), float)
        side.wait_stream(cuda.current_stream())
        launch(SLOW, x, y, side)
        y.owner.use_on(side)
        address = y.address
        del y
        other = arrays.zeros((1 << 20,), float)
        assert not other.to_host().any(), address


@needs_compiler
def test_graphs_are_captured_replayed_and_changed():
    driver = current_driver()
    x = arrays.from_host(np.arange(1000.0))
    y, z = arrays.zeros((1000,), float), arrays.zeros((1000,), float)
    function(DOUBLE)
    cuda.synchronize()
    main, side = cuda.Stream(), cuda.Stream()
    with active(0):
        graphs = []
        for target in (y, z):
            driver.begin_capture(main.handle)
            side.wait_stream(main)
            launch(DOUBLE, x, target, side)
            main.wait_stream(side)
            launch(DOUBLE, target, target, main)
            garbage = arrays.zeros((10,), float, stream=cuda.current_stream())
            del garbage  # frees on another stream while this one is captured
            graphs.append(driver.end_capture(main.handle))
        executable = driver.instantiate(graphs[0])
        driver.launch_graph(executable, 0)
        np.testing.assert_array_equal(y.to_host(), 4 * np.arange(1000.0))
        assert driver.update(executable, graphs[1])
        x.fill_from(np.ones(1000))
        driver.launch_graph(executable, 0)
        np.testing.assert_array_equal(z.to_host(), np.full(1000, 4.0))
        np.testing.assert_array_equal(y.to_host(), 4 * np.arange(1000.0))
        for graph in graphs:
            driver.destroy_graph(graph)
        driver.destroy_executable(executable)


@needs_compiler
def test_several_threads():
    def work(seed):
        with cuda.stream(cuda.Stream()):
            for k in range(50):
                x = arrays.from_host(np.full(10_000 + seed, float(k)))
                y = arrays.empty((x.size,), float)
                launch(DOUBLE, x, y)
                np.testing.assert_array_equal(y.to_host(), np.full(x.size, 2.0 * k))

    run_in_threads(work, range(8))


@needs_compiler
def test_a_kernel_that_fails_is_reported_once():
    """In a process of its own, which is of no use on a GPU afterwards."""
    code = """
import numpy as np
from numba_grad.errors import ContextLostError, KernelError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda.driver import current_driver
from tests.cuda.test_real_gpu import OUTSIDE, launch
x = arrays.from_host(np.arange(10.0))
current_driver().note_launch(0, "outside: float64[10]")
launch(OUTSIDE, x, x)
try:
    x.to_host()
except KernelError as error:
    assert "outside: float64[10]" in str(error), error
else:
    raise AssertionError("no error")
for call in (x.to_host, cuda.synchronize, lambda: arrays.zeros((3,), float), cuda.Stream):
    try:
        call()
    except ContextLostError as error:
        assert "outside" in str(error)
    else:
        raise AssertionError(call)
del x
"""
    run_python(code, quietly=True)


def test_a_forked_child_is_told():
    code = """
import os
import warnings
import numpy as np
from numba_grad.errors import DeviceError
from numba_grad.runtime.cuda import arrays
x = arrays.from_host(np.arange(10.0))
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, for the driver has threads
if os.fork() == 0:
    try:
        x.to_host()
    except DeviceError as error:
        assert "forked" in str(error)
        del x
        os._exit(0)
    os._exit(1)
assert os.wait()[1] == 0
assert x.to_host().sum() == 45
"""
    run_python(code, quietly=True)


SANITIZED = """
import numpy as np
import numba_grad as ng

def f(x, w):
    h = ng.tanh(x @ w)
    order = ng.sort(h, 0)[::2]
    return (ng.softmax(h, 1) * ng.cumsum(h, 1)).sum() + (order[np.array([0, 3, 0])] ** 2).sum()

f = ng.jit(ng.value_and_grad(f, (0, 1)))
x, w = (ng.tensor(np.random.default_rng(0).random((40, 40)), device="cuda") for _ in range(2))
for _ in range(3):
    value, gradients = f(x, w)
    assert all(np.isfinite(g.cpu().numpy()).all() for g in gradients)
"""


@needs_compiler
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_compute_sanitizer_finds_nothing(tool):
    program = build._utility("compute-sanitizer")
    if program is None:
        pytest.skip("compute-sanitizer is not installed")
    command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", SANITIZED]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


def test_kernels_of_users():
    numba_cuda = pytest.importorskip("numba.cuda")

    def cubed(x, out):
        i = numba_cuda.grid(1)
        if i < x.shape[0]:
            out[i] = x[i] ** 3

    op = ng.custom_op(
        "cubed", cuda=cubed, shape=lambda x: x.shape, vjp=lambda g, out, x: 3 * x * x * g
    )
    a = np.linspace(-1.0, 1.0, 1000)
    f = ng.jit(ng.value_and_grad(lambda x: (op(x) + ng.sin(op(x))).sum()))
    for _ in range(3):  # launched, then captured and replayed
        value, gradient = f(ng.tensor(a, device="cuda"))
        np.testing.assert_allclose(value.item(), (a**3 + np.sin(a**3)).sum(), atol=1e-11)
        expected = 3 * a * a * (1 + np.cos(a**3))
        np.testing.assert_allclose(gradient.cpu().numpy(), expected, rtol=1e-12)
    rows = ng.vmap(op)(ng.tensor(a.reshape(8, 125), device="cuda"))
    np.testing.assert_allclose(rows.cpu().numpy(), a.reshape(8, 125) ** 3, rtol=1e-14)


# Other libraries


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    return torch


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def test_arrays_of_torch(torch):
    theirs = torch.arange(12.0, dtype=torch.float64, device="cuda").reshape(3, 4)
    for x in (ng.from_dlpack(theirs), ng.tensor(theirs, copy=False), ng.from_dlpack(theirs.T).T):
        np.testing.assert_array_equal(x.cpu().numpy(), np.arange(12.0).reshape(3, 4))
    shared = ng.from_dlpack(theirs, copy=False)
    assert shared._node.value.address == theirs.data_ptr()
    with pytest.raises(ForeignArrayError, match="left-out"):
        ng.from_dlpack(theirs[:, ::2], copy=False)


def test_arrays_for_torch(torch):
    x = ng.tensor(np.arange(12.0).reshape(3, 4), device="cuda")
    theirs = torch.from_dlpack(x)
    assert theirs.device.type == "cuda"
    assert theirs.data_ptr() == x._node.value.address
    np.testing.assert_array_equal((2 * theirs).cpu().numpy(), 2 * x.cpu().numpy())
    del x
    np.testing.assert_array_equal(theirs.cpu().numpy(), np.arange(12.0).reshape(3, 4))


def test_streams_of_torch(torch):
    """What torch computes on a stream of its own is there, without waiting on the host."""
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            theirs = torch.zeros(1 << 22, dtype=torch.float64, device="cuda")
            for _ in range(20):
                theirs += 1
            x = ng.from_dlpack(theirs, copy=False)
            del theirs
        with cuda.stream(cuda.external_stream(stream.cuda_stream)):
            assert float((x * 1).sum().item()) == 20.0 * (1 << 22)


def test_arrays_of_cupy_and_back(cupy):
    theirs = cupy.arange(12.0).reshape(3, 4)
    for x in (ng.tensor(theirs, copy=False), ng.from_dlpack(theirs, copy=False)):
        assert x._node.value.address == theirs.data.ptr
        back = cupy.asarray(x)
        assert back.data.ptr == theirs.data.ptr
        np.testing.assert_array_equal(cupy.asnumpy(back), np.arange(12.0).reshape(3, 4))
        np.testing.assert_array_equal(
            cupy.asnumpy(cupy.from_dlpack(x * 2)), 2 * np.arange(12.0).reshape(3, 4)
        )
    np.testing.assert_array_equal(ng.tensor(theirs[::-1]).cpu().numpy(), cupy.asnumpy(theirs)[::-1])
    with pytest.raises(ForeignArrayError, match="negative"):
        ng.tensor(theirs[::-1], copy=False)


def test_arrays_for_numba():
    numba_cuda = pytest.importorskip("numba.cuda")
    x = ng.tensor(np.arange(12.0), device="cuda")
    np.testing.assert_array_equal(numba_cuda.as_cuda_array(x).copy_to_host(), np.arange(12.0))
    theirs = numba_cuda.to_device(np.arange(5.0))
    np.testing.assert_array_equal(ng.tensor(theirs).cpu().numpy(), np.arange(5.0))
