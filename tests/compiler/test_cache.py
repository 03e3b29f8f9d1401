import os
import time
import warnings

import pytest

from numba_grad.compiler.building import build, cache, processor
from numba_grad.config import configure
from tests.processes import output_of, run_python, start

pytestmark = pytest.mark.usefixtures("directory")

KEY, OTHER_KEY = "ab" * 32, "cd" * 32
CODE = b"object code" * 50

PROGRAM = """
import sys
from numba_grad.compiler.building import build, cache
source = '''
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    for i in range(lo, hi):
        x[i] = x[i] * {number}
'''
build.build_all([source.replace("{number}", f"{k}.0") for k in range(3)])
print(build.statistics().compilations, cache.statistics().hits, "numba" in sys.modules)
"""


def start_process(directory, program=PROGRAM):
    return start(program, NUMBA_GRAD_CACHE_DIR=directory)


def words_of(process):
    return output_of(process, quietly=True).split()


def source_of_kernel(number):
    return f"""
def kernel(args, lo, hi):
    x = buffer(args, 0, float64)
    for i in range(lo, hi):
        x[i] = x[i] * {number}.0
"""


def test_what_is_written_is_read(directory):
    before = cache.statistics()
    assert cache.read(KEY) is None
    cache.write(KEY, CODE)
    assert cache.read(KEY) == CODE
    after = cache.statistics()
    assert after.directory == directory
    assert after.files == 1
    assert after.bytes == sum(path.stat().st_size for path in directory.iterdir())
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 1)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_only_the_owner_may_enter(directory):
    cache.write(KEY, CODE)
    assert directory.stat().st_mode & 0o077 == 0
    assert cache.path_of(KEY).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "foreign", "other kernel"])
def test_damaged_files_are_misses_and_are_written_again(damage):
    cache.write(KEY, CODE)
    path = cache.path_of(KEY)
    content = path.read_bytes()
    if damage == "other kernel":
        cache.write(OTHER_KEY, CODE)
        path.write_bytes(cache.path_of(OTHER_KEY).read_bytes())
    else:
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        damaged = {
            "empty": b"",
            "truncated": content[:-9],
            "flipped": flipped,
            "foreign": b"x" * 99,
        }
        path.write_bytes(damaged[damage])
    assert cache.read(KEY) is None
    cache.write(KEY, CODE)
    assert path.read_bytes() == content
    assert cache.read(KEY) == CODE


