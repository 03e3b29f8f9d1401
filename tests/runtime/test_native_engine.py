"""Replay: results, threads, errors, interruption, fork, exit."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from numba_grad.compiler.building import engine_build
from numba_grad.compiler.building.build import build, build_requests
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.config import configure
from numba_grad.errors import InternalError
from numba_grad.runtime import library
from numba_grad.runtime.native_engine import (
    RUNS_BETWEEN_LOOKS,
    Activation,
    EntryPoints,
    NativeEngine,
    RecordWord,
)
from numba_grad.runtime.plan import SERIAL, ErrorSite, Plan, PlanBuilder, Tasks
from numba_grad.runtime.threads import get_num_threads, set_num_threads
from tests import processes
from tests.threads import run_in_threads

FLOAT = np.dtype(float)

# out[i] = factor * x[i] + 1
SCALE = """\
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    out = buffer(args, 1, float64)
    factor = float64(integer(args, 2))
    for i in range(lo, hi):
        out[i] = factor * x[i] + 1.0
"""

# Takes about 20 ns for each task.
SLOW = """\
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    out = buffer(args, 1, float64)
    for i in range(lo, hi):
        v = x[i]
        for k in range(400):
            v = v * 0.5 + 1.0
        out[i] = v
"""


def scale_plan(n: int, *, grain: int = SERIAL, steps: int = 1) -> Plan:
    builder = PlanBuilder(1, [((n,), FLOAT)])
    kernel = builder.kernel(build(SCALE))
    place = builder.reserve(8 * n)
    source = (builder.input(0), 0)
    for number in range(steps):
        target = (builder.output(0), 0) if number == steps - 1 else (builder.arena, place)
        builder.step(kernel, [source, target, 2], Tasks(n, grain))
        source = target
    return builder.build()


def slow_plan(n: int, *, grain: int = SERIAL, steps: int = 1) -> Plan:
    builder = PlanBuilder(1, [((n,), FLOAT)])
    kernel = builder.kernel(build(SLOW))
    for _ in range(steps):
        builder.step(kernel, [(builder.input(0), 0), (builder.output(0), 0)], Tasks(n, grain))
    return builder.build()


# Does as many rounds as x[0] says.
ROUNDS = """\
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    out = buffer(args, 1, float64)
    v = 1.0
    for k in range(int64(x[0])):
        v = v * 0.5 + 1.0
    out[0] = v
