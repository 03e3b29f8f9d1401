"""Communication between the processes of an MPI job: `ng.mpi`.

Functions have the names of mpi4py's and their order of arguments, on arrays of any dtype. They work
in `jit`, loops and define by run, and are differentiable to any order. The convention is the plain
linear adjoint: of `y = A x` over all ranks, the cotangent of `x` is the transpose of `A` applied to
the cotangents of all ranks. So the gradient of a loss that each rank has is that of the *sum* of
all these losses; `ng.value_and_grad(f, comm=comm)` counts it once.

Every rank must communicate, differentiate and ask for gradients in the same order. What a rank does
with a result does not matter.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.evaluate import evaluate
from numba_grad.config import config
from numba_grad.errors import CommunicationError, DTypeError, ShapeError, explain
from numba_grad.frontend.arrays import as_node, wrap
from numba_grad.frontend.rank_agreement import agree, communicates, tell_and_check, tell_of_failures
from numba_grad.frontend.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, numbers
from numba_grad.graph.types import CPU, Type
from numba_grad.ops import communication
from numba_grad.ops.communication import DATATYPES, PlaceWord, units
from numba_grad.ops.families import placed, reshape, zeros_like
from numba_grad.runtime.mpi import handle_of, library

order.evaluate = evaluate

_MOST_COUNT = (1 << 31) - 1


class _Communicator:
    """What is asked of an mpi4py communicator, once for each communication."""

    def __init__(self, operation: str, comm: Any) -> None:
        self.mpi = library()
        self.comm = self.mpi.COMM_WORLD if comm is None else comm
        if not isinstance(self.comm, self.mpi.Comm):
            raise TypeError(
                explain(
                    operation,
                    "not a communicator",
                    got={"comm": repr(comm)},
                    expected="one of mpi4py's, such as MPI.COMM_WORLD",
                )
            )
        if self.comm == self.mpi.COMM_NULL or self.comm.Is_inter():
            raise ValueError(
                explain(
                    operation,
                    "needs a communicator of one group that this process is in",
                    got={"comm": "MPI.COMM_NULL, or between two groups"},
                )
            )
        tell_of_failures()
        self.operation = operation
        self.size: int = self.comm.Get_size()
        self.rank: int = self.comm.Get_rank()

    def root(self, root: Any) -> int:
        number = _integer(self.operation, "root", root)
        if not 0 <= number < self.size:
            raise ValueError(
                explain(
                    self.operation,
                    "there is no such rank",
                    got={"root": root},
                    expected=f"0 to {self.size - 1}",
                )
            )
        return number

    def peer(self, name: str, rank: Any) -> int:
        number = _integer(self.operation, name, rank)
        if not (0 <= number < self.size or number == self.mpi.PROC_NULL):
            known = " (messages from whoever comes first have no adjoint)"
            raise ValueError(
                explain(
                    self.operation,
                    f"there is no such rank{known if number == self.mpi.ANY_SOURCE else ''}",
                    got={name: rank},
                    expected=f"0 to {self.size - 1}, or MPI.PROC_NULL for nobody",
                )
            )
        return number

    def place(
        self, dtype: np.dtype, root: int = 0, peers: Sequence[tuple[int, int, int, int]] = ()
    ) -> Node:
        """Handles and ranks of a communication; `peers`: destination, source, and their tags."""
        handle = handle_of(self.comm)
        return _place(handle, self.rank, self.mpi.PROC_NULL, dtype, root, tuple(peers))


@functools.lru_cache(maxsize=1 << 12)
def _place(
    handle: int,
    rank: int,
    nobody: int,
    dtype: np.dtype,
    root: int,
    peers: tuple[tuple[int, int, int, int], ...],
) -> Node:
    mpi = library()
    words = np.zeros(PlaceWord.PEERS + PlaceWord.OF_PEER * len(peers), np.int64)
    words[PlaceWord.COMMUNICATOR] = handle
    words[PlaceWord.DATATYPE] = handle_of(getattr(mpi, DATATYPES.get(dtype.name, "BYTE")))
    for name in ("SUM", "MIN", "MAX", "PROD"):
        words[PlaceWord[name]] = handle_of(getattr(mpi, name))
    words[PlaceWord.FLOAT] = handle_of(mpi.FLOAT)
    words[PlaceWord.ROOT], words[PlaceWord.RANK], words[PlaceWord.NOBODY] = (
        root,
        rank,
        nobody,
    )
    words[PlaceWord.PEERS :] = [word for peer in peers for word in peer]
    return numbers(words)


def _integer(operation: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            explain(operation, f"`{name}` must be an integer", got={name: repr(value)})
        ) from None


def _operand(operation: str, x: Any) -> Node:
    node = as_node(x)
    count = node.type.size * units(node.type)
    if count > _MOST_COUNT:
        raise ShapeError(
            explain(
                operation,
                "more elements than MPI counts in one message",
                got={"x": node.type},
                expected=f"at most {_MOST_COUNT:,}",
                fix="several parts of it",
            )
        )
    return node


def _communicate(
    name: str, operands: Sequence[Node], place: Node, params: dict[str, Any]
) -> list[Node]:
    """The results of a communication, in the order in which the program says them, where the
    operands are.

    What is on a GPU goes through the memory of the host, unless MPI knows GPUs.
    """
    communicates(f"mpi.{name}")
    device = _device_of(operands)
    where = device if config.mpi_cuda_aware else CPU
    chain = communication.Chain(place, placed(order.token(), where))
    results = chain(OPS[f"mpi_{name}"], [placed(x, where) for x in operands], params)
    order.advance(results, placed(chain.token, CPU))
    return [placed(y, device) for y in results]


def _device_of(operands: Sequence[Node]) -> str:
    return next((x.type.device for x in operands if x.type.device != CPU), CPU)


def _collective(
    given: _Communicator, name: str, x: Node, params: dict[str, Any], root: int = 0
) -> Node:
    """The result of a communication that all ranks take part in."""
    _agree(given, name, x, params, root)
    (y,) = _communicate(name, [x], given.place(x.dtype, root), params)
    return y


def _agree(
    given: _Communicator, name: str, x: Node | None, params: dict[str, Any], root: int
) -> None:
    """Compare what ranks are about to do, if that is wanted; rows may differ in number."""
    shared = {key: value for key, value in params.items() if key not in ("rows", "received")}
    if "received" in params:
        shared.pop("counts")
    type = None if x is None else x.type
    if type is not None and "counts" in params:
        type = type.of_shape(type.shape[1:])  # of a row
    agree(given.comm, f"mpi.{name}", f"{type}, root {root}, {shared}")


def _is_reducible(operation: str, x: Node, combine: str) -> None:
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


def allreduce(x: Any, op: Any = None, comm: Any = None, *, ordered: bool = False) -> Tensor:
    """The sum of `x` over all ranks, or another reduction, on all ranks.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    op : MPI.SUM (by default), MPI.PROD, MPI.MIN or MPI.MAX; of complex numbers the first two
    comm : an mpi4py communicator, MPI.COMM_WORLD by default
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
    given = _Communicator("mpi.allreduce", comm)
    return wrap(_allreduced(given, x, _combine("mpi.allreduce", given.mpi, op), ordered))


