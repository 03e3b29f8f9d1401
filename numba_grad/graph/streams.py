"""Which stream of a GPU an operation belongs to: the one that was current when it was recorded.

Operations are computed later than they are recorded, and their derivatives later still. Both happen
on the stream of the operation itself, as in torch. Who has streams says so by `register`; here they
are tokens, and None stands for the default stream of a device.
"""

import threading
import weakref
from typing import Any, Protocol

from numba_grad.fresh_thread import carried


class Streams(Protocol):
    """The streams of the devices."""

    def current(self, device: str) -> Any:
        """The calling thread's stream, or None."""
        ...


_streams: Streams | None = None
_stream_of: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


class _Followed(threading.local):
    """The operation whose derivative the calling thread is recording."""

    is_active = False
    stream: Any = None


_followed = carried(_Followed())


def register(streams: Streams) -> None:
    """From now on operations on other devices than the CPU are asked about."""
    global _streams
    _streams = streams


def note(node: Any) -> None:
    """Remember the stream of an operation that is being recorded on a GPU."""
    if _followed.is_active:
        stream = _followed.stream
    else:
        stream = None if _streams is None else _streams.current(node.type.device)
    if stream is not None:
        _stream_of[node] = stream


def stream_of(node: Any) -> Any:
    """The stream that the operation belongs to; None for the default one."""
    return _stream_of.get(node)


def are_in_use() -> bool:
    """Whether any operation belongs to another stream than the default one."""
    return bool(_stream_of)


class followed:
    """A block whose operations belong to the streams of those given to `follow`."""

    __slots__ = ()

    def follow(self, node: Any) -> None:
        """What is recorded next belongs to the stream of `node`."""
        _followed.is_active = True
        _followed.stream = _stream_of.get(node)

    def __enter__(self) -> "followed":
        return self

    def __exit__(self, *error: object) -> None:
        _followed.is_active = False
        _followed.stream = None
