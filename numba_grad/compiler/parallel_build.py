"""Worker processes that help to compile many kernels at once, by filling the disk cache.

They are fresh interpreters, never forks: LLVM and running threads do not survive a fork, and
`multiprocessing` would run the user's script again where it has no main guard.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba_grad.compiler import cache
from numba_grad.config import config

if TYPE_CHECKING:
    import subprocess

# Measured on 2 cores: a worker compiles its first kernel 0.7 s after its start, in which time this
# process compiles some 20 small ones. With 40 to do, one worker turns 1.5 s into 1.1 s.
KERNELS_PER_WORKER = 24
# A long kernel counts for several: about 1.3 ms a line, against 40 ms for a small one.
_LINES_OF_SMALL = 30
_MOST_WORKERS = 16

Task = tuple[Any, ...]  # the source of a kernel, and what else a request for it has
WORKER = "numba_grad.compiler.build_worker"

_PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main()"
)


@contextlib.contextmanager
def workers_for(
    tasks: Sequence[Task], worker: str = WORKER, kernels_per_worker: int = 0
) -> Iterator[bool]:
    """While the block runs, workers compile these from the end, if they are many enough.

    The caller goes from the start and meets them. Workers that fail, or never start, only leave
    more work to the caller. None of them outlives the block. `worker` is the module they run.
    """
    kernels_per_worker = kernels_per_worker or KERNELS_PER_WORKER
    small_kernels = sum(max(1.0, source.count("\n") / _LINES_OF_SMALL) for source, *_ in tasks)
    count = min(
        int(small_kernels) // kernels_per_worker, len(tasks) - 1, config.threads - 1, _MOST_WORKERS
    )
    workers: list[subprocess.Popen[bytes]] = []
    try:
        if count > 0 and _can_start() and cache.is_usable():
            for _ in range(count):
                # One by one: each is stopped, even if the next fails.
                workers.append(_start(worker))  # noqa: PERF401
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


def _start(worker: str) -> "subprocess.Popen[bytes]":
    import subprocess  # 3 ms, and seldom used

    environment = os.environ | {"NUMBA_GRAD_CACHE_DIR": str(config.cache_directory)}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, json.dumps([str(p) for p in sys.path]), worker],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches this process alone, which then stops them
    )


def _send(worker: "subprocess.Popen[bytes]", tasks: Sequence[Task]) -> None:
    assert worker.stdin is not None
    with contextlib.suppress(OSError):  # it died: the caller does the work
        # Stays open: its end tells the worker that this process is gone.
        worker.stdin.write(json.dumps(tasks).encode() + b"\n")
        worker.stdin.flush()
