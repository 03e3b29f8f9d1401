"""Steps of a Python loop, recorded one after the other, become one `loop` operation again.

A loop of 1,000 Runge-Kutta steps is 130,000 nodes, and 340,000 with its derivative, which
differentiating, flattening and planning look at one by one. As one node with a body of 130 they
look at a step.

`python_loops.py` says when to look.

What repeats is found in arrays (`repeated_steps.py`). Only long loops over few numbers are
rerolled: with larger arrays, and more of them, what a loop costs is its arithmetic, which is
planned better step by step.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.graph.node import (
    OPS,
    Node,
    argument,
    leaf,
    record,
    recording,
)
from numba_grad.graph.survey import are_free
from numba_grad.graph.walk import copied, in_order_of_recording, rebuilt
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import several_results
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import region_params, slice_params
from numba_grad.transforms.assigned_rows import UPDATE, RowAccess
from numba_grad.transforms.call import CallTarget
from numba_grad.transforms.loops import loop
from numba_grad.transforms.repeated_steps import (
    RecordedGraph,
    Steps,
    is_fit,
)
from numba_grad.transforms.steps_before import Carried, Comparison, StepBefore
from numba_grad.transforms.written_parts import WrittenPart, parts_written_in, with_written

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_SAMPLES = 1024  # of the nodes of a long graph, for a first look at them
_LONGEST_DELAY = 8  # steps back that a step may read
_MOST_LEFT = 6  # steps at either end that stay as they are
_HIGHEST_BLOCK = 16  # of rows, which overlap those of the next step or leave out some
_NEARLY = 1.03  # as many bytes
_NEVER = 1e15
_NO_LOOP = 1 << 62  # operations of a loop that is not done all at once
_SLICE, _RESHAPE, _CONCATENATE = OPS["slice"], OPS["reshape"], OPS["concatenate"]
_FLIP = OPS["flip"]


class Rerolled:
    """What has become of a loop."""

    def __init__(self, times: int, steps: Sequence[Node], before: Sequence[Node]) -> None:
        self.times = times
        self.steps = steps  # the nodes that are inside of it now, one after the other
        self.before = before  # and those of the first steps, which others may stand between
        self.recorded: set[Node] = set()  # in place of all these
        self.instead: dict[Node, Node] = {}  # for each that others read
        # Concatenations of what steps gave, one after the other: their pieces now.
        self.pieces: dict[Node, tuple[Node, ...]] = {}

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Those of a node that is not in the loop, from now on."""
        joined = self.pieces.get(node)
        if joined is not None:
            return joined
        return tuple([self.instead.get(x, x) for x in node.inputs])

    def rewired(self, order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, Node]:
        """Copies of those nodes of `order`, which `roots` depend on, that come after the loop."""
        copies: dict[Node, Node] = {}
        for node in self._outside(order, roots):
            inputs = tuple([copies.get(x, x) for x in self.inputs(node)])
            if inputs != node.inputs:
                copies[node] = copied(node, inputs, copies)
        return copies

    def rewire(self, order: Sequence[Node], roots: Sequence[Node]) -> None:
        """As `rewired`, but the nodes themselves: only where nobody else walks their graph."""
        for node in self._outside(order, roots):
            node.inputs = self.inputs(node)

    def _outside(self, order: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
        """What `roots` depend on, and is in no step."""
        needed = set(roots)
        inside = set(self.steps)
        found = []
        for node in reversed(order):
            if node in needed and node not in inside:
                found.append(node)
                needed.update(self.inputs(node))
        return found[::-1]


class Limits(NamedTuple):
    """What makes a loop worth while."""

    nodes: int  # of all steps, at least
    nodes_at_once: int  # of those that are done all at once
    steps: int  # at least
    largest_value: int  # elements of what a step computes, at most
    largest_row: int | None = None  # of what others read of each step


def reroll(
    order: Sequence[Node],
    fixed: Collection[Node],
    known: Callable[[CallTarget], CallTarget],
    read_at_calls: "ReadAtCalls | None",
    limits: Limits,
) -> Rerolled | None:
    """See `python_loops.loop_in`."""
    fewest = limits.nodes_at_once
    distance = max(16, len(order) // _SAMPLES)
    some = [node for node in order[::distance] if is_fit(node, limits.largest_value)]
    if 2 * distance * sum(are_free(some)) < fewest:
        return None  # larger arrays, as most long loops have: not worth a closer look
    written: Mapping[Node, WrittenPart] = {}
    if limits.largest_row is not None:  # in a compiled function
        written = parts_written_in(order, fixed, read_at_calls)
    # Maybe there is a loop only if steps look at what those before have written.
    for taken in (written, {}) if written else ({},):
        recorded = RecordedGraph(
            order, fixed, read_at_calls, fewest, limits.steps, limits.largest_value, taken
        )
        made = _loop_of(recorded, known, limits)
        if made is not None:
            return made
    return None


def _loop_of(
    recorded: RecordedGraph, known: Callable[[CallTarget], CallTarget], limits: Limits
) -> Rerolled | None:
    candidates = [(recorded.repetition(), limits)]
    reads_rows = bool((recorded.row_accesses == RowAccess.READS).any())
    if reads_rows and 2 * _size(candidates[0][0]) < len(recorded.nodes):
        # All at once, by index arrays, steps may read any rows: a sum over a list of bonds, or all
        # passes of a loop in a loop.
        found = recorded.repetition(any_rows=True), limits._replace(nodes=_NO_LOOP)
        candidates.insert(0 if _size(found[0]) > 2 * _size(candidates[0][0]) else 1, found)
    for steps, limits in candidates:
        if steps is None or not recorded.is_worth_while(steps):
            continue
        made = _Loop(recorded, steps, known, limits).made()
        if made is not None:
            return made
    return None


def _size(steps: Steps | None) -> int:
    """In operations."""
    return 0 if steps is None else steps.end - steps.first


class _Loop:
    """Makes one loop."""

    def __init__(
        self,
        recorded: RecordedGraph,
        steps: Steps,
        known: Callable[[CallTarget], CallTarget],
        limits: Limits,
    ) -> None:
        self.recorded = recorded
        self.steps = steps
        self.before: list[StepBefore] = []  # the first one first
        self.known = known
        self.limits = limits
        self.carried: list[Carried] = []
        self.constants: dict[int, Node] = {}  # by number
        self.sequences: list[tuple[int, int]] = []  # (place, which input), rows of these
        # Places of what is the same in all steps, and the first place that has the same, as that of
        # `p[0]`, which steps say again and again.
        self.invariant: dict[int, int] = {}
        self.stacked: list[int] = []  # places of what others read of many steps
        # Places of assignments of a row to an array, with the places of what is assigned. The
        # array is no part of the loop.
        self.assigned: dict[int, int] = {}

    def made(self) -> Rerolled | None:
        with recording(True):
            self.steps = self._from_narrowest_place()
            # A step or two more stay as they are where the first reads something else than others,
            # or others read something of the last that is not carried.
            for _ in range(_MOST_LEFT):
                if self.steps.times < self.recorded.fewest_steps:
                    return None
                self._classify()
                reads = self._reads_of_others()
                if any(delay > _LONGEST_DELAY for _, delay in self.carried):
                    return None
                if not self._assigns_well(reads):
                    return None
                if not self._begins_well():
                    self.steps = self.steps.without_first()
                elif not self._ends_well(reads):
                    self.steps = self.steps.without_last()
                else:
                    return self._loop(self._with_steps_before(reads))
        return None

    @property
    def count(self) -> int:
        """Of all steps."""
        return len(self.before) + self.steps.times

    def _node(self, place: int, step: int) -> Node:
        step -= len(self.before)
        if step < 0:
            return self.recorded.node(self.before[step].nodes[place])
        return self.recorded.nodes[self.steps.first + step * self.steps.period + place]

    def _with_steps_before(self, reads: dict[int, list[int]]) -> dict[int, list[int]]:
        """Take in the steps before those that repeat; returns what others read, then."""
        if any(self._reads_any_row(place) for place, _ in self.sequences) or any(
            self._writes_anywhere(place) for place in self.assigned
        ):
            return reads  # which of all rows it would read, or write, is not known
        while True:
            initial = {key: self._initial_number(*key) for key in self.carried}
            arrays = {chain[-1]: self._array_before(chain) for chain in self._chains()}
            stacked = [place for place in reads if not self._is_carried_out(place, reads[place])]
            comparison = Comparison(self.recorded, self.steps, self.sequences, len(self.before) + 1)
            found = comparison.step_before(initial, arrays, stacked)
            # What reads nothing of the steps before it is found again and again.
            if found is None or (self.before and found.nodes == self.before[0].nodes):
                return reads
            self.before.insert(0, found)
            now = self._reads_of_others()
            if now.keys() != reads.keys() or not self._assigns_well(now):
                self.before.pop(0)
                return reads
            reads = now

    def _initial_number(self, place: int, delay: int) -> int:
        """What the first step reads of the steps before it."""
        if self.before:
            return self.before[0].initial[place, delay]
        return self.steps.first + place - delay * self.steps.period

    def _array_before(self, chain: Sequence[int]) -> int:
        """What the first step assigns to at these places, one after the other."""
        if self.before:
            return self.before[0].arrays[chain[0]]
        return self.steps.first + self._source(chain[0])

    def _from_narrowest_place(self) -> Steps:
        """The same steps, cut where the fewest bytes go from one to the next.

        Of places that are nearly as narrow, where they end, as the user's own steps do; else the
        one after the value that is read most often: of a stencil, the state rather than what is
        added to it.
        """
        steps, recorded = self.steps, self.recorded
        period = steps.period
        first = steps.first + (steps.times // 2) * period
        last_use = np.zeros(period, np.int64)  # nodes later
        reads = np.zeros(period, np.int64)
        change = np.zeros(2 * period + 1)  # of what crosses the beginnings of places
        for number in range(first, first + period):
            following = recorded.inputs_of(number + period)
            for k, (x, y) in enumerate(zip(recorded.inputs_of(number), following, strict=True)):
                if y - x != period or x < 0 or recorded.assigns_row(x):
                    continue  # an array whose rows are assigned is no part of the loop
                place = (x - steps.first) % period
                last_use[place] = max(last_use[place], number - x)
                reads[place] += 1
                if k == 1 and recorded.assigns_row(number):
                    # What is assigned must be of the same step.
                    change[place + 1] += _NEVER
                    change[place + 1 + min(number - x, period)] -= _NEVER
        places = np.arange(period)
        nodes = recorded.nodes[steps.first : steps.first + period]
        # Of what has several results, these go on.
        cost = np.array([_NEVER if several_results(x) else x.type.nbytes + 1 for x in nodes])
        np.add.at(change, places + 1, cost)
        np.add.at(change, places + 1 + last_use % period, -cost)
        crossing = np.cumsum(change[:-1]).reshape(2, period).sum(axis=0)
        crossing += (cost * (last_use // period)).sum()
        is_narrow = crossing <= _NEARLY * crossing.min()
        is_inside = places != steps.rest
        shift = int(np.lexsort((crossing, -np.roll(reads, 1), is_inside, ~is_narrow))[0])
        return Steps(steps.first + shift, period, steps.times - (shift > steps.rest))

    def _classify(self) -> None:
        """What each input of a step is."""
        steps, recorded = self.steps, self.recorded
        first, period = steps.first, steps.period
        carried: dict[Carried, None] = {}
        self.constants, self.sequences, self.invariant, self.assigned = {}, [], {}, {}
        first_places: dict[tuple[Any, ...], int] = {}
        for place in range(period):
            number = first + place
            if recorded.assigns_row(number):
                self.assigned[place] = recorded.inputs_of(number)[1] - first
                continue
            is_made = number not in recorded.read_again and number not in recorded.windows
            is_invariant = recorded.arities[number] > 0 and is_made
            row_moves = self._reads_next_row(place)
            following = recorded.inputs_of(number + period)
            for k, (x, y) in enumerate(zip(recorded.inputs_of(number), following, strict=True)):
                if y - x == period and x >= 0:
                    if x >= first:
                        is_invariant = is_invariant and x - first in self.invariant
                        continue
                    is_invariant = False
                    delay = -((x - first) // period)
                    for between in range(1, delay + 1):
                        carried[(x - first) % period, between] = None
                elif row_moves or self._is_sequence_of_numbers(number, k):
                    is_invariant = False
                    self.sequences.append((place, k))
                else:
                    self.constants[x] = recorded.node(x)
                    is_invariant = is_invariant and x < first
            if is_invariant:
                sources = [
                    x if x < first else first + self.invariant[x - first]
                    for x in recorded.inputs_of(number)
                ]
                key = (int(recorded.signatures[number]), int(recorded.row_starts[number]), *sources)
                self.invariant[place] = first_places.setdefault(key, place)
        self.carried = list(carried)

    def _is_sequence_of_numbers(self, number: int, k: int) -> bool:
        """Whether an input is another number, or another small array, in each step."""
        column = self._column(number, k)
        return column[0] < 0 and bool((column != column[0]).any())

    def _column(self, number: int, k: int) -> np.ndarray:
        """One input, in all steps."""
        steps, recorded = self.steps, self.recorded
        numbers = number + steps.period * np.arange(steps.times)
        return recorded.inputs[recorded.first_inputs[numbers] + k]

    def _begins_well(self) -> bool:
        """Whether the first step finds what it reads."""
        first, recorded, constants = self.steps.first, self.recorded, self.constants
        if any(map(several_results, constants.values())):
            return False
        read = [recorded.inputs_of(first + place)[k] for place, k in self.sequences]
        if any(number >= first for number in (*constants, *read)):
            return False  # of the first step itself
        if any(x.array >= first for x, number in recorded.base_rows.items() if number in constants):
            return False
        for place, delay in self.carried:
            number = first + place - delay * self.steps.period
            if number < 0 or recorded.nodes[number].type is not recorded.nodes[first + place].type:
                return False
        return True

    # Arrays whose rows are assigned.

    def _assigns_well(self, reads: dict[int, list[int]]) -> bool:
        """Whether arrays are read after the loop alone, and no row is assigned twice."""
        steps, recorded = self.steps, self.recorded
        if not self.assigned:
            return True
        if any(value < 0 for value in self.assigned.values()):
            return False  # of the step before
        for place in range(steps.period):
            own = recorded.inputs_of(steps.first + place)
            read = own[1:] if place in self.assigned else own
            if any(recorded.assigns_row(x) and x >= steps.first - steps.period for x in read):
                return False
        if any(place in self.assigned for place, _ in self.carried):
            return False  # somebody looks at the array that an earlier step has left
        chains = self._chains()
        if not all(map(self._goes_on, chains)) or any(map(self._assigns_twice, chains)):
            return False
        ends = {chain[-1] for chain in chains}
        last = [self.count - 1]
        return all(
            place in ends and read == last
            for place, read in reads.items()
            if place in self.assigned
        )

    def _writes_anywhere(self, place: int) -> bool:
        return self.recorded.row_accesses[self.steps.first + place] == RowAccess.WRITES

    def _goes_on(self, chain: Sequence[int]) -> bool:
        """Whether parts that are anywhere are parts of what the step before has left."""
        anywhere = [*map(self._writes_anywhere, chain)]
        return not any(anywhere) or (
            all(anywhere) and self._source(chain[0]) == chain[-1] - self.steps.period
        )

    def _assigns_twice(self, chain: Sequence[int]) -> bool:
        """Whether an element is, maybe."""
        recorded, steps = self.recorded, self.steps
        if self._writes_anywhere(chain[0]):
            return False  # of which nobody reads one in between
        moves = steps.period * np.arange(steps.times)
        rows, parts = [], []
        for place in chain:
            before = [int(recorded.row_starts[step.nodes[place]]) for step in self.before]
            rows.append({*before, *recorded.row_starts[steps.first + place + moves].tolist()})
            parts.append(recorded.row_parts[recorded.part_numbers[steps.first + place]])
        return any(
            parts[i].meets(parts[k]) and not rows[i].isdisjoint(rows[k])
            for k in range(len(chain))
            for i in range(k)
        )

    def _chains(self) -> list[list[int]]:
        """The places of assignments to each array, in order."""
        chains: dict[int, list[int]] = {}  # by the last place
        for place in self.assigned:
            source = self._source(place)
            chain = chains.pop(source, [])
            chains[place] = [*chain, place]
        return list(chains.values())

    def _source(self, place: int) -> int:
        """The place of the array that an assignment changes: below 0 in the step before."""
        return self.recorded.inputs_of(self.steps.first + place)[0] - self.steps.first

    def _arrays_after(self, stack_of: dict[int, Node]) -> dict[int, Node]:
        """By the last place of assignments to it, each array after all steps."""
        steps, recorded = self.steps, self.recorded
        found: dict[int, Node] = {}
        for chain in self._chains():
            array = recorded.node(self._array_before(chain))
            if self._writes_anywhere(chain[0]):
                with recording(recorded.nodes[steps.first + chain[-1]].requires_grad):
                    found[chain[-1]] = with_written(array, self._written(chain, stack_of))
                continue
            for place in chain:
                number = steps.first + place
                first, move = self._rows(number)
                part = recorded.row_parts[recorded.part_numbers[number]]
                rows = reshape(stack_of[self.assigned[place]], (self.count, *part.sizes))
                params = region_params((first, *part.starts), (abs(move), *part.steps))
                with recording(recorded.nodes[number].requires_grad):
                    rows = rows if move > 0 else _flipped(rows)
                    array = record(UPDATE, (array, rows), params)
            found[chain[-1]] = array
        return found

    def _written(
        self, chain: Sequence[int], stack_of: dict[int, Node]
    ) -> list[tuple[Node, list[WrittenPart]]]:
        """By place of a chain, the values of all steps, and what is known of them."""
        written, steps = self.recorded.written, range(self.count)
        return [
            (stack_of[self.assigned[place]], [written[self._node(place, k)] for k in steps])
            for place in chain
        ]

    # What others read.

    def _reads_of_others(self) -> dict[int, list[int]]:
        """For places in a step, the steps that others read it of."""
        steps, recorded = self.steps, self.recorded
        later = recorded.inputs_in_graph[recorded.first_inputs[steps.end] :]
        inside = later[(later >= steps.first) & (later < steps.end)]
        # `np.unique` would import `numpy.ma`: 10 ms.
        is_read = np.zeros(steps.end - steps.first, bool)
        is_read[inside - steps.first] = True
        reads: dict[int, list[int]] = {}
        for step, before in enumerate(self.before):
            for place in before.nodes_among(later):
                reads.setdefault(place, []).append(step)
        for number in np.flatnonzero(is_read).tolist():
            step = len(self.before) + number // steps.period
            reads.setdefault(number % steps.period, []).append(step)
        return reads

    def _is_carried_out(self, place: int, steps: Sequence[int]) -> bool:
        """Whether the values that a place has in these steps are carried out of the last one."""
        return all((place, self.count - step) in self.carried for step in steps)

    def _ends_well(self, reads: dict[int, list[int]]) -> bool:
        """Whether what others read of the last step alone is carried out of it."""
        last = self.count - 1
        return all(
            read != [last] or place in self.assigned or self._is_carried_out(place, read)
            for place, read in reads.items()
        )

    # The loop itself.

    def _loop(self, reads: dict[int, list[int]]) -> Rerolled | None:
        steps, recorded = self.steps, self.recorded
        stacked = [
            place
            for place, read in reads.items()
            if place not in self.assigned and not self._is_carried_out(place, read)
        ]
        self.stacked = list(dict.fromkeys([*stacked, *self.assigned.values()]))
        if not self.carried and not self.stacked:
            return None  # nobody reads what it computes
        places = [*self.stacked, *[place for place, _ in self.carried]]
        if any(several_results(recorded.nodes[steps.first + place]) for place in places):
            return None
        for place in self.invariant.values():
            x = recorded.nodes[steps.first + place]
            if not several_results(x):  # whose results are the same as well
                self.constants[steps.first + place] = x
        rows = [x for key in self.sequences if (x := self._sequence(*key)) is not None]
        if len(rows) < len(self.sequences):
            return None
        body, constants = self._body(rows)
        initial = [self._initial(place, delay) for place, delay in self.carried]
        finals, stacks = loop(body, initial, rows, constants, self.count)
        numbers = [x for step in self.before for x in step.nodes.values() if x >= 0]
        before = [recorded.nodes[x] for x in numbers]
        within = list(recorded.nodes[steps.first : steps.end])
        within += [x for node in within for x in self._inside(node)]
        made = Rerolled(self.count, within, before)
        self._replace(made, reads, finals, stacks)
        if not self._date([*finals, *stacks], made):
            return None
        is_better = self._is_worth_a_loop() or not any(map(_is_loop, made.recorded))
        return made if is_better else None

    def _inside(self, node: Node) -> tuple[Node, ...]:
        """What was recorded for an assignment, and is no node of a step."""
        part = self.recorded.written.get(node)
        return () if part is None else part.inside

    def _is_worth_a_loop(self) -> bool:
        """Whether it may be an operation of its own, rather than a step for all."""
        steps, limits = self.steps, self.limits
        sizes = [self.recorded.nodes[steps.first + place].type.size for place in self.stacked]
        is_few = steps.end - steps.first < limits.nodes
        has_large_rows = (
            limits.largest_row is not None and max(sizes, default=0) > limits.largest_row
        )
        return not (is_few or has_large_rows)

    def _initial(self, place: int, delay: int) -> Node:
        number = self._initial_number(place, delay)
        x = self.recorded.node(number)
        if number in self.recorded.read_earlier:
            given = [self.recorded.node(y) for y in self.recorded.inputs_of(number)]
            with recording(x.requires_grad):
                x = record(x.op, tuple(given), x.params)
        goes_on = self.recorded.nodes[self.steps.first + place].requires_grad
        return x if goes_on or not x.requires_grad else OPS["detach"](x)

    def _sequence(self, place: int, k: int) -> Node | None:
        """What a step reads one row of: numbers, or rows of an array."""
        steps, recorded = self.steps, self.recorded
        number = steps.first + place
        column = self._column(number, k)
        if not self._reads_next_row(place):
            if any((place, k) not in step.numbers for step in self.before):
                return None  # of what nobody reads of the first steps
            before = [step.numbers[place, k] for step in self.before]
            numbers = [recorded.node(x) for x in (*before, *column.tolist())]
            if recorded.is_read_at_calls(numbers[0]):
                assert recorded.read_at_calls is not None
                return recorded.read_at_calls.array_of(numbers)
            return leaf(np.array([x.value for x in numbers], numbers[0].dtype))
        x, params = recorded.node(int(column[0])), recorded.nodes[number].params
        if self._reads_any_row(place):
            return _any_rows(x, params, self._row_starts(place))
        first, move = self._rows(number)
        rows = _blocks(x, params, first, abs(move), self.count)
        return rows if rows is None or move > 0 else _flipped(rows)

    def _reads_next_row(self, place: int) -> bool:
        """Whether it reads a row of an array, and not the same in all steps."""
        starts = self._row_starts(place)
        return bool((starts != starts[0]).any())

    def _reads_any_row(self, place: int) -> bool:
        """Whether these rows do not lie at equal distances."""
        moves = np.diff(self._row_starts(place))
        return bool((moves != moves[0]).any())

    def _row_starts(self, place: int) -> np.ndarray:
        """In all steps that repeat."""
        steps = self.steps
        last = steps.first + place + (steps.times - 1) * steps.period
        return self.recorded.row_starts[steps.first + place : last + 1 : steps.period]

    def _rows(self, number: int) -> tuple[int, int]:
        """The first of the rows that a place is about, and how many rows lie from one step to the
        next, below 0 where they are gone through from the last one."""
        steps, starts = self.steps, self.recorded.row_starts
        first, move = int(starts[number]), int(starts[number + steps.period] - starts[number])
        first -= move * len(self.before)
        return min(first, first + move * (self.count - 1)), move

    def _body(self, sequences: Sequence[Node]) -> tuple[CallTarget, list[Node]]:
        """One step, and the constants that it takes."""
        steps, recorded = self.steps, self.recorded
        first = steps.first

        def stand_in(x: Node) -> Node:
            return argument(x.type, x.requires_grad)

        carried = {
            (place, delay): stand_in(recorded.nodes[first + place]) for place, delay in self.carried
        }
        rows = {
            key: argument(x.type.of_shape(x.shape[1:]), x.requires_grad)
            for key, x in zip(self.sequences, sequences, strict=True)
        }
        constants = {number: stand_in(x) for number, x in self.constants.items()}
        own = {number - first: x for number, x in constants.items()}  # by place
        made = {place: own[same] for place, same in self.invariant.items() if same in own}
        views: dict[tuple[int, ...], Node] = {}
        for place in range(steps.period):
            if place in self.invariant or place in self.assigned:
                continue
            node = recorded.nodes[first + place]
            if (place, 0) in rows and self._reads_next_row(place):
                made[place] = reshape(rows[place, 0], node.shape)
                continue
            given = []
            following = recorded.inputs_of(first + place + steps.period)
            for k, (x, y) in enumerate(
                zip(recorded.inputs_of(first + place), following, strict=True)
            ):
                if (place, k) in rows:
                    given.append(rows[place, k])
                elif y - x != steps.period or x < 0:
                    given.append(constants[x])  # which a loop may begin with, too
                elif x >= first:
                    given.append(made[x - first])
                else:
                    delay = -((x - first) // steps.period)
                    given.append(carried[(x - first) % steps.period, delay])
            if first + place in recorded.read_again or first + place in recorded.windows:
                made[place] = _as_read_again(node, given)
                continue
            # A step that says `y[0]` several times is differentiated as if it said so once.
            own = int(recorded.signatures[first + place]), int(recorded.row_starts[first + place])
            key = (*own, *map(id, given))
            if node.op.family == "movement" and key in views:
                made[place] = views[key]
                continue
            with recording(node.requires_grad):  # not of what the user has recorded without
                made[place] = views[key] = rebuilt(node, tuple(given), {})
        outputs = [
            made[place] if delay == 1 else carried[place, delay - 1]
            for place, delay in self.carried
        ]
        outputs += [made[place] for place in self.stacked]
        arguments = [*carried.values(), *rows.values(), *constants.values()]
        target = self.known(CallTarget("steps", arguments, outputs))
        return target, [self.constants[number] for number in constants]

    def _replace(
        self,
        made: Rerolled,
        reads: dict[int, list[int]],
        finals: Sequence[Node],
        stacks: Sequence[Node],
    ) -> None:
        """Say what others read from now on."""
        stack_of = dict(zip(self.stacked, stacks, strict=True))
        final_of = dict(zip(self.carried, finals, strict=True))
        place_of: dict[Node, tuple[int, int]] = {}  # of what is stacked: (place, step)
        for place in stack_of:
            for step in reads.get(place, ()):
                place_of[self._node(place, step)] = place, step
        only_joined = self._join(made, place_of, stack_of)
        arrays = self._arrays_after(stack_of)
        for place, read in reads.items():
            if place in arrays:
                made.instead[self._node(place, self.count - 1)] = arrays[place]
                continue
            for step in read:
                node = self._node(place, step)
                final = final_of.get((place, self.count - step))
                if final is not None:
                    made.instead[node] = final
                elif node not in only_joined:
                    made.instead[node] = _row(stack_of[place], step)

    def _join(
        self,
        made: Rerolled,
        place_of: dict[Node, tuple[int, int]],
        stack_of: dict[int, Node],
    ) -> set[Node]:
        """Concatenations of rows, one after the other: `np.stack` of what a loop has appended.
        Returns the nodes that nobody else reads."""
        recorded, end = self.recorded, self.steps.end
        joined: set[Node] = set()
        others: set[Node] = set()
        reshaped: dict[Node, Node] = {}  # a row, as a piece
        concatenations = []
        for number, node in enumerate(recorded.nodes[end:], end):
            if node.op is _CONCATENATE and len(node.inputs) >= recorded.fewest_steps:
                concatenations.append(node)
                continue
            for x in node.inputs:
                if x in place_of:
                    if node.op is _RESHAPE and recorded.signatures[number]:
                        reshaped[node] = x
                    else:
                        others.add(x)
        used_pieces: set[Node] = set()
        for node in concatenations:
            pieces = self._pieces(node, place_of, stack_of, reshaped)
            if pieces is None:
                others.update(reshaped[x] for x in node.inputs if x in reshaped)
                others.update(x for x in node.inputs if x in place_of)
                continue
            made.pieces[node] = pieces
            used_pieces.update(x for x in node.inputs if x in reshaped)
            joined.update(reshaped[x] for x in node.inputs if x in reshaped)
        for piece, row in reshaped.items():
            if piece not in used_pieces:
                others.add(row)
        return joined - others

    def _pieces(
        self,
        node: Node,
        place_of: dict[Node, tuple[int, int]],
        stack_of: dict[int, Node],
        reshaped: dict[Node, Node],
    ) -> tuple[Node, ...] | None:
        """The inputs of a concatenation, with what steps gave in one piece; None if that is not
        how it is."""
        axis = node.params["axis"]
        pieces: list[Node] = []
        run: list[tuple[int, int]] = []  # (place, step) of rows that follow each other

        def finish_run() -> None:
            if run:
                pieces.append(_rows(stack_of[run[0][0]], run[0][1], len(run), axis))
                run.clear()

        for x in node.inputs:
            row = reshaped.get(x)
            if row is None or row not in place_of:
                finish_run()
                pieces.append(x)
                continue
            shape = row.shape
            if x.shape != (*shape[:axis], 1, *shape[axis:]):
                return None
            place, step = place_of[row]
            if run and run[-1] != (place, step - 1):
                finish_run()
            run.append((place, step))
        finish_run()
        return tuple(pieces) if len(pieces) < len(node.inputs) else None

    def _date(self, results: Sequence[Node], made: Rerolled) -> bool:
        """Give what was recorded now the serial numbers of the last steps, if they have so many:
        inputs have smaller ones than users, among what came before and after as well."""
        joined = [x for pieces in made.pieces.values() for x in pieces]
        newest = self.recorded.nodes[-1].serial
        last = self.recorded.nodes[self.steps.end - 1].serial
        later = self.recorded.nodes[self.steps.end :]
        if any(x.serial < last for node in later for x in self._inside(node)):
            return False
        own = made.recorded = {
            y
            for x in (*results, *made.instead.values(), *joined)
            if x.serial > newest
            for y in _with_inputs(x, last)
        }
        # The results of a loop have the numbers after its own, those that are asked for later as
        # well.
        counts = {x: len(x.type.items) for x in own if _is_loop(x)}
        items = {x.serial + k: x for x, count in counts.items() for k in range(1, count + 1)}
        numbers = {x: x.serial for x in own}
        serial = last - len(own) - sum(counts.values())
        if serial <= self.recorded.nodes[self.steps.first + self.steps.period].serial:
            return False
        for x in in_order_of_recording(own):
            loop = items.get(x.serial)
            if loop is not None:
                x.serial += loop.serial - numbers[loop]
                continue
            x.serial = serial
            serial += 1 + counts.get(x, 0)
        return True


def _any_rows(x: Node, params: Mapping[str, Any], starts: np.ndarray) -> Node | None:
    """Slices as the one of these params, but of these rows."""
    height, *sizes = params["sizes"]
    if height > 1:
        return None
    rows = OPS["gather"](x, leaf(starts.copy()), checked=False)
    part = region_params((0, *params["starts"][1:]), (1, *params["steps"][1:]))
    return record(_SLICE, (rows,), {**part, "sizes": (len(starts), *sizes)})


def _blocks(x: Node, params: Mapping[str, Any], first: int, move: int, count: int) -> Node | None:
    """`count` slices as the one of these params, the first of which begins at the row `first`, and
    each `move` rows after the one before. None where these would be many slices."""
    height, *sizes = params["sizes"]
    others = params["starts"][1:], params["steps"][1:]

    def rows(start: int, length: int, step: int) -> Node:
        starts, steps = ((value, *rest) for value, rest in zip((start, step), others, strict=True))
        return record(_SLICE, (x,), {"starts": starts, "sizes": (length, *sizes), "steps": steps})

    if height == 1:
        return rows(first, count, move)
    shape = (count, height, *sizes)
    if height == move:
        return reshape(rows(first, count * height, 1), shape)
    if height > _HIGHEST_BLOCK:
        return None
    parts = [reshape(rows(first + k, count, move), (count, 1, *sizes)) for k in range(height)]
    return record(_CONCATENATE, tuple(parts), {"axis": 1})


def _is_loop(node: Node) -> bool:
    return node.op.name == "loop"


def _with_inputs(x: Node, since: int) -> list[Node]:
    """A node and those it was made of, from a serial number on."""
    found, stack = [], [x]
    while stack:
        node = stack.pop()
        if node.serial > since:
            found.append(node)
            stack += node.inputs
    return found


def _as_read_again(node: Node, rows: Sequence[Node]) -> Node:
    """What a read of rows gives, of what was assigned to them."""
    x = rows[0] if len(rows) == 1 else record(_CONCATENATE, tuple(rows), {"axis": 0})
    x = reshape(x, node.shape)
    return x if node.requires_grad else OPS["detach"](x)


def _flipped(rows: Node) -> Node:
    return _FLIP(rows, axes=(0,))


def _row(stack: Node, step: int) -> Node:
    rest = len(stack.shape) - 1
    params = slice_params(
        (step, *(0,) * rest), (1, *stack.shape[1:]), (1,) * (rest + 1), dropped=(0,)
    )
    return record(_SLICE, (stack,), params)


def _rows(stack: Node, first: int, count: int, axis: int) -> Node:
    """Some rows, along an axis."""
    rest = stack.shape[1:]
    x = stack
    if count < stack.shape[0]:
        starts = (first, *(0 for _ in rest))
        steps = tuple(1 for _ in stack.shape)
        x = record(_SLICE, (x,), {"starts": starts, "sizes": (count, *rest), "steps": steps})
    if axis:
        axes = (*range(1, axis + 1), 0, *range(axis + 1, len(stack.shape)))
        x = record(OPS["transpose"], (x,), {"axes": axes})
    return x
