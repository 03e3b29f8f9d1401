"""Choices between a few cheap operations on numbers, which the compiler makes after both
(`compiler/passes/small_branches.py`): so steps of a Python loop that have such become a loop that
keeps its numbers in registers. With other choices inside, it would take longer than its steps one
by one.
"""

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Protocol

from numba_grad.graph.node import Node
from numba_grad.graph.types import TupleType
from numba_grad.graph.walk import toposort
from numba_grad.ops.functions import is_power_of_integers

# Of all branches together, in additions.
_MOST_OPERATIONS = 64
# Elements of an array: those of a vector in space.
_MOST_ELEMENTS = 4
_PURE = ("elementwise", "movement", "reduction")


class _Graph(Protocol):
    @property
    def outputs(self) -> Sequence[Node]: ...
    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any: ...


Branches = tuple[_Graph, ...]


def are_cheap(branches: Branches, numbers: Collection[int]) -> bool:
    """Whether these results of all branches may be computed, and one of them taken."""
    return _operations(branches, numbers) <= _MOST_OPERATIONS


def choices(outputs: Sequence[Node]) -> dict[Branches, set[int]]:
    """Between what these choose, with the numbers of the results that are wanted."""
    found: dict[Branches, set[int]] = {}
    for node in toposort(outputs):
        if node.op.name == "item" and node.inputs[0].op.name == "branch":
            branches = node.inputs[0].params["branches"]
            found.setdefault(branches, set()).add(node.params["number"])
    return found


def _operations(branches: Branches, numbers: Collection[int]) -> float:
    """What these results of all branches take together, in additions, with the branches inside;
    infinity, if something is not to be computed in vain."""
    # Of each of the branches that an `elif` has after it, they are asked for.
    key = "operations", branches, frozenset(numbers)
    return branches[0].derived(key, lambda: _operations_of(branches, numbers))


def _operations_of(branches: Branches, numbers: Collection[int]) -> float:
    operations = 0.0
    for target in branches:
        outputs = [target.outputs[k] for k in numbers]
        operations += sum(_operations(inner, own) for inner, own in choices(outputs).items())
        for node in toposort(outputs):
            if node.op.name == "branch":
                continue
            if isinstance(node.type, TupleType) or node.type.size > _MOST_ELEMENTS:
                return math.inf
            if node.inputs and node.value is None and node.op.name != "item":
                if node.op.family not in _PURE or is_power_of_integers(node):
                    return math.inf
                operations += node.op.cost * node.type.size
    return operations
