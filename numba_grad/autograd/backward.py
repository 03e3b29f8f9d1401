"""`backward()` and `grad()`: torch's contract on recorded graphs.

One pass: walk the history of the outputs; build the graph of cotangents, calling hooks on the way
with tensors that are not computed yet; compute all results, and every other tensor of the graph
that the user still holds, in one program; set `.grad`; release the history. A refused call changes
nothing.
"""

import threading
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from numba_grad.autograd import anomaly
from numba_grad.autograd.forward_ad import current_level, has_tangent
from numba_grad.autograd.graph import GradientEdge, node_of_edge
from numba_grad.autograd.hooks import (
    run_post_accumulate_hooks,
    through_posthooks,
    through_prehooks,
    through_tensor_hooks,
)
from numba_grad.autograd.release import release
from numba_grad.autograd.state import GradientState, accumulation_lock, replace, state_of
from numba_grad.autograd.tensor_class import is_tensor, new_tensor, tensor_of
from numba_grad.compiler.evaluate import evaluate
from numba_grad.compiler.known_bodies import known_body
from numba_grad.dtypes import is_floating
from numba_grad.errors import GradientError, explain
from numba_grad.fresh_thread import imported, on_fresh_stack
from numba_grad.graph import order as order_of
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import ARGUMENT, OPS, Node, argument, held_tensor, leaf, recording
from numba_grad.graph.observers import collecting
from numba_grad.graph.walk import (
    History,
    history_of,
    in_order_of_recording,
    leading_to,
    stands_for_a_value,
)
from numba_grad.ops.control import custom
from numba_grad.ops.families import cast, ones_like, zeros_like
from numba_grad.transforms.batch import batch
from numba_grad.transforms.python_loops import is_long, loop_in
from numba_grad.transforms.vjp import (
    Cotangent,
    contributions,
    cotangents,
    released_error,
)

if TYPE_CHECKING:
    from numba_grad.transforms.rerolling import Rerolled

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_UPDATE, _op_of = OPS["update_slice"], attrgetter("op")
Tensors = Any  # a Tensor, a GradientEdge, or a sequence of them


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    Parameters
    ----------
    tensors : Tensor, GradientEdge, or a sequence of them, each requiring grad
    grad_tensors : what to multiply the derivatives of each with: a tensor of its shape, or None for
        1, which takes a real tensor with one element
    retain_graph : keep the history for another pass; by default as `create_graph`
    create_graph : record the computation of the gradients, so that they can be differentiated
    inputs : add to the `.grad` of these only, leaves or not

    Raises
    ------
    GradientError (a RuntimeError)
        As torch: an output that does not require grad, a gradient of another shape, a history
        already freed, ...
    """
    _within_depth(
        _backward, tensors, grad_tensors, retain_graph, create_graph=create_graph, inputs=inputs
    )


def _backward(
    tensors: Tensors,
    grad_tensors: Any,
    retain_graph: bool | None,
    *,
    create_graph: bool,
    inputs: Tensors | None,
) -> None:
    operation = "backward"
    targets = None
    if inputs is not None:
        targets = _targets(operation, _as_sequence(inputs))
    roots = _roots(operation, _as_sequence(tensors), grad_tensors, False)
    for target in targets or ():
        if target.op.vjp is not None:
            state_of(target).retains_grad = True
    retains = _retains(retain_graph, create_graph)
    run = _Pass(roots, create_graph, retains, targets, accumulates=True)
    run.differentiate()
    run.finish()


def grad(
    outputs: Tensors,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, added to no `.grad`.

    Parameters
    ----------
    outputs, grad_outputs, retain_graph, create_graph : as `tensors`, `grad_tensors`, ... of
        `backward`
    inputs : Tensor, GradientEdge, a sequence of them, or a dict of them; leaves or not, each
        requiring grad
    allow_unused : give None for inputs that no output depends on, instead of an error; by default
        as `materialize_grads`
    is_grads_batched : the first axis of each of `grad_outputs` is a batch: the same as a call for
        each member and stacking the results, in one batched program
    materialize_grads : give zeros instead of None

    Returns
    -------
    tuple of Tensor or None; for a dict of inputs, a dict

    Notes
    -----
    As in torch, the hooks of an input are applied to its gradient, unless another input is below
    it.
    """
    operation = "grad"
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got allow_unused=False"
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    sources = _as_sequence(inputs)
    targets = _targets(operation, sources)
    roots = _roots(operation, _as_sequence(outputs), grad_outputs, is_grads_batched)
    run = _Pass(roots, create_graph, _retains(retain_graph, create_graph), targets)
    results = _within_depth(_gradients, run, sources, targets, allow_unused, materialize_grads)
    if type(inputs) is dict:
        return dict(zip(inputs, results, strict=True))
    return tuple(results)


