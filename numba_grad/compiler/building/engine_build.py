"""The native engine's functions: `replay` walks a plan, `run_tasks` shares a step among threads,
`worker` is what these run.

They are Numba source like any kernel, compiled and cached by `build`; the records that they share
with Python are laid out in `runtime/native_engine.py` and `runtime/threads.py`.
"""

import enum
import functools
from collections.abc import Iterable

from numba_grad.compiler.building import compile_log
from numba_grad.compiler.building.build import LoadedKernel, Request, build_requests, is_compiled
from numba_grad.runtime import loader
from numba_grad.runtime.native_engine import (
    CLOCK_MONOTONIC,
    OBJECT_HEAD,
    RUNS_BETWEEN_LOOKS,
    EntryPoints,
    NativeEngine,
    RecordWord,
    Status,
)
from numba_grad.runtime.plan import Control, LeaveWord, LoopWord, MoveWord
from numba_grad.runtime.threads import PoolWord, SharedWord


def _constants(prefix: str, words: type[enum.IntEnum]) -> str:
    return "".join(f"{prefix}_{word.name} = {word.value}\n" for word in words)


_HEADER = (
    f"OBJECT_HEAD = {OBJECT_HEAD}\n"
    f"CLOCK_MONOTONIC = {CLOCK_MONOTONIC}\n"
    f"RUNS_BETWEEN_LOOKS = {RUNS_BETWEEN_LOOKS}\n"
    "FUTEX_WAIT = 128\n"  # private to the process
    "FUTEX_WAKE = 129\n"
    "REMAINING = 0xFFFFFFFF\n"
    "STARTED_UNIT = 1 << 32\n"  # STARTED counts ids that are being written, and written ones
    "FLAGS_WORD = 6\n"  # of an array object, after its head
    "C_CONTIGUOUS = 1\n"
    + _constants("CONTROL", Control)
    + _constants("LOOP", LoopWord)
    + _constants("MOVE", MoveWord)
    + _constants("LEAVE", LeaveWord)
    + _constants("RECORD", RecordWord)
    + _constants("STATUS", Status)
    + _constants("POOL", PoolWord)
    + _constants("SHARED", SharedWord)
)

# A thread takes chunks until none is left, then looks for the next step for a while, then sleeps.
#
# A chunk belongs to whoever lowers STATE from (generation, n) to (generation, n - 1). The fields of
# a step are written only while STATE says that nothing is left, and STATE never comes back to a
# value, so whoever succeeds has read the fields of that very step.
_WORKER = """
def worker(pool):
    words = pointer(pool, int64)
    if words[POOL_GET_CPU] != 0:
        number = atomic_add(pool + 8 * POOL_STARTED, 1) & REMAINING
        words[POOL_THREAD_IDS + number] = call(
            words[POOL_WAIT_FUNCTION], words[POOL_GET_THREAD_NUMBER])
        atomic_add(pool + 8 * POOL_STARTED, STARTED_UNIT)
    spins = 0
    while True:
        state = atomic_load(pool + 8 * POOL_STATE)
        remaining = state & REMAINING
        if remaining != 0:
            function = words[POOL_FUNCTION]
            arguments = words[POOL_ARGUMENTS]
            tasks = words[POOL_TASKS]
            chunk = words[POOL_CHUNK]
            chunks = words[POOL_CHUNKS]
            if atomic_compare_exchange(pool + 8 * POOL_STATE, state, state - 1) == state:
                first = (chunks - remaining) * chunk
                end = first + chunk
                if end > tasks:
                    end = tasks
                call(function, arguments, first, end)
                done = atomic_add(pool + 8 * POOL_DONE, 1) + 1
                # After the last chunk the caller may go on at once: of this step nothing but the
                # local variables may be used from here on. A wake-up too many does no harm.
                if done == chunks and atomic_load(pool + 8 * POOL_CALLER_SLEEPS) != 0:
                    if words[POOL_WAIT_FUNCTION] != 0:
                        call(words[POOL_WAIT_FUNCTION], words[POOL_WAIT_NUMBER],
                             pool + 8 * POOL_DONE, FUTEX_WAKE, 1, 0, 0, 0)
                    else:
                        call(words[POOL_LOCK_MUTEX], pool + 8 * POOL_MUTEX)
                        call(words[POOL_WAKE_CONDITION], pool + 8 * POOL_CONDITION)
                        call(words[POOL_UNLOCK_MUTEX], pool + 8 * POOL_MUTEX)
            spins = 0
        elif atomic_load(pool + 8 * POOL_STOP) != 0:
            break
        elif spins < words[POOL_SPINS]:
            pause()
            spins += 1
        else:
            # The caller publishes STATE, then reads SLEEPERS; here it is the other way round. So
            # one of the two notices the other.
            seen = atomic_load(pool + 8 * POOL_WAKE)
            atomic_add(pool + 8 * POOL_SLEEPERS, 1)
            left = atomic_load(pool + 8 * POOL_STATE) & REMAINING
            if left == 0 and atomic_load(pool + 8 * POOL_STOP) == 0:
                if words[POOL_WAIT_FUNCTION] != 0:
                    call(words[POOL_WAIT_FUNCTION], words[POOL_WAIT_NUMBER],
                         pool + 8 * POOL_WAKE, FUTEX_WAIT, seen & REMAINING, 0, 0, 0)
                else:
                    call(words[POOL_LOCK_MUTEX], pool + 8 * POOL_MUTEX)
                    if atomic_load(pool + 8 * POOL_WAKE) == seen:
                        call(words[POOL_WAIT_CONDITION], pool + 8 * POOL_CONDITION,
                             pool + 8 * POOL_MUTEX)
                    call(words[POOL_UNLOCK_MUTEX], pool + 8 * POOL_MUTEX)
            atomic_add(pool + 8 * POOL_SLEEPERS, -1)
            spins = 0
    atomic_add(pool + 8 * POOL_ALIVE, -1)
    return 0
"""

