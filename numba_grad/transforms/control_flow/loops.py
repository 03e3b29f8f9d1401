"""Loops of a known number of steps as one operation: its body is a graph of its own, compiled once
and differentiated once, whatever the number of steps.

    loop(body, carried, sequences, constants)    for step in range(length): carried, out = body(...)

The body's arguments are what is carried from step to step, a row of each sequence, and constants;
its outputs are what is carried on, and rows of the results that are stacked. The node has one more
result for each carried value: its values at the beginning of all steps. These are what the
derivative reads, and are computed only where somebody does. Where there is no memory for so many,
the derivative is an operation of its own (`loop_adjoints.py`).
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.fresh_thread import imported
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import TupleType, Type
from numba_grad.ops.control import (
    aliases,
    result,
    with_results,
)
from numba_grad.ops.families import literal, reshape
from numba_grad.transforms.batch import repeat
from numba_grad.transforms.call import Evaluate, op_of_graphs
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.control_flow.bodies import (
    backward_body,
    batched_body,
    carried_along,
    forward_body,
    inputs_with_tangents,
    with_body_of_tangents,
)
from numba_grad.transforms.control_flow.carried_cotangents import carrying_less, of_totals
from numba_grad.transforms.control_flow.loop_adjoints import loop_adjoint
from numba_grad.transforms.control_flow.loop_params import LoopParams
from numba_grad.transforms.jvp import Tangent
from numba_grad.transforms.vjp import add_cotangents

# What looks at the first loop that a process records.
PASSES_OF_LOOPS = (
    "numba_grad.transforms.control_flow.independent_steps",
    "numba_grad.transforms.control_flow.carried_parts",
    "numba_grad.transforms.control_flow.joined_products",
)

# Bytes that all steps may keep for their derivative where they carry less.
_SMALL_HISTORY = 1 << 24


def loop(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
    *,
    reverse: bool = False,
    slots: int | None = None,
    directory: str = "",
    is_users: bool = True,
    sums: int = 0,
    is_cut: bool = False,
    is_shown: bool = False,
) -> tuple[list[Node], list[Node]]:
    """What is carried out of the loop, and the stacked results.

    Parameters
    ----------
    body : of (carried, rows of the sequences, constants) -> (carried, rows of the results)
    carried, sequences, constants : of the types of the body's arguments; sequences with an axis of
        `length` in front
    reverse : whether the last rows come first
    slots : for how many states of what is carried the derivative has memory; None: for all
    directory : where states go to a file; "": they stay in memory
    is_users : whether it is no derivative of a loop itself: then it keeps what its derivative would
        not compute again
    sums : of how many carried values, the last ones, it is known that steps only add to them
    is_cut : whether a step may be done before the loop
    is_shown : whether somebody sees how many steps are done
    """
    if is_users and body.has_bodies:
        # Imported when it is needed: most loops have none inside.
        body = imported(
            "numba_grad.transforms.control_flow.short_loops"
        ).with_short_loops_written_out(body)
    if is_users:
        shown = {"is_cut": is_cut, "is_shown": is_shown}
        again = functools.partial(
            loop, length=length, reverse=reverse, slots=slots, directory=directory, **shown
        )
        found = _rewritten(body, carried, sequences, constants, again)
        if found is not None:
            return found
    if is_cut and not is_shown and length > 1:
        of_former = _with_former_values(
            body, carried, sequences, constants, length, reverse, slots, directory
        )
        if of_former is not None:
            return of_former
    inputs = [*carried, *sequences, *constants]
    own, kept = body, 0
    if is_users and any(x.requires_grad for x in inputs):
        room = sum(x.type.nbytes for x in carried)
        if slots is None:  # else there is a budget
            room = max(room, _SMALL_HISTORY // max(length, 1))
        asked = carried_along(body, [x.requires_grad for x in inputs], len(carried))
        own, kept = body.keeping(room, asked, len(carried))
    params = LoopParams(
        own,
        len(carried),
        len(sequences),
        length,
        reverse=reverse,
        # A file is kept to, however short the loop turns out to be.
        slots=None if slots is None or (slots >= length and not directory) else slots,
        directory=directory,
        kept=kept,
        sums=sums,
    )
    node = with_results(loop_op, inputs, params._asdict())
    results = [result(node, k) for k in range(len(body.outputs))]
    return results[: len(carried)], results[len(carried) :]


def _rewritten(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    again: "functools.partial[tuple[list[Node], list[Node]]]",
) -> tuple[list[Node], list[Node]] | None:
    """The results by another loop, which `again` makes, or by none, if that is better."""
    # Imported when the first loop is recorded: most programs have none.
    independent = imported(*PASSES_OF_LOOPS)
    parts, products = map(imported, PASSES_OF_LOOPS[1:])
    given = again.keywords
    if given["slots"] is None and not given["is_shown"]:  # with a budget it is meant as a loop
        length = given["length"]
        found = independent.all_at_once(body, carried, sequences, constants, length)
        if found is not None:
            return found
    of_points = of_totals(body, len(carried))
    if of_points is not None:
        finals, stacks = again(of_points.body, of_points.held(carried), sequences, constants)
        return of_points.finals(finals, carried), stacks
    parted = parts.carrying_parts(body, len(carried))
    if parted is not None:
        of_parts = again(parted.body, parted.split(carried), sequences, constants)
        return parted.joined(len(carried), *of_parts)
    joined = products.with_joined_products(body, len(carried), sequences, constants)
    if joined is not None:
        return again(joined.body, carried, *joined.given(sequences, constants))
    return None


def _with_former_values(
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
    reverse: bool,
    slots: int | None,
    directory: str,
) -> tuple[list[Node], list[Node]] | None:
    """The results of the loop that carries former values, after a first step, if that is better."""
    module = imported("numba_grad.transforms.control_flow.former_values")
    former = module.carrying_former_values(body, len(carried), len(sequences))
    if former is None:
        return None
    state, first = former.after_first_step(carried, sequences, constants, reverse)
    rows = [module.rows_after_first(x, reverse) for x in sequences]
    finals, stacks = loop(
        former.body,
        state,
        rows,
        constants,
        length - 1,
        reverse=reverse,
        slots=slots,
        directory=directory,
    )
    pairs = zip(first, stacks, strict=True)
    return former.finals(finals, constants), [module.joined(x, y, reverse) for x, y in pairs]


def _infer(*types: Type, **params: Any) -> TupleType:
    loop = LoopParams(**params)
    assert loop.length is not None
    length = loop.length

    def stack(type: Type) -> Type:
        return type.of_shape((length, *type.shape))

    outputs = [node.type for node in loop.body.outputs]
    carried, stacked = outputs[: loop.carried], outputs[loop.carried :]
    return TupleType((*carried, *map(stack, [*stacked, *carried])))


def _evaluate(evaluate: Evaluate, *arrays: Any, **params: Any) -> tuple[Any, ...]:
    loop = LoopParams(**params)
    assert loop.length is not None
    body, carried = loop.body, loop.carried
    state, rows, constants = loop.shape.arguments(arrays)
    types = [node.type for node in body.outputs]
    stacks = [
        np.empty((loop.length, *t.shape), t.dtype) for t in (*types[carried:], *types[:carried])
    ]
    for k in range(loop.length)[:: -1 if loop.reverse else 1]:
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
    cotangents: list[Node | None], out: Node, *inputs: Node, **params: Any
) -> list[Node | None]:
    own = LoopParams(**params)
    assert own.length is not None
    body, carried, shape = own.body, own.carried, own.shape
    of_carried, of_stacks = _with_last_rows(
        own, cotangents[:carried], cotangents[carried : carried + shape.stacked]
    )
    of_entries = cotangents[carried + shape.stacked :]
    given = tuple([g is not None for g in of_stacks])
    step_back = functools.partial(
        backward_body,
        body,
        shape,
        [x.requires_grad for x in inputs],
        given,
        tuple([g is not None for g in of_entries]),
        is_whole=not own.keeps_all,
    )
    backward = step_back(kept=own.kept if own.keeps_all else 0)
    held = backward.held(inputs, of_carried)
    rows = [inputs[k] for k in backward.rows]
    rows += [result(out, k) for k in backward.kept]
    rows += [g for g in (*of_stacks, *of_entries) if g is not None]
    constants = [*[inputs[k] for k in backward.others], *backward.captured]
    if own.keeps_all:
        entries = [result(out, len(body.outputs) + k) for k in backward.entries]
        less = carrying_less(backward.body, len(held), len(backward.constants))
        finals, stacks = loop(
            less.body,
            less.held(held),
            [*entries, *rows],
            [*constants, *less.constants(held)],
            own.length,
            reverse=not own.reverse,
            is_users=False,
            sums=len(backward.constants) - len(less.parts),
        )
        finals = less.finals(finals, held)
    else:
        finals, stacks = loop_adjoint(
            literal(own.length, np.dtype(np.int64)),
            [*held, *inputs[:carried], *rows, *constants],
            own,
            backward,
            given,
            step_back(kept=own.kept),
        )
    return backward.cotangents(len(inputs), finals, stacks)


def _with_last_rows(
    loop: LoopParams, of_carried: Sequence[Node | None], of_stacks: Sequence[Node | None]
) -> tuple[list[Node | None], list[Node | None]]:
    """Cotangents of what is carried and of stacked results. One that is zero but for the last
    step's row, as of `ys[-1]`, is a cotangent of what is carried out, where that is the row."""
    of_carried, of_stacks = list(of_carried), list(of_stacks)
    for number, g in enumerate(of_stacks):
        last = loop.last_row(loop.carried + number)
        row = None if g is None or last is None else _only_row(g, last[1])
        if row is None or last is None:
            continue
        k, _ = last
        before = of_carried[k]
        of_carried[k] = row if before is None else add_cotangents(before, row)
        of_stacks[number] = None
    return of_carried, of_stacks


