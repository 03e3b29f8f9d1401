"""Communication between processes: `python perf/mpi.py [--jax-python PYTHON]`.

It launches itself by mpiexec. What an `allreduce` in a jitted loop takes beyond the bare C call in
a loop in machine code, and how the gradient of `examples/mpi_wave_inversion.py` scales from one
process to two. Steps of waves, with plans in which messages are under way while others compute, and
with plans in the order of the program. Fastest of several runs, in turn. With the Python of an
environment that has JAX, mpi4jax and an MPI: the same by mpi4jax.
"""

import argparse
import functools
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CALLS = 2000
REPEATS = 15
TURNS = 5

# Words: the function, how often, its arguments.
BARE = """\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    for i in range(words[1]):
        call(words[0], words[2], words[3], words[4], words[5], words[6], words[7])
"""


def fastest(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each, in turn."""
    from mpi4py import MPI

    best = dict.fromkeys(runs, float("inf"))
    for _ in range(REPEATS):
        for name, run in runs.items():
            MPI.COMM_WORLD.Barrier()
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def bare_calls() -> Callable[[], Any]:
    """As many calls of MPI_Allreduce, one after the other, in machine code."""
    import ctypes

    from mpi4py import MPI

    from numba_grad.compiler.building import build
    from numba_grad.runtime.mpi import function_address, handle_of

    kernel = build.build(BARE)
    x, y = np.ones(1), np.ones(1)
    words = np.array(
        [
            function_address("MPI_Allreduce"),
            CALLS,
            x.ctypes.data,
            y.ctypes.data,
            1,
            handle_of(MPI.DOUBLE),
            handle_of(MPI.SUM),
            handle_of(MPI.COMM_WORLD),
        ],
        np.int64,
    )
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(kernel.address)
    return lambda: (function(words.ctypes.data, 0, 1), x, y)


def overheads() -> dict[str, float]:
    """Microseconds of an allreduce of one number: bare, in a jitted loop, by a jitted call."""
    from mpi4py import MPI

    import numba_grad as ng

    def step(x: Any, _: Any) -> Any:
        return ng.mpi.allreduce(x, comm=MPI.COMM_WORLD), None

    loop = ng.jit(lambda x: ng.scan(step, x, length=CALLS)[0])
    one = ng.jit(lambda x: ng.mpi.allreduce(x, comm=MPI.COMM_WORLD))
    x = np.zeros(1)

    def calls() -> None:
        for _ in range(CALLS):
            one(x)

    def by_mpi4py() -> None:
        y = np.empty(1)
        for _ in range(CALLS):
            MPI.COMM_WORLD.Allreduce(x, y)

    loop(x), one(x)
    found = fastest(
        {
            "bare": bare_calls(),
            "in a jitted loop": lambda: loop(x),
            "mpi4py": by_mpi4py,
            "a jitted call": calls,
        }
    )
    return {name: 1e6 * seconds / CALLS for name, seconds in found.items()}


def inversion() -> float:
    """Seconds of a gradient of the inversion, on a finer grid than the example's."""
    from mpi4py import MPI

    import numba_grad as ng

    path = ROOT / "examples" / "mpi_wave_inversion.py"
    spec = importlib.util.spec_from_file_location("mpi_wave_inversion", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.CELLS, module.STEPS, module.BUDGET = 384, 60, 1 << 30
    ground = module.Ground(MPI.COMM_WORLD)

    def misfit(speed: Any) -> Any:
        found = module.recordings(ground, speed)
        return 0.5 * ng.mpi.allreduce((found**2).sum(), comm=ground.comm)

    gradient = ng.jit(ng.value_and_grad(misfit, comm=ground.comm))
    speed = np.full(ground.rows.shape, module.COURANT)
    gradient(speed)
    return fastest({"gradient": lambda: gradient(speed)})["gradient"]


def steps_of_waves() -> dict[str, float]:
    """Microseconds of a step of the wave equation and of one with its adjoint, on blocks of several
    sizes."""
    from mpi4py import MPI

    import numba_grad as ng

    comm = MPI.COMM_WORLD
    cart = comm.Create_cart([comm.size, 1], [False, False])
    length = 200

    def loss(speed: Any, u: Any) -> Any:
        def step(fields: Any, _: Any) -> Any:
            before, now = fields
            ringed = ng.mpi.halo_exchange(np.pad(now, 1), 1, cart)
            around = ringed[2:, 1:-1] + ringed[:-2, 1:-1] + ringed[1:-1, 2:] + ringed[1:-1, :-2]
            return (now, 2 * now - before + speed * (around - 4 * now)), None

        (_, last), _ = ng.scan(step, (u, u), length=length)
        return ng.mpi.allreduce((last * last).sum(), comm=comm)

    found = {}
    for cells in (50, 100, 200, 400):
        speed, u = np.full((cells, cells), 0.1), np.ones((cells, cells))
        forward, gradient = ng.jit(loss), ng.jit(ng.grad(loss))
        forward(speed, u)
        gradient(speed, u)
        seconds = fastest(
            {
                f"{cells} x {cells}": functools.partial(forward, speed, u),
                f"{cells} x {cells}, gradient": functools.partial(gradient, speed, u),
            }
        )
        found |= {name: 1e6 * time_of_one / length for name, time_of_one in seconds.items()}
    return found


def in_program_order() -> None:
    """From here on plans wait for messages where the program says so."""
    from numba_grad.compiler import pipeline, plan_cache

    pipeline.overlapped = list
    # Plans on disk are those of the package as it is.
    plan_cache.read = lambda key, stored_kernels: None
    plan_cache.write = lambda key, plan: None


def launched(ranks: int, python: str, *arguments: str) -> Any:
    mpiexec = shutil.which("mpiexec", path=str(Path(python).parent)) or "mpiexec"
    command = [mpiexec, "-n", str(ranks), python, *arguments]
    environment = {"NUMBA_GRAD_NUM_THREADS": "1"}
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    ).stdout
    return json.loads(output.splitlines()[-1])


MEASURES: dict[str, Callable[[], Any]] = {
    "overheads": overheads,
    "inversion": inversion,
    "waves": steps_of_waves,
    "waves in order": steps_of_waves,
}


def measured(what: str) -> None:
    """What one of the processes does."""
    if what == "waves in order":
        in_program_order()
    found = MEASURES[what]()
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(found))


