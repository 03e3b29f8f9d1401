"""Constant matrices that have one value on the diagonal, and one everywhere else, as a choice.

    r2 + np.eye(n), (1 - np.eye(n)) * f        ->        where(i == j, ...), by row and column

Pairs are written with these, so that none has itself as partner. Read from memory such a matrix is
any matrix: that it is its own transpose nobody sees, so what i does to j is computed for both, and
it is as large as all pairs.
"""

from collections.abc import Mapping

import numpy as np

from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.graph.walk import substitute
from numba_grad.ops.families import full
from numba_grad.ops.matrices import is_diagonal

_FEWEST_ROWS = 17  # of fewer each element is written out
_MOVEMENTS = frozenset([OPS["reshape"], OPS["broadcast_to"], OPS["transpose"]])


def written_out_diagonals(outputs: list[Node], constants: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs`, where elementwise operations read no such constant.

    Parameters
    ----------
    outputs : of a graph whose derivatives are taken
    constants : leaves whose values are the same in all runs
    """
    instead: dict[Node, Node] = {}
    with recording(False):
        for x, value in constants.items():
            if is_diagonal_matrix(value):
                on, off = (full(value[0, k], (), x.dtype) for k in (0, 1))
                instead[x] = OPS["where"](is_diagonal(*value.shape), on, off)

        def change(node: Node) -> Node | None:
            if node.op.family != "elementwise":
                return None
            inputs = tuple([_chosen(x, instead) for x in node.inputs])
            return None if inputs == node.inputs else record(node.op, inputs, node.params)

        return substitute(outputs, {}, change) if instead else outputs


def _chosen(x: Node, instead: Mapping[Node, Node]) -> Node:
    """`x`, if it is such a constant, maybe in another shape, as a choice."""
    path = []
    below = x
    while below.op in _MOVEMENTS:
        path.append(below)
        below = below.inputs[0]
    made = instead.get(below)
    if made is None:
        return x
    for node in reversed(path):
        made = record(node.op, (made,), node.params)
    return made


def is_diagonal_matrix(value: np.ndarray) -> bool:
    """Whether a matrix has one value on its diagonal and another one elsewhere, to the bit."""
    if value.ndim != 2 or value.shape[0] != value.shape[1] or len(value) < _FEWEST_ROWS:
        return False
    if value.dtype.itemsize > 8:
        return False
    bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    on, off = bits[0, 0], bits[0, 1]
    if on == off or bits[1, 0] != off or bits[1, 1] != on:  # which tells most others
        return False
    # With one element more, each row begins on the diagonal.
    rows = bits.ravel()[:-1].reshape(len(value) - 1, len(value) + 1)
    return bool((rows[:, 0] == on).all() and (rows[:, 1:] == off).all() and bits[-1, -1] == on)
