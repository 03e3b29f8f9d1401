"""What the programs of `tests/test_mpi.py` share. A rank whose check fails says so and ends, and
with it the job."""

import os
import sys
import time
import traceback

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def values(shape, seed):
    """Numbers between 0.5 and 2."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape)


def dot(a, b):
    """The scalar product of what all ranks have."""
    return comm.allreduce(float(np.sum(np.asarray(a) * np.asarray(b))))


def same(found, want, rtol=1e-10):
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=rtol, atol=1e-12)


def everyone(holds, what):
    assert comm.allreduce(bool(holds), MPI.LAND), what


def run(checks, names):
    """Run the checks, or those of these names, in order."""
    for check in checks:
        name, function, *args = check if isinstance(check, tuple) else (check.__name__, check)
        if names and name not in names:
            continue
        start = time.perf_counter()
        try:
            function(*args)
        except BaseException:
            print(f"rank {comm.Get_rank()} of {comm.Get_size()}: {name}", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        if comm.Get_rank() == 0 and "MPI_TEST_TIMES" in os.environ:
            print(f"{time.perf_counter() - start:6.2f} s  {name}")
    comm.Barrier()
    if comm.Get_rank() == 0:
        print(f"passed on {comm.Get_size()}")
