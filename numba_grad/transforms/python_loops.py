"""Python loops, of which a graph has all steps: where there are many, they become an operation."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from numba_grad.fresh_thread import imported
from numba_grad.graph.node import Node

if TYPE_CHECKING:
    from numba_grad.transforms.call import CallTarget
    from numba_grad.transforms.rerolling import Rerolled

# Below, a graph runs at once, by kernels of single operations.
FEWEST_NODES = 8192
# A compiled function is called often: steps that are planned one by one take 0.8 to 1.1 of the time
# of a loop, and below this there is little to plan.
FEWEST_NODES_COMPILED = 32768
# With derivatives a function has some three times as many, and loops were looked for before.
FEWEST_NODES_WITH_DERIVATIVES = 3 * FEWEST_NODES_COMPILED


def is_long(nodes: Collection[Node], *, is_compiled: bool = False) -> bool:
    """Whether to look for loops before these are differentiated; `is_compiled`: in a function that
    is traced."""
    return len(nodes) >= (FEWEST_NODES_COMPILED if is_compiled else FEWEST_NODES)


def is_long_with_derivatives(nodes: Collection[Node]) -> bool:
    """Whether to look for loops in all that a traced function computes."""
    return len(nodes) >= FEWEST_NODES_WITH_DERIVATIVES


def loop_in(
    order: Sequence[Node],
    fixed: Collection[Node],
    known: "Callable[[CallTarget], CallTarget]",
    is_read_later: Callable[[Node], bool] = lambda node: False,
) -> "Rerolled | None":
    """The longest loop in a long graph, if there is one, as one operation.

    Parameters
    ----------
    order : all nodes without a value, and those that gradients flow through; inputs before users
    fixed : those that somebody else knows: they stay
    known : gives the body that was compiled and differentiated before, if it is equal
    is_read_later : of a leaf: whether its value is not that of all runs, so that it must stay
    """
    if not is_long(order):
        return None
    # Most programs have none, and import nothing for it.
    rerolling = imported("numba_grad.transforms.rerolling")
    return rerolling.reroll(order, fixed, known, is_read_later, FEWEST_NODES)
