"""Steps of a plan for GPUs that the host does itself: what decides, in loops and branches, which
step comes next.

The few small kernels of this kind are written in the language of the CPU's, which is Python: here
they are run as such, over memory of the host.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba_grad.compiler.cuda import build
from numba_grad.compiler.target import HostSteps
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


build.give_maker(_NUMBER.source, lambda architecture: _NUMBER)
HOST = HostSteps(_host_kernel, _NUMBER.source)
