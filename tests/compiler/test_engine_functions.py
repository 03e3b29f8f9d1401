"""The parts of the native engine, each compiled by itself and given records of its own."""

import ctypes

import numpy as np
import pytest

from numba_grad.compiler.building import engine_build
from numba_grad.compiler.building.build import KernelRequest, build_requests
from numba_grad.errors import KernelError
from numba_grad.runtime.native_engine import RecordWord
from numba_grad.runtime.plan import Control, LeaveWord, LoopWord, MoveWord
from numba_grad.runtime.threads import PoolWord, SharedWord

# Parts that take pointers, as functions of addresses.
ENTRIES = """
def test_find_data(record: int, arrays: int, count: int) -> int:
    return find_data(pointer(record, int64), pointer(arrays, int64), count)


def test_fill_in_addresses(record: int) -> int:
    fill_in_addresses(pointer(record, int64))
    return 0


def test_run_chunk(pool: int, state: int) -> int:
    return run_chunk(pool, pointer(pool, int64), state)
"""
PARTS = {
    "patience_after": 2,
    "steps_skipped": 2,
    "run_step": 5,
    "test_find_data": 3,
    "test_fill_in_addresses": 1,
    "test_run_chunk": 2,
}


@pytest.fixture(scope="module")
def parts():
    """Functions of integers."""
    source = engine_build.engine_requests()[0].source + ENTRIES
    requests = [
        KernelRequest(source, name, f"int64({', '.join(['int64'] * count)})", is_quick=True)
        for name, count in PARTS.items()
    ]
    kernels = build_requests(requests)
    yield {
        name: ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(kernel.address)
        for (name, count), kernel in zip(PARTS.items(), kernels, strict=True)
    }
    del kernels


