"""Equal slices, reshapes and transposes of one array, recorded again and again in a loop, become
one.

`p[0]` in each stage of each step is half of the operations of a Runge-Kutta loop, and as many more
in its derivative. Recording keeps them apart, since each may get hooks or be asked for its own
gradient; where nobody holds them any more, one is as good as all.
"""

from collections.abc import Container, Sequence

from numba_grad.graph.node import OPS, Node, SharedParams

_VIEWS = frozenset([OPS["slice"], OPS["reshape"], OPS["transpose"], OPS["flip"]])


def without_repeated_views(order: Sequence[Node], roots: Container[Node]) -> list[Node]:
    """`order`, inputs before users, less the views that equal an earlier one of it.

    `roots` stay. The users of the others get the earlier one as input instead. What a view is made
    of is not computed here and does not change: values and derivatives stay the same.

    Only for graphs that no other pass walks at the time, as those of one call of a transformed
    function: that pass may know a view by one of its nodes, and find another one here.
    """
    first: dict[tuple[object, ...], Node] = {}
    instead: dict[Node, Node] = {}
    replaced = instead.keys()
    kept = []
    for node in order:
        inputs = node.inputs
        if not replaced.isdisjoint(inputs):
            node.inputs = tuple([instead.get(x, x) for x in inputs])
        if (
            node.op in _VIEWS
            and node.params.__class__ is SharedParams
            and node.autograd is None
            and (node.handle is None or node.handle() is None)
        ):
            earlier = first.setdefault((node.op, node.params, node.inputs[0]), node)
            if earlier is not node and node not in roots:
                instead[node] = earlier
                continue
        kept.append(node)
    return kept
