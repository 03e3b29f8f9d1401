"""Steps of a Python loop that are loops of their own for the most part: an observation every 20
steps, a day of 24 hours.

The body of the outer loop is made as any other, with all passes of the inner one, and then looked
through for a loop itself. What each pass reads of the outer loop, and leaves for others, is a row
of one array, so that it is one of the inner loop, too.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

from numba_grad.graph.node import ARGUMENT, OPS, Node, record
from numba_grad.graph.walk import in_order_of_recording, rebuilt, toposort
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.rerolling.rerolled import RerolledLoops

# Operations of a body that is looked through once more.
_FEWEST_NODES = 96
_RESHAPE = OPS["reshape"]

Key = TypeVar("Key", bound=Hashable)
# (nodes in order, those that stay) -> the longest loop among them
FindLoop = Callable[[Sequence[Node], Collection[Node]], RerolledLoops | None]


def in_runs(keys: Sequence[Key], after: Callable[[Key], Key | None]) -> list[list[Key]]:
    """The keys, those together of which each one is `after` the one before."""
    left = dict.fromkeys(keys)
    found = []
    for key in keys:
        if key not in left:
            continue
        del left[key]
        run = [key]
        while (following := after(run[-1])) is not None and following in left:
            del left[following]
            run.append(following)
        found.append(run)
    return found


def with_loops_inside(body: CallTarget, find: FindLoop) -> CallTarget | None:
    """A body that nobody else has seen, with loops in place of their steps; None if it has none."""
    # What a body returns may be of the last pass, which is to be one as the others: so what stays
    # is something else.
    ends = [
        x if x.op is ARGUMENT else record(_RESHAPE, (x,), {"shape": x.shape}) for x in body.outputs
    ]
    fixed = {*ends, *body.arguments}
    is_changed = False
    while True:
        nodes = [x for x in toposort(ends) if x.value is None and x.op is not ARGUMENT]
        order = in_order_of_recording(nodes)
        found = find(order, fixed) if len(order) >= _FEWEST_NODES else None
        if found is None:
            break
        found.rewire(order, ends)
        is_changed = True
    if not is_changed:
        return None
    outputs = [x if x.op is ARGUMENT else x.inputs[0] for x in ends]
    return CallTarget(body.name, body.arguments, _inputs_first(outputs))


def _inputs_first(outputs: Sequence[Node]) -> list[Node]:
    """The same, where nodes are younger than what they read: of an inner loop, what stood between
    its first passes reads its results."""
    nodes = toposort(outputs)
    if all(x.serial < node.serial for node in nodes for x in node.inputs):
        return list(outputs)
    done: dict[Node, Node] = {}
    for last in in_order_of_recording(nodes):
        for node in toposort([last], stop=done.__contains__):
            if node not in done:
                inputs = tuple([done[x] for x in node.inputs])
                done[node] = rebuilt(node, inputs, done) if inputs else node
    return [done[x] for x in outputs]
