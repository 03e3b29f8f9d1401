"""Products of a large matrix and a vector become sums, in loops like any other.

    a @ x    ->    np.sum(a * x, axis=1)             x @ a    ->    np.sum(x[:, None] * a, axis=0)

Such a product reads each element once, so memory is its limit, and a library's product of matrices
falls short of that: for 1,000,000 x 50 and its transpose 100 ms, where the loops take 35. And what
makes the matrix or the vector, and what is made of the result, is computed in the same loops.
"""

from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import substitute
from numba_grad.ops.families import broadcast_to, reshape

# Elements of the matrix: smaller ones stay in the caches, where the library is faster.
LEAST_ELEMENTS = 1 << 20


def vector_products(outputs: list[Node]) -> list[Node]:
    """`outputs` with such products as sums."""
    return substitute(outputs, {}, lambda node: _as_sum(node) if _is_vector_product(node) else None)


def _is_vector_product(node: Node) -> bool:
    if node.op.name != "matmul" or node.dtype.name not in ("float32", "float64"):
        return False
    x, y = node.inputs
    if len(x.shape) != 2 or len(y.shape) != 2 or 1 not in node.shape:
        return False
    return max(x.type.size, y.type.size) >= LEAST_ELEMENTS


def _as_sum(node: Node) -> Node:
    x, y = node.inputs
    k = x.shape[1]
    if node.shape[1] == 1:
        along = broadcast_to(reshape(y, (1, k)), x.shape)
        products, axis = record(OPS["multiply"], (x, along)), 1
    else:
        along = broadcast_to(reshape(x, (k, 1)), y.shape)
        products, axis = record(OPS["multiply"], (along, y)), 0
    return reshape(record(OPS["sum"], (products,), {"axes": (axis,)}), node.shape)
