"""Arrays that are put together of many pieces: stacked states, rows that are assigned one by one.

    states.append(y) ... np.stack(states)      table[k] = y ...      the gradient of weights[k] ...

Computed as one value, such an array would be a kernel as long as the loop, or as many kernels as
there are rows. Here it becomes an *assembly*: memory that belongs to no segment, in which each
piece has its place. A segment that computes a piece writes it there, by a pointer that is not part
of its code, so that all steps of a loop stay equal. Nothing is copied but what is in memory already
or belongs to two arrays.

What is read between assignments, `table[k - 1]`, is the value that was assigned there. So of a
chain of assignments nothing is left but the pieces, forward and backward.

Columns are rows of the transposed array, which movements make of it for nothing.
"""

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, Role
from numba_grad.compiler.partition.roles import RENAMINGS, VIEWS
from numba_grad.compiler.partition.segments import LONGEST_WHOLE
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


def with_assemblies(graph: FlatGraph) -> FlatGraph:
    """The graph with assemblies in the place of what has many pieces, and with what is read in many
    pieces in memory."""
    degrees = np.diff(graph.starts)
    assignments = np.flatnonzero(graph.facts("assigns")).tolist()
    joined = np.flatnonzero(degrees > MOST_PIECES).tolist()
    joined = [k for k in joined if graph.nodes[k].op.name == "concatenate"]
    if len(assignments) > MOST_DISTANT_PIECES or joined:
        rewriting = _Rewriting(graph)
        last = {chain.links[-1]: chain for chain in _chains(rewriting, assignments)}
        # A piece may be an assembly itself, in memory of its own then: so inner ones come first.
        for k in sorted([*last, *joined]):
            if k in last:
                last[k].commit()
            else:
                _assemble_concatenation(rewriting, k)
        graph = rewriting.result()
    sliced = _sliced(graph)
    padded = {k: views for k, views in sliced.items() if graph.nodes[k].op.name == "pad"}
    if padded:
        rewriting = _Rewriting(graph)
        for array, views in padded.items():
            for k in views:
                _slice_before_pad(rewriting, array, k)
        graph = rewriting.result()
        sliced = _sliced(graph)
    if sliced:
        rewriting = _Rewriting(graph)
        for array, views in sliced.items():
            _store_slices(rewriting, array, views)
        graph = rewriting.result()
    return graph


class _Rewriting:
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


# Layouts: the order of axes in which regions are runs of elements.


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


