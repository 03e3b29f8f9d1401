"""Each segment of a graph seen from inside: what it computes, what it reads from outside, what
others need of it.

All of it over arrays, for all segments at once. A segment's `key` does not depend on where it is,
so repeated steps of a loop have equal ones.
"""

from dataclasses import dataclass

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, Role
from numba_grad.compiler.partition.materialization import Sources, distinct
from numba_grad.compiler.partition.segments import FEW_BYTES, cut
from numba_grad.errors import InternalError
from numba_grad.graph.types import MOST_WRITTEN_OUT
from numba_grad.ops.custom_kernels import custom_kernel

# Of a step of Newton's method, matrices that a library call solves with. Sigma points in rows are a
# third to a half, and cut as numbers take 1.1 of the time.
FEW_IN_LOOPS = 1 / 8


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
    overwrites: bool  # whether it may write over an array from outside

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


def segment_graphs(graph: FlatGraph, *, is_straight: bool = False) -> list[SegmentGraph]:
    """The segments of a graph, in order. Every computed node is in one of them.

    `is_straight`: whether it may be straight-line code, which is not cut.
    """
    return _Segmentation(graph, is_straight=is_straight).graphs()


def has_several_segments(graph: FlatGraph) -> bool:
    return len(_Segmentation(graph).bounds) > 2


