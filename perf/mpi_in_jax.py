"""The communication of `perf/mpi.py` by mpi4jax, in JAX's own environment: run by that script.

Prints microseconds of an allreduce of one number, in a jitted loop and by a jitted call.
"""

import json
import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import mpi4jax
import numpy as np
from jax import lax
from mpi4py import MPI

jax.config.update("jax_enable_x64", True)


def main() -> None:
    calls, repeats = map(int, sys.argv[1:])

    @jax.jit
    def loop(x):
        step = lambda x, _: (mpi4jax.allreduce(x, op=MPI.SUM), None)  # noqa: E731
        return lax.scan(step, x, length=calls)[0]

    @jax.jit
    def one(x):
        return mpi4jax.allreduce(x, op=MPI.SUM)

    def one_by_one(x):
        for _ in range(calls):
            y = one(x)
        return y

    x = jax.numpy.asarray(np.zeros(1))
    found = {}
    for name, run in (("in a jitted loop", loop), ("a jitted call", one_by_one)):
        jax.block_until_ready(run(x))
        best = float("inf")
        for _ in range(repeats):
            MPI.COMM_WORLD.Barrier()
            start = time.perf_counter()
            jax.block_until_ready(run(x))
            best = min(best, time.perf_counter() - start)
        found[name] = 1e6 * best / calls
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
