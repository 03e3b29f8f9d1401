"""Columns that the steps of a Python loop read are rows of the transposed array.

    for k in range(n):                              y = x.T
        columns.append(a @ x[:, k])       ->        columns.append(a @ y[k])

Loops are found by rows that follow each other (`repeated_steps.py`).
"""

from collections.abc import Sequence

from numba_grad.graph.node import OPS, Node, recording
from numba_grad.ops.movement import slice_params
from numba_grad.transforms.loop_sizes import FEWEST_STEPS

_SLICE, _TRANSPOSE = OPS["slice"], OPS["transpose"]


def turn_columns(order: Sequence[Node], since: int) -> bool:
    """Whether there were such columns among `order`, of what was recorded since some node. The
    slices themselves read something else then: only for graphs that no other pass walks at the
    time."""
    columns: dict[tuple[Node, int], list[Node]] = {}
    for node in order:
        axis = _column_axis(node)
        if axis is not None and node.inputs[0].serial >= since:
            columns.setdefault((node.inputs[0], axis), []).append(node)
    found = {key: nodes for key, nodes in columns.items() if len(nodes) >= FEWEST_STEPS}
    for (x, axis), nodes in found.items():
        others = [k for k in range(len(x.shape)) if k != axis]
        with recording(True):
            rows = _TRANSPOSE(x, axes=(axis, *others))
        rows.serial = x.serial + 1  # between its own and that of the next node
        sizes = tuple([x.shape[k] for k in others])
        for node in nodes:
            start = node.params["starts"][axis]
            zeros, ones = (0,) * len(others), (1,) * len(x.shape)
            node.inputs = (rows,)
            node.params = slice_params((start, *zeros), (1, *sizes), ones, (0,))
    return bool(found)


def _column_axis(node: Node) -> int | None:
    """Of a slice that has one place of a later axis, and all of the others."""
    if node.op is not _SLICE or node.params.get("dropped", (0,))[0] == 0:
        return None
    if len(node.params["dropped"]) > 1:
        return None
    [axis] = node.params["dropped"]
    [x] = node.inputs
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return axis if node.shape == shape else None
