"""What the CUDA part asks of a driver, and what becomes of a call that failed.

`CudaDriver` (driver.py) answers through NVIDIA's driver; the tests have one in host memory. Handles
and addresses are plain integers. What a call needs to know about a context it takes from the device
that `activate` made current for the calling thread, as the driver itself does.
"""

import enum
from collections import deque
from typing import Any, NoReturn

from numba_grad.errors import (
    ContextLostError,
    DeviceError,
    KernelError,
    OutOfMemoryError,
    explain,
)
from numba_grad.immutable import immutable
from numba_grad.locks import new_lock

DEFAULT_STREAM = 0  # the legacy default stream of the current device, which all libraries share

Extents = tuple[int, int, int]  # blocks in a grid, or threads in a block: x, y, z

# After these no call of the process works on any device's context: the driver repeats the error.
_CONTEXT_IS_LOST = frozenset(
    "CUDA_ERROR_" + name
    for name in (
        "ASSERT",
        "CONTAINED",
        "CONTEXT_IS_DESTROYED",
        "ECC_UNCORRECTABLE",
        "EXTERNAL_DEVICE",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_ADDRESS",
        "ILLEGAL_INSTRUCTION",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "MISALIGNED_ADDRESS",
        "MPS_CLIENT_TERMINATED",
        "NVLINK_UNCORRECTABLE",
        "TENSOR_MEMORY_LEAK",
        "UNKNOWN",
    )
)
_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_NAMES_KEPT = 64  # names of operations that may be running when a kernel fails
_NAMES_SHOWN = 8


class DriverError(DeviceError):
    """A call of the driver that failed. `code` is its name for the error: CUDA_ERROR_..."""

    def __init__(self, code: str, call: str, operations: str = "") -> None:
        got: dict[str, object] = {"error": code}
        if operations:
            got["operation"] = operations
        super().__init__(explain(call, "the CUDA driver refused it", got=got))
        self.code = code
        self.call = call


class DriverMemoryError(DriverError, OutOfMemoryError):
    """A call of the driver that failed for want of memory on the device."""


@immutable
class DeviceProperties:
    """What kernels are planned by, and what a user wants to see."""

    name: str
    compute_capability: tuple[int, int]
    total_memory: int  # bytes
    multiprocessors: int
    threads_per_multiprocessor: int
    threads_per_block: int
    registers_per_multiprocessor: int
    shared_memory_per_multiprocessor: int  # bytes
    shared_memory_per_block: int  # bytes, without asking for more
    shared_memory_per_block_at_most: int  # bytes
    l2_cache: int  # bytes
    warp_size: int
    memory_bandwidth: float  # bytes per second, from clock and width of the bus; 0.0 if not told


@immutable
class PointerAttributes:
    """Where an address lies."""

    kind: str  # "device", "managed" or "host": memory that the driver knows of
    device: int


class NodeKind(enum.IntEnum):
    """Of conditional nodes; the driver's numbers."""

    IF = 0  # the body, if the condition is not 0
    WHILE = 1  # the body, again and again, while it is not 0
    SWITCH = 2  # the body with this number


@immutable
class MemoryInfo:
    """Bytes. `used` and `reserved` are of our pool: lent to arrays, and held in all."""

    free: int  # of the device, for everybody
    total: int
    used: int
    reserved: int
    used_peak: int


