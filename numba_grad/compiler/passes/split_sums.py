"""sum over (i, j) -> sum over i of the sum over j, where the graph sums another value over these
loops over j.

Then both share one kernel over (i, j): the energy of an all-pairs interaction comes with its
forces.
"""

from numba_grad.compiler.loop_nests.iteration_spaces import loop_axes, space_of
from numba_grad.graph.node import Node, record
from numba_grad.graph.walk import substitute, toposort


def split_sums(outputs: list[Node]) -> list[Node]:
    """`outputs` with such sums split."""
    sums = [node for node in toposort(outputs) if node.op.name == "sum"]
    inner = {
        (space_of(node.inputs[0].shape), _loops_summed(node))
        for node in sums
        if len(_loops_summed(node)) == 1
    }
    if not inner:
        return outputs

    def change(node: Node) -> Node | None:
        if node.op.name != "sum":
            return None
        (x,) = node.inputs
        loops = _loops_summed(node)
        if len(loops) < 2 or (space_of(x.shape), loops[-1:]) not in inner:
            return None
        last = loop_axes(x.shape)[loops[-1]]
        rows = record(node.op, (x,), {"axes": (last,)})
        rest = tuple(
            axis if axis < last else axis - 1 for axis in node.params["axes"] if axis != last
        )
        return record(node.op, (rows,), {"axes": rest})

    return substitute(outputs, {}, change)


def _loops_summed(node: Node) -> tuple[int, ...]:
    """Which of the loops over its input a sum is over, as numbers of loops."""
    loops = loop_axes(node.inputs[0].shape)
    return tuple([number for number, axis in enumerate(loops) if axis in node.params["axes"]])
