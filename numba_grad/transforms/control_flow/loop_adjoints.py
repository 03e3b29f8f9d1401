"""The adjoint of a loop within a memory budget, as one operation: it keeps the states of some steps
and does the others again (`compiler/control_flow/checkpoint_schedule.py`). The number of steps may
be known when it runs only.

Where memory holds the states of all steps, and their number is known when the loop is recorded, the
adjoint is a loop itself (`loops.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.graph.node import OPS, Node, argument
from numba_grad.graph.types import TupleType, Type, array_type
from numba_grad.ops.control import (
    pullback_of,
    result,
    with_results,
)
from numba_grad.ops.families import literal
from numba_grad.transforms.call import Evaluate, op_of_graphs
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph
from numba_grad.transforms.control_flow.bodies import (
    Backward,
    forward_body,
    inputs_with_tangents,
    member_by_member,
    with_body_of_tangents,
)
from numba_grad.transforms.control_flow.carried_cotangents import CarriedCotangents, carrying_less
from numba_grad.transforms.control_flow.loop_params import AdjointParams, LoopParams, WhileParams


def loop_adjoint(
    steps: Node,
    inputs: Sequence[Node],
    loop: LoopParams,
    backward: Backward,
    given: tuple[bool, ...],
    reading: Backward | None = None,
) -> tuple[list[Node], list[Node]]:
    """The cotangents that a loop carries back, and those of rows.

    Parameters
    ----------
    steps : int64, 0-d
    inputs : those of the loop over `backward.body`; in place of the states at the beginning of all
        steps the first one
    loop : whose adjoint it is, of a known length or a counted one
    backward : one step back
    given : which stacked results have cotangents
    reading : one step back that reads results of the step, as where all states are kept
    """
    assert loop.slots is not None
    count = len(backward.carried) + len(backward.constants)
    held = inputs[:count]
    sums = len(backward.constants)
    less = of_reading = carrying_less(backward.body, count, sums)
    if reading is not None:
        of_reading = carrying_less(reading.body, count, sums)
        if not less.is_like(of_reading):
            less, of_reading = [
                CarriedCotangents(x.body, frozenset(), {}, (), None) for x in (backward, reading)
            ]
    carried = less.carried(count)
    own = (*backward.carried, *backward.constants)
    params = AdjointParams(
        loop.body,
        less.body,
        len(carried),
        loop.carried,
        loop.sequences,
        loop.sequences + sum(given),
        loop.length,
        loop.reverse,
        loop.slots,
        loop.directory,
        (*[own[k] for k in carried], *backward.sequences),
        given,
        of_reading.body,
        () if reading is None else reading.kept,
        sum(k >= len(backward.carried) for k in carried),
        tuple([number for number, k in enumerate(carried) if k in less.negated]),
        tuple([own[k] for k in less.same]),
    )
    arguments = [*less.held(held), *inputs[count:], *less.constants(held)]
    node = with_results(adjoint_op, [steps, *arguments], params._asdict())
    results = [result(node, k) for k in range(len(less.body.outputs))]
    return less.finals(results[: len(carried)], held), results[len(carried) :]


def _infer(*types: Type, **params: Any) -> TupleType:
    own = AdjointParams(**params)
    outputs = [node.type for node in own.backward.outputs]
    stacked = outputs[own.held :] if own.length is not None else []
    return TupleType((*outputs[: own.held], *[t.of_shape((own.length, *t.shape)) for t in stacked]))


def _evaluate(evaluate: Evaluate, steps: Any, *arrays: Any, **params: Any) -> tuple[Any, ...]:
    own = AdjointParams(**params)
    body, backward = own.body, own.backward
    first_row, first_constant = own.held + own.carried, own.held + own.carried + own.rows
    cotangents, state = list(arrays[: own.held]), list(arrays[own.held : first_row])
    rows, constants = arrays[first_row:first_constant], arrays[first_constant:]
    order = range(int(steps))[:: -1 if own.reverse else 1]
    entries = []
    for k in order:
        entries.append(state)
        values = [*state, *[x[k] for x in rows[: own.sequences]], *constants]
        outputs = evaluate(body.outputs, dict(zip(body.arguments, values, strict=False)))
        state = outputs[: own.carried]
    types = [node.type for node in backward.outputs[own.held :]]
    stacks = [np.empty((len(order), *t.shape), t.dtype) for t in types]
    for k, entry in zip(reversed(order), reversed(entries), strict=True):
        values = [*cotangents, *entry, *[x[k] for x in rows], *constants]
        outputs = evaluate(backward.outputs, dict(zip(backward.arguments, values, strict=True)))
        cotangents = outputs[: own.held]
        for stack, value in zip(stacks, outputs[own.held :], strict=True):
            stack[k] = value
    return (*cotangents, *stacks)


def _batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
    count = len(params["backward"].outputs)
    return member_by_member(adjoint_op, is_batched, inputs, params, params["backward"], count)


# The derivative. Let J be that of the loop, so that the adjoint is J^T: <a, J^T g> = <J a, g>, for
# all a. On the left is what a cotangent a of the adjoint's results means, on the right the tangents
# that the loop has in the direction a. So the cotangent of g is J a, and those of all else are
# what the adjoint of the loop with tangents gives for the cotangent g of these tangents.


def _pullback(
    cotangents: list[Node | None], out: Node, steps: Node, *inputs: Node, **params: Any
) -> list[Node | None]:
    own = AdjointParams(**params)
    held, carried, sequences, rows = own.held, own.carried, own.sequences, own.rows
    active, given = own.active, own.given
    shape = own.loop.shape
    first_row = held + carried
    state = inputs[held:first_row]
    sequence_arrays = inputs[first_row : first_row + sequences]
    of_stacks = inputs[first_row + sequences : first_row + rows]
    constants = inputs[first_row + rows :][: len(own.body.arguments) - carried - sequences]
    of_loop = [*state, *sequence_arrays, *constants]
    tangents: list[Node | None] = [None] * len(of_loop)

    def signed(place: int, x: Node | None) -> Node | None:
        return OPS["negative"](x) if x is not None and place in own.negated else x

    for place, (number, a) in enumerate(zip(active, cotangents, strict=True)):
        tangents[number] = signed(place, a)
    forward = forward_body(own.body, shape, [t is not None for t in tangents])
    moved = inputs_with_tangents(forward, shape, of_loop, tangents)
    loop = with_body_of_tangents(own.loop, forward)
    node, first_carried, pullback = _run(steps, moved, loop)
    own_stacked = loop.carried + shape.stacked
    # Cotangents of the loop with tangents: those of the loop, of its tangents.
    of_tangents: list[Node | None] = [None] * len(node.type.items)
    found: list[Node | None] = [None] * (1 + len(inputs))
    first_sum = held - own.sums
    seed_of = {k: place for place, k in enumerate(active[:first_sum])}
    seed_of |= {k: len(inputs) - len(own.same) + n for n, k in enumerate(own.same) if k < carried}
    for number, k in enumerate(forward.carried):
        if k in seed_of:
            place, seed = first_carried + carried + number, seed_of[k]
            of_tangents[place] = signed(seed, inputs[seed])
            found[1 + seed] = signed(seed, result(node, place))
    for number, a in enumerate(cotangents[first_sum:held], start=first_sum):
        found[1 + number] = a  # sums are added to
    stacked = [carried + k for k, is_given in enumerate(given) if is_given]
    for number, k in enumerate(forward.stacked):
        if k in stacked:
            place = stacked.index(k)
            of_tangents[own_stacked + number] = of_stacks[place]
            found[1 + first_row + sequences + place] = result(node, own_stacked + number)
    pulled = pullback(of_tangents)
    of_state, of_rows, of_constants = loop.shape.arguments(pulled)
    found[1 + held : 1 + first_row] = of_state[:carried]
    found[1 + first_row : 1 + first_row + sequences] = of_rows[:sequences]
    first_constant = 1 + first_row + rows
    found[first_constant : first_constant + len(constants)] = of_constants[: len(constants)]
    return found


def _run(
    steps: Node, inputs: Sequence[Node], loop: LoopParams
) -> tuple[Node, int, Callable[[list[Node | None]], list[Node | None]]]:
    """A loop, of a known length or of `steps`, the number of its first carried result, and its
    derivative."""
    if loop.length is not None:
        op, params, given = OPS["loop"], loop._asdict(), list(inputs)
        node = with_results(op, given, params)
        return node, 0, lambda cotangents: pullback_of(op)(cotangents, node, *given, **params)
    op, carried = OPS["while"], loop.carried
    assert loop.slots is not None
    test, body = _counting(loop.body, carried)
    params = WhileParams(test, body, 1 + carried, 1, loop.slots, loop.directory)._asdict()
    given = [literal(0, steps.dtype), *inputs[:carried], steps, *inputs[carried:]]
    node = with_results(op, given, params)

    def pullback(cotangents: list[Node | None]) -> list[Node | None]:
        pulled = pullback_of(op)(cotangents, node, *given, **params)
        return [*pulled[1 : 1 + carried], *pulled[2 + carried :]]

    return node, 1, pullback


@once_for_each_graph
def _counting(body: CallTarget, carried: int) -> tuple[CallTarget, CallTarget]:
    """The body of a loop that counts its steps, and its condition: that there are not enough."""
    count, steps = [argument(array_type((), np.dtype(np.int64))) for _ in range(2)]
    state = [argument(x.type, x.requires_grad) for x in body.arguments[:carried]]
    test = CallTarget(f"steps of {body.name}", [count, *state, steps], [OPS["less"](count, steps)])
    number = argument(count.type)
    more = OPS["add"](number, literal(1, number.dtype))
    counting = CallTarget(body.name, [number, *body.arguments], [more, *body.outputs])
    return test, counting


adjoint_op = op_of_graphs(
    "loop_adjoint", ("steps", "x"), _infer, _batch, pullback=_pullback, evaluate=_evaluate
)
