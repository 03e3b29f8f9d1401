"""Changes to a graph that put arrays together in memory, until all of them are made at once; and in
which order of axes a region of an array is a run of elements, which a piece is in memory.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, Role
from numba_grad.compiler.partition.roles import RENAMINGS
from numba_grad.graph.node import OPS, Node, Op, argument, record
from numba_grad.graph.types import array_type
from numba_grad.immutable import immutable

# As many pieces are written out in one place, as axes of as many elements are.
MOST_PIECES = 16
# But no more than a few where others are computed between them: a segment that has one of them
# would copy those before it, and be another one than that of the next.
MOST_DISTANT_PIECES = 6

# A position in the graph, or -1 - k for the k-th node that is put in.
Reference = int


class AssemblyRewriting:
    """Changes to a graph, until all of them are made at once."""

    def __init__(self, graph: FlatGraph) -> None:
        self.graph = graph
        self.inputs: dict[Reference, list[Reference]] = {}  # where they are others
        self.nodes: dict[Reference, Node] = {}  # where they are others, and those put in
        self.before: list[int] = []  # of each node that is put in: the position that it precedes
        self.in_memory: set[Reference] = set()  # assemblies, and what nobody reads any more
        self.assemblies: list[Reference] = []
        self.stored: list[Reference] = []  # what must be computed into memory
        self.places: dict[Reference, tuple[Reference, int]] = dict(graph.places)
        self.outputs = set(graph.outputs)

    def node(self, k: Reference) -> Node:
        return self.nodes[k] if k < 0 or k in self.nodes else self.graph.nodes[k]

    def inputs_of(self, k: Reference) -> list[Reference]:
        found = self.inputs.get(k)
        if found is None:
            starts = self.graph.starts
            found = self.graph.edges[starts[k] : starts[k + 1]].tolist()
        return found

    def role(self, k: Reference) -> int:
        if k in self.in_memory:
            return Role.INPUT
        if k in self.nodes:
            return Role.COMPUTED if self.nodes[k].op.family == "elementwise" else Role.FREE
        return int(self.graph.table.facts["role"][self.graph.signatures[k]])

    def change(self, k: Reference, op: Op, inputs: list[Reference], **params: object) -> None:
        """Let position `k` be another operation."""
        self.nodes[k] = record(op, tuple([argument(self.node(x).type) for x in inputs]), params)
        self.inputs[k] = inputs

    def put_in(self, before: int, op: Op, inputs: list[Reference], **params: object) -> Reference:
        """A new node, computed before the one at a position."""
        self.before.append(before)
        k = -len(self.before)
        self.change(k, op, inputs, **params)
        return k

    def drop(self, k: Reference) -> None:
        self.inputs[k] = []
        self.in_memory.add(k)

    def assemble(self, k: Reference, before: int, pieces: list[tuple[Reference, int]]) -> None:
        """Let `k` be an assembly of pieces, each with its first element."""
        self.in_memory.add(k)
        self.assemblies.append(k)
        self.inputs[k] = [self.placed(piece, k, first, before) for piece, first in pieces]

    def placed(self, piece: Reference, assembly: Reference, first: int, before: int) -> Reference:
        """What computes a piece right into its place: the piece, what it is but for its shape, or
        else a copy."""
        origin = piece
        while not self.may_be_placed(origin) and self.is_only_another_shape(origin):
            (origin,) = self.inputs_of(origin)
        if not self.may_be_placed(origin):
            origin = piece
            if self.role(piece) not in (Role.FREE, Role.VIEW) or piece in self.places:
                origin = self.put_in(before, OPS["reshape"], [piece], shape=self.node(piece).shape)
        self.places[origin] = assembly, first
        if self.role(origin) != Role.CALL_ITEM:
            self.stored.append(origin)
        return origin

    def may_be_placed(self, k: Reference) -> bool:
        computed = self.role(k) in (Role.COMPUTED, Role.CALL_ITEM)
        return computed and k not in self.places and k not in self.outputs

    def is_only_another_shape(self, k: Reference) -> bool:
        return (
            self.role(k) in (Role.FREE, Role.VIEW)
            and self.node(k).op.name in ("reshape", *RENAMINGS)
            and k not in self.outputs
        )

    def result(self) -> FlatGraph:
        graph, table = self.graph, self.graph.table
        n, new = len(graph.nodes), len(self.before)
        before = np.array(self.before, np.int64)
        # New nodes in the order of what they precede, and among each other as they were put in, but
        # for assemblies: segments end there, so all copies of pieces must have been made.
        is_assembly = np.zeros(new, bool)
        is_assembly[[-1 - k for k in self.assemblies if k < 0]] = True
        order = np.lexsort((is_assembly, before))
        number = np.empty(new, np.int64)
        number[order] = np.arange(new)
        moved = np.arange(n) + np.searchsorted(before[order], np.arange(n), side="right")
        # Where a reference is now: negative ones count from the end.
        position = np.concatenate([moved, (before + number)[::-1]])
        count = n + new
        nodes: list[Node] = [None] * count  # type: ignore[list-item]
        for k, node in zip(moved.tolist(), graph.nodes, strict=True):
            nodes[k] = node
        signatures = np.zeros(count, np.int32)
        signatures[moved] = graph.signatures
        for k, node in self.nodes.items():
            nodes[position[k]] = node
            if k not in self.in_memory:
                signatures[position[k]] = table.number(node)
        signatures[position[np.array(list(self.in_memory), np.int64)]] = 0
        owner = np.repeat(np.arange(n), np.diff(graph.starts))
        is_kept = np.ones(n, bool)
        is_kept[[k for k in self.inputs if k >= 0]] = False
        is_kept = is_kept[owner]
        sources, readers = [graph.edges[is_kept]], [owner[is_kept]]
        for k, inputs in self.inputs.items():
            sources.append(np.array(inputs, np.int64))
            readers.append(np.full(len(inputs), k))
        users = position[np.concatenate(readers)]
        by_user = np.argsort(users, kind="stable")
        starts = np.searchsorted(users[by_user], np.arange(count + 1)).astype(np.int32)
        edges = position[np.concatenate(sources)][by_user].astype(np.int32)
        return replace(
            graph,
            nodes=nodes,
            signatures=signatures,
            starts=starts,
            edges=edges,
            inputs=moved[graph.inputs].tolist(),
            outputs=moved[graph.outputs].tolist(),
            calls={int(moved[k]): call for k, call in graph.calls.items()},
            assemblies=sorted(
                position[np.array([*graph.assemblies, *self.assemblies], np.int64)].tolist()
            ),
            stored=position[np.array([*graph.stored.tolist(), *self.stored], np.int64)],
            places={
                int(position[k]): (int(position[assembly]), first)
                for k, (assembly, first) in self.places.items()
            },
        )


@immutable
class Layout:
    """An array as it is, or with one axis moved to the front."""

    whole: tuple[int, ...]  # the shape of the array, as it is
    axes: tuple[int, ...]  # in the order of the layout

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.whole[axis] for axis in self.axes)

    @property
    def is_identity(self) -> bool:
        return self.axes == tuple(range(len(self.axes)))

    @property
    def back(self) -> tuple[int, ...]:
        """The order of axes that makes the array of its layout."""
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))

    def first_of_run(
        self, starts: Sequence[int], steps: Sequence[int], part: Sequence[int]
    ) -> int | None:
        """Where a region starts, in elements, if in this layout it is a run of them in the order
        that they have."""
        if any(step != 1 and n > 1 for step, n in zip(steps, part, strict=True)):
            return None
        if not self.is_identity and part[self.axes[0]] != 1:
            return None
        shape = self.shape
        part = [part[axis] for axis in self.axes]
        ranges = [axis for axis, n in enumerate(part) if n != 1]
        first = ranges[0] if ranges else len(part)
        if tuple(part[first + 1 :]) != shape[first + 1 :]:
            return None
        result = 0
        for axis, n in zip(self.axes, shape, strict=True):
            result = result * n + starts[axis]
        return result


def layout_of(
    whole: tuple[int, ...], starts: Sequence[int], steps: Sequence[int], part: Sequence[int]
) -> Layout | None:
    """The layout in which a region is a run."""
    axes = tuple(range(len(whole)))
    fronts = [axis for axis in axes if part[axis] == 1 and whole[axis] > 1]
    for order in (axes, *[(axis, *axes[:axis], *axes[axis + 1 :]) for axis in fronts]):
        layout = Layout(whole, order)
        if layout.first_of_run(starts, steps, part) is not None:
            return layout
    return None


def assemble(
    rewriting: AssemblyRewriting, k: int, layout: Layout, pieces: list[tuple[Reference, int]]
) -> None:
    """Let position `k` be the array that is made of pieces."""
    if layout.is_identity:
        rewriting.assemble(k, k, pieces)
        return
    rewriting.before.append(k)
    assembly = -len(rewriting.before)
    type = rewriting.node(k).type
    rewriting.nodes[assembly] = argument(array_type(layout.shape, type.dtype, type.device))
    rewriting.assemble(assembly, k, pieces)
    rewriting.change(k, OPS["transpose"], [assembly], axes=layout.back)
