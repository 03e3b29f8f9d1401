"""What steps assign to elements of small arrays that masks select, where the masks are known.

    part = gather(pack, i)              all = where(mask, pack, 1)
    new = multiply(part, rate)          new = multiply(all, rate)
    pack = scatter_set(pack, new, i)    pack = where(mask, new, pack)

As recorded, each step computes as many elements as its mask selects (`pack[rain > 0] += ...`), and
no two steps of different numbers are alike. Computed for all elements, they are steps of one loop,
which read their masks. The ones keep what is not selected, and its derivatives, from failing.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.graph.node import HOLDING, OPS, SERIALS_A_NODE, Node, leaf
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import lets_gradients_through, rebuilt
from numba_grad.ops.families import broadcast_to, full
from numba_grad.transforms.loop_sizes import FEWEST_STEPS, LARGEST_VALUE
from numba_grad.transforms.rerolling.written_parts import known_elements, places_of_indices
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_GATHER, _SCATTER, _WHERE = OPS["gather"], OPS["scatter_set"], OPS["where"]
_SLICE, _UPDATE, _BROADCAST = OPS["slice"], OPS["update_slice"], OPS["broadcast_to"]
_SUM = OPS["sum"]
# Of one value: a state may have as many elements as are selected, and the past of all steps.
_MOST_OPERATIONS = 2 * SERIALS_A_NODE
_ASSIGNMENTS = (_SCATTER, _UPDATE, _WHERE)


def with_known_selections(
    order: Sequence[Node], roots: Collection[Node], read_at_calls: "ReadAtCalls | None"
) -> list[Node] | None:
    """`order`, inputs before users, where such assignments are choices among all elements, and
    sums of what is selected are sums of all, as `with_replaced` says; None if there are none of
    different numbers."""
    numbers: dict[tuple[int, ...] | None, list[int]] = defaultdict(list)
    for node in order:
        if node.op is _SCATTER and node.type.size <= LARGEST_VALUE and node.type.device == CPU:
            numbers[node.shape].append(node.inputs[1].type.size)
        elif _is_sum(node) and node.type.device == CPU:
            numbers[None].append(node.inputs[0].type.size)
    fit = {x for x, own in numbers.items() if len(own) >= FEWEST_STEPS and len({*own}) > 1}
    if not fit:
        return None
    is_replaced = False

    def among_all(node: Node) -> Node | None:
        nonlocal is_replaced
        new = None
        if None in fit and _is_sum(node):
            new = _sum(node, read_at_calls)
        elif node.op in _ASSIGNMENTS and node.shape in fit and lets_gradients_through(node):
            new = _choice(node, read_at_calls)
        is_replaced |= new is not None
        return new

    found = with_replaced(order, roots, among_all)
    return found if is_replaced else None


def _choice(node: Node, read_at_calls: "ReadAtCalls | None") -> Node | None:
    """An assignment, among all."""
    assigned = _assigned(node, read_at_calls)
    if assigned is None:
        return None
    array, value, sizes, places = assigned
    selection = _Selection(sizes, places, read_at_calls)
    chosen = selection.for_all(value)
    return None if chosen is None else selection.choice(chosen, array)


def _is_sum(node: Node) -> bool:
    """Of all that there is."""
    return node.op is _SUM and not node.shape and lets_gradients_through(node)


def _sum(node: Node, read_at_calls: "ReadAtCalls | None") -> Node | None:
    """Of what is selected, among all."""
    [x] = node.inputs
    read = _first_read(x)
    if read is None or read.inputs[0].type.size > LARGEST_VALUE:
        return None
    sizes = read.inputs[0].shape[: max(1, len(read.inputs) - 1)]
    places = _places_read(read, sizes, read_at_calls)
    if places is None:
        return None
    selection = _Selection(sizes, places, read_at_calls)
    chosen = selection.for_all(x)
    if chosen is None:
        return None
    counted = selection.choice(chosen, full(0, chosen.shape, chosen.dtype))
    return _SUM(counted, axes=(*range(len(chosen.shape)),))


def _first_read(x: Node) -> Node | None:
    """A selection that `x` is computed of, element by element."""
    seen, stack = {x}, [x]
    while stack and len(seen) <= _MOST_OPERATIONS:
        y = stack.pop()
        if y.op is _GATHER or y.op is _SLICE:
            return y if y.shape[:1] == x.shape[:1] else None
        if y.op.family == "elementwise":
            new = [z for z in y.inputs if z not in seen and z.shape]
            seen.update(new)
            stack += new
    return None


def _places_read(
    x: Node, sizes: tuple[int, ...], read_at_calls: "ReadAtCalls | None"
) -> np.ndarray | None:
    """By a gather or a slice, among axes of these sizes, if they are known."""
    if x.op is _SLICE:
        return _places_of_rows(x) if len(sizes) == 1 else None
    indices = [known_elements(y, read_at_calls) for y in x.inputs[1:]]
    known = [y for y in indices if y is not None]
    if x.params["checked"] or len(known) != len(indices) or len(known) != len(sizes):
        return None
    return np.ravel_multi_index(known, sizes)


def _assigned(
    node: Node, read_at_calls: "ReadAtCalls | None"
) -> tuple[Node, Node, tuple[int, ...], np.ndarray] | None:
    """The array before, what is assigned, and to which places among axes of which sizes."""
    if node.op is _WHERE:  # what is assigned to one element is chosen as a number is
        mask, value, array = node.inputs
        value = value.inputs[0] if value.op is _BROADCAST else value
        known = known_elements(mask, read_at_calls)
        if known is None or value.shape != (1,) or np.count_nonzero(known) != 1:
            return None
        return array, value, mask.shape, np.flatnonzero(known)
    array, value, *indices = node.inputs
    # Of neighbours an index array is recorded as a slice.
    places = places_of_indices(node, read_at_calls) if indices else _places_of_rows(node)
    return None if places is None else (array, value, array.shape[: len(indices) or 1], places)


def _places_of_rows(node: Node) -> np.ndarray | None:
    """Of a region that is written or read, if it is whole rows."""
    shape, params = node.inputs[0].shape, node.params
    sizes = params["sizes"] if node.op is _SLICE else node.inputs[1].shape
    if sizes[1:] != shape[1:] or params.get("dropped"):
        return None
    return params["starts"][0] + params["steps"][0] * np.arange(sizes[0])


class _Selection:
    """Elements, or rows, of arrays that begin with axes of these `sizes`."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        places: np.ndarray,
        read_at_calls: "ReadAtCalls | None",
    ) -> None:
        self._sizes = sizes
        self._places = places
        self._read_at_calls = read_at_calls
        self._done: dict[Node, Node | None] = {}

    def choice(self, chosen: Node, otherwise: Node) -> Node:
        """Of two arrays."""
        shape = otherwise.shape
        mask = np.zeros((prod(self._sizes), prod(shape[len(self._sizes) :])), np.bool_)
        mask[self._places] = True
        return _WHERE(leaf(mask.reshape(shape)), broadcast_to(chosen, shape), otherwise)

    def for_all(self, x: Node) -> Node | None:
        """What is `x` where the array is selected; None where that cannot be told."""
        if x not in self._done:
            if len(self._done) == _MOST_OPERATIONS:
                return None
            self._done[x] = None
            self._done[x] = self._for_all(x)
        return self._done[x]

    def _for_all(self, x: Node) -> Node | None:
        if x.type.size == 1 and not x.shape:
            return x
        if x.shape[:1] != self._places.shape:
            return None
        shape = (*self._sizes, *x.shape[1:])
        if x.op in HOLDING and x.value is not None:
            return self._of_constant(x, shape)
        if not lets_gradients_through(x):
            return None
        if x.op is _BROADCAST and x.inputs[0].type.size == 1:
            return broadcast_to(x.inputs[0], shape) if not x.inputs[0].shape else None
        if x.op is _GATHER or x.op is _SLICE:
            if x.inputs[0].shape != shape:
                return None
            places = _places_read(x, self._sizes, self._read_at_calls)
            if places is None or not np.array_equal(places, self._places):
                return None
            return self.choice(x.inputs[0], full(1, shape, x.dtype))
        if x.op.family != "elementwise":
            return None
        inputs = [self.for_all(y) for y in x.inputs]
        known = tuple([y for y in inputs if y is not None])
        return rebuilt(x, known, {}) if len(known) == len(inputs) else None

    def _of_constant(self, x: Node, shape: tuple[int, ...]) -> Node | None:
        elements = known_elements(x, self._read_at_calls)
        if elements is None:
            return None
        found = np.ones((prod(self._sizes), *x.shape[1:]), x.dtype)
        found[self._places] = elements
        return leaf(found.reshape(shape))
