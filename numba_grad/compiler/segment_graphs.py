"""Each segment of a graph seen from inside: what it computes, what it reads from outside, what
others need of it.

All of it over arrays, for all segments at once. A segment's `key` does not depend on where it is,
so repeated steps of a loop have equal ones.
"""

from dataclasses import dataclass

import numpy as np

from numba_grad.compiler.flat_graph import FlatGraph, Role
from numba_grad.compiler.segments import LONGEST_WHOLE, cut
from numba_grad.graph.node import Node

# A view of an array with more elements is a pointer into it; of a smaller one, which may lie in a
# block of small values, it is a position in that.
SMALL = 8
# Additions that each segment rather does again than read from memory.
CHEAP = 8


@dataclass(slots=True, eq=False)
class SegmentGraph:
    """One segment. Its nodes have local numbers: first what comes from outside, then its own.

    Positions are those of the whole graph.
    """

    number: int
    outside: np.ndarray  # positions of what it reads, as it reads it: maybe views
    arrays: list[int]  # for each: the array that it is in, a computed node or an input
    firsts: list[int]  # and from which element on
    own: np.ndarray  # positions of what it computes, free nodes too, in order
    signatures: np.ndarray  # of own nodes
    degrees: np.ndarray  # of each own node the number of inputs
    reads: np.ndarray  # local numbers of the inputs of own nodes, one after the other
    needed: list[int]  # positions of own nodes that others read, or that are outputs
    needed_numbers: np.ndarray  # their local numbers
    needed_until: list[int]  # the segment that reads them last; of outputs, the number of segments
    changes_arrays: bool  # whether it assigns to parts of arrays

    @property
    def key(self) -> tuple[bytes, ...]:
        """What is inside. With what is known of the outside, equal for segments that compile to the
        same."""
        return (
            self.signatures.tobytes(),
            self.degrees.tobytes(),
            self.reads.tobytes(),
            self.needed_numbers.tobytes(),
        )


def segment_graphs(graph: FlatGraph) -> list[SegmentGraph]:
    """The segments of a graph, in order. Every computed node is in one of them."""
    return _Segmentation(graph).graphs()


