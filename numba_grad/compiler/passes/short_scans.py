"""Scans along an axis that is written out, as what they do with one element after the other.

    np.cumsum(x, axis=1) of three columns    ->    x[:, 0], x[:, 0] + x[:, 1], ... side by side

A scan is a kernel of its own, between others that store what it reads and load what it makes. Where
the elements of an axis are written out its steps are, too, and fuse with what is around them.
"""

from numba_grad.compiler.loop_nests.iteration_spaces import loop_axes
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import substitute
from numba_grad.ops.movement import concatenated, slice_params

SCANS = frozenset(["cumsum", "cumprod", "linear_recurrence"])
_DTYPES = frozenset(["float32", "float64", "complex64", "complex128"])


def short_scans(outputs: list[Node]) -> list[Node]:
    """`outputs`, without scans of so few elements beside loops over others."""
    return substitute(outputs, {}, _written_out)


def _written_out(node: Node) -> Node | None:
    if node.op.name not in SCANS or node.dtype.name not in _DTYPES:
        return None
    axis, loops = node.params["axis"], loop_axes(node.shape)
    if axis in loops or not loops or 0 in node.shape or node.inputs[0].dtype != node.dtype:
        return None
    places = list(range(node.shape[axis]))
    if node.params.get("reverse"):
        places.reverse()
    *factors, values = node.inputs
    name = "multiply" if node.op.name == "cumprod" else "add"
    results = [_at(values, axis, places[0])]
    for k in places[1:]:
        before = results[-1]
        if factors:
            before = record(OPS["multiply"], (_at(factors[0], axis, k), before))
        results.append(record(OPS[name], (before, _at(values, axis, k))))
    return concatenated(results if places[0] == 0 else results[::-1], axis)


def _at(x: Node, axis: int, place: int) -> Node:
    rank = len(x.shape)
    starts = tuple([place if k == axis else 0 for k in range(rank)])
    sizes = tuple([1 if k == axis else n for k, n in enumerate(x.shape)])
    return record(OPS["slice"], (x,), slice_params(starts, sizes, (1,) * rank))
