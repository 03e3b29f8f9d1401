"""What a figure depends on besides the code: processor, memory bandwidth, versions."""

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from perf.contestants import ROOT, THREADS, environment

PACKAGES = (
    "numba",
    "llvmlite",
    "numpy",
    "scipy",
    "torch",
    "jax",
    "jaxlib",
    "autograd",
    "drjit",
    "pytensor",
)
ELEMENTS = 20_000_000  # 160 MB an array: larger than any cache


def described() -> dict[str, Any]:
    """For the report; measures the triad."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(models) or os.cpu_count(),
        "threads": THREADS,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "commit": commit(),
        "triad (GB/s)": triad_in_a_process(),
    }


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """Of numba_grad, which need not be installed; with a plus if files were changed since."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True
    )
    return found.stdout.strip()


def triad_in_a_process() -> float:
    with tempfile.TemporaryDirectory(prefix="perf-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "perf.machine"],
            cwd=ROOT,
            env=environment(Path(folder) / "triad"),
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout)


def triad(repeats: int = 11) -> float:
    """GB/s of a[i] = b[i] + s * c[i], counted as STREAM counts: 24 bytes an element.

    The processor also reads `a` before it writes it, unless stores go past the caches; Numba's
    do not. A kernel with such stores, or one that only reads, can be faster than this.
    """
    import numba

    @numba.njit(parallel=True)
    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray, s: float) -> None:
        for i in numba.prange(a.size):
            a[i] = b[i] + s * c[i]

    a, b, c = (np.ones(ELEMENTS) for _ in range(3))
    run(a, b, c, 2.0)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(a, b, c, 2.0)
        seconds.append(time.perf_counter() - start)
    return 24.0 * ELEMENTS / statistics.median(seconds) * 1e-9


if __name__ == "__main__":
    print(json.dumps(triad()))
