"""Who compiles and runs graphs, by the kind of device. The CPU's backend is here; that of "cuda"
registers itself when the first CUDA device is asked for."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from numba_grad.compiler.building import engine_build
from numba_grad.compiler.compiled_program import CompiledProgram, Destination
from numba_grad.compiler.programs import PROCESSOR
from numba_grad.errors import InternalError
from numba_grad.graph.types import CPU

Run = Callable[..., list[Any]]


class Backend(Protocol):
    """What evaluation needs of a kind of device."""

    def destination(self, device: str) -> Destination:
        """What to compile for."""
        ...

    def runner(self, program: CompiledProgram, device: str) -> Run:
        """What takes the values of a program's inputs and returns its outputs."""
        ...

    def profile(
        self, program: CompiledProgram, device: str, values: Sequence[Any], repeats: int
    ) -> np.ndarray:
        """Mean seconds of each step."""
        ...

    def on_stream(self, device: str, stream: Any) -> AbstractContextManager[Any]:
        """A block in which a stream is the current one; None is the default stream. After it, the
        stream that was current waits for what was done in it."""
        ...

    def from_host(self, array: np.ndarray, device: str) -> Any:
        """A copy on the device."""
        ...

    def to_host(self, array: Any) -> np.ndarray:
        """A copy in host memory; errors that kernels left behind are raised here."""
        ...

    def to_device(self, array: Any, device: str) -> Any:
        """A copy on another device of this kind."""
        ...


class _Processor:
    """The CPU."""

    def destination(self, device: str) -> Destination:
        return PROCESSOR

    def runner(self, program: CompiledProgram, device: str) -> Run:
        return engine_build.native_engine().program(program.plan).run

    def profile(
        self, program: CompiledProgram, device: str, values: Sequence[Any], repeats: int
    ) -> np.ndarray:
        return engine_build.native_engine().profile(program.plan, values, repeats=repeats)

    def on_stream(self, device: str, stream: Any) -> AbstractContextManager[Any]:
        return nullcontext()

    def from_host(self, array: np.ndarray, device: str) -> np.ndarray:
        return array

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_device(self, array: np.ndarray, device: str) -> np.ndarray:
        return array


_backends: dict[str, Backend] = {CPU: _Processor()}


def register(kind: str, backend: Backend) -> None:
    """Make devices of this kind usable."""
    _backends[kind] = backend


def backend_of(device: str) -> Backend:
    """The backend of a device such as "cuda:0"."""
    found = _backends.get(device.partition(":")[0])
    if found is None:
        raise InternalError(f"no backend for {device!r}: tensors there cannot exist")
    return found


def on_host(value: Any) -> np.ndarray:
    """The array itself, or a copy of one that is on another device."""
    return value if isinstance(value, np.ndarray) else backend_of(str(value.device)).to_host(value)


def copied_to(value: Any, device: str) -> Any:
    """A value on a device, by way of the host if the kinds differ."""
    source = str(value.device)
    if source == device:
        return value
    if source.partition(":")[0] == device.partition(":")[0]:
        return backend_of(device).to_device(value, device)
    return backend_of(device).from_host(on_host(value), device)


def only_device(devices: Sequence[str]) -> str:
    """The device of a program whose values are on these."""
    return next((device for device in devices if device != CPU), CPU)
