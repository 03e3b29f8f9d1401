"""CUDA devices as what `compiler/backends.py` asks of a kind of device. Importing registers it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.compiler import backends
from numba_grad.compiler.cuda.target import cuda_target
from numba_grad.compiler.pipeline import CompiledProgram
from numba_grad.compiler.target import Target
from numba_grad.locks import Lock
from numba_grad.runtime.cuda import arrays, checks
from numba_grad.runtime.cuda.arrays import DeviceArray
from numba_grad.runtime.cuda.devices import cuda_index
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.engine import Program


class _Cuda:
    def __init__(self) -> None:
        self._lock = Lock()

    def target(self, device: str) -> Target:
        return cuda_target(current_driver().architecture(cuda_index(device)))

    def program(self, program: CompiledProgram, device: str) -> Program:
        """The plan, made ready for a device; the same one each time."""
        plan, index, driver = program.plan, cuda_index(device), current_driver()
        with self._lock:
            if plan.program is None:
                plan.program = {}
            found = plan.program.get((driver, index))
            if found is None:
                found = plan.program[driver, index] = Program(plan, index)
        return found

    def runner(self, program: CompiledProgram, device: str) -> backends.Run:
        return self.program(program, device).run

    def profile(
        self, program: CompiledProgram, device: str, values: Sequence[Any], repeats: int
    ) -> np.ndarray:
        return self.program(program, device).profile(*values, repeats=repeats)

    def from_host(self, array: np.ndarray, device: str) -> DeviceArray:
        return arrays.from_host(array, device)

    def to_host(self, array: DeviceArray) -> np.ndarray:
        checks.check(array.device.index)
        return array.to_host()

    def to_device(self, array: DeviceArray, device: str) -> DeviceArray:
        return array.copy(device)


BACKEND = _Cuda()
backends.register("cuda", BACKEND)
