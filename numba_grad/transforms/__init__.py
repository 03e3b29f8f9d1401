"""Graph to graph, with a mathematical meaning. Start with `vjp.py`."""

from numba_grad.graph.node import OPS

OPS.seldom |= {
    "branch": "numba_grad.transforms.branches",
    "loop": "numba_grad.transforms.loops",
    "loop_adjoint": "numba_grad.transforms.loop_adjoints",
    "while": "numba_grad.transforms.while_loops",
}
