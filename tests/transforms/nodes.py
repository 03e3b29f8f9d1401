"""Nodes for tests of transforms, and their values."""

import numpy as np

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.graph.node import OPS, Node, leaf


def variable(*values: float) -> Node:
    return leaf(np.array(values), requires_grad=True)


def constant(*values: float) -> Node:
    return leaf(np.array(values))


def value(node: Node) -> np.ndarray:
    return evaluate_with_numpy([node])[0]


def item(node: Node, number: int) -> Node:
    return OPS["item"](node, number=number)
