"""One call of a transformed function: `Differentiation`.

It runs the function once, on fresh variables that stand for the differentiated arguments. Variables
of two calls are never the same node, so derivatives nest to any order without being confused, and
what the caller has recorded stays as it is: results have history exactly where they depend on it.
"""

import contextlib
import itertools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numba_grad.autograd import anomaly
from numba_grad.autograd.accumulation import GradientUpdate, set_gradients
from numba_grad.autograd.forward_ad import has_tangent, with_tangents
from numba_grad.autograd.hooks import hooked_contributions, through_tensor_hooks
from numba_grad.autograd.running import running
from numba_grad.autograd.state import GradientState
from numba_grad.compiler.evaluate import evaluate
from numba_grad.errors import explain
from numba_grad.fresh_thread import carried
from numba_grad.frontend.derivatives.own_history import OwnHistory, with_gradients
from numba_grad.frontend.derivatives.results import described, inexact, matching, scalar
from numba_grad.frontend.derived_functions import DerivedFunction, derived_from
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.inputs.tracing import current, is_known, values_asked_for
from numba_grad.frontend.tensors.python_numbers import handle_like
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, grad_mode, leaf, next_serial, recording
from numba_grad.graph.traced_bodies import current as tracing_of
from numba_grad.graph.walk import is_traced, leading_to
from numba_grad.ops.control import custom
from numba_grad.ops.families import full, zeros_like
from numba_grad.transforms.batch import batch
from numba_grad.transforms.jvp import pushed_forward, tangents
from numba_grad.transforms.vjp import Cotangent, cotangents

Argnums = int | Sequence[int]


class _Running(threading.local):
    """How many differentiated functions are running in this thread."""

    depth = 0


_running = carried(_Running())


def derivative_of(
    f: Callable[..., Any],
    make: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    *options: Any,
) -> Callable[[Callable[..., Any]], DerivedFunction]:
    """A decorator for what calls of `make(f, argnums, has_aux, *options)` run.

    Raises
    ------
    TypeError
        If `f` is not a function or `argnums` are not integers.
    """
    operation = make.__name__
    if not callable(f):
        raise TypeError(
            explain(operation, "needs a function", got={"f": repr(f)}, fix=f"ng.{operation}(f)(x)")
        )
    checked_argnums(operation, argnums)
    return derived_from(f, make, argnums, has_aux, *options)


def run_on_variables(
    operation: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    argnums: Argnums,
    has_aux: bool,
    create_graph: bool | None = None,
) -> tuple["Differentiation", Any, Any]:
    """Call `f` on variables in place of the arguments `argnums`; its result, and aux or None."""
    args = list(args)
    records = grad_mode.enabled if create_graph is None else create_graph
    call = Differentiation(operation, records, create_graph)
    with recording(True):
        for number in _positions(operation, argnums, len(args)):
            args[number] = call.add_argument(f"argument {number}", args[number])
        _running.depth += 1
        try:
            with running(operation, call.variables), order.scope(call.new_token) as scope:
                out = f(*args, **kwargs)
        finally:
            _running.depth -= 1
    if scope.communicates:
        call.last_token = scope.last
        order.advance([], scope.token())
    if not has_aux:
        return call, out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(
            explain(
                operation,
                "with has_aux the function must return two things",
                got={"result": described(out)},
                expected="(value, anything else)",
            )
        )
    call.auxiliary = [x._node for x in trees.flatten(out[1])[0] if isinstance(x, Tensor)]
    return call, *out


def gradient_of_call(
    operation: str,
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    with_value: bool,
    weight: float = 1.0,
) -> tuple[Any, list[Tensor], Any]:
    """The gradient of `weight` times `f`, the value of `f` if asked for, and aux or None."""
    call, out, aux = run_on_variables(operation, f, args, kwargs, argnums, has_aux)
    value = scalar(operation, out)
    with recording(call.is_recorded([value])):
        seed = full(weight, value.shape, value.dtype, value.type.device)
        pulled = call.gradients([value], [seed])
    wanted = [value] if with_value else []
    results, aux = call.results_and_aux([*pulled, *wanted], aux)
    return call.as_arguments(results[: len(pulled)], argnums), results[len(pulled) :], aux


