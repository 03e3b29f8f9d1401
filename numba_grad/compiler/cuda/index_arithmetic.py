"""How wide the integers of a kernel must be: 32 bits where every index fits, which are a register
instead of two, and have a division of their own.

Of every index the range is known: loops have extents, words have values, and whoever computes an
index from others says so by one of a few expressions. Text depends on these sizes only through the
width.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Constant,
    IndexValue,
    Let,
    Load,
    LoopNest,
    first_of,
)
from numba_grad.compiler.scalar_expressions import Call, Choice, Number, Operation, Term, parsed

INT64 = np.dtype(np.int64)
MOST_NARROW = 2**31 - 1
# Threads run past the end by a grid, or by a block, before they see that they are done.
MARGIN = 2**24

Interval = tuple[int, int]

# What is computed with indices where loop nests are made.
_SELECT, _REST = parsed("select({c}, {x}, {y})"), parsed("{k} % {n}")
_QUOTIENTS = (parsed("{k} // {d}"), parsed("{k} // {n}"))
INDEX_TERMS = frozenset(
    {
        *(_SELECT, _REST, *_QUOTIENTS),
        *(parsed("({low} <= {i}) & ({i} < {high})"), parsed("{i} < {n}")),
        parsed("{k} % {d} == {zero}"),
    }
)
# An index that came from memory, wrapped: what it makes of it is within the axis.
_WRAPPED = parsed("select({i} < {zero}, {i} + {n}, {i})")


def is_wrapped(term: Term) -> bool:
    return term == _WRAPPED or (isinstance(term, Call) and term.function == "check_index")


def in_words_of_kernels(term: Term, signed: str, unsigned: str) -> Term:
    """One of `INDEX_TERMS` for a GPU. Divisions are unsigned: what is divided is not negative, or
    not used if it is, and a signed one is slow and rounds up."""

    def positive(x: Term) -> Term:
        return Call(unsigned, (x,))

    match term:
        case Call("select", (condition, x, y)):
            return Choice(condition, x, y)
        case Operation("==", (Operation("%", (k, d)), zero)):
            rest = Operation("%", (positive(k), positive(d)))
            return Operation("==", (rest, positive(zero)))
        case Operation("//" | "%" as symbol, (k, n)):
            divisor = Call("max", (positive(n), positive(Number(1))))
            return Call(signed, (Operation(symbol, (positive(k), divisor)),))
    return term


@dataclass(slots=True)
class IndexArithmetic:
    """Which values of a kernel are indices, and the types that these have."""

    is_narrow: bool
    names: set[str]  # of values that are indices
    expressions: set[str]  # names of values that are computed from nothing but indices
    constants: dict[str, int]  # int64 constants
    literals: set[str]  # those that only indices are computed from: they are written out there

    @property
    def signed(self) -> str:
        return "int32" if self.is_narrow else "int64"

    @property
    def unsigned(self) -> str:
        """What is divided. Of 64 bits, unsigned and signed numbers together would be floats."""
        return "uint32" if self.is_narrow else "int64"


def index_arithmetic(kernel: LoopNest) -> IndexArithmetic:
    """What the kernel's indices are computed in."""
    ranges = _Ranges(kernel)
    for let in lets_of(kernel):
        ranges.add(let)
    positions = [
        let.expression.position for let in lets_of(kernel) if isinstance(let.expression, Load)
    ]
    positions += [accumulator.position for accumulator in kernel.accumulators]
    for variant in kernel.variants:
        for piece in variant.pieces:
            positions += [store.position for store in piece.body.stores]
    kept = math.prod(axis.extent for axis in kernel.kept) * kernel.blocks
    reduced = math.prod(axis.extent for axis in kernel.reduced)
    largest = [kept, reduced, *(abs(word.value) for word in kernel.words)]
    # Results of all blocks; words of blocks are the elements between those of neighbours.
    values = {word.name: word.value for word in kernel.words}
    largest += [
        kernel.blocks * values.get(accumulator.block_size, 0) for accumulator in kernel.accumulators
    ]
    within = [ranges.of_index(position) for position in positions]
    within += [ranges.of_index(split_position(position)[0]) for position in positions]
    within += [ranges.known[name] for name in ranges.indices]
    fits = all(
        interval is not None and interval[0] >= -MOST_NARROW and interval[1] <= MOST_NARROW
        for interval in within
    )
    return IndexArithmetic(
        fits and max(largest) + MARGIN <= MOST_NARROW,
        ranges.indices,
        ranges.expressions,
        ranges.constants,
        set(ranges.constants) - _names_used_as_values(kernel, ranges.expressions),
    )


