"""A function traced once and called many times inside of other graphs: compiled once,
differentiated once.

    CallTarget   parameters and results of the function, as a graph of its own
    call         a node of the graph that calls it; its results are `item` nodes

The derivative of a call is a call: of the function's VJP. What that needs of the forward pass it
computes again from the inputs, or reads where that is cheaper (`kept_values.py`). In forward
mode it is a call of a function that computes values and tangents together.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import ARGUMENT, OPS, Node, Op, argument, recording
from numba_grad.graph.types import CPU, TupleType, Type
from numba_grad.graph.walk import substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.locks import new_lock
from numba_grad.ops.control import by_pullback, custom, result, with_results
from numba_grad.ops.families import literal, placed
from numba_grad.transforms.batch import batch
from numba_grad.transforms.jvp import Tangent, pushed_forward
from numba_grad.transforms.kept_values import Policy, values_saved, values_worth_keeping
from numba_grad.transforms.vjp import cotangents, reached

Derived = TypeVar("Derived")
Given = ParamSpec("Given")
# Bytes that are kept for a derivative, for each byte of what a function gets and returns, or a loop
# carries.
_MOST_KEPT = 4
# Of the reference engine: (nodes, values of arguments) -> values of the nodes.
Evaluate = Callable[[Sequence[Node], dict[Node, Any]], list[Any]]


def once_for_each_graph(
    make: Callable[Concatenate[Any, Given], Derived],
) -> Callable[Concatenate[Any, Given], Derived]:
    """A decorator for what is made of a graph, by arguments that can be hashed: the graph keeps
    it."""

    @functools.wraps(make)
    def kept(graph: "CallTarget", *given: Given.args, **named: Given.kwargs) -> Derived:
        key = make, given, tuple(named.items())
        return graph.derived(key, lambda: make(graph, *given, **named))

    return kept


class CallTarget:
    """A graph from `arguments` to `outputs` that reaches no other node without inputs but
    literals.

    It is computed on one device. Numbers of the CPU may be among the arguments of a function on a
    GPU, and so their cotangents among its outputs: `devices` says where these are wanted.
    """

    __slots__ = (
        "__weakref__",
        "_derived",
        "_lock",
        "arguments",
        "devices",
        "name",
        "outputs",
        "surroundings",
    )

    def __init__(
        self,
        name: str,
        arguments: Sequence[Node],
        outputs: Sequence[Node],
        surroundings: Mapping[Node, Node] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.surroundings = surroundings  # see `within`
        self.arguments = tuple(arguments)
        self.devices = tuple([node.type.device for node in outputs])
        self.outputs = _on_one_device(self.arguments, outputs)
        self._derived: dict[Hashable, Any] = {}
        self._lock = new_lock()

    @property
    def type(self) -> TupleType:
        return TupleType(tuple(node.type for node in self.outputs))

    @property
    def has_bodies(self) -> bool:
        """Whether there are loops or branches inside."""
        return self.derived(
            "has bodies",
            lambda: any(
                node.op.family == "call" and node.op is not call_op
                for node in toposort(self.outputs)
            ),
        )

    @property
    def has_rules(self) -> bool:
        """Whether there are calls of functions with own rules inside."""
        return self.derived("has rules", lambda: any(map(has_rules, toposort(self.outputs))))

    def rebuilt(self, replacement: Mapping[Node, Node]) -> "CallTarget":
        """The same graph, whose rules have kept, in place of nodes of the surroundings, these."""
        if not self.has_rules:
            return self
        arguments = [argument(x.type, x.requires_grad) for x in self.arguments]
        replaced = {**replacement, **dict(zip(self.arguments, arguments, strict=True))}
        with recording(True):
            return CallTarget(self.name, arguments, substitute(self.outputs, replaced))

    def within(self, batched: Mapping[Node, Node]) -> "CallTarget":
        """The same graph, about to be batched: its rules may have kept what takes a batch axis in
        the surroundings, which is none of its arguments: nodes, and what takes their place."""
        if not self.has_rules:
            return self
        return CallTarget(self.name, self.arguments, self.outputs, batched)

    def derived(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """What is made of this graph once: its derivatives, its batched forms."""
        with self._lock:
            if key not in self._derived:
                self._derived[key] = make()
            return self._derived[key]

    def by(self, active: tuple[bool, ...]) -> "CallTarget":
        """The same graph as a function of these arguments alone: others are constants to its
        derivative. Only loops and branches inside need to be told, which compute the cotangents of
        all of theirs together."""
        replaced = {
            node: argument(node.type)
            for node, is_active in zip(self.arguments, active, strict=True)
            if node.requires_grad and not is_active
        }
        if not replaced or not self.has_bodies:
            return self

        def make() -> CallTarget:
            with recording(True):
                outputs = substitute(self.outputs, replaced)
            return CallTarget(self.name, [replaced.get(x, x) for x in self.arguments], outputs)

        return self.derived(("by", active), make)

    @once_for_each_graph
    def vjp(self, given: tuple[bool, ...]) -> "CallVjp":
        """The derivative; `given` says for which outputs there is a cotangent."""
        roots = [
            node
            for node, is_given in zip(self.outputs, given, strict=True)
            if is_given and node.requires_grad
        ]
        seeds = {
            k: argument(node.type, requires_grad=node.requires_grad)
            for k, (node, is_given) in enumerate(zip(self.outputs, given, strict=True))
            if is_given
        }
        seeds_of_roots = [seed for k, seed in seeds.items() if self.outputs[k].requires_grad]
        with recording(True):
            order = reached(roots, self.arguments)
            if not {"max", "min"}.isdisjoint([x.op.name for x in order]):
                shifts = imported("numba_grad.transforms.rewrites.shifts_without_effect")
                order = reached(roots, self.arguments, shifts.shifts_without_effect(order, roots))
            found = cotangents(roots, seeds_of_roots, order)
            numbers = tuple(k for k, node in enumerate(self.arguments) if node in found)
            arguments = (*self.arguments, *seeds.values())
            outputs = [found[self.arguments[k]] for k in numbers]
            target, captured = _closed(f"vjp of {self.name}", arguments, outputs)
        return CallVjp(target, numbers, captured)

    @once_for_each_graph
    def keeping(
        self, nbytes: int, asked: tuple[bool, ...], carried: int | None = None
    ) -> "tuple[CallTarget, int]":
        """The same graph that also returns what its derivative had better not compute again
        (`kept_values.py`), at most some times `nbytes`; and how many values these are.

        Parameters
        ----------
        asked : which arguments the derivative is by. What only a number that is the same for all
            users needs is not read.
        carried : of a loop's body, how many results are carried on. They are in memory, as what
            the next step begins with, and among what is returned again if they are read. A
            function's results can be read without.
        """
        own = self.by(asked)
        try:
            vjp = own.vjp(tuple(is_inexact(x.dtype) for x in own.outputs))
        except GradientError:
            return self, 0  # which who differentiates is told
        available = {*own.arguments, *(own.outputs if carried is None else ())}
        pulled = zip(vjp.numbers, vjp.target.outputs, strict=True)
        kept = values_worth_keeping(
            own.outputs,
            [x for number, x in pulled if asked[number]],
            available,
            _MOST_KEPT * nbytes,
            own.outputs[:carried] if carried is not None else (),
        )
        if not kept:
            return self, 0
        # With all flags again: who differentiates says by what.
        with recording(True):
            outputs = substitute(
                [*own.outputs, *kept], dict(zip(own.arguments, self.arguments, strict=True))
            )
        return CallTarget(self.name, self.arguments, outputs), len(kept)

    def saving(self, policy: Policy) -> "tuple[CallTarget, int]":
        """The same graph that also returns what its derivative reads of what a policy says to save;
        and how many values these are."""
        try:
            vjp = self.vjp(tuple(is_inexact(x.dtype) for x in self.outputs))
        except GradientError:
            return self, 0  # which who differentiates is told
        kept = values_saved(self.outputs, vjp.target.outputs, self.arguments, policy)
        if not kept:
            return self, 0

        def with_kept() -> CallTarget:
            return CallTarget(self.name, self.arguments, [*self.outputs, *kept])

        return self.derived(("saving", *kept), with_kept), len(kept)

    @once_for_each_graph
    def vjp_reading(self, given: tuple[bool, ...], kept: int) -> "CallVjp":
        """The derivative, which takes the last `kept` outputs after the cotangents."""
        vjp = self.vjp(given)
        if not kept:
            return vjp
        first_captured = len(self.arguments) + sum(given)
        arguments = vjp.target.arguments
        stand_ins = {x: argument(x.type, x.requires_grad) for x in self.outputs[-kept:]}
        with recording(True):
            outputs = substitute(vjp.target.outputs, stand_ins)
        arguments = (
            *arguments[:first_captured],
            *[stand_ins[x] for x in self.outputs[-kept:]],
            *arguments[first_captured:],
        )
        return CallVjp(CallTarget(vjp.target.name, arguments, outputs), vjp.numbers, vjp.captured)

    @once_for_each_graph
    def jvp(self, given: tuple[bool, ...], *, with_values: bool) -> "CallJvp":
        """The derivative in a direction; `given` says which arguments have a tangent."""
        directions = {
            node: argument(node.type, requires_grad=True)
            for node, is_given in zip(self.arguments, given, strict=True)
            if is_given
        }
        with recording(True):
            since = min([node.serial for node in self.arguments])
            values, found = pushed_forward(self.outputs, directions, since=since, is_recorded=True)
            numbers = tuple(k for k, t in enumerate(found) if t is not None)
            outputs = [*(values if with_values else ()), *(t for t in found if t is not None)]
            arguments = (*self.arguments, *directions.values())
            target, captured = _closed(f"jvp of {self.name}", arguments, outputs)
        return CallJvp(target, numbers, captured)

    @once_for_each_graph
    def batched(
        self, is_batched: tuple[bool, ...], size: int, has_axis: tuple[bool, ...] | None = None
    ) -> "CallBatched":
        """The function with a batch axis in front of these arguments, and of the outputs that
        `has_axis` names, by default of all."""
        if has_axis is None:
            has_axis = (True,) * len(self.outputs)
        replaced = {
            node: argument(node.type.of_shape((size, *node.shape)), node.requires_grad)
            for node, flag in zip(self.arguments, is_batched, strict=True)
            if flag
        }
        with_axis = [x for x, has in zip(self.outputs, has_axis, strict=True) if has]
        with recording(True):  # whoever asks first: others differentiate what is remembered
            batched = iter(batch(with_axis, {**self.surroundings, **replaced}, size))
        outputs = [
            next(batched) if has else x for x, has in zip(self.outputs, has_axis, strict=True)
        ]
        arguments = [replaced.get(node, node) for node in self.arguments]
        name = f"batched {self.name}"
        if self.surroundings:
            return CallBatched(*_closed(name, arguments, outputs))
        return CallBatched(CallTarget(name, arguments, outputs), [])


def has_rules(node: Node) -> bool:
    """Whether its derivative is asked of a user's function, which may have kept what no graph
    contains."""
    return node.op is custom or any(target.has_rules for target in targets_of(node))


def targets_of(node: Node) -> list[CallTarget]:
    """The graphs in the params of a call, a loop or a branch."""
    return targets_in(node.params) if node.op.family == "call" else []


def targets_in(params: Mapping[str, Any]) -> list[CallTarget]:
    """The same of the params."""
    found: list[Any] = []
    for value in params.values():
        found += value if value.__class__ is tuple else (value,)
    return [x for x in found if x.__class__ is CallTarget]


def rebuild_with_targets(
    node: Node, inputs: tuple[Node, ...], replacement: dict[Node, Node]
) -> Node:
    """For `extras["rebuild"]` of calls, loops and branches."""
    params = with_targets(node.params, lambda target: target.rebuilt(replacement))
    return with_results(node.op, inputs, params)


def with_targets(
    params: dict[str, Any], change: Callable[[CallTarget], CallTarget]
) -> dict[str, Any]:
    """The params of a call, a loop or a branch, with other graphs where one has rules."""
    targets = targets_in(params)
    if not any(target.has_rules for target in targets):
        return params
    others = {target: change(target) for target in targets}
    return {
        name: tuple([others.get(x, x) for x in value])
        if value.__class__ is tuple
        else others.get(value, value)
        for name, value in params.items()
    }


def params_within(params: dict[str, Any], batched: Mapping[Node, Node]) -> dict[str, Any]:
    """For `extras["within"]` of calls, loops and branches: the params for a batching rule, where
    these nodes of the surroundings take a batch axis."""
    return with_targets(params, lambda target: target.within(batched))


def nodes_with_rules(**params: Any) -> list[Node]:
    """For `extras["nodes_with_rules"]` of calls, loops and branches: what in their graphs has rules
    of a user's."""
    targets = [target for target in targets_in(params) if target.has_rules]
    return [x for target in targets for x in toposort(target.outputs) if has_rules(x)]