def _allreduced(given: _Communicator, x: Any, combine: str, ordered: bool) -> Node:
    node = _operand(given.operation, x)
    _is_reducible(given.operation, node, combine)
    if ordered and combine == "prod":
        gathered = _gathered_by_all(given, node)
        return _in_order(gathered, given.size, "multiply")
    is_ordered = bool(ordered) and combine == "sum"  # extremes are the same in any order
    ranks = given.size if is_ordered or combine == "prod" else 0
    params = {"combine": combine, "ranks": ranks, "ordered": is_ordered}
    return _collective(given, "allreduce", node, params)


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


def reduce(
    x: Any, op: Any = None, root: int = 0, comm: Any = None, *, ordered: bool = False
) -> Tensor:
    """The sum of `x` over all ranks, or another reduction, on the root; zeros on the others.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    op, ordered : as of `allreduce`
    root : the rank that gets it
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Notes
    -----
    The adjoint of a sum is `bcast`: each rank gets the cotangent of the root. Extremes, products
    and ordered sums are those of `allreduce`, at its price, of which the others see zeros.
    """
    operation = "mpi.reduce"
    given = _Communicator(operation, comm)
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
    node = _operand(operation, x)
    _is_reducible(operation, node, "sum")
    return wrap(_collective(given, "reduce", node, {}, root))


def bcast(x: Any, root: int = 0, comm: Any = None) -> Tensor:
    """What the root has, on all ranks.

    Parameters
    ----------
    x : array or number; on other ranks than the root any of the same shape and dtype
    root : the rank whose `x` it is
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Notes
    -----
    The adjoint is `reduce`: the root gets the sum of all cotangents, the others zeros.
    """
    operation = "mpi.bcast"
    given = _Communicator(operation, comm)
    node = _operand(operation, x)
    return wrap(_collective(given, "bcast", node, {}, given.root(root)))


