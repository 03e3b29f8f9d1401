"""Threads that compile the kernels of one program at once.

LLVM runs without the GIL. What is written in Python, a sixth of the time, one thread does after the
other: with more than eight, all wait for that.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_THREADS = 8


def of_each(
    items: Iterable[Item], work: Callable[[Item], Result], threads: int
) -> dict[Item, Result]:
    """`work(item)` of each, by so many threads, this one among them.

    Whatever is raised here, such as KeyboardInterrupt, the others end when they are done with what
    they are at. Where `work` fails in one of them, it is called again in this one, to fail here.
    """
    items = list(items)
    results: dict[Item, Result] = {}
    waiting = deque(items)
    is_wanted = threading.RLock()  # held here as long as the others are to go on

    def do_next() -> None:
        try:
            item = waiting.popleft()
        except IndexError:  # another thread was faster
            return
        results[item] = work(item)

    def help_out() -> None:
        while waiting and not is_wanted.acquire(blocking=False):
            with contextlib.suppress(Exception):
                do_next()

    helpers = []
    with is_wanted:
        for _ in range(min(threads, len(items), _MOST_THREADS) - 1):
            helper = threading.Thread(target=help_out, name="numba_grad compiling")
            with contextlib.suppress(RuntimeError):  # too many threads, or Python ends
                helper.start()
                helpers.append(helper)
        while waiting:
            do_next()
        for helper in helpers:
            helper.join()
    return {item: results[item] if item in results else work(item) for item in items}