def op_of_graphs(
    name: str,
    input_names: tuple[str, ...],
    infer: Callable[..., TupleType],
    batch: Callable[..., Node],
    jvp: Callable[..., list[Tangent]] | None = None,
    **extras: Callable[..., Any],
) -> Op:
    """A call, a loop or a branch: what walks graphs asks it for what concerns the graphs in its
    params.

    Parameters
    ----------
    extras : its `pullback`, `evaluate` for the reference engine, and `with_tangents`, of which the
        tangents alone are the results of `jvp`, if there is no other
    """
    with_tangents = extras.get("with_tangents")

    def tangents_of(
        tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any
    ) -> list[Tangent]:
        assert with_tangents is not None
        return with_tangents(tangents, *inputs, **params)[1]

    if with_tangents is not None:
        jvp = jvp or tangents_of
    extras |= {"rebuild": rebuild_with_targets, "within": params_within}
    extras["nodes_with_rules"] = nodes_with_rules
    return Op(name, "call", input_names, infer, by_pullback, batch, extras=extras, jvp=jvp)


def _closed(
    name: str, arguments: Sequence[Node], outputs: Sequence[Node]
) -> tuple[CallTarget, list[Node]]:
    """A target that takes as further arguments what else its graph reaches, and that."""
    captured = _sources(outputs, arguments)
    stand_ins = {node: argument(node.type, node.requires_grad) for node in captured}
    if captured:
        outputs = substitute(outputs, stand_ins)
    return CallTarget(name, (*arguments, *stand_ins.values()), outputs), captured


