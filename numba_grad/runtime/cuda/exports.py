"""Arrays on a GPU for other libraries, without a copy: `__cuda_array_interface__` and DLPack.

Both say on which stream the elements are there. By the first protocol we name a stream, and whoever
takes the array works on it or in step with it (version 3 of the protocol, "Synchronization"). By
DLPack the taker names a stream, and we let that wait for ours.
"""

from typing import Any, Protocol

import numpy as np

from numba_grad.errors import ForeignArrayError, explain
from numba_grad.runtime.cuda.devices import Device
from numba_grad.runtime.cuda.interface import DEFAULT_STREAM
from numba_grad.runtime.cuda.memory import Owner, keep_until_idle
from numba_grad.runtime.cuda.streams import (
    Stream,
    current_stream,
    default_stream,
    external_stream,
)
from numba_grad.runtime.dlpack import ManagedVersioned, capsule_of, managed_in

KIND_CPU, KIND_CUDA, KIND_CUDA_MANAGED = 1, 2, 13  # DLPack's kinds of devices
FIRST_WITH_FLAGS = (1, 0)  # version of DLPack in which what is exported can be marked as read-only
READ_ONLY = 1
_LEGACY = 1  # how both protocols name the legacy default stream: 0 could mean "none"


class ExportableArray(Protocol):
    """What a `DeviceArray` is to this module."""

    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def device(self) -> Device: ...
    @property
    def owner(self) -> object: ...
    def wait_for_writer(self, stream: Stream) -> None: ...


def cuda_array_interface(array: ExportableArray, read_only: bool = False) -> dict[str, Any]:
    """The dictionary of `__cuda_array_interface__`, version 3, ordered by the current stream."""
    stream = current_stream(array.device.index)
    array.wait_for_writer(stream)
    return {
        "version": 3,
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.address, read_only),
        "strides": None,
        "stream": stream.handle or _LEGACY,
    }


def capsule(
    array: ExportableArray,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    read_only: bool = False,
) -> Any:
    """The capsule of `__dlpack__`: the array's own memory.

    `stream` is the taker's: None and 1 are the legacy default stream, 2 the calling thread's
    default stream, -1 asks for no synchronization, and others are handles.

    Raises
    ------
    ForeignArrayError
        If `stream` is none of these.
    """
    index = array.device.index
    taker = _takers_stream(stream, index)
    is_known = False
    if taker is not None and taker.handle == DEFAULT_STREAM:
        # It lives as long as the context, so it can be asked later what it has done.
        array.wait_for_writer(taker)
        is_known = True
    elif taker is not None and isinstance(array.owner, Owner):
        # It may be gone by then.
        taker.wait_stream(array.owner.stream)
    # NumPy makes the capsule, of an array that has our shape, dtype and lifetime, and no memory:
    # so its finalizers are C functions that may run at any point, also when Python is gone.
    shell = np.ndarray.__new__(
        _Shell,
        array.shape,
        array.dtype,
        bytearray(array.dtype.itemsize),
        0,
        (0,) * len(array.shape),
    )
    shell.owner = array.owner if is_known else _Lent(array.owner)
    result = capsule_of(shell, max_version=max_version)
    managed = managed_in(result)
    if isinstance(managed, ManagedVersioned) and read_only:
        managed.flags |= READ_ONLY
    tensor = managed.tensor
    tensor.data = array.address
    tensor.device_type, tensor.device_id = KIND_CUDA, index
    tensor.byte_offset = 0
    if tensor.strides:
        step = 1
        for axis in reversed(range(tensor.ndim)):
            tensor.strides[axis] = step
            step *= array.shape[axis]
    return result


class _Shell(np.ndarray):
    owner: object = None


class _Lent:
    """Memory in the hands of somebody who may still be using it, on unknown streams, when done."""

    __slots__ = ("owner",)

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def __del__(self) -> None:
        owner = getattr(self, "owner", None)
        if isinstance(owner, Owner) and owner.driver.is_usable:
            keep_until_idle(owner)


def _takers_stream(stream: object, index: int) -> Stream | None:
    if stream is None:
        return default_stream(index)
    if not isinstance(stream, int) or isinstance(stream, bool) or stream < -1 or stream == 0:
        raise ForeignArrayError(
            explain(
                "__dlpack__",
                "not a stream of this protocol",
                got={"stream": repr(stream)},
                expected="None or 1 for the legacy default stream, 2 for the thread's, -1 for no "
                "synchronization, or the handle of a stream",
            )
        )
    return None if stream == -1 else external_stream(stream, index)
