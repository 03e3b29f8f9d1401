"""Operations around several results: `item` takes one of them, `custom` is a call of a user's
Function.

An operation with several results has a `TupleType`; its cotangent is a list with None where nothing
arrived. Its derivative is asked for once, for all inputs: `op.extras["pullback"](cotangents, out,
*inputs, **params)` returns one cotangent, or None, per input. Its tangent, from `op.jvp`, is such a
list, too. Reverse and forward mode (`transforms/vjp.py`, `jvp.py`) know this and `item`, and hardly
anything else here.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import InternalError
from numba_grad.graph import node as node_module
from numba_grad.graph.node import (
    NO_PARAMS,
    Node,
    Op,
    argument,
    grad_mode,
    new_node,
    next_serial,
    record,
)
from numba_grad.graph.traced_bodies import rebuilding
from numba_grad.graph.types import TupleType, Type
from numba_grad.graph.walk import substitute


def several_results(node: Node) -> bool:
    """Whether the node is a tuple of arrays rather than an array."""
    return node.type.__class__ is TupleType


def _infer_item(x: TupleType, *, number: int) -> Type:
    return x.items[number]


def _item_vjp(k: int, g: Node, out: Node, x: Node, *, number: int) -> Node | None:
    raise InternalError("reverse mode puts the cotangent of an item into the list of its input")


def _batch_item(is_batched: Sequence[bool], x: Node, *, number: int) -> Node:
    return record(item, (x,), {"number": number})


def _rebuild_item(node: Node, inputs: tuple[Node, ...], replacement: dict[Node, Node]) -> Node:
    return result(inputs[0], node.params["number"])


# One of the results of an operation that has several. No computing: an alias of that result.
item = Op(
    "item",
    "control",
    ("x",),
    _infer_item,
    _item_vjp,
    _batch_item,
    lambda values, *, number: values[number],
    saves=(),
    extras={"rebuild": _rebuild_item},
)

# The results, while they live, of operations with several results that one segment of a plan
# computes: those of a call, a loop, a branch.
_results: weakref.WeakKeyDictionary[Node, list[weakref.ref[Node] | None]] = (
    weakref.WeakKeyDictionary()
)


def with_results(op: Op, inputs: Sequence[Node], params: dict[str, Any] = NO_PARAMS) -> Node:
    """A node of several results that are asked for by `result`, at any time.

    They stand right behind it in the order of recording, so that they are one step of a plan:
    places for all of them are kept free.
    """
    node = record(op, tuple(inputs), params)
    _results[node] = [None] * len(node.type.items)
    for _ in node.type.items:
        next_serial()
    return node


def result(node: Node, number: int) -> Node:
    """One of the results of a node."""
    known = _results.get(node)
    if known is None:
        return record(item, (node,), {"number": number})
    reference = known[number]
    found = None if reference is None else reference()
    if found is None:
        found = record(item, (node,), {"number": number})
        found.serial = node.serial + 1 + number
        known[number] = weakref.ref(found)
    return found


def pending_results(node: Node) -> list[Node]:
    """Those results of a node that somebody has asked for, and that have no value yet."""
    found = [reference() for reference in _results.get(node, ()) if reference is not None]
    return [x for x in found if x is not None and x.value is None]


def rebuild_with_results(
    node: Node, inputs: tuple[Node, ...], replacement: dict[Node, Node]
) -> Node:
    """For `extras["rebuild"]` of what `with_results` makes."""
    return with_results(node.op, inputs, node.params)


def pullback_of(op: Op) -> Any:
    """The derivative, for all inputs at once, of an operation with several results."""
    pullback = op.extras.get("pullback")
    if pullback is None:
        raise InternalError(f"{op.name} has several results and no pullback")
    return pullback


def by_pullback(k: int, g: Any, out: Node, *inputs: Node, **params: Any) -> Node | None:
    """`Op.vjp` of an operation with several results."""
    return pullback_of(out.op)(g, out, *inputs, **params)[k]


# Custom: the result of a user's Function.
#
# Inputs: first the tensors that the user passed to the Function, which gradients flow to; then the
# results of the operations that its `forward` recorded, which are the values. So for computing a
# custom node is a tuple of aliases of its last inputs, and for gradients a function of its first
# ones. `context` (a record of autograd/function.py) has `tensor_count`, the number of the first,
# `pullback`, which runs the user's `backward`, and, if `has_tangent`, `push_forward`, which runs
# the user's `jvp`.


def _infer_custom(*types: Type, context: Any) -> TupleType:
    return TupleType(types[context.tensor_count :])


def _custom_pullback(
    cotangents: list[Node | None], out: Node, *inputs: Node, context: Any
) -> list[Node | None]:
    of_tensors = context.pullback(cotangents, out)
    return [*of_tensors, *[None] * (len(inputs) - context.tensor_count)]


def _custom_jvp(tangents: Sequence[Node | None], out: Node, *inputs: Node, context: Any) -> Any:
    if not context.has_tangent:
        return NotImplemented
    return context.push_forward(tangents[: context.tensor_count], out)


def _batch_custom(is_batched: Sequence[bool], *inputs: Node, context: Any) -> Node:
    # For values alone: where gradients are recorded, transforms/batch.py batches `backward` too.
    return aliases(inputs[context.tensor_count :])


class _RebuiltContext:
    """Takes the place of a Function's context where its call is rebuilt from other inputs.

    The user's `backward` has saved values of the original; what it records is rebuilt as well.
    """

    def __init__(self, node: Node, replacement: dict[Node, Node]) -> None:
        self.tensor_count = node.params["context"].tensor_count
        self._node = node  # the original
        self._replacement = replacement  # what the graph was rebuilt from

    def pullback(self, cotangents: list[Node | None], out: Node) -> list[Node | None]:
        """The cotangents of the tensors."""
        return self._rebuilt(self._node.params["context"].pullback, cotangents, out)

    def push_forward(self, tangents: Sequence[Node | None], out: Node) -> list[Node | None]:
        """The tangents of the results."""
        return self._rebuilt(self._node.params["context"].push_forward, tangents, out)

    def _rebuilt(self, rule: Any, derivatives: Sequence[Node | None], out: Node) -> list[Any]:
        """What a rule of the original records, from other inputs."""
        node = self._node
        given = dict(self._replacement)
        given.update(zip(node.inputs, out.inputs, strict=True))
        given[node] = out
        seeds: list[Node | None] = []
        for g in derivatives:
            seed = None if g is None else argument(g.type, g.requires_grad)
            seeds.append(seed)
            if seed is not None and g is not None:
                given[seed] = g
        with rebuilding():
            found = rule(seeds, node)
            rebuilt = iter(substitute([g for g in found if g is not None], given))
        return [None if g is None else next(rebuilt) for g in found]

    def release(self) -> None:
        """Nothing is freed: the original serves other calls."""

    def __getattr__(self, name: str) -> Any:
        """What else is asked of a context, as its name: that of the original."""
        return getattr(self._node.params["context"], name)


def _rebuild_custom(node: Node, inputs: tuple[Node, ...], replacement: dict[Node, Node]) -> Node:
    count = node.params["context"].tensor_count
    tensors, results = inputs[:count], inputs[count:]
    if not grad_mode.enabled or not any(x.requires_grad for x in tensors):
        return aliases(results)
    return custom_node(_RebuiltContext(node, replacement), tensors, results)


def _custom_reference(*arrays: np.ndarray, context: Any) -> tuple[np.ndarray, ...]:
    return arrays[context.tensor_count :]


custom = Op(
    "custom",
    "control",
    ("x",),
    _infer_custom,
    by_pullback,
    _batch_custom,
    _custom_reference,  # type: ignore[arg-type]
    saves=(),
    extras={"pullback": _custom_pullback, "rebuild": _rebuild_custom},
    jvp=_custom_jvp,
)


def custom_node(context: Any, tensors: Sequence[Node], results: Sequence[Node]) -> Node:
    """The node of one call of a Function; requires grad.

    Made directly, not by `record`: what `record` remembers about types would keep the context
    alive.
    """
    inputs = (*tensors, *results)
    type = TupleType(tuple(x.type for x in results))
    node = new_node(custom, inputs, {"context": context}, type, None, True)
    if node_module.observer is not None:
        node_module.observer(node)
    return node


# Tuple: several nodes as one.


def _tuple_pullback(cotangents: list[Node | None], out: Node, *inputs: Node) -> list[Node | None]:
    return cotangents


pack = Op(
    "pack",
    "control",
    ("x",),
    lambda *types: TupleType(types),
    by_pullback,
    lambda is_batched, *inputs: aliases(inputs),
    lambda *arrays: arrays,  # type: ignore[arg-type]
    saves=(),
    extras={"pullback": _tuple_pullback},
    jvp=lambda tangents, out, *inputs: tangents,
)


def aliases(nodes: Sequence[Node]) -> Node:
    """A tuple node whose items are `nodes`."""
    return record(pack, tuple(nodes))
