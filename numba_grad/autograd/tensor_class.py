"""The class Tensor, for what is below the frontend: from nodes to the tensors users hold.

The frontend registers it here.
"""

import weakref
from collections.abc import Callable
from typing import Any, TypeGuard

from numba_grad.graph import node as node_module
from numba_grad.graph.node import (
    Inferred,
    Node,
    Op,
    grad_mode,
    held_tensor,
    next_serial,
    recorded,
    threads_without_history,
)
from numba_grad.graph.types import CPU

# Of all nodes that are recorded one in so many looks how long its past is. A prime, so that in a
# loop it is not always the same operation, maybe one that nobody holds.
FLUSH_EVERY = 65_521

_new, _reference = object.__new__, weakref.ref


def _no_flush(node: Node) -> None:
    """Before there is a frontend."""


# Globals, as each operation reads them.
registered: type[Any] = object
_flush: Callable[[Node], None] = _no_flush


def register(tensor_class: type, flush: Callable[[Node], None]) -> None:
    """Called once, with the class Tensor, and with what looks how long the past of a node is."""
    global registered, _flush
    registered, _flush = tensor_class, flush


def is_tensor(value: object) -> TypeGuard[Any]:
    return isinstance(value, registered)


def is_tensor_class(value: type) -> bool:
    return value is registered


def bind(tensor: Any, node: Node) -> None:
    """Make `tensor`, which is new, the handle of `node`, which has none."""
    tensor._node = node
    tensor._view = None
    node.handle = _reference(tensor)
    if not node.serial % FLUSH_EVERY:
        _flush(node)


def new_tensor(node: Node) -> Any:
    """A new handle of `node`, which must have none."""
    # As `bind` does for the class, whose call takes 0.15 us longer.
    tensor = _new(registered)
    tensor._node = node
    tensor._view = None
    node.handle = _reference(tensor)
    if not node.serial % FLUSH_EVERY:
        _flush(node)
    return tensor


def recorded_tensor(
    op: Op,
    inputs: tuple[Node, ...],
    has_history: bool,
    params: dict[str, Any],
    inferred: Inferred,
) -> Any:
    """As `new_tensor(recorded(op, inputs, params, inferred))`, in three quarters of the time: for
    what a loop does in each step. `has_history`: whether one of the inputs requires grad."""
    type, may_require_grad, number = inferred
    if type.device is not CPU or node_module.observer is not None:
        return new_tensor(recorded(op, inputs, params, inferred))
    tensor, node = _new(registered), Node()
    node.op = op
    node.inputs = inputs
    node.params = params
    node.type = type
    node.value = None
    node.requires_grad = (
        has_history and may_require_grad and (not threads_without_history or grad_mode.enabled)
    )
    node.released = False
    node.serial = serial = next_serial()
    node.autograd = None
    node.handle = _reference(tensor)
    node.kind = number
    tensor._node = node
    tensor._view = None
    if not serial % FLUSH_EVERY:
        _flush(node)
    return tensor


def tensor_of(node: Node) -> Any:
    """The live handle of `node`, else a new one."""
    tensor = held_tensor(node)
    return new_tensor(node) if tensor is None else tensor