class _Segmentation:
    def __init__(self, graph: FlatGraph) -> None:
        self.graph = graph
        self.count = len(graph.nodes)
        self.degrees = np.diff(graph.starts)
        self.users = np.repeat(np.arange(self.count), self.degrees)
        self.edges = graph.edges.astype(np.int64)
        self.roles = np.array(graph.table.roles, np.int8)[graph.signatures]
        outputs = np.array(graph.outputs, np.int64)
        self.roles[outputs[self.roles[outputs] != Role.CALL_ITEM]] = Role.COMPUTED
        self.roles[self.parts_of_old_values()] = Role.COMPUTED
        self.roles[self.cheap()] = Role.FREE
        self.is_free = (self.roles == Role.FREE) | (self.roles == Role.VIEW)
        self.computed = np.flatnonzero(
            (self.roles == Role.COMPUTED) | (self.roles == Role.CALL_ITEM)
        )
        self.view_base, self.view_start = self.views()
        self.flow = self.dependencies()
        # The segment of each computed node; of inputs and free nodes none, -1.
        self.segment_of = np.full(self.count, -1)
        self.bounds = self.cut()
        self.segment_of[self.computed] = np.repeat(
            np.arange(len(self.bounds) - 1), np.diff(self.bounds)
        )

    # What free nodes stand for

    def parts_of_old_values(self) -> np.ndarray:
        """Slices of arrays that are assigned to. In memory they are all that has to be kept of the
        old value, which can then be written over."""
        changes = np.flatnonzero(np.array(self.graph.table.writes)[self.graph.signatures])
        changes = changes[self.degrees[changes] > 0]
        is_changed = np.zeros(self.count, bool)
        is_changed[self.edges[self.graph.starts[changes]]] = True
        is_changed &= (self.roles == Role.COMPUTED) | (self.roles == Role.CALL_ITEM)
        views = np.flatnonzero(self.roles == Role.VIEW)
        views = views[is_changed[self.edges[self.graph.starts[views]]]]
        nodes = self.graph.nodes
        return np.array(
            [k for k in views.tolist() if 2 * nodes[k].type.size <= nodes[k].inputs[0].type.size],
            np.int64,
        )

    def cheap(self) -> list[int]:
        """Values that every segment may compute for itself: a few additions from one array.

        Then that array is what stays in memory from one segment to another, most often the same one
        for many such values: a state instead of all differences of its neighbours, which the
        backward pass wants to have.
        """
        nodes, starts = self.graph.nodes, self.graph.starts
        sizes = np.fromiter((node.type.size for node in nodes), np.int64, self.count)
        costs = np.array(self.graph.table.costs)[self.graph.signatures]
        is_candidate = (self.roles == Role.COMPUTED) & (costs > 0) & (costs <= CHEAP)
        is_candidate[self.graph.outputs] = False
        root = self.roots((self.roles == Role.FREE) | (self.roles == Role.VIEW))
        # For each cheap node the array that it is made of, if that is computed, and its cost.
        made_of: dict[int, tuple[int | None, int]] = {}
        for k in np.flatnonzero(is_candidate & (sizes > SMALL)).tolist():
            sources: set[int | None] = set()
            cost = int(costs[k])
            for x in root[self.edges[starts[k] : starts[k + 1]]].tolist():
                if sizes[x] > 1 and self.roles[x] != Role.INPUT:
                    source, own_cost = made_of.get(x, (x, 0))
                    sources.add(source)
                    cost += own_cost
            sources.discard(None)
            if cost > CHEAP or len(sources) > 1:
                continue
            source = sources.pop() if sources else None
            if source is None or self.is_as_small(source, k):
                made_of[k] = (source, cost)
        return list(made_of)

    def is_as_small(self, source: int, k: int) -> bool:
        """Whether `source` takes no more memory than node `k`, and can be read at any place."""
        if self.roles[source] != Role.COMPUTED:
            return False
        nodes = self.graph.nodes
        return nodes[source].type.nbytes <= 1.25 * nodes[k].type.nbytes

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
        views = np.flatnonzero(self.roles == Role.VIEW)
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
            array, first, is_sliced = pieces.get(x, (x, 0, False))
            if array == x and self.is_free[x]:
                continue
            node = nodes[k]
            if node.op.name == "slice":
                key = (signature, node.inputs[0].shape)
                if key not in firsts:
                    firsts[key] = first_of_run(node)
                further = firsts[key]
                if further is None:
                    continue
                first += further
                is_sliced = is_sliced or node.shape != node.inputs[0].shape
            pieces[k] = (array, first, is_sliced)
            if is_sliced and self.is_array(array):
                base[k], start[k] = array, first
        return base, start

    def is_array(self, position: int) -> bool:
        """Whether this node is in memory of its own, rather than in a block of small values."""
        return self.roles[position] == Role.INPUT or self.graph.nodes[position].type.size > SMALL

    def dependencies(self) -> np.ndarray:
        """Pairs (computed node or input, computed node that reads it, maybe through free nodes), in
        the order of the readers."""
        root = self.roots(self.is_free)
        is_read = ~self.is_free[self.users]
        sources, users = root[self.edges[is_read]], self.users[is_read]
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
            further_pairs = np.stack([root[reads], open_pairs[owner, 1]], axis=1)
            parts.append(np.unique(further_pairs, axis=0))
        pairs = np.concatenate(parts)
        return pairs[np.argsort(pairs[:, 1], kind="stable")]

    def reads_of(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inputs of these nodes, one after the other, and for each the index of its reader in
        `positions`."""
        degrees = self.degrees[positions]
        owner = np.repeat(np.arange(len(positions)), degrees)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        return self.edges[self.graph.starts[positions][owner] + within], owner

    # Cutting

    def cut(self) -> np.ndarray:
        """Where segments start in `computed`, and its length."""
        is_item = self.roles[self.computed] == Role.CALL_ITEM
        bounds: list[int] = []
        position = 0
        while position < len(self.computed):
            if is_item[position]:
                bounds.append(position)
                position = self.end_of_call(position)
                continue
            following = np.flatnonzero(is_item[position:])
            end = position + int(following[0]) if len(following) else len(self.computed)
            bounds += [position + first for first in self.cut_run(position, end)[:-1]]
            position = end
        return np.array([*bounds, len(self.computed)])

    def end_of_call(self, position: int) -> int:
        """Where in `computed` the results of the call end whose first one is at `position`."""
        nodes = self.graph.nodes
        called = nodes[self.computed[position]].inputs[0]
        while position < len(self.computed):
            node = nodes[self.computed[position]]
            if not node.inputs or node.inputs[0] is not called:
                break
            position += 1
        return position

    def cut_run(self, first: int, end: int) -> list[int]:
        """Where segments start within `computed[first:end]`, in which nothing is called."""
        if end - first <= LONGEST_WHOLE:
            return [0, end - first]
        run = self.computed[first:end]
        low, high = np.searchsorted(self.flow[:, 1], [run[0], run[-1] + 1])
        pairs = self.flow[low:high]
        pairs = pairs[(pairs[:, 0] >= run[0]) & (self.roles[pairs[:, 0]] != Role.INPUT)]
        hashes = np.array(self.graph.table.hashes, np.int64)[self.graph.signatures[run]]
        return cut(hashes, np.searchsorted(run, pairs))

    # Segments from inside

    def graphs(self) -> list[SegmentGraph]:
        """What each segment holds. A pair (segment, node) is the number segment * count + node."""
        own = self.members()
        own_segment, own_position = np.divmod(own, self.count)
        reads, reader = self.reads_of(own_position)
        read_pairs = own_segment[reader] * self.count + reads
        outside = self.outside(read_pairs)
        outside_segment, outside_position = np.divmod(outside, self.count)
        segments = np.arange(len(self.bounds))
        own_bounds = np.searchsorted(own_segment, segments)
        outside_bounds = np.searchsorted(outside_segment, segments)
        # Local numbers: what comes from outside, in order of first use, then what is inside.
        first_own = np.diff(outside_bounds) - own_bounds[:-1]
        own_number = np.arange(len(own)) + first_own[own_segment]
        outside_number = np.arange(len(outside)) - outside_bounds[outside_segment]
        by_pair = np.argsort(np.concatenate([own, outside]))
        pairs = np.concatenate([own, outside])[by_pair]
        numbers = np.concatenate([own_number, outside_number])[by_pair].astype(np.int32)
        local_reads = numbers[np.searchsorted(pairs, read_pairs)]
        needed = self.needed()
        needed_segment = self.segment_of[needed]
        needed_bounds = np.searchsorted(needed_segment, segments).tolist()
        needed_number = numbers[np.searchsorted(pairs, needed_segment * self.count + needed)]
        base = self.view_base[outside_position]
        is_view = base >= 0
        arrays = np.where(is_view, base, outside_position).tolist()
        firsts = np.where(is_view, self.view_start[outside_position], 0).tolist()
        signatures = self.graph.signatures[own_position]
        changes = np.zeros(len(self.bounds), bool)
        changes[own_segment[np.array(self.graph.table.writes)[signatures]]] = True
        needed_until = self.last_use()[needed]
        degrees = self.degrees[own_position].astype(np.int32)
        ends = np.concatenate([[0], np.cumsum(degrees)])[own_bounds].tolist()
        own_ends, outside_ends = own_bounds.tolist(), outside_bounds.tolist()
        result = []
        for s in range(len(self.bounds) - 1):
            inside = slice(own_ends[s], own_ends[s + 1])
            around = slice(outside_ends[s], outside_ends[s + 1])
            result.append(
                SegmentGraph(
                    s,
                    outside_position[around],
                    arrays[around],
                    firsts[around],
                    own_position[inside],
                    signatures[inside],
                    degrees[inside],
                    local_reads[ends[s] : ends[s + 1]],
                    needed[needed_bounds[s] : needed_bounds[s + 1]].tolist(),
                    needed_number[needed_bounds[s] : needed_bounds[s + 1]],
                    needed_until[needed_bounds[s] : needed_bounds[s + 1]].tolist(),
                    bool(changes[s]),
                )
            )
        return result

    def is_outside(self, segments: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Whether these nodes, as these segments read them, are in memory already."""
        base = self.view_base[positions]
        is_pointer = (base >= 0) & (self.segment_of[base] != segments)
        is_elsewhere = ~self.is_free[positions] & (self.segment_of[positions] != segments)
        return is_pointer | is_elsewhere

    def members(self) -> np.ndarray:
        """Pairs of a segment and what it computes, sorted: the free nodes that it uses, too."""
        computed = self.segment_of[self.computed] * self.count + self.computed
        free = np.zeros(0, np.int64)
        new = computed
        while len(new):
            segments, positions = np.divmod(new, self.count)
            reads, reader = self.reads_of(positions)
            segments = segments[reader]
            is_new = self.is_free[reads] & ~self.is_outside(segments, reads)
            new = np.setdiff1d(segments[is_new] * self.count + reads[is_new], free)
            free = np.concatenate([free, new])
        return np.sort(np.concatenate([computed, free]))

    def outside(self, read_pairs: np.ndarray) -> np.ndarray:
        """Pairs of a segment and what it reads from outside, in order of first use."""
        pairs = read_pairs[self.is_outside(*np.divmod(read_pairs, self.count))]
        pairs, first = np.unique(pairs, return_index=True)
        return pairs[np.argsort(first)]

    def last_use(self) -> np.ndarray:
        """For each computed node the segment that reads it last."""
        result = np.full(self.count, -1)
        np.maximum.at(result, self.flow[:, 0], self.segment_of[self.flow[:, 1]])
        result[self.graph.outputs] = len(self.bounds) - 1
        return result

    def needed(self) -> np.ndarray:
        """The computed nodes that another segment reads, or that are outputs, in order."""
        sources, users = self.flow[:, 0], self.flow[:, 1]
        home = self.segment_of[sources]
        is_needed = (home >= 0) & (home != self.segment_of[users])
        outputs = np.array(self.graph.outputs, np.int64)
        return np.unique(np.concatenate([sources[is_needed], outputs]))


def first_of_run(node: Node) -> int | None:
    """Where a slice starts, in elements, if it lies in one piece: single elements, then one range,
    then whole axes."""
    part, whole = node.shape, node.inputs[0].shape
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
