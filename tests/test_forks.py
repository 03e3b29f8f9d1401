"""Forked processes: nothing is shared, nothing stays half done, nobody waits for ever."""

import contextlib
import gc
import os
import signal
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng
from numba_grad import forks
from numba_grad.graph.collection import without_collection
from numba_grad.locks import new_lock
from tests.processes import run_python

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

REPOSITORY = Path(__file__).resolve().parent.parent


def status_of_child(work: Callable[[], object], seconds: int = 60) -> int:
    """The exit status of a forked child that does `work`: 0, 1 if that raises, -14 if it hangs."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def in_another_thread(context: contextlib.AbstractContextManager[object]) -> Iterator[None]:
    """Another thread is inside of `context` meanwhile."""
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with context:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(60)
    try:
        yield
    finally:
        leave.set()
        thread.join()


# Memory


def test_what_a_child_writes_its_parent_does_not_see():
    double = ng.jit(lambda x: x * 2)
    sizes = (100, 100_000, 1_000_000)  # of NumPy, of the pool, in huge pages
    results = [double(np.ones(n)) for n in sizes]

    def overwrite():
        for y in results:
            y[:] = -1

    assert status_of_child(overwrite) == 0
    for y in results:
        np.testing.assert_array_equal(y, 2)


def test_children_compute_while_their_parent_does():
    gradient = ng.jit(ng.grad(lambda x: np.sum(np.sin(x) * np.exp(-x) + x / np.sum(x**2))))
    inputs = [np.linspace(0.5, k + 1, 100_000) for k in range(4)]
    expected = [gradient(x) for x in inputs]

    def compute():
        for _ in range(5):
            for x, y in zip(inputs, expected, strict=True):
                np.testing.assert_array_equal(gradient(x), y)

    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                compute()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    compute()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]


# What is waited for


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a fork has begun to wait."""
    event = threading.Event()
    monkeypatch.setattr(forks, "_foreign", [*forks._foreign, event.set])
    return event


def test_a_fork_waits_for_work_that_a_child_could_not_go_on_with(begun):
    inside, done = threading.Event(), []

    def work():
        with forks.held_off():
            inside.set()
            begun.wait(60)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)

    def look():
        assert done

    assert status_of_child(look) == 0
    thread.join()


def test_a_fork_inside_of_such_work_does_not_wait_for_itself():
    def work_again():
        with forks.held_off():
            pass

    with forks.held_off():
        assert status_of_child(work_again) == 0
    with in_another_thread(contextlib.nullcontext()):
        assert status_of_child(work_again) == 0


def test_a_fork_lets_work_begin_that_it_would_wait_for_in_vain(begun, monkeypatch):
    lock, inside = new_lock(), threading.Event()
    forks.wait_for(lambda: lock)  # undone with `begun`

    def work():
        with lock:
            inside.set()
            begun.wait(60)
            with forks.held_off():
                pass

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    assert status_of_child(lambda: None) == 0
    thread.join()


def test_a_fork_does_not_wait_for_ever(begun, monkeypatch):
    lock = threading.RLock()
    forks.wait_for(lambda: lock)
    monkeypatch.setattr(forks, "_FIRST_TRY", 0.01)
    monkeypatch.setattr(forks, "_PATIENCE", 0.05)

    def take():
        with lock, forks.held_off():
            pass

    with in_another_thread(lock), pytest.warns(RuntimeWarning, match="in the middle of it"):
        assert status_of_child(take) == 0
    with in_another_thread(forks.held_off()), pytest.warns(RuntimeWarning, match="compiling"):
        assert status_of_child(take) == 0
    assert status_of_child(take) == 0


def test_collection_paused_by_another_thread_goes_on_in_a_child():
    def look():
        assert gc.isenabled()

    def look_at_own():
        assert not gc.isenabled()

    paused, leave = threading.Event(), threading.Event()

    def pause():
        paused.set()
        leave.wait(60)

    thread = threading.Thread(target=without_collection, args=(pause,))
    thread.start()
    assert paused.wait(60)
    assert status_of_child(look) == 0
    leave.set()
    thread.join()
    assert without_collection(status_of_child, look_at_own) == 0
    assert gc.isenabled()


def test_collection_paused_as_the_pause_of_another_thread_ends_goes_on_in_a_child(monkeypatch):
    def look():
        assert gc.isenabled()

    paused, leave = threading.Event(), threading.Event()

    def pause():
        paused.set()
        leave.wait(60)

    thread = threading.Thread(target=without_collection, args=(pause,))
    enable = gc.enable

    def enable_and_wait_for_the_other():
        enable()
        monkeypatch.undo()
        thread.start()
        assert paused.wait(60)

    monkeypatch.setattr(gc, "enable", enable_and_wait_for_the_other)
    without_collection(lambda: None)
    assert status_of_child(look) == 0
    leave.set()
    thread.join()
    assert gc.isenabled()


# Whole processes


def run(code: str, *options: str, **environment: str) -> str:
    """What a fresh process writes; no warning may be given."""
    options = ("-W", "error", *options)
    return run_python(code, options=options, seconds=100, quietly=True, **environment)


