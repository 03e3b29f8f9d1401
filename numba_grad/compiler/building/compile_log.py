"""What a person who waits for the compiler is told, on standard error.

    numba_grad: compiled 12 kernels in 1.4 s, 31 from cache

is one line for each program, where `log` is "compile". After two seconds a line at the terminal
tells how far it is, rewritten in place and erased at the end; "off" is without it.
"""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from numba_grad import forks
from numba_grad.compiler.building import cache
from numba_grad.config import config
from numba_grad.locks import new_lock

_PATIENCE = 2.0  # seconds without a word
_PERIOD = 0.2  # between two states of the line at the terminal


class Report:
    """How far the compiling of one program is.

    It goes on as long as its lock is held, which an interrupt at any place leaves as it should be.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.start = time.perf_counter()
        self.from_cache = 0
        self.compiled = 0
        self._keys: list[str] = []  # of what is compiled, here or by a worker process
        self._thread: threading.Thread | None = None

    def expect(self, keys: Sequence[str], from_cache: int = 0) -> None:
        """Kernels that are to be compiled now, beside some that were found."""
        self.from_cache += from_cache
        self._keys += keys
        if keys:
            self.watch()

    def watch(self) -> None:
        """Show at the terminal how it goes on, if it takes long."""
        if self._thread is None and config.log != "off" and _is_terminal(sys.stderr):
            self._thread = threading.Thread(target=_watch, args=(self,), name="numba_grad progress")
            with contextlib.suppress(RuntimeError):  # too many threads, or Python ends
                self._thread.start()

    def is_over(self, within: float) -> bool:
        """Whether it is over now, or will be in so many seconds."""
        if not self.lock.acquire(timeout=within):
            return False
        self.lock.release()
        return True

    def end(self) -> None:
        """Return when nothing of it is left at the terminal."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def progress(self) -> tuple[int, int]:
        """How many kernels are compiled, and how many there are to compile."""
        done = sum(map(cache.contains, self._keys)) if self.compiled < len(self._keys) else 0
        return max(done, self.compiled), len(self._keys)

    def summary(self) -> str:
        taken = _duration(time.perf_counter() - self.start)
        if self._keys:
            return f"compiled {_kernels(len(self._keys))} in {taken}, {self.from_cache} from cache"
        return f"{_kernels(self.from_cache)} from cache in {taken}" if self.from_cache else ""


class _Here(threading.local):
    report: Report | None = None


_here = _Here()


@contextlib.contextmanager
def report() -> Iterator[Report]:
    """Within, this thread compiles one program: within another report, a part of that."""
    outer = _here.report
    # One that was broken off may still be there, but not its lock.
    if outer is not None and outer.lock._is_owned():  # pyright: ignore[reportAttributeAccessIssue]
        yield outer
        return
    own = _here.report = Report()
    try:
        with own.lock:
            yield own
    finally:
        _here.report = None
        own.end()
    if config.log == "compile" and (text := own.summary()):
        _write(f"numba_grad: {text}\n")


def _watch(watched: Report) -> None:
    """What a thread does as long as something is compiled."""
    if watched.is_over(_PATIENCE):
        return
    _watched.append(watched)
    while not watched.is_over(_PERIOD):
        _write()
    _watched.remove(watched)
    _write()


# The one place that writes. Threads may compile at once, and share the line.
_lock = new_lock()
_watched: list[Report] = []
_shown: tuple[TextIO | None, str] = (None, "")  # the line at the terminal


def _write(line: str = "") -> None:
    """Write `line` above what the line at the terminal should now say."""
    global _shown
    # Forked in the middle of it, a child would find the stream locked.
    with forks.held_off(), _lock, contextlib.suppress(OSError, ValueError):  # closed, or a pipe
        stream, text = sys.stderr, ""
        if _watched and _is_terminal(stream):
            text = _progress_line(list(_watched))[: shutil.get_terminal_size().columns - 1]
        (terminal, old), _shown = _shown, (stream, text)
        if old and terminal is not None and (line or terminal is not stream or not text):
            terminal.write(f"\r{' ' * len(old)}\r")
            terminal.flush()
            old = ""
        if stream is not None and (line or text != old):
            stream.write(f"{line}\r{text:<{len(old)}}" if text else line)
            stream.flush()


def _progress_line(reports: list[Report]) -> str:
    done, count = map(sum, zip(*(report.progress() for report in reports), strict=True))
    seconds = time.perf_counter() - min(report.start for report in reports)
    of_kernels = f" {done} of {_kernels(count)}," if count else ""
    return f"numba_grad: compiling,{of_kernels} {seconds:.0f} s"


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):  # what takes its place in an editor, or a closed one
        return False


def _kernels(count: int) -> str:
    return f"{count} kernel" if count == 1 else f"{count} kernels"


def _duration(seconds: float) -> str:
    if seconds >= 0.95:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.{0 if seconds > 0.0095 else 1}f} ms"
