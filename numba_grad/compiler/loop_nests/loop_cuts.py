"""Where loops are cut: at the bounds of conditions, and into the blocks of a long reduction."""

import itertools
from collections.abc import Callable

from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.iteration_spaces import unroll_extent
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS
from numba_grad.immutable import immutable

# A piece of a loop shorter than this runs through the general body, which tests its conditions.
SHORTEST_PIECE = 16
# A piece of at most so many elements, as at the rim of a stencil, stays scalar if it only stores:
# vector code for it takes LLVM as long as that of the interior does, and then is not run.
MOST_SCALAR = 8
# Of a loop in more pieces, the long ones have bodies of their own.
MOST_PIECES = 4
MOST_LONG_PIECES = 3
# Where a body has more values than this, the few rows outside of the interior have one that tests
# all conditions. Bodies for their pieces were half of the text of a finite-volume code, 0.8 of its
# compiling, and no faster: 1.15 of the time with them. What is at its rim is scalar then, sums as
# well, so that the interior can be vector code of our own (`vector_loops.py`). Where rows are cut
# into a few pieces that only read at other indices, one body is for all of them: what it adds to an
# index is computed before each piece. For short bodies, that would be 0.07 of the time.
LONG_BODY = 64
MOST_TOGETHER = 9  # bounds of such pieces

Ranges = dict[str, tuple[int, int]]  # start and stop, by loop variable
Known = dict[str, list[tuple[int, int]]]  # the ranges in which a loop variable is
ReductionBlocks = Callable[[int, int, int, bool], int]  # see `Target.reduction_blocks`


@immutable
class Interval:
    """`low <= variable < high`, in numbers of this graph's sizes.

    `is_of_index`: the condition chooses between two indices into one array, as where a rotation
    begins again. Outside of the innermost loop that is a number for each row, and no reason for
    other code.
    """

    variable: str
    low: int
    high: int
    is_of_index: bool = False


def cuts(name: str, extent: int, conditions: list[Interval]) -> list[int]:
    """Where the loop over `name` begins, where conditions change, and where it ends."""
    bounds = {p for c in conditions if c.variable == name for p in (c.low, c.high)}
    return [0, *sorted(p for p in bounds if 0 < p < extent), extent]


def main_ranges(
    outer: tuple[str, ...], extents: dict[str, int], conditions: list[Interval]
) -> Ranges:
    """For `outer` variables under conditions, the longest range in which none of them changes, but
    for conditions of indices."""
    conditions = [c for c in conditions if not c.is_of_index]
    result: Ranges = {}
    for name in outer:
        bounds = cuts(name, extents[name], conditions)
        if len(bounds) > 2:
            start, stop = _longest(bounds)
            if stop - start >= SHORTEST_PIECE:
                result[name] = (start, stop)
    return result


def around(interior: Ranges, extents: dict[str, int], conditions: list[Interval]) -> Known:
    """Where a variable is outside of the interior, if there is but one of them: in these ranges no
    condition changes."""
    if len(interior) != 1:
        return {}
    [(name, inside)] = interior.items()
    parts = itertools.pairwise(cuts(name, extents[name], conditions))
    return {name: [part for part in parts if part != inside]}


def pieces(bounds: list[int], known: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
    """(start, stop, range to assume) of each part of the innermost loop, which is cut at `bounds`.

    `known` is the range to assume of a loop that is not cut.
    """
    first, last = bounds[0], bounds[-1]
    if len(bounds) == 2:
        return [(first, last, known)]
    parts = list(itertools.pairwise(bounds))
    if len(parts) > MOST_PIECES:
        long = sorted(parts, key=_length)[-MOST_LONG_PIECES:]
        # What lies between them may hold bounds, and then tests conditions.
        ends = sorted({first, last, *itertools.chain.from_iterable(long)})
        parts = list(itertools.pairwise(ends))
    return [(a, b, (a, b)) for a, b in parts]


def _longest(bounds: list[int]) -> tuple[int, int]:
    return max(itertools.pairwise(bounds), key=_length)


def _length(piece: tuple[int, int]) -> int:
    return piece[1] - piece[0]


def fewest_blocks() -> int:
    """Fewer than these would be combined without a loop: by a kernel for each number of them."""
    return max(unroll_extent(), 1) + 1


def number_of_blocks(
    group: Group,
    order: tuple[str, ...],
    reduced: tuple[str, ...],
    extents: dict[str, int],
    reduction_blocks: ReductionBlocks,
) -> int:
    """Parts of the outermost reduced axis."""
    if not reduced or any(node.op.name in ARG_REDUCTIONS for node in group.reduced):
        return 1
    kept = summed = 1
    for name, n in extents.items():
        if name in reduced:
            summed *= n
        else:
            kept *= n
    outermost = extents[next(name for name in order if name in reduced)]
    return reduction_blocks(kept, summed, outermost, order[-1] not in reduced)
