"""Communication between the processes of an MPI job: `ng.mpi`.

Functions have the names of mpi4py's and their order of arguments, on arrays of any dtype; `comm` is
one of its communicators, MPI.COMM_WORLD by default. They work in `jit`, loops and define by run,
and are differentiable to any order. The convention is the plain linear adjoint: of `y = A x` over
all ranks, the cotangent of `x` is the transpose of `A` applied to the cotangents of all ranks. So
the gradient of a loss that each rank has is that of the *sum* of all these losses;
`ng.value_and_grad(f, comm=comm)` counts it once.

Every rank must communicate, differentiate and ask for gradients in the same order. What a rank does
with a result does not matter.
"""

from numba_grad.frontend.message_passing import all_ranks as all_ranks  # for transforms and loops
from numba_grad.frontend.message_passing.collectives import (
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    barrier,
    bcast,
    gather,
    gatherv,
    scatter,
    scatterv,
)
from numba_grad.frontend.message_passing.grids import halo_exchange
from numba_grad.frontend.message_passing.messages import (
    Request,
    irecv,
    isend,
    recv,
    send,
    sendrecv,
    shift,
    wait,
)
from numba_grad.frontend.message_passing.reductions import allreduce, reduce, reduce_scatter

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