def checked_argnums(operation: str, argnums: Argnums) -> list[int]:
    """`argnums` as a list, also of one."""
    try:
        try:
            return [operator.index(argnums)]  # type: ignore[arg-type]
        except TypeError:
            return [operator.index(number) for number in argnums]  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(
            explain(
                operation,
                "argnums are the positions of the arguments to differentiate by",
                got={"argnums": repr(argnums)},
                expected="an integer, or several",
                fix=f"ng.{operation}(f)(x), with the arguments of f in parentheses of their own",
            )
        ) from None


def _positions(operation: str, argnums: Argnums, count: int) -> list[int]:
    """`argnums` as a list of distinct non-negative positions."""
    numbers = checked_argnums(operation, argnums)
    for number in numbers:
        if not -count <= number < count:
            raise TypeError(
                explain(
                    operation,
                    "argnums names an argument that was not passed",
                    got={"argnums": argnums, "positional arguments": count},
                    expected=f"{-count} <= argnums < {count}" if count else "",
                    fix="pass what is differentiated by position, not by keyword",
                )
            )
    positions = [number % count for number in numbers]
    if len(set(positions)) != len(positions):
        raise ValueError(
            explain(
                operation,
                "argnums names an argument twice",
                got={"argnums": argnums},
                expected="each position once",
            )
        )
    return positions


def _variable(node: Node) -> Node:
    """A node of the same value that gradients stop at. No leaf, so functions may write to it."""
    variable = OPS["identity"](node)
    variable.requires_grad = True
    if is_known(node):
        variable.value = node.value
    return variable


def _leaf_variable(node: Node) -> Node:
    """The same as a leaf, as in torch: functions may not write to it, and may ask for its
    `.grad`."""
    variable = OPS["detach"](node)
    variable.requires_grad = True
    return variable


@contextlib.contextmanager
def reopened(closed: Sequence[tuple[Node, tuple[Node, ...]]]) -> Iterator[None]:
    """Make nodes require grad again, to differentiate through them once more."""
    for node, inputs in closed:
        node.inputs = inputs  # what has a value and no history may have dropped them
        node.requires_grad = True
    try:
        yield
    finally:
        for node, _ in closed:
            node.requires_grad = False


