"""Other orders of a graph, in which steps have what belongs to them.

A loop over rows that were taken one after the other before it, and one that takes parts of what
another loop has left in a list, are steps beside slices that stand elsewhere.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from numba_grad.graph.node import OPS, Node

_SLICE = OPS["slice"]


def other_orders(
    order: Sequence[Node], fixed: Collection[Node], fewest: int
) -> Iterator[tuple[Sequence[Node], Collection[Node]]]:
    """Those in which there may be loops of at least so many steps that `order` does not show, each
    with what stands before others that were recorded earlier."""
    rows_moved = _rows_next_to_readers(order, fewest)
    if rows_moved is not None:
        yield rows_moved, ()
    parts_moved = _parts_next_to_sources(order, fixed, fewest)
    if parts_moved is not None:
        yield parts_moved


def _rows_next_to_readers(order: Sequence[Node], fewest: int) -> Sequence[Node] | None:
    """The same order, but that many rows of an array, taken one after the other before a loop
    (`list(x)`, or what a loop before has left), come where they are first read. None if there are
    none that others read in this order or from the last to the first, one in each step."""
    rows = {x for run in _runs_of_rows(order) if len(run) >= fewest for x in run}
    if not rows:
        return None
    readers: dict[Node, int] = {}
    for number, node in enumerate(order):
        for x in node.inputs:
            if x in rows:
                readers.setdefault(x, number)
    found = [readers[x] for x in order if x in readers]
    gaps = Counter([after - before for before, after in itertools.pairwise(found)])
    [(gap, times)] = gaps.most_common(1) or [(0, 0)]
    if abs(gap) < 2 or times < fewest - 1:
        return None
    moved: dict[Node, None] = {}
    for node in order:
        if node not in readers:
            moved.update(dict.fromkeys([x for x in node.inputs if x in readers]))
            moved[node] = None
    return [*moved]


def _runs_of_rows(order: Sequence[Node]) -> list[list[Node]]:
    """Slices of one array each that stand one after the other."""
    runs: list[list[Node]] = []
    before: Node | None = None
    for node in order:
        if node.op is _SLICE:
            if before is not None and before.op is _SLICE and before.inputs == node.inputs:
                runs[-1].append(node)
            else:
                runs.append([node])
        before = node
    return runs


def _parts_next_to_sources(
    order: Sequence[Node], fixed: Collection[Node], fewest: int
) -> tuple[Sequence[Node], Collection[Node]] | None:
    """The same order, but that parts that are taken of what a loop has left, of each value one
    (`[y[0] for y in states]`), come right after it, so that steps leave the part alone; and
    these parts. None if there are none."""
    alike: dict[object, list[Node]] = {}  # by their types
    for node in order:
        if node.op is _SLICE and 2 * node.type.size <= node.inputs[0].type.size:
            alike.setdefault((node.type, node.inputs[0].type), []).append(node)
    if max(map(len, alike.values()), default=0) < fewest:
        return None
    numbers = {x: number for number, x in enumerate(order)}
    readers = Counter(itertools.chain.from_iterable([x.inputs for x in order]))
    parts: dict[Node, Node] = {}  # by what they are parts of
    for slices in alike.values():
        nodes = [
            x
            for x in slices
            if x not in fixed and x.inputs[0] in numbers and readers[x.inputs[0]] == 1
        ]
        # All of them are taken once all of that is computed.
        if len(nodes) >= fewest:
            last = max([numbers[x.inputs[0]] for x in nodes])
            if numbers[nodes[0]] > last:
                parts |= {x.inputs[0]: x for x in nodes}
    if not parts:
        return None
    moved = set(parts.values())
    found: list[Node] = []
    for node in order:
        if node not in moved:
            found.append(node)
            if node in parts:
                found.append(parts[node])
    return found, moved
