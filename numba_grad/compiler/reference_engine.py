"""The slow engine: every node by its NumPy reference. For debugging, and what the tests compare
with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import computed_in, is_bfloat16
from numba_grad.errors import InternalError
from numba_grad.graph.node import ARGUMENT, Node
from numba_grad.graph.traced_bodies import check_compiled
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import toposort
from numba_grad.ops.control import custom


def evaluate_with_numpy(
    targets: Sequence[Node], given: dict[Node, np.ndarray] | None = None
) -> list:
    """The values of `targets`, where `given` holds those of argument nodes."""
    values: dict[Node, object] = dict(given or {})
    order = toposort(targets, stop=lambda n: n.value is not None or n in values)
    read = set(targets)
    for node in reversed(order):
        if node in read and node.value is None:
            read.update(_read_by(node))
    for node in order:
        if node in values:
            continue
        if node not in read:
            values[node] = None
            continue
        if node.value is not None:
            values[node] = node.value
            continue
        values[node] = _apply(node, [values[x] for x in node.inputs])
    return [values[node] for node in targets]


def _read_by(node: Node) -> Sequence[Node]:
    """The inputs that the value of `node` is made of: others are history, which may be freed."""
    return node.inputs[node.params["context"].tensor_count :] if node.op is custom else node.inputs


def _apply(node: Node, arrays: list) -> object:
    if node.op.family == "call":
        return node.op.extras["evaluate"](evaluate_with_numpy, *arrays, **node.params)
    if node.op is ARGUMENT or node.op.reference is None:
        check_compiled(node)
        raise InternalError(f"reference engine: {node} has neither a value nor a NumPy reference")
    with np.errstate(all="ignore"):
        value = node.op.reference(*map(_known_to_numpy, arrays), **node.params)
    if isinstance(node.type, TupleType):
        return value
    # asarray with order "C", not ascontiguousarray: the latter makes 0-d arrays 1-d.
    value = np.asarray(value, dtype=node.dtype, order="C")
    if value.shape != node.shape:
        raise InternalError(
            f"reference of {node.op.name}: shape {value.shape}, recorded {node.type}"
        )
    return value


def _known_to_numpy(operand: Any) -> Any:
    """The operand; in place of bfloat16, of which NumPy has casts alone, the same numbers."""
    if isinstance(operand, np.ndarray) and is_bfloat16(operand.dtype):
        return operand.astype(computed_in(operand.dtype))
    return operand
