"""Loops of few steps in the body of another loop, written out as loops in Python are.

So what a step of the outer loop computes is fused across the steps of the inner one, and its
derivative reads what the model of costs keeps, rather than do the inner loop again.
"""

from collections.abc import Sequence

from numba_grad.graph.node import OPS, Node, recording
from numba_grad.graph.walk import lets_gradients_through, substitute, toposort
from numba_grad.ops.families import reshape
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph
from numba_grad.transforms.control_flow.loop_params import LoopParams
from numba_grad.transforms.loop_sizes import FEWEST_STEPS

# Operations of all steps together: more take too long to compile.
_MOST_NODES = 200
# Bytes of what is carried, beyond which memory is what loops wait for. So budgets and bars do not
# matter here: bits are the same with any budget, and no such loop takes the 0.1 s of a bar.
_MOST_CARRIED = 1 << 17
# What may be fused with what is around it, and of which two equal ones are one.
WRITTEN_OUT = ("elementwise", "movement", "reduction", "literal", "iota", "leaf")


@once_for_each_graph
def with_short_loops_written_out(body: CallTarget) -> CallTarget:
    """The body of a loop, in which short loops are the operations of their steps."""
    results: dict[Node, list[Node]] = {}

    def change(node: Node) -> Node | None:
        if node.op.name != "item" or node.inputs[0].op.name != "loop":
            return None
        loop = node.inputs[0]
        if not lets_gradients_through(loop):
            return None
        if loop not in results:
            results[loop] = _results(LoopParams(**loop.params), loop.inputs)
        return results[loop][node.params["number"]] if results[loop] else None

    with recording(True):
        outputs = substitute(body.outputs, {}, change)
    return CallTarget(body.name, body.arguments, outputs) if any(results.values()) else body


def _results(loop: LoopParams, inputs: Sequence[Node]) -> list[Node]:
    """What a loop carries out and stacks, computed step by step; nothing if it stays a loop."""
    if not _is_short(loop):
        return []
    assert loop.length is not None
    state, sequences, constants = loop.shape.arguments(inputs)
    order = range(loop.length)
    rows: list[list[Node]] = [[] for _ in loop.body.outputs[loop.carried :]]
    for k in reversed(order) if loop.reverse else order:
        given = [*state, *[row_of(x, k) for x in sequences], *constants]
        found = substitute(loop.body.outputs, dict(zip(loop.body.arguments, given, strict=True)))
        state = found[: loop.carried]
        for stack, x in zip(rows, found[loop.carried :], strict=True):
            stack.append(reshape(x, (1, *x.shape)))
    stacks = [
        OPS["concatenate"](*(reversed(stack) if loop.reverse else stack), axis=0) for stack in rows
    ]
    return [*state, *stacks]


def _is_short(loop: LoopParams) -> bool:
    if not loop.length or loop.length >= FEWEST_STEPS:
        return False
    if sum(x.type.nbytes for x in loop.body.arguments[: loop.carried]) > _MOST_CARRIED:
        return False
    nodes = toposort(loop.body.outputs)
    is_small = len(nodes) * loop.length <= _MOST_NODES
    return is_small and all(x.op.family in WRITTEN_OUT for x in nodes)


def row_of(x: Node, k: int) -> Node:
    """What a step gets of a sequence."""
    sizes = (1, *x.shape[1:])
    starts = (k, *[0] * len(x.shape[1:]))
    part = OPS["slice"](x, starts=starts, sizes=sizes, steps=(1,) * len(sizes))
    return reshape(part, x.shape[1:])
