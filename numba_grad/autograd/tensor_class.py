"""The class Tensor, for what is below the frontend: from nodes to the tensors users hold.

The frontend registers it here.
"""

from typing import Any, TypeGuard

from numba_grad.graph.node import Node, held_tensor


class _Registered:
    tensor: type[Any] | None = None


def register(tensor_class: type) -> None:
    """Called once, with the class Tensor; `tensor_class(node)` also sets `node.handle`."""
    _Registered.tensor = tensor_class


def is_tensor(value: object) -> TypeGuard[Any]:
    return isinstance(value, _Registered.tensor)  # type: ignore[arg-type]


def is_tensor_class(value: type) -> bool:
    return value is _Registered.tensor


def new_tensor(node: Node) -> Any:
    """A new handle of `node`, which must have none."""
    return _Registered.tensor(node)  # type: ignore[misc]


def tensor_of(node: Node) -> Any:
    """The live handle of `node`, else a new one."""
    tensor = held_tensor(node)
    return new_tensor(node) if tensor is None else tensor
