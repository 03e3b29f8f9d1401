"""What the steps of a Python loop read and write, and what others read of them, before they become
one operation: what goes from step to step, constants, rows of arrays, arrays whose rows are
assigned."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.graph.node import Node
from numba_grad.ops.control import several_results
from numba_grad.transforms.rerolling.assigned_rows import RowAccess
from numba_grad.transforms.rerolling.recorded_graph import RecordedGraph, Steps
from numba_grad.transforms.rerolling.steps_before import Carried, Comparison, StepBefore

Reads = tuple[int, int]  # a place in a step, and which input of it
WHICH_ROW = -1  # stands for an input, of a slice of what a step computes: the row that it is of
_NEARLY = 1.03  # as many bytes
_NEVER = 1e15


class StepsOfLoop:
    """Steps that repeat, and those before them that do as well."""

    def __init__(self, recorded: RecordedGraph, steps: Steps) -> None:
        self.recorded = recorded
        self.steps = steps
        self.before: list[StepBefore] = []  # the first one first
        self.carried: list[Carried] = []
        # The same, those together that passes of a loop inside carry on, as rows of one array.
        self.carried_runs: list[list[Carried]] = []
        self.constants: dict[int, Node] = {}  # by number
        self.constant_reads: dict[Reads, int] = {}  # what reads each of them
        self.sequences: list[Reads] = []  # what reads rows
        self.picked: list[int] = []  # places of any row of what a step computes
        # Places of what is the same in all steps, and the first place that has the same, as that of
        # `p[0]`, which steps say again and again.
        self.invariant: dict[int, int] = {}
        # Places of what others read of many steps, those together that are rows of one array.
        self.stacked: list[list[int]] = []
        # Places of assignments of a row to an array, with the places of what is assigned. The
        # array is no part of the loop.
        self.assigned: dict[int, int] = {}

    @property
    def count(self) -> int:
        """Of all steps."""
        return len(self.before) + self.steps.times

    def _node(self, place: int, step: int) -> Node:
        step -= len(self.before)
        if step < 0:
            return self.recorded.node(self.before[step].nodes[place])
        return self.recorded.nodes[self.steps.first + step * self.steps.period + place]

    def _numbers_before(self) -> list[int]:
        """What is in the first steps."""
        return [x for step in self.before for x in step.nodes.values() if x >= 0]

    def _with_steps_before(self, reads: dict[int, list[int]]) -> dict[int, list[int]]:
        """Take in the steps before those that repeat; returns what others read, then."""
        read_any = any(self._reads_any_row(place) for place, _ in self.sequences)
        if self.picked or read_any or any(self._writes_anywhere(place) for place in self.assigned):
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
            is_after = self._is_after_what_steps_read(found)
            if now.keys() != reads.keys() or not self._assigns_well(now) or not is_after:
                self.before.pop(0)
                return reads
            reads = now

    def _is_after_what_steps_read(self, before: StepBefore) -> bool:
        """Whether a first step comes after all results that steps read one after the other: these
        may be made of what it computes otherwise."""
        if self.recorded.node_types is None:
            return True
        read = [x for step in self.before for x in step.numbers.values()]
        read += [
            int(self._column(self.steps.first + place, k).max()) for place, k in self.sequences
        ]
        first = min([x for x in before.nodes.values() if x >= 0], default=self.steps.first)
        return max(read, default=-1) < first

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
        first = steps.first + (steps.times - 1) // 2 * period
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
        times = steps.times - (shift > steps.rest)
        return steps._replace(first=steps.first + shift, times=times, rest=0)

    def _classify(self) -> None:
        """What each input of a step is."""
        steps, recorded = self.steps, self.recorded
        first, period = steps.first, steps.period
        carried: dict[Carried, None] = {}
        self.constants, self.sequences, self.invariant, self.assigned = {}, [], {}, {}
        self.constant_reads, self.picked = {}, []
        first_places: dict[tuple[Any, ...], int] = {}
        for place in range(period):
            number = first + place
            if recorded.assigns_row(number):
                self.assigned[place] = recorded.inputs_of(number)[1] - first
                continue
            is_made = number not in recorded.read_again and number not in recorded.windows
            is_invariant = recorded.arities[number] > 0 and is_made
            is_invariant = is_invariant and not self._is_row_of_pass(place)
            row_moves = self.reads_next_row(place)
            following = recorded.inputs_of(number + period)
            for k, (x, y) in enumerate(zip(recorded.inputs_of(number), following, strict=True)):
                if y - x == period and x >= 0:
                    if row_moves:
                        is_invariant = False
                        self.picked.append(place)
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
                    self.constant_reads[place, k] = x
                    is_invariant = is_invariant and x < first
            if is_invariant:
                sources = [
                    x if x < first else first + self.invariant[x - first]
                    for x in recorded.inputs_of(number)
                ]
                key = (int(recorded.signatures[number]), int(recorded.row_starts[number]), *sources)
                self.invariant[place] = first_places.setdefault(key, place)
        self.carried = list(carried)

    def _is_row_of_pass(self, place: int) -> bool:
        """Whether a loop inside of the steps reads another row of an array in the next pass."""
        number, following = self.steps.first + place, place + self.steps.inner_period
        if following == place or following >= self.steps.period:
            return False
        recorded, other = self.recorded, self.steps.first + following
        is_alike = recorded.signatures[number] == recorded.signatures[other]
        return bool(is_alike and recorded.row_starts[number] != recorded.row_starts[other])

    def _is_sequence_of_numbers(self, number: int, k: int) -> bool:
        """Whether an input is another number, or another small array, in each step."""
        column = self._column(number, k)
        if column[0] >= 0 and (self.recorded.node_types is None or column[0] >= self.steps.first):
            return False
        return bool((column != column[0]).any())

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

    def reads_next_row(self, place: int) -> bool:
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
            parts[i].axis != parts[k].axis
            or (parts[i].meets(parts[k]) and not rows[i].isdisjoint(rows[k]))
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