class _Segmentation:
    def __init__(self, graph: FlatGraph, *, is_straight: bool = False) -> None:
        self.graph = graph
        self.is_straight = is_straight
        self.sources = sources = Sources(graph)
        self.count = sources.count
        self.bounds = self.cut()
        # The segment of each computed node; of inputs and free nodes none, -1.
        self.segment_of = np.full(self.count, -1)
        self.segment_of[sources.computed] = np.repeat(
            np.arange(len(self.bounds) - 1), np.diff(self.bounds)
        )

    # Cutting

    def cut(self) -> np.ndarray:
        """Where segments start in `computed`, and its length."""
        computed = self.sources.computed
        bounds: list[int] = []
        end = 0
        # Who reads an assembly comes in a later segment than who computes its pieces.
        assembled = np.searchsorted(computed, self.graph.assemblies).tolist()
        forced = [*assembled, *self.callbacks()[1:]]
        for first, stop in sorted([*self.calls(), *zip(forced, forced, strict=True)]):
            bounds += [end + start for start in self.cut_run(end, first)[:-1]]
            if stop > first:
                bounds.append(first)
            end = stop
        bounds += [end + start for start in self.cut_run(end, len(computed))[:-1]]
        return np.array([*bounds, len(computed)])

    def callbacks(self) -> list[int]:
        """Where in `computed` Python is called: in the order of recording, of which a segment knows
        nothing."""
        signatures = self.graph.signatures[self.sources.computed]
        meanings = self.graph.table.meanings
        called = [x for x in np.unique(signatures).tolist() if _is_callback(meanings.get(x))]
        return np.flatnonzero(np.isin(signatures, called)).tolist() if called else []

    def calls(self) -> list[tuple[int, int]]:
        """Ranges in `computed` of the results of one call each: a segment of its own."""
        computed = self.sources.computed
        items = np.flatnonzero(self.sources.roles[computed] == Role.CALL_ITEM).tolist()
        result: list[tuple[int, int]] = []
        called = None
        for position in items:
            call = self.graph.calls[int(computed[position])]
            if call is called and result[-1][1] == position:
                result[-1] = (result[-1][0], position + 1)
            else:
                result.append((position, position + 1))
            called = call
        return result

    def cut_run(self, first: int, end: int) -> list[int]:
        """Where segments start within `computed[first:end]`, in which nothing is called; its
        length."""
        if end == first:
            return [0]
        run = self.sources.computed[first:end]
        low, high = np.searchsorted(self.sources.flow[:, 1], [run[0], run[-1] + 1])
        pairs = self.sources.flow[low:high]
        in_memory = (self.sources.roles[pairs] == Role.INPUT).any(axis=1)  # inputs, assemblies
        pairs = pairs[(pairs[:, 0] >= run[0]) & ~in_memory]
        hashes = self.graph.facts("hash", run)

        def are_small(start: int, stop: int) -> bool:
            return self.are_small(run[start:stop])

        def are_large(start: int, stop: int) -> bool:
            sizes = [self.graph.nodes[k].type.nbytes for k in run[start:stop].tolist()]
            return sum(sizes) > FEW_BYTES * len(sizes)

        def change_shape(start: int, stop: int) -> bool:
            nodes = self.graph.nodes
            own, after = run[start:stop].tolist(), run[stop : 2 * stop - start].tolist()
            pairs = zip(own, after, strict=False)  # of two periods, the last may have a part
            return any(nodes[k].shape != nodes[x].shape for k, x in pairs)

        return cut(
            hashes,
            np.searchsorted(run, pairs),
            is_straight=self.is_straight,
            are_small=are_small,
            are_large=are_large,
            change_shape=change_shape,
        )

    def are_small(self, positions: np.ndarray) -> bool:
        """Whether nearly all elements of these nodes are those of arrays that are written out."""
        sizes = np.array([self.graph.nodes[k].type.size for k in positions.tolist()], np.int64)
        return int(sizes[sizes > MOST_WRITTEN_OUT].sum()) <= FEW_IN_LOOPS * int(sizes.sum())

    # Segments from inside

    def graphs(self) -> list[SegmentGraph]:
        """What each segment holds. A pair (segment, node) is the number segment * count + node."""
        self.check_order()
        self.check_assemblies()
        own = self.members()
        own_segment, own_position = np.divmod(own, self.count)
        reads, reader = self.sources.reads_of(own_position)
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
        base = self.sources.view_base[outside_position]
        is_view = base >= 0
        arrays = np.where(is_view, base, outside_position)
        last_use = self.last_use()
        is_late = (self.segment_of[arrays] >= 0) & (last_use[arrays] < outside_segment)
        self.refuse(arrays[is_late], "is read after its last use")
        firsts = np.where(is_view, self.sources.view_start[outside_position], 0).tolist()
        signatures = self.graph.signatures[own_position]
        overwrites = np.zeros(len(self.bounds), bool)
        overwrites[own_segment[self.graph.facts("overwrites", own_position)]] = True
        needed_until = last_use[needed]
        degrees = self.sources.degrees[own_position].astype(np.int32)
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
                    arrays[around].tolist(),
                    firsts[around],
                    own_position[inside],
                    signatures[inside],
                    degrees[inside],
                    local_reads[ends[s] : ends[s + 1]],
                    needed[needed_bounds[s] : needed_bounds[s + 1]].tolist(),
                    needed_number[needed_bounds[s] : needed_bounds[s + 1]],
                    needed_until[needed_bounds[s] : needed_bounds[s + 1]].tolist(),
                    bool(overwrites[s]),
                )
            )
        return result

    def check_order(self) -> None:
        """Everything that is read is given, or computed before: segments are runs of the order."""
        users = np.repeat(np.arange(self.count), self.sources.degrees)
        self.refuse(users[self.sources.edges >= users], "reads what comes after it")
        is_known = self.segment_of >= 0
        is_known[[*self.graph.inputs, *self.graph.assemblies]] = True
        lost = self.sources.flow[~is_known[self.sources.flow[:, 0]], 1]
        self.refuse(lost, "reads what nothing computes")

    def check_assemblies(self) -> None:
        """Each element of an assembly is in one piece, which a segment writes."""
        if not self.graph.assemblies:
            return
        nodes, places, assemblies = self.graph.nodes, self.graph.places, self.graph.assemblies
        pieces = np.array(list(places), np.int64)
        self.refuse(pieces[self.segment_of[pieces] < 0], "is a piece that nothing computes")
        # All of them as one array: each piece begins where the one before ends.
        sizes = np.array([nodes[k].type.size for k in assemblies], np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        arrays, firsts = np.array(list(places.values()), np.int64).reshape(-1, 2).T
        begins = starts[np.searchsorted(assemblies, arrays)] + firsts
        ends = begins + np.array([nodes[k].type.size for k in places], np.int64)
        order = np.argsort(begins)
        wrong = np.append(begins[order], starts[-1]) != np.concatenate([[0], ends[order]])
        of = np.append(arrays[order], assemblies[-1])
        self.refuse(of[wrong], "has elements of no piece, or of two")

    def refuse(self, found: np.ndarray, problem: str) -> None:
        for k in found[:1].tolist():
            raise InternalError(f"segments: {self.graph.nodes[k]}, number {k}, {problem}")

    def is_outside(self, segments: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Whether these nodes, as these segments read them, are in memory already."""
        base = self.sources.view_base[positions]
        is_pointer = (base >= 0) & (self.segment_of[base] != segments)
        is_elsewhere = ~self.sources.is_free[positions] & (self.segment_of[positions] != segments)
        return is_pointer | is_elsewhere

    def members(self) -> np.ndarray:
        """Pairs of a segment and what it computes, sorted: the free nodes that it uses, too."""
        computed = self.segment_of[self.sources.computed] * self.count + self.sources.computed
        free = np.zeros(0, np.int64)
        new = computed
        while len(new):
            segments, positions = np.divmod(new, self.count)
            reads, reader = self.sources.reads_of(positions)
            segments = segments[reader]
            is_new = self.sources.is_free[reads] & ~self.is_outside(segments, reads)
            new = distinct(segments[is_new] * self.count + reads[is_new])
            new = new[np.isin(new, free, assume_unique=True, invert=True)]
            free = np.concatenate([free, new])
        return np.sort(np.concatenate([computed, free]))

    def outside(self, read_pairs: np.ndarray) -> np.ndarray:
        """Pairs of a segment and what it reads from outside, in order of first use."""
        pairs = read_pairs[self.is_outside(*np.divmod(read_pairs, self.count))]
        # Not by `np.unique`, for which NumPy imports its masked arrays: 6 ms.
        order = np.argsort(pairs, kind="stable")
        is_first = np.ones(len(pairs), bool)
        is_first[1:] = np.diff(pairs[order]) != 0
        return pairs[np.sort(order[is_first])]

    def last_use(self) -> np.ndarray:
        """For each computed node the segment that reads it last."""
        result = np.full(self.count, -1)
        np.maximum.at(result, self.sources.flow[:, 0], self.segment_of[self.sources.flow[:, 1]])
        result[self.graph.outputs] = len(self.bounds) - 1
        return result

    def needed(self) -> np.ndarray:
        """The computed nodes that another segment reads, or that are outputs, in order."""
        sources, users = self.sources.flow[:, 0], self.sources.flow[:, 1]
        home = self.segment_of[sources]
        is_needed = (home >= 0) & (home != self.segment_of[users])
        outputs = np.array(self.graph.outputs, np.int64)
        outputs = outputs[self.segment_of[outputs] >= 0]  # but for assemblies
        return distinct(np.concatenate([sources[is_needed], outputs]))


def _is_callback(meaning: object) -> bool:
    """Whether operations of this meaning, see `Signatures`, call Python."""
    if not isinstance(meaning, tuple) or meaning[0] is not custom_kernel:
        return False
    cpu = dict(meaning[1:])["kernel"].cpu
    return cpu is not None and cpu.in_python
