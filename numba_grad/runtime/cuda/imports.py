"""Arrays of other libraries on a GPU, without a copy: `__cuda_array_interface__` and DLPack.

What they say is checked against what the driver knows of their memory. Their elements are never
written to. When the last tensor that uses them is gone, their stream waits for what ours still do
with them, and then they are let go.
"""

import ctypes
import math
from typing import Any

import numpy as np

from numba_grad.dtypes import bfloat16_class
from numba_grad.errors import DTypeError, ForeignArrayError, explain
from numba_grad.immutable import immutable
from numba_grad.runtime.cuda.arrays import DeviceArray
from numba_grad.runtime.cuda.devices import active, cuda_device, cuda_index, current_index
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.exports import (
    KIND_CUDA,
    KIND_CUDA_MANAGED,
)
from numba_grad.runtime.cuda.memory import Owner
from numba_grad.runtime.cuda.streams import (
    Stream,
    current_stream,
    default_stream,
    external_stream,
)
from numba_grad.runtime.dlpack import (
    BFLOAT_CODE,
    PLAIN,
    VERSIONED,
    ManagedVersioned,
    managed_in,
    name_of,
    pointer_of,
)

_KINDS = "biufc"
_CODES = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLPack's codes of dtypes, as NumPy's kinds
_MAX_VERSION = (1, 0)
_COPY = "a copy: ng.tensor(x); or x.contiguous(), cupy.ascontiguousarray(x)"
_BYTE = np.dtype(np.uint8)

_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype = ctypes.c_int
_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
# Of static storage, as the protocol wants it.
_USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}


@immutable
class Gaps:
    """Which elements of a flat array make up one of this shape: `start` plus steps, in elements."""

    shape: tuple[int, ...]
    start: int
    steps: tuple[int, ...]


@immutable
class ImportedArray:
    """An array in row-major order, and in which order of its axes it is what was given.

    With `gaps` it is flat, and what was given are some of its elements.
    """

    array: DeviceArray
    axes: tuple[int, ...]  # as of numpy.transpose
    gaps: Gaps | None = None

    @property
    def is_in_order(self) -> bool:
        return self.axes == tuple(range(len(self.axes)))


@immutable
class _Description:
    """What a protocol says of an array."""

    protocol: str
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...] | None  # in bytes; None if in row-major order

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def extent(self) -> tuple[int, int]:
        """Where the memory of the elements begins, from `address` on, and where it ends."""
        if self.strides is None:
            return 0, self.nbytes
        reach = [step * (n - 1) for step, n in zip(self.strides, self.shape, strict=True)]
        before = sum(step for step in reach if step < 0)
        return before, sum(step for step in reach if step > 0) + self.dtype.itemsize

    def refuse(self, problem: str, expected: str = "", fix: str = "") -> ForeignArrayError:
        got = {
            "shape": self.shape,
            "dtype": self.dtype,
            "strides": self.strides,
            "address": hex(self.address),
        }
        return ForeignArrayError(
            explain(self.protocol, problem, got=got, expected=expected, fix=fix)
        )


class Borrowed(Owner):
    """Memory of another library. `theirs` is the stream in whose order it will be let go."""

    __slots__ = ("_kept", "_theirs")

    def __init__(self, stream: Stream, theirs: Stream, kept: object) -> None:
        self._kept = None  # until all is known
        super().__init__(stream)
        self._theirs = theirs
        self._kept = kept

    def __del__(self) -> None:
        if getattr(self, "_kept", None) is not None and self.driver.is_usable:
            for stream in (self.stream, *self.others):
                if stream != self._theirs:
                    self._theirs.wait_stream(stream)


