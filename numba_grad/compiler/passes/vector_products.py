"""Products of a large matrix and a vector become sums, in loops like any other.

    a @ x    ->    np.sum(a * x, axis=1)             x @ a    ->    np.sum(x[:, None] * a, axis=0)

Such a product reads each element once, so memory is its limit, and a library's product of matrices
falls short of that: for 1,000,000 x 50 and its transpose 100 ms, where the loops take 35. And what
makes the matrix or the vector, and what is made of the result, is computed in the same loops. So do
those of a matrix that is computed for them, `np.exp(-distances) @ weights`, which need not be
stored then, and outer products of which something is computed, as the gradient of that.
"""

from collections.abc import Mapping, Sequence

from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import rebuilt, toposort, users
from numba_grad.ops.families import broadcast_to, reshape

# Elements of the matrix: smaller ones stay in the caches, where the library is faster.
LEAST_ELEMENTS = 1 << 20
LEAST_COMPUTED = 1 << 8  # of one that is computed

_Users = Mapping[Node, Sequence[Node]]


def vector_products(outputs: list[Node]) -> list[Node]:
    """`outputs` with such products as sums."""
    order = toposort(outputs)
    users_of = users(order)
    sums = {node for node in order if _is_vector_product(node, users_of)}
    outer = {node for node in order if _is_outer_product(node, users_of)}
    if not sums and not outer:
        return outputs
    done: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([done[x] for x in node.inputs])
        if node in sums:
            done[node] = _as_sum(*inputs)
        elif node in outer:
            done[node] = record(OPS["multiply"], inputs)
        else:
            done[node] = node if inputs == node.inputs else rebuilt(node, inputs, done)
    return [done[node] for node in outputs]


def _is_product(node: Node) -> bool:
    if node.op.name != "matmul" or node.dtype.name not in ("float32", "float64"):
        return False
    return all(len(x.shape) == 2 for x in node.inputs)


def _is_vector_product(node: Node, users_of: _Users) -> bool:
    if not _is_product(node) or 1 not in node.shape:
        return False
    matrix = max(node.inputs, key=lambda x: x.type.size)
    if matrix.type.size >= LEAST_ELEMENTS:
        return True
    return matrix.type.size >= LEAST_COMPUTED and _is_computed_for_vectors(matrix, users_of)


def _is_computed_for_vectors(x: Node, users_of: _Users) -> bool:
    """Whether it is computed of smaller arrays, in loops, and all products that read it are with
    vectors."""
    while x.op.name == "transpose":
        (x,) = x.inputs
    is_computed = x.op.family == "elementwise" or x.op.name == "concatenate"  # of columns
    if not is_computed or 1 in x.shape or not _is_made_of_smaller(x):
        return False
    readers = [*users_of[x]]
    for reader in readers:  # which grows
        if reader.op.name == "transpose":
            readers += users_of[reader]
    others = [y for y in readers if y.op.family not in ("elementwise", "reduction", "movement")]
    return all(_is_product(reader) and 1 in reader.shape for reader in others)


def _is_made_of_smaller(x: Node) -> bool:
    """Whether it is made of arrays that take less memory, as all pairs of some points."""
    made = [x]
    seen = {x}
    for node in made:  # which grows
        if node.op.family in ("elementwise", "movement", "reduction"):
            made += [y for y in dict.fromkeys(node.inputs) if y not in seen]
            seen.update(node.inputs)
        elif node.type.size >= x.type.size:
            return False
    return True


def _is_outer_product(node: Node, users_of: _Users) -> bool:
    """Whether it is one of two vectors, and read by what computes something of it. The library adds
    others to a sum."""
    if not _is_product(node) or node.inputs[0].shape[1] != 1 or 1 in node.shape:
        return False
    readers = [*users_of[node]]
    for reader in readers:  # which grows
        if reader.op.name in ("slice", "reshape"):
            readers += users_of[reader]
    readers = [x for x in readers if x.op.name not in ("slice", "reshape")]
    return bool(readers) and all(
        reader.op.family == "elementwise" and reader.op.name != "add" for reader in readers
    )


def _as_sum(x: Node, y: Node) -> Node:
    k = x.shape[1]
    shape = (x.shape[0], y.shape[1])
    if y.shape[1] == 1:
        along = broadcast_to(reshape(y, (1, k)), x.shape)
        products, axis = record(OPS["multiply"], (x, along)), 1
    else:
        along = broadcast_to(reshape(x, (k, 1)), y.shape)
        products, axis = record(OPS["multiply"], (along, y)), 0
    return reshape(record(OPS["sum"], (products,), {"axes": (axis,)}), shape)
