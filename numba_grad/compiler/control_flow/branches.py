"""Branches, of which one runs."""

import numpy as np

from numba_grad.compiler.control_flow.writer import Writer
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Control


def write_branch(writer: Writer, call: Node) -> None:
    branches: tuple[ClosedGraph, ...] = call.params["branches"]
    bodies = [writer.compiled(branch, writer.numbers) for branch in branches]
    arguments = [writer.input(k) for k in range(1, len(call.inputs))]
    results = [writer.output(k) for k in writer.numbers]
    first = len(writer.steps)
    if len(bodies) == 1:
        writer.body(bodies[0], arguments, results)
        return
    # After each branch a row leads to the end.
    starts = np.cumsum([0, *[len(body.steps) + 1 for body in bodies]]).tolist()
    writer.control(Control.SWITCH, [writer.input(0), len(bodies), *starts[:-1]])
    for body, end in zip(bodies, starts[1:], strict=True):
        writer.body(body, arguments, results)
        writer.control(Control.SKIP, [starts[-1] - end])
    writer.lives_from(first, len(writer.steps))
