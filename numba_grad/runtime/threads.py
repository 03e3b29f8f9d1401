"""The thread pool: native threads that sleep inside the operating system until a step needs them.

Not Numba's threading layer: its `omp` spins at barriers, where one busy core makes a launch take
milliseconds, and its `workqueue` aborts when two Python threads enter at once. The threads here
never hold the GIL, and know nothing of Python.

The pool is a block of words that this file shares with the native code of
`compiler/building/engine_functions.py`. Blocks are never freed: a thread that is about to leave may
still look at its own.
"""

import atexit
import ctypes
import os
import platform
import signal
import sys
import time

from numba_grad import forks
from numba_grad.config import MAXIMUM_THREADS, checked, config
from numba_grad.locks import new_lock
from numba_grad.runtime.addresses import address_of


class PoolWord:
    """Words of a pool's block. What different threads write is a cache line or more apart."""

    THREADS = 0  # how many work on a step, with the caller
    WAIT_FUNCTION = 1  # `syscall`, or 0: wait with the mutex and the condition
    WAIT_NUMBER = 2  # the number of the futex system call
    LOCK_MUTEX = 3
    UNLOCK_MUTEX = 4
    WAIT_CONDITION = 5
    WAKE_CONDITION = 6
    SPINS = 7  # how often a thread looks again before it sleeps
    GET_CPU = 8  # `sched_getcpu`, or 0: leave it to the scheduler where threads run
    SET_AFFINITY_NUMBER = 9  # the number of the system call; WAIT_FUNCTION makes it
    GET_THREAD_NUMBER = 10
    AVOIDED_CPU = 11  # where the caller was last seen; -1 at first
    STARTED = 12  # threads that have entered their number in THREAD_IDS

    OWNER = 16  # 1 while a replay has the pool; others run their step alone
    GENERATION = 17
    FUNCTION = 18  # the step being run
    ARGUMENTS = 19
    TASKS = 20
    CHUNK = 21
    CHUNKS = 22

    STATE = 32  # generation << 32 | chunks that nobody has taken
    DONE = 48  # chunks that are finished
    CALLER_SLEEPS = 64
    WAKE = 80  # changes when sleeping threads have something to do
    SLEEPERS = 96
    STOP = 97
    ALIVE = 112

    MUTEX = 128
    CONDITION = 144
    THREAD_IDS = 160
    ALLOWED_CPUS = 176  # a set of bits, 1024 of them
    MASK = 192  # ALLOWED_CPUS without AVOIDED_CPU
    END = 208


class SharedWord:
    """Words that all replays of an engine share."""

    POOL = 0  # address of the pool's block, or 0
    WANTED_THREADS = 1
    # Single-threaded BLAS while plans run, see `runtime/library.py`.
    BLAS_LOCK = 16
    BLAS_USERS = 17
    BLAS_SAVED_THREADS = 18
    BLAS_GET_THREADS = 19
    BLAS_SET_THREADS = 20
    IS_FORKING = 21  # 1 while nobody may call BLAS_SET_THREADS
    RUN_TASKS = 22  # the native function that shares tasks among threads
    ARE_MISSED = 23  # 1 after a user's kernel ran alone, as there were no threads
    END = 32


# Numbers of the system calls futex, sched_setaffinity and gettid. On other machines threads wait
# with a mutex and a condition variable.
_SYSTEM_CALLS = {"x86_64": (202, 203, 186), "aarch64": (98, 122, 178), "riscv64": (98, 122, 178)}

# Up to this many threads are told to stay off the caller's processor. Some schedulers wake a thread
# where its waker runs, and leave both there: on a virtual machine with two processors, a step of
# 52 ms took 52 ms with two threads, and 26 ms with this.
_STEERED_THREADS = 8

# About 10 us on a processor where `pause` takes some 40 cycles: longer than the gap between two
# parallel steps of one plan, short enough to cost nothing that a user would see.
_SPINS = 700


def _as_words(address: int, count: int) -> ctypes.Array:
    return (ctypes.c_int64 * count).from_address(address)


def can_start_threads() -> bool:
    """Windows has neither futexes nor pthreads: plans run on the calling thread there."""
    return os.name == "posix" and sys.byteorder == "little"