class Driver:
    """The calls, and one account of failures for all of them."""

    def __init__(self) -> None:
        # What finalizers look at before they call anything. False without a context, in a forked
        # child, and for a driver that was replaced.
        self.is_usable = True
        self._lost_by: str | None = None
        self._account = new_lock()  # reentrant: a finalizer may fail at any point
        # Operations by stream, since it was last known to have done everything.
        self._launched: dict[int, deque[str]] = {}
        self._last_launched = ""
        # Nobody may wait for a device, or load a module, while a stream of it is captured, in
        # whatever thread. Who captures holds this, and who does those.
        self.capturing = new_lock()
        # By device: owners of memory that others may still be using (memory.py).
        self.lent: dict[int, deque[object]] = {}
        # What other modules make once per driver, by names of theirs.
        self.kept: dict[object, Any] = {}

    # Devices

    def device_count(self) -> int:
        raise NotImplementedError

    def properties(self, device: int) -> DeviceProperties:
        raise NotImplementedError

    def architecture(self, device: int) -> str:
        """What to compile for: "sm_90"."""
        major, minor = self.properties(device).compute_capability
        return f"sm_{major}{minor}"

    def activate(self, device: int) -> int | None:
        """Make the device the calling thread's, for all calls that do not name one.

        Returns what `restore` takes to undo this, or None if the device was the thread's already:
        other libraries have a current device as well, and expect to find it as they left it.
        """
        raise NotImplementedError

    def restore(self, previous: int) -> None:
        raise NotImplementedError

    def synchronize(self, device: int) -> None:
        raise NotImplementedError

    # Memory: ordered by streams

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        """`nbytes` > 0 bytes from our pool, usable by what the stream does from now on."""
        raise NotImplementedError

    def free(self, address: int, stream: int) -> None:
        """Give memory back, once the stream has come to here."""
        raise NotImplementedError

    def memory_info(self, device: int) -> MemoryInfo:
        raise NotImplementedError

    def reset_peak(self, device: int) -> None:
        """Let `used_peak` start again, at what is used now."""
        raise NotImplementedError

    def trim(self, device: int) -> None:
        """Give what the pool holds and nobody uses back to the device."""
        raise NotImplementedError

    def copy_to_device(self, address: int, host_address: int, nbytes: int, stream: int) -> None:
        """From pageable memory: that may be written to again as soon as this returns."""
        raise NotImplementedError

    def copy_to_host(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        """To pageable memory: returns when all is there."""
        raise NotImplementedError

    def allocate_pinned(self, nbytes: int) -> int:
        """Page-locked memory of the host, for the rest of the process; for the device that is
        active."""
        raise NotImplementedError

    def copy_to_pinned(self, host_address: int, address: int, nbytes: int, stream: int) -> None:
        """To memory that `allocate_pinned` gave: returns when all is there."""
        raise NotImplementedError

    def copy_on_device(self, address: int, source: int, nbytes: int, stream: int) -> None:
        raise NotImplementedError

    def copy_between_devices(
        self, address: int, device: int, source: int, source_device: int, nbytes: int, stream: int
    ) -> None:
        raise NotImplementedError

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        raise NotImplementedError

    def pointer_attributes(self, address: int) -> PointerAttributes | None:
        """None if no memory of the driver is there: not allocated, freed, or the system's."""
        raise NotImplementedError

    # Streams and events

    def create_stream(self, device: int, priority: int = 0) -> int:
        """A stream that does not wait for the default stream, nor that for it."""
        raise NotImplementedError

    def destroy_stream(self, stream: int) -> None:
        raise NotImplementedError

    def synchronize_stream(self, stream: int) -> None:
        raise NotImplementedError

    def query_stream(self, stream: int) -> bool:
        """Whether all is done that was given to the stream."""
        raise NotImplementedError

    def create_event(self, timing: bool = False) -> int:
        raise NotImplementedError

    def destroy_event(self, event: int) -> None:
        raise NotImplementedError

    def record_event(self, event: int, stream: int) -> None:
        raise NotImplementedError

    def wait_event(self, stream: int, event: int) -> None:
        """Let the stream, not the caller, wait; at once if the event was never recorded."""
        raise NotImplementedError

    def synchronize_event(self, event: int) -> None:
        raise NotImplementedError

    def query_event(self, event: int) -> bool:
        raise NotImplementedError

    def elapsed(self, start: int, stop: int) -> float:
        """Milliseconds between two events that are done and were made with `timing`."""
        raise NotImplementedError

    # Kernels

    def load_module(self, code: bytes) -> int:
        raise NotImplementedError

    def function(self, module: int, name: str) -> int:
        raise NotImplementedError

    def allow_shared_memory(self, function: int, nbytes: int) -> None:
        """More dynamic shared memory per block than the 48 KiB of every kernel."""
        raise NotImplementedError

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
        """Start a kernel. Parameters are copied out of host memory before this returns."""
        raise NotImplementedError

    # Graphs

    def begin_capture(self, stream: int) -> None:
        """Record what is given to the stream, and to those that wait for it, instead of doing it.

        Not on the default stream. Host memory that is copied from must live as long as the graph.
        The caller holds `capturing` until after `end_capture`, by the same thread.
        """
        raise NotImplementedError

    def end_capture(self, stream: int) -> int:
        raise NotImplementedError

    def new_condition(self, stream: int) -> int:
        """A number of the graph that is captured on the stream, which its kernels set."""
        raise NotImplementedError

    def add_conditional(self, stream: int, condition: int, kind: NodeKind, count: int) -> list[int]:
        """Add a node to what is captured; its bodies, so many, are graphs that have nothing yet.

        Which of them is done, and how often, is what the condition says when the node is reached.
        """
        raise NotImplementedError

    def begin_body(self, stream: int, body: int) -> None:
        """Capture what is given to another stream for a body, while the capture of what the node is
        in goes on."""
        raise NotImplementedError

    def end_body(self, stream: int) -> None:
        raise NotImplementedError

    def instantiate(self, graph: int) -> int:
        raise NotImplementedError

    def update(self, executable: int, graph: int) -> bool:
        """Put the parameters of another graph of the same form in; False if it has another form."""
        raise NotImplementedError

    def launch_graph(self, executable: int, stream: int) -> None:
        raise NotImplementedError

    def destroy_graph(self, graph: int) -> None:
        raise NotImplementedError

    def destroy_executable(self, executable: int) -> None:
        raise NotImplementedError

    # Failures

    @property
    def is_lost(self) -> bool:
        """Whether a kernel's failure made the driver useless for the rest of the process."""
        return self._lost_by is not None

    def note_launch(self, stream: int, name: str) -> None:
        """Say what is launched next, for the message of a kernel that fails later on."""
        names = self._launched.get(stream)
        if names is None:
            names = self._launched.setdefault(stream, deque(maxlen=_NAMES_KEPT))
        names.append(name)
        self._last_launched = name

    def note_all_done(self) -> None:
        """Nothing noted so far can fail any more."""
        self._launched.clear()

    def note_stream_done(self, stream: int) -> None:
        # The default streams of all devices have one handle.
        if stream != DEFAULT_STREAM or self.device_count() == 1:
            self._launched.pop(stream, None)

    def fail(self, code: str, call: str) -> NoReturn:
        """Raise what a call that returned `code` comes to.

        Kernels run later than they are launched, so whichever call comes next reports theirs. It is
        reported once, with the names of what was running; after that there is no context any more.
        """
        with self._account:
            first, self._lost_by = (
                self._lost_by,
                self._lost_by or (self._suspects() if code in _CONTEXT_IS_LOST else None),
            )
        if first is not None:
            raise ContextLostError(
                explain(
                    call,
                    "the CUDA context of this process is lost, by an earlier error",
                    got={"error": code, "lost by": first},
                    expected="a new process: nothing on a GPU works in this one any more",
                )
            )
        if self._lost_by is None:
            kind = DriverMemoryError if code == _OUT_OF_MEMORY else DriverError
            raise kind(code, call, self._last_launched if "Launch" in call else "")
        self.is_usable = False
        raise KernelError(
            explain(
                self._lost_by,
                "a kernel failed on the GPU, and with it this process lost its CUDA context",
                got={"error": code, "reported by": call},
                expected="a new process: nothing on a GPU works in this one any more",
            )
        )

    def _suspects(self) -> str:
        names = list(dict.fromkeys(name for each in self._launched.values() for name in each))
        if not names:
            return "a kernel that was not launched by numba_grad"
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[-_NAMES_SHOWN:])
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return f"one of {shown}{more}"


class DeviceBlock:
    """A block of calls to a driver that are about one device.

    Afterwards the thread's context is again what another library, or nobody, had made it.
    """

    __slots__ = ("_driver", "_index", "_previous")

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self._index = index

    def __enter__(self) -> None:
        self._previous = self._driver.activate(self._index)

    def __exit__(self, *error: object) -> None:
        # A context that is lost cannot be left either, and it is the first error that says why.
        if self._previous is not None and not self._driver.is_lost:
            self._driver.restore(self._previous)
