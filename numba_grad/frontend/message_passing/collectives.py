"""What ranks have, on other ranks: `bcast`, `gather`, `scatter`, `alltoall`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.frontend.message_passing.communicators import (
    Communicator,
    _agree_on,
    as_operand,
    collective,
    communicate,
)
from numba_grad.frontend.message_passing.rows import as_counts, as_rows, check_rows
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import Node
from numba_grad.ops.families import reshape


def barrier(comm: Any = None) -> None:
    """Wait until all ranks are here; and in the backward pass, until all are back here."""
    given = Communicator("mpi.barrier", comm)
    _agree_on(given, "barrier", None, {}, 0)
    communicate("barrier", [], given.place(np.dtype(np.float64)), {})


def bcast(x: Any, root: int = 0, comm: Any = None) -> Tensor:
    """What the root has, on all ranks.

    Parameters
    ----------
    x : array or number; on other ranks than the root any of the same shape and dtype
    root : the rank whose `x` it is

    Notes
    -----
    The adjoint is `reduce`: the root gets the sum of all cotangents, the others zeros.
    """
    operation = "mpi.bcast"
    given = Communicator(operation, comm)
    node = as_operand(operation, x)
    return wrap(collective(given, "bcast", node, {}, given.root(root)))


def allgather(x: Any, comm: Any = None) -> Tensor:
    """What each rank has, on all ranks.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks

    Returns
    -------
    Tensor of shape (ranks, *x.shape)

    Notes
    -----
    The adjoint is `reduce_scatter`.
    """
    given = Communicator("mpi.allgather", comm)
    return wrap(gathered_by_all(given, as_operand("mpi.allgather", x)))


def gathered_by_all(given: Communicator, node: Node) -> Node:
    one = reshape(node, (1, *node.shape))
    params = {"counts": (1,) * given.size, "rows": given.size}
    return collective(given, "allgather", one, params)


def allgatherv(x: Any, counts: Sequence[int], comm: Any = None) -> Tensor:
    """The rows of all ranks, one after the other, on all ranks.

    Parameters
    ----------
    x : array of shape (counts[rank], ...)
    counts : how many rows each rank has, the same on all ranks

    Returns
    -------
    Tensor of shape (sum(counts), ...)
    """
    operation = "mpi.allgatherv"
    given = Communicator(operation, comm)
    node, own = as_rows(operation, x), as_counts(operation, "counts", counts, given.size)
    check_rows(operation, node, own[given.rank], f"counts[{given.rank}]")
    return wrap(collective(given, "allgather", node, {"counts": own, "rows": sum(own)}))


def gather(x: Any, root: int = 0, comm: Any = None) -> Tensor:
    """What each rank has, on the root.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    root : the rank that gets it

    Returns
    -------
    Tensor of shape (ranks, *x.shape) on the root, (0, *x.shape) elsewhere

    Notes
    -----
    The adjoint is `scatter`.
    """
    operation = "mpi.gather"
    given = Communicator(operation, comm)
    node = as_operand(operation, x)
    return _gathered(given, reshape(node, (1, *node.shape)), (1,) * given.size, root)


def gatherv(x: Any, counts: Sequence[int], root: int = 0, comm: Any = None) -> Tensor:
    """The rows of all ranks, one after the other, on the root: (sum(counts), ...); elsewhere no
    rows. Arguments as of `allgatherv` and `gather`."""
    operation = "mpi.gatherv"
    given = Communicator(operation, comm)
    node, own = as_rows(operation, x), as_counts(operation, "counts", counts, given.size)
    check_rows(operation, node, own[given.rank], f"counts[{given.rank}]")
    return _gathered(given, node, own, root)


def _gathered(given: Communicator, rows: Node, counts: tuple[int, ...], root: int) -> Tensor:
    root = given.root(root)
    params = {"counts": counts, "rows": sum(counts) if given.rank == root else 0}
    return wrap(collective(given, "gather", rows, params, root))


def scatter(x: Any, root: int = 0, comm: Any = None) -> Tensor:
    """Of the rows that the root has, one for each rank.

    Parameters
    ----------
    x : array of shape (ranks, ...) on the root; elsewhere any with rows of that shape and dtype,
        such as `np.empty((0, 3))`
    root : the rank whose rows these are

    Returns
    -------
    Tensor of the shape of a row

    Notes
    -----
    The adjoint is `gather`: the root gets the cotangents of all ranks.
    """
    given = Communicator("mpi.scatter", comm)
    row = _scattered(given, x, (1,) * given.size, root)
    return wrap(reshape(row, row.shape[1:]))


def scatterv(x: Any, counts: Sequence[int], root: int = 0, comm: Any = None) -> Tensor:
    """Of the rows that the root has, `counts[rank]` for each rank. Arguments as of `scatter`, and
    `counts`: how many rows each rank gets, the same on all ranks."""
    operation = "mpi.scatterv"
    given = Communicator(operation, comm)
    return wrap(_scattered(given, x, as_counts(operation, "counts", counts, given.size), root))


def _scattered(given: Communicator, x: Any, counts: tuple[int, ...], root: int) -> Node:
    node, root = as_rows(given.operation, x), given.root(root)
    if given.rank == root:
        check_rows(given.operation, node, sum(counts), "those of all ranks")
    elif node.shape[0]:
        node = wrap(node)[:0]._node  # nothing is sent from here, and nothing comes back
    params = {"counts": counts, "rows": counts[given.rank]}
    return collective(given, "scatter", node, params, root)


def alltoall(x: Any, comm: Any = None) -> Tensor:
    """Row k to rank k, and from rank k row k of the result.

    Parameters
    ----------
    x : array of shape (ranks, ...), the same on all ranks

    Notes
    -----
    Its own adjoint.
    """
    operation = "mpi.alltoall"
    given = Communicator(operation, comm)
    node = as_rows(operation, x)
    check_rows(operation, node, given.size, "one for each rank")
    ones = (1,) * given.size
    params = {"counts": ones, "received": ones, "rows": given.size}
    return wrap(collective(given, "alltoall", node, params))


def alltoallv(
    x: Any, sendcounts: Sequence[int], recvcounts: Sequence[int], comm: Any = None
) -> Tensor:
    """Rows to all ranks, as many as each gets, and from all ranks.

    Parameters
    ----------
    x : array of shape (sum(sendcounts), ...)
    sendcounts, recvcounts : how many rows go to each rank, and come from each

    Returns
    -------
    Tensor of shape (sum(recvcounts), ...)
    """
    operation = "mpi.alltoallv"
    given = Communicator(operation, comm)
    node = as_rows(operation, x)
    sent = as_counts(operation, "sendcounts", sendcounts, given.size)
    received = as_counts(operation, "recvcounts", recvcounts, given.size)
    check_rows(operation, node, sum(sent), "the sum of sendcounts")
    params = {"counts": sent, "received": received, "rows": sum(received)}
    return wrap(collective(given, "alltoall", node, params))
