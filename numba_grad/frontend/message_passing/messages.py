"""Messages from one rank to another: `sendrecv`, `send`, `recv`, `isend`, `irecv`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.errors import CommunicationError, DTypeError, explain
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.message_passing.communicators import (
    Communicator,
    as_integer,
    as_operand,
    communicate,
)
from numba_grad.frontend.message_passing.rank_agreement import tell_and_check
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import Node, numbers
from numba_grad.graph.types import Type
from numba_grad.ops.families import reshape


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
    given = Communicator(operation, comm)
    node = as_operand(operation, x)
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
        as_integer(operation, "sendtag", sendtag),
        as_integer(operation, "recvtag", recvtag),
    )
    dest, source, sendtag, recvtag = peer
    tell_and_check(
        given.comm, operation, [(dest, sendtag, node.type)], [(source, recvtag, like.type)]
    )
    place = given.place(node.dtype, peers=[peer])
    rows = [reshape(n, (1, *n.shape)) for n in (node, as_operand(operation, like))]
    (y,) = communicate("exchange", rows, place, {"backward": False})
    return wrap(reshape(y, like.shape))


def shift(x: Any, disp: int = 1, comm: Any = None, *, wrap_around: bool = True) -> Tensor:
    """What the rank `disp` before this one has: all ranks pass `x` on, in a ring.

    Parameters
    ----------
    x : array or number, of the same shape and dtype on all ranks
    disp : to which rank `x` goes: this one plus `disp`
    wrap_around : whether the last rank sends to the first; otherwise to nobody, and the first one
        gets zeros
    """
    operation = "mpi.shift"
    given = Communicator(operation, comm)
    disp = as_integer(operation, "disp", disp)

    def neighbour(rank: int) -> int:
        if wrap_around:
            return rank % given.size
        return rank if 0 <= rank < given.size else given.mpi.PROC_NULL

    return sendrecv(x, neighbour(given.rank + disp), neighbour(given.rank - disp), comm=comm)


def send(x: Any, dest: int, tag: int = 0, comm: Any = None) -> None:
    """Send `x` to a rank that receives it by `recv`; over when it may be written to.

    The backward pass receives the cotangent of `x` here.
    """
    given = Communicator("mpi.send", comm)
    node = as_operand("mpi.send", x)
    tag = as_integer("mpi.send", "tag", tag)
    peer = (given.peer("dest", dest), given.mpi.PROC_NULL, tag, tag)
    tell_and_check(given.comm, "mpi.send", sent=[(peer[0], tag, node.type)])
    nothing = numbers(np.zeros((1, 0), node.dtype))
    rows = [reshape(node, (1, *node.shape)), nothing]
    communicate("exchange", rows, given.place(node.dtype, peers=[peer]), {"backward": False})


def recv(like: Any, source: int, tag: int = 0, comm: Any = None) -> Tensor:
    """What a rank sends by `send`: an array of the shape and dtype of `like`.

    The backward pass sends the cotangent back.
    """
    given = Communicator("mpi.recv", comm)
    node = as_operand("mpi.recv", like)
    tag = as_integer("mpi.recv", "tag", tag)
    peer = (given.mpi.PROC_NULL, given.peer("source", source), tag, tag)
    tell_and_check(given.comm, "mpi.recv", wanted=[(peer[1], tag, node.type)])
    nothing = numbers(np.zeros((1, 0), node.dtype))
    rows = [nothing, reshape(node, (1, *node.shape))]
    place = given.place(node.dtype, peers=[peer])
    (y,) = communicate("exchange", rows, place, {"backward": False})
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
        (y,) = communicate("wait", results, self._place, params)
        return wrap(reshape(y, y.shape[1:])) if self._receives else None


def isend(x: Any, dest: int, tag: int = 0, comm: Any = None) -> Request:
    """Start to send a copy of `x`. The backward pass receives its cotangent by here."""
    given = Communicator("mpi.isend", comm)
    return _started(given, "isend", x, (given.peer("dest", dest), given.mpi.PROC_NULL), tag)


def irecv(like: Any, source: int, tag: int = 0, comm: Any = None) -> Request:
    """Start to receive an array of the shape and dtype of `like`: the result of `wait()`.

    The backward pass sends the cotangent back from where it was waited for.
    """
    given = Communicator("mpi.irecv", comm)
    return _started(given, "irecv", like, (given.mpi.PROC_NULL, given.peer("source", source)), tag)


def wait(request: Request) -> Tensor | None:
    """`request.wait()`."""
    return request.wait()


def _started(given: Communicator, name: str, x: Any, ranks: tuple[int, int], tag: int) -> Request:
    node = as_operand(given.operation, x)
    tag = as_integer(given.operation, "tag", tag)
    place = given.place(node.dtype, peers=[(*ranks, tag, tag)])
    dest, source = ranks
    tell_and_check(given.comm, given.operation, sent=[(dest, tag, node.type)])
    row = reshape(node, (1, *node.shape))
    results = communicate(name, [row], place, {"backward": False})
    wanted = [(source, tag, node.type)]
    return Request(given.operation, given.comm, place, results, wanted, receives=name == "irecv")