def _layout_of(
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


# Concatenations


def _assemble_concatenation(rewriting: _Rewriting, k: int) -> None:
    node, inputs = rewriting.node(k), rewriting.inputs_of(k)
    axis = node.params["axis"]
    types = [rewriting.node(x).type for x in inputs]
    if math.prod(node.shape[:axis]) == 1:
        layout = Layout(node.shape, tuple(range(len(node.shape))))
    elif all(type.shape[axis] == 1 for type in types):
        others = [a for a in range(len(node.shape)) if a != axis]
        layout = Layout(node.shape, (axis, *others))
    else:
        return
    first = 0
    pieces: list[tuple[Reference, int]] = []
    for x, type in zip(inputs, types, strict=True):
        if type.size:
            pieces.append((x, first))
        first += type.size
    _assemble(rewriting, k, layout, pieces)


def _assemble(
    rewriting: _Rewriting, k: int, layout: Layout, pieces: list[tuple[Reference, int]]
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


# Assignments


@dataclass(slots=True)
class _Region:
    """What was assigned to a run of elements, one value after another maybe."""

    starts: tuple[int, ...]
    size: int
    # (by which position, what, whether it is added to what was there)
    assigned: list[tuple[int, Reference, bool]]


@dataclass(slots=True, eq=False)
class _Chain:
    """Assignments to regions that are disjoint or the same, each on top of the one before."""

    rewriting: _Rewriting
    base: Reference
    layout: Layout
    regions: dict[int, _Region] = field(default_factory=dict)  # by first element
    firsts: list[int] = field(default_factory=list)  # of the regions, sorted
    links: list[int] = field(default_factory=list)
    # (view, region that it is in or None for the base, number of the value, where it starts there)
    redirected: list[tuple[int, _Region | None, int, tuple[int, ...]]] = field(default_factory=list)
    is_read: bool = True  # whether the last link is, as a whole

    def append(self, k: int) -> bool:
        """Let `k`, an assignment to the last link, be a link of this chain, if it can be."""
        node, v = self.rewriting.node(k), self.rewriting.inputs_of(k)[1]
        value = self.rewriting.node(v).type
        starts = node.params["starts"]
        first = self.layout.first_of_run(starts, node.params["steps"], value.shape)
        if first is None or not value.size or value.dtype != node.dtype:
            return False
        region = self.regions.get(first)
        adds = node.op.name == "add_slice"
        if region is None:
            if self.overlaps(first, value.size):
                return False
            if adds:
                share = self.share_of_pad(starts, value.shape)
                if share is None:
                    return False
                # What is outside of the first contribution to a gradient is absent rather than 0,
                # as where kernels read through the additions.
                adds = share
            region = self.regions[first] = _Region(starts, value.size, [])
            insort(self.firsts, first)
        elif region.size != value.size:
            return False
        region.assigned.append((k, v, adds))
        self.links.append(k)
        return True

    def share_of_pad(self, starts: Sequence[int], part: Sequence[int]) -> bool | None:
        """Whether a region of the base has values: not if that is a pad, and the region outside of
        what was padded. None if that is so for a part of it."""
        pad = self.rewriting.node(self.base)
        if pad.op.name != "pad":
            return True
        if any(pad.params["interior"]):
            return None
        (inner,) = self.rewriting.inputs_of(self.base)
        sides = list(
            zip(starts, part, pad.params["low"], self.rewriting.node(inner).shape, strict=True)
        )
        if any(a + m <= low or low + n <= a for a, m, low, n in sides):
            return False
        return True if all(low <= a and a + m <= low + n for a, m, low, n in sides) else None

    def overlaps(self, first: int, size: int) -> bool:
        """Whether some region has elements of the run."""
        following = bisect_right(self.firsts, first)
        if following < len(self.firsts) and self.firsts[following] < first + size:
            return True
        if not following:
            return False
        before = self.firsts[following - 1]
        return before + self.regions[before].size > first

    def redirect(self, views: Sequence[int]) -> bool:
        """Whether these views of the last link are views of what was assigned, or of the base; then
        that is what they will be."""
        found: list[tuple[int, _Region | None, int, tuple[int, ...]]] = []
        for view in views:
            node = self.rewriting.node(view)
            starts, size = node.params["starts"], node.type.size
            first = self.layout.first_of_run(starts, node.params["steps"], node.params["sizes"])
            if first is None or not size:
                return False
            if not self.overlaps(first, size):
                found.append((view, None, 0, starts))
                continue
            before = bisect_right(self.firsts, first) - 1
            if before < 0:
                return False
            start = self.firsts[before]
            region = self.regions[start]
            if first + size > start + region.size:
                return False
            shifted = tuple([a - b for a, b in zip(starts, region.starts, strict=True)])
            found.append((view, region, len(region.assigned) - 1, shifted))
        self.redirected += found
        return True

    def commit(self) -> None:
        """Let the last link be an assembly of what was assigned, and of the base between."""
        rewriting = self.rewriting
        values = {id(region): self.values_of(region) for region in self.regions.values()}
        for view, region, number, starts in self.redirected:
            source = self.base if region is None else values[id(region)][number]
            params = {**rewriting.node(view).params, "starts": starts}
            rewriting.change(view, OPS["slice"], [source], **params)
        for k in self.links:
            rewriting.drop(k)
        if self.is_read:
            last = self.links[-1]
            rewriting.in_memory.discard(last)
            pieces = [(values[id(region)][-1], first) for first, region in self.regions.items()]
            _assemble(rewriting, last, self.layout, [*pieces, *self.gaps(last)])

    def values_of(self, region: _Region) -> list[Reference]:
        """The values that a region has had."""
        result: list[Reference] = []
        for k, value, adds in region.assigned:
            if adds:
                part = self.rewriting.node(value).shape
                before = result[-1] if result else self.part_of_base(k, region.starts, part)
                value = self.rewriting.put_in(k, OPS["add"], [before, value])
            result.append(value)
        return result

    def part_of_base(
        self, before: int, starts: tuple[int, ...], part: tuple[int, ...]
    ) -> Reference:
        steps = (1,) * len(part)
        return self.rewriting.put_in(
            before, OPS["slice"], [self.base], starts=starts, sizes=part, steps=steps
        )

    def gaps(self, before: int) -> list[tuple[Reference, int]]:
        """What nothing was assigned to."""
        size = math.prod(self.layout.whole)
        result: list[tuple[Reference, int]] = []
        flat: Reference | None = None
        end = 0
        for first in [*self.firsts, size]:
            if first > end:
                if flat is None:
                    moved = self.rewriting.put_in(
                        before, OPS["transpose"], [self.base], axes=self.layout.axes
                    )
                    flat = self.rewriting.put_in(before, OPS["reshape"], [moved], shape=(size,))
                region = {"starts": (end,), "sizes": (first - end,), "steps": (1,)}
                result.append((self.rewriting.put_in(before, OPS["slice"], [flat], **region), end))
            if first < size:
                end = first + self.regions[first].size
        return result


def _new_chain(rewriting: _Rewriting, k: int) -> _Chain | None:
    """A chain that starts with an assignment."""
    node = rewriting.node(k)
    base, v = rewriting.inputs_of(k)
    starts, steps = node.params["starts"], node.params["steps"]
    layout = _layout_of(node.shape, starts, steps, rewriting.node(v).shape)
    if layout is None:
        return None
    chain = _Chain(rewriting, base, layout)
    return chain if chain.append(k) else None


def _chains(rewriting: _Rewriting, assignments: list[int]) -> list[_Chain]:
    """The chains of many assignments."""
    graph = rewriting.graph
    readers: dict[int, list[int]] = {k: [] for k in assignments}
    is_assignment = np.zeros(len(graph.nodes), bool)
    is_assignment[assignments] = True
    is_read = is_assignment[graph.edges]
    owner = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.starts))
    for x, reader in zip(graph.edges[is_read].tolist(), owner[is_read].tolist(), strict=True):
        readers[x].append(reader)
    views = {
        k: [x for x in found if graph.nodes[x].op.name == "slice"] for k, found in readers.items()
    }
    following: dict[int, int] = {}
    for k, found in readers.items():
        others = [x for x in found if graph.nodes[x].op.name != "slice"]
        if len(others) == 1 and k not in rewriting.outputs:
            (x,) = others
            if is_assignment[x] and rewriting.inputs_of(x)[0] == k:
                following[k] = x
    is_first = readers.keys() - following.values()
    result: list[_Chain] = []
    for first in sorted(is_first):
        k: int | None = first
        chain: _Chain | None = None
        while k is not None:
            if chain is None or not chain.append(k):
                result += [] if chain is None else [chain]
                chain = _new_chain(rewriting, k)
            after = following.get(k)
            if chain is not None:
                is_whole = after is None and (
                    k in rewriting.outputs or len(views[k]) < len(readers[k])
                )
                is_read_through = not is_whole and chain.redirect(views[k])
                if after is None or not is_read_through:
                    chain.is_read = not is_read_through
                    result.append(chain)
                    chain = None
            k = after
    return [chain for chain in result if _has_many_pieces(chain)]


