"""`device=` of public functions, and what the front end asks of a kind of devices."""

from collections.abc import Callable
from typing import Any, Protocol

from numba_grad.errors import DeviceError, explain
from numba_grad.graph.node import Node
from numba_grad.graph.types import CPU
from numba_grad.ops.families import placed


class DeviceKind(Protocol):
    """Devices beside the CPU, such as the GPUs that CUDA knows.

    How they compute is said by `compiler/backends.py`.
    """

    def device_name(self, device: object) -> str:
        """ "cuda:0" and the like, of a device that exists, for what `device=` may be."""
        ...

    def device_names(self) -> list[str]:
        """All that can be used."""
        ...

    def free_bytes(self, device: str) -> int:
        """Memory that is there for the asking."""
        ...

    def node_from_interface(self, x: Any, copy: bool) -> Node:
        """A leaf of the memory of an object with `__cuda_array_interface__`, or of a copy of it."""
        ...

    def node_from_dlpack(self, x: Any, copy: bool) -> Node:
        """A leaf of the memory of an object with `__dlpack__` there, or of a copy of it."""
        ...

    def interface(self, node: Node) -> dict[str, Any]:
        """The value of `node` as `__cuda_array_interface__`, not to be written to."""
        ...

    def dlpack_device(self, device: str) -> tuple[int, int]:
        """DLPack's kind and number of a device."""
        ...

    def capsule(
        self,
        node: Node,
        stream: object,
        max_version: tuple[int, int] | None,
        dl_device: tuple[int, int] | None,
        copy: bool | None,
    ) -> Any:
        """The value of `node` as a capsule of DLPack: its own memory, read-only, or a copy."""
        ...


_kinds: dict[str, Callable[[], DeviceKind]] = {}


def register_kind(name: str, load: Callable[[], DeviceKind]) -> None:
    """Have devices called "name:0" and so on. `load` is called when one is asked for."""
    _kinds[name] = load


def device_kind(name: str) -> DeviceKind:
    """The kind of a device, such as "cuda" or "cuda:1"."""
    return _kinds[name.partition(":")[0]]()


def all_devices() -> list[str]:
    """All that can be used, the CPU first."""
    return [CPU, *(name for load in _kinds.values() for name in load().device_names())]


def device_name(device: object) -> str:
    """ "cpu" for that or None; else "cuda:0" and the like, a device that exists.

    Raises
    ------
    DeviceError
        If it is none.
    CudaUnavailableError
        If it is a GPU, and there is none that can be used.
    """
    if device is None or device == CPU:
        return CPU
    name = str(device)  # other libraries' devices print as ours do
    if name == CPU:
        return CPU
    if name.partition(":")[0] not in _kinds:
        known = [f"{kind!r} or '{kind}:0'" for kind in _kinds]
        raise DeviceError(
            explain(
                "device",
                "no such device",
                got={"device": repr(device)},
                expected=f"{CPU!r}, {', '.join(known)}",
            )
        )
    return device_kind(name).device_name(device)


def on_device(node: Node, device: object) -> Node:
    """`node` on a device; where it is, if that is None."""
    return node if device is None else placed(node, device_name(device))