"""


def rounds_plan(*symbols: str) -> Plan:
    builder = PlanBuilder(1, [((1,), FLOAT)])
    words = [(builder.input(0), 0), (builder.output(0), 0)]
    builder.step(
        builder.kernel(build(ROUNDS)), [*words, *((builder.symbol(name), 0) for name in symbols)]
    )
    return builder.build()


def slow_result(x: np.ndarray) -> np.ndarray:
    for _ in range(400):
        x = x * 0.5 + 1.0
    return x


def test_a_run_computes() -> None:
    plan = scale_plan(10, steps=3)
    for x in (np.arange(10.0), np.ones(10)):
        [result] = native_engine().run(plan, [x])
        assert_array_equal(result, 8 * x + 7)


def test_outputs_are_new_each_time() -> None:
    plan = scale_plan(4)
    first, second = (native_engine().run(plan, [np.ones(4)])[0] for _ in range(2))
    assert not np.shares_memory(first, second)


def test_a_large_arena_is_borrowed() -> None:
    plan = scale_plan(50_000, steps=4)
    x = np.arange(50_000.0)
    for _ in range(3):
        [result] = native_engine().run(plan, [x])
        assert_array_equal(result, 16 * x + 15)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 7, 1000, 100_003])
def test_chunks_cover_all_tasks_once(threads: int, n: int) -> None:
    x = np.arange(float(n))
    with configure(threads=threads):
        for _ in range(20):
            [result] = native_engine().run(scale_plan(n, grain=7, steps=5), [x])
            assert_array_equal(result, 32 * x + 31)


def test_many_parallel_steps_follow_each_other() -> None:
    plan = scale_plan(64, grain=4, steps=2001)
    program = native_engine().program(plan)
    with configure(threads=3):
        for _ in range(20):
            [result] = program.run(np.full(64, -1.0))
            assert_array_equal(result, np.full(64, -1.0))


def test_threads_sleep_and_wake() -> None:
    plan = scale_plan(1000, grain=10)
    x = np.arange(1000.0)
    with configure(threads=2):
        for _ in range(10):
            [result] = native_engine().run(plan, [x])
            assert_array_equal(result, 2 * x + 1)
            time.sleep(0.003)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs both ways of waiting")
def test_waiting_without_futexes() -> None:
    functions = build_requests(engine_build.engine_requests())
    engine = NativeEngine(EntryPoints(*[f.address for f in functions]), use_futex=False)
    plan = scale_plan(1000, grain=10, steps=50)
    x = np.full(1000, -1.0)
    with configure(threads=3):
        for _ in range(10):
            assert_array_equal(engine.run(plan, [x])[0], x)
            time.sleep(0.002)
    engine.threads.resize(1)


def test_python_threads_run_one_plan_at_once() -> None:
    plans = [scale_plan(5_000, grain=100, steps=6), slow_plan(3_000, grain=50)]
    x, y = np.arange(5000.0), np.linspace(0, 1, 3000)
    expected = [64 * x + 63, slow_result(y)]

    def work(_: int) -> None:
        for _ in range(40):
            for plan, given, right in zip(plans, (x, y), expected, strict=True):
                np.testing.assert_array_equal(native_engine().run(plan, [given])[0], right)

    with configure(threads=2):
        run_in_threads(work, range(4))


def test_other_python_threads_go_on_during_a_run() -> None:
    plan = slow_plan(400_000)
    ticks = []
    runner = threading.Thread(target=native_engine().run, args=(plan, [np.ones(400_000)]))
    runner.start()
    while runner.is_alive():
        ticks.append(time.monotonic())
        time.sleep(0.001)
    assert len(ticks) > 5


def keeps_lock(plan: Plan, x: np.ndarray) -> bool:
    """Whether the next run of a plan will keep the GIL, after one on `x`."""
    native_engine().run(plan, [x])
    [activation] = native_engine().program(plan)._free
    return activation.record[RecordWord.KEEPS_LOCK] != 0


def test_a_plan_that_was_short_does_not_keep_the_gil_for_good() -> None:
    plan = rounds_plan()
    short, long = np.ones(1), np.full(1, 100_000.0)  # some 0.2 ms
    assert any(keeps_lock(plan, short) for _ in range(1000))
    assert not all(keeps_lock(plan, long) for _ in range(RUNS_BETWEEN_LOOKS))
    assert not keeps_lock(plan, long)
    assert any(keeps_lock(plan, short) for _ in range(1000))


def test_a_plan_that_runs_a_users_code_never_keeps_the_gil() -> None:
    library.give_address("user.test_engine", 8)
    plan = rounds_plan("user.test_engine")
    assert not any(keeps_lock(plan, np.ones(1)) for _ in range(100))


def test_the_last_part_of_a_run_does_not_say_how_long_it_took() -> None:
    plan = slow_plan(1, steps=100)
    activation = Activation(native_engine().program(plan))
    activation.record[RecordWord.SLICE] = 1  # comes back after the first steps
    activation.record[RecordWord.SHORT] = 1 << 40
    x, out = np.ones(1), np.empty(1)
    assert activation.entry(x, out) is not None
    activation.record[RecordWord.SLICE] = 1 << 40
    assert activation.entry(x, out) is None
    assert activation.record[RecordWord.KEEPS_LOCK] == 0
    assert activation.entry(x, out) is None
    assert activation.record[RecordWord.KEEPS_LOCK] == 1


def test_number_of_threads_while_running() -> None:
    plan = scale_plan(3_000, grain=30, steps=20)
    x = np.full(3_000, -1.0)
    before = get_num_threads()
    stop = threading.Event()
    failures = []

    def work() -> None:
        while not stop.is_set():
            if not np.array_equal(native_engine().run(plan, [x])[0], x):
                failures.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for count in (1, 3, 2, 4, 1, 2):
            set_num_threads(count)
            assert get_num_threads() == count
            time.sleep(0.005)
    finally:
        stop.set()
        thread.join()
        set_num_threads(before)
    assert not failures


@pytest.mark.parametrize("count", [0, -1, 10_000])
def test_impossible_numbers_of_threads(count: int) -> None:
    with pytest.raises(ValueError, match="set_num_threads"):
        set_num_threads(count)


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        [np.ones(4), np.ones(4)],
        [[1.0, 2.0, 3.0, 4.0]],
        [np.ones(8)[::2]],
        [None],
    ],
)
def test_what_is_no_contiguous_array_is_refused(inputs: list) -> None:
    plan = scale_plan(4)
    with pytest.raises(InternalError, match="native engine: these arrays cannot be run on"):
        native_engine().run(plan, inputs)
    assert_array_equal(native_engine().run(plan, [np.ones(4)])[0], np.full(4, 3.0))


def test_recorded_errors_raise_and_are_forgotten() -> None:
    source = """\
