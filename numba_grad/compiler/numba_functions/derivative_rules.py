"""Slopes of scalar operations by the rules in the records of the package's own operations.

A rule is run once, on nodes that stand for the cotangent, the result and the arguments. What it
records is then written wherever the slope is asked for, in scalar operations.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.compiler.numba_functions.regions import Value
from numba_grad.dtypes import FLOAT64
from numba_grad.errors import InternalError
from numba_grad.graph.node import OPS, Node, argument
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple

if TYPE_CHECKING:
    from numba_grad.compiler.numba_functions.builder import Builder

# Operations whose results are scalar operations by other names.
_NAMES = {"where": "select", "logical_and": "bitwise_and", "logical_not": "not"}


class _Rule(NamedTuple):
    given: tuple[Node, ...]  # the cotangent, the result, then the arguments
    steps: list[Node]
    contribution: Node


def slope(
    name: str, k: int, b: "Builder", g: Value, arguments: Sequence[Value], result: Value
) -> Value:
    """What argument k of an operation gets, of a cotangent of the result."""
    rule = _rule(name, k)
    values: dict[Node, Value] = dict(zip(rule.given, (g, result, *arguments), strict=True))
    for step in rule.steps:
        values[step] = _written(step, [values[x] for x in step.inputs], b)
    return values[rule.contribution]


@functools.cache
def _rule(name: str, k: int) -> _Rule:
    op = OPS[name]
    # Of any dtype of numbers: those in the rule are numbers in the text, as in a user's function.
    number = array_type((), FLOAT64)
    given = tuple([argument(number) for _ in range(2 + len(op.input_names))])
    assert op.vjp is not None
    contribution = op.vjp(k, *given)
    if contribution is None:
        raise InternalError(f"{name} has no slope in {op.input_names[k]}")
    steps = [node for node in toposort([contribution]) if node not in given]
    return _Rule(given, steps, contribution)


def _written(step: Node, values: Sequence[Value], b: "Builder") -> Value:
    name = step.op.name
    if name == "literal":
        return float(np.frombuffer(step.params["bytes"], step.dtype)[0])
    if name == "square":
        return b.define("multiply", *values, *values)
    return b.define(_NAMES.get(name, name), *values)
