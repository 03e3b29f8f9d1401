"""From which sizes on a loop is an operation, rather than its steps, and from which on an array is
looked at as one."""

from collections.abc import Iterable, Sequence

from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple

# Of a loop in a compiled function: fewer are better written out,
FEWEST_STEPS = 12
# unless they have so many operations: the first, the last and those between have kernels of their
# own if they are written out, forward and backward. But numbers and arrays that fit into registers
# are computed by kernels that such steps share anyway; and of larger arrays, a loop computes more
# values again than steps that are written out.
MANY_OPERATIONS = 32
FEWEST_OF_MANY_OPERATIONS = 3
LARGEST_OF_FEW_STEPS = 1 << 12
# Where a step is a loop for the most part, so that written out it would be long.
FEWEST_LONG_STEPS = 2
# Passes from which on a loop in a step is one. Fewer than of other loops: the alternative is all
# steps of the outer loop, one by one.
FEWEST_PASSES = 8
# Elements of a value inside of a step, where steps that were recorded one by one become a loop.
LARGEST_VALUE = 256
# In a compiled function of larger ones as well, from so many operations of a step on.
LONG_STEP = 24
# One after the other, in a function. So where a loop stays as it is, and its derivative comes with
# it, a part of either is no loop.
MOST_LOOPS = 3
LONGEST_DELAY = 8  # steps back that a step may read
# Rows of an array that each step reads at once, and that the steps carry then.
LONGEST_WINDOW = 8

_CONCATENATE = OPS["concatenate"]
_SAMPLES = 1024


class Limits(NamedTuple):
    """What makes a loop worth while that was recorded step by step."""

    nodes: int  # of all steps, at least
    nodes_at_once: int  # of those that are done all at once
    steps: int  # at least
    largest_value: int  # elements of what a step computes, at most
    largest_row: int | None = None  # of what others read of each step
    steps_of_many: int | None = None  # at least, where each is many operations


def puts_arrays_together(nodes: Iterable[Node]) -> bool:
    """Whether one of these concatenates to more elements than that. Most programs have none, and
    import none of the rules about such arrays."""
    sizes = [x.type.size for x in nodes if x.op is _CONCATENATE]
    return max(sizes, default=0) > LARGEST_VALUE


def distance_of_samples(order: Sequence[Node]) -> int:
    """Between the nodes of a long graph that are looked at first."""
    return max(16, len(order) // _SAMPLES)
