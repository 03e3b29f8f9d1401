"""Memory for arrays: small ones from NumPy, large ones from a pool that takes freed memory back.

Fresh pages cost more than most kernels: a heat-equation adjoint took 131 ms with new buffers each
time, 47 ms with kept ones. So the memory of a large array returns to the pool when the array, and
all views of it, are gone.
"""

import contextlib
import math
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from numba_grad.immutable import NamedTuple
from numba_grad.locks import new_lock

# Smaller arrays are left to NumPy's allocator, which recycles them as well: 0.15 us against 2.5 us.
# They start at multiples of 16 bytes only; alignment would cost 1.5 us, and gain less.
POOLED_BYTES = 1 << 16
_PADDING = 64  # readable bytes after the last element
_HUGE_PAGE = 1 << 21
_HUGE_PAGES_FROM = 1 << 22
_HAS_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")
_PAGE = mmap.PAGESIZE
_BYTES_AT_ONCE = 1 << 23
# A huge page takes 0.1 ms to make, small ones of as many bytes 0.7. But a virtual machine may have
# given its free memory back to its host, where a huge page takes 4.7 ms: 512 small ones of the
# host's. The small ones that are free are few enough to have stayed.
_SLOW_HUGE_PAGE = 1.5e-3
# Shared, which is what `mmap` makes unless told otherwise, a forked child would write into the
# results of its parent, and the system would give no huge pages.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
_SHARE_OF_MEMORY = 8  # the pool holds at most 1/8 of the machine's memory that nobody uses

_BYTE = np.dtype(np.uint8)


def _machine_bytes() -> int:
    """The memory this process may use: the machine's, or its container's."""
    sizes = [1 << 33]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    if limit.isdigit():
        sizes.append(int(limit))
    return min(sizes)


class _Memory:
    """One mapping of the operating system's, and where its aligned part starts."""

    __slots__ = ("address", "mapping", "nbytes", "offset")

    def __init__(self, nbytes: int) -> None:
        is_huge = nbytes >= _HUGE_PAGES_FROM and _HAS_HUGE_PAGES
        self.nbytes = nbytes
        self.mapping = mmap.mmap(-1, nbytes + (_HUGE_PAGE if is_huge else 0), **_PRIVATE)
        start = np.frombuffer(self.mapping, _BYTE).ctypes.data
        self.offset = -start % _HUGE_PAGE if is_huge else 0
        self.address = start + self.offset
        if is_huge:
            self.mapping.madvise(mmap.MADV_HUGEPAGE)

    def make_pages(self, nbytes: int) -> None:
        """Have the system make those of the first bytes: small ones, if huge ones take too long."""
        content = np.frombuffer(self.mapping, _BYTE, nbytes, self.offset)
        first, end = 0, _HUGE_PAGE
        while first < nbytes:
            start = time.thread_time()
            content[first:end:_PAGE] = 0  # the GIL is free meanwhile
            seconds = time.thread_time() - start
            if seconds > _SLOW_HUGE_PAGE * (end - first) / _HUGE_PAGE and _HAS_HUGE_PAGES:
                self.mapping.madvise(mmap.MADV_NOHUGEPAGE)
            first, end = end, end + _BYTES_AT_ONCE
        if _HAS_HUGE_PAGES:  # the system may put small ones together later
            self.mapping.madvise(mmap.MADV_HUGEPAGE)


class _Block(np.ndarray):
    """Bytes lent by the pool; the arrays made from it have it as their base. Returns when freed.

    Its own base is a mapping, not an array. NumPy shortens chains of bases only while they are
    arrays of one type, so no view ever refers to the mapping past this object.
    """

    _memory: "_Memory | None" = None
    _pool: "Pool | None" = None

    def __del__(self) -> None:
        # Views of a block are blocks without memory.
        if self._memory is not None and self._pool is not None:
            self._pool.take_back(self._memory)


class _Coming:
    """Memory whose pages a thread of its own has made by the system: for new ones a program waits
    longer than for what it computes in them, and while kernels are compiled a processor is idle."""

    def __init__(self, size: int, nbytes: int) -> None:
        self._size, self._nbytes = size, nbytes
        self._memory: _Memory | None = None
        self._thread = threading.Thread(target=self._make, name="numba_grad memory", daemon=True)

    def start(self) -> bool:
        try:
            self._thread.start()
        except RuntimeError:  # too many threads, or Python ends
            return False
        return True

    def _make(self) -> None:
        with contextlib.suppress(OSError, OverflowError):
            memory = _Memory(self._size)
            memory.make_pages(self._nbytes)
            self._memory = memory

    def memory(self) -> _Memory | None:
        """The memory, when it is ready; None if the system has none."""
        self._thread.join()
        return self._memory


class PoolStatistics(NamedTuple):
    """Bytes, and how often memory was taken from the pool (reused) or from the system (mapped)."""

    idle_bytes: int
    lent_bytes: int
    peak_lent_bytes: int
    reused: int
    mapped: int


