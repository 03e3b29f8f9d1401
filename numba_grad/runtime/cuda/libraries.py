"""Steps that a library on the host does: it gives work of its own to the stream.

In a plan such a step has a text in place of kernel source, `host: <library> <what> ...`, and the
words that its call takes. Libraries are optional, and looked for when a plan first wants one.
"""

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba_grad.errors import DeviceError, KernelError, explain
from numba_grad.fresh_thread import imported
from numba_grad.locks import new_lock
from numba_grad.runtime.cuda import cupy_calls
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.streams import Stream

HOST = "host: "

Call = Callable[[Stream, Sequence[int]], None]


@dataclass(frozen=True, slots=True, eq=False)
class HostCall:
    """A step that the host does."""

    source: str
    library: str  # its name, for people
    call: Call
    # Whether it only launches kernels, with memory that the plan gives it, so that a graph may
    # repeat them.
    is_capturable: bool

    def __call__(self, stream: Stream, words: Sequence[int]) -> None:
        self.call(stream, words)


def is_host_call(source: str) -> bool:
    return source.splitlines()[-1].startswith(HOST)


@functools.cache
def host_call(source: str) -> HostCall:
    """The call that a text stands for; comments may come before it."""
    library, *rest = source.splitlines()[-1].removeprefix(HOST).split()
    name, make, is_capturable = _LIBRARIES[library]
    return HostCall(source, name, make(*rest), is_capturable)


# cuBLAS, by its C interface with 64-bit sizes, which it has since CUDA 12.

# Its numbers of dtypes (cudaDataType), and bytes of an element.
_DTYPES = {
    **{"float16": (2, 2), "bfloat16": (14, 2), "float32": (0, 4), "float64": (1, 8)},
    **{"complex64": (4, 8), "complex128": (5, 16)},
}
# What sums are computed in: single precision, tensor cores of 19 bits, double precision.
_IN_FLOAT32, _IN_TF32, _IN_FLOAT64 = 68, 77, 70
_DEFAULT_ALGORITHM = -1
# Products of half precision are summed in single precision also where sums are cut into parts.
_MATH_MODE = 16


class Cublas:
    """The library, and a handle for each device; one call at a time."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.lock = new_lock()

    def check(self, status: int, call: str) -> None:
        if status:
            raise DeviceError(explain(call, "cuBLAS refused it", got={"status": status}))

    def handle(self, stream: Stream, workspace: int, nbytes: int) -> ctypes.c_void_p:
        """The handle of the stream's device, which from now on works in that stream."""
        kept, key = current_driver().kept, ("cublas", self, stream.device.index)
        handle = kept.get(key)
        if handle is None:
            handle = ctypes.c_void_p()
            self.check(self.library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
            self.check(self.library.cublasSetMathMode(handle, _MATH_MODE), "cublasSetMathMode")
            kept[key] = handle
        address = ctypes.c_void_p(stream.handle)
        self.check(self.library.cublasSetStream_v2(handle, address), "cublasSetStream")
        # A new stream takes the workspace away.
        self.check(
            self.library.cublasSetWorkspace_v2(
                handle, ctypes.c_void_p(workspace), ctypes.c_size_t(nbytes)
            ),
            "cublasSetWorkspace",
        )
        return handle


@functools.cache
def cublas() -> Cublas | None:
    """The library, if it is installed: with the CUDA toolkit, or by pip install nvidia-cublas."""
    try:
        pathfinder = imported("cuda.pathfinder")
        path = pathfinder.load_nvidia_dynamic_lib("cublas").abs_path
        library = ctypes.CDLL(path)
    except (ImportError, OSError, RuntimeError):  # pathfinder's own errors are RuntimeErrors
        return None
    return Cublas(library) if hasattr(library, "cublasGemmStridedBatchedEx_64") else None


def _gemm(storage: str, precision: str) -> Call:
    """out[..., m, n] = x[..., m, k] @ y[..., k, n].

    Words: x, y, out, the workspace and its bytes, m, n, k, whether x and y are stored transposed,
    then for each axis of the stack its size, and the strides of x and y in elements.
    """
    number = ctypes.c_double if storage in ("float64", "complex128") else ctypes.c_float
    one = (number * 2)(1.0, 0.0)
    zero = (number * 2)(0.0, 0.0)
    in_double = storage in ("float64", "complex128")
    compute = _IN_FLOAT64 if in_double else _IN_TF32 if precision == "tf32" else _IN_FLOAT32
    kind, itemsize = _DTYPES[storage]
    size_of = ctypes.c_int64

    def multiply(stream: Stream, words: Sequence[int]) -> None:
        x, y, out, workspace, nbytes, m, n, k, x_transposed, y_transposed, *stack = words
        axes = [tuple(stack[place : place + 3]) for place in range(0, len(stack), 3)]
        batch, x_stride, y_stride = axes.pop() if axes else (1, 0, 0)
        found = cublas()
        if found is None:
            raise KernelError(explain("matmul", "cuBLAS is gone since the plan was made"))
        with found.lock:
            handle = found.handle(stream, workspace, nbytes)
            outer = itertools.product(*[range(size) for size, _, _ in axes])
            for position, along in enumerate(outer):
                x_start = sum(i * axis[1] for i, axis in zip(along, axes, strict=True))
                y_start = sum(i * axis[2] for i, axis in zip(along, axes, strict=True))
                # cuBLAS counts columns first: it is asked for y^T @ x^T, the transposed result.
                status = found.library.cublasGemmStridedBatchedEx_64(
                    handle,
                    *(y_transposed, x_transposed),
                    *(size_of(n), size_of(m), size_of(k), one),
                    *(ctypes.c_void_p(y + y_start * itemsize), kind),
                    *(size_of(k if y_transposed else n), ctypes.c_longlong(y_stride)),
                    *(ctypes.c_void_p(x + x_start * itemsize), kind),
                    *(size_of(m if x_transposed else k), ctypes.c_longlong(x_stride), zero),
                    *(ctypes.c_void_p(out + position * batch * m * n * itemsize), kind),
                    *(size_of(n), ctypes.c_longlong(m * n), size_of(batch)),
                    *(compute, _DEFAULT_ALGORITHM),
                )
                found.check(status, "cublasGemmStridedBatchedEx")

    return multiply


_CUBLAS: dict[str, Callable[..., Call]] = {"gemm": _gemm}


# library -> its name; what makes a call, of the rest of the text; whether calls may be captured
_LIBRARIES: dict[str, tuple[str, Callable[..., Call], bool]] = {
    "cublas": ("cuBLAS", lambda name, *options: _CUBLAS[name](*options), True),
    "cupy": ("CuPy", cupy_calls.call, False),
}
