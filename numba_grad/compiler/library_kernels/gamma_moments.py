"""The integrals that derivatives of gamma distributions are made of, by quadrature."""

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, call_of_elements
from numba_grad.compiler.library_kernels.registry import BY_TASK, LibraryKernel, lowers
from numba_grad.graph.node import Node

__all__ = ["gamma_moment_call"]


def gamma_moment_call(dtype: np.dtype, size: int, order: int) -> LibraryCall:
    """`ops.random.gamma_moment`. Inputs: x, a; one output, of `size`."""
    return call_of_elements(_moment_source(dtype, order), 2, size, cost=1024)


# The double exponential rule on the half line (Takahasi and Mori, 1974): v = s exp(t - exp(-t)),
# t in equal steps. It gives all digits of integrands that fall like exp(-v / s).
NODES = 64
FIRST_NODE, NODE_STEP = -3.7, 0.125


def _moment_source(dtype: np.dtype, order: int) -> str:
    """Words: x, a, out. Above x in terms of y = exp(w) - 1, which falls more slowly."""
    factors = " * w" * order
    return f"""\
def kernel(args, lo, hi):
    points = buffer(args, 0, {dtype.name})
    shapes = buffer(args, 1, {dtype.name})
    out = buffer(args, 2, {dtype.name})
    nodes = local({NODES}, float64)
    weights = local({NODES}, float64)
    for k in range({NODES}):
        t = {FIRST_NODE!r} + {NODE_STEP!r} * float64(k)
        nodes[k] = exp(t - exp(-t))
        weights[k] = {NODE_STEP!r} * nodes[k] * (1.0 + exp(-t))
    for i in range(lo, hi):
        x = float64(points[i])
        a = float64(shapes[i])
        width = 1.0 / (absolute(x - a) + sqrt(x))
        total = 0.0
        if x > a:
            for k in range({NODES}):
                y = width * nodes[k]
                w = log1p(y)
                term = weights[k] * exp((a - 1.0) * w - x * y)
                total = reduce_add(total, term{factors})
        else:
            width = -width
            for k in range({NODES}):
                w = width * nodes[k]
                term = weights[k] * exp(a * w - x * expm1(w))
                total = reduce_add(total, term{factors})
        out[i] = {dtype.name}(x * width * total)
"""


@lowers("gamma_moment", by=gamma_moment_call, on_gpus=BY_TASK)
def _gamma_moment(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return kernel(node.dtype, node.type.size, node.params["order"])
