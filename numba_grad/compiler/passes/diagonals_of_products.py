"""The diagonal of a product of matrices, without the product.

    np.trace(a @ b), np.diag(a @ b)      ->      np.sum(a * b.T, axis=1)
    diagonal matrix @ b                  ->      diagonal[:, None] * b

Of all elements of the product the diagonal needs as many as the matrix has rows; its derivative is
a product with a diagonal matrix. Diagonals are read and written by index arrays that are known.
"""

from collections.abc import Mapping

import numpy as np

from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import substitute
from numba_grad.ops.families import axes_params, reshape
from numba_grad.ops.movement import slice_params

_MATMUL, _TRANSPOSE, _GATHER = OPS["matmul"], OPS["transpose"], OPS["gather"]


def diagonals_of_products(outputs: list[Node], constants: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs`, in which no product is computed for its diagonal.

    Parameters
    ----------
    outputs : of a graph whose derivatives are taken
    constants : leaves whose values are the same in all runs
    """

    def change(node: Node) -> Node | None:
        if (node.op is not _GATHER and node.op is not _MATMUL) or node.dtype.char not in "fdFD":
            return None
        if node.op is _GATHER:
            return _diagonal_of_product(node, constants)
        return _product_with_diagonal(node, constants)

    found = substitute(outputs, {}, change)
    return outputs if all(x is y for x, y in zip(found, outputs, strict=True)) else found


def _diagonal_of_product(node: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    product, *indices = node.inputs
    if product.op is not _MATMUL or not _are_diagonal(product, indices, constants):
        return None
    if node.params["checked"] or any(len(x.shape) != 2 for x in product.inputs):
        return None
    count = len(constants[indices[0]])
    a, b = product.inputs
    rows = [_first_rows(x, count) for x in (a, _transposed(b))]
    return record(OPS["sum"], (OPS["multiply"](*rows),), axes_params((1,)))


def _product_with_diagonal(node: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    a, b = node.inputs
    if len(a.shape) != 2 or len(b.shape) != 2:
        return None
    left, right = (_diagonal(x, constants) for x in (a, b))
    if left is not None:
        return OPS["multiply"](reshape(left, (a.shape[0], 1)), b)
    return None if right is None else OPS["multiply"](a, right)


def _diagonal(x: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    """What is on the diagonal of a square matrix that is 0 elsewhere."""
    if x.op is _TRANSPOSE:
        [x] = x.inputs
    if x.op is not OPS["scatter_add"] or x.shape[0] != x.shape[1]:
        return None
    before, values, *indices = x.inputs
    is_whole = values.shape == x.shape[:1] and _are_diagonal(x, indices, constants)
    return values if is_whole and is_zero(before) else None


def _are_diagonal(x: Node, indices: list[Node], constants: Mapping[Node, np.ndarray]) -> bool:
    """Whether index arrays name the diagonal of a matrix, each element once, in order."""
    if len(x.shape) != 2 or len(indices) != 2 or not all(k in constants for k in indices):
        return False
    numbers = np.arange(min(x.shape))
    return all(np.array_equal(constants[k], numbers) for k in indices)


def is_zero(x: Node) -> bool:
    """Whether it is a literal 0, or an array of it."""
    if x.op is not OPS["broadcast_to"] or x.inputs[0].op is not OPS["literal"]:
        return False
    number = x.inputs[0]
    return not np.frombuffer(number.params["bytes"], number.dtype)[0]


def _transposed(x: Node) -> Node:
    return x.inputs[0] if x.op is _TRANSPOSE else _TRANSPOSE(x, axes=(1, 0))


def _first_rows(x: Node, count: int) -> Node:
    if x.shape[0] == count:
        return x
    return record(OPS["slice"], (x,), slice_params((0, 0), (count, x.shape[1]), (1, 1)))
