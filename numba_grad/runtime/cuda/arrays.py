"""Arrays in the memory of GPUs: where, and what is there. They compute nothing."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import DeviceError, ForeignArrayError, ShapeError, explain
from numba_grad.runtime.cuda import exports
from numba_grad.runtime.cuda.devices import Device, active, cuda_index
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.memory import Owner, allocate
from numba_grad.runtime.cuda.streams import Stream, current_stream
from numba_grad.runtime.dlpack import capsule_of

# Up to here the driver may copy from the host later than it returns, if the memory is pinned.
STAGED_BYTES = 1 << 16


class DeviceArray:
    """Elements in row-major order at an address of one GPU. `owner` keeps the memory alive."""

    __slots__ = ("__weakref__", "address", "device", "dtype", "nbytes", "owner", "shape")

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype, device: Device, owner: object
    ) -> None:
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.owner = owner
        self.nbytes: int = math.prod(shape) * dtype.itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def wait_for_writer(self, stream: Stream) -> None:
        """Let a stream that is going to use the elements wait until they are there."""
        if isinstance(self.owner, Owner) and self.owner.stream != stream:
            stream.wait_stream(self.owner.stream)
            self.owner.use_on(stream)

    def reshape(self, shape: tuple[int, ...]) -> "DeviceArray":
        """The same memory in another shape of the same size."""
        if math.prod(shape) != self.size:
            raise ShapeError(
                explain(
                    "reshape",
                    "another number of elements",
                    got={"from": self.shape, "to": shape},
                    expected="equal products",
                )
            )
        return DeviceArray(self.address, shape, self.dtype, self.device, self.owner)

    def to_host(self, stream: Stream | None = None) -> np.ndarray:
        """A new NumPy array of the elements as the stream, the current one by default, has them."""
        array = np.empty(self.shape, self.dtype)
        if self.nbytes:
            stream = current_stream(self.device.index) if stream is None else stream
            self.wait_for_writer(stream)
            driver = current_driver()
            with active(self.device.index):
                driver.copy_to_host(array.ctypes.data, self.address, self.nbytes, stream.handle)
                driver.synchronize_stream(stream.handle)
        return array

    def fill_from(self, array: np.ndarray, stream: Stream | None = None) -> None:
        """Copy a NumPy array of the same shape and dtype here."""
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ShapeError(
                explain(
                    "fill_from",
                    "another shape or dtype",
                    got={
                        "array": f"{array.dtype}{list(array.shape)}",
                        "device array": f"{self.dtype}{list(self.shape)}",
                    },
                    expected="equal ones",
                )
            )
        if not self.nbytes:
            return
        stream = current_stream(self.device.index) if stream is None else stream
        self.wait_for_writer(stream)
        driver = current_driver()
        is_small = self.nbytes <= STAGED_BYTES
        # The caller may write to `array` as soon as this returns. From pageable memory small arrays
        # are staged by then; an own copy is pageable for certain.
        source = np.array(array, order="C") if is_small else np.ascontiguousarray(array)
        with active(self.device.index):
            driver.copy_to_device(self.address, source.ctypes.data, self.nbytes, stream.handle)
            if not is_small:
                driver.synchronize_stream(stream.handle)

    def copy(self, device: object = None, stream: Stream | None = None) -> "DeviceArray":
        """A copy in new memory, on this GPU or another one."""
        index = self.device.index if device is None else cuda_index(device)
        # Copies between devices are done on a stream of the one that has the elements.
        source = current_stream(self.device.index) if stream is None else stream
        target = source if index == self.device.index else current_stream(index)
        result = empty(self.shape, self.dtype, index, target)
        if self.nbytes:
            self.wait_for_writer(source)
            self._copy_to(result, source, target)
        return result

    def _copy_to(self, result: "DeviceArray", source: Stream, target: Stream) -> None:
        driver = current_driver()
        own, other = self.device.index, result.device.index
        if own == other:
            with active(own):
                driver.copy_on_device(result.address, self.address, self.nbytes, source.handle)
            return
        source.wait_stream(target)  # the memory exists from here on
        with active(own):
            driver.copy_between_devices(
                result.address, other, self.address, own, self.nbytes, source.handle
            )
        target.wait_stream(source)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For CuPy, Numba and others: the elements as the current stream has them."""
        return exports.cuda_array_interface(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (exports.KIND_CUDA, self.device.index)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The capsule of DLPack: this memory, or a copy if `copy` or another device asks for it.

        Raises
        ------
        ForeignArrayError
            If the device is none that can be copied to, or only by a copy that is not allowed.
        """
        own = self.__dlpack_device__()
        wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if wanted == (exports.KIND_CPU, 0) and copy is not False:
            return capsule_of(self.to_host(), max_version=max_version)
        if wanted != own:
            raise ForeignArrayError(
                explain(
                    "__dlpack__",
                    "a device that this array is not exported to",
                    got={"dl_device": wanted, "copy": copy},
                    expected=f"{own}, or {(exports.KIND_CPU, 0)} with a copy",
                )
            )
        array = self.copy() if copy else self
        return exports.capsule(array, stream, max_version)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} at {self.address:#x} on {self.device}>"


def empty(
    shape: Sequence[int], dtype: object, device: object = None, stream: Stream | None = None
) -> DeviceArray:
    """A new array with undefined contents, to be written on a stream, by default the current one.

    Raises
    ------
    OutOfMemoryError
        If the device has not enough memory.
    """
    dtype = np.dtype(dtype)  # type: ignore[call-overload]
    shape = tuple(int(extent) for extent in shape)
    if dtype.hasobject:
        raise DeviceError(
            explain("cuda", "Python objects cannot be on a GPU", got={"dtype": dtype})
        )
    if stream is None:
        stream = current_stream(device)
    owner = allocate(math.prod(shape) * dtype.itemsize, stream)
    return DeviceArray(owner.address, shape, dtype, stream.device, owner)


def zeros(
    shape: Sequence[int], dtype: object, device: object = None, stream: Stream | None = None
) -> DeviceArray:
    """A new array of zeros."""
    stream = current_stream(device) if stream is None else stream
    result = empty(shape, dtype, device, stream)
    if result.nbytes:
        with active(stream.device.index):
            current_driver().fill(result.address, 0, result.nbytes, stream.handle)
    return result


def from_host(
    array: np.ndarray, device: object = None, stream: Stream | None = None
) -> DeviceArray:
    """A NumPy array, copied to a GPU. It may be written to as soon as this returns."""
    stream = current_stream(device) if stream is None else stream
    result = empty(array.shape, array.dtype, device, stream)
    result.fill_from(array, stream)
    return result
