"""Arrays from and to other libraries, through DLPack, and files of NumPy's formats."""

import os
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import numpy as np

from numba_grad.dtypes import is_bfloat16
from numba_grad.errors import DTypeError, GradientError, explain
from numba_grad.frontend.functions.creation import tensor
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, node_of, value_of, wrap
from numba_grad.frontend.inputs.devices import device_kind, device_name
from numba_grad.graph.node import Node
from numba_grad.graph.types import CPU, as_dtype
from numba_grad.ops.families import placed
from numba_grad.runtime import dlpack

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "from_dlpack",
    "fromfile",
    "fromstring",
    "load",
    "loadtxt",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
]

File = str | os.PathLike[str] | IO[bytes]

CPU_DEVICE = (1, 0)  # DLPack's kDLCPU, and the number of the device
_ON_GPUS = (2, 13)  # DLPack's kinds of devices: CUDA, and its managed memory
# The first version in which what is exported can be marked as read-only.
_FIRST_WITH_FLAGS = (1, 0)


def from_dlpack(x: Any, /, *, device: object = None, copy: bool | None = None) -> "Tensor":
    """The array of another library as a tensor, through DLPack: a leaf without history.

    Parameters
    ----------
    x : an object with `__dlpack__` and `__dlpack_device__`, in memory that the CPU reaches, or on
        a GPU. The current stream waits for what the other library still does with it there.
    device : where the tensor is to be, by default where `x` is
    copy : True and None copy: what is recorded now may be computed after somebody has written to
        `x`. With False the tensor shares memory with `x`, which nobody may write to as long as
        something that was recorded from the tensor is not computed, nor needed for a gradient.

    Raises
    ------
    BufferError
        If `x` cannot be exported, or with `copy=False`, if a copy is needed: to another device, or
        if the elements are not in row-major order (on a GPU, nor in a transpose of it). On a GPU it
        is a ForeignArrayError.
    DTypeError
        If it has a dtype that is not supported.

    Examples
    --------
    >>> ng.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.])
    """
    wanted = None if device is None else device_name(device)
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
    if int(x.__dlpack_device__()[0]) in _ON_GPUS:
        copy = copy is not False
        return wrap(_moved(device_kind("cuda").node_from_dlpack(x, copy), wanted, copy))
    try:
        array = dlpack.array_from(x, False if copy is False else None)
    except (RuntimeError, BufferError) as error:  # the latter from NumPy 2.5 on
        # NumPy's word for dtypes that it has not, and for memory of another device.
        raise BufferError(
            explain(
                "from_dlpack",
                str(error),
                got={"x": f"{getattr(x, 'dtype', type(x).__name__)} on {x.__dlpack_device__()}"},
                expected="an array of a dtype of NumPy, or bfloat16, in memory of the CPU",
            )
        ) from error
    if copy is not False:
        return tensor(array, device=device)
    if not array.flags.c_contiguous:
        raise BufferError(
            explain(
                "from_dlpack",
                "a copy is needed to put the elements in row-major order",
                got={"shape": array.shape, "strides": array.strides, "copy": False},
                fix="copy=None",
            )
        )
    return wrap(_moved(as_node(tensor(array, copy=False)), wanted, copy))


def _moved(node: Node, device: str | None, copy: bool | None) -> Node:
    if device is None or device == node.type.device:
        return node
    if copy is False:
        raise BufferError(
            explain(
                "from_dlpack",
                f"a copy is needed to move it to {device}",
                got={"x": node.type, "device": device, "copy": False},
                fix="copy=None",
            )
        )
    return placed(node, device)


def to_dlpack(
    node: Node,
    stream: object,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """The capsule that a tensor's `__dlpack__` gives out: its memory, read-only, or a copy."""
    if node.requires_grad:
        raise BufferError(_would_lose_gradient("__dlpack__", node))
    if node.type.device != CPU:
        return device_kind(node.type.device).capsule(node, stream, max_version, dl_device, copy)
    if dl_device is not None and tuple(dl_device) != CPU_DEVICE:
        raise BufferError(
            explain(
                "__dlpack__",
                "no such device",
                got={"dl_device": dl_device},
                expected=str(CPU_DEVICE),
            )
        )
    value = value_of(node, "__dlpack__").view()
    value.flags.writeable = False
    if max_version is not None and tuple(max_version) >= _FIRST_WITH_FLAGS:
        return dlpack.capsule_of(value, max_version=max_version, copy=copy)
    # One who cannot be told that it is read-only gets it by copy=False alone.
    if copy is False:
        return dlpack.plain_capsule_of(value)
    return dlpack.capsule_of(value.copy())


def dlpack_device(node: Node) -> tuple[int, int]:
    """DLPack's kind of the device that a tensor is on, and its number."""
    device = node.type.device
    return CPU_DEVICE if device == CPU else device_kind(device).dlpack_device(device)


def cuda_array_interface(node: Node) -> dict[str, Any]:
    """What a tensor's `__cuda_array_interface__` is, if it is on a GPU."""
    if node.type.device == CPU:
        # So that hasattr says no: whoever asks goes on to other protocols.
        raise AttributeError(
            explain(
                "__cuda_array_interface__",
                "a tensor in host memory has none",
                got={"x": node.type},
                fix="x.cuda(), or __array_interface__ of x.numpy()",
            )
        )
    if is_bfloat16(node.dtype):
        raise AttributeError(
            explain(
                "__cuda_array_interface__",
                "the protocol has no bfloat16",
                got={"x": node.type},
                fix="DLPack, which has it: torch.from_dlpack(x)",
            )
        )
    if node.requires_grad:
        raise GradientError(_would_lose_gradient("__cuda_array_interface__", node))
    return device_kind(node.type.device).interface(node)


def _would_lose_gradient(protocol: str, node: Node) -> str:
    return explain(
        protocol,
        "cannot export a Tensor that requires grad: what follows would have no gradient",
        got={"x": node.type},
        expected="a tensor that requires no grad",
        fix="x.detach()",
    )


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


def savetxt(
    file: File | TextIO,
    x: ArrayLike,
    fmt: str | Sequence[str] = "%.18e",
    delimiter: str = " ",
    newline: str = "\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None:
    """Write the values of `x` as text, a line for each row, as NumPy does."""
    layout = fmt, delimiter, newline, header, footer, comments, encoding
    np.savetxt(file, _values(x), *layout)


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
    values = np.asarray(x) if node is None else value_of(node, "save")
    if is_bfloat16(values.dtype):
        problem = "files of NumPy's formats have no bfloat16: it would be read as raw bytes"
        fix = "x.astype(np.float32), which holds the same numbers"
        raise DTypeError(explain("save", problem, got={"dtype": values.dtype}, fix=fix))
    return values


def _values_by_name(named: dict[str, ArrayLike]) -> dict[str, Any]:
    # Any: one of the names could be allow_pickle, which NumPy's stub has a type for.
    return cast("dict[str, Any]", {name: _values(x) for name, x in named.items()})
