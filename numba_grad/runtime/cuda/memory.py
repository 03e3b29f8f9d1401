"""Memory of GPUs, lent by the driver's pool in the order of streams.

Memory is asked for on the stream that uses it first and given back there, so neither waits for the
device. What other streams do with it is noted: then it goes back when they are done, by a stream
that only waits for that.
"""

from typing import NoReturn

from numba_grad.errors import OutOfMemoryError, explain
from numba_grad.runtime.cuda.devices import active, cuda_index
from numba_grad.runtime.cuda.driver import current_driver, running_driver
from numba_grad.runtime.cuda.interface import Driver, DriverError, MemoryInfo
from numba_grad.runtime.cuda.streams import Stream, current_stream

_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


class Owner:
    """What keeps memory alive. It knows the stream that writes it first, and others that use it."""

    __slots__ = ("__weakref__", "_driver", "others", "stream")

    def __init__(self, stream: Stream) -> None:
        self._driver: Driver = current_driver()
        self.stream = stream
        self.others: list[Stream] = []

    def use_on(self, stream: Stream) -> None:
        """Note that another stream uses the memory: it is kept until that is done."""
        if stream != self.stream and stream not in self.others:
            self.others.append(stream)

    def is_alive(self) -> bool:
        """Whether there still is a context: not after a kernel failed, nor in a forked child."""
        return self._driver is running_driver() and not self._driver.is_lost


class Allocation(Owner):
    """Memory of one GPU, of our pool, for as long as this object lives."""

    __slots__ = ("address", "nbytes")

    def __init__(self, nbytes: int, stream: Stream) -> None:
        self.address = 0  # until there is something to give back
        super().__init__(stream)
        self.nbytes = nbytes
        if nbytes:
            self.address = _allocated(self._driver, nbytes, stream)

    def __del__(self) -> None:
        if self.address and self.is_alive():
            with active(self.stream.device.index):
                stream = _after(self.stream, self.others) if self.others else self.stream
                self._driver.free(self.address, stream.handle)


def _after(first: Stream, others: list[Stream]) -> Stream:
    """A stream that has nothing to do but to wait for what all of these were given."""
    index = first.device.index
    kept = current_driver().kept
    reclaiming = kept.get(("reclaiming stream", index))
    if reclaiming is None:
        reclaiming = kept.setdefault(("reclaiming stream", index), Stream(index))
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
    _take_back_lent(driver, index)
    with active(index):
        try:
            return driver.allocate(index, nbytes, stream.handle)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
        # What is free lies in pieces, or waits for streams: once all are done, the pool can give
        # everything back, and the device be asked again.
        driver.synchronize(index)
        driver.trim(index)
        try:
            return driver.allocate(index, nbytes, stream.handle)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
            _refuse(driver, nbytes, stream)


def keep_until_idle(owner: Owner) -> None:
    """Keep memory that somebody else may still be using, on streams that we know nothing of.

    It goes back when memory is asked for the next time, after the device has done everything. Not
    at once: this is called by finalizers, at any point, and nobody may wait for a device while a
    stream of it is captured.
    """
    owner._driver.kept.setdefault(("lent", owner.stream.device.index), []).append(owner)


def _take_back_lent(driver: Driver, index: int) -> None:
    lent = driver.kept.get(("lent", index))
    if lent:
        count = len(lent)
        driver.synchronize(index)
        del lent[:count]


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
