"""Cut a graph into segments, so that a repeated part of the graph gives repeated segments.

The nodes stand in the order of recording, in which the steps of a Python loop are exactly periodic,
forward and backward. Where some nodes repeat, the cuts are one or several periods apart, at the
place of a period that the fewest values cross (`_stretches`). What comes before, between and after
is the same for any number of steps, and so are the segments: 5,000 steps compile the kernels of 20.

What does not repeat is one segment, so that fusion sees all of it. If it is too long for that, its
cuts are *content-defined*, as when a file is cut for deduplication: each position gets a score from
its neighbourhood alone, first the number of values that cross it, then a hash; a position is cut if
no position within half a window has a lower score. Nothing far away moves such a cut.
"""

import collections
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from numba_grad.immutable import NamedTuple

# What does not repeat, up to this size, is one segment.
LONGEST_WHOLE = 600
WINDOW = 512  # of which one place is cut; and the longest period
LONGEST = 1024
# Fusing saves memory traffic of arrays. Of numbers and small arrays it saves the entering of a
# kernel, some twenty operations: what computes them is cut more often, where steps of a loop begin
# that has no period, as over irregular neighbours, or a step of Newton's method in a step of time.
# Then most segments are equal, and a few kernels, which caches keep, are compiled for all of them.
# (Not in graphs that would be one segment: of a Kalman filter of 20 kernels it made 31.)
LONGEST_WHOLE_OF_SMALL = 300
WINDOW_OF_SMALL = 64
# Periods shorter than this are taken several to a segment: entering a kernel costs as much as some
# twenty operations. But not too many, since those that are left are taken alone, and a power of
# two: a backward pass that takes four then always finds its values in two segments of two.
SHORT = 24
MOST_TOGETHER = 4
# Where each period adds to several arrays, as to gradients of what all steps use, several are taken
# together up to this: what they add is added in one pass over those arrays.
SHORT_OF_SUMS = 64
# Of arrays of no more bytes the first-level cache holds several: nothing is gained where one less
# is stored.
FEW_BYTES = 1 << 13
FEWEST_ALONE = 2
# What repeats less often, or is shorter, is no loop to be cut. (Of 20 steps, twice 3 may be lost at
# the ends, and two may be one period.) A short loop in each step of another one is a part of that.
FEWEST_REPEATS = 6
FEWEST_NODES = 16
FEWEST_NODES_OF_INNER_LOOP = 192
# Nor are few short repetitions that need nothing of the ones before, but a sum: components, terms
# of a sum, as many as an axis is written out of. Fused, they share what they read, and one kernel
# is compiled. (Of more, a kernel has too many arrays: 25 windows took 1.8 of the time.)
MOST_TERMS = 16
MOST_NODES_OF_TERMS = 64
# Periods that are looked at, those of most nodes.
MOST_PERIODS = 12
FACTORS = (1, 2, 3, 4)


def _never(start: int, stop: int) -> bool:
    return False


def cut(
    signatures: Sequence[int] | np.ndarray,
    edges: np.ndarray,
    *,
    is_straight: bool = False,
    are_small: Callable[[int, int], bool] = _never,
    are_large: Callable[[int, int], bool] = _never,
    change_shape: Callable[[int, int], bool] = _never,
) -> list[int]:
    """Positions at which segments start: 0 and cuts; then the number of nodes.

    Parameters
    ----------
    signatures : for each node, in order, an integer that says what it does (op, params, type), the
        same in every process
    edges : int64 (m, 2), pairs of positions (source, user), sorted by user
    is_straight : whether it may be straight-line code, of a step of a loop: such code is not cut
    are_small, are_large : whether the nodes from one position to another have few elements each, or
        so many that a cache holds not many of them
    change_shape : whether those from one position to another have not the shapes of as many next
    """
    n = len(signatures)
    if n <= min(FEWEST_NODES, LONGEST_WHOLE) or (is_straight and n <= LONGEST):
        return [0, n]
    signatures = np.asarray(signatures, np.uint64)
    if n <= LONGEST_WHOLE:
        are_small = _never
    result = [0]
    for stretch in _stretches(signatures, edges):
        inside = _cuts_of_stretch(stretch, signatures, edges, are_large, change_shape)
        result += _cuts_of_rest(result[-1], inside[0], signatures, edges, are_small)
        result += inside
    result += _cuts_of_rest(result[-1], n, signatures, edges, are_small)
    return [*dict.fromkeys([*result, n])]


