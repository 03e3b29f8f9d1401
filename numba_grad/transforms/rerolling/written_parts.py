"""Parts of an array that the steps of a Python loop write, or add to, wherever they are.

    part = slice(r)                                for e in range(n):
    sum = add(part, x)          r = r + x, there       r[e : e + 2] += f(u[e : e + 2])
    r = update_slice(r, sum)

As recorded, each step reads what those before it have written, where parts overlap. But where
nobody looks at the array in between, a step needs nothing of the others: it only says what is added
where. So once a loop is found, the array after it has the sums of all steps, added at once. It is
the same with `k[i, j] = k[j, i] = f(x[i], x[j])`, where no element is written twice.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.graph.node import HOLDING, OPS, Node, leaf
from numba_grad.graph.survey import are_free
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import lets_gradients_through
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import broadcast_to, reshape
from numba_grad.ops.movement import region_params
from numba_grad.transforms.control_flow.independent_steps import adds
from numba_grad.transforms.loop_sizes import FEWEST_STEPS, LARGEST_VALUE
from numba_grad.transforms.rerolling.assigned_rows import MOST_PARTS
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_op_of = attrgetter("op")
_UPDATE, _SCATTER, _SLICE = OPS["update_slice"], OPS["scatter_set"], OPS["slice"]
_NEGATIVE, _FLIP, _CONCATENATE = OPS["negative"], OPS["flip"], OPS["concatenate"]
_Masks = dict[tuple[tuple[int, ...], bytes], Node]  # by shape and elements
_MOST_PLACES = 16  # that a step writes, where those of all steps are slices


class WrittenPart(NamedTuple):
    """What one assignment does to an array."""

    value: Node
    how: str  # "add", "subtract" or "set"
    shape: tuple[int, ...]  # of the part
    width: int  # elements of the rows that places are counted in
    places: np.ndarray  # numbers of rows of the array; none is there twice
    inside: tuple[Node, ...] = ()  # what was recorded for it, and nobody else reads


def parts_written_in(
    order: Sequence[Node], fixed: Collection[Node], read_at_calls: "ReadAtCalls | None"
) -> dict[Node, WrittenPart]:
    """By assignment, those of `order` that many others follow, each to what the one before left."""
    assignments = _small_assignments(order, read_at_calls)
    if len(assignments) < FEWEST_STEPS:
        return {}
    added = {x: _added(x, read_at_calls) for x in assignments}
    chains = _chains_of(added, order, fixed)
    fit = [x for x in chains if len(x) >= FEWEST_STEPS and (added[x[0]] or _is_fit(x))]
    return {x: _written(x, added[x], read_at_calls) for chain in fit for x in chain}


def _small_assignments(order: Sequence[Node], read_at_calls: "ReadAtCalls | None") -> list[Node]:
    """Those to few elements at places that are known; none if there are few, which most graphs
    have."""
    if {_UPDATE, _SCATTER}.isdisjoint(map(_op_of, order)):
        return []
    found = [
        x
        for x in order
        if (x.op is _UPDATE or x.op is _SCATTER) and 0 < x.inputs[1].type.size <= LARGEST_VALUE
    ]
    if len(found) < FEWEST_STEPS:
        return []
    return [x for x in found if x.op is _UPDATE or places_of_indices(x, read_at_calls) is not None]


def _chains_of(
    added: "Mapping[Node, _Addition | None]", order: Sequence[Node], fixed: Collection[Node]
) -> list[list[Node]]:
    """Assignments one after the other, each to what the one before left, which nobody else reads:
    all of a chain add to the array, or all set its elements."""
    readers = Counter([x for node in order for x in node.inputs])
    readers.update(fixed)
    chains: dict[Node, list[Node]] = {}  # by the last assignment
    for node, addition in added.items():
        array, inside = node.inputs[0], () if addition is None else addition.inside
        is_held = node in fixed or not all(are_free([node, *inside]))
        if is_held or node.type.device != CPU or any(readers[x] > 1 for x in inside):
            continue
        is_before = array in chains and (added[array] is None) == (addition is None)
        is_looked_at = readers[array] > 1 + bool(inside)
        chain = chains.pop(array) if is_before and not is_looked_at else []
        chains[node] = [*chain, node]
    return list(chains.values())


def _is_fit(chain: Sequence[Node]) -> bool:
    """Whether assignments are at places that other passes know nothing of: they know rows, written
    one after the other, in few parts."""
    if any(x.op is _SCATTER for x in chain):
        return True
    rows = [x.params["starts"][:1] for x in chain]
    parts = {(x.params["starts"][1:], x.inputs[1].type) for x in chain}
    changes = [x != y for x, y in itertools.pairwise(rows)]
    return len(parts) > MOST_PARTS and changes.count(True) >= len(set(rows))


def _is_each_once(numbers: np.ndarray) -> bool:
    # `np.unique` would import `numpy.ma`: 10 ms.
    is_there = np.zeros(numbers.max(initial=0) + 1, bool)
    is_there[numbers] = True
    return np.count_nonzero(is_there) == numbers.size


def _elements(written: WrittenPart) -> np.ndarray:
    """Their numbers in the array."""
    return (written.places[:, None] * written.width + np.arange(written.width)).ravel()


def _written(
    node: Node, addition: "_Addition | None", read_at_calls: "ReadAtCalls | None"
) -> WrittenPart:
    value = node.inputs[1]
    if node.op is _UPDATE:
        places = _places_of_region(node)
    else:
        places = places_of_indices(node, read_at_calls)
        assert places is not None
    width = value.type.size // len(places)
    if addition is None:
        return WrittenPart(value, "set", value.shape, width, places)
    return WrittenPart(
        addition.term, addition.node.op.name, addition.part.shape, width, places, addition.inside
    )


class _Addition(NamedTuple):
    """`x[part] + v`, where it is assigned to that part."""

    node: Node
    part: Node
    term: Node
    inside: tuple[Node, ...]  # all that was recorded for it


def _added(node: Node, read_at_calls: "ReadAtCalls | None") -> _Addition | None:
    """Of `x[part] = x[part] + v`."""
    array, new, *indices = node.inputs
    inside = [new]
    while new.op.name == "reshape" and new.inputs and lets_gradients_through(new):
        [new] = new.inputs
        inside.append(new)
    if new.op.name not in ("add", "subtract"):
        return None
    reads = OPS["gather"] if indices else _SLICE
    for part in new.inputs:
        if part.op is reads and part.inputs[:1] == (array,) and adds(new, part):
            region = {} if indices else {**node.params, "sizes": node.inputs[1].shape}
            is_same = all(part.params[key] == value for key, value in region.items())
            is_same = is_same and lets_gradients_through(part)
            if is_same and are_equal(part.inputs[1:], indices, read_at_calls):
                term = new.inputs[new.inputs[0] is part]
                return _Addition(new, part, term, (*inside, part))
    return None


def _places_of_region(node: Node) -> np.ndarray:
    """In rows of the last axes that it is all of."""
    array, part = node.inputs
    shape, starts, steps = array.shape, node.params["starts"], node.params["steps"]
    rank = len(shape)
    while rank and part.shape[rank - 1] == shape[rank - 1]:
        rank -= 1
    places = np.zeros((), np.int64)
    for axis in range(rank):
        indices = starts[axis] + steps[axis] * np.arange(part.shape[axis])
        places = places[..., None] * shape[axis] + indices
    return places.ravel()


def places_of_indices(node: Node, read_at_calls: "ReadAtCalls | None") -> np.ndarray | None:
    """None if they are not known, or name a row twice."""
    indices = [known_elements(x, read_at_calls) for x in node.inputs[2:]]
    known = [x.ravel() for x in indices if x is not None]
    if node.params["checked"] or len(known) < len(indices):
        return None
    places = np.ravel_multi_index(known, node.inputs[0].shape[: len(known)])
    return places if _is_each_once(places) else None


def are_equal(
    given: Sequence[Node], others: Sequence[Node], read_at_calls: "ReadAtCalls | None"
) -> bool:
    """Whether index arrays, of which the others are known, are the same."""
    if len(given) != len(others):
        return False
    pairs = [
        [known_elements(x, read_at_calls) for x in pair] for pair in zip(given, others, strict=True)
    ]
    return all(x is not None and y is not None and np.array_equal(x, y) for x, y in pairs)


def known_elements(x: Node, read_at_calls: "ReadAtCalls | None") -> np.ndarray | None:
    """The elements of an index array, if they are the same in all runs."""
    shape = x.shape
    if x.op.name == "broadcast_to" and x.inputs:
        [x] = x.inputs
    if x.op not in HOLDING or x.value is None or x.type.device != CPU:
        return None
    if read_at_calls is not None and read_at_calls.place_of(x) is not None:
        return None
    return np.broadcast_to(np.asarray(x.value), shape)


def with_written(array: Node, written: Sequence[tuple[Node, Sequence[WrittenPart]]]) -> Node:
    """`array` after assignments by all steps: for each of a step, its values one after the other,
    and what is known of them."""
    given = [_rows_of(array, values, parts) for values, parts in written]
    is_set = written[0][1][0].how == "set"
    if is_set:
        elements = [np.stack([*map(_elements, parts)]) for _, parts in written]
        is_each_once = _is_each_once(np.concatenate([x.ravel() for x in elements]))
        if not is_each_once or any(move is None for *_, move in given):
            return _with_any_set(array, [values for values, _ in written], elements)
    for values, places, move in given:
        _, number, width = values.shape
        rows = reshape(array, (array.type.size // width, width))
        if move is not None:
            for k in range(number):
                rows = _with_slice(rows, values, k, int(places[0, k]), move, is_set)
        else:
            flat, indices = reshape(values, (places.size, width)), leaf(places.ravel())
            rows = OPS["scatter_add"](rows, flat, indices, checked=False)
        array = reshape(rows, array.shape)
    return array


def _rows_of(
    array: Node, values: Node, parts: Sequence[WrittenPart]
) -> tuple[Node, np.ndarray, int | None]:
    """Values by step, place and row; the places by step; and how far they move from each step to
    the next, if that is the same and they are few."""
    first, count = parts[0], len(parts)
    own = values.shape[1:]
    fitting = (count, *(1,) * (len(first.shape) - len(own)), *own)
    values = broadcast_to(reshape(values, fitting), (count, *first.shape))
    values = _NEGATIVE(values) if first.how == "subtract" else values
    places, width = np.stack([x.places for x in parts]), first.width
    moves = np.diff(places, axis=0)
    move = int(moves[0, 0]) if (moves == moves[0, 0]).all() else None
    if move is not None and _are_blocks(places[0], move, array.type.size // width):
        places, width, move = places[:, ::move] // move, width * move, 1
    # Slices of few elements of many, as of a diagonal, take longer than an index array.
    is_fit = places.shape[1] <= _MOST_PLACES and 4 * places.size * width >= array.type.size
    return reshape(values, (*places.shape, width)), places, move if is_fit else None


def _with_any_set(array: Node, values: Sequence[Node], elements: Sequence[np.ndarray]) -> Node:
    """By one index array, of the elements of the array and of all values; `elements` says where
    the values go, by step and by place."""
    size = array.type.size
    sources, begins = [reshape(array, (size,))], {}
    numbers = []
    for x, own in zip(values, elements, strict=True):
        if x not in begins:
            begins[x] = sum([x.type.size for x in sources])
            sources.append(reshape(x, (x.type.size,)))
        numbers.append(begins[x] + np.arange(own.size).reshape(own.shape))
    indices = np.arange(size)
    # Step by step: of what is set twice, the last stays.
    indices[np.concatenate(elements, axis=1)] = np.concatenate(numbers, axis=1)
    if indices.min() >= size:  # nothing of the array is left
        sources, indices = sources[1:], indices - size
    source = _CONCATENATE(*sources, axis=0) if len(sources) > 1 else sources[0]
    return reshape(OPS["gather"](source, leaf(indices), checked=False), array.shape)


def _are_blocks(places: np.ndarray, move: int, count: int) -> bool:
    """Whether these, and those of the next steps, are blocks of `move` rows side by side, of which
    the array has a whole number."""
    is_whole = move > 1 and len(places) % move == places[0] % move == count % move == 0
    return is_whole and bool((np.diff(places) == 1).all())


def _with_slice(rows: Node, values: Node, k: int, first: int, move: int, is_set: bool) -> Node:
    """`rows` with the values of one place of each step, at equal distances."""
    count, _, width = values.shape
    starts, sizes = (0, k, 0), (count, 1, width)
    column = _SLICE(values, starts=starts, sizes=sizes, steps=(1, 1, 1), dropped=(1,))
    if move == 0:
        column = reshape(OPS["sum"](column, axes=(0,)), (1, width))
    elif move < 0:
        column, first = _FLIP(column, axes=(0,)), first + move * (count - 1)
    params = region_params((first, 0), (max(1, abs(move)), 1))
    return (_UPDATE if is_set else OPS["add_slice"])(rows, column, **params)


def with_known_places(
    order: Sequence[Node], roots: Collection[Node], read_at_calls: "ReadAtCalls | None"
) -> list[Node]:
    """`order`, inputs before users, where assignments by index arrays that are known, and name
    nothing twice, are sums (`x[i] += v`) or choices (`x[i] = y[i]`, `x[i] = 0`), as `with_replaced`
    says."""
    masks: _Masks = {}

    def sum_or_choice(node: Node) -> Node | None:
        if node.op is not _SCATTER or not all(are_free([node.inputs[1]])):
            return None
        return _sum_or_choice(node, masks, read_at_calls)

    return with_replaced(order, roots, sum_or_choice)


def _sum_or_choice(node: Node, masks: _Masks, read_at_calls: "ReadAtCalls | None") -> Node | None:
    places = places_of_indices(node, read_at_calls)
    array, value, *indices = node.inputs
    if places is None or not places.size or not array.type.size:
        return None
    added = _added(node, read_at_calls)
    if added is not None:
        if not all(are_free(added.inside)) or added.part.shape != value.shape:
            return None
        term = broadcast_to(added.term, value.shape)
        term = _NEGATIVE(term) if added.node.op.name == "subtract" else term
        return OPS["scatter_add"](array, term, *indices, checked=False)
    if not lets_gradients_through(value):
        return None
    if value.op.name == "broadcast_to" and value.inputs:
        [value] = value.inputs
    if value.op is OPS["gather"] and value.inputs and value.inputs[0].type is array.type:
        if not are_equal(value.inputs[1:], indices, read_at_calls):
            return None
        chosen = value.inputs[0]
    elif value.type.size == 1 and len(value.shape) <= len(array.shape):
        chosen = broadcast_to(value, array.shape)
    else:
        return None
    sizes = array.shape[: len(indices)]
    mask = np.zeros((prod(sizes), array.type.size // prod(sizes)), bool)
    mask[places] = True
    mask = mask.reshape(array.shape)
    condition = masks.setdefault((mask.shape, mask.tobytes()), leaf(mask))
    return OPS["where"](condition, chosen, array)
