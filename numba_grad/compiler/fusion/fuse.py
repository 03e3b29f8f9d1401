"""Which values of a segment share a kernel, and in which order the kernels run.

Roots (`roots.py`) over the same loops share a kernel, if none of them needs a finished result of
another.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from numba_grad.compiler.fusion.costs import Costs
from numba_grad.compiler.fusion.roots import EXPANSION, Roots, is_small_assignment
from numba_grad.compiler.library_kernels.operands import memory_operands
from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.iteration_spaces import loop_axes, space_of
from numba_grad.compiler.loop_nests.reductions import reduction_axes
from numba_grad.compiler.partition.roles import OVERWRITES, is_library
from numba_grad.graph.node import Node

MOST_ROOTS = 48


@dataclass(slots=True)
class LibraryOperation:
    """An operation with a kernel of its own: a library call, a scan, a sort, a scatter."""

    node: Node
    in_place: bool = False  # it goes to the memory of its first input


Step = Group | LibraryOperation


def fuse(
    order: Sequence[Node],
    outputs: Sequence[Node],
    costs: Costs,
    writable: Collection[Node] = (),
    protected: Collection[Node] = (),
) -> list[Step]:
    """The steps that compute `outputs`, in order.

    Parameters
    ----------
    order : all nodes, inputs before users
    costs : of the target
    writable : arguments that nobody needs afterwards
    protected : outputs that must not lie in the memory of an argument
    """
    groups = _Groups(Roots(order, outputs, writable, costs), frozenset(protected))
    steps = groups.group()
    if groups.add_shared_roots(steps):
        steps = groups.group()
    groups.drop_unread_stores(steps)
    return steps


class _Groups:
    def __init__(self, roots: Roots, protected: Collection[Node]) -> None:
        self.roots = roots
        self.protected = protected
        # Of each root the roots that it reads, and whether only at its own loop indices.
        self.needed_by: dict[Node, dict[Node, bool]] = {}

    def group(self) -> list[Step]:
        needed_by = self.needed_by = {}
        reads: dict[Node, dict[Node, bool]] = {}
        readers: dict[Node, list[Node]] = {}
        for node in self.roots.order:
            if node in self.roots.memory:
                continue
            needed = self.reads_of(node, reads)
            if node not in self.roots.nodes:
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
                if is_library(node):
                    steps.append(LibraryOperation(node, in_place=True))
                else:
                    space = space_of(node.inputs[1].shape)
                    steps.append(Group(space, (), [node], [], in_place=True))
                step_of[node] = len(steps) - 1
                continue
            earliest = 0
            for x, aligned in needed.items():
                if x in self.roots.writable:
                    continue
                joins = (
                    aligned
                    and x not in in_place
                    and not self.roots.is_loop_reduction(x)
                    and not is_library(x)
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
        if self.roots.partial_sums:
            # As soon as the terms are there, which until then take memory.
            for node in roots:
                if node in self.roots.partial_sums:
                    number[node] = max(
                        [number[x] for x in needed_by[node] if x in number], default=0
                    )
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
        result = _in_order(roots, before)
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
        if node.op.name not in OVERWRITES or not self.roots.loops[node]:
            return False
        x, v = node.inputs[:2]
        if (x not in self.roots.nodes and x not in self.roots.writable) or x in self.roots.outputs:
            return False
        if in_place.get(x, x) in self.roots.writable and node in self.protected:
            return False
        if is_library(node):
            reads_itself = x in memory_operands(node)[1:]
        elif is_small_assignment(node):
            stored = self.roots.memory | self.roots.nodes
            reads_itself = v not in stored and x in _cone(v, stored)
        else:
            return False
        return not reads_itself and all(
            reader is node or reader in step_of for reader in readers[x]
        )

    def reads_of(self, node: Node, reads: dict[Node, dict[Node, bool]]) -> dict[Node, bool]:
        """The roots that `node` reads, and whether only at its own loop indices."""
        result: dict[Node, bool] = {}
        for x in memory_operands(node) if is_library(node) else node.inputs:
            aligned = self.roots.reading.is_aligned(node, x)
            is_stored = x in self.roots.nodes or x in self.roots.writable
            found = {x: True} if is_stored else reads.get(x, {})
            for root, root_aligned in found.items():
                result[root] = result.get(root, True) and root_aligned and aligned
        return result

    def place(self, node: Node, steps: list[Step], earliest: int) -> int:
        if is_library(node):
            steps.append(LibraryOperation(node))
            return len(steps) - 1
        is_reduction = self.roots.is_loop_reduction(node)
        shape = node.inputs[0].shape if is_reduction else node.shape
        space = space_of(shape)
        reduced: tuple[int, ...] = ()
        if is_reduction:
            loops = loop_axes(shape)
            axes = reduction_axes(node)
            reduced = tuple(k for k, axis in enumerate(loops) if axis in axes)
        for number in range(earliest, len(steps)):
            step = steps[number]
            if isinstance(step, LibraryOperation) or step.in_place or step.space != space:
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

    def drop_unread_stores(self, steps: Sequence[Step]) -> None:
        """Store nothing that only its own kernel reads, at the same element: there it is in a
        register."""
        readers: dict[Node, list[Node]] = {}
        for node, needed in self.needed_by.items():
            for x in needed:
                readers.setdefault(x, []).append(node)
        for step in steps:
            if isinstance(step, LibraryOperation) or step.in_place:
                continue
            own = set(step.roots)
            for node in list(step.stored):
                users = readers.get(node, [])
                if not users or node in self.roots.outputs:
                    continue
                if all(user in own and self.needed_by[user][node] for user in users):
                    step.stored.remove(node)
                    own.remove(node)
                    self.roots.nodes.discard(node)
                    self.hand_on(node, users, readers)

    def hand_on(self, node: Node, users: Sequence[Node], readers: dict[Node, list[Node]]) -> None:
        """What a value that is not stored reads, its users do."""
        for x, is_aligned in self.needed_by.pop(node).items():
            of_x = readers[x]
            of_x.remove(node)
            for user in users:
                needed = self.needed_by[user]
                if x not in needed:
                    of_x.append(user)
                needed[x] = needed.get(x, True) and is_aligned

    def add_shared_roots(self, steps: list[Step]) -> bool:
        """Store what several kernels would otherwise compute again, at the place where they
        part."""
        if self.roots.are_numbers:
            return False
        cost, source_size = self.roots.inline_costs()
        kernels_of: dict[Node, set[int]] = {}
        for number, step in enumerate(steps):
            if isinstance(step, LibraryOperation):
                continue
            stack = [x for root in step.roots for x in root.inputs]
            while stack:
                node = stack.pop()
                if node in self.roots.memory or node in self.roots.nodes:
                    continue
                kernels = kernels_of.setdefault(node, set())
                if number not in kernels:
                    kernels.add(number)
                    stack.extend(node.inputs)
        added = False
        for node, kernels in kernels_of.items():
            nbytes = self.roots.bytes_of_component(node)
            if (
                len(kernels) < 2
                or not self.roots.costs.is_worth_sharing(cost[node], len(kernels), nbytes)
                or node.op.family not in ("elementwise", "reduction")
            ):
                continue
            is_expansion = node.type.size >= EXPANSION * source_size[node]
            is_large = nbytes > self.roots.costs.bytes_in_cache
            if (is_expansion and is_large) or not self.roots.loops[node]:
                continue
            parting = any(kernels_of.get(user, set()) != kernels for user in self.roots.users[node])
            if parting:
                self.roots.nodes.add(node)
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


def _in_order(nodes: Sequence[Node], before: Mapping[Node, Collection[Node]]) -> list[Node]:
    """`nodes` in their order, but for those that have to wait for others, which are `before` them;
    without those that wait for each other."""
    number = {node: k for k, node in enumerate(nodes)}
    waiting = {node: len(earlier) for node, earlier in before.items()}
    after: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node, earlier in before.items():
        for other in earlier:
            after[other].append(node)
    ready = [number[node] for node in nodes if not waiting[node]]
    heapq.heapify(ready)
    result: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        result.append(node)
        for other in after[node]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, number[other])
    return result
