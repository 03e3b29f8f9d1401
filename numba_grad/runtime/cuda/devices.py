"""Devices by name, and the one that is current, for each thread its own."""

import functools
import threading
from typing import Any

import numpy as np

from numba_grad.errors import CudaUnavailableError, DeviceError, explain
from numba_grad.fresh_thread import carried
from numba_grad.immutable import immutable
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.interface import DeviceBlock

CUDA = "cuda"


@immutable
class Device:
    """The processor ("cpu") or a GPU ("cuda" and its number)."""

    kind: str
    index: int
    name: str  # "cpu", "cuda:0"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"device('{self.name}')"


CPU = Device("cpu", 0, "cpu")


class _Current(threading.local):
    index = 0


_current = carried(_Current())


@functools.cache
def cuda_device(index: int) -> Device:
    """The GPU of that number: one object per GPU, so that devices can be told apart with `is`."""
    return Device(CUDA, index, f"{CUDA}:{index}")


def parse_device(device: object) -> Device:
    """What `device=` stands for: a `Device`, "cpu", "cuda" (the current one), "cuda:1", or None.

    Other libraries' devices are taken by what they print as ("cuda:0").

    Raises
    ------
    DeviceError
        If there is no such device.
    CudaUnavailableError
        If a GPU is asked for, and there is none to be used.
    """
    if device is None or device is CPU or device == "cpu":
        return CPU
    text = str(device)
    if text == "cpu":
        return CPU
    kind, colon, number = text.partition(":")
    # isdecimal: int() would take " 1", "+1" and "1_0" as well.
    if kind != CUDA or (colon and not (number.isascii() and number.isdecimal())):
        raise DeviceError(
            explain(
                "device",
                "no such device",
                got={"device": repr(device)},
                expected="'cpu', 'cuda' or 'cuda:0'",
            )
        )
    count = current_driver().device_count()
    index = int(number) if colon else _current.index
    if index >= count:
        raise DeviceError(
            explain(
                "device",
                "no GPU of that number",
                got={"device": repr(device), "GPUs": count},
                expected=_existing(count),
            )
        )
    return cuda_device(index)


def _existing(count: int) -> str:
    return "'cuda:0'" if count == 1 else f"'cuda:0' to 'cuda:{count - 1}'"


_indices: dict[str, int] = {}  # by names as they were read before: operations ask several times


def cuda_index(device: Any = None) -> int:
    """The number of a GPU: an integer, anything `parse_device` takes, or None for the current one.

    Raises
    ------
    DeviceError
        If it is none.
    """
    if device is None:
        return _current.index
    if device.__class__ is str:
        known = _indices.get(device, -1)
        if 0 <= known < current_driver().device_count():
            return known
    elif device.__class__ is int and 0 <= device < current_driver().device_count():
        return device
    if isinstance(device, int | np.integer) and not isinstance(device, bool):
        device = f"{CUDA}:{device}"
    parsed = parse_device(device)
    if parsed is CPU:
        raise DeviceError(
            explain(
                "cuda", "not a GPU", got={"device": repr(device)}, expected="'cuda' or 'cuda:0'"
            )
        )
    _indices[parsed.name] = parsed.index
    return parsed.index


def current_index() -> int:
    """The calling thread's current GPU; 0 until it is changed."""
    return _current.index


def set_current_index(index: int) -> None:
    _current.index = index


def is_available() -> bool:
    """Whether there is a GPU to be used. Never raises."""
    try:
        return current_driver().device_count() > 0
    except DeviceError:
        return False


def device_count() -> int:
    """How many GPUs there are; 0 where none is to be used."""
    try:
        return current_driver().device_count()
    except CudaUnavailableError:
        return 0


class current_device_is:
    """A block in which "cuda" is another GPU, for this thread."""

    __slots__ = ("_index", "_previous")

    def __init__(self, device: object) -> None:
        self._index = cuda_index(device)
        self._previous: list[int] = []  # one for each time that the block is entered

    def __enter__(self) -> Device:
        self._previous.append(_current.index)
        _current.index = self._index
        return cuda_device(self._index)

    def __exit__(self, *error: object) -> None:
        _current.index = self._previous.pop()


def active(index: int) -> DeviceBlock:
    """A block of calls to the driver that are about one device."""
    return DeviceBlock(current_driver(), index)
