"""Which axes are loops and which are unrolled, and index expressions over loop variables.

An axis of at most `config.unroll_extent` elements may be *unrolled*: its indices are literals in
the kernel. Others are *loops*: their extents, and strides and offsets that depend on them, are
run-time arguments. So a kernel depends on the small extents and on nothing else of the sizes.
"""

import functools
import math
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from numba_grad.config import config
from numba_grad.graph.types import MOST_WRITTEN_OUT
from numba_grad.immutable import NamedTuple

# Scalar copies of an expression that are written out in a loop over rows, at most: for short
# graphs, and for any.
MOST_COPIES = 32
FEWEST_COPIES = 4
# Additions, or what costs as much to compute and to compile, times copies, that a segment may come
# to: LLVM takes a second for a thousand.
UNROLLED_OPERATIONS = 1024
# Rows of at most so many elements LLVM reads as vectors and shuffles, three times as fast.
LONGEST_SHUFFLED = 4
COMPUTING = ("elementwise", "reduction")  # the families of these
# Lines that arrays that are written out as a whole may add to a segment: 2 to 4 ms a line.
UNROLLED_LINES = 128
# Of arrays that are small along all axes but have as many rows as a vector has elements, so many
# components are written out, as of larger ones: forces between 10 bodies take 0.6 of the time.
MOST_COMPONENTS = 4
# But of arrays that are vectors of the processor's, the functions of all their elements at once are
# as fast, in an eighth of the lines: as many additions as two functions.
FEWEST_IN_VECTORS = 8
COSTLY = 24
# Of arrays whose lengths are so many numbers in a row, up to the longest that is unrolled, each is
# there in a step or two, as where a factorization goes on to the rest of a matrix. Unrolled, each
# step would have kernels of its own.
FEWEST_LENGTHS = 8
LONGEST_OF_MANY_LENGTHS = 2


class Unrolling(NamedTuple):
    """How far axes are unrolled: scalar copies in a loop over rows, and elements of an array that
    is written out as a whole, at most."""

    copies: int = MOST_COPIES
    elements: int = MOST_WRITTEN_OUT


class _Current(threading.local):
    extent: int | None = None  # in place of `config.unroll_extent`
    unrolling = Unrolling()


_current = _Current()


def unroll_extent() -> int:
    """How long an axis that is unrolled may be."""
    return config.unroll_extent if _current.extent is None else _current.extent


def sizes_count() -> bool:
    """Whether the text of a kernel may depend on how large arrays are."""
    return _current.extent != 0


@contextmanager
def all_axes_as_loops() -> Iterator[None]:
    """Within, no axis is unrolled: kernels are the same for arrays of any size."""
    before, _current.extent = _current.extent, 0
    try:
        yield
    finally:
        _current.extent = before


@contextmanager
def unrolled_for(shapes: Collection[tuple[int, ...]]) -> Iterator[None]:
    """Within, axes of arrays of these shapes are loops if they have all lengths, one by one."""
    before, longest = _current.extent, unroll_extent()
    if _has_many_lengths({n for shape in shapes for n in shape}, longest):
        _current.extent = min(longest, LONGEST_OF_MANY_LENGTHS)
    try:
        yield
    finally:
        _current.extent = before


def _has_many_lengths(lengths: Collection[int], longest: int) -> bool:
    in_a_row = 0
    for n in range(LONGEST_OF_MANY_LENGTHS, longest + 1):
        in_a_row = in_a_row + 1 if n in lengths else 0
        if in_a_row == FEWEST_LENGTHS:
            return True
    return False


@contextmanager
def unrolled(unrolling: Unrolling) -> Iterator[None]:
    """Within, axes are unrolled so far."""
    before, _current.unrolling = _current.unrolling, unrolling
    try:
        yield
    finally:
        _current.unrolling = before