def _gradients(
    run: "_Pass",
    sources: Sequence[Any],
    targets: Sequence[Node],
    allow_unused: bool,
    materialize_grads: bool,
) -> list[Any]:
    operation = "grad"
    run.differentiate()
    found = run.captured()
    for number, g in enumerate(found):
        if g is None and not allow_unused:
            raise GradientError(
                explain(
                    operation,
                    "One of the differentiated Tensors appears to not have been used in the graph",
                    got={f"inputs[{number}]": targets[number]},
                    fix="Set allow_unused=True if this is desired, or materialize_grads=True for "
                    "zeros",
                )
            )
        if g is None and materialize_grads and isinstance(sources[number], GradientEdge):
            raise GradientError(
                "grad: materialize_grads cannot be used when the given input is a GradientEdge"
            )
    results = run.finish(found)
    if materialize_grads:
        results = [
            _zeros(target, run.create_graph) if result is None else result
            for result, target in zip(results, targets, strict=True)
        ]
    return results


class _Nesting(threading.local):
    depth = 0  # of passes in the hooks and derivatives of passes, on the stack of this thread


_nesting = _Nesting()
# A pass and a user's hook that starts the next one take 15 frames and more, of which Python allows
# a thread 1000. torch, whose own frames are not Python's, goes on in another thread from 60 on.
_DEEPEST = 10


