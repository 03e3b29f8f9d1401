"""What has become of the steps of a Python loop that are one operation."""

import itertools
from collections.abc import Sequence

from numba_grad.graph.node import Node
from numba_grad.graph.walk import copied, needed_for


class Rerolled:
    """What has become of a loop."""

    def __init__(self, times: int, steps: Sequence[Node], before: Sequence[Node]) -> None:
        self.times = times
        self.steps = steps  # the nodes that are inside of it now, one after the other
        self.before = before  # and those of the first steps, which others may stand between
        self.recorded: set[Node] = set()  # in place of all these
        self.instead: dict[Node, Node] = {}  # for each that others read
        # Nodes after the loop that have other inputs now: a concatenation of what steps gave, one
        # after the other, its pieces.
        self.others: dict[Node, tuple[Node, ...]] = {}

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Those of a node that is not in the loop, from now on."""
        others = self.others.get(node)
        if others is not None:
            return others
        return tuple([self.instead.get(x, x) for x in node.inputs])

    def rewired(self, order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, Node]:
        """Copies of those nodes of `order`, which `roots` depend on, that come after the loop."""
        copies: dict[Node, Node] = {}
        for node in self._outside(order, roots):
            inputs = tuple([copies.get(x, x) for x in self.inputs(node)])
            if inputs != node.inputs:
                copies[node] = copied(node, inputs, copies)
        return copies

    def rewire(self, order: Sequence[Node], roots: Sequence[Node]) -> None:
        """As `rewired`, but the nodes themselves: only where nobody else walks their graph.

        What reads results of the loop that depend on no variable has no gradient any more.
        """
        constant: set[Node] = set()
        for node in self._outside(order, roots):
            before, node.inputs = node.inputs, self.inputs(node)
            is_another = node.inputs != before or not constant.isdisjoint(node.inputs)
            if is_another and not any(x.requires_grad for x in node.inputs):
                node.requires_grad = False
                constant.add(node)

    def _outside(self, order: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
        """What `roots` depend on, and is in no step."""
        inside = set(self.steps)
        after = list(itertools.filterfalse(inside.__contains__, order))
        return needed_for(roots, after, self.inputs)
