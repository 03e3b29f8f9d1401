"""Which values get memory: the *roots*.

Results, what library calls read, reductions over loops, and what costs more to compute again than
to store. Everything else is computed inside of the kernels that use it.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from numba_grad.compiler.fusion.costs import Costs
from numba_grad.compiler.fusion.reading import Reading
from numba_grad.compiler.library_kernels.operands import memory_operands
from numba_grad.compiler.loop_nests.iteration_spaces import (
    loop_axes,
    matching_groups,
)
from numba_grad.compiler.loop_nests.reductions import reduction_axes
from numba_grad.compiler.partition.roles import (
    ASSIGNMENTS,
    CONDITIONAL,
    FREE_FAMILIES,
    OVERWRITES,
    is_library,
)
from numba_grad.compiler.partition.segments import FEW_BYTES
from numba_grad.graph.node import Node
from numba_grad.immutable import NamedTuple

# How much larger than what it is made of a value is, to be called an expansion.
EXPANSION = 8
# Operations between memory and a root. LLVM takes a second for a thousand lines.
LONGEST_CONE = 500
# Operations that one kernel writes out again for further places. Reading a value in two halves,
# over and over, computes no element twice, but doubles the text each time.
MOST_REPEATED = 64
# Of a value of which less is read, only that is stored.
MOST_OF_IT = 0.25
# A sum of more arrays, none of which the caches would still have, is cut: until it is done all of
# them take memory. The gradient of what each step of a loop uses: Jacobi's source, 14 % faster.
MOST_TERMS = 8
# What an operation that cuts loops into pieces counts for in a cone.
CONDITIONAL_LENGTH = 12
# A concatenation of more parts along a loop, those of its parts included, is stored: readers would
# look for the part at every element.
MOST_PARTS = 4
# Of several assignments on top of each other, to most of an array, so many are read through: the
# adjoints of the shifted slices of a stencil, of seven points in space for one. The result of more
# than a few is stored.
MOST_ASSIGNMENTS = 8
FEW_ASSIGNMENTS = 2
# Places at which the products of a value are computed, at most, that are no reason to store it: the
# factor that they share is computed at more. With each of 25 products in memory, rather than that
# one, a bilateral filter takes twice as long.
FEW_PLACES = 3
# What a value costs beside another one that it is made of, to be computed again from that.
FEW_ADDITIONS = 4
# The edge of an array, at most.
THIN = 0.0625


class Counts(NamedTuple):
    """How often an element of a value would be computed if it were not stored."""

    by_itself: float  # as if what is made of it at its own place were computed nowhere else
    with_others: float  # at all places that what is made of it is computed at


class Roots:
    """The roots of a graph, and how its values are read.

    Parameters
    ----------
    order : all nodes, inputs before users
    writable : arguments that nobody needs afterwards
    costs : of the target
    """

    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        writable: Collection[Node],
        costs: Costs,
    ) -> None:
        self.order = order
        self.costs = costs
        self.outputs = outputs
        self.writable = frozenset(writable)
        self.memory = {node for node in order if node.op.family == "leaf"}
        self.nodes: set[Node] = set()
        self.partial_sums: set[Node] = set()  # roots that only cut a long sum
        self.users: dict[Node, list[Node]] = {node: [] for node in order}
        for node in order:
            for x in dict.fromkeys(node.inputs):
                self.users[x].append(node)
        self.loops = {node: loop_axes(node.shape) for node in order}
        # Single numbers are stored where they have to be, and written out once: what is made of
        # them alone needs no thought of costs.
        self.are_numbers = not any(self.loops[node] for node in order if node not in self.memory)
        self.reading = Reading(self.loops)
        self.are_roots_known = False
        self.parts: dict[Node, int] = {}  # of concatenations that are read through
        self.find()

    # What gets memory

    def find(self) -> None:
        for node in self.order:
            if not self.are_numbers:
                self.parts[node] = self.count_parts(node)
            if is_library(node):
                self.nodes.add(node)
                for x in memory_operands(node):
                    self.add_root(x)
            elif self.is_loop_reduction(node):
                self.nodes.add(node)
            elif node.op.name == "gather":
                if node.inputs[0].op.family not in FREE_FAMILIES:
                    self.add_root(node.inputs[0])
            elif node.op.name == "reshape" and self.untangles_loops(node):
                self.add_root(node.inputs[0])
            elif node.op.name == "concatenate" and self.is_long(node):
                self.add_root(node)
            elif self.is_repeated_assignment(node):
                # Otherwise reading an array looks through all that was ever assigned to it.
                self.add_root(node.inputs[0])
                if is_small_assignment(node) and not self.is_edge_of_sum(node):
                    # In memory before the old value is written over, if it was made from that.
                    self.add_root(node.inputs[1])
            elif (
                self.is_adjoint_of_stencil(node)
                or self.is_part_of_old_value(node)
                or self.are_columns_of_pairs(node)
            ):
                self.add_root(node)
            elif self.is_assigned_to_argument(node):
                self.add_root(node)
                self.add_root(node.inputs[1])
        for node in self.outputs:
            self.add_root(node)
        if self.are_numbers:
            return
        evaluations = self.add_expensive_roots()
        self.store_long_concatenations()
        self.bound_repetition(evaluations)
        self.bound_kernels()

    def store_long_concatenations(self) -> None:
        """Those that are long after all, as something that they are made of is not stored."""
        self.are_roots_known = True
        for node in self.order:
            self.parts[node] = self.count_parts(node)
            if node.op.name == "concatenate" and self.is_long(node):
                self.add_root(node)

    def bound_kernels(self) -> None:
        """Store values so that what is computed in one place stays short, and is not a sum of many
        large arrays. Sets of nodes are ints with a bit for each."""
        cone: dict[Node, int] = {}
        arrays: dict[Node, int] = {}  # that are read for a node
        conditional = 0
        for number, node in enumerate(self.order):
            bit = 1 << number
            cone[node] = bit
            arrays[node] = bit if self.loops[node] else 0
            if node in self.memory or node in self.nodes:
                continue
            if node.op.name in CONDITIONAL:
                conditional |= bit
            read = 0
            for x in node.inputs:
                cone[node] |= cone[x]
                read |= arrays[x]
            length = cone[node].bit_count()
            length += CONDITIONAL_LENGTH * (cone[node] & conditional).bit_count()
            is_long = length > LONGEST_CONE and node.op.family in ("elementwise", "movement")
            terms = read.bit_count() if node.op.name == "add" else 0
            is_wide = terms > MOST_TERMS and terms * node.type.nbytes > self.costs.cached_bytes
            if self.loops[node] and (is_long or is_wide):
                self.nodes.add(node)
                cone[node] = bit
                if is_wide:
                    self.partial_sums.add(node)
            else:
                arrays[node] = read

    def bound_repetition(self, evaluations: Mapping[Node, float]) -> None:
        """Store what movements read, so that a kernel does not write out too much of what is below
        a value for several places. Sets of nodes are ints with a bit for each."""
        below: dict[Node, int] = {}  # what a node is computed from, itself included
        here: dict[Node, int] = {}  # the part of it at the node's own place
        written: dict[Node, float] = {}  # operations, for all copies of the node
        elsewhere = _Weights()  # of movements, for what they read at another place
        of_one = _Weights()  # of these, for one of the elements that are written out
        reading = Reading(self.loops_where_read())

        def cut(node: Node, bit: int) -> None:
            below[node] = here[node] = bit
            written[node] = reading.copies(node)

        for number, node in enumerate(self.order):
            bit = 1 << number
            cut(node, bit)
            if self.is_stored(node):
                continue
            for x in node.inputs:
                below[node] |= below[x]
            if node.op.family != "movement" or reading.is_at_one_place(node):
                for x in node.inputs:
                    here[node] |= here[x]
                copies = written[node]
                written[node] *= here[node].bit_count()
                written[node] += min(elsewhere.of(here[node]), copies * of_one.of(here[node]))
                continue
            copies = reading.copies(node)
            weight = copies * sum(written[x] / reading.copies(x) for x in node.inputs)
            if weight - copies * below[node].bit_count() <= MOST_REPEATED:
                elsewhere.add(bit, weight)
                # Of a few numbers, of which one window reads one: its weight in a stencil.
                of_one.add(bit, weight if self.loops[node] else weight / copies)
                written[node] += weight
                continue
            stored = [self.base(x) for x in node.inputs]
            if any(evaluations.get(x, 1.0) < MOST_OF_IT for x in stored):
                stored = [node]
            for x in stored:
                if reading.loops[x]:
                    self.add_root(x)
            for x in (*stored, *node.inputs, node):
                cut(x, bit)

    def loops_where_read(self) -> dict[Node, tuple[int, ...]]:
        """As `loops`; but of a value that would be written out, and that a loop computes at its own
        indices instead, the axes along which it does."""
        result = dict(self.loops)
        for node in reversed(self.order):
            loops = result[node]
            if not loops or (self.is_stored(node) and not self.loops[node]):
                continue
            for x in node.inputs:
                if self.loops[x] or self.is_stored(x):
                    continue
                axes = {axis for axis, n in enumerate(x.shape) if n != 1}
                if node.op.name not in ("reshape", "transpose") and node.op.family != "reduction":
                    shift = len(x.shape) - len(node.shape)
                    axes &= {axis + shift for axis in loops}
                result[x] = tuple(sorted(axes.union(result[x])))
        return result

    def is_stored(self, node: Node) -> bool:
        return node in self.memory or node in self.nodes

    def base(self, node: Node) -> Node:
        """What `node` is the elements of, in another order maybe."""
        while node.op.family == "movement" and len(node.inputs) == 1 and not self.is_stored(node):
            node = node.inputs[0]
        return node

    def bytes_of_component(self, node: Node) -> int:
        """Of one of the components along axes that are written out: each of them written as a value
        of its own is stored or not by its own size."""
        return math.prod([node.shape[axis] for axis in self.loops[node]]) * node.dtype.itemsize

    def add_root(self, node: Node) -> None:
        if node not in self.memory:
            self.nodes.add(node)

    def is_loop_reduction(self, node: Node) -> bool:
        if node.op.family != "reduction":
            return False
        loops = self.loops[node.inputs[0]]
        return any(axis in loops for axis in reduction_axes(node))

    def are_columns_of_pairs(self, node: Node) -> bool:
        """Whether it is rows of components as columns, or one of these, read once for each of other
        rows."""
        if len(self.loops[node]) != 1 or not is_of_columns(node):
            return False
        readers = [*self.users[node]]
        for user in readers:  # which grows
            if user.op.name == "reshape":
                readers += self.users[user]
        return any(
            pairs.op.family == "elementwise" and pairs.type.size > node.type.size
            for pairs in readers
        )

    def is_repeated_assignment(self, node: Node) -> bool:
        """Whether it assigns to an array with loops that was assigned to before, too often or too
        little at a time to be read through."""
        if node.op.name not in ASSIGNMENTS or not self.loops[node]:
            return False
        if self.reading.is_decided_while_compiling(node):
            return False
        before = node.inputs[0]
        if before.op.name not in ASSIGNMENTS:
            return False
        if is_small_assignment(node) and not self.is_edge_of_sum(node):
            return True
        chain = 1
        while before.op.name in ASSIGNMENTS and before not in self.nodes:
            chain += 1
            before = before.inputs[0]
        return chain > MOST_ASSIGNMENTS

    def is_edge_of_sum(self, node: Node) -> bool:
        """Whether it adds to one end of an array that is computed for nothing else, or to the
        other end as well: of what the adjoint of padded edges adds to a stencil's."""
        if not self.is_added_to_edge(node):
            return False
        ends, x = 1, node.inputs[0]
        while self.is_added_to_edge(x):
            ends, x = ends + 1, x.inputs[0]
        while self.is_added_to_alone(node) and self.is_added_to_edge(self.users[node][0]):
            ends, node = ends + 1, self.users[node][0]
        return ends <= 2

    def is_added_to_edge(self, node: Node) -> bool:
        if node.op.name != "add_slice" or len(self.loops[node]) < 2:
            return False
        x, v = node.inputs
        axes = [axis for axis, n in enumerate(x.shape) if v.shape[axis] != n]
        if len(axes) != 1 or v.type.size > THIN * x.type.size:
            return False
        (axis,) = axes
        is_end = node.params["starts"][axis] in (0, x.shape[axis] - v.shape[axis])
        return is_end and self.is_added_to_alone(x) and x not in self.memory

    def is_adjoint_of_stencil(self, node: Node) -> bool:
        """Whether it is the last of several additions to slices: of a step, where the next step of
        a loop reads it and adds to it again."""
        if self.is_added_to_alone(node):
            return False
        chain = 0
        while node.op.name == "add_slice" and not self.reading.is_decided_while_compiling(node):
            chain += 1
            node = node.inputs[0]
            if not self.is_added_to_alone(node):
                break
        return chain > FEW_ASSIGNMENTS

    def is_added_to_alone(self, node: Node) -> bool:
        """Whether nothing but one addition to a slice of it reads it."""
        users = self.users[node]
        return len(users) == 1 and users[0].op.name == "add_slice" and users[0].inputs[0] is node

    def is_assigned_to_argument(self, node: Node) -> bool:
        """Whether it may be written over an argument."""
        if node.op.name not in ASSIGNMENTS or node.inputs[0] not in self.writable:
            return False
        return is_small_assignment(node)

    def is_part_of_old_value(self, node: Node) -> bool:
        """Whether it is a small part of an array that is assigned to: stored, it is all that has to
        be kept of the old value."""
        if node.op.name != "slice":
            return False
        (x,) = node.inputs
        is_small = bool(self.loops[x]) and 2 * node.type.size <= x.type.size
        return is_small and any(
            user.op.name in OVERWRITES and user.inputs[0] is x for user in self.users[x]
        )

    def is_long(self, node: Node) -> bool:
        """Whether finding the part of a concatenation takes a search at each element."""
        return node.params["axis"] in self.loops[node] and self.parts[node] > MOST_PARTS

    def count_parts(self, node: Node) -> int:
        parts = [1 if self.is_one_part(x) else self.parts[x] for x in node.inputs]
        if node.op.name == "concatenate" and node.params["axis"] in self.loops[node]:
            return sum(parts)
        is_inline = node.op.family in ("elementwise", "movement")
        return max(parts, default=1) if is_inline else 1

    def is_one_part(self, node: Node) -> bool:
        """Whether it is in memory. Before that is decided, what several movements read is taken to
        be: a state, say, of which the next step of a loop joins parts again."""
        if self.are_roots_known or node.op.family != "elementwise":
            return self.is_stored(node)
        return sum(user.op.family == "movement" for user in self.users[node]) > 1

    def untangles_loops(self, node: Node) -> bool:
        """Whether a reshape cuts a long axis into several: computing through it takes divisions."""
        (x,) = node.inputs
        if 0 in x.shape:
            return False
        loops = self.loops[x]
        return any(
            len(old) > 1 and any(axis in loops for axis in old)
            for old, _ in matching_groups(x.shape, node.shape)
        )

    def add_expensive_roots(self) -> dict[Node, float]:
        """Store what costs more to compute again. Returns how often each value is computed, per
        element."""
        cost, source_size = self.inline_costs()
        evaluations: dict[Node, float] = {}
        counts: dict[Node, Counts] = {}  # of the values that are stored for what they cost
        windows = _Windows()
        for node in reversed(self.order):
            if node in self.memory:
                continue
            count, windows.places[node] = self.count(node, evaluations, windows)
            is_computed = node.op.family in ("elementwise", "reduction")
            # An addition to a region is one of arrays.
            is_computed |= node.op.name == "add_slice" and not is_small_assignment(node)
            if node not in self.nodes and is_computed and self.loops[node] and cost[node] >= 4:
                counts_of_node = Counts(count, windows.weights.of(windows.places[node]))
                if (
                    max(counts_of_node) > 1.3
                    and self.is_worth_storing(node, cost[node], counts_of_node, source_size[node])
                    and not self.is_spread(node, cost)
                    and not self.is_made_of_shared(node, cost)
                ):
                    self.nodes.add(node)
                    counts[node] = counts_of_node
            if node in self.nodes:
                windows.store(node)
            evaluations[node] = 1.0 if node in self.nodes else max(count, 1e-9)
        # What was expensive from the inputs may be cheap now, from what is stored: the negative of
        # a stored value.
        if counts:
            self.inline_costs(counts)
        return evaluations

    def is_spread(self, node: Node, cost: Mapping[Node, float]) -> bool:
        """Whether next to all that it costs is that of a smaller value at each of its elements,
        which is stored instead: a cotangent, of its products with all weights of a stencil."""
        for x in node.inputs:
            while x.op.name in ("broadcast_to", "reshape") and not self.is_stored(x):
                (x,) = x.inputs
            is_smaller = bool(self.loops[x]) and 2 * x.type.size <= node.type.size
            if is_smaller and cost[x] >= 4 and cost[node] - cost[x] <= 2:
                return True
        return False

    def is_made_of_shared(self, node: Node, cost: Mapping[Node, float]) -> bool:
        """Whether next to all that it costs is that of a value that others read as well, which is
        stored instead: a state, or a cotangent, of which a mask selects."""
        if node.type.nbytes <= FEW_BYTES:
            return False
        y = node
        while not self.is_stored(y):
            arrays = [x for x in y.inputs if self.loops[x]]
            x = max(arrays, key=lambda x: cost[x], default=None)
            if x is None or cost[node] - cost[x] > FEW_ADDITIONS:
                return False
            if not self.reading.is_aligned(y, x):
                return False
            if len(self.users[x]) > 1 and (self.is_stored(x) or cost[x] >= 4):
                return True
            y = x
        return False

    def is_worth_storing(self, node: Node, cost: float, counts: Counts, source_size: int) -> bool:
        costs = self.costs
        by_itself, with_others = costs.store_of_shifts, costs.store
        if node.type.size >= EXPANSION * source_size:
            by_itself = with_others = costs.store_of_expansion
        if cost * (counts.by_itself - 1) > by_itself:
            return True
        return counts.with_others > FEW_PLACES and cost * (counts.with_others - 1) > with_others

    def inline_costs(
        self, counts: Mapping[Node, Counts] = MappingProxyType({})
    ) -> tuple[dict[Node, float], dict[Node, int]]:
        """What computing one element costs from memory, and the size of the largest value read for
        it.

        Shared parts count once, at each place that they are read at: a set of nodes is an int with
        a bit for each. Those of `counts`, roots with how often each would be computed, are roots no
        more if they turn out cheap.
        """
        here: dict[Node, int] = {}  # what a node is computed from at its own place, itself included
        cost: dict[Node, float] = {}
        source_size: dict[Node, int] = {}
        bits_of_weight: dict[float, int] = {}
        elsewhere = _Weights()  # of movements, for what they read at another place

        def enter(node: Node, bit: int) -> float:
            source_size[node] = max([1, *[source_size[x] for x in node.inputs]])
            here[node] = bit
            if node.op.family == "movement" and not self.reading.is_at_one_place(node):
                cost[node] = sum(cost[x] for x in node.inputs)
                elsewhere.add(bit, cost[node])
                return 0.0
            for x in node.inputs:
                here[node] |= here[x]
            weight = self.own_cost(node)
            cost[node] = weight + elsewhere.of(here[node])
            for w, bits in bits_of_weight.items():
                cost[node] += w * (here[node] & bits).bit_count()
            return weight

        for number, node in enumerate(self.order):
            bit, weight = 1 << number, 0.0
            is_stored = self.is_stored(node)
            if not is_stored or node in counts:
                weight = enter(node, bit)
            if node in counts and not self.is_worth_storing(
                node, cost[node], counts[node], source_size[node]
            ):
                self.nodes.discard(node)
                is_stored = False
            if is_stored:
                # Masks are loaded many elements at a time.
                cost[node] = weight = self.costs.load * min(1.0, node.dtype.itemsize / 4)
                here[node], source_size[node] = bit, node.type.size
            bits_of_weight[weight] = bits_of_weight.get(weight, 0) | bit
        return cost, source_size

    def own_cost(self, node: Node) -> float:
        """Of one element of `node` itself."""
        if node.op.family == "reduction":
            return float(node.inputs[0].type.size // max(1, node.type.size))
        return float(node.op.cost) if node.op.family == "elementwise" else 0.0

    def count(
        self, node: Node, evaluations: dict[Node, float], windows: "_Windows"
    ) -> tuple[float, int]:
        """How often each element of `node` would be computed if it were not stored; and where, if
        its users are computed at places of their own: each window of a product of `node` computes
        `node` again."""
        aligned = separate = 0.0
        places = 0
        for user in self.users[node]:
            if is_library(user):
                continue
            if self.reading.is_aligned(user, node):
                aligned = max(aligned, evaluations[user])
                places |= windows.places[user]
            else:
                weight = evaluations[user] * self.reading.repetition(user, node)
                separate += weight
                places |= windows.another(weight)
        return aligned + separate, places


class _Windows:
    """The places that values are computed at."""

    OWN = 1  # of what is stored: the bit of its own place

    def __init__(self) -> None:
        self.places: dict[Node, int] = {}  # a bit for each
        self.weights = _Weights()  # how often something is computed there
        self.weights.add(self.OWN, 1.0)
        self.count = 1

    def another(self, weight: float) -> int:
        bit = 1 << self.count
        self.count += 1
        self.weights.add(bit, weight)
        return bit

    def store(self, node: Node) -> None:
        self.places[node] = self.OWN


class _Weights:
    """Weights of some nodes, each of which is a bit."""

    def __init__(self) -> None:
        self.bits = 0
        self.weights: dict[int, float] = {}  # by the length of the bit

    def add(self, bit: int, weight: float) -> None:
        self.bits |= bit
        self.weights[bit.bit_length()] = weight

    def of(self, nodes: int) -> float:
        """Of those that are in this set, together."""
        total = 0.0
        weighty = nodes & self.bits
        while weighty:
            length = weighty.bit_length()
            total += self.weights[length]
            weighty ^= 1 << (length - 1)
        return total


def is_small_assignment(node: Node) -> bool:
    """Whether it changes so little that writing over the old value pays."""
    return 2 * node.inputs[1].type.size <= node.type.size


def is_of_columns(node: Node) -> bool:
    """Whether it is the columns of a matrix as rows, or one of them."""
    if node.op.name == "transpose":
        return len(node.shape) == 2 and node.shape[0] > 1
    if node.op.name != "slice":
        return False
    (x,) = node.inputs
    if len(x.shape) != 2:
        return False
    rows, columns = x.shape[::-1] if x.op.name == "transpose" else x.shape
    return columns > 1 and node.type.size == max(node.shape) == rows
