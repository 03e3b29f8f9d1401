"""NVIDIA's driver, through `cuda.bindings`, which is imported when a GPU is first asked for."""

import atexit
import ctypes
import os
import threading
from typing import Any

from numba_grad.errors import CudaUnavailableError, DeviceError, explain
from numba_grad.locks import new_lock
from numba_grad.runtime.cuda import diagnosis
from numba_grad.runtime.cuda.interface import (
    DeviceBlock,
    DeviceProperties,
    Driver,
    Extents,
    MemoryInfo,
    NodeKind,
    PointerAttributes,
)

# The pool keeps what arrays give back until the device runs out or `empty_cache` is called: with
# the driver's default, every synchronization would return it to the system.
_KEEP_ALL = (1 << 64) - 1
# How `cuLaunchKernel` is told of parameters that lie packed in one buffer (cuda.h).
_PARAMETER_BUFFER, _PARAMETER_BYTES = 1, 2


class _LaunchWords(threading.local):
    """The five words that say where parameters are, and the one that says how many bytes."""

    def __init__(self) -> None:
        self.size = ctypes.c_uint64()
        size = ctypes.addressof(self.size)
        self.words = (ctypes.c_uint64 * 5)(_PARAMETER_BUFFER, 0, _PARAMETER_BYTES, size, 0)
        self.address = ctypes.addressof(self.words)