def sendrecv(
    x: Any,
    dest: int,
    source: int | None = None,
    *,
    comm: Any = None,
    sendtag: int = 0,
    recvtag: int = 0,
    recv_like: Any = None,
) -> Tensor:
    """Send `x` to one rank and receive from another, at once.

    Parameters
    ----------
    x : array or number
    dest, source : ranks; MPI.PROC_NULL: nobody. By default the source is `dest`.
    comm : an mpi4py communicator, MPI.COMM_WORLD by default
    sendtag, recvtag : tags of the messages
    recv_like : an array of the shape and dtype of what is received, if that differs from `x`. What
        nobody sends is its value; by default zeros.

    Returns
    -------
    Tensor of the shape and dtype of `recv_like`, or of `x`

    Notes
    -----
    The adjoint sends the cotangents back.
    """
    operation = "mpi.sendrecv"
    given = _Communicator(operation, comm)
    node = _operand(operation, x)
    source = dest if source is None else source
    nothing = numbers(np.zeros(node.shape, node.dtype))
    like = nothing if recv_like is None else as_node(recv_like)
    if like.dtype != node.dtype:
        raise DTypeError(
            explain(
                operation,
                "what is sent and what is received have different dtypes",
                got={"x": node.type, "recv_like": like.type},
                fix=f"recv_like.astype(np.{node.dtype.name}), or two calls, send and recv",
            )
        )
    peer = (
        given.peer("dest", dest),
        given.peer("source", source),
        _integer(operation, "sendtag", sendtag),
        _integer(operation, "recvtag", recvtag),
    )
    dest, source, sendtag, recvtag = peer
    tell_and_check(
        given.comm, operation, [(dest, sendtag, node.type)], [(source, recvtag, like.type)]
    )
    place = given.place(node.dtype, peers=[peer])
    rows = [reshape(n, (1, *n.shape)) for n in (node, _operand(operation, like))]
    (y,) = _communicate("exchange", rows, place, {"backward": False})
    return wrap(reshape(y, like.shape))


def shift(x: Any, disp: int = 1, comm: Any = None, *, wrap_around: bool = True) -> Tensor:
    """What the rank `disp` before this one has: all ranks pass `x` on, in a ring.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    disp : to which rank `x` goes: this one plus `disp`
    comm : an mpi4py communicator, MPI.COMM_WORLD by default
    wrap_around : whether the last rank sends to the first; otherwise to nobody, and the first one
        gets zeros
    """
    operation = "mpi.shift"
    given = _Communicator(operation, comm)
    disp = _integer(operation, "disp", disp)

    def neighbour(rank: int) -> int:
        if wrap_around:
            return rank % given.size
        return rank if 0 <= rank < given.size else given.mpi.PROC_NULL

    return sendrecv(x, neighbour(given.rank + disp), neighbour(given.rank - disp), comm=comm)


def barrier(comm: Any = None) -> None:
    """Wait until all ranks are here; and in the backward pass, until all are back here."""
    given = _Communicator("mpi.barrier", comm)
    _agree(given, "barrier", None, {}, 0)
    _communicate("barrier", [], given.place(np.dtype(np.float64)), {})


# Rows, one part for each rank.


def _rows(operation: str, x: Any) -> Node:
    node = _operand(operation, x)
    if node.shape == ():
        raise ShapeError(
            explain(operation, "a number has no rows", got={"x": node.type}, fix="x.reshape(1)")
        )
    return node


def _counts(operation: str, name: str, counts: Any, size: int) -> tuple[int, ...]:
    found = tuple([_integer(operation, name, n) for n in counts])
    if len(found) != size or min(found) < 0:
        raise ValueError(
            explain(operation, "one number of rows for each rank", got={name: found, "ranks": size})
        )
    return found


def _check_rows(operation: str, x: Node, rows: int, what: str) -> None:
    if x.shape[0] != rows:
        raise ShapeError(
            explain(
                operation,
                "not as many rows as there must be",
                got={"x": x.type},
                expected=f"{rows} rows, {what}",
            )
        )


def allgather(x: Any, comm: Any = None) -> Tensor:
    """What each rank has, on all ranks.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Returns
    -------
    Tensor of shape (ranks, *x.shape)

    Notes
    -----
    The adjoint is `reduce_scatter`.
    """
    given = _Communicator("mpi.allgather", comm)
    return wrap(_gathered_by_all(given, _operand("mpi.allgather", x)))