def _on_one_device(arguments: Sequence[Node], outputs: Sequence[Node]) -> tuple[Node, ...]:
    """The outputs on the GPU that any node is on, if there is one."""
    devices = [node.type.device for node in (*arguments, *outputs)]
    device = next((device for device in devices if device != CPU), CPU)
    if device == CPU:
        return tuple(outputs)
    with recording(True):
        return tuple([placed(x, device) if x.type.device == CPU else x for x in outputs])


class CallVjp(NamedTuple):
    """A derivative: of the arguments, the given cotangents and `captured`."""

    target: CallTarget
    numbers: tuple[int, ...]  # which arguments its outputs are the cotangents of
    captured: list[Node]  # constants of a user's `backward`, and what it closes over


class CallJvp(NamedTuple):
    """A derivative in a direction: of the arguments, their tangents and `captured`."""

    target: CallTarget
    numbers: tuple[int, ...]  # which outputs have a tangent: the last outputs of `target`
    captured: list[Node]


class CallBatched(NamedTuple):
    """A function for a batch: of the arguments and `captured`."""

    target: CallTarget
    captured: list[Node]  # what a user's rule closes over, where members go their own ways


def _sources(outputs: Sequence[Node], arguments: Sequence[Node]) -> list[Node]:
    """The values and foreign arguments that `outputs` are made of, apart from `arguments`."""
    own = set(arguments)
    order = toposort(outputs, stop=lambda node: node.value is not None)
    return [
        node
        for node in order
        if node not in own and (node.value is not None or node.op is ARGUMENT)
    ]


