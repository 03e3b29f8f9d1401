"""What of a graph is computed into memory, and what everything else stands for.

Free nodes, most of all movements, have no memory: whoever reads one computes it, from the *sources*
below it. Which nodes are free decides what has to be kept from one segment to another.
"""

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, Role
from numba_grad.compiler.partition.roles import RENAMINGS
from numba_grad.graph.node import Node
from numba_grad.ops.movement import rotation_of

# A view of an array with more elements is a pointer into it; of a smaller one, which may lie in a
# block of small values, it is a position in that.
SMALL = 8
# Additions that each segment rather does again than read from memory.
CHEAP = 8
# What is read with a much larger array, and does not count.
MOST_WEIGHTS = 16
# Movements of movements that each segment does again. Of a delay line, which moves by one element
# in each step of a loop, each segment would do all of them, from the start of the loop on.
MOST_MOVEMENTS = 64
# More than there are: what is above a stored movement is counted from here on.
_ABOVE_STORED = 1 << 40


class Sources:
    """The roles of a graph's nodes, and how values flow between those in memory."""

    def __init__(self, graph: FlatGraph) -> None:
        self.graph = graph
        self.count = len(graph.nodes)
        self.degrees = np.diff(graph.starts)
        self.edges = graph.edges.astype(np.int64)
        self.roles = graph.facts("role")
        outputs = np.array(graph.outputs, np.int64)
        self.roles[outputs[self.roles[outputs] != Role.CALL_ITEM]] = Role.COMPUTED
        self.roles[self.parts_of_old_values()] = Role.COMPUTED
        self.roles[graph.stored] = Role.COMPUTED
        # In memory, but computed by no step of its own.
        self.roles[graph.assemblies] = Role.INPUT
        made_of = self.cheap()
        self.roles[list(made_of)] = Role.FREE
        # Arrays that are joined of several, of which such values are made: states with their ends.
        joined = {x for x, cost in made_of.values() if x is not None and cost and x not in made_of}
        self.roles[[x for x in joined if self.roles[x] == Role.FREE]] = Role.COMPUTED
        self.roles[self.repeated_movements()] = Role.COMPUTED
        self.is_free = (self.roles == Role.FREE) | (self.roles == Role.VIEW)
        self.computed = np.flatnonzero(
            (self.roles == Role.COMPUTED) | (self.roles == Role.CALL_ITEM)
        )
        self.view_base, self.view_start = self.views()
        self.flow = self.dependencies()

    def reads_of(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inputs of these nodes, one after the other, and for each the index of its reader in
        `positions`."""
        degrees = self.degrees[positions]
        owner = np.repeat(np.arange(len(positions)), degrees)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        return self.edges[self.graph.starts[positions][owner] + within], owner

    def parts_of_old_values(self) -> np.ndarray:
        """Slices of arrays that are assigned to. In memory they are all that has to be kept of the
        old value, which can then be written over."""
        changes = np.flatnonzero(self.graph.facts("writes"))
        changes = changes[self.degrees[changes] > 0]
        is_changed = np.zeros(self.count, bool)
        is_changed[self.edges[self.graph.starts[changes]]] = True
        is_changed &= (self.roles == Role.COMPUTED) | (self.roles == Role.CALL_ITEM)
        views = np.flatnonzero(self.roles == Role.VIEW)
        views = views[is_changed[self.edges[self.graph.starts[views]]]]
        nodes = self.graph.nodes
        wholes = self.edges[self.graph.starts[views]]
        return np.array(
            [
                k
                for k, whole in zip(views.tolist(), wholes.tolist(), strict=True)
                if is_part(nodes[k], nodes[whole])
            ],
            np.int64,
        )

    def cheap(self) -> dict[int, tuple[int | None, int]]:
        """Values that every segment may compute for itself: a few additions from one array. For
        each that array, if it is computed, and what it costs.

        Then that array is what stays in memory from one segment to another, most often the same one
        for many such values: a state instead of all differences of its neighbours, which the
        backward pass wants to have.
        """
        nodes = self.graph.nodes
        sizes = np.fromiter((node.type.size for node in nodes), np.int64, self.count)
        costs = self.graph.facts("cost")
        is_candidate = (self.roles == Role.COMPUTED) & (costs > 0) & (costs <= CHEAP)
        is_candidate[self.graph.outputs] = False
        is_candidate[self.graph.stored] = False
        is_free = (self.roles == Role.FREE) | (self.roles == Role.VIEW)
        root = self.roots(is_free)
        # Through concatenations as well, such as a roll.
        joins = is_free & (self.degrees > 1)
        candidates = np.flatnonzero((is_candidate | joins) & (sizes > SMALL))
        reads, reader = self.reads_of(candidates)
        # Single numbers are cheap to keep, and so are the weights of a stencil.
        read_sizes = sizes[root][reads]
        is_small = (read_sizes <= MOST_WEIGHTS) & (
            MOST_WEIGHTS * read_sizes <= sizes[candidates][reader]
        )
        matters = (read_sizes > 1) & ~is_small
        arrays: list[list[int]] = [[] for _ in candidates]
        for x, number in zip(root[reads[matters]].tolist(), reader[matters].tolist(), strict=True):
            arrays[number].append(x)
        is_input = (self.roles == Role.INPUT).tolist()
        may_be_kept = (self.roles == Role.COMPUTED).tolist()
        made_of: dict[int, tuple[int | None, int]] = {}
        # What costs too much in one step of a loop is cheap in none, so that steps stay equal: not
        # every other state made of the one before. By operations, the inputs' included.
        too_expensive: set[tuple[object, ...]] = set()
        for k, inputs, cost in zip(
            candidates.tolist(), arrays, costs[candidates].tolist(), strict=True
        ):
            sources: set[int | None] = set()
            for x in inputs:
                source, own_cost = made_of.get(x, (x, 0))
                sources.add(source)
                cost += own_cost
            sources.discard(None)
            if len(sources) > 1:
                # Of a movement: it may be kept where something is made of it.
                may_be_kept[k] = may_be_kept[k] or nodes[k].op.name == "concatenate"
                continue
            operations = self.operations(k)
            if cost > CHEAP:
                too_expensive.add(operations)
            if operations in too_expensive:
                continue
            source = sources.pop() if sources else None
            # Inputs of the graph stay anyway.
            if (
                source is None
                or is_input[source]
                or (
                    may_be_kept[source] and nodes[source].type.nbytes <= 1.25 * nodes[k].type.nbytes
                )
            ):
                made_of[k] = (source, cost)
        return made_of

    def operations(self, k: int) -> tuple[object, ...]:
        """What a node and its inputs do; of slices, wherever they end."""
        numbers, nodes = self.graph.signatures, self.graph.nodes
        own: list[object] = [int(numbers[k])]
        for x in self.graph.reads(k):
            params = nodes[x].params
            is_slice = nodes[x].op.name == "slice"
            own.append((params["starts"], params["steps"]) if is_slice else int(numbers[x]))
        return tuple(own)

    def repeated_movements(self) -> list[int]:
        """Movements to store, so that those below them are not done again by each segment that
        reads them: where there are too many, and from there on wherever the same operation comes
        again, so that the steps of a loop stay equal."""
        nodes = self.graph.nodes
        is_free = (self.roles == Role.FREE) | (self.roles == Role.VIEW)
        moving = np.flatnonzero(is_free & (self.degrees > 0))
        edges, signatures = self.edges.tolist(), self.graph.signatures[moving].tolist()
        starts, ends = self.graph.starts[moving].tolist(), self.graph.starts[moving + 1].tolist()
        below = [0] * self.count  # free nodes, at most
        repeated: set[int] = set()
        result = []
        for k, start, end, signature in zip(moving.tolist(), starts, ends, signatures, strict=True):
            count = 1
            for x in edges[start:end]:
                count += below[x]
            if count > MOST_MOVEMENTS and nodes[k].op.family == "movement":
                is_above = count > _ABOVE_STORED
                if signature in repeated or not is_above or count % _ABOVE_STORED > MOST_MOVEMENTS:
                    repeated.add(signature)
                    result.append(k)
                    count = _ABOVE_STORED
            below[k] = count
        return result

    def roots(self, is_free: np.ndarray) -> np.ndarray:
        """For each node what it is the same as: through free nodes with one input."""
        root = np.arange(self.count)
        is_link = is_free & (self.degrees == 1)
        root[is_link] = self.edges[self.graph.starts[:-1][is_link]]
        while True:
            further = root[root]
            if np.array_equal(further, root):
                return root
            root = further

    def views(self) -> tuple[np.ndarray, np.ndarray]:
        """For nodes that are one run of elements of an array in memory: that array, and the first
        element."""
        base = np.full(self.count, -1)
        start = np.zeros(self.count, np.int64)
        nodes = self.graph.nodes
        views = np.flatnonzero((self.roles == Role.VIEW) & ~self.ends_of_rotations())
        inputs = self.edges[self.graph.starts[views]]
        # (array, first element, whether it is a part of the array) of what is in one piece
        pieces: dict[int, tuple[int, int, bool]] = {}
        firsts: dict[tuple[int, tuple[int, ...]], int | None] = {}
        for k, x, signature in zip(
            views.tolist(),
            inputs.tolist(),
            self.graph.signatures[views].tolist(),
            strict=True,
        ):
            whole = nodes[x].shape
            # A parameter that is differentiated, most often. An input has no edge to follow, and
            # what is in memory under its new name need not be there under the other.
            while self.is_free[x] and self.degrees[x] and nodes[x].op.name in RENAMINGS:
                x = int(self.edges[self.graph.starts[x]])
            array, first, is_sliced = pieces.get(x, (x, 0, False))
            if array == x and self.is_free[x]:
                continue
            node = nodes[k]
            if node.op.name == "slice":
                key = (signature, whole)
                if key not in firsts:
                    firsts[key] = first_of_run(node, whole)
                further = firsts[key]
                if further is None:
                    continue
                first += further
                is_sliced = is_sliced or node.shape != whole
            pieces[k] = (array, first, is_sliced)
            if is_sliced and self.is_array(array) and is_part(node, nodes[array]):
                base[k], start[k] = array, first
        return base, start

    def ends_of_rotations(self) -> np.ndarray:
        """Which nodes are an end of an array that is read with its other end, by a rotation: as
        one pointer to the array."""
        result = np.zeros(self.count, bool)
        pairs = np.flatnonzero(self.is_free & (self.degrees == 2))
        first = self.graph.starts[pairs]
        parts = self.edges[first], self.edges[first + 1]
        of_views = (self.roles[parts[0]] == Role.VIEW) & (self.roles[parts[1]] == Role.VIEW)
        nodes = self.graph.nodes
        for k in pairs[of_views].tolist():
            if nodes[k].op.name == "concatenate" and rotation_of(nodes[k]) is not None:
                result[self.edges[self.graph.starts[k] : self.graph.starts[k + 1]]] = True
        return result

    def is_array(self, position: int) -> bool:
        """Whether this node is in memory of its own, rather than in a block of small values."""
        return self.roles[position] == Role.INPUT or self.graph.nodes[position].type.size > SMALL

    def dependencies(self) -> np.ndarray:
        """Pairs (computed node or input, computed node that reads it, maybe through free nodes), in
        the order of the readers."""
        root = self.roots(self.is_free)
        readers = np.repeat(np.arange(self.count), self.degrees)
        is_read = ~self.is_free[readers]
        sources, users = root[self.edges[is_read]], readers[is_read]
        # What is left of free nodes has several inputs, or none.
        parts: list[np.ndarray] = [np.stack([sources, users], axis=1)]
        while True:
            pairs = parts[-1]
            is_made_of_several = self.is_free[pairs[:, 0]]
            parts[-1] = pairs[~is_made_of_several]
            open_pairs = pairs[is_made_of_several]
            if not len(open_pairs):
                break
            reads, owner = self.reads_of(open_pairs[:, 0])
            further = distinct(root[reads] * self.count + open_pairs[owner, 1])
            parts.append(np.stack(np.divmod(further, self.count), axis=1))
        pairs = np.concatenate(parts)
        return pairs[np.argsort(pairs[:, 1], kind="stable")]


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The different ones of these numbers, in order. `np.unique` would import `numpy.ma`: 10 ms,
    and a fork meanwhile would leave a child that cannot."""
    numbers = np.sort(numbers)
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    return numbers[is_first]


def is_part(view: Node, array: Node) -> bool:
    """Whether a view is a small part, such as a row. Most of an array, such as `x[1:]`, is often
    read next to its other end: one pointer to the array, at two offsets."""
    return 2 * view.type.size <= array.type.size


def first_of_run(node: Node, whole: tuple[int, ...]) -> int | None:
    """Where a slice of an array of shape `whole` starts, in elements, if it lies in one piece:
    single elements, then one range, then whole axes."""
    part = node.params["sizes"]
    if any(step != 1 and n > 1 for step, n in zip(node.params["steps"], part, strict=True)):
        return None
    ranges = [axis for axis, n in enumerate(part) if n != 1]
    first = ranges[0] if ranges else len(part)
    if part[first + 1 :] != whole[first + 1 :]:
        return None
    start, stride = 0, 1
    for offset, n in zip(reversed(node.params["starts"]), reversed(whole), strict=True):
        start += offset * stride
        stride *= n
    return start
