"""Operations with kernels of their own -> steps: library calls, scans, sorts, scatters."""

from collections.abc import Callable
from typing import Any

from numba_grad.errors import InternalError
from numba_grad.graph.node import Node


def lower(node: Node, places: dict[Node, Any], temporary: Callable[[int], Any]) -> list[Any]:
    """The steps that compute `node` from its inputs, which are in memory."""
    raise InternalError(f"no kernel for {node}")
