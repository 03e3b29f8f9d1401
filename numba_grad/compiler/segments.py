"""Cut a long graph into short segments, so that a repeated part of the graph gives repeated
segments.

The nodes stand in the order of recording, in which the steps of a Python loop are exactly periodic,
forward and backward.
Cuts are content-defined, as when a file is cut for deduplication: each position gets a score from
its neighbourhood alone, first the number of values that cross it, then a hash; a position is cut if
no position within half a window has a lower score. A loop whose step fits in the window is then cut
at the same place of every step, and nothing far away moves a cut. So 5,000 steps compile the same
few kernels as 500.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

# A graph up to this size is one segment: fusion sees all of it.
LONGEST_WHOLE = 600
WINDOW = 512
LONGEST = 1024
# Steps shorter than this are taken several to a segment: entering a kernel costs as much as some
# twenty operations.
SHORT = 48


def cut(signatures: Sequence[int] | np.ndarray, edges: np.ndarray) -> list[int]:
    """Positions at which segments start: 0 and cuts; then the number of nodes.

    Parameters
    ----------
    signatures : for each node, in order, an integer that says what it does (op, params, type), the
        same in every process
    edges : int64 (m, 2), pairs of positions (source, user)
    """
    n = len(signatures)
    if n <= LONGEST_WHOLE:
        return [0, n]
    local = _local_hashes(np.asarray(signatures, np.uint64), edges)
    scores = _scores(local, edges)
    lowest = _window_minimum(scores, WINDOW // 2)
    starts = np.flatnonzero(scores == lowest)
    starts = _with_forced_cuts([0, *starts[(starts > 0) & (starts < n)].tolist(), n], scores)
    return _merge_short_runs(starts, local)


def _mix(x: np.ndarray) -> np.ndarray:
    """A fixed scrambling of 64-bit integers (the finalizer of splitmix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _local_hashes(signatures: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """For each node a hash of what it does and of how far its inputs are, if they are near."""
    distance = edges[:, 1] - edges[:, 0]
    near = np.where(distance <= WINDOW, distance, WINDOW + 1).astype(np.uint64)
    result = _mix(signatures + np.uint64(0x9E3779B97F4A7C15))
    np.add.at(result, edges[:, 1], _mix(near * np.uint64(0x9E3779B97F4A7C15)))
    # Two more rounds over the neighbours make the hash depend on a handful of nodes on both sides.
    for reach in (1, 2):
        mixed = _mix(result)
        result = mixed + _mix(np.roll(mixed, reach)) * np.uint64(3)
        result += _mix(np.roll(mixed, -reach)) * np.uint64(5)
    return result


def _scores(local: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Values that cross each position, where use is near; ties by hash, which the low bits hold."""
    n = len(local)
    source, user = edges[:, 0], edges[:, 1]
    near = (user - source) <= WINDOW
    last_use = np.arange(n)
    np.maximum.at(last_use, source[near], user[near])
    change = np.zeros(n + 2, np.int64)
    np.add.at(change, np.arange(n) + 1, 1)
    np.add.at(change, last_use + 1, -1)
    crossing = np.cumsum(change)[:n]
    return (crossing.astype(np.uint64) << np.uint64(40)) | (_mix(local) >> np.uint64(24))


def _window_minimum(scores: np.ndarray, reach: int) -> np.ndarray:
    """At each position the minimum over `reach` positions on both sides."""
    top = np.iinfo(np.uint64).max
    padded = np.concatenate([np.full(reach, top), scores, np.full(reach, top)])
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).min(axis=1)


def _with_forced_cuts(starts: list[int], scores: np.ndarray) -> np.ndarray:
    """No segment longer than LONGEST: cut at its lowest score."""
    result = [0]
    for stop in starts[1:]:
        while stop - result[-1] > LONGEST:
            low, high = result[-1] + WINDOW // 2, min(stop, result[-1] + LONGEST)
            result.append(low + int(np.argmin(scores[low:high])))
        if stop > result[-1]:
            result.append(stop)
    return np.array(result)


def _merge_short_runs(starts: np.ndarray, local: np.ndarray) -> list[int]:
    """Join neighbours of a run of equal short segments, a fixed number at a time.

    The first and the last of a run stay alone, and so does what remains, so that runs of any length
    need the same kernels.
    """
    keys = [hash(local[a:b].tobytes()) for a, b in itertools.pairwise(starts)]
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
