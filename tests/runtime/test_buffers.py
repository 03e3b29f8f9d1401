"""Arrays from the pool: layout, reuse, bounds, threads."""

import gc
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


def test_threads_never_share_memory() -> None:
    failures = []

    def work(number: int) -> None:
        for round_number in range(60):
            x = allocate((20_000 + 5_000 * (round_number % 3),), FLOAT)
            x[:] = number
            y = allocate((20_000,), FLOAT)
            y[:] = -number
            if not ((x == number).all() and (y == -number).all()):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


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
