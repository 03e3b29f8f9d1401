"""`CudaDriver` with the real `cuda.bindings`, over a libcuda that writes down its arguments.

The library is stub_driver.c, built by the system's C compiler, and loaded in another process before
`cuda.bindings` looks for one of that name.
"""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from numba_grad.errors import CudaUnavailableError
from numba_grad.runtime.cuda.driver import CudaDriver
from tests.cuda.requirements import needs_compiler
from tests.processes import run_python

COMPILER = shutil.which("cc") or shutil.which("gcc")
HAS_BINDINGS = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings")
needs_stub = pytest.mark.skipif(
    COMPILER is None or not HAS_BINDINGS,
    reason='no C compiler, or no cuda.bindings: pip install ".[cuda]"',
)

PROCESS = """
import ctypes, json, sys
stub = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)

def log():
    text = ctypes.create_string_buffer(1 << 16)
    stub.stub_take_log(text, ctypes.c_size_t(len(text)))
    return text.value.decode().splitlines()

def fail(name, code):
    stub.stub_fail(name.encode(), code)

for number, value in ((75, 9), (76, 0), (1, 1024), (10, 32), (16, 132), (39, 2048)):
    stub.stub_set_attribute(number, value)
import numpy as np
from numba_grad import errors
from numba_grad.runtime.cuda import arrays, driver, memory, streams
from numba_grad.runtime.cuda.interface import NodeKind
words = np.array([3, -4], np.int64)
d = driver.current_driver()
for statement in json.load(sys.stdin):
    result = error = None
    try:
        try:
            result = eval(statement)
        except SyntaxError:
            exec(statement)
    except errors.DeviceError as caught:
        error = [type(caught).__name__, str(caught)]
    except errors.KernelError as caught:
        error = [type(caught).__name__, str(caught)]
    print(json.dumps([repr(result), error, log()]))
"""

