"""Arrays from the pool: layout, reuse, bounds, threads."""

import gc
import os
import threading

import numpy as np
import pytest

from numba_grad.runtime.buffers import (
    POOLED_BYTES,
    Pool,
    allocate,
    borrow,
    pool_statistics,
    release_pool,
    size_class,
)
from tests.threads import run_in_threads

FLOAT = np.dtype(float)


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (100, 200), (0, 10**6), (1 << 20,)])
@pytest.mark.parametrize("name", ["bool", "float64", "complex128"])
def test_layout(shape: tuple[int, ...], name: str) -> None:
    x = allocate(shape, np.dtype(name))
    assert x.shape == shape
    assert x.dtype == name
    assert type(x) is np.ndarray
    assert x.flags.c_contiguous
    assert x.flags.writeable
    if x.nbytes >= POOLED_BYTES:
        assert address(x) % 64 == 0


def test_freed_memory_is_used_again() -> None:
    release_pool()
    x = allocate((50_000,), FLOAT)
    first = address(x)
    del x
    assert address(allocate((49_999,), FLOAT)) == first


def test_memory_that_is_prepared_is_lent_next() -> None:
    nbytes = 6 << 20
    pool = Pool(1 << 26)
    pool.prepare(nbytes)
    pool.prepare(nbytes)  # is on its way
    size = size_class(nbytes + 64)
    assert pool.statistics()[:2] == (size, 0)
    block = pool.lend(nbytes)
    assert pool.statistics()[:2] == (0, size)
    assert not block[:nbytes].any()
    del block
    assert pool.statistics()[:2] == (size, 0)
    pool.prepare(nbytes)  # there is some
    assert pool.statistics().idle_bytes == size
    pool.prepare(1000)  # small
    pool.prepare(1 << 26)  # more than the pool may keep
    assert pool.release() == pool.statistics().mapped * size


def test_views_keep_the_memory() -> None:
    release_pool()
    x = allocate((300, 200), FLOAT)
    x[:] = 1.0
    views = [x[5:], x.T, x.view(np.int64), x.reshape(-1)[::7], memoryview(x)]
    del x
    for k in range(len(views)):
        other = allocate((300, 200), FLOAT)
        other[:] = 2.0
        view = np.asarray(views[k])
        assert (view == (np.float64(1.0).view(np.int64) if view.dtype == np.int64 else 1.0)).all()
    lent = pool_statistics().lent_bytes
    views.clear()
    del view
    gc.collect()
    assert pool_statistics().lent_bytes < lent


def test_borrowed_memory_returns() -> None:
    release_pool()
    block, first = borrow(1 << 20)
    assert first % 64 == 0
    del block
    block, second = borrow(1 << 20)
    assert second == first
    del block
    assert pool_statistics().lent_bytes == 0 or pool_statistics().idle_bytes >= 1 << 20


def test_size_classes_lose_an_eighth_at_most() -> None:
    for nbytes in [*range(1, 10_000, 997), 65_536, 65_537, 10**6 + 1, 2**31 + 5]:
        size = size_class(nbytes)
        assert nbytes <= size <= max(nbytes * 1.125 + 1, nbytes + 4096)
        assert size_class(size) == size


def test_the_pool_keeps_no_more_than_its_limit() -> None:
    pool = Pool(limit_bytes=300_000)
    blocks = [pool.lend(100_000) for _ in range(5)]
    assert pool.statistics().mapped == 5
    blocks.clear()
    assert 200_000 <= pool.statistics().idle_bytes <= 300_000
    assert pool.statistics().lent_bytes == 0
    assert pool.release() > 0
    assert pool.statistics().idle_bytes == 0


def test_a_finalizer_may_run_while_the_pool_is_locked() -> None:
    pool = Pool(limit_bytes=1 << 30)
    block = pool.lend(100_000)
    with pool._lock:
        del block
    assert pool.statistics().lent_bytes == 0


def test_who_interrupts_the_pool_finds_it_usable() -> None:
    pool = Pool(limit_bytes=1 << 30)
    done = threading.Event()

    def interrupted() -> None:
        with pool._lock:  # as a signal handler would run: in the thread that is inside
            del kept[:]
            block = pool.lend(100_000)
            assert pool.release() == 0
            del block
        done.set()

    kept = [pool.lend(100_000)]
    threading.Thread(target=interrupted, daemon=True).start()
    assert done.wait(20)
    assert pool.statistics().lent_bytes == 0
    assert pool.statistics().mapped == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("nbytes", [100_000, 10_000_000])
def test_a_forked_child_shares_no_memory(nbytes: int) -> None:
    release_pool()
    kept = allocate((nbytes,), np.dtype(np.uint8))
    kept[:] = 1
    idle = allocate((nbytes,), np.dtype(np.uint8))
    del idle
    child = os.fork()
    if child == 0:
        # Copying idle memory of the parent page by page would cost more than new memory.
        is_right = pool_statistics().idle_bytes == 0 and bool((kept == 1).all())
        kept[:] = 2
        other = allocate((nbytes,), np.dtype(np.uint8))
        other[:] = 3
        os._exit(is_right)
    other = allocate((nbytes,), np.dtype(np.uint8))
    other[:] = 4
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert (kept == 1).all()
    assert (other == 4).all()


def test_threads_never_share_memory() -> None:
    def work(number: int) -> None:
        for round_number in range(60):
            x = allocate((20_000 + 5_000 * (round_number % 3),), FLOAT)
            x[:] = number
            y = allocate((20_000,), FLOAT)
            y[:] = -number
            assert (x == number).all() and (y == -number).all()

    run_in_threads(work, range(4))


def test_memory_that_there_is_not_leaves_the_pool_as_it_was():
    pool = Pool(1 << 30)
    kept = pool.lend(100_000)
    del kept
    before = pool.statistics()
    with pytest.raises(MemoryError):
        pool.lend(1 << 60)
    after = pool.statistics()
    assert after.lent_bytes == before.lent_bytes == 0
    assert after.idle_bytes == 0 < before.idle_bytes  # given back, as the system had no more
    assert pool.lend(100_000).nbytes >= 100_000
