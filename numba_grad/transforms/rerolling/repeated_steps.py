"""Finds the steps of a Python loop in a graph that has them one after the other.

The steps of a loop are the same operations again and again, whose inputs are at the same distance
(in this step or an earlier one), or the same node in all steps, or numbers and rows that follow
each other. All of that is seen in the arrays of a graph (`recorded_graph.py`), at a distance that
is found by the hashes of a few consecutive operations:

    a = sin(x)    b = a * k[0]    c = sin(b)    d = c * k[1]    e = sin(d)    f = e * k[2]

has the period 2, and three steps: `sin` of what the step before has computed, or of `x`, and a
product with the next element of `k`.
"""

import numpy as np

from numba_grad.graph.node import OPS
from numba_grad.graph.types import CPU, MOST_WRITTEN_OUT, TupleType
from numba_grad.transforms.loop_sizes import (
    FEWEST_LONG_STEPS,
    FEWEST_PASSES,
    LARGEST_OF_FEW_STEPS,
    LARGEST_VALUE,
    LONG_STEP,
    LONGEST_DELAY,
    MANY_OPERATIONS,
)
from numba_grad.transforms.rerolling.assigned_rows import UPDATE, RowAccess
from numba_grad.transforms.rerolling.recorded_graph import RecordedGraph, Steps

_WINDOW = 8  # consecutive operations, by which periods are looked for
_PERIODS = 12  # that are looked at
_SHORT = 600  # operations of a step that is compiled as a whole, unless it is a loop inside
_FEWEST_WITH_PASSES = 64  # of a step that may be
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # of hashes: 2^64 by the golden ratio
_SLICE = OPS["slice"]
_LIBRARY = frozenset(["contraction", "library"])  # what BLAS and LAPACK compute


def repetition(graph: RecordedGraph) -> Steps | None:
    """The steps that cover most of the graph; of almost equal ones, the shortest, as twice a
    period is one as well."""
    best: Steps | None = None
    longest = len(graph.nodes) if graph.longest_step is None else graph.longest_step
    periods = [period for period in _periods(graph) if period <= longest]
    # Steps whose halves or thirds are alike, as those of Heun and Runge, have no operation
    # that is found again at the distance of a step first.
    multiples = [k * x for k in (2, 3, 4, 5, 6) for x in periods[:3]]
    # And steps of a loop that read what a pass of the loop around it has computed before, as the
    # row above in a table, may all be alike.
    multiples += [k * x for x in periods[:1] for k in _frequent_delays(graph, x)]
    multiples = [x for x in multiples if x <= longest]
    for period in dict.fromkeys([*periods, *multiples]):
        covered = 0 if best is None else best.end - best.first
        if period in multiples and 10 * covered > 8 * len(graph.nodes):
            break
        steps = _steps(graph, period)
        if steps is None or not _are_fit(graph, steps):
            continue
        size = steps.end - steps.first
        is_longer = best is not None and period > best.period
        if 10 * size > 11 * covered if is_longer else 11 * size > 10 * covered:
            best = steps
    if best is None:
        return None
    best = best._replace(inner_period=_inner_period(graph, best))
    if best.inner_period and graph.nodes[best.first].type.device != CPU:
        # There several steps are one launch, and of a loop in a loop each inner step is one.
        if is_long(best):
            return None
        best = best._replace(inner_period=0)
    return best if are_enough(graph, best) else None


def is_worth_while(graph: RecordedGraph, steps: Steps) -> bool:
    """Whether steps gain by being a loop.

    Of large arrays those of few operations are better planned one by one: what several of them
    add to a sum is added at once, and what a part of one needs alone is computed for that part.
    """
    # An array whose parts are assigned is no part of the loop.
    if graph.needs_passes and not steps.inner_period:
        return False
    step = [
        x
        for x in graph.nodes[steps.first : steps.first + steps.period]
        if x.op is not UPDATE and x not in graph.written and x.type.__class__ is not TupleType
    ]
    if all(x.type.size <= LARGEST_VALUE or x.type.device != CPU for x in step):
        return True
    families = [x.op.family for x in step]
    operations = sum(family in ("elementwise", "reduction") for family in families)
    return operations >= LONG_STEP and _LIBRARY.isdisjoint(families)


