"""A CUDA driver in host memory, for tests: it does what it is told, and checks what it is told.

Device addresses are numbers that are no addresses of this process, and are never given out twice:
whatever touches device memory other than by the driver fails. `memory(address)` is how emulated
kernels reach it. Fresh memory is full of NaN.

Checks raise `Misuse`, where the real driver would crash, or do something else silently.

With `late=True` streams do nothing until somebody waits for them, and then only what is waited for,
and graphs run what does not depend on each other in the reverse of the order of capture: a missing
dependency between streams then shows up, as memory that is not yet allocated, already freed, or not
yet written.
"""

import bisect
import ctypes
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from numba_grad.runtime.cuda.driver import install
from numba_grad.runtime.cuda.interface import (
    DEFAULT_STREAM,
    DeviceProperties,
    Driver,
    Extents,
    MemoryInfo,
    NodeKind,
    PointerAttributes,
)

PER_THREAD_STREAM = 2  # the other handle, beside the default one, that is no pointer
THREADS_PER_BLOCK = 1024
_BLOCK_LIMITS = (1024, 1024, 64)
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_SHARED_BYTES = 48 << 10
_SHARED_BYTES_AT_MOST = 227 << 10
_PARAMETER_BYTES = 32764
_ALIGNMENT = 512
_GAP = 4096  # between allocations, so that what runs over an end does not find another one
_FIRST_ADDRESS = 0x7F00_0000_0000
_DEVICE_SPAN = 1 << 40


T = TypeVar("T")


class Misuse(AssertionError):
    """A call that would be undefined, or wrong, on a GPU."""


@dataclass(eq=False)
class Memory:
    """One allocation. `state`: "coming" until its stream allocated it, "live", "freed"."""

    address: int
    device: int
    bytes: np.ndarray
    state: str = "coming"

    @property
    def end(self) -> int:
        return self.address + self.bytes.size


@dataclass(eq=False)
class Mark:
    """One recording of an event."""

    stream: "HostStream"
    done: bool = False
    seconds: float = 0.0
    graph: "HostGraph | None" = None
    nodes: "tuple[Work, ...]" = ()


@dataclass(eq=False)
class Work:
    """Something to do. `after` are the nodes of the same graph that it has to wait for."""

    kind: str
    do: Callable[[], None]
    after: tuple["Work", ...] = ()
    bodies: "tuple[HostGraph, ...]" = ()  # of a conditional node


@dataclass(eq=False)
class HostGraph:
    nodes: list[Work] = field(default_factory=list)
    origin: "HostStream | None" = None
    joined: "list[HostStream]" = field(default_factory=list)
    outermost: "HostGraph | None" = None  # of the body of a conditional node: what it is in
    conditions: set[int] = field(default_factory=set)
    decided: set[int] = field(default_factory=set)  # conditions that have a node

    def form(self) -> list[tuple[str, list[int], list]]:
        number = {id(node): k for k, node in enumerate(self.nodes)}
        return [
            (
                node.kind,
                [number[id(before)] for before in node.after],
                [body.form() for body in node.bodies],
            )
            for node in self.nodes
        ]


@dataclass(eq=False)
class HostStream:
    device: int
    handle: int
    queue: deque[Work] = field(default_factory=deque)
    graph: HostGraph | None = None  # while capturing
    last: tuple[Work, ...] = ()  # the nodes that the next one has to wait for


@dataclass(eq=False)
class HostEvent:
    device: int
    timing: bool
    mark: Mark | None = None


@dataclass(eq=False)
class HostModule:
    source: str
    device: int


@dataclass(eq=False)
class HostFunction:
    module: HostModule
    name: str
    shared_bytes: int = _SHARED_BYTES


@dataclass(eq=False)
class HostExecutable:
    graph: HostGraph


class _Active(threading.local):
    device: int | None = None


