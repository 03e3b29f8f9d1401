"""What the kernels of products read: matrices in memory, seen through what costs nothing."""

from numba_grad.graph.node import Node
from numba_grad.immutable import immutable


@immutable
class ReadOperand:
    """What a library call reads instead of a node: the memory of `base`, seen as `shape`, maybe
    transposed."""

    base: Node
    shape: tuple[int, ...]
    is_transposed: bool


def operand(x: Node) -> ReadOperand:
    """Look through a swap of the last two axes, then through reshapes: both cost nothing."""
    is_transposed = is_matrix_transpose(x)
    if is_transposed:
        x = x.inputs[0]
    shape = x.shape
    while x.op.name == "reshape":
        x = x.inputs[0]
    return ReadOperand(x, shape, is_transposed)


def is_matrix_transpose(node: Node) -> bool:
    """Whether `node` swaps the last two axes and nothing else."""
    if node.op.name != "transpose":
        return False
    rank = len(node.shape)
    return node.params["axes"] == (*range(rank - 2), rank - 1, rank - 2)


def memory_operands(node: Node) -> list[Node]:
    """The nodes that must be in memory before `node`."""
    match node.op.name:
        case "matmul":
            return [operand(x).base for x in node.inputs]
        case "matmul_add":
            addend, *factors = node.inputs
            return [addend, *[operand(x).base for x in factors]]
    return list(node.inputs)


def extents_of_product(x: Node, y: Node) -> tuple[int, int, int]:
    """Rows, columns, and the length of the sums."""
    return x.shape[-2], y.shape[-1], x.shape[-1]
