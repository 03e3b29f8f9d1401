"""Calls of functions with rules of the user's, recorded as one `custom` operation each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.state import state_of
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, explain
from numba_grad.frontend.derivatives.rules_of_calls import (
    LATER,
    Arguments,
    Rules,
    by_fwd,
    names_of_leaves,
    running,
)
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.tensors.python_numbers import handle_like, is_number
from numba_grad.graph.node import OPS, Node, grad_mode, next_serial, record
from numba_grad.graph.walk import history_of, in_order_of_recording
from numba_grad.ops.control import custom_node, item

if TYPE_CHECKING:
    from numba_grad.frontend.derivatives.custom_rules import CustomFunction


def result_of(function: "CustomFunction", args: tuple[Any, ...]) -> Any:
    """What `function` returns for `args`, with the derivative of its rules where one may be asked
    for."""
    call = Arguments(function, args)
    if not grad_mode.enabled or not call.variables or _is_of_tangents(function, call):
        return function.f(*args)
    return _recorded(function, call)


def _recorded(function: "CustomFunction", call: Arguments) -> Any:
    """The results of a call, with the user's derivative."""
    _check_arrays(function, call)
    first_serial = next_serial()
    stand_ins = list(call.leaves)
    for k in call.variables:
        stand_ins[k] = handle_like(call.leaves[k], OPS["identity"](call.leaves[k]._node))
    given = [stand_ins[k]._node for k in call.variables]
    args = call.all_with(stand_ins)
    if function.fwd is None or function in running.fwds:
        out, residuals = function.f(*args), LATER
    else:
        out, residuals = by_fwd(function, args)
    own = [stand_ins[k]._node for k in call.variables]
    if any(x is not before for x, before in zip(own, given, strict=True)):
        raise GradientError(
            explain(
                function.name,
                "changes an argument in place, of whose derivative its rule says nothing",
                fix="x = x.copy() inside, and x as a result",
            )
        )
    leaves, structure = trees.flatten(out)
    nodes = [as_node(x) for x in leaves]
    numbers = [k for k, node in enumerate(nodes) if is_inexact(node.dtype)]
    if not numbers:
        return out
    values = [nodes[k] for k in numbers]
    closed_over = _closed_over(values, own, first_serial)
    rules = Rules(function, call, own, closed_over, nodes, numbers, structure, residuals)
    # Of the values only numbers: what they are made of is no history of this operation.
    detached = [OPS["detach"](node) for node in values]
    operation = custom_node(rules, [*rules.arguments, *closed_over], detached)
    state_of(operation)  # so that a pass notices what the rule records
    results = list(leaves)
    for number, k in enumerate(numbers):
        result = record(item, (operation,), {"number": number})
        results[k] = handle_like(leaves[k], result)
    return trees.unflatten(structure, results)


def _check_arrays(function: "CustomFunction", call: Arguments) -> None:
    for name, x in zip(names_of_leaves(function, call), call.leaves, strict=True):
        if not (is_tensor(x) or is_number(x) or isinstance(x, np.ndarray | np.generic)):
            raise TypeError(
                explain(
                    function.name,
                    "an argument is neither array nor number",
                    got={name: repr(x)},
                    fix="its position in nondiff_argnums",
                )
            )


def _is_of_tangents(function: "CustomFunction", call: Arguments) -> bool:
    """Whether a forward rule that is to be transposed calls a function of its tangents which has a
    forward rule itself: so the rule of a linear function may call this function. What is linear is
    transposed as it is written, since its rule would ask for its rule."""
    if function.bwd is not None or not running.transposed:
        return False
    roots = [call.leaves[k]._node for k in call.variables]
    points = running.transposed
    met = history_of(roots, points, since=points[0].serial).ends
    return not set(points).isdisjoint(met)


def _closed_over(values: Sequence[Node], own: Sequence[Node], first_serial: int) -> list[Node]:
    """What else derivatives flow to from `values`, apart from the function's arguments."""
    arguments = set(own)
    met = history_of(values, arguments, since=first_serial).ends
    return in_order_of_recording(
        [x for x in met if x not in arguments and (x.serial < first_serial or x.op.vjp is None)]
    )
