"""Equal slices, reshapes and transposes of one array, recorded again and again in a loop, become
one, and so does all else that steps make of the same large arrays.

`p[0]` in each stage of each step is half of the operations of a Runge-Kutta loop, and as many more
in its derivative. Recording keeps them apart, since each may get hooks or be asked for its own
gradient; where nobody holds them any more, one is as good as all.
"""

from collections.abc import Collection, Container, Hashable, Sequence
from typing import TYPE_CHECKING

from numba_grad.graph.node import HOLDING, NO_PARAMS, OPS, Node, SharedParams
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import is_nobodys, needed_for

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_VIEWS = frozenset([OPS["slice"], OPS["reshape"], OPS["transpose"], OPS["flip"]])
# What gives the same for the same inputs, whoever computes it.
_FAMILIES = frozenset(
    ["elementwise", "movement", "indexing", "reduction", "contraction", "library"]
)
_LOOKED_AT = 16  # elements


def without_repeated_views(order: Sequence[Node], roots: Container[Node]) -> list[Node]:
    """`order`, that of recording, less the views that equal an earlier one of it.

    `roots` stay. The users of the others get the earlier one as input instead: in another order
    than that of recording it might be recorded after them. What a view is made of is not computed
    here and does not change: values and derivatives stay the same.

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
        if node.op in _VIEWS and node.params.__class__ is SharedParams and is_nobodys(node):
            key = (node.op, node.params, node.requires_grad, node.inputs[0])
            earlier = first.setdefault(key, node)
            if earlier is not node and node not in roots:
                instead[node] = earlier
                continue
        kept.append(node)
    return kept


def without_repetitions(
    order: Sequence[Node],
    roots: Collection[Node],
    read_at_calls: "ReadAtCalls | None",
    smallest: int,
) -> list[Node]:
    """`order`, less what an earlier operation of it computes as well: `w.T @ x`, where a loop makes
    the same `w.T` in each step.

    Of arrays of more than `smallest` elements, no larger than what they are made of, or made by a
    library: others are as well computed where they are read. As `without_repeated_views` in all
    else.
    """
    # At a tenth of what looking costs: long loops of few numbers have no two large arrays alike.
    large = [x for x in order if x.op.family in _FAMILIES and x.type.size > smallest]
    if len({(x.op, x.type) for x in large}) == len(large):
        return list(order)
    first: dict[Hashable, Node] = {}
    same: dict[Node, Node] = {}  # what has the value of each node that is not the first
    arrays = _EqualArrays(read_at_calls, smallest)
    instead: dict[Node, Node] = {}
    replaced = instead.keys()
    for node in order:
        for x in node.inputs:
            if x.op in HOLDING and x not in same:
                earlier = same[x] = arrays.first_equal_to(x)
                # As `dt * mask`, which NumPy makes anew in each step of a function that is traced.
                is_large = read_at_calls is not None and x.type.size > smallest
                if earlier is not x and is_large and is_nobodys(x):
                    instead[x] = earlier
        inputs = node.inputs
        if not replaced.isdisjoint(inputs):
            inputs = node.inputs = tuple([instead.get(x, x) for x in inputs])
        if node.op.family not in _FAMILIES or not is_nobodys(node):
            continue
        # With the type: params of 2 and 2.0 are equal.
        given = [same.get(x, x) for x in inputs]
        key = (node.op, _params(node), node.type, node.requires_grad, *given)
        earlier = first.setdefault(key, node)
        if earlier is node or node in roots:
            continue
        same[node] = earlier
        size = node.type.size
        if node.op.family == "library" or smallest < size <= sum([x.type.size for x in inputs]):
            instead[node] = earlier
    # Neither what only the others have read.
    return needed_for(roots, order) if instead else list(order)


def _params(node: Node) -> Hashable:
    params = node.params
    if params is NO_PARAMS or params.__class__ is SharedParams:
        return id(params)
    items = tuple(params.items())
    try:
        hash(items)
    except TypeError:
        return id(params)
    return items


class _EqualArrays:
    """Constants, of which one may stand for another that has the same elements."""

    def __init__(self, read_at_calls: "ReadAtCalls | None", smallest: int) -> None:
        self.read_at_calls = read_at_calls
        self.smallest = smallest
        self._small: dict[Hashable, Node] = {}  # by their elements
        # By a few of these, which tell most apart: the first one, and all by all elements, where
        # there are more.
        self._large: dict[Hashable, tuple[Node, dict[bytes, Node]]] = {}

    def first_equal_to(self, x: Node) -> Node:
        if x.requires_grad or x.value is None or x.type.device != CPU or not x.type.size:
            return x
        if self.read_at_calls is not None and self.read_at_calls.place_of(x) is not None:
            return x
        value = x.value
        if value.size <= self.smallest:
            return self._small.setdefault((x.type, value.tobytes()), x)
        some = value.ravel()[:: value.size // _LOOKED_AT + 1]
        first, by_elements = self._large.setdefault((x.type, some.tobytes()), (x, {}))
        if first is x:
            return x
        if not by_elements:
            by_elements[first.value.tobytes()] = first  # type: ignore[union-attr]
        return by_elements.setdefault(value.tobytes(), x)