# Shares the tasks of a step, or the passes of a loop in a kernel of a user, among this thread and
# those of the pool. It runs them alone where the pool is another one's, and where there is none.
_RUN_TASKS = """
def run_tasks(shared, function, arguments, tasks, grain):
    if tasks <= grain:
        call(function, arguments, 0, tasks)
        return 0
    pool = atomic_load(shared + 8 * SHARED_POOL)
    if pool == 0 or atomic_compare_exchange(pool + 8 * POOL_OWNER, 0, 1) != 0:
        if pool == 0 and atomic_load(shared + 8 * SHARED_WANTED_THREADS) > 1:
            atomic_store(shared + 8 * SHARED_ARE_MISSED, 1)
        call(function, arguments, 0, tasks)
        return 0
    job = pointer(pool, int64)
    if job[POOL_GET_CPU] != 0:
        cpu = call(job[POOL_GET_CPU]) & REMAINING
        helpers = job[POOL_THREADS] - 1
        if cpu != job[POOL_AVOIDED_CPU] and cpu < 1024 and (
            atomic_load(pool + 8 * POOL_STARTED) >> 32 == helpers):
            job[POOL_AVOIDED_CPU] = cpu
            for number in range(16):
                job[POOL_MASK + number] = job[POOL_ALLOWED_CPUS + number]
            job[POOL_MASK + (cpu >> 6)] &= ~(1 << (cpu & 63))
            for number in range(helpers):
                call(job[POOL_WAIT_FUNCTION], job[POOL_SET_AFFINITY_NUMBER],
                     job[POOL_THREAD_IDS + number], 128, pool + 8 * POOL_MASK)
    # Several chunks for each thread, so that one that is late does less.
    share = grain * job[POOL_THREADS] * 4
    chunk = grain * ((tasks + share - 1) // share)
    chunks = (tasks + chunk - 1) // chunk
    generation = (job[POOL_GENERATION] + 1) & 0x7FFFFFFF
    job[POOL_GENERATION] = generation
    job[POOL_FUNCTION] = function
    job[POOL_ARGUMENTS] = arguments
    job[POOL_TASKS] = tasks
    job[POOL_CHUNK] = chunk
    job[POOL_CHUNKS] = chunks
    atomic_store(pool + 8 * POOL_DONE, 0)
    atomic_store(pool + 8 * POOL_STATE, (generation << 32) | chunks)
    sleepers = atomic_load(pool + 8 * POOL_SLEEPERS)
    if sleepers > 0:
        if sleepers > chunks - 1:
            sleepers = chunks - 1
        if job[POOL_WAIT_FUNCTION] != 0:
            atomic_add(pool + 8 * POOL_WAKE, 1)
            call(job[POOL_WAIT_FUNCTION], job[POOL_WAIT_NUMBER],
                 pool + 8 * POOL_WAKE, FUTEX_WAKE, sleepers, 0, 0, 0)
        else:
            call(job[POOL_LOCK_MUTEX], pool + 8 * POOL_MUTEX)
            atomic_add(pool + 8 * POOL_WAKE, 1)
            call(job[POOL_WAKE_CONDITION], pool + 8 * POOL_CONDITION)
            call(job[POOL_UNLOCK_MUTEX], pool + 8 * POOL_MUTEX)
    while True:
        state = atomic_load(pool + 8 * POOL_STATE)
        remaining = state & REMAINING
        if remaining == 0:
            break
        if atomic_compare_exchange(pool + 8 * POOL_STATE, state, state - 1) == state:
            first = (chunks - remaining) * chunk
            end = first + chunk
            if end > tasks:
                end = tasks
            call(function, arguments, first, end)
            atomic_add(pool + 8 * POOL_DONE, 1)
    spins = 0
    while True:
        done = atomic_load(pool + 8 * POOL_DONE)
        if done == chunks:
            break
        if spins < job[POOL_SPINS]:
            pause()
            spins += 1
            continue
        atomic_store(pool + 8 * POOL_CALLER_SLEEPS, 1)
        if job[POOL_WAIT_FUNCTION] != 0:
            done = atomic_load(pool + 8 * POOL_DONE)
            if done != chunks:
                call(job[POOL_WAIT_FUNCTION], job[POOL_WAIT_NUMBER],
                     pool + 8 * POOL_DONE, FUTEX_WAIT, done, 0, 0, 0)
        else:
            call(job[POOL_LOCK_MUTEX], pool + 8 * POOL_MUTEX)
            if atomic_load(pool + 8 * POOL_DONE) != chunks:
                call(job[POOL_WAIT_CONDITION], pool + 8 * POOL_CONDITION,
                     pool + 8 * POOL_MUTEX)
            call(job[POOL_UNLOCK_MUTEX], pool + 8 * POOL_MUTEX)
    atomic_store(pool + 8 * POOL_CALLER_SLEEPS, 0)
    atomic_store(pool + 8 * POOL_OWNER, 0)
    return 0
"""

