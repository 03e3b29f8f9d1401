"""What a worker process runs to compile CUDA kernels; `parallel_build.py` starts it."""

from numba_grad.compiler import build_worker, cache
from numba_grad.compiler.cuda import build


def main() -> None:
    """Compile the tasks of the first line of standard input that the disk cache does not have."""
    for source, architecture, _ in build_worker.tasks():
        request = build.Request(source, architecture)
        if not cache.contains(request.key):
            build.compile_and_store(request)