def _only_row(g: Node, row: int) -> Node | None:
    """That row of a cotangent, if all others are zero: of a slice, or of several added up, maybe
    transposed, as those of a batch are."""
    axes = tuple(range(len(g.shape)))
    if g.op.name == "transpose" and len(g.inputs) == 1:
        axes, [g] = g.params["axes"], g.inputs

    def moved(values: Sequence[int]) -> tuple[int, ...]:
        return tuple([values[axis] for axis in axes])

    def without_row(x: Node) -> Node:
        return reshape(OPS["transpose"](x, axes=axes), moved(x.shape)[1:])

    added: list[Node] = []
    while g.op.name == "add_slice" and len(g.inputs) == 2:
        if g.inputs[1].shape[axes[0]] != 1 or g.params["starts"][axes[0]] != row:
            return None
        added.append(g)
        g = g.inputs[0]
    if g.op.name != "pad" or len(g.inputs) != 1:
        return None
    if g.inputs[0].shape[axes[0]] != 1 or g.params["low"][axes[0]] != row:
        return None
    around = {name: moved(g.params[name])[1:] for name in ("low", "high", "interior")}
    result = OPS["pad"](without_row(g.inputs[0]), **around)
    for x in reversed(added):
        where = {name: moved(x.params[name])[1:] for name in ("starts", "steps")}
        result = OPS["add_slice"](result, without_row(x.inputs[1]), **where)
    return result