def _mix(x: np.ndarray) -> np.ndarray:
    """A fixed scrambling of 64-bit integers (the finalizer of splitmix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hashes(signatures: np.ndarray, edges: np.ndarray, reach: int) -> np.ndarray:
    """For each node a hash of what it does and of how far its inputs are, if within `reach`."""
    distance = edges[:, 1] - edges[:, 0]
    near = np.where(distance <= reach, distance, reach + 1).astype(np.uint64)
    result = _mix(signatures + np.uint64(0x9E3779B97F4A7C15))
    np.add.at(result, edges[:, 1], _mix(near * np.uint64(0x9E3779B97F4A7C15)))
    return result


def _with_neighbours(hashes: np.ndarray) -> np.ndarray:
    """Hashes that depend on a handful of nodes on both sides."""
    for reach in (1, 2):
        mixed = _mix(hashes)
        hashes = mixed + _mix(np.roll(mixed, reach)) * np.uint64(3)
        hashes += _mix(np.roll(mixed, -reach)) * np.uint64(5)
    return hashes


def _crossing(n: int, edges: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """How many values are needed on both sides of each position, and how often they are read; uses
    within `reach` counted."""
    source, user = edges[:, 0], edges[:, 1]
    near = (user - source) <= reach
    last_use = np.arange(n)
    np.maximum.at(last_use, source[near], user[near])
    reads = np.bincount(source[near], minlength=n)

    def sums(counts: np.ndarray) -> np.ndarray:
        change = np.zeros(n + 2, np.int64)
        np.add.at(change, np.arange(n) + 1, counts)
        np.add.at(change, last_use + 1, -counts)
        return np.cumsum(change)[:n]

    return sums(np.ones(n, np.int64)), sums(reads)


# What repeats


class Stretch(NamedTuple):
    """Nodes from `start` to `stop - 1` of which each does what the one `period` before does."""

    start: int
    stop: int
    period: int

    @property
    def is_short(self) -> bool:
        nodes = self.stop - self.start
        return nodes < MOST_NODES_OF_TERMS and nodes // self.period <= MOST_TERMS


def _is_carried_on(stretch: Stretch, signatures: np.ndarray, edges: np.ndarray) -> bool:
    """Whether periods need what the ones before have computed, but for sums: what one adds to what
    the one before has added to, and nobody else has read."""
    period = stretch.period
    first = stretch.start + period
    low, high = np.searchsorted(edges[:, 1], [first + period, first + 4 * period])
    last = np.searchsorted(edges[:, 1], stretch.stop)
    reads = collections.Counter(edges[low:last, 0].tolist())
    operands = collections.Counter(edges[low:high, 1].tolist())
    reached = set(range(first, first + period))
    for source, user in edges[low:high].tolist():
        is_alike = signatures[source] == signatures[user]
        is_sum = is_alike and reads[source] == 1 and operands[user] > 1
        if source in reached and not is_sum:
            reached.add(user)
    return any(k in reached for k in range(first + 3 * period, first + 4 * period))


def _stretches(signatures: np.ndarray, edges: np.ndarray) -> list[Stretch]:
    """The loops of a graph, in order."""
    n = len(signatures)
    is_taken = np.zeros(n, bool)
    result: list[Stretch] = []
    periods = _likely_periods(signatures)
    # Values from the steps before the last one are read at any distance: forward by backward.
    hashes = {period: _hashes(signatures, edges, period) for period in periods}
    for fewest in (FEWEST_NODES_OF_INNER_LOOP, FEWEST_NODES):
        for period in periods:
            h = hashes[period]
            repeats = (h[period:] == h[:-period]) & ~is_taken[period:] & ~is_taken[:-period]
            shortest = max(fewest, FEWEST_REPEATS * period) - period
            taken = 0  # where the run before ends; the next one may begin a period before that
            for start, stop in _runs(repeats, shortest):
                start = max(start, taken)
                if stop - start < shortest:
                    continue
                stretch = Stretch(start, stop + period, period)
                if stretch.is_short and not _is_carried_on(stretch, signatures, edges):
                    continue
                taken = stretch.stop
                result.append(stretch)
                is_taken[start:taken] = True
    return sorted(result, key=lambda stretch: stretch.start)


def _likely_periods(signatures: np.ndarray) -> list[int]:
    """Distances at which many nodes have a like one with like neighbours, in order."""
    n = len(signatures)
    local = _with_neighbours(_mix(signatures + np.uint64(1)))
    order = np.argsort(local, kind="stable")
    is_same = local[order[1:]] == local[order[:-1]]
    counts = np.bincount((order[1:] - order[:-1])[is_same], minlength=1)
    longest = min(WINDOW, n // FEWEST_REPEATS)
    likely = np.argsort(-counts[: longest + 1], kind="stable")[:MOST_PERIODS]
    likely = likely[(likely > 0) & (counts[likely] >= FEWEST_REPEATS // 2)]
    # Half of a step may look like the other half, and two steps differ in what they read from afar.
    multiples = {int(period) * factor for period in likely for factor in FACTORS}
    return sorted(period for period in multiples if period <= longest)


def _runs(flags: np.ndarray, shortest: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of at least `shortest` true values."""
    changes = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    for start, stop in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
        if stop - start >= max(shortest, 1):
            yield start, stop


