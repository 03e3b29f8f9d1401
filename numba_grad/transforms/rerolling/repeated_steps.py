"""Finds the steps of a Python loop in a graph that has them one after the other.

A graph is looked at in arrays: the steps of a loop are the same operations again and again, whose
inputs are at the same distance (in this step or an earlier one), or the same node in all steps, or
numbers and rows that follow each other.
"""

import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.graph.node import HOLDING, NO_PARAMS, OPS, Node, Op, leaf, record, recording
from numba_grad.graph.survey import NodeSurvey, survey_of
from numba_grad.graph.types import CPU, MOST_WRITTEN_OUT, TupleType, Type
from numba_grad.graph.walk import by_serial
from numba_grad.immutable import NamedTuple
from numba_grad.ops.cheap_branches import are_cheap
from numba_grad.ops.control import item
from numba_grad.transforms.call import CallTarget
from numba_grad.transforms.loop_sizes import (
    FEWEST_LONG_STEPS,
    FEWEST_STEPS,
    LARGEST_OF_FEW_STEPS,
    LARGEST_VALUE,
    LONG_STEP,
    MANY_OPERATIONS,
)
from numba_grad.transforms.rerolling.assigned_rows import (
    UPDATE,
    BaseRow,
    RowAccess,
    RowAccesses,
    RowPart,
    row_access,
    row_axis,
    row_part,
    rows_read_again,
)

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls
    from numba_grad.transforms.rerolling.written_parts import WrittenPart

_FAMILIES = {"elementwise", "movement", "reduction", "literal", "contraction", "indexing"}
_OF_POINTS, _ALSO_OF_POINTS = ("elementwise", "literal"), ("broadcast_to", "reshape", "sum")
_WINDOW = 8  # consecutive operations, by which periods are looked for
_PERIODS = 12  # that are looked at
_MOST_INSIDE = 8  # times that a step may say the same: more are a loop of its own
_SHORT = 600  # operations of a step that is compiled as a whole, whatever it repeats
_SLICE, _RESHAPE, _CONCATENATE = OPS["slice"], OPS["reshape"], OPS["concatenate"]
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