@pytest.mark.thorough
def test_children_compile_that_are_forked_while_other_threads_do(tmp_path):
    code = """
        import os, signal, threading, time
        import numpy as np
        import numba_grad as ng

        def check(number):
            def f(x):  # a kernel of its own for each number
                for bit in range(6):
                    x = np.sin(x) if number >> bit & 1 else x * x
                return np.sum(x)
            y, g = ng.jit(ng.value_and_grad(f))(x)
            assert abs(y - f(x)) < 1e-12
            change = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
            assert abs(np.sum(g) - change) < 1e-8

        def compile_ours():
            for number in range(40):
                if not is_over:
                    check(number)
                    is_imported.set()

        def compile_users():
            is_imported.wait()  # two threads that import Numba at once get it half made
            import numba
            while not is_over:
                numba.njit("int64(int64)")(lambda n: n + 1)
                time.sleep(0.005)  # Numba's lock is not fair

        x = np.array([0.5, 0.75])
        is_over, is_imported = False, threading.Event()
        threads = [threading.Thread(target=t) for t in (compile_ours, compile_users)]
        for thread in threads:
            thread.start()
        statuses = []
        for number in range(60, 64):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                check(number)
                os._exit(7)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        is_over = True
        for thread in threads:
            thread.join()
        print(statuses)
    """
    output = run(code, "-W", "ignore::DeprecationWarning", NUMBA_GRAD_CACHE_DIR=str(tmp_path))
    assert output == f"{[7] * 4}\n"


@pytest.mark.thorough
def test_a_fork_waits_for_what_is_imported_to_compile(tmp_path):
    code = """
        import importlib.abc, os, signal, sys, threading, time
        import numpy as np
        import numba_grad as ng

        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.startswith("numba_grad.compiler."):
                    is_importing.set()
                    time.sleep(0.05)

        is_importing = threading.Event()
        sys.meta_path.insert(0, Slow())
        double = ng.jit(lambda x: 2.0 * x)
        thread = threading.Thread(target=double, args=(np.ones(3),))
        thread.start()
        is_importing.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(int(double(np.ones(3))[0]))
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    output = run(code, "-W", "ignore::DeprecationWarning", NUMBA_GRAD_CACHE_DIR=str(tmp_path))
    assert output == "2\n"


@pytest.mark.thorough
def test_pools_of_processes(tmp_path):
    script = tmp_path / "pools.py"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing, sys
            from concurrent.futures import ThreadPoolExecutor
            import numpy as np
            import numba_grad as ng

            X = np.linspace(0.5, 2.0, 100_000)
            gradient = ng.jit(ng.grad(lambda x: np.sum(np.sin(x) * np.exp(-x))))

            def error(shift):
                x = X + shift
                y = gradient(x)
                return float(np.abs(y - (np.cos(x) - np.sin(x)) * np.exp(-x)).max())

            def pool(method):
                with multiprocessing.get_context(method).Pool(2) as workers:
                    theirs = workers.map_async(error, range(6))
                    ours = [error(shift) for shift in range(6)]
                    return max(*ours, *theirs.get(60)) < 1e-12

            if __name__ == "__main__":
                print(error(0) < 1e-12, pool("fork"), pool("spawn"), pool("forkserver"))
                with ThreadPoolExecutor(2) as threads:
                    print(*threads.map(pool, ["fork", "fork"]))
        """)
    )
    options = ("-W", "error", "-W", "ignore::DeprecationWarning")
    output = run_python(script, options=options, seconds=100)
    assert output == "True True True True\nTrue True\n"


@pytest.mark.thorough
def test_children_of_a_process_that_multiplies_matrices_in_other_threads_can_do_so():
    code = """
        import os, signal, threading
        import numpy as np
        import numba_grad as ng

        a = np.linspace(0, 1, 200 * 200).reshape(200, 200)
        gradient = ng.jit(ng.grad(lambda a: np.sum(a @ a @ a)))
        expected, product = gradient(a), a @ a

        def keep_busy():
            while True:
                gradient(a)

        for _ in range(2):
            threading.Thread(target=keep_busy, daemon=True).start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                np.testing.assert_array_equal(gradient(a), expected)
                np.testing.assert_allclose(a @ a, product, rtol=1e-14)  # by BLAS's own threads
                os._exit(7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 7, status
        print("done", flush=True)
        os._exit(0)
    """
    assert run(code, "-W", "ignore::DeprecationWarning") == "done\n"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no list of threads")
def test_a_process_that_forks_has_one_thread_and_gets_the_others_back():
    code = """
        import os
        counts = []
        os.register_at_fork(before=lambda: counts.append(len(os.listdir("/proc/self/task"))))

        import numpy as np
        import numba_grad as ng
        from numba_grad.compiler.building.engine_build import native_engine

        ng.configure(threads=3)
        x = np.linspace(0, 1, 1_000_000)
        f = ng.jit(lambda x: np.sin(x))
        expected = f(x)
        assert len(native_engine().threads._handles) == 2
        for _ in range(3):
            if os.fork() == 0:
                np.testing.assert_array_equal(f(x), expected)
                os._exit(0)
            assert os.wait()[1] == 0
            np.testing.assert_array_equal(f(x), expected)
            assert len(native_engine().threads._handles) == 2
        print(counts)
    """
    assert run(code, OPENBLAS_NUM_THREADS="1") == "[1, 1, 1]\n"
