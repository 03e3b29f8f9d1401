"""A lock that a forked child finds open.

After `os.fork()` the child has one thread, the one that forked. What another thread held in that
moment stays locked for ever, unless it is made new.
"""

import contextlib
import os
import threading
import weakref


class Lock:
    """A reentrant lock, as a context; new in each forked child."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        # In a child that was forked while its own thread held the lock there is nothing to release.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