def from_cuda_array_interface(x: Any, may_copy: bool = False) -> ImportedArray:
    """The memory of an object with `__cuda_array_interface__`, for the current stream.

    With `may_copy`, elements may have gaps, be repeated or run backwards (`ImportedArray.gaps`),
    and where they are misaligned, a copy of them is returned.

    Raises
    ------
    ForeignArrayError
        If it is not what it says. Without `may_copy`, also if it is neither in row-major order nor
        a transpose of that.
    DTypeError
        If it has a dtype that is none of a GPU's.
    """
    protocol = "__cuda_array_interface__"
    interface = x.__cuda_array_interface__
    try:
        address, _ = interface["data"]
        shape = tuple(int(extent) for extent in interface["shape"])
        typestr, version = interface["typestr"], interface["version"]
        strides = interface.get("strides")
        strides = None if strides is None else tuple(int(step) for step in strides)
        address, version = int(address or 0), int(version)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ForeignArrayError(
            explain(
                protocol,
                "not the dictionary of the protocol",
                got={"value": interface, "error": f"{type(error).__name__}: {error}"},
                expected="shape, typestr, data and version",
            )
        ) from error
    said = _Description(protocol, address, shape, _dtype_of(protocol, typestr), strides)
    if version < 2:
        raise said.refuse(f"version {version} of the protocol", expected="version 2 or 3")
    if interface.get("mask") is not None:
        raise said.refuse("a masked array", expected="an array without a mask")
    stream = interface.get("stream")
    if stream is not None and (not isinstance(stream, int) or stream <= 0):
        raise said.refuse(
            f"stream {stream!r}", expected="None, 1, 2 or the handle of a stream, by the protocol"
        )
    index = _device_of(said)
    own = current_stream(index)
    if stream is None:
        # Nothing of theirs is pending; what they do next is, where nothing else is said, on the
        # default stream.
        theirs = default_stream(index)
    else:
        theirs = external_stream(stream, index)
        own.wait_stream(theirs)
    return _imported(said, index, Borrowed(own, theirs, x), may_copy)


def from_dlpack(x: Any, copy: bool | None = None) -> ImportedArray:
    """The memory of an object with `__dlpack__`, on a GPU, for the current stream.

    With `copy=False` they may not make a copy, and elements are to be in row-major order or a
    transpose of that, as without `may_copy` above.

    Raises
    ------
    ForeignArrayError
        If it is not what it says, or with False, if it is in another order.
    DTypeError
        If it has a dtype that is none of ours.
    """
    kind, number = x.__dlpack_device__()
    if int(kind) not in (KIND_CUDA, KIND_CUDA_MANAGED):
        raise ForeignArrayError(
            explain(
                "from_dlpack",
                "not memory of a GPU",
                got={"device": (int(kind), int(number))},
                expected=f"device {KIND_CUDA}, CUDA, or {KIND_CUDA_MANAGED}, its managed memory",
            )
        )
    # The numbers of devices are the producer's; they nearly always are the driver's as well.
    index = current_index() if int(kind) == KIND_CUDA_MANAGED else cuda_index(int(number))
    own = current_stream(index)
    arguments: dict[str, Any] = {"stream": own.handle or 1}
    if copy is False:
        arguments["copy"] = False
    try:
        capsule = x.__dlpack__(**arguments, max_version=_MAX_VERSION)
    except TypeError:  # from before version 1.0
        capsule = x.__dlpack__(stream=arguments["stream"])
    kept = _Capsule(capsule)
    tensor = kept.tensor
    dtype = _dtype_of_code(tensor.code, tensor.bits, tensor.lanes)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim])
    address = (tensor.data or 0) + tensor.byte_offset if math.prod(shape) else 0
    said = _Description("from_dlpack", address, shape, dtype, strides)
    actual = _device_of(said, index)
    if actual != index:
        # Synchronized with a stream of another device: it has to be waited for.
        owner = Borrowed(current_stream(actual), default_stream(actual), kept)
        owner.stream.wait_stream(own)
    else:
        owner = Borrowed(own, default_stream(index), kept)
    return _imported(said, actual, owner, copy is not False)


class _Capsule:
    """What a capsule held, for as long as this object lives."""

    def __init__(self, capsule: Any) -> None:
        self._delete = None  # until it is ours
        name = name_of(capsule)
        if name not in _USED:
            raise ForeignArrayError(
                explain("from_dlpack", "not a fresh capsule of DLPack", got={"name": name})
            )
        self._address = pointer_of(capsule, name)
        managed = managed_in(capsule)
        _rename(capsule, _USED[name])
        if managed.deleter:
            self._delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
        if isinstance(managed, ManagedVersioned) and managed.major != _MAX_VERSION[0]:
            # The layout is unknown, but for the deleter.
            raise ForeignArrayError(
                explain(
                    "from_dlpack",
                    "a version of DLPack that is not known",
                    got={"version": f"{managed.major}.{managed.minor}"},
                    expected=f"version {_MAX_VERSION[0]}",
                )
            )
        self.tensor = managed.tensor

    def __del__(self) -> None:
        delete = getattr(self, "_delete", None)
        if delete is not None:
            delete(self._address)


def _dtype_of(protocol: str, typestr: Any) -> np.dtype:
    try:
        dtype = np.dtype(typestr)
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in _KINDS or dtype.itemsize > 16 or not dtype.isnative:
        raise _no_dtype(protocol, repr(typestr))
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise _no_dtype(protocol, repr(typestr))
    return dtype