class HostDriver(Driver):
    """See the module. Kernels are run by `run_kernel`, which subclasses define."""

    def __init__(self, devices: int = 2, total_memory: int = 1 << 30, late: bool = False) -> None:
        super().__init__()
        self.late = late
        self.total_memory = total_memory
        self.launches: list[tuple[str, Extents, Extents]] = []  # name, grid, block, as they are run
        self.calls: list[str] = []  # of everything that a stream was given, in order of calls
        self._devices = devices
        self._lock = threading.RLock()
        self._active = _Active()
        self._handles: dict[int, object] = {}
        self._next_handle = itertools.count(0x1000, 0x10)
        self._defaults = [HostStream(device, DEFAULT_STREAM) for device in range(devices)]
        self._per_thread: dict[tuple[int, int], HostStream] = {}
        self._addresses: list[list[int]] = [[] for _ in range(devices)]  # sorted
        self._memories: dict[int, Memory] = {}
        self._next_address = [
            _FIRST_ADDRESS + device * _DEVICE_SPAN + _GAP for device in range(devices)
        ]
        self._used = [0] * devices
        self._peak = [0] * devices
        self._pooled: list[list[int]] = [[] for _ in range(devices)]  # sizes
        self._pinned: list[np.ndarray] = []
        self._conditions: dict[int, int] = {}
        self._running: list[HostGraph] = []
        self._failure: str | None = None  # error of the next kernel
        self._error: str | None = None  # what every call returns, since a kernel failed

    def run_kernel(
        self, source: str, name: str, grid: Extents, block: Extents, parameters: bytes
    ) -> None:
        """Do what a kernel does. `memory(address)` is where its pointers point to."""
        raise NotImplementedError

    def new_bytes(self, nbytes: int) -> np.ndarray:
        """Memory as it is found: full of NaN."""
        return np.full(nbytes, 0xFF, np.uint8)

    def fail_next_kernel(self, code: str = "CUDA_ERROR_ILLEGAL_ADDRESS") -> None:
        """Let the next kernel fail as kernels do: whoever waits for it is told."""
        self._failure = code

    # Device memory

    def memory(self, address: int, nbytes: int = 0, device: int | None = None) -> np.ndarray:
        """The bytes from an address to the end of its allocation; `nbytes` are meant to be used."""
        found = self._find(address)
        if found is None:
            raise Misuse(f"{address:#x} is in no allocation")
        if found.state == "coming":
            raise Misuse(f"{address:#x} is used before its stream has come to allocate it")
        if found.state == "freed":
            raise Misuse(f"{address:#x} is used after it was freed")
        if address + nbytes > found.end:
            raise Misuse(
                f"{nbytes} bytes at {address:#x} run {address + nbytes - found.end} bytes over the "
                f"end of an allocation of {found.bytes.size} bytes"
            )
        if device is not None and found.device != device:
            raise Misuse(f"{address:#x} is on device {found.device}, and used on device {device}")
        return found.bytes[address - found.address :]

    def _find(self, address: int) -> Memory | None:
        device = (address - _FIRST_ADDRESS) // _DEVICE_SPAN
        if not 0 <= device < self._devices:
            return None
        with self._lock:
            starts = self._addresses[device]
            position = bisect.bisect_right(starts, address) - 1
            if position < 0:
                return None
            found = self._memories[starts[position]]
        return found if address < found.end else None

    def live_bytes(self, device: int = 0) -> int:
        """What is allocated, and was not given back."""
        return self._used[device]

    # Calls: each is refused once a kernel has failed

    def _call(self, name: str) -> None:
        if self._error is not None:
            self.fail(self._error, name)

    def _register(self, thing: object) -> int:
        with self._lock:
            handle = next(self._next_handle)
            self._handles[handle] = thing
            return handle

    def _get(self, handle: int, kind: type[T]) -> T:
        found = self._handles.get(handle)
        if not isinstance(found, kind):
            word = "destroyed or unknown" if found is None else f"a {type(found).__name__}"
            raise Misuse(f"{handle:#x} is no {kind.__name__}, but {word}")
        return found

    def _current(self, call: str) -> int:
        if self._active.device is None:
            raise Misuse(f"{call}: no device is active in this thread")
        return self._active.device

    def _stream(self, handle: int, call: str) -> HostStream:
        device = self._current(call)
        if handle in (DEFAULT_STREAM, 1):
            return self._defaults[device]
        if handle == PER_THREAD_STREAM:
            key = (device, threading.get_ident())
            return self._per_thread.setdefault(key, HostStream(device, handle))
        stream = self._get(handle, HostStream)
        if stream.device != device:
            raise Misuse(f"{call}: a stream of device {stream.device}, with {device} active")
        return stream

    def _give(self, stream: HostStream, work: Work) -> None:
        """Queue something, or do it at once, or record it."""
        self.calls.append(work.kind)
        if stream.graph is not None:
            work.after = stream.last
            stream.last = (work,)
            stream.graph.nodes.append(work)
        elif self.late:
            stream.queue.append(work)
        else:
            work.do()

    def give(self, stream: int, kind: str, do: Callable[[], None]) -> None:
        """Work of another library, for a stream."""
        with self._lock:
            self._give(self._stream(stream, kind), Work(kind, do))

    def _run(self, stream: HostStream, until: Mark | None = None) -> None:
        while stream.queue and not (until is not None and until.done):
            stream.queue.popleft().do()

    def _refuse_capturing(self, stream: HostStream, call: str) -> None:
        if stream.graph is not None:
            raise Misuse(f"{call} is illegal while the stream is being captured")

    # Devices

    def device_count(self) -> int:
        return self._devices

    def properties(self, device: int) -> DeviceProperties:
        self._call("properties")
        return DeviceProperties(
            name=f"host memory {device}",
            compute_capability=(9, 0),
            total_memory=self.total_memory,
            multiprocessors=132,
            threads_per_multiprocessor=2048,
            threads_per_block=THREADS_PER_BLOCK,
            registers_per_multiprocessor=65536,
            shared_memory_per_multiprocessor=228 << 10,
            shared_memory_per_block=_SHARED_BYTES,
            shared_memory_per_block_at_most=_SHARED_BYTES_AT_MOST,
            l2_cache=50 << 20,
            warp_size=32,
            memory_bandwidth=3.35e12,
        )

    def architecture(self, device: int) -> str:
        return "source"

    def activate(self, device: int) -> int | None:
        self._call("activate")
        if not 0 <= device < self._devices:
            self.fail("CUDA_ERROR_INVALID_DEVICE", "activate")
        previous, self._active.device = self._active.device, device
        return None if previous == device else (-1 if previous is None else previous)

    def restore(self, previous: int) -> None:
        self._active.device = None if previous == -1 else previous

    def synchronize(self, device: int) -> None:
        self._call("synchronize")
        with self.capturing, self._lock:
            streams = [
                stream
                for stream in (
                    self._defaults[device],
                    *self._per_thread.values(),
                    *self._handles.values(),
                )
                if isinstance(stream, HostStream) and stream.device == device
            ]
            for stream in streams:
                self._refuse_capturing(stream, "synchronize")
            for stream in streams:
                self._run(stream)
        self._call("synchronize")
        if self._devices == 1:
            self.note_all_done()

    # Memory

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        self._call("allocate")
        if nbytes <= 0:
            raise Misuse(f"allocate: {nbytes} bytes")
        with self._lock:
            host_stream = self._stream(stream, "allocate")
            if host_stream.device != device:
                raise Misuse(f"allocate: on device {device}, with {host_stream.device} active")
            self._refuse_capturing(host_stream, "allocate")
            pooled = self._pooled[device]
            if nbytes in pooled:
                pooled.remove(nbytes)
            elif self._used[device] + sum(pooled) + nbytes > self.total_memory:
                self.fail("CUDA_ERROR_OUT_OF_MEMORY", "allocate")
            self._used[device] += nbytes
            self._peak[device] = max(self._peak[device], self._used[device])
            address = self._next_address[device]
            self._next_address[device] += -(-(nbytes + _GAP) // _ALIGNMENT) * _ALIGNMENT
            memory = Memory(address, device, self.new_bytes(nbytes))
            self._memories[address] = memory
            self._addresses[device].append(address)  # addresses only grow

            def come_alive() -> None:
                memory.state = "live"

            self._give(host_stream, Work("allocate", come_alive))
        return address

    def free(self, address: int, stream: int) -> None:
        self._call("free")
        with self._lock:
            memory = self._memories.get(address)
            if memory is None:
                raise Misuse(f"free: {address:#x} is not the start of an allocation")
            host_stream = self._stream(stream, "free")
            if host_stream.device != memory.device:
                raise Misuse(f"free: memory of device {memory.device} on another one")
            self._refuse_capturing(host_stream, "free")

            def give_back() -> None:
                self.memory(address)  # raises if it is not there, or not there any more
                memory.state = "freed"
                self._used[memory.device] -= memory.bytes.size
                self._pooled[memory.device].append(memory.bytes.size)

            self._give(host_stream, Work("free", give_back))

    def memory_info(self, device: int) -> MemoryInfo:
        self._call("memory_info")
        reserved = self._used[device] + sum(self._pooled[device])
        return MemoryInfo(
            free=self.total_memory - reserved,
            total=self.total_memory,
            used=self._used[device],
            reserved=reserved,
            used_peak=self._peak[device],
        )

    def reset_peak(self, device: int) -> None:
        self._peak[device] = self._used[device]

    def trim(self, device: int) -> None:
        self._call("trim")
        self._pooled[device].clear()

    def copy_to_device(self, address: int, host_address: int, nbytes: int, stream: int) -> None:
        self._call("copy_to_device")
        self._check_host(host_address, "copy_to_device")
        with self._lock:
            host_stream = self._stream(stream, "copy_to_device")
            # Pageable memory is staged now; a graph reads it each time that it is run.
            staged = None
            if host_stream.graph is None:
                staged = ctypes.string_at(host_address, nbytes)

            def copy() -> None:
                source = ctypes.string_at(host_address, nbytes) if staged is None else staged
                target = self.memory(address, nbytes, host_stream.device)
                target[:nbytes] = np.frombuffer(source, np.uint8)

            self._give(host_stream, Work("copy_to_device", copy))

    def copy_to_host(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        self._call("copy_to_host")
        self._check_host(host_address, "copy_to_host")
        with self._lock:
            host_stream = self._stream(stream, "copy_to_host")

            def copy() -> None:
                source = self.memory(address, nbytes, host_stream.device)[:nbytes]
                ctypes.memmove(host_address, source.ctypes.data, nbytes)

            self._give(host_stream, Work("copy_to_host", copy))
            if host_stream.graph is None:
                self._run(host_stream)  # to pageable memory: not before all is there
        self._call("copy_to_host")

    def _check_host(self, address: int, call: str) -> None:
        if address == 0 or self._find(address) is not None:
            raise Misuse(f"{call}: {address:#x} is no address of the host")

    def allocate_pinned(self, nbytes: int) -> int:
        self._call("allocate_pinned")
        self._current("allocate_pinned")
        pinned = np.full(nbytes, 0xFF, np.uint8)
        self._pinned.append(pinned)
        return pinned.ctypes.data

    def copy_to_pinned(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        places = [host_address - pinned.ctypes.data for pinned in self._pinned]
        sizes = [pinned.size for pinned in self._pinned]
        if not any(0 <= p <= n - nbytes for p, n in zip(places, sizes, strict=True)):
            raise Misuse(f"copy_to_pinned: {host_address:#x} is not page-locked")
        self.copy_to_host(host_address, address, nbytes, stream)

    def copy_on_device(self, address: int, source: int, nbytes: int, stream: int) -> None:
        self._call("copy_on_device")
        with self._lock:
            host_stream = self._stream(stream, "copy_on_device")

            def copy() -> None:
                data = self.memory(source, nbytes, host_stream.device)[:nbytes]
                self.memory(address, nbytes, host_stream.device)[:nbytes] = data

            self._give(host_stream, Work("copy_on_device", copy))

    def copy_between_devices(
        self, address: int, device: int, source: int, source_device: int, nbytes: int, stream: int
    ) -> None:
        self._call("copy_between_devices")
        with self._lock:
            host_stream = self._stream(stream, "copy_between_devices")

            def copy() -> None:
                data = self.memory(source, nbytes, source_device)[:nbytes]
                self.memory(address, nbytes, device)[:nbytes] = data

            self._give(host_stream, Work("copy_between_devices", copy))

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        self._call("fill")
        with self._lock:
            host_stream = self._stream(stream, "fill")

            def fill() -> None:
                self.memory(address, nbytes, host_stream.device)[:nbytes] = byte

            self._give(host_stream, Work("fill", fill))

    def pointer_attributes(self, address: int) -> PointerAttributes | None:
        self._call("pointer_attributes")
        found = self._find(address)
        if found is None or found.state == "freed":
            return None
        return PointerAttributes("device", found.device)

    # Streams and events

    def create_stream(self, device: int, priority: int = 0) -> int:
        self._call("create_stream")
        stream = HostStream(device, 0)
        stream.handle = self._register(stream)
        return stream.handle

    def destroy_stream(self, stream: int) -> None:
        self._call("destroy_stream")
        with self._lock:
            found = self._get(stream, HostStream)
            self._refuse_capturing(found, "destroy_stream")
            self._run(found)
            del self._handles[stream]

    def synchronize_stream(self, stream: int) -> None:
        self._call("synchronize_stream")
        with self._lock:
            host_stream = self._stream(stream, "synchronize_stream")
            self._refuse_capturing(host_stream, "synchronize_stream")
            self._run(host_stream)
        self._call("synchronize_stream")
        self.note_stream_done(stream)

    def query_stream(self, stream: int) -> bool:
        self._call("query_stream")
        host_stream = self._stream(stream, "query_stream")
        self._refuse_capturing(host_stream, "query_stream")
        return not host_stream.queue

    def create_event(self, timing: bool = False) -> int:
        self._call("create_event")
        return self._register(HostEvent(self._current("create_event"), timing))

    def destroy_event(self, event: int) -> None:
        self._call("destroy_event")
        self._get(event, HostEvent)
        del self._handles[event]

    def record_event(self, event: int, stream: int) -> None:
        self._call("record_event")
        with self._lock:
            found = self._get(event, HostEvent)
            host_stream = self._stream(stream, "record_event")
            if found.device != host_stream.device:
                raise Misuse(f"record_event: an event of device {found.device} on another one")
            mark = found.mark = Mark(host_stream)
            if host_stream.graph is not None:
                mark.graph, mark.nodes = host_stream.graph, host_stream.last
                self.calls.append("record_event")
                return

            def pass_by() -> None:
                mark.done, mark.seconds = True, time.perf_counter()

            self._give(host_stream, Work("record_event", pass_by))

    def wait_event(self, stream: int, event: int) -> None:
        self._call("wait_event")
        with self._lock:
            mark = self._get(event, HostEvent).mark
            host_stream = self._stream(stream, "wait_event")
            if mark is None:
                return
            if mark.graph is not None:
                self._join(host_stream, mark, mark.graph)
                return
            if host_stream.graph is not None:
                raise Misuse("wait_event: a captured stream waits for an event that is not")
            self._give(host_stream, Work("wait_event", lambda: self._run(mark.stream, mark)))

    def _join(self, stream: HostStream, mark: Mark, graph: HostGraph) -> None:
        """A stream that waits for a captured event is captured from then on."""
        self.calls.append("wait_event")
        if stream.graph is None:
            if stream.handle == DEFAULT_STREAM:
                raise Misuse("wait_event: the default stream cannot be captured")
            if stream.queue:
                raise Misuse("wait_event: a stream with work before the capture joins it")
            stream.graph, stream.last = graph, ()
            graph.joined.append(stream)
        elif stream.graph is not graph:
            raise Misuse("wait_event: two captures would be mixed")
        # Unique, in order of capture.
        stream.last = tuple(dict.fromkeys((*stream.last, *mark.nodes)))

    def synchronize_event(self, event: int) -> None:
        self._call("synchronize_event")
        with self._lock:
            mark = self._get(event, HostEvent).mark
            if mark is not None:
                if mark.graph is not None:
                    raise Misuse("synchronize_event: the event is being captured")
                self._run(mark.stream, mark)
        self._call("synchronize_event")

    def query_event(self, event: int) -> bool:
        self._call("query_event")
        mark = self._get(event, HostEvent).mark
        if mark is not None and mark.graph is not None:
            raise Misuse("query_event: the event is being captured")
        return mark is None or mark.done

    def elapsed(self, start: int, stop: int) -> float:
        self._call("elapsed")
        events = [self._get(event, HostEvent) for event in (start, stop)]
        marks = [event.mark for event in events]
        if not all(event.timing for event in events) or None in marks:
            self.fail("CUDA_ERROR_INVALID_HANDLE", "elapsed")
        if not all(mark is not None and mark.done for mark in marks):
            self.fail("CUDA_ERROR_NOT_READY", "elapsed")
        first, last = (mark.seconds for mark in marks if mark is not None)
        return 1e3 * (last - first)

    # Kernels

    def load_module(self, code: bytes) -> int:
        self._call("load_module")
        if any(s.graph is not None for s in self._streams()):
            raise Misuse("load_module: while a stream is being captured")
        return self._register(HostModule(code.decode(), self._current("load_module")))

    def _streams(self) -> Iterator[HostStream]:
        with self._lock:
            things = list(self._handles.values())
        return (thing for thing in things if isinstance(thing, HostStream))

    def function(self, module: int, name: str) -> int:
        self._call("function")
        found = self._get(module, HostModule)
        if f"def {name}(" not in found.source:
            self.fail("CUDA_ERROR_NOT_FOUND", "function")
        return self._register(HostFunction(found, name))

    def allow_shared_memory(self, function: int, nbytes: int) -> None:
        self._call("allow_shared_memory")
        if nbytes > _SHARED_BYTES_AT_MOST:
            self.fail("CUDA_ERROR_INVALID_VALUE", "allow_shared_memory")
        self._get(function, HostFunction).shared_bytes = nbytes

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
        self._call("launch")
        with self._lock:
            found = self._get(function, HostFunction)
            host_stream = self._stream(stream, "launch")
            if found.module.device != host_stream.device:
                raise Misuse(f"launch: a module of device {found.module.device} on another one")
            grid, block = tuple(map(int, grid)), tuple(map(int, block))
            for name, extents, limits in (
                ("grid", grid, _GRID_LIMITS),
                ("block", block, _BLOCK_LIMITS),
            ):
                if len(extents) != 3:
                    raise Misuse(f"launch: {name} {extents} has not three extents")
                if not all(1 <= n <= limit for n, limit in zip(extents, limits, strict=True)):
                    raise Misuse(f"launch: {name} {extents} is not within 1 and {limits}")
            if np.prod(block) > THREADS_PER_BLOCK:
                raise Misuse(f"launch: {block} are more than {THREADS_PER_BLOCK} threads")
            if shared_bytes > found.shared_bytes:
                raise Misuse(f"launch: {shared_bytes} bytes of shared memory were not allowed")
            if parameters_bytes % 8 or parameters_bytes > _PARAMETER_BYTES:
                raise Misuse(f"launch: {parameters_bytes} bytes of parameters")
            parameters = ctypes.string_at(parameters_address, parameters_bytes)

            def run() -> None:
                if self._error is not None:
                    return
                if self._failure is not None:
                    self._error, self._failure = self._failure, None
                    return
                self.launches.append((found.name, grid, block))
                self.run_kernel(found.module.source, found.name, grid, block, parameters)

            self._give(host_stream, Work(f"launch {found.name}", run))

    # Graphs

    def begin_capture(self, stream: int) -> None:
        self._call("begin_capture")
        host_stream = self._stream(stream, "begin_capture")
        if host_stream.handle == DEFAULT_STREAM:
            raise Misuse("begin_capture: the default stream cannot be captured")
        self._refuse_capturing(host_stream, "begin_capture")
        with self._lock:
            host_stream.graph = HostGraph(origin=host_stream)
            host_stream.last = ()

    def end_capture(self, stream: int) -> int:
        self._call("end_capture")
        with self._lock:
            host_stream = self._stream(stream, "end_capture")
            graph = host_stream.graph
            if graph is None or graph.origin is not host_stream:
                raise Misuse("end_capture: not the stream on which a capture began")
            reached = set[int]()
            for node in reversed(graph.nodes):
                if id(node) in reached or node in host_stream.last:
                    reached |= {id(node), *map(id, node.after)}
            if len(reached) != len(graph.nodes):
                raise Misuse("end_capture: what other streams captured was not joined")
            for joined in (host_stream, *graph.joined):
                joined.graph, joined.last = None, ()
            if graph.outermost is not None:
                raise Misuse("end_capture: a body is captured")
            return self._register(graph)

    def _capturing(self, stream: int, call: str) -> tuple[HostStream, HostGraph]:
        """A stream on which a capture began, and what is captured."""
        self._call(call)
        host_stream = self._stream(stream, call)
        graph = host_stream.graph
        if graph is None or graph.origin is not host_stream:
            raise Misuse(f"{call}: not a stream on which a capture began")
        return host_stream, graph

    def new_condition(self, stream: int) -> int:
        _, graph = self._capturing(stream, "new_condition")
        condition = next(self._next_handle)
        (graph.outermost or graph).conditions.add(condition)
        return condition

    def set_condition(self, condition: int, value: int) -> None:
        """What kernels call."""
        if not any(condition in graph.conditions for graph in self._running):
            raise Misuse(f"{condition:#x} is no condition of a graph that runs")
        self._conditions[condition] = value

    def add_conditional(self, stream: int, condition: int, kind: NodeKind, count: int) -> list[int]:
        with self._lock:
            host_stream, graph = self._capturing(stream, "add_conditional")
            outermost = graph.outermost or graph
            if condition not in outermost.conditions:
                raise Misuse("add_conditional: a condition of another graph")
            if condition in outermost.decided:
                raise Misuse("add_conditional: a condition of another node")
            outermost.decided.add(condition)
            if count != 1 and kind is not NodeKind.SWITCH:
                raise Misuse(f"add_conditional: {count} bodies")
            bodies = tuple(HostGraph(outermost=outermost) for _ in range(count))

            def run() -> None:
                if self._error is not None:
                    return
                value = self._conditions[condition]
                if kind is NodeKind.SWITCH:
                    if value < count:
                        self._replay(bodies[value])
                elif kind is NodeKind.IF:
                    if value:
                        self._replay(bodies[0])
                else:
                    while self._error is None and self._conditions[condition]:
                        self._replay(bodies[0])

            self._give(host_stream, Work(kind.name.lower(), run, bodies=bodies))
            return [self._register(body) for body in bodies]

    def begin_body(self, stream: int, body: int) -> None:
        self._call("begin_body")
        with self._lock:
            host_stream = self._stream(stream, "begin_body")
            self._refuse_capturing(host_stream, "begin_body")
            found = self._get(body, HostGraph)
            if found.outermost is None or found.nodes:
                raise Misuse("begin_body: no body, or one that has been captured")
            found.origin, host_stream.graph, host_stream.last = host_stream, found, ()
            del self._handles[body]

    def end_body(self, stream: int) -> None:
        with self._lock:
            host_stream, graph = self._capturing(stream, "end_body")
            if graph.outermost is None or graph.joined:
                raise Misuse("end_body: no body is captured, or other streams are, too")
            host_stream.graph, host_stream.last = None, ()

    def is_capturing(self, stream: int) -> bool:
        return self._stream(stream, "is_capturing").graph is not None

    def instantiate(self, graph: int) -> int:
        self._call("instantiate")
        found = self._get(graph, HostGraph)
        if found.conditions != found.decided:
            raise Misuse("instantiate: a condition without a node")
        return self._register(HostExecutable(found))

    def update(self, executable: int, graph: int) -> bool:
        self._call("update")
        old, new = self._get(executable, HostExecutable), self._get(graph, HostGraph)
        if old.graph.form() != new.form():
            return False
        old.graph = new
        return True

    def launch_graph(self, executable: int, stream: int) -> None:
        self._call("launch_graph")
        with self._lock:
            graph = self._get(executable, HostExecutable).graph
            host_stream = self._stream(stream, "launch_graph")
            self._refuse_capturing(host_stream, "launch_graph")
            self._give(host_stream, Work("launch_graph", lambda: self._run_graph(graph)))

    def _run_graph(self, graph: HostGraph) -> None:
        for condition in graph.conditions:
            self._conditions.pop(condition, None)  # nobody knows what it is
        self._running.append(graph)
        try:
            self._replay(graph)
        finally:
            self._running.pop()

    def _replay(self, graph: HostGraph) -> None:
        done = set[int]()
        waiting = list(graph.nodes)
        while waiting:
            ready = [
                k
                for k, node in enumerate(waiting)
                if all(id(before) in done for before in node.after)
            ]
            node = waiting.pop(ready[-1] if self.late else ready[0])
            node.do()
            done.add(id(node))

    def destroy_graph(self, graph: int) -> None:
        self._call("destroy_graph")
        self._get(graph, HostGraph)
        del self._handles[graph]

    def destroy_executable(self, executable: int) -> None:
        self._call("destroy_executable")
        self._get(executable, HostExecutable)
        del self._handles[executable]


@contextmanager
def installed(driver: HostDriver) -> Iterator[HostDriver]:
    """A block in which the process's CUDA driver is this one."""
    previous = install(driver)
    try:
        yield driver
    finally:
        install(previous)
