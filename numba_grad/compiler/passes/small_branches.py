"""A choice between a few cheap operations on numbers, in a body of a loop, is made after both.

    cond(x > 0, lambda x: 2 * x, lambda x: -x, x)    ->    where(x > 0, 2 * x, -x)

A row of the plan that says which branch comes next, and a kernel for each branch, take as long as
some fifty additions, and keep a loop of numbers out of registers. A branch that is dear, is
over arrays, or may be told apart from not being run (a loop, a callback, an index or an exponent to
be checked), runs alone, as ever.
"""

from numba_grad.graph.node import Node
from numba_grad.graph.walk import substitute
from numba_grad.ops.cheap_branches import are_cheap, choices
from numba_grad.ops.elementwise import where
from numba_grad.ops.families import literal
from numba_grad.ops.logic import less_equal


def small_branches(outputs: list[Node]) -> list[Node]:
    """`outputs` with such choices made by `where`: the same values, wherever they are finite or
    not."""
    small = {
        branches for branches, numbers in choices(outputs).items() if are_cheap(branches, numbers)
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
