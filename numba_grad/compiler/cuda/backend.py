"""CUDA devices as what `compiler/backends.py` asks of a kind of device. Importing registers it."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from numba_grad.compiler import backends
from numba_grad.compiler.compiled_program import CompiledProgram, Destination
from numba_grad.compiler.cuda import build
from numba_grad.compiler.cuda.library_kernels import Options
from numba_grad.compiler.cuda.target import cuda_destination
from numba_grad.config import config
from numba_grad.graph import streams
from numba_grad.locks import new_lock
from numba_grad.runtime.cuda import arrays, checks
from numba_grad.runtime.cuda.arrays import DeviceArray
from numba_grad.runtime.cuda.devices import cuda_index
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.engine import Program
from numba_grad.runtime.cuda.streams import Stream, current_stream, default_stream, stream_is


class _Cuda:
    def __init__(self) -> None:
        self._lock = new_lock()

    def destination(self, device: str) -> Destination:
        architecture = current_driver().architecture(cuda_index(device))
        options = Options(
            # Those of the host know nothing of a driver in host memory.
            libraries=architecture != build.SOURCE_ARCHITECTURE,
            tf32=config.tf32,
            deterministic=config.deterministic,
        )
        return cuda_destination(architecture, options)

    def program(self, program: CompiledProgram, device: str) -> Program:
        """The plan, made ready for a device; the same one each time."""
        plan, index, driver = program.plan, cuda_index(device), current_driver()
        found = None if plan.program is None else plan.program.get((driver, index))
        if found is None:
            with self._lock:
                if plan.program is None:
                    plan.program = {}
                found = plan.program.get((driver, index))
                if found is None:
                    architecture = driver.architecture(index)
                    make = functools.partial(build.build, architecture=architecture)
                    found = plan.program[driver, index] = Program(plan, index, make)
        return found

    def runner(self, program: CompiledProgram, device: str) -> backends.Run:
        return self.program(program, device).run

    def profile(
        self, program: CompiledProgram, device: str, values: Sequence[Any], repeats: int
    ) -> np.ndarray:
        return self.program(program, device).profile(*values, repeats=repeats)

    @contextmanager
    def on_stream(self, device: str, stream: Stream | None) -> Iterator[None]:
        index = cuda_index(device)
        own = current_stream(index)
        other = default_stream(index) if stream is None else stream
        if other == own:
            yield
            return
        with stream_is(other):
            yield
        own.wait_stream(other)

    def from_host(self, array: np.ndarray, device: str) -> DeviceArray:
        return arrays.from_host(array, device)

    def to_host(self, array: DeviceArray) -> np.ndarray:
        checks.check(array.device.index)
        return array.to_host()

    def to_device(self, array: DeviceArray, device: str) -> DeviceArray:
        return array.copy(device)

    def current(self, device: str) -> Stream | None:
        """The calling thread's stream, None if it is the default one: for `graph/streams.py`."""
        index = cuda_index(device)
        stream = current_stream(index)
        return None if stream == default_stream(index) else stream


BACKEND = _Cuda()
backends.register("cuda", BACKEND)
streams.register(BACKEND)