def unrolling_for(
    operations: Sequence[tuple[tuple[int, ...], int]], *, is_one_loop: bool = False
) -> Unrolling:
    """As far as operations with results of these shapes, and costs, can afford. Of arrays in `one
    loop` over all elements no axis is unrolled."""
    copies, elements = 1 if is_one_loop else MOST_COPIES, MOST_WRITTEN_OUT
    if _are_costly_vectors(operations, is_one_loop):
        elements = FEWEST_IN_VECTORS - 1
    sizes = [math.prod(shape) for shape, _ in operations if _is_small(shape)]
    while elements > FEWEST_COPIES and sum(n - 1 for n in sizes if n <= elements) > UNROLLED_LINES:
        elements //= 2
    while (
        copies > FEWEST_COPIES
        and _unrolled_operations(operations, Unrolling(copies, elements)) > UNROLLED_OPERATIONS
    ):
        copies //= 2
    return Unrolling(copies, elements)


def _are_costly_vectors(
    operations: Sequence[tuple[tuple[int, ...], int]], is_one_loop: bool
) -> bool:
    """Whether the small arrays are vectors, or all of one shape, with functions in what computes
    them. Small matrices have elements that differ in what is done to them."""
    cost = 0
    for shape, own_cost in operations:
        size = math.prod(shape)
        if FEWEST_IN_VECTORS <= size <= MOST_WRITTEN_OUT:
            if size != max(shape) and not is_one_loop:
                return False
            cost += own_cost
    return cost >= COSTLY


def _unrolled_operations(
    operations: Sequence[tuple[tuple[int, ...], int]], unrolling: Unrolling
) -> int:
    total = 0
    for shape, cost in operations:
        loops = _loop_axes(shape, unroll_extent(), unrolling)
        total += cost * math.prod(n for axis, n in enumerate(shape) if axis not in loops)
    return total


def _is_small(shape: tuple[int, ...]) -> bool:
    """Whether no axis is too long to be unrolled."""
    return _all_within(shape, unroll_extent())


def loop_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `shape` that are loops, in order.

    A small array is written out as a whole or not at all, or but for components; of others, the
    short axes are, as many as can be.
    """
    return _loop_axes(shape, unroll_extent(), _current.unrolling)


def are_unrolled_alike(
    shapes: Collection[tuple[int, ...]], unrolling: Unrolling, other: Unrolling
) -> bool:
    """Whether it makes no difference for arrays of these shapes."""
    longest = unroll_extent()
    return all(_loop_axes(x, longest, unrolling) == _loop_axes(x, longest, other) for x in shapes)


def _all_within(shape: tuple[int, ...], longest: int) -> bool:
    return all(1 <= n <= max(longest, 1) for n in shape)


@functools.lru_cache(maxsize=1 << 12)
def _loop_axes(shape: tuple[int, ...], longest: int, unrolling: Unrolling) -> tuple[int, ...]:
    if _all_within(shape, longest):
        if math.prod(shape) <= unrolling.elements:
            return ()
        if shape[-1] > MOST_COMPONENTS or max(shape) < FEWEST_IN_VECTORS:
            return tuple(axis for axis, n in enumerate(shape) if n != 1)
        return tuple(axis for axis, n in enumerate(shape[:-1]) if n != 1)
    unrolled = sorted(
        (axis for axis, n in enumerate(shape) if 1 < n <= longest),
        key=lambda axis: shape[axis],
    )
    copies = 1
    kept: set[int] = set()
    for axis in unrolled:
        if copies * shape[axis] > unrolling.copies:
            break
        copies *= shape[axis]
        kept.add(axis)
    return tuple(axis for axis, n in enumerate(shape) if n != 1 and axis not in kept)


def space_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of the loops over `shape`."""
    return tuple(shape[axis] for axis in loop_axes(shape))


def unrolled_indices(shape: tuple[int, ...]) -> list[tuple[int | None, ...]]:
    """Every combination of literal indices; None where the axis is a loop."""
    loops = set(loop_axes(shape))
    result: list[tuple[int | None, ...]] = [()]
    for axis, n in enumerate(shape):
        choices = (None,) if axis in loops else range(n)
        result = [(*prefix, choice) for prefix in result for choice in choices]
    return result


def is_loop(extent: int) -> bool:
    """Whether an offset on an axis of this extent depends on sizes, so that the text must not show
    it."""
    return extent > unroll_extent() or extent == 0


