"""Sums and other reductions over ranks: `allreduce`, `reduce`, `reduce_scatter`."""

import functools
from collections.abc import Sequence
from typing import Any

from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.frontend.message_passing.collectives import gathered_by_all
from numba_grad.frontend.message_passing.communicators import Communicator, as_operand, collective
from numba_grad.frontend.message_passing.rows import as_counts, as_rows, check_rows
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.communication import DATATYPES, PlaceWord
from numba_grad.ops.families import reshape, zeros_like


def allreduce(x: Any, op: Any = None, comm: Any = None, *, ordered: bool = False) -> Tensor:
    """The sum of `x` over all ranks, or another reduction, on all ranks.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    op : MPI.SUM (by default), MPI.PROD, MPI.MIN or MPI.MAX; of complex numbers the first two
    ordered : a sum or product, in the order of ranks: the same bits with every MPI library, and on
        every rank. It moves as many times the bytes as there are ranks.

    Returns
    -------
    Tensor of the shape and dtype of `x`

    Raises
    ------
    DTypeError
        Of bools, float16 and bfloat16, of which MPI has no reductions.
    CommunicationError
        If MPI reports an error.

    Notes
    -----
    The cotangent of a sum is the sum of the cotangents of all ranks. That of an extreme goes to the
    rank that has it, in equal parts to several; NaN in `x` gives what MPI gives, with gradient NaN.
    """
    given = Communicator("mpi.allreduce", comm)
    return wrap(_allreduced(given, x, _combine("mpi.allreduce", given.mpi, op), ordered))


def _allreduced(given: Communicator, x: Any, combine: str, ordered: bool) -> Node:
    node = as_operand(given.operation, x)
    _check_reducible(given.operation, node, combine)
    if ordered and combine == "prod":
        gathered = gathered_by_all(given, node)
        return _in_order(gathered, given.size, "multiply")
    is_ordered = bool(ordered) and combine == "sum"  # extremes are the same in any order
    ranks = given.size if is_ordered or combine == "prod" else 0
    params = {"combine": combine, "ranks": ranks, "ordered": is_ordered}
    return collective(given, "allreduce", node, params)


def reduce(
    x: Any, op: Any = None, root: int = 0, comm: Any = None, *, ordered: bool = False
) -> Tensor:
    """The sum of `x` over all ranks, or another reduction, on the root; zeros on the others.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    op, ordered : as of `allreduce`
    root : the rank that gets it

    Notes
    -----
    The adjoint of a sum is `bcast`: each rank gets the cotangent of the root. Extremes, products
    and ordered sums are those of `allreduce`, at its price, of which the others see zeros.
    """
    operation = "mpi.reduce"
    given = Communicator(operation, comm)
    combine = _combine(operation, given.mpi, op)
    root = given.root(root)
    if combine != "sum" or ordered:
        total = _allreduced(given, x, combine, ordered)
        place = given.place(total.dtype, root)
        rank, wanted = (
            OPS["slice"](place, starts=(int(word),), sizes=(1,), steps=(1,))
            for word in (PlaceWord.RANK, PlaceWord.ROOT)
        )
        is_root = reshape(OPS["equal"](rank, wanted), ())
        return wrap(OPS["where"](is_root, total, zeros_like(total)))
    node = as_operand(operation, x)
    _check_reducible(operation, node, "sum")
    return wrap(collective(given, "reduce", node, {}, root))


def reduce_scatter(
    x: Any,
    counts: Sequence[int] | None = None,
    op: Any = None,
    comm: Any = None,
    *,
    ordered: bool = False,
) -> Tensor:
    """The sum of `x` over all ranks, or another reduction, of which each rank gets its rows.

    Parameters
    ----------
    x : array of shape (sum(counts), ...), the same on all ranks
    counts : how many rows each rank gets; by default one each, without the axis of rows
    op, ordered : as of `allreduce`

    Returns
    -------
    Tensor of shape (counts[rank], ...), or that of a row

    Notes
    -----
    The adjoint of a sum is `allgather`. Extremes, products and ordered sums come by `alltoall`:
    each rank gets its rows of all others, and combines them in their order.
    """
    operation = "mpi.reduce_scatter"
    given = Communicator(operation, comm)
    combine = _combine(operation, given.mpi, op)
    node = as_rows(operation, x)
    _check_reducible(operation, node, combine)
    own = (
        (1,) * given.size if counts is None else as_counts(operation, "counts", counts, given.size)
    )
    check_rows(operation, node, sum(own), "those of all ranks")
    mine = own[given.rank]
    if combine == "sum" and not ordered:
        y = collective(given, "reduce_scatter", node, {"counts": own, "rows": mine})
    else:
        params = {"counts": own, "received": (mine,) * given.size, "rows": mine * given.size}
        parts = collective(given, "alltoall", node, params)
        parts = reshape(parts, (given.size, mine, *node.shape[1:]))
        if combine in ("min", "max"):
            y = OPS[combine](parts, axes=(0,))
        else:
            y = _in_order(parts, given.size, {"sum": "add", "prod": "multiply"}[combine])
    return wrap(reshape(y, y.shape[1:]) if counts is None else y)


def _check_reducible(operation: str, x: Node, combine: str) -> None:
    is_ordered = combine in ("sum", "prod") or x.dtype.kind != "c"
    if x.dtype.name in DATATYPES and x.dtype.kind != "b" and is_ordered:
        return
    raise DTypeError(
        explain(
            operation,
            f"MPI has no {combine} of this dtype",
            got={"x": x.type},
            expected="integers, float32, float64"
            + (", complex64, complex128" if combine in ("sum", "prod") else ""),
            fix="x.astype(np.int64)" if x.dtype.kind == "b" else "x.astype(np.float32)",
        )
    )


def _in_order(rows: Node, count: int, combine: str) -> Node:
    """What stands along the first axis, combined from the first to the last."""
    parts = [wrap(rows)[k]._node for k in range(count)]
    return functools.reduce(OPS[combine], parts)


def _combine(operation: str, mpi: Any, op: Any) -> str:
    if op is None:
        return "sum"
    for name in ("SUM", "PROD", "MIN", "MAX"):
        if op == getattr(mpi, name):
            return name.lower()
    raise ValueError(
        explain(
            operation,
            "no derivative is known of this reduction",
            got={"op": repr(op)},
            expected="MPI.SUM, MPI.PROD, MPI.MIN or MPI.MAX",
        )
    )
