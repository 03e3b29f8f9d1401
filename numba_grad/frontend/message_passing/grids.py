"""Ghost cells of Cartesian grids: `halo_exchange`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.frontend.message_passing.communicators import Communicator, as_operand, communicate
from numba_grad.frontend.message_passing.rank_agreement import tell_and_check
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import reshape


def halo_exchange(
    u: Any, width: int | Sequence[int], cart: Any, periodic: bool | Sequence[bool] | None = None
) -> Tensor:
    """`u` with its ghost cells filled from the neighbours on a Cartesian grid of ranks.

    Parameters
    ----------
    u : array whose first axes are those of the grid, ghost cells on both ends of each included;
        further axes are components of a cell
    width : how many ghost cells there are at each end, for all axes or for each
    cart : a Cartesian communicator, `MPI.COMM_WORLD.Create_cart(dims, periods)`
    periodic : whether the first and the last rank of an axis are neighbours, for all axes or for
        each; by default as `cart` says

    Returns
    -------
    Tensor of the shape of `u`. At an end of the grid that is not periodic ghost cells stay as they
    are.

    Raises
    ------
    ShapeError
        If an axis has fewer cells than its neighbours need.

    Notes
    -----
    Axis by axis, two messages each, under way at once: so corners and edges are right. The adjoint
    sends the cotangents of ghost cells back to their owners, adds them there, and leaves 0.
    """
    operation = "mpi.halo_exchange"
    given = Communicator(operation, cart)
    if not isinstance(cart, given.mpi.Cartcomm):
        raise TypeError(
            explain(
                operation,
                "needs a Cartesian communicator",
                got={"cart": repr(cart)},
                fix="MPI.COMM_WORLD.Create_cart(dims, periods)",
            )
        )
    dims, periods, _ = cart.Get_topo()
    node = as_operand(operation, u)
    widths = [width] * len(dims) if isinstance(width, int) else list(width)
    wraps = list(periods if periodic is None else np.broadcast_to(periodic, len(dims)))
    _check_ghosts(operation, node, widths, dims)
    # The first axis last: rows that read no ghosts of it are whole parts of memory, which are
    # computed while its messages are under way.
    for axis, w in reversed(list(enumerate(widths))):
        if w:
            below, above = (_neighbour(given, axis, step, wraps[axis]) for step in (-1, 1))
            node = _axis_exchanged(given, node, axis, w, below, above)
    return wrap(node)


def _check_ghosts(operation: str, u: Node, widths: list[int], dims: Sequence[int]) -> None:
    if len(u.shape) < len(dims) or len(widths) != len(dims):
        raise ShapeError(
            explain(
                operation,
                "the grid has other axes than the array",
                got={"u": u.type, "width": widths, "dims of cart": list(dims)},
                expected=f"an array of at least {len(dims)} axes, and a width for each of these",
            )
        )
    for axis, w in enumerate(widths):
        if w < 0 or u.shape[axis] < 3 * w:
            raise ShapeError(
                explain(
                    operation,
                    f"axis {axis} has fewer cells than its neighbours need",
                    got={"u": u.type, "width": w},
                    expected=f"at least {3 * w} cells: {w} ghost cells at each end, and {w} within",
                )
            )


def _neighbour(given: Communicator, axis: int, step: int, is_periodic: bool) -> int:
    dims, _, coords = given.comm.Get_topo()
    there = list(coords)
    there[axis] += step
    if is_periodic:
        there[axis] %= dims[axis]
    if not 0 <= there[axis] < dims[axis]:
        return given.mpi.PROC_NULL
    return given.comm.Get_cart_rank(there)


def _axis_exchanged(
    given: Communicator, u: Node, axis: int, width: int, below: int, above: int
) -> Node:
    """`u` with the ghost cells at both ends of one axis filled."""
    size = u.shape[axis]
    shape = (*u.shape[:axis], width, *u.shape[axis + 1 :])
    steps = (1,) * len(shape)

    def starting_at(first: int) -> tuple[int, ...]:
        return (*[0] * axis, first, *[0] * (len(shape) - axis - 1))

    def both(*firsts: int) -> Node:
        parts = [
            OPS["slice"](u, starts=starting_at(first), sizes=shape, steps=steps) for first in firsts
        ]
        return OPS["concatenate"](*[reshape(x, (1, *shape)) for x in parts], axis=0)

    # What goes down has tag 0, what goes up tag 1: two ranks may be neighbours on both sides.
    place = given.place(u.dtype, peers=[(below, above, 0, 0), (above, below, 1, 1)])
    ghosts = (size - width, 0)
    ghost = u.type.of_shape(shape)
    tell_and_check(
        given.comm,
        given.operation,
        [(below, 0, ghost), (above, 1, ghost)],
        [(above, 0, ghost), (below, 1, ghost)],
    )
    operands = [both(width, size - 2 * width), both(*ghosts)]
    (received,) = communicate("exchange", operands, place, {"backward": False})
    for k, first in enumerate(ghosts):
        part = wrap(received)[k]._node
        u = OPS["update_slice"](u, part, starts=starting_at(first), steps=steps)
    return u
