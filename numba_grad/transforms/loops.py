"""Loops of a known number of steps as one operation: its body is a graph of its own, compiled once
and differentiated once, whatever the number of steps.

    loop(body, carried, sequences, constants)    for step in range(length): carried, out = body(...)

The body's arguments are what is carried from step to step, a row of each sequence, and constants;
its outputs are what is carried on, and rows of the results that are stacked. The node has one more
result for each carried value: its values at the beginning of all steps. These are what the
derivative reads, and are computed only where somebody does. Where there is no memory for so many,
the derivative is an operation of its own: it keeps the states of some steps and does the others
again (`compiler/checkpoint_schedule.py`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import OPS, Node, Op, argument, grad_mode
from numba_grad.graph.types import TupleType, Type
from numba_grad.ops.control import aliases, rebuild_with_results, result, with_results
from numba_grad.ops.families import literal, zeros_like
from numba_grad.transforms.batch import repeat
from numba_grad.transforms.bodies import (
    Forward,
    Shape,
    backward_body,
    batched_body,
    carried_along,
    forward_body,
    keeping_costly,
)
from numba_grad.transforms.call import CallTarget, Evaluate
from numba_grad.transforms.jvp import Tangent


def loop(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
    *,
    reverse: bool = False,
    slots: int | None = None,
    is_users: bool = True,
    sums: int = 0,
) -> tuple[list[Node], list[Node]]:
    """What is carried out of the loop, and the stacked results.

    Parameters
    ----------
    body : of (carried, rows of the sequences, constants) -> (carried, rows of the results)
    carried, sequences, constants : of the types of the body's arguments; sequences with an axis of
        `length` in front
    reverse : whether the last rows come first
    slots : for how many states of what is carried the derivative has memory; None: for all
    is_users : whether it is no derivative of a loop itself: then it keeps what its derivative would
        not compute again
    sums : of how many carried values, the last ones, it is known that steps only add to them
    """
    inputs = [*carried, *sequences, *constants]
    own, kept = keeping_costly(body, len(carried)) if is_users else (body, 0)
    node = _node(inputs, own, len(carried), len(sequences), length, reverse, slots, kept, sums)
    results = [result(node, k) for k in range(len(body.outputs))]
    return results[: len(carried)], results[len(carried) :]


def _node(
    inputs: Sequence[Node],
    body: CallTarget,
    carried: int,
    sequences: int,
    length: int,
    reverse: bool,
    slots: int | None,
    kept: int = 0,
    sums: int = 0,
) -> Node:
    params = {
        "body": body,
        "carried": carried,
        "sequences": sequences,
        "length": length,
        "reverse": reverse,
        "slots": None if slots is None or slots >= length else slots,
        "kept": kept,
        "sums": sums,
    }
    return with_results(loop_op, inputs, params)


def _infer(
    *types: Type, body: CallTarget, carried: int, length: int, **others: Any
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
    **others: Any,
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
    slots: int | None,
    kept: int,
    sums: int,
) -> list[Node | None]:
    shape = Shape.of(body, carried, sequences)
    of_carried = cotangents[:carried]
    of_stacks = cotangents[carried : carried + shape.stacked]
    of_entries = cotangents[carried + shape.stacked :]
    backward = backward_body(
        body,
        shape,
        [x.requires_grad for x in inputs],
        tuple([g is not None for g in of_stacks]),
        tuple([g is not None for g in of_entries]),
        kept=kept if slots is None else 0,
        is_whole=slots is not None,
    )
    held = backward.held(inputs, of_carried)
    rows = [inputs[k] for k in backward.rows]
    rows += [result(out, k) for k in backward.kept]
    rows += [g for g in (*of_stacks, *of_entries) if g is not None]
    constants = [*[inputs[k] for k in backward.others], *backward.captured]
    if slots is None:
        entries = [result(out, len(body.outputs) + k) for k in backward.entries]
        finals, stacks = loop(
            backward.body,
            held,
            [*entries, *rows],
            constants,
            length,
            reverse=not reverse,
            is_users=False,
            sums=len(backward.constants),
        )
    else:
        finals, stacks = loop_adjoint(
            literal(length, np.dtype(np.int64)),
            [*held, *inputs[:carried], *rows, *constants],
            body=body,
            backward=backward.body,
            held=len(held),
            carried=carried,
            sequences=sequences,
            rows=len(rows),
            length=length,
            reverse=reverse,
            slots=slots,
        )
    return backward.cotangents(len(inputs), finals, stacks)


# In forward mode: the same loop, that carries tangents along.


def _with_tangents(
    tangents: Sequence[Node | None],
    *inputs: Node,
    body: CallTarget,
    carried: int,
    sequences: int,
    length: int,
    reverse: bool,
    slots: int | None,
    kept: int,
    sums: int,
) -> tuple[Node, list[Tangent]]:
    shape = Shape.of(body, carried, sequences)
    forward = forward_body(body, shape, [t is not None for t in tangents])
    given = inputs_with_tangents(forward, shape, inputs, tangents)
    held = carried + len(forward.carried)
    node = _node(
        given, forward.body, held, sequences + len(forward.sequences), length, reverse, slots
    )
    first_entry = len(forward.body.outputs)
    stacked = shape.stacked
    values = [
        *range(carried),
        *range(held, held + stacked),
        *range(first_entry, first_entry + carried),
    ]
    found: list[Tangent] = [None] * len(values)
    for number, k in enumerate(forward.carried):
        found[k] = result(node, carried + number)
        found[carried + stacked + k] = result(node, first_entry + carried + number)
    for number, k in enumerate(forward.stacked):
        found[k] = result(node, held + stacked + number)
    return aliases([result(node, k) for k in values]), found


def inputs_with_tangents(
    forward: Forward, shape: Shape, inputs: Sequence[Node], tangents: Sequence[Node | None]
) -> list[Node]:
    """The inputs of a loop whose body computes tangents."""

    def of(numbers: Sequence[int]) -> list[Node]:
        return [zeros_like(inputs[k]) if (t := tangents[k]) is None else t for k in numbers]

    state, rows, constants = shape.arguments(inputs)
    return [
        *state,
        *of(forward.carried),
        *rows,
        *of(forward.sequences),
        *constants,
        *of(forward.constants),
        *forward.captured,
    ]


def _jvp(
    tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any
) -> list[Tangent]:
    return _with_tangents(tangents, *inputs, **params)[1]


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
    slots: int | None,
    kept: int,
    sums: int,
) -> Node:
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    flags = carried_along(body, is_batched, carried)
    batched, has_axis = body.derived(
        ("batched", flags, size, "loop"), lambda: batched_body(body, flags, size, carried)
    )
    given = []
    for k, (x, was, flag) in enumerate(zip(inputs, is_batched, flags, strict=True)):
        x = repeat(x, size) if flag and not was else x
        given.append(_axes_swapped(x) if flag and carried <= k < carried + sequences else x)
    node = _node(given, batched, carried, sequences, length, reverse, slots, kept, sums)
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


loop_op = Op(
    "loop",
    "call",
    ("x",),
    _infer,
    _vjp,
    _batch,
    extras={
        "pullback": _pullback,
        "with_tangents": _with_tangents,
        "evaluate": _evaluate,
        "rebuild": rebuild_with_results,
    },
    jvp=_jvp,
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


# The adjoint within a memory budget.


def loop_adjoint(
    steps: Node, inputs: Sequence[Node], **params: Any
) -> tuple[list[Node], list[Node]]:
    """The cotangents that a loop of `steps` steps carries back, and those of rows.

    Parameters
    ----------
    steps : int64, 0-d
    inputs : those of the loop over `backward`; in place of the states at the beginning of all steps
        the first one
    params : `body`, the loop's; `backward`, that of its derivative; `held`, how many values that
        carries; `carried` and `sequences`, of the loop; `rows`, the sequences of the derivative;
        `length`, where it is known; `reverse`, whether the loop took the last rows first; `slots`,
        how many states are kept
    """
    node = with_results(adjoint_op, [steps, *inputs], params)
    held: int = params["held"]
    results = [result(node, k) for k in range(len(params["backward"].outputs))]
    return results[:held], results[held:]


def _infer(*types: Type, backward: CallTarget, held: int, length: int | None, **_: Any) -> TupleType:
    outputs = [node.type for node in backward.outputs]
    rows = [t.of_shape((length, *t.shape)) for t in outputs[held:]] if length is not None else []
    return TupleType((*outputs[:held], *rows))


def _evaluate(
    evaluate: Evaluate,
    steps: Any,
    *arrays: Any,
    body: CallTarget,
    backward: CallTarget,
    held: int,
    carried: int,
    sequences: int,
    rows: int,
    length: int | None,
    reverse: bool,
    slots: int,
) -> tuple[Any, ...]:
    cotangents, state = list(arrays[:held]), list(arrays[held : held + carried])
    sequence_arrays = arrays[held + carried : held + carried + rows]
    constants = arrays[held + carried + rows :]
    order = range(int(steps))[:: -1 if reverse else 1]
    entries = []
    for k in order:
        entries.append(state)
        values = [*state, *[x[k] for x in sequence_arrays[:sequences]], *constants]
        outputs = evaluate(body.outputs, dict(zip(body.arguments, values, strict=False)))
        state = outputs[:carried]
    types = [node.type for node in backward.outputs[held:]]
    stacks = [np.empty((len(order), *t.shape), t.dtype) for t in types]
    for k, entry in zip(reversed(order), reversed(entries), strict=True):
        values = [*cotangents, *entry, *[x[k] for x in sequence_arrays], *constants]
        outputs = evaluate(backward.outputs, dict(zip(backward.arguments, values, strict=True)))
        cotangents = outputs[:held]
        for stack, value in zip(stacks, outputs[held:], strict=True):
            stack[k] = value
    return (*cotangents, *stacks)


def _batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
    count = len(params["backward"].outputs)
    return member_by_member(adjoint_op, is_batched, inputs, params, params["backward"], count)


adjoint_op = Op(
    "loop_adjoint",
    "call",
    ("steps", "x"),
    _infer,
    None,
    _batch,
    extras={"evaluate": _evaluate, "rebuild": rebuild_with_results},
)
