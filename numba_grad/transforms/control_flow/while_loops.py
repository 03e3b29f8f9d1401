"""Loops that go on while a condition holds, as one operation: bodies are graphs of their own.

while_loop(test, body, carried, ...)    while test(carried): carried = body(carried)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.graph.node import Node, argument
from numba_grad.graph.types import TupleType, Type, array_type
from numba_grad.ops.control import aliases, result, with_results
from numba_grad.transforms.call import Evaluate, op_of_graphs
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph
from numba_grad.transforms.control_flow.bodies import (
    backward_body,
    forward_body,
    inputs_with_tangents,
    member_by_member,
)
from numba_grad.transforms.control_flow.loop_adjoints import loop_adjoint
from numba_grad.transforms.control_flow.loop_params import WhileParams
from numba_grad.transforms.jvp import Tangent


def while_loop(
    test: CallTarget,
    body: CallTarget,
    carried: Sequence[Node],
    constants_of_test: Sequence[Node],
    constants_of_body: Sequence[Node],
    slots: int,
    directory: str = "",
) -> tuple[list[Node], Node]:
    """What is carried out of the loop, and the number of steps, int64.

    `test`: of (carried, its constants) -> a boolean; `body`: of (carried, its constants) ->
    carried; `slots`: for how many states of what is carried the derivative has memory, in a file
    in `directory` if that is not ""
    """
    params = WhileParams(test, body, len(carried), len(constants_of_test), slots, directory)
    node = with_results(
        while_op, [*carried, *constants_of_test, *constants_of_body], params._asdict()
    )
    results = [result(node, k) for k in range(len(carried) + 1)]
    return results[:-1], results[-1]


# Comparisons that hold for fewer and fewer steps, as `counter < limit`: how much higher the counter
# may be than the limit, and which operand it is.
_BELOW = {"less": (0, 0), "less_equal": (1, 0), "greater": (0, 1), "greater_equal": (1, 1)}


def most_steps(
    test: CallTarget,
    body: CallTarget,
    carried: Sequence[Node],
    constants_of_test: Sequence[Node],
    constants_of_body: Sequence[Node],
) -> int | None:
    """How many steps there can be, as `counter < limit and ...` says of a counter whose first value
    and limit are known; None if nothing does."""
    counters = dict(zip(test.arguments, carried, strict=False))
    limits = dict(zip(test.arguments[len(carried) :], constants_of_test, strict=True))
    strides = dict(zip(body.arguments[len(carried) :], constants_of_body, strict=True))

    def steps_of(comparison: Node) -> int | None:
        higher, which = _BELOW[comparison.op.name]
        counter, limit = comparison.inputs[which], comparison.inputs[1 - which]
        if counter not in counters or limit not in limits:
            return None
        number = test.arguments.index(counter)
        own, after = body.arguments[number], body.outputs[number]
        if after.op.name != "add" or own not in after.inputs:
            return None
        stride, *_ = [strides.get(x) for x in after.inputs if x is not own] or [None]
        first, end, by = [_integer(x) for x in (counters[counter], limits[limit], stride)]
        if first is None or end is None or by is None or by <= 0:
            return None
        return max(0, -(-(end + higher - first) // by))

    found = []
    parts = [*test.outputs]
    while parts:
        part = parts.pop()
        if part.op.name in ("logical_and", "identity"):
            parts += part.inputs
        elif part.op.name in _BELOW:
            found.append(steps_of(part))
    return min([most for most in found if most is not None], default=None)


def _integer(node: Node | None) -> int | None:
    """Of a node that is known to be one."""
    while node is not None and node.value is None and node.op.name == "identity":
        [node] = node.inputs
    if node is None or node.value is None or node.shape != () or node.dtype.kind not in "iu":
        return None
    return int(np.asarray(node.value))


def _infer(*types: Type, carried: int, **others: Any) -> TupleType:
    device = TupleType(types).device
    return TupleType((*types[:carried], array_type((), np.dtype(np.int64), device)))


def _evaluate(evaluate: Evaluate, *arrays: Any, **params: Any) -> tuple[Any, ...]:
    loop = WhileParams(**params)
    test, body = loop.test, loop.body
    state, of_test, of_body = loop.parted(arrays)
    steps = 0
    while True:
        [holds] = evaluate(test.outputs, dict(zip(test.arguments, [*state, *of_test], strict=True)))
        if not holds:
            return (*state, np.array(steps, np.int64))
        given = dict(zip(body.arguments, [*state, *of_body], strict=True))
        state = evaluate(body.outputs, given)
        steps += 1


def _pullback(
    cotangents: list[Node | None], out: Node, *inputs: Node, **params: Any
) -> list[Node | None]:
    own = WhileParams(**params)
    counted = own.counted
    state, of_test, constants = own.parted(inputs)
    of_loop = [*state, *constants]
    requires_grad = [x.requires_grad for x in of_loop]
    backward = backward_body(own.body, counted.shape, requires_grad, is_whole=True)
    held = backward.held(of_loop, cotangents)
    finals, _ = loop_adjoint(
        result(out, own.carried),
        [*held, *state, *constants, *backward.captured],
        counted,
        backward,
        (),
    )
    found = backward.cotangents(len(of_loop), finals, [])
    return [*found[: own.carried], *[None] * len(of_test), *found[own.carried :]]


# In forward mode: the same loop, that carries tangents along.


def _with_tangents(
    tangents: Sequence[Node | None], *inputs: Node, **params: Any
) -> tuple[Node, list[Tangent]]:
    own = WhileParams(**params)
    carried, shape = own.carried, own.counted.shape
    state, of_test, constants = own.parted(inputs)
    of_state, _, of_constants = own.parted(tangents)
    directions = [*of_state, *of_constants]
    forward = forward_body(own.body, shape, [t is not None for t in directions])
    given = inputs_with_tangents(forward, shape, [*state, *constants], directions)
    held = carried + len(forward.carried)
    wider = _carrying(own.test, carried, forward.body.arguments[:held])
    moved = own._replace(test=wider, body=forward.body, carried=held)
    node = with_results(while_op, [*given[:held], *of_test, *given[held:]], moved._asdict())
    found: list[Tangent] = [None] * (carried + 1)
    for number, k in enumerate(forward.carried):
        found[k] = result(node, carried + number)
    return aliases([*[result(node, k) for k in range(carried)], result(node, held)]), found


@once_for_each_graph
def _carrying(test: CallTarget, carried: int, arguments: Sequence[Node]) -> CallTarget:
    """The test of a loop that carries more, which it does not look at."""
    more = [argument(x.type, x.requires_grad) for x in arguments[carried:]]
    own = test.arguments
    return CallTarget(test.name, [*own[:carried], *more, *own[carried:]], test.outputs)


def _batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
    count = params["carried"] + 1
    return member_by_member(while_op, is_batched, inputs, params, params["body"], count)


while_op = op_of_graphs(
    "while",
    ("x",),
    _infer,
    _batch,
    pullback=_pullback,
    with_tangents=_with_tangents,
    evaluate=_evaluate,
)
