"""Loops on GPUs to which points add up what they have.

    x = step(x); total = total + sum(f(x))      x = step(x); totals = totals + f(x)

A sum in each step has threads wait for each other, and a launch or two of its own. Here each point
has a total of its own, and these are added up after the loop: then points never meet, and a thread
does all steps of one (`compiler/control_flow/point_loops.py`).
"""

from collections.abc import Sequence

from numba_grad.graph.node import OPS, Node, argument, record, recording
from numba_grad.graph.types import Type
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import zeros_like
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph

_FAMILIES = ("elementwise", "leaf", "literal")
_VIEWS = ("broadcast_to", "reshape")


class SumsOfPoints(NamedTuple):
    """A body that carries totals of points: by the numbers of the sums that it carried."""

    body: CallTarget
    sums: dict[int, Node]  # of what a step adds

    @property
    def described(self) -> dict[int, tuple[Type, object]]:
        return {k: (x.inputs[0].type, x.params["axes"]) for k, x in self.sums.items()}

    def held(self, carried: Sequence[Node]) -> list[Node]:
        """What it carries at first."""
        return [
            zeros_like(self.sums[k].inputs[0]) if k in self.sums else x
            for k, x in enumerate(carried)
        ]

    def finals(self, finals: Sequence[Node], carried: Sequence[Node]) -> list[Node]:
        """What the original, which carries this at first, carries out."""
        result = list(finals)
        for k, node in self.sums.items():
            total = record(node.op, (finals[k],), node.params)
            result[k] = OPS["add"](carried[k], total)
        return result


@once_for_each_graph
def carrying_points(body: CallTarget, carried: int) -> SumsOfPoints | None:
    """The body that carries totals of points, if nothing else of it keeps these from being done one
    by one."""
    arguments, outputs = list(body.arguments), list(body.outputs)
    sums: dict[int, Node] = {}
    with recording(True):
        for k in range(carried):
            added = _added(outputs[k], arguments[k])
            if added is None:
                continue
            sums[k] = added
            [of_points] = added.inputs
            arguments[k] = argument(of_points.type, arguments[k].requires_grad)
            outputs[k] = OPS["add"](arguments[k], of_points)
    nodes = toposort(outputs)
    if not sums or any(body.arguments[k] in nodes for k in sums):
        return None
    if any(x.op.family not in _FAMILIES and x.op.name not in _VIEWS for x in nodes):
        return None
    shapes = {x.shape for x in nodes if x.op.family == "elementwise" and x.type.size > 1}
    if len(shapes) != 1:
        return None
    return SumsOfPoints(CallTarget(body.name, arguments, outputs), sums)


def _added(output: Node, own: Node) -> Node | None:
    """The sum that a step adds to what it carries, if it does that; one of all of them, where it
    adds several over the same points."""
    terms: list[Node] = []
    taken_apart: set[Node] = set()
    stack = [output]
    while stack:
        node = stack.pop()
        # To the host and back: the gradient of a number of its.
        if node.op.name not in ("add", "to_device"):
            terms.append(node)
        elif node in taken_apart:  # as by the derivative of `x = x + x`: twice as many for each
            return None
        else:
            taken_apart.add(node)
            stack += reversed(node.inputs)
    if terms.count(own) != 1:
        return None
    total: Node | None = None
    first: Node | None = None
    for term in terms:
        if term is own:
            continue
        is_negative = term.op.name == "negative"
        added = term.inputs[0] if is_negative else term
        if added.op.name != "sum" or added.type != output.type:
            return None
        [points] = added.inputs
        if first is None:
            first = added
        if points.type != first.inputs[0].type or added.params != first.params:
            return None
        if points.dtype != output.dtype:
            return None
        if total is None:
            total = OPS["negative"](points) if is_negative else points
        else:
            total = OPS["subtract" if is_negative else "add"](total, points)
    return None if first is None or total is None else record(first.op, (total,), first.params)
