"""Exact clean-up of a graph: same value, same dtype, same NaNs and signed zeros.

One walk, inputs first: equal nodes become one, then rules look at the rebuilt node. One walk is
enough: no rule undoes what another did.
"""

from collections.abc import Sequence

import numpy as np

from numba_grad.compiler.partition.roles import RENAMINGS
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import toposort
from numba_grad.ops.families import broadcast_to, full, reshape


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


def slice_without_axes(node: Node) -> Node | None:
    """A slice that leaves axes out is a slice, reshaped: what comes after knows these two."""
    if node.op.name != "slice" or "dropped" not in node.params:
        return None
    region = {name: node.params[name] for name in ("starts", "sizes", "steps")}
    part = _apply_rules(record(OPS["slice"], node.inputs, region))
    return _apply_rules(reshape(part, node.shape))


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


def sum_assigned_to_a_slice(node: Node) -> Node | None:
    """`x[region] = x[region] + v` adds `v` there, and so does `x[region] += v`."""
    if node.op.name != "update_slice" or node.dtype.kind == "b":
        return None
    x, new = node.inputs
    if new.op.name not in ("add", "subtract"):
        return None
    left, right = new.inputs
    if is_region(left, x, node) and left.shape == new.shape:
        v = right
    elif new.op.name == "add" and is_region(right, x, node) and right.shape == new.shape:
        v = left
    else:
        return None
    if v.dtype != node.dtype:
        return None
    if new.op.name == "subtract":
        v = record(OPS["negative"], (v,))  # adding it is the same, to the bit
    return record(OPS["add_slice"], (x, broadcast_to(v, new.shape)), node.params)


def moved_away_and_back(node: Node) -> Node | None:
    """A region of a cotangent that is taken out, leaving zeros, and added again: the adjoint of
    `x[region] += v`. What is not there any more is absent rather than 0."""
    if node.op.name != "add_slice" or node.inputs[0].op.name != "update_slice":
        return None
    rest, part = node.inputs
    x, zeros = rest.inputs
    is_same = rest.params == node.params and zeros.shape == part.shape
    return x if is_same and is_literal(zeros, 0) and is_region(part, x, node) else None


def is_region(part: Node, x: Node, assignment: Node) -> bool:
    """Whether `part` is the slice of `x` at the place of an assignment."""
    return (
        part.op.name == "slice"
        and part.inputs[0] is x
        and part.params["starts"] == assignment.params["starts"]
        and part.params["steps"] == assignment.params["steps"]
    )


def added_to_two_halves(node: Node) -> Node | None:
    """What is added to all elements before a place on an axis, and to all from there on, is added
    as one array: the adjoint of a roll is a roll, and a sum of such reads each array once."""
    if node.op.name != "add_slice" or any(step != 1 for step in node.params["steps"]):
        return None
    before, v = node.inputs
    if before.op.name == "pad":
        (u,) = before.inputs
        starts, is_dense = before.params["low"], not any(before.params["interior"])
    elif before.op.name == "add_slice":
        u = before.inputs[1]
        starts, is_dense = before.params["starts"], all(s == 1 for s in before.params["steps"])
    else:
        return None
    axes = [axis for axis, n in enumerate(node.shape) if v.shape[axis] != n]
    if not is_dense or len(axes) != 1:
        return None
    (axis,) = axes
    rest = (*node.shape[:axis], node.shape[axis] - v.shape[axis], *node.shape[axis + 1 :])
    ends = sorted([(node.params["starts"][axis], v), (starts[axis], u)], key=lambda end: end[0])
    (first, low), (second, high) = ends
    if u.shape != rest or first != 0 or second != low.shape[axis]:
        return None
    whole = record(OPS["concatenate"], (low, high), {"axis": axis})
    # Around a pad there is nothing, rather than 0, to add to: see `_add_slice` in index_rules.py.
    return whole if before.op.name == "pad" else record(OPS["add"], (before.inputs[0], whole))


def put_at_every_other_place(node: Node) -> Node | None:
    """What is added to, or assigned to, all even places along an axis, and to all odd ones, is one
    array of pairs: the adjoint of `x[::2]` and `x[1::2]`, which loops would find by divisions."""
    if node.op.name not in ("add_slice", "update_slice"):
        return None
    before, v = node.inputs
    if before.op.name == "pad" and node.op.name == "add_slice":
        (u,) = before.inputs
        starts, steps = before.params["low"], [n + 1 for n in before.params["interior"]]
    elif before.op.name == node.op.name:
        u = before.inputs[1]
        starts, steps = before.params["starts"], before.params["steps"]
    else:
        return None
    axes = [axis for axis, n in enumerate(node.shape) if v.shape[axis] != n]
    if len(axes) != 1 or u.shape != v.shape:
        return None
    (axis,) = axes
    places = {starts[axis]: u, node.params["starts"][axis]: v}
    are_pairs = 2 * v.shape[axis] == node.shape[axis] and places.keys() == {0, 1}
    if not are_pairs or v.shape[axis] == 1 or steps[axis] != 2 or node.params["steps"][axis] != 2:
        return None
    inside = (*v.shape[: axis + 1], 1, *v.shape[axis + 1 :])
    pairs = tuple([_apply_rules(reshape(places[k], inside)) for k in (0, 1)])
    whole = reshape(record(OPS["concatenate"], pairs, {"axis": axis + 1}), node.shape)
    is_new = before.op.name == "pad" or node.op.name == "update_slice"
    return whole if is_new else record(OPS["add"], (before.inputs[0], whole))


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
    slice_without_axes,
    whole_slice,
    reduction_of_nothing,
    nothing_put_in,
    sum_assigned_to_a_slice,
    moved_away_and_back,
    added_to_two_halves,
    put_at_every_other_place,
    movement_of_movement,
)


def _apply_rules(node: Node) -> Node:
    for rule in RULES:
        new = rule(node)
        if new is not None:
            return new
    return node
