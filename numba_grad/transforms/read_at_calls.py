"""Leaves that stand for arrays which are read at each call, as those that a compiled function
closes over: their values are not those of all runs.

`frontend/inputs/tracing.py` knows which these are.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from numba_grad.graph.node import Node


class ReadAtCalls(Protocol):
    def place_of(self, node: Node) -> tuple[Hashable, int] | None:
        """Where the array is that a leaf stands for: something that is the same for arrays of one
        memory with the same strides, and the offset in bytes. None of other leaves."""
        ...

    def stride_of(self, node: Node, axis: int) -> int:
        """The bytes from one element to the next, of an array that has a place."""
        ...

    def array_of(self, rows: Sequence[Node]) -> Node | None:
        """The leaf for an array whose rows are those of these leaves, in this order; None if they
        do not lie at equal distances, or are not any more what they were."""
        ...
