import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from numba_grad.compiler import build, cache, code_generation, parallel_build
from numba_grad.config import configure
from numba_grad.errors import KernelError
from numba_grad.runtime import loader

INT64 = ctypes.c_int64


@pytest.fixture(autouse=True)
def directory(tmp_path):
    path = tmp_path / "cache"
    with configure(cache_directory=path):
        yield path


def source_of_kernel(number):
    return f"""
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    for i in range(lo, hi):
        x[i] = exp(x[i]) * {number}.0
"""


def run(kernel, x):
    args = np.array([x.ctypes.data])
    function = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(kernel.address)
    function(args.ctypes.data, 0, len(x))


def start_process(directory, program, *, from_stdin=False):
    process = subprocess.Popen(
        [sys.executable] + ([] if from_stdin else ["-c", program]),
        env=os.environ
        | {"NUMBA_GRAD_CACHE_DIR": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if from_stdin:
        process.stdin.write(program)
        process.stdin.close()
        process.stdin = None
    return process


def output_of(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.split()


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process_id}/stat")  # an orphan may stay there after its end
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_kernels_compute():
    kernel = build.build(source_of_kernel(2))
    x = np.linspace(-1, 1, 37)
    y = x.copy()
    run(kernel, y)
    np.testing.assert_allclose(y, 2 * np.exp(x), rtol=1e-15)


def test_one_source_is_built_once():
    before = build.statistics().compilations
    first = build.build(source_of_kernel(3))
    again, other = build.build_all([source_of_kernel(3), source_of_kernel(4)])
    assert again is first
    assert other.address != first.address
    assert build.statistics().compilations == before + 2


def test_kernels_show_what_they_became():
    kernel = build.build(source_of_kernel(5))
    assert kernel.source == source_of_kernel(5)
    assert kernel.key in cache.path_of(kernel.key).name
    assert kernel.symbol in kernel.llvm
    assert kernel.symbol in kernel.asm


def test_signatures_and_names_make_different_functions():
    source = "def f(a):\n    return a + 1\n\ndef g(a):\n    return a * 3\n"
    f = build.build_function(source, "f", "int64(int64)")
    g = build.build_function(source, "g", "int64(int64)")
    real = build.build_function(source, "f", "float64(float64)")
    assert len({f.key, g.key, real.key}) == 3
    assert ctypes.CFUNCTYPE(INT64, INT64)(g.address)(7) == 21
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(real.address)(0.5) == 1.5


def symbols(code):
    """Name and section number of each symbol of an ELF object; section 0 is undefined."""
    header = struct.unpack_from("<16xHHIQQQIHHHHHH", code)
    offset, entry_size, count = header[5], header[10], header[11]
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", code, offset + k * entry_size) for k in range(count)
    ]
    [table] = [section for section in sections if section[1] == 2]
    names = sections[table[6]][4]
    found = []
    for place in range(table[4], table[4] + table[5], 24):
        name, _, _, section = struct.unpack_from("<IBBH", code, place)
        start = names + name
        found.append((code[start : code.index(b"\0", start)].decode(), section))
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF")
def test_objects_are_small_and_need_only_the_c_library():
    kernel = build.build(source_of_kernel(6))
    code = cache.read(kernel.key)
    assert len(code) < 8000
    undefined = {name for name, section in symbols(code) if section == 0 and name}
    assert undefined <= {"exp", "memcpy", "memset", "memmove"}
    assert kernel.symbol in {name for name, section in symbols(code) if section}


def test_compilation_is_deterministic_across_processes(tmp_path):
    # Counters inside Numba advance differently, as the second process compiles in another order.
    program = """
from numba_grad.compiler import build
source = {source!r}
for k in {order}:
    build.build(source.replace("7.0", f"{{k}}.0"))
"""
    contents = []
    for number, order in enumerate(([7, 8, 9], [9, 8, 7])):
        directory = tmp_path / str(number)
        output_of(start_process(directory, program.format(source=source_of_kernel(7), order=order)))
        contents.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert len(contents[0]) == 3
    assert contents[0] == contents[1]


def test_threads_may_build_at_once():
    before = build.statistics().compilations
    results = {}

    def work(thread):
        results[thread] = [build.build(source_of_kernel(20 + k)).address for k in range(4)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(addresses) for addresses in results.values()}) == 1
    assert build.statistics().compilations == before + 4


def test_numba_itself_works_beside_it():
    numba = pytest.importorskip("numba")

    @numba.njit
    def total(x):
        return np.sort(x)[1:].sum() + abs(x[0]) ** 2

    x = np.array([3.0, 1.0, 2.0])
    assert total(x) == 14.0
    build.build(source_of_kernel(30))
    assert numba.njit(total.py_func)(x.astype(np.float32)) == 14.0


