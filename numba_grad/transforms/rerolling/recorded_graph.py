"""A recorded graph in which the steps of a loop look alike: what differs from step to step is
taken for something that does not.

    y[3] = x; ... y[3] + 1            reads `x`: what was assigned to a row that is read again
    np.sum(y[2:5])                    reads what was assigned to each of these rows
    y = update_slice(y, part + x)     an operation of `y` and `x` (`written_parts.py`)
    beta**2, beta**3                  powers whose exponent is a number of each step
"""

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.graph.node import OPS, Node, leaf, record, recording
from numba_grad.graph.survey import NodeSurvey
from numba_grad.graph.types import Type
from numba_grad.immutable import NamedTuple
from numba_grad.transforms.loop_sizes import FEWEST_PASSES, Limits
from numba_grad.transforms.rerolling.assigned_rows import (
    BaseRow,
    RowAccess,
    RowAccesses,
    RowPart,
    rows_read_again,
)
from numba_grad.transforms.rerolling.graph_as_arrays import GraphAsArrays, NewSignatures
from numba_grad.transforms.rerolling.signatures import is_small, types_of_numbers

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls
    from numba_grad.transforms.rerolling.written_parts import WrittenPart

_SLICE, _RESHAPE = OPS["slice"], OPS["reshape"]
_SQUARE, _INTEGER_POWER = OPS["square"], OPS["integer_power"]
_POWERS = 3 ** np.arange(21)


class Steps(NamedTuple):
    """`times` steps of `period` nodes each, from the number `first` on; `rest` nodes after them are
    those of one more step that is not whole. Where most of a step is a loop of its own, the steps
    of that have `inner_period` nodes."""

    first: int
    period: int
    times: int
    rest: int = 0
    inner_period: int = 0

    @property
    def end(self) -> int:
        return self.first + self.period * self.times

    def without_first(self) -> "Steps":
        return self._replace(first=self.first + self.period, times=self.times - 1, rest=0)

    def without_last(self) -> "Steps":
        return self._replace(times=self.times - 1, rest=0)