def print_waves(own: Sequence[str]) -> None:
    """Both kinds of plans, in turn."""
    turns: dict[str, list[dict[str, float]]] = {"waves": [], "waves in order": []}
    for _ in range(TURNS):
        for what, found in turns.items():
            found.append(launched(2, *own, what))
    print("steps of waves on 2 ranks, messages under way meanwhile, and in the program's order")
    for name in turns["waves"][0]:
        meanwhile, in_order = (
            statistics.median(found[name] for found in turns[what]) for what in turns
        )
        ratio = meanwhile / in_order
        print(f"  {name}: {meanwhile:.1f} and {in_order:.1f} us, {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default="")
    parser.add_argument("--waves", action="store_true", help="these alone")
    parser.add_argument("--measure", choices=MEASURES, help="by itself")
    options = parser.parse_args()
    if options.measure:
        measured(options.measure)
        return
    own = sys.executable, __file__, "--measure"
    if options.waves:
        print_waves(own)
        return
    for ranks in (1, 2):
        found = launched(ranks, *own, "overheads")
        bare = found.pop("bare")
        print(f"allreduce of 8 bytes, {ranks} ranks: {bare:.2f} us bare")
        if options.jax_python:
            script = str(Path(__file__).with_name("mpi_in_jax.py"))
            by_jax = launched(ranks, options.jax_python, script, str(CALLS), str(REPEATS))
            found |= {f"mpi4jax, {name}": microseconds for name, microseconds in by_jax.items()}
        for name, time_of_one in found.items():
            print(f"  {name}: {time_of_one:.2f} us, {time_of_one - bare:+.2f}")
    alone, together = (launched(ranks, *own, "inversion") for ranks in (1, 2))
    print(f"gradient of the inversion, 384 x 384 cells, 60 steps, one thread a rank: {alone:.3f} s")
    print(f"  on 2 ranks {together:.3f} s, {alone / together:.2f} times as fast")
    print_waves(own)


if __name__ == "__main__":
    main()
