"""Sums of few products, written out before a graph is cut into steps: products of tiny matrices, of
a matrix of few columns and a vector, of stacks of small matrices and vectors, of stacks of tiny
matrices, of points with few coordinates or over all of them, and sliding sums with few weights.

    a @ x, with a of shape (2, 2)    ->    a[:, 0] * x[0] + a[:, 1] * x[1]
    np.convolve(u, w, "valid")       ->    w[0] * u[2:] + w[1] * u[1:-1] + w[2] * u[:-2]

A library call reads its operands from memory and leaves its result there, so each is a step of its
own, and nothing is fused across it: Runge-Kutta steps of two numbers by `a @ x` took 9 times what
they take with the sums written out, and a stencil by `np.convolve` 1.5 times.
"""

import functools
import math
from collections.abc import Collection, Mapping, Sequence

from numba_grad.compiler.loop_nests.iteration_spaces import COMPUTING, unrolling_for
from numba_grad.compiler.partition.flat_graph import FlatGraph, FlatGraphWriter
from numba_grad.compiler.partition.segments import LONGEST_WHOLE
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.walk import toposort
from numba_grad.ops.families import axes_params, broadcast_to, full, reshape
from numba_grad.ops.movement import slice_params

MOST_TERMS = 8  # axes of so many elements are unrolled
# Of a tiny matrix and a vector, or of two vectors. Of up to 16, and of matrices, loops of few steps
# take 0.6 to 0.85 of the time warm, but have two to five times the lines, and first gradients take
# 1.2 to 1.5 of the time: recurrent networks of four cells, Kalman filters of two numbers.
MOST_PRODUCTS = 8
FEWEST_OF_LOOP = 64  # sums in a loop over a vector
MOST_COORDINATES = 3  # of points, of which many are multiplied
# With fewer numbers for each point than are a loop, so many products for each.
FEWEST_SUMS_OF_LOOP = 17
MOST_SUMS_OF_TEXT = 32
# Of a matrix and a vector in a stack. Larger ones BLAS multiplies in less time than loops, even if
# it is called for each: stacks of 40 x 40 would take 1.3 times as long, of 256 x 256 six times.
MOST_OF_STACK = 1 << 10
# Of matrices in a stack that are multiplied with each other. Strains, rotations, chains of joints
# take 0.1 to 0.8 of the library's time; with four rows, up to 4 times as much.
MOST_ROWS_IN_STACK = 3


def with_sums_written_out(graph: FlatGraph) -> FlatGraph:
    """The graph with such operations as elementwise ones and sums."""
    chosen = [k for k in graph.combining() if graph.nodes[k].op.name in _CHOICES]
    if not chosen:
        return graph
    forms: dict[object, tuple[list[Node], Node] | None] = {}
    found: dict[int, tuple[list[Node], Node]] = {}
    is_cut_anyway = False  # by products that stay
    for k in chosen:
        node, types = graph.nodes[k], [graph.nodes[x].type for x in graph.reads(k)]
        key = (int(graph.signatures[k]), *types)
        if key not in forms:
            given_here = [argument(type) for type in types]
            result = _CHOICES[node.op.name](*given_here, **node.params)
            forms[key] = None if result is None else (given_here, result)
        form = forms[key]
        if form is not None:
            found[k] = form
        elif node.op.name == "matmul":
            is_cut_anyway = True
    given = {*graph.inputs}  # of which some were computed before, by any operation
    additions = [k for k, x in enumerate(graph.nodes) if x.op.name == "add" and k not in given]
    for k in _added_to_products(graph, additions, {*chosen}.difference(found), found):
        del found[k]
    for k in _too_many_for_text(graph, given, found):
        del found[k]
    found.update(_products_of_gathered(graph, chosen))
    found.update(_derivatives_of_points(graph, chosen, found))
    if is_cut_anyway:
        # A Kalman filter of two numbers took twice as long to its first gradient, and as long warm.
        found = {k: form for k, form in found.items() if not _is_tiny_product(graph.nodes[k])}
    return _written_out(graph, found) if found else graph


def _added_to_products(
    graph: FlatGraph, additions: Sequence[int], staying: Collection[int], found: Collection[int]
) -> set[int]:
    """Products of points that are added to a product that stays: the library does that."""
    result: set[int] = set()
    for k in additions:
        x, y = graph.reads(k)
        result |= {z for z, other in ((x, y), (y, x)) if other in staying and z in found}
    return {k for k in result if _is_product_of_points(graph, k)}


def _too_many_for_text(
    graph: FlatGraph, given: Collection[int], found: Mapping[int, tuple[list[Node], Node]]
) -> list[int]:
    """Products of stacks of small matrices, if the graph is one segment that cannot afford all
    their terms: in loops of three passes they take up to twice the library's time."""
    stacks = [k for k in found if _is_product_of_matrices(graph, k)]
    if not stacks or len(graph.nodes) > LONGEST_WHOLE:
        return []
    nodes: list[Node] = []
    for k, node in enumerate(graph.nodes):
        if k not in given:
            nodes += toposort([found[k][1]]) if k in found else [node]
    costs = [(x.shape, x.op.cost) for x in nodes if x.op.family in COMPUTING]
    return stacks if unrolling_for(costs).copies < MOST_ROWS_IN_STACK**3 else []


