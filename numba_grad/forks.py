"""What a fork waits for, so that its child finds nothing half done.

After `os.fork()` the child has one thread, the one that forked. What another thread was in the
middle of stays half done there for ever: a module that it imported is locked, LLVM waits for a lock
that nobody holds. Making such locks new, as we do with those that guard data of our own
(`locks.py`), would not help: what they guard is not ours, and may be in any state.

So a fork waits until no thread is there. Meanwhile none begins, and those that began need nothing
of the one that forks. Where that is not so (a thread in Numba's compiler waits to begin work of
ours), the fork lets go of what it has, and tries again.
"""

import contextlib
import logging  # noqa: F401, see the end
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

from numba_grad.locks import new_lock

# Seconds, of a first try, and in all. Each try takes twice as long as the one before.
_FIRST_TRY = 0.2
_PATIENCE = 30.0

_gate = new_lock()  # taken by who begins, and by a fork
_works: set[threading.RLock] = set()  # each is held by the thread that does the work
_foreign: list[Callable[[], Any]] = []
_last: list[Callable[[], None]] = []


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """Within, other threads wait before they fork."""
    work = new_lock()
    with work:
        with _gate:
            _works.add(work)
        try:
            yield
        finally:
            _works.discard(work)


def wait_for(find_lock: Callable[[], Any]) -> None:
    """Have forks take a lock of another package as well; None as long as there is none.

    Who registers later has its lock taken first: a lock that is held around others, which lower
    layers know of.
    """
    _foreign.insert(0, find_lock)


def call_last(prepare: Callable[[], None]) -> None:
    """Have `prepare` called just before a fork, when nothing is waited for any more."""
    _last.append(prepare)


class _Taken(threading.local):
    """The locks that this thread has taken to fork."""

    def __init__(self) -> None:
        self.locks: list[threading.RLock] = []


_taken = _Taken()


def _prepare() -> None:
    _take_all()
    for prepare in _last:
        prepare()


def _take_all() -> None:
    seconds, deadline = _FIRST_TRY, time.monotonic() + _PATIENCE
    while not (_take([_gate], seconds) and _take([*_works, *_foreign_locks()], seconds)):
        _release_all()
        if time.monotonic() > deadline:
            warnings.warn(
                f"numba_grad: another thread was compiling, or importing, for {_PATIENCE:g} s; "
                "this process is forked in the middle of it, and the child may wait for ever "
                "where it compiles",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        time.sleep(0.001)  # for others to begin what one of those that we wait for may need
        seconds = min(2 * seconds, deadline - time.monotonic())


def _take(locks: list[threading.RLock], seconds: float) -> bool:
    """Whether all of them could be taken."""
    count = len(_taken.locks) + len(locks)
    # One call of C, so that no signal is handled between taking a lock and noting that it is.
    _taken.locks.extend(filter(methodcaller("acquire", timeout=max(0.0, seconds)), locks))
    return len(_taken.locks) == count


def _release_all() -> None:
    with contextlib.suppress(IndexError):
        # Until there is none left. Again one call.
        list(map(methodcaller("release"), iter(_taken.locks.pop, None)))


def _foreign_locks() -> list[threading.RLock]:
    return [lock for lock in (find_lock() for find_lock in _foreign) if lock is not None]


def _begin_anew() -> None:
    """In the child: what other threads did is not done here, and their locks are held by nobody."""
    _release_all()
    _works.clear()
    for lock in _foreign_locks():
        if not lock._is_owned():  # pyright: ignore[reportAttributeAccessIssue]
            lock._at_fork_reinit()  # pyright: ignore[reportAttributeAccessIssue]


if hasattr(os, "register_at_fork"):
    # What is registered last is called first, before the fork. `logging` takes its lock then, which
    # Numba needs to compile: so it must be registered before this.
    os.register_at_fork(before=_prepare, after_in_parent=_release_all, after_in_child=_begin_anew)
