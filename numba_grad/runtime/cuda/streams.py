"""Streams and events, and the stream that is current, for each thread and device its own."""

import threading
from typing import Any

from numba_grad.errors import DeviceError, explain
from numba_grad.fresh_thread import carried
from numba_grad.runtime.cuda import devices
from numba_grad.runtime.cuda.devices import Device, active, cuda_device, cuda_index
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.interface import DEFAULT_STREAM, Driver


class Stream:
    """A queue of work for one GPU: in order within itself, beside other streams.

    Parameters
    ----------
    device : which GPU; the current one by default
    priority : lower numbers go first, where the GPU makes a difference: 0 and -1

    Notes
    -----
    A stream does not wait for the default stream, nor the default stream for it: order them with
    `wait_stream` or events, as in torch.
    """

    __slots__ = ("__weakref__", "_driver", "_kept", "_owns_handle", "device", "handle")

    def __init__(self, device: object = None, priority: int = 0) -> None:
        self._owns_handle = False  # until there is one
        index = cuda_index(device)
        self._driver: Driver = current_driver()
        self.device: Device = cuda_device(index)
        self.handle: int = self._driver.create_stream(index, priority)
        self._owns_handle = True

    def __del__(self) -> None:
        # Nothing to do in a forked child, or without a context. Work that was given to the stream
        # is done all the same. Attributes are missing if Ctrl-C came before `__init__`.
        if not getattr(self, "_owns_handle", False) or not self._driver.is_usable:
            return
        # Where a cycle of objects is collected, memory of the stream may be given back after it.
        handle, reclaiming = self.handle, reclaiming_stream(self.device.index)
        if reclaiming is not self:
            reclaiming.wait_stream(self)
            self.handle = reclaiming.handle
        self._owns_handle = False
        self._driver.destroy_stream(handle)

    def synchronize(self) -> None:
        """Wait until all is done that was given to the stream."""
        with active(self.device.index):
            self._driver.synchronize_stream(self.handle)

    def query(self) -> bool:
        """Whether all is done that was given to the stream."""
        with active(self.device.index):
            return self._driver.query_stream(self.handle)

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Mark this point of the stream; returns the event, a new one if none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        """Let what follows on this stream wait for the event; the caller does not wait."""
        event.wait(self)

    def wait_stream(self, other: "Stream") -> None:
        """Let what follows on this stream wait for all that was given to `other`."""
        if other is not self:
            Event().record(other).wait(self)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which cuda.core and numba-cuda take streams of others."""
        return (0, self.handle)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream)
            and self.handle == other.handle
            and self.device == other.device
        )

    def __hash__(self) -> int:
        return hash((self.handle, self.device))

    def __repr__(self) -> str:
        return f"<Stream {self.handle:#x} on {self.device}>"


def external_stream(stream: Any, device: object = None) -> Stream:
    """A stream of another library: an object with `__cuda_stream__`, which is kept alive, or the
    handle as an integer, of a stream that lives as long as all tensors that were made on it.
    """
    if isinstance(stream, Stream):
        return stream
    # A method, or in older objects a pair.
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair: Any = protocol() if callable(protocol) else protocol
        version, handle = pair
    else:
        version, handle = 0, stream
    if version != 0 or not isinstance(handle, int) or isinstance(handle, bool) or handle < 0:
        raise DeviceError(
            explain(
                "stream",
                "not a CUDA stream",
                got={"stream": repr(stream)},
                expected="ng.cuda.Stream, an object with __cuda_stream__ of version 0, or a handle",
            )
        )
    index = cuda_index(device)
    # Legacy is 0 to the driver, and 1 where 0 could mean "none".
    return default_stream(index) if handle in (0, 1) else _wrapped(handle, index, stream)


def _wrapped(handle: int, index: int, kept: object = None) -> Stream:
    stream = Stream.__new__(Stream)
    stream._driver = current_driver()
    stream._owns_handle = False
    stream._kept = kept
    stream.device = cuda_device(index)
    stream.handle = handle
    return stream


class Event:
    """A point in the work of a stream: other streams, and the caller, can wait for it.

    Parameters
    ----------
    timing : whether `elapsed_time` may be asked of it; it then costs a little more
    """

    __slots__ = ("_driver", "_timing", "device", "handle")

    def __init__(self, timing: bool = False) -> None:
        self._timing = timing
        self._driver: Driver | None = None
        self.device: Device | None = None  # that of the first stream it is recorded on
        self.handle: int | None = None

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)  # missing if Ctrl-C came before `__init__`
        if driver is not None and driver.is_usable:
            driver.destroy_event(self.handle)

    def record(self, stream: Stream | None = None) -> "Event":
        """Mark the point that the stream, the current one by default, has come to; returns self."""
        stream = current_stream() if stream is None else stream
        driver = current_driver()
        if self.device is not None and self.device != stream.device:
            raise DeviceError(
                explain(
                    "Event.record",
                    "an event belongs to the device on which it was recorded first",
                    got={"event": self.device, "stream": stream.device},
                    fix="ng.cuda.Event()",
                )
            )
        with active(stream.device.index):
            if self.handle is None:
                self.handle = driver.create_event(self._timing)
                self._driver = driver
                self.device = stream.device
            driver.record_event(self.handle, stream.handle)
        return self

    def wait(self, stream: Stream | None = None) -> None:
        """Let what follows on the stream, the current one by default, wait for this event."""
        stream = current_stream() if stream is None else stream
        if self.handle is not None:
            with active(stream.device.index):
                current_driver().wait_event(stream.handle, self.handle)

    def synchronize(self) -> None:
        """Wait until the event has come to pass; at once if it was never recorded."""
        if self.handle is not None and self.device is not None:
            with active(self.device.index):
                current_driver().synchronize_event(self.handle)

    def query(self) -> bool:
        """Whether the event has come to pass; True if it was never recorded."""
        if self.handle is None or self.device is None:
            return True
        with active(self.device.index):
            return current_driver().query_event(self.handle)

    def elapsed_time(self, stop: "Event") -> float:
        """Milliseconds from this event to `stop`, both made with `timing` and past."""
        if self.handle is None or stop.handle is None or not (self._timing and stop._timing):
            raise DeviceError(
                explain(
                    "Event.elapsed_time",
                    "these events did not take the time",
                    got={
                        name: f"timing={event._timing}, recorded={event.handle is not None}"
                        for name, event in (("start", self), ("stop", stop))
                    },
                    expected="two events that are made with timing, and recorded",
                    fix="ng.cuda.Event(timing=True)",
                )
            )
        return current_driver().elapsed(self.handle, stop.handle)


class _Current(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


_current = carried(_Current())


def default_stream(device: object = None) -> Stream:
    """The stream that is current until another is chosen: the legacy default stream."""
    index = cuda_index(device)
    kept = current_driver().kept
    stream = kept.get(("default stream", index))
    if stream is None:
        stream = kept.setdefault(("default stream", index), _wrapped(DEFAULT_STREAM, index))
    return stream


def reclaiming_stream(index: int) -> Stream:
    """A stream that has nothing to do but to wait: for others that use memory, or used it."""
    kept = current_driver().kept
    stream = kept.get(("reclaiming stream", index))
    if stream is None:
        stream = kept.setdefault(("reclaiming stream", index), Stream(index))
    return stream


def current_stream(device: object = None) -> Stream:
    """The stream on which the calling thread's operations on a GPU, the current one, are done."""
    index = cuda_index(device)
    stream = _current.streams.get(index)
    if stream is None or stream._driver is not current_driver():
        stream = _current.streams[index] = default_stream(index)
    return stream


class stream_is:
    """A block in which another stream is current, and its device as well, for this thread."""

    __slots__ = ("_previous", "_stream")

    def __init__(self, stream: Any) -> None:
        self._stream = external_stream(stream)
        self._previous: list[tuple[int, Stream]] = []

    def __enter__(self) -> Stream:
        index = self._stream.device.index
        self._previous.append((devices.current_index(), current_stream(index)))
        devices.set_current_index(index)
        _current.streams[index] = self._stream
        return self._stream

    def __exit__(self, *error: object) -> None:
        device, stream = self._previous.pop()
        _current.streams[self._stream.device.index] = stream
        devices.set_current_index(device)
