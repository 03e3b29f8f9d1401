"""A sum over rows and one over columns that are added are one sum.

    np.sum(f, axis=1) + np.sum(g, axis=0)    ->    np.sum(f + g.T, axis=1)

The gradient of a function of all pairs is such: what i does to j is what j does to i, or its
opposite, but for a factor that is not the same for both (a mask, as of `np.triu`; weights). Sums
over columns are kept in memory, and what both sums are made of is stored, or computed twice. Of the
transposed matrix only that is computed that differs from the matrix itself: terms say what does not
(`mirrored_sums.py`, which is about sums of the same elements).
"""

from collections.abc import Mapping
from math import prod

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import loop_axes
from numba_grad.compiler.passes.mirrored_sums import Terms, is_sum_over_one_of_two_loops
from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.families import axes_params, broadcast_to, reshape

_ADD, _SUBTRACT, _SUM, _TRANSPOSE = OPS["add"], OPS["subtract"], OPS["sum"], OPS["transpose"]
_RESHAPE, _STRETCH, _IDENTITY = OPS["reshape"], OPS["broadcast_to"], OPS["identity"]
# What is computed of the transposed matrix, in additions for each of its elements: more, and to
# compute it takes longer than to store and load: in the cache, and where it does not fit in there.
_MOST_ADDITIONS, _MOST_OF_LARGE = 14, 24
_LARGE = 1 << 17


class _Costly(Exception):
    """Two sums are better."""