@dataclass(slots=True, eq=False)
class Differentiation:
    """What one call of a transformed function differentiates by, and how it gives results."""

    operation: str
    records: bool  # whether the caller records history
    # torch's functions say whether results are differentiable: all or none, and by all inputs.
    # None: where they depend on what the caller can differentiate by.
    create_graph: bool | None = None
    originals: list[Node] = field(default_factory=list)  # what the caller passed, leaf by leaf
    variables: list[Node] = field(default_factory=list)  # what the function got instead
    structures: list[trees.Structure] = field(default_factory=list)  # of each argument
    first_serial: int = 0  # nodes with a smaller one are the caller's
    auxiliary: list[Node] = field(default_factory=list)  # what else the function has returned
    history: OwnHistory | None = None  # the last one: it is asked for thrice in a gradient
    closed: list[tuple[Node, tuple[Node, ...]]] = field(default_factory=list)  # with their inputs
    # Where the function communicates: the variable in place of the caller's token, and the token of
    # the last communication, an output. What is derived communicates as well.
    token: Node | None = None
    callers_token: Node | None = None
    last_token: Node | None = None
    closing: Node | None = None  # the token of the last communication of a derivative
    checks: anomaly.Checks = field(default_factory=list)
    # Of tensors whose function said retain_grad().
    retained: list[tuple[GradientState, Node]] = field(default_factory=list)

    def new_token(self) -> Node:
        self.callers_token = order.token()
        self.token = _variable(self.callers_token)
        return self.token

    @property
    def _ends(self) -> list[Node]:
        """Where the history of this call ends."""
        return self.variables if self.token is None else [*self.variables, self.token]

    def _in_order(self) -> contextlib.AbstractContextManager[None]:
        """While cotangents go back along the chain of what was communicated: what a user's rule
        communicates has no place in it. Where values are there, everything happens at once."""
        if self.last_token is None or order.token().value is not None:
            return contextlib.nullcontext()
        return order.refused(
            self.operation,
            "the backward of a user's rule communicates, within a function that does so as well",
            "ng.mpi operations in the forward, whose adjoints are known; or no jit around it",
        )

    def _and_token(self, outputs: Sequence[Node]) -> list[Node]:
        last = self.last_token if self.closing is None else self.closing
        return [*outputs] if last is None else [*outputs, last]

    def _go_on(self, token: Node | None) -> None:
        """Say that a derivative has communicated last what gave `token`."""
        if self.token is not None and token is not None:
            self.closing = token
            order.advance([], token)

    def add_argument(self, name: str, tree: Any) -> Any:
        """Make variables of the leaves of one argument; returns what to pass instead."""
        leaves, structure = trees.flatten(tree)
        nodes = []
        for number, value in enumerate(leaves):
            try:
                nodes.append(inexact(self.operation, as_node(value)))
            except (TypeError, ValueError) as error:
                error.add_note(f"at {trees.leaf_names(structure, name)[number]}")
                raise
        is_torch = self.create_graph is not None
        variables = [
            _leaf_variable(node) if is_torch and not node.requires_grad else _variable(node)
            for node in nodes
        ]
        if not self.variables and variables:
            self.first_serial = variables[0].serial
        self.originals += nodes
        self.variables += variables
        self.structures.append(structure)
        handles = [handle_like(value, x) for value, x in zip(leaves, variables, strict=True)]
        return trees.unflatten(structure, handles)

    def gradients(self, outputs: Sequence[Node], seeds: Sequence[Node]) -> list[Node]:
        """Cotangents of the variables; 0 where no output depends on one."""
        if self.last_token is not None:
            outputs, seeds = [*outputs, self.last_token], [*seeds, order.token()]
        flowing = [
            (output, seed)
            for output, seed in zip(outputs, seeds, strict=True)
            if output.requires_grad
        ]
        roots = [output for output, _ in flowing]
        reached = self._reached(roots)
        inside = set(reached)
        hooked: dict[Node, Node] = {}

        def differentiate(node: Node, g: Cotangent) -> Sequence[Cotangent]:
            """With the hooks that the function registered."""
            if node.autograd.hooks and g.__class__ is not list:
                g = hooked[node] = through_tensor_hooks(node.autograd.hooks, g)
            if node.autograd.retains_grad and g.__class__ is not list:
                self.retained.append((node.autograd, g))
            return hooked_contributions(node, g, inside, self.checks)

        anomaly.follow(reached)
        since = next_serial()
        with self._in_order():
            found = cotangents(roots, [seed for _, seed in flowing], reached, inside, differentiate)
        found.update(hooked)
        for x in self.variables:
            if x.op.vjp is None and x.autograd is not None and x in found:  # a leaf
                found[x] = through_tensor_hooks(x.autograd.hooks, found[x])
        self._go_on(None if self.token is None else found.get(self.token))
        if current.trace is not None and self._rerolls and self.history is not None:
            current.trace.has_differentiated(self.history.looked_through, since)
        return [found[x] if x in found else zeros_like(x) for x in self.variables]

    def depends_on(self, outputs: Sequence[Node]) -> list[bool]:
        """For each variable, whether one of `outputs` was computed from it."""
        reached = set(self._reached(outputs))
        return [x in reached for x in self.variables]

    def _reached(self, outputs: Sequence[Node]) -> list[Node]:
        """The nodes on the ways from the variables to `outputs`, inputs before users."""
        history = self._own_history(outputs)
        leads = leading_to(history, set(self._ends))
        return [node for node in history if node in leads]

    def _own_history(self, outputs: Sequence[Node]) -> list[Node]:
        """What this call recorded of the history of `outputs`, and the caller's nodes just below.

        Inputs come before users.
        """
        if self.history is None or self.history.roots != with_gradients(outputs):
            self.history = None  # whose memory may be large
            self.history = OwnHistory(
                outputs, self._ends, self.first_serial, self.auxiliary, self._rerolls
            )
        return self.history.nodes

    @property
    def _rerolls(self) -> bool:
        """Whether steps that were recorded one by one may become a loop."""
        return self.last_token is None and not anomaly.is_enabled()

    def _callers(self, history: Sequence[Node]) -> set[Node]:
        """Those of `history` that depend on something of the caller's that requires grad.

        That is an older node, or one that no gradient flows from: a leaf, the variable of another
        call. (Those of calls that are over do not require grad any more, see `close`.)
        """
        found = {
            x
            for x, original in zip(self.variables, self.originals, strict=True)
            if original.requires_grad
        }
        if self.token is not None and self.callers_token.requires_grad:  # type: ignore[union-attr]
            found.add(self.token)
        if not found and self.history is not None and not self.history.meets_callers:
            return found
        own = set(self._ends)
        for node in history:
            if node in own:
                continue
            sources = [x for x in node.inputs if x.requires_grad]
            is_end = node.serial < self.first_serial or not sources
            if is_end or any(x in found for x in sources):
                found.add(node)
        return found

    def is_recorded(self, outputs: Sequence[Node], seeds: Sequence[Node] = ()) -> bool:
        """Whether derivatives of `outputs` become part of the caller's history."""
        if self.create_graph is not None or not self.records:
            return self.records
        if any(x.requires_grad for x in seeds):
            return True
        outputs = self._and_token(outputs)
        history = self._own_history(outputs)
        # A user's rule may read what the function did not: then only its results say so.
        if any(x.op is custom for x in history):
            return True
        return not self._callers(history).isdisjoint(outputs)

    def directions(self, tangents: Sequence[Any]) -> list[Node]:
        """`tangents`, one for each argument, as nodes, one for each variable."""
        if len(tangents) != len(self.structures):
            raise ValueError(
                explain(
                    self.operation,
                    "each primal needs one tangent",
                    got={"primals": len(self.structures), "tangents": len(tangents)},
                )
            )
        variables = self._by_argument(self.variables)
        return [
            node
            for number, tree in enumerate(tangents)
            for node in matching(
                self.operation,
                f"tangents[{number}]",
                tree,
                self.structures[number],
                variables[number],
            )
        ]

    def pushed_forward(
        self, roots: Sequence[Node], directions: Sequence[Node]
    ) -> tuple[list[Node], list[Node | None]]:
        """The values of `roots` and their tangents in `directions`, one for each variable.

        Both are recorded side by side, so that a loop need not keep its values for the tangents.
        """
        is_recorded = self.is_recorded(roots, directions)
        count = len(roots)
        roots = self._and_token(roots)
        self._own_history(roots)  # which makes one of equal views
        self.history = None
        values, found = pushed_forward(
            roots, self._given(directions), since=self.first_serial, is_recorded=is_recorded
        )
        self._go_on(values[-1])
        return values[:count], found[:count]

    def tangents(self, roots: Sequence[Node], directions: Sequence[Node | None]) -> list[Node]:
        """The tangents of `roots` in `directions`, one for each variable, None for 0."""
        all_roots = self._and_token(roots)
        found = tangents(all_roots, self._given(directions), self._reached(all_roots))
        self._go_on(found[-1])
        return [zeros_like(x) if t is None else t for x, t in zip(roots, found, strict=False)]

    def _given(self, directions: Sequence[Node | None]) -> dict[Node, Node | None]:
        """Directions of the variables; of the token, that of all that is to communicate."""
        given = dict(zip(self.variables, directions, strict=True))
        if self.token is not None:
            given[self.token] = order.token()
        return given

    def is_wide(self, outputs: Sequence[Node]) -> bool:
        """Whether a Jacobian has more columns than rows, so that reverse mode makes it cheaper; or
        forward mode may not know how."""
        columns = sum([x.type.size for x in self.variables])
        if columns > sum([x.type.size for x in outputs]):
            return True
        return any(
            node.op is custom and not node.params["context"].has_tangent
            for node in self._reached(outputs)
        )

    def gradients_of_stand_in(self, output: Node, seed: Node) -> list[Node]:
        """`gradients` for a seed that stands for each of a batch: what is checked or retained
        there has no value."""
        before = len(self.checks), len(self.retained)
        pulled = self.gradients([output], [seed])
        del self.checks[before[0] :], self.retained[before[1] :]
        return pulled

    def batched(
        self, nodes: Sequence[Node], seeds: dict[Node, Node], size: int, since: int | None = None
    ) -> list[Node]:
        """`nodes` for a batch of seeds, and what they communicate."""
        if self.closing is None:
            return batch(nodes, seeds, size, since=since)
        *found, token = batch([*nodes, self.closing], seeds, size, since=since)
        self._go_on(wrap(token)[0]._node)
        return found

    def results(self, nodes: Sequence[Node]) -> list[Tensor]:
        """`nodes` as the caller gets them: computed, unless this is part of a larger graph."""
        return self.computed(nodes, self.close(nodes))

    def close(self, nodes: Sequence[Node]) -> set[Node]:
        """End the time of the variables; those of the nodes behind `nodes` that are the caller's.

        What depends on variables alone does not require grad from now on: nobody can differentiate
        by them any more.
        """
        nodes = self._and_token(nodes)
        if self.closing is not None and self.last_token is not None:
            nodes.append(self.last_token)
        # In a loop's body, what is made of variables alone is computed before the loop, whose
        # results would have a history then: also where derivatives have none.
        before = () if self.history is None or tracing_of.body is None else self.history.nodes
        history = self._own_history(with_tangents(nodes))
        history = list(dict.fromkeys([*before, *history])) if before else history
        callers = set(history) if self.create_graph else self._callers(history)
        self.closed = []
        for node in history:
            if node not in callers:
                self.closed.append((node, node.inputs))
                node.requires_grad = False
        self.history = None
        return callers if self.records else set()

    def computed(self, nodes: Sequence[Node], callers: set[Node]) -> list[Tensor]:
        """`nodes` as tensors, with history where they are the caller's."""
        self.closing = None
        is_asked_for = _running.depth == 0 or self.checks or self.retained
        if is_asked_for and not is_traced(*nodes):
            values_asked_for(*nodes)
            updates = [GradientUpdate(state, g, keeps_node=False) for state, g in self.retained]
            totals = [update.total for update in updates]
            evaluate([*nodes, *totals, *anomaly.values_to_check(self.checks)])
            anomaly.check(self.checks)
            set_gradients(updates)
            self.checks, self.retained = [], []
        with recording(self.records):
            return [_result(node, node in callers) for node in nodes]

    def results_and_aux(self, nodes: Sequence[Node], aux: Any) -> tuple[list[Tensor], Any]:
        """`results`, of the tensors in `aux` as well."""
        of_aux, with_results = _nodes_in(aux)
        tensors = self.results([*nodes, *of_aux])
        return tensors[: len(nodes)], with_results(tensors[len(nodes) :])

    def results_with_tangents(
        self, outputs: Sequence[Node], directions: Sequence[Node], aux: Any
    ) -> tuple[list[Tensor], list[Tensor], Any]:
        """The values of `outputs`, their tangents, and `aux` with its tensors as results."""
        of_aux, with_results = _nodes_in(aux)
        values, found = self.pushed_forward([*outputs, *of_aux], directions)
        count = len(outputs)
        pushed = [
            zeros_like(x) if t is None else t for x, t in zip(outputs, found[:count], strict=True)
        ]
        tensors = self.results([*values, *pushed])
        return tensors[:count], tensors[len(values) :], with_results(tensors[count : len(values)])

    def as_arguments(self, leaves: Sequence[Any], argnums: Argnums | None = None) -> Any:
        """`leaves`, one for each variable, as one argument for a single argnum, else as a tuple."""
        arguments = tuple(
            trees.unflatten(structure, own)
            for structure, own in zip(self.structures, self._by_argument(leaves), strict=True)
        )
        return arguments[0] if isinstance(argnums, int | np.integer) else arguments

    def _by_argument(self, leaves: Sequence[Any]) -> list[Sequence[Any]]:
        ends = list(itertools.accumulate(s.num_leaves for s in self.structures))
        return [leaves[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def _nodes_in(tree: Any) -> tuple[list[Node], Callable[[Sequence[Tensor]], Any]]:
    """The nodes of the tensors in `tree`, and what puts others in their places."""
    leaves, structure = trees.flatten(tree)
    positions = [k for k, x in enumerate(leaves) if isinstance(x, Tensor)]

    def with_tensors(tensors: Sequence[Tensor]) -> Any:
        for k, tensor in zip(positions, tensors, strict=True):
            leaves[k] = tensor
        return trees.unflatten(structure, leaves)

    return [leaves[k]._node for k in positions], with_tensors


def _result(node: Node, is_callers: bool) -> Tensor:
    if is_callers or has_tangent(node):
        return wrap(node)
    if is_known(node):
        return wrap(leaf(node.value))
    is_others = node.requires_grad or node.value is not None
    return wrap(OPS["detach"](node) if is_others else node)
