"""A choice between a few cheap operations on numbers, in a body of a loop, is made after both.

A row of the plan that says which branch comes next, and a kernel for each branch, take as long as
some fifty additions, and keep a loop of numbers out of registers. A branch that is dear, is
over arrays, or may be told apart from not being run (a loop, a callback, an index to be checked),
runs alone, as ever.
"""

import math

from numba_grad.graph.node import Node
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.elementwise import where
from numba_grad.ops.families import literal
from numba_grad.ops.logic import less_equal

# Of all branches together, in additions.
_MOST_OPERATIONS = 64
# Elements of an array: those of a vector in space.
_MOST_ELEMENTS = 4
_PURE = ("elementwise", "movement")


def small_branches(outputs: list[Node]) -> list[Node]:
    """`outputs` with such choices made by `where`: the same values, wherever they are finite or
    not."""
    small = {node for node in toposort(outputs) if _is_small(node)}
    if not small:
        return outputs
    chosen: dict[Node, list[Node]] = {}

    def change(node: Node) -> Node | None:
        if node.op.name != "item" or not _is_small(node.inputs[0]):
            return None
        branch = node.inputs[0]
        if branch not in chosen:
            chosen[branch] = _all_computed(branch)
        return chosen[branch][node.params["number"]]

    return substitute(outputs, {}, change)


def _is_small(node: Node) -> bool:
    if node.op.name != "branch":
        return False
    operations = 0.0
    for branch in node.params["branches"]:
        for inner in toposort(branch.outputs):
            if isinstance(inner.type, TupleType) or math.prod(inner.shape) > _MOST_ELEMENTS:
                return False
            if inner.inputs and inner.value is None:
                if inner.op.family not in _PURE:
                    return False
                operations += inner.op.cost * inner.type.size
    return operations <= _MOST_OPERATIONS


def _all_computed(node: Node) -> list[Node]:
    """Each result of a choice, from those of all branches; of the first or the last one where there
    is none of that number."""
    index, *operands = node.inputs
    *others, results = [
        substitute(branch.outputs, dict(zip(branch.arguments, operands, strict=True)))
        for branch in node.params["branches"]
    ]
    for k, own in reversed(list(enumerate(others))):
        is_own = less_equal(index, literal(k, index.dtype))
        results = [where(is_own, a, b) for a, b in zip(own, results, strict=True)]
    return results
