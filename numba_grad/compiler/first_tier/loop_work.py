"""How much work the loops of a graph are, where their bodies are run operation by operation."""

import math
from collections.abc import Iterable

from numba_grad.compiler.first_tier.layouts import MOVEMENTS
from numba_grad.compiler.partition.flat_graph import ClosedGraph, targets_of
from numba_grad.compiler.partition.roles import RENAMINGS
from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort

# Of all loops of a graph. A step of few elements takes some 50 ns, and to compile a loop and its
# adjoint 50 to 200 ms: in the few runs before a graph is fused so many steps do not take longer.
MOST_STEPS = 1 << 18
_MOST_ELEMENTS = 1 << 14  # of an operation, as anywhere in a small graph (`programs.py`)
_ELEMENTS_OF_A_STEP = 16  # in an operation: as many take the time of its step once more


def steps_of(calls: Iterable[Node]) -> float:
    """How many steps these calls, branches and loops take, at most; infinitely many if a loop among
    them ends when values say so, sends messages, or computes a large array."""
    known: dict[ClosedGraph, float] = {}
    return sum(_of_call(call, known) for call in dict.fromkeys(calls))


def _of_call(call: Node, known: dict[ClosedGraph, float]) -> float:
    match call.op.name:
        case "call" | "branch":
            passes = 1
        case "loop" | "loop_adjoint":
            passes = call.params["length"]
        case _:
            passes = None
    if passes is None:
        return math.inf
    return passes * sum(_of_pass(target, known) for target in targets_of(call))


def _of_pass(target: ClosedGraph, known: dict[ClosedGraph, float]) -> float:
    found = known.get(target)
    if found is None:
        found = known[target] = sum(_of_node(node, known) for node in toposort(target.outputs))
    return found


def _of_node(node: Node, known: dict[ClosedGraph, float]) -> float:
    if node.op.family == "call":
        return _of_call(node, known)
    if node.op.name in MOVEMENTS or node.op.name in RENAMINGS or node.op.family in _NO_STEPS:
        return 0
    elements = max(x.type.size for x in (node, *node.inputs))
    if elements > _MOST_ELEMENTS:
        return math.inf
    if node.op.family == "contraction":
        elements = node.type.size * max(max(x.shape, default=1) for x in node.inputs)
    return 1 + elements / _ELEMENTS_OF_A_STEP


_NO_STEPS = ("leaf", "control")  # arguments and constants; results of calls