def _gathered_by_all(given: _Communicator, node: Node) -> Node:
    one = reshape(node, (1, *node.shape))
    params = {"counts": (1,) * given.size, "rows": given.size}
    return _collective(given, "allgather", one, params)


def allgatherv(x: Any, counts: Sequence[int], comm: Any = None) -> Tensor:
    """The rows of all ranks, one after the other, on all ranks.

    Parameters
    ----------
    x : array of shape (counts[rank], ...)
    counts : how many rows each rank has, the same on all ranks
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Returns
    -------
    Tensor of shape (sum(counts), ...)
    """
    operation = "mpi.allgatherv"
    given = _Communicator(operation, comm)
    node, own = _rows(operation, x), _counts(operation, "counts", counts, given.size)
    _check_rows(operation, node, own[given.rank], f"counts[{given.rank}]")
    return wrap(_collective(given, "allgather", node, {"counts": own, "rows": sum(own)}))


def gather(x: Any, root: int = 0, comm: Any = None) -> Tensor:
    """What each rank has, on the root.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    root : the rank that gets it
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Returns
    -------
    Tensor of shape (ranks, *x.shape) on the root, (0, *x.shape) elsewhere

    Notes
    -----
    The adjoint is `scatter`.
    """
    operation = "mpi.gather"
    given = _Communicator(operation, comm)
    node = _operand(operation, x)
    return _gathered(given, reshape(node, (1, *node.shape)), (1,) * given.size, root)


def gatherv(x: Any, counts: Sequence[int], root: int = 0, comm: Any = None) -> Tensor:
    """The rows of all ranks, one after the other, on the root: (sum(counts), ...); elsewhere no
    rows. Arguments as of `allgatherv` and `gather`."""
    operation = "mpi.gatherv"
    given = _Communicator(operation, comm)
    node, own = _rows(operation, x), _counts(operation, "counts", counts, given.size)
    _check_rows(operation, node, own[given.rank], f"counts[{given.rank}]")
    return _gathered(given, node, own, root)


def _gathered(given: _Communicator, rows: Node, counts: tuple[int, ...], root: int) -> Tensor:
    root = given.root(root)
    params = {"counts": counts, "rows": sum(counts) if given.rank == root else 0}
    return wrap(_collective(given, "gather", rows, params, root))


def scatter(x: Any, root: int = 0, comm: Any = None) -> Tensor:
    """Of the rows that the root has, one for each rank.

    Parameters
    ----------
    x : array of shape (ranks, ...) on the root; elsewhere any with rows of that shape and dtype,
        such as `np.empty((0, 3))`
    root : the rank whose rows these are
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Returns
    -------
    Tensor of the shape of a row

    Notes
    -----
    The adjoint is `gather`: the root gets the cotangents of all ranks.
    """
    given = _Communicator("mpi.scatter", comm)
    row = _scattered(given, x, (1,) * given.size, root)
    return wrap(reshape(row, row.shape[1:]))


def scatterv(x: Any, counts: Sequence[int], root: int = 0, comm: Any = None) -> Tensor:
    """Of the rows that the root has, `counts[rank]` for each rank. Arguments as of `scatter`, and
    `counts`: how many rows each rank gets, the same on all ranks."""
    operation = "mpi.scatterv"
    given = _Communicator(operation, comm)
    return wrap(_scattered(given, x, _counts(operation, "counts", counts, given.size), root))


