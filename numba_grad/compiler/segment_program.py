"""One segment: a small graph with its inputs as arguments -> kernel sources and what their words
hold.

Made once for each distinct segment of a process; a plan contains it as often as the graph does.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from numba_grad.compiler.fusion.fuse import LibraryOperation, fuse
from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.iteration_spaces import (
    COMPUTING,
    Unrolling,
    are_unrolled_alike,
    space_of,
    unrolled,
    unrolling_for,
)
from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.compiler.loop_nests.loop_cuts import fewest_blocks
from numba_grad.compiler.loop_nests.lowering import lower_group
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS
from numba_grad.compiler.loop_nests.value_numbering import LongNest
from numba_grad.compiler.partition.roles import is_library
from numba_grad.compiler.passes.added_products import added_products
from numba_grad.compiler.passes.of_every_target import PRODUCTS
from numba_grad.compiler.segment_memory import Output, Place, SegmentMemory, Small, Temporary
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.target import GraphPass, Target
from numba_grad.compiler.words import Pointer
from numba_grad.config import config
from numba_grad.graph.check import check
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple


@dataclass(slots=True)
class SegmentProgram:
    """What a segment compiles to."""

    steps: list[ScheduledStep]
    outputs: list[Place]  # of each result: an Output, or a Small and its first element
    temporaries: list[int]  # bytes
    small: dict[np.dtype, int]  # elements
    spare_sources: list[str]  # kernels that the same graph of larger arrays has in addition
    graph: list[Node] = field(default_factory=list)  # the simplified results, for showing


def compile_segment(
    target: Target,
    results: Sequence[Node],
    places: dict[Node, Place],
    has_own_memory: Sequence[bool],
    writable: Collection[Node] = (),
    summed: Collection[Node] = (),
) -> SegmentProgram:
    """Compile the graph of `results`: the target's passes over the graph, then fuse, lower, emit.

    Parameters
    ----------
    places : of the argument nodes
    has_own_memory : for each result, whether it must be an array of its own rather than part of a
        block, or in the memory of an argument
    writable : the argument nodes whose memory may be written over
    summed : those of them to which products may be added there
    """
    outputs = list(results)
    present = {node.op.name for node in toposort(outputs)}
    passes = [*target.passes]
    if target.adds_products:
        added = partial(added_products, writable=summed)
        passes.append(GraphPass("added products", added, PRODUCTS))
    for each in passes:
        if each.operations is None or not each.operations.isdisjoint(present):
            outputs = each.rewritten(outputs)
        if config.check_passes:
            check(each.name, results, outputs)
    outputs = _with_copies(outputs, places, has_own_memory)
    order = toposort(outputs)
    computing = [node for node in order if node.op.family in COMPUTING]
    costs = [(node.shape, node.op.cost) for node in computing]
    unrolling = unrolling_for(costs, is_one_loop=_is_one_loop(order))
    protected = [node for node, own in zip(outputs, has_own_memory, strict=True) if own]

    def emitted(unrolling: Unrolling, long: int | None = None) -> _Emitted:
        builder = _SegmentBuilder(target, outputs, places, has_own_memory, long)
        with unrolled(unrolling):
            steps = fuse(order, outputs, target.costs, writable, protected)
            builder.emit(steps)
        return _Emitted(unrolling, builder, len(steps))

    unrolling, builder, count = _with_short_nests(
        emitted, unrolling, {node.shape for node in order}
    )
    has_small_arrays = any(node.type.size > 1 for node in computing)
    if has_small_arrays and builder.longest > LINES_OF_KERNEL:
        in_loops = _SegmentBuilder(target, outputs, places, has_own_memory)
        with unrolled(unrolling._replace(elements=1)):
            steps_in_loops = fuse(order, outputs, target.costs, writable, protected)
            if len(steps_in_loops) <= (1 + MORE_STEPS) * count:
                in_loops.emit(steps_in_loops)
                builder = in_loops
    return SegmentProgram(
        target.join(builder.steps, builder.nbytes_of),
        builder.output_places,
        builder.temporaries,
        builder.small,
        builder.spare_sources,
        outputs,
    )


def _with_copies(
    outputs: Sequence[Node], places: Collection[Node], has_own_memory: Sequence[bool]
) -> list[Node]:
    """Outputs that turned out to be equal to another one, or to an argument, and yet need their own
    array, are copies: whatever loops over the same elements makes them as well."""
    known = set(places)
    result = []
    for node, needs_own in zip(outputs, has_own_memory, strict=True):
        if needs_own:
            if node in known:
                node = record(OPS["reshape"], (node,), {"shape": node.shape})
            known.add(node)
        result.append(node)
    return result


class _Emitted(NamedTuple):
    unrolling: Unrolling
    builder: "_SegmentBuilder"
    steps: int


def _with_short_nests(
    emitted: Callable[..., _Emitted], unrolling: Unrolling, shapes: Collection[tuple[int, ...]]
) -> _Emitted:
    """A segment with arrays of these shapes, unrolled so far, or with fewer copies of rows, where
    that makes the longest nest half as long."""
    fewer = unrolling._replace(copies=(unrolling.copies - 1) // 2)
    if unrolling.copies <= 1 or are_unrolled_alike(shapes, unrolling, fewer):
        return emitted(unrolling)
    first: _Emitted | None = None
    try:
        first = emitted(unrolling, LINES_OF_NEST)
        longest = first.builder.longest_nest
        if longest <= LINES_OF_NEST:
            return first
    except LongNest as found:
        longest = found.values
    shorter = emitted(fewer)
    if 2 * shorter.builder.longest_nest < longest:
        return shorter
    if first is None:
        first = emitted(unrolling)
        if 2 * shorter.builder.longest_nest < first.builder.longest_nest:
            return shorter
    return first


# Lines of a kernel without loops, at most, but for those of its arguments, which are as many as
# values come from outside: to compile each takes 0.15 ms. Where one is longer,
# small arrays are not written out, if that does not take more steps, which sums of few numbers
# may: entering a kernel takes as long as twenty operations.
LINES_OF_KERNEL = 300
MORE_STEPS = 1 / 16
# The same of one with loops, in whose rows short axes are written out: what a copy of a row reads
# of others multiplies, as where each of 16 rows of a grid reads 9 components.
LINES_OF_NEST = 600


def _is_one_loop(order: Sequence[Node]) -> bool:
    """Whether all that is computed in loops has one shape, element by element: rows that are
    written out have nothing in common then, and LLVM makes vector code of no more than a few
    arrays."""
    read = {x for node in order if not is_library(node) for x in node.inputs}
    shapes = set()
    for node in order:
        if node.type.size == 1 or is_library(node):
            continue
        if node.op.family == "elementwise":
            shapes.update(x.shape for x in (node, *node.inputs) if x.type.size != 1)
            continue
        is_moved = node in read and any(x.type.size != 1 for x in node.inputs)
        if is_moved or node.op.family not in ("movement", "leaf"):
            return False
    return len(shapes) == 1


class _SegmentBuilder:
    def __init__(
        self,
        target: Target,
        outputs: list[Node],
        places: dict[Node, Place],
        has_own_memory: Sequence[bool],
        long: int | None = None,
    ) -> None:
        """`long`: values of a nest with which it is given up, by LongNest."""
        self.target = target
        self.long = long
        self.outputs = outputs
        self.places: dict[Node, Place] = dict(places)
        self.has_own_memory = has_own_memory
        # Each with the kernel that it was made from; None if it does not follow its loops.
        self.steps: list[tuple[ScheduledStep, LoopNest | None]] = []
        self.spare_sources: list[str] = []
        self.temporaries: list[int] = []
        self.small: dict[np.dtype, int] = {}
        self.output_number: dict[Node, int] = {}
        for number, node in enumerate(outputs):
            # Of equal outputs the first that is an array of its own gets computed, others are
            # copies.
            first = self.output_number.get(node)
            if first is None or (has_own_memory[number] and not has_own_memory[first]):
                self.output_number[node] = number

    # Memory

    def place_steps(self, steps: list[Group | LibraryOperation]) -> None:
        """Memory for every root. An assignment in place shares that of the old value, all along a
        chain of them."""
        roots_of = [[s.node] if isinstance(s, LibraryOperation) else s.roots for s in steps]
        in_place = {
            node for s, roots in zip(steps, roots_of, strict=True) if s.in_place for node in roots
        }
        written_over = {node.inputs[0]: node for node in in_place}
        for roots in roots_of:
            for node in roots:
                if node in in_place:
                    self.places[node] = self.places[node.inputs[0]]
                    continue
                last = node
                while last in written_over:
                    last = written_over[last]
                self.places[node] = self.new_place(last)

    def new_place(self, node: Node) -> Place:
        number = self.output_number.get(node)
        if number is not None and self.has_own_memory[number]:
            return Place(Output(number))
        if space_of(node.shape) == ():
            offset = self.small.get(node.dtype, 0)
            self.small[node.dtype] = offset + node.type.size
            return Place(Small(node.dtype), offset)
        if number is not None:
            return Place(Output(number))
        return Place(self.temporary(node.type.nbytes))

    def temporary(self, nbytes: int) -> Temporary:
        self.temporaries.append(nbytes)
        return Temporary(len(self.temporaries) - 1)

    def nbytes_of(self, memory: SegmentMemory) -> int | None:
        """Of memory that holds one array of this segment's own."""
        match memory:
            case Temporary(number):
                return self.temporaries[number]
            case Output(number):
                return self.outputs[number].type.nbytes
        return None

    @property
    def output_places(self) -> list[Place]:
        result = []
        for number, node in enumerate(self.outputs):
            if self.has_own_memory[number]:
                result.append(Place(Output(number)))
            else:
                result.append(self.places[node])
        return result

    # Code

    def emit(self, steps: list[Group | LibraryOperation]) -> None:
        self.place_steps(steps)
        for step in steps:
            self.emit_step(step)

    @property
    def longest(self) -> int:
        """Lines of the longest kernel without loops."""
        return self._longest(has_loops=False)

    @property
    def longest_nest(self) -> int:
        """Lines of the longest kernel with loops."""
        return self._longest(has_loops=True)

    def _longest(self, *, has_loops: bool) -> int:
        return max(
            (
                step.source.count("\n") - len(kernel.words)
                for step, kernel in self.steps
                if kernel is not None and bool(kernel.axes) == has_loops
            ),
            default=0,
        )

    def emit_step(self, step: Group | LibraryOperation) -> None:
        if isinstance(step, LibraryOperation):
            steps = self.target.library_steps(
                step.node, self.places, self.temporary, in_place=step.in_place
            )
            self.steps += [(lowered, None) for lowered in steps]
            return
        self.emit_group(step, self.places)

    def emit_group(self, group: Group, places: dict[Node, Place]) -> None:
        copied = {node: place for node in group.roots if (place := _copied(node, places))}
        if len(copied) == len(group.roots) and (group.space or len(copied) == 1):
            for node, source in copied.items():
                self.copy(node, source, places[node])
            return
        kernel = lower_group(group, places.get, self.target.reduction_blocks, self.long)
        if any(axis.extent == 0 for axis in kernel.kept):
            # No results: what it loads before its loops, and tests, would not be there.
            return
        partials: dict[object, Temporary] = {}
        if kernel.blocks > 1:
            for node in group.reduced:
                partials["partial", node] = self.temporary(kernel.blocks * node.type.nbytes)
        self.steps.append((self.target.kernel_step(kernel, partials), kernel))
        if kernel.blocks_word:
            self.combine_blocks(group, kernel.blocks, partials, places)

    def copy(self, node: Node, source: Place, target: Place) -> None:
        """By the kernel that all copies share."""
        if not node.type.nbytes:
            return
        itemsize = node.dtype.itemsize
        step = self.target.copy_step(itemsize, node.type.nbytes)
        words = [Pointer(place.memory, place.offset * itemsize) for place in (source, target)]
        memory = [source.memory, target.memory]
        self.steps.append((step.over([*words, *step.words], memory), None))

    def combine_blocks(
        self,
        group: Group,
        blocks: int,
        partials: dict[object, Temporary],
        places: dict[Node, Place],
    ) -> None:
        """The second kernel of reductions in blocks. With one block it is not run, but built, so
        that a larger array needs no new kernel."""
        if any(node.op.name in ARG_REDUCTIONS for node in group.reduced):
            return  # always one block
        for node in group.reduced:
            extent = blocks if blocks > 1 else fewest_blocks()
            stand_in = argument(array_type((extent, *node.shape), node.dtype))
            combined = record(node.op, (stand_in,), {"axes": (0,)})
            partial: object = partials["partial", node] if blocks > 1 else "not run"
            inner = {stand_in: Place(partial), combined: places[node]}
            reduced = Group(space_of(stand_in.shape), (0,), [], [combined])
            kernel = lower_group(reduced, inner.get, None)
            step = self.target.kernel_step(kernel, {})
            if blocks > 1:
                self.steps.append((step, kernel))
            else:
                self.spare_sources.append(step.source)


def _copied(node: Node, places: dict[Node, Place]) -> Place | None:
    """Where the elements of a node are in their order, if it is but a copy of them."""
    if node.op.name != "reshape":
        return None
    while node.op.name == "reshape":
        (node,) = node.inputs
    return places.get(node)
