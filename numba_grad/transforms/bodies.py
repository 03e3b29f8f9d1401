"""Graphs of loops and branches: what their arguments are, their derivatives, their batched forms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import Node, argument, grad_mode
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.families import zeros_like
from numba_grad.transforms.batch import batch
from numba_grad.transforms.call import CallTarget
from numba_grad.transforms.vjp import add_cotangents


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of a body's arguments and outputs are what."""

    carried: int
    sequences: int
    stacked: int

    @staticmethod
    def of(body: CallTarget, carried: int, sequences: int) -> "Shape":
        return Shape(carried, sequences, len(body.outputs) - carried)

    def arguments(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Arguments of a body, or inputs of a loop: carried ones, sequences, constants."""
        first = self.carried + self.sequences
        return list(values[: self.carried]), list(values[self.carried : first]), list(values[first:])


@dataclass(frozen=True, slots=True)
class Backward:
    """The body of a derivative; the numbers are those of the arguments that have cotangents."""

    body: CallTarget
    carried: tuple[int, ...]
    constants: tuple[int, ...]
    sequences: tuple[int, ...]
    captured: list[Node]

    def held(self, inputs: Sequence[Node], cotangents: Sequence[Node | None]) -> list[Node]:
        """What it carries at first: cotangents of what the loop carried, and sums of nothing yet."""
        seeds = [
            zeros_like(inputs[k]) if (g := cotangents[k]) is None else g for k in self.carried
        ]
        return [*seeds, *[zeros_like(inputs[k]) for k in self.constants]]

    def cotangents(
        self, count: int, finals: Sequence[Node], stacks: Sequence[Node]
    ) -> list[Node | None]:
        """Those of the loop's inputs."""
        found: list[Node | None] = [None] * count
        numbers = (*self.carried, *self.constants, *self.sequences)
        for number, g in zip(numbers, [*finals, *stacks], strict=True):
            found[number] = g
        return found


def backward_body(
    body: CallTarget,
    shape: Shape,
    requires_grad: Sequence[bool],
    given: tuple[bool, ...] = (),
    given_entries: tuple[bool, ...] = (),
) -> Backward:
    """Of (cotangents of what is carried, sums of those of constants; entries, rows, cotangents of
    results and of entries; constants) -> the first two as they are after one step back, and the
    cotangents of rows.

    `requires_grad`: which of the body's arguments do so at first. Others have no cotangents, unless
    what is carried comes to depend on one that does.
    """
    active = carried_along(body, requires_grad, shape.carried)
    return body.derived(
        ("backward", shape, active, given, given_entries),
        lambda: _backward_body(body, shape, active, given, given_entries),
    )


def _backward_body(
    body: CallTarget,
    shape: Shape,
    active: Sequence[bool],
    given: tuple[bool, ...],
    given_entries: tuple[bool, ...],
) -> Backward:
    arguments, outputs = body.arguments, body.outputs
    count = shape.carried
    differentiable = tuple(k for k in range(count) if active[k] and is_inexact(arguments[k].dtype))
    asked = tuple(k in differentiable for k in range(count)) + (given or (False,) * shape.stacked)
    vjp = body.vjp(asked)
    pairs = zip(vjp.numbers, vjp.target.outputs, strict=True)
    of = {number: g for number, g in pairs if active[number]}
    first_constant = count + shape.sequences
    constants = tuple(k for k in of if k >= first_constant)
    sequences = tuple(k for k in of if count <= k < first_constant)

    def stand_in(node: Node) -> Node:
        return argument(node.type, is_inexact(node.dtype))

    own = [stand_in(node) for node in arguments]
    seeds = {k: stand_in(outputs[k]) for k, is_asked in enumerate(asked) if is_asked}
    sums = [stand_in(arguments[k]) for k in constants]
    of_entries = {k: stand_in(arguments[k]) for k, has in enumerate(given_entries) if has}
    captured = [stand_in(node) for node in vjp.captured]
    given_to_vjp = [*own, *seeds.values(), *captured]
    enabled, grad_mode.enabled = grad_mode.enabled, True
    try:
        replaced = dict(zip(vjp.target.arguments, given_to_vjp, strict=True))
        pulled = dict(zip(of, substitute(list(of.values()), replaced), strict=True))
        carried_on = []
        for k in differentiable:
            g = pulled.get(k)
            if k in of_entries:
                g = of_entries[k] if g is None else add_cotangents(g, of_entries[k])
            carried_on.append(zeros_like(arguments[k]) if g is None else g)
        sums_on = [add_cotangents(x, pulled[k]) for x, k in zip(sums, constants, strict=True)]
    finally:
        grad_mode.enabled = enabled
    of_stacks = [seeds[k] for k in range(count, len(outputs)) if asked[k]]
    target = CallTarget(
        f"vjp of {body.name}",
        [
            *[seeds[k] for k in differentiable],
            *sums,
            *own[:first_constant],
            *of_stacks,
            *of_entries.values(),
            *own[first_constant:],
            *captured,
        ],
        [*carried_on, *sums_on, *[pulled[k] for k in sequences]],
    )
    return Backward(target, differentiable, constants, sequences, vjp.captured)


def carried_along(
    body: CallTarget, is_batched: Sequence[bool], carried: int
) -> tuple[bool, ...]:
    """Which arguments of a body have a batch axis, where these have one at first: what is carried
    gets one as soon as it depends on one."""
    flags = list(is_batched)
    while True:
        dependent = depending_on(body, flags)
        new = [flag or dependent[k] for k, flag in enumerate(flags[:carried])]
        if new == flags[:carried]:
            return tuple(flags)
        flags[:carried] = new


def depending_on(body: CallTarget, flags: Sequence[bool]) -> list[bool]:
    """Which outputs of a graph depend on the arguments that have a flag."""
    depends = {node for node, flag in zip(body.arguments, flags, strict=True) if flag}
    for node in toposort(body.outputs):
        if any(x in depends for x in node.inputs):
            depends.add(node)
    return [node in depends for node in body.outputs]


def batched_body(
    body: CallTarget, flags: tuple[bool, ...], size: int, carried: int
) -> tuple[CallTarget, list[bool]]:
    """The body of a batch, and which of its outputs have a batch axis."""
    replaced = {
        node: argument(node.type.of_shape((size, *node.shape)), node.requires_grad)
        for node, flag in zip(body.arguments, flags, strict=True)
        if flag
    }
    has_axis = depending_on(body, flags)
    has_axis[:carried] = flags[:carried]
    with_axis = [node for node, has in zip(body.outputs, has_axis, strict=True) if has]
    batched = iter(batch(with_axis, replaced, size))
    outputs = [
        next(batched) if has else node for node, has in zip(body.outputs, has_axis, strict=True)
    ]
    arguments = [replaced.get(node, node) for node in body.arguments]
    return CallTarget(f"batched {body.name}", arguments, outputs), has_axis
