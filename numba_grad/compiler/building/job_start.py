"""The start of a job: of its processes on one machine one compiles a kernel, the others take it
from the cache.

Who compiles holds a lock on a file, in a directory of this machine for temporary files: locks of
shared file systems are not to be relied on. The system opens it when the process ends, however that
happens. Who waits does so for a time that is limited, and then compiles for itself; where there are
no such locks, every process does.
"""

import contextlib
import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from numba_grad.compiler.building import cache

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# What launchers say about the number of processes: Open MPI, MPICH and its kin, Slurm, torchrun.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS", "WORLD_SIZE")
_LONGEST_WAIT = 60.0  # seconds; a kernel takes 0.01 to 5
_LOOK = 0.005  # seconds between looks at what another process compiles


@functools.cache
def is_shared() -> bool:
    """Whether this process is one of several that a launcher has started, and can take turns."""
    sizes = [os.environ.get(name, "") for name in _SIZES]
    is_job = any(size.isdecimal() and int(size) > 1 for size in sizes)
    return is_job and fcntl is not None and cache.is_usable() and _directory() is not None


@functools.cache
def _directory() -> Path | None:
    """Where the locks are; None where there is no place that is this user's alone."""
    if not hasattr(os, "getuid"):
        return None
    found = Path(tempfile.gettempdir()) / f"numba_grad-{os.getuid()}-locks"
    try:
        found.mkdir(mode=0o700, exist_ok=True)
        status = found.lstat()
    except OSError:
        return None
    return found if status.st_uid == os.getuid() and not status.st_mode & 0o077 else None


@contextlib.contextmanager
def claim(key: str) -> Iterator[bool]:
    """Whether this process is the one to compile `key`, while it does."""
    directory = _directory()
    if not is_shared() or directory is None or fcntl is None:
        yield True
        return
    path = directory / key
    try:
        file = path.open("w")
    except OSError:
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # there are no locks here
            yield True
            return
        try:
            yield True
        finally:
            # Somebody may have opened the file that goes: who then has it locked finds the kernel.
            path.unlink(missing_ok=True)


def awaited(key: str, compile: Callable[[], bytes]) -> bytes:
    """What another process compiles under `key`; compiled here, should it fail to, or take long."""
    end = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < end:
        code = cache.peek(key)
        if code is not None:
            return code
        with claim(key) as is_ours:
            if is_ours:
                return known(key) or compile()
        time.sleep(_LOOK)
    return compile()


def known(key: str) -> bytes | None:
    """What another process of the job has compiled since this one looked."""
    return cache.peek(key) if is_shared() else None
