"""Python functions that a kernel calls, on copies of the arrays that it points to.

A kernel enters Python as C code does: it takes the GIL, calls a `PythonCall` with the address of
its pointers, and takes the exception with it if there is one, which is raised after the run
(`compiler/library_kernels/python_calls.py`).
"""

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Shape, dtype, and from an address what sees the bytes there.
_Place = tuple[tuple[int, ...], np.dtype, Callable[[int], Any]]


def _place(shape: tuple[int, ...], dtype: np.dtype) -> _Place:
    nbytes = math.prod(shape) * dtype.itemsize
    return shape, dtype, (ctypes.c_char * nbytes).from_address


class PythonCall:
    """`function`, of a list of arrays that returns a list of arrays, for given shapes and dtypes.

    What it gets are copies, since plans use their memory again, and read-only.
    """

    def __init__(
        self,
        function: Callable[[list[np.ndarray]], Sequence[np.ndarray]],
        inputs: Sequence[tuple[tuple[int, ...], np.dtype]],
        outputs: Sequence[tuple[tuple[int, ...], np.dtype]],
    ) -> None:
        self._function = function
        self._inputs = [_place(*x) for x in inputs]
        self._outputs = [_place(*x) for x in outputs]
        pointers = struct.Struct(f"{len(inputs) + len(outputs)}q")
        self._pointers_at = (ctypes.c_char * pointers.size).from_address
        self._unpack = pointers.unpack

    def __call__(self, block: int) -> None:
        """Call it on the arrays whose addresses stand at `block`, inputs first."""
        addresses = iter(self._unpack(self._pointers_at(block)))
        # The bytes `raw` are a copy, and nobody can write to them.
        arrays = [
            np.ndarray(shape, dtype, at(address).raw)
            for (shape, dtype, at), address in zip(self._inputs, addresses, strict=False)
        ]
        results = self._function(arrays)
        for (shape, dtype, at), result in zip(self._outputs, results, strict=True):
            np.ndarray(shape, dtype, at(next(addresses)))[...] = result

    def exception(self, address: int, unused: int) -> BaseException:
        """The exception that it raised, of which a kernel has kept the address."""
        found = ctypes.cast(address, ctypes.py_object)
        error = found.value
        ctypes.pythonapi.Py_DecRef(found)  # the kernel's reference
        return error
