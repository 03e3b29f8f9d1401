"""What `runtime/cuda/cupy_calls.py` uses of CuPy, made of NumPy on the memory of a driver.

Arrays are views of allocations: an address, a shape or a device that is wrong is found. Inside of a
stream what that stream was given before is done first; another stream's would not be.
"""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg

from numba_grad.runtime.cuda.cupy_calls import Cupy
from numba_grad.runtime.cuda.streams import Stream
from tests.cuda.host_driver import HostDriver


class StandIn:
    """Use `cupy` as the package; `streams` are those that work was given to."""

    def __init__(self, driver: HostDriver) -> None:
        self.driver = driver
        self.device: int | None = None
        self.is_streaming = False
        self.is_raising = False
        self.streams: list[int] = []
        numpy_names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
        numpy_names["cuda"] = SimpleNamespace(
            UnownedMemory=self.memory,
            MemoryPointer=lambda memory, offset: (memory, offset),
            Device=self.in_device,
            Stream=SimpleNamespace(from_external=self.in_stream),
        )
        numpy_names["ndarray"] = self.array
        numpy_names["linalg"] = SimpleNamespace(
            **{name: self.checked(getattr(np.linalg, name)) for name in self.FUNCTIONS},
            solve=self.checked(self.solve),
            slogdet=np.linalg.slogdet,
        )
        self.package = SimpleNamespace(**numpy_names)
        linalg = SimpleNamespace(
            solve_triangular=self.solve_triangular, lu_factor=scipy.linalg.lu_factor
        )
        self.found = Cupy(self.package, linalg, self.raising)

    FUNCTIONS = ("inv", "cholesky", "qr", "eigh", "eigvalsh", "eig", "eigvals", "svd")

    def checked(self, function: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            assert self.is_streaming, "not in a stream"
            assert self.is_raising, "CuPy would say nothing of a bad matrix"
            return function(*arguments, **more)

        return call

    def solve(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert a.shape[:-2] == b.shape[:-2] and a.ndim == b.ndim
        return np.linalg.solve(a, b)

    def solve_triangular(self, a: np.ndarray, b: np.ndarray, **params: bool) -> np.ndarray:
        assert a.ndim == b.ndim == 2
        return scipy.linalg.solve_triangular(a, b, **params)

    def memory(self, address: int, nbytes: int, owner: object, device: int) -> np.ndarray:
        assert owner is None and device == self.device
        return self.driver.memory(address, nbytes, device)[:nbytes]

    def array(self, shape: tuple[int, ...], dtype: Any, place: tuple[np.ndarray, int]) -> Any:
        memory, offset = place
        size = int(np.prod(shape))
        return memory[offset:].view(np.uint8)[: size * dtype.itemsize].view(dtype).reshape(shape)

    @contextlib.contextmanager
    def in_device(self, device: int) -> Iterator[None]:
        self.device = device
        yield
        self.device = None

    @contextlib.contextmanager
    def in_stream(self, stream: Stream) -> Iterator[None]:
        assert stream.device.index == self.device
        _, handle = stream.__cuda_stream__()
        self.driver.synchronize_stream(handle)
        self.streams.append(handle)
        self.is_streaming = True
        yield
        self.is_streaming = False

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        self.is_raising = True
        try:
            yield
        finally:
            self.is_raising = False
