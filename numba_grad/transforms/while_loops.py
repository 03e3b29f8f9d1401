"""Loops that go on while a condition holds, as one operation: bodies are graphs of their own.

while_loop(test, body, carried, ...)    while test(carried): carried = body(carried)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.graph.node import Node, Op, argument
from numba_grad.graph.types import TupleType, Type, array_type
from numba_grad.ops.control import aliases, by_pullback, rebuild_with_results, result, with_results
from numba_grad.transforms.bodies import (
    Shape,
    backward_body,
    forward_body,
    inputs_with_tangents,
    member_by_member,
)
from numba_grad.transforms.call import CallTarget, Evaluate
from numba_grad.transforms.jvp import Tangent
from numba_grad.transforms.loop_adjoints import loop_adjoint


def while_loop(
    test: CallTarget,
    body: CallTarget,
    carried: Sequence[Node],
    constants_of_test: Sequence[Node],
    constants_of_body: Sequence[Node],
    slots: int,
) -> tuple[list[Node], Node]:
    """What is carried out of the loop, and the number of steps, int64.

    `test`: of (carried, its constants) -> a boolean; `body`: of (carried, its constants) ->
    carried; `slots`: for how many states of what is carried the derivative has memory
    """
    params = {
        "test": test,
        "body": body,
        "carried": len(carried),
        "constants_of_test": len(constants_of_test),
        "slots": slots,
    }
    node = with_results(while_op, [*carried, *constants_of_test, *constants_of_body], params)
    results = [result(node, k) for k in range(len(carried) + 1)]
    return results[:-1], results[-1]


def parted(
    values: Sequence[Any], carried: int, constants_of_test: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """Inputs: what is carried, constants of the test, constants of the body."""
    first = carried + constants_of_test
    return list(values[:carried]), list(values[carried:first]), list(values[first:])


def _infer(*types: Type, carried: int, **others: Any) -> TupleType:
    device = TupleType(types).device
    return TupleType((*types[:carried], array_type((), np.dtype(np.int64), device)))


def _evaluate(
    evaluate: Evaluate,
    *arrays: Any,
    test: CallTarget,
    body: CallTarget,
    carried: int,
    constants_of_test: int,
    slots: int,
) -> tuple[Any, ...]:
    state, of_test, of_body = parted(arrays, carried, constants_of_test)
    steps = 0
    while True:
        [holds] = evaluate(test.outputs, dict(zip(test.arguments, [*state, *of_test], strict=True)))
        if not holds:
            return (*state, np.array(steps, np.int64))
        given = dict(zip(body.arguments, [*state, *of_body], strict=True))
        state = evaluate(body.outputs, given)
        steps += 1


def _pullback(
    cotangents: list[Node | None],
    out: Node,
    *inputs: Node,
    test: CallTarget,
    body: CallTarget,
    carried: int,
    constants_of_test: int,
    slots: int,
) -> list[Node | None]:
    state, of_test, constants = parted(inputs, carried, constants_of_test)
    of_loop = [*state, *constants]
    requires_grad = [x.requires_grad for x in of_loop]
    backward = backward_body(body, Shape(carried, 0, 0), requires_grad, is_whole=True)
    held = backward.held(of_loop, cotangents)
    finals, _ = loop_adjoint(
        result(out, carried),
        [*held, *state, *constants, *backward.captured],
        body,
        backward,
        Shape(carried, 0, 0),
        (),
        length=None,
        reverse=False,
        slots=slots,
    )
    found = backward.cotangents(len(of_loop), finals, [])
    return [*found[:carried], *[None] * len(of_test), *found[carried:]]


# In forward mode: the same loop, that carries tangents along.


def _with_tangents(
    tangents: Sequence[Node | None],
    *inputs: Node,
    test: CallTarget,
    body: CallTarget,
    carried: int,
    constants_of_test: int,
    slots: int,
) -> tuple[Node, list[Tangent]]:
    state, of_test, constants = parted(inputs, carried, constants_of_test)
    of_state, _, of_constants = parted(tangents, carried, constants_of_test)
    directions = [*of_state, *of_constants]
    shape = Shape(carried, 0, 0)
    forward = forward_body(body, shape, [t is not None for t in directions])
    given = inputs_with_tangents(forward, shape, [*state, *constants], directions)
    held = carried + len(forward.carried)
    wider = test.derived(
        ("carrying", forward.body), lambda: _carrying(test, carried, forward.body.arguments[:held])
    )
    params = {
        "test": wider,
        "body": forward.body,
        "carried": held,
        "constants_of_test": constants_of_test,
        "slots": slots,
    }
    node = with_results(while_op, [*given[:held], *of_test, *given[held:]], params)
    found: list[Tangent] = [None] * (carried + 1)
    for number, k in enumerate(forward.carried):
        found[k] = result(node, carried + number)
    return aliases([*[result(node, k) for k in range(carried)], result(node, held)]), found


def _carrying(test: CallTarget, carried: int, arguments: Sequence[Node]) -> CallTarget:
    """The test of a loop that carries more, which it does not look at."""
    more = [argument(x.type, x.requires_grad) for x in arguments[carried:]]
    own = test.arguments
    return CallTarget(test.name, [*own[:carried], *more, *own[carried:]], test.outputs)


def _jvp(tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any) -> list[Tangent]:
    return _with_tangents(tangents, *inputs, **params)[1]


def _batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
    count = params["carried"] + 1
    return member_by_member(while_op, is_batched, inputs, params, params["body"], count)


while_op = Op(
    "while",
    "call",
    ("x",),
    _infer,
    by_pullback,
    _batch,
    extras={
        "pullback": _pullback,
        "with_tangents": _with_tangents,
        "evaluate": _evaluate,
        "rebuild": rebuild_with_results,
    },
    jvp=_jvp,
)