def _cuts_of_stretch(
    stretch: Stretch,
    signatures: np.ndarray,
    edges: np.ndarray,
    are_large: Callable[[int, int], bool],
    change_shape: Callable[[int, int], bool],
) -> list[int]:
    """Where segments start within a stretch, and where the last of them stops.

    Some periods are taken together where they are short. Which ones does not depend on how many
    there are: they are counted from the first step of the loop, which a backward pass comes to
    last. Those that are left stay alone, and there always are two at least, since what is next to
    the loop may make one of them another: so loops of any number of steps have the same kernels.
    """
    period = stretch.period
    starts = range(stretch.start + _phase(stretch, signatures, edges), stretch.stop + 1, period)
    first, last = np.searchsorted(edges[:, 1], [stretch.start, stretch.stop])
    inside = edges[first:last]
    adds = _adds_to_several(stretch, signatures, inside)
    is_large = adds and are_large(stretch.start, stretch.start + period)
    short = SHORT_OF_SUMS if is_large else SHORT
    together = 1
    if not _changes_shape(stretch, change_shape):
        while together < MOST_TOGETHER and together * period < short:
            together *= 2
    left = (len(starts) - 1 - FEWEST_ALONE) % together + FEWEST_ALONE if together > 1 else 0
    if _goes_back(stretch, inside):
        return [*starts[:left], *starts[left::together]]
    return [*starts[: len(starts) - left : together], *starts[len(starts) - left :]]


def _changes_shape(stretch: Stretch, change_shape: Callable[[int, int], bool]) -> bool:
    """Whether periods go through arrays that grow or shrink: no loop does several of them, so each
    of those that are taken together would have kernels of its own."""
    start = stretch.start + (stretch.stop - stretch.start) // stretch.period // 2 * stretch.period
    return change_shape(start, start + stretch.period)


def _adds_to_several(stretch: Stretch, signatures: np.ndarray, edges: np.ndarray) -> bool:
    """Whether each period makes at least two values of what the one before has made in the same
    way, and nobody else has read."""
    source, user = edges.T
    reads = np.bincount(source[source >= stretch.start] - stretch.start, minlength=1)
    goes_on = (user - source == stretch.period) & (source >= stretch.start)
    source, user = source[goes_on], user[goes_on]
    alike = (signatures[source] == signatures[user]) & (reads[source - stretch.start] == 1)
    periods = (stretch.stop - stretch.start) // stretch.period
    return int(np.count_nonzero(alike)) >= 2 * (periods - 2)


