"""What a reverse sweep keeps of a pass: the fewest bytes from which it can compute the rest again.

The scalars of a region are a graph: each is computed from others. Some cannot be had again (loads
of what is overwritten), some are needed. Whatever is kept must lie on each path from the first to
the second: a minimum cut, with a scalar's bytes as its capacity (Ford and Fulkerson, 1956; for
tapes of derivatives, Moses et al., SC 2021). Of cuts of one size the one nearest to what is needed
is taken, from which least is computed again.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from numba_grad.compiler.numba_functions.regions import Scalar

_UNLIMITED = 1 << 60
_SOURCE = "source"
# A scalar is two vertices, with an edge of its bytes between them: (scalar, 0) and (scalar, 1).
_Vertex = tuple[Scalar, int] | str


def least_kept(
    needed: Collection[Scalar],
    lost: Collection[Scalar],
    operands: Mapping[Scalar, Sequence[Scalar]],
) -> set[Scalar]:
    """What to keep. `operands` says what a scalar of the region is computed from, in the region;
    of those in `lost` it says nothing."""
    rest: dict[_Vertex, dict[_Vertex, int]] = {}  # capacities that are left

    def edge(tail: _Vertex, head: _Vertex, capacity: int) -> None:
        rest.setdefault(tail, {})[head] = capacity
        rest.setdefault(head, {}).setdefault(tail, 0)

    for scalar, inputs in operands.items():
        edge((scalar, 0), (scalar, 1), np.dtype(scalar.dtype).itemsize)
        for x in inputs:
            edge((x, 1), (scalar, 0), _UNLIMITED)
    for scalar in lost:
        edge(_SOURCE, (scalar, 0), _UNLIMITED)
    sinks: set[_Vertex] = {(scalar, 1) for scalar in needed}
    while (path := _path(rest, sinks)) is not None:
        edges = list(itertools.pairwise(path))
        flow = min(rest[tail][head] for tail, head in edges)
        for tail, head in edges:
            rest[tail][head] -= flow
            rest[head][tail] += flow
    # What still leads to what is needed, walked backwards.
    reaching = set(sinks)
    stack = list(sinks)
    while stack:
        head = stack.pop()
        for tail in rest.get(head, ()):
            if tail not in reaching and rest[tail][head] > 0:
                reaching.add(tail)
                stack.append(tail)
    return {s for s in operands if (s, 1) in reaching and (s, 0) not in reaching}


def _path(
    rest: Mapping[_Vertex, Mapping[_Vertex, int]], sinks: Collection[_Vertex]
) -> list[_Vertex] | None:
    """A way from the source on which something can still flow."""
    before: dict[_Vertex, _Vertex | None] = {_SOURCE: None}
    stack: list[_Vertex] = [_SOURCE]
    while stack:
        vertex = stack.pop()
        if vertex in sinks:
            path: list[_Vertex] = []
            step: _Vertex | None = vertex
            while step is not None:
                path.append(step)
                step = before[step]
            return path[::-1]
        for head, capacity in rest.get(vertex, {}).items():
            if capacity > 0 and head not in before:
                before[head] = vertex
                stack.append(head)
    return None