def test_damaged_object_code_is_an_error_and_not_a_crash():
    with pytest.raises(KernelError, match="cannot link f"):
        loader.load([("f", b"\x7fELF not really")])


def test_loading_reports_missing_symbols():
    kernel = build.build(source_of_kernel(31))
    with pytest.raises(KernelError, match="cannot link another_name"):
        loader.load([("another_name", cache.read(kernel.key))])


# Worker processes.


def tasks(count, first=100):
    return [(source_of_kernel(first + k), "kernel", build.KERNEL_SIGNATURE) for k in range(count)]


def keys_of(some_tasks):
    return [build.Request(*task).key for task in some_tasks]


def test_workers_fill_the_cache_and_stop(monkeypatch):
    monkeypatch.setattr(parallel_build, "KERNELS_PER_WORKER", 2)
    work = tasks(4)
    with configure(threads=3), parallel_build.workers_for(work) as are_working:
        assert are_working
        wait_until(lambda: all(cache.contains(key) for key in keys_of(work)))
    before = build.statistics().compilations
    build.build_all([source for source, _, _ in work])
    assert build.statistics().compilations == before


def test_few_kernels_start_no_worker():
    with configure(threads=8), parallel_build.workers_for(tasks(3)) as are_working:
        assert not are_working


@pytest.mark.parametrize("failure", ["worker dies", "no Python", "no cache"])
def test_without_workers_the_process_compiles_alone(failure, monkeypatch, directory):
    monkeypatch.setattr(parallel_build, "KERNELS_PER_WORKER", 2)
    monkeypatch.setattr(cache, "_warned", {directory})
    if failure == "worker dies":
        monkeypatch.setattr(parallel_build, "_PROGRAM", "raise SystemExit(1)")
    elif failure == "no Python":
        monkeypatch.setattr(sys, "executable", None)
    else:
        directory.write_text("in the way")
    before = build.statistics().compilations
    first = {"worker dies": 200, "no Python": 210, "no cache": 220}[failure]
    with configure(threads=2):
        kernels = build.build_all([source for source, _, _ in tasks(4, first)])
    assert len({kernel.address for kernel in kernels}) == 4
    assert build.statistics().compilations == before + 4


PROGRAM = """
import os, subprocess, sys
from numba_grad.compiler import build, parallel_build
from numba_grad.config import config
config.threads = 2
parallel_build.KERNELS_PER_WORKER = 2
start = parallel_build._start
def announced(worker):
    process = start(worker)
    print(process.pid, flush=True)
    return process
parallel_build._start = announced
source = {source!r}
sources = [source.replace("7.0", f"{{k}}.0") for k in range({count})]
try:
    print(len(build.build_all(sources)))
except KeyboardInterrupt:
    print("interrupted", build.build(sources[0].replace("exp", "sin")).address > 0)
"""


@pytest.mark.parametrize("from_stdin", [False, True])
def test_workers_do_not_run_the_users_program_again(directory, from_stdin):
    program = PROGRAM.format(source=source_of_kernel(7), count=4)
    worker, count = output_of(start_process(directory, program, from_stdin=from_stdin))
    assert count == "4"
    assert not is_running(int(worker))


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_interrupt_leaves_a_usable_process_and_no_worker(directory):
    process = start_process(directory, PROGRAM.format(source=source_of_kernel(7), count=400))
    worker = int(process.stdout.readline())
    wait_until(lambda: directory.exists() and len(list(directory.iterdir())) > 3)
    process.send_signal(signal.SIGINT)
    assert output_of(process) == ["interrupted", "True"]
    assert not is_running(worker)


def test_an_interrupt_while_a_module_is_freed_is_not_lost(monkeypatch):
    object_code = code_generation.object_code

    class Interrupt:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    def interrupted(module):
        module.goes_with_it = Interrupt()
        return object_code(module)

    monkeypatch.setattr(code_generation, "object_code", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build.build(source_of_kernel(230))


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_a_handler_that_is_not_pythons_stays_in_place():
    libc = ctypes.CDLL(None)
    libc.signal.restype, libc.signal.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    handler = ctypes.cast(libc.abs, ctypes.c_void_p).value  # any C function of an integer
    before = libc.signal(signal.SIGINT, handler)
    try:
        kernel = build.build(source_of_kernel(231))
    finally:
        left = libc.signal(signal.SIGINT, before)
    assert left == handler
    assert kernel.address


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_workers_of_a_killed_process_end(directory):
    process = start_process(directory, PROGRAM.format(source=source_of_kernel(7), count=400))
    worker = int(process.stdout.readline())
    wait_until(lambda: directory.exists() and len(list(directory.iterdir())) > 3)
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(worker))
