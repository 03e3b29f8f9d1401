"""Which nodes share a kernel, what is stored in memory, and why fusion stops.

A *root* is a value that gets memory: results, what library calls read, reductions over loops, and
what costs more to
compute again than to store. Everything else is computed inside of the kernels that use it. Roots
over the same loops share a
kernel, if none of them needs a finished result of another.
"""

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from numba_grad.compiler.flat_graph import ASSIGNMENTS, OVERWRITES
from numba_grad.compiler.library_steps import memory_operands
from numba_grad.compiler.lower import Group, reduction_axes
from numba_grad.compiler.spaces import loop_axes, matching_groups, space_of
from numba_grad.graph.node import Node

# Storing a value and loading it again, in additions, where one kernel would compute a value at
# several shifted places: a chain of stencils that are not stored grows
# exponentially, in its time to compile too.
STORE_COST_OF_SHIFTS = 16
# The same where the value is much larger than all it is made of, so that storing it costs bandwidth
# (or does not fit).
STORE_COST_OF_EXPANSION = 400
EXPANSION = 8
# A node that several kernels over the same loops compute again rather than load costs at most this,
# in additions:
# storing and loading take some 2 ns, an addition 0.05 ns in vector code.
CHEAP = 40
MOST_ROOTS = 48
# Operations between memory and a root. LLVM takes a second for a thousand lines.
LONGEST_CONE = 500
# A sum of more arrays, none of which the caches would still have, is cut: until it is done all of
# them take memory. The gradient of what each step of a loop uses: Jacobi's source, 14 % faster.
MOST_TERMS = 8
CACHED_BYTES = 1 << 20
# These cut loops into pieces, each with a body of its own.
CONDITIONAL = ("pad", "concatenate", "update_slice", "add_slice")
CONDITIONAL_LENGTH = 12
# A concatenation of more parts along a loop is stored: readers would look for the part at every
# element.
MOST_PARTS = 4
# Of several assignments on top of each other, to most of an array, so many are read through: the
# adjoints of the shifted slices of a stencil. The result of more than a few is stored.
MOST_ASSIGNMENTS = 4
FEW_ASSIGNMENTS = 2
INLINE_FAMILIES = ("elementwise", "movement", "literal", "iota")


@dataclass(slots=True)
class LibraryStep:
    """An operation with a kernel of its own: a library call, a scan, a sort, a scatter."""

    node: Node
    in_place: bool = False  # a scatter that goes to the memory of its first input


Step = Group | LibraryStep


def fuse(
    order: Sequence[Node],
    outputs: Sequence[Node],
    writable: Collection[Node] = (),
    protected: Collection[Node] = (),
) -> list[Step]:
    """The steps that compute `outputs`, in order.

    Parameters
    ----------
    order : all nodes, inputs before users
    writable : arguments that nobody needs afterwards
    protected : outputs that must not lie in the memory of an argument
    """
    fusion = _Fusion(order, outputs, set(writable), set(protected))
    fusion.find_roots()
    steps = fusion.group_roots()
    if fusion.add_shared_roots(steps):
        steps = fusion.group_roots()
    return steps