def _within_depth(
    run: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """`run(*args, **kwargs)`, on a stack of its own if too many passes are on this one."""
    depth = _nesting.depth
    if depth == _DEEPEST:
        return on_fresh_stack(lambda: _within_depth(run, *args, **kwargs))
    _nesting.depth = depth + 1
    try:
        # To the end, when the nodes of the pass are gone: before it, one collection more looks at
        # all of them.
        return without_collection(run, *args, **kwargs)
    finally:
        _nesting.depth = depth


def _retains(retain_graph: bool | None, create_graph: bool) -> bool:
    return create_graph if retain_graph is None else retain_graph


def _zeros(target: Node, create_graph: bool) -> Any:
    node = OPS["detach"](zeros_like(target))
    node.requires_grad = create_graph
    return new_tensor(node)


# Arguments.


def _as_sequence(values: Any) -> tuple[Any, ...]:
    if is_tensor(values) or isinstance(values, GradientEdge):
        return (values,)
    return tuple(values.values()) if type(values) is dict else tuple(values)


@dataclass(slots=True)
class _Roots:
    """Where a pass starts. With a batch, `seeds` are arguments that `batched` has the values of."""

    nodes: list[Node] = field(default_factory=list)
    seeds: list[Node] = field(default_factory=list)
    batched: dict[Node, Node] = field(default_factory=dict)
    size: int = 0  # of the batch


def _roots(operation: str, outputs: Sequence[Any], gradients: Any, is_batched: bool) -> _Roots:
    """Outputs and their gradients, checked."""
    if gradients is None:
        given: Sequence[Any] = (None,) * len(outputs)
    else:
        is_sequence = isinstance(gradients, Sequence) and not is_tensor(gradients)
        given = tuple(gradients) if is_sequence else (gradients,)
    names = ("tensors", "grad_tensors") if operation == "backward" else ("outputs", "grad_outputs")
    result = _Roots()
    for number, (output, gradient) in enumerate(zip(outputs, given, strict=False)):
        node = _node(operation, f"{names[0]}[{number}]", output)
        result.nodes.append(node)
        label = f"{names[1]}[{number}]"
        seed = _seed(operation, label, node, gradient, is_batched)
        if is_batched and seed is not None:
            placeholder = argument(node.type, seed.requires_grad)
            result.batched[placeholder] = seed
            result.size = _batch_size(operation, result.size, seed)
            seed = placeholder
        result.seeds.append(seed)  # type: ignore[arg-type]
    if len(given) < len(outputs):
        raise GradientError(f"{operation}: got {len(outputs)} tensors and {len(given)} gradients")
    for number, node in enumerate(result.nodes):
        if not node.requires_grad:
            raise GradientError(
                explain(
                    operation,
                    f"element {number} of tensors does not require grad and does not have a "
                    "grad_fn",
                    got={f"{names[0]}[{number}]": node},
                    fix="ng.tensor(..., requires_grad=True) for what it is computed from, outside "
                    "of no_grad()",
                )
            )
    return result


def _batch_size(operation: str, size: int, seed: Node) -> int:
    if size not in (0, seed.shape[0]):
        raise ValueError(
            f"{operation}: is_grads_batched=True takes gradients with equal first axes, not "
            f"{size} and {seed.shape[0]}"
        )
    return seed.shape[0]


def _node(operation: str, label: str, value: Any) -> Node:
    if isinstance(value, GradientEdge):
        return node_of_edge(value)
    if not is_tensor(value):
        raise TypeError(
            explain(
                operation,
                "takes Tensors or GradientEdges",
                got={label: f"{value!r} ({type(value).__name__})"},
            )
        )
    return value._node


def _targets(operation: str, sources: Sequence[Any]) -> list[Node]:
    if not sources:
        raise GradientError(f"{operation}: `inputs` argument to `{operation}()` cannot be empty")
    return [_target(operation, number, source) for number, source in enumerate(sources)]


def _target(operation: str, number: int, source: Any) -> Node:
    node = _node(operation, f"inputs[{number}]", source)
    if not node.requires_grad:
        raise GradientError(
            explain(
                operation,
                "One of the differentiated Tensors does not require grad",
                got={f"inputs[{number}]": node},
                fix="requires_grad_() on it, before it is used",
            )
        )
    return node


def _seed(operation: str, label: str, node: Node, gradient: Any, is_batched: bool) -> Node | None:
    """The cotangent that a pass starts with; None where there is none to make."""
    if gradient is None:
        return _implicit_seed(operation, label, node, is_batched)
    if not is_tensor(gradient):
        raise TypeError(
            explain(
                operation,
                f"gradients can be either Tensors or None, but got {type(gradient).__name__}",
                got={"output": node.type},
                fix="ng.tensor(gradient)",
            )
        )
    seed = gradient._node
    shape = seed.shape
    if is_batched and not shape:
        raise ValueError(
            f"{operation}: is_grads_batched=True takes gradients with a batch axis, not {seed.type}"
        )
    shape = shape[1:] if is_batched else shape
    if shape != node.shape:
        raise GradientError(
            explain(
                operation,
                f"Mismatch in shape: {label} has a shape of {shape} and its output one of "
                f"{node.shape}",
                got={label: seed.type, "output": node.type},
                expected="the shape of the output, with a batch axis first"
                if is_batched
                else "the shape of the output",
            )
        )
    if (seed.dtype.kind == "c") != (node.dtype.kind == "c"):
        raise GradientError(
            explain(
                operation,
                "Mismatch in dtype: for complex tensors, the gradient has the dtype of the output",
                got={label: seed.type, "output": node.type},
            )
        )
    return seed


def _implicit_seed(operation: str, label: str, node: Node, is_batched: bool) -> Node | None:
    if not node.requires_grad:
        return None
    if is_batched:
        raise ValueError(
            f"{operation}: is_grads_batched=True takes a gradient for each output, not None "
            f"({label})"
        )
    if node.type.size != 1:
        raise GradientError(
            explain(
                operation,
                "grad can be implicitly created only for scalar outputs",
                got={"output": node.type},
                fix="the gradient of its sum, x.sum().backward(), or a gradient of the output's "
                "shape",
            )
        )
    if not is_floating(node.dtype):
        raise GradientError(
            explain(
                operation,
                f"grad can be implicitly created only for real scalar outputs but got {node.dtype}",
                got={"output": node.type},
            )
        )
    return ones_like(node)


# The pass.


class _Pass:
    """One backward pass: `differentiate`, then `finish`."""

    __slots__ = (
        "accumulates",
        "captures",
        "checks",
        "copies",
        "create_graph",
        "created",
        "ends",
        "found",
        "inside",
        "is_traced",
        "leaf_gradients",
        "leaves",
        "loops",
        "may_reroll",
        "order",
        "originals",
        "passed_by",
        "pending",
        "recorded",
        "retain_graph",
        "retained",
        "roots",
        "target_nodes",
        "targets",
    )

    def __init__(
        self,
        roots: _Roots,
        create_graph: bool,
        retain_graph: bool,
        targets: Sequence[Node] | None,
        accumulates: bool = False,
    ) -> None:
        self.roots = roots
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.targets = targets
        self.accumulates = accumulates  # into .grad, rather than giving results
        self.target_nodes: set[Node] = set()
        # The history, inputs before users, and what else is not computed yet: as it was recorded,
        # and as it is gone through, with loops in place of their steps.
        self.recorded: list[Node] = []
        self.ends: list[Node] = []  # of what was recorded
        self.order: list[Node] = []
        self.loops: list[Rerolled] = []
        # Of what comes after loops, and reads rows; and what each is a copy of.
        self.copies: dict[Node, Node] = {}
        self.originals: dict[Node, Node] = {}
        self.passed_by: list[Node] = []  # what rows as values of their own stand for
        self.may_reroll = False
        self.inside: Any = ()  # the nodes that gradients flow to
        self.leaves: list[Node] = []
        self.pending: list[Node] = []  # held by the user, not computed yet
        self.created: list[Node] = []  # what users' hooks recorded
        self.is_traced = False  # values do not exist yet
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
        else:
            self.may_reroll = not (self.create_graph or roots.batched or anomaly.is_enabled())
        self._walk()
        with recording(self.create_graph):
            seeds = [
                cast(seed, node.dtype) for node, seed in zip(roots.nodes, roots.seeds, strict=True)
            ]
            anomaly.follow(self.order)
            self.found = cotangents(
                roots.nodes, seeds, self.order, self.inside, self._differentiate
            )
            order_of.gone_back(self.found)
            self._differentiate_leaves()

    def _walk(self) -> None:
        """Find the history of the roots, and what is pending."""
        roots = self.roots
        # Not a set: what is computed, and in which order gradients are added, must not depend on
        # addresses.
        given = dict.fromkeys([*roots.nodes, *roots.seeds, *roots.batched.values()])
        history = self._follow(given)
        self.recorded, self.ends = history.nodes, history.ends
        self.pending = [
            x for x in history.held if x.op is not ARGUMENT and held_tensor(x) is not None
        ]
        for target in self.targets or ():
            state_of(target)
        if self.may_reroll:
            given = self._reroll(given)
        self.inside = self._inside(self.order)
        if self.may_reroll:
            self._take_rows_as_values(given)
        if self.targets is not None:
            self.target_nodes = self._targets_in(self.order)

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
        of_batch = self.roots.batched
        self.is_traced = any(stands_for_a_value(x) and x not in of_batch for x in ends)

    def _reroll(self, given: Iterable[Node]) -> list[Node]:
        """Go through loops in place of steps that were recorded one by one: in copies of what comes
        after, as another thread, or a hook, may walk the same graph. Returns those of `given`."""
        nodes = list(given)
        fixed = {*nodes, *(self.targets or ())}
        while (found := loop_in(self.order, fixed, known_body)) is not None:
            copies = found.rewired(self.order, nodes)
            self.loops.append(found)
            nodes = [copies.get(x, x) for x in nodes]
            fixed |= set(nodes)
            self._follow(nodes)
            self._go_through(copies)
        return nodes

    def _go_through(self, copies: dict[Node, Node]) -> None:
        """From now on `copies` are gone through, in place of what they are copies of."""
        for x, copy in copies.items():
            self.originals[copy] = self.originals.get(x, x)
        # Of copies before, copies.
        self.copies = {x: copies.get(copy, copy) for x, copy in self.copies.items()} | copies
        self.roots.nodes = [copies.get(x, x) for x in self.roots.nodes]

    def _take_rows_as_values(self, given: Iterable[Node]) -> None:
        """Go through rows that were written in parts as values of their own: in copies as well."""
        if self.is_traced or not is_long(self.order) or _UPDATE not in map(_op_of, self.order):
            return
        rows_as_values = imported("numba_grad.transforms.rows_as_values")
        held = [self.copies.get(x, x) for x in self.pending]
        fixed = {*given, *held, *(self.targets or ())}
        copies = rows_as_values.copies_with_rows_as_values(self.order, fixed)
        if not copies:
            return
        nodes = dict.fromkeys([copies.get(x, x) for x in given])
        history = history_of(nodes, with_pending=True)
        inside = self._inside(history.nodes)
        flowing = [x for x in self.order if x.requires_grad and x in self.inside]
        reached = {x for x in inside if x.requires_grad}
        lost = [x for x in flowing if copies.get(x, x) not in reached]
        # What no row that is read depends on has a gradient of zeros, if somebody asks for it.
        if any(
            x in fixed or x.autograd is not None or x.released or x.op.vjp is None for x in lost
        ):
            return
        self.passed_by = [x for x in lost if self._goes_on(x)]
        self._go_through(copies)
        self._go_along(history)
        self.inside = inside

    def _inside(self, order: Sequence[Node]) -> set[Node]:
        """Those of `order` that gradients flow to."""
        return set(order) if self.targets is None else leading_to(order, self._targets_in(order))

    def _targets_in(self, order: Sequence[Node]) -> set[Node]:
        # By state, not by node: a leaf has versions, and freed history stands in for tensors.
        states = {x.autograd for x in self.targets or ()}
        return {x for x in order if x.autograd in states}

    def _differentiate(self, node: Node, g: Cotangent) -> Sequence[Cotangent] | None:
        """What `node` contributes to its inputs, with hooks: called for nodes that have a state."""
        if node not in self.inside:
            return None
        state = node.autograd
        if state.hooks or state.node_hooks or state.node_prehooks or g.__class__ is list:
            with collecting(self.created):
                return self._differentiate_with_hooks(node, state, g)
        return self._differentiate_with_hooks(node, state, g)

    def _differentiate_with_hooks(
        self, node: Node, state: GradientState, g: Cotangent
    ) -> Sequence[Cotangent] | None:
        goes_on = self._goes_on(node)
        if g.__class__ is not list:
            hooked = through_tensor_hooks(state.hooks, g) if state.hooks else g
            if state.retains_grad and not self.roots.batched:
                self.retained.append((state, hooked))
            if node in self.target_nodes:
                # As torch: the result is what came in if the pass goes on below, else what the
                # hooks made of it.
                result = g if goes_on else hooked
                previous = self.captures.get(state)
                self.captures[state] = result if previous is None else OPS["add"](previous, result)
            g = hooked
        return hooked_contributions(node, g, self.inside, self.checks) if goes_on else None

    def _goes_on(self, node: Node) -> bool:
        """Whether the derivative of `node` is needed."""
        if node.op.vjp is None:
            return False
        inside = self.inside
        return any(x.requires_grad and x in inside for x in node.inputs)

    def _differentiate_leaves(self) -> None:
        """Run the hooks of leaves, on the sum over all versions, and note what goes where."""
        sums: dict[Any, tuple[Node, Node]] = {}
        for leaf_node in self.leaves:
            g = self.found.get(leaf_node)
            if g is None or leaf_node not in self.inside:
                continue
            key = leaf_node if leaf_node.autograd is None else leaf_node.autograd
            previous = sums.get(key)
            sums[key] = (leaf_node, g if previous is None else OPS["add"](previous[1], g))
        for leaf_node, g in sums.values():
            state = state_of(leaf_node)
            if state.hooks:
                with collecting(self.created):
                    g = through_tensor_hooks(state.hooks, g)
            if not self.accumulates:
                self.captures[state] = g
                continue
            if state.node_prehooks:
                g = _through_prehooks(state, g)
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
        for node in self.recorded:
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
            keeps_nodes = self.create_graph or self.is_traced or current_level() is not None
            gradients_of_states = [*self.retained, *[(s, g) for _, s, g in self.leaf_gradients]]
            updates = [GradientUpdate(state, g, keeps_nodes) for state, g in gradients_of_states]
            self._compute([g for g in results if g is not None] + [u.total for u in updates])
            set_gradients(updates)
        if not self.retain_graph:
            self._release()
        with recording(self.create_graph):
            self._run_leaf_hooks()
        return [None if g is None else self._as_tensor(g) for g in results]

    def _batched(self, gradients: Sequence[Node | None]) -> list[Node | None]:
        reached = [g for g in gradients if g is not None]
        rebuilt = iter(batch(reached, self.roots.batched, self.roots.size))
        return [None if g is None else next(rebuilt) for g in gradients]

    def _as_results(self, gradients: Sequence[Node | None]) -> list[Node | None]:
        """Nodes of their own: two results may be one gradient, or the user's own tensor."""
        if not self.create_graph and not self.is_traced:
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
        if self.create_graph or self.is_traced:
            return new_tensor(g)
        if has_tangent(g):
            return new_tensor(OPS["identity"](g))
        return new_tensor(leaf(g.value))

    def _compute(self, nodes: Sequence[Node]) -> None:
        """Compute results, and whatever else of the graph the user still holds, in one program."""
        if self.is_traced:
            return
        if self.roots.batched:
            # Hooks and checks have seen one member of the batch, which has no value.
            self.created, self.checks = [], []
        held = [x for x in (*self.pending, *self.created) if held_tensor(x) is not None]
        copies = self.copies
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

    def _release(self) -> None:
        executed = {x for x in self.order if self._is_executed(x)}
        inside: list[Sequence[Node]] = []  # of loops: what was gone through as one operation
        if self.originals:
            originals = self.originals
            for found in self.loops:
                if found.loop in executed:
                    inside += [in_order_of_recording(found.before), found.steps]
            executed = {originals.get(x, x) for x in executed}
            executed.update([originals.get(x, x) for x in self.passed_by if x.requires_grad])
            # Of a loop after another one, steps may be copies.
            if len(self.loops) > 1:
                inside = [[originals.get(x, x) for x in steps] for steps in inside]
        release(self.recorded, self.ends, executed, inside)

    def _is_executed(self, node: Node) -> bool:
        """Whether the pass has gone through an operation."""
        if node.op.vjp is None or self.found.get(node) is None:
            return False
        return self.targets is None or self._goes_on(node)


def hooked_contributions(
    node: Node, g: Cotangent, inside: Container[Node], checks: anomaly.Checks
) -> Sequence[Cotangent]:
    """As `contributions`, with the hooks of the operation itself. In anomaly mode `checks` gets
    what the rule gave."""
    state = node.autograd
    if state.node_prehooks:
        g = _through_prehooks(state, g)
    with anomaly.differentiating(node):
        pulled: Sequence[Cotangent] = contributions(node, g, inside)
    if anomaly.is_enabled():
        checks.append((node, pulled))
    if state.node_hooks:
        outgoing = g if g.__class__ is list else [g]
        # Of a user's Function, the inputs that gradients go to come first.
        count = node.params["context"].tensor_count if node.op is custom else len(pulled)
        pulled = through_posthooks(state.node_hooks, pulled[:count], outgoing)
    return pulled


class GradientUpdate:
    """What one `.grad` becomes."""

    __slots__ = ("g", "keeps_node", "previous", "previous_node", "state", "total")

    def __init__(self, state: GradientState, g: Node, keeps_node: bool) -> None:
        self.state = state
        self.g = g
        self.keeps_node = keeps_node
        self.restart()

    def restart(self) -> None:
        """Add to what `.grad` is now."""
        self.previous = self.state.grad
        self.previous_node = None if self.previous is None else self.previous._node
        if self.previous_node is not None:
            self.total = OPS["add"](self.previous_node, self.g)
        else:
            self.total = OPS["identity"](self.g) if self.keeps_node else self.g

    def try_to_set(self) -> bool:
        """Set `.grad`, unless it is no longer what was added to.

        As in torch, it stays the tensor that it was, with another value, unless one of the two has
        history: who holds it sees the sum.
        """
        previous = self.previous
        if self.state.grad is not previous:
            return False
        if previous is not None and previous._node is not self.previous_node:
            return False
        node = self.total if self.keeps_node else leaf(self.total.value)
        if previous is None or self.keeps_node or previous._node.requires_grad:
            self.state.grad = new_tensor(node)
        else:
            replace(previous, node)
        return True


def set_gradients(updates: Sequence[GradientUpdate]) -> None:
    """Set `.grad`, of tensors that are computed, or have no values yet."""
    todo = list(updates)
    while todo:
        with accumulation_lock:
            # Another thread may have changed a `.grad` since it was read.
            todo = [u for u in todo if not u.try_to_set()]
        for update in todo:
            update.restart()
        if todo:
            evaluate([u.total for u in todo if not u.keeps_node], is_complete=True)


def _through_prehooks(state: GradientState, g: Cotangent) -> Cotangent:
    if g.__class__ is list:
        return through_prehooks(state.node_prehooks, g)
    return through_prehooks(state.node_prehooks, [g])[0]
