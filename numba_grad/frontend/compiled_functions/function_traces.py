"""`FunctionTrace`: a function run once, on stand-ins for its arguments, in order to be compiled.

Arrays and tensors that it meets are inputs of what is compiled, and what it changes besides its
results are outputs.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.evaluate import evaluate
from numba_grad.compiler.known_bodies import LOOPS
from numba_grad.dtypes import is_inexact
from numba_grad.errors import TracingError, TracingWarning, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.compiled_functions.call_arguments import ARRAYS, CallArguments
from numba_grad.frontend.compiled_functions.specialization import Specialization, worth_comparing
from numba_grad.frontend.compiled_functions.state_between_calls import (
    PlaceOfState,
    StandIns,
    StateBetweenCalls,
    forget_tensors_of,
)
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, shared_copy
from numba_grad.frontend.inputs.calling_lines import warn_at_calling_line
from numba_grad.frontend.inputs.changed_arguments import (
    NewContents,
    as_before,
    assigned_arrays,
    have_other_values,
    numbers_of_changed,
)
from numba_grad.frontend.inputs.guards import MOST_CONDITIONS, guard_of
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.frontend.inputs.surroundings import Surroundings
from numba_grad.frontend.inputs.tracing import (
    Check,
    RaisesForCertain,
    Trace,
    any_of,
    current,
    gradient_of_argument,
    noting_raised,
)
from numba_grad.frontend.tensors.python_numbers import handle_like, limits_on
from numba_grad.graph import order
from numba_grad.graph.node import ARGUMENT, OPS, Node, argument, grad_mode, leaf
from numba_grad.graph.traced_bodies import hooks_left, tracing_compiled
from numba_grad.graph.walk import (
    in_order_of_recording,
    is_held,
    is_traced,
    toposort,
    value_inputs,
)
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import item
from numba_grad.transforms.loop_sizes import LARGEST_VALUE
from numba_grad.transforms.python_loops import FEWEST_NODES_COMPILED, loop_in
from numba_grad.transforms.rewrites.repeated_views import without_repetitions


class _Outcome(NamedTuple):
    """Of running a function once. Arrays among its results are gone: they are not closed over."""

    trace: Trace
    scope: order.Scope
    outputs: list[Node]  # results, then what arguments and `assigned` become, as `changed` says
    structure: trees.Structure
    assigned: list[Any]
    changed: list[int]
    keep_history: list[bool]  # of `changed`
    raised: list[Node]
    has_hooks: bool
    has_backward_pass: bool


class FunctionTrace:
    """One trace."""

    def __init__(
        self,
        f: Callable[..., Any],
        name: str,
        dynamic: CallArguments,
        places: Sequence[PlaceOfState],
    ) -> None:
        """`places`: of arrays and numbers that tensors stand in for meanwhile."""
        self._name = name
        self._dynamic = dynamic
        self._stand_ins = StandIns(places)
        around = dynamic.around
        self._guard = guard_of(f, around)
        if not self._guard.is_complete:
            warn_at_calling_line(_too_much_around(name), TracingWarning)
        self._around = Surroundings.of(f, around)

    def run(self, function: Callable[..., Any], wants_grad: list[bool]) -> Specialization:
        """What running `function` gives, which is `f`, or `f` rewritten.

        Raises
        ------
        Exception
            Whatever it raises, once what it has changed is as it was where tensors stood in.
        RaisesForCertain
            Once all that it has changed is as it was, if Python is to run it.
        """
        try:
            return self._run(function, wants_grad)
        except BaseException as error:
            if self._stand_ins or isinstance(error, RaisesForCertain):
                self._around.put_back()
            raise
        finally:
            self._stand_ins.leave()

    def _run(self, function: Callable[..., Any], wants_grad: list[bool]) -> Specialization:
        arguments, tensors = self._arguments(wants_grad)
        tree = trees.unflatten(self._dynamic.structure, tensors)
        outcome = self._outcome(function, tree, arguments, tensors)
        trace, scope, outputs, structure, assigned, changed, keep_history, raised, *_ = outcome
        contents = NewContents.of(tree, tensors)
        if contents is not None:
            outputs += [x._node for x in contents.computed]
        state = self._state(trace, tensors, arguments, outputs)
        outputs += [x._node for x in state.tensors]
        if raised:
            outputs.append(any_of(raised))
        if scope.communicates:
            token, last_token = scope.ends()
            arguments.append(token)
            outputs.append(last_token)
        own = set(arguments)
        captured, constants, reached, count = _before_trace(outputs, own, self._first)
        has_loop = not scope.communicates
        while has_loop:
            has_loop, has_fewer = _rerolled(outputs, own, reached, self._first, trace)
            if has_loop or has_fewer:
                captured, constants, reached, count = _before_trace(outputs, own, self._first)
        trace.asked_for(worth_comparing(constants, reached))
        met = {x.node: x for x in trace.closed_over()}
        assigned_to = [self._stand_ins.assigned_to(x) for x in assigned]
        now, holds, with_gradients = self._held_between_calls(state, outcome, captured)
        return Specialization(
            self._name,
            arguments,
            outputs,
            changed,
            keep_history,
            assigned_to,
            contents,
            state,
            structure,
            [now.get(node) or node.handle() for node in captured],  # type: ignore[misc]
            captured,
            [met[node] for node in constants if node in met],
            [node for node in constants if node not in met],
            holds,
            reached,
            count,
            limits_on(arguments, reached),
            scope.communicates,
            scope.said,
            bool(raised),
            outcome.has_hooks,
            with_gradients,
        )

    def _arguments(self, wants_grad: list[bool]) -> tuple[list[Node], list[Any]]:
        """The first nodes of the trace, and the tensors that the function gets for them."""
        dynamic = self._dynamic
        arguments = [
            argument(type, requires_grad=wanted and is_inexact(type.dtype))
            for type, wanted in zip(dynamic.node_types, wants_grad, strict=True)
        ]
        self._first = arguments[0].serial if arguments else leaf(np.zeros(())).serial
        # An identity, since a leaf that requires grad would refuse `x[i] = v`.
        tensors = [
            handle_like(x, OPS["identity"](node) if node.requires_grad else node)
            for x, node in zip(dynamic.leaves, arguments, strict=True)
        ]
        return arguments, tensors

    def _outcome(
        self,
        function: Callable[..., Any],
        tree: Any,
        arguments: Sequence[Node],
        tensors: Sequence[Any],
    ) -> "_Outcome":
        """What comes of the call with this tree of `tensors`."""
        given = [x._node for x in tensors]
        args, kwargs = self._dynamic.with_static(tree)
        outer, trace = current.trace, Trace(shared_copy, self._first)
        current.trace, trace.arguments = trace, tensors
        is_done = False
        try:
            with (
                tracing_compiled(self._name, arguments, self._first) as traced,
                as_before(traced.assigned),
                order.scope(order.new_argument) as scope,
                noting_raised(is_function=True) as raised,
            ):
                leaves, structure = trees.flatten(function(*args, **kwargs))
                outputs = self._outputs(leaves)
                assigned, before = assigned_arrays(traced.assigned)
                held = [*tensors, *assigned]
                given += before
                changed = numbers_of_changed(held, given)
                keep_history = have_other_values(held, given, changed)
                outputs += [held[k]._node for k in changed]
            for node in arguments:
                if node.autograd is not None and node.autograd.grad is not None:
                    raise gradient_of_argument("backward() adds to `.grad` of an argument", node)
            is_done = True
            if traced.asks_for_mode:
                trace.inner_checks.append(functools.partial(_is_mode, grad_mode.enabled))
            has_hooks = hooks_left(traced)
        except TypeError as error:
            # NumPy has an error of its own in place of ours, which shows what is no size of an
            # array: `np.zeros(n)`.
            if trace.refused and not isinstance(error, TracingError) and "<traced>" in str(error):
                error.add_note(trace.refused[-1])
            raise
        finally:
            current.trace = outer
            if not is_done:
                forget_tensors_of(self._around, self._first)
        if trace.refused:
            self._warn_of_caught(trace.refused[0])
        effects = assigned, changed, keep_history
        flags = has_hooks, traced.has_backward_pass
        return _Outcome(trace, scope, outputs, structure, *effects, raised, *flags)

    def _warn_of_caught(self, message: str) -> None:
        """As `try: n = int(x)` with `except TypeError` does, or `except Exception`."""
        warn_at_calling_line(
            explain(
                f"jit of {self._name}",
                "the function has caught a TracingError and gone on, and this is compiled: with a "
                "value at hand there is no error",
                got={"error": message.replace("\n", "\n  ")},
                fix="what the error says; or no `except` around it, which also catches TypeError",
            ),
            TracingWarning,
        )

    def _state(
        self,
        trace: Trace,
        tensors: list[Any],
        arguments: Sequence[Node],
        outputs: Sequence[Node],
    ) -> StateBetweenCalls:
        """What the function has changed that later calls go on from."""
        own = set(arguments)

        def is_of_surroundings(node: Node) -> bool:
            if node.value is not None or node.serial < self._first:
                return False
            made_of = toposort([node], stop=lambda x: x.value is not None)
            return own.isdisjoint(made_of) and any(trace.place_of(x) is not None for x in made_of)

        state = StateBetweenCalls(
            self._around, self._stand_ins, tensors, self._first, is_of_surroundings
        )
        if state:
            nodes = [*outputs, *(x._node for x in state.tensors)]
            captured, _, reached, _ = _before_trace(nodes, own, self._first)
            state.forget_unread({*captured, *trace.tensors_asked_for()})
            others = {x for x in reached - own if x.op is ARGUMENT and x.serial >= self._first}
            if state and others:
                self._forget_tensors_of(others, state)
        return state

    def _held_between_calls(
        self,
        state: StateBetweenCalls,
        outcome: _Outcome,
        captured: Sequence[Node],
    ) -> tuple[dict[Node, Any], Callable[[], bool], list[Any]]:
        """What stands for tensors that each call finds where the one before has put them; whether
        what decided about the trace is as it was; and of which tensors calls read the `.grad`."""
        guard, trace, assigned = self._guard, outcome.trace, outcome.assigned
        if outcome.has_backward_pass:
            trace.inner_checks += _checks_of_hooks(captured)
        # A change that the state knows nothing of has the function traced again.
        if state.has_changed:
            guard = guard.without_own_changes().and_still(state.left_behind())
        guard = guard.and_still(state.places_of(assigned))
        asked = trace.tensors_asked_for()
        gradients = state.gradients_read_at_calls(trace.gradients_asked_for(), asked, assigned)
        for tensor, _, _ in gradients:
            trace.gradient_is_read_at_calls(tensor)
        is_assigning = bool(assigned or outcome.changed)
        now = state.tensors_read_at_calls(asked, assigned, is_assigning=is_assigning)
        if self._stand_ins:
            self._stand_ins.leave()
            guard = guard.without_own_changes()
        now = {node: held for _, node, held in gradients} | now
        holds = trace.check(guard.without_arrays(trace.owners_met()).holds)
        return now, holds, [tensor for tensor, _, _ in gradients]

    def _forget_tensors_of(self, arguments: set[Node], state: StateBetweenCalls) -> None:
        """Tensors of functions that were traced inside, with these arguments, have no value for
        calls to carry on.

        Raises
        ------
        TracingError
            If the trace has read what is there instead.
        """
        if state.forget_tensors_of(arguments):
            return
        state.undo()
        raise TracingError(
            explain(
                f"jit of {self._name}",
                "a function of vmap, or of a loop or branch, gives a tensor of its own to what is "
                "outside of it, where it has no value",
                got=state.described(),
                expected="what such a function changes among its arguments and results",
                fix="return it, and assign it outside",
            )
        )

    def _outputs(self, leaves: list[Any]) -> list[Node]:
        for x in leaves:
            if not isinstance(x, (*ARRAYS, Selection)):  # which says why it is none
                raise TypeError(
                    explain(
                        f"jit of {self._name}",
                        "a result is neither an array nor a number",
                        got={"result": repr(x), "type": type(x).__name__},
                        fix="return tensors, arrays and numbers, in tuples, lists and dicts",
                    )
                )
        return [as_node(x) for x in leaves]


def _checks_of_hooks(captured: Sequence[Node]) -> list[Check]:
    """Whether tensors that a function closes over have the hooks that its backward passes have
    run, and these find what they did."""
    checks: list[Check] = []
    for node in captured:
        if node.requires_grad and node.handle is not None:
            tensor, hooks = node.handle(), _hooks_of(node)
            checks.append(functools.partial(_has_hooks, tensor, hooks))
            guards = [guard_of(hook).holds for hook in hooks]
            checks += [holds for holds in guards if holds is not None]
    return checks


def _has_hooks(tensor: Any, hooks: list[Any]) -> bool:
    return _hooks_of(tensor._node) == hooks


def _hooks_of(node: Node) -> list[Any]:
    state = node.autograd
    if state is None:
        return []
    return [*(state.hooks or {}).values(), *(state.post_accumulate_hooks or {}).values()]


def _is_mode(mode: bool) -> bool:
    return grad_mode.enabled is mode


def rewritten(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, whose loops and branches may depend on values."""
    # Most programs do without, and import nothing for it.
    return imported("numba_grad.frontend.python_control_flow.rewriting").with_control_flow(f)