class Pool:
    """Free memory by size class. Safe for threads, and for finalizers that run at any point."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = new_lock()
        self._free: dict[int, list[_Memory]] = {}
        # Filled by finalizers, which must not wait for another thread.
        self._returned: deque[_Memory] = deque()
        self._coming: dict[int, _Coming] = {}  # by size class
        self._idle_bytes = 0
        self._lent_bytes = 0
        self._peak_lent_bytes = 0
        self._reused = 0
        self._mapped = 0

    def lend(self, nbytes: int) -> _Block:
        """A block of at least `nbytes` bytes and padding."""
        size = size_class(nbytes + _PADDING)
        with self._lock:
            self._file_returned()
            memory = self._take(size)
            coming = self._coming.pop(size, None) if memory is None else None
            if coming is not None:
                self._idle_bytes -= size
        if coming is not None:
            memory = coming.memory()
        if memory is None:
            memory = self._mapped_memory(size)
        with self._lock:
            self._lent_bytes += size
            self._peak_lent_bytes = max(self._peak_lent_bytes, self._lent_bytes)
        block = np.ndarray.__new__(_Block, (size,), _BYTE, memory.mapping, memory.offset)
        block._memory = memory
        block._pool = self
        return block

    def prepare(self, nbytes: int) -> None:
        """Have memory made that will soon be lent, if it is large and none is free."""
        size = size_class(nbytes + _PADDING)
        with self._lock:
            self._file_returned()
            fits = self._idle_bytes + size <= self.limit_bytes
            if nbytes < _HUGE_PAGES_FROM or not fits or self._free.get(size):
                return
            if size in self._coming:
                return
            coming = _Coming(size, nbytes)
            if coming.start():
                self._coming[size] = coming
                self._idle_bytes += size

    def _take(self, size: int) -> _Memory | None:
        free = self._free.get(size)
        if not free:
            self._mapped += 1
            return None
        self._reused += 1
        self._idle_bytes -= size
        return free.pop()  # the last one in: it may still be in the processor's caches

    def _mapped_memory(self, size: int) -> _Memory:
        """New memory; what the pool has of other sizes is given back for it, if need be.

        Raises
        ------
        MemoryError
            If the system has none.
        """
        try:
            return _Memory(size)
        except (OSError, OverflowError):
            self.release()
        try:
            return _Memory(size)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"unable to allocate {size} bytes") from error

    def take_back(self, memory: _Memory) -> None:
        self._returned.append(memory)
        # If the lock is held, its holder or the next one to lend files it.
        if self._lock.acquire(blocking=False):
            try:
                self._file_returned()
            finally:
                self._lock.release()

    def _file_returned(self) -> None:
        # The lock is reentrant: a finalizer or a signal handler, which may run between any two
        # lines, finds the pool usable, and may file some of these itself.
        while self._returned:
            try:
                memory = self._returned.popleft()
            except IndexError:
                return
            self._lent_bytes -= memory.nbytes
            if self._idle_bytes + memory.nbytes <= self.limit_bytes:
                self._free.setdefault(memory.nbytes, []).append(memory)
                self._idle_bytes += memory.nbytes

    def release(self) -> int:
        """Give all idle memory back to the system; returns how many bytes that was."""
        with self._lock:
            self._file_returned()
            released, self._idle_bytes = self._idle_bytes, 0
            for memories in list(self._free.values()):
                memories.clear()
            self._coming.clear()
            self._peak_lent_bytes = self._lent_bytes
        return released

    def statistics(self) -> PoolStatistics:
        with self._lock:
            self._file_returned()
            return PoolStatistics(
                self._idle_bytes,
                self._lent_bytes,
                self._peak_lent_bytes,
                self._reused,
                self._mapped,
            )


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of eight sizes per power of two: at most 1/8 is lost."""
    step = 1 << max(nbytes.bit_length() - 4, 12)
    return -(-nbytes // step) * step


_pool = Pool(_machine_bytes() // _SHARE_OF_MEMORY)
if hasattr(os, "register_at_fork"):
    # A child would copy its parent's idle memory page by page, as it writes to it: 0.8 ms for a
    # MiB, where new memory takes 0.2 ms.
    os.register_at_fork(after_in_child=_pool.release)


def allocate(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A new C-contiguous array with undefined contents.

    From 64 KiB on it starts on a cache line, and 64 bytes after its end may be read.
    """
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    if nbytes < POOLED_BYTES:
        return np.empty(shape, dtype)
    try:
        block = _pool.lend(nbytes)
    except MemoryError as error:
        # What NumPy says, whose own class for it is not for others to make.
        raise MemoryError(
            f"Unable to allocate {_readable(nbytes)} for an array with shape {tuple(shape)} and "
            f"data type {dtype}"
        ) from error
    return np.ndarray(shape, dtype, block)


def _readable(nbytes: int) -> str:
    """ "8.00 TiB", as NumPy's messages have it."""
    unit = min(max(nbytes.bit_length() - 1, 0) // 10, 6)
    return f"{nbytes / 1024**unit:#.3g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[unit]}"


def allocator(shape: Sequence[int], dtype: np.dtype) -> Callable[..., np.ndarray]:
    """What `allocate` would call for such arrays, for those who make many of them."""
    return np.empty if math.prod(shape) * dtype.itemsize < POOLED_BYTES else allocate


def borrow(nbytes: int) -> tuple[object, int]:
    """Memory for as long as the first result lives, and its address."""
    try:
        block = _pool.lend(nbytes)
    except MemoryError as error:
        raise MemoryError(
            f"Unable to allocate {_readable(nbytes)} for intermediate values of a computation"
        ) from error
    assert block._memory is not None
    return block, block._memory.address


def prepare(nbytes: int) -> None:
    """Have so much memory made for `borrow`, by a thread of its own."""
    _pool.prepare(nbytes)


def pool_limit() -> int:
    """How many bytes of memory that nobody uses the pool holds at most."""
    return _pool.limit_bytes


def pool_statistics() -> PoolStatistics:
    return _pool.statistics()


def release_pool() -> int:
    """Give all idle memory of the pool back to the system; returns how many bytes that was."""
    return _pool.release()