# A vectorcall function of CPython: `record_array` is the array that holds the activation's record,
# `objects` points to `count` arrays. It returns None when the plan is finished, or else True, and
# the record says why. An unfinished plan goes on where it stopped when called again.
_REPLAY = """
def replay(record_array, objects, count):
    record = pointer(pointer(record_array + OBJECT_HEAD, int64)[0], int64)
    arguments = pointer(objects, int64)
    shared = record[RECORD_SHARED]

    resumes = record[RECORD_RESUMES] != 0
    record[RECORD_RESUMES] = 0
    if not resumes:
        # Where each array's data lies. The fields of an array object are part of NumPy's ABI.
        are_good = count == record[RECORD_OBJECT_COUNT]
        bases = pointer(record[RECORD_BASES], int64)
        for number in range(count):
            if are_good:
                array = pointer(arguments[number], int64)
                fields = pointer(arguments[number] + OBJECT_HEAD, int64)
                is_array = array[OBJECT_HEAD // 8 - 1] == record[RECORD_ARRAY_TYPE]
                if is_array and fields[FLAGS_WORD] & C_CONTIGUOUS != 0:
                    bases[number] = fields[0]
                else:
                    are_good = False
        if not are_good:
            record[RECORD_STATUS] = STATUS_BAD_ARGUMENTS
            call(record[RECORD_INCREASE_REFERENCE], record[RECORD_TRUE])
            return record[RECORD_TRUE]
        record[RECORD_NEXT] = 0

    keeps_lock = record[RECORD_KEEPS_LOCK]
    # Who forks needs the GIL, which may have been taken from it, to come to an end.
    if record[RECORD_USES_BLAS] != 0 and atomic_load(shared + 8 * SHARED_IS_FORKING) != 0:
        keeps_lock = 0
    thread_state = 0
    if keeps_lock == 0:
        thread_state = call(record[RECORD_SAVE_THREAD])
    clock = record[RECORD_CLOCK]
    now_address = stack_words(2)
    now = pointer(now_address, int64)
    started = 0
    if clock != 0 and keeps_lock % RUNS_BETWEEN_LOOKS == 0:
        call(clock, CLOCK_MONOTONIC, now_address)
        started = now[0] * 1000000000 + now[1]

    words_address = record[RECORD_WORDS]
    step = record[RECORD_NEXT]
    if not resumes:
        words = pointer(words_address, int64)
        bases = pointer(record[RECORD_BASES], int64)
        last_bases = pointer(record[RECORD_LAST_BASES], int64)
        starts = pointer(record[RECORD_RELOCATION_STARTS], int64)
        targets = pointer(record[RECORD_RELOCATIONS], int64)
        for number in range(record[RECORD_BASE_COUNT]):
            base = bases[number]
            if base != last_bases[number]:
                for place in range(starts[number], starts[number + 1]):
                    words[targets[2 * place]] = base + targets[2 * place + 1]
                last_bases[number] = base
        pointer(record[RECORD_ERRORS], int64)[0] = 0

    is_alone_in_blas = record[RECORD_USES_BLAS] != 0
    if is_alone_in_blas:
        while True:
            while atomic_compare_exchange(shared + 8 * SHARED_BLAS_LOCK, 0, 1) != 0:
                pause()
            if atomic_load(shared + 8 * SHARED_IS_FORKING) == 0:
                break
            atomic_store(shared + 8 * SHARED_BLAS_LOCK, 0)
            pause()
        blas = pointer(shared, int64)
        if blas[SHARED_BLAS_USERS] == 0:
            blas[SHARED_BLAS_SAVED_THREADS] = (
                call(blas[SHARED_BLAS_GET_THREADS]) & 0x7FFFFFFF)
            call(blas[SHARED_BLAS_SET_THREADS], 1)
        blas[SHARED_BLAS_USERS] += 1
        atomic_store(shared + 8 * SHARED_BLAS_LOCK, 0)

    steps = record[RECORD_STEPS]
    step_count = record[RECORD_STEP_COUNT]
    functions = pointer(record[RECORD_FUNCTIONS], int64)
    times = pointer(record[RECORD_TIMES], int64)
    is_timed = record[RECORD_TIMES] != 0
    deadline = started + record[RECORD_SLICE]
    patience = 4  # steps until the clock is read again
    last_seen = started
    countdown = patience
    status = STATUS_FINISHED
    while step < step_count:
        row = pointer(steps + 32 * step, int64)
        kernel = row[0]
        function = 0
        if kernel >= 0:
            function = functions[kernel]
        words_of_step = words_address + 8 * row[1]
        tasks = row[2]
        grain = row[3]
        before = 0
        if is_timed:
            call(clock, CLOCK_MONOTONIC, now_address)
            before = now[0] * 1000000000 + now[1]
        if kernel < 0:
            own = pointer(words_of_step, int64)
            if kernel == CONTROL_REPEAT:
                loop = pointer(own[0], int64)
                passes = loop[LOOP_COUNTER] + 1
                loop[LOOP_COUNTER] = passes
                move_address = own[0] + 8 * LOOP_END
                for number in range(loop[LOOP_MOVES]):
                    move = pointer(move_address, int64)
                    target = pointer(move[MOVE_TARGET], int64)
                    moved = target[0] + move[MOVE_STRIDE]
                    if moved == move[MOVE_LIMIT]:
                        moved -= move[MOVE_RING]
                    target[0] = moved
                    move_address += 8 * MOVE_END
                if passes < loop[LOOP_TRIPS]:
                    step -= loop[LOOP_LENGTH] + 1
            elif kernel == CONTROL_LOOP:
                if own[LOOP_TRIPS_ADDRESS] != 0:
                    own[LOOP_TRIPS] = pointer(own[LOOP_TRIPS_ADDRESS], int64)[0]
                own[LOOP_COUNTER] = 0
                move_address = words_of_step + 8 * LOOP_END
                for number in range(own[LOOP_MOVES]):
                    move = pointer(move_address, int64)
                    start = move[MOVE_START]
                    if move[MOVE_FIRST_ADDRESS] != 0:
                        first = pointer(move[MOVE_FIRST_ADDRESS], int64)[0]
                        start += first * move[MOVE_FIRST_STRIDE]
                    pointer(move[MOVE_TARGET], int64)[0] = start
                    move_address += 8 * MOVE_END
                if own[LOOP_TRIPS] <= 0:
                    step += own[LOOP_LENGTH] + 1
            elif kernel == CONTROL_LEAVE:
                if pointer(own[LEAVE_CONDITION_ADDRESS], uint8)[0] == 0:
                    loop = pointer(own[LEAVE_LOOP_ADDRESS], int64)
                    pointer(own[LEAVE_COUNTER_ADDRESS], int64)[0] = loop[LOOP_COUNTER]
                    step += own[LEAVE_SKIPPED]
            elif kernel == CONTROL_SWITCH:
                chosen = pointer(own[0], int64)[0]
                if chosen < 0:
                    chosen = 0
                if chosen >= own[1]:
                    chosen = own[1] - 1
                step += own[2 + chosen]
            else:
                step += own[0]
        elif tasks <= grain:
            call(function, words_of_step, 0, tasks)
        else:
            has_pool = atomic_load(shared + 8 * SHARED_POOL) != 0
            if not has_pool and atomic_load(shared + 8 * SHARED_WANTED_THREADS) > 1:
                status = STATUS_WANTS_THREADS
                break
            run = pointer(shared, int64)[SHARED_RUN_TASKS]
            call(run, shared, function, words_of_step, tasks, grain)
        if is_timed:
            call(clock, CLOCK_MONOTONIC, now_address)
            if kernel >= 0:
                times[step] += now[0] * 1000000000 + now[1] - before
        step += 1
        countdown -= 1
        if countdown == 0:
            # Reading the clock costs half as much as a small step. So it is read about every
            # 20 us, and the patience follows the steps that there are.
            if started != 0 and step < step_count:
                call(clock, CLOCK_MONOTONIC, now_address)
                seen = now[0] * 1000000000 + now[1]
                if seen >= deadline:
                    status = STATUS_UNFINISHED
                    break
                if seen - last_seen < 20000 and patience < 256:
                    patience *= 2
                elif seen - last_seen > 100000 and patience > 1:
                    patience //= 2
                last_seen = seen
            countdown = patience

    if is_alone_in_blas:
        while True:
            while atomic_compare_exchange(shared + 8 * SHARED_BLAS_LOCK, 0, 1) != 0:
                pause()
            if atomic_load(shared + 8 * SHARED_IS_FORKING) == 0:
                break
            atomic_store(shared + 8 * SHARED_BLAS_LOCK, 0)
            pause()
        blas = pointer(shared, int64)
        blas[SHARED_BLAS_USERS] -= 1
        if blas[SHARED_BLAS_USERS] == 0:
            call(blas[SHARED_BLAS_SET_THREADS], blas[SHARED_BLAS_SAVED_THREADS])
        atomic_store(shared + 8 * SHARED_BLAS_LOCK, 0)

    result = record[RECORD_NONE]
    keeps_lock_next = 0
    if status != STATUS_FINISHED:
        record[RECORD_NEXT] = step
        record[RECORD_RESUMES] = 1
    else:
        if pointer(record[RECORD_ERRORS], int64)[0] != 0:
            status = STATUS_ERROR
        if clock != 0 and record[RECORD_MAY_KEEP_LOCK] != 0 and not resumes:
            keeps_lock_next = keeps_lock + 1
            if started != 0:
                call(clock, CLOCK_MONOTONIC, now_address)
                if now[0] * 1000000000 + now[1] - started >= record[RECORD_SHORT]:
                    keeps_lock_next = 0
    record[RECORD_KEEPS_LOCK] = keeps_lock_next
    if status != STATUS_FINISHED:
        result = record[RECORD_TRUE]
    record[RECORD_STATUS] = status
    if keeps_lock == 0:
        call(record[RECORD_RESTORE_THREAD], thread_state)
    call(record[RECORD_INCREASE_REFERENCE], result)
    return result
"""

REPLAY_SOURCE = _HEADER + _REPLAY
RUN_TASKS_SOURCE = _HEADER + _RUN_TASKS
WORKER_SOURCE = _HEADER + _WORKER


_FUNCTIONS = (
    Request(REPLAY_SOURCE, "replay", "int64(int64, int64, int64)"),
    Request(WORKER_SOURCE, "worker", "int64(int64)"),
    Request(RUN_TASKS_SOURCE, "run_tasks", "int64(int64, int64, int64, int64, int64)"),
)


@functools.cache
def native_engine() -> NativeEngine:
    """The engine of this process."""
    with compile_log.report():
        functions = build_requests(_FUNCTIONS)
    engine = NativeEngine(EntryPoints(*[function.address for function in functions]))
    loader.give_symbol(loader.SHARED_WORDS, engine.shared)
    return engine


def build_kernels(requests: Iterable[Request]) -> list[LoadedKernel]:
    """The kernels of a program. Those of the first one on a machine beside the engine that will run
    it: that takes LLVM longer than most programs, and there is another thread.

    What is on disk is left there: other threads would wait for it as long as for the kernels.
    """
    engine = [function for function in _FUNCTIONS if not is_compiled(function)]
    return build_requests([*engine, *requests])[len(engine) :]