def _infer_call(*types: Type, target: CallTarget, kept: int) -> TupleType:
    return target.type


def _pullback(
    cotangents: list[Node | None], out: Node, *inputs: Node, target: CallTarget, kept: int
) -> list[Node | None]:
    backward = target.vjp_reading(tuple(g is not None for g in cotangents), kept)
    given = [g for g in cotangents if g is not None]
    count = len(target.outputs)
    values = [result(out, k) for k in range(count - kept, count)]
    results = call(backward.target, [*inputs, *given, *values, *backward.captured])
    found: list[Node | None] = [None] * len(inputs)
    for number, g in zip(backward.numbers, results, strict=True):
        found[number] = g
    return found


def _jvp(
    tangents: Sequence[Node | None], out: Node, *inputs: Node, target: CallTarget, kept: int
) -> list[Tangent]:
    _, found = _call_of_jvp(tangents, inputs, target, with_values=False)
    return found


def _with_tangents(
    tangents: Sequence[Node | None], *inputs: Node, target: CallTarget, kept: int
) -> tuple[Node, list[Tangent]]:
    return _call_of_jvp(tangents, inputs, target, with_values=True)


def _call_of_jvp(
    tangents: Sequence[Node | None],
    inputs: Sequence[Node],
    target: CallTarget,
    *,
    with_values: bool,
) -> tuple[Node, list[Tangent]]:
    """The call, whose first results are the values if they are asked for, and the tangents."""
    forward = target.jvp(tuple(t is not None for t in tangents), with_values=with_values)
    given = [t for t in tangents if t is not None]
    node, results = _called(forward.target, [*inputs, *given, *forward.captured])
    found: list[Tangent] = [None] * len(target.outputs)
    of_outputs = results[len(results) - len(forward.numbers) :]
    for number, t in zip(forward.numbers, of_outputs, strict=True):
        found[number] = t
    return node, found