class _Fusion:
    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        writable: set[Node],
        protected: set[Node],
    ) -> None:
        self.order = order
        self.outputs = outputs
        self.writable = writable
        self.protected = protected
        self.memory = {node for node in order if node.op.family == "leaf"}
        self.roots: set[Node] = set()
        self.partial_sums: set[Node] = set()  # roots that only cut a long sum
        self.users: dict[Node, list[Node]] = {node: [] for node in order}
        for node in order:
            for x in dict.fromkeys(node.inputs):
                self.users[x].append(node)
        self.loops = {node: loop_axes(node.shape) for node in order}

    # Roots

    def find_roots(self) -> None:
        for node in self.order:
            if self.is_library(node):
                self.roots.add(node)
                for x in memory_operands(node):
                    self.add_root(x)
            elif self.is_loop_reduction(node):
                self.roots.add(node)
            elif node.op.name == "gather":
                if node.inputs[0].op.family != "movement":
                    self.add_root(node.inputs[0])
            elif node.op.name == "reshape" and self.untangles_loops(node):
                self.add_root(node.inputs[0])
            elif node.op.name == "concatenate" and self.is_long(node):
                self.add_root(node)
            elif self.is_repeated_assignment(node):
                # Otherwise reading an array looks through all that was ever assigned to it.
                self.add_root(node.inputs[0])
                if self.is_small_assignment(node):
                    # In memory before the old value is written over, if it was made from that.
                    self.add_root(node.inputs[1])
            elif self.is_adjoint_of_stencil(node) or self.is_part_of_old_value(node):
                self.add_root(node)
            elif self.is_assigned_to_argument(node):
                self.add_root(node)
                self.add_root(node.inputs[1])
        for node in self.outputs:
            self.add_root(node)
        self.add_expensive_roots()
        self.bound_kernels()

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
            if node in self.memory or node in self.roots:
                continue
            if node.op.name in CONDITIONAL:
                conditional |= bit
            read = 0
            for x in node.inputs:
                cone[node] |= cone[x]
                read |= arrays[x]
            length = cone[node].bit_count()
            length += CONDITIONAL_LENGTH * (cone[node] & conditional).bit_count()
            is_long = length > LONGEST_CONE and node.op.family == "elementwise"
            terms = read.bit_count() if node.op.name == "add" else 0
            is_wide = terms > MOST_TERMS and terms * node.type.nbytes > CACHED_BYTES
            if self.loops[node] and (is_long or is_wide):
                self.roots.add(node)
                cone[node] = bit
                if is_wide:
                    self.partial_sums.add(node)
            else:
                arrays[node] = read

    def add_root(self, node: Node) -> None:
        if node not in self.memory:
            self.roots.add(node)

    def is_library(self, node: Node) -> bool:
        family = node.op.family
        return family not in (*INLINE_FAMILIES, "reduction", "leaf") and node.op.name != "gather"

    def is_loop_reduction(self, node: Node) -> bool:
        if node.op.family != "reduction":
            return False
        loops = self.loops[node.inputs[0]]
        return any(axis in loops for axis in reduction_axes(node))

    def is_repeated_assignment(self, node: Node) -> bool:
        """Whether it assigns to an array with loops that was assigned to before, too often or too
        little at a time to be read through."""
        if node.op.name not in ASSIGNMENTS or not self.loops[node]:
            return False
        if self.is_decided_while_compiling(node):
            return False
        before = node.inputs[0]
        if before.op.name not in ASSIGNMENTS:
            return False
        if self.is_small_assignment(node):
            return True
        chain = 1
        while before.op.name in ASSIGNMENTS and before not in self.roots:
            chain += 1
            before = before.inputs[0]
        return chain > MOST_ASSIGNMENTS

    def is_adjoint_of_stencil(self, node: Node) -> bool:
        """Whether it is the last of several additions to slices."""
        if any(user.op.name == "add_slice" and user.inputs[0] is node for user in self.users[node]):
            return False
        chain = 0
        while node.op.name == "add_slice" and not self.is_decided_while_compiling(node):
            chain += 1
            node = node.inputs[0]
        return chain > FEW_ASSIGNMENTS

    def is_decided_while_compiling(self, node: Node) -> bool:
        """Whether which elements an assignment changes does not depend on indices of loops."""
        changed = node.inputs[1].shape
        return all(changed[axis] == node.shape[axis] for axis in self.loops[node])

    def is_assigned_to_argument(self, node: Node) -> bool:
        """Whether it may be written over an argument."""
        if node.op.name not in ASSIGNMENTS or node.inputs[0] not in self.writable:
            return False
        return self.is_small_assignment(node)

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

    def is_small_assignment(self, node: Node) -> bool:
        """Whether it changes so little that writing over the old value pays."""
        return 2 * node.inputs[1].type.size <= node.type.size

    def is_long(self, node: Node) -> bool:
        """Whether finding the part of a concatenation takes a search at each element."""
        return len(node.inputs) > MOST_PARTS and node.params["axis"] in self.loops[node]

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

    def add_expensive_roots(self) -> None:
        cost, source_size = self.inline_costs()
        evaluations: dict[Node, float] = {}
        counts: dict[Node, float] = {}  # of the values that are stored for what they cost
        for node in reversed(self.order):
            if node in self.memory:
                continue
            count = self.count_evaluations(node, evaluations)
            is_computed = node.op.family in ("elementwise", "reduction")
            may_be = node not in self.roots and is_computed and count > 1.3 and cost[node] >= 4
            if may_be and self.is_worth_storing(node, cost[node], count, source_size[node]):
                self.roots.add(node)
                counts[node] = count
            evaluations[node] = 1.0 if node in self.roots else max(count, 1e-9)
        # What was expensive from the inputs may be cheap now, from what is stored: the negative of
        # a stored value.
        self.inline_costs(counts)

    def is_worth_storing(self, node: Node, cost: float, count: float, source_size: int) -> bool:
        expands = node.type.size >= EXPANSION * source_size
        limit = STORE_COST_OF_EXPANSION if expands else STORE_COST_OF_SHIFTS
        return cost * (count - 1) > limit and bool(self.loops[node])

    def inline_costs(
        self, counts: Mapping[Node, float] = MappingProxyType({})
    ) -> tuple[dict[Node, float], dict[Node, int]]:
        """What computing one element costs from memory, and the size of the largest value read for
        it.

        Shared parts count once: a set of nodes is an int with a bit for each. Those of `counts`,
        roots with how often each would be computed, are roots no more if they turn out cheap.
        """
        cone: dict[Node, int] = {}
        cost: dict[Node, float] = {}
        source_size: dict[Node, int] = {}
        bits_of_weight: dict[float, int] = {}

        def enter(node: Node, bit: int, inputs: Sequence[Node], weight: float, size: int) -> None:
            cone[node] = bit
            source_size[node] = max([size, *[source_size[x] for x in inputs]])
            for x in inputs:
                cone[node] |= cone[x]
            cost[node] = weight + sum(
                w * (cone[node] & bits).bit_count() for w, bits in bits_of_weight.items()
            )

        for number, node in enumerate(self.order):
            bit, weight = 1 << number, self.own_cost(node)
            is_stored = node in self.memory or node in self.roots
            if not is_stored or node in counts:
                enter(node, bit, node.inputs, weight, 1)
            if node in counts and not self.is_worth_storing(
                node, cost[node], counts[node], source_size[node]
            ):
                self.roots.discard(node)
                is_stored = False
            if is_stored:
                weight = 1.0
                enter(node, bit, (), weight, node.type.size)
            bits_of_weight[weight] = bits_of_weight.get(weight, 0) | bit
        return cost, source_size

    def own_cost(self, node: Node) -> float:
        """Of one element of `node` itself."""
        if node.op.family == "reduction":
            return float(node.inputs[0].type.size // max(1, node.type.size))
        return float(node.op.cost) if node.op.family == "elementwise" else 0.0

    def count_evaluations(self, node: Node, evaluations: dict[Node, float]) -> float:
        """How often each element of `node` would be computed if it were not stored."""
        aligned = separate = 0.0
        for user in self.users[node]:
            if self.is_library(user):
                continue
            if self.is_aligned(user, node):
                aligned = max(aligned, evaluations[user])
            else:
                separate += evaluations[user] * self.repetition(user, node)
        return aligned + separate

    def is_aligned(self, user: Node, x: Node) -> bool:
        """Whether `user` reads `x` at its own loop indices, so that both can be computed at one
        point."""
        if user.op.family == "elementwise":
            return self.shape_of_loops(user) == self.shape_of_loops(x)
        if user.op.family == "reduction":
            return True
        if user.op.family == "movement":
            return self.movement_is_aligned(user, x)
        return False

    def shape_of_loops(self, node: Node) -> list[tuple[int, int]]:
        """Loop axes, counted from the last, with extents: what broadcasting lines up."""
        rank = len(node.shape)
        return [(axis - rank, node.shape[axis]) for axis in self.loops[node]]

    def movement_is_aligned(self, user: Node, x: Node) -> bool:
        loops = self.loops[x]
        if not loops and not self.loops[user]:
            return True
        extents = [x.shape[axis] for axis in loops]
        if extents != [user.shape[axis] for axis in self.loops[user]]:
            return False
        name = user.op.name
        if name == "reshape":
            return 0 not in x.shape and all(
                len(old) == len(new) == 1 or not any(axis in loops for axis in old)
                for old, new in matching_groups(x.shape, user.shape)
            )
        if name == "transpose":
            return [user.params["axes"][axis] for axis in self.loops[user]] == list(loops)
        if name == "broadcast_to":
            return self.shape_of_loops(user) == self.shape_of_loops(x)
        if name == "concatenate":
            return user.params["axis"] not in self.loops[user]
        if name == "flip":
            return not any(axis in loops for axis in user.params["axes"])
        if name in ("slice", "pad"):
            return all(x.shape[axis] == user.shape[axis] for axis in loops)
        return name in ASSIGNMENTS and self.is_decided_while_compiling(user)

    def repetition(self, user: Node, x: Node) -> float:
        """Evaluations of each element of `x` for one evaluation of all of `user`."""
        if not self.loops[x]:
            return 1.0  # outside of all loops
        stretched = user.op.family == "elementwise" or user.op.name == "broadcast_to"
        if not stretched:
            return user.type.size / max(1, x.type.size)
        # Along inner axes a value is kept in a register; along outer ones it is computed again.
        shift = len(user.shape) - len(x.shape)
        own = {axis + shift for axis in self.loops[x]}
        last = max(own)
        missing = (n for axis, n in enumerate(user.shape[:last]) if axis not in own)
        return float(math.prod(missing))

    # Groups

    def group_roots(self) -> list[Step]:
        needed_by: dict[Node, dict[Node, bool]] = {}
        reads: dict[Node, dict[Node, bool]] = {}
        readers: dict[Node, list[Node]] = {}
        for node in self.order:
            if node in self.memory:
                continue
            needed = self.reads_of(node, reads)
            if node not in self.roots:
                reads[node] = needed
                continue
            needed_by[node] = needed
            for x in needed:
                readers.setdefault(x, []).append(node)
        steps: list[Step] = []
        step_of: dict[Node, int] = {}
        in_place: dict[Node, Node] = {}  # and in whose memory
        for node in self.readers_first(needed_by, readers):
            needed = needed_by[node]
            if self.may_write_over(node, readers, step_of, in_place):
                in_place[node] = in_place.get(node.inputs[0], node.inputs[0])
                if self.is_library(node):
                    steps.append(LibraryStep(node, in_place=True))
                else:
                    space = space_of(node.inputs[1].shape)
                    steps.append(Group(space, (), [node], [], in_place=True))
                step_of[node] = len(steps) - 1
                continue
            earliest = 0
            for x, aligned in needed.items():
                if x in self.writable:
                    continue
                joins = (
                    aligned
                    and x not in in_place
                    and not self.is_loop_reduction(x)
                    and not self.is_library(x)
                )
                earliest = max(earliest, step_of[x] + (not joins))
            step_of[node] = self.place(node, steps, earliest)
        return steps

    def readers_first(
        self, needed_by: dict[Node, dict[Node, bool]], readers: dict[Node, list[Node]]
    ) -> list[Node]:
        """The roots in an order in which, where that is possible, assignments come after all other
        readers of the old value.

        What no other root reads comes last: by then there are more loops that it can share.
        """
        roots = sorted(needed_by, key=lambda node: node not in readers)  # stable: inputs first
        number = {node: k for k, node in enumerate(roots)}
        if self.partial_sums:
            # As soon as the terms are there, which until then take memory.
            for node in roots:
                if node in self.partial_sums:
                    number[node] = max([number[x] for x in needed_by[node] if x in number])
            roots.sort(key=number.__getitem__)
            number = {node: k for k, node in enumerate(roots)}
        below: dict[Node, int] = {}  # as a set of bits: the roots that a root is made from
        for k, node in enumerate(roots):
            below[node] = 1 << k
            for x in needed_by[node]:
                below[node] |= below.get(x, 0)
        before = {node: {x for x in needed_by[node] if x in number} for node in roots}
        for node in roots:
            if node.op.name in OVERWRITES and node.inputs[0] in readers:
                bit = 1 << number[node]
                others = (r for r in readers[node.inputs[0]] if not below[r] & bit)
                before[node].update(others)
        waiting = {node: len(earlier) for node, earlier in before.items()}
        after: dict[Node, list[Node]] = {node: [] for node in roots}
        for node, earlier in before.items():
            for other in earlier:
                after[other].append(node)
        ready = [number[node] for node in roots if not waiting[node]]
        heapq.heapify(ready)
        result: list[Node] = []
        while ready:
            node = roots[heapq.heappop(ready)]
            result.append(node)
            for other in after[node]:
                waiting[other] -= 1
                if not waiting[other]:
                    heapq.heappush(ready, number[other])
        # Two assignments may each want to be after a reader of the other's value.
        return result if len(result) == len(roots) else roots

    def may_write_over(
        self,
        node: Node,
        readers: dict[Node, list[Node]],
        step_of: dict[Node, int],
        in_place: dict[Node, Node],
    ) -> bool:
        """Whether an assignment may go to the memory of the old value: nobody reads that later."""
        if node.op.name not in OVERWRITES or not self.loops[node]:
            return False
        x, v = node.inputs[:2]
        if (x not in self.roots and x not in self.writable) or x in self.outputs:
            return False
        if in_place.get(x, x) in self.writable and node in self.protected:
            return False
        if self.is_library(node):
            reads_itself = x in memory_operands(node)[1:]
        elif self.is_small_assignment(node):
            stored = self.memory | self.roots
            reads_itself = v not in stored and x in _cone(v, stored)
        else:
            return False
        return not reads_itself and all(
            reader is node or reader in step_of for reader in readers[x]
        )

    def reads_of(self, node: Node, reads: dict[Node, dict[Node, bool]]) -> dict[Node, bool]:
        """The roots that `node` reads, and whether only at its own loop indices."""
        result: dict[Node, bool] = {}
        for x in memory_operands(node) if self.is_library(node) else node.inputs:
            aligned = self.is_aligned(node, x)
            is_stored = x in self.roots or x in self.writable
            found = {x: True} if is_stored else reads.get(x, {})
            for root, root_aligned in found.items():
                result[root] = result.get(root, True) and root_aligned and aligned
        return result

    def place(self, node: Node, steps: list[Step], earliest: int) -> int:
        if self.is_library(node):
            steps.append(LibraryStep(node))
            return len(steps) - 1
        is_reduction = self.is_loop_reduction(node)
        shape = node.inputs[0].shape if is_reduction else node.shape
        space = space_of(shape)
        reduced: tuple[int, ...] = ()
        if is_reduction:
            loops = loop_axes(shape)
            axes = reduction_axes(node)
            reduced = tuple(k for k, axis in enumerate(loops) if axis in axes)
        for number in range(earliest, len(steps)):
            step = steps[number]
            if isinstance(step, LibraryStep) or step.in_place or step.space != space:
                continue
            if space and len(step.roots) >= MOST_ROOTS:
                continue
            if is_reduction and step.reduced and step.reduced_axes != reduced:
                continue
            if is_reduction:
                step.reduced_axes = reduced
                step.reduced.append(node)
            else:
                step.stored.append(node)
            return number
        group = Group(space, reduced)
        (group.reduced if is_reduction else group.stored).append(node)
        steps.append(group)
        return len(steps) - 1

    def add_shared_roots(self, steps: list[Step]) -> bool:
        """Store what several kernels would otherwise compute again, at the place where they
        part."""
        cost, source_size = self.inline_costs()
        kernels_of: dict[Node, set[int]] = {}
        for number, step in enumerate(steps):
            if isinstance(step, LibraryStep):
                continue
            stack = [x for root in step.roots for x in root.inputs]
            while stack:
                node = stack.pop()
                if node in self.memory or node in self.roots:
                    continue
                kernels = kernels_of.setdefault(node, set())
                if number not in kernels:
                    kernels.add(number)
                    stack.extend(node.inputs)
        added = False
        for node, kernels in kernels_of.items():
            if len(kernels) < 2 or cost[node] <= CHEAP or node.op.family != "elementwise":
                continue
            if node.type.size >= EXPANSION * source_size[node] or not self.loops[node]:
                continue
            parting = any(kernels_of.get(user, set()) != kernels for user in self.users[node])
            if parting:
                self.roots.add(node)
                added = True
        return added


def _cone(node: Node, stop: set[Node]) -> set[Node]:
    """What `node` is computed from, down to what is in memory, which is included."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            if current not in stop:
                stack += current.inputs
    return seen
