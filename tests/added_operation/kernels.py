"""The kernel of `mirrored`."""

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, LibraryStep, Memory, grain_for
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import Tasks

__all__ = ["mirrored_call"]

SOURCE = """\
def kernel(args, lo, hi):
    x = buffer(args, 0, {dtype})
    out = buffer(args, 1, {dtype})
    n = integer(args, 2)
    for row in range(lo, hi):
        for i in range(n):
            out[row * n + i] = x[row * n + n - 1 - i]
"""


def mirrored_call(dtype: np.dtype, rows: int, n: int) -> LibraryCall:
    words = (Memory("input"), Memory("output"), n)
    source = SOURCE.format(dtype=dtype.name)
    return LibraryCall((LibraryStep(source, words, Tasks(rows, grain_for(n, 1 << 15))),))


@lowers("mirrored", by=mirrored_call)
def _mirrored(kernel: LibraryKernel, node: Node) -> LibraryCall:
    n = node.shape[-1]
    return kernel(node.dtype, node.type.size // max(n, 1), n)
