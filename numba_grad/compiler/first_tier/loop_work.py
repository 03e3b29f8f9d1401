"""How much work the loops of a graph are, where their bodies are run operation by operation."""

import math

from numba_grad.compiler.partition.flat_graph import ClosedGraph, FlatGraph, targets_of
from numba_grad.compiler.partition.roles import REARRANGEMENTS, RENAMINGS
from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort
from numba_grad.ops.contraction import products_summed
from numba_grad.ops.control import item
from numba_grad.runtime.progress import label_in

# Of all loops of a graph. A step of few elements takes some 50 ns, and to compile a loop and its
# adjoint 50 to 200 ms: in the few runs before a graph is fused so many steps do not take longer.
MOST_STEPS = 1 << 18
# Of a loop that ends when values say so. One that goes on after these has run in vain, for 2 ms.
MOST_STEPS_OF_WHILE = 1 << 15
_MOST_ELEMENTS = 1 << 14  # of an operation, as anywhere in a small graph (`programs.py`)
_ELEMENTS_OF_A_STEP = 16  # in an operation: as many take the time of its step once more

_Known = dict[tuple[ClosedGraph, bool], float]


def steps_of(graph: FlatGraph) -> float:
    """How many steps the calls, branches and loops of a graph take, at most.

    Infinitely many if something among them sends messages, computes a large array, or takes as many
    passes as values say within another loop. Where there are users' kernels as well: what these do
    with values of a loop that was broken off, nobody knows.
    """
    if graph.calls and any(node.op.name == _USERS for node in graph.nodes):
        return math.inf
    known: _Known = {}
    return sum(_of_call(call, known, True) for call in dict.fromkeys(graph.calls.values()))


def most_passes(call: Node) -> int | None:
    """Of a loop that ends when values say so: after how many it is broken off."""
    if call.op.name != "while":
        return None
    steps = sum(_of_pass(target, {}, False) for target in targets_of(call))
    return max(1, int(MOST_STEPS_OF_WHILE / max(steps, 1)))


def _of_call(call: Node, known: _Known, is_once: bool) -> float:
    """`is_once`: not in a loop."""
    targets = targets_of(call)
    match call.op.name:
        case "call" | "branch":
            return sum(_of_pass(target, known, is_once) for target in targets)
        case "loop" | "loop_adjoint":
            passes = call.params["length"]
            if passes is None and is_once:
                passes = _passes_back(call)
        case "while":
            # Who watches one is not to see it twice.
            is_watched = label_in(call.params["body"].name) is not None
            passes = most_passes(call) if is_once and not is_watched else None
        case _:
            passes = None
    if passes is None:
        return math.inf
    return passes * sum(_of_pass(target, known, False) for target in targets)


def _passes_back(call: Node) -> int | None:
    """Of an adjoint whose loop ends when values say so, if that is run with it."""
    count = call.inputs[0]
    is_known = count.value is not None or count.op is not item
    return None if is_known else most_passes(count.inputs[0])


def _of_pass(target: ClosedGraph, known: _Known, is_once: bool) -> float:
    found = known.get((target, is_once))
    if found is None:
        nodes = toposort(target.outputs)
        found = known[target, is_once] = sum(_of_node(node, known, is_once) for node in nodes)
    return found


def _of_node(node: Node, known: _Known, is_once: bool) -> float:
    if node.op.family == "call":
        return _of_call(node, known, is_once)
    if node.op.name in (*REARRANGEMENTS, *RENAMINGS) or node.op.family in _NO_STEPS:
        return 0
    elements = max(x.type.size for x in (node, *node.inputs))
    if elements > _MOST_ELEMENTS or node.op.name == _USERS:
        return math.inf
    if node.op.family == "contraction":
        summed = products_summed(node.op.name, [x.type for x in node.inputs])
        elements = node.type.size * summed
    return 1 + elements / _ELEMENTS_OF_A_STEP


_USERS = "custom_kernel"
_NO_STEPS = ("leaf", "control")  # arguments and constants; results of calls
