"""A fused group -> the kernel IR.

Every value is evaluated at an *index*: movement ops only change the index, so they cost nothing and
are never stored (`index_rules.py`). Conditions of pads, concatenations and slice assignments are
intervals of loop variables (`conditions.py`); the loop is cut at their bounds (`loop_cuts.py`), so
that the interior runs without them.

A group with loops is lowered twice: a first pass over whole index ranges collects accesses and
conditions; from them follow the order of loops, which axes merge (`loop_order.py`), and where
ranges are cut; the second pass writes the code.
"""

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.index_rules import broadcast, factors_of, value_at
from numba_grad.compiler.loop_nests.iteration_spaces import (
    Factor,
    Index,
    is_loop,
    literal_index,
    position,
    unrolled_indices,
    variable,
)
from numba_grad.compiler.loop_nests.kernel_ir import (
    OTHER,
    Accumulator,
    Apply,
    Axis,
    Body,
    Buffer,
    IndexRange,
    Let,
    Load,
    LoopNest,
    Piece,
    Store,
    Update,
    Variant,
    Word,
    first_of,
)
from numba_grad.compiler.loop_nests.loop_cuts import (
    LONG_BODY,
    MOST_SCALAR,
    MOST_TOGETHER,
    Interval,
    Known,
    Ranges,
    ReductionBlocks,
    around,
    cuts,
    main_ranges,
    number_of_blocks,
    pieces,
)
from numba_grad.compiler.loop_nests.loop_order import Survey, loop_order, mergeable_loops
from numba_grad.compiler.loop_nests.reductions import (
    ARG_REDUCTIONS,
    SAME_AND_BEFORE,
    SUM_OF_PRODUCTS,
    extreme,
    identity_of,
    reduction_axes,
)
from numba_grad.compiler.loop_nests.value_numbering import (
    BOOL,
    INT64,
    LongNest,
    Values,
    constant,
)
from numba_grad.compiler.scalar_expressions import expression_of, parsed
from numba_grad.compiler.segment_memory import Place
from numba_grad.graph.node import Node

# Values that a kernel without loops takes a pointer each to. Each is a word to fill in and to load.
MOST_POINTERS = 12
# Bytes between values in a block, above which each has a pointer: those of the step before and of
# the first one are as far from each other as the steps are.
NEAR = 64


def lower_group(
    group: Group,
    place_of: Callable[[Node], Place | None],
    reduction_blocks: ReductionBlocks | None,
    long: int | None = None,
) -> LoopNest:
    """The kernel of `group`; `place_of` says where a value is in memory, None where it is computed
    here. Raises LongNest where one with loops has more values than `long`.

    With `blocks > 1` each reduction writes one result per block, to the memory named `("partial",
    node)`. Without `reduction_blocks` there is nothing to cut, as where the results of blocks are
    reduced: they are too few for vector code as well.
    """
    if not group.space:
        return _straight_kernel(group, place_of, reduction_blocks)
    names = tuple(f"i{k}" for k in range(len(group.space)))
    extents = dict(zip(names, group.space, strict=True))
    known: Known = {name: [(0, n)] for name, n in extents.items()}
    reduced = tuple(names[k] for k in group.reduced_axes)
    indices = {name: variable(name) for name in names}
    survey = Survey()
    values = Values(group.stored, place_of, extents, names, survey=survey)
    # To find out how much longer it is would take as long as to lower it.
    values.most_values = None if long is None else 2 * long
    _Lowering(group, values, indices, reduced).survey(known)
    if long is not None and len(values.body.lets) > long:
        raise LongNest(len(values.body.lets))
    is_long = len(values.body.lets) > LONG_BODY

    order = loop_order(group, names, reduced, survey)
    for outer, inner in mergeable_loops(order, reduced, extents, survey):
        extents[inner] *= extents.pop(outer)
        indices[outer] = Index()
        order = tuple(name for name in order if name != outer)
    reduced = tuple(name for name in reduced if name in extents)
    values = Values(group.stored, place_of, extents, order)
    # Merged axes have no conditions that change within the range they had: that one is to assume.
    known = {name: known[name] for name in order}
    lowering = _Lowering(group, values, indices, reduced, is_long=is_long)
    return lowering.kernel(survey.conditions, known, reduction_blocks)


