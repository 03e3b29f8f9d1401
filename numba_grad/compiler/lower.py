"""A fused group -> the kernel IR.

Every value is evaluated at an *index*: movement ops only change the index, so they cost nothing and
are never stored. Conditions of
pads, concatenations and slice assignments are intervals of loop variables; the loop is cut at their
bounds, so that the
interior runs without them.

A group is lowered twice: a first pass over whole index ranges collects accesses and conditions;
from them follow the order of
loops, which axes merge, and where ranges are cut; the second pass writes the code.
"""

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from numba_grad.compiler.loops import (
    Accumulator,
    Apply,
    Axis,
    Body,
    Buffer,
    Constant,
    Expression,
    IndexValue,
    Kernel,
    Let,
    Load,
    Piece,
    Range,
    Store,
    Update,
    Variant,
    Word,
)
from numba_grad.compiler.spaces import (
    ONE,
    Factor,
    Index,
    literal_index,
    matching_groups,
    position,
    unrolled_indices,
    variable,
)
from numba_grad.config import config
from numba_grad.errors import InternalError
from numba_grad.graph.node import Node

INT64 = np.dtype(np.int64)
BOOL = np.dtype(bool)
# A piece of a loop shorter than this runs through the general body, which tests its conditions.
SHORTEST_PIECE = 16
MOST_PIECES = 4
# Values that a kernel without loops takes a pointer each to. Each is a word to fill in and to load.
MOST_POINTERS = 12


def fewest_blocks() -> int:
    """Fewer than these would be combined without a loop: by a kernel for each number of them."""
    return config.unroll_extent + 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lives: `source` names the memory, `offset` the first element (in a `Word`, the
    first byte)."""

    source: object
    offset: int = 0


@dataclass(slots=True)
class Group:
    """Nodes that share one loop nest: `stored` ones element by element, and `reduced` ones."""

    space: tuple[int, ...]  # extents of the loops
    reduced_axes: tuple[int, ...]  # which of them are reduced
    stored: list[Node] = field(default_factory=list)
    reduced: list[Node] = field(default_factory=list)
    # The one stored node is an assignment to a region of memory that holds the old value: the loops
    # run over the region.
    in_place: bool = False

    @property
    def roots(self) -> list[Node]:
        return self.stored + self.reduced


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= variable < high`, in numbers of this graph's sizes."""

    variable: str
    low: int
    high: int


@dataclass(slots=True)
class Survey:
    """What the first pass saw."""

    accesses: list[Index] = field(default_factory=list)
    conditions: list[Interval] = field(default_factory=list)
    irregular: set[str] = field(default_factory=set)  # variables used otherwise than in positions
    places: set[Place] = field(default_factory=set)


Steps = Generator[tuple[Node, tuple[Index, ...]], str, str]


ReductionBlocks = Callable[[int, int, int, bool], int]  # see `Target.reduction_blocks`


def lower(
    group: Group, place_of: Callable[[Node], Place | None], reduction_blocks: ReductionBlocks
) -> Kernel:
    """The kernel of `group`; `place_of` says where a value is in memory, None where it is computed
    here.

    With `blocks > 1` each reduction writes one result per block, to the memory named `("partial",
    node)`.
    """
    names = tuple(f"i{k}" for k in range(len(group.space)))
    extents = dict(zip(names, group.space, strict=True))
    reduced = tuple(names[k] for k in group.reduced_axes)
    indices = {name: variable(name) for name in names}
    survey = Survey()
    _Lowering(group, place_of, extents, reduced, names, indices, survey).survey_all()
    order = _loop_order(group, names, reduced, survey)
    known = dict(extents)
    for outer, inner in _mergeable(order, reduced, extents, survey):
        extents[inner] *= extents.pop(outer)
        indices[outer] = Index()
        order = tuple(name for name in order if name != outer)
    reduced = tuple(name for name in reduced if name in extents)
    lowering = _Lowering(group, place_of, extents, reduced, order, indices, None)
    # Merged axes have no conditions that change within the range they had: that one is to assume.
    lowering.known = {name: (0, known[name]) for name in order}
    lowering.addresses_blocks = not names and len(survey.places) > MOST_POINTERS
    return lowering.kernel(survey.conditions, reduction_blocks)