class RecordedGraph:
    """A graph as arrays. Nodes have their position in the order as a number; inputs that are not in
    it have negative ones."""

    def __init__(
        self,
        order: Sequence[Node],
        fixed: Collection[Node],
        read_at_calls: "ReadAtCalls | None",
        fewest: int,
        fewest_steps: int,
        largest: int,
        written: "Mapping[Node, WrittenPart] | None" = None,
        fewest_of_many: int | None = None,
        survey: NodeSurvey | None = None,
    ) -> None:
        """`fewest_steps` of a loop, and `fewest_of_many` if a step has many operations; `survey` of
        `order`, if it was made."""
        self.written = {} if written is None else written
        inside = {x for part in self.written.values() for x in part.inside}
        order = [x for x in order if x not in inside] if inside else order
        self.nodes = order
        self.read_at_calls = read_at_calls
        self.fewest = fewest
        self.fewest_steps = fewest_steps
        self.fewest_of_many = fewest_steps if fewest_of_many is None else fewest_of_many
        if survey is None or inside:
            survey = survey_of(order, fixed)
        self.others: list[Node] = []  # inputs that are not in the order
        self.arities = survey.arities
        self.first_inputs = np.concatenate([[0], np.cumsum(self.arities)])
        self.inputs = self._merged(survey.inputs, survey.others)
        # Signatures are 0 of what cannot be in a loop, else equal for equal operations, and odd for
        # those that require grad; of what reads or assigns one row, it is in `row_starts`.
        self.signatures, accesses = _signatures(order, survey, largest)
        self.row_accesses, self.row_starts, self.part_numbers, self.row_parts = accesses
        self.signatures[~survey.are_free] = 0
        self.signatures[survey.fixed[survey.fixed >= 0]] = 0
        self.row_accesses[self.signatures == 0] = RowAccess.NONE
        # What nodes read in the graph, where reads of rows are not taken for what was assigned.
        self.inputs_in_graph = self.inputs
        self.read_again: set[int] = set()  # reads of rows that were assigned
        self.read_within: dict[int, RowPart] = {}  # those of them that read a part of what was
        self.read_earlier: set[int] = set()  # and of others, that the array has had before
        self.windows: set[int] = set()  # of several rows, whose inputs are these rows
        self.base_rows: dict[BaseRow, int] = {}  # those that no step has assigned, as numbers
        self.moved: Collection[Node] = ()  # what stands before others that were recorded earlier
        self._concatenations: list[int] = []  # those that were looked for
        self._looked_from = len(order)
        self.any_rows = False  # whether each step may read any row of an array
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
        self.number_types, self.number_offsets = _types_of_numbers(self.others, read_at_calls)
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

    def _merged(self, inputs: np.ndarray, others: Sequence[Node]) -> np.ndarray:
        """`inputs`, where equal small arrays are one, as `np.zeros(1)` of each step."""
        equal: dict[object, int] = {}  # by elements
        numbers = np.zeros(len(others) + 1, np.int64)  # the last one stands for -1
        for k, x in enumerate(others):
            number = equal.setdefault(self._elements_of(x), -1 - len(self.others))
            if number == -1 - len(self.others):
                self.others.append(x)
            numbers[-1 - k] = number
        if len(self.others) == len(others):
            return inputs
        return np.where(inputs < 0, numbers[inputs.clip(max=-1)], inputs)

    def _elements_of(self, x: Node) -> object:
        """What is the same for arrays that may stand for each other, whatever is done to one."""
        if x.op not in HOLDING or x.value is None or not len(x.shape) > 0 or x.requires_grad:
            return x
        if x.type.size > LARGEST_VALUE or x.type.device != CPU or self.is_read_at_calls(x):
            return x
        return (x.type, x.value.tobytes())

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
        kinds: dict[tuple[int, int], int] = {}
        kind = int(self.signatures.max(initial=0)) // 2 + 1
        for number in few:
            own = int(self.signatures[number]), int(self.row_starts[number])
            if own[0]:
                self.signatures[number] = 2 * kinds.setdefault(own, kind + len(kinds)) + own[0] % 2
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
        kinds: dict[tuple[Any, ...], int] = {}
        kind = int(self.signatures.max(initial=0)) // 2 + 1
        for node, part in self.written.items():
            number, value = numbers[node], part.value
            key = (node.type, value.type, *part[1:4])
            self.signatures[number] = 2 * kinds.setdefault(key, kind + len(kinds))
            self.signatures[number] += node.requires_grad
            self.row_accesses[number], self.row_starts[number] = RowAccess.WRITES, 0
            if value not in numbers:
                self.others.append(value)
                numbers[value] = -len(self.others)
            first = self.first_inputs[number]
            for inputs in (self.inputs, self.inputs_in_graph):
                inputs[first + 1 : first + self.arities[number]] = numbers[value]

    def _read_windows(self, windows: dict[int, list[int | BaseRow]]) -> None:
        """Take the rows of a window for what reads it: an operation of its own kind as well."""
        kinds: dict[tuple[Any, ...], int] = {}
        kind = int(self.signatures.max(initial=0)) // 2 + 1
        given: dict[int, list[int]] = {}
        for number, rows in windows.items():
            numbers = [self._number_of_row(x) for x in rows]
            if self.signatures[number] == 0 or len({self.node(x).type for x in numbers}) > 1:
                continue
            given[number] = numbers
            node = self.nodes[number]
            key = (node.type, self.part_numbers[number], len(numbers))
            self.signatures[number] = 2 * kinds.setdefault(key, kind + len(kinds))
            self.signatures[number] += node.requires_grad
            self.row_starts[number] = 0
        self._read_instead(given)
        self.windows.update(given)

    def _read_instead(self, given: dict[int, list[int]]) -> None:
        """Have nodes of one input read these."""
        times = np.ones(len(self.inputs), np.int64)
        places = list(given)
        times[self.first_inputs[places]] = self.arities[places] = [*map(len, given.values())]
        self.inputs, self.inputs_in_graph = (
            np.repeat(x, times) for x in (self.inputs, self.inputs_in_graph)
        )
        self.first_inputs = np.concatenate([[0], np.cumsum(self.arities)])
        for number, numbers in given.items():
            first = self.first_inputs[number]
            self.inputs[first : first + len(numbers)] = numbers

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
        kinds: dict[Type, int] = {}
        kind = int(self.signatures.max(initial=0)) // 2 + 1
        for base, powers in exponents.items():
            if len({*powers.values()}) < fewest:
                continue
            for number, exponent in powers.items():
                type = self.nodes[number].type
                if (type, exponent) not in leaves:
                    self.others.append(leaf(np.array(exponent, type.dtype)))
                    leaves[type, exponent] = -len(self.others)
                given[number] = [base, leaves[type, exponent]]
                own = self.signatures[number] % 2
                self.signatures[number] = 2 * kinds.setdefault(type, kind + len(kinds)) + own
        if not given:
            return set()
        self._read_instead(given)
        # Large ones are recorded so.
        for number in self._numbers_of(OPS["power"]):
            type = self.nodes[number].type
            if type in kinds:
                self.signatures[number] = 2 * kinds[type] + self.signatures[number] % 2
        return set(given)

    def _numbers_of(self, *ops: Op) -> list[int]:
        """Nodes that are one of these operations, of a floating number, and may be in a loop."""
        # Of each signature one node says what it is.
        numbers = np.arange(len(self.nodes))
        example = np.full(self.signatures.max(initial=0) + 1, -1)
        example[self.signatures[::-1]] = numbers[::-1]
        example[0] = -1
        found = np.zeros(len(example), bool)
        for signature in np.flatnonzero(example >= 0).tolist():
            x = self.nodes[example[signature]]
            found[signature] = x.op in ops and x.shape == () and x.dtype.kind == "f"
        return np.flatnonzero(found[self.signatures]).tolist()

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
        kinds: dict[tuple[Any, ...], int] = {}
        kind = int(self.signatures.max(initial=0)) // 2 + 1
        for number, key in places.items():
            node = self.nodes[number]
            other.signatures[number] = 2 * kinds.setdefault(key, kind + len(kinds))
            other.signatures[number] += node.requires_grad
            starts, shape = node.params["starts"], node.inputs[0].shape
            other.row_starts[number] = np.ravel_multi_index(starts, shape)
            other.are_elements[number] = True
        return other

    def assigns_row(self, number: int) -> bool:
        """Whether it changes an array that is no part of a loop."""
        return number >= 0 and bool(self.are_written[number])

    def node(self, number: int) -> Node:
        return self.nodes[number] if number >= 0 else self.others[-number - 1]

    def inputs_of(self, number: int) -> list[int]:
        first = self.first_inputs[number]
        return self.inputs[first : first + self.arities[number]].tolist()

    def is_read_at_calls(self, x: Node) -> bool:
        return self.read_at_calls is not None and self.read_at_calls.place_of(x) is not None

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

    def known_value(self, number: int) -> np.ndarray | None:
        """Of a number or an array that is the same in all runs."""
        x = self.node(number)
        if x.op not in HOLDING or x.requires_grad or self.is_read_at_calls(x):
            return None
        return x.value if x.type.device == CPU else None

    @cached_property
    def newest(self) -> int:
        """The last serial number."""
        return max([x.serial for x in self.nodes])

    @cached_property
    def are_in_order_of_recording(self) -> bool:
        serials = np.fromiter(map(by_serial, self.nodes), np.int64, len(self.nodes))
        return bool((np.diff(serials) > 0).all())

    def concatenations_after(self, end: int) -> list[int]:
        """Numbers from `end` on, in order."""
        if end < self._looked_from:
            nodes = self.nodes[end : self._looked_from]
            new = [number for number, x in enumerate(nodes, end) if x.op is _CONCATENATE]
            self._concatenations = [*new, *self._concatenations]
            self._looked_from = end
        return self._concatenations[bisect_left(self._concatenations, end) :]

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

    # What repeats.

    def is_worth_while(self, steps: Steps) -> bool:
        """Whether steps gain by being a loop.

        Of large arrays those of few operations are better planned one by one: what several of them
        add to a sum is added at once, and what a part of one needs alone is computed for that part.
        """
        # An array whose parts are assigned is no part of the loop.
        step = [
            x
            for x in self.nodes[steps.first : steps.first + steps.period]
            if x.op is not UPDATE and x not in self.written and x.type.__class__ is not TupleType
        ]
        if all(x.type.size <= LARGEST_VALUE or x.type.device != CPU for x in step):
            return True
        families = [x.op.family for x in step]
        operations = sum(family in ("elementwise", "reduction") for family in families)
        return operations >= LONG_STEP and "contraction" not in families

    def repetition(self) -> Steps | None:
        """The steps that cover most of the graph; of almost equal ones, the shortest, as twice a
        period is one as well."""
        best: Steps | None = None
        periods = self._periods()
        # Steps whose halves or thirds are alike, as those of Heun and Runge, have no operation
        # that is found again at the distance of a step first.
        multiples = [k * period for k in (2, 3, 4, 5, 6) for period in periods[:3]]
        for period in dict.fromkeys([*periods, *multiples]):
            covered = 0 if best is None else best.end - best.first
            if period in multiples and 10 * covered > 8 * len(self.nodes):
                break
            steps = self._steps(period)
            if steps is None or not self._are_fit(steps, periods):
                continue
            size = steps.end - steps.first
            is_longer = best is not None and period > best.period
            if 10 * size > 11 * covered if is_longer else 11 * size > 10 * covered:
                best = steps
        if best is None:
            return None
        best = best._replace(inner_period=self._inner_period(best, periods))
        if best.inner_period and self.nodes[best.first].type.device != CPU:
            # There several steps are one launch, and of a loop in a loop each inner step is one.
            return None
        return best if self.are_enough(best) else None

    def are_enough(self, steps: Steps) -> bool:
        """Whether there are so many of them that they are a loop."""
        if steps.inner_period:
            return steps.times >= FEWEST_LONG_STEPS
        return steps.times >= self.fewest_of(steps.period)

    def fewest_of(self, period: int) -> int:
        """Steps that are a loop, if each is so many operations."""
        return self.fewest_of_many if period >= MANY_OPERATIONS else self.fewest_steps

    def _inner_period(self, steps: Steps, periods: Sequence[int]) -> int:
        """The distance at which half of a long step and more repeats itself; 0 if it does not."""
        return 0 if steps.period <= _SHORT else self._period_inside(steps, periods)

    def _are_fit(self, steps: Steps, periods: Sequence[int]) -> bool:
        """Whether steps compute something and, if there are few, gain by being a loop: those of
        arrays, neither small ones nor large ones, that are no loops themselves."""
        step = self.nodes[steps.first : steps.first + steps.period]
        if all(x.op is _SLICE for x in step):  # others would read the same rows of what it leaves
            return False
        if steps.times >= self.fewest_steps or steps.period > _SHORT:
            return True
        sizes = [x.type.size for x in step if x.type.__class__ is not TupleType]
        in_loops = sum(size > MOST_WRITTEN_OUT for size in sizes)
        if 2 * in_loops < len(step) or max(sizes) > LARGEST_OF_FEW_STEPS:
            return False
        return not self._period_inside(steps, periods)

    def _period_inside(self, steps: Steps, periods: Sequence[int]) -> int:
        """The distance at which half of a step and more repeats itself many times, or 0."""
        signatures = self.signatures[steps.first : steps.first + steps.period]
        for period in periods:
            if _MOST_INSIDE * period <= steps.period:
                repeated = _longest_run(signatures[:-period] == signatures[period:])[1]
                if 2 * repeated > steps.period:
                    return period
        return 0

    def _periods(self) -> list[int]:
        """Distances at which the same few operations are found again, the most frequent first."""
        signatures = self.signatures
        count = len(signatures) - _WINDOW
        if count < self.fewest:
            return []
        hashes = np.zeros(count, np.uint64)
        for k in range(_WINDOW):
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + signatures[k : k + count].astype(
                np.uint64
            )
        # By 16 bits, which NumPy sorts as digits: in a tenth of the time. Few others have the same.
        places = np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")
        ordered = hashes[places]
        gaps = np.diff(places)[ordered[1:] == ordered[:-1]]
        counts = np.bincount(gaps[gaps <= len(signatures) // FEWEST_LONG_STEPS])
        # A step may have parts that are alike at a smaller distance, so this looks at some.
        frequent = np.argsort(-counts, kind="stable")[:_PERIODS]
        return frequent[counts[frequent] > 0].tolist()

    def _steps(self, period: int) -> Steps | None:
        """The longest repetition at this distance."""
        start, run = _longest_run(self._repeats(period))
        return self._steps_of_run(period, start, run)

    def _repeats(self, period: int) -> np.ndarray:
        """For each node, whether it and the one a period later go on in the same way."""
        signatures, arities = self.signatures, self.arities
        alike = (signatures[:-period] == signatures[period:]) & (signatures[period:] != 0)
        alike &= arities[:-period] == arities[period:]
        # What repeats in a shorter run is less than the fewest steps.
        least = max(self.fewest, self._fewest_at(period) * period) - period
        repeats, kinds = np.zeros(len(alike), bool), np.zeros(len(alike), np.int64)
        starts, ends = _runs(alike)
        is_long = ends - starts >= least
        for start, end in zip(starts[is_long].tolist(), ends[is_long].tolist(), strict=True):
            repeats[start:end], kinds[start:end] = self._kinds(period, start, end)
        # A pair that repeats, and the next one in the same way.
        return repeats[:-period] & repeats[period:] & (kinds[:-period] == kinds[period:])

    def _steps_of_run(self, period: int, start: int, run: int) -> Steps | None:
        """What repeats there, if it is enough."""
        count, rest = divmod(run + 2 * period, period)
        if not run or count < self._fewest_at(period) or count * period < self.fewest:
            return None
        return Steps(start, period, count, rest)

    def _fewest_at(self, period: int) -> int:
        return self.fewest_of(period) if period <= _SHORT else FEWEST_LONG_STEPS

    def without(self, loops: Sequence[Steps]) -> "RecordedGraph":
        """The same graph, where what these steps are is in no other loop."""
        other = copy.copy(self)
        other.signatures = self.signatures.copy()
        for steps in loops:
            other.signatures[steps.first : steps.end + steps.rest] = 0
        return other

    def steps_alike(self, steps: Steps) -> list[Steps]:
        """What repeats elsewhere at the distance of these steps, in order."""
        if steps.inner_period:
            return []
        found: list[Steps] = []
        end = 0
        starts, ends = _runs(self._repeats(steps.period))
        for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
            first = max(start, end)
            other = self._steps_of_run(steps.period, first, stop - first)
            if other is None:
                continue
            until = other.end + other.rest
            if first < steps.end + steps.rest and steps.first < until:
                end = max(end, steps.end + steps.rest)
            elif self._are_fit(other, ()) and self.is_worth_while(other):
                found.append(other)
                end = until
        return found

    def _kinds(self, period: int, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """For nodes that have the same operations a period later, whether they go on to these as
        steps do, and a number that says how their inputs do."""
        first_inputs = self.first_inputs
        firsts = first_inputs[start : end + 1] - first_inputs[start]
        own = slice(first_inputs[start], first_inputs[end])
        later = slice(first_inputs[start + period], first_inputs[end + period])
        here, there = self.inputs[own], self.inputs[later]
        is_equal = here == there
        is_number = (self.input_types[own] != 0) & (
            self.input_types[own] == self.input_types[later]
        )
        of_step = (there - here == period) & (here >= 0)
        # One of them, or none.
        kind = of_step + 2 * (is_equal & ~is_number) + 3 * is_number
        # Arrays that are read at each call have the same distance in memory.
        move = np.where(is_number, self.input_offsets[later] - self.input_offsets[own], 0)
        weighted = kind * self.input_weights[own] + move * self.offset_weights[own]
        kinds = _sums(weighted, firsts)
        # Slices of rows that follow each other are of one array; assignments go on, too.
        moves = self.row_starts[start + period : end + period] - self.row_starts[start:end]
        assigns = self.row_accesses[start:end] == RowAccess.ASSIGNS
        is_of_one = _sums(is_equal, firsts) > 0
        reads_any = self.any_rows & (self.row_accesses[start:end] == RowAccess.READS)
        is_of_one |= reads_any & (_sums(of_step, firsts) > 0)
        goes_on = _sums(kind == 0, firsts) == 0
        goes_on &= np.where(assigns, moves != 0, (moves == 0) | is_of_one)
        moves[reads_any] = 0
        return goes_on, kinds * 1000003 + moves


def _sums(values: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Of parts that begin at `firsts`, the last of which is the end; some may be empty."""
    until = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=until[1:])
    return np.diff(until[firsts])


def _runs(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of True begin, and where they are over."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def _longest_run(flags: np.ndarray) -> tuple[int, int]:
    """Where the longest run of True begins, and its length."""
    starts, ends = _runs(flags)
    if not len(starts):
        return 0, 0
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])


# Signatures. What can be said of many nodes at once is: a call for each takes as long as the rest.


def _signatures(
    nodes: Sequence[Node], survey: NodeSurvey, largest: int
) -> tuple[np.ndarray, RowAccesses]:
    """For each node the signature, and what it has to do with rows."""
    kinds = 2 * survey.kinds
    # Those of params of their own, by identity: what gradient rules made, and `np.sum`, often.
    kinds_by_params: dict[tuple[Any, ...], int] = {}
    for k in np.flatnonzero(kinds == 0).tolist():
        node = nodes[k]
        key = (node.op, id(node.params), node.type, *[x.type for x in node.inputs])
        kinds[k] = -2 * kinds_by_params.setdefault(key, len(kinds_by_params))
    kinds += survey.require_grad
    numbers = np.arange(len(nodes))
    first_of = np.empty(kinds.max() - kinds.min() + 1, np.int64)
    first_of[(kinds - kinds.min())[::-1]] = numbers[::-1]  # the last one that is written stays
    first = first_of[kinds - kinds.min()]
    known: dict[tuple[Any, ...], int] = {}
    parts: dict[RowPart, int] = {}
    signatures, row_starts, accesses, part_numbers = np.zeros((4, len(nodes)), np.int64)
    for k in np.flatnonzero(first == numbers).tolist():
        use = _use(nodes[k], largest)
        if use.part is not None:
            accesses[k] = use.access
            part_numbers[k] = parts.setdefault(use.part, len(parts))
        if use.name is not None:
            row_starts[k] = use.row
            kind = known.setdefault(use.name, len(known) + 1)
            signatures[k] = 2 * kind + nodes[k].requires_grad
    of_rows = RowAccesses(accesses[first], row_starts[first], part_numbers[first], list(parts))
    return signatures[first], of_rows


class _Use(NamedTuple):
    """What an operation has to do with rows, and its name, by which steps are compared: None for
    one that is in no loop."""

    access: int
    row: int  # or the first one
    part: RowPart | None
    name: tuple[Any, ...] | None


_uses: dict[tuple[int, int], _Use] = {}  # by the kind of a node
_MOST_USES = 1 << 16


def _use(node: Node, largest: int) -> _Use:
    # What reads a result of a branch depends on what the branch is, beside its kind.
    key = node.kind, largest
    found = _uses.get(key) if node.kind and node.op is not item else None
    if found is None:
        found = _new_use(node, largest)
        if len(_uses) >= _MOST_USES:
            _uses.clear()
        if node.kind and node.op is not item:
            _uses[key] = found
    return found


def _new_use(node: Node, largest: int) -> _Use:
    params, access, row, part = node.params, RowAccess.NONE, 0, None
    if node.op is UPDATE or node.op is _SLICE:
        access = row_access(node)
        if access:
            part = row_part(node)
    assigns = access == RowAccess.ASSIGNS
    if not (is_fit(node, largest) or (assigns and is_fit(node.inputs[1], largest))):
        return _Use(access, row, part, None)
    rest: object = None
    if assigns:
        row, rest = params["starts"][row_axis(node)], part
    elif node.op is _SLICE and _may_move(node):
        row = params["starts"][row_axis(node)]
        rest = part or row_part(node), params["sizes"], params.get("dropped")
    elif params is not NO_PARAMS:
        rest = _name_of(params)
    return _Use(access, row, part, None if rest == "" else (node.op, node.type, rest))


def _may_move(slice: Node) -> bool:
    """Whether it is of one row, or of so few that steps may read others in their place."""
    [x], sizes = slice.inputs, slice.params["sizes"]
    if not sizes or sizes[row_axis(slice)] == 1:
        return bool(sizes)
    return slice.params["steps"][0] == 1 and FEWEST_STEPS * sizes[0] <= x.shape[0]


def _types_of_numbers(
    others: Sequence[Node], read_at_calls: "ReadAtCalls | None"
) -> tuple[np.ndarray, np.ndarray]:
    """For each node a code of its type, if it is a number, or a small array such as `data[k]` of
    NumPy's, that another step may have another one in place of, else 0; and the offset, if it is in
    a memory that is read at each call."""
    codes: dict[int | tuple[int, Hashable], int] = {}  # by identity of the type
    found, offsets = np.zeros((2, max(1, len(others))), np.int64)
    for k, x in enumerate(others):
        if x.op not in HOLDING or x.value is None or x.requires_grad:
            continue
        type = x.type
        if type.size > LARGEST_VALUE or type.device != CPU:
            continue
        place = None if read_at_calls is None else read_at_calls.place_of(x)
        if place is not None:
            offsets[k] = place[1]
        key = id(type) if place is None else (id(type), place[0])
        found[k] = codes.setdefault(key, len(codes) + 1)
    return found, offsets


def is_fit(node: Node, largest: int) -> bool:
    """Whether an operation as this one may be in a loop, on a CPU of at most so many elements."""
    type = node.type
    if type.__class__ is TupleType:
        return node.op.name == "branch" and type.device == CPU and _is_cheap(node)
    if type.device != CPU:
        # There a thread does all steps of a point, where points never meet, of any size.
        return node.op.family in _OF_POINTS or node.op.name in _ALSO_OF_POINTS
    is_known = node.op.family in _FAMILIES or (node.op is item and is_fit(node.inputs[0], largest))
    return is_known and type.size <= largest


def _is_cheap(branch: Node) -> bool:
    branches: tuple[CallTarget, ...] = branch.params["branches"]
    numbers = range(len(branches[0].outputs))
    return are_cheap(branches, numbers)


def _name_of(params: dict[str, Any]) -> str:
    """Equal for equal params, to the bit; "" if that cannot be said."""
    return repr(tuple(params.items())) if all(map(_is_plain, params.values())) else ""


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    # A graph's own name has its address: equal ones are one (`known_bodies.py`).
    return value is None or isinstance(
        value, (bool, int, float, complex, str, bytes, np.dtype, np.generic, CallTarget)
    )
