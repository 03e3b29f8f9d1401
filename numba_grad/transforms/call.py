"""Calls of functions inside of other graphs, as operations; and what these have in common with
loops and branches, which have graphs in their params, too.

The results of a call of a `CallTarget` are `item` nodes. Its derivative is a call: of the VJP of
the function. What that needs of the forward pass it computes again from the inputs, or reads where
that is cheaper (`kept_values.py`). In forward mode it is a call of a function that computes values
and tangents together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numba_grad.graph.node import OPS, Node, Op
from numba_grad.graph.types import TupleType, Type
from numba_grad.graph.walk import toposort
from numba_grad.ops.control import by_pullback, result, with_results
from numba_grad.ops.families import literal, placed
from numba_grad.transforms.call_target import CallTarget, has_rules, targets_in
from numba_grad.transforms.jvp import Tangent
from numba_grad.transforms.kept_values import Policy

# Of the reference engine: (nodes, values of arguments) -> values of the nodes.
Evaluate = Callable[[Sequence[Node], dict[Node, Any]], list[Any]]


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