def _phase(stretch: Stretch, signatures: np.ndarray, edges: np.ndarray) -> int:
    """The place within a period that the fewest values cross.

    Of several, the one after the value that is read most often: of a stencil, the state rather than
    what is added to it, since a kernel would compute the state again wherever it reads it.
    """
    period = stretch.period
    middle = stretch.start + (stretch.stop - stretch.start) // period // 2 * period
    low, high = middle - 3 * period, middle + 4 * period
    first, last = np.searchsorted(edges[:, 1], [low, high])
    near = edges[first:last] - low
    near = near[near[:, 0] >= 0]
    crossing, reads = _crossing(high - low, near, 2 * period)
    hashes = _mix(_hashes(signatures[low:high], near, 2 * period))
    within = slice(3 * period, 4 * period)
    return int(np.lexsort((hashes[within], -reads[within], crossing[within]))[0])


def _goes_back(stretch: Stretch, edges: np.ndarray) -> bool:
    """Whether later steps read earlier values from before the stretch: a backward pass.

    What the first steps alone read there says nothing of an order.
    """
    far = edges[edges[:, 0] < stretch.start]
    if 2 * len(far) * stretch.period < stretch.stop - stretch.start:
        return False
    source, user = (far - far.mean(axis=0)).T
    return float(source @ user) < 0


# What does not repeat


def _cuts_of_rest(
    start: int,
    stop: int,
    signatures: np.ndarray,
    edges: np.ndarray,
    are_small: Callable[[int, int], bool],
) -> list[int]:
    """Where segments start after the first one of these nodes, none if they are not too many."""
    n = stop - start
    longest, window = LONGEST_WHOLE, WINDOW
    if n > LONGEST_WHOLE_OF_SMALL and are_small(start, stop):
        longest = min(longest, LONGEST_WHOLE_OF_SMALL)
        window = min(window, WINDOW_OF_SMALL)
    if n <= longest:
        return []
    first, last = np.searchsorted(edges[:, 1], [start, stop])
    inside = edges[first:last] - start
    inside = inside[inside[:, 0] >= 0]
    local = _with_neighbours(_hashes(signatures[start:stop], inside, window))
    # Ties by hash, which the low bits hold.
    crossing = _crossing(n, inside, window)[0].astype(np.uint64)
    scores = (crossing << np.uint64(40)) | (_mix(local) >> np.uint64(24))
    lowest = _window_minimum(scores, window // 2)
    starts = np.flatnonzero(scores == lowest)
    starts = _with_forced_cuts(
        [0, *starts[(starts > 0) & (starts < n)].tolist(), n], scores, window
    )
    return [start + k for k in _merge_short_runs(starts, local)[1:-1]]


def _window_minimum(scores: np.ndarray, reach: int) -> np.ndarray:
    """At each position the minimum over `reach` positions on both sides."""
    top = np.iinfo(np.uint64).max
    padded = np.concatenate([np.full(reach, top), scores, np.full(reach, top)])
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).min(axis=1)


def _with_forced_cuts(starts: list[int], scores: np.ndarray, window: int) -> np.ndarray:
    """No segment longer than LONGEST: cut at its lowest score."""
    result = [0]
    for stop in starts[1:]:
        while stop - result[-1] > LONGEST:
            low, high = result[-1] + window // 2, min(stop, result[-1] + LONGEST)
            result.append(low + int(np.argmin(scores[low:high])))
        if stop > result[-1]:
            result.append(stop)
    return np.array(result)


def _merge_short_runs(starts: np.ndarray, local: np.ndarray) -> list[int]:
    """Join neighbours of a run of equal short segments, a fixed number at a time.

    The first and the last of a run stay alone, and so does what remains, so that runs of any length
    need the same kernels.
    """
    keys = [local[a:b].tobytes() for a, b in itertools.pairwise(starts)]
    result: list[int] = []
    k = 0
    while k < len(keys):
        length = starts[k + 1] - starts[k]
        run = 1
        while k + run < len(keys) and keys[k + run] == keys[k]:
            run += 1
        together = math.ceil(SHORT / length)
        if together > 1 and run > 2 * together:
            groups = (run - 2) // together
            result.append(int(starts[k]))
            result += [int(starts[k + 1 + g * together]) for g in range(groups)]
            result += [int(starts[j]) for j in range(k + 1 + groups * together, k + run)]
        else:
            result += [int(starts[j]) for j in range(k, k + run)]
        k += run
    return [*result, int(starts[-1])]
