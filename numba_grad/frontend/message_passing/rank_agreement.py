"""What ranks say to each other before they communicate, in the checking mode
(`ng.configure(mpi_checks=True)`), and what a rank says that fails.

Each rank sends what it is about to do, as text of a fixed size, by a communicator of its own: so
that ranks that are about to do different things find out, rather than wait for each other or take
each other's bytes for their own. Before a message goes the text of what it is, and who gets it
compares. What is traced is compared when it is run: a compiled function says all that it does.
"""

import functools
import hashlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from numba_grad.config import config
from numba_grad.errors import CommunicationError, explain
from numba_grad.frontend.inputs.calling_lines import calling_line
from numba_grad.frontend.inputs.tracing import is_tracing
from numba_grad.graph import order
from numba_grad.graph.types import Type
from numba_grad.immutable import immutable
from numba_grad.runtime.mpi import handle_of, library

_BYTES = 512  # of the text of a rank
_PATIENCE = 30.0  # seconds for all ranks to come
_LOOK = 0.001

# Copies of communicators, which nothing else uses, by handle.
_copies: dict[int, Any] = {}
# Texts about messages that nobody may have read yet, with what they are in.
_sent: list[tuple[Any, np.ndarray]] = []
_last = ""  # what this rank has recorded last


def agree(comm: Any, operation: str, what: str) -> None:
    """Return when all ranks are about to do this; while tracing, note it for who runs the trace.

    Parameters
    ----------
    what : what has to be the same: type, root, ...

    Raises
    ------
    CommunicationError
        On all ranks, if one is about to do something else; on those that are there, if others do
        not come.
    """
    order.say({handle_of(comm): (comm, [f"{operation} {what}"])})
    if not is_tracing():
        _agree(comm, operation, what)


def compare(name: str, said: order.Said) -> None:
    """Compare what a compiled function says before it is run, of `order.Specialization.said`."""
    messages = [x for _, words in said.values() for x in words if isinstance(x, Messages)]
    for x in messages:
        x.tell()
    for x in messages:
        x.check()
    for comm, words in said.values():
        texts = [x for x in words if isinstance(x, str)]
        if texts:
            digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
            _agree(comm, name, f"{'; '.join(texts)[: _BYTES // 2]} ({len(texts)}: {digest})")


order.compare = compare


def _agree(comm: Any, operation: str, what: str) -> None:
    if not config.mpi_checks or comm.Get_size() == 1:
        return
    place = _calling_place()
    own = f"{operation} {what}\0{place}".encode()[:_BYTES].ljust(_BYTES)
    texts = np.empty((comm.Get_size(), _BYTES), np.uint8)
    request = _copy_of(comm, operation).Iallgather(np.frombuffer(own, np.uint8), texts)
    _awaited(request, operation, place)
    said = [row.tobytes().decode(errors="replace").rstrip() for row in texts]
    if len({text.partition("\0")[0] for text in said}) > 1:
        raise CommunicationError(
            explain(
                operation,
                "ranks are about to communicate in different ways",
                got={f"rank {k}": text.replace("\0", "") for k, text in enumerate(said)},
                expected="the same operations, shapes and dtypes in the same order on all ranks",
            )
        )


