"""A segment that is one loop, one branch or one communication -> its steps."""

from collections.abc import Callable, Sequence

import numpy as np

from numba_grad.compiler.control_flow.adjoints import write_adjoint
from numba_grad.compiler.control_flow.loops import write_loop, write_while
from numba_grad.compiler.control_flow.writer import ENDLESS, CompileBody, Writer
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.segment_program import SegmentProgram
from numba_grad.compiler.target import Target
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Control


def _write_branch(writer: Writer, call: Node) -> None:
    """Branches, of which one runs."""
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


_WRITERS: dict[str, Callable[[Writer, Node], None]] = {
    "loop": write_loop,
    "branch": _write_branch,
    "while": write_while,
    "loop_adjoint": write_adjoint,
}


def control_program(
    call: Node,
    numbers: Sequence[int],
    places: Sequence[Place],
    has_own_memory: Sequence[bool],
    compile_body: CompileBody,
    target: Target,
    most_passes: int | None = None,
) -> SegmentProgram:
    """The program of a segment that is one loop, one branch or one communication.

    Parameters
    ----------
    numbers : which results are needed
    places : of the inputs, in memory
    has_own_memory : for each of these results, whether it must be an array of its own
    target : what it is compiled for
    most_passes : of a loop that ends when values say so: after as many it is broken off, and
        `UnfinishedError` is raised
    """
    lists = list(numbers), list(places), list(has_own_memory)
    writer = Writer(call, *lists, compile_body, target, most_passes or ENDLESS)
    write = _WRITERS.get(call.op.name)
    if write is None:  # most programs have no communication
        module = imported("numba_grad.compiler.control_flow.communications")
        write = module.write_communication
    write(writer, call)
    return SegmentProgram(writer.steps, writer.result_places, writer.temporaries, {}, [])