def words(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def loop(trips: int, *moves: dict[int, int]) -> np.ndarray:
    """The words of a loop of three steps."""
    result = np.zeros(LoopWord.END + MoveWord.END * len(moves), np.int64)
    result[LoopWord.TRIPS], result[LoopWord.LENGTH] = trips, 3
    result[LoopWord.MOVES] = len(moves)
    for number, move in enumerate(moves):
        for word, value in move.items():
            result[LoopWord.END + MoveWord.END * number + word] = value
    return result


def test_a_loop_moves_its_pointers_and_goes_back_until_its_passes_are_done(parts):
    target, ring = words(0), words(0)
    own = loop(
        3,
        {MoveWord.TARGET: target.ctypes.data, MoveWord.START: 100, MoveWord.STRIDE: 8},
        {
            MoveWord.TARGET: ring.ctypes.data,
            **{MoveWord.START: 8, MoveWord.STRIDE: 8, MoveWord.LIMIT: 24, MoveWord.RING: 16},
        },
    )
    assert parts["steps_skipped"](Control.LOOP, own.ctypes.data) == 0
    assert (target[0], ring[0]) == (100, 8)
    again = words(own.ctypes.data)
    seen = []
    for _ in range(3):
        seen.append(parts["steps_skipped"](Control.REPEAT, again.ctypes.data))
        seen.append((int(target[0]), int(ring[0])))
    assert seen == [-4, (108, 16), -4, (116, 8), 0, (124, 16)]
    assert own[LoopWord.COUNTER] == 3


def test_a_loop_without_passes_is_left_out_and_its_number_may_be_elsewhere(parts):
    assert parts["steps_skipped"](Control.LOOP, loop(0).ctypes.data) == 4
    trips, first, target = words(2), words(5), words(0)
    own = loop(
        0,
        {
            MoveWord.TARGET: target.ctypes.data,
            MoveWord.START: 1000,
            MoveWord.FIRST_ADDRESS: first.ctypes.data,
            MoveWord.FIRST_STRIDE: 10,
        },
    )
    own[LoopWord.TRIPS_ADDRESS] = trips.ctypes.data
    assert parts["steps_skipped"](Control.LOOP, own.ctypes.data) == 0
    assert own[LoopWord.TRIPS] == 2 and target[0] == 1050


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_condition_leaves_a_loop_and_says_after_how_many_passes(parts, goes_on):
    condition, counter, own = np.array([goes_on]), words(-1), loop(9)
    own[LoopWord.COUNTER] = 7
    row = np.zeros(LeaveWord.END, np.int64)
    row[LeaveWord.CONDITION_ADDRESS] = condition.ctypes.data
    row[LeaveWord.SKIPPED] = 2
    row[LeaveWord.LOOP_ADDRESS] = own.ctypes.data
    row[LeaveWord.COUNTER_ADDRESS] = counter.ctypes.data
    assert parts["steps_skipped"](Control.LEAVE, row.ctypes.data) == (0 if goes_on else 2)
    assert counter[0] == (-1 if goes_on else 7)


@pytest.mark.parametrize(("index", "skipped"), [(-3, 10), (0, 10), (1, 20), (2, 30), (9, 30)])
def test_a_switch_clips_its_index(parts, index, skipped):
    chosen = words(index)
    row = words(chosen.ctypes.data, 3, 10, 20, 30)
    assert parts["steps_skipped"](Control.SWITCH, row.ctypes.data) == skipped
    assert parts["steps_skipped"](Control.SKIP, words(6).ctypes.data) == 6


@pytest.mark.parametrize(
    ("elapsed", "patience", "then"),
    [(1_000, 4, 8), (1_000, 256, 256), (50_000, 8, 8), (200_000, 8, 4), (200_000, 1, 1)],
)
def test_the_clock_is_read_about_every_20_us(parts, elapsed, patience, then):
    assert parts["patience_after"](elapsed, patience) == then


def test_only_words_of_bases_that_changed_are_filled_in(parts):
    plan_words, bases, last = words(-1, -1, -1), words(1000, 2000), words(1000, 0)
    starts, relocations = words(0, 1, 3), words(0, 8, 1, 16, 2, 24)
    record = np.zeros(RecordWord.END, np.int64)
    for word, array in (
        (RecordWord.WORDS, plan_words),
        (RecordWord.BASES, bases),
        (RecordWord.LAST_BASES, last),
        (RecordWord.RELOCATION_STARTS, starts),
        (RecordWord.RELOCATIONS, relocations),
    ):
        record[word] = array.ctypes.data
    record[RecordWord.BASE_COUNT] = 2
    parts["test_fill_in_addresses"](record.ctypes.data)
    assert plan_words.tolist() == [-1, 2016, 2024]
    assert last.tolist() == [1000, 2000]


@pytest.mark.parametrize(
    ("arrays", "are_good"),
    [
        ((np.ones(3), np.ones((2, 2))), True),
        ((np.ones(3), np.ones((2, 3)).T), False),
        ((np.ones(3),), False),
        ((np.ones(3), [1.0]), False),
    ],
    ids=["contiguous", "transposed", "too few", "a list"],
)
def test_arguments_are_contiguous_arrays_as_many_as_the_plan_takes(parts, arrays, are_good):
    bases = words(0, 0)
    record = np.zeros(RecordWord.END, np.int64)
    record[RecordWord.BASES] = bases.ctypes.data
    record[RecordWord.OBJECT_COUNT] = 2
    record[RecordWord.ARRAY_TYPE] = id(np.ndarray)
    objects = words(*map(id, arrays))
    found = parts["test_find_data"](record.ctypes.data, objects.ctypes.data, len(arrays))
    assert found == are_good
    if are_good:
        assert bases.tolist() == [x.ctypes.data for x in arrays]


@pytest.fixture
def calls():
    """A kernel that notes its tasks, and what it noted."""
    noted: list[tuple[int, int, int]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    kernel = kind(lambda *tasks: noted.append(tasks))
    return kernel, noted


def test_a_chunk_is_run_by_who_takes_it_and_the_last_one_is_shorter(parts, calls):
    kernel, noted = calls
    pool = np.zeros(PoolWord.END, np.int64)
    generation = 5 << 32
    pool[PoolWord.FUNCTION] = ctypes.cast(kernel, ctypes.c_void_p).value
    pool[PoolWord.ARGUMENTS], pool[PoolWord.TASKS] = 77, 25
    pool[PoolWord.CHUNK], pool[PoolWord.CHUNKS] = 10, 3
    pool[PoolWord.STATE] = generation | 3
    address = pool.ctypes.data
    assert parts["test_run_chunk"](address, generation | 3) == 1
    assert parts["test_run_chunk"](address, generation | 3) == 0  # it is taken
    assert parts["test_run_chunk"](address, generation | 2) == 2
    assert parts["test_run_chunk"](address, generation | 1) == 3
    assert noted == [(77, 0, 10), (77, 10, 20), (77, 20, 25)]
    assert pool[PoolWord.STATE] == generation


def test_a_step_that_wants_threads_waits_for_them(parts, calls):
    kernel, noted = calls
    function = ctypes.cast(kernel, ctypes.c_void_p).value
    shared = np.zeros(SharedWord.END, np.int64)
    shared[SharedWord.WANTED_THREADS] = 2
    assert parts["run_step"](shared.ctypes.data, function, 7, 5, 5) == 1
    assert noted == [(7, 0, 5)]
    assert parts["run_step"](shared.ctypes.data, function, 7, 6, 5) == 0
    assert noted == [(7, 0, 5)]


def test_functions_that_are_written_out_return_one_type():
    source = """
def part(x: int) -> int:
    if x > 0:
        return 1
    return 0.5


def kernel(args, lo, hi):
    pointer(args, int64)[0] = int64(part(lo))
"""
    with pytest.raises(KernelError, match=r"part returns (int64 and float64|float64 and int64)"):
        build_requests([KernelRequest(source)])
