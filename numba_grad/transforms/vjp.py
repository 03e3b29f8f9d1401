"""Reverse mode: a graph and cotangents of its roots give the cotangents of any of its nodes, as a graph.

Rules of ops are written graph to graph, so the result can be differentiated again, batched, and compiled together
with the forward computation.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numba_grad.errors import InternalError
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import toposort

Visit = Callable[[Node, Any], Any]  # (node, its complete cotangent) -> the cotangent to go on with


def add_cotangents(a: Node, b: Node) -> Node:
    """The sum of two contributions to one cotangent."""
    return OPS["add"](a, b)


def cotangents(
    roots: Sequence[Node],
    seeds: Sequence[Node],
    order: Sequence[Node],
    visit: Visit | None = None,
) -> dict[Node, Any]:
    """Cotangents of the nodes of `order`, those that some cotangent reaches.

    Parameters
    ----------
    seeds : a cotangent for each root, of its type; a root given twice gets the sum
    order : the nodes to differentiate through, inputs before users: usually `reached(...)`. Nothing flows to nodes
        outside of it.
    visit : called once for each reached node, after its cotangent is complete and before it flows on: hooks.
    """
    result: dict[Node, Any] = {}
    for root, seed in zip(roots, seeds, strict=True):
        accumulate(result, root, seed)
    inside = set(order)
    for node in reversed(order):
        g = result.get(node)
        if g is None:
            continue
        if visit is not None:
            g = visit(node, g)
            if g is None:
                del result[node]
                continue
            result[node] = g
        for k, x in enumerate(node.inputs):
            if x in inside and x.requires_grad:
                contribution = vjp_of_input(node, k, g)
                if contribution is not None:
                    accumulate(result, x, contribution, output=_output_number(node))
    return result


def vjp_of_input(node: Node, k: int, g: Any) -> Any:
    """What `g`, the cotangent of `node`, contributes to the cotangent of its input number `k`."""
    if node.op.vjp is None:
        return None
    try:
        result = node.op.vjp(k, g, node, *node.inputs, **node.params)
    except Exception as error:
        error.add_note(f"in the derivative of {node.op.name} for its input {k}, {node.inputs[k].type}")
        raise
    if result is not None and node.op.name != "item" and result.type != node.inputs[k].type:
        raise InternalError(
            f"vjp of {node.op.name}: cotangent {result.type} for input {k} of type {node.inputs[k].type}"
        )
    return result


def _output_number(node: Node) -> int | None:
    """For `item`, which result of its input it takes; else None."""
    return node.params["number"] if node.op.name == "item" else None


def accumulate(result: dict[Node, Any], node: Node, g: Any, output: int | None = None) -> None:
    """Add a contribution. The cotangent of an op with several results is a list, None where nothing came."""
    if isinstance(node.type, TupleType) and output is not None:
        items = result.setdefault(node, [None] * len(node.type.items))
        items[output] = g if items[output] is None else add_cotangents(items[output], g)
        return
    previous = result.get(node)
    result[node] = g if previous is None else add_cotangents(previous, g)


def reached(roots: Iterable[Node], targets: Iterable[Node] | None = None) -> list[Node]:
    """The nodes that gradients flow through, inputs before users.

    With `targets`, only those on a way from a root to a target, and nothing below a target unless another target is there.
    """
    order = [
        node
        for node in toposort(roots, stop=lambda n: not n.requires_grad)
        if node.requires_grad
    ]
    if targets is None:
        return order
    leads = set(targets)
    for node in order:
        if node not in leads and any(x in leads for x in node.inputs):
            leads.add(node)
    return [node for node in order if node in leads]
