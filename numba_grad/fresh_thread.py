"""Work in a thread of its own: where no signal is handled, and where the stack begins anew.

Python handles signals in the main thread, between any two instructions of it, and what a handler
raises (Ctrl-C, a timeout, SystemExit on SIGTERM) breaks off whatever runs there. An import that is
broken off leaves modules and registries half filled, for the life of the process; so does compiling
with Numba. To put other handlers in place meanwhile would leave an instruction before and one after
unprotected, and a handler that is not Python's cannot be put back. Another thread is not broken
off, and who waits for it is, at once.

The limit of recursion, too, counts the frames of one thread.
"""

import contextlib
import contextvars
import ctypes
import gc
import importlib
import sys
import threading
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any, TypeVar

from numba_grad import forks
from numba_grad.locks import new_lock

Result = TypeVar("Result")
State = TypeVar("State", bound=threading.local)

# Seconds after which who waits for another thread looks whether to go on waiting: what is to be
# raised in a thread wakes none but the main one.
_PATIENCE = 0.1

_carried: list[threading.local] = []


def carried(state: State) -> State:
    """What a thread hands on with its work, such as whether gradients are recorded."""
    _carried.append(state)
    return state


class _Here(threading.local):
    is_unbroken = False  # whether this thread does work of `unbroken`


_here = _Here()


class _Work:
    """Work that another thread does, in the modes and the context of this one."""

    def __init__(
        self,
        work: Callable[[], Any],
        *,
        is_unbroken: bool,
        within: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._work = work
        self._is_unbroken = is_unbroken
        self._within = within
        self._is_wanted = True
        self._modes = [(state, dict(vars(state))) for state in _carried]
        self._context = contextvars.copy_context()
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_done = False
        self._done = threading.Lock()
        self._done.acquire()
        self._thread = threading.Thread(target=self._run, name="numba_grad")

    def start(self) -> bool:
        """Whether there can be a thread for it: not if there are too many, or Python ends."""
        try:
            self._thread.start()
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        _here.is_unbroken = self._is_unbroken
        for state, values in self._modes:
            vars(state).update(values)
        with self._within():
            try:
                if self._is_wanted:
                    self._result = self._context.run(self._work)
            except BaseException as error:
                self._error = error
            self._is_done = True
            self._done.release()

    def is_alive(self) -> bool:
        """Not in a child of a fork, which has none of its parent's threads."""
        return self._thread.is_alive()

    def wait(self) -> None:
        # What is raised in the other thread may end it at any place.
        while not self._is_done and self._thread.is_alive():
            self._done.acquire(timeout=_PATIENCE)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def break_off(self, error: type[BaseException]) -> None:
        """Raise `error` in the other thread, and wait until it has gone that far."""
        self._is_wanted = False
        number = self._thread.ident
        if number is not None and not self._is_done:
            set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
            set_error(ctypes.c_ulong(number), ctypes.py_object(error))
            self.wait()


_running: dict[Hashable, _Work] = {}  # what `unbroken` has under way, by what it is
_running_lock = new_lock()


def unbroken(what: Hashable, work: Callable[[], Result]) -> Result:
    """The result of `work`, which runs to its end whatever is raised here meanwhile.

    What is raised ends the waiting, not the work; who asks for the same again while it is under way
    waits for that. `what` says what it is. Forks wait for it, too.
    """
    if _here.is_unbroken:
        return work()

    def until_done() -> Result:
        try:
            return work()
        finally:
            with _running_lock:
                if _running.get(what) is own:
                    del _running[what]

    own = _Work(until_done, is_unbroken=True, within=forks.held_off)
    with _running_lock:
        running = _running.get(what)
        if running is None or not running.is_alive():
            running = own if own.start() else None
            if running is not None:
                _running[what] = running
    if running is None:
        with forks.held_off():
            return work()
    running.wait()
    return running.result()


def on_fresh_stack(work: Callable[[], Result]) -> Result:
    """The result of `work`, which may recurse as if nothing had before.

    What is raised here meanwhile, such as KeyboardInterrupt, is raised there first.
    """
    other = _Work(work, is_unbroken=_here.is_unbroken)
    try:
        if not other.start():
            return work()
        other.wait()
    except BaseException as error:
        other.break_off(type(error))
        raise
    return other.result()


def imported(name: str, *also: str) -> ModuleType:
    """The module of this name: found, or imported whole, whatever signal comes meanwhile.

    `also`: others that whoever asks for it will ask for next. A thread for each of them would take
    as long as their import.
    """
    found = sys.modules.get(name)
    if found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False):
        return found
    return unbroken(("import", name), lambda: _imported_as_old(name, *also))


def _imported_as_old(name: str, *also: str) -> ModuleType:
    """Without a look for cycles at what the import makes. No fork comes meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        modules = [*map(importlib.import_module, (name, *also))]
        make_old()
        return modules[0]
    finally:
        if was_enabled:
            gc.enable()


def has_frozen_objects() -> bool:
    """Whether the program has called `gc.freeze`, which freezes all objects there are.

    A collection of Python 3.12 counts some hundred tuples of its own among them, the immortal ones.
    """
    return gc.get_freeze_count() > 1000


def make_old() -> None:
    """Put all objects among the old ones, without a look at them: after an import, whose objects
    live as long as the process.

    The compiler's modules are 17,000 objects. A collection would look at all of them soon after: 1
    to 3 ms, in somebody's first gradient.
    """
    if not has_frozen_objects():  # which it wants to stay so
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