def _rerolled(
    outputs: Sequence[Node], arguments: set[Node], reached: set[Node], first: int, trace: Trace
) -> tuple[bool, bool]:
    """Leave out what the function has recorded twice, and make a loop of steps that it has recorded
    one by one. Whether there were such steps, and whether less than `reached` is reached now."""
    pending = {x for x in reached if x.value is None and x.serial >= first}
    # Between an item and its value, which steps may have computed, is what it is an item of.
    pending.update([x.inputs[0] for x in pending if x.op is item])
    fixed = {*outputs, *arguments}
    nodes = without_repetitions(in_order_of_recording(pending), fixed, trace, LARGEST_VALUE)
    has_fewer = len(nodes) < len(pending)
    if len(trace.not_looked_through(nodes)) < FEWEST_NODES_COMPILED:
        return False, has_fewer  # where steps are no loop, those of their derivative are none
    found = loop_in(nodes, fixed, LOOPS, trace, is_compiled=True)
    if found is not None:
        found.rewire(nodes, outputs)
    return found is not None, has_fewer


def _before_trace(
    outputs: Sequence[Node], arguments: set[Node], first: int
) -> tuple[list[Node], list[Node], set[Node], int]:
    """Tensors from before the trace that `outputs` depend on, constants, all nodes, and the number
    of operations."""
    captured: list[Node] = []
    constants: list[Node] = []
    pending: list[Node] = []
    seen = set(arguments)
    stack = list(outputs)
    count = 0
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        is_older = node.serial < first
        if not is_older and node.value is None:
            count += 1
            stack += node.inputs if node.op is not item else value_inputs(node)
        elif is_older and is_held(node):
            captured.append(node)
        elif node.value is not None:
            constants.append(node)
        elif not is_traced(node):
            pending.append(node)
        else:
            count += 1
            stack += value_inputs(node)
    evaluate(pending)
    return captured, [*constants, *pending], seen, count


def _too_much_around(name: str) -> str:
    return explain(
        f"jit of {name}",
        "the function closes over more than is compared at each call: some changes of it would "
        "not be seen",
        expected=f"{MOST_CONDITIONS} numbers, objects and containers, or less",
        fix="as an argument, what changes; or arrays in place of lists and objects",
    )