def _loop_order(
    group: Group, names: tuple[str, ...], reduced: tuple[str, ...], survey: Survey
) -> tuple[str, ...]:
    """Kept axes outside, reduced inside, unless memory is contiguous along a kept axis only."""
    kept = tuple(name for name in names if name not in reduced)
    if not reduced or not kept or any(node.op.name in ARG_REDUCTIONS for node in group.reduced):
        return kept + reduced
    strided = dict.fromkeys(names, 0)
    for access in survey.accesses:
        for name, factor in access.terms:
            if name in strided and not (factor.literal and abs(factor.value) <= 8):
                strided[name] += 1
    if strided[reduced[-1]] > strided[kept[-1]]:
        return kept[:-1] + reduced + kept[-1:]
    return kept + reduced


def _mergeable(
    order: tuple[str, ...], reduced: tuple[str, ...], extents: dict[str, int], survey: Survey
) -> list[tuple[str, str]]:
    """Pairs (outer, inner) of neighbouring loops that every access sees as one long axis."""
    result: list[tuple[str, str]] = []
    extents = dict(extents)
    accesses = [{name: f.value for name, f in access.terms} for access in survey.accesses]
    unmergeable = survey.irregular | {c.variable for c in survey.conditions}
    inner = order[-1] if order else ""
    for outer in reversed(order[:-1]):
        alike = (outer in reduced) == (inner in reduced)
        if (
            alike
            and outer not in unmergeable
            and inner not in unmergeable
            and all(a.get(outer, 0) == a.get(inner, 0) * extents[inner] for a in accesses)
        ):
            result.append((outer, inner))
            extents[inner] *= extents[outer]
        else:
            inner = outer
    return result


