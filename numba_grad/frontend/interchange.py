"""Arrays from and to other libraries, through DLPack, and files of NumPy's formats."""

import os
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.arrays import ArrayLike, node_of, value_of
from numba_grad.frontend.creation import tensor
from numba_grad.frontend.devices import device_name
from numba_grad.graph.node import Node
from numba_grad.graph.types import as_dtype

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor

File = str | os.PathLike[str] | IO[bytes]

CPU = (1, 0)  # DLPack's kDLCPU, and the number of the device
# The first version in which what is exported can be marked as read-only.
_FIRST_WITH_FLAGS = (1, 0)


def from_dlpack(x: Any, /, *, device: object = None, copy: bool | None = None) -> "Tensor":
    """The array of another library as a tensor, through DLPack: a leaf without history.

    Parameters
    ----------
    x : an object with `__dlpack__` and `__dlpack_device__`, in memory that the CPU reaches
    device : "cpu", or None for it
    copy : True copies; False raises if a copy is needed; None copies only if it is needed, that is,
        if the elements are not in row-major order. Without a copy the tensor shares memory with
        `x`. Writing to `x` afterwards changes the tensor, and makes the values and gradients of
        whatever was recorded from it, and not yet computed, wrong without any error.

    Raises
    ------
    BufferError
        If `x` cannot be exported, or with `copy=False`, if a copy is needed.
    DTypeError
        If it has a dtype that is not supported.

    Examples
    --------
    >>> ng.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.])
    """
    device_name(device)
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(  # the standard's choice
            explain(
                "from_dlpack",
                "not an array that exports itself",
                got={"x": type(x).__name__},
                expected="an object with __dlpack__ and __dlpack_device__",
                fix="ng.asarray(x)",
            )
        )
    try:
        array = np.from_dlpack(x, copy=copy)
    except RuntimeError as error:
        # NumPy's word for bfloat16 and the like, and for memory of another device.
        raise BufferError(
            explain(
                "from_dlpack",
                str(error),
                got={"x": f"{getattr(x, 'dtype', type(x).__name__)} on {x.__dlpack_device__()}"},
                expected="an array of a dtype of NumPy, in memory of the CPU",
            )
        ) from error
    if array.flags.c_contiguous:
        return tensor(array, copy=False)
    if copy is False:
        raise BufferError(
            explain(
                "from_dlpack",
                "a copy is needed to put the elements in row-major order",
                got={"shape": array.shape, "strides": array.strides, "copy": False},
                fix="copy=None",
            )
        )
    return tensor(array)


def to_dlpack(
    node: Node,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """The capsule that a tensor's `__dlpack__` gives out: its memory, read-only, or a copy."""
    if node.requires_grad:
        raise BufferError(
            explain(
                "__dlpack__",
                "cannot export a Tensor that requires grad: what follows would have no gradient",
                got={"x": node.type},
                expected="a tensor that requires no grad",
                fix="x.detach()",
            )
        )
    if dl_device is not None and tuple(dl_device) != CPU:
        raise BufferError(
            explain("__dlpack__", "no such device", got={"dl_device": dl_device}, expected=str(CPU))
        )
    value = value_of(node, "__dlpack__").view()
    value.flags.writeable = False
    if max_version is not None and tuple(max_version) >= _FIRST_WITH_FLAGS:
        return value.__dlpack__(max_version=max_version, copy=copy)
    # To one who cannot be told that it is read-only it would be writable: a copy for those.
    if copy is False:
        raise BufferError(
            explain(
                "__dlpack__",
                "the memory of a tensor is read-only, and DLPack says so since version 1.0",
                got={"max_version": max_version, "copy": False},
                fix="copy=None",
            )
        )
    return value.copy().__dlpack__()


# Files


def save(file: File, x: ArrayLike, /) -> None:
    """Write the values of `x` to a file of NumPy's format `.npy`, which `load` reads.

    A tensor that requires grad is written, too, without its history, as `detach` would give it.
    """
    np.save(file, _values(x))


def savez(file: File, /, *arrays: ArrayLike, **named: ArrayLike) -> None:
    """Write several arrays to one `.npz` file, by their names, or as arr_0, arr_1 and so on."""
    np.savez(file, *[_values(x) for x in arrays], **_values_by_name(named))


def savez_compressed(file: File, /, *arrays: ArrayLike, **named: ArrayLike) -> None:
    """As `savez`, into a smaller file, more slowly."""
    np.savez_compressed(file, *[_values(x) for x in arrays], **_values_by_name(named))


def load(file: File, /) -> "Tensor | dict[str, Tensor]":
    """The tensor in a `.npy` file, or those of an `.npz` file by name.

    Raises
    ------
    ValueError
        For a file of Python objects, which may run any code: numpy.load(file, allow_pickle=True).
    """
    found = np.load(file)
    if isinstance(found, np.ndarray):
        return tensor(found, copy=not found.flags.c_contiguous)
    with found as archive:
        return {name: tensor(array) for name, array in archive.items()}


def fromfile(
    file: File, dtype: object = float, count: int = -1, sep: str = "", offset: int = 0
) -> "Tensor":
    """`count` numbers, or all, from a file without a header; of text, if there is a separator."""
    return tensor(np.fromfile(file, as_dtype(dtype), count, sep, offset=offset), copy=False)


def fromstring(string: str, dtype: object = float, count: int = -1, *, sep: str) -> "Tensor":
    """`count` numbers, or all, from text in which `sep` separates them."""
    return tensor(np.fromstring(string, as_dtype(dtype), count, sep=sep), copy=False)


def loadtxt(file: Any, dtype: object = float, **arguments: Any) -> "Tensor":
    """The table in a text file. More arguments are those of numpy.loadtxt."""
    return tensor(np.loadtxt(file, as_dtype(dtype), **arguments))


def _values(x: ArrayLike) -> np.ndarray:
    node = node_of(x)
    return np.asarray(x) if node is None else value_of(node, "save")


def _values_by_name(named: dict[str, ArrayLike]) -> dict[str, Any]:
    # Any: one of the names could be allow_pickle, which NumPy's stub has a type for.
    return cast("dict[str, Any]", {name: _values(x) for name, x in named.items()})
