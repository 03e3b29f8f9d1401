"""The GPUs of CUDA as a kind of devices (`devices.DeviceKind`): their names, their memory, tensors
from and to other libraries. It is imported when there is a tensor on one, or `device=` asks for it.
"""

from typing import Any

import numba_grad.compiler.cuda.backend  # noqa: F401 - from here on graphs run on GPUs
from numba_grad.frontend.functions.indexing import take
from numba_grad.frontend.functions.ranges import arange
from numba_grad.frontend.functions.shapes import reshape
from numba_grad.frontend.inputs.arrays import as_node, computed_value, wrap
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.runtime.cuda import exports, imports, memory
from numba_grad.runtime.cuda.arrays import DeviceArray
from numba_grad.runtime.cuda.devices import cuda_device, device_count, parse_device
from numba_grad.runtime.cuda.imports import Gaps, ImportedArray


def device_name(device: object) -> str:
    return str(parse_device(device))


def device_names() -> list[str]:
    return [str(cuda_device(k)) for k in range(device_count())]


def free_bytes(device: str) -> int:
    return memory.memory_info(device).free


def node_from_interface(x: Any, copy: bool) -> Node:
    """A leaf of the memory of an object with `__cuda_array_interface__`, or of a copy of it."""
    return _node(imports.from_cuda_array_interface(x, may_copy=copy), copy)


def node_from_dlpack(x: Any, copy: bool) -> Node:
    """A leaf of the memory of an object with `__dlpack__` on a GPU, or of a copy of it."""
    return _node(imports.from_dlpack(x, None if copy else False), copy)


def _node(found: ImportedArray, copy: bool) -> Node:
    if found.gaps is not None:
        return _gathered(found.array, found.gaps)
    node = leaf(found.array.copy() if copy else found.array)
    return node if found.is_in_order else OPS["transpose"](node, axes=found.axes)


def _gathered(array: DeviceArray, gaps: Gaps) -> Node:
    """A copy without gaps, made now: later the other library may have written there."""
    position: Any = gaps.start
    for axis, (extent, step) in enumerate(zip(gaps.shape, gaps.steps, strict=True)):
        along = (1,) * axis + (extent,) + (1,) * (len(gaps.shape) - axis - 1)
        position = position + step * reshape(arange(extent), along)
    result = as_node(take(wrap(leaf(array)), position))
    return leaf(computed_value(result, "tensor"))


def interface(node: Node) -> dict[str, Any]:
    """The value of `node` as the dictionary of `__cuda_array_interface__`: not to be written to."""
    array = computed_value(node, "__cuda_array_interface__")
    return exports.cuda_array_interface(array, read_only=True)


def dlpack_device(device: str) -> tuple[int, int]:
    """What `__dlpack_device__` says of "cuda:1"."""
    return (exports.KIND_CUDA, int(device.partition(":")[2]))


def capsule(
    node: Node,
    stream: object,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """The value of `node` as a capsule of DLPack: its own memory, read-only, or a copy."""
    array: DeviceArray = computed_value(node, "__dlpack__")
    own = array.__dlpack_device__()
    is_elsewhere = dl_device is not None and tuple(dl_device) != own
    can_be_told = max_version is not None and tuple(max_version) >= exports.FIRST_WITH_FLAGS
    if copy or is_elsewhere:
        return array.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )
    if can_be_told:
        return exports.capsule(array, stream, max_version, read_only=True)
    # One who cannot be told that it is read-only gets it by copy=False alone.
    return exports.capsule(array if copy is False else array.copy(), stream, max_version)