class CudaDriver(Driver):
    """See `Driver`. `library` is the module `cuda.bindings.driver`, with `cuInit` done."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self._library = library
        self._success = library.CUresult.CUDA_SUCCESS
        self._not_ready = library.CUresult.CUDA_ERROR_NOT_READY
        self._lock = new_lock()
        self._contexts: dict[int, int] = {}  # primary ones, which all libraries share
        self._pools: dict[int, Any] = {}
        self._properties: dict[int, DeviceProperties] = {}
        self._launch = _LaunchWords()
        self._count = int(self._call("cuDeviceGetCount"))

    # Results of `cuda.bindings` are tuples: the error, and what the call returns.

    def _call(self, name: str, *arguments: Any) -> Any:
        """The result of a function; the first one of several."""
        result = getattr(self._library, name)(*arguments)
        self._check(result, name)
        return result[1] if len(result) > 1 else None

    def _check(self, result: tuple[Any, ...], call: str) -> None:
        if result[0] != self._success:
            self.fail(result[0].name, call)

    def _is_ready(self, name: str, *arguments: Any) -> bool:
        result = getattr(self._library, name)(*arguments)
        if result[0] == self._not_ready:
            return False
        self._check(result, name)
        return True

    # Devices

    def device_count(self) -> int:
        return self._count

    def properties(self, device: int) -> DeviceProperties:
        found = self._properties.get(device)
        if found is None:
            found = self._properties[device] = self._read_properties(device)
        return found

    def _read_properties(self, device: int) -> DeviceProperties:
        handle = self._call("cuDeviceGet", device)
        name = self._call("cuDeviceGetName", 256, handle)

        def attribute(name: str) -> int:
            return self._attribute(handle, name)

        # Kilohertz, and twice per cycle.
        clock, width = attribute("MEMORY_CLOCK_RATE"), attribute("GLOBAL_MEMORY_BUS_WIDTH")
        return DeviceProperties(
            name=name.split(b"\0")[0].decode(),
            compute_capability=(
                attribute("COMPUTE_CAPABILITY_MAJOR"),
                attribute("COMPUTE_CAPABILITY_MINOR"),
            ),
            total_memory=int(self._call("cuDeviceTotalMem", handle)),
            multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
            threads_per_multiprocessor=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            threads_per_block=attribute("MAX_THREADS_PER_BLOCK"),
            registers_per_multiprocessor=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_memory_per_multiprocessor=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            shared_memory_per_block=attribute("MAX_SHARED_MEMORY_PER_BLOCK"),
            shared_memory_per_block_at_most=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            l2_cache=attribute("L2_CACHE_SIZE"),
            warp_size=attribute("WARP_SIZE"),
            memory_bandwidth=2e3 * clock * width / 8,
        )

    def activate(self, device: int) -> int | None:
        context = self._contexts.get(device)
        if context is None:
            context = self._start(device)
        current = int(self._call("cuCtxGetCurrent"))
        if current == context:
            return None
        self._call("cuCtxSetCurrent", context)
        # Without a context a thread's device is number 0 for all libraries, as it is with this one.
        return None if current == 0 and device == 0 else current

    def restore(self, previous: int) -> None:
        self._call("cuCtxSetCurrent", previous)

    def _start(self, device: int) -> int:
        """Open the device's context, and make our pool of its memory."""
        with self._lock:
            if device not in self._contexts:
                handle = self._call("cuDeviceGet", device)
                self._require(handle, device)
                context = self._call("cuDevicePrimaryCtxRetain", handle)
                self._pools[device] = self._create_pool(device)
                self._contexts[device] = int(context)
            return self._contexts[device]

    def _require(self, handle: Any, device: int) -> None:
        """Refuse a GPU that kernels cannot be compiled for, or that lends no memory by streams."""
        capability = self.properties(device).compute_capability
        has_pools = self._attribute(handle, "MEMORY_POOLS_SUPPORTED")
        if capability < diagnosis.OLDEST_CAPABILITY or not has_pools:
            raise CudaUnavailableError(
                explain(
                    "cuda",
                    "this GPU cannot be used",
                    got={
                        f"cuda:{device}": self.properties(device).name,
                        "compute capability": ".".join(map(str, capability)),
                        "memory pools": "yes" if has_pools else "no",
                    },
                    expected="compute capability 7.5 (Turing) or newer, and memory pools, which "
                    "some virtual GPUs do not have",
                )
            )

    def _attribute(self, handle: Any, name: str) -> int:
        which = getattr(self._library.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", which, handle))

    def _create_pool(self, device: int) -> Any:
        # Not the device's default pool: that is every library's, and so would its statistics be.
        library = self._library
        wanted = library.CUmemPoolProps()
        wanted.allocType = library.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.handleTypes = library.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        wanted.location.type = library.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = device
        pool = self._call("cuMemPoolCreate", wanted)
        self._set_pool(pool, "RELEASE_THRESHOLD", _KEEP_ALL)
        return pool

    def _set_pool(self, pool: Any, name: str, value: int) -> None:
        library = self._library
        which = getattr(library.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        number = library.cuuint64_t(value)
        self._call("cuMemPoolSetAttribute", pool, which, number)

    def _get_pool(self, pool: Any, name: str) -> int:
        which = getattr(self._library.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        return int(self._call("cuMemPoolGetAttribute", pool, which))

    def synchronize(self, device: int) -> None:
        with self.capturing, DeviceBlock(self, device):
            self._call("cuCtxSynchronize")
        if self._count == 1:
            self.note_all_done()

    # Memory

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        if device not in self._pools:
            self._start(device)
        return int(self._call("cuMemAllocFromPoolAsync", nbytes, self._pools[device], stream))

    def free(self, address: int, stream: int) -> None:
        self._call("cuMemFreeAsync", address, stream)

    def memory_info(self, device: int) -> MemoryInfo:
        with DeviceBlock(self, device):
            result = self._library.cuMemGetInfo()
        self._check(result, "cuMemGetInfo")
        pool = self._pools[device]
        return MemoryInfo(
            free=int(result[1]),
            total=int(result[2]),
            used=self._get_pool(pool, "USED_MEM_CURRENT"),
            reserved=self._get_pool(pool, "RESERVED_MEM_CURRENT"),
            used_peak=self._get_pool(pool, "USED_MEM_HIGH"),
        )

    def reset_peak(self, device: int) -> None:
        if device in self._pools:
            self._set_pool(self._pools[device], "USED_MEM_HIGH", 0)

    def trim(self, device: int) -> None:
        if device in self._pools:
            self._call("cuMemPoolTrimTo", self._pools[device], 0)

    def copy_to_device(self, address: int, host_address: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyHtoDAsync", address, host_address, nbytes, stream)

    def copy_to_host(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoHAsync", host_address, address, nbytes, stream)

    def allocate_pinned(self, nbytes: int) -> int:
        return int(self._call("cuMemHostAlloc", nbytes, 0))

    def copy_to_pinned(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoHAsync", host_address, address, nbytes, stream)
        # Without `note_stream_done`: what goes on in the stream has been noted already.
        self._call("cuStreamSynchronize", stream)

    def copy_on_device(self, address: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoDAsync", address, source, nbytes, stream)

    def copy_between_devices(
        self, address: int, device: int, source: int, source_device: int, nbytes: int, stream: int
    ) -> None:
        for index in (device, source_device):
            if index not in self._contexts:
                self._start(index)
        to, of = self._contexts[device], self._contexts[source_device]
        self._call("cuMemcpyPeerAsync", address, to, source, of, nbytes, stream)

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        self._call("cuMemsetD8Async", address, byte, nbytes, stream)

    def pointer_attributes(self, address: int) -> PointerAttributes | None:
        library = self._library

        def which(name: str) -> Any:
            return getattr(library.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")

        result = library.cuPointerGetAttribute(which("MEMORY_TYPE"), address)
        if result[0] == library.CUresult.CUDA_ERROR_INVALID_VALUE:
            return None  # no memory that the driver knows of
        self._check(result, "cuPointerGetAttribute")
        device, is_managed = (
            int(self._call("cuPointerGetAttribute", which(name), address))
            for name in ("DEVICE_ORDINAL", "IS_MANAGED")
        )
        on_host = result[1] == library.CUmemorytype.CU_MEMORYTYPE_HOST
        word = "managed" if is_managed else "host" if on_host else "device"
        return PointerAttributes(word, device)

    # Streams and events

    def create_stream(self, device: int, priority: int = 0) -> int:
        flags = int(self._library.CUstream_flags.CU_STREAM_NON_BLOCKING)
        with DeviceBlock(self, device):
            return int(self._call("cuStreamCreateWithPriority", flags, priority))

    def destroy_stream(self, stream: int) -> None:
        self._call("cuStreamDestroy", stream)

    def synchronize_stream(self, stream: int) -> None:
        self._call("cuStreamSynchronize", stream)
        self.note_stream_done(stream)

    def query_stream(self, stream: int) -> bool:
        return self._is_ready("cuStreamQuery", stream)

    def create_event(self, timing: bool = False) -> int:
        flags = self._library.CUevent_flags
        flag = int(flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING)
        return int(self._call("cuEventCreate", flag))

    def destroy_event(self, event: int) -> None:
        self._call("cuEventDestroy", event)

    def record_event(self, event: int, stream: int) -> None:
        self._call("cuEventRecord", event, stream)

    def wait_event(self, stream: int, event: int) -> None:
        self._call("cuStreamWaitEvent", stream, event, 0)

    def synchronize_event(self, event: int) -> None:
        self._call("cuEventSynchronize", event)

    def query_event(self, event: int) -> bool:
        return self._is_ready("cuEventQuery", event)

    def elapsed(self, start: int, stop: int) -> float:
        return float(self._call("cuEventElapsedTime", start, stop))

    # Kernels

    def load_module(self, code: bytes) -> int:
        return int(self._call("cuModuleLoadData", code))

    def function(self, module: int, name: str) -> int:
        return int(self._call("cuModuleGetFunction", module, name.encode()))

    def allow_shared_memory(self, function: int, nbytes: int) -> None:
        attributes = self._library.CUfunction_attribute
        which = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, which, nbytes)

    def launch(
        self,
        function: int,
        grid: Extents,
        block: Extents,
        shared_bytes: int,
        stream: int,
        parameters_address: int,
        parameters_bytes: int,
    ) -> None:
        launch = self._launch
        launch.words[1] = parameters_address
        launch.size.value = parameters_bytes
        self._call(
            "cuLaunchKernel", function, *grid, *block, shared_bytes, stream, 0, launch.address
        )

    # Graphs

    def begin_capture(self, stream: int) -> None:
        # Relaxed: a finalizer may free memory, on another stream, at any point of this thread's.
        mode = self._library.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> int:
        return int(self._call("cuStreamEndCapture", stream))

    def new_condition(self, stream: int) -> int:
        graph, *_ = self._capture_info(stream)
        # Without a default: a kernel sets it before it is asked for.
        return int(self._call("cuGraphConditionalHandleCreate", graph, self._context(), 0, 0))

    def add_conditional(self, stream: int, condition: int, kind: NodeKind, count: int) -> list[int]:
        library = self._library
        wanted = library.CUgraphNodeParams()
        wanted.type = library.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        wanted.conditional.handle = condition
        wanted.conditional.type = library.CUgraphConditionalNodeType(kind)
        wanted.conditional.size = count
        wanted.conditional.ctx = self._context()
        node = self._call("cuGraphAddNode", *self._capture_info(stream), wanted)
        flags = library.CUstreamUpdateCaptureDependencies_flags
        flag = int(flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        self._call("cuStreamUpdateCaptureDependencies", stream, [node], None, 1, flag)
        return [int(body) for body in wanted.conditional.phGraph_out]

    def begin_body(self, stream: int, body: int) -> None:
        mode = self._library.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCaptureToGraph", stream, body, None, None, 0, mode)

    def end_body(self, stream: int) -> None:
        self._call("cuStreamEndCapture", stream)

    def _capture_info(self, stream: int) -> tuple[Any, ...]:
        """The graph that is captured; the nodes that come last in it, edges to them, how many."""
        error, _, _, *found = self._library.cuStreamGetCaptureInfo(stream)
        self._check((error,), "cuStreamGetCaptureInfo")
        return tuple(found)

    def _context(self) -> Any:
        return self._call("cuCtxGetCurrent")

    def instantiate(self, graph: int) -> int:
        return int(self._call("cuGraphInstantiate", graph, 0))

    def update(self, executable: int, graph: int) -> bool:
        result = self._library.cuGraphExecUpdate(executable, graph)
        if result[0] == self._library.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
            return False
        self._check(result, "cuGraphExecUpdate")
        return True

    def launch_graph(self, executable: int, stream: int) -> None:
        self._call("cuGraphLaunch", executable, stream)

    def destroy_graph(self, graph: int) -> None:
        self._call("cuGraphDestroy", graph)

    def destroy_executable(self, executable: int) -> None:
        self._call("cuGraphExecDestroy", executable)


_lock = new_lock()
_driver: Driver | None = None
_is_starting = False
_started_before_fork = False


def current_driver() -> Driver:
    """The driver of this process, started when it is first asked for.

    Raises
    ------
    CudaUnavailableError
        If there is no GPU to be used; the message says what is missing.
    DeviceError
        In a process that was forked from one in which CUDA had started.
    """
    return _driver if _driver is not None else _started_driver()


def running_driver() -> Driver | None:
    """The driver if it was started in this very process, for finalizers."""
    return _driver


def install(driver: Driver | None) -> Driver | None:
    """Put another driver in place, for tests; returns the one before. None starts anew."""
    global _driver
    with _lock:
        previous, _driver = _driver, driver
        if previous is not None:
            previous.is_usable = False
        if driver is not None:
            driver.is_usable = not driver.is_lost
    return previous


def _started_driver() -> Driver:
    global _driver, _is_starting
    if _started_before_fork:
        raise DeviceError(
            explain(
                "cuda",
                "this process was forked from one that had used CUDA, which no driver survives",
                got={"process": f"{os.getpid()}, forked from {os.getppid()}"},
                expected="CUDA used first in the child, or processes that are spawned",
                fix="multiprocessing.get_context('spawn')",
            )
        )
    with _lock:
        if _driver is None:
            _is_starting = True
            try:
                _driver = CudaDriver(diagnosis.usable_library())
            finally:
                _is_starting = False
        return _driver


def _leave_to_system() -> None:
    """At the end of the process nothing has to be given back, and the driver may be gone."""
    if _driver is not None:
        _driver.is_usable = False


atexit.register(_leave_to_system)


def _leave_to_parent() -> None:
    global _driver, _started_before_fork
    if _driver is not None:
        _driver.is_usable = False
    # It may be another thread that was starting it.
    _started_before_fork = _started_before_fork or _is_starting or _driver is not None
    _driver = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
