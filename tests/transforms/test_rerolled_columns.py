"""Buffers whose columns steps write, and parts of whose rows and columns they read."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import WAYS, Program, slope, step_by_step

STEPS = 40
INPUTS = numpy.sin(numpy.arange(2.0 * STEPS)).reshape(2, STEPS)


def columns(p: Any, first: Any) -> Any:
    x = np.zeros((2, STEPS + 1))
    x[:, 0] = first
    for k in range(STEPS):
        x[:, k + 1] = x[:, k] + 0.05 * slope(p, x[:, k])
    return np.sum(x**2)


def columns_and_columns_of_data(p: Any, first: Any) -> Any:
    x = np.zeros((2, STEPS + 1))
    x[:, 0] = first
    for k in range(STEPS):
        x[:, k + 1] = np.array([[0.9, 0.1], [-0.1, 0.95]]) @ x[:, k] * p[0] + p[1] * INPUTS[:, k]
    return np.sum(x[:, ::3] ** 2) + x[0, -1]


def elements_of_columns(p: Any, first: Any) -> Any:
    x = np.zeros((3, STEPS))
    x[0, 0], x[1, 0], x[2, 0] = first[0], first[1], 1.0
    for k in range(STEPS - 1):
        x[0, k + 1] = x[0, k] + 0.05 * p[0] * (x[1, k] - x[0, k])
        x[1, k + 1] = x[1, k] + 0.05 * (x[0, k] * (p[1] - x[2, k]) - x[1, k])
        x[2, k + 1] = x[2, k] + 0.05 * (x[0, k + 1] * x[1, k] - p[2] * x[2, k])
    return np.mean(x[2] ** 2) + np.sum(x[:, -1])


def elements_of_one_row(p: Any, first: Any) -> Any:
    x = np.zeros((1, STEPS))
    x[0, 0] = first[0]
    for k in range(STEPS - 1):
        x[0, k + 1] = x[0, k] + 0.05 * p[0] * np.sin(x[0, k] * p[1])
    return np.sum(x**2)


def elements_written_and_columns_read(p: Any, first: Any) -> Any:
    x = np.zeros((3, STEPS))
    x[:2, 0] = first
    for k in range(STEPS - 1):
        a, b, c = x[:, k]
        x[0, k + 1] = a + 0.05 * p[0] * (b - a)
        x[1, k + 1] = b + 0.05 * (a * (p[1] - c) - b)
        x[2, k + 1] = c + 0.05 * (a * b - p[2] * c)
    return np.sum(x**2)


def columns_written_and_elements_read(p: Any, first: Any) -> Any:
    x = np.zeros((2, STEPS))
    x[:, 0] = first
    for k in range(1, STEPS):
        a, b = x[0, k - 1], x[1, k - 1]
        x[:, k] = x[:, k - 1] + 0.05 * np.stack([p[0] * a - p[1] * a * b, p[2] * a * b - p[3] * b])
    return np.sum(x**2)


def rows_written_and_elements_read(p: Any, first: Any) -> Any:
    x = np.zeros((STEPS, 2))
    x[0] = first
    for k in range(1, STEPS):
        a, b = x[k - 1, 0], x[k - 1, 1]
        x[k] = x[k - 1] + 0.05 * np.stack([p[0] * a - p[1] * a * b, p[2] * a * b - p[3] * b])
    return np.sum(x**2)


def an_element_of_what_was_written(p: Any, first: Any) -> Any:
    x, total = np.zeros((STEPS + 1, 2)), 0.0
    x[0] = first
    for k in range(STEPS):
        x[k + 1] = x[k] + 0.05 * slope(p, x[k])
        total = total + x[k + 1, 0] * x[k, 1]
    return total + np.sum(x[1:] ** 2)


def parts_of_rows_at_distances(p: Any, first: Any) -> Any:
    x = np.zeros((STEPS + 2, 4))
    x[0], x[1] = np.sin(p), np.cos(p)
    for k in range(2, STEPS + 2):
        even, odd, back = x[k - 1, ::2], x[k - 2, 1::2], x[k - 1, ::-1]
        x[k] = 0.4 * back + 0.3 * np.concatenate([np.sin(even), odd * first])
    return np.sum(x**2)


def a_field_with_time_along_columns(p: Any, first: Any) -> Any:
    u = np.zeros((9, STEPS))
    u[:, 0] = np.sin(np.arange(9.0)) * p[0]
    for k in range(STEPS - 1):
        u[0, k + 1] = first[0] * 0.1
        u[1:-1, k + 1] = u[1:-1, k] + 0.2 * p[1] * (u[2:, k] - 2 * u[1:-1, k] + u[:-2, k])
        u[-1, k + 1] = u[-2, k + 1]
    return np.sum(u**2)


def from_the_last_column(p: Any, first: Any) -> Any:
    x = np.zeros((2, STEPS + 1))
    x[:, STEPS] = first
    for k in range(STEPS - 1, -1, -1):
        x[:, k] = 0.99 * x[:, k + 1] + 0.05 * slope(p, x[:, k + 1])
    return np.sum(x * np.cos(np.arange(2 * STEPS + 2.0)).reshape(2, -1))


def ends_of_a_state(p: Any, first: Any) -> Any:
    u = np.sin(np.arange(9.0)) * p[0]
    for _ in range(STEPS):
        new = u + 0.1 * p[1] * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        new[0], new[-1] = first[0], 0.0
        u = new
    return np.sum(u**2)


def ends_of_two_fields(p: Any, first: Any) -> Any:
    u = np.sin(np.arange(18.0)).reshape(2, 9) * p[0]
    for _ in range(STEPS):
        new = u + 0.1 * p[1] * (np.roll(u, 1, axis=1) - 2 * u + np.roll(u, -1, axis=1))
        new[:, 0] = first
        new[:, -1] = new[:, -2]
        new[1, 3] = new[0, 4] * 0.5
        u = new
    return np.sum(u**2)


PROGRAMS: list[Program] = [
    columns,
    columns_and_columns_of_data,
    elements_of_columns,
    elements_of_one_row,
    elements_written_and_columns_read,
    columns_written_and_elements_read,
    rows_written_and_elements_read,
    an_element_of_what_was_written,
    parts_of_rows_at_distances,
    a_field_with_time_along_columns,
    from_the_last_column,
    ends_of_a_state,
    ends_of_two_fields,
]


# `backward` leaves arrays as the user has them, so what is read of several parts is no row.
NOT_BY_BACKWARD = (elements_written_and_columns_read, a_field_with_time_along_columns)


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_steps(f: Program, way: str, loops: list[int]) -> None:
    given = [numpy.array([0.9, 0.3, 0.4, 0.2]), numpy.array([1.0, 0.5])]
    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    if way != "backward" or f not in NOT_BY_BACKWARD:
        assert max(loops) >= STEPS - 4


def random_assignments(seed: int) -> Callable[[Any, Any], Any]:
    """Steps that write rows, columns, elements and regions of an array, over each other now and
    then, and read others."""
    random = numpy.random.default_rng(seed)
    shape = [(3, 30), (30, 3), (14, 30), (30, 14), (2, 2), (13, 13)][seed % 6]

    def index(k: int, axis: int, size: int, kind: int, at: int) -> Any:
        if kind == 0:  # one that moves
            return (k + at) % size
        if kind == 1:
            return at % size
        return slice(at % 2, size - at % 2) if size > 2 else slice(None)

    def some_regions(count: int) -> list[tuple[int, ...]]:
        return [tuple(random.integers(0, 3, 4).tolist()) for _ in range(count)]

    writes, reads = some_regions(random.integers(1, 4)), some_regions(random.integers(1, 4))
    steps = int(random.integers(12, 17))

    def f(p: Any, first: Any) -> Any:
        x = np.zeros(shape) + first[0]
        x[0] = np.sin(np.arange(float(shape[1]))) * p[0]
        x[:, 0] = p[1]
        total = 0.0
        for k in range(steps):
            for kind, other, at, to in reads:
                part = x[index(k, 0, shape[0], kind, at), index(k, 1, shape[1], other, to)]
                total = 0.5 * total + np.sum(np.sin(part)) * p[2]
            for number, (kind, other, at, to) in enumerate(writes):
                where = index(k + 1, 0, shape[0], kind, at), index(k + 1, 1, shape[1], other, to)
                x[where] = 0.3 * x[where] + np.tanh(total * (0.1 + 0.1 * number)) + p[3]
        return np.sum(x**2) + total

    return f


@pytest.mark.thorough(but="^40$")
@pytest.mark.parametrize(
    "seed", [pytest.param(0, marks=pytest.mark.thorough(rare=True)), *range(1, 48)]
)
def test_random_assignments(seed: int, short: None) -> None:
    f = random_assignments(seed)
    given = [numpy.array([0.9, 0.3, 0.4, 0.2]), numpy.array([1.0, 0.5])]
    expected = step_by_step(f, *given)
    step = 1e-6
    ahead, behind = (f(given[0] + s * numpy.ones(4), given[1]) for s in (step, -step))
    slopes = (float(ahead) - float(behind)) / (2 * step)
    numpy.testing.assert_allclose(numpy.sum(expected[1]), slopes, rtol=1e-4, atol=1e-5)
    for name, way in WAYS.items():
        for x, y in zip(way(f, *given), expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11, err_msg=name)


def test_rows_of_two_axes_of_one_array() -> None:
    """What one assignment has left is what the next one goes on from, along whichever axis."""

    def f(p: Any) -> Any:
        x = np.zeros((3, 20))
        for k in range(19):
            x[k % 3, k] = p[0] * (k + 1)
            x[:, k + 1] = x[:, k] * 0.5 + p[1]
            x[1] = x[1] * 0.9
            x[2, 5] = x[0, k] + x[2, k]
        return np.sum(x**2)

    p = numpy.array([0.7, 0.2])
    value, gradient = ng.value_and_grad(f)(p)
    step = 1e-6
    for k, direction in enumerate(numpy.eye(2)):
        ahead, behind = (float(f(p + s * direction)) for s in (step, -step))
        numpy.testing.assert_allclose(gradient[k], (ahead - behind) / (2 * step), rtol=1e-7)
    numpy.testing.assert_allclose(value, ng.jit(f)(p), rtol=1e-13)


@pytest.mark.thorough(but="^1$")
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_row_of_an_argument_before_rows_of_constants(first):
    """The array has a gradient, the rows that the steps assign have none."""
    rows = np.random.default_rng(0).normal(size=(130, 2))

    def f(p):
        y, w = ng.zeros(130), ng.zeros((130, 2))
        w[:first] = rows[:first]
        w[first] = p
        for k in range(first + 1, 130):
            w[k] = rows[k]
            y[k] = np.tanh(np.tanh(w[k - 1, 0])) * w[k - 1, 1]
        return np.sum(y**2)

    p = np.array([0.5, 1.5])
    expected = [(f(p + h) - f(p - h)).item() / 2e-6 for h in 1e-6 * np.eye(2)]
    for gradient in (ng.grad(f), ng.jit(ng.grad(f))):
        np.testing.assert_allclose(gradient(p), expected, rtol=1e-6)


def _reads_of_two_rows_before(v: Any, rows: Any) -> Any:
    y, s = ng.zeros(rows.shape), 0.0
    y[0] = v
    for k in range(1, len(rows)):
        s = s + y[k - 1, 0]
        s = s + y[k - 2, 1] ** 2
        y[k] = rows[k]
    return s


def _reads_of_a_window(v: Any, rows: Any) -> Any:
    y, s = ng.ones(rows.shape), 0.0
    y[0], y[1] = v, v**2
    for k in range(2, len(rows)):
        s = s + np.sum(np.sin(y[k - 2 : k].sum(axis=0)))
        y[k] = rows[k]
    return s


def _elements_moved_on(v: Any, rows: Any) -> Any:
    y, s = ng.zeros(rows.shape), 0.0
    y[0] = v
    for k in range(1, len(rows)):
        s = s + y[k - 1, 0]
        s = s + y[k - 2, 1]
        y[k, 1] = y[k - 1, 0]
    return s


@pytest.mark.parametrize(
    "f",
    [
        _reads_of_two_rows_before,
        _reads_of_a_window,
        _elements_moved_on,
    ],
)
@pytest.mark.usefixtures("short")
def test_a_row_that_the_first_steps_read_keeps_its_gradient(f: Callable[..., ng.Tensor]) -> None:
    v, rows = np.array([0.5, 1.5, -0.7]), np.random.default_rng(0).normal(size=(40, 3))
    expected = [(f(v + h, rows) - f(v - h, rows)).item() / 2e-6 for h in 1e-6 * np.eye(3)]
    for gradient in (ng.grad(f), ng.jit(ng.grad(f))):
        numpy.testing.assert_allclose(gradient(v, rows), expected, rtol=1e-6, atol=1e-7)