def row_and_column_sums(outputs: list[Node], constants: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs` with such sums joined.

    Parameters
    ----------
    outputs : of a graph whose derivatives are taken
    constants : leaves whose values are the same in all runs
    """
    order = toposort(outputs, stop=lambda x: x.value is not None)
    replaced: dict[Node, Node] = {}
    inside: set[Node] = set()  # of sums that are joined already
    terms = Terms()
    for node in reversed(order):
        if (node.op is not _ADD and node.op is not _SUBTRACT) or node in inside:
            continue
        added = _Added(node)
        if added.are_of_both_sides():
            with recording(False):
                try:
                    replaced[node] = added.joined(constants, terms)
                except _Costly:
                    continue
            inside |= added.nodes
    return substitute(outputs, replaced) if replaced else outputs


class _Added:
    """Sums over one of two axes, and what adds them, up to `node`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes: set[Node] = set()
        self.sums: list[tuple[Node, bool]] = []  # and whether each is added, not subtracted
        self.is_complete = True
        stack = [(node, True)]
        while stack and self.is_complete:
            x, is_added = stack.pop()
            self.nodes.add(x)
            if (x.op is _ADD or x.op is _SUBTRACT) and all(y.shape == x.shape for y in x.inputs):
                first, second = x.inputs
                stack += [(second, is_added == (x.op is _ADD)), (first, is_added)]
            elif x.op is _RESHAPE or x.op is _IDENTITY:
                stack.append((x.inputs[0], is_added))
            elif is_sum_over_one_of_two_loops(x):
                self.sums.append((x, is_added))
            else:
                self.is_complete = False

    def are_of_both_sides(self) -> bool:
        """Whether all of them are of square matrices alike, some by rows and some by columns."""
        axes = sorted({x.params["axes"][0] for x, _ in self.sums})
        if not self.is_complete or len(axes) != 2:
            return False
        [x] = self.sums[0][0].inputs
        p, q = axes
        return (
            all(y.inputs[0].type is x.type for y, _ in self.sums)
            and x.shape[p] == x.shape[q]
            and len(loop_axes(x.shape)) == 2
            and prod(x.shape[p + 1 : q]) == 1
        )

    def joined(self, constants: Mapping[Node, np.ndarray], terms: Terms) -> Node:
        # Along the later axis arrays are contiguous.
        p, q = sorted({x.params["axes"][0] for x, _ in self.sums})
        is_large = self.sums[0][0].inputs[0].type.size > _LARGE
        turned = _Turned(constants, terms, _MOST_OF_LARGE if is_large else _MOST_ADDITIONS)
        total: Node | None = None
        for x, is_added in self.sums:
            is_by_rows = x.params["axes"] == (q,)
            rows = x.inputs[0] if is_by_rows else turned.of(x.inputs[0], p, q)
            if total is not None:
                total = (_ADD if is_added else _SUBTRACT)(total, rows)
            else:
                total = rows if is_added else OPS["negative"](rows)
        assert total is not None
        if not turned.additions:
            raise _Costly  # they are sums of the same, of which one is computed anyway
        return reshape(record(_SUM, (total,), axes_params((q,))), self.node.shape)


class _Turned:
    """Nodes with two axes exchanged."""

    def __init__(
        self, constants: Mapping[Node, np.ndarray], terms: Terms, most_additions: int
    ) -> None:
        self.constants = constants
        self.most_additions = most_additions
        self.terms = terms
        self.additions = 0.0  # for each element of the matrix
        self.made: dict[tuple[Node, int, int], Node] = {}

    def of(self, x: Node, p: int, q: int) -> Node:
        """`x` with its axes `p` and `q` exchanged; negative ones are not there, as if of one
        element, but that `q` may be."""
        if q < 0 or (p < 0 and x.shape[q] == 1) or (p >= 0 and x.shape[p] == x.shape[q] == 1):
            return x
        key = x, p, q
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self._same(x, p, q) or self._made(x, p, q)
        return found

    def _same(self, x: Node, p: int, q: int) -> Node | None:
        """`x` or -x, if that is what it comes to."""
        if p < 0 or x.shape[p] != x.shape[q]:
            return None
        names: list[object] = [f"k{axis}" for axis in range(len(x.shape))]
        here = self.terms.term(x, tuple(names))
        names[p], names[q] = names[q], names[p]
        there = self.terms.term(x, tuple(names))
        if here.number != there.number:
            return None
        return x if here.sign == there.sign else OPS["negative"](x)

    def _is_symmetric(self, x: Node, p: int, q: int) -> bool:
        value = self.constants.get(x)
        return value is not None and np.array_equal(value, value.swapaxes(p, q))

    def _made(self, x: Node, p: int, q: int) -> Node:
        if x.op.family == "elementwise":
            is_matrix = p >= 0 and x.shape[p] == x.shape[q]
            self.additions += x.op.cost * x.type.size / x.shape[q] ** 2 if is_matrix else 0
            if self.additions > self.most_additions:
                raise _Costly
            offsets = [len(x.shape) - len(y.shape) for y in x.inputs]
            inputs = [self.of(y, p - n, q - n) for y, n in zip(x.inputs, offsets, strict=True)]
            return record(x.op, tuple(inputs), x.params)
        if x.op is _STRETCH:
            [y] = x.inputs
            offset = len(x.shape) - len(y.shape)
            return broadcast_to(self.of(y, p - offset, q - offset), _exchanged(x.shape, p, q))
        if x.op is _RESHAPE and p >= 0:
            [y] = x.inputs
            # Axes of one element that come after.
            if y.shape == x.shape[: len(y.shape)] and q < len(y.shape):
                return reshape(self.of(y, p, q), _exchanged(x.shape, p, q))
        if p < 0:
            x, p, q = reshape(x, (1,) * -p + x.shape), 0, q - p
        if x.shape[p] > 1 and x.shape[q] > 1:
            if self._is_symmetric(x, p, q):
                return x
            raise _Costly  # columns of a matrix in memory: each element in another cache line
        order = [*range(len(x.shape))]
        order[p], order[q] = q, p
        return _TRANSPOSE(x, axes=tuple(order))


def _exchanged(shape: tuple[int, ...], p: int, q: int) -> tuple[int, ...]:
    own = (1,) * -p + shape if p < 0 else shape
    p, q = (0, q - p) if p < 0 else (p, q)
    return *own[:p], own[q], *own[p + 1 : q], own[p], *own[q + 1 :]
