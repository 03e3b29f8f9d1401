import ctypes
import os
import signal
import struct
import sys
import threading

import numpy as np
import pytest

from numba_grad.compiler import code_generation
from numba_grad.compiler.building import build, cache, processor
from numba_grad.config import configure
from numba_grad.errors import KernelError
from numba_grad.runtime import loader
from tests.processes import output_of, run_python, start, wait_until
from tests.threads import run_in_threads

pytestmark = pytest.mark.usefixtures("directory")

INT64 = ctypes.c_int64


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
    f = build.build_requests([build.KernelRequest(source, "f", "int64(int64)")])[0]
    g = build.build_requests([build.KernelRequest(source, "g", "int64(int64)")])[0]
    real = build.build_requests([build.KernelRequest(source, "f", "float64(float64)")])[0]
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


@pytest.mark.thorough
def test_compilation_is_deterministic_across_processes(tmp_path):
    # Counters inside Numba advance differently, as the second process compiles in another order.
    program = """
from numba_grad.compiler.building import build
source = {source!r}
for k in {order}:
    build.build(source.replace("7.0", f"{{k}}.0"))
"""
    contents = []
    for number, order in enumerate(([7, 8, 9], [9, 8, 7])):
        directory = tmp_path / str(number)
        run_python(
            program.format(source=source_of_kernel(7), order=order), NUMBA_GRAD_CACHE_DIR=directory
        ).split()
        contents.append({path.name: path.read_bytes() for path in directory.iterdir()})
    # With what LLVM says of the processor.
    assert len(contents[0]) == 3 + (processor.running_system() is not None)
    assert contents[0] == contents[1]


def test_threads_may_build_at_once():
    before = build.statistics().compilations
    results = {}

    def work(thread):
        results[thread] = [build.build(source_of_kernel(20 + k)).address for k in range(4)]

    run_in_threads(work, range(6))
    assert len({tuple(addresses) for addresses in results.values()}) == 1
    assert build.statistics().compilations == before + 4


@pytest.mark.thorough
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
        loader.load([(["f"], b"\x7fELF not really")])


def test_loading_reports_missing_symbols():
    kernel = build.build(source_of_kernel(31))
    with pytest.raises(KernelError, match="cannot link another_name"):
        loader.load([(["another_name"], cache.read(kernel.key))])


def test_objects_that_have_a_kernel_in_common_are_loaded_together(tmp_path):
    """As two processes leave them that compiled it at the same time, each with others."""
    a, b, c = [build.KernelRequest(source_of_kernel(k), is_quick=True) for k in (32, 33, 34)]
    with configure(cache_directory=tmp_path / "one"):
        first = build._object_codes([a, b])
    with configure(cache_directory=tmp_path / "other"):
        second = build._object_codes([b, c])
    assert first[a.key] == first[b.key] != second[b.key] == second[c.key]
    symbols = [build._symbol(request.key) for request in (a, b, c)]
    addresses = loader.load([(symbols[:2], first[a.key]), (symbols[2:], second[c.key])])
    assert len(set(addresses.values())) == 3


def test_what_calls_scipy_shares_no_object_with_others(tmp_path):
    own, other = [
        build.KernelRequest(source_of_kernel(k).replace("exp", name), is_quick=True)
        for k, name in ((35, "exp1"), (36, "exp"))
    ]
    with configure(cache_directory=tmp_path):
        codes = build._object_codes([own, other])
    assert b"scipy_special" in codes[own.key]
    assert b"scipy_special" not in codes[other.key]


# Threads.


def sources_from(first, count):
    """Each is a module of its own: what calls functions of its own is left to LLVM."""
    return [source_of_kernel(first + k).replace("exp", "bessel_i0") for k in range(count)]


class Places:
    """How many threads are in a place at once, at most."""

    def __init__(self, wanted):
        self.most = self._count = 0
        self._wanted = wanted
        self._lock = threading.Lock()
        self._is_full = threading.Event()

    def wait(self, seconds):
        with self._lock:
            self._count += 1
            self.most = max(self.most, self._count)
        if self.most >= self._wanted:
            self._is_full.set()
        self._is_full.wait(seconds)
        with self._lock:
            self._count -= 1


@pytest.mark.thorough(but="^2$")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_as_many_threads_compile_as_the_setting_says(threads, monkeypatch):
    """Inside of LLVM: nothing there waits for who is inside of it already."""
    places = Places(wanted=threads)
    without_lock = code_generation._without_lock

    def counted(name):
        function = without_lock(name)
        assert function.argtypes

        def call(*arguments):
            places.wait(60)
            return function(*arguments)

        return call

    monkeypatch.setattr(code_generation, "_without_lock", counted)
    before = build.statistics().compilations
    with configure(threads=threads):
        kernels = build.build_all(sources_from(100 + 10 * threads, 5))
    assert places.most == threads
    assert len({kernel.address for kernel in kernels}) == 5
    assert build.statistics().compilations == before + 5