def allocate_words(count: int) -> int:
    """The address of zeroed words on a cache line of their own, never freed.

    Not from NumPy: at interpreter exit a thread may still look at them.
    """
    libc = ctypes.CDLL(None if os.name == "posix" else "msvcrt")
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    address = libc.calloc(count * 8 + 64, 1)
    return -(-address // 64) * 64


class Threads:
    """The threads of one engine; `shared` is the address of its `SharedWord`s."""

    def __init__(self, worker_address: int, shared: int, *, use_futex: bool = True) -> None:
        self._worker_address = worker_address
        self.shared = _as_words(shared, SharedWord.END)
        self._use_futex = use_futex
        self._lock = new_lock()
        self._pool: ctypes.Array | None = None
        self._handles: list[ctypes.c_void_p] = []  # of the threads of this pool
        self._exiting = False
        self.requested = 0
        self.count = 1
        self.resize(config.threads)
        atexit.register(self._stop_at_exit)
        if hasattr(os, "register_at_fork"):
            forks.call_last(self._prepare_fork)
            os.register_at_fork(after_in_parent=self._end_fork, after_in_child=self._forget_threads)

    def resize(self, count: int) -> None:
        """Use `count` threads, with the calling one, from the next parallel step on."""
        with self._lock:
            self.requested = count
            self.count = max(1, min(count, MAXIMUM_THREADS)) if can_start_threads() else 1
            self._stop()
            self._announce()

    def _announce(self) -> None:
        self.shared[SharedWord.WANTED_THREADS] = 1 if self._exiting else self.count

    def start(self) -> None:
        """Start the threads, unless they run."""
        with self._lock:
            if self._pool is None and self.count > 1 and not self._exiting:
                self._pool = self._new_pool()
                self.shared[SharedWord.POOL] = ctypes.addressof(self._pool)

    def _new_pool(self) -> ctypes.Array:
        address = allocate_words(PoolWord.END)
        pool = _as_words(address, PoolWord.END)
        pool[PoolWord.SPINS] = _SPINS
        self._set_up_waiting(pool)
        for _ in range(self.count - 1):
            pool[PoolWord.ALIVE] += 1
            handle = _start_native_thread(self._worker_address, address)
            if handle is None:
                pool[PoolWord.ALIVE] -= 1
                break
            self._handles.append(handle)
        pool[PoolWord.THREADS] = len(self._handles) + 1
        return pool

    def _set_up_waiting(self, pool: ctypes.Array) -> None:
        libc = ctypes.CDLL(None)
        numbers = _SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
        if self._use_futex and numbers:
            pool[PoolWord.WAIT_FUNCTION] = address_of(libc.syscall)
            pool[PoolWord.WAIT_NUMBER] = numbers[0]
            self._set_up_steering(pool, numbers[1], numbers[2])
        for word, name in (
            (PoolWord.LOCK_MUTEX, "pthread_mutex_lock"),
            (PoolWord.UNLOCK_MUTEX, "pthread_mutex_unlock"),
            (PoolWord.WAIT_CONDITION, "pthread_cond_wait"),
            (PoolWord.WAKE_CONDITION, "pthread_cond_broadcast"),
        ):
            pool[word] = address_of(getattr(libc, name))
        base = ctypes.addressof(pool)
        libc.pthread_mutex_init(ctypes.c_void_p(base + 8 * PoolWord.MUTEX), None)
        libc.pthread_cond_init(ctypes.c_void_p(base + 8 * PoolWord.CONDITION), None)

    def _set_up_steering(self, pool: ctypes.Array, set_affinity: int, get_thread: int) -> None:
        cpus = os.sched_getaffinity(0)
        pool[PoolWord.AVOIDED_CPU] = -1
        pool[PoolWord.GET_THREAD_NUMBER] = get_thread
        if self.count <= min(_STEERED_THREADS, len(cpus)) and max(cpus) < 1024:
            pool[PoolWord.GET_CPU] = address_of(ctypes.CDLL(None).sched_getcpu)
            pool[PoolWord.SET_AFFINITY_NUMBER] = set_affinity
            mask = sum(1 << cpu for cpu in cpus).to_bytes(128, "little")
            ctypes.memmove(ctypes.addressof(pool) + 8 * PoolWord.ALLOWED_CPUS, mask, 128)

    def _stop(self, patience: float = 0.0) -> None:
        """Send the threads away; steps that they are working on are finished first.

        Waits `patience` seconds for them to be gone.
        """
        pool, self._pool = self._pool, None
        handles, self._handles = self._handles, []
        self.shared[SharedWord.POOL] = 0
        if pool is None:
            return
        pool[PoolWord.STOP] = 1
        _wake_all(pool)
        deadline = time.monotonic() + patience
        while pool[PoolWord.ALIVE] > 0 and time.monotonic() < deadline:
            time.sleep(0.0001)
        libc = ctypes.CDLL(None)
        are_leaving = pool[PoolWord.ALIVE] == 0  # all that they have left to do is to return
        for handle in handles:
            if are_leaving:
                libc.pthread_join(handle, None)
            else:
                libc.pthread_detach(handle)

    def _stop_at_exit(self) -> None:
        """Let no thread run native code while the interpreter takes it down."""
        with self._lock:
            self._exiting = True
            self._announce()
            self._stop(patience=1.0)

    def _prepare_fork(self) -> None:
        """Stop the threads, which the next parallel step starts again, and keep others from BLAS's.

        The child could do without the first. But Python, from 3.12 on, counts the threads of the
        system when it forks, and warns where there are more than one.

        OpenBLAS stops its own threads when the process forks. Replays of other threads that set
        their number just then would start them again: the child's OpenBLAS would take them for its
        own, and wait for them.
        """
        with self._lock:
            self._stop(patience=0.02)
        self.shared[SharedWord.IS_FORKING] = 1
        deadline = time.monotonic() + 1.0
        while True:
            time.sleep(0.00001)  # also a barrier: the word is written before the other is read
            if not self.shared[SharedWord.BLAS_LOCK] or time.monotonic() > deadline:
                return

    def _end_fork(self) -> None:
        self.shared[SharedWord.IS_FORKING] = 0

    def _forget_threads(self) -> None:
        """In a child after fork: its parent's threads do not exist here."""
        self._pool = None
        self._handles = []
        self.shared[SharedWord.POOL] = 0
        self._announce()
        self.shared[SharedWord.IS_FORKING] = 0
        self.shared[SharedWord.BLAS_LOCK] = 0
        if self.shared[SharedWord.BLAS_USERS]:
            # Replays of the parent's other threads, which will never end here.
            set_threads = self.shared[SharedWord.BLAS_SET_THREADS]
            ctypes.CFUNCTYPE(None, ctypes.c_int)(set_threads)(
                self.shared[SharedWord.BLAS_SAVED_THREADS]
            )
            self.shared[SharedWord.BLAS_USERS] = 0


def _wake_all(pool: ctypes.Array) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    base = ctypes.addressof(pool)
    if pool[PoolWord.WAIT_FUNCTION]:
        pool[PoolWord.WAKE] += 1
        wake_private = 129
        libc.syscall(
            ctypes.c_long(pool[PoolWord.WAIT_NUMBER]),
            ctypes.c_void_p(base + 8 * PoolWord.WAKE),
            ctypes.c_int(wake_private),
            ctypes.c_int(0x7FFFFFFF),
        )
        return
    mutex = ctypes.c_void_p(base + 8 * PoolWord.MUTEX)
    libc.pthread_mutex_lock(mutex)
    pool[PoolWord.WAKE] += 1
    libc.pthread_cond_broadcast(ctypes.c_void_p(base + 8 * PoolWord.CONDITION))
    libc.pthread_mutex_unlock(mutex)


def _start_native_thread(function: int, argument: int) -> ctypes.c_void_p | None:
    """A new thread in which no signal is ever handled, to be joined; None if there can be none."""
    libc = ctypes.CDLL(None)
    thread = ctypes.c_void_p()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        failed = libc.pthread_create(
            ctypes.byref(thread), None, ctypes.c_void_p(function), ctypes.c_void_p(argument)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
    return None if failed else thread


def set_num_threads(count: int) -> None:
    """Use `count` threads for large steps from now on, in the whole process.

    Results do not depend on it.

    Raises
    ------
    ValueError
        If `count` is not between 1 and 1024.
    """
    config.threads = checked("set_num_threads", "threads", count)


def get_num_threads() -> int:
    """How many threads large steps use."""
    return config.threads