def _dtype_of_code(code: int, bits: int, lanes: int) -> np.dtype:
    if (code, bits, lanes) == (BFLOAT_CODE, 16, 1):
        return np.dtype(bfloat16_class())
    kind = _CODES.get(code)
    if kind is None or lanes != 1 or bits % 8:
        raise _no_dtype("from_dlpack", f"code {code}, {bits} bits, {lanes} lanes")
    return _dtype_of("from_dlpack", "?" if kind == "b" else f"{kind}{bits // 8}")


def _no_dtype(protocol: str, got: str) -> DTypeError:
    return DTypeError(
        explain(
            protocol,
            "a dtype that tensors do not have",
            got={"dtype": got},
            expected="bools, integers, floating or complex numbers of 16 to 128 bits",
            fix="x.astype(...) or x.to(...) in the library that it is from",
        )
    )


def _device_of(said: _Description, default: int | None = None) -> int:
    """The device that the memory is on, after a look at whether there is any."""
    if any(extent < 0 for extent in said.shape):
        raise said.refuse("negative extents")
    if said.strides is not None and len(said.strides) != len(said.shape):
        raise said.refuse("shape and strides of different length")
    if not said.nbytes:
        return current_index() if default is None else default
    driver = current_driver()
    # Some contexts need one to be asked about memory at all.
    with active(current_index() if default is None else default):
        begin, end = said.extent
        first = driver.pointer_attributes(said.address + begin)
        # Large arrays of other libraries may lie in several mappings, side by side.
        last = driver.pointer_attributes(said.address + end - 1)
    if first is None:
        raise said.refuse(
            "there is no memory of a GPU at this address: it was freed, or is the host's",
            expected="an array that is alive, in memory of a GPU",
        )
    if first.kind == "host":
        raise said.refuse(
            "memory of the host", expected="memory of a GPU", fix="a copy on a GPU: x.cuda()"
        )
    if last is None or last.device != first.device:
        raise said.refuse("the elements run over the end of the memory that they begin in")
    return first.device


def _imported(said: _Description, index: int, owner: Owner, may_copy: bool) -> ImportedArray:
    rank = len(said.shape)
    in_order = tuple(range(rank))
    if not said.nbytes:
        return ImportedArray(
            DeviceArray(0, said.shape, said.dtype, cuda_device(index), owner), in_order
        )
    flat = _flat(said, index, owner, may_copy)
    if said.strides is None:
        return ImportedArray(flat.reshape(said.shape), in_order)
    try:
        order = _axes_in_memory(said, said.strides)
    except ForeignArrayError:
        itemsize = said.dtype.itemsize
        if not may_copy or any(step % itemsize for step in said.strides):
            raise
        steps = tuple(step // itemsize for step in said.strides)
        return ImportedArray(flat, (0,), Gaps(said.shape, -said.extent[0] // itemsize, steps))
    axes = [0] * rank
    for position, axis in enumerate(order):
        axes[axis] = position
    return ImportedArray(flat.reshape(tuple(said.shape[axis] for axis in order)), tuple(axes))


def _flat(said: _Description, index: int, owner: object, may_copy: bool) -> DeviceArray:
    """All the memory that the elements are in."""
    begin, end = said.extent
    itemsize = said.dtype.itemsize
    device = cuda_device(index)
    address, size = said.address + begin, (end - begin) // itemsize
    # 16 bytes of complex128 are loaded at once.
    if said.address % itemsize:
        if not may_copy:
            raise said.refuse(
                f"elements of {itemsize} bytes at an address that is no multiple of it", fix=_COPY
            )
        own = DeviceArray(address, (size * itemsize,), _BYTE, device, owner).copy()
        address, owner = own.address, own.owner
    return DeviceArray(address, (size,), said.dtype, device, owner)


def _axes_in_memory(said: _Description, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Axes from the one with the largest step to the one with the smallest."""
    rank = len(said.shape)
    # Axes of one element have no step that matters; they keep their place among equals.
    steps = [abs(step) for step in strides]
    long = sorted((k for k in range(rank) if said.shape[k] != 1), key=lambda k: (-steps[k], k))
    order = list(range(rank))
    for place, axis in zip([k for k in range(rank) if said.shape[k] != 1], long, strict=True):
        order[place] = axis
    expected = said.dtype.itemsize
    for axis in reversed(order):
        if said.shape[axis] == 1:
            continue
        if strides[axis] != expected:
            word = "negative" if strides[axis] < 0 else "repeated or left-out"
            raise said.refuse(
                f"{word} elements along axis {axis}",
                expected="elements without gaps, in row-major order or a transpose of that",
                fix=_COPY,
            )
        expected *= said.shape[axis]
    return tuple(order)
