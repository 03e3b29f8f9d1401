"""What operations of linear algebra share: stacks of matrices, and how much is computed."""

import math
from collections.abc import Callable

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall
from numba_grad.compiler.library_kernels.registry import LibraryKernel, Translated, lowers
from numba_grad.graph.node import Node


def number_of_matrices(x: Node) -> int:
    return math.prod(x.shape[:-2])


def of_matrix(
    count: Callable[[int, int, int], int], *, for_each_right_side: int = 0
) -> Callable[[Node], int]:
    """Additions and multiplications for one matrix of m rows and n columns, k the smaller number:
    roughly, as in Golub and Van Loan, Matrix computations (2013); and those for each right side,
    in multiples of m n."""

    def operations(node: Node) -> int:
        m, n = node.inputs[0].shape[-2:]
        matrices = math.prod(np.broadcast_shapes(*[x.shape[:-2] for x in node.inputs[:2]]))
        total = count(m, n, min(m, n))
        if for_each_right_side:
            total += for_each_right_side * m * n * node.shape[-1]
        return matrices * total * (4 if node.inputs[0].dtype.kind == "c" else 1)

    return operations


def lowers_square_matrices(
    name: str,
    *,
    by: LibraryKernel,
    operations: Callable[[int, int, int], int],
    on_gpus: Translated | None = None,
) -> None:
    """An operation whose kernel takes dtype, rows and the number of matrices."""

    @lowers(name, by=by, operations=of_matrix(operations), on_gpus=on_gpus)
    def call_of(kernel: LibraryKernel, node: Node) -> LibraryCall:
        a = node.inputs[0]
        return kernel(a.dtype, a.shape[-1], number_of_matrices(a), **node.params)


def of_system(kernel: LibraryKernel, node: Node) -> LibraryCall:
    """Of a matrix, the first input, and right sides, the last; stacks broadcast."""
    a, *_, b = node.inputs
    return kernel(node.dtype, a.shape[-1], b.shape[-1], a.shape[:-2], b.shape[:-2], **node.params)
