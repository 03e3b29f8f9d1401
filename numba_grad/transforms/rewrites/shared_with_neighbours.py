"""What each cell of a grid computes of itself and the next one, and the next one computes again.

    south = k[1:-1] * (p[2:] - u)                  what comes in on one side,
    north = k[:-2] * (p[:-2] - u)                  and on the other one: -south of that neighbour
    north = concatenate(k[:1] * (p[:1] - u[:1]), -south[:-1])       is computed once, but for a rim

So sides of cells cost what fluxes between cells do: a product whose factors have gradients is there
once, and so are its cotangents, which are arrays that each step of a loop adds to.

Two values are compared by what they are made of, one place apart: the same operations of the same
elements, operands of sums and products in either order. Signs are moved outwards, which changes
nothing but the sign of a zero; what may have another one is only read by sums.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence

from numba_grad.dtypes import is_floating
from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.graph.survey import are_free
from numba_grad.graph.walk import is_nobodys
from numba_grad.immutable import NamedTuple
from numba_grad.ops.movement import Shape, slice_params
from numba_grad.transforms.loop_sizes import LARGEST_VALUE
from numba_grad.transforms.rewrites.replaced_nodes import with_replaced

_ADD, _SUBTRACT = OPS["add"], OPS["subtract"]
_MULTIPLY, _DIVIDE = OPS["multiply"], OPS["divide"]
_SLICE, _CONCATENATE, _IDENTITY = OPS["slice"], OPS["concatenate"], OPS["identity"]
_EITHER_WAY_ROUND = (_ADD, _SUBTRACT, _MULTIPLY)  # but for the sign
_SUMS, _PRODUCTS = (_ADD, _SUBTRACT), (_MULTIPLY, _DIVIDE)
_READ_THROUGH = (_SLICE, _CONCATENATE, _IDENTITY)
_REARRANGED = (_SLICE, _IDENTITY, OPS["reshape"])  # a row that is joined to others was reshaped
# How a value is related to another one; 0 where it is not.
_SAME, _ALIKE, _OPPOSITE = 1, 2, -1  # alike: but for the sign of a zero, as opposites are
_MOST_COMPARED = 3  # values that look alike: of four sides, the three before one
_MOST_LOOKS = 200  # at pairs of nodes, to compare two values
_MOST_IN_VAIN = 200  # values that are none of a neighbour, until one is: steps of a loop are alike
# For a rim: of operations and their operands, as there are serial numbers for what is recorded.
_MOST_RECORDED = 12


class _Shared(NamedTuple):
    """A value that is that of a neighbour, but for its rim."""

    source: Node
    axis: int
    step: int  # 1: it is `source[1:]` but for its last element; -1: `source[:-1]`
    is_opposite: bool  # or minus that


def with_shared_with_neighbours(order: Sequence[Node], fixed: Collection[Node]) -> bool:
    """Whether some of `order`, inputs before users, are now read of neighbours: nobody reads these
    any more. `fixed` are known to others; for the rest as `with_replaced` says."""
    # Most programs have no two products of arrays of some size, and are not looked at.
    if sum([x.op in _PRODUCTS and _is_of_arrays(x) for x in order]) < 2:
        return False
    looks = _looks_of(order)
    alike = _alike(order, fixed, looks)
    if not alike:
        return False
    regions = _Regions(order, fixed, looks)
    shared = _found(order, fixed, alike, regions)
    if not shared:
        return False
    narrowed = regions.slices_of_joined({x.source for x in shared.values()})

    def instead(node: Node) -> Node | None:
        if node in shared:
            return _of_neighbour(node, shared[node], regions)
        if node in narrowed:
            return regions.recorded(node, (0,) * len(node.shape), node.shape)
        return None

    with_replaced(order, fixed, instead)
    return True


def _of_neighbour(node: Node, shared: _Shared, regions: "_Regions") -> Node:
    source, axis, step, is_opposite = shared
    shape, count, origin = node.shape, node.shape[axis], (0,) * len(node.shape)
    there = _of_size(origin, axis, max(step, 0))
    inner = _slice(source, there, _of_size(shape, axis, count - 1))
    inner = -inner if is_opposite else inner
    at = _of_size(origin, axis, count - 1 if step > 0 else 0)
    rim = regions.computed(node, at, _of_size(shape, axis, 1))
    return _CONCATENATE(*((inner, rim) if step > 0 else (rim, inner)), axis=axis)


def _of_size(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _slice(x: Node, starts: Shape, sizes: Shape) -> Node:
    if sizes == x.shape:
        return x
    return record(_SLICE, (x,), slice_params(starts, sizes, (1,) * len(starts)))


# Which may be alike


def _is_of_arrays(product: Node) -> bool:
    x, y = product.inputs
    return product.type.size > LARGEST_VALUE and x.type.shape == y.type.shape


def _looks_of(order: Sequence[Node]) -> dict[Node, int]:
    """The same number for nodes that are made in the same way of elements of the same arrays,
    wherever these are."""
    numbers: dict[Hashable, int] = {}
    looks: dict[Node, int] = {}
    of_parts: dict[int, frozenset[int]] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    for node in order:
        given = [looks[x] if x in looks else looks.setdefault(x, number(x)) for x in node.inputs]
        if node.op in _REARRANGED:
            looks[node] = given[0]
        elif node.op.family == "elementwise":
            if node.op in _EITHER_WAY_ROUND:
                given.sort()
            looks[node] = number((node.op, *node.params.items(), *given))
        elif node.op is _CONCATENATE:
            parts = frozenset().union(*[of_parts.get(k, (k,)) for k in given])
            looks[node] = found = next(iter(parts)) if len(parts) == 1 else number(parts)
            of_parts[found] = parts
        else:
            looks[node] = number(node)
    return looks


_Groups = dict[Hashable, list[Node]]


def _alike(order: Sequence[Node], fixed: Collection[Node], looks: dict[Node, int]) -> _Groups:
    """Values that are made of products of two arrays, those that look alike together; less those
    that look like no other."""
    alike: _Groups = defaultdict(list)
    with_products: set[Node] = set()
    for node in order:
        if node.op.family != "elementwise":
            continue
        inputs = node.inputs
        is_product = node.op in _PRODUCTS and _is_of_arrays(node)
        is_product = is_product and looks[inputs[0]] != looks[inputs[1]]
        if (is_product or not with_products.isdisjoint(inputs)) and is_floating(node.dtype):
            with_products.add(node)
            alike[looks[node], node.type].append(node)
    found: _Groups = {}
    for key, nodes in alike.items():
        if len(nodes) > 1:
            free = [x for x, is_free in zip(nodes, are_free(nodes), strict=True) if is_free]
            found[key] = [x for x in free if x not in fixed]
    return {key: nodes for key, nodes in found.items() if len(nodes) > 1}


def _found(
    order: Sequence[Node], fixed: Collection[Node], alike: _Groups, regions: "_Regions"
) -> dict[Node, _Shared]:
    """What is to be read of neighbours, outermost values first: what these alone are made of is not
    looked at."""
    before = {
        node: nodes[max(k - _MOST_COMPARED, 0) : k][::-1]
        for nodes in alike.values()
        for k, node in enumerate(nodes)
    }
    shared: dict[Node, _Shared] = {}
    sources: set[Node] = set()
    needed = {x for x in order if x in fixed}
    in_vain = 0
    for node in reversed(order):
        if node not in needed:
            continue
        others = before.get(node, ()) if node not in sources else ()
        in_vain += bool(others)
        if in_vain > _MOST_IN_VAIN and not shared:
            break
        found = next((y for y in (regions.shared(node, x) for x in others) if y), None)
        if found is None:
            needed.update(node.inputs)
            continue
        shared[node] = found
        sources.add(found.source)
        needed.update((found.source, *regions.read_by_rim(node)))
    return shared


class _Regions:
    """Regions of values, and what these are made of.

    `readers` : of each node, how many there are
    `ends` : what stays as it is: `fixed`, and what is put together and read both whole and in parts
    `not_in_sums` : what others than sums read
    """

    def __init__(
        self, order: Sequence[Node], fixed: Collection[Node], looks: dict[Node, int]
    ) -> None:
        self.looks = looks
        self.readers = Counter([x for node in order for x in node.inputs])
        self.not_in_sums = {x for node in order if node.op not in _SUMS for x in node.inputs}
        in_parts = {x for node in order if node.op in _READ_THROUGH for x in node.inputs}
        whole = {x for node in order if node.op not in _READ_THROUGH for x in node.inputs}
        self.ends = {x for x in in_parts & whole if x.op is _CONCATENATE}.union(fixed)
        self.looked_at = 0
        self.reads_joined = False
        self._places: dict[Node, dict[Node, list[Shape]] | None] = {}
        self._is_read_through: dict[Node, bool] = {}
        self._relations: dict[tuple[Node, Shape, Node, Shape, Shape], tuple[int, bool]] = {}

    def shared(self, node: Node, source: Node) -> _Shared | None:
        """How `node` is `source` one place away."""
        if not self.has_small_rim(node):
            return None
        place = self.distance(node, source)
        if place is None:
            return None
        axis, step = place
        count, origin = node.shape[axis], (0,) * len(node.shape)
        inner, moved = _of_size(node.shape, axis, count - 1), _of_size(origin, axis, 1)
        # The same at both ends is periodic, and as fast as it is.
        last = _of_size(origin, axis, count - 1)
        at, there = (origin, last) if step < 0 else (last, origin)
        self.looked_at = 0
        if self.relation(node, at, source, there, _of_size(inner, axis, 1)):
            return None
        at, there = (moved, origin) if step < 0 else (origin, moved)
        self.looked_at, self.reads_joined = 0, False
        relation = self.relation(node, at, source, there, inner)
        if relation == 0 or not self.reads_joined:
            return None
        if relation != _SAME and node in self.not_in_sums:
            return None
        return _Shared(source, axis, step, relation == _OPPOSITE)

    def distance(self, node: Node, source: Node) -> tuple[int, int] | None:
        """The axis along which all that one reads in the middle is one place from what the other
        one reads of the same arrays, and in which direction."""
        own, others = self.places(node), self.places(source)
        if own is None or others is None:
            return None
        away: set[Shape] = set()
        for x in own.keys() & others.keys():
            if len(own[x]) != len(others[x]):
                return None
            for here, there in zip(own[x], others[x], strict=True):
                away.add(tuple([a - b for a, b in zip(here, there, strict=True)]))
        if len(away) != 1:
            return None
        (by,) = away
        axes = [k for k, n in enumerate(by) if n]
        if len(axes) != 1 or abs(by[axes[0]]) != 1 or node.shape[axes[0]] < 3:
            return None
        return axes[0], by[axes[0]]

    def places(self, node: Node) -> dict[Node, list[Shape]] | None:
        """Which elements the one in the middle of `node` is made of, by array; None if of more than
        can be compared."""
        if node not in self._places:
            self._places[node] = self._places_of(node)
        return self._places[node]

    def _places_of(self, node: Node) -> dict[Node, list[Shape]] | None:
        found: dict[Node, list[Shape]] = defaultdict(list)
        ones = (1,) * len(node.shape)
        stack = [(x, tuple([n // 2 for n in node.shape])) for x in node.inputs]
        looked_at = 0
        while stack:
            looked_at += 1
            if looked_at > _MOST_LOOKS:
                return None
            x, at = stack.pop()
            if x.shape != node.shape:
                continue  # stretched: the same for several
            x, at, _ = self.source(x, at, ones)
            if self.is_own(x):
                stack += [(y, at) for y in x.inputs]
            else:
                found[x].append(at)
        for places in found.values():
            places.sort()
        return found

    def relation(self, a: Node, at: Shape, b: Node, there: Shape, sizes: Shape) -> int:
        """How these regions of two values are related."""
        self.looked_at += 1
        if self.looked_at > _MOST_LOOKS:
            return 0
        a, at, cut = self.source(a, at, sizes)
        if cut is None:
            b, there, cut = self.source(b, there, sizes)
        if cut is not None:
            axis, size = cut
            rest = _of_size(sizes, axis, sizes[axis] - size)
            first = self.relation(a, at, b, there, _of_size(sizes, axis, size))
            at, there = _moved(at, axis, size), _moved(there, axis, size)
            return _of_both(first, self.relation(a, at, b, there, rest)) if first else 0
        if a is b:
            return _SAME if at == there else 0
        if self.is_own(a):
            return self.relation_of_results(a, at, b, there, sizes)
        # What each step reads is compared once.
        key = (a, at, b, there, sizes)
        if key not in self._relations:
            reads_joined, self.reads_joined = self.reads_joined, False
            found = self.relation_of_results(a, at, b, there, sizes)
            self._relations[key] = found, self.reads_joined
            self.reads_joined |= reads_joined
        found, reads_joined = self._relations[key]
        self.reads_joined |= reads_joined
        return found

    def relation_of_results(self, a: Node, at: Shape, b: Node, there: Shape, sizes: Shape) -> int:
        """The same of the results of two operations."""
        if a.op.family != "elementwise" or a.op is not b.op or self.looks[a] != self.looks[b]:
            return 0
        if a.requires_grad != b.requires_grad or not self.is_open(a) or not self.is_open(b):
            return 0

        def between(k: int, m: int) -> int:
            x, y = a.inputs[k], b.inputs[m]
            here, size = _of_operand(x, a.type.shape, at, sizes)
            beside, other_size = _of_operand(y, b.type.shape, there, sizes)
            return self.relation(x, here, y, beside, size) if size == other_size else 0

        return _relation_of(a.op.name, len(a.inputs), between)

    def is_open(self, x: Node) -> bool:
        """Whether nobody asks for its own gradient."""
        return x not in self.ends and is_nobodys(x)

    def source(
        self, x: Node, starts: Shape, sizes: Shape
    ) -> tuple[Node, Shape, tuple[int, int] | None]:
        """Where a region of `x` is copied from; and if that is several arrays, of which the region
        is one after the other, along which axis, and how much of it is of the first of them."""
        while x.op in _READ_THROUGH and self.is_read_through(x):
            if x.op is _SLICE:
                starts = tuple([a + b for a, b in zip(starts, x.params["starts"], strict=True)])
            if x.op is not _CONCATENATE:
                x = x.inputs[0]
                continue
            self.reads_joined = True
            axis = x.params["axis"]
            first = starts[axis]
            *parts, last = x.inputs
            for y in parts:
                count = y.type.shape[axis]
                if first < count:
                    if first + sizes[axis] > count:
                        return x, starts, (axis, count - first)
                    last = y
                    break
                first -= count
            x, starts = last, _of_size(starts, axis, first)
        return x, starts, None

    def is_read_through(self, x: Node) -> bool:
        found = self._is_read_through.get(x)
        if found is None:
            # What is recorded where nothing has a gradient has none.
            found = self.is_open(x) and x.requires_grad == any(y.requires_grad for y in x.inputs)
            if x.op is _SLICE:
                found = found and "dropped" not in x.params and set(x.params["steps"]) == {1}
            self._is_read_through[x] = found
        return found

    def recorded(self, x: Node, starts: Shape, sizes: Shape) -> Node:
        """A region of `x`, of regions of what only `x` is made of."""
        x, starts, cut = self.source(x, starts, sizes)
        if cut is not None:
            axis, size = cut
            rest = _of_size(sizes, axis, sizes[axis] - size)
            parts = (
                self.recorded(x, starts, _of_size(sizes, axis, size)),
                self.recorded(x, _moved(starts, axis, size), rest),
            )
            return _CONCATENATE(*parts, axis=axis)
        if sizes == x.shape or not self.is_own(x):
            return _slice(x, starts, sizes)
        return self.computed(x, starts, sizes)

    def computed(self, x: Node, starts: Shape, sizes: Shape) -> Node:
        """A region of what is computed element by element."""
        shape = x.type.shape
        operands = [self.recorded(y, *_of_operand(y, shape, starts, sizes)) for y in x.inputs]
        with recording(x.requires_grad):
            return record(x.op, tuple(operands), x.params)

    def is_own(self, x: Node) -> bool:
        return x.op.family == "elementwise" and self.readers[x] == 1 and self.is_open(x)

    def read_by_rim(self, node: Node) -> list[Node]:
        """What `computed` leaves as it is."""
        return [x for x in self._made_of(node) if not self.is_own(x)]

    def has_small_rim(self, node: Node) -> bool:
        """Whether it is few operations, with a slice for each operand that is not computed."""
        return len(self._made_of(node)) < _MOST_RECORDED

    def _made_of(self, node: Node) -> list[Node]:
        """The operands of what only `node` is made of, or as many as say that these are many."""
        found = [*node.inputs]
        for x in found:
            if len(found) >= _MOST_RECORDED:
                break
            if self.is_own(x):
                found += x.inputs
        return found

    def slices_of_joined(self, nodes: Collection[Node]) -> set[Node]:
        """The slices of what is put together that are read to compute these alone."""
        read = [x for node in nodes for x in self.read_by_rim(node)]
        return {x for x in read if x.op is _SLICE and x.inputs[0].op is _CONCATENATE}


def _moved(starts: Shape, axis: int, by: int) -> Shape:
    return _of_size(starts, axis, starts[axis] + by)


def _of_operand(x: Node, whole: Shape, starts: Shape, sizes: Shape) -> tuple[Shape, Shape]:
    """The region of an operand of a value of shape `whole`, to which it may be stretched."""
    shape = x.type.shape
    if shape == whole:
        return starts, sizes
    missing = len(whole) - len(shape)
    return (
        tuple([0 if n == 1 else k for n, k in zip(shape, starts[missing:], strict=True)]),
        tuple([1 if n == 1 else k for n, k in zip(shape, sizes[missing:], strict=True)]),
    )


def _relation_of(name: str, arity: int, between: Callable[[int, int], int]) -> int:
    """How two results of an operation are related, from how operands of them are, `between`."""
    if name == "negative":
        return between(0, 0)
    if name == "divide":
        # By zeros of either sign: other infinities.
        return _of_product(between(0, 0), _SAME) if between(1, 1) == _SAME else 0
    if name not in ("add", "subtract", "multiply"):
        return _SAME if all(between(k, k) == _SAME for k in range(arity)) else 0
    for swapped in (0, 1):
        first = between(0, swapped)
        second = between(1, 1 - swapped) if first else 0
        found = (_of_product if name == "multiply" else _of_both)(first, second)
        if found:
            is_turned = swapped and name == "subtract"
            return _of_product(found, _OPPOSITE) if is_turned else found
    return 0


def _of_both(first: int, second: int) -> int:
    """Of what has parts, or terms, that are related in these ways."""
    if first == second:
        return first
    return _ALIKE if first > 0 and second > 0 else 0


def _of_product(first: int, second: int) -> int:
    if not first or not second:
        return 0
    if first == second == _SAME:
        return _SAME
    return _ALIKE if first * second > 0 else _OPPOSITE
