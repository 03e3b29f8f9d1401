"""Loops whose steps need nothing of each other are one step for all at once.

    for k in range(n):                                  rows = step(batch of sequences)
        total, row = total + f(x[k]), g(x[k])    ->     total = total + np.sum(f(x), axis=0)

A step that only adds to what is carried needs nothing of the steps before it. So `s += outer(r, r)`
is a product of two matrices, and rows that a loop computes one by one are what broadcasting
computes: one program, however it is written.
"""

from collections.abc import Sequence

from numba_grad.dtypes import is_inexact, is_storage_only
from numba_grad.graph.node import OPS, Node, recording
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import lets_gradients_through, substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.transforms.batch import repeat
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph
from numba_grad.transforms.control_flow.bodies import batched_body

# What of all steps together is one array operation.
_FAMILIES = {
    "elementwise",
    "movement",
    "reduction",
    "contraction",
    "indexing",
    "literal",
    "iota",
    "leaf",
}
# Elements of a value of all steps, as many as a cache holds, unless what they read has more: a loop
# needs memory for one step.
_MOST_ELEMENTS = 1 << 17
_ADD, _SUBTRACT = OPS["add"], OPS["subtract"]


class Independent(NamedTuple):
    """What a step adds to each value that is carried, and rows."""

    body: CallTarget  # of (rows of sequences, constants) -> (what it adds, rows of results)
    largest: int  # elements of what is another value in each step


def all_at_once(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
) -> tuple[list[Node], list[Node]] | None:
    """What is carried out of a loop, and its stacked results, without a loop; None if a step reads
    what one before it computed, or if all together are large."""
    counts = len(carried), len(sequences)
    found = _independent(body, *counts)
    if found is None or not sequences:
        return None
    given = max([x.type.size for x in sequences])
    if length * found.largest > max(_MOST_ELEMENTS, given):
        return None
    flags = (True,) * len(sequences) + (False,) * len(constants)
    batched, has_axis = batched_body(found.body, flags, length, 0)
    values = [*sequences, *constants, *batched.captured]
    replaced = dict(zip(batched.target.arguments, values, strict=True))
    outputs = substitute(batched.target.outputs, replaced)
    rows = [x if has else repeat(x, length) for x, has in zip(outputs, has_axis, strict=True)]
    sums = [OPS["sum"](x, axes=(0,)) for x in rows[: len(carried)]]
    finals = [OPS["add"](x, y) for x, y in zip(carried, sums, strict=True)]
    return finals, rows[len(carried) :]


@once_for_each_graph
def _independent(body: CallTarget, carried: int, sequences: int) -> Independent | None:
    state, given = body.arguments[:carried], body.arguments[carried:]
    added = [_added(x, after) for x, after in zip(state, body.outputs, strict=False)]
    if None in added:
        return None
    outputs = [*[x for x in added if x is not None], *body.outputs[carried:]]
    nodes = toposort(outputs)
    if not set(state).isdisjoint(nodes) or not all(map(_is_fit, nodes)):
        return None
    target = CallTarget(f"all of {body.name}", given, outputs)
    sizes = [x.type.size for x in _dependent(nodes, given[:sequences])]
    return Independent(target, max(sizes, default=0))


def _is_fit(node: Node) -> bool:
    return node.op.family in _FAMILIES and not isinstance(node.type, TupleType)


def _dependent(nodes: Sequence[Node], sources: Sequence[Node]) -> set[Node]:
    """Those of `nodes`, inputs first, that depend on `sources`, these included."""
    found = set(sources)
    for node in nodes:
        if not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def _added(total: Node, after: Node) -> Node | None:
    """What a step adds to a value, if that is all it does with it."""
    dependent = _dependent(toposort([after]), [total])
    terms: list[tuple[Node, Node]] = []
    while after is not total:
        of_total = [x for x in after.inputs if x in dependent]
        if len(of_total) != 1 or not adds(after, of_total[0]):
            return None
        [term] = [x for x in after.inputs if x is not of_total[0]]
        terms.append((after, term))
        [after] = of_total
    added: Node | None = None
    with recording(True):
        for node, term in reversed(terms):
            if added is not None:
                added = node.op(added, term)
            else:
                added = term if node.op is _ADD else OPS["negative"](term)
    return added


def adds(node: Node, total: Node) -> bool:
    """Whether it adds something to `total`, or subtracts something from it, so that it does not
    matter in which order. Sums of half precision are rounded after each addition."""
    is_sum = node.op is _ADD or (node.op is _SUBTRACT and node.inputs[0] is total)
    if not is_sum or not is_inexact(node.dtype) or is_storage_only(node.dtype):
        return False
    is_of_one_type = node.type is total.type and all(x.dtype == node.dtype for x in node.inputs)
    return is_of_one_type and lets_gradients_through(node)