def kernel(args, lo, hi):
    index = buffer(args, 0, int64)
    out = buffer(args, 1, int64)
    for i in range(lo, hi):
        out[i] = check_index(index[i], 10, integer(args, 2), integer(args, 3))
"""
    builder = PlanBuilder(1, [((3,), np.dtype(np.int64))])
    builder.site(ErrorSite("index", "other"))
    site = builder.site(ErrorSite("index", "gather", 2))
    words = [(builder.input(0), 0), (builder.output(0), 0), (builder.errors, 0), site]
    builder.step(builder.kernel(build(source)), words, Tasks(3))
    plan = builder.build()
    message = "^gather: index -11 is out of bounds for axis 2 with size 10$"
    with pytest.raises(IndexError, match=message):
        native_engine().run(plan, [np.array([0, -11, 99])])
    [result] = native_engine().run(plan, [np.array([0, -10, 9])])
    assert_array_equal(result, [0, 0, 9])


def test_profile_counts_each_step() -> None:
    builder = PlanBuilder(1, [((20_000,), FLOAT)])
    slow, scale = builder.kernel(build(SLOW)), builder.kernel(build(SCALE))
    words = [(builder.input(0), 0), (builder.output(0), 0), 1]
    builder.step(slow, words, Tasks(20_000))
    builder.step(scale, words, Tasks(100))
    seconds = native_engine().profile(builder.build(), [np.ones(20_000)], repeats=3)
    assert seconds.shape == (2,)
    assert seconds[0] > 1e-4
    assert seconds[0] > seconds[1] > 0


def test_interruption_between_steps() -> None:
    # Some 12 s of work, in steps of 4 ms.
    plan = slow_plan(200_000, steps=3000)
    x = np.ones(200_000)
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        native_engine().run(plan, [x])
    assert time.monotonic() - start < 5
    timer.join()
    assert_array_equal(native_engine().run(scale_plan(4), [np.ones(4)])[0], np.full(4, 3.0))
    with configure(threads=2):
        [result] = native_engine().run(slow_plan(1000, grain=10), [x[:1000]])
        assert_array_equal(result, slow_result(x[:1000]))


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
        import os, sys, threading, time
        sys.path[:0] = sys.argv[1:]
        import numpy as np
        from test_native_engine import native_engine, scale_plan, configure
        from numba_grad.runtime.buffers import allocate

        plan = scale_plan(3000, grain=10, steps=30)
        x = np.full(3000, -1.0)
        configure(threads=3)
        assert (native_engine().run(plan, [x])[0] == x).all()

        def keep_busy():
            while True:
                native_engine().run(plan, [x])

        threading.Thread(target=keep_busy, daemon=True).start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                allocate((100_000,), np.dtype(float))
                for _ in range(5):
                    assert (native_engine().run(plan, [x])[0] == x).all()
                assert native_engine().threads._pool is not None
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print("done")
    """
    assert run_python(code) == "done\n"


def test_exit_does_not_hang() -> None:
    code = """
        import sys, threading
        sys.path[:0] = sys.argv[1:]
        import numpy as np
        from test_native_engine import native_engine, scale_plan, slow_plan, configure

        configure(threads=4)
        native_engine().run(scale_plan(3000, grain=10), [np.ones(3000)])
        long = slow_plan(100_000, grain=100, steps=10_000)
        threading.Thread(
            target=native_engine().run, args=(long, [np.ones(100_000)]), daemon=True
        ).start()
        print("done", flush=True)
    """
    assert run_python(code) == "done\n"


@pytest.mark.thorough
def test_pythons_development_mode_finds_nothing() -> None:
    code = """
        import numpy as np
        import numba_grad as ng

        x = ng.tensor([0.5, 1.5, 2.5], requires_grad=True)
        y = (np.exp(x) * np.sin(x)).sum() + np.fft.fft(x).real.sum() + np.linalg.norm(x)
        y.backward()
        f = ng.jit(ng.value_and_grad(lambda x: np.sum(np.sort(x) ** 2)))
        print(x.grad.shape, f(np.ones(3))[1])
        ng.configure(threads=2)
        print(np.asarray(ng.jit(lambda x: np.sin(x))(np.zeros(1_000_000))).sum())
    """
    assert run_python(code, "-X", "dev", "-W", "error") == "(3,) [2. 2. 2.]\n0.0\n"


def run_python(code: str, *options: str) -> str:
    """The output of a fresh process, which must end well within a minute."""
    here = str(Path(__file__).resolve().parent)
    options = options or ("-W", "ignore::DeprecationWarning")
    return processes.run_python(code, here, options=options, seconds=60)
