"""What the derivative of a body or of a called function reads from memory, and what it computes
again: by cost.

A value is kept where computing it again, from arguments and from what else is kept, takes longer
than storing it and loading it. So matrix products and solutions of linear systems are kept, and
sums and products are not; of functions like `exp` it takes several, one after the other. What came
from other processes always is.
"""

import math
from collections.abc import Collection, Sequence

from numba_grad.graph.node import Node
from numba_grad.graph.order import is_communicated
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import toposort

# In additions, as `Op.cost`: storing an element of eight bytes and loading it in another kernel.
# `compiler/cpu_target.py` has the same figure for what goes between kernels of one program.
_STORED = 40.0
# What is computed to memory in any case, as no loop of ours, so that it costs more than to load it.
_COSTLY_FAMILIES = ("contraction", "library", "scan", "sort")
# Whose derivative looks where their input equals them: if that is computed again, they are, too, as
# another kernel may round it otherwise.
_COMPARED = ("max", "min")


def values_worth_keeping(
    outputs: Sequence[Node],
    of_derivative: Sequence[Node],
    available: Collection[Node],
    room: int,
) -> list[Node]:
    """Values of a graph that its derivative had better read, in the order of recording.

    Parameters
    ----------
    outputs : of the graph
    of_derivative : the outputs of its derivative, made of the same nodes
    available : what the derivative has without computing
    room : bytes for what is kept
    """
    own = set(toposort(outputs))
    kept: dict[Node, None] = {}
    there = set(available)  # or computed again for something else
    for node in _read(own, of_derivative, there):
        if node in there or isinstance(node.type, TupleType) or not node.requires_grad:
            continue
        if is_communicated(node):
            # In any case: there may be less room on another rank, and both have to communicate.
            kept[node] = None
            there.add(node)
            continue
        if node.op.name in _COMPARED and node.inputs[0] not in there:
            continue
        cone = _cone(node, there)
        nbytes = node.type.nbytes
        if sum(map(_cost, cone)) <= _STORED * nbytes / 8 or nbytes > room:
            # Elementwise, it is computed again with what reads it.
            if all(x.op.family == "elementwise" for x in cone if _cost(x)):
                there.update(cone)
            continue
        room -= nbytes
        kept[node] = None
        there.add(node)
    return _narrowed(kept, own, toposort(of_derivative, stop=lambda x: x in available))


def _narrowed(kept: Collection[Node], own: Collection[Node], order: Sequence[Node]) -> list[Node]:
    """The same, where what is only read to compute one other value, which is no larger, is replaced
    by that: the sum of two products by the sum."""
    readers: dict[Node, set[Node]] = {}
    for node in order:
        for x in node.inputs:
            readers.setdefault(x, set()).add(node)
    found = dict.fromkeys(kept)
    # Inputs first, so that a chain is followed to its end.
    for node in order:
        if node not in own or node in found or node.op.family != "elementwise":
            continue
        replaced = [x for x in found if readers.get(x) == {node}]
        if replaced and node.type.nbytes <= sum(x.type.nbytes for x in replaced):
            for x in replaced:
                del found[x]
            found[node] = None
    return [x for x in order if x in found]


def _read(
    own: Collection[Node], of_derivative: Sequence[Node], there: Collection[Node]
) -> list[Node]:
    """The nodes of the graph that its derivative needs and that take time, inputs first: what it
    reads, and costly ones that this is made of."""
    order = toposort(of_derivative, stop=lambda node: node in there)
    read = {x for node in order if node not in own for x in node.inputs if x in own}
    return [x for x in order if x in own and (x in read or _is_costly(x) or is_communicated(x))]


def _is_costly(node: Node) -> bool:
    return node.op.family in _COSTLY_FAMILIES


def _cone(node: Node, there: Collection[Node]) -> list[Node]:
    """What is computed to have a node."""
    return [x for x in toposort([node], stop=lambda x: x in there) if x not in there]


def _cost(node: Node) -> float:
    """Of computing a node, in additions."""
    if isinstance(node.type, TupleType) or _is_costly(node):
        return math.inf
    match node.op.family:
        case "elementwise":
            return node.op.cost * node.type.size
        case "reduction":
            return node.inputs[0].type.size
        case "movement" | "literal" | "iota" | "control" | "leaf":
            return 0.0
    return node.type.size
