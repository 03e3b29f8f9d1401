"""The native engine, in the kernel language: `replay` walks a plan, `run_tasks` shares a step among
threads, `worker` is what these run.

No module imports this one: `engine_build` reads its text and compiles it, with the functions that
these three call written out where they are called. It is Python so that tools can read it. The
records that it shares with Python are laid out in `runtime/native_engine.py` and
`runtime/threads.py`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numba_grad.compiler.kernel_language.declarations import (
        Pointer,
        atomic_add,
        atomic_compare_exchange,
        atomic_load,
        atomic_store,
        call,
        int64,
        pause,
        pointer,
        stack_words,
        uint8,
    )
    from numba_grad.runtime.native_engine import (
        CLOCK_MONOTONIC,
        OBJECT_HEAD,
        RUNS_BETWEEN_LOOKS,
        RecordWord,
        Status,
    )
    from numba_grad.runtime.plan import Control, LeaveWord, LoopWord, MoveWord
    from numba_grad.runtime.threads import PoolWord, SharedWord

# From here on it is kernel language.

FUTEX_WAIT = 128  # private to the process
FUTEX_WAKE = 129
REMAINING = 0xFFFFFFFF
STARTED_UNIT = 1 << 32  # STARTED counts ids that are being written, and written ones
FLAGS_WORD = 6  # of an array object, after its head
C_CONTIGUOUS = 1


# Threads
#
# A thread takes chunks until none is left, then looks for the next step for a while, then sleeps.
#
# A chunk belongs to whoever lowers STATE from (generation, n) to (generation, n - 1). The fields of
# a step are written only while STATE says that nothing is left, and STATE never comes back to a
# value, so whoever succeeds has read the fields of that very step.


def worker(pool: int) -> int:
    words = pointer(pool, int64)
    if words[PoolWord.GET_CPU] != 0:
        number = atomic_add(pool + 8 * PoolWord.STARTED, 1) & REMAINING
        words[PoolWord.THREAD_IDS + number] = call(
            words[PoolWord.WAIT_FUNCTION], words[PoolWord.GET_THREAD_NUMBER]
        )
        atomic_add(pool + 8 * PoolWord.STARTED, STARTED_UNIT)
    spins = 0
    while True:
        state = atomic_load(pool + 8 * PoolWord.STATE)
        if state & REMAINING != 0:
            chunks = words[PoolWord.CHUNKS]
            done = run_chunk(pool, words, state)
            # After the last chunk the caller may go on at once: of this step nothing but the
            # local variables may be used from here on. A wake-up too many does no harm.
            if done == chunks and atomic_load(pool + 8 * PoolWord.CALLER_SLEEPS) != 0:
                wake(pool, words, PoolWord.DONE, 1)
            spins = 0
        elif atomic_load(pool + 8 * PoolWord.STOP) != 0:
            break
        elif spins < words[PoolWord.SPINS]:
            pause()
            spins += 1
        else:
            # The caller publishes STATE, then reads SLEEPERS; here it is the other way round. So
            # one of the two notices the other.
            seen = atomic_load(pool + 8 * PoolWord.WAKE)
            atomic_add(pool + 8 * PoolWord.SLEEPERS, 1)
            left = atomic_load(pool + 8 * PoolWord.STATE) & REMAINING
            if left == 0 and atomic_load(pool + 8 * PoolWord.STOP) == 0:
                wait_while(pool, words, PoolWord.WAKE, seen)
            atomic_add(pool + 8 * PoolWord.SLEEPERS, -1)
            spins = 0
    atomic_add(pool + 8 * PoolWord.ALIVE, -1)
    return 0


def run_tasks(shared: int, function: int, arguments: int, tasks: int, grain: int) -> int:
    """Share the tasks of a step, or the passes of a loop in a kernel of a user, among this thread
    and those of the pool. This one does them alone where the pool is another one's, and where there
    is none."""
    if tasks <= grain:
        call(function, arguments, 0, tasks)
        return 0
    pool = atomic_load(shared + 8 * SharedWord.POOL)
    if pool == 0 or atomic_compare_exchange(pool + 8 * PoolWord.OWNER, 0, 1) != 0:
        if pool == 0 and atomic_load(shared + 8 * SharedWord.WANTED_THREADS) > 1:
            atomic_store(shared + 8 * SharedWord.ARE_MISSED, 1)
        call(function, arguments, 0, tasks)
        return 0
    words = pointer(pool, int64)
    if words[PoolWord.GET_CPU] != 0:
        keep_others_off_this_processor(pool, words)
    # Several chunks for each thread, so that one that is late does less.
    share = grain * words[PoolWord.THREADS] * 4
    chunk = grain * ((tasks + share - 1) // share)
    chunks = (tasks + chunk - 1) // chunk
    generation = (words[PoolWord.GENERATION] + 1) & 0x7FFFFFFF
    words[PoolWord.GENERATION] = generation
    words[PoolWord.FUNCTION] = function
    words[PoolWord.ARGUMENTS] = arguments
    words[PoolWord.TASKS] = tasks
    words[PoolWord.CHUNK] = chunk
    words[PoolWord.CHUNKS] = chunks
    atomic_store(pool + 8 * PoolWord.DONE, 0)
    atomic_store(pool + 8 * PoolWord.STATE, (generation << 32) | chunks)
    sleepers = atomic_load(pool + 8 * PoolWord.SLEEPERS)
    if sleepers > 0:
        if sleepers > chunks - 1:
            sleepers = chunks - 1
        atomic_add(pool + 8 * PoolWord.WAKE, 1)
        wake(pool, words, PoolWord.WAKE, sleepers)
    while True:
        state = atomic_load(pool + 8 * PoolWord.STATE)
        if state & REMAINING == 0:
            break
        run_chunk(pool, words, state)
    wait_until_done(pool, words, chunks)
    atomic_store(pool + 8 * PoolWord.OWNER, 0)
    return 0


def run_chunk(pool: int, words: Pointer, state: int) -> int:
    """Do one of the chunks that `state` says are left; how many are finished then, or 0 if another
    thread has taken it."""
    function = words[PoolWord.FUNCTION]
    arguments = words[PoolWord.ARGUMENTS]
    tasks = words[PoolWord.TASKS]
    chunk = words[PoolWord.CHUNK]
    first = (words[PoolWord.CHUNKS] - (state & REMAINING)) * chunk
    if atomic_compare_exchange(pool + 8 * PoolWord.STATE, state, state - 1) != state:
        return 0
    end = first + chunk
    if end > tasks:
        end = tasks
    call(function, arguments, first, end)
    return atomic_add(pool + 8 * PoolWord.DONE, 1) + 1


def wait_until_done(pool: int, words: Pointer, chunks: int) -> None:
    spins = 0
    while True:
        if atomic_load(pool + 8 * PoolWord.DONE) == chunks:
            break
        if spins < words[PoolWord.SPINS]:
            pause()
            spins += 1
            continue
        atomic_store(pool + 8 * PoolWord.CALLER_SLEEPS, 1)
        done = atomic_load(pool + 8 * PoolWord.DONE)
        if done != chunks:
            wait_while(pool, words, PoolWord.DONE, done)
    atomic_store(pool + 8 * PoolWord.CALLER_SLEEPS, 0)


def wait_while(pool: int, words: Pointer, place: int, seen: int) -> None:
    """Sleep, unless the word at `place` of the pool is not `seen` any more, until woken."""
    if words[PoolWord.WAIT_FUNCTION] != 0:
        call(
            words[PoolWord.WAIT_FUNCTION],
            words[PoolWord.WAIT_NUMBER],
            pool + 8 * place,
            FUTEX_WAIT,
            seen & REMAINING,
            0,
            0,
            0,
        )
    else:
        call(words[PoolWord.LOCK_MUTEX], pool + 8 * PoolWord.MUTEX)
        if atomic_load(pool + 8 * place) == seen:
            call(
                words[PoolWord.WAIT_CONDITION],
                pool + 8 * PoolWord.CONDITION,
                pool + 8 * PoolWord.MUTEX,
            )
        call(words[PoolWord.UNLOCK_MUTEX], pool + 8 * PoolWord.MUTEX)


def wake(pool: int, words: Pointer, place: int, threads: int) -> None:
    """Wake so many of those that wait at `place`, the word there being changed: or all that wait,
    with a condition, which whoever is about to wait holds the mutex for."""
    if words[PoolWord.WAIT_FUNCTION] != 0:
        call(
            words[PoolWord.WAIT_FUNCTION],
            words[PoolWord.WAIT_NUMBER],
            pool + 8 * place,
            FUTEX_WAKE,
            threads,
            0,
            0,
            0,
        )
    else:
        call(words[PoolWord.LOCK_MUTEX], pool + 8 * PoolWord.MUTEX)
        call(words[PoolWord.WAKE_CONDITION], pool + 8 * PoolWord.CONDITION)
        call(words[PoolWord.UNLOCK_MUTEX], pool + 8 * PoolWord.MUTEX)


def keep_others_off_this_processor(pool: int, words: Pointer) -> None:
    """If the caller has moved, tell the other threads, once all have said who they are."""
    cpu = call(words[PoolWord.GET_CPU]) & REMAINING
    others = words[PoolWord.THREADS] - 1
    if (
        cpu != words[PoolWord.AVOIDED_CPU]
        and cpu < 1024
        and atomic_load(pool + 8 * PoolWord.STARTED) >> 32 == others
    ):
        words[PoolWord.AVOIDED_CPU] = cpu
        for number in range(16):
            words[PoolWord.MASK + number] = words[PoolWord.ALLOWED_CPUS + number]
        words[PoolWord.MASK + (cpu >> 6)] &= ~(1 << (cpu & 63))
        for number in range(others):
            call(
                words[PoolWord.WAIT_FUNCTION],
                words[PoolWord.SET_AFFINITY_NUMBER],
                words[PoolWord.THREAD_IDS + number],
                128,
                pool + 8 * PoolWord.MASK,
            )


# A run of a plan


def replay(record_array: int, objects: int, count: int) -> int:
    """A vectorcall function of CPython: `record_array` is the array that holds the activation's
    record, `objects` points to `count` arrays. It returns None when the plan is finished, or else
    True, and the record says why. An unfinished plan goes on where it stopped when called again."""
    record = pointer(pointer(record_array + OBJECT_HEAD, int64)[0], int64)
    shared = record[RecordWord.SHARED]
    resumes = record[RecordWord.RESUMES] != 0
    record[RecordWord.RESUMES] = 0
    if not resumes:
        if not find_data(record, pointer(objects, int64), count):
            record[RecordWord.STATUS] = Status.BAD_ARGUMENTS
            call(record[RecordWord.INCREASE_REFERENCE], record[RecordWord.TRUE])
            return record[RecordWord.TRUE]
        record[RecordWord.NEXT] = 0

    keeps_lock = record[RecordWord.KEEPS_LOCK]
    uses_blas = record[RecordWord.USES_BLAS] != 0
    # Who forks needs the GIL, which may have been taken from it, to come to an end.
    if uses_blas and atomic_load(shared + 8 * SharedWord.IS_FORKING) != 0:
        keeps_lock = 0
    thread_state = 0
    if keeps_lock == 0:
        thread_state = call(record[RecordWord.SAVE_THREAD])
    clock = record[RecordWord.CLOCK]
    time = stack_words(2)
    started = 0
    if clock != 0 and keeps_lock % RUNS_BETWEEN_LOOKS == 0:
        started = nanoseconds(clock, time)
    if not resumes:
        fill_in_addresses(record)
        pointer(record[RecordWord.ERRORS], int64)[0] = 0

    if uses_blas:
        have_blas_serial(shared)
    status = run_steps(record, started, time)
    if uses_blas:
        have_blas_as_it_was(shared)

    keeps_lock_next = 0
    if status == Status.FINISHED:
        if pointer(record[RecordWord.ERRORS], int64)[0] != 0:
            status = Status.ERROR
        if clock != 0 and record[RecordWord.MAY_KEEP_LOCK] != 0 and not resumes:
            keeps_lock_next = keeps_lock + 1
            if started != 0 and nanoseconds(clock, time) - started >= record[RecordWord.SHORT]:
                keeps_lock_next = 0
    else:
        record[RecordWord.RESUMES] = 1
    record[RecordWord.KEEPS_LOCK] = keeps_lock_next
    result = record[RecordWord.NONE]
    if status != Status.FINISHED:
        result = record[RecordWord.TRUE]
    record[RecordWord.STATUS] = status
    if keeps_lock == 0:
        call(record[RecordWord.RESTORE_THREAD], thread_state)
    call(record[RecordWord.INCREASE_REFERENCE], result)
    return result


def find_data(record: Pointer, arrays: Pointer, count: int) -> bool:
    """Note where each array's data lies; False if they are not as many contiguous arrays as the
    plan takes. The fields of an array object are part of NumPy's ABI."""
    if count != record[RecordWord.OBJECT_COUNT]:
        return False
    bases = pointer(record[RecordWord.BASES], int64)
    for number in range(count):
        array = pointer(arrays[number], int64)
        if array[OBJECT_HEAD // 8 - 1] != record[RecordWord.ARRAY_TYPE]:
            return False
        fields = pointer(arrays[number] + OBJECT_HEAD, int64)
        if fields[FLAGS_WORD] & C_CONTIGUOUS == 0:
            return False
        bases[number] = fields[0]
    return True


def fill_in_addresses(record: Pointer) -> None:
    """Write the words that depend on the bases that have changed since the last run."""
    words = pointer(record[RecordWord.WORDS], int64)
    bases = pointer(record[RecordWord.BASES], int64)
    last_bases = pointer(record[RecordWord.LAST_BASES], int64)
    starts = pointer(record[RecordWord.RELOCATION_STARTS], int64)
    targets = pointer(record[RecordWord.RELOCATIONS], int64)
    for number in range(record[RecordWord.BASE_COUNT]):
        base = bases[number]
        if base != last_bases[number]:
            for place in range(starts[number], starts[number + 1]):
                words[targets[2 * place]] = base + targets[2 * place + 1]
            last_bases[number] = base


def nanoseconds(clock: int, time: int) -> int:
    call(clock, CLOCK_MONOTONIC, time)
    parts = pointer(time, int64)
    return parts[0] * 1000000000 + parts[1]


def lock_blas(shared: int) -> None:
    while True:
        while atomic_compare_exchange(shared + 8 * SharedWord.BLAS_LOCK, 0, 1) != 0:
            pause()
        if atomic_load(shared + 8 * SharedWord.IS_FORKING) == 0:
            break
        atomic_store(shared + 8 * SharedWord.BLAS_LOCK, 0)
        pause()


def have_blas_serial(shared: int) -> None:
    lock_blas(shared)
    words = pointer(shared, int64)
    if words[SharedWord.BLAS_USERS] == 0:
        words[SharedWord.BLAS_SAVED_THREADS] = call(words[SharedWord.BLAS_GET_THREADS]) & 0x7FFFFFFF
        call(words[SharedWord.BLAS_SET_THREADS], 1)
    words[SharedWord.BLAS_USERS] += 1
    atomic_store(shared + 8 * SharedWord.BLAS_LOCK, 0)


def have_blas_as_it_was(shared: int) -> None:
    lock_blas(shared)
    words = pointer(shared, int64)
    words[SharedWord.BLAS_USERS] -= 1
    if words[SharedWord.BLAS_USERS] == 0:
        call(words[SharedWord.BLAS_SET_THREADS], words[SharedWord.BLAS_SAVED_THREADS])
    atomic_store(shared + 8 * SharedWord.BLAS_LOCK, 0)


# Steps


def run_steps(record: Pointer, started: int, time: int) -> int:
    """Run the steps from NEXT on, to the last one or until there is a reason to come back."""
    shared = record[RecordWord.SHARED]
    clock = record[RecordWord.CLOCK]
    words_address = record[RecordWord.WORDS]
    steps = record[RecordWord.STEPS]
    step_count = record[RecordWord.STEP_COUNT]
    functions = pointer(record[RecordWord.FUNCTIONS], int64)
    times = pointer(record[RecordWord.TIMES], int64)
    is_timed = record[RecordWord.TIMES] != 0
    deadline = started + record[RecordWord.SLICE]
    last_seen = started
    patience = 4  # steps until the clock is read again
    countdown = patience
    step = record[RecordWord.NEXT]
    status = Status.FINISHED
    while step < step_count:
        row = pointer(steps + 32 * step, int64)
        kernel = row[0]
        words = words_address + 8 * row[1]
        before = 0
        if is_timed:
            before = nanoseconds(clock, time)
        if kernel < 0:
            step += steps_skipped(kernel, words)
        elif not run_step(shared, functions[kernel], words, row[2], row[3]):
            status = Status.WANTS_THREADS
            break
        if is_timed and kernel >= 0:
            times[step] += nanoseconds(clock, time) - before
        step += 1
        countdown -= 1
        if countdown == 0:
            if started != 0 and step < step_count:
                seen = nanoseconds(clock, time)
                if seen >= deadline:
                    status = Status.UNFINISHED
                    break
                patience = patience_after(seen - last_seen, patience)
                last_seen = seen
            countdown = patience
    record[RecordWord.NEXT] = step
    return status


def patience_after(elapsed: int, patience: int) -> int:
    """For how many steps the clock is not read, after so many that took `elapsed` nanoseconds.

    Reading it costs half as much as a small step. So it is read about every 20 us.
    """
    if elapsed < 20000 and patience < 256:
        return patience * 2
    if elapsed > 100000 and patience > 1:
        return patience // 2
    return patience


def run_step(shared: int, function: int, words: int, tasks: int, grain: int) -> bool:
    """False if threads are wanted for it that have not been started."""
    if tasks <= grain:
        call(function, words, 0, tasks)
        return True
    if (
        atomic_load(shared + 8 * SharedWord.POOL) == 0
        and atomic_load(shared + 8 * SharedWord.WANTED_THREADS) > 1
    ):
        return False
    run = pointer(shared, int64)[SharedWord.RUN_TASKS]
    call(run, shared, function, words, tasks, grain)
    return True


def steps_skipped(kind: int, words: int) -> int:
    """Do what a row of `Control` says; how many of the next steps are left out: less than 0 where
    it goes back."""
    own = pointer(words, int64)
    if kind == Control.REPEAT:
        return end_pass(own[0])
    if kind == Control.LOOP:
        return start_loop(words)
    if kind == Control.LEAVE:
        if pointer(own[LeaveWord.CONDITION_ADDRESS], uint8)[0] != 0:
            return 0
        loop = pointer(own[LeaveWord.LOOP_ADDRESS], int64)
        pointer(own[LeaveWord.COUNTER_ADDRESS], int64)[0] = loop[LoopWord.COUNTER]
        return own[LeaveWord.SKIPPED]
    if kind == Control.SWITCH:
        chosen = pointer(own[0], int64)[0]
        if chosen < 0:
            chosen = 0
        if chosen >= own[1]:
            chosen = own[1] - 1
        return own[2 + chosen]
    return own[0]


def start_loop(address: int) -> int:
    """Set the counter and the pointers of a loop; how many steps are left out: all if it has no
    passes."""
    loop = pointer(address, int64)
    if loop[LoopWord.TRIPS_ADDRESS] != 0:
        loop[LoopWord.TRIPS] = pointer(loop[LoopWord.TRIPS_ADDRESS], int64)[0]
    loop[LoopWord.COUNTER] = 0
    move_address = address + 8 * LoopWord.END
    for _ in range(loop[LoopWord.MOVES]):
        move = pointer(move_address, int64)
        start = move[MoveWord.START]
        if move[MoveWord.FIRST_ADDRESS] != 0:
            first = pointer(move[MoveWord.FIRST_ADDRESS], int64)[0]
            start += first * move[MoveWord.FIRST_STRIDE]
        pointer(move[MoveWord.TARGET], int64)[0] = start
        move_address += 8 * MoveWord.END
    if loop[LoopWord.TRIPS] <= 0:
        return loop[LoopWord.LENGTH] + 1
    return 0


def end_pass(address: int) -> int:
    """Count a pass of a loop and move its pointers; how many steps to go: back, or none."""
    loop = pointer(address, int64)
    passes = loop[LoopWord.COUNTER] + 1
    loop[LoopWord.COUNTER] = passes
    move_address = address + 8 * LoopWord.END
    for _ in range(loop[LoopWord.MOVES]):
        move = pointer(move_address, int64)
        target = pointer(move[MoveWord.TARGET], int64)
        moved = target[0] + move[MoveWord.STRIDE]
        if moved >= move[MoveWord.LIMIT]:
            moved -= move[MoveWord.RING]
        target[0] = moved
        move_address += 8 * MoveWord.END
    if passes < loop[LoopWord.TRIPS]:
        return -loop[LoopWord.LENGTH] - 1
    return 0