class _Lowering:
    """One pass over a group. `indices` maps each loop axis of the group to the index that stands
    for it."""

    def __init__(
        self,
        group: Group,
        place_of: Callable[[Node], Place | None],
        extents: dict[str, int],
        reduced: tuple[str, ...],
        order: tuple[str, ...],
        indices: dict[str, Index],
        survey: Survey | None,
    ) -> None:
        self.group = group
        self.place_of = place_of
        self.extents = extents
        self.reduced = reduced
        self.order = order
        self.indices = indices
        self.survey = survey
        self.level_of = {name: k + 1 for k, name in enumerate(order)}
        self.own = set(group.stored)
        self.words: list[Word] = []
        self.word_names: dict[object, str] = {}
        self.buffers: dict[object, Buffer] = {}
        self.accumulators: dict[object, Accumulator] = {}
        self.operations = 0
        self.value_count = 0
        self.blocks = 1
        self.in_blocks = False
        self.addresses_blocks = False
        self.known: dict[str, tuple[int, int]] = {name: (0, n) for name, n in extents.items()}

    # Arguments

    def word(self, key: object, prefix: str, value: int) -> str:
        """The name of the argument that holds `value`; one argument for each key."""
        name = self.word_names.get(key)
        if name is None:
            name = f"{prefix}{len(self.words)}"
            self.word_names[key] = name
            self.words.append(Word(name, value))
        return name

    def buffer(self, source: object, dtype: np.dtype) -> Buffer:
        found = self.buffers.get((source, dtype))
        if found is None:
            found = Buffer(f"x{len(self.buffers)}", len(self.words), dtype)
            self.words.append(Word(found.name, source=source))
            self.buffers[source, dtype] = found
        return found

    def special_word(self, source: object, prefix: str) -> str:
        """An argument that is not known before the plan is put together."""
        name = self.word_names.get(source)
        if name is None:
            name = self.word_names[source] = f"{prefix}{len(self.words)}"
            self.words.append(Word(name, source=source))
        return name

    def bound(self, name: str, value: int) -> str:
        """The argument that holds a bound of a loop variable."""
        if value == 0:
            return "0"
        if value == self.extents[name]:
            return self.word(("extent", name), "n", value)
        return self.word(("bound", name, value), "b", value)

    # Values. A variant has lets for each level, a piece has those of the innermost.

    def start_variant(self) -> None:
        self.levels: list[list[Let]] = [[] for _ in range(len(self.order) + 1)]
        self.memo: dict[object, str] = {}
        self.level_of_value: dict[str, int] = {}

    def start_piece(self, ranges: dict[str, tuple[int, int]]) -> None:
        self.ranges = ranges
        self.body = Body()
        innermost = len(self.order)
        if innermost:
            # Values of the innermost level belong to one piece; outer ones serve all of the
            # variant.
            self.levels[innermost] = self.body.lets
            self.memo = {
                key: name
                for key, name in self.memo.items()
                if self.level_of_value[name] < innermost
            }
        self.evaluated: dict[tuple[Node, tuple[Index, ...]], str] = {}

    def let(self, expression: Expression, level: int, key: object = None) -> str:
        key = expression if key is None else key
        name = self.memo.get(key)
        if name is None:
            name = f"v{self.value_count}"
            self.value_count += 1
            self.memo[key] = name
            self.level_of_value[name] = level
            self.levels[level].append(Let(name, expression))
        return name

    def index_level(self, index: Index) -> int:
        return max((self.level_of_name(name) for name, _ in index.terms), default=0)

    def level_of_name(self, name: str) -> int:
        level = self.level_of.get(name)
        return self.level_of_value.get(name, 0) if level is None else level

    def index_value(self, index: Index) -> str:
        """An index as an int64 value of the kernel."""
        if self.survey is not None:
            self.survey.irregular.update(name for name, _ in index.terms)
        if len(index.terms) == 1 and index.terms[0][1] == ONE and index.constant == 0:
            name = index.terms[0][0]
            if name in self.level_of_value:
                return name
        key = ("index", index)
        if key in self.memo:
            return self.memo[key]
        return self.let(IndexValue(self.named(index, "index")), self.index_level(index), key)

    def named(self, index: Index, source: object) -> Index:
        """`index` with every number that the text must not show replaced by an argument."""
        terms: list[tuple[str, Factor]] = []
        for name, factor in index.terms:
            if factor.literal:
                terms.append((name, factor))
            else:
                word = self.word(("stride", name, factor.value), "s", factor.value)
                terms.append((f"{name} * {word}", ONE))
        if index.runtime:
            word = self.word(("offset", source, index), "c", index.runtime)
            terms.append((word, ONE))
        return Index(tuple(terms), index.literal, 0)

    def locate(self, place: Place, dtype: np.dtype, where: Index) -> tuple[Buffer, Index]:
        """The buffer of a place, and the position in it.

        A pointer to each value keeps the text independent of how many small values there were
        before. A kernel without
        loops that uses many of one block addresses them by one pointer and literal positions.
        """
        if self.survey is not None:
            self.survey.places.add(place)
        if self.addresses_blocks:
            return self.buffer(place.source, dtype), where.shifted(place.offset, literal=True)
        start = Place(place.source, place.offset * dtype.itemsize)
        return self.buffer(start, dtype), where

    def load(self, place: Place, dtype: np.dtype, where: Index) -> str:
        buffer, where = self.locate(place, dtype, where)
        if self.survey is not None:
            self.survey.accesses.append(where)
        key = ("load", buffer, where)
        if key in self.memo:
            return self.memo[key]
        return self.let(Load(buffer, self.named(where, buffer)), self.index_level(where), key)

    def apply(self, template: str, dtype: np.dtype, *, casts: bool = False, **operands: str) -> str:
        level = max((self.level_of_name(name) for name in operands.values()), default=0)
        return self.let(Apply(template, tuple(operands.items()), dtype, casts), level)

    def constant(self, value: object, dtype: np.dtype) -> str:
        return self.let(_constant(value, dtype), 0)

    def select(self, condition: str, x: str, y: str, dtype: np.dtype) -> str:
        self.operations += 1
        return self.apply("select({c}, {x}, {y})", dtype, c=condition, x=x, y=y)

    # Conditions

    def holds(self, index: Index, low: int, high: int) -> bool | str:
        """Whether `low <= index < high`: known for the whole piece, or the name of a bool value."""
        if index.is_constant:
            return low <= index.constant < high
        if self.survey is not None:
            # Also where the answer is known: it would not be for the longer range of a merged loop.
            self.survey.irregular.update(name for name, _ in index.terms)
        name, factor = index.terms[0]
        if len(index.terms) == 1 and name in self.ranges and abs(factor.value) == 1:
            # low <= f * v + c < high, solved for v.
            if factor.value == 1:
                a, b = low - index.constant, high - index.constant
            else:
                a, b = index.constant - high + 1, index.constant - low + 1
            start, stop = self.ranges[name]
            if a <= start and stop <= b:
                return True
            if b <= start or stop <= a:
                return False
            if self.survey is not None:
                self.survey.conditions.append(Interval(name, a, b))
            return self.between(variable(name), self.bound(name, a), self.bound(name, b))
        low_word = self.word(("low", index, low), "b", low) if low else "0"
        return self.between(index, low_word, self.word(("high", index, high), "b", high))

    def between(self, index: Index, low: str, high: str) -> str:
        self.operations += 2
        value = self.index_value(index)
        return self.apply("({low} <= {i}) & ({i} < {high})", BOOL, low=low, i=value, high=high)

    def both(self, a: bool | str, b: bool | str) -> bool | str:
        if a is False or b is False:
            return False
        if a is True:
            return b
        if b is True:
            return a
        return self.apply("{a} & {b}", BOOL, a=a, b=b)

    def guarded(self, condition: bool | str, index: Index) -> Index:
        """`index` where the condition holds, else 0, so that a load is always inside its buffer."""
        if isinstance(condition, bool):
            return index
        zero = self.constant(0, INT64)
        return variable(self.select(condition, self.index_value(index), zero, INT64))

    def region(
        self,
        index: tuple[Index, ...],
        outer: tuple[int, ...],
        inner: tuple[int, ...],
        starts: tuple[int, ...],
        steps: tuple[int, ...],
    ) -> tuple[bool | str, tuple[Index, ...]]:
        """Whether `index` of an array `outer` lies in the region `starts + steps * k`, and k,
        guarded."""
        condition: bool | str = True
        result: list[Index] = []
        for i, outer_size, size, start, step in zip(
            index, outer, inner, starts, steps, strict=True
        ):
            if start == 0 and step == 1 and size == outer_size:
                result.append(i)
                continue
            is_literal = not _is_loop(outer_size)
            k = i.shifted(-start, is_literal)
            if step == 1:
                here = self.holds(k, 0, size)
            elif k.is_constant:
                here = k.constant % step == 0 and 0 <= k.constant // step < size
                k = _constant_index(k.constant // step, is_literal)
            else:
                span = self.holds(k, 0, (size - 1) * step + 1 if size else 0)
                value, divisor = self.index_value(k), self.constant(step, INT64)
                zero = self.constant(0, INT64)
                hit = self.apply("{k} % {d} == {zero}", BOOL, k=value, d=divisor, zero=zero)
                here = self.both(span, hit)
                k = variable(self.apply("{k} // {d}", INT64, k=value, d=divisor))
            result.append(self.guarded(here, k))
            condition = self.both(condition, here)
        return condition, tuple(result)

    # Evaluation: `evaluate` drives one generator per value, which asks for operands and returns a
    # name.

    def evaluate(self, node: Node, index: tuple[Index, ...]) -> str:
        """The name of the value of `node` at `index`. No recursion: a group may be deep."""
        keys = [(node, index)]
        stack = [self.steps(node, index)]
        answer: str | None = None
        while stack:
            try:
                request = stack[-1].send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                stack.pop()
                answer = self.evaluated[keys.pop()] = stop.value
                continue
            answer = self.evaluated.get(request)
            if answer is None:
                keys.append(request)
                stack.append(self.steps(*request))
        assert answer is not None
        return answer

    def steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        """How to compute `node` at `index`: yields (node, index) of operands, receives their
        names."""
        if node not in self.own:
            place = self.place_of(node)
            if place is not None:
                return self.load(place, node.dtype, position(node.shape, index))
        if node.op.family == "elementwise":
            return (yield from self.elementwise_steps(node, index))
        if node.op.family == "reduction":
            return (yield from self.unrolled_reduction_steps(node, index))
        method = getattr(self, f"{node.op.name}_steps", None)
        if method is None:
            raise InternalError(f"lower: no rule to compute {node} inside of a kernel")
        return (yield from method(node, index))

    def elementwise_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        operands: dict[str, str] = {}
        for name, x in zip(node.op.input_names, node.inputs, strict=True):
            own = index[len(index) - len(x.shape) :]
            operands[name] = yield (
                x,
                tuple(Index() if n == 1 else i for n, i in zip(x.shape, own, strict=True)),
            )
        self.operations += node.op.cost
        template = node.op.expression
        if callable(template):
            template = template(**node.params)
        assert template is not None
        if "{dtype}" in template:
            template = template.replace("{dtype}", kernel_dtype_name(node.dtype))
        return self.apply(template, node.dtype, casts=node.dtype.kind in "iub", **operands)

    def unrolled_reduction_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        axes = reduction_axes(node)
        kept = iter(index)
        pattern = [None if axis in axes else next(kept) for axis in range(len(x.shape))]
        result = best = ""
        for number, choice in enumerate(_combinations([x.shape[axis] for axis in axes])):
            chosen = iter(choice)
            where = tuple(literal_index(next(chosen)) if i is None else i for i in pattern)
            value = yield (x, where)
            self.operations += 1
            if number == 0:
                result = value
                best = self.constant(0, INT64) if node.op.name in ARG_REDUCTIONS else ""
            elif node.op.name in ARG_REDUCTIONS:
                better = self.apply(ARG_REDUCTIONS[node.op.name], BOOL, value=value, best=result)
                best = self.select(better, self.constant(number, INT64), best, INT64)
                result = self.select(better, value, result, x.dtype)
            else:
                result = self.apply(
                    _combine(node),
                    node.dtype,
                    casts=node.dtype.kind in "iub",
                    accumulator=result,
                    value=value,
                )
        return best or result

    def literal_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        return self.let(Constant(node.params["bytes"], node.dtype), 0)
        yield

    def iota_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        value = self.index_value(index[0])
        return self.apply(
            f"cast({{x}}, {kernel_dtype_name(node.dtype)})", node.dtype, casts=False, x=value
        )
        yield

    def reshape_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        if x not in self.own:
            place = self.place_of(x)
            if place is not None:
                return self.load(place, x.dtype, position(node.shape, index))
        return (yield x, self.reshaped(x.shape, node.shape, index))

    def reshaped(
        self, old: tuple[int, ...], new: tuple[int, ...], index: tuple[Index, ...]
    ) -> tuple[Index, ...]:
        """The index into `old` of the element at `index` of `new`."""
        result = [Index()] * len(old)
        if 0 in old:
            return tuple(result)
        for old_axes, new_axes in matching_groups(old, new):
            flat = position(
                tuple(new[axis] for axis in new_axes), tuple(index[axis] for axis in new_axes)
            )
            for k, axis in reversed(list(enumerate(old_axes))):
                if k == 0:
                    result[axis] = flat
                elif flat.is_constant:
                    is_literal = not _is_loop(old[axis]) and not flat.runtime
                    result[axis] = _constant_index(flat.constant % old[axis], is_literal)
                    flat = _constant_index(flat.constant // old[axis], flat.runtime == 0)
                else:
                    value = self.index_value(flat)
                    extent = self.index_value(_constant_index(old[axis], not _is_loop(old[axis])))
                    result[axis] = variable(self.apply("{k} % {n}", INT64, k=value, n=extent))
                    flat = variable(self.apply("{k} // {n}", INT64, k=value, n=extent))
        return tuple(result)

    def transpose_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        where = [Index()] * len(index)
        for i, axis in zip(index, node.params["axes"], strict=True):
            where[axis] = i
        return (yield x, tuple(where))

    def broadcast_to_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        own = index[len(index) - len(x.shape) :]
        return (yield x, tuple(Index() if n == 1 else i for n, i in zip(x.shape, own, strict=True)))

    def slice_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        where = [
            i.times(Factor(step, True)).shifted(start, not _is_loop(n))
            for i, start, step, n in zip(
                index, node.params["starts"], node.params["steps"], x.shape, strict=True
            )
        ]
        return (yield x, tuple(where))

    def flip_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        where = [
            i.times(Factor(-1, True)).shifted(n - 1, not _is_loop(n))
            if axis in node.params["axes"]
            else i
            for axis, (i, n) in enumerate(zip(index, x.shape, strict=True))
        ]
        return (yield x, tuple(where))

    def pad_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        (x,) = node.inputs
        steps = tuple(interior + 1 for interior in node.params["interior"])
        condition, where = self.region(index, node.shape, x.shape, node.params["low"], steps)
        if condition is False:
            return self.constant(0, node.dtype)
        value = yield (x, where)
        if condition is True:
            return value
        assert isinstance(condition, str)
        return self.select(condition, value, self.constant(0, node.dtype), node.dtype)

    def concatenate_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        axis = node.params["axis"]
        is_literal = not _is_loop(node.shape[axis])
        start = 0
        result = ""
        for x in node.inputs:
            size = x.shape[axis]
            own = index[axis].shifted(-start, is_literal)
            start += size
            here = self.holds(own, 0, size)
            if here is False:
                continue
            where = (*index[:axis], self.guarded(here, own), *index[axis + 1 :])
            value = yield (x, where)
            if here is True:
                return value
            assert isinstance(here, str)
            result = self.select(here, value, result, node.dtype) if result else value
        return result

    def update_slice_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        x, v = node.inputs
        condition, where = self.region(
            index, x.shape, v.shape, node.params["starts"], node.params["steps"]
        )
        if condition is True:
            return (yield v, where)
        old = yield (x, index)
        if condition is False:
            return old
        assert isinstance(condition, str)
        value = yield (v, where)
        return self.select(condition, value, old, node.dtype)

    def add_slice_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        x, v = node.inputs
        condition, where = self.region(
            index, x.shape, v.shape, node.params["starts"], node.params["steps"]
        )
        if condition is True and self.is_outside_of_pad(x, index):
            # Reverse mode adds contributions to one cotangent; here the first one is absent rather
            # than 0.
            return (yield v, where)
        old = yield (x, index)
        if condition is False:
            return old
        value = yield (v, where)
        self.operations += 1
        new = self.apply("{x} + {y}", node.dtype, casts=node.dtype.kind in "iub", x=old, y=value)
        if condition is True:
            return new
        # Not x + select(v, 0): that would turn -0.0 outside of the region into 0.0.
        assert isinstance(condition, str)
        return self.select(condition, new, old, node.dtype)

    def is_outside_of_pad(self, x: Node, index: tuple[Index, ...]) -> bool:
        """Whether `x` at `index` is known to be what a pad fills in."""
        if x.op.name != "pad" or (x not in self.own and self.place_of(x) is not None):
            return False
        steps = tuple(interior + 1 for interior in x.params["interior"])
        return self.region(index, x.shape, x.inputs[0].shape, x.params["low"], steps)[0] is False

    def gather_steps(self, node: Node, index: tuple[Index, ...]) -> Steps:
        x, *index_arrays = node.inputs
        rank = len(index_arrays[0].shape)
        where: list[Index] = []
        for axis, array in enumerate(index_arrays):
            value = yield (array, index[:rank])
            if array.dtype != INT64:
                value = self.apply("cast({x}, int64)", INT64, x=value)
            n = x.shape[axis]
            extent = self.index_value(_constant_index(n, not _is_loop(n)))
            if node.params.get("checked", True):
                errors = self.special_word("errors", "errors")
                named = (node.params.get("named_axes") or range(len(index_arrays)))[axis]
                site = self.special_word(("site", node.op.name, named), "site")
                value = self.apply(
                    f"check_index({{i}}, {{n}}, {errors}, {site})", INT64, i=value, n=extent
                )
            else:
                zero = self.constant(0, INT64)
                value = self.apply(
                    "select({i} < {zero}, {i} + {n}, {i})", INT64, i=value, n=extent, zero=zero
                )
            self.operations += 2
            where.append(variable(value))
        return (yield x, (*where, *index[rank:]))

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
        place = self.place_of(node)
        assert place is not None
        for pattern in unrolled_indices(node.shape):
            index = self.filled(pattern)
            value = self.evaluate(node, index)
            buffer, where = self.locate(place, node.dtype, position(node.shape, index))
            if self.survey is not None:
                self.survey.accesses.append(where)
            self.body.stores.append(Store(buffer, self.named(where, buffer), value))

    def assign_region(self, node: Node) -> None:
        """Write, or add, the assigned value where the old one stands."""
        x, v = node.inputs
        place = self.place_of(node)
        assert place is not None
        for pattern in unrolled_indices(v.shape):
            index = self.filled(pattern)
            value = self.evaluate(v, index)
            where = tuple(
                i.times(Factor(step, True)).shifted(start, not _is_loop(n))
                for i, start, step, n in zip(
                    index, node.params["starts"], node.params["steps"], x.shape, strict=True
                )
            )
            buffer, target = self.locate(place, node.dtype, position(node.shape, where))
            if self.survey is not None:
                self.survey.accesses.append(target)
            if node.op.name == "add_slice":
                old = self.load(place, node.dtype, position(node.shape, where))
                casts = node.dtype.kind in "iub"
                value = self.apply("{x} + {y}", node.dtype, casts=casts, x=old, y=value)
                self.operations += 1
            self.body.stores.append(Store(buffer, self.named(target, buffer), value))

    def reduce_all(self, node: Node) -> None:
        (x,) = node.inputs
        axes = reduction_axes(node)
        for pattern in unrolled_indices(x.shape):
            index = self.filled(pattern)
            value = self.evaluate(x, index)
            kept = tuple(i for axis, i in enumerate(index) if axis not in axes)
            where = position(node.shape, kept)
            self.operations += 1
            if node.op.name in ARG_REDUCTIONS:
                self.update_arg(node, where, index[axes[0]], value)
            else:
                accumulator = self.accumulator(node, where, identity_of(node), node.dtype, True)
                combined = Apply(
                    _combine(node),
                    (("accumulator", accumulator.name), ("value", value)),
                    node.dtype,
                    node.dtype.kind in "iub",
                )
                self.body.updates.append(Update(accumulator.name, combined))

    def update_arg(self, node: Node, where: Index, along: Index, value: str) -> None:
        dtype = node.inputs[0].dtype
        best = self.accumulator(node, where, _extreme(dtype, node.op.name[3:]), dtype, False)
        chosen = self.accumulator(node, where, 0, INT64, True)
        better = f"better_{chosen.name}"
        number = self.index_value(along)
        template = "({n} == 0) | (" + ARG_REDUCTIONS[node.op.name] + ")"
        operands = (("n", number), ("value", value), ("best", best.name))
        self.body.updates += [
            Update(better, Apply(template, operands, BOOL, False)),
            Update(chosen.name, _select_text(better, number, chosen.name, INT64)),
            Update(best.name, _select_text(better, value, best.name, dtype)),
        ]

    def accumulator(
        self, node: Node, where: Index, identity: object, dtype: np.dtype, is_result: bool
    ) -> Accumulator:
        key = (node, where, is_result)
        found = self.accumulators.get(key)
        if found is None:
            buffer, block_size = None, "0"
            place = self.place_of(node)
            assert place is not None
            if is_result:
                if self.blocks > 1:
                    place = Place(("partial", node))
                if self.in_blocks:
                    block_size = self.word(("block size", node), "m", node.type.size)
                buffer, where = self.locate(place, dtype, where)
            if self.survey is not None:
                self.survey.accesses.append(where)
            named = self.named(where, ("result", node))
            found = Accumulator(
                f"a{len(self.accumulators)}", _constant(identity, dtype), buffer, named, block_size
            )
            self.accumulators[key] = found
        return found

    # The two passes

    def survey_all(self) -> None:
        self.start_variant()
        self.start_piece({name: (0, n) for name, n in self.extents.items()})
        self.write_roots()

    def kernel(self, conditions: list[Interval], reduction_blocks: ReductionBlocks) -> Kernel:
        self.blocks = self.number_of_blocks(reduction_blocks)
        # A sum over everything has the same text for one block and for many: it grows with its
        # input.
        self.in_blocks = self.blocks > 1 or len(self.reduced) == len(self.order) > 0
        axes = [
            Axis(name, self.extents[name], self.bound_of_axis(name), name in self.reduced)
            for name in self.order
        ]
        interior = self.main_ranges(conditions)
        variants = [self.variant(interior, conditions)] if interior else []
        variants.append(self.variant({}, conditions))
        return Kernel(
            axes,
            self.words,
            list(self.buffers.values()),
            list(self.accumulators.values()),
            variants,
            [
                f"{node.op.name}: {node.dtype.name}, {len(node.shape)}-d"
                for node in self.group.roots
            ],
            self.blocks,
            self.word("blocks", "blocks", self.blocks) if self.in_blocks else "",
            self.operations // len(variants),
        )

    def bound_of_axis(self, name: str) -> str:
        return self.word(("extent", name), "n", self.extents[name])

    def number_of_blocks(self, reduction_blocks: ReductionBlocks) -> int:
        """Parts of the outermost reduced axis."""
        if not self.reduced or any(n.op.name in ARG_REDUCTIONS for n in self.group.reduced):
            return 1
        kept = summed = 1
        for name, n in self.extents.items():
            if name in self.reduced:
                summed *= n
            else:
                kept *= n
        outermost = self.extents[next(name for name in self.order if name in self.reduced)]
        return reduction_blocks(kept, summed, outermost, self.order[-1] not in self.reduced)

    def main_ranges(self, conditions: list[Interval]) -> dict[str, tuple[int, int]]:
        """For outer variables under conditions, the longest range in which none of them changes."""
        result: dict[str, tuple[int, int]] = {}
        for name in self.order[:-1]:
            cuts = self.cuts(name, conditions)
            if len(cuts) > 2:
                start, stop = max(itertools.pairwise(cuts), key=lambda p: p[1] - p[0])
                if stop - start >= SHORTEST_PIECE:
                    result[name] = (start, stop)
        return result

    def cuts(self, name: str, conditions: list[Interval]) -> list[int]:
        n = self.extents[name]
        inside = {p for c in conditions if c.variable == name for p in (c.low, c.high) if 0 < p < n}
        return [0, *sorted(inside), n]

    def variant(self, interior: dict[str, tuple[int, int]], conditions: list[Interval]) -> Variant:
        self.start_variant()
        ranges = self.known | interior
        pieces: list[Piece] = []
        if not self.order:
            self.start_piece(ranges)
            self.write_roots()
            pieces.append(Piece("0", "1", self.body))
        else:
            innermost = self.order[-1]
            for start, stop, known in self.pieces(innermost, conditions):
                self.start_piece(ranges | {innermost: known})
                self.write_roots()
                pieces.append(
                    Piece(self.bound(innermost, start), self.bound(innermost, stop), self.body)
                )
        where = [
            Range(name, self.bound(name, start), self.bound(name, stop))
            for name, (start, stop) in interior.items()
        ]
        return Variant(where, self.levels[: len(self.order)] or self.levels, pieces)

    def pieces(
        self, name: str, conditions: list[Interval]
    ) -> list[tuple[int, int, tuple[int, int]]]:
        """(start, stop, range to assume) of the innermost loop."""
        cuts = self.cuts(name, conditions)
        if len(cuts) == 2:
            return [(0, self.extents[name], self.known[name])]
        if len(cuts) - 1 > MOST_PIECES:
            n = self.extents[name]
            start, stop = max(itertools.pairwise(cuts), key=lambda p: p[1] - p[0])
            result = [(start, stop, (start, stop))]
            if start > 0:
                result.insert(0, (0, start, (0, n)))
            if stop < n:
                result.append((stop, n, (0, n)))
            return result
        return [(a, b, (a, b)) for a, b in itertools.pairwise(cuts)]


ARG_REDUCTIONS = {
    # The first of equals wins, and the first NaN wins over everything, as in NumPy.
    "argmax": "({value} > {best}) | (({value} != {value}) & ({best} == {best}))",
    "argmin": "({value} < {best}) | (({value} != {value}) & ({best} == {best}))",
}


def reduction_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction node removes."""
    return (node.params["axis"],) if "axis" in node.params else node.params["axes"]


def identity_of(node: Node) -> object:
    """The value that a reduction starts from."""
    identity = node.op.extras.get("identity")
    if identity is not None:
        return identity(node.dtype)
    return _extreme(node.dtype, node.op.name)


def _extreme(dtype: np.dtype, name: str) -> object:
    """Below everything for "max", above everything for "min"."""
    is_max = name == "max"
    if dtype.kind == "b":
        return not is_max
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if is_max else info.max
    return -np.inf if is_max else np.inf


def _combine(node: Node) -> str:
    template = node.op.expression
    assert isinstance(template, str)
    return template


def _select_text(condition: str, x: str, y: str, dtype: np.dtype) -> Apply:
    operands = (("c", condition), ("x", x), ("y", y))
    return Apply("select({c}, {x}, {y})", operands, dtype, False)


def _constant(value: object, dtype: np.dtype) -> Constant:
    return Constant(np.asarray(value).astype(dtype).tobytes(), dtype)


def _is_loop(extent: int) -> bool:
    """Whether an offset on an axis of this extent depends on sizes, so that the text must not show
    it."""
    return extent > config.unroll_extent or extent == 0


def _constant_index(value: int, is_literal: bool) -> Index:
    return Index((), value, 0) if is_literal else Index((), 0, value)


def _combinations(extents: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(n) for n in extents)))


def kernel_dtype_name(dtype: np.dtype) -> str:
    """The dtype that values of `dtype` are computed in: float16 is for storage only."""
    if dtype.kind == "b":
        return "bool_"
    return "float32" if dtype.name == "float16" else dtype.name
