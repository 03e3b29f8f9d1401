"""Memory of GPUs, lent by the driver's pool in the order of streams.

Memory is asked for on the stream that uses it first and given back there, so neither waits for the
device. What other streams do with it is noted: then it goes back when they are done, by a stream
that only waits for that.
"""

import contextlib
import ctypes
import gc
from collections import deque
from typing import NoReturn

from numba_grad.errors import OutOfMemoryError, explain
from numba_grad.runtime.cuda.devices import cuda_index
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.interface import Driver, DriverMemoryError, MemoryInfo
from numba_grad.runtime.cuda.streams import Stream, current_stream, reclaiming_stream


class Owner:
    """What keeps memory alive. It knows the stream that writes it first, and others that use it."""

    __slots__ = ("__weakref__", "driver", "others", "stream")

    def __init__(self, stream: Stream) -> None:
        self.driver: Driver = current_driver()
        self.stream = stream
        self.others: tuple[Stream, ...] = ()

    def use_on(self, stream: Stream) -> None:
        """Note that another stream uses the memory: it is kept until that is done."""
        if stream != self.stream and stream not in self.others:
            self.others += (stream,)


class Allocation(Owner):
    """Memory of one GPU, of our pool, for as long as this object lives."""

    __slots__ = ("address", "nbytes")

    def __init__(self, nbytes: int, stream: Stream) -> None:
        self.address = 0  # until there is something to give back
        super().__init__(stream)
        self.nbytes = nbytes
        if nbytes:
            self.address = _allocated(self.driver, nbytes, stream)

    def __del__(self) -> None:
        # Without an address if Ctrl-C came before the first line of `__init__`.
        if not getattr(self, "address", 0) or not self.driver.is_usable:
            return
        # As `active` does, in a third of its time.
        driver, stream = self.driver, self.stream
        previous = driver.activate(stream.device.index)
        if self.others:
            stream = _after(stream, self.others)
        driver.free(self.address, stream.handle)
        if previous is not None:
            driver.restore(previous)


def _after(first: Stream, others: tuple[Stream, ...]) -> Stream:
    """A stream that has nothing to do but to wait for what all of these were given."""
    reclaiming = reclaiming_stream(first.device.index)
    for stream in (first, *others):
        reclaiming.wait_stream(stream)
    return reclaiming


def allocate(nbytes: int, stream: Stream | None = None) -> Allocation:
    """Memory to be used on a stream, the current one by default; contents are undefined.

    Raises
    ------
    OutOfMemoryError
        If there is not enough, also after the pool has been emptied.
    """
    return Allocation(nbytes, current_stream() if stream is None else stream)


def _allocated(driver: Driver, nbytes: int, stream: Stream) -> int:
    index = stream.device.index
    if driver.lent:
        _take_back_lent(driver, index)
    previous = driver.activate(index)
    try:
        try:
            return driver.allocate(index, nbytes, stream.handle)
        except DriverMemoryError:
            # Arrays may be held by cycles of objects that nobody uses. What is free lies in pieces,
            # or waits for streams: once all are done, the pool can give everything back.
            gc.collect()
            driver.synchronize(index)
            driver.trim(index)
        try:
            return driver.allocate(index, nbytes, stream.handle)
        except DriverMemoryError:
            _refuse(driver, nbytes, stream)
    finally:
        if previous is not None and driver.is_usable:
            driver.restore(previous)


# Numbers in page-locked memory of the host, where copies from the device arrive without another one
# on the way. They are asked for by the page, and kept.
_PINNED_NUMBERS = 64


def take_pinned_number(device: int) -> ctypes.c_int64:
    """A number that nobody else uses, until it is given back, for copies from a device."""
    driver = current_driver()
    free = _pinned_numbers(driver, device)
    with contextlib.suppress(IndexError):
        return free.pop()
    with driver.capturing:  # this may wait for the device
        page = driver.allocate_pinned(8 * _PINNED_NUMBERS)
    free.extend(ctypes.c_int64.from_address(page + 8 * k) for k in range(1, _PINNED_NUMBERS))
    return ctypes.c_int64.from_address(page)


def give_back_pinned_number(driver: Driver, device: int, number: ctypes.c_int64) -> None:
    _pinned_numbers(driver, device).append(number)


def _pinned_numbers(driver: Driver, device: int) -> deque[ctypes.c_int64]:
    return driver.kept.setdefault(("pinned numbers", device), deque())


def keep_until_idle(owner: Owner) -> None:
    """Keep memory that somebody else may still be using, on streams that we know nothing of.

    It goes back when memory is asked for the next time, after the device has done everything. Not
    at once: this is called by finalizers, at any point, and nobody may wait for a device while a
    stream of it is captured.
    """
    owner.driver.lent.setdefault(owner.stream.device.index, deque()).append(owner)


def _take_back_lent(driver: Driver, index: int) -> None:
    lent = driver.lent.get(index)
    if lent:
        # What is lent from here on has to wait for the next time.
        taken: list[object] = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(lent.popleft())
        driver.synchronize(index)


def _refuse(driver: Driver, nbytes: int, stream: Stream) -> NoReturn:
    info = driver.memory_info(stream.device.index)
    raise OutOfMemoryError(
        explain(
            "cuda",
            f"out of memory on {stream.device}, also with the pool emptied",
            got={
                "asked": shown(nbytes),
                "used": f"{shown(info.used)} by tensors of this process",
                "pooled": f"{shown(info.reserved - info.used)} that cannot be given back",
                "free": f"{shown(info.free)} of {shown(info.total)} on the device",
            },
            expected="arrays that fit: smaller ones, or fewer alive at a time",
        )
    ) from None


def shown(nbytes: int) -> str:
    """A number of bytes as one reads it."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"


def memory_info(device: object = None) -> MemoryInfo:
    return current_driver().memory_info(cuda_index(device))


def empty_pool(device: object = None) -> None:
    """Give back to the device what the pool holds and no array uses."""
    index = cuda_index(device)
    driver = current_driver()
    _take_back_lent(driver, index)
    driver.synchronize(index)
    driver.trim(index)
