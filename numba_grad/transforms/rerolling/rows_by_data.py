"""Rows and elements of a small array that steps write where data says: `table[s, a] += rate * d`.

    part = slice(q)                   part = gather(q, [s], [a])
    new = add(part, x)                new = add(part, x)
    q = update_slice(q, new)          q = scatter_set(q, new, [s], [a])

As recorded, each step writes somewhere else: no two are alike, nor are their kernels for other data
(ratings, tables of values, vectors of words). By index arrays they are steps of one loop, which
read their places. Where places follow from the number of the step, other passes know rows.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import lets_gradients_through
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import Shape
from numba_grad.transforms.loop_sizes import FEWEST_STEPS, LARGEST_VALUE
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

_UPDATE, _SLICE = OPS["update_slice"], OPS["slice"]
_GATHER, _SCATTER = OPS["gather"], OPS["scatter_set"]
_LONGEST_STEP = 16  # assignments


def with_rows_by_data(order: Sequence[Node], roots: Collection[Node]) -> list[Node] | None:
    """`order`, inputs before users, where such rows are those of index arrays, as `with_replaced`
    says; None if there are none."""
    shapes = {shape for shape, places in _places(order).items() if _are_data(places)}
    if not shapes:
        return None

    def by_index_arrays(node: Node) -> Node | None:
        if (node.op is not _UPDATE and node.op is not _SLICE) or node.inputs[0].shape not in shapes:
            return None
        place = _place(node) if lets_gradients_through(node) else None
        if not place:
            return None
        indices = [leaf(np.array([k])) for k in place]
        x = node.inputs[0]
        if node.op is _SLICE:
            return reshape(_GATHER(x, *indices, checked=False), node.shape)
        rows = reshape(node.inputs[1], (1, *x.shape[len(place) :]))
        return _SCATTER(x, rows, *indices, checked=False)

    return with_replaced(order, roots, by_index_arrays)


def _places(order: Sequence[Node]) -> dict[Shape, list[Shape]]:
    """By shape of a small array: which of their rows, or elements, are assigned to."""
    found: dict[Shape, list[Shape]] = defaultdict(list)
    for node in order:
        if node.op is _UPDATE and node.type.size <= LARGEST_VALUE and node.type.device == CPU:
            place = _place(node)
            if place:
                found[node.shape].append(place)
    return found


def _place(node: Node) -> Shape:
    """Indices along the first axes of what is read or written, if it is all of the others."""
    x, starts = node.inputs[0], node.params["starts"]
    sizes = node.params["sizes"] if node.op is _SLICE else node.inputs[1].shape
    rank = len(sizes)
    while rank and sizes[rank - 1] == x.shape[rank - 1]:
        rank -= 1
    return starts[:rank] if all(size == 1 for size in sizes[:rank]) else ()


def _are_data(places: Sequence[Shape]) -> bool:
    """Whether many places do not follow from each other: at whatever distance, most are farther
    from one before, or nearer, than two ways that are the most frequent ones, as there and back."""
    if len(places) < FEWEST_STEPS or len({*map(len, places)}) > 1:
        return False
    numbers = np.array(places)
    for distance in range(1, min(_LONGEST_STEP, len(places) // 4) + 1):
        moves = Counter(map(tuple, (numbers[distance:] - numbers[:-distance]).tolist()))
        if 3 * sum([count for _, count in moves.most_common(2)]) > 2 * moves.total():
            return False
    return True
