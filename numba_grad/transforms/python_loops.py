"""Python loops, of which a graph has all steps: where there are many, they become an operation."""

from collections import Counter
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from numba_grad.fresh_thread import imported
from numba_grad.graph import placement
from numba_grad.graph.node import OPS, SERIALS_A_NODE, Node
from numba_grad.graph.types import CPU, TupleType
from numba_grad.transforms.control_flow.loops import PASSES_OF_LOOPS
from numba_grad.transforms.loop_sizes import (
    FEWEST_OF_MANY_OPERATIONS,
    FEWEST_STEPS,
    LARGEST_VALUE,
    MANY_OPERATIONS,
    MOST_LOOPS,
    Limits,
    distance_of_samples,
)

if TYPE_CHECKING:
    from numba_grad.transforms.read_at_calls import ReadAtCalls
    from numba_grad.transforms.rerolling.known_loops import Store
    from numba_grad.transforms.rerolling.rerolled import RerolledLoops

_op_of, _device_of = attrgetter("op"), attrgetter("type.device")
_SLICE = OPS["slice"]
# Below, to look for a loop and to plan its body takes a first gradient longer than all steps.
FEWEST_NODES = 768
# A compiled function is the same program for any number of steps.
FEWEST_NODES_COMPILED = 32
# The same of loops whose steps are one for all, and are loops no more
# (`control_flow/independent_steps.py`).
_MOST_AT_ONCE = 32
# Elements of what is left of each step, in a compiled function. Of larger ones often a part is read
# (a receiver of waves), and step by step nothing else of them is stored, or has a cotangent.
_LARGEST_ROW = 16
_ANY_SIZE = 1 << 62


def is_long(nodes: Collection[Node], *, is_compiled: bool = False) -> bool:
    """Whether to look for loops among these; `is_compiled`: in a function that is traced."""
    if not is_compiled or len(nodes) >= FEWEST_NODES:
        return len(nodes) >= FEWEST_NODES
    # Most functions have nothing alike so often: a look that finds no loop takes 3 to 4 ms in a new
    # process. The first steps may read something else than others.
    alike = Counter([(x.op, x.type, *map(_op_of, x.inputs)) for x in nodes])
    are_many = len(nodes) >= FEWEST_OF_MANY_OPERATIONS * MANY_OPERATIONS
    fewest = FEWEST_OF_MANY_OPERATIONS if are_many else FEWEST_STEPS
    repeated = sum(
        [count for count in alike.values() if count >= max(fewest - 2, FEWEST_OF_MANY_OPERATIONS)]
    )
    return repeated >= _fewest_nodes(len(nodes)) or _have_ragged_steps(nodes)


def is_long_since(serial: int, nodes: Collection[Node]) -> bool:
    """Whether so much was recorded since that to look for loops is worth while."""
    last = max([x.serial for x in nodes], default=0)
    return last - serial >= FEWEST_NODES * SERIALS_A_NODE


def _have_ragged_steps(nodes: Collection[Node]) -> bool:
    """Whether so many slices of one array have different lengths that `rerolling/ragged_steps.py`
    should look for a sum of what is made of them."""
    lengths = {(x.inputs[0], x.type) for x in nodes if x.op is _SLICE and x.shape}
    most = Counter([array for array, _ in lengths]).most_common(1)
    return bool(most) and most[0][1] >= FEWEST_STEPS


def _fewest_nodes(count: int) -> int:
    """Of a loop in a compiled function of so many nodes."""
    return max(FEWEST_NODES_COMPILED, count // MOST_LOOPS)


def loop_in(
    order: Sequence[Node],
    fixed: Collection[Node],
    store: "Store",
    read_at_calls: "ReadAtCalls | None" = None,
    *,
    is_compiled: bool = False,
) -> "RerolledLoops | None":
    """The longest loop in a long graph, if there is one, as one operation, with loops of steps like
    its own; before it, in a compiled function, steps that read rows of different lengths
    (`rerolling/ragged_steps.py`).

    Parameters
    ----------
    order : all nodes without a value, and those that gradients flow through; inputs before users
    fixed : those that somebody else knows: they stay
    store : has bodies that were compiled and differentiated before, and what was found before
    read_at_calls : of which leaves the values are not those of all runs
    is_compiled : whether a function is traced
    """
    # Most programs have none, and import nothing for it.
    if is_compiled and _have_ragged_steps(order):
        ragged_steps = imported("numba_grad.transforms.rerolling.ragged_steps")
        joined = ragged_steps.joined_ragged_steps(order, fixed, read_at_calls)
        if joined is not None:
            return joined
    if not is_long(order, is_compiled=is_compiled):
        return None
    # On a GPU a thread keeps what a few steps compute in registers, also for the way back: where a
    # loop is an operation it would be in memory.
    is_elsewhere = placement.is_in_use() and {*map(_device_of, order)} != {CPU}
    if not is_compiled or is_elsewhere:
        limits = Limits(FEWEST_NODES, FEWEST_NODES, FEWEST_STEPS, LARGEST_VALUE)
    else:
        at_once = max(FEWEST_NODES_COMPILED, len(order) // _MOST_AT_ONCE)
        limits = Limits(
            _fewest_nodes(len(order)),
            at_once,
            FEWEST_STEPS,
            _ANY_SIZE,
            _LARGEST_ROW,
            FEWEST_OF_MANY_OPERATIONS,
        )
    if not _may_fit(order, limits):
        return None
    known_loops = imported("numba_grad.transforms.rerolling.known_loops")
    look = known_loops.Look(order, fixed, read_at_calls, limits, store, is_elsewhere=is_elsewhere)
    if look.is_known():
        return look.found
    rerolling = imported("numba_grad.transforms.rerolling.rerolling", *PASSES_OF_LOOPS)
    found = rerolling.reroll(order, fixed, store.body, look.read_at_calls, limits, look.survey)
    look.keep(found)
    return found


def _may_fit(order: Sequence[Node], limits: Limits) -> bool:
    """Whether so many of some nodes may be small enough: arrays are larger in most long loops on a
    CPU."""
    distance = distance_of_samples(order)
    some = [x.type for x in order[::distance] if x.type.device == CPU]
    large = [x for x in some if x.__class__ is not TupleType and x.size > limits.largest_value]
    fit = len(order[::distance]) - len(large)
    return 2 * distance * fit >= limits.nodes_at_once
