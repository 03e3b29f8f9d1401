"""Steps of a Python loop, recorded one after the other, become one `loop` operation again.

A loop of 1,000 Runge-Kutta steps is 130,000 nodes, and 340,000 with its derivative, which
differentiating, flattening and planning look at one by one. As one node with a body of 130 they
look at a step.

`transforms/python_loops.py` says when to look.

What repeats is found in arrays (`repeated_steps.py`). Only long loops over few numbers are
rerolled: with larger arrays, and more of them, what a loop costs is its arithmetic, which is
planned better step by step.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.graph.node import Node, leaf, record, recording
from numba_grad.graph.survey import NodeSurvey, are_free
from numba_grad.graph.walk import by_serial, recorded_since
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import several_results
from numba_grad.ops.families import reshape
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.control_flow.loops import loop
from numba_grad.transforms.loop_sizes import (
    FEWEST_PASSES,
    LONGEST_DELAY,
    MOST_LOOPS,
    Limits,
    distance_of_samples,
)
from numba_grad.transforms.rerolling.assigned_rows import RowAccess, row_axis
from numba_grad.transforms.rerolling.body_of_step import BodyOfStep, Read
from numba_grad.transforms.rerolling.loops_in_steps import (
    in_runs,
    with_loops_inside,
)
from numba_grad.transforms.rerolling.order_of_steps import other_orders
from numba_grad.transforms.rerolling.recorded_graph import RecordedGraph, Steps
from numba_grad.transforms.rerolling.repeated_steps import (
    are_enough,
    is_long,
    is_worth_while,
    repetition,
    steps_alike,
)
from numba_grad.transforms.rerolling.rerolled import Rerolled, RerolledLoops, is_loop
from numba_grad.transforms.rerolling.results_of_steps import ResultsOfSteps
from numba_grad.transforms.rerolling.rows_of_steps import (
    any_rows,
    blocks,
    columns,
    elements_of,
    flipped,
    put_together,
    row_read,
    rows_in_front,
)
from numba_grad.transforms.rerolling.signatures import is_fit
from numba_grad.transforms.rerolling.steps_before import Carried
from numba_grad.transforms.rerolling.steps_of_loop import WHICH_ROW, Reads
from numba_grad.transforms.rerolling.written_parts import WrittenPart, parts_written_in

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls

_MOST_LEFT = 6  # steps at either end that stay as they are
# Operations of a compiled function from which on loops are worth while that follow one another in
# steps which are no loop, and of each of these: below, to compile them takes longer than what their
# steps have in common.
_FEWEST_WITH_LOOPS_INSIDE = 4096
_FEWEST_INSIDE = 512
# The same of loops whose steps read one after the other what no loop has left: to put it together,
# and its cotangents apart, is an operation for each.
_FEWEST_WITH_RESULTS_BEFORE = 1 << 14
# And where the steps are loops themselves, of which little is compiled, and half of the function:
# of several sweeps over a table, what is between them would be put together and taken apart.
_FEWEST_OF_ROWS = 1024
_ONE_SEGMENT = 600  # operations that are compiled as a whole, whatever they repeat


def reroll(
    order: Sequence[Node],
    fixed: Collection[Node],
    known: Callable[[CallTarget], CallTarget],
    read_at_calls: "ReadAtCalls | None",
    limits: Limits,
    survey: NodeSurvey | None = None,
) -> RerolledLoops | None:
    """See `python_loops.loop_in`; `survey` of `order`, if it was made."""
    distance = distance_of_samples(order)
    some = [node for node in order[::distance] if is_fit(node, limits.largest_value)]
    if 2 * distance * sum(are_free(some)) < limits.nodes_at_once:
        return None  # larger arrays, as most long loops have: not worth a closer look
    written: Mapping[Node, WrittenPart] = {}
    if limits.largest_row is not None:  # in a compiled function
        written = parts_written_in(order, fixed, read_at_calls)
    for look in _ways_to_look(order, fixed, written, limits):
        own = survey if look.order is order else None
        recorded = RecordedGraph(look.order, fixed, read_at_calls, limits, look.written, own)
        recorded.moved = look.moved
        made = _loop_of(recorded, known, limits)
        if made is not None:
            return made
    return None


class _Look(NamedTuple):
    """A way to look at a graph."""

    order: Sequence[Node]
    moved: Collection[Node] = ()  # what stands before others that were recorded earlier
    written: Mapping[Node, WrittenPart] = MappingProxyType({})  # assignments that add to an array


class _Candidate(NamedTuple):
    """Steps that may become a loop, if there are any."""

    graph: RecordedGraph
    steps: Steps | None
    limits: Limits

    @property
    def size(self) -> int:
        """In operations."""
        return 0 if self.steps is None else self.steps.end - self.steps.first


def _ways_to_look(
    order: Sequence[Node],
    fixed: Collection[Node],
    written: Mapping[Node, WrittenPart],
    limits: Limits,
) -> Iterator[_Look]:
    """One after the other, until there is a loop."""
    yield _Look(order, written=written)
    if written:
        yield _Look(order)  # maybe steps look at what those before have written
    if limits.largest_row is not None:  # once: each look takes as long as the first
        for other, moved in other_orders(order, fixed, limits.steps):
            yield _Look(other, moved)


def _loop_of(
    recorded: RecordedGraph, known: Callable[[CallTarget], CallTarget], limits: Limits
) -> RerolledLoops | None:
    """The first that can be made a loop of: steps as they are; where these are less than half of
    the graph, steps that may read any row, in a compiled function also any element. What is found
    so comes first if it is more than twice as long. Of steps that are loops for the most part, and
    cannot be one, the loops, one after the other."""
    is_compiled = limits.largest_row is not None
    candidates = [_Candidate(recorded, repetition(recorded), limits)]
    reads_rows = bool((recorded.row_accesses == RowAccess.READS).any())
    freeing: list[Callable[[], RecordedGraph | None]] = []
    freeing += [recorded.with_any_rows] if reads_rows else []
    if is_compiled:
        freeing.append(recorded.with_any_elements)
    for freed in freeing:
        longest = max([candidate.size for candidate in candidates])
        if 2 * longest >= len(recorded.nodes):
            break
        # By index arrays, steps may read any rows: a sum over a list of bonds, all passes of a loop
        # in a loop. Steps that are not done all at once read them as quickly where they are.
        free = freed()
        if free is None:
            continue
        own = limits._replace(nodes=max(limits.nodes, _ONE_SEGMENT))
        found = _Candidate(free, repetition(free), own)
        candidates.insert(0 if found.size > 2 * longest else len(candidates), found)
    for graph, steps, own in candidates:
        if steps is None or not is_worth_while(graph, steps):
            continue
        found = _loops_like(graph, steps, known, own)
        if found is not None:
            return found
    count = len(recorded.nodes)
    if is_compiled and count >= _FEWEST_OF_ROWS and recorded.node_types is None:
        needs_passes = count < _FEWEST_WITH_RESULTS_BEFORE
        other = recorded.with_results_before(count // 2 if needs_passes else limits.nodes)
        other.needs_passes = needs_passes
        found = _loop_of(other, known, limits)
        if found is not None:
            return found
    if recorded.needs_passes:
        return None
    if is_compiled and count < _FEWEST_WITH_LOOPS_INSIDE:
        return None
    for _, steps, _ in candidates:
        if steps is not None and steps.inner_period:
            fewest = _FEWEST_INSIDE if is_compiled else 0
            return _loop_of(recorded.with_loops_inside_of(steps, fewest), known, limits)
    return None


def _loops_like(
    graph: RecordedGraph,
    steps: Steps,
    known: Callable[[CallTarget], CallTarget],
    limits: Limits,
) -> RerolledLoops | None:
    """The loop of these steps, if it is one, and others of the graph, as the inner loops of two
    are, of which no two go equally far. There may be as many as the outer loop has steps, and to
    look for one in a graph takes as long as for the first."""
    found: list[tuple[int, Rerolled]] = []
    # By serial numbers one says what comes after another.
    may_be_more = 2 * (steps.end - steps.first) < len(graph.nodes) and not graph.moved
    may_be_more = may_be_more and graph.are_in_order_of_recording
    while True:
        alike = steps_alike(graph, steps) if may_be_more else []
        # Alike ones may be as many operations as one alone must be.
        own = limits._replace(nodes=limits.nodes // (1 + len(alike)))
        made = _Loop(graph, steps, known, own).made()
        if made is None and steps.inner_period and not (is_long(steps) or graph.needs_passes):
            # No loop in a loop: so the passes of a step are compiled as a whole.
            steps = steps._replace(inner_period=0)
            continue
        if made is None:
            break
        loops = [(x.first, _Loop(graph, x, known, own).made()) for x in alike]
        found += [(steps.first, made), *[(first, x) for first, x in loops if x is not None]]
        graph = graph.without([steps, *alike])
        following = repetition(graph) if may_be_more else None
        if following is None or not is_worth_while(graph, following):
            break
        steps = following
    if not found:
        return None
    (_, first), *later = sorted(found, key=itemgetter(0))
    together = RerolledLoops(first)
    for _, each in later:
        together.take(each)
    return together


class _Loop(ResultsOfSteps):
    """Makes one loop."""

    def __init__(
        self,
        recorded: RecordedGraph,
        steps: Steps,
        known: Callable[[CallTarget], CallTarget],
        limits: Limits,
    ) -> None:
        super().__init__(recorded, steps)
        self.known = known
        self.limits = limits

    def made(self) -> Rerolled | None:
        with recording(True):
            self.steps = self._from_narrowest_place()
            # A step or two more stay as they are where the first reads something else than others,
            # or others read something of the last that is not carried.
            for _ in range(_MOST_LEFT):
                if not are_enough(self.recorded, self.steps):
                    return None
                self._classify()
                reads = self._reads_of_others()
                if any(delay > LONGEST_DELAY for _, delay in self.carried):
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

    def _loop(self, reads: dict[int, list[int]]) -> Rerolled | None:
        steps, recorded = self.steps, self.recorded
        stacked = [
            place
            for place, read in reads.items()
            if place not in self.assigned and not self._is_carried_out(place, read)
        ]
        stacked = list(dict.fromkeys([*stacked, *self.assigned.values()]))
        if not self.carried and not stacked:
            return None  # nobody reads what it computes
        self.stacked = self._runs_of_places(stacked)
        places = [*stacked, *[place for place, _ in self.carried]]
        if any(several_results(recorded.nodes[steps.first + place]) for place in places):
            return None
        for place in self.invariant.values():
            x = recorded.nodes[steps.first + place]
            if not several_results(x):  # whose results are the same as well
                self.constants[steps.first + place] = x
        rows = self._rows_of_steps()
        if rows is None:
            return None
        self.carried_runs = self._runs_of_carried()
        initial = [
            self._together(
                [self._initial_number(*key) for key in run], [self._initial(*key) for key in run]
            )
            for run in self.carried_runs
        ]
        step = BodyOfStep(self, initial, rows, self._numbers_of_passes())
        body: CallTarget | None = step.target
        if steps.inner_period:
            if self.picked:
                return None
            body = with_loops_inside(body, self._loop_inside)
            if body is None:
                return None
        body = self.known(body)
        finals, stacks = loop(body, initial, [x for _, x in rows], step.given_constants, self.count)
        before = [recorded.nodes[x] for x in self._numbers_before()]
        within = list(recorded.nodes[steps.first : steps.end])
        if recorded.written:
            within += [x for node in within for x in self._inside(node)]
        made = Rerolled(self.count, within, before)
        self._replace(made, reads, finals, stacks)
        if not self._date([*finals, *stacks], made):
            return None
        is_better = self._is_worth_a_loop() or not any(map(is_loop, made.recorded))
        return made if is_better else None

    def _inside(self, node: Node) -> tuple[Node, ...]:
        """What was recorded for an assignment, and is no node of a step."""
        part = self.recorded.written.get(node)
        return () if part is None else part.inside

    def _is_worth_a_loop(self) -> bool:
        """Whether it may be an operation of its own, rather than a step for all."""
        steps, limits = self.steps, self.limits
        sizes = [self.recorded.nodes[steps.first + places[0]].type.size for places in self.stacked]
        is_few = steps.end - steps.first < limits.nodes
        has_large_rows = (
            limits.largest_row is not None and max(sizes, default=0) > limits.largest_row
        )
        return not (is_few or has_large_rows)

    def _together(self, numbers: Sequence[int], values: Sequence[Node]) -> Node:
        """Values from outside of the steps, which have these numbers, as the rows of one array."""
        recorded = self.recorded
        are_free = [
            x >= 0 and x not in recorded.read_again and recorded.signatures[x] > 1 for x in numbers
        ]
        pairs = zip(values, are_free, strict=True)
        return put_together(values, [row_read(x) if is_free else None for x, is_free in pairs])

    def _initial(self, place: int, delay: int) -> Node:
        number = self._initial_number(place, delay)
        x = self.recorded.node(number)
        if number in self.recorded.read_earlier:
            given = [self.recorded.node(y) for y in self.recorded.inputs_of(number)]
            with recording(x.requires_grad):
                x = record(x.op, tuple(given), x.params)
        return x

    def _rows_of_steps(self) -> list[Read] | None:
        """The arrays that steps read one row of each, with what reads it; of passes of a loop
        inside these rows are rows of passes. None if there is something that is no such array."""
        found = []
        for run in self._runs_of_reads(self.sequences):
            x = self._sequence(run) if len(run) > 1 else None
            if x is not None:
                found.append((run, x))
                continue
            for key in run:
                x = self._sequence([key])
                if x is None:
                    return None
                found.append(([key], x))
        picked = [(place, leaf(self._row_starts(place).copy())) for place in self.picked]
        return [*found, *[([(place, WHICH_ROW)], rows) for place, rows in picked]]

    def _sequence(self, run: list[Reads]) -> Node | None:
        """What a step reads one row of: numbers, or rows of an array."""
        are_rows = self.reads_next_row(run[0][0])
        if are_rows and len(run) > 1 and self._are_columns(run):
            return self._columns_read(run)
        rows = self._rows_read(run) if are_rows else self._numbers_read(run)
        if rows is None or len(run) == 1:
            return rows
        return reshape(rows, (self.count, len(run), *rows.shape[1:]))

    def _numbers_read(self, run: list[Reads]) -> Node | None:
        recorded = self.recorded
        columns = []
        for place, k in run:
            if any((place, k) not in step.numbers for step in self.before):
                return None  # of what nobody reads of the first steps
            before = [step.numbers[place, k] for step in self.before]
            columns.append([*before, *self._column(self.steps.first + place, k).tolist()])
        read = [x for step in zip(*columns, strict=True) for x in step]
        numbers = [recorded.node(x) for x in read]
        if recorded.is_read_at_calls(numbers[0]):
            assert recorded.read_at_calls is not None
            return recorded.read_at_calls.array_of(numbers)
        if int(self._column(self.steps.first + run[0][0], run[0][1])[0]) >= 0:
            return self._together(read, numbers)
        return leaf(np.array([x.value for x in numbers], numbers[0].dtype))

    def _rows_read(self, run: list[Reads]) -> Node | None:
        steps, recorded = self.steps, self.recorded
        place, k = run[0]
        number = steps.first + place
        column = self._column(number, k)
        reader = recorded.nodes[number]
        axis = row_axis(reader)
        x = recorded.node(int(column[0]))
        if recorded.are_elements[number]:
            x, params = elements_of(x)
        else:
            x, params = rows_in_front(x, reader.params, axis)
        if self._reads_any_row(place):
            return any_rows(x, params, self._row_starts(place)) if len(run) == 1 else None
        first, move = self._rows(number)
        count = len(run)
        if count > 1:
            apart = np.diff([self._rows(steps.first + place)[0] for place, _ in run])
            if (apart * count != move).any():
                return None
            move //= count
            first += min(0, (count - 1) * move)
        rows = blocks(x, params, first, abs(move), count * self.count)
        return rows if rows is None or move > 0 else flipped(rows)

    def _are_columns(self, run: list[Reads]) -> bool:
        """Whether passes read elements of one row, not the same one of several rows."""
        numbers = [self.steps.first + place for place, _ in run[:2]]
        parts = self.recorded.part_numbers[numbers]
        return bool(parts[0] != parts[1])

    def _columns_read(self, run: list[Reads]) -> Node | None:
        """What passes read one element of each, of a row that is another one in each step."""
        first, recorded = self.steps.first, self.recorded
        numbers = [first + place for place, _ in run]
        if any(recorded.are_elements[x] or self._reads_any_row(x - first) for x in numbers):
            return None
        arrays = {int(self._column(first + place, k)[0]) for place, k in run}
        rows = {self._rows(x) for x in numbers}
        if len(arrays) > 1 or len(rows) > 1:
            return None
        x, axis = recorded.node(*arrays), row_axis(recorded.nodes[numbers[0]])
        parts = [rows_in_front(x, recorded.nodes[y].params, axis) for y in numbers]
        starts = np.array([params["starts"] for _, params in parts])
        return columns(*parts[0], starts, *rows.pop(), self.count)

    def _loop_inside(self, order: Sequence[Node], fixed: Collection[Node]) -> RerolledLoops | None:
        """The longest loop in a step."""
        fewest = len(order) // MOST_LOOPS
        limits = Limits(fewest, fewest, FEWEST_PASSES, self.limits.largest_value)
        return reroll(order, fixed, self.known, None, limits)

    def _runs_of_reads(self, keys: Collection[Reads]) -> list[list[Reads]]:
        """What passes of a loop inside of a step read alike, one after the other."""
        inner, recorded, first = self.steps.inner_period, self.recorded, self.steps.first
        if not inner:
            return [[key] for key in keys]

        signatures = recorded.signatures_of_passes(first, first + self.steps.period)

        def kind(key: Reads) -> tuple[int, ...]:
            number, k = first + key[0], key[1]
            source = recorded.inputs_of(number)[k]
            of_number = int(recorded.number_types[-source - 1]) if source < 0 else 0
            return int(signatures[key[0]]), of_number, self.reads_next_row(key[0])

        kinds = {key: kind(key) for key in keys}

        def after(key: Reads) -> Reads | None:
            following = key[0] + inner, key[1]
            return following if kinds.get(following) == kinds[key] else None

        return in_runs(list(keys), after)

    def _numbers_of_passes(self) -> list[Read]:
        """Arrays of the numbers that passes have, each another one, the same in all steps."""
        if not self.steps.inner_period:
            return []
        recorded, read = self.recorded, self.constant_reads
        found = []
        for run in self._runs_of_reads([key for key, x in read.items() if x < 0]):
            numbers = [recorded.node(read[key]) for key in run]
            is_one = len({read[key] for key in run}) == 1
            if not is_one and all(recorded.known_value(read[key]) is not None for key in run):
                found.append((run, leaf(np.array([x.value for x in numbers], numbers[0].dtype))))
        return found

    def _runs_of_carried(self) -> list[list[Carried]]:
        """What passes carry to the same pass of the next step, those together of which one follows
        the other."""
        if not self.steps.inner_period:
            return [[key] for key in self.carried]
        delayed = {place for place, delay in self.carried if delay > 1}
        alone = [key for key in self.carried if key[0] in delayed]
        runs = self._runs_of_places([x for x, _ in self.carried if x not in delayed])
        return [*[[(x, 1) for x in run] for run in runs], *[[key] for key in alone]]

    def _runs_of_places(self, places: Sequence[int]) -> list[list[int]]:
        """What passes leave for others, one after the other."""
        inner, nodes, first = self.steps.inner_period, self.recorded.nodes, self.steps.first

        def after(place: int) -> int | None:
            following = place + inner
            if not inner or following >= self.steps.period:
                return None
            a, b = nodes[first + place], nodes[first + following]
            is_alike = a.type is b.type and a.requires_grad == b.requires_grad
            return following if is_alike else None

        return in_runs(sorted(places), after)

    def _date(self, results: Sequence[Node], made: Rerolled) -> bool:
        """Give what was recorded now the serial numbers of the last steps, if they have so many:
        inputs have smaller ones than users, among what came before and after as well."""
        joined = [x for runs in made.others.values() for _, x in runs.values()]
        nodes = self.recorded.nodes
        newest = self.recorded.newest
        made.recorded = recorded_since(newest, [*results, *made.instead.values(), *joined])
        end = self.steps.end
        within = set(nodes[self.steps.first : end])
        readers = [nodes[x] for x in self.recorded.readers_of(self.steps) if x >= end]
        readers = [x for x in readers if not within.isdisjoint(x.inputs)]
        readers += self._read_before(made)
        # Steps may have what was recorded after them (`order_of_steps.py`).
        last = max([x for x in within if x not in self.recorded.moved], key=by_serial)
        made.place = last, False
        if readers:
            first = min(readers, key=by_serial)
            made.place = (first, True) if first.serial <= last.serial else made.place
        later = nodes[end:] if self.recorded.written else []
        if any(x.serial < made.newest for node in later for x in self._inside(node)):
            return False
        return made.date()

    def _read_before(self, made: Rerolled) -> list[Node]:
        """What reads results of first steps and was recorded before the others: also what is left
        of first steps, where others read what the loop does not give."""
        own, before, recorded, steps = made.recorded, set(made.before), self.recorded, self.steps
        numbers = self._numbers_before()
        if recorded.moved:
            readers = [*range(len(recorded.nodes))]
        else:
            readers = sorted({*numbers, *recorded.readers_of(steps, numbers)})
        earlier = [recorded.nodes[x] for x in readers[: bisect_left(readers, steps.first)]]
        later = [recorded.nodes[x] for x in readers[bisect_left(readers, steps.end) :]]
        read = {y for x in (*later, *own) for y in made.inputs(x)}
        found = []
        for x in reversed(earlier):
            if x not in before or x in read:
                given = made.inputs(x)
                read.update(given)
                if not own.isdisjoint(given):
                    found.append(x)
        return found
