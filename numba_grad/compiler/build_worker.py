"""What a worker process runs; `parallel_build.py` starts it."""

import json
import os
import sys
import threading

from numba_grad.compiler import build, cache, parallel_build


def main() -> None:
    """Compile the tasks of the first line of standard input that the disk cache does not have."""
    for task in tasks():
        request = build.Request(*task)
        if not cache.contains(request.key):
            build.compile_and_store(request)


def tasks() -> list[parallel_build.Task]:
    """What the process that started this one sent. When it is gone, this one ends."""
    received = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    return received


def _exit_with_parent() -> None:
    # The pipe ends when the process that started this one is gone, whatever way it went.
    sys.stdin.buffer.read()
    os._exit(1)