def _straight_kernel(
    group: Group,
    place_of: Callable[[Node], Place | None],
    reduction_blocks: ReductionBlocks | None,
) -> LoopNest:
    """The kernel of a group without loops.

    Its pointers are to the first element that it reads or writes, so that it is the same for each
    column of a matrix, and wherever in a block its values are. Of many values there is one pointer
    to all in a block that are near each other, in place of one to each.
    """
    values = Values(group.stored, place_of, {}, ())
    kernel = _Lowering(group, values, {}, ()).kernel([], {}, reduction_blocks)
    is_by_block = len(kernel.buffers) > MOST_POINTERS
    places: dict[Buffer, tuple[object, int]] = {}  # what one pointer is for, and the byte there
    for buffer in kernel.buffers:
        place = kernel.words[buffer.word].memory
        assert isinstance(place, Place)
        key = (place.memory, buffer.dtype) if is_by_block else buffer
        places[buffer] = key, place.offset
    (variant,) = kernel.variants
    (piece,) = variant.pieces
    every_let = (*variant.lets, piece.body.lets)
    loads = [
        let.expression for lets in every_let for let in lets if isinstance(let.expression, Load)
    ]
    read_or_written: dict[object, set[int]] = {}  # bytes
    for buffer, where, *_ in (*loads, *piece.body.stores):
        key, byte = places[buffer]
        byte += _elements_by_text(where) * buffer.dtype.itemsize
        read_or_written.setdefault(key, set()).add(byte)
    # Where in a memory each pointer is to.
    starts = {key: _starts_of_groups(sorted(found)) for key, found in read_or_written.items()}

    def start_of(buffer: Buffer, byte: int) -> tuple[object, int]:
        key, _ = places[buffer]
        return key, starts[key][bisect.bisect(starts[key], byte) - 1]

    words: list[Word] = []
    buffers: dict[object, Buffer] = {}
    of_word = {buffer.word: buffer for buffer in kernel.buffers}
    for number, word in enumerate(kernel.words):
        if number not in of_word:
            words.append(word)
            continue
        dtype = of_word[number].dtype
        key, _ = places[of_word[number]]
        for start in starts[key]:
            if (key, start) not in buffers:
                name = f"x{len(buffers)}"
                assert isinstance(word.memory, Place)
                buffers[key, start] = Buffer(name, len(words), dtype)
                words.append(Word(name, memory=Place(word.memory.memory, start)))

    def at(buffer: Buffer, position: Index) -> tuple[Buffer, Index]:
        _, byte = places[buffer]
        key = start_of(buffer, byte + _elements_by_text(position) * buffer.dtype.itemsize)
        elements = (byte - key[1]) // buffer.dtype.itemsize
        return buffers[key], position.shifted(elements, literal=True)

    for lets in every_let:
        for number, (name, value) in enumerate(lets):
            if isinstance(value, Load):
                lets[number] = Let(name, Load(*at(*value)))
    piece.body.stores = [Store(*at(x.buffer, x.position), x.value) for x in piece.body.stores]
    return replace(kernel, words=words, buffers=list(buffers.values()))


def _elements_by_text(position: Index) -> int:
    """From where a memory begins, without what a kernel is told when it runs: never outside of the
    memory, as `-2` of `c9 - 2` would be."""
    return max(min(position.literal, position.constant), 0)


def _starts_of_groups(numbers: Sequence[int]) -> list[int]:
    """The first one of each group of increasing numbers that are near each other, if they are
    groups, not as of a column one by one."""
    first = numbers[0]
    starts = [first, *[y for x, y in itertools.pairwise(numbers) if y - x > NEAR]]
    return starts if 2 * len(starts) <= len(numbers) else [first]


