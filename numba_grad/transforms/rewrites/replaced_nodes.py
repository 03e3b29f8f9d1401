"""A graph in which other operations stand for some, found by a rule that looks at one at a time."""

from collections.abc import Callable, Collection, Sequence

from numba_grad.graph.node import SERIALS_A_NODE, Node, next_serial, recording
from numba_grad.graph.survey import are_free
from numba_grad.graph.walk import (
    in_order_of_recording,
    lets_gradients_through,
    needed_for,
    recorded_since,
)


def with_replaced(
    order: Sequence[Node], roots: Collection[Node], rule: Callable[[Node], Node | None]
) -> list[Node]:
    """`order`, inputs before users, less what nobody reads any more.

    Only for graphs that no other pass walks at the time: users get other inputs, and that pass may
    know a node by what it reads.

    Parameters
    ----------
    roots : these stay, as all that somebody else knows
    rule : what a node, which reads what stands for its inputs, is replaced by; it may record that,
        in no more operations than there are serial numbers from this one to the next, of which
        loops that were found may have left few
    """
    kept: list[Node] = []
    instead: dict[Node, Node] = {}
    since = next_serial()
    with recording(True):
        for k, node in enumerate(order, 1):
            if not instead.keys().isdisjoint(node.inputs):
                node.inputs = tuple([instead.get(x, x) for x in node.inputs])
            # With gradients: not what was recorded where none are.
            may_go = node not in roots and all(are_free([node])) and lets_gradients_through(node)
            new = rule(node) if may_go else None
            made = [] if new is None else in_order_of_recording(recorded_since(since, [new]))
            room = order[k].serial - node.serial if k < len(order) else SERIALS_A_NODE
            if new is None or len(made) > room:
                kept.append(node)
                continue
            instead[node] = new
            # As old as what it stands for, which is gone.
            for number, x in enumerate(made):
                x.serial = node.serial + number
            kept += [x for x in made if x.requires_grad]
    return needed_for(roots, kept) if instead else kept
