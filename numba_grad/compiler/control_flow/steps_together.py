"""Several steps of a loop in one kernel: cheap ones, in which elements do not meet, and of others
what they add to sums.

What is carried, or a sum, stays in registers from one of them to the next. The bits are those of
single steps: what a step leaves is rounded, and all else of it is computed element by element in
either case.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.partition.roles import INLINE_FAMILIES
from numba_grad.compiler.passes.simplify import simplify
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.walk import toposort

TOGETHER = 4
_NUMBERS = range(TOGETHER)
# Additions for an element, in a step, and in one of its operations: with more to do, memory is not
# what it waits for.
_MOST_COST = 24
_MOST_COST_OF_ONE = 8


def may_be_together(body: ClosedGraph, carried: int) -> bool:
    """Whether the steps of a loop are such steps."""
    return body.derived(("may be together", carried), lambda: _may_be_together(body, carried))


def _may_be_together(body: ClosedGraph, carried: int) -> bool:
    shapes = {x.shape for x in body.arguments[:carried]}
    if len(shapes) != 1 or any(x in body.arguments for x in body.outputs):
        return False
    [shape] = shapes
    cost = 0.0
    for node in toposort(body.outputs):
        family = node.op.family
        if family == "elementwise":
            if node.shape != shape or node.op.cost > _MOST_COST_OF_ONE:
                return False
            cost += node.op.cost
        elif family == "leaf":
            if node.type.size != 1 and node.shape != shape:
                return False
        elif family == "movement" and node.op.name == "broadcast_to":
            if node.inputs[0].type.size != 1:
                return False
        elif family != "literal" and (family != "movement" or node.type.size != 1):
            return False
    return 0 < cost <= _MOST_COST


# Of a sum: additions for an element that its steps compute and others of their values need as well,
# and arrays that both read.
_MOST_SHARED_COST = 8
_MOST_SHARED_ARRAYS = 2
_LARGE = 17  # elements


@dataclass(frozen=True, slots=True)
class SumsOfSteps:
    """Carried values to which steps only add, and nothing else of a step reads. What several steps
    add to them can be computed behind these, in one pass over the sums."""

    numbers: tuple[int, ...]
    read: tuple[int, ...]  # the other carried values that are read for them


NO_SUMS = SumsOfSteps((), ())


def sums_of_steps(body: ClosedGraph, carried: int, sums: int) -> SumsOfSteps:
    """Those of the last `sums` carried values that are worth it."""
    return body.derived(("sums of steps", carried, sums), lambda: _sums(body, carried, sums))


def _sums(body: ClosedGraph, carried: int, sums: int) -> SumsOfSteps:
    """No reductions anywhere: in which order they add depends on what else is in their loop."""
    candidates = [
        k
        for k in range(carried - sums, carried)
        if body.outputs[k].type.size >= _LARGE and body.outputs[k] is not body.arguments[k]
    ]
    others = toposort([x for k, x in enumerate(body.outputs) if k not in candidates])
    if any(x.op.family not in (*INLINE_FAMILIES, "leaf") for x in others):
        return NO_SUMS
    of_others = set(others)
    numbers: list[int] = []
    found: set[Node] = set()
    for k in candidates:
        own = toposort([body.outputs[k]])
        if all(x.op.family in (*INLINE_FAMILIES, "leaf") for x in own):
            shared = [x for x in own if x in of_others]
            cost = sum(x.op.cost for x in shared if x.op.family == "elementwise")
            arrays = sum(not x.inputs and x.type.size >= _LARGE for x in shared)
            if cost <= _MOST_SHARED_COST and arrays <= _MOST_SHARED_ARRAYS:
                numbers.append(k)
                found.update(own)
    if len(numbers) < len(candidates):
        return NO_SUMS
    read = [k for k in range(carried) if k not in numbers and body.arguments[k] in found]
    return SumsOfSteps(tuple(numbers), tuple(read))


@dataclass(frozen=True, slots=True)
class JoinedSteps:
    """Some steps as a graph. Its arguments are what is carried, the rows of the first step, of the
    second one, and so on, and constants."""

    arguments: list[Node]
    outputs: list[list[Node]]  # of each step, in order


def joined_steps(
    own: Sequence[Node], outputs_of_step: Sequence[Node], carried: int, sequences: int
) -> JoinedSteps:
    """Steps of these arguments: what is carried, rows, constants."""
    step = simplify(outputs_of_step)  # so that a product that is carried on is one node
    rows = [[argument(x.type) for x in own[carried : carried + sequences]] for _ in _NUMBERS]
    constants = own[carried + sequences :]
    outputs: list[list[Node]] = []
    for number in _NUMBERS:
        state = outputs[-1][:carried] if outputs else own[:carried]
        given = [*state, *rows[number], *constants]
        outputs.append(_outputs_of(step, dict(zip(own, given, strict=True))))
    of_rows = [x for own_rows in rows for x in own_rows]
    return JoinedSteps([*own[:carried], *of_rows, *constants], outputs)


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