THRESHOLD = 2**64 - 1
CAPTURE = ("cuStreamBeginCapture", "cuLaunchKernel", "cuStreamEndCapture", "cuGraphInstantiate")
# Each of these after those before it: what is called, what comes of it, how the driver was called.
CALLS = [
    ("d.device_count()", "2", None),
    ("(d.properties(0).name, d.properties(0).total_memory >> 30)", "('stub 100', 128)", None),
    ("d.properties(1).name", "'stub 101'", None),
    (
        "d.activate(0)",
        "None",  # nobody's device: it may stay
        [
            "cuDeviceGet(0)",
            "cuDeviceGetAttribute(115, 100)",  # whether there are memory pools
            "cuDevicePrimaryCtxRetain(100)",
            "cuMemPoolCreate(1, 0, 1, 0, 0)",  # pinned, no handles, of a device, number 0
            f"cuMemPoolSetAttribute(0xb000, 4, {THRESHOLD})",  # release threshold
            "cuCtxSetCurrent(0xc064)",
        ],
    ),
    ("d.activate(0)", "None", []),
    (
        "d.activate(1)",
        str(0xC064),
        [
            "cuDeviceGet(1)",
            "cuDeviceGetAttribute(115, 101)",
            "cuDevicePrimaryCtxRetain(101)",
            "cuMemPoolCreate(1, 0, 1, 1, 0)",
            f"cuMemPoolSetAttribute(0xb001, 4, {THRESHOLD})",
            "cuCtxSetCurrent(0xc065)",
        ],
    ),
    ("d.restore(0xC064)", "None", ["cuCtxSetCurrent(0xc064)"]),
    ("d.synchronize(0)", "None", ["cuCtxSynchronize()"]),
    (
        "d.synchronize(1)",
        "None",
        ["cuCtxSetCurrent(0xc065)", "cuCtxSynchronize()", "cuCtxSetCurrent(0xc064)"],
    ),
    ("d.architecture(0)", "'sm_90'", None),
    ("d.properties(0).shared_memory_per_block_at_most", "97", []),  # attributes are their numbers
    ("a = d.allocate(1, 512, 0x5000)", "None", ["cuMemAllocFromPoolAsync(512, 0xb001, 0x5000)"]),
    ("d.fill(a, 7, 16, 0x5000)", "None", ["cuMemsetD8Async(7, 16, 0x5000)"]),
    (
        "d.copy_to_device(a, words.ctypes.data, 16, 0x5000)",
        "None",
        ["cuMemcpyHtoDAsync(16, 0x5000)"],
    ),
    ("d.copy_on_device(a + 16, a, 16, 0x5000)", "None", ["cuMemcpyDtoDAsync(16, 0x5000)"]),
    (
        "d.copy_between_devices(a + 32, 1, a, 0, 16, 0x5000)",
        "None",
        ["cuMemcpyPeerAsync(0xc065, 0xc064, 16, 0x5000)"],
    ),
    ("back = np.zeros(6, np.int64)", "None", []),
    (
        "d.copy_to_host(back.ctypes.data, a, 48, 0x5000)",
        "None",
        ["cuMemcpyDtoHAsync(48, 0x5000)"],
    ),
    ("back.tolist()", "[3, -4, 3, -4, 3, -4]", []),
    ("p = d.allocate_pinned(16)", "None", ["cuMemHostAlloc(16, 0)"]),
    (
        "d.copy_to_pinned(p, a, 8, 0x5000)",
        "None",
        ["cuMemcpyDtoHAsync(8, 0x5000)", "cuStreamSynchronize(0x5000)"],
    ),
    ("ctypes.c_int64.from_address(p).value", "3", []),
    ("d.free(a, 0x5000)", "None", ["cuMemFreeAsync(address, 0x5000)"]),
    (
        "d.memory_info(0)",
        "MemoryInfo(free=11, total=22, used=7000, reserved=5000, used_peak=8000)",
        [
            "cuMemGetInfo()",
            "cuMemPoolGetAttribute(0xb000, 7)",
            "cuMemPoolGetAttribute(0xb000, 5)",
            "cuMemPoolGetAttribute(0xb000, 8)",
        ],
    ),
    ("d.reset_peak(0)", "None", ["cuMemPoolSetAttribute(0xb000, 8, 0)"]),
    ("d.trim(1)", "None", ["cuMemPoolTrimTo(0xb001, 0)"]),
    ("d.pointer_attributes(0xDEAD)", "None", None),
    ("d.pointer_attributes(0x1000).kind", "'host'", None),
    ("d.pointer_attributes(0x3000).kind", "'managed'", None),
    (
        "d.pointer_attributes(0x2000)",
        "PointerAttributes(kind='device', device=1)",
        [f"cuPointerGetAttribute({which}, 0x2000)" for which in (2, 9, 8)],
    ),
    ("hex(d.create_stream(0, -1))", "'0x5000'", ["cuStreamCreateWithPriority(1, -1)"]),
    ("d.destroy_stream(0x5000)", "None", ["cuStreamDestroy(0x5000)"]),
    ("d.synchronize_stream(0x5000)", "None", ["cuStreamSynchronize(0x5000)"]),
    ("d.query_stream(0x5000)", "True", ["cuStreamQuery(0x5000)"]),
    ("fail('cuStreamQuery', 600)", "None", []),  # CUDA_ERROR_NOT_READY
    ("d.query_stream(0x5000)", "False", ["cuStreamQuery(0x5000)"]),
    ("hex(d.create_event())", "'0xe000'", ["cuEventCreate(2)"]),  # without timing
    ("hex(d.create_event(timing=True))", "'0xe000'", ["cuEventCreate(0)"]),
    ("d.destroy_event(0xE000)", "None", ["cuEventDestroy(0xe000)"]),
    ("d.record_event(0xE000, 0x5000)", "None", ["cuEventRecord(0xe000, 0x5000)"]),
    ("d.wait_event(0x5000, 0xE000)", "None", ["cuStreamWaitEvent(0x5000, 0xe000, 0)"]),
    ("d.synchronize_event(0xE000)", "None", ["cuEventSynchronize(0xe000)"]),
    ("d.query_event(0xE000)", "True", ["cuEventQuery(0xe000)"]),
    ("d.elapsed(0xE000, 0xE001)", "1.5", ["cuEventElapsedTime(0xe000, 0xe001)"]),
    ("hex(d.load_module(b'cubin text'))", "'0x4000'", ["cuModuleLoadData(cubin text)"]),
    ("hex(d.function(0x4000, 'kernel'))", "'0xf000'", ["cuModuleGetFunction(0x4000, kernel)"]),
    (
        "d.allow_shared_memory(0xF000, 100000)",
        "None",
        ["cuFuncSetAttribute(0xf000, 8, 100000)"],  # largest dynamic size
    ),
    (
        "d.launch(0xF000, (5, 4, 3), (32, 2, 1), 128, 0x5000, words.ctypes.data, 16)",
        "None",
        ["cuLaunchKernel(0xf000, 5 4 3, 32 2 1, 128, 0x5000, null, 3 -4)"],
    ),
    ("d.begin_capture(0x5000)", "None", ["cuStreamBeginCapture(0x5000, 2)"]),  # relaxed
    ("hex(d.end_capture(0x5000))", "'0x6000'", ["cuStreamEndCapture(0x5000)"]),
    ("d.begin_capture(0x5000)", "None", None),
    (
        "hex(d.new_condition(0x5000))",
        "'0x6300'",
        [
            "cuStreamGetCaptureInfo(0x5000)",
            "cuGraphConditionalHandleCreate(0x6000, 0xc064, 0, 0)",
        ],
    ),
    (
        "list(map(hex, d.add_conditional(0x5000, 0x6300, NodeKind.WHILE, 1)))",
        "['0x6400']",
        [
            "cuStreamGetCaptureInfo(0x5000)",
            # After the last node: of type 13, conditional; of kind 1, while.
            "cuGraphAddNode(0x6000, 0x6100, edges, 1, type 13: 0x6300, 1, 1, 0xc064)",
            "cuStreamUpdateCaptureDependencies(0x5000, 0x6200, null, 1, 1)",
        ],
    ),
    (
        "d.begin_body(0x5100, 0x6400)",
        "None",
        ["cuStreamBeginCaptureToGraph(0x5100, 0x6400, null, null, 0, 2)"],
    ),
    ("d.end_body(0x5100)", "None", ["cuStreamEndCapture(0x5100)"]),
    (
        "list(map(hex, d.add_conditional(0x5000, 0x6300, NodeKind.SWITCH, 3)))",
        "['0x6400', '0x6401', '0x6402']",
        None,
    ),
    ("hex(d.end_capture(0x5000))", "'0x6000'", ["cuStreamEndCapture(0x5000)"]),
    ("hex(d.instantiate(0x6000))", "'0x7000'", ["cuGraphInstantiate(0x6000, 0)"]),
    ("d.update(0x7000, 0x6000)", "True", ["cuGraphExecUpdate(0x7000, 0x6000)"]),
    ("fail('cuGraphExecUpdate', 910)", "None", []),  # CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    ("d.update(0x7000, 0x6000)", "False", ["cuGraphExecUpdate(0x7000, 0x6000)"]),
    ("d.launch_graph(0x7000, 0x5000)", "None", ["cuGraphLaunch(0x7000, 0x5000)"]),
    ("d.destroy_graph(0x6000)", "None", ["cuGraphDestroy(0x6000)"]),
    ("d.destroy_executable(0x7000)", "None", ["cuGraphExecDestroy(0x7000)"]),
    # Arrays, with all of it together
    ("x = arrays.from_host(np.arange(4.0))", "None", None),
    ("x.copy('cuda:1').copy(0).to_host().tolist()", "[0.0, 1.0, 2.0, 3.0]", None),
    # Errors
    ("fail('cuMemAllocFromPoolAsync', 2)", "None", []),
    (
        "memory.allocate(3 << 30)",
        "OutOfMemoryError: cuda: out of memory on cuda:0.*3.00 GiB",
        [
            "cuMemAllocFromPoolAsync(3221225472, 0xb000, 0)",
            "cuCtxSynchronize()",
            "cuMemPoolTrimTo(0xb000, 0)",
            "cuMemAllocFromPoolAsync(3221225472, 0xb000, 0)",
            "cuMemGetInfo()",
            "cuMemPoolGetAttribute(0xb000, 7)",
            "cuMemPoolGetAttribute(0xb000, 5)",
            "cuMemPoolGetAttribute(0xb000, 8)",
        ],
    ),
    ("fail('cuModuleLoadData', 209)", "None", []),
    (
        "d.load_module(b'cubin')",
        "DriverError: cuModuleLoadData.*CUDA_ERROR_NO_BINARY_FOR_GPU",
        None,
    ),
    ("fail('cuModuleLoadData', 2)", "None", []),
    (
        "d.load_module(b'cubin')",
        "DriverMemoryError: cuModuleLoadData.*CUDA_ERROR_OUT_OF_MEMORY",
        None,
    ),
    ("d.note_launch(0, 'add: float64[3]')", "None", []),
    ("fail('cuLaunchKernel', 701)", "None", []),
    (
        "d.launch(0xF000, (1, 1, 1), (2048, 1, 1), 0, 0, words.ctypes.data, 16)",
        r"DriverError: cuLaunchKernel.*LAUNCH_OUT_OF_RESOURCES\s+operation : add: float64",
        None,
    ),
    ("d.synchronize(0)", "None", None),
    ("d.note_all_done()", "None", []),
    ("fail('cuStreamSynchronize', 700)", "None", []),
    ("d.note_launch(0x5000, 'add: float64[3]')", "None", []),
    (
        "d.synchronize_stream(0x5000)",
        "KernelError: add: float64.3.: a kernel failed on the GPU.*CUDA_ERROR_ILLEGAL_ADDRESS",
        None,
    ),
    (
        "d.synchronize_stream(0x5000)",
        "ContextLostError: .*lost, by an earlier error.*add: float64.3.",
        None,
    ),
    ("d.is_lost", "True", []),
    ("del x", "None", []),  # nothing is called any more
]


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    library = tmp_path_factory.mktemp("stub") / "libcuda.so.1"
    source = Path(__file__).with_name("stub_driver.c")
    soname = "-Wl,-soname,libcuda.so.1"
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-Wall", soname, "-o", library, source, "-ldl"], check=True
    )
    return library


