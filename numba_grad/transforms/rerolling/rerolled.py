"""What has become of the steps of Python loops that are one operation each."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from numba_grad.graph.node import SERIALS_A_NODE, Node
from numba_grad.graph.walk import copied, in_order_of_recording, needed_for

Runs = dict[int, tuple[int, Node]]
"""Of the inputs of a node some, one after the other, that are one now: by the place of the first,
how many, and what is in their place."""


class Rerolled:
    """What has become of a loop."""

    def __init__(self, times: int, steps: Sequence[Node], before: Sequence[Node]) -> None:
        self.times = times
        self.steps = steps  # the nodes that are inside of it now, one after the other
        self.before = before  # and those of the first steps, which others may stand between
        self.recorded: set[Node] = set()  # in place of all these
        self.instead: dict[Node, Node] = {}  # for each that others read
        # Nodes after the loop that have other inputs now: a concatenation of what steps gave, one
        # after the other, pieces of it.
        self.others: dict[Node, Runs] = {}
        # The last node of its steps, or, with True, who reads them first: where it is in the order
        # of recording, from now on.
        self.place: tuple[Node, bool] | None = None

    @property
    def newest(self) -> int:
        """The serial number that is the last one for what was recorded."""
        assert self.place is not None
        node, is_before = self.place
        return node.serial - is_before

    def date(self) -> bool:
        """Give what was recorded serial numbers below this one, if there are so many between it and
        those of what it reads."""
        own, last = self.recorded, self.newest
        # The results of a loop have the numbers after its own, those that are asked for later as
        # well.
        counts = {x: len(x.type.items) for x in own if is_loop(x)}
        items = {x.serial + k: x for x, count in counts.items() for k in range(1, count + 1)}
        numbers = {x: x.serial for x in own}
        # As far apart as what is recorded: other passes put nodes between these.
        room = last - max([y.serial for x in own for y in x.inputs if y not in own], default=0)
        gap = min(SERIALS_A_NODE, (room - 1 - sum(counts.values())) // max(len(own), 1))
        if gap < 1:
            return False
        serial = last - gap * len(own) - sum(counts.values())
        for x in in_order_of_recording(own):
            loop = items.get(x.serial)
            if loop is not None:
                x.serial += loop.serial - numbers[loop]
                continue
            x.serial = serial
            serial += gap + counts.get(x, 0)
        return True

    @cached_property
    def last(self) -> int:
        """The serial number of the last of its steps' nodes."""
        return max([x.serial for x in self.steps])

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Those of a node that is not in the loop, from now on."""
        return _inputs(node, self.others, self.instead)


def _inputs(
    node: Node, others: Mapping[Node, Runs], instead: Mapping[Node, Node]
) -> tuple[Node, ...]:
    runs = others.get(node)
    inputs = node.inputs if runs is None else _with_runs(node.inputs, runs)
    return tuple([instead.get(x, x) for x in inputs])


def _with_runs(inputs: Sequence[Node], runs: Runs) -> list[Node]:
    found = []
    place = 0
    while place < len(inputs):
        count, x = runs.get(place, (1, inputs[place]))
        found.append(x)
        place += count
    return found


class RerolledLoops:
    """Loops that were found at one look at a graph. What later ones read of steps of earlier ones
    was recorded as these had it; none reads anything of a later one."""

    def __init__(self, first: Rerolled) -> None:
        self.loops: list[Rerolled] = []
        self._inside: set[Node] = set()
        self._recorded: dict[Node, set[Node]] = {}  # with the steps that each is in place of
        self._instead: dict[Node, Node] = {}
        self._others: dict[Node, Runs] = {}
        self._add(first)

    def _add(self, loop: Rerolled) -> None:
        self.loops.append(loop)
        self._inside.update(loop.steps)
        steps = set(loop.steps)
        self._recorded |= dict.fromkeys(loop.recorded, steps)
        self._instead |= loop.instead
        for node, runs in loop.others.items():
            self._others[node] = self._others.get(node, {}) | runs

    def take(self, later: Rerolled) -> None:
        """Take in a loop whose steps come after these, if it reads nothing of them but what
        something stands for."""
        if later.before and self.loops[-1].last >= min([x.serial for x in later.before]):
            return
        inside, instead = self._inside, self._instead
        for node in later.recorded:
            for x in node.inputs:
                if x not in inside:
                    continue
                result = instead.get(x)
                if result is None or result.serial >= node.serial:
                    return
                if result.requires_grad != x.requires_grad:
                    return
        self._add(later)

    def _inputs(self, node: Node) -> tuple[Node, ...]:
        """Those of a node that is not in the loops, from now on."""
        found = _inputs(node, self._others, self._instead)
        own = self._recorded.get(node)
        if own is None:
            return found
        # What is the same in all steps a loop has from its first one, even if others read it too.
        return tuple([x if x in own else y for x, y in zip(node.inputs, found, strict=True)])

    def rewired(self, order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, Node]:
        """Copies of those nodes of `order`, which `roots` depend on, that come after the loops."""
        copies: dict[Node, Node] = {}
        for node in self._outside(order, roots):
            inputs = tuple([copies.get(x, x) for x in self._inputs(node)])
            if inputs == node.inputs:
                continue
            if node in self._recorded:
                node.inputs = inputs  # nobody else knows it
            else:
                copies[node] = copied(node, inputs, copies)
        return copies

    def rewire(self, order: Sequence[Node], roots: Sequence[Node]) -> None:
        """As `rewired`, but the nodes themselves: only where nobody else walks their graph.

        What reads results of a loop that depend on no variable has no gradient any more.
        """
        constant: set[Node] = set()
        for node in self._outside(order, roots):
            before, node.inputs = node.inputs, self._inputs(node)
            is_another = node.inputs != before or not constant.isdisjoint(node.inputs)
            if is_another and not any(x.requires_grad for x in node.inputs):
                node.requires_grad = False
                constant.add(node)

    def _outside(self, order: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
        """What `roots` depend on, and is in no step; with several loops also what was recorded for
        these, as one reads results of another."""
        inside = self._inside
        outside = [x for x in order if x not in inside]
        if len(self.loops) > 1:
            outside = in_order_of_recording([*outside, *self._recorded])
        return needed_for(roots, outside, self._inputs)


def is_loop(node: Node) -> bool:
    return node.op.name == "loop"
