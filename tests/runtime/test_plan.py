"""Plans are put together as the steps say, one by one and in blocks."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from numba_grad.errors import InternalError
from numba_grad.runtime.plan import SERIAL, ErrorSite, PlanBuilder, Tasks


@dataclass(frozen=True)
class StandIn:
    address: int


FLOAT = np.dtype(float)


def test_steps_words_and_relocations() -> None:
    builder = PlanBuilder(2, [((3,), FLOAT)])
    first, second = builder.kernel(StandIn(1)), builder.kernel(StandIn(2))
    assert builder.kernel(StandIn(1)) == first
    builder.step(second, [(builder.output(0), 8), 5], Tasks(3))
    builder.step(first, [7, (builder.input(1), 0), (builder.errors, 0)], Tasks(100, 10))
    plan = builder.build()
    assert_array_equal(plan.steps, [[1, 0, 3, SERIAL], [0, 2, 100, 10]])
    assert_array_equal(plan.words, [0, 5, 7, 0, 0])
    assert_array_equal(plan.relocations, [[3, 1, 0], [0, 2, 8], [4, 4, 0]])
    assert [kernel.address for kernel in plan.kernels] == [1, 2]


def test_bases_follow_each_other() -> None:
    builder = PlanBuilder(2, [((3,), FLOAT), ((), FLOAT)])
    bases = [builder.input(1), builder.output(0), builder.output(1), builder.arena, builder.errors]
    assert bases == [1, 2, 3, 4, 5]
    assert [builder.functions, builder.words] == [6, 7]
    assert [builder.symbol(name) for name in ("blas.dgemm", "blas.sgemm", "blas.dgemm")] == [
        8,
        9,
        8,
    ]
    assert builder.build().symbols == ("blas.dgemm", "blas.sgemm")
    assert builder.build().base_count == 10


def test_words_that_point_to_words_move_with_their_block() -> None:
    builder = PlanBuilder(0, [])
    kernel = builder.kernel(StandIn(1))
    steps, words = np.array([[kernel, 0, 1, 1]]), np.array([0, 5])
    relocations = np.array([[0, builder.words, 8]])
    for _ in range(3):
        builder.block(steps, words, relocations)
    found = builder.build().relocations.tolist()
    assert found == [[0, builder.words, 8], [2, builder.words, 24], [4, builder.words, 40]]


def test_equal_sites_are_one() -> None:
    builder = PlanBuilder(0, [])
    numbers = [builder.site(ErrorSite("index", "gather", axis)) for axis in (0, 1, 0)]
    assert numbers == [0, 1, 0]


def test_reserved_bytes_do_not_overlap() -> None:
    builder = PlanBuilder(0, [])
    assert [builder.reserve(10), builder.reserve(64), builder.reserve(1)] == [0, 64, 128]
    assert builder.arena_bytes == 129


def test_a_block_is_its_steps() -> None:
    one_by_one = PlanBuilder(1, [((9,), FLOAT)])
    kernel = one_by_one.kernel(StandIn(1))
    one_by_one.step(kernel, [3])
    for copy in range(4):
        one_by_one.step(kernel, [(0, 16 * copy), 10 + copy], Tasks(5))
        one_by_one.step(kernel, [1, (1, 0)], Tasks(6))

    in_blocks = PlanBuilder(1, [((9,), FLOAT)])
    assert in_blocks.kernel(StandIn(1)) == kernel
    in_blocks.step(kernel, [3])
    for copy in range(4):
        in_blocks.block(
            np.array([[kernel, 0, 5, SERIAL], [kernel, 2, 6, SERIAL]]),
            np.array([0, 10 + copy, 1, 0]),
            np.array([[0, 0, 16 * copy], [3, 1, 0]]),
        )
    expected, result = one_by_one.build(), in_blocks.build()
    assert_array_equal(result.steps, expected.steps)
    assert_array_equal(result.words, expected.words)
    assert_array_equal(result.relocations, expected.relocations)


@pytest.mark.parametrize(
    ("kernel", "words", "tasks", "grain"),
    [(1, [], 1, 1), (0, [(9, 0)], 1, 1), (0, [], -1, 1), (0, [], 1, 0)],
)
def test_numbers_that_refer_to_nothing_are_refused(
    kernel: int, words: list, tasks: int, grain: int
) -> None:
    builder = PlanBuilder(1, [])
    builder.kernel(StandIn(1))
    builder.step(kernel, words, Tasks(tasks, grain))
    with pytest.raises(InternalError, match="plan: "):
        builder.build()