def answers_of(stub, statements):
    output = run_python(PROCESS, stub, given=json.dumps(statements))
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def answers(stub):
    return answers_of(stub, [statement for statement, _, _ in CALLS])


@needs_stub
@pytest.mark.parametrize("number", range(len(CALLS)), ids=[call[0][:40] for call in CALLS])
def test_calls_of_the_driver(answers, number):
    _, expected, calls = CALLS[number]
    result, error, log = answers[number]
    if error is not None:
        assert re.match(expected, f"{error[0]}: {error[1]}", re.DOTALL), error
    else:
        assert result == expected
    if calls is not None:
        assert log == calls


def names(log):
    return [call.partition("(")[0] for call in log]


@pytest.mark.thorough
@needs_stub
@needs_compiler
def test_programs_are_launched_captured_and_replayed(stub):
    """All of it, from a tensor to the driver: only what kernels compute is missing."""
    *_, first, second, third, described = answers_of(
        stub,
        [
            "import numba_grad as ng",
            "x = ng.tensor(np.arange(100000.0), device='cuda')",
            # Each sum needs all of the one before.
            "center = lambda x: x - x.sum()",
            "f = ng.jit(lambda x: center(center(center(center(x)))).sum())",
            "f(x).shape",
            "f(x).shape",
            "f(x).shape",
            "[kernel.source for kernel in f.lower(x).kernels]",
        ],
    )
    assert [answer[:2] for answer in (first, second, third)] == [["()", None]] * 3, described
    launches = [call for call in first[2] if call.startswith("cuLaunchKernel")]
    assert len(launches) >= 4
    assert "cuStreamBeginCapture" not in names(first[2])
    # The second run captures the same launches, on a stream of its own, and launches the graph.
    assert names(second[2]).count("cuLaunchKernel") == len(launches)
    order = [names(second[2]).index(name) for name in CAPTURE]
    assert order == sorted(order)
    assert "cuGraphLaunch(0x7000, 0)" in second[2]
    assert "cuStreamSynchronize(0)" not in second[2]
    # The result has another address, or the same one again.
    assert "cuGraphLaunch(0x7000, 0)" in third[2]
    assert "cuModuleLoadData" not in names(second[2] + third[2])


