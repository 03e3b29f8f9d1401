"""What a loop of a jitted function reads of arrays that it closes over is read at each call."""

import functools
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.transforms import python_loops
from tests.transforms.loop_programs import Program

Data = dict[str, numpy.ndarray]


def test_arrays_that_a_jitted_loop_reads_are_read_at_each_call(short: None) -> None:
    rates = [numpy.array(0.5 + 0.01 * k) for k in range(60)]

    def f(x: Any) -> Any:
        for rate in rates:
            x = np.sin(x) * rate + 0.1
        return np.sum(x)

    compiled = ng.jit(ng.value_and_grad(f))
    x = numpy.array([1.0, 2.0])
    before = compiled(x)
    rates[3][...] = 2.0
    after = compiled(x)
    expected = ng.value_and_grad(f)(x)
    assert before[0] != after[0]
    numpy.testing.assert_allclose(after[0], expected[0], rtol=1e-13)
    numpy.testing.assert_allclose(after[1], expected[1], rtol=1e-13)


# Rows of one array: read in one piece.


def rows_by_number(x: Any, given: Data) -> Any:
    for k in range(len(given["rows"])):
        x = np.tanh(0.5 * x + given["rows"][k])
    return np.sum(x)


def rows_one_after_the_other(x: Any, given: Data) -> Any:
    loss = 0.0
    for row, wanted in zip(given["rows"], given["wanted"], strict=True):
        x = np.tanh(given["matrix"] @ x + row)
        loss = loss + np.sum((x - wanted) ** 2)
    return loss


def rows_from_the_last_on(x: Any, given: Data) -> Any:
    for row in given["rows"][::-1]:
        x = 0.3 * np.sin(x) + row
    return np.sum(x)


def two_rows_in_each_step(x: Any, given: Data) -> Any:
    states, rows = [], given["rows"]
    for k in range(1, len(rows)):
        x = np.tanh(0.5 * x + rows[k] - rows[k - 1])
        states.append(x)
    return np.sum(np.stack(states) ** 2)


def windows_of_numbers(x: Any, given: Data) -> Any:
    numbers = given["wanted"][:, 1]
    for k in range(2, len(numbers)):
        x = np.tanh(x) * 0.5 + numbers[k - 2 : k]
    return np.sum(x)


def rows_into_a_buffer(x: Any, given: Data) -> Any:
    rows = given["rows"]
    y = np.zeros((len(rows) + 1, 2))
    y[0] = x
    for k in range(len(rows)):
        y[k + 1] = np.tanh(0.5 * y[k] + rows[k])
    return np.sum((y[1:] - given["wanted"]) ** 2)


def begun_by_numpy(x: Any, given: Data) -> Any:
    y, rows = numpy.array([0.1, 0.2]), given["rows"]
    for k in range(len(rows)):
        y = np.tanh(0.5 * y * x + rows[k])
    return np.sum(y)


CLOSED_OVER = [
    rows_by_number,
    rows_one_after_the_other,
    rows_from_the_last_on,
    two_rows_in_each_step,
    windows_of_numbers,
    rows_into_a_buffer,
    begun_by_numpy,
]


def closed_over(steps: int) -> Data:
    random = numpy.random.default_rng(3)
    shapes = {"rows": (steps, 2), "wanted": (steps, 2), "matrix": (2, 2)}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def value_and_slope(f: Program, given: Data, x: numpy.ndarray) -> list[numpy.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "FEWEST_NODES", 1 << 40)
        return [numpy.asarray(y) for y in ng.value_and_grad(f)(x, given)]


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("f", CLOSED_OVER, ids=lambda f: f.__name__)
def test_rows_that_a_jitted_loop_reads_are_read_at_each_call(f: Program, loops: list[int]) -> None:
    # More than 1 KiB each, which guards compare by content.
    given, x = closed_over(100), numpy.array([0.3, -0.4])
    values, slopes = ng.jit(lambda x: f(x, given)), ng.jit(ng.value_and_grad(lambda x: f(x, given)))
    for change in (1.0, -0.7):
        for name in {"rows", "wanted"}.intersection(f.__code__.co_consts):
            given[name][3:] *= change
        expected = value_and_slope(f, given, x)
        for found, y in zip([*slopes(x), values(x)], [*expected, expected[0]], strict=True):
            numpy.testing.assert_allclose(found, y, rtol=1e-12, atol=1e-14)
    assert len(loops) == 2  # each is traced once
    assert min(loops) >= 98


