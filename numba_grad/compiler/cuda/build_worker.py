"""What a worker process runs; `worker_processes.py` starts it."""

import json
import os
import sys
import threading

from numba_grad.compiler.building import cache
from numba_grad.compiler.cuda import build


def main() -> None:
    """Compile the requests of the first line of standard input that the disk cache does not have.

    When the process that started this one is gone, this one ends.
    """
    received = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    for source, architecture in received:
        request = build.KernelRequest(source, architecture)
        if not cache.contains(request.key):
            build.compile_and_store(request)


def _exit_with_parent() -> None:
    # The pipe ends when the process that started this one is gone, whatever way it went.
    sys.stdin.buffer.read()
    os._exit(1)
