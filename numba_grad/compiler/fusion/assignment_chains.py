"""Assignments to an array, one on top of the other, as the pieces that an assembly is made of.

    b = update_slice(a, x, at 0); c = update_slice(b, y, at 1); d = slice(c, at 0)

The pieces of `c` are `x` and `y`, on top of `a`, and `d` is `x`: a view of what one assignment has
written is that.
"""

import math
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from numba_grad.compiler.fusion.assembly_rewriting import (
    MOST_DISTANT_PIECES,
    MOST_PIECES,
    AssemblyRewriting,
    Layout,
    Reference,
    assemble,
    layout_of,
)
from numba_grad.compiler.partition.flat_graph import FlatGraph
from numba_grad.compiler.partition.segments import LONGEST_WHOLE
from numba_grad.graph.node import OPS


@dataclass(slots=True)
class _Region:
    """What was assigned to a run of elements, one value after another maybe."""

    starts: tuple[int, ...]
    size: int
    # (by which position, what, whether it is added to what was there)
    assigned: list[tuple[int, Reference, bool]]


@dataclass(slots=True, eq=False)
class AssignmentChain:
    """Assignments to regions that are disjoint or the same, each on top of the one before."""

    rewriting: AssemblyRewriting
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
            assemble(rewriting, last, self.layout, [*pieces, *self.gaps(last)])

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


def _new_chain(rewriting: AssemblyRewriting, k: int) -> AssignmentChain | None:
    """A chain that starts with an assignment."""
    node = rewriting.node(k)
    base, v = rewriting.inputs_of(k)
    starts, steps = node.params["starts"], node.params["steps"]
    layout = layout_of(node.shape, starts, steps, rewriting.node(v).shape)
    if layout is None:
        return None
    chain = AssignmentChain(rewriting, base, layout)
    return chain if chain.append(k) else None


def chains_of(rewriting: AssemblyRewriting, assignments: list[int]) -> list[AssignmentChain]:
    """The chains of many assignments."""
    graph = rewriting.graph
    readers = _readers_of(graph, assignments)
    views = {
        k: [x for x in found if graph.nodes[x].op.name == "slice"] for k, found in readers.items()
    }
    following = _following(rewriting, readers)
    result: list[AssignmentChain] = []
    for first in sorted(readers.keys() - following.values()):
        k: int | None = first
        chain: AssignmentChain | None = None
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


def _readers_of(graph: FlatGraph, nodes: Sequence[int]) -> dict[int, list[int]]:
    """What reads each of these, in order."""
    readers: dict[int, list[int]] = {k: [] for k in nodes}
    is_asked = np.zeros(len(graph.nodes), bool)
    is_asked[nodes] = True
    is_read = is_asked[graph.edges]
    owner = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.starts))
    for x, reader in zip(graph.edges[is_read].tolist(), owner[is_read].tolist(), strict=True):
        readers[x].append(reader)
    return readers


def _following(
    rewriting: AssemblyRewriting, readers: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """By assignment, the one that is made to what it has left, where nothing else but views reads
    that."""
    following: dict[int, int] = {}
    for k, found in readers.items():
        others = [x for x in found if rewriting.graph.nodes[x].op.name != "slice"]
        if len(others) == 1 and k not in rewriting.outputs:
            (x,) = others
            if x in readers and rewriting.inputs_of(x)[0] == k:
                following[k] = x
    return following


def _has_many_pieces(chain: AssignmentChain) -> bool:
    are_distant = chain.links[-1] - chain.links[0] > LONGEST_WHOLE
    return len(chain.links) > (MOST_DISTANT_PIECES if are_distant else MOST_PIECES)