def _is_product_of_matrices(graph: FlatGraph, k: int) -> bool:
    """Whether this is a product of stacks of which neither is of vectors."""
    node = graph.nodes[k]
    if node.op.name != "matmul" or len(node.shape) == 2:
        return False
    return 1 not in (*node.shape[-2:], graph.nodes[graph.reads(k)[0]].shape[-1])


def _derivatives_of_points(
    graph: FlatGraph, chosen: Sequence[int], found: Collection[int]
) -> dict[int, tuple[list[Node], Node]]:
    """Products of a cotangent with coordinates of points, whose products are written out: they read
    it where it is computed."""

    def factors(k: int) -> list[int]:
        return [_turned(graph, x) for x in graph.reads(k)]

    points = [k for k in found if _is_product_of_points(graph, k)]
    coordinates = {x for k in points for x in factors(k)}
    result = {}
    for k in chosen if coordinates else ():
        node = graph.nodes[k]
        is_small = len(node.shape) == 2 and min(node.shape) <= MOST_COORDINATES
        is_small = is_small and not FEWEST_SUMS_OF_LOOP > max(node.shape) > MOST_TERMS
        if k not in found and is_small and not coordinates.isdisjoint(factors(k)):
            given = [argument(graph.nodes[x].type) for x in graph.reads(k)]
            result[k] = given, _sum_of_products(*given)
    return result


def _products_of_gathered(
    graph: FlatGraph, chosen: Sequence[int]
) -> dict[int, tuple[list[Node], Node]]:
    """Products of rows that are gathered for them alone, as the nodes of finite elements are: they
    gather what they multiply, which is stored for a library."""
    found = {}
    of_gathered: dict[int, list[int]] = {}
    for k in chosen:
        node, reads = graph.nodes[k], list(graph.reads(k))
        gathered = [
            x for x in map(functools.partial(_turned, graph), reads) if _is_gather(graph, x)
        ]
        if len(gathered) == 1 and len(node.shape) == 2 and node.dtype.char in "fd":
            m, n = sorted(node.shape)
            inner = graph.nodes[reads[0]].shape[-1]
            if 1 < inner <= MOST_TERMS >= m > 1 and n >= FEWEST_OF_LOOP:
                found[k] = [argument(graph.nodes[x].type) for x in reads]
                of_gathered.setdefault(gathered[0], []).append(k)
    if found:
        for k in range(len(graph.nodes)):
            for x in graph.reads(k):
                below = _turned(graph, x)
                if below in of_gathered and k not in found and _turned(graph, k) == k:
                    for product in of_gathered.pop(below):
                        del found[product]
    return {k: (given, _sum_of_products(*given)) for k, given in found.items()}


def _is_gather(graph: FlatGraph, k: int) -> bool:
    return graph.nodes[k].op.name == "gather" and len(graph.reads(k)) > 0


def _turned(graph: FlatGraph, k: int) -> int:
    """What `k` is a transpose of, conjugate or not, or `k`."""
    while graph.nodes[k].op.name in ("transpose", "conjugate"):
        reads = graph.reads(k)
        if not len(reads):  # computed before
            return k
        [k] = reads
    return k


def _is_product_of_points(graph: FlatGraph, k: int) -> bool:
    node = graph.nodes[k]
    if node.op.name != "matmul" or len(node.shape) != 2:
        return False
    (m, n), inner = node.shape, graph.nodes[graph.reads(k)[0]].shape[-1]
    return min(m, n) > 1 and _are_points(m, inner, n)


def _are_points(m: int, k: int, n: int) -> bool:
    """Whether a product of m x k and k x n numbers is one of many points with k coordinates. One
    that has a few numbers for each is a few sums in the text."""
    if not 1 < k <= MOST_COORDINATES or max(m, n) < FEWEST_OF_LOOP:
        return False
    return not FEWEST_SUMS_OF_LOOP > min(m, n) > MOST_SUMS_OF_TEXT // k


def _is_sum_over_points(m: int, k: int, n: int) -> bool:
    """Whether a product of m x k and k x n numbers adds up many points, as forces (weights times
    distances) and covariances do: in a loop that computes what is added."""
    return max(m, n) <= MOST_COORDINATES and k >= FEWEST_OF_LOOP


def _written_out(graph: FlatGraph, forms: dict[int, tuple[list[Node], Node]]) -> FlatGraph:
    writer = FlatGraphWriter(graph.table)
    place: list[int] = []  # of each node of `graph`
    orders: dict[Node, list[Node]] = {}
    for k, node in enumerate(graph.nodes):
        reads = [place[x] for x in graph.reads(k)]
        if k not in forms:
            place.append(writer.append(node, reads, int(graph.signatures[k]), graph.calls.get(k)))
            continue
        arguments, result = forms[k]
        inside = dict(zip(arguments, reads, strict=True))
        if result not in orders:
            orders[result] = [x for x in toposort([result]) if x not in inside]
        for x in orders[result]:
            inside[x] = writer.append(x, [inside[y] for y in x.inputs])
        place.append(inside[result])
    return writer.graph([place[k] for k in graph.inputs], [place[k] for k in graph.outputs])


