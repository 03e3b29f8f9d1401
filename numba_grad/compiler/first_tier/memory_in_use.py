"""Memory of a graph that is run operation by operation, where it is much: that of values which
nobody reads any more is memory of others, and an assignment to a part of such an array is made in
place.

A loop that fills a matrix element by element would else copy it for each of them.
"""

import functools
from collections.abc import Callable

from numba_grad.compiler.first_tier.layouts import MOVEMENTS
from numba_grad.compiler.first_tier.recipes import Address, Recipe
from numba_grad.compiler.partition.flat_graph import FlatGraph
from numba_grad.compiler.partition.roles import ASSIGNMENTS, RENAMINGS
from numba_grad.graph.node import Node


class MemoryInUse:
    """What is in use after the operations of a graph without calls that have been appended."""

    def __init__(self, graph: FlatGraph, reserve: Callable[[int], int]) -> None:
        nodes, edges, starts = graph.nodes, graph.edges.tolist(), graph.starts.tolist()
        self.nodes = nodes
        self._new = reserve
        self.free: dict[int, list[int]] = {}  # offsets, by size
        # Of a value the one in whose memory it may be, and of that where it is read last.
        self.root = root = list(range(len(nodes)))
        self.until = until = [-1] * len(nodes)
        # Of such a value what was reserved for it and its views, with sizes.
        self.owned: dict[int, list[tuple[Address, int]]] = {}
        self._assignments = {k for k, x in enumerate(nodes) if x.op.name in ASSIGNMENTS}
        for k, start in enumerate(starts[:-1]):
            inputs = edges[start : starts[k + 1]]
            for x in inputs:
                until[root[x]] = k
            if inputs and _may_be_a_view(nodes[k], nodes[inputs[0]]):
                root[k] = root[inputs[0]]
        for k in (*graph.inputs, *graph.outputs, *graph.assemblies, *graph.places):
            until[root[k]] = len(nodes)

    def reserve(self, nbytes: int) -> int:
        """Where memory begins that is not in use."""
        size = _size_class(nbytes)
        free = self.free.get(size)
        return free.pop() if free else self._new(size)

    def is_in_place(self, k: int, inputs: list[int], places: list[Address]) -> bool:
        """Whether the operation at position `k` leaves its result in its first operand."""
        if k not in self._assignments or self.until[k] == len(self.nodes):
            return False
        array, part = inputs
        owned = self.owned.get(array)
        return (
            self.until[array] == k
            and self.root[array] == array
            and self.root[part] != array
            and owned is not None
            and [address for address, _ in owned] == [places[array]]
        )

    def follow(
        self,
        k: int,
        inputs: list[int],
        recipe: Recipe,
        places: list[Address],
        target: Address | None,
    ) -> None:
        """Take note of the operation at position `k`, whose steps have been appended."""
        root, until = self.root, self.until
        result = recipe.results[0][0]
        own_root = root[k]
        if inputs and result == 0 and own_root == k:  # in place
            self.owned[k] = self.owned.pop(inputs[0])
        for number, nbytes in enumerate(recipe.temporaries, len(inputs)):
            place = places[number]
            if place == target:
                continue
            if number == result and until[own_root] > k:
                self.owned.setdefault(own_root, []).append((place, _size_class(nbytes)))
            else:
                self.free.setdefault(_size_class(nbytes), []).append(place[1])
        for x in inputs:
            if until[root[x]] == k:
                for (_, offset), size in self.owned.pop(root[x], ()):
                    self.free.setdefault(size, []).append(offset)


def _may_be_a_view(node: Node, operand: Node) -> bool:
    name = node.op.name
    if node.op.family == "reduction":
        return node.type.size == operand.type.size
    return name in MOVEMENTS or name in RENAMINGS or name == "item"


@functools.lru_cache(maxsize=1 << 10)
def _size_class(nbytes: int) -> int:
    """Bytes that memory of so many takes: a power of two, or one of three sizes between two.

    The rows of a triangle, each longer than the one before, then find the memory of others.
    """
    step = max(64, 1 << max(0, nbytes.bit_length() - 3))
    return -(-nbytes // step) * step
