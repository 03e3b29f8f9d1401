"""`python -m numba_grad`: what is installed and in force. With a command, the kernels on disk."""

import argparse
import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

import numba_grad
from numba_grad.compiler import cache_archive
from numba_grad.compiler.building import cache
from numba_grad.config import config
from numba_grad.errors import ArchiveError, explain
from numba_grad.frontend import cuda
from numba_grad.frontend.derivatives.gradients import grad
from numba_grad.runtime.cuda import diagnosis
from numba_grad.runtime.threads import can_start_threads, get_num_threads

PACKAGES = ("numba_grad", "numba", "llvmlite", "numpy", "scipy", "optree")
# What decides how wide kernels are, of some hundred features.
SHOWN_FEATURES = ("sse4.2", "avx", "fma", "avx2", "avx512f", "avx512vl", "neon", "sve", "sve2")


EXPORT = """Write the kernels on disk that are for this machine's processor, and for the versions
that are installed, to one file: for machines of the same kind."""
IMPORT = """Put the kernels of an exported file into the cache directory, if they are for this
machine's processor and versions. They are code that your programs will run: import only what you
trust as you trust a program."""
WARM = """Run a script as `python script.py arguments` does, and compile its kernels, so that the
next run finds them on disk. It reads and writes what it always does; what is compiled is reported
on standard error. The exit status is that of the script."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m numba_grad", description=__doc__)
    commands = parser.add_subparsers(title="commands")
    warming = commands.add_parser(
        "warm", help="fill the cache by running a script", description=WARM
    )
    warming.add_argument("script", type=Path)
    warming.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    warming.set_defaults(run=lambda given: warm(given.script, given.arguments))
    caching = commands.add_parser("cache", help="the compiled kernels on disk")
    actions = caching.add_subparsers(title="actions", required=True, metavar="action")
    clearing = actions.add_parser("clear", help="remove all of them")
    clearing.set_defaults(run=lambda given: clear_cache())
    exporting = actions.add_parser("export", help="write them to a file", description=EXPORT)
    exporting.add_argument("file", type=Path)
    exporting.set_defaults(run=lambda given: export_cache(given.file))
    importing = actions.add_parser("import", help="read them from a file", description=IMPORT)
    importing.add_argument("file", type=Path)
    importing.set_defaults(run=lambda given: import_cache(given.file))
    given = parser.parse_args(arguments)
    if not hasattr(given, "run"):
        return describe()
    try:
        return given.run(given)
    except (ArchiveError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def warm(script: Path, arguments: list[str]) -> int:
    """Run a script in a process of its own, which shows what it compiles."""
    if not script.exists():
        raise FileNotFoundError(explain("warm", f"there is no file {script}"))
    if not cache.is_usable():
        problem = f"the cache directory {config.cache_directory} cannot be written"
        raise PermissionError(explain("warm", problem, fix="NUMBA_GRAD_CACHE_DIR=... of another"))
    before = cache.stored_keys()
    # Of what users set, all stays; what they did not set shows what is compiled.
    process = subprocess.Popen(
        [sys.executable, script, *arguments], env={"NUMBA_GRAD_LOG": "compile", **os.environ}
    )
    while process.returncode is None:
        with contextlib.suppress(KeyboardInterrupt):  # which the script gets, too
            process.wait()
    new, found = len(cache.stored_keys() - before), cache.statistics()
    print(
        f"numba_grad: {_kernels(new)} new in {found.directory}, of {found.files}, "
        f"{found.bytes / 1e6:.1f} MB",
        file=sys.stderr,
    )
    # As shells have it, where a signal ended the script.
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def clear_cache() -> int:
    directory = config.cache_directory
    removed = cache.clear()
    print(f"removed {_kernels(removed)} from {directory}")
    return 0


def export_cache(file: Path) -> int:
    done = cache_archive.export_to(file)
    print(f"exported {_kernels(done.kernels)} to {file}, {done.bytes / 1e6:.1f} MB")
    return 0


def import_cache(file: Path) -> int:
    done = cache_archive.import_from(file)
    if done.left_out:
        print(done.left_out, file=sys.stderr)
    print(f"imported {_kernels(done.new)} into {config.cache_directory}; {done.known} were known")
    return 0


def _kernels(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count} kernels"


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