def are_enough(graph: RecordedGraph, steps: Steps) -> bool:
    """Whether there are so many of them that they are a loop."""
    if steps.inner_period and is_long(steps):
        return steps.times >= FEWEST_LONG_STEPS
    return steps.times >= fewest_of(graph, steps.period)


def is_long(steps: Steps) -> bool:
    """Whether a step is not to be compiled as a whole."""
    return steps.period > _SHORT


def fewest_of(graph: RecordedGraph, period: int) -> int:
    """Steps that are a loop, if each is so many operations."""
    return graph.fewest_of_many if period >= MANY_OPERATIONS else graph.fewest_steps


def _inner_period(graph: RecordedGraph, steps: Steps) -> int:
    """The distance at which half of a step and more repeats itself; 0 if it does not.

    Of short steps that are less than half of a graph, as one of several sweeps over a table, what
    is between them would be put together and taken apart: warm calls took twice as long.
    """
    is_small = 2 * (steps.end - steps.first) < len(graph.nodes)
    if steps.period < _FEWEST_WITH_PASSES or (is_small and not is_long(steps)):
        return 0
    return _period_inside(graph, steps)


def _are_fit(graph: RecordedGraph, steps: Steps) -> bool:
    """Whether steps compute something and, if there are few, gain by being a loop: those of
    arrays, neither small ones nor large ones, that are no loops themselves."""
    step = graph.nodes[steps.first : steps.first + steps.period]
    if all(x.op is _SLICE for x in step):  # others would read the same rows of what it leaves
        return False
    if steps.times >= graph.fewest_steps or steps.period > _SHORT:
        return True
    sizes = [x.type.size for x in step if x.type.__class__ is not TupleType]
    in_loops = sum(size > MOST_WRITTEN_OUT for size in sizes)
    if 2 * in_loops < len(step) or max(sizes) > LARGEST_OF_FEW_STEPS:
        return False
    return not _period_inside(graph, steps)


