"""Folds of any associative function of two nodes along an axis: the elements up to each, those of
each segment. A logarithmic number of steps, each over many elements at once."""

from collections.abc import Callable

import numpy as np

from numba_grad.frontend.functions.shapes import part
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.index_expressions import assign_index, take_index

Join = Callable[[Node, Node], Node]


def folded_up_to_each(join: Join, x: Node, axis: int) -> Node:
    """All elements up to each one along `axis` joined, by doubling how many: Hillis and Steele,
    Data parallel algorithms (1986)."""
    size = x.shape[axis]
    reach = 1
    while reach < size:
        joined = join(part(x, axis, 0, size - reach), part(x, axis, reach, size))
        x = OPS["concatenate"](part(x, axis, 0, reach), joined, axis=axis)
        reach *= 2
    return x


def folded_segments(join: Join, x: Node, counts: np.ndarray) -> Node:
    """The elements of each segment along the first axis joined: shape (len(counts), ...).

    Segments follow one another, and have `counts` elements, one or more.
    """
    number = np.repeat(np.arange(len(counts)), counts)
    longest = int(counts.max(initial=1))
    reach = 1
    while reach < longest:
        # Only pairs within a segment are joined, so nothing of one, as an infinity, gets into the
        # gradient of another.
        first = np.flatnonzero(number[reach:] == number[:-reach])
        joined = join(take_index(x, first), take_index(x, first + reach))
        x = assign_index(x, first, joined)
        reach *= 2
    return take_index(x, np.cumsum(counts) - counts)