class Enumeration:
    """Any name is a member of it."""

    def __getattr__(self, name):
        return name


class OldGpu:
    """Enough of `cuda.bindings.driver` for a GPU of the generation before."""

    class CUresult:
        CUDA_SUCCESS = 0
        CUDA_ERROR_NOT_READY = 600

    CUdevice_attribute = Enumeration()

    def __init__(self, **attributes):
        self.attributes = attributes

    def cuDeviceGetCount(self):
        return 0, 1

    def cuDeviceGet(self, number):
        return 0, number

    def cuDeviceGetName(self, length, handle):
        return 0, b"Some GPU\0\0"

    def cuDeviceTotalMem(self, handle):
        return 0, 1 << 30

    def cuDeviceGetAttribute(self, which, handle):
        return 0, self.attributes.get(which.removeprefix("CU_DEVICE_ATTRIBUTE_"), 1)


@pytest.mark.parametrize(
    ("attributes", "shown"),
    [
        ({"COMPUTE_CAPABILITY_MAJOR": 7, "COMPUTE_CAPABILITY_MINOR": 0}, r"capability : 7\.0"),
        (
            {"COMPUTE_CAPABILITY_MAJOR": 9, "MEMORY_POOLS_SUPPORTED": 0},
            "memory pools       : no",
        ),
    ],
)
def test_gpus_that_cannot_be_used_are_named(attributes, shown):
    driver = CudaDriver(OldGpu(**attributes))
    with pytest.raises(CudaUnavailableError, match=shown) as caught:
        driver.activate(0)
    assert "Some GPU" in str(caught.value)
    assert "7.5 (Turing)" in str(caught.value)
