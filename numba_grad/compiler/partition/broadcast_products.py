"""Products of matrices that are written as sums of broadcast products.

    sum(x[:, :, None] * y, axis=1)      x @ y

So many write them, convolutions pixel by pixel as well, and so are their derivatives. As loops they
take 4 to 13 times what BLAS takes.
"""

import math

import numpy as np

from numba_grad.compiler.partition.flat_graph import FlatGraph, FlatGraphWriter
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.ops.movement import Shape

_SUM = OPS["sum"]
# Of smaller products, and of such with a few rows or columns, loops are as fast, and fuse.
_FEWEST_MULTIPLICATIONS = 1 << 13
_FEWEST_ROWS = 8
_FEWEST_TERMS = 8


def with_products_of_matrices(graph: FlatGraph) -> FlatGraph:
    """The graph with these as products of matrices, which a library computes."""
    found: dict[int, _Product] = {}
    sums = [k for k in graph.combining() if graph.nodes[k].op is _SUM]
    if sums:
        readers = np.bincount(graph.edges, minlength=len(graph.nodes))
        for k in sums:
            product = _product_at(graph, k, readers)
            if product is not None:
                found[k] = product
    return _written(graph, found) if found else graph


class _Product:
    """The sum of `x * y` over `axes`.

    The axes of the product are those of rows, which `x` alone has, those of columns, which `y`
    alone has, and summed ones, which both have; or it is not `one` of matrices.
    """

    def __init__(
        self, x: int, y: int, x_shape: Shape, y_shape: Shape, axes: tuple[int, ...]
    ) -> None:
        self.x, self.y = x, y
        rank = max(len(x_shape), len(y_shape))
        x_shape, y_shape = ((*[1] * (rank - len(s)), *s) for s in (x_shape, y_shape))
        self.whole = tuple(map(max, x_shape, y_shape))
        numbers = [k for k, n in enumerate(self.whole) if n != 1]
        self.summed = [k for k in numbers if k in axes]
        self.rows = [k for k in numbers if k not in axes and y_shape[k] == 1]
        self.columns = [k for k in numbers if k not in axes and x_shape[k] == 1]
        has_both = all(x_shape[k] == y_shape[k] for k in self.summed)
        count = len(self.summed) + len(self.rows) + len(self.columns)
        self.is_one = has_both and count == len(numbers)

    def is_large(self) -> bool:
        rows, terms, columns = map(self.size, (self.rows, self.summed, self.columns))
        return (
            min(rows, columns) >= _FEWEST_ROWS
            and terms >= _FEWEST_TERMS
            and rows * terms * columns >= _FEWEST_MULTIPLICATIONS
        )

    def size(self, axes: list[int]) -> int:
        return math.prod([self.whole[k] for k in axes])


def _product_at(graph: FlatGraph, k: int, readers: np.ndarray) -> _Product | None:
    (product,) = graph.reads(k)
    node, total = graph.nodes[product], graph.nodes[k]
    is_read_alone = readers[product] == 1 and product not in graph.outputs
    if node.op.name != "multiply" or not graph.signatures[product] or not is_read_alone:
        return None
    if total.dtype.char not in "fdFD" or node.dtype != total.dtype or not node.type.size:
        return None
    x, y = [_unstretched(graph, factor) for factor in graph.reads(product)]
    types = [graph.nodes[x].type, graph.nodes[y].type]
    if any(type.dtype != node.dtype for type in types):
        return None
    axes = total.params["axes"]
    result = _Product(x, y, types[0].shape, types[1].shape, axes)
    if result.rows > result.columns:
        # So that the result lies in memory as it is read: a transposed factor costs nothing.
        result = _Product(y, x, types[1].shape, types[0].shape, axes)
    if result.whole != node.shape:
        return None  # of what is stretched in both
    return result if result.is_one and result.is_large() else None


def _unstretched(graph: FlatGraph, k: int) -> int:
    while graph.nodes[k].op.name == "broadcast_to" and graph.signatures[k]:
        (k,) = graph.reads(k)
    return k


def _written(graph: FlatGraph, found: dict[int, _Product]) -> FlatGraph:
    writer = FlatGraphWriter(graph.table)
    unread = {graph.reads(k)[0] for k in found}
    places: list[int] = []
    for k, node in enumerate(graph.nodes):
        if k in found:
            places.append(_append(writer, found[k], places, node))
        elif k in unread:
            places.append(-1)
        else:
            reads = [places[x] for x in graph.reads(k)]
            signature = int(graph.signatures[k])
            places.append(writer.append(node, reads, signature, graph.calls.get(k)))
    return writer.graph([places[k] for k in graph.inputs], [places[k] for k in graph.outputs])


def _append(writer: FlatGraphWriter, product: _Product, places: list[int], total: Node) -> int:
    def put(name: str, reads: list[int], **params: object) -> int:
        given = tuple([argument(writer.nodes[x].type) for x in reads])
        return writer.append(record(OPS[name], given, params), reads)

    def reshaped(x: int, *shape: int) -> int:
        return x if writer.nodes[x].shape == shape else put("reshape", [x], shape=shape)

    def in_order(x: int, now: list[int], wanted: list[int]) -> int:
        """With axes, which are these of the product now, in another order."""
        x = reshaped(x, *[product.whole[k] for k in now])
        axes = tuple([now.index(k) for k in wanted])
        return x if axes == tuple(range(len(axes))) else put("transpose", [x], axes=axes)

    rows, summed, columns = product.rows, product.summed, product.columns
    m, k, n = map(product.size, (rows, summed, columns))
    x = in_order(places[product.x], sorted([*rows, *summed]), [*rows, *summed])
    y = in_order(places[product.y], sorted([*summed, *columns]), [*summed, *columns])
    result = put("matmul", [reshaped(x, m, k), reshaped(y, k, n)])
    result = in_order(result, [*rows, *columns], sorted([*rows, *columns]))
    return reshaped(result, *total.shape)
