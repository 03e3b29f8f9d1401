"""Worker processes that help to compile many kernels at once, by filling the disk cache.

Threads would not help, as for a CPU (`parallel_build.py`): three quarters of the time is Numba's
front end for GPUs, which is Python. The processes are fresh interpreters, never forks: LLVM and
running threads do not survive a fork, and `multiprocessing` would run the user's script again where
it has no main guard.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from numba_grad.compiler.building import cache
from numba_grad.config import config

# A worker compiles its first kernel after 1.2 s of work, in which time this process compiles 7:
# 0.17 s each, of which Numba's front end takes 0.13, NVVM and nvJitLink 0.02 each.
KERNELS_PER_WORKER = 12
# A long kernel counts for several.
_LINES_OF_SMALL = 30
_MOST_WORKERS = 16

Task = tuple[str, str]  # the source of a kernel, and its architecture

_PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module('numba_grad.compiler.cuda.build_worker').main()"
)


@contextlib.contextmanager
def workers_for(tasks: Sequence[Task]) -> Iterator[bool]:
    """While the block runs, workers compile these from the end, if they are many enough.

    The caller goes from the start and meets them. Workers that fail, or never start, only leave
    more work to the caller. None of them outlives the block.
    """
    small_kernels = sum(max(1.0, source.count("\n") / _LINES_OF_SMALL) for source, _ in tasks)
    count = min(
        int(small_kernels) // KERNELS_PER_WORKER, len(tasks) - 1, config.threads - 1, _MOST_WORKERS
    )
    workers: list[subprocess.Popen[bytes]] = []
    try:
        if count > 0 and _can_start() and cache.is_usable():
            for _ in range(count):
                # One by one: each is stopped, even if the next fails.
                workers.append(_start())  # noqa: PERF401
            backwards = tasks[::-1]
            for number, process in enumerate(workers):
                _send(process, backwards[number::count])
        yield bool(workers)
    finally:
        for process in workers:
            process.kill()
        for process in workers:
            with contextlib.suppress(OSError):
                process.communicate()


def _can_start() -> bool:
    """Whether `sys.executable` is Python, and not a program that embeds it."""
    return bool(sys.executable) and Path(sys.executable).name.lower().startswith("python")


def _start() -> subprocess.Popen[bytes]:
    environment = os.environ | {"NUMBA_GRAD_CACHE_DIR": str(config.cache_directory)}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, json.dumps([str(p) for p in sys.path])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches this process alone, which then stops them
    )


def _send(worker: subprocess.Popen[bytes], tasks: Sequence[Task]) -> None:
    assert worker.stdin is not None
    with contextlib.suppress(OSError):  # it died: the caller does the work
        # Stays open: its end tells the worker that this process is gone.
        worker.stdin.write(json.dumps(tasks).encode() + b"\n")
        worker.stdin.flush()