def _has_many_pieces(chain: _Chain) -> bool:
    are_distant = chain.links[-1] - chain.links[0] > LONGEST_WHOLE
    return len(chain.links) > (MOST_DISTANT_PIECES if are_distant else MOST_PIECES)


# Rows and columns


def _sliced(graph: FlatGraph) -> dict[int, list[int]]:
    """By array, the slices of it, where they are many and make up much of it."""
    slices = np.flatnonzero(graph.facts("slices"))
    arrays = graph.edges[graph.starts[slices]]
    is_one_of_many = np.bincount(arrays, minlength=len(graph.nodes))[arrays] > MOST_PIECES
    by_array: dict[int, list[int]] = {}
    for k, array in zip(
        slices[is_one_of_many].tolist(), arrays[is_one_of_many].tolist(), strict=True
    ):
        by_array.setdefault(array, []).append(k)
    result: dict[int, list[int]] = {}
    for array, views in by_array.items():
        size_of = {graph.nodes[k].params["starts"]: graph.nodes[k].type.size for k in views}
        if len(size_of) > MOST_PIECES and 2 * sum(size_of.values()) >= graph.nodes[array].type.size:
            result[array] = views
    return result


def _store_slices(rewriting: _Rewriting, array: int, views: list[int]) -> None:
    """Let slices be runs of elements of an array in memory: a pointer each, where steps of a loop
    that compute them from what the array is made of would all be different."""
    node = rewriting.node(views[0])
    layout = _layout_of(
        rewriting.node(array).shape, *(node.params[name] for name in ("starts", "steps", "sizes"))
    )
    if layout is None:
        return
    if layout.is_identity:
        while rewriting.is_only_another_shape(array):
            (array,) = rewriting.inputs_of(array)
        is_view = rewriting.node(array).op.name in (*VIEWS, *RENAMINGS)
        if rewriting.role(array) in (Role.COMPUTED, Role.FREE) and not is_view:
            rewriting.stored.append(array)
        return
    moved: Reference | None = None
    for k in views:
        node = rewriting.node(k)
        starts, steps, sizes = (node.params[name] for name in ("starts", "steps", "sizes"))
        if layout.first_of_run(starts, steps, sizes) is None:
            continue
        if moved is None:
            moved = rewriting.put_in(k, OPS["transpose"], [array], axes=layout.axes)
            rewriting.stored.append(moved)
        region = {
            name: tuple([values[axis] for axis in layout.axes])
            for name, values in (("starts", starts), ("steps", steps), ("sizes", sizes))
        }
        row = rewriting.put_in(k, OPS["slice"], [moved], **region)
        rewriting.change(k, OPS["reshape"], [row], shape=node.shape)


