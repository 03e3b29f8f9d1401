"""Parts of an array that the steps of a Python loop add to: `r[e : e + 2] += f(u[e : e + 2])`.

    part = slice(r)
    sum = add(part, x)           r = r + x, at these places
    r = update_slice(r, sum)

As recorded, each step reads what those before it have written, where parts overlap. But where
nobody looks at the array in between, a step needs nothing of the others: it only says what is added
where. So once a loop is found, the array after it has the sums of all steps, added at once.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from numba_grad.graph.node import LEAF, OPS, Node, leaf
from numba_grad.graph.survey import are_free
from numba_grad.ops.families import broadcast_to, reshape
from numba_grad.ops.movement import region_params
from numba_grad.transforms.independent_steps import adds
from numba_grad.transforms.loop_sizes import FEWEST_STEPS, LARGEST_VALUE

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_UPDATE, _SCATTER, _SLICE = OPS["update_slice"], OPS["scatter_set"], OPS["slice"]
_ADD, _NEGATIVE, _FLIP = OPS["add"], OPS["negative"], OPS["flip"]
_MOST_PLACES = 16  # to which a step adds, where those of all steps are slices


class Addition(NamedTuple):
    """What one assignment adds to an array."""

    value: Node
    is_subtracted: bool
    shape: tuple[int, ...]  # of the part
    width: int  # elements of the rows that places are counted in
    places: np.ndarray  # numbers of rows of the array; none is there twice
    inside: tuple[Node, ...]  # what was recorded for it, and nobody else reads


def additions_in(
    order: Sequence[Node], fixed: Collection[Node], read_at_calls: "ReadAtCalls | None"
) -> dict[Node, Addition]:
    """By assignment, those of `order` that many others follow, each to what the one before left."""
    assignments = [x for x in order if x.op is _UPDATE or x.op is _SCATTER]
    if len(assignments) < FEWEST_STEPS:
        return {}
    found = {x: y for x in assignments if (y := _addition(x, read_at_calls)) is not None}
    if len(found) < FEWEST_STEPS:
        return {}
    readers = Counter([x for node in order for x in node.inputs])
    readers.update(fixed)
    chains: dict[Node, list[Node]] = {}  # by the last assignment
    for node, addition in found.items():
        array, inside = node.inputs[0], addition.inside
        is_held = node in fixed or not all(are_free([node, *inside]))
        if is_held or any(readers[x] > 1 for x in inside):
            continue
        chain = chains.pop(array, []) if readers[array] == 2 else []
        chains[node] = [*chain, node]
    return {x: found[x] for chain in chains.values() if len(chain) >= FEWEST_STEPS for x in chain}


def _addition(node: Node, read_at_calls: "ReadAtCalls | None") -> Addition | None:
    array, new, *indices = node.inputs
    inside = [new]
    while new.op.name == "reshape":
        [new] = new.inputs
        inside.append(new)
    if new.op.name not in ("add", "subtract") or not 0 < new.type.size <= LARGEST_VALUE:
        return None
    reads = OPS["gather"] if indices else _SLICE
    parts = [x for x in new.inputs if x.op is reads and x.inputs[0] is array and adds(new, x)]
    if not parts:
        return None
    part = parts[0]
    if indices:
        places = _places_of_indices(node, part, read_at_calls)
    else:
        region = {**node.params, "sizes": node.inputs[1].shape}
        is_same = all(part.params[key] == value for key, value in region.items())
        places = _places_of_region(node) if is_same else None
    if places is None:
        return None
    value, is_subtracted = new.inputs[new.inputs[0] is part], new.op is not _ADD
    width = part.type.size // len(places)
    return Addition(value, is_subtracted, part.shape, width, places, (*inside, part))


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


def _places_of_indices(
    node: Node, part: Node, read_at_calls: "ReadAtCalls | None"
) -> np.ndarray | None:
    """None if they are not known, not those of the part, or name a row twice."""
    if node.params["checked"]:
        return None
    given = [_known(x, read_at_calls) for x in node.inputs[2:]]
    again = [_known(x, read_at_calls) for x in part.inputs[1:]]
    known = [x.ravel() for x in given if x is not None]
    if len(known) < len(given) or len(again) != len(given):
        return None
    if not all(map(np.array_equal, given, again)):  # type: ignore[arg-type]
        return None
    places = np.ravel_multi_index(known, node.inputs[0].shape[: len(known)])
    return places if len(set(places.tolist())) == len(places) else None


def _known(x: Node, read_at_calls: "ReadAtCalls | None") -> np.ndarray | None:
    """The elements of an index array, if they are the same in all runs."""
    shape = x.shape
    if x.op.name == "broadcast_to":
        [x] = x.inputs
    if x.op is not LEAF or x.value is None:
        return None
    if read_at_calls is not None and read_at_calls.place_of(x) is not None:
        return None
    return np.broadcast_to(np.asarray(x.value), shape)


def with_additions(array: Node, values: Node, additions: Sequence[Addition]) -> Node:
    """`array` after those of all steps, with their values one after the other."""
    first, count = additions[0], len(additions)
    own = values.shape[1:]
    fitting = (count, *(1,) * (len(first.shape) - len(own)), *own)
    values = broadcast_to(reshape(values, fitting), (count, *first.shape))
    values = _NEGATIVE(values) if first.is_subtracted else values
    places, width = np.stack([x.places for x in additions]), first.width
    moves = np.diff(places, axis=0)
    move = int(moves[0, 0]) if (moves == moves[0, 0]).all() else None
    if move is not None and _are_blocks(places[0], move, array.type.size // width):
        places, width, move = places[:, ::move] // move, width * move, 1
    rows = reshape(array, (array.type.size // width, width))
    values = reshape(values, (*places.shape, width))
    if move is not None and places.shape[1] <= _MOST_PLACES:
        for k, place in enumerate(places[0].tolist()):
            rows = _with_slice(rows, values, k, place, move)
    else:
        flat, indices = reshape(values, (places.size, width)), leaf(places.ravel())
        rows = OPS["scatter_add"](rows, flat, indices, checked=False)
    return reshape(rows, array.shape)


def _are_blocks(places: np.ndarray, move: int, count: int) -> bool:
    """Whether these, and those of the next steps, are blocks of `move` rows side by side, of which
    the array has a whole number."""
    is_whole = move > 1 and len(places) % move == places[0] % move == count % move == 0
    return is_whole and bool((np.diff(places) == 1).all())


def _with_slice(rows: Node, values: Node, k: int, first: int, move: int) -> Node:
    """`rows` with the values of one place of each step, at equal distances."""
    count, _, width = values.shape
    starts, sizes = (0, k, 0), (count, 1, width)
    column = _SLICE(values, starts=starts, sizes=sizes, steps=(1, 1, 1), dropped=(1,))
    if move == 0:
        column = reshape(OPS["sum"](column, axes=(0,)), (1, width))
    elif move < 0:
        column, first = _FLIP(column, axes=(0,)), first + move * (count - 1)
    params = region_params((first, 0), (max(1, abs(move)), 1))
    return OPS["add_slice"](rows, column, **params)
