"""A choice between graphs as one operation: of its branches only the chosen one runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import Node, argument, recording
from numba_grad.graph.types import TupleType, Type
from numba_grad.graph.walk import substitute
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import aliases, result, with_results
from numba_grad.ops.families import zeros_like
from numba_grad.transforms.batch import repeat
from numba_grad.transforms.call import Evaluate, op_of_graphs
from numba_grad.transforms.call_target import CallBatched, CallTarget
from numba_grad.transforms.control_flow.bodies import depending_on, member_by_member
from numba_grad.transforms.jvp import Tangent

Branches = tuple[CallTarget, ...]


def branch(index: Node, branches: Branches, operands: Sequence[Node]) -> list[Node]:
    """The results of `branches[index]` on `operands`; of the first or the last one, where there is
    none of that number.

    `index`: int64, 0-d; `branches` have equal types of arguments, the operands', and of results.
    """
    node = with_results(branch_op, [index, *operands], {"branches": branches})
    return [result(node, k) for k in range(len(branches[0].outputs))]


def with_common_arguments(branches: Sequence[CallTarget], operands: int) -> Branches:
    """Graphs of the same operands and of constants of their own, as graphs of the operands and of
    all constants."""
    if all(len(own.arguments) == operands for own in branches):
        return tuple(branches)

    def make() -> Branches:
        result = []
        for number, own in enumerate(branches):
            # By number: two branches may be one graph.
            constants = [
                own.arguments[operands:]
                if position == number
                else [argument(x.type, x.requires_grad) for x in other.arguments[operands:]]
                for position, other in enumerate(branches)
            ]
            arguments = [*own.arguments[:operands], *[x for part in constants for x in part]]
            result.append(CallTarget(own.name, arguments, own.outputs))
        # As long as these live, so do those that they are made of, which equal ones are known by.
        result[0].derived("made of", lambda: tuple(branches))
        return tuple(result)

    return branches[0].derived(("common arguments", tuple(branches), operands), make)


def _infer(*types: Type, branches: Branches) -> TupleType:
    return branches[0].type


def _evaluate(
    evaluate: Evaluate, index: np.ndarray, *arrays: Any, branches: Branches
) -> tuple[Any, ...]:
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return tuple(evaluate(chosen.outputs, dict(zip(chosen.arguments, arrays, strict=True))))


class _Backward(NamedTuple):
    branches: Branches
    numbers: tuple[int, ...]  # of the operands that have cotangents
    captured: list[Node]


def _pullback(
    cotangents: list[Node | None], out: Node, index: Node, *operands: Node, branches: Branches
) -> list[Node | None]:
    given = tuple(g is not None for g in cotangents)
    wanted = tuple(x.requires_grad for x in operands)
    backward = branches[0].derived(
        ("branch vjp", branches, given, wanted),
        lambda: _backward_branches(branches, given, wanted),
    )
    if not backward.numbers:
        return [None] * (1 + len(operands))
    seeds = [g for g in cotangents if g is not None]
    results = branch(index, backward.branches, [*operands, *seeds, *backward.captured])
    found: list[Node | None] = [None] * (1 + len(operands))
    for number, g in zip(backward.numbers, results, strict=True):
        found[1 + number] = g
    return found


def _backward_branches(
    branches: Branches, given: tuple[bool, ...], wanted: tuple[bool, ...]
) -> _Backward:
    """Of (operands, cotangents, what derivatives close over) -> cotangents of the wanted operands
    that any branch has derivatives by."""
    vjps = [b.by(wanted).vjp(given) for b in branches]
    numbers = tuple(sorted({k for vjp in vjps for k in vjp.numbers if wanted[k]}))
    captured = list(dict.fromkeys(node for vjp in vjps for node in vjp.captured))
    targets = []
    for own, vjp in zip(branches, vjps, strict=True):
        operands = [argument(x.type, is_inexact(x.dtype)) for x in own.arguments]
        seeds = [
            argument(x.type, is_inexact(x.dtype))
            for x, is_given in zip(own.outputs, given, strict=True)
            if is_given
        ]
        others = {node: argument(node.type, is_inexact(node.dtype)) for node in captured}
        values = [*operands, *seeds, *[others[node] for node in vjp.captured]]
        with recording(True):
            replaced = dict(zip(vjp.target.arguments, values, strict=True))
            pulled = dict(zip(vjp.numbers, substitute(vjp.target.outputs, replaced), strict=True))
            outputs = [pulled[k] if k in pulled else zeros_like(operands[k]) for k in numbers]
        arguments = [*operands, *seeds, *others.values()]
        targets.append(CallTarget(f"vjp of {own.name}", arguments, outputs))
    return _Backward(tuple(targets), numbers, captured)


# In forward mode: branches that compute tangents as well.


class _ForwardBranches(NamedTuple):
    branches: Branches
    numbers: tuple[int, ...]  # of the results that have tangents, the last results
    captured: list[Node]


def _with_tangents(
    tangents: Sequence[Node | None], index: Node, *operands: Node, branches: Branches
) -> tuple[Node, list[Tangent]]:
    given = tuple(t is not None for t in tangents[1:])
    forward = branches[0].derived(
        ("branch jvp", branches, given), lambda: _forward_branches(branches, given)
    )
    directions = [t for t in tangents[1:] if t is not None]
    inputs = [index, *operands, *directions, *forward.captured]
    node = with_results(branch_op, inputs, {"branches": forward.branches})
    count = len(branches[0].outputs)
    found: list[Tangent] = [None] * count
    for number, k in enumerate(forward.numbers):
        found[k] = result(node, count + number)
    return node, found


def _forward_branches(branches: Branches, given: tuple[bool, ...]) -> _ForwardBranches:
    jvps = [b.jvp(given, with_values=True) for b in branches]
    numbers = tuple(sorted({number for jvp in jvps for number in jvp.numbers}))
    captured = list(dict.fromkeys(node for jvp in jvps for node in jvp.captured))
    targets = []
    for own, jvp in zip(branches, jvps, strict=True):
        count = len(own.arguments) + sum(given)
        values = jvp.target.outputs[: len(own.outputs)]
        found = dict(zip(jvp.numbers, jvp.target.outputs[len(values) :], strict=True))
        stand_ins = dict(zip(jvp.captured, jvp.target.arguments[count:], strict=True))
        others = [
            stand_ins[x] if x in stand_ins else argument(x.type, is_inexact(x.dtype))
            for x in captured
        ]
        with recording(True):
            moved = [found[k] if k in found else zeros_like(values[k]) for k in numbers]
        arguments = [*jvp.target.arguments[:count], *others]
        targets.append(CallTarget(f"jvp of {own.name}", arguments, [*values, *moved]))
    return _ForwardBranches(tuple(targets), numbers, captured)


def _batch(is_batched: Sequence[bool], *inputs: Node, branches: Branches) -> Node:
    count = len(branches[0].outputs)
    if is_batched[0]:
        params = {"branches": branches}
        return member_by_member(branch_op, is_batched, inputs, params, branches[0], count)
    flags = tuple(is_batched[1:])
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    batched, has_axis = branches[0].derived(
        ("batched branches", branches, flags, size), lambda: _batched(branches, flags, size)
    )
    captured = [node for own in batched for node in own.captured]
    targets = with_common_arguments([own.target for own in batched], len(flags))
    results = branch(inputs[0], targets, [*inputs[1:], *captured])
    return aliases(
        [x if has else repeat(x, size) for x, has in zip(results, has_axis, strict=True)]
    )


def _batched(
    branches: Branches, flags: tuple[bool, ...], size: int
) -> tuple[list[CallBatched], list[bool]]:
    """The branches of a batch, and which results have a batch axis: those of any branch."""
    depends = [depending_on(own, flags) for own in branches]
    has_axis = [any(column) for column in zip(*depends, strict=True)]
    return [own.batched(flags, size, tuple(has_axis)) for own in branches], has_axis


branch_op = op_of_graphs(
    "branch",
    ("index", "x"),
    _infer,
    _batch,
    pullback=_pullback,
    with_tangents=_with_tangents,
    evaluate=_evaluate,
)