def split_position(index: Index) -> tuple[Index, Index]:
    """The part of a position that loops move, and what lowering.py adds by a word or a literal."""
    moving = tuple([term for term in index.terms if not term[0].startswith("c")])
    fixed = tuple([term for term in index.terms if term[0].startswith("c")])
    return Index(moving), Index(fixed, index.literal, index.runtime)


def lets_of(kernel: LoopNest) -> Iterator[Let]:
    """All lets, each after those that it needs."""
    for variant in kernel.variants:
        for level in variant.lets:
            yield from level
        for piece in variant.pieces:
            yield from piece.body.lets


class _Ranges:
    """The ranges of indices, let by let; None where it is not known."""

    def __init__(self, kernel: LoopNest) -> None:
        self.known: dict[str, Interval | None] = {
            word.name: (word.value, word.value) for word in kernel.words if word.memory is None
        }
        self.loop_variables: set[str] = set()
        for axis in kernel.axes:
            for name in (axis.variable, first_of(axis.variable)):
                self.known[name] = (0, max(axis.extent - 1, 0))
                self.loop_variables.add(name)
        self.indices: set[str] = set()
        self.expressions: set[str] = set()
        self.constants: dict[str, int] = {}
        self.words = {word.name for word in kernel.words}

    def add(self, let: Let) -> None:
        expression = let.expression
        match expression:
            case IndexValue(index):
                self.known[let.name] = self.of_index(index)
                self.indices.add(let.name)
            case Constant(data, dtype) if dtype == INT64:
                value = int(np.frombuffer(data, dtype)[0])
                self.known[let.name] = (value, value)
                self.constants[let.name] = value
            case Apply() if is_wrapped(expression.term):
                extent = self.of_operand(dict(expression.operands)["n"])
                self.known[let.name] = None if extent is None else (0, max(extent[1] - 1, 0))
            case Apply() if self.is_index_expression(expression):
                self.expressions.add(let.name)
                if expression.dtype == INT64:
                    self.known[let.name] = self.of_term(expression)
                    self.indices.add(let.name)

    def is_index(self, name: str) -> bool:
        """Whether an operand may be computed with in the width of indices."""
        return (
            name in self.indices
            or name in self.constants
            or name in self.words
            or name in self.loop_variables
            or name.isdigit()
        )

    def is_index_expression(self, expression: Apply) -> bool:
        if expression.term not in INDEX_TERMS:
            return False
        if expression.term == _SELECT and expression.dtype != INT64:
            return False
        return all(self.is_index(name) for field, name in expression.operands if field != "c")

    def of_operand(self, name: str) -> Interval | None:
        return (int(name), int(name)) if name.isdigit() else self.known.get(name)

    def of_index(self, index: Index) -> Interval | None:
        low = high = index.constant
        for text, factor in index.terms:
            smallest = largest = factor.value
            for name in text.split(" * "):
                interval = self.of_operand(name)
                if interval is None:
                    return None
                corners = [x * y for x in (smallest, largest) for y in interval]
                smallest, largest = min(corners), max(corners)
            low, high = low + smallest, high + largest
        return low, high

    def of_term(self, expression: Apply) -> Interval | None:
        operands = {field: self.of_operand(name) for field, name in expression.operands}
        if expression.term == _SELECT:
            x, y = operands["x"], operands["y"]
            return None if x is None or y is None else (min(x[0], y[0]), max(x[1], y[1]))
        if expression.term == _REST:
            n = operands["n"]
            return None if n is None else (0, max(n[1] - 1, 0))
        k = operands["k"]
        return None if k is None else (0, max(k[1], 0))


def _names_used_as_values(kernel: LoopNest, index_expressions: set[str]) -> set[str]:
    """Names of which something else than an index is computed."""
    used: set[str] = set()
    expressions: list[tuple[str, object]] = [(let.name, let.expression) for let in lets_of(kernel)]
    for variant in kernel.variants:
        for piece in variant.pieces:
            expressions += [("", update.expression) for update in piece.body.updates]
            used.update(store.value for store in piece.body.stores)
    for name, expression in expressions:
        if isinstance(expression, Apply) and name not in index_expressions:
            used.update(operand for _, operand in expression.operands)
        # An index is added up by name, too.
        index = None
        if isinstance(expression, IndexValue):
            index = expression.index
        elif isinstance(expression, Load):
            index = expression.position
        if index is not None:
            used.update(part for text, _ in index.terms for part in text.split(" * "))
    return used