@immutable
class Messages:
    """What this rank sends to others and wants of them, before it does."""

    comm: Any
    operation: str
    place: str
    sent: Sequence[tuple[int, int, Type]]  # destination, tag, and what it is
    wanted: Sequence[tuple[int, int, Type]]  # of a source

    def tell(self) -> None:
        """Send the texts about what is sent."""
        _sent[:] = [pair for pair in _sent if not pair[0].Test()]
        for rank, tag, type in self.sent:
            if rank != library().PROC_NULL:
                text = f"{type}, tag {tag}\0{self.operation}{self.place}".encode()[:_BYTES]
                buffer = np.frombuffer(text.ljust(_BYTES), np.uint8)
                _sent.append((self.comm.Isend(buffer, rank, _tag_of_texts(self.comm)), buffer))

    def check(self) -> None:
        """Compare what is wanted with the texts about it.

        Raises
        ------
        CommunicationError
            If something else is sent, or nothing.
        """
        mpi = library()
        for rank, tag, type in self.wanted:
            if rank == mpi.PROC_NULL:
                continue
            buffer = np.empty(_BYTES, np.uint8)
            request = self.comm.Irecv(buffer, rank, _tag_of_texts(self.comm))
            _awaited(request, self.operation, self.place, f"rank {rank} has")
            what, _, where = buffer.tobytes().decode(errors="replace").rstrip().partition("\0")
            wanted = f"{type}, tag {tag}" if tag != mpi.ANY_TAG else f"{type}, tag "
            if not what.startswith(wanted) or (tag != mpi.ANY_TAG and what != wanted):
                raise CommunicationError(
                    explain(
                        self.operation,
                        f"rank {rank} sends something else than this rank wants",
                        got={f"rank {rank}": f"{what} by {where}"},
                        expected=f"{type}, tag {tag}{self.place}",
                    )
                )


def tell_and_check(
    comm: Any,
    operation: str,
    sent: Sequence[tuple[int, int, Type]] = (),
    wanted: Sequence[tuple[int, int, Type]] = (),
) -> None:
    """Compare messages with what others want and send; while tracing, note them.

    Raises
    ------
    CommunicationError
        On who gets a message, if it is not what was wanted, or does not come.
    """
    if not config.mpi_checks:
        order.say({handle_of(comm): (comm, [])})
        return
    messages = Messages(comm, operation, _calling_place(), sent, wanted)
    order.say({handle_of(comm): (comm, [messages])})
    if not is_tracing():
        messages.tell()
        messages.check()


def _tag_of_texts(comm: Any) -> int:
    """The greatest tag, which nobody else will use: a copy of the communicator, for which all its
    ranks would have to come, is no way to talk to one of them."""
    return comm.Get_attr(library().TAG_UB)


def communicates(operation: str) -> None:
    """Say what this rank does, for the message if it fails afterwards."""
    global _last
    _last = f"{operation}{_calling_place()}"


def _calling_place() -> str:
    line = calling_line()
    return "" if line is None else " at {}:{}".format(*line.place)


def _copy_of(comm: Any, operation: str) -> Any:
    mpi = library()
    handle = handle_of(comm)
    found = _copies.get(handle)
    # A communicator that was freed may have left its handle to another one.
    if found is None or mpi.Comm.Compare(found, comm) != mpi.CONGRUENT:
        found, request = comm.Idup()
        _awaited(request, operation, "")
        _copies[handle] = found
    return found


def _awaited(request: Any, operation: str, place: str, who: str = "all others have") -> None:
    end = time.monotonic() + _PATIENCE
    while not request.Test():
        if time.monotonic() > end:
            raise CommunicationError(
                explain(
                    operation,
                    f"this rank is here{place}, and not {who} come in {_PATIENCE:.0f} s",
                    got={"rank": library().COMM_WORLD.Get_rank()},
                    expected="the same operations in the same order on all ranks",
                    fix="a look at the output of the other ranks: one may have failed",
                )
            )
        time.sleep(_LOOK)


@functools.cache
def tell_of_failures() -> None:
    """Have an exception that ends this process say which rank it is, and that others may wait."""
    world = library().COMM_WORLD
    if world.Get_size() == 1:
        return
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        previous(kind, error, at)
        waiting = f"the communication after {_last}" if _last else "their first communication"
        sys.stderr.write(
            f"numba_grad: this was rank {world.Get_rank()} of {world.Get_size()}. Ranks that "
            f"communicate with it wait in {waiting}, for ever.\n"
            "  try: mpiexec ... python -m mpi4py script.py, which ends all ranks when one fails\n"
        )
        sys.stderr.flush()

    sys.excepthook = hook
