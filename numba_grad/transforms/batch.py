"""Batching: a graph of one example becomes a graph of many, every operation by its own batching rule.

One batched program, not a loop. What does not depend on the batched nodes is shared, not copied.
"""

from collections.abc import Mapping, Sequence

from numba_grad.errors import InternalError, explain
from numba_grad.graph.node import Node, grad_mode
from numba_grad.graph.types import TupleType, Type, array_type
from numba_grad.graph.walk import toposort
from numba_grad.ops.families import broadcast_to, reshape


def batch(outputs: Sequence[Node], batched: Mapping[Node, Node], size: int) -> list[Node]:
    """`outputs` rebuilt with a batch axis of `size` first.

    Parameters
    ----------
    batched : nodes, and what takes their place: the same type with the batch axis first. A node requires grad
        where its replacement does. Any other node whose value is known is a constant, so the replaced nodes should
        have no value: arguments of a trace, or seeds of a backward pass.

    Notes
    -----
    Results that depend on no batched node are repeated along the batch axis. Gradient recording is as it was where
    each node was recorded: what was made without history has none afterwards.
    """
    done = dict(batched)
    recording = grad_mode.enabled
    try:
        for node in toposort(outputs, stop=lambda n: n in batched or n.value is not None):
            if node in done or node.value is not None:
                continue
            is_batched = tuple([x in done for x in node.inputs])
            if any(is_batched):
                grad_mode.enabled = recording and node.requires_grad
                done[node] = _batched_node(node, is_batched, done, size)
        grad_mode.enabled = recording
        return [done[node] if node in done else repeat(node, size) for node in outputs]
    finally:
        grad_mode.enabled = recording


def repeat(node: Node, size: int) -> Node:
    """The same value for every member of a batch."""
    return broadcast_to(reshape(node, (1, *node.shape)), (size, *node.shape))


def batched_type(type: Type | TupleType, size: int) -> Type | TupleType:
    """`type` with a batch axis first."""
    if isinstance(type, TupleType):
        return TupleType(tuple(array_type((size, *t.shape), t.dtype) for t in type.items))
    return array_type((size, *type.shape), type.dtype)


def _batched_node(
    node: Node, is_batched: tuple[bool, ...], done: dict[Node, Node], size: int
) -> Node:
    if node.op.batch is None:
        raise NotImplementedError(
            explain(
                "batch",
                f"{node.op.name} has no batching rule",
                got={"operation": node},
                fix="a loop over the batch, for this part of the computation",
            )
        )
    inputs = [done.get(x, x) for x in node.inputs]
    try:
        result = node.op.batch(is_batched, *inputs, **node.params)
    except Exception as error:
        error.add_note(f"in the batching rule of {node.op.name}, recorded as {node.type}")
        raise
    if result.type != batched_type(node.type, size):
        raise InternalError(
            f"batch of {node.op.name}: {result.type} for a batch of {size} {node.type}"
        )
    return result
