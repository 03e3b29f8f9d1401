"""Locks that a forked child finds open, and an interrupt finds either taken or not.

After `os.fork()` the child has one thread, the one that forked. What another thread held in that
moment stays locked for ever, unless it is made new.

They are CPython's own reentrant locks, not objects around them: Ctrl-C is raised between two
instructions of Python, and one in a `__exit__` of our own would leave the lock taken.
"""

import os
import threading
import weakref


def new_lock() -> threading.RLock:
    """A reentrant lock, as a context; open in each forked child, but for what its thread holds."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def _open_all() -> None:
    for lock in list(_locks):
        # What the thread that forked holds, it goes on to release in the child. Both methods are
        # what `threading` itself uses, and not in its documentation.
        if not lock._is_owned():  # pyright: ignore[reportAttributeAccessIssue]
            lock._at_fork_reinit()  # pyright: ignore[reportAttributeAccessIssue]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