def _batch_call(is_batched: Sequence[bool], *inputs: Node, target: CallTarget, kept: int) -> Node:
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    batched, captured = target.batched(tuple(is_batched), size)
    return with_results(call_op, [*inputs, *captured], {"target": batched, "kept": kept})


def _evaluate(evaluate: Evaluate, *arrays: Any, target: CallTarget, kept: int) -> tuple[Any, ...]:
    return tuple(evaluate(target.outputs, dict(zip(target.arguments, arrays, strict=True))))


call_op = op_of_graphs(
    "call",
    ("x",),
    _infer_call,
    _batch_call,
    _jvp,
    pullback=_pullback,
    with_tangents=_with_tangents,
    evaluate=_evaluate,
)


def call(
    target: CallTarget,
    inputs: Sequence[Node],
    *,
    keeps: bool = False,
    policy: Policy | None = None,
) -> list[Node]:
    """The results of calling `target` on `inputs`, which have its arguments' types.

    Parameters
    ----------
    keeps : whether its derivative may read values of the inside, rather than compute all of them
        again
    policy : which of them it reads, if that is given
    """
    kept = 0
    if not target.has_bodies and any(x.requires_grad for x in inputs):
        if policy is not None:
            target, kept = target.saving(policy)
        elif keeps:
            nbytes = sum(x.type.nbytes for x in (*target.arguments, *target.outputs))
            target, kept = target.keeping(nbytes, tuple([x.requires_grad for x in inputs]))
    results = _called(target, inputs, kept)[1]
    return results[: len(results) - kept]


def _called(target: CallTarget, inputs: Sequence[Node], kept: int = 0) -> tuple[Node, list[Node]]:
    if target.has_bodies:
        # A call is written out where it stands, among other operations. What has loops is a plan of
        # its own: the only branch there is.
        index = literal(0, np.dtype(np.int64))
        node = with_results(OPS["branch"], [index, *inputs], {"branches": (target,)})
    else:
        node = with_results(call_op, inputs, {"target": target, "kept": kept})
    results = [result(node, k) for k in range(len(target.outputs))]
    return node, [placed(x, device) for x, device in zip(results, target.devices, strict=True)]
