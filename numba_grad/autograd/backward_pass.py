"""One backward pass over a recorded graph, from outputs to `.grad`, or to gradients as results.

Walk the history of the outputs; build the graph of cotangents, calling hooks on the way with
tensors that are not computed yet; compute all results, and every other tensor of the graph that
the user still holds, in one program; set `.grad`; release the history.
"""

from collections.abc import Sequence
from typing import Any

from numba_grad.autograd import anomaly
from numba_grad.autograd.accumulation import GradientUpdate, set_gradients
from numba_grad.autograd.backward_arguments import SeededRoots
from numba_grad.autograd.forward_ad import current_level, has_tangent
from numba_grad.autograd.hooks import (
    hooked_contributions,
    run_post_accumulate_hooks,
    through_posthooks,
    through_prehooks,
    through_tensor_hooks,
)
from numba_grad.autograd.state import GradientState, is_revalued, state_of
from numba_grad.autograd.tensor_class import new_tensor, tensor_of
from numba_grad.autograd.traversal import Traversal
from numba_grad.compiler.evaluate import evaluate
from numba_grad.graph import order as order_of
from numba_grad.graph.node import OPS, Node, held_tensor, leaf, recording
from numba_grad.graph.observers import collecting
from numba_grad.ops.families import cast
from numba_grad.transforms.batch import batch
from numba_grad.transforms.vjp import Cotangent, contributions, cotangents, released_error