def test_object_code_does_not_depend_on_the_number_of_threads(tmp_path):
    sources = [
        source_of_kernel(140),
        source_of_kernel(141).replace("exp", "bessel_i0"),
        source_of_kernel(142).replace("exp", "tanh"),
        source_of_kernel(143).replace("x[i] =", "x[i // 3] ="),
    ]
    contents = []
    for threads, order in ((1, sources), (4, sources), (3, sources[::-1])):
        with configure(threads=threads, cache_directory=tmp_path / str(threads)):
            codes = build._object_codes([build.KernelRequest(source) for source in order])
        contents.append(codes)
    assert len(contents[0]) == 4
    assert contents[0] == contents[1] == contents[2]


def test_a_kernel_that_fails_in_another_thread_fails_here():
    wrong = source_of_kernel(150).replace("exp", "no_such_function")
    with configure(threads=3), pytest.raises(KernelError, match="no_such_function"):
        build.build_all([*sources_from(151, 3), wrong, *sources_from(154, 3)])


def test_without_another_thread_this_one_compiles(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with configure(threads=3):
        assert len({kernel.address for kernel in build.build_all(sources_from(160, 3))}) == 3


def test_who_is_inside_of_numba_compiles_alone():
    compiler_lock = pytest.importorskip("numba.core.compiler_lock")
    with compiler_lock.global_compiler_lock, configure(threads=3):
        assert len({kernel.address for kernel in build.build_all(sources_from(170, 3))}) == 3


PROGRAM = """
import threading
from numba_grad.compiler.building import build
from numba_grad.config import config
config.threads = 2
sources = [{source!r}.replace("7.0", f"{{k}}.0") for k in range(400)]
try:
    build.build_all(sources)
except KeyboardInterrupt:
    compiled = build.statistics().compilations
    print("interrupted", build.build(sources[0].replace("exp", "bessel_i0")).address > 0)
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(60)
    print(build.statistics().compilations - compiled)
"""


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_an_interrupt_leaves_a_usable_process_and_ends_the_other_threads(directory):
    code = PROGRAM.format(source=source_of_kernel(7).replace("exp", "bessel_i0"))
    process = start(code, NUMBA_GRAD_CACHE_DIR=directory)
    wait_until(lambda: directory.exists() and len(list(directory.iterdir())) > 3)
    process.send_signal(signal.SIGINT)
    interrupted, is_usable, more = output_of(process).split()
    assert (interrupted, is_usable) == ("interrupted", "True")
    # What was under way in two threads, and the new one.
    assert 1 <= int(more) <= 3


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


# Several kernels in a module.


def doubled(number):
    return (
        "def kernel(args, lo, hi):\n    x = buffer(args, 0, float64)\n"
        f"    for i in range(lo, hi):\n        x[i] = x[i] * {number}.0\n"
    )


def test_kernels_of_plain_loops_share_an_object(tmp_path):
    """Up to a length, and whatever the order in which they are asked for."""
    plain = [build.KernelRequest(doubled(k)) for k in range(40, 44)]
    others = [build.KernelRequest(source) for source in sources_from(44, 2)]
    contents = []
    for threads, order in ((1, [*plain, *others]), (3, [*others, *plain[::-1]])):
        with configure(threads=threads, cache_directory=tmp_path / str(threads)):
            contents.append(build._object_codes(order))
    assert contents[0] == contents[1]
    assert len({contents[0][request.key] for request in plain}) == 1
    assert len(set(contents[0].values())) == 3
    addresses = loader.load([([build._symbol(r.key) for r in plain], contents[0][plain[0].key])])
    for number, request in enumerate(plain, start=40):
        x = np.arange(1.0, 20.0)
        words = np.array([x.ctypes.data])
        kernel = ctypes.CFUNCTYPE(None, INT64, INT64, INT64)(addresses[build._symbol(request.key)])
        kernel(words.ctypes.data, 0, 19)
        np.testing.assert_array_equal(x, number * np.arange(1.0, 20.0))


def test_a_module_of_plain_kernels_is_not_too_long():
    requests = [build.KernelRequest(doubled(k) + "#" * 6000) for k in range(46, 51)]
    assert [len(batch) for batch in build._batches(requests)] == [1] * 5
    requests = [build.KernelRequest(doubled(k)) for k in range(46, 51)]
    assert [len(batch) for batch in build._batches(requests)] == [5]


def test_what_is_plain_by_its_text_alone_is_compiled_alone(tmp_path):
    """A loop over floats that reads an integer says so by its types only."""
    wrong = doubled(51).replace("* 51.0", "* float32(51.0)")
    requests = [build.KernelRequest(source) for source in (doubled(52), doubled(53), wrong)]
    with configure(cache_directory=tmp_path):
        codes = build._object_codes(requests)
    assert len(set(codes.values())) == 3
