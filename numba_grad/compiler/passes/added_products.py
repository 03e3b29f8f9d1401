"""Products of matrices that are added to a sum, by BLAS itself: what a loop over time does for the
gradients of its weights.

    total = add(total, matmul(x, g))    ->    total = matmul_add(total, x, g), in place

Otherwise the product goes to memory, and a kernel reads both and writes the sum. Gradients of LSTMs
took a quarter longer that way.
"""

from collections import Counter
from collections.abc import Collection

from numba_grad.compiler.library_kernels import adds_by_itself
from numba_grad.compiler.library_kernels.operands import extents_of_product
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.walk import rebuilt, toposort


def added_products(outputs: list[Node], writable: Collection[Node]) -> list[Node]:
    """`outputs` with such sums as `matmul_add`: where the product has no other use, and the sum so
    far is one that may be written over, or such a product itself."""
    order = toposort(outputs)
    uses = Counter(x for node in order for x in node.inputs)
    uses.update(outputs)

    def is_product(node: Node) -> bool:
        return (
            node.op.name == "matmul"
            and uses[node] == 1
            and adds_by_itself(node.dtype, *extents_of_product(*node.inputs))
        )

    sums = {node for node in order if is_product(node)}
    found: dict[Node, tuple[Node, Node]] = {}  # the addend, the product
    for node in order:
        if node.op.name != "add":
            continue
        for addend, product in (node.inputs, node.inputs[::-1]):
            is_sum = addend in sums or addend in writable
            if is_sum and is_product(product) and addend.type == product.type:
                found[node] = addend, product
                if uses[node] == 1:
                    sums.add(node)
                break

    if not found:
        return outputs
    new: dict[Node, Node] = {}
    for node in order:
        if node in found:
            addend, product = found[node]
            inputs = (new[addend], *[new[x] for x in product.inputs])
            new[node] = record(OPS["matmul_add"], inputs)
        elif any(new[x] is not x for x in node.inputs):
            new[node] = rebuilt(node, tuple([new[x] for x in node.inputs]), {})
        else:
            new[node] = node
    return [new[node] for node in outputs]
