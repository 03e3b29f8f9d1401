"""The price of a graph, operation by operation: recorded, and planned for the first and next time.

The graph is that of 5,000 Runge-Kutta steps without their derivative. "recording": the Python loop
itself, per operation. "planning": from the graph to a plan whose kernels are all there already, per
recorded operation; "known": the same once more, with every segment known.
"""

import time
from typing import Any, NamedTuple

from perf.goals import AtMost
from perf.implementations import Prepared
from perf.workloads.lotka_volterra import in_a_loop, inputs


class Size(NamedTuple):
    steps: int


TITLE = "Recording and planning a long loop, per operation"
SIZES = {"large": Size(steps=5000)}
REPEATS = 1
GOALS = [
    AtMost(2e-6, implementation="numba_grad, recording"),
    AtMost(10e-6, implementation="numba_grad, planning"),
    AtMost(1e-6, implementation="numba_grad, planning what is known"),
]


def traced(size: Size) -> tuple[list[Any], float]:
    """The outputs of the graph, and the seconds that recording took."""
    import numba_grad as ng
    from numba_grad.frontend.inputs.arrays import as_node
    from numba_grad.graph.collection import without_collection
    from numba_grad.graph.node import argument

    types = [as_node(x).type for x in inputs(size.steps)]
    variables = [ng.Tensor(argument(type, requires_grad=True)) for type in types]

    def work() -> tuple[list[Any], float]:
        start = time.perf_counter()
        out = in_a_loop(size.steps)(*variables)
        return [as_node(out)], time.perf_counter() - start

    return without_collection(work)


def nodes(outputs: list[Any]) -> list[Any]:
    from numba_grad.graph.walk import toposort

    return toposort(outputs)


def recording(size: Size) -> Prepared:
    traced(Size(steps=10))

    def seconds() -> float:
        outputs, duration = traced(size)
        return duration / len(nodes(outputs))

    return Prepared(seconds, is_own_clock=True)


def planning(size: Size, is_known: bool) -> Prepared:
    from numba_grad.compiler.programs import compile_program

    def leaves_of(outputs: list[Any]) -> list[Any]:
        return [node for node in nodes(outputs) if node.op.family == "leaf"]

    # Kernels first, from a shorter loop, which has the same.
    outputs, _ = traced(Size(steps=500))
    compile_program(leaves_of(outputs), outputs)
    outputs, _ = traced(size)
    leaves, count = leaves_of(outputs), len(nodes(outputs))

    def seconds() -> float:
        start = time.perf_counter()
        compile_program(leaves, outputs)
        return (time.perf_counter() - start) / count

    if is_known:
        seconds()
    return Prepared(seconds, None, lambda: {"operations": count}, is_own_clock=True)


IMPLEMENTATIONS = {
    "numba_grad, recording": recording,
    "numba_grad, planning": lambda size: planning(size, is_known=False),
    "numba_grad, planning what is known": lambda size: planning(size, is_known=True),
}
