"""A choice between a few cheap operations on numbers, in a body of a loop, is made after both.

A row of the plan that says which branch comes next, and a kernel for each branch, take as long as
some fifty additions, and keep a loop of numbers out of registers. A branch that is dear, is
over arrays, or may be told apart from not being run (a loop, a callback, an index or an exponent to
be checked), runs alone, as ever.
"""

import math
from collections.abc import Collection, Sequence

from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.graph.node import Node
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.elementwise import where
from numba_grad.ops.families import literal
from numba_grad.ops.functions import is_power_of_integers
from numba_grad.ops.logic import less_equal

Branches = tuple[ClosedGraph, ...]

# Of all branches together, in additions.
_MOST_OPERATIONS = 64
# Elements of an array: those of a vector in space.
_MOST_ELEMENTS = 4
_PURE = ("elementwise", "movement", "reduction")


def small_branches(outputs: list[Node]) -> list[Node]:
    """`outputs` with such choices made by `where`: the same values, wherever they are finite or
    not."""
    small = {
        branches
        for branches, numbers in _choices(outputs).items()
        if _operations(branches, numbers) <= _MOST_OPERATIONS
    }
    if not small:
        return outputs
    chosen: dict[Node, list[Node]] = {}

    def change(node: Node) -> Node | None:
        if node.op.name != "item" or node.inputs[0].params.get("branches") not in small:
            return None
        branch = node.inputs[0]
        if branch not in chosen:
            chosen[branch] = small_branches(_all_computed(branch))
        return chosen[branch][node.params["number"]]

    return substitute(outputs, {}, change)


def _choices(outputs: Sequence[Node]) -> dict[Branches, set[int]]:
    """Between what these choose, with the numbers of the results that are wanted."""
    found: dict[Branches, set[int]] = {}
    for node in toposort(outputs):
        if node.op.name == "item" and node.inputs[0].op.name == "branch":
            branches = node.inputs[0].params["branches"]
            found.setdefault(branches, set()).add(node.params["number"])
    return found


def _operations(branches: Branches, numbers: Collection[int]) -> float:
    """What these results of all branches take together, in additions, with the branches inside;
    infinity, if something is not to be computed in vain."""
    operations = 0.0
    for target in branches:
        outputs = [target.outputs[k] for k in numbers]
        operations += sum(_operations(inner, own) for inner, own in _choices(outputs).items())
        for node in toposort(outputs):
            if node.op.name == "branch":
                continue
            if isinstance(node.type, TupleType) or node.type.size > _MOST_ELEMENTS:
                return math.inf
            if node.inputs and node.value is None and node.op.name != "item":
                if node.op.family not in _PURE or is_power_of_integers(node):
                    return math.inf
                operations += node.op.cost * node.type.size
    return operations


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
