"""Which steps of a loop gain by a kernel for several of them, and how much work they are.

Cheap steps, in which elements do not meet, are done together. Of others, as a step back of a wave
equation, it is what they add to sums, the cotangents of what all steps read: a step would load and
store these for its own share alone.
"""

from collections.abc import Sequence
from typing import Any

from numba_grad.compiler.partition.flat_graph import ClosedGraph, once_run
from numba_grad.compiler.partition.roles import INLINE_FAMILIES
from numba_grad.graph.node import Node
from numba_grad.graph.types import MOST_WRITTEN_OUT
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple

TOGETHER = 4
# Additions for an element, in a step, and in one of its operations: with more to do, memory is not
# what it waits for.
_MOST_COST = 24
_MOST_COST_OF_ONE = 8
# What a sum needs and others of the step's values do as well, which is computed and read twice
# then: additions for an element, and arrays.
_MOST_SHARED_COST = 8
_MOST_SHARED_ARRAYS = 2
# Bytes of these in all steps of a pass, where it is not only what was just computed: as the states
# of a nonlinear step, which come from memory a second time if no cache near a core holds them.
_MOST_SHARED_BYTES = 1 << 18
# Arrays that sums read in a step, and bytes of more than these in all steps of a pass: so many
# streams from memory at once are slower than to load and store sums once more.
_MOST_STREAMS = 2
_MOST_BYTES_OF_STREAMS = 1 << 21
# Elements of a state up to which it is in registers, mostly (`register_loops.py`).
_SMALL_STATE = 64


class SumOfSteps(NamedTuple):
    """A carried value to which steps only add."""

    number: int
    added: Node
    region: dict[str, Any] | None  # params of an addition to a slice, where it is one


class SumsOfSteps(NamedTuple):
    sums: tuple[SumOfSteps, ...]
    read: tuple[int, ...]  # other carried values that are read for them


NO_SUMS = SumsOfSteps((), ())


def joined_elements(call: Node) -> int:
    """How many elements joined steps of a loop compute, and of loops in it; in a function that is
    called, in branches."""
    # Innermost graphs first, so that what is asked of each is known of those in it: functions call
    # each other deeper than Python's stack is.
    pending = [(graph, False) for graph in _bodies(call)]
    met: set[ClosedGraph] = set()
    while pending:
        graph, are_inner_known = pending.pop()
        if are_inner_known:
            _joined_in(graph)
        elif graph not in met:
            met.add(graph)
            pending.append((graph, True))
            pending += [(inner, False) for x in _calls_in(graph) for inner in _bodies(x)]
    return _joined_by(call)


def _bodies(call: Node) -> Sequence[ClosedGraph]:
    own = _own_loop(call)
    return once_run(call) if own is None else (own[0],)


def _own_loop(call: Node) -> tuple[ClosedGraph, int] | None:
    """The body that a loop repeats, and how much it carries; of an adjoint within a memory budget
    that of its steps back."""
    if call.op.name == "loop":
        return call.params["body"], call.params["carried"]
    if call.op.name == "loop_adjoint":
        return call.params["reading"], call.params["held"]
    return None


def _calls_in(graph: ClosedGraph) -> list[Node]:
    # Hundreds of calls of one function ask for those in it.
    return graph.derived(
        "calls", lambda: [x for x in toposort(graph.outputs) if x.op.family == "call"]
    )


def _joined_in(graph: ClosedGraph) -> int:
    return graph.derived("joined elements", lambda: sum(map(_joined_by, _calls_in(graph))))


def _joined_by(call: Node) -> int:
    own = _own_loop(call)
    if own is None:
        return sum(map(_joined_in, once_run(call)))
    body, carried = own
    # Where only a condition says how many there are: as few as there may be.
    length = call.params["length"] or 0
    elements = _joined_in(body)
    sizes = [x.type.size for x in body.outputs[:carried]]
    if length >= TOGETHER and sum(sizes) > _SMALL_STATE:
        if call.op.name == "loop" and may_be_together(body, carried):
            elements += sum(sizes)
        else:
            elements += sum(x.added.type.size for x in sums_added_together(call).sums)
    return length * elements


def may_be_together(body: ClosedGraph, carried: int) -> bool:
    """Whether the steps of a loop are cheap ones."""
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


def sums_added_together(call: Node) -> SumsOfSteps:
    """Those of a loop to which several steps should add at once. Of an adjoint within a memory
    budget none, where steps back read what steps that are done again have computed: of each of
    these there is one."""
    own = _own_loop(call)
    if own is None or (call.op.name == "loop_adjoint" and call.params["kept"]):
        return NO_SUMS
    (body, carried), sums = own, call.params["sums"]
    return body.derived(("sums of steps", carried, sums), lambda: _sums(body, carried, sums))


def _sums(body: ClosedGraph, carried: int, sums: int) -> SumsOfSteps:
    # No reductions: in which order one adds depends on what else is in its loop.
    if not all(_is_inline(x) for x in toposort(body.outputs)):
        return NO_SUMS
    numbers = range(carried - sums, carried)
    large = [k for k in numbers if body.outputs[k].type.size > MOST_WRITTEN_OUT]
    of_others = set(toposort([x for k, x in enumerate(body.outputs) if k not in large]))
    found: list[SumOfSteps] = []
    read: set[Node] = set()
    for k in large:
        of_sum = toposort([body.outputs[k]])
        if _shares_much([x for x in of_sum if x in of_others]):
            return NO_SUMS
        read.update(of_sum)
        found.append(_sum(body, k))
    streams = [x for x in read if _is_array(x) and x not in [body.arguments[k] for k in large]]
    bytes_of_streams = TOGETHER * sum(x.type.nbytes for x in streams)
    if len(streams) > _MOST_STREAMS and bytes_of_streams > _MOST_BYTES_OF_STREAMS:
        return NO_SUMS
    others = [k for k in range(carried) if k not in large and body.arguments[k] in read]
    return SumsOfSteps(tuple(found), tuple(others))


def _is_inline(node: Node) -> bool:
    return node.op.family in (*INLINE_FAMILIES, "leaf")


def _is_array(node: Node) -> bool:
    return node.op.family == "leaf" and node.type.size > MOST_WRITTEN_OUT


def _shares_much(shared: Sequence[Node]) -> bool:
    cost = sum(x.op.cost for x in shared if x.op.family == "elementwise")
    sizes = [x.type.nbytes for x in shared if _is_array(x)]
    is_far = len(sizes) > 1 and TOGETHER * sum(sizes) > _MOST_SHARED_BYTES
    return cost > _MOST_SHARED_COST or len(sizes) > _MOST_SHARED_ARRAYS or is_far


def _sum(body: ClosedGraph, number: int) -> SumOfSteps:
    node = body.outputs[number]
    if node.op.name == "add_slice" and node.inputs[0] is body.arguments[number]:
        return SumOfSteps(number, node.inputs[1], dict(node.params))
    return SumOfSteps(number, node, None)
