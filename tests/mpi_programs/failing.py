"""Run by `tests/test_mpi.py`: ranks that disagree, or fail."""

import sys

import numpy as np
from mpi4py import MPI

import numba_grad as ng

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def disagree():
    """In the checking mode all ranks are told, of shapes, operations and orders."""
    with ng.configure(mpi_checks=True):
        ng.jit(lambda x: ng.mpi.allreduce(x, comm=comm))(np.zeros(2))
        ng.mpi.allgatherv(np.zeros(rank), list(range(size)), comm)
        told(lambda: ng.mpi.allreduce(np.zeros(2 + rank), comm=comm), f"[{1 + size}]")
        told(lambda: ng.mpi.bcast(np.zeros(2, f"f{4 * (1 + rank % 2)}"), 0, comm), "float32")
        told(lambda: ng.mpi.bcast(np.zeros(2), rank, comm), "root 1")
        first = ng.mpi.barrier if rank else lambda comm: ng.mpi.allreduce(1.0, comm=comm)
        told(lambda: first(comm), "mpi.barrier")
        # Compiled functions, when they are run again.
        once = ng.jit(lambda x: ng.mpi.allreduce(x, comm=comm))
        twice = ng.jit(lambda x: ng.mpi.allreduce(ng.mpi.allreduce(x, comm=comm) ** 2, comm=comm))
        for f in (once, twice, once):
            f(np.ones(3))
        told(lambda: (twice if rank else once)(np.ones(3)), "jit of <lambda> mpi.allreduce")
        # Loops of different lengths.
        sums = ng.jit(
            lambda x, n: ng.fori_loop(0, n, lambda k, y: ng.mpi.allreduce(y, comm=comm), x),
            static_argnums=1,
        )
        sums(np.ones(2), 3)
        told(lambda: sums(np.ones(2), 3 + rank), f"of {2 + size} steps")
        # Messages: who gets one is told.
        after, before = (rank + 1) % size, (rank - 1) % size
        pass_on = ng.jit(lambda x: ng.mpi.sendrecv(x, after, before, comm=comm))
        pass_on(np.ones(2))
        pass_on(np.ones(2))
        told(lambda: pass_on(np.ones(2 + rank)), f"[{2 + before}]")
        told(
            lambda: ng.mpi.sendrecv(
                np.ones(2), after, before, comm=comm, sendtag=rank, recvtag=rank
            ),
            f"tag {before}",
        )
        ng.mpi.shift(np.ones(2), 1, comm)
        arriving = ng.mpi.irecv(np.zeros(2, "f4"), before, 5, comm)
        leaving = ng.mpi.isend(np.zeros(2), after, 5, comm)
        told(arriving.wait, "float64[2], tag 5")
        leaving.wait()
    if rank == 0:
        print("all were told")


def told(f, text):
    try:
        f()
    except ng.errors.CommunicationError as error:
        assert text in str(error) and "failing.py:" in str(error), error
    else:
        raise AssertionError("not told")


def short_message():
    x = np.zeros(2 if rank else 3)
    try:
        ng.mpi.sendrecv(x, (rank + 1) % size, (rank - 1) % size, comm=comm)
    except ng.errors.CommunicationError as error:
        print(f"rank {rank}: {error}", flush=True)


def exception_on_one_rank():
    x = ng.mpi.allreduce(np.zeros(2), comm=comm)
    if rank == 1:
        raise ValueError("of rank 1 alone")
    ng.mpi.allreduce(x, comm=comm)


{"disagree": disagree, "short": short_message, "exception": exception_on_one_rank}[sys.argv[1]]()
