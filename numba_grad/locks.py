"""Locks that a forked child finds open, and an interrupt finds either taken or not.

After `os.fork()` the child has one thread, the one that forked. What another thread held in that
moment stays locked for ever, unless it is made new.

They are CPython's own reentrant locks, not objects around them: Ctrl-C is raised between two
instructions of Python, and one in a `__exit__` of our own would leave the lock taken.
"""

import os
import threading
import weakref
from collections.abc import Callable, Container, Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def new_lock() -> threading.RLock:
    """A reentrant lock, as a context; open in each forked child, but for what its thread holds."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


class LocksByKey:
    """A lock for each thing that is made once: who makes one keeps nobody from the others."""

    def __init__(self) -> None:
        self._lock = new_lock()
        # As long as a thread holds one, or waits for it.
        self._of_key: weakref.WeakValueDictionary[Hashable, threading.RLock] = (
            weakref.WeakValueDictionary()
        )

    def lock_of(self, key: Hashable) -> threading.RLock:
        """The lock of `key`: the same one for all who want it at a time."""
        with self._lock:
            found = self._of_key.get(key)
            if found is None:
                found = self._of_key[key] = new_lock()
            return found


class Claims:
    """Which of many things a thread makes at once, so that no other thread makes them as well."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._by_key: dict[Hashable, threading.RLock] = {}

    def make(
        self, keys: Iterable[Key], made: Container[Key], make: Callable[[list[Key]], object]
    ) -> None:
        """Return when all `keys` are in `made`, to which `make` adds those that it is given.

        Those that another thread makes are waited for when the own ones are done, so that no two
        threads wait for each other. What that thread fails to make is made here.
        """
        keys = list(dict.fromkeys(keys))
        while not all(key in made for key in keys):
            own = new_lock()
            with own:
                with self._lock:
                    missing = [key for key in keys if key not in made]
                    claims = {key: self._by_key.setdefault(key, own) for key in missing}
                mine = [key for key, claim in claims.items() if claim is own]
                if mine:
                    make(mine)
            for key, claim in claims.items():
                with claim, self._lock:
                    if self._by_key.get(key) is claim:
                        del self._by_key[key]


def _open_all() -> None:
    for lock in list(_locks):
        # What the thread that forked holds, it goes on to release in the child. Both methods are
        # what `threading` itself uses, and not in its documentation.
        if not lock._is_owned():  # pyright: ignore[reportAttributeAccessIssue]
            lock._at_fork_reinit()  # pyright: ignore[reportAttributeAccessIssue]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