class _Lowering:
    """One pass over a group. `indices` maps each loop axis of the group to the index that stands
    for it. `is_long`: the innermost loop has many values, in a piece without conditions."""

    def __init__(
        self,
        group: Group,
        values: Values,
        indices: dict[str, Index],
        reduced: tuple[str, ...],
        *,
        is_long: bool = False,
    ) -> None:
        self.group = group
        self.values = values
        self.indices = indices
        self.reduced = reduced
        self.accumulators: dict[object, Accumulator] = {}
        self.merges: list[Update] = []
        self.blocks = 1
        self.in_blocks = False
        self.is_long = is_long
        self.is_short = False  # the innermost loop

    # The two passes

    def survey(self, known: Known) -> None:
        self.values.start_variant()
        self.values.start_piece(known)
        self.write_roots()

    def kernel(
        self, conditions: list[Interval], known: Known, reduction_blocks: ReductionBlocks | None
    ) -> LoopNest:
        values, order, extents = self.values, self.values.order, self.values.extents
        if reduction_blocks is None:
            self.is_short = order[-1] in self.reduced
        else:
            self.blocks = number_of_blocks(
                self.group, order, self.reduced, extents, reduction_blocks
            )
            # A sum over everything has the same text for one block and for many: it grows with its
            # input.
            self.in_blocks = self.blocks > 1 or len(self.reduced) == len(order) > 0
        axes = [
            Axis(name, extents[name], self.bound_of_axis(name), name in self.reduced)
            for name in order
        ]
        interior = main_ranges(order[:-1], extents, conditions)
        variants = []
        if interior:
            inside: Known = {name: [bounds] for name, bounds in interior.items()}
            variants.append(self.variant(interior, conditions, known | inside))
            known = known | around(interior, extents, conditions)
        is_long = any(len(x.body.lets) > LONG_BODY for v in variants for x in v.pieces)
        variants.append(self.variant({}, conditions, known, is_cut=not is_long))
        return LoopNest(
            axes,
            values.words,
            list(values.buffers.values()),
            list(self.accumulators.values()),
            variants,
            [
                f"{node.op.name}: {node.dtype.name}, {len(node.shape)}-d"
                for node in self.group.roots
            ],
            self.blocks,
            values.word("blocks", "blocks", self.blocks) if self.in_blocks else "",
            values.operations // len(variants),
            merges=self.merges,
        )

    def bound_of_axis(self, name: str) -> str:
        return self.values.word(("extent", name), "n", self.values.extents[name])

    def variant(
        self,
        interior: Ranges,
        conditions: list[Interval],
        known: Known,
        *,
        is_cut: bool = True,
    ) -> Variant:
        """For these rows. `is_cut`: the innermost loop, where conditions on its variable change."""
        values, order = self.values, self.values.order
        values.start_variant()
        written: list[Piece] = []
        if not order:
            written.append(Piece("0", "1", self.piece_of(known)))
        else:
            innermost = order[-1]
            own = [c for c in conditions if is_cut and c.variable == innermost]
            bounds = cuts(innermost, values.extents[innermost], own)
            parts = pieces(bounds, known[innermost][0])
            body: Body | None = None
            are_of_indices = all(c.is_of_index for c in own)
            if self.is_long and are_of_indices and 2 < len(bounds) <= MOST_TOGETHER:
                ranges = list(itertools.pairwise(bounds))
                parts = [(start, stop, (start, stop)) for start, stop in ranges]
                body = self.piece_of(known | {innermost: ranges}, first_of(innermost))
            for start, stop, assumed in parts:
                own_body = body or self.piece_of(known | {innermost: [assumed]})
                is_narrow = (
                    body is None
                    and len(bounds) > 2
                    and stop - start <= MOST_SCALAR
                    and (not own_body.updates or len(own_body.lets) > LONG_BODY)
                )
                written.append(
                    Piece(
                        values.bound(innermost, start),
                        values.bound(innermost, stop),
                        own_body,
                        is_scalar=self.is_short or is_narrow or not is_cut,
                    )
                )
        where = [
            IndexRange(name, values.bound(name, start), values.bound(name, stop))
            for name, (start, stop) in interior.items()
        ]
        return Variant(where, values.levels[: len(order)] or values.levels, written)

    def piece_of(self, known: Known, first: str = "") -> Body:
        """The body of a piece, or of all of them, of which `first` is the first index of each."""
        self.values.start_piece(known, first)
        self.write_roots()
        return self.values.body

    # Roots

    def write_roots(self) -> None:
        for node in self.group.stored:
            if self.group.in_place:
                self.assign_region(node)
            else:
                self.store_all(node)
        for node in self.group.reduced:
            self.reduce_all(node)

    def filled(self, pattern: tuple[int | None, ...]) -> tuple[Index, ...]:
        """A pattern of unrolled indices with the loops' indices in the gaps."""
        loops = iter(self.indices.values())
        return tuple(next(loops) if k is None else literal_index(k) for k in pattern)

    def store_all(self, node: Node) -> None:
        place = self.values.place_of(node)
        assert place is not None
        for pattern in unrolled_indices(node.shape):
            index = self.filled(pattern)
            value = value_at(self.values, node, index)
            self.values.store(place, node.dtype, position(node.shape, index), value)

    def assign_region(self, node: Node) -> None:
        """Write, or add, the assigned value where the old one stands."""
        x, v = node.inputs
        place = self.values.place_of(node)
        assert place is not None
        for pattern in unrolled_indices(v.shape):
            index = self.filled(pattern)
            value = value_at(self.values, v, index)
            where = tuple(
                i.times(Factor(step, True)).shifted(start, not is_loop(n))
                for i, start, step, n in zip(
                    index, node.params["starts"], node.params["steps"], x.shape, strict=True
                )
            )
            target = position(node.shape, where)
            if node.op.name == "add_slice":
                old = self.values.load(place, node.dtype, target)
                casts = node.dtype.kind in "iub"
                value = self.values.apply("{x} + {y}", node.dtype, casts=casts, x=old, y=value)
                self.values.operations += 1
            self.values.store(place, node.dtype, target, value)

    def reduce_all(self, node: Node) -> None:
        (x,) = node.inputs
        axes = reduction_axes(node)
        for pattern in unrolled_indices(x.shape):
            index = self.filled(pattern)
            factors = factors_of(self.values, x) if node.op.name == "sum" else None
            if factors is None:
                operands = {"value": value_at(self.values, x, index)}
            else:
                operands = {
                    name: value_at(self.values, factor, broadcast(index, factor.shape))
                    for name, factor in zip(("x", "y"), factors, strict=True)
                }
            kept = tuple(i for axis, i in enumerate(index) if axis not in axes)
            where = position(node.shape, kept)
            self.values.operations += len(operands)
            if node.op.name in ARG_REDUCTIONS:
                self.update_arg(node, where, index[axes[0]], operands["value"])
            else:
                accumulator = self.accumulator(node, where, identity_of(node), node.dtype, True)
                name = accumulator.name
                self.values.body.updates.append(Update(name, _combined(node, name, **operands)))
                self.merge(Update(name, _combined(node, name, value=OTHER + name)))

    def update_arg(self, node: Node, where: Index, along: Index, value: str) -> None:
        dtype = node.inputs[0].dtype
        best = self.accumulator(node, where, extreme(dtype, node.op.name[3:]), dtype, False)
        chosen = self.accumulator(node, where, 0, INT64, True)
        better = f"better_{chosen.name}"
        number = self.values.index_value(along)
        is_better = ARG_REDUCTIONS[node.op.name]
        first_or_better = parsed(f"({{n}} == 0) | ({is_better})")
        operands = (("n", number), ("value", value), ("best", best.name))
        self.values.body.updates += [
            Update(better, Apply(first_or_better, operands, BOOL, False)),
            Update(chosen.name, _select_text(better, number, chosen.name, INT64)),
            Update(best.name, _select_text(better, value, best.name, dtype)),
        ]
        other, other_number = OTHER + best.name, OTHER + chosen.name
        operands = (
            ("value", other),
            ("best", best.name),
            ("number", other_number),
            ("chosen", chosen.name),
        )
        better_or_before = parsed(f"({is_better}) | ({SAME_AND_BEFORE})")
        self.merge(
            Update(better, Apply(better_or_before, operands, BOOL, False)),
            Update(chosen.name, _select_text(better, other_number, chosen.name, INT64)),
            Update(best.name, _select_text(better, other, best.name, dtype)),
        )

    def merge(self, *updates: Update) -> None:
        """Remember how accumulators of two parts become one, once for each of them."""
        known = {update.name for update in self.merges}
        self.merges += [update for update in updates if update.name not in known]

    def accumulator(
        self, node: Node, where: Index, identity: object, dtype: np.dtype, is_result: bool
    ) -> Accumulator:
        key = (node, where, is_result)
        found = self.accumulators.get(key)
        if found is None:
            buffer, block_size = None, "0"
            place = self.values.place_of(node)
            assert place is not None
            if is_result:
                if self.blocks > 1:
                    place = Place(("partial", node))
                if self.in_blocks:
                    block_size = self.values.word(("block size", node), "m", node.type.size)
                buffer, where = self.values.locate(place, dtype, where)
            named = self.values.named(where, ("result", node))
            found = Accumulator(
                f"a{len(self.accumulators)}", constant(identity, dtype), buffer, named, block_size
            )
            self.accumulators[key] = found
        return found


def _combined(node: Node, accumulator: str, **operands: str) -> Apply:
    term = expression_of(node) if "value" in operands else parsed(SUM_OF_PRODUCTS)
    own = (("accumulator", accumulator), *operands.items())
    return Apply(term, own, node.dtype, node.dtype.kind in "iub")


def _select_text(condition: str, x: str, y: str, dtype: np.dtype) -> Apply:
    operands = (("c", condition), ("x", x), ("y", y))
    return Apply(parsed("select({c}, {x}, {y})"), operands, dtype, False)
