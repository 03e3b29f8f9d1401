"""Python's collector of reference cycles, paused while a graph is built or compiled.

All nodes of a graph live until it is done, so a collection finds nothing, and looks at each of
them: for 2,000 Runge-Kutta steps that was 4.3 of 10.7 seconds. References are counted all the
while, so only what is in cycles waits.
"""

import gc
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_collection(
    work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """The result of `work(*args, **kwargs)`, during which no cycles are collected.

    Calls nest, and those of threads may overlap. Each restores what it found: the outermost of
    them, which found the collector enabled, enables it again. This is no context manager, because
    Ctrl-C on entering its `__exit__` would leave the collector disabled for good.
    """
    global _pausing_thread
    was_enabled = gc.isenabled()
    try:
        if was_enabled:
            _pausing_thread = threading.get_ident()
        gc.disable()
        result = work(*args, **kwargs)
    finally:
        if was_enabled:
            gc.enable()
            _pausing_thread = None
    return result


_pausing_thread: int | None = None


def old_at_once(work: Callable[[], Result]) -> Result:
    """The result of `work`, an import: what it makes lives as long as the process.

    Modules of Numba's size are half of all objects there are, so the collector would look at every
    one of them again soon after: 20 ms, in somebody's first gradient. Here they become old without
    a look, and the collector goes by what is made later.
    """
    result = without_collection(work)
    # Not where the program has frozen objects of its own, which it wants to stay so.
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
    return result


def _go_on_in_child() -> None:
    """In a forked child: what another thread paused, it does not go on with here."""
    global _pausing_thread
    if _pausing_thread not in (None, threading.get_ident()):
        _pausing_thread = None
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
