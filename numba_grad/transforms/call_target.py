"""A function as a graph of its own: traced once, compiled once, differentiated once.

What calls of functions, loops and branches have in their params. What is made of such a graph, its
derivatives and batched forms, is graphs as well, which it keeps.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import ARGUMENT, Node, argument, recording
from numba_grad.graph.types import CPU, TupleType
from numba_grad.graph.walk import substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.locks import new_lock
from numba_grad.ops.control import custom
from numba_grad.ops.families import placed
from numba_grad.transforms.batch import batch
from numba_grad.transforms.jvp import pushed_forward
from numba_grad.transforms.kept_values import Policy, values_saved, values_worth_keeping
from numba_grad.transforms.vjp import cotangents, reached

Derived = TypeVar("Derived")
Given = ParamSpec("Given")
# Bytes that are kept for a derivative, for each byte of what a function gets and returns, or a loop
# carries.
_MOST_KEPT = 4


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
                node.op.family == "call" and node.op.name != "call"
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


def _sources(outputs: Sequence[Node], arguments: Sequence[Node]) -> list[Node]:
    """The values and foreign arguments that `outputs` are made of, apart from `arguments`."""
    own = set(arguments)
    order = toposort(outputs, stop=lambda node: node.value is not None)
    return [
        node
        for node in order
        if node not in own and (node.value is not None or node.op is ARGUMENT)
    ]
