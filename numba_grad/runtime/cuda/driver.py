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
        self._count = int(self._value(library.cuDeviceGetCount(), "cuDeviceGetCount"))

    # Results of `cuda.bindings` are tuples: the error, and what the call returns.

    def _check(self, result: tuple[Any, ...], call: str) -> None:
        if result[0] != self._success:
            self.fail(result[0].name, call)

    def _value(self, result: tuple[Any, ...], call: str) -> Any:
        if result[0] != self._success:
            self.fail(result[0].name, call)
        return result[1]

    def _is_ready(self, result: tuple[Any, ...], call: str) -> bool:
        if result[0] == self._not_ready:
            return False
        self._check(result, call)
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
        library = self._library
        handle = self._value(library.cuDeviceGet(device), "cuDeviceGet")
        name = self._value(library.cuDeviceGetName(256, handle), "cuDeviceGetName")

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
            total_memory=int(self._value(library.cuDeviceTotalMem(handle), "cuDeviceTotalMem")),
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
        library = self._library
        context = self._contexts.get(device)
        if context is None:
            context = self._start(device)
        current = int(self._value(library.cuCtxGetCurrent(), "cuCtxGetCurrent"))
        if current == context:
            return None
        self._check(library.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        # Without a context a thread's device is number 0 for all libraries, as it is with this one.
        return None if current == 0 and device == 0 else current

    def restore(self, previous: int) -> None:
        self._check(self._library.cuCtxSetCurrent(previous), "cuCtxSetCurrent")

    def _start(self, device: int) -> int:
        """Open the device's context, and make our pool of its memory."""
        library = self._library
        with self._lock:
            if device not in self._contexts:
                handle = self._value(library.cuDeviceGet(device), "cuDeviceGet")
                self._require(handle, device)
                context = self._value(
                    library.cuDevicePrimaryCtxRetain(handle), "cuDevicePrimaryCtxRetain"
                )
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
        library = self._library
        which = getattr(library.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._value(library.cuDeviceGetAttribute(which, handle), "cuDeviceGetAttribute"))

    def _create_pool(self, device: int) -> Any:
        # Not the device's default pool: that is every library's, and so would its statistics be.
        library = self._library
        wanted = library.CUmemPoolProps()
        wanted.allocType = library.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.handleTypes = library.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        wanted.location.type = library.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = device
        pool = self._value(library.cuMemPoolCreate(wanted), "cuMemPoolCreate")
        self._set_pool(pool, "RELEASE_THRESHOLD", _KEEP_ALL)
        return pool

    def _set_pool(self, pool: Any, name: str, value: int) -> None:
        library = self._library
        which = getattr(library.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        number = library.cuuint64_t(value)
        self._check(library.cuMemPoolSetAttribute(pool, which, number), "cuMemPoolSetAttribute")

    def _get_pool(self, pool: Any, name: str) -> int:
        library = self._library
        which = getattr(library.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        return int(self._value(library.cuMemPoolGetAttribute(pool, which), "cuMemPoolGetAttribute"))

    def synchronize(self, device: int) -> None:
        with self.capturing, DeviceBlock(self, device):
            self._check(self._library.cuCtxSynchronize(), "cuCtxSynchronize")
        if self._count == 1:
            self.note_all_done()

    # Memory

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        if device not in self._pools:
            self._start(device)
        result = self._library.cuMemAllocFromPoolAsync(nbytes, self._pools[device], stream)
        return int(self._value(result, "cuMemAllocFromPoolAsync"))

    def free(self, address: int, stream: int) -> None:
        self._check(self._library.cuMemFreeAsync(address, stream), "cuMemFreeAsync")

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
            self._check(self._library.cuMemPoolTrimTo(self._pools[device], 0), "cuMemPoolTrimTo")

    def copy_to_device(self, address: int, host_address: int, nbytes: int, stream: int) -> None:
        result = self._library.cuMemcpyHtoDAsync(address, host_address, nbytes, stream)
        self._check(result, "cuMemcpyHtoDAsync")

    def copy_to_host(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        result = self._library.cuMemcpyDtoHAsync(host_address, address, nbytes, stream)
        self._check(result, "cuMemcpyDtoHAsync")

    def allocate_pinned(self, nbytes: int) -> int:
        return int(self._value(self._library.cuMemHostAlloc(nbytes, 0), "cuMemHostAlloc"))

    def copy_to_pinned(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        library = self._library
        result = library.cuMemcpyDtoHAsync(host_address, address, nbytes, stream)
        self._check(result, "cuMemcpyDtoHAsync")
        # Without `note_stream_done`: what goes on in the stream has been noted already.
        self._check(library.cuStreamSynchronize(stream), "cuStreamSynchronize")

    def copy_on_device(self, address: int, source: int, nbytes: int, stream: int) -> None:
        result = self._library.cuMemcpyDtoDAsync(address, source, nbytes, stream)
        self._check(result, "cuMemcpyDtoDAsync")

    def copy_between_devices(
        self, address: int, device: int, source: int, source_device: int, nbytes: int, stream: int
    ) -> None:
        for index in (device, source_device):
            if index not in self._contexts:
                self._start(index)
        result = self._library.cuMemcpyPeerAsync(
            address, self._contexts[device], source, self._contexts[source_device], nbytes, stream
        )
        self._check(result, "cuMemcpyPeerAsync")

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        result = self._library.cuMemsetD8Async(address, byte, nbytes, stream)
        self._check(result, "cuMemsetD8Async")

    def pointer_attributes(self, address: int) -> PointerAttributes | None:
        library = self._library

        def ask(name: str) -> tuple[Any, ...]:
            which = getattr(library.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")
            return library.cuPointerGetAttribute(which, address)

        result = ask("MEMORY_TYPE")
        if result[0] == library.CUresult.CUDA_ERROR_INVALID_VALUE:
            return None  # no memory that the driver knows of
        kind = self._value(result, "cuPointerGetAttribute")
        device, is_managed = (
            int(self._value(ask(name), "cuPointerGetAttribute"))
            for name in ("DEVICE_ORDINAL", "IS_MANAGED")
        )
        on_host = kind == library.CUmemorytype.CU_MEMORYTYPE_HOST
        word = "managed" if is_managed else "host" if on_host else "device"
        return PointerAttributes(word, device)

    # Streams and events

    def create_stream(self, device: int, priority: int = 0) -> int:
        flags = int(self._library.CUstream_flags.CU_STREAM_NON_BLOCKING)
        with DeviceBlock(self, device):
            result = self._library.cuStreamCreateWithPriority(flags, priority)
        return int(self._value(result, "cuStreamCreateWithPriority"))

    def destroy_stream(self, stream: int) -> None:
        self._check(self._library.cuStreamDestroy(stream), "cuStreamDestroy")

    def synchronize_stream(self, stream: int) -> None:
        self._check(self._library.cuStreamSynchronize(stream), "cuStreamSynchronize")
        self.note_stream_done(stream)

    def query_stream(self, stream: int) -> bool:
        return self._is_ready(self._library.cuStreamQuery(stream), "cuStreamQuery")

    def create_event(self, timing: bool = False) -> int:
        flags = self._library.CUevent_flags
        flag = int(flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING)
        return int(self._value(self._library.cuEventCreate(flag), "cuEventCreate"))

    def destroy_event(self, event: int) -> None:
        self._check(self._library.cuEventDestroy(event), "cuEventDestroy")

    def record_event(self, event: int, stream: int) -> None:
        self._check(self._library.cuEventRecord(event, stream), "cuEventRecord")

    def wait_event(self, stream: int, event: int) -> None:
        self._check(self._library.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent")

    def synchronize_event(self, event: int) -> None:
        self._check(self._library.cuEventSynchronize(event), "cuEventSynchronize")

    def query_event(self, event: int) -> bool:
        return self._is_ready(self._library.cuEventQuery(event), "cuEventQuery")

    def elapsed(self, start: int, stop: int) -> float:
        result = self._library.cuEventElapsedTime(start, stop)
        return float(self._value(result, "cuEventElapsedTime"))

    # Kernels

    def load_module(self, code: bytes) -> int:
        return int(self._value(self._library.cuModuleLoadData(code), "cuModuleLoadData"))

    def function(self, module: int, name: str) -> int:
        result = self._library.cuModuleGetFunction(module, name.encode())
        return int(self._value(result, "cuModuleGetFunction"))

    def allow_shared_memory(self, function: int, nbytes: int) -> None:
        attributes = self._library.CUfunction_attribute
        which = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        result = self._library.cuFuncSetAttribute(function, which, nbytes)
        self._check(result, "cuFuncSetAttribute")

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
        result = self._library.cuLaunchKernel(
            function, *grid, *block, shared_bytes, stream, 0, launch.address
        )
        self._check(result, "cuLaunchKernel")

    # Graphs

    def begin_capture(self, stream: int) -> None:
        # Relaxed: a finalizer may free memory, on another stream, at any point of this thread's.
        mode = self._library.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._check(self._library.cuStreamBeginCapture(stream, mode), "cuStreamBeginCapture")

    def end_capture(self, stream: int) -> int:
        return int(self._value(self._library.cuStreamEndCapture(stream), "cuStreamEndCapture"))

    def new_condition(self, stream: int) -> int:
        graph, *_ = self._capture_info(stream)
        # Without a default: a kernel sets it before it is asked for.
        result = self._library.cuGraphConditionalHandleCreate(graph, self._context(), 0, 0)
        return int(self._value(result, "cuGraphConditionalHandleCreate"))

    def add_conditional(self, stream: int, condition: int, kind: NodeKind, count: int) -> list[int]:
        library = self._library
        wanted = library.CUgraphNodeParams()
        wanted.type = library.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        wanted.conditional.handle = condition
        wanted.conditional.type = library.CUgraphConditionalNodeType(kind)
        wanted.conditional.size = count
        wanted.conditional.ctx = self._context()
        result = library.cuGraphAddNode(*self._capture_info(stream), wanted)
        node = self._value(result, "cuGraphAddNode")
        flags = library.CUstreamUpdateCaptureDependencies_flags
        result = library.cuStreamUpdateCaptureDependencies(
            stream, [node], None, 1, int(flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        )
        self._check(result, "cuStreamUpdateCaptureDependencies")
        return [int(body) for body in wanted.conditional.phGraph_out]

    def begin_body(self, stream: int, body: int) -> None:
        mode = self._library.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        result = self._library.cuStreamBeginCaptureToGraph(stream, body, None, None, 0, mode)
        self._check(result, "cuStreamBeginCaptureToGraph")

    def end_body(self, stream: int) -> None:
        self._check(self._library.cuStreamEndCapture(stream), "cuStreamEndCapture")

    def _capture_info(self, stream: int) -> tuple[Any, ...]:
        """The graph that is captured; the nodes that come last in it, edges to them, how many."""
        error, _, _, *found = self._library.cuStreamGetCaptureInfo(stream)
        self._check((error,), "cuStreamGetCaptureInfo")
        return tuple(found)

    def _context(self) -> Any:
        return self._value(self._library.cuCtxGetCurrent(), "cuCtxGetCurrent")

    def instantiate(self, graph: int) -> int:
        return int(self._value(self._library.cuGraphInstantiate(graph, 0), "cuGraphInstantiate"))

    def update(self, executable: int, graph: int) -> bool:
        result = self._library.cuGraphExecUpdate(executable, graph)
        if result[0] == self._library.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
            return False
        self._check(result, "cuGraphExecUpdate")
        return True

    def launch_graph(self, executable: int, stream: int) -> None:
        self._check(self._library.cuGraphLaunch(executable, stream), "cuGraphLaunch")

    def destroy_graph(self, graph: int) -> None:
        self._check(self._library.cuGraphDestroy(graph), "cuGraphDestroy")

    def destroy_executable(self, executable: int) -> None:
        self._check(self._library.cuGraphExecDestroy(executable), "cuGraphExecDestroy")


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
