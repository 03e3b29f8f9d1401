"""PocketFFT's entry points by address, as the symbols of plans: "pocketfft.fft.complex128".

NumPy's Fourier transforms are inner loops of generalized ufuncs: C functions
`void(char **args, const intp *dimensions, const intp *steps, void *data)` that transform a stack of
lines, read no Python object and need no GIL. They are taken from the ufunc objects, whose layout is
part of NumPy's C interface, and which is compared here with what Python sees of the same object.
Symbols that end in ".data" are the `data` that belongs to a loop.
"""

import ctypes
import functools
from typing import Any

import numpy as np

from numba_grad.errors import InternalError
from numba_grad.fresh_thread import imported


class _UfuncFields(ctypes.Structure):
    """The first fields of NumPy's PyUFuncObject, behind the object's head."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_ubyte)),
    )


def loop_address(name: str) -> int:
    """The address that a name such as "fft.complex128" or "fft.complex128.data" stands for.

    Raises
    ------
    InternalError
        If NumPy has no such loop, or ufunc objects are not laid out as they are known here.
    """
    function, _, rest = name.partition(".")
    dtype, _, part = rest.partition(".")
    fields, dtypes = _fields_of(function)
    if dtype not in dtypes:
        raise InternalError(f"{name}: NumPy {np.__version__} has no such transform")
    number = dtypes.index(dtype)
    return (fields.data if part else fields.functions)[number] or 0


@functools.cache
def _fields_of(function: str) -> tuple[Any, list[str]]:
    """A ufunc's fields, and the dtype of the lines that each of its loops takes."""
    ufunc = getattr(imported("numpy.fft._pocketfft_umath"), function)
    fields = _UfuncFields.from_address(id(ufunc) + object.__basicsize__)
    numbers = [np.dtype(c).num for types in ufunc.types for c in types.replace("->", "")]
    is_known = (
        (fields.nin, fields.nout, fields.nargs) == (ufunc.nin, ufunc.nout, ufunc.nargs)
        and fields.ntypes == ufunc.ntypes
        and fields.name == function.encode()
        and fields.types[: len(numbers)] == numbers
        and ufunc.signature in ("(n),()->(m)", "(m),()->(n)")
    )
    if not is_known:
        raise InternalError(f"{function}: unknown layout of ufuncs in NumPy {np.__version__}")
    return fields, [np.dtype(types[0]).name for types in ufunc.types]