def test_a_damaged_file_only_costs_a_compilation():
    source = source_of_kernel(100)
    kernel = build.build(source)
    path = cache.path_of(kernel.key)
    content = path.read_bytes()
    path.write_bytes(content[:200])
    build._kernels.clear()
    build._addresses.clear()
    before = build.statistics().compilations
    build.build(source)
    assert build.statistics().compilations == before + 1
    assert path.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_directory_that_others_can_write_is_refused(directory, mode):
    cache.write(KEY, CODE)
    directory.chmod(mode)
    with pytest.warns(RuntimeWarning, match="other users can write to it"):
        assert cache.read(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write(OTHER_KEY, CODE)
    assert not cache.contains(OTHER_KEY)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_directory_of_another_user_is_refused(directory, monkeypatch):
    cache.write(KEY, CODE)
    if os.getuid() == 0:
        os.chown(directory, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache.read(KEY) is None


@pytest.mark.parametrize("obstacle", ["a file is in the way", "read-only"])
def test_unwritable_directory_warns_once_and_kernels_work(directory, obstacle):
    if obstacle == "read-only":
        if os.name != "posix" or os.getuid() == 0:
            pytest.skip("permissions do not bind this user")
        directory.mkdir(mode=0o500)
    else:
        directory.write_text("in the way")
    with pytest.warns(RuntimeWarning, match=r"cannot be written .* NUMBA_GRAD_CACHE_DIR"):
        assert build.build(source_of_kernel(101)).address
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build.build(source_of_kernel(102)).address


def test_oldest_files_go_first_when_the_bound_is_passed():
    keys = [f"{k:064x}" for k in range(10)]
    with configure(cache_bytes=10_000):
        for age, key in enumerate(reversed(keys)):
            cache.write(key, b"x" * 900)
            then = time.time() - 10_000 - age
            os.utime(cache.path_of(key), (then, then))
        cache.read(keys[0])  # the oldest, but now in use
        cache.write(KEY, b"x" * 900)
    left = [key for key in keys if cache.contains(key)]
    assert cache.contains(KEY)
    assert keys[0] in left
    assert left[1:] == keys[-len(left) + 1 :]
    assert 5 <= len(left) < 10


def test_few_writes_measure_the_directory(directory, monkeypatch):
    looks = []
    monkeypatch.setattr(cache, "_entries", lambda directory: looks.append(directory) or [])
    for k in range(1, 16):
        cache.write(f"{k:064x}", CODE)
    assert not looks
    for k in range(16, 64):
        cache.write(f"{k:064x}", CODE)
    assert len(looks) == 1
    for k in range(1, cache._WRITES_PER_SCAN):
        cache.write(f"{k:064x}", CODE)
    assert len(looks) == 2


def test_eviction_removes_what_dead_processes_left(directory):
    directory.mkdir(mode=0o700)
    abandoned, recent = (directory / f"{KEY}.{k}.temporary" for k in ("0", "1"))
    for path in (abandoned, recent):
        path.write_bytes(b"x" * 2000)
    os.utime(abandoned, (1, 1))
    with configure(cache_bytes=1000):
        cache.write(KEY, CODE)
    assert not abandoned.exists()
    assert recent.exists()


def test_clear_removes_kernels_and_nothing_else(directory):
    cache.write(KEY, CODE)
    cache.write(OTHER_KEY, CODE)
    (directory / "notes.txt").write_text("mine")
    assert cache.clear() == 2
    assert [path.name for path in directory.iterdir()] == ["notes.txt"]
    assert cache.statistics().files == 0


def test_keys_depend_on_every_part():
    keys = {cache.key_of(*parts) for parts in (("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"))}
    assert len(keys) == 4


def test_a_warm_process_compiles_nothing_and_does_not_import_numba(directory):
    assert words_of(start_process(directory)) == ["3", "0", "True"]
    assert words_of(start_process(directory)) == ["0", "3", "False"]


@pytest.mark.skipif(processor.running_system() is None, reason="the system has no name")
def test_llvm_is_asked_once_about_the_processor(directory, monkeypatch):
    asked = []
    ask = cache._ask_llvm
    monkeypatch.setattr(cache, "_ask_llvm", lambda: asked.append(1) or ask())
    found = cache.processors_environment()
    assert cache.processors_environment() == found
    assert len(asked) == 1
    [note] = directory.iterdir()
    note.write_bytes(note.read_bytes()[:-1])  # damaged
    assert cache.processors_environment() == found
    assert len(asked) == 2
    monkeypatch.setattr(processor, "running_system", lambda: "another one")
    assert cache.processors_environment() == found
    assert len(asked) == 3
    monkeypatch.setattr(processor, "running_system", lambda: None)
    assert cache.processors_environment() == found
    assert len(asked) == 4


def test_a_running_system_has_one_name():
    code = (
        "from numba_grad.compiler.building import processor as p; print(repr(p.running_system()))"
    )
    assert run_python(code).strip() == repr(processor.running_system())


@pytest.mark.thorough
@pytest.mark.parametrize("count", [12, pytest.param(64, marks=pytest.mark.thorough(rare=True))])
def test_many_warm_processes_start_at_once(directory, count):
    words_of(start_process(directory))
    files = sorted(directory.iterdir())
    for process in [start_process(directory) for _ in range(count)]:
        assert words_of(process) == ["0", "3", "False"]
    assert sorted(directory.iterdir()) == files


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.thorough(rare=True))])
def test_processes_share_one_cold_directory(directory, count):
    processes = [start_process(directory) for _ in range(count)]
    for process in processes:
        words_of(process)
    # With what LLVM says of the processor.
    assert len(list(directory.glob("*.object"))) == 3 + (processor.running_system() is not None)
    assert not list(directory.glob("*.temporary"))
    assert words_of(start_process(directory)) == ["0", "3", "False"]
