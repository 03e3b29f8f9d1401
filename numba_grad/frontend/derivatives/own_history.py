"""What one call of a transformed function has recorded, shortened where that is cheaper.

No other call knows these nodes, so they are changed where they are. (Of what a backward pass goes
through, others may know: `autograd/traversal.py` makes copies.)
"""

import itertools
from collections.abc import Sequence
from operator import attrgetter

from numba_grad.compiler.known_bodies import LOOPS
from numba_grad.fresh_thread import imported
from numba_grad.frontend.inputs.tracing import current, is_tracing
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.walk import History, history_of
from numba_grad.transforms.loop_sizes import LARGEST_VALUE, puts_arrays_together
from numba_grad.transforms.python_loops import FEWEST_NODES, is_long, is_long_since, loop_in
from numba_grad.transforms.rewrites.repeated_views import (
    without_repeated_views,
    without_repetitions,
)

_op, _requires_grad = attrgetter("op"), attrgetter("requires_grad")
_ASSIGNMENT = OPS["update_slice"]
_EXTREMES = {OPS["max"], OPS["min"]}


class OwnHistory:
    """The history of `outputs` down to `ends`, the variables of the call; `nodes` has inputs before
    users, with the caller's nodes just below.

    Nodes before the serial `since` are the caller's. `others` are what the function returns beside
    `outputs`: that is of the same steps, mostly, which are not computed twice. With `rerolls`,
    steps that the function has recorded one by one may become a loop.
    """

    __slots__ = (
        "_ends",
        "_is_shared",
        "_looked_at",
        "_outputs",
        "_rerolls",
        "_since",
        "meets_callers",
        "nodes",
        "roots",
    )

    def __init__(
        self,
        outputs: Sequence[Node],
        ends: Sequence[Node],
        since: int,
        others: Sequence[Node],
        rerolls: bool,
    ) -> None:
        self.roots = with_gradients(outputs)
        self.meets_callers = True  # whether there are ends that are not this call's own
        self.nodes: list[Node] = []
        self._ends = set(ends)
        self._since = since
        self._rerolls = rerolls
        self._looked_at: list[Node] = []  # without finding a loop
        self._is_shared = False  # whether what neighbours compute alike was looked for
        # All that is computed.
        others = [x for x in others if x.serial >= since and x.value is None]
        self._outputs = list(dict.fromkeys([*outputs, *others]))
        self._follow()

    @property
    def looked_through(self) -> list[Node]:
        """What was looked through for loops, as what is not in `nodes` may be."""
        return [*self.nodes, *self._looked_at]

    def _follow(self) -> None:
        is_searched = False
        if is_long_since(self._since, self.roots) and self._rerolls:
            # Before the history is walked, which is short then: one walk of what is long.
            walk = self._pending()
            if not self._meets_callers(walk) and self._has_shared_with_neighbours(walk):
                walk = self._pending()
            is_searched = self._is_own(walk)
            if is_searched and self._has_rerolled(walk):
                self._follow()
                return
        self.nodes, met, _ = history_of(self.roots, self._ends, since=self._since)
        self.meets_callers = not self._ends.issuperset(met)
        if self.meets_callers:
            return
        # Before steps are looked for, so that they go on to be alike.
        if puts_arrays_together(self.nodes) and self._has_shared_with_neighbours():
            self.nodes = history_of(self.roots, self._ends, since=self._since).nodes
        looks = self._rerolls and not is_searched
        # Not every process needs these. Steps that never read what they write have no rows.
        if OPS["update_slice"] in map(_op, self.nodes):
            if looks and self._is_long() and self._writes_in_parts() and self._has_rerolled():
                self._follow()
                return
            if self._has_rerolled_by_data(looks):
                self._follow()
                return
            rows_as_values = imported("numba_grad.transforms.rerolling.rows_as_values")
            self.nodes = rows_as_values.with_rows_as_values(self.nodes, self.roots)
        elif OPS["scatter_set"] in map(_op, self.nodes) and self._has_rerolled_by_data(looks):
            self._follow()
            return
        if looks and self._is_long() and self._has_rerolled():
            self._follow()
            return
        self._shorten()

    def _has_shared_with_neighbours(self, walk: History | None = None) -> bool:
        """Whether some of what a compiled function computes, which `walk` is, is now read of
        neighbours."""
        if self._is_shared or not is_tracing():
            return False
        self._is_shared = True
        nodes = (self._pending() if walk is None else walk).nodes
        if not puts_arrays_together(nodes):
            return False
        shared = imported("numba_grad.transforms.rewrites.shared_with_neighbours")
        order = [x for x in nodes if x.serial >= self._since]
        return shared.with_shared_with_neighbours(order, {*self._outputs, *self._ends})

    def _is_long(self) -> bool:
        return is_long(self.nodes, is_compiled=is_tracing())

    def _writes_in_parts(self) -> bool:
        written_parts = imported("numba_grad.transforms.rerolling.written_parts")
        return bool(written_parts.parts_written_in(self.nodes, self.roots, current.trace))

    def _has_rerolled_by_data(self, looks: bool) -> bool:
        """Whether there is a loop once rows that are written where data says are those of index
        arrays, and what masks select that are known is computed for all elements. Else they stay
        as they were."""
        if not (looks and is_tracing() and self._is_long()):
            return False
        before = [(x, x.inputs) for x in self.nodes]
        rows = chosen = None
        if OPS["update_slice"] in map(_op, self.nodes):
            rows_by_data = imported("numba_grad.transforms.rerolling.rows_by_data")
            rows = rows_by_data.with_rows_by_data(self.nodes, self.roots)
        nodes = self.nodes if rows is None else rows
        if OPS["scatter_set"] in map(_op, nodes):
            selections = imported("numba_grad.transforms.rerolling.known_selections")
            chosen = selections.with_known_selections(nodes, self.roots, current.trace)
        if rows is None and chosen is None:
            return False
        self.nodes = nodes if chosen is None else chosen
        if self._has_rerolled():
            return True
        for node, inputs in before:
            node.inputs = inputs
        self.nodes = history_of(self.roots, self._ends, since=self._since).nodes
        return False

    def _shorten(self) -> None:
        """Leave out what is there twice, or has no effect."""
        history, roots = self.nodes, self.roots
        # To look at indices takes time, so where a function is compiled.
        if is_tracing() and OPS["scatter_set"] in map(_op, history):
            written_parts = imported("numba_grad.transforms.rerolling.written_parts")
            history = written_parts.with_known_places(history, roots, current.trace)
        if puts_arrays_together(history):
            kept_ends = imported("numba_grad.transforms.rewrites.kept_ends")
            history = kept_ends.with_kept_ends(history, roots)
        if _ASSIGNMENT in map(_op, history) or puts_arrays_together(history):
            joined_parts = imported("numba_grad.transforms.rewrites.joined_parts")
            history = joined_parts.with_joined_parts(history, roots)
        history = without_repeated_views(history, roots)
        # Two arguments may be equal, and are two nevertheless.
        fixed = {*roots, *self._ends}
        history = without_repetitions(history, fixed, current.trace, LARGEST_VALUE)
        if is_tracing() and not _EXTREMES.isdisjoint(map(_op, history)):
            shifts = imported("numba_grad.transforms.rewrites.shifts_without_effect")
            cut = shifts.shifts_without_effect(history, roots)
            history = [x for x in history if x not in cut]
        self.nodes = history

    def _pending(self) -> History:
        """The history of all that is computed."""
        # A result that was looked at may have none any more.
        outputs = [x for x in self._outputs if x.inputs or x.value is None]
        return history_of(outputs, self._ends, since=self._since, with_pending=True)

    def _meets_callers(self, walk: History) -> bool:
        return any(x.requires_grad and x not in self._ends for x in walk.ends)

    def _is_own(self, walk: History) -> bool:
        """Whether steps among all this are such that one looks for them: many that have gradients,
        none of the caller's, and none that writes rows."""
        return (
            not self._meets_callers(walk)
            and OPS["update_slice"] not in map(_op, walk.nodes)
            and is_long([*itertools.islice(filter(_requires_grad, walk.nodes), FEWEST_NODES)])
        )

    def _has_rerolled(self, walk: History | None = None) -> bool:
        """Make a loop of steps that the function has recorded one by one, if there are such; else
        `nodes` are walked again, if they were before this `walk`."""
        is_walked = walk is None
        walk = self._pending() if walk is None else walk
        order = [x for x in walk.nodes if x.serial >= self._since]
        fixed = {*self._outputs, *self._ends}
        order = without_repetitions(order, fixed, current.trace, LARGEST_VALUE)
        found = loop_in(order, fixed, LOOPS, current.trace, is_compiled=is_tracing())
        self._looked_at = order
        if found is not None:
            found.rewire(order, self._outputs)
        elif is_walked:
            # What was looked at reads the first of what is repeated now: maybe what a user's rule
            # has computed, which was no history before.
            self.nodes = history_of(self.roots, self._ends, since=self._since).nodes
        return found is not None


def with_gradients(outputs: Sequence[Node]) -> set[Node]:
    return {node for node in outputs if node.requires_grad}
