"""Work that no signal breaks off, and work on a stack of its own."""

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from numba_grad import forks, fresh_thread
from numba_grad.fresh_thread import carried, on_fresh_stack, unbroken
from tests.interleaving import PACKAGE
from tests.processes import run_python

MAIN = threading.main_thread()
LONG = 60  # seconds, for what does not take long


class Interrupt(Exception):
    pass


@contextlib.contextmanager
def raised_at(number: int) -> Iterator[None]:
    def handle(number: int, frame: object) -> None:
        raise Interrupt

    previous = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, previous)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM, signal.SIGTERM])
def test_a_signal_ends_the_waiting_and_not_the_work(number):
    may_go_on, is_done = threading.Event(), threading.Event()
    runs = []

    def work():
        runs.append(threading.current_thread())
        if len(runs) == 1:
            signal.pthread_kill(MAIN.ident, number)
        may_go_on.wait(LONG)
        is_done.set()
        return "done"

    with raised_at(number), pytest.raises(Interrupt):
        unbroken("this work", work)
    assert not is_done.is_set()
    again = []
    asked = threading.Thread(target=lambda: again.append(unbroken("this work", work)))
    asked.start()
    may_go_on.set()
    asked.join(LONG)
    assert again == ["done"] and is_done.wait(LONG)
    runs[0].join(LONG)
    assert unbroken("this work", lambda: "anew") == "anew"


def test_what_work_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        unbroken("a mistake", lambda: 1 / 0)
    with pytest.raises(SystemExit):
        on_fresh_stack(sys.exit)
    assert not fresh_thread._running


def test_work_within_work_stays_where_it_is():
    def work():
        return unbroken("the same", threading.get_ident) == threading.get_ident()

    assert unbroken("the same", work)


def test_work_goes_on_here_where_there_can_be_no_other_thread(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert unbroken("work", threading.get_ident) == threading.get_ident()
    assert on_fresh_stack(threading.get_ident) == threading.get_ident()
    assert not fresh_thread._running


def test_a_fresh_stack_has_the_modes_of_the_one_before(monkeypatch):
    class Mode(threading.local):
        value = 0

    monkeypatch.setattr(fresh_thread, "_carried", list(fresh_thread._carried))
    mode = carried(Mode())
    mode.value = 3
    with np.errstate(over="raise"):
        found = on_fresh_stack(lambda: (mode.value, np.geterr()["over"], threading.get_ident()))
    assert found[:2] == (3, "raise") and found[2] != threading.get_ident()


def test_what_threads_have_of_their_own_is_handed_on():
    own = {  # of a stack, or written anew before each use
        "_Here",
        "_Nesting",
        "_Current",
        "_LaunchWords",
        "_Taken",
    }
    for path in Path(PACKAGE).rglob("*.py"):
        text = path.read_text()
        for name in re.findall(r"class (\w+)\(threading\.local\)", text):
            assert name in own or f"carried({name}())" in text, f"{path}: {name}"


def test_an_interrupt_goes_through_to_a_fresh_stack():
    """To the innermost one first, so that each cleans up before the one that waits for it."""
    ended = []

    def endless():
        signal.pthread_kill(MAIN.ident, signal.SIGINT)
        try:
            while True:
                pass
        finally:
            ended.append("inner")

    def outer():
        try:
            on_fresh_stack(endless)
        finally:
            ended.append("outer")

    with pytest.raises(KeyboardInterrupt):
        on_fresh_stack(outer)
    assert ended == ["inner", "outer"]


def test_recursion_begins_anew():
    def recurse(depth):
        return depth and recurse(depth - 1)

    def nearly_too_deep(depth):
        return on_fresh_stack(lambda: recurse(500)) if depth == 0 else nearly_too_deep(depth - 1)

    assert nearly_too_deep(600) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_what_its_parent_has_under_way(monkeypatch):
    monkeypatch.setattr(forks, "_PATIENCE", 0.05)  # the fork itself waits in vain
    may_go_on, is_there = threading.Event(), threading.Event()

    def hold():
        is_there.set()
        may_go_on.wait(LONG)

    thread = threading.Thread(target=lambda: unbroken("held", hold))
    thread.start()
    is_there.wait(LONG)
    with pytest.warns(RuntimeWarning, match="in the middle of it"):
        child = os.fork()
        if child == 0:
            os._exit(unbroken("held", lambda: 7))
    may_go_on.set()
    thread.join(LONG)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# An interrupt at many places of the imports that come with the first compilation, in one process
# that has neither a cache nor Numba yet. The modules say themselves when they are imported.
INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
import numba_grad as ng

class Interrupt(BaseException): pass

def interrupt(number, frame):
    was_handled.set()
    raise Interrupt

class Finder:
    def find_spec(self, name, path=None, target=None):
        places.append(name)
        if len(places) % 16 == 0:
            was_handled.clear()
            signal.pthread_kill(threading.main_thread().ident, numbers[len(places) // 16 % 3])
            was_handled.wait(20)

numbers = [signal.SIGINT, signal.SIGALRM, signal.SIGTERM]
for number in numbers:
    signal.signal(number, interrupt)
places, was_handled = [], threading.Event()
sys.meta_path.insert(0, Finder())
interruptions = 0

def until_it_works(work):
    global interruptions
    while True:
        try:
            result = work()
            del sys.meta_path[0]
            return result
        except Interrupt:
            interruptions += 1

x = np.array([0.5, 2.0])
assert "numba" not in sys.modules
"""
WORK = {
    "numba": """
f = ng.jit(ng.value_and_grad(lambda x: (np.exp(x) * x).sum()))
value, gradient = until_it_works(lambda: f(x))
np.testing.assert_allclose(gradient, np.exp(x) * (1 + x))
assert "numba" in sys.modules and interruptions > 10
others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
for thread in others:  # compiling for a call that was interrupted: it ends what it is at
    thread.join(60)
assert not any(t.is_alive() for t in others)
import numba
assert numba.njit(lambda x: np.sort(x)[0] + x.sum())(x) == 3.0
""",
    "scipy": """
y = until_it_works(lambda: ng.special.gammainc(2.0, ng.tensor(x)).numpy())
np.testing.assert_allclose(y, 1 - np.exp(-x) * (1 + x))
assert "scipy.special" in sys.modules and interruptions > 10
import scipy.special
np.testing.assert_allclose(scipy.special.gammainc(2.0, x), y)
""",
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", WORK)
def test_an_import_that_is_interrupted_is_whole_afterwards(what, tmp_path):
    run_python(INTERRUPTED + WORK[what], NUMBA_GRAD_CACHE_DIR=tmp_path / "cache")
