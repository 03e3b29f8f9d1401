"""Windows along two axes that are read along one, as one stack of slices.

    sliding_window_view(u, (5, 5)).reshape(m, n, 25)    ->    np.stack([u[:m, :n], ...], axis=-1)

Windows are recorded as stacks of stacks, which sums of their products with weights want. Read along
one axis each element would look for its part in both, and `parts_of_stacks.py` knows no such stack.
What products of matrices read is copied in any case, sooner as it is.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import concatenated, slice_params

_RESHAPE, _TRANSPOSE, _CONCATENATE = OPS["reshape"], OPS["transpose"], OPS["concatenate"]
_SLICE = OPS["slice"]


def has_windows_in_a_row(nodes: Iterable[Node]) -> bool:
    """Whether a graph of these nodes may have any."""
    return any(_windows(node) for node in nodes if node.op is _RESHAPE)


def windows_in_a_row(outputs: list[Node], constants: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs`, of a graph whose derivatives are taken, without stacks of stacks that are read so.
    It does not matter which values `constants` have."""
    factors = {_source(x) for node in toposort(outputs) if _is_product(node) for x in node.inputs}

    def change(node: Node) -> Node | None:
        if node.op is _SLICE:
            return _window_of(node)
        windows = _windows(node) if node.op is _RESHAPE else []
        if not windows or _source(node) in factors:
            return None
        stack = concatenated([reshape(x, x.shape[1:]) for x in windows], 0)
        return _TRANSPOSE(stack, axes=(*range(1, len(stack.shape)), 0))

    with recording(False):
        found = substitute(outputs, {}, change)
    return outputs if all(x is y for x, y in zip(found, outputs, strict=True)) else found


def _window_of(node: Node) -> Node | None:
    """One window of what is along one axis, and was turned into windows along two: of a
    cotangent."""
    row, rank = node.inputs[0], len(node.shape)
    if row.op is not _SLICE or rank < 3 or not _is_one_of(node, 1) or not _is_one_of(row, 0):
        return None
    turned = row.inputs[0]
    if turned.op is not _TRANSPOSE or turned.params["axes"] != (
        rank - 2,
        rank - 1,
        *range(rank - 2),
    ):
        return None
    windows, sizes = turned.inputs[0], node.shape[2:]
    if windows.op is not _RESHAPE or _is_product(_source(windows)):
        return None
    (in_a_row,) = windows.inputs
    if in_a_row.shape != (*sizes, turned.shape[0] * turned.shape[1]):
        return None
    number = row.params["starts"][0] * turned.shape[1] + node.params["starts"][1]
    params = slice_params((*[0] * len(sizes), number), (*sizes, 1), (1,) * (rank - 1))
    return reshape(record(_SLICE, (in_a_row,), params), node.shape)


def _source(x: Node) -> Node:
    """What `x` is the elements of, in another order."""
    while x.op in (_RESHAPE, _TRANSPOSE):
        (x,) = x.inputs
    return x


def _is_product(node: Node) -> bool:
    return node.op.family == "contraction"


def _is_one_of(node: Node, axis: int) -> bool:
    """Whether a slice takes one element along an axis, and all along others."""
    (x,) = node.inputs
    return node.shape == (*x.shape[:axis], 1, *x.shape[axis + 1 :])


def _windows(node: Node) -> list[Node]:
    """Those that a reshape puts in a row along its last axis, and nothing else, in order."""
    turned = node.inputs[0] if node.inputs else node
    if turned.op is not _TRANSPOSE or turned.inputs[0].op is not _CONCATENATE:
        return []
    stacks = turned.inputs[0]
    if turned.params["axes"] != (*range(2, len(stacks.shape)), 0, 1):
        return []
    rows = stacks.inputs
    if any(x.op is not _CONCATENATE or x.params["axis"] != 1 for x in rows):
        return []
    windows = [x for row in rows for x in row.inputs]
    is_of_single = stacks.params["axis"] == 0 and all(x.shape[:2] == (1, 1) for x in windows)
    return windows if is_of_single and node.shape == (*stacks.shape[2:], len(windows)) else []
