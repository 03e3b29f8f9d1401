"""Index arrays that name the neighbours of all elements, as slices: `u[(i + 1) % n]` is a roll.

A gather is opaque to the compiler, and its adjoint adds element by element. Of slices and
concatenations it makes stencils, as of `np.roll`, with adjoints that are stencils, too.
"""

import functools
from collections.abc import Sequence

import numpy as np

from numba_grad.graph.node import OPS, Node, Op, record
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import region_params, slice_params

# How far neighbours are, and how many there are of an element: what indices say becomes part of a
# program, of which there is one for each distance. Any other subset of elements stays data.
FARTHEST = 8
MOST_NEIGHBOURS = 16
MOST_RUNS = 4  # more parts of a concatenation are stored
FEWEST = 8  # indices: below, a gather costs nothing
MOST_REMEMBERED = 1 << 12


def neighbours_on_axes(
    x: Node,
    axes: Sequence[int],
    indices: Sequence[np.ndarray],
    shape: tuple[int, ...],
    *,
    is_list: bool = False,
) -> Node | None:
    """`x` at `indices`, which broadcast to `shape`, in place of `axes`; None if these are no
    neighbours.

    Of several arrays, as `numpy.ix_` and `numpy.meshgrid` give, each must vary along its own axis
    of `shape`, and `axes` must be neighbours themselves. All indices are from 0 to n - 1. Of a list
    that the program's text has, any that follow each other are neighbours.
    """
    if is_list and len(indices) == 1 and _is_run(indices[0]):
        return _part(x, axes[0], int(indices[0][0]), len(indices[0]))
    if len(indices) == 1:
        return _neighbours(x, axes[0], indices[0])
    if len(indices) != len(shape) or list(axes) != list(range(axes[0], axes[0] + len(axes))):
        return None
    taken: Node | None = x
    for number, (axis, index) in enumerate(zip(axes, indices, strict=True)):
        whole = np.broadcast_to(index, shape)
        line = whole[
            tuple([slice(None) if k == number else slice(0, 1) for k in range(whole.ndim)])
        ]
        if taken is None or not np.array_equal(np.broadcast_to(line, shape), whole):
            return None
        taken = _neighbours(taken, axis, line.ravel())
    return taken


def written_to_neighbours(
    x: Node, index: np.ndarray, v: Node, write_slice: Op, *, is_list: bool = False
) -> Node | None:
    """`x` after `write_slice` of `v` at `index` of its first axis, one after the other; None if
    these are no neighbours. What is added may be added in any order: at the nodes of all elements
    of a mesh, one node after the other."""
    if index.ndim == 2 and write_slice is OPS["add_slice"]:
        return _added_to_columns(x, index, v, write_slice)
    if is_list and _is_run(index):
        runs: list[tuple[int, int]] | None = [(int(index[0]), len(index))]
    else:
        runs = _runs(index, x.shape[0]) if index.ndim == 1 else None
    first, rest = 0, len(x.shape) - 1
    for start, count in runs or ():
        part = v if count == len(index) else _part(v, 0, first, count)
        x = record(write_slice, (x, part), region_params((start, *(0,) * rest), (1,) * (rest + 1)))
        first += count
    return None if runs is None else x


def _added_to_columns(x: Node, index: np.ndarray, v: Node, add_slice: Op) -> Node | None:
    """`x` after `v` is added at `index`, if each column (or each row, if these are few) of it names
    neighbours."""
    if min(index.shape) > MOST_RUNS:
        return None
    axis = int(index.shape[0] > index.shape[1])
    lines = index.T if axis else index
    if any(_runs(line, x.shape[0]) is None for line in lines):
        return None
    result: Node | None = x
    for k, line in enumerate(lines):
        part = _part(v, axis, k, 1)
        assert result is not None
        shape = (*part.shape[:axis], *part.shape[axis + 1 :])
        result = written_to_neighbours(result, line, reshape(part, shape), add_slice)
    return result


def _neighbours(x: Node, axis: int, index: np.ndarray) -> Node | None:
    """`x` at `index`, of one axis or two, in place of `axis`."""
    if index.ndim == 1:
        runs = _runs(index, x.shape[axis])
        return None if runs is None else _joined([_part(x, axis, *run) for run in runs], axis)
    if index.ndim != 2 or min(index.shape) > MOST_NEIGHBOURS:
        return None
    # Windows have the neighbours of an element last; lists of index arrays have them first.
    among = int(index.shape[0] > index.shape[1])
    parts = []
    for line in index.T if among else index:
        part = _neighbours(x, axis, line)
        if part is None:
            return None
        before = part.shape[: axis + among]
        parts.append(reshape(part, (*before, 1, *part.shape[axis + among :])))
    return _joined(parts, axis + among) if parts else None


def _is_run(index: np.ndarray) -> bool:
    """Whether these are one or more numbers that follow each other."""
    return index.ndim == 1 and index.size > 0 and bool((np.diff(index) == 1).all())


def _runs(index: np.ndarray, size: int) -> list[tuple[int, int]] | None:
    """First index and number of indices of each stretch of successive ones, if they are few."""
    count = len(index)
    if count < FEWEST or abs(count - size) > 2 * FARTHEST:
        return None
    inner = index[FARTHEST : count - FARTHEST]
    if len(inner) and inner[-1] - inner[0] != len(inner) - 1:
        return None  # most others are told by two of them
    if count > MOST_REMEMBERED:
        runs = _found_runs(index)
    else:
        runs = _runs_of_bytes(index.astype(np.int64, copy=False).tobytes())
    # Several that leave elements out are data, as where each element is left out once.
    return None if runs is not None and len(runs) > 1 and count < size else runs


@functools.lru_cache(maxsize=1 << 8)
def _runs_of_bytes(index: bytes) -> list[tuple[int, int]] | None:
    # Finding them takes 25 us, and loops ask for the same ones again.
    return _found_runs(np.frombuffer(index, np.int64))


def _found_runs(index: np.ndarray) -> list[tuple[int, int]] | None:
    count = len(index)
    ends = [*(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), count]
    if len(ends) > MOST_RUNS:
        return None
    starts = [0, *ends[:-1]]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    if count - longest > min(FARTHEST, count // 2):
        return None
    return [(int(index[start]), end - start) for start, end in zip(starts, ends, strict=True)]


def _part(x: Node, axis: int, start: int, count: int) -> Node:
    starts, sizes = [0] * len(x.shape), list(x.shape)
    starts[axis], sizes[axis] = start, count
    steps = (1,) * len(sizes)
    return record(OPS["slice"], (x,), slice_params(tuple(starts), tuple(sizes), steps))


def _joined(parts: Sequence[Node], axis: int) -> Node:
    return parts[0] if len(parts) == 1 else OPS["concatenate"](*parts, axis=axis)