def _scattered(given: _Communicator, x: Any, counts: tuple[int, ...], root: int) -> Node:
    node, root = _rows(given.operation, x), given.root(root)
    if given.rank == root:
        _check_rows(given.operation, node, sum(counts), "those of all ranks")
    elif node.shape[0]:
        node = wrap(node)[:0]._node  # nothing is sent from here, and nothing comes back
    params = {"counts": counts, "rows": counts[given.rank]}
    return _collective(given, "scatter", node, params, root)


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
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Returns
    -------
    Tensor of shape (counts[rank], ...), or that of a row

    Notes
    -----
    The adjoint of a sum is `allgather`. Extremes, products and ordered sums come by `alltoall`:
    each rank gets its rows of all others, and combines them in their order.
    """
    operation = "mpi.reduce_scatter"
    given = _Communicator(operation, comm)
    combine = _combine(operation, given.mpi, op)
    node = _rows(operation, x)
    _is_reducible(operation, node, combine)
    own = (1,) * given.size if counts is None else _counts(operation, "counts", counts, given.size)
    _check_rows(operation, node, sum(own), "those of all ranks")
    mine = own[given.rank]
    if combine == "sum" and not ordered:
        y = _collective(given, "reduce_scatter", node, {"counts": own, "rows": mine})
    else:
        params = {"counts": own, "received": (mine,) * given.size, "rows": mine * given.size}
        parts = _collective(given, "alltoall", node, params)
        parts = reshape(parts, (given.size, mine, *node.shape[1:]))
        if combine in ("min", "max"):
            y = OPS[combine](parts, axes=(0,))
        else:
            y = _in_order(parts, given.size, {"sum": "add", "prod": "multiply"}[combine])
    return wrap(reshape(y, y.shape[1:]) if counts is None else y)


def alltoall(x: Any, comm: Any = None) -> Tensor:
    """Row k to rank k, and from rank k row k of the result.

    Parameters
    ----------
    x : array of shape (ranks, ...), the same on all ranks
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Notes
    -----
    Its own adjoint.
    """
    operation = "mpi.alltoall"
    given = _Communicator(operation, comm)
    node = _rows(operation, x)
    _check_rows(operation, node, given.size, "one for each rank")
    ones = (1,) * given.size
    params = {"counts": ones, "received": ones, "rows": given.size}
    return wrap(_collective(given, "alltoall", node, params))


def alltoallv(
    x: Any, sendcounts: Sequence[int], recvcounts: Sequence[int], comm: Any = None
) -> Tensor:
    """Rows to all ranks, as many as each gets, and from all ranks.

    Parameters
    ----------
    x : array of shape (sum(sendcounts), ...)
    sendcounts, recvcounts : how many rows go to each rank, and come from each
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Returns
    -------
    Tensor of shape (sum(recvcounts), ...)
    """
    operation = "mpi.alltoallv"
    given = _Communicator(operation, comm)
    node = _rows(operation, x)
    sent = _counts(operation, "sendcounts", sendcounts, given.size)
    received = _counts(operation, "recvcounts", recvcounts, given.size)
    _check_rows(operation, node, sum(sent), "the sum of sendcounts")
    params = {"counts": sent, "received": received, "rows": sum(received)}
    return wrap(_collective(given, "alltoall", node, params))


# Messages.


def send(x: Any, dest: int, tag: int = 0, comm: Any = None) -> None:
    """Send `x` to a rank that receives it by `recv`; over when it may be written to.

    The backward pass receives the cotangent of `x` here.
    """
    given = _Communicator("mpi.send", comm)
    node = _operand("mpi.send", x)
    tag = _integer("mpi.send", "tag", tag)
    peer = (given.peer("dest", dest), given.mpi.PROC_NULL, tag, tag)
    tell_and_check(given.comm, "mpi.send", sent=[(peer[0], tag, node.type)])
    nothing = numbers(np.zeros((1, 0), node.dtype))
    rows = [reshape(node, (1, *node.shape)), nothing]
    _communicate("exchange", rows, given.place(node.dtype, peers=[peer]), {"backward": False})


def recv(like: Any, source: int, tag: int = 0, comm: Any = None) -> Tensor:
    """What a rank sends by `send`: an array of the shape and dtype of `like`.

    The backward pass sends the cotangent back.
    """
    given = _Communicator("mpi.recv", comm)
    node = _operand("mpi.recv", like)
    tag = _integer("mpi.recv", "tag", tag)
    peer = (given.mpi.PROC_NULL, given.peer("source", source), tag, tag)
    tell_and_check(given.comm, "mpi.recv", wanted=[(peer[1], tag, node.type)])
    nothing = numbers(np.zeros((1, 0), node.dtype))
    rows = [nothing, reshape(node, (1, *node.shape))]
    place = given.place(node.dtype, peers=[peer])
    (y,) = _communicate("exchange", rows, place, {"backward": False})
    return wrap(reshape(y, node.shape))


class Request:
    """A message under way, of `isend` or `irecv`: `wait()` for it once, in the same function."""

    def __init__(
        self,
        operation: str,
        comm: Any,
        place: Node,
        results: Sequence[Node],
        wanted: Sequence[tuple[int, int, Type]],
        *,
        receives: bool,
    ) -> None:
        self._operation = operation
        self._comm = comm
        self._place = place
        self._wanted = wanted
        self._results: Sequence[Node] | None = results
        self._receives = receives

    def wait(self) -> Tensor | None:
        """What was received; None of what was sent.

        Raises
        ------
        CommunicationError
            If it was waited for already.
        """
        if self._results is None:
            raise CommunicationError(
                explain(self._operation, "the message was waited for already", fix="one wait()")
            )
        results, self._results = self._results, None
        tell_and_check(self._comm, self._operation, wanted=self._wanted)
        params = {"receives": self._receives, "backward": False}
        (y,) = _communicate("wait", results, self._place, params)
        return wrap(reshape(y, y.shape[1:])) if self._receives else None


def isend(x: Any, dest: int, tag: int = 0, comm: Any = None) -> Request:
    """Start to send a copy of `x`. The backward pass receives its cotangent by here."""
    given = _Communicator("mpi.isend", comm)
    return _started(given, "isend", x, (given.peer("dest", dest), given.mpi.PROC_NULL), tag)


def irecv(like: Any, source: int, tag: int = 0, comm: Any = None) -> Request:
    """Start to receive an array of the shape and dtype of `like`: the result of `wait()`.

    The backward pass sends the cotangent back from where it was waited for.
    """
    given = _Communicator("mpi.irecv", comm)
    return _started(given, "irecv", like, (given.mpi.PROC_NULL, given.peer("source", source)), tag)


def wait(request: Request) -> Tensor | None:
    """`request.wait()`."""
    return request.wait()


def _started(given: _Communicator, name: str, x: Any, ranks: tuple[int, int], tag: int) -> Request:
    node = _operand(given.operation, x)
    tag = _integer(given.operation, "tag", tag)
    place = given.place(node.dtype, peers=[(*ranks, tag, tag)])
    dest, source = ranks
    tell_and_check(given.comm, given.operation, sent=[(dest, tag, node.type)])
    row = reshape(node, (1, *node.shape))
    results = _communicate(name, [row], place, {"backward": False})
    wanted = [(source, tag, node.type)]
    return Request(given.operation, given.comm, place, results, wanted, receives=name == "irecv")


# Grids.


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
    given = _Communicator(operation, cart)
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
    node = _operand(operation, u)
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


def _neighbour(given: _Communicator, axis: int, step: int, is_periodic: bool) -> int:
    dims, _, coords = given.comm.Get_topo()
    there = list(coords)
    there[axis] += step
    if is_periodic:
        there[axis] %= dims[axis]
    if not 0 <= there[axis] < dims[axis]:
        return given.mpi.PROC_NULL
    return given.comm.Get_cart_rank(there)


def _axis_exchanged(
    given: _Communicator, u: Node, axis: int, width: int, below: int, above: int
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
    (received,) = _communicate("exchange", operands, place, {"backward": False})
    for k, first in enumerate(ghosts):
        part = wrap(received)[k]._node
        u = OPS["update_slice"](u, part, starts=starting_at(first), steps=steps)
    return u


# Gradients of losses over all ranks.


def mean_over_ranks(leaves: Sequence[Any], comm: Any) -> list[Tensor]:
    """The means of arrays over all ranks; those of one dtype in one message."""
    size = size_of("mpi.mean_over_ranks", comm)
    nodes = [as_node(x) for x in leaves]
    found: dict[int, Tensor] = {}
    for dtype in dict.fromkeys(node.dtype for node in nodes):
        numbers = [k for k, node in enumerate(nodes) if node.dtype == dtype]
        flat = [reshape(nodes[k], (nodes[k].type.size,)) for k in numbers]
        joined = flat[0] if len(flat) == 1 else OPS["concatenate"](*flat, axis=0)
        total = allreduce(wrap(joined), comm=comm) / size
        start = 0
        for k in numbers:
            end = start + nodes[k].type.size
            found[k] = total[start:end].reshape(nodes[k].shape)
            start = end
    return [found[k] for k in range(len(nodes))]


def agree_on_steps(operation: str, count: int, comm: Any) -> None:
    """In the checking mode, compare how many steps a loop has that communicates."""
    agree(comm, operation, f"of {count} steps that communicate")


def least_on_ranks(number: int, comm: Any) -> int:
    """The least of the numbers that ranks have, now."""
    return comm.allreduce(number, library().MIN)


def size_of(operation: str, comm: Any) -> int:
    return _Communicator(operation, comm).size


__all__ = [
    "Request",
    "allgather",
    "allgatherv",
    "allreduce",
    "alltoall",
    "alltoallv",
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "halo_exchange",
    "irecv",
    "isend",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "scatterv",
    "send",
    "sendrecv",
    "shift",
    "wait",
]
