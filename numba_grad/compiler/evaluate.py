"""Give values to recorded nodes, on the engine in force."""

from collections.abc import Sequence

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.config import config
from numba_grad.graph.node import Node


def evaluate(targets: Sequence[Node]) -> None:
    """Compute `targets` in one program and set their `value`."""
    pending = [node for node in targets if node.value is None]
    if not pending:
        return
    for node, value in zip(pending, evaluate_with_numpy(pending), strict=True):
        node.value = value