def _is_tiny_product(node: Node) -> bool:
    return node.op.name == "matmul" and node.type.size <= MOST_PRODUCTS


def _product(x: Node, y: Node) -> Node | None:
    """The product of two matrices as a sum over a last axis."""
    if x.dtype.char not in "fdFD" or x.type.device != y.type.device:  # one is still to be moved
        return None
    if len(x.shape) > 2 and len(x.shape) == len(y.shape):
        return _product_of_stacks(x, y)
    if len(x.shape) != 2 or len(y.shape) != 2:
        return None
    (m, k), n = x.shape, y.shape[1]
    # Of fewer elements the sums would be written out, each on its own.
    is_thin = max(m, n) >= FEWEST_OF_LOOP and min(m, n) <= (MOST_TERMS if k == 1 else 1)
    is_tiny = m * k * n <= MOST_PRODUCTS and (k == 1 or min(m, n) == 1)
    is_of_points = _are_points(m, k, n)
    is_short = 1 <= k <= MOST_TERMS and (is_tiny or is_thin or is_of_points)
    return _sum_of_products(x, y) if m * n and (is_short or _is_sum_over_points(m, k, n)) else None


def _sum_of_products(x: Node, y: Node) -> Node:
    (m, k), n = x.shape, y.shape[1]
    shape = (m, n, k)
    rows = broadcast_to(reshape(x, (m, 1, k)), shape)
    columns = broadcast_to(reshape(OPS["transpose"](y, axes=(1, 0)), (1, n, k)), shape)
    return record(OPS["sum"], (OPS["multiply"](rows, columns),), axes_params((2,)))


def _product_of_stacks(x: Node, y: Node) -> Node | None:
    """Of small matrices and vectors, for each of which a call takes longer; of vectors, of which
    each element is one product; or of matrices of two or three rows."""
    m, k, n = *x.shape[-2:], y.shape[-1]
    if not m * k * n or (1 not in (m, k, n) and max(m, k, n) > MOST_ROWS_IN_STACK):
        return None
    if k == 1:
        return OPS["multiply"](x, y)
    if m * k * n > MOST_OF_STACK:
        return None
    rows = reshape(x, (*x.shape[:-1], 1, k))
    last = len(y.shape) - 1
    turned = OPS["transpose"](y, axes=(*range(last - 1), last, last - 1))
    columns = reshape(turned, (*y.shape[:-2], 1, n, k))
    return record(OPS["sum"], (OPS["multiply"](rows, columns),), axes_params((last + 1,)))


def _sliding_sum(x: Node, y: Node, *, offset: int, size: int) -> Node | None:
    """A correlation with few weights, or at few places, as a sum of products of slices."""
    weights = y.shape[-1]
    if x.dtype.char not in "fdFD" or not math.prod(x.shape) or not size:
        return None
    if 1 <= weights <= MOST_TERMS:
        return _few_weights(x, y, offset, size)
    if size <= MOST_TERMS:
        return _few_places(x, y, offset, size)
    return None


def _few_weights(x: Node, y: Node, offset: int, size: int) -> Node | None:
    total: Node | None = None
    for j in range(y.shape[-1]):
        # Beyond the ends nothing is added.
        first = max(0, -offset - j)
        end = min(size, x.shape[-1] - offset - j)
        if first >= end:
            continue
        part = _part(x, first + offset + j, end - first)
        term = OPS["multiply"](part, broadcast_to(_part(y, j, 1), part.shape))
        if end - first < size:
            before = (0,) * (len(x.shape) - 1)
            term = OPS["pad"](
                term, low=(*before, first), high=(*before, size - end), interior=(*before, 0)
            )
        total = term if total is None else OPS["add"](total, term)
    return total


def _few_places(x: Node, y: Node, offset: int, size: int) -> Node | None:
    sums = []
    last = len(x.shape) - 1
    for i in range(size):
        first = max(0, -offset - i)
        end = min(y.shape[-1], x.shape[-1] - offset - i)
        if first >= end:
            sums.append(full(0, (*x.shape[:-1], 1), x.dtype))
            continue
        count = end - first
        products = OPS["multiply"](_part(x, first + offset + i, count), _part(y, first, count))
        total = record(OPS["sum"], (products,), axes_params((last,)))
        sums.append(reshape(total, (*x.shape[:-1], 1)))
    return sums[0] if size == 1 else OPS["concatenate"](*sums, axis=last)


def _part(x: Node, first: int, count: int) -> Node:
    before = len(x.shape) - 1
    region = slice_params((0,) * before + (first,), (*x.shape[:-1], count), (1,) * (before + 1))
    return record(OPS["slice"], (x,), region)


_CHOICES = {"matmul": _product, "correlate": _sliding_sum}
