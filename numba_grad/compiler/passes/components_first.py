"""What loops over pairs compute of rows of components has these along its first axis.

    np.sum((x[:, None] - y) ** 2, axis=-1)      with points x, y in 5 to 16 dimensions
    ->      np.sum((x.T[:, :, None] - y.T[:, None]) ** 2, axis=0)

Vector code takes the same component of several points, which lie apart in memory. A loop over pairs
reads each of them as often as there are points on the other side: so rows are stored as columns
once (`Roots.are_columns_of_pairs`), rather than in blocks in each turn of the outer loop
(`transposed_rows.py`). Of arrays of all pairs, which are read as often as they are stored, they are
not.
"""

from numba_grad.compiler.loop_nests.iteration_spaces import LONGEST_SHUFFLED, loop_axes
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.families import reshape

_TRANSPOSE, _BROADCAST = OPS["transpose"], OPS["broadcast_to"]


def components_first(outputs: list[Node]) -> list[Node]:
    """`outputs`, with the components of pairs moved to the front."""
    if not any(_has_pairs(node.shape) for node in toposort(outputs)):
        return outputs
    moved: dict[Node, Node] = {}  # of a node, the same with its components first

    def change(node: Node) -> Node | None:
        if node.op.family == "reduction" and node.inputs[0] in moved:
            is_arg = node.op.name in ARG_REDUCTIONS
            return None if is_arg else _reduced(node, moved[node.inputs[0]])
        if node.op.family != "elementwise" or not _has_pairs(node.shape):
            return None
        inputs = [_without_broadcast(x) for x in node.inputs]
        if not any(x in moved or _rows(x, node) for x in inputs):
            return None
        own = [_first(x, node, moved.get(x)) for x in inputs]
        first = tuple([x for x in own if x is not None])
        if len(first) < len(own):
            return None
        new = record(node.op, first, dict(node.params))
        back = record(_TRANSPOSE, (new,), {"axes": (*range(1, len(new.shape)), 0)})
        moved[back] = new
        return back

    return substitute(outputs, {}, change)


def _has_pairs(shape: tuple[int, ...]) -> bool:
    """Whether there are loops over two axes or more, and the last one has components, which are
    written out."""
    if len(shape) < 3 or shape[-1] <= LONGEST_SHUFFLED:
        return False
    loops = loop_axes(shape)
    return len(loops) > 1 and len(shape) - 1 not in loops


def _without_broadcast(x: Node) -> Node:
    return x.inputs[0] if x.op is _BROADCAST else x


def _rows(x: Node, user: Node) -> Node | None:
    """The rows of components that `x` is, but for axes of one element, if `user` reads them once
    for each of other rows."""
    while x.op.name == "reshape" and _lengths(x) == _lengths(x.inputs[0]):
        (x,) = x.inputs
    is_row = len(x.shape) == 2 and x.shape[0] > 1 and x.shape[1] == user.shape[-1]
    return x if is_row and 2 * x.type.size <= user.type.size else None


def _lengths(x: Node) -> list[int]:
    return [n for n in x.shape if n != 1]


def _first(x: Node, user: Node, moved: Node | None) -> Node | None:
    """`x` with the last of the user's axes moved to the front; None if it is an array of pairs, or
    of more axes, in memory."""
    *other, last = (1,) * (len(user.shape) - len(x.shape)) + x.shape
    rows = _rows(x, user)
    if moved is not None:
        x = moved
    elif rows is not None:
        x = record(_TRANSPOSE, (rows,), {"axes": (1, 0)})
    elif last not in (1, x.type.size):
        return None
    return reshape(x, (last, *other))


def _reduced(node: Node, x: Node) -> Node:
    """The reduction of what has become `x`."""
    last = len(x.shape) - 1
    axes = tuple([0 if axis == last else axis + 1 for axis in node.params["axes"]])
    result = record(node.op, (x,), dict(node.params) | {"axes": tuple(sorted(axes))})
    if 0 in axes or len(result.shape) == 1:
        return result
    return record(_TRANSPOSE, (result,), {"axes": (*range(1, len(result.shape)), 0)})
