"""Exact clean-up of a graph: same value, same dtype, same NaNs and signed zeros.

One walk, inputs first: equal nodes become one, then rules look at the rebuilt node. One walk is
enough: no rule undoes what another did.
"""

from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.flat_graph import RENAMINGS
from numba_grad.graph.node import Node, record
from numba_grad.graph.walk import toposort
from numba_grad.ops.families import full


def simplify(outputs: Sequence[Node]) -> list[Node]:
    """`outputs`, simplified."""
    done: dict[Node, Node] = {}
    known: dict[tuple, Node] = {}
    for node in toposort(outputs):
        if not node.inputs and node.op.family == "leaf":
            done[node] = node
            continue
        inputs = tuple([done[x] for x in node.inputs])
        key = (node.op, tuple(node.params.items()), inputs)
        found = known.get(key)
        if found is None:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new = node if same else record(node.op, inputs, node.params)
            found = known[key] = _apply_rules(new)
        done[node] = found
    return [done[output] for output in outputs]


def alias_of(node: Node) -> Node | None:
    """The input whose value `node` has, for operations that matter to gradients only."""
    return node.inputs[0] if node.op.name in RENAMINGS else None


def cast_to_itself(node: Node) -> Node | None:
    if node.op.name == "cast" and node.inputs[0].dtype == node.dtype:
        return node.inputs[0]
    return None


def negative_of_negative(node: Node) -> Node | None:
    """-(-x) -> x. Written by users rarely, by derivative rules constantly."""
    if node.op.name == "negative" and node.inputs[0].op.name == "negative":
        return node.inputs[0].inputs[0]
    return None


def times_one(node: Node) -> Node | None:
    """x * 1 -> x and x / 1 -> x, which keep NaNs and signed zeros."""
    if node.op.name not in ("multiply", "divide"):
        return None
    x, y = node.inputs
    if is_literal(y, 1) and x.type == node.type:
        return x
    if node.op.name == "multiply" and is_literal(x, 1) and y.type == node.type:
        return y
    return None


def whole_slice(node: Node) -> Node | None:
    """x[:] -> x."""
    if node.op.name == "slice" and node.type is node.inputs[0].type:
        return node.inputs[0]
    return None


def movement_of_movement(node: Node) -> Node | None:
    """Two reshapes, transposes or broadcasts are one, and one that changes nothing is none."""
    name = node.op.name
    if name not in ("reshape", "transpose", "broadcast_to"):
        return None
    (x,) = node.inputs
    if name == "transpose":
        axes = node.params["axes"]
        if x.op.name == "transpose":
            axes = tuple(x.params["axes"][axis] for axis in axes)
            x = x.inputs[0]
        if axes == tuple(range(len(axes))):
            return x
        return record(node.op, (x,), {"axes": axes})
    if x.op.name == name:
        x = x.inputs[0]
    if x.shape == node.shape:
        return x
    return record(node.op, (x,), {"shape": node.shape})


def assigned_again(node: Node) -> Node | None:
    """What is assigned to a region that is assigned to once more is never seen."""
    if node.op.name != "update_slice" or node.inputs[0].op.name != "update_slice":
        return None
    before, v = node.inputs
    if before.params != node.params or before.inputs[1].shape != v.shape:
        return None
    return record(node.op, (before.inputs[0], v), node.params)


def reshape_of_one_element(node: Node) -> Node | None:
    """reshape(broadcast(scalar)) -> broadcast(scalar): no loops to untangle."""
    if node.op.name != "reshape" or node.inputs[0].op.name != "broadcast_to":
        return None
    base = node.inputs[0].inputs[0]
    if base.type.size != 1:
        return None
    from_scalar = base if base.shape == () else record(node.op, (base,), {"shape": ()})
    return record(node.inputs[0].op, (from_scalar,), {"shape": node.shape})


def reduction_of_nothing(node: Node) -> Node | None:
    """The sum over no elements is 0, and so on: kernels have memory to read from."""
    if node.op.family != "reduction" or node.inputs[0].type.size or not node.type.size:
        return None
    return full(node.op.extras["identity"](node.dtype), node.shape, node.dtype)


def nothing_put_in(node: Node) -> Node | None:
    """An array without elements, put into another: kernels never read it, but where they test for
    each element whether it comes from there, they would need its first one."""
    name = node.op.name
    if name not in ("pad", "concatenate", "update_slice", "add_slice") or not node.type.size:
        return None
    if all(x.type.size for x in node.inputs):
        return None
    if name == "pad":
        return full(0, node.shape, node.dtype)
    if name != "concatenate":
        return node.inputs[0]
    parts = tuple([x for x in node.inputs if x.type.size])
    return parts[0] if len(parts) == 1 else record(node.op, parts, node.params)


def is_literal(node: Node, value: float) -> bool:
    """Whether `node` is that constant, maybe broadcast."""
    while node.op.name in ("broadcast_to", "reshape"):
        node = node.inputs[0]
    if node.op.name != "literal":
        return False
    return bool(np.frombuffer(node.params["bytes"], node.dtype)[0] == value)


# Not here: x * 0 -> 0 (wrong for inf and nan), x + 0 -> x (wrong for x = -0.0).
RULES = (
    alias_of,
    cast_to_itself,
    negative_of_negative,
    times_one,
    assigned_again,
    reshape_of_one_element,
    whole_slice,
    reduction_of_nothing,
    nothing_put_in,
    movement_of_movement,
)


def _apply_rules(node: Node) -> Node:
    for rule in RULES:
        new = rule(node)
        if new is not None:
            return new
    return node