def _slice_before_pad(rewriting: _Rewriting, array: int, view: int) -> None:
    """Let a slice of a pad be a pad of a slice, where it can be: a row of the adjoint of
    `states[:, receiver]` is one number among zeros that nobody has to store."""
    params, node = rewriting.node(array).params, rewriting.node(view)
    (inner,) = rewriting.inputs_of(array)
    regions = zip(*(node.params[name] for name in ("starts", "sizes", "steps")), strict=True)
    pads = list(zip(*(params[name] for name in ("low", "high", "interior")), strict=True))
    whole = [(0, n, 1) for n in rewriting.node(array).shape]
    own: list[tuple[int, int, int]] = []
    for region, pad, all_of_it, n in zip(
        regions, pads, whole, rewriting.node(inner).shape, strict=True
    ):
        if any(pad) and region != all_of_it:
            return
        own.append((0, n, 1) if any(pad) else region)
    starts, sizes, steps = zip(*own, strict=True)
    part = rewriting.put_in(view, OPS["slice"], [inner], starts=starts, sizes=sizes, steps=steps)
    if "dropped" in node.params:
        padded = rewriting.put_in(view, OPS["pad"], [part], **params)
        rewriting.change(view, OPS["reshape"], [padded], shape=node.shape)
    else:
        rewriting.change(view, OPS["pad"], [part], **params)
