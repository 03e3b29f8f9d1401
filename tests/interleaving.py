"""Two threads, one of which stops at a chosen line while the other one does all of its work.

Most races of two threads are found so at the first attempt, where a thousand runs side by side may
not meet one: what the first thread has half done, the second one sees.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numba_grad

PACKAGE = str(Path(numba_grad.__file__).parent)
_PATIENCE = 1.0  # seconds, for the second thread, if it does not stand still
_STILL = 5  # milliseconds
_AT_MOST = 120.0  # seconds, for anything: more is a deadlock

Line = tuple[str, int]  # path and number


def lines_of(work: Callable[[], Any], within: Iterable[str] = ("",)) -> list[Line]:
    """The lines of the package that `work` runs through in this thread, in the order of their
    first time; of the modules whose path in the package starts with one of `within`."""
    paths = tuple([f"{PACKAGE}/{part}" for part in within])
    seen: dict[Line, None] = {}

    def of_frame(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(paths):
            return None
        if event == "line":
            seen[frame.f_code.co_filename, frame.f_lineno] = None
        return of_frame

    with traced_by(of_frame):
        work()
    return list(seen)


@contextmanager
def traced_by(function: Callable[..., Any]) -> Iterator[None]:
    """What this thread does is traced, as by `sys.settrace`."""
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)


def stopped_at(line: Line, first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """The results of both, where the first stops before its first time at `line`, until the second
    is done or stands still, as one that waits for the first."""
    path, number = line
    is_there, may_go_on = threading.Event(), threading.Event()
    results: list[Any] = [None, None]
    errors: list[BaseException] = []

    def of_frame(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != path or is_there.is_set():
            return None
        if event == "line" and frame.f_lineno == number:
            is_there.set()
            may_go_on.wait(_AT_MOST)
        return of_frame

    def run(k: int, work: Callable[[], Any]) -> None:
        try:
            with traced_by(of_frame) if k == 0 else nullcontext():
                results[k] = work()
        except BaseException as error:
            errors.append(error)
        finally:
            is_there.set()

    threads = [
        threading.Thread(target=run, args=(k, work), daemon=True)
        for k, work in enumerate((first, second))
    ]
    threads[0].start()
    is_there.wait(_AT_MOST)
    threads[1].start()
    _wait_while_it_works(threads[1])
    may_go_on.set()
    for thread in threads:
        thread.join(_AT_MOST)
        assert not thread.is_alive(), f"the threads wait for each other: {line}"
    if errors:
        raise errors[0]
    return results


def _wait_while_it_works(thread: threading.Thread) -> None:
    """Until the thread is done, or has stood still: for a lock, which the other one may hold."""
    end = time.monotonic() + _PATIENCE
    place, still = None, 0
    while thread.is_alive() and time.monotonic() < end and still < _STILL:
        thread.join(0.001)
        frame = sys._current_frames().get(thread.ident or 0)
        before, place = place, frame and (id(frame), frame.f_lasti)
        still = still + 1 if place == before else 0