class RecordedGraph(GraphAsArrays):
    """A graph in which to look for steps that repeat."""

    def __init__(
        self,
        order: Sequence[Node],
        fixed: Collection[Node],
        read_at_calls: "ReadAtCalls | None",
        limits: Limits,
        written: "Mapping[Node, WrittenPart] | None" = None,
        survey: NodeSurvey | None = None,
    ) -> None:
        """`written` are assignments that add to an array; `survey` of `order`, if it was made."""
        self.written = {} if written is None else written
        inside = {x for part in self.written.values() for x in part.inside}
        order = [x for x in order if x not in inside] if inside else order
        own = None if inside else survey
        super().__init__(order, fixed, read_at_calls, limits.largest_value, own)
        self.fewest = limits.nodes_at_once
        self.fewest_steps = limits.steps
        of_many = limits.steps_of_many
        self.fewest_of_many = limits.steps if of_many is None else of_many
        self.longest_step: int | None = None  # in operations
        self.read_again: set[int] = set()  # reads of rows that were assigned
        self.read_within: dict[int, RowPart] = {}  # those of them that read a part of what was
        self.read_earlier: set[int] = set()  # and of others, that the array has had before
        self.windows: set[int] = set()  # of several rows, whose inputs are these rows
        self.base_rows: dict[BaseRow, int] = {}  # those that no step has assigned, as numbers
        self.moved: Collection[Node] = ()  # what stands before others that were recorded earlier
        self.needs_passes = False  # whether steps have to be loops themselves
        self.any_rows = False  # whether each step may read any row of an array
        # Of nodes, what tells apart those that steps may read one after the other where these were
        # recorded before them; 0 of others.
        self.node_types: np.ndarray | None = None
        # Reads of one element, whose row is the place in all of the array.
        self.are_elements = np.zeros(len(order), bool)
        if (self.row_accesses == RowAccess.ASSIGNS).any():
            self._take_few_rows_for_operations()
            self._read_assigned_rows()
        self._take_written_parts()
        self.powers = self._take_powers()
        # Whether a node changes an array that is no part of a loop.
        kinds = self.row_accesses
        self.are_written = (kinds == RowAccess.ASSIGNS) | (kinds == RowAccess.WRITES)
        # What tells apart inputs outside of the order that may differ from step to step, and where
        # those are that are read at each call.
        self.number_types, self.number_offsets = types_of_numbers(self.others, read_at_calls)
        # The same for each input, and what the way in which it goes on counts for.
        outside = (-1 - self.inputs).clip(0, len(self.number_types) - 1)
        self.input_types = np.where(self.inputs < 0, self.number_types[outside], 0)
        self.input_offsets = np.where(self.inputs < 0, self.number_offsets[outside], 0)
        self.input_weights, self.offset_weights = self._weights()

    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """By which one of its node's inputs each is; of many, the last ones are one."""
        within = np.arange(len(self.inputs)) - np.repeat(self.first_inputs[:-1], self.arities)
        within = within.clip(max=len(_POWERS) - 1)
        return _POWERS[within], _POWERS[-1 - within]

    def _take_few_rows_for_operations(self) -> None:
        """Take assignments to an array that gets fewer rows than there are steps, as the values at
        both ends of a state, for operations as others."""
        numbers = np.flatnonzero(self.row_accesses == RowAccess.ASSIGNS)
        sources = self.inputs[self.first_inputs[numbers]]
        first_of: dict[int, int] = {}  # by the number of an assignment, the first to that array
        for number, source in zip(numbers.tolist(), sources.tolist(), strict=True):
            first_of[number] = first_of.get(source, number)
        counts = Counter(first_of.values())
        few = [x for x, first in first_of.items() if counts[first] < self.fewest_steps]
        new = NewSignatures(self.signatures)
        for number in few:
            own = int(self.signatures[number]), int(self.row_starts[number])
            if own[0]:
                self.signatures[number] = new.of(own, bool(own[0] % 2))
        self.row_starts[few] = 0
        self.row_accesses[few] = RowAccess.NONE

    def _read_assigned_rows(self) -> None:
        """Take what was assigned for what reads it again: an operation of its own kind, whose value
        is that of its input."""
        self.inputs_in_graph = self.inputs.copy()
        accesses = RowAccesses(
            self.row_accesses, self.row_starts, self.part_numbers, self.row_parts
        )
        assigned, self.read_within, before, windows = rows_read_again(
            accesses, self.inputs, self.first_inputs, self.nodes
        )
        for number, source in before.items():
            self.inputs[self.first_inputs[number]] = source
        for number, source in assigned.items():
            if number not in self.read_within:
                source = self._as_it_is_read(source, number)
            self.inputs[self.first_inputs[number]] = source
        self.read_earlier.update(before)
        again = list(assigned)
        apart = 2 * (int(self.signatures.max(initial=0)) // 2 + 1)
        self.signatures[again] += apart
        # And each part is an operation of its own kind.
        kinds: dict[RowPart, int] = {}
        for number, part in self.read_within.items():
            self.signatures[number] += apart * kinds.setdefault(part, len(kinds) + 1)
        self.row_starts[again] = 0
        self.row_accesses[again] = RowAccess.NONE
        self.read_again.update(again)
        if windows:
            self._read_windows(windows)

    def _take_written_parts(self) -> None:
        """Take assignments that add to an array for operations of it and what is added."""
        if not self.written:
            return
        numbers = {x: number for number, x in enumerate(self.nodes)}
        new = NewSignatures(self.signatures)
        for node, part in self.written.items():
            number, value = numbers[node], part.value
            kind = (node.type, value.type, *part[1:4])
            self.signatures[number] = new.of(kind, node.requires_grad)
            self.row_accesses[number], self.row_starts[number] = RowAccess.WRITES, 0
            if value not in numbers:
                self.others.append(value)
                numbers[value] = -len(self.others)
            first = self.first_inputs[number]
            for inputs in (self.inputs, self.inputs_in_graph):
                inputs[first + 1 : first + self.arities[number]] = numbers[value]

    def _read_windows(self, windows: dict[int, list[int | BaseRow]]) -> None:
        """Take the rows of a window for what reads it: an operation of its own kind as well."""
        new = NewSignatures(self.signatures)
        given: dict[int, list[int]] = {}
        for number, rows in windows.items():
            numbers = [self._number_of_row(x) for x in rows]
            if self.signatures[number] == 0 or len({self.node(x).type for x in numbers}) > 1:
                continue
            given[number] = numbers
            node = self.nodes[number]
            kind = (node.type, self.part_numbers[number], len(numbers))
            self.signatures[number] = new.of(kind, node.requires_grad)
            self.row_starts[number] = 0
        self._read_instead(given)
        self.windows.update(given)

    def _take_powers(self) -> set[int]:
        """Take powers of one number, `beta**t` with Python's `t`, for the same operation of an
        exponent that is a number of each step, and their second input. Returns them."""
        exponents: dict[int, dict[int, int]] = {}  # by the number of the base and of the power
        for number in self._numbers_of(_SQUARE, _INTEGER_POWER):
            base = int(self.inputs[self.first_inputs[number]])
            exponent = self.nodes[number].params.get("exponent", 2)
            exponents.setdefault(base, {})[number] = exponent
        fewest = min(self.fewest_steps, self.fewest_of_many)
        leaves: dict[tuple[Type, int], int] = {}
        given: dict[int, list[int]] = {}
        new = NewSignatures(self.signatures)
        for base, powers in exponents.items():
            if len({*powers.values()}) < fewest:
                continue
            for number, exponent in powers.items():
                type = self.nodes[number].type
                if (type, exponent) not in leaves:
                    self.others.append(leaf(np.array(exponent, type.dtype)))
                    leaves[type, exponent] = -len(self.others)
                given[number] = [base, leaves[type, exponent]]
                self.signatures[number] = new.of(type, bool(self.signatures[number] % 2))
        if not given:
            return set()
        self._read_instead(given)
        # Large ones are recorded so.
        for number in self._numbers_of(OPS["power"]):
            type = self.nodes[number].type
            if type in new:
                self.signatures[number] = new.of(type, bool(self.signatures[number] % 2))
        return set(given)

    def _number_of_row(self, x: int | BaseRow) -> int:
        if not isinstance(x, BaseRow):
            return x
        if x not in self.base_rows:
            part = self.row_parts[x.part_number]
            starts, sizes, steps = part.of_rows(x.row, 1, 1)
            params = {"starts": starts, "sizes": sizes, "steps": steps}
            with recording(True):
                self.others.append(record(_SLICE, (self.node(x.array),), params))
            self.base_rows[x] = -len(self.others)
        return self.base_rows[x]

    def _as_it_is_read(self, assigned: int, reader: int) -> int:
        """What was assigned, in the shape that is read, if it had that before: `y[t] = x` makes a
        row of `x`. First steps read rows that no step has assigned, in that shape."""
        row, read = self.node(assigned), self.node(reader)
        if assigned < 0 or row.op is not _RESHAPE or row.type is read.type:
            return assigned
        [x] = row.inputs
        if x.type is not read.type or x.requires_grad != row.requires_grad:
            return assigned
        number = int(self.inputs_in_graph[self.first_inputs[assigned]])
        return number if number >= 0 else assigned

    def with_any_rows(self) -> "RecordedGraph":
        """The same graph, whose steps may read any row of what others read the same of, be it an
        array or what a step has computed."""
        other = copy.copy(self)
        other.any_rows = True
        return other

    def with_any_elements(self) -> "RecordedGraph | None":
        """The same, where a read of one element, anywhere in an array, is one of such a row; None
        if few are."""
        reads = (self.row_accesses == RowAccess.READS) & (self.signatures > 1)
        places: dict[int, tuple[Any, ...]] = {}
        for number in np.flatnonzero(reads).tolist():
            node = self.nodes[number]
            if node.type.size == 1 and len(node.inputs[0].shape) > 1:
                places[number] = node.type, node.inputs[0].type, node.params.get("dropped")
        if len(places) < self.fewest_steps:
            return None
        other = self.with_any_rows()
        other.signatures, other.row_starts = self.signatures.copy(), self.row_starts.copy()
        other.are_elements = self.are_elements.copy()
        new = NewSignatures(self.signatures)
        for number, kind in places.items():
            node = self.nodes[number]
            other.signatures[number] = new.of(kind, node.requires_grad)
            starts, shape = node.params["starts"], node.inputs[0].shape
            other.row_starts[number] = np.ravel_multi_index(starts, shape)
            other.are_elements[number] = True
        return other

    def with_results_before(self, fewest: int) -> "RecordedGraph":
        """The same, whose steps may each read another one of what was recorded before them, as the
        items of a list: `ws = [f(k) for k in range(n)]`; loops of so many operations at least."""
        other = copy.copy(self)
        codes: dict[tuple[Type, bool], int] = {}
        other.node_types = np.zeros(len(self.nodes), np.int64)
        other.fewest = fewest
        for number, x in enumerate(self.nodes):
            if is_small(x):
                key = x.type, x.requires_grad
                other.node_types[number] = codes.setdefault(key, len(codes) + 1)
        return other

    def may_be_read_for(self, a: int, b: int) -> bool:
        """Whether two results are such that steps may read one after the other."""
        if self.node_types is None or min(a, b) < 0:
            return False
        return bool(self.node_types[a] == self.node_types[b] != 0)

    def with_loops_inside_of(self, steps: Steps, fewest: int) -> "RecordedGraph":
        """The same, in which to look for the loops that such steps are for the most part, of so
        many operations at least."""
        other = copy.copy(self)
        other.longest_step = steps.period // FEWEST_PASSES
        other.fewest = max(fewest, self.fewest // (len(self.nodes) // steps.period))
        return other

    def signatures_of_passes(self, first: int, end: int) -> np.ndarray:
        """Signatures by which the passes of a loop inside of such a step are alike: of elements of
        a row, `costs[i, j]`, which step by step are read for the same j, in whatever column."""
        signatures = self.signatures[first:end].copy()
        new = NewSignatures(self.signatures)
        are_read = (self.row_accesses[first:end] == RowAccess.READS) & (signatures > 1)
        for k in np.flatnonzero(are_read).tolist():
            node = self.nodes[first + k]
            part = self.row_parts[self.part_numbers[first + k]]
            if 1 in part.sizes:
                kind = node.type, node.inputs[0].type, part._replace(starts=())
                signatures[k] = new.of(kind, bool(signatures[k] % 2))
        return signatures

    def without(self, loops: Sequence[Steps]) -> "RecordedGraph":
        """The same graph, where what these steps are is in no other loop."""
        other = copy.copy(self)
        other.signatures = self.signatures.copy()
        for steps in loops:
            other.signatures[steps.first : steps.end + steps.rest] = 0
        return other

    def assigns_row(self, number: int) -> bool:
        """Whether it changes an array that is no part of a loop."""
        return number >= 0 and bool(self.are_written[number])

    def is_same_operation(self, a: int, b: int) -> bool:
        """Whether two do the same, maybe with other rows, and one of them without gradients."""
        return self.signatures[a] > 1 and self.signatures[a] // 2 == self.signatures[b] // 2

    def is_number(self, number: int, *, like: int, move: int = 0) -> bool:
        """Of two inputs from outside, whether one may be what another step has for the other.

        `move` : how far that is from `like` in a memory that is read at each call
        """
        code = self.number_types[-like - 1]
        if not code or self.number_types[-number - 1] != code:
            return False
        return self.offset(number) - self.offset(like) == move

    def offset(self, number: int) -> int:
        """Of an input from outside that is read at each call, where in its memory; 0 of others."""
        return int(self.number_offsets[-number - 1])

    def is_same_value(self, a: int, b: int) -> bool:
        """Whether two inputs are the same number, or the same operation of the same."""
        if a == b:
            return True
        if (
            a < 0
            and b < 0
            and self.is_number(a, like=b)
            and not self.is_read_at_calls(self.node(a))
        ):
            return self.node(a).value.tobytes() == self.node(b).value.tobytes()
        if min(a, b) < 0 or not self.is_same_operation(a, b):
            return False
        given = self.inputs_of(a)
        if self.row_starts[a] != self.row_starts[b] or given != self.inputs_of(b):
            return False
        # An array requires grad once a row does that was assigned to it, and others do not.
        return self.signatures[a] == self.signatures[b] or not any(
            self.node(x).requires_grad for x in given
        )

    def readers_of(self, steps: Steps, others: Collection[int] = ()) -> list[int]:
        """What comes after these steps and reads something of them, and what reads one of the
        others, in order."""
        first = self.first_inputs[steps.end]
        later = self.inputs_in_graph[first:]
        found = first + np.flatnonzero((later >= steps.first) & (later < steps.end))
        if others:
            are_others = np.zeros(len(self.nodes) + 1, bool)  # the last one stands for -1
            are_others[list(others)] = True
            read = np.flatnonzero(are_others[self.inputs_in_graph.clip(min=-1)])
            found = np.concatenate([found, read])
        numbers = np.searchsorted(self.first_inputs, found, side="right") - 1
        # Windows, of which these are the rows that they have instead of the array.
        return sorted({*numbers.tolist(), *self.windows})
