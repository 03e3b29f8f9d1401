"""Public as `numba_grad.cuda`: GPUs, streams, events and memory.

The names and meanings are torch's. Nothing of CUDA is imported before one of these, or a tensor's
`device`, asks for a GPU. `device` is always optional: a number, "cuda:1", or None for the current
GPU, which is 0 until `device(i)` chooses another one, in each thread for itself.
"""

from typing import Any

import numba_grad.compiler.cuda.backend  # noqa: F401 - from here on graphs run on GPUs
from numba_grad.runtime.cuda import checks, devices, memory
from numba_grad.runtime.cuda.devices import (
    Device,
    cuda_device,
    cuda_index,
    device_count,
    is_available,
)
from numba_grad.runtime.cuda.devices import current_device_is as device
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.interface import DeviceProperties, MemoryInfo
from numba_grad.runtime.cuda.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    external_stream,
)
from numba_grad.runtime.cuda.streams import stream_is as stream

__all__ = [
    "Device",
    "DeviceProperties",
    "Event",
    "MemoryInfo",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "external_stream",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
    "stream",
    "synchronize",
]


def current_device() -> Device:
    """The GPU that "cuda" stands for in this thread.

    Raises
    ------
    CudaUnavailableError
        If there is none to be used.
    """
    current_driver()
    return cuda_device(devices.current_index())


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, compute capability, memory and sizes of a GPU."""
    return current_driver().properties(cuda_index(device))


def get_device_name(device: Any = None) -> str:
    """What NVIDIA calls the GPU."""
    return get_device_properties(device).name


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was given, on all streams.

    Raises
    ------
    KernelError
        If a kernel failed meanwhile. The process cannot use any GPU after that.
    IndexError, numpy.linalg.LinAlgError
        What kernels found wrong with values since the host last asked for some.
    """
    index = cuda_index(device)
    current_driver().synchronize(index)
    checks.check(index)


def memory_stats(device: Any = None) -> MemoryInfo:
    """Bytes in use and in the pool, of this process, and free ones, of the whole GPU."""
    return memory.memory_info(device)


def memory_allocated(device: Any = None) -> int:
    """Bytes of a GPU that tensors of this process use."""
    return memory_stats(device).used


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors have used at a time, since the start or the last reset."""
    return memory_stats(device).used_peak


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let `max_memory_allocated` start again."""
    current_driver().reset_peak(cuda_index(device))


def empty_cache(device: Any = None) -> None:
    """Give memory that no tensor uses back to the GPU, for other processes and libraries."""
    memory.empty_pool(device)