# In forward mode: the same loop, that carries tangents along.


def _with_tangents(
    tangents: Sequence[Node | None], *inputs: Node, **params: Any
) -> tuple[Node, list[Tangent]]:
    own = LoopParams(**params)
    carried, shape = own.carried, own.shape
    forward = forward_body(own.body, shape, [t is not None for t in tangents])
    given = inputs_with_tangents(forward, shape, inputs, tangents)
    moved = with_body_of_tangents(own, forward)
    held = moved.carried
    node = with_results(loop_op, given, moved._asdict())
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


# Batching: what does not depend on the batch stays as it is.


def _batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
    own = LoopParams(**params)
    body, carried, sequences = own.body, own.carried, own.sequences
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    flags = carried_along(body, is_batched, carried)
    batched, has_axis = batched_body(body, flags, size, carried)
    given = []
    for k, (x, was, flag) in enumerate(zip(inputs, is_batched, flags, strict=True)):
        x = repeat(x, size) if flag and not was else x
        given.append(_axes_swapped(x) if flag and carried <= k < carried + sequences else x)
    given += batched.captured
    node = with_results(loop_op, given, own._replace(body=batched.target)._asdict())
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


loop_op = op_of_graphs(
    "loop",
    ("x",),
    _infer,
    _batch,
    pullback=_pullback,
    with_tangents=_with_tangents,
    evaluate=_evaluate,
    last_row=lambda number, **params: LoopParams(**params).last_row(number),
)
