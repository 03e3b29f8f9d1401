"""What ranks say to each other before they communicate, in the checking mode
(`ng.configure(mpi_checks=True)`), and what a rank says that fails.

Each rank sends what it is about to do, as text of a fixed size, by a communicator of its own: so
that ranks that are about to do different things find out, rather than wait for each other or take
each other's bytes for their own.
"""

import functools
import sys
import time
from types import TracebackType
from typing import Any

import numpy as np

from numba_grad.config import config
from numba_grad.errors import CommunicationError, explain
from numba_grad.frontend.calling_lines import calling_line
from numba_grad.runtime.mpi import handle_of, library

_BYTES = 512  # of the text of a rank
_PATIENCE = 30.0  # seconds for all ranks to come
_LOOK = 0.001

# Copies of communicators, which nothing else uses, by handle.
_copies: dict[int, Any] = {}
_last = ""  # what this rank has recorded last


def agree(comm: Any, operation: str, what: str) -> None:
    """Return when all ranks are about to do this.

    Parameters
    ----------
    what : what has to be the same: type, root, ...

    Raises
    ------
    CommunicationError
        On all ranks, if one is about to do something else; on those that are there, if others do
        not come.
    """
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


def _awaited(request: Any, operation: str, place: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not request.Test():
        if time.monotonic() > end:
            raise CommunicationError(
                explain(
                    operation,
                    f"this rank is here{place}, and not all others have come in {_PATIENCE:.0f} s",
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