def _period_inside(graph: RecordedGraph, steps: Steps) -> int:
    """The distance at which half of a step and more repeats itself many times, or 0."""
    signatures = graph.signatures_of_passes(steps.first, steps.first + steps.period)
    for period in _distances(signatures, steps.period // FEWEST_PASSES):
        repeated = _longest_run(signatures[:-period] == signatures[period:])[1]
        if 2 * repeated > steps.period:
            return period
    return 0


def _periods(graph: RecordedGraph) -> list[int]:
    """Distances at which the same few operations are found again, the most frequent first."""
    signatures = graph.signatures
    if len(signatures) - _WINDOW < graph.fewest:
        return []
    return _distances(signatures, len(signatures) // FEWEST_LONG_STEPS)


def _distances(signatures: np.ndarray, longest: int) -> list[int]:
    """At which a few of these are found again, the most frequent first."""
    count = len(signatures) - _WINDOW
    if count <= 0:
        return []
    hashes = np.zeros(count, np.uint64)
    for k in range(_WINDOW):
        hashes = hashes * _MULTIPLIER + signatures[k : k + count].astype(np.uint64)
    # By 16 bits, which NumPy sorts as digits: in a tenth of the time. Few others have the same.
    places = np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")
    ordered = hashes[places]
    gaps = np.diff(places)[ordered[1:] == ordered[:-1]]
    counts = np.bincount(gaps[gaps <= longest])
    # A step may have parts that are alike at a smaller distance, so this looks at some.
    frequent = np.argsort(-counts, kind="stable")[:_PERIODS]
    return frequent[counts[frequent] > 0].tolist()


def _frequent_delays(graph: RecordedGraph, period: int) -> list[int]:
    """How many steps of this period back operations read most often, where that is too far for a
    loop of these."""
    readers = np.repeat(np.arange(len(graph.nodes)), graph.arities)
    distances = (readers - graph.inputs)[graph.inputs >= 0]
    delays = distances // period
    delays = delays[(delays > LONGEST_DELAY) & (distances <= len(graph.nodes) // FEWEST_LONG_STEPS)]
    counts = np.bincount(delays)
    frequent = np.argsort(-counts, kind="stable")[:3]
    return [k + more for k in frequent[counts[frequent] > 0].tolist() for more in (0, 1)]


def _steps(graph: RecordedGraph, period: int) -> Steps | None:
    """The longest repetition at this distance."""
    start, run = _longest_run(_repeats(graph, period))
    return _steps_of_run(graph, period, start, run)


def _repeats(graph: RecordedGraph, period: int) -> np.ndarray:
    """For each node, whether it and the one a period later go on in the same way."""
    signatures, arities = graph.signatures, graph.arities
    alike = (signatures[:-period] == signatures[period:]) & (signatures[period:] != 0)
    alike &= arities[:-period] == arities[period:]
    # What repeats in a shorter run is less than the fewest steps.
    least = max(graph.fewest, _fewest_at(graph, period) * period) - period
    repeats, kinds = np.zeros(len(alike), bool), np.zeros(len(alike), np.int64)
    starts, ends = _runs(alike)
    is_long = ends - starts >= least
    for start, end in zip(starts[is_long].tolist(), ends[is_long].tolist(), strict=True):
        repeats[start:end], kinds[start:end] = _kinds(graph, period, start, end)
    # A pair that repeats, and the next one in the same way.
    return repeats[:-period] & repeats[period:] & (kinds[:-period] == kinds[period:])


def _steps_of_run(graph: RecordedGraph, period: int, start: int, run: int) -> Steps | None:
    """What repeats there, if it is enough."""
    count, rest = divmod(run + 2 * period, period)
    if not run or count < _fewest_at(graph, period) or count * period < graph.fewest:
        return None
    return Steps(start, period, count, rest)


def _fewest_at(graph: RecordedGraph, period: int) -> int:
    return fewest_of(graph, period) if period <= _SHORT else FEWEST_LONG_STEPS


def steps_alike(graph: RecordedGraph, steps: Steps) -> list[Steps]:
    """What repeats elsewhere at the distance of these steps, in order."""
    if steps.inner_period:
        return []
    found: list[Steps] = []
    end = 0
    starts, ends = _runs(_repeats(graph, steps.period))
    for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
        first = max(start, end)
        other = _steps_of_run(graph, steps.period, first, stop - first)
        if other is None:
            continue
        until = other.end + other.rest
        if first < steps.end + steps.rest and steps.first < until:
            end = max(end, steps.end + steps.rest)
        elif _are_fit(graph, other) and is_worth_while(graph, other):
            found.append(other)
            end = until
    return found


def _kinds(
    graph: RecordedGraph, period: int, start: int, end: int
) -> tuple[np.ndarray, np.ndarray]:
    """For nodes that have the same operations a period later, whether they go on to these as
    steps do, and a number that says how their inputs do."""
    first_inputs = graph.first_inputs
    firsts = first_inputs[start : end + 1] - first_inputs[start]
    own = slice(first_inputs[start], first_inputs[end])
    later = slice(first_inputs[start + period], first_inputs[end + period])
    here, there = graph.inputs[own], graph.inputs[later]
    is_equal = here == there
    is_number = (graph.input_types[own] != 0) & (graph.input_types[own] == graph.input_types[later])
    of_step = (there - here == period) & (here >= 0)
    is_before = is_equal & ~is_number
    if graph.node_types is not None:
        are_before = (here >= 0) & (there >= 0) & (here < start) & (there < start) & ~of_step
        types = graph.node_types[here.clip(0)], graph.node_types[there.clip(0)]
        is_before |= are_before & (types[0] != 0) & (types[0] == types[1])
    # One of them, or none.
    kind = of_step + 2 * is_before + 3 * is_number
    # Arrays that are read at each call have the same distance in memory.
    move = np.where(is_number, graph.input_offsets[later] - graph.input_offsets[own], 0)
    weighted = kind * graph.input_weights[own] + move * graph.offset_weights[own]
    kinds = _sums(weighted, firsts)
    # Slices of rows that follow each other are of one array; assignments go on, too.
    moves = graph.row_starts[start + period : end + period] - graph.row_starts[start:end]
    assigns = graph.row_accesses[start:end] == RowAccess.ASSIGNS
    is_of_one = _sums(is_equal, firsts) > 0
    reads_any = graph.any_rows & (graph.row_accesses[start:end] == RowAccess.READS)
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
