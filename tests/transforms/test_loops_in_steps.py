"""Python loops whose steps are loops for the most part: two operations, one inside of the other."""

import functools
import itertools
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.transforms.rerolling import repeated_steps
from tests.transforms.loop_programs import WAYS, Program, by_jit, slope, step_by_step
from tests.transforms.test_random_rerolling import OPERATIONS

OUTER, INNER = 14, 10
STEPS = OUTER * INNER
FORCE = numpy.sin(numpy.arange(STEPS) ** 2)
ROWS = numpy.cos(numpy.arange(2.0 * STEPS)).reshape(STEPS, 2)


@pytest.fixture(autouse=True)
def any_inner_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_steps, "_SHORT", 32)


def advanced(p: Any, y: Any) -> Any:
    return y + 0.02 * slope(p, y + 0.01 * slope(p, y))


def observed(p: Any, data: Any) -> Any:
    y, total = p[:2], 0.0
    for k in range(STEPS):
        y = advanced(p, y)
        if k % INNER == INNER - 1:
            total = total + np.sum((y - data[k // INNER]) ** 2)
    return total


def observed_before(p: Any, data: Any) -> Any:
    u, v, total = p[0], p[1], 0.0
    for k in range(STEPS):
        if k % INNER == 0:
            total = total + (u - data[k // INNER, 0]) ** 2
        u, v = u + 0.01 * np.sin(v) * p[2], v - 0.01 * np.sin(u) * p[3]
        u, v = u * (1 + 0.01 * np.cos(u)), v * (1 - 0.02 * np.cos(v))
    return total + u * v


def two_ranges_and_a_list(p: Any, data: Any) -> Any:
    y, means = p[:2], []
    for _ in range(OUTER):
        total = 0.0
        for _ in range(INNER):
            y = advanced(p, y)
            total = total + y
        means.append(total / INNER)
    return np.sum((np.stack(means) - data[:OUTER]) ** 2)


def numbers_of_the_passes(p: Any, data: Any) -> Any:
    y, total = p[:2], 0.0
    for k in range(STEPS):
        y = advanced(p, y) + 0.01 * np.sin(0.3 * k)
        if k % INNER == INNER - 1:
            total = total + y[0] * (k + 1) * 0.1
    return total + 0.0 * np.sum(data)


def rows_of_the_passes(p: Any, data: Any) -> Any:
    y, total = p[:2], 0.0
    for k in range(STEPS):
        y = advanced(p, y) + FORCE[k] * 0.01 + ROWS[STEPS - 1 - k] * 0.02
        if k % INNER == INNER - 1:
            total = total + np.sum((y - data[k // INNER]) ** 2)
    return total


def rows_of_what_is_differentiated(p: Any, data: Any) -> Any:
    rows = np.concatenate([data, 0.5 * data, -data])[:STEPS]
    y, total = p[:2], 0.0
    for k in range(STEPS):
        y = advanced(p, y) + 0.01 * rows[k]
        if k % INNER == 3:
            total = total + y[1] * y[0]
    return total


def all_states_kept(p: Any, data: Any) -> Any:
    y, ys, total = p[:2], [], 0.0
    for k in range(STEPS):
        y = advanced(p, y)
        ys.append(y)
        if k % INNER == INNER - 1:
            total = total + y[0] * y[1]
    return total + np.sum(np.stack(ys)[:60] * data) + np.sum(ys[77])


def all_states_in_a_buffer(p: Any, data: Any) -> Any:
    states, total = np.zeros((STEPS + 1, 2)), 0.0
    states[0] = p[:2]
    for k in range(STEPS):
        states[k + 1] = advanced(p, states[k])
        if k % INNER == INNER - 1:
            total = total + np.sum(states[k + 1] ** 2)
    return total + np.sum(states[1:61] * data)


def a_buffer_from_its_end(p: Any, data: Any) -> Any:
    states, y, total = np.zeros((STEPS, 2)), p[:2], 0.0
    for k in range(STEPS):
        y = advanced(p, y)
        states[STEPS - 1 - k] = y
        if k % INNER == INNER - 1:
            total = total + np.sum(np.tanh(y))
    return total + np.sum(states[:60] * data)


def two_loops_in_a_step(p: Any, data: Any) -> Any:
    y, total = p[:2], 0.0
    for k in range(OUTER):
        for _ in range(INNER + 4):
            y = advanced(p, y)
        z = y
        for j in range(INNER):
            z = np.tanh(z * p[2:] + 0.1 * j) + 0.1 * np.exp(-z * z) - 0.01 * np.sin(z) * np.cos(z)
        total = total + np.sum((z - data[k]) ** 2)
    return total


def three_levels(p: Any, data: Any) -> Any:
    y, total = p[:2], 0.0
    for day in range(12):
        for hour in range(9):
            for _ in range(9):
                y = advanced(p, y)
            total = total + 0.1 * y[0] * y[1] + 0.01 * hour * np.sin(y[0])
        total = total + np.sum((y - data[day]) ** 2)
    return total


PROGRAMS: list[Program] = [
    observed,
    observed_before,
    two_ranges_and_a_list,
    numbers_of_the_passes,
    rows_of_the_passes,
    rows_of_what_is_differentiated,
    all_states_kept,
    all_states_in_a_buffer,
    a_buffer_from_its_end,
    two_loops_in_a_step,
    three_levels,
]


@pytest.mark.thorough(every=16)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_steps(
    f: Program, way: str, given: list[numpy.ndarray], loops: list[int]
) -> None:
    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    # The inner loop is found while the outer one is made.
    assert any(a >= INNER - 3 and b >= OUTER - 3 for a, b in itertools.pairwise(loops))


@pytest.mark.thorough(but="observed_before")
@pytest.mark.parametrize("f", PROGRAMS[:2], ids=lambda f: f.__name__)
def test_second_derivatives(f: Program, given: list[numpy.ndarray], loops: list[int]) -> None:
    p, data = given
    hessian = ng.jit(ng.hessian(lambda p: f(p, data)))(p)
    step = 1e-5
    for k, direction in enumerate(numpy.eye(4)):
        ahead, behind = (by_jit(f, p + s * direction, data)[1] for s in (step, -step))
        numpy.testing.assert_allclose(hessian[k], (ahead - behind) / (2 * step), rtol=1e-5)
    assert loops


def test_kernels_do_not_depend_on_the_number_of_steps(loops: list[int]) -> None:
    def sources(outer: int, inner: int) -> set[str]:
        def f(p: Any) -> Any:
            y, total = p[:2], 0.0
            for _ in range(outer):
                for _ in range(inner):
                    y = advanced(p, y)
                total = total + np.sum(y**2)
            return total

        lowered = ng.jit(ng.value_and_grad(f)).lower(numpy.array([1.1, 0.4, 0.4, 0.1]))
        return {kernel.source for kernel in lowered.kernels}

    assert sources(14, 20) == sources(30, 20) == sources(20, 45)
    assert loops


# Steps whose loops write to arrays that the step makes are no loop, and their loops are.


def forces_of_pairs(p: Any, data: Any) -> Any:
    x = data[:8] * p[0] + p[1] * numpy.arange(8.0)[:, None]
    for _ in range(4):
        forces = np.zeros((8, 2))
        for i in range(8):
            for k in range(i + 1, 8):
                away = x[i] - x[k]
                force = p[2] / (1 + np.sum(away * away)) * away
                forces[i] += force
                forces[k] -= force
        x = x + 0.01 * forces
    return np.sum(x**2) * p[3]


def sweeps_down_and_up(p: Any, data: Any) -> Any:
    u, k = data[:30, 0], 0.2 + 0.1 * np.tanh(data[:30, 1])
    for _ in range(4):
        slopes, values, new = np.zeros(30), np.zeros(30), np.zeros(30)
        slopes[0], values[0] = -k[0] / (1 + 2 * k[0]), u[0] / (1 + 2 * k[0])
        for i in range(1, 30):
            pivot = 1 + 2 * k[i] + k[i] * slopes[i - 1]
            slopes[i] = -k[i] / pivot
            values[i] = (u[i] + k[i] * values[i - 1]) / pivot
        new[29] = values[29]
        for i in range(28, -1, -1):
            new[i] = values[i] - slopes[i] * new[i + 1]
        u = new * p[0]
    return np.sum(u**2)


@pytest.mark.parametrize(("f", "steps"), [(forces_of_pairs, [28]), (sweeps_down_and_up, [29, 28])])
def test_loops_one_after_the_other_in_steps_that_are_none(
    f: Program,
    steps: list[int],
    given: list[numpy.ndarray],
    loops: list[int],
) -> None:
    for found, expected in zip(by_jit(f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    for count in steps:  # a step more or less stays as it is
        assert sum(abs(x - count) <= 2 for x in loops) >= 4, loops


def random_loops(seed: int) -> Program:
    """Random operations, in the steps of the inner loop and after them."""
    random = numpy.random.default_rng(seed)
    count = int(random.integers(1, 4))

    def some_lines(least: int, most: int) -> list[Any]:
        return [
            (OPERATIONS[random.integers(len(OPERATIONS))], *random.integers(0, count, 3).tolist())
            for _ in range(random.integers(least, most))
        ]

    inside, after = some_lines(3, 7), some_lines(1, 3)
    outer, inner = int(random.integers(12, 16)), int(random.integers(8, 12))
    first, appended = int(random.integers(0, inner)), int(random.integers(0, 2 * count + 1))
    data = random.normal(size=(outer * inner, 2))

    def f(p: Any, _: Any) -> Any:
        variables = [p[k : k + 1] * (1.0 + k) for k in range(count)]
        kept, total = [], 0.0
        for k in range(outer * inner):
            row = functools.partial(data.__getitem__, k)
            for operation, target, a, b in inside:
                variables[target] = operation(
                    variables[a], variables[b], variables[target], p, row, k
                )
            if appended < count:
                kept.append(variables[appended])
            if k % inner == first:
                for operation, target, a, b in after:
                    total = total + operation(
                        variables[a], variables[b], variables[target], p, row, k
                    )
        total = np.sum(total) + sum(np.sum(x) for x in variables)
        return total + np.sum(np.stack(kept) ** 2) if kept else total

    return f


@pytest.mark.thorough(every=60)
@pytest.mark.parametrize("seed", range(60))
def test_random_loops(seed: int, given: list[numpy.ndarray], loops: list[int]) -> None:
    f = random_loops(seed)
    expected = step_by_step(f, *given)
    for name, way in WAYS.items():
        for x, y in zip(way(f, *given), expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11, err_msg=name)
