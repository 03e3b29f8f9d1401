"""From the start of a process to its first gradient, imports included. See `fresh_process.py`.

"warm": what the library keeps on disk by default is there from a run before. "cold": the cache
is empty. Python's bytecode is there in both, as after an installation.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from perf.goals import AtMost, Times
from perf.implementations import Prepared


class Size(NamedTuple):
    variables: int


TITLE = "Start of a process to the first gradient of Rosenbrock's function"
SIZES = {"small": Size(variables=10)}
REPEATS = 7
GOALS = [AtMost(0.35), Times(1.0, peers=("torch", "jax"))]
SCRIPT = Path(__file__).parents[1] / "fresh_process.py"
CACHES = ("NUMBA_GRAD_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


def process(library: str, is_cold: bool = False) -> Prepared:
    """A run is a process, timed until it prints its result."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": tempfile.mkdtemp()}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds() -> float:
        with tempfile.TemporaryDirectory() as folder:
            changes = dict.fromkeys(CACHES, folder) if is_cold else {}
            start = time.perf_counter()
            running = subprocess.Popen(
                [sys.executable, str(SCRIPT), library],
                env={**environment, **changes},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            assert running.stdout is not None
            line = running.stdout.readline()
            duration = time.perf_counter() - start
            if running.wait() or not line:
                raise RuntimeError(f"{library} ended with code {running.returncode}")
            if abs(float(line) - EXPECTED) > 1e-9 * abs(EXPECTED):
                raise RuntimeError(f"{library} printed {line}, expected {EXPECTED}")
        return duration

    seconds()
    return Prepared(seconds, is_own_clock=True)


EXPECTED = -1975.5555555555557

IMPLEMENTATIONS = {
    "numba_grad": lambda _: process("numba_grad"),
    "numba_grad, cold": lambda _: process("numba_grad", is_cold=True),
    "NumPy by hand": lambda _: process("numpy"),
    "torch": lambda _: process("torch"),
    "torch.compile": lambda _: process("torch.compile"),
    "torch.compile, cold": lambda _: process("torch.compile", is_cold=True),
    "jax": lambda _: process("jax"),
    "drjit": lambda _: process("drjit"),
    "autograd": lambda _: process("autograd"),
}
