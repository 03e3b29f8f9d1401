"""Several steps of a loop as one graph, in one kernel: `joinable_steps.py` says of which loops.

What is carried, or a sum, stays in registers from one of them to the next. The bits are those of
single steps: what a step leaves is rounded, and all else of it is computed element by element in
either case.
"""

from collections.abc import Sequence

from numba_grad.compiler.passes.simplify import simplify
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.walk import toposort
from numba_grad.immutable import immutable


@immutable
class JoinedSteps:
    """Some steps as a graph. Its arguments are what is carried, the rows of the first step, of the
    second one, and so on, and constants."""

    arguments: list[Node]
    outputs: list[list[Node]]  # of each step, in order


def joined_steps(
    own: Sequence[Node], outputs_of_step: Sequence[Node], carried: int, sequences: int, steps: int
) -> JoinedSteps:
    """So many steps of a graph whose arguments are what is carried, rows, and constants."""
    step = simplify(outputs_of_step)  # so that a product that is carried on is one node
    of_rows = own[carried : carried + sequences]
    rows = [[argument(x.type) for x in of_rows] for _ in range(steps)]
    constants = own[carried + sequences :]
    outputs: list[list[Node]] = []
    for number in range(steps):
        state = outputs[-1][:carried] if outputs else own[:carried]
        given = [*state, *rows[number], *constants]
        outputs.append(_outputs_of(step, dict(zip(own, given, strict=True))))
    arguments = [*own[:carried], *[x for own_rows in rows for x in own_rows], *constants]
    return JoinedSteps(arguments, outputs)


def _outputs_of(step: Sequence[Node], done: dict[Node, Node]) -> list[Node]:
    for node in toposort(step):
        if node in done or not node.inputs:
            continue
        inputs = tuple([done.get(x, x) for x in node.inputs])
        new = record(node.op, inputs, node.params)
        if node in step and new.dtype.kind == "f" and node.op.name in ("multiply", "square"):
            # In memory a product is rounded. Here it would be rounded with what it is added to.
            new = OPS["positive"](new)
        done[node] = new
    return [done.get(x, x) for x in step]
