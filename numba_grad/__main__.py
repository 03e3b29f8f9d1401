"""`python -m numba_grad`: what is installed and in force; `python -m numba_grad cache clear`."""

import argparse
import importlib.metadata
import os
import platform
import sys
import time

import llvmlite.binding as llvm
import numpy as np

import numba_grad
from numba_grad.compiler import cache
from numba_grad.config import config
from numba_grad.frontend import cuda
from numba_grad.frontend.gradients import grad
from numba_grad.runtime.cuda import diagnosis
from numba_grad.runtime.threads import can_start_threads, get_num_threads

PACKAGES = ("numba_grad", "numba", "llvmlite", "numpy", "scipy", "optree")
# What decides how wide kernels are, of some hundred features.
SHOWN_FEATURES = ("sse4.2", "avx", "fma", "avx2", "avx512f", "avx512vl", "neon", "sve", "sve2")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m numba_grad", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    actions = commands.add_parser("cache", help="the compiled kernels on disk")
    actions.add_argument("action", choices=["clear"])
    if parser.parse_args(arguments).command == "cache":
        return clear_cache()
    return describe()


def clear_cache() -> int:
    directory = config.cache_directory
    removed = cache.clear()
    print(f"removed {removed} kernels from {directory}")
    return 0


def describe() -> int:
    """Print one fact per line; 1 if a first gradient fails."""
    gradient, is_right = first_gradient()
    facts = {
        "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "python": f"{platform.python_version()}, {sys.executable}",
        "system": platform.platform(),
        "processor": processor(),
        "threads": threads(),
        "devices": ", ".join(["cpu", *gpus()]),
        "cuda": diagnosis.report(),
        "engine": config.engine,
        "cache": kernels_on_disk(),
        "gradient": gradient,
    }
    if cuda.is_available():
        facts["gradient on cuda"], is_right_there = first_gradient("cuda")
        is_right = is_right and is_right_there
    width = max(len(name) for name in facts)
    for name, fact in facts.items():
        print(f"{name:<{width}} : {fact}")
    return 0 if is_right else 1


def version(package: str) -> str:
    if package == "numba_grad":
        return numba_grad.__version__  # also in a source tree that is not installed
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def processor() -> str:
    features = llvm.get_host_cpu_features()
    shown = [name for name in SHOWN_FEATURES if features.get(name)]
    return f"{llvm.get_host_cpu_name()}, {os.cpu_count()} CPUs; {' '.join(shown)}"


def threads() -> str:
    layer = "own pool of native threads" if can_start_threads() else "none on this system"
    return f"{get_num_threads()}; threading layer: {layer}"


def gpus() -> list[str]:
    found = [(device, cuda.get_device_properties(device)) for device in range(cuda.device_count())]
    return [
        f"cuda:{device} ({gpu.name}, {gpu.total_memory / 2**30:.1f} GiB, compute capability "
        f"{'.'.join(map(str, gpu.compute_capability))})"
        for device, gpu in found
    ]


def kernels_on_disk() -> str:
    found = cache.statistics()
    return f"{found.directory}, {found.files} kernels, {found.bytes / 1e6:.1f} MB"


def first_gradient(device: str = "cpu") -> tuple[str, bool]:
    """Compute a gradient: how long it took, where kernels came from, and whether it is right."""
    x = np.linspace(-1.0, 1.0, 5)
    before = cache.statistics()
    start = time.perf_counter()
    try:
        gradient = grad(lambda x: np.sin(x).sum())(numba_grad.tensor(x, device=device))
        is_right = np.allclose(gradient.cpu(), np.cos(x))
    except Exception as error:  # whatever is wrong with this installation is what we are to report
        return f"failed: {type(error).__name__}: {error}", False
    seconds = time.perf_counter() - start
    after = cache.statistics()
    hits, misses = after.hits - before.hits, after.misses - before.misses
    word = "right" if is_right else "WRONG"
    return f"{word}, in {1000 * seconds:.0f} ms; cache: {hits} hits, {misses} misses", is_right


if __name__ == "__main__":
    sys.exit(main())
