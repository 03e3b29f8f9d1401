"""The values that one kernel computes, and the arguments that it takes.

A value has a name, and belongs to the outermost loop that it does not change in. Equal values are
computed once. Numbers that depend on sizes are arguments, so that the text shows none of them.
"""

from collections.abc import Callable, Collection

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import ONE, Factor, Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Body,
    Buffer,
    Constant,
    Expression,
    IndexValue,
    Let,
    Load,
    Store,
    Word,
)
from numba_grad.compiler.loop_nests.loop_cuts import Known
from numba_grad.compiler.loop_nests.loop_order import Survey
from numba_grad.compiler.scalar_expressions import Term, parsed
from numba_grad.compiler.segment_memory import Place
from numba_grad.graph.node import Node

INT64 = np.dtype(np.int64)
BOOL = np.dtype(bool)


class LongNest(Exception):
    """A loop nest has this many values, or more."""

    def __init__(self, values: int) -> None:
        self.values = values


class Values:
    """Those of one pass over a group. A pass with a `survey` is there to note what it sees.

    Parameters
    ----------
    own : nodes that are computed here though they have a place in memory
    place_of : where a value is in memory, None where it is not
    extents : of the loops, by name
    order : the loops, outermost first
    """

    def __init__(
        self,
        own: Collection[Node],
        place_of: Callable[[Node], Place | None],
        extents: dict[str, int],
        order: tuple[str, ...],
        *,
        survey: Survey | None = None,
    ) -> None:
        self.own = frozenset(own)
        self.place_of = place_of
        self.extents = extents
        self.order = order
        self.survey = survey
        self.level_of = {name: k + 1 for k, name in enumerate(order)}
        self.words: list[Word] = []
        self.word_names: dict[object, str] = {}
        self.buffers: dict[object, Buffer] = {}
        self.operations = 0
        self.value_count = 0
        self.most_values: int | None = None  # with which it is given up
        # What an index is a rotation of: that index, by how much, and of how many elements.
        self.rotations: dict[Index, tuple[Index, int, int]] = {}

    # Arguments

    def word(self, key: object, prefix: str, value: int) -> str:
        """The name of the argument that holds `value`; one argument for each key."""
        name = self.word_names.get(key)
        if name is None:
            name = f"{prefix}{len(self.words)}"
            self.word_names[key] = name
            self.words.append(Word(name, value))
        return name

    def buffer(self, memory: object, dtype: np.dtype) -> Buffer:
        found = self.buffers.get((memory, dtype))
        if found is None:
            found = Buffer(f"x{len(self.buffers)}", len(self.words), dtype)
            self.words.append(Word(found.name, memory=memory))
            self.buffers[memory, dtype] = found
        return found

    def special_word(self, source: object, prefix: str) -> str:
        """An argument that is not known before the plan is put together."""
        name = self.word_names.get(source)
        if name is None:
            name = self.word_names[source] = f"{prefix}{len(self.words)}"
            self.words.append(Word(name, memory=source))
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

    def start_piece(self, known: Known, first: str = "") -> None:
        """`first`: the variable that holds where a piece begins, if the body is for several."""
        self.known = known
        self.first = first
        self.body = Body()
        innermost = len(self.order)
        if innermost:
            self.level_of[first] = innermost
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
            if self.value_count == self.most_values:
                raise LongNest(self.value_count)
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
        before.
        """
        if self.survey is not None:
            self.survey.accesses.append(where)
        start = Place(place.memory, place.offset * dtype.itemsize)
        return self.buffer(start, dtype), where

    def place_to_load(self, node: Node) -> Place | None:
        """Where the value of `node` is read from; None if it is computed here."""
        return None if node in self.own else self.place_of(node)

    def load(self, place: Place, dtype: np.dtype, where: Index) -> str:
        buffer, where = self.locate(place, dtype, where)
        key = ("load", buffer, where)
        if key in self.memo:
            return self.memo[key]
        return self.let(Load(buffer, self.named(where, buffer)), self.index_level(where), key)

    def store(self, place: Place, dtype: np.dtype, where: Index, value: str) -> None:
        buffer, where = self.locate(place, dtype, where)
        self.body.stores.append(Store(buffer, self.named(where, buffer), value))

    def apply(
        self, expression: str | Term, dtype: np.dtype, *, casts: bool = False, **operands: str
    ) -> str:
        term = parsed(expression) if isinstance(expression, str) else expression
        level = max((self.level_of_name(name) for name in operands.values()), default=0)
        return self.let(Apply(term, tuple(operands.items()), dtype, casts), level)

    def constant(self, value: object, dtype: np.dtype) -> str:
        return self.let(constant(value, dtype), 0)

    def select(self, condition: str, x: str, y: str, dtype: np.dtype) -> str:
        self.operations += 1
        return self.apply("select({c}, {x}, {y})", dtype, c=condition, x=x, y=y)


def constant(value: object, dtype: np.dtype) -> Constant:
    return Constant(np.asarray(value).astype(dtype).tobytes(), dtype)