@pytest.mark.parametrize("f", CLOSED_OVER, ids=lambda f: f.__name__)
def test_kernels_of_rows_closed_over_do_not_depend_on_their_number(f: Program) -> None:
    def sources(steps: int) -> list[str]:
        program = functools.partial(f, given=closed_over(steps))
        lowered = ng.jit(ng.value_and_grad(program)).lower(numpy.ones(2))
        return [kernel.source for kernel in lowered.kernels]

    assert sources(20) == sources(33)


def test_rows_in_any_order_stay(loops: list[int]) -> None:
    given, x = closed_over(100), numpy.array([0.3, -0.4])
    numbers = numpy.random.default_rng(1).permutation(100).tolist()

    def f(x: Any, given: Data = given) -> Any:
        for k in numbers:
            x = np.tanh(0.5 * x + given["rows"][k])
        return np.sum(x)

    compiled = ng.jit(ng.value_and_grad(f))
    for _ in range(2):
        for found, y in zip(compiled(x), value_and_slope(f, given, x), strict=True):
            numpy.testing.assert_allclose(found, y, rtol=1e-12)
        given["rows"][5] += 0.5
    assert not loops


@pytest.mark.parametrize("when", ["in the loop", "behind it"])
def test_rows_that_are_written_while_tracing_are_as_they_were(when: str, short: None) -> None:
    rows = numpy.random.default_rng(2).normal(size=(40, 2))
    before = rows.copy()

    def loss(x: Any) -> Any:
        for k in range(40):
            x = np.tanh(0.5 * x + rows[k])
            if when == "in the loop":
                rows[k] = 7.0
        return np.sum(x)

    def f(x: Any) -> Any:
        found = ng.value_and_grad(loss)(x)
        rows[:] = 7.0
        return found

    x = numpy.array([0.3, -0.4])
    found = ng.jit(f)(x)
    expected = value_and_slope(rows_by_number, {"rows": before}, x)
    for y, z in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(y, z, rtol=1e-12)


def tridiagonal(diagonal: Any, right: Any) -> Any:
    """The solution of a system with -1 beside the diagonal, by a sweep there and one back."""
    ratios, rights = [-1 / diagonal[0]], [right[0] / diagonal[0]]
    for i in range(1, len(diagonal)):
        pivot = diagonal[i] + ratios[i - 1]
        ratios.append(-1 / pivot)
        rights.append((right[i] + rights[i - 1]) / pivot)
    x = [rights[-1]]
    for i in range(len(diagonal) - 2, -1, -1):
        x.append(rights[i] - ratios[i] * x[-1])
    return np.stack(x[::-1])


def test_a_sweep_back_over_what_a_loop_has_left(loops: list[int]) -> None:
    random = numpy.random.default_rng(4)
    diagonal, right = 3 + random.random(60), random.normal(size=60)

    def dense(diagonal: Any, right: Any) -> Any:
        matrix = np.diag(diagonal) - np.eye(60, k=1) - np.eye(60, k=-1)
        return np.sum(np.linalg.solve(matrix, right) ** 3)

    jitted = ng.jit(ng.grad(lambda d, r: np.sum(tridiagonal(d, r) ** 3), (0, 1)))
    expected = ng.grad(dense, (0, 1))(diagonal, right)
    for found, y in zip(jitted(diagonal, right), expected, strict=True):
        numpy.testing.assert_allclose(found, y, rtol=1e-10, atol=1e-12)
    assert len(loops) == 2
    assert min(loops) >= 56
