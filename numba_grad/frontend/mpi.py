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
from numba_grad.errors import DTypeError, ShapeError, TracingError, explain
from numba_grad.frontend.arrays import as_node, wrap
from numba_grad.frontend.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.types import CPU
from numba_grad.ops import communication
from numba_grad.ops.communication import DATATYPES, Place, units
from numba_grad.ops.families import placed, reshape
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
    words = np.zeros(Place.PEERS + Place.OF_PEER * len(peers), np.int64)
    words[Place.COMMUNICATOR] = handle
    words[Place.DATATYPE] = handle_of(getattr(mpi, DATATYPES.get(dtype.name, "BYTE")))
    for name in ("SUM", "MIN", "MAX", "PROD"):
        words[Place[name]] = handle_of(getattr(mpi, name))
    words[Place.ROOT], words[Place.RANK], words[Place.NOBODY] = root, rank, nobody
    words[Place.PEERS :] = [word for peer in peers for word in peer]
    return leaf(words)


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
    """The results of a communication, in the order in which the program says them.

    What is on a GPU goes through the memory of the host.
    """
    devices = [x.type.device for x in operands if x.type.device != CPU]
    chain = communication.Chain(place, order.token())
    results = chain(OPS[f"mpi_{name}"], [placed(x, CPU) for x in operands], params)
    order.advance(results, chain.token)
    return [placed(y, devices[0]) for y in results] if devices else results


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
    ordered : a sum, added in the order of ranks: the same bits with every MPI library, and on every
        rank. It moves as many times the bytes as there are ranks.

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
    operation = "mpi.allreduce"
    given = _Communicator(operation, comm)
    combine = _combine(operation, given.mpi, op)
    node = _operand(operation, x)
    _is_reducible(operation, node, combine)
    if ordered and combine != "sum":
        raise ValueError(
            explain(
                operation,
                "only sums depend on their order",
                got={"op": combine, "ordered": ordered},
                fix="without `ordered`",
            )
        )
    ranks = given.size if ordered or combine == "prod" else 0
    params = {"combine": combine, "ranks": ranks, "ordered": bool(ordered)}
    (y,) = _communicate("allreduce", [node], given.place(node.dtype), params)
    return wrap(y)


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


def reduce(x: Any, op: Any = None, root: int = 0, comm: Any = None) -> Tensor:
    """The sum of `x` over all ranks, on the root; zeros on the others.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    op : MPI.SUM; for others, use `allreduce`
    root : the rank that gets it
    comm : an mpi4py communicator, MPI.COMM_WORLD by default

    Notes
    -----
    The adjoint is `bcast`: each rank gets the cotangent of the root.
    """
    operation = "mpi.reduce"
    given = _Communicator(operation, comm)
    if _combine(operation, given.mpi, op) != "sum":
        raise ValueError(
            explain(operation, "sums only", got={"op": repr(op)}, fix="mpi.allreduce(x, op, comm)")
        )
    node = _operand(operation, x)
    _is_reducible(operation, node, "sum")
    (y,) = _communicate("reduce", [node], given.place(node.dtype, given.root(root)), {})
    return wrap(y)


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
    (y,) = _communicate("bcast", [node], given.place(node.dtype, given.root(root)), {})
    return wrap(y)


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
    like = as_node(np.zeros(node.shape, node.dtype)) if recv_like is None else as_node(recv_like)
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
    _communicate("barrier", [], given.place(np.dtype(np.float64)), {})


__all__ = ["allreduce", "barrier", "bcast", "reduce", "sendrecv", "shift"]
