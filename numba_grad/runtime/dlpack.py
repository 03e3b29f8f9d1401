"""The records of DLPack, and capsules of NumPy's arrays, whose exporter does not know bfloat16."""

import ctypes
from typing import Any

import numpy as np

from numba_grad.dtypes import bfloat16_class, is_bfloat16

PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"  # names of capsules
UNSIGNED_CODE, BFLOAT_CODE = 1, 4  # of the codes of dtypes, those used here


class DLTensor(ctypes.Structure):
    """`DLTensor` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; null if in row-major order
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """`DLManagedTensor`, in capsules named "dltensor"."""

    _fields_ = (
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class ManagedVersioned(ctypes.Structure):
    """`DLManagedTensorVersioned`, in capsules named "dltensor_versioned"."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
name_of = ctypes.pythonapi.PyCapsule_GetName
name_of.restype = ctypes.c_char_p
name_of.argtypes = (ctypes.py_object,)


def managed_in(capsule: Any) -> Managed | ManagedVersioned:
    """What a fresh capsule holds, to be read or changed where it is."""
    name = name_of(capsule)
    form = ManagedVersioned if name == VERSIONED else Managed
    return form.from_address(pointer_of(capsule, name))


def capsule_of(array: np.ndarray, **arguments: Any) -> Any:
    """`array.__dlpack__(**arguments)`, also of bfloat16: exported as integers, then renamed."""
    if not is_bfloat16(array.dtype):
        return array.__dlpack__(**arguments)
    capsule = array.view(np.uint16).__dlpack__(**arguments)
    managed_in(capsule).tensor.code = BFLOAT_CODE
    return capsule


def plain_capsule_of(array: np.ndarray) -> Any:
    """The memory of a read-only array in the form from before DLPack 1.0, which cannot say that it
    is read-only. NumPy refuses to export it so."""
    if not is_bfloat16(array.dtype):
        return np.asarray(_Writable(array)).__dlpack__()
    capsule = np.asarray(_Writable(array.view(np.uint16))).__dlpack__()
    managed_in(capsule).tensor.code = BFLOAT_CODE
    return capsule


class _Writable:
    """Gives out the memory of an array as writable."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {**self.array.__array_interface__, "data": (self.array.ctypes.data, False)}


def array_from(x: Any, copy: bool | None) -> np.ndarray:
    """`numpy.from_dlpack(x, copy=copy)`, also of bfloat16."""
    renamed = _Renamed(x)
    array = np.from_dlpack(renamed, copy=copy)
    return array.view(bfloat16_class()) if renamed.is_bfloat16 else array


class _Renamed:
    """An exporter whose bfloat16 are said to be integers."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.is_bfloat16 = False

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **arguments: Any) -> Any:
        is_numpys = isinstance(self.x, np.ndarray)
        capsule = capsule_of(self.x, **arguments) if is_numpys else self.x.__dlpack__(**arguments)
        tensor = managed_in(capsule).tensor
        if tensor.code == BFLOAT_CODE:
            tensor.code, self.is_bfloat16 = UNSIGNED_CODE, True
        return capsule
