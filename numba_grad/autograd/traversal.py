"""What a backward pass goes through: the history of its roots, shortened where that is cheaper.

Steps of a Python loop become one loop, and rows that are written in parts become values of their
own: in copies of what comes after, as another thread, or a hook, may walk the same graph.
"""

from collections.abc import Container, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from numba_grad.autograd.release import release
from numba_grad.compiler.known_bodies import LOOPS
from numba_grad.fresh_thread import imported
from numba_grad.graph import order as order_of
from numba_grad.graph import traced_bodies
from numba_grad.graph.node import ARGUMENT, OPS, Node, held_tensor
from numba_grad.graph.walk import (
    History,
    history_of,
    in_order_of_recording,
    leading_to,
    stands_for_a_value,
)
from numba_grad.transforms.python_loops import is_long, loop_in

if TYPE_CHECKING:
    from numba_grad.transforms.rerolling.rerolled import Rerolled

_UPDATE, _op_of = OPS["update_slice"], attrgetter("op")


class Traversal:
    """The history of `roots`, and of what else is `given` to a pass.

    With `targets`, gradients flow to them only; each has a state. `placeholders` are arguments for
    values that the pass has. With `may_shorten`, loops and rows are looked for.
    """

    __slots__ = (
        "copies",
        "given",
        "inside",
        "is_traced",
        "leaves",
        "loops",
        "order",
        "originals",
        "passed_by",
        "pending",
        "placeholders",
        "recorded",
        "recorded_ends",
        "roots",
        "target_nodes",
        "targets",
    )

    def __init__(
        self,
        roots: Sequence[Node],
        given: Iterable[Node],
        targets: Sequence[Node] | None,
        placeholders: Container[Node],
        may_shorten: bool,
    ) -> None:
        self.roots = list(roots)
        self.targets = targets
        self.placeholders = placeholders
        # Not a set: what is computed, and in which order gradients are added, must not depend on
        # addresses.
        self.given = list(dict.fromkeys([*roots, *given]))
        self.loops: list[Rerolled] = []
        # Of what comes after loops, and reads rows; and what each is a copy of.
        self.copies: dict[Node, Node] = {}
        self.originals: dict[Node, Node] = {}
        self.passed_by: list[Node] = []  # what rows as values of their own stand for
        self.order: list[Node] = []  # inputs before users
        self.leaves: list[Node] = []
        self.is_traced = False  # values do not exist yet
        traced_bodies.note_backward_pass()
        history = self._follow(self.given)
        self.recorded, self.recorded_ends = history.nodes, history.ends
        self.pending = [  # held by the user, not computed yet
            x for x in history.held if x.op is not ARGUMENT and held_tensor(x) is not None
        ]
        if may_shorten:
            self._reroll()
        self.inside = self._leading_to_targets(self.order)  # the nodes that gradients flow to
        if may_shorten and self._take_rows_as_values():
            self._reroll()  # steps that are alike now
            self.inside = self._leading_to_targets(self.order)
        self.target_nodes = set() if targets is None else self._targets_in(self.order)

    def goes_on(self, node: Node) -> bool:
        """Whether the derivative of `node` is needed."""
        if node.op.vjp is None:
            return False
        inside = self.inside
        return any(x.requires_grad and x in inside for x in node.inputs)

    def release(self, executed: set[Node]) -> None:
        """Release what was recorded of the operations that the pass has gone through."""
        inside: list[Sequence[Node]] = []  # of loops: what was gone through as one operation
        if self.originals:
            originals = self.originals
            for found in self.loops:
                if not executed.isdisjoint(found.recorded):
                    inside += [in_order_of_recording(found.before), found.steps]
            executed = {originals.get(x, x) for x in executed}
            executed.update([originals.get(x, x) for x in self.passed_by if x.requires_grad])
            # Steps may be copies: of a loop after another one, or with rows as values.
            inside = [
                steps
                if originals.keys().isdisjoint(steps)
                else [originals.get(x, x) for x in steps]
                for steps in inside
            ]
        release(self.recorded, self.recorded_ends, executed, inside)

    def _follow(self, nodes: Iterable[Node]) -> History:
        """Find what is behind `nodes`."""
        history = history_of(nodes, with_pending=True)
        self._go_along(history)
        return history

    def _go_along(self, history: History) -> None:
        self.order, ends = history.nodes, history.ends
        self.leaves = [
            x for x in ends if x.requires_grad and x.op.vjp is None and not order_of.is_first(x)
        ]
        known = self.placeholders
        # Values of tensors that a compiled function closes over are others at its next call.
        self.is_traced = traced_bodies.current.compiled is not None or any(
            stands_for_a_value(x) and x not in known for x in ends
        )

    def _reroll(self) -> None:
        """Go through loops in place of steps that were recorded one by one."""
        while (found := loop_in(self.order, self._fixed(), LOOPS)) is not None:
            copies = found.rewired(self.order, self.given)
            self.loops += found.loops
            self.given = [copies.get(x, x) for x in self.given]
            self._follow(self.given)
            self._go_through(copies)

    def _fixed(self) -> set[Node]:
        """What somebody knows: it stays, or has a copy. A copy has no handle that tells of it."""
        held = [self.copies.get(x, x) for x in self.pending]
        return {*self.given, *held, *(self.targets or ())}

    def _go_through(self, copies: dict[Node, Node]) -> None:
        """From now on `copies` are gone through, in place of what they are copies of."""
        for x, copy in copies.items():
            self.originals[copy] = self.originals.get(x, x)
        # Of copies before, copies.
        self.copies = {x: copies.get(copy, copy) for x, copy in self.copies.items()} | copies
        self.roots = [copies.get(x, x) for x in self.roots]

    def _take_rows_as_values(self) -> bool:
        """Go through rows that were written in parts as values of their own, if there are any."""
        if self.is_traced or not is_long(self.order) or _UPDATE not in map(_op_of, self.order):
            return False
        rows_as_values = imported("numba_grad.transforms.rerolling.rows_as_values")
        fixed = self._fixed()
        copies = rows_as_values.copies_with_rows_as_values(self.order, fixed)
        if not copies:
            return False
        nodes = dict.fromkeys([copies.get(x, x) for x in self.given])
        history = history_of(nodes, with_pending=True)
        inside = self._leading_to_targets(history.nodes)
        flowing = [x for x in self.order if x.requires_grad and x in self.inside]
        reached = {x for x in inside if x.requires_grad}
        lost = [x for x in flowing if copies.get(x, x) not in reached]
        # What no row that is read depends on has a gradient of zeros, if somebody asks for it.
        if any(
            x in fixed or x.autograd is not None or x.released or x.op.vjp is None for x in lost
        ):
            return False
        self.passed_by = [x for x in lost if self.goes_on(x)]
        self._go_through(copies)
        self.given = list(nodes)
        self._go_along(history)
        self.inside = inside
        return True

    def _leading_to_targets(self, order: Sequence[Node]) -> set[Node]:
        """Those of `order` that gradients flow to."""
        return set(order) if self.targets is None else leading_to(order, self._targets_in(order))

    def _targets_in(self, order: Sequence[Node]) -> set[Node]:
        # By state, not by node: a leaf has versions, and freed history stands in for tensors.
        states = {x.autograd for x in self.targets or ()}
        return {x for x in order if x.autograd in states}
