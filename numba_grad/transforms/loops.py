"""Loops of a known number of steps as one operation: its body is a graph of its own, compiled once
and differentiated once, whatever the number of steps.

    loop(body, carried, sequences, constants)    for step in range(length): carried, out = body(...)

The body's arguments are what is carried from step to step, a row of each sequence, and constants;
its outputs are what is carried on, and rows of the results that are stacked. The node has one more
result for each carried value: its values at the beginning of all steps. These are what the
derivative reads, and are computed only where somebody does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import OPS, Node, Op, argument, grad_mode
from numba_grad.graph.types import TupleType, Type
from numba_grad.graph.walk import substitute, toposort
from numba_grad.ops.control import aliases, rebuild_with_results, result, with_results
from numba_grad.ops.families import zeros_like
from numba_grad.transforms.batch import batch, repeat
from numba_grad.transforms.call import CallTarget, Evaluate
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


def loop(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
    *,
    reverse: bool = False,
) -> tuple[list[Node], list[Node]]:
    """What is carried out of the loop, and the stacked results.

    Parameters
    ----------
    body : of (carried, rows of the sequences, constants) -> (carried, rows of the results)
    carried, sequences, constants : of the types of the body's arguments; sequences with an axis of
        `length` in front
    reverse : whether the last rows come first
    """
    inputs = [*carried, *sequences, *constants]
    node = _node(inputs, body, len(carried), len(sequences), length, reverse)
    results = [result(node, k) for k in range(len(body.outputs))]
    return results[: len(carried)], results[len(carried) :]


def _node(
    inputs: Sequence[Node],
    body: CallTarget,
    carried: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> Node:
    params = {"body": body, "carried": carried, "sequences": sequences}
    return with_results(loop_op, inputs, {**params, "length": length, "reverse": reverse})


def _infer(
    *types: Type, body: CallTarget, carried: int, sequences: int, length: int, reverse: bool
) -> TupleType:
    def stack(type: Type) -> Type:
        return type.of_shape((length, *type.shape))

    outputs = [node.type for node in body.outputs]
    entries = [stack(type) for type in outputs[:carried]]
    return TupleType((*outputs[:carried], *map(stack, outputs[carried:]), *entries))


def _evaluate(
    evaluate: Evaluate,
    *arrays: Any,
    body: CallTarget,
    carried: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> tuple[Any, ...]:
    state, rows, constants = Shape.of(body, carried, sequences).arguments(arrays)
    types = [node.type for node in body.outputs]
    stacks = [np.empty((length, *t.shape), t.dtype) for t in (*types[carried:], *types[:carried])]
    for k in reversed(range(length)) if reverse else range(length):
        given = [*state, *[x[k] for x in rows], *constants]
        outputs = evaluate(body.outputs, dict(zip(body.arguments, given, strict=True)))
        for stack, value in zip(stacks, [*outputs[carried:], *state], strict=True):
            stack[k] = value
        state = outputs[:carried]
    return (*state, *stacks)


# Derivative: the same loop in the other direction. It carries the cotangents of what the loop
# carries and the sums of those of its constants, and computes again what a step computed, from the
# values at its beginning.


def _pullback(
    cotangents: list[Node | None],
    out: Node,
    *inputs: Node,
    body: CallTarget,
    carried: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> list[Node | None]:
    shape = Shape.of(body, carried, sequences)
    of_carried = cotangents[:carried]
    of_stacks = cotangents[carried : carried + shape.stacked]
    of_entries = cotangents[carried + shape.stacked :]
    given = tuple(g is not None for g in of_stacks)
    given_entries = tuple(g is not None for g in of_entries)
    backward = body.derived(
        ("loop vjp", carried, sequences, given, given_entries),
        lambda: _backward_body(body, shape, given, given_entries),
    )
    _, rows, constants = shape.arguments(inputs)
    entries = [result(out, len(body.outputs) + k) for k in range(carried)]
    seeds = [
        zeros_like(inputs[k]) if (g := of_carried[k]) is None else g for k in backward.carried
    ]
    sums = [zeros_like(inputs[k]) for k in backward.constants]
    finals, stacks = loop(
        backward.body,
        [*seeds, *sums],
        [*entries, *rows, *[g for g in (*of_stacks, *of_entries) if g is not None]],
        [*constants, *backward.captured],
        length,
        reverse=not reverse,
    )
    found: list[Node | None] = [None] * len(inputs)
    numbers = (*backward.carried, *backward.constants, *backward.sequences)
    for number, g in zip(numbers, [*finals, *stacks], strict=True):
        found[number] = g
    return found


@dataclass(frozen=True, slots=True)
class _Backward:
    """The body of a derivative; the numbers are those of the arguments that have cotangents."""

    body: CallTarget
    carried: tuple[int, ...]
    constants: tuple[int, ...]
    sequences: tuple[int, ...]
    captured: list[Node]


def _backward_body(
    body: CallTarget, shape: Shape, given: tuple[bool, ...], given_entries: tuple[bool, ...]
) -> _Backward:
    """Of (cotangents of what is carried, sums of those of constants; entries, rows, cotangents of
    results and of entries; constants) -> the first two as they are after one step back, and the
    cotangents of rows."""
    arguments, outputs = body.arguments, body.outputs
    count = shape.carried
    differentiable = tuple(k for k in range(count) if is_inexact(arguments[k].dtype))
    asked = tuple(k in differentiable for k in range(count)) + given
    vjp = body.vjp(asked)
    of = dict(zip(vjp.numbers, vjp.target.outputs, strict=True))
    first_constant = count + shape.sequences
    constants = tuple(k for k in vjp.numbers if k >= first_constant)
    sequences = tuple(k for k in vjp.numbers if count <= k < first_constant)

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
    return _Backward(target, differentiable, constants, sequences, vjp.captured)


def _vjp(k: int, g: list[Node | None], out: Node, *inputs: Node, **params: Any) -> Node | None:
    return _pullback(g, out, *inputs, **params)[k]


# Batching: what does not depend on the batch stays as it is.


def _batch(
    is_batched: Sequence[bool],
    *inputs: Node,
    body: CallTarget,
    carried: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> Node:
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    flags = carried_along(body, is_batched, carried)
    batched, has_axis = body.derived(
        ("batched", flags, size, "loop"), lambda: _batched_body(body, flags, size, carried)
    )
    given = []
    for k, (x, was, flag) in enumerate(zip(inputs, is_batched, flags, strict=True)):
        x = repeat(x, size) if flag and not was else x
        given.append(_axes_swapped(x) if flag and carried <= k < carried + sequences else x)
    node = _node(given, batched, carried, sequences, length, reverse)
    results = []
    for k, has in enumerate([*has_axis, *flags[:carried]]):
        x = result(node, k)
        if has:
            results.append(x if k < carried else _axes_swapped(x))
        else:
            results.append(repeat(x, size))
    return aliases(results)


def _axes_swapped(x: Node) -> Node:
    return OPS["transpose"](x, axes=(1, 0, *range(2, len(x.shape))))


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


def _batched_body(
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


loop_op = Op(
    "loop",
    "call",
    ("x",),
    _infer,
    _vjp,
    _batch,
    extras={"pullback": _pullback, "evaluate": _evaluate, "rebuild": rebuild_with_results},
)


def member_by_member(
    op: Op,
    is_batched: Sequence[bool],
    inputs: Sequence[Node],
    params: dict[str, Any],
    target: CallTarget,
    number_of_results: int,
) -> Node:
    """The batching rule of what decides by values: a loop over the members of the batch, each of
    which takes its own way. So nothing is computed of a way that is not taken.

    `target`: a graph of the params, by which the loop's body is remembered.
    """
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    rows = [x for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis]
    shared = [x for x, has_axis in zip(inputs, is_batched, strict=True) if not has_axis]

    def make() -> CallTarget:
        members = [
            argument(x.type.of_shape(x.shape[1:]) if has_axis else x.type, is_inexact(x.dtype))
            for x, has_axis in zip(inputs, is_batched, strict=True)
        ]
        enabled, grad_mode.enabled = grad_mode.enabled, True
        try:
            node = with_results(op, members, params)
            results = [result(node, k) for k in range(number_of_results)]
        finally:
            grad_mode.enabled = enabled
        of_rows = [m for m, has_axis in zip(members, is_batched, strict=True) if has_axis]
        others = [m for m, has_axis in zip(members, is_batched, strict=True) if not has_axis]
        return CallTarget(f"member of {target.name}", [*of_rows, *others], results)

    key = ("member", op, tuple(params.items()), tuple(is_batched), tuple(x.type for x in inputs))
    _, stacks = loop(target.derived(key, make), [], rows, shared, size)
    return aliases(stacks)