# Tuples, since a kernel has thousands of them, as keys most of all: a dataclass takes three times
# as long to make, and ten times to hash.
class Factor(NamedTuple):
    """A multiplier: `value`, which the kernel's text shows only if it is `literal`."""

    value: int
    literal: bool

    def times(self, other: "Factor") -> "Factor":
        # Multiplication by 0 or 1 keeps its meaning for every size.
        if self == ONE:
            return other
        if other == ONE:
            return self
        return Factor(self.value * other.value, self.literal and other.literal)

    def plus(self, other: "Factor") -> "Factor":
        if self == ZERO:
            return other
        if other == ZERO:
            return self
        return Factor(self.value + other.value, self.literal and other.literal)


ZERO = Factor(0, True)
ONE = Factor(1, True)


class Index(NamedTuple):
    """`literal + runtime + sum(factor * variable)`: an index of one axis, or a position in a
    buffer.

    A variable is the name of a loop variable ("i0") or of an int64 value computed in the kernel
    ("v7").
    """

    terms: tuple[tuple[str, Factor], ...] = ()
    literal: int = 0
    runtime: int = 0

    @property
    def constant(self) -> int:
        return self.literal + self.runtime

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def plus(self, other: "Index") -> "Index":
        factors = dict(self.terms)
        for name, factor in other.terms:
            factors[name] = factors.get(name, ZERO).plus(factor)
        terms = tuple((name, f) for name, f in factors.items() if f.value != 0 or not f.literal)
        return Index(terms, self.literal + other.literal, self.runtime + other.runtime)

    def times(self, factor: Factor) -> "Index":
        if factor == ONE:
            return self
        if factor == ZERO:
            return Index()
        terms = tuple((name, f.times(factor)) for name, f in self.terms)
        if factor.literal:
            return Index(terms, self.literal * factor.value, self.runtime * factor.value)
        return Index(terms, 0, self.constant * factor.value)

    def shifted(self, amount: int, literal: bool) -> "Index":
        if amount == 0:
            return self
        if literal:
            return Index(self.terms, self.literal + amount, self.runtime)
        return Index(self.terms, self.literal, self.runtime + amount)


def variable(name: str) -> Index:
    return Index(((name, ONE),))


def literal_index(value: int) -> Index:
    return Index((), value)


def constant_index(value: int, is_literal: bool) -> Index:
    return Index((), value, 0) if is_literal else Index((), 0, value)


def strides_of(shape: tuple[int, ...]) -> tuple[Factor, ...]:
    """Elements between neighbours on each axis of a C-contiguous buffer."""
    return _strides_of(shape, loop_axes(shape))


@functools.lru_cache(maxsize=1 << 12)
def _strides_of(shape: tuple[int, ...], loops: tuple[int, ...]) -> tuple[Factor, ...]:
    result: list[Factor] = []
    stride = ONE
    for axis in reversed(range(len(shape))):
        result.append(stride)
        stride = stride.times(Factor(shape[axis], axis not in loops))
    return tuple(reversed(result))


def position(shape: tuple[int, ...], indices: tuple[Index, ...]) -> Index:
    """Where the element at `indices` lies in a C-contiguous buffer of `shape`."""
    result = Index()
    for index, stride, extent in zip(indices, strides_of(shape), shape, strict=True):
        if extent != 1:
            result = result.plus(index.times(stride))
    return result


def matching_groups(
    old: tuple[int, ...], new: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """For a reshape: runs of old axes and of new axes with equal products, as short as possible.

    Axes of size 1 belong to no run. Sizes of 0 must be handled before.
    """
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    old_axes = [axis for axis, n in enumerate(old) if n != 1]
    new_axes = [axis for axis, n in enumerate(new) if n != 1]
    a = b = 0
    while a < len(old_axes):
        first_a, first_b = a, b
        a, b = a + 1, b + 1
        while (p := math.prod(old[x] for x in old_axes[first_a:a])) != (
            q := math.prod(new[x] for x in new_axes[first_b:b])
        ):
            if p < q:
                a += 1
            else:
                b += 1
        groups.append((tuple(old_axes[first_a:a]), tuple(new_axes[first_b:b])))
    return groups