class Pass:
    """One backward pass: `differentiate`, then `finish`."""

    __slots__ = (
        "accumulates",
        "captures",
        "checks",
        "create_graph",
        "created",
        "found",
        "leaf_gradients",
        "retain_graph",
        "retained",
        "roots",
        "starts_at_root",
        "targets",
        "traversal",
    )

    def __init__(
        self,
        roots: SeededRoots,
        create_graph: bool,
        retain_graph: bool,
        targets: Sequence[Node] | None,
        accumulates: bool = False,
    ) -> None:
        self.roots = roots
        # torch hands the gradient of an only root to its hooks whether or not a target is below.
        self.starts_at_root = len(roots.nodes) == 1
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.targets = targets
        self.accumulates = accumulates  # into .grad, rather than giving results
        self.created: list[Node] = []  # what users' hooks recorded
        self.found: dict[Node, Cotangent] = {}
        self.captures: dict[GradientState, Node] = {}  # results
        self.leaf_gradients: list[tuple[Node, GradientState, Node]] = []  # what to add to .grad
        self.retained: list[tuple[GradientState, Node]] = []
        self.checks: anomaly.Checks = []

    def differentiate(self) -> None:
        """Build the graph of cotangents. Hooks run here."""
        roots = self.roots
        token = order_of.root_of_backward(is_kept=self.retain_graph)
        if token is not None:
            roots.nodes.append(token)
            roots.seeds.append(order_of.token() if token.value is None else leaf(token.value))
        is_plain = not (self.create_graph or roots.batched or anomaly.is_enabled())
        for target in self.targets or ():
            state_of(target)
        traversal = self.traversal = Traversal(
            roots.nodes,
            [*roots.seeds, *roots.batched.values()],
            self.targets,
            placeholders=roots.batched,
            may_shorten=is_plain and token is None,
        )
        with recording(self.create_graph):
            seeds = [
                cast(seed, node.dtype)
                for node, seed in zip(traversal.roots, roots.seeds, strict=True)
            ]
            anomaly.follow(traversal.order)
            self.found = cotangents(
                traversal.roots, seeds, traversal.order, traversal.inside, self._differentiate
            )
            order_of.gone_back(self.found)
            self._differentiate_leaves()

    def _differentiate(self, node: Node, g: Cotangent) -> Sequence[Cotangent] | None:
        """What `node` contributes to its inputs, with hooks: called for nodes that have a state."""
        if not self._is_reached(node):
            return None
        if is_revalued(node):  # what it stands for has the hooks
            return contributions(node, g, self.traversal.inside)
        state = node.autograd
        if state.hooks or state.node_hooks or state.node_prehooks or g.__class__ is list:
            with collecting(self.created):
                return self._differentiate_with_hooks(node, state, g)
        return self._differentiate_with_hooks(node, state, g)

    def _is_reached(self, node: Node) -> bool:
        traversal = self.traversal
        return node in traversal.inside or (self.starts_at_root and node is traversal.roots[0])

    def _differentiate_with_hooks(
        self, node: Node, state: GradientState, g: Cotangent
    ) -> Sequence[Cotangent] | None:
        traversal = self.traversal
        goes_on = traversal.goes_on(node)
        if g.__class__ is not list:
            hooked = through_tensor_hooks(state.hooks, g) if state.hooks else g
            if state.retains_grad and not self.roots.batched:
                self.retained.append((state, hooked))
            if node in traversal.target_nodes:
                # As torch: the result is what came in if the pass goes on below, else what the
                # hooks made of it.
                result = g if goes_on else hooked
                previous = self.captures.get(state)
                self.captures[state] = result if previous is None else OPS["add"](previous, result)
            g = hooked
        if not goes_on and not self._ends_with(node):
            return None
        return hooked_contributions(node, g, traversal.inside, self.checks)

    def _ends_with(self, node: Node) -> bool:
        """Whether `node` is an input of `backward`, which torch goes through, for its hooks."""
        return self.accumulates and node in self.traversal.target_nodes

    def _differentiate_leaves(self) -> None:
        """Run the hooks of leaves, on the sum over all versions, and note what goes where."""
        sums: dict[Any, tuple[Node, Node]] = {}
        for leaf_node in self.traversal.leaves:
            g = self.found.get(leaf_node)
            if g is None or not self._is_reached(leaf_node):
                continue
            key = leaf_node if leaf_node.autograd is None else leaf_node.autograd
            previous = sums.get(key)
            sums[key] = (leaf_node, g if previous is None else OPS["add"](previous[1], g))
        for leaf_node, g in sums.values():
            state = state_of(leaf_node)
            if state.hooks:
                with collecting(self.created):
                    g = through_tensor_hooks(state.hooks, g)
            if leaf_node not in self.traversal.inside:
                continue
            if not self.accumulates:
                self.captures[state] = g
                continue
            if state.is_frozen:
                continue
            if state.node_prehooks:
                g = through_prehooks(state.node_prehooks, g)
            if g is not None:
                self.leaf_gradients.append((leaf_node, state, g))

    def captured(self) -> list[Node | None]:
        """The gradient of each target, None where none arrived."""
        result = []
        for target in self.targets or ():
            g = self.captures.get(target.autograd)
            if g is None and target.op.vjp is not None:
                self._refuse_if_freed(target)
            result.append(g)
        return result

    def _refuse_if_freed(self, target: Node) -> None:
        """Raise if `target` may be below something freed: what exactly was is not kept."""
        for node in self.traversal.recorded:
            if node.released and node.serial > target.serial:
                raise released_error(node)

    def finish(self, gradients: Sequence[Node | None] = ()) -> list[Any]:
        """Compute, set `.grad`, release history; returns `gradients` as tensors."""
        with recording(self.create_graph):
            if self.roots.batched:
                gradients = self._batched(gradients)
            results = self._as_results(gradients)
            # A gradient that has history, or is symbolic, stays a node: one of its own for each
            # `.grad`.
            # A level of dual numbers has tangents of nodes, not of values.
            keeps_nodes = self._results_are_recorded() or current_level() is not None
            gradients_of_states = [*self.retained, *[(s, g) for _, s, g in self.leaf_gradients]]
            updates = [GradientUpdate(state, g, keeps_nodes) for state, g in gradients_of_states]
            self._compute([g for g in results if g is not None] + [u.total for u in updates])
            set_gradients(updates)
        if not self.retain_graph:
            self.traversal.release(set(filter(self._is_executed, self.traversal.order)))
        with recording(self.create_graph):
            self._run_leaf_hooks()
        return [None if g is None else self._as_tensor(g) for g in results]

    def _batched(self, gradients: Sequence[Node | None]) -> list[Node | None]:
        reached = [g for g in gradients if g is not None]
        rebuilt = iter(batch(reached, self.roots.batched, self.roots.size))
        return [None if g is None else next(rebuilt) for g in gradients]

    def _results_are_recorded(self) -> bool:
        """Whether results keep how they are computed: they have history, or no values yet."""
        return self.create_graph or self.traversal.is_traced

    def _as_results(self, gradients: Sequence[Node | None]) -> list[Node | None]:
        """Nodes of their own: two results may be one gradient, or the user's own tensor."""
        if not self._results_are_recorded():
            return list(gradients)
        seen: set[Node] = set()
        results: list[Node | None] = []
        for g in gradients:
            if g is not None and not self.create_graph:
                g = OPS["detach"](g)
            elif g is not None and (g in seen or g.handle is not None or g.op.vjp is None):
                g = OPS["identity"](g)
            if g is not None:
                seen.add(g)
            results.append(g)
        return results

    def _as_tensor(self, g: Node) -> Any:
        if self._results_are_recorded():
            return new_tensor(g)
        if has_tangent(g):
            return new_tensor(OPS["identity"](g))
        return new_tensor(leaf(g.value))

    def _compute(self, nodes: Sequence[Node]) -> None:
        """Compute results, and whatever else of the graph the user still holds, in one program."""
        if self.traversal.is_traced:
            return
        if self.roots.batched:
            # Hooks and checks have seen one member of the batch, which has no value.
            self.created, self.checks = [], []
        held = [x for x in (*self.traversal.pending, *self.created) if held_tensor(x) is not None]
        copies = self.traversal.copies
        wanted = [*nodes, *(copies.get(x, x) for x in held)]
        wanted += anomaly.values_to_check(self.checks)
        evaluate(wanted, is_complete=True)
        for node in held:
            if node in copies and node.value is None:
                node.value = copies[node].value
        anomaly.check(self.checks)

    def _run_leaf_hooks(self) -> None:
        for leaf_node, state, g in self.leaf_gradients:
            if state.post_accumulate_hooks:
                tensor = None if state.owner is None else state.owner()
                tensor = tensor_of(leaf_node) if tensor is None else tensor
                run_post_accumulate_hooks(state.post_accumulate_hooks, tensor)
            if state.node_hooks:
                through_posthooks(state.node_hooks, [], [g])

    def _is_executed(self, node: Node) -> bool:
        """Whether the pass has gone through an operation."""
        if node.op.vjp is None or self.found.get(node) is None:
            return False
        return self.targets is None or self.traversal.goes_on(node) or self._ends_with(node)
