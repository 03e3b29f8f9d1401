"""Steps of a plan for GPUs that the host does itself: what decides, in loops and branches, which
step comes next.

The few small kernels of this kind are written in the language of the CPU's, which is Python: here
they are run as such, over memory of the host.

And calls of libraries that know nothing of GPUs, such as MPI: kernels of the CPU, in machine code,
over copies of memory of the device.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.compiler.building.build import build as build_for_host
from numba_grad.compiler.cuda import build
from numba_grad.compiler.target import HostCopy, HostSteps
from numba_grad.config import config
from numba_grad.immutable import immutable
from numba_grad.runtime.cuda.arrays import STAGED_BYTES
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.streams import Stream

_NUMBER_BYTES = 8
_POINTERS = {"int64": ctypes.POINTER(ctypes.c_int64)}


@dataclass(frozen=True, slots=True, eq=False)
class HostStep:
    """A step of the host's own, which no captured graph can repeat."""

    source: str
    do: Callable[[Stream, Sequence[int]], None]
    is_capturable: bool = False

    def __call__(self, stream: Stream, words: Sequence[int]) -> None:
        self.do(stream, words)


def _buffer(words: Sequence[int], number: int, name: str) -> Any:
    return ctypes.cast(words[number], _POINTERS[name])


@functools.cache
def _kernel(source: str) -> HostStep:
    scope: dict[str, Any] = {
        "buffer": _buffer,
        "integer": lambda words, number: words[number],
        "int64": "int64",
    }
    exec(compile(source, "<kernel of the host>", "exec"), scope)
    kernel = scope["kernel"]
    return HostStep(source, lambda stream, words: kernel(words, 0, 1))


def _copy_number(stream: Stream, words: Sequence[int]) -> None:
    source, target = words
    current_driver().copy_to_host(target, source, _NUMBER_BYTES, stream.handle)


_NUMBER = HostStep("# number: of the device", _copy_number)


def _host_kernel(source: str) -> str:
    build.give_maker(source, lambda architecture: _kernel(source))
    return source


# Calls of libraries

# Copies that a library may still read or write, by the address of what they are copies of: it stays
# where it is until the message has come or gone.
_under_way: dict[int, np.ndarray] = {}


@immutable
class _Copied:
    """One memory of the device, for a call of the host."""

    address: int
    array: np.ndarray
    use: HostCopy

    @classmethod
    def of(cls, stream: Stream, address: int, word: int) -> "_Copied":
        nbytes, use = divmod(word, HostCopy.END)
        if use & HostCopy.FOUND and nbytes:
            return cls(address, _under_way.pop(address), HostCopy(use))
        array = np.empty(max(nbytes, 1), np.uint8)[:nbytes]
        if use & HostCopy.READ and nbytes:
            driver = current_driver()
            driver.copy_to_host(array.ctypes.data, address, nbytes, stream.handle)
        return cls(address, array, HostCopy(use))

    def finish(self, stream: Stream) -> None:
        if not self.array.nbytes:
            return
        if self.use & HostCopy.KEPT:
            _under_way[self.address] = self.array
        elif self.use & HostCopy.WRITTEN:
            driver = current_driver()
            nbytes = self.array.nbytes
            driver.copy_to_device(self.address, self.array.ctypes.data, nbytes, stream.handle)
            # Of pageable memory the driver has a copy when it returns, if it is small.
            if nbytes > STAGED_BYTES:
                driver.synchronize_stream(stream.handle)


def _call_with_copies(
    kernel: Callable[[int, int, int], None], stream: Stream, words: Sequence[int]
) -> None:
    count = len(words) // 2
    own = np.array(words[:count], np.int64)
    # What MPI takes where it is.
    stays = HostCopy.MPI if config.mpi_cuda_aware else 0
    if config.mpi_cuda_aware:
        current_driver().synchronize_stream(stream.handle)
    copies = {
        k: _Copied.of(stream, words[k], word)
        for k, word in enumerate(words[count:])
        if word and not word & stays
    }
    for k, copy in copies.items():
        own[k] = copy.array.ctypes.data
    kernel(own.ctypes.data, 0, 1)
    for copy in copies.values():
        copy.finish(stream)


@functools.cache
def _call(source: str) -> HostStep:
    address = build_for_host(source).address
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(address)
    return HostStep(source, functools.partial(_call_with_copies, kernel))


def _host_call(source: str) -> str:
    text = f"# on the host\n{source}"
    build.give_maker(text, lambda architecture: _call(source))
    return text


build.give_maker(_NUMBER.source, lambda architecture: _NUMBER)
HOST = HostSteps(_host_kernel, _NUMBER.source, _host_call)
