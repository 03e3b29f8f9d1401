"""Python loops that become one operation again: the same values and gradients as step by step."""

from pathlib import Path
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.config import configure
from numba_grad.frontend.derivatives import own_history
from numba_grad.graph import walk
from numba_grad.transforms.rerolling import rerolling
from tests.counting import functions_entered
from tests.transforms.loop_programs import (
    WAYS,
    Program,
    by_backward,
    by_jit,
    chain,
    slope,
    step_by_step,
)

# Programs. Each gets a vector of 4 and a matrix of 60 x 2.


def array_state(p: Any, data: Any) -> Any:
    y = np.array([1.0, 0.5])
    for _ in range(60):
        k = slope(p, y + 0.01 * slope(p, y))
        y = y + 0.02 * k
    return np.sum(y**2) + 0.0 * np.sum(data)


def scalar_state(p: Any, data: Any) -> Any:
    u, v, total = 1.0, 0.5, 0.0
    for k in range(60):
        u, v = u + 0.01 * (p[0] * u - p[1] * u * v), v + 0.01 * (p[2] * u * v - p[3] * v)
        total = total + (u - data[k, 0]) ** 2 + (v - data[k, 1]) ** 2
    return total


def states_stacked(p: Any, data: Any) -> Any:
    y, ys = np.array([1.0, 0.5]), []
    for _ in range(60):
        y = y + 0.02 * slope(p, y)
        ys.append(y)
    return np.mean((np.stack(ys) - data) ** 2)


def first_state_as_well(p: Any, data: Any) -> Any:
    y = p[:2] * 1.0
    ys = [y]
    for _ in range(59):
        y = y + 0.02 * slope(p, y)
        ys.append(y)
    return np.sum(np.array(ys) * data)


def scalars_stacked_last(p: Any, data: Any) -> Any:
    u, v, us, vs = 1.0, 0.5, [], []
    for _ in range(60):
        u, v = u + 0.01 * p[0] * v, v - 0.01 * p[1] * u
        us.append(u)
        vs.append(v)
    return np.sum(np.stack([np.stack(us), np.stack(vs)], axis=1) * data)


def stacked_along_the_last_axis(p: Any, data: Any) -> Any:
    y, ys = p[:2], []
    for _ in range(60):
        y = y * p[2:] + np.sin(y)
        ys.append(y)
    return np.sum(np.stack(ys, axis=-1) * data.T)


def two_steps_back(p: Any, data: Any) -> Any:
    before, now = p * 0.5, p * 1.0
    for k in range(60):
        before, now = now, 1.9 * now - 0.95 * before + 0.01 * np.roll(now, 1) + 0.001 * k
    return np.sum(now * before) + 0.0 * np.sum(data)


def numbers_that_change(p: Any, data: Any) -> Any:
    x, rate = p, 1.0
    for k in range(60):
        x = np.sin(x) * (1.1 + 0.01 * k) + rate * p[1]
        rate *= 0.9
    return np.sum(x) + 0.0 * np.sum(data)


def rows_of_what_is_differentiated(p: Any, data: Any) -> Any:
    h = np.zeros(2)
    for k in range(58):
        h = np.tanh(0.9 * h + data[k] * p[0] + (data[k + 2] - data[k + 1]) * p[1])
    return np.sum(h)


def rows_backwards(p: Any, data: Any) -> Any:
    h = np.zeros(2)
    for k in reversed(range(60)):
        h = np.tanh(0.9 * h + data[k] * p[:2])
    return np.sum(h)


def single_states_are_read(p: Any, data: Any) -> Any:
    y, kept = p, {}
    for k in range(60):
        y = y + 0.1 * np.sin(y)
        kept[k] = y
    return np.sum(kept[7] * kept[30] * data[0, 0] + kept[59])


def what_is_kept_is_used_twice(p: Any, data: Any) -> Any:
    y, ys = p[:2], []
    for _ in range(60):
        y = y + 0.1 * np.sin(y)
        ys.append(y)
    stacked = np.stack(ys)
    return np.sum(stacked * data) + ys[10][0] * ys[11][1] + sum(np.sum(x) for x in ys[::20])


def matrix_steps(p: Any, data: Any) -> Any:
    a = np.reshape(p, (2, 2))
    x = np.eye(2)
    for _ in range(60):
        x = np.tanh(x @ a) + 0.1 * a.T
    return np.sum(x) + 0.0 * np.sum(data)


def two_loops(p: Any, data: Any) -> Any:
    y = p
    for _ in range(60):
        y = np.sin(y) * 1.1
    z = np.sum(y) * p
    for _ in range(60):
        z = z + 0.1 * np.cos(z * y)
    return np.sum(z) + 0.0 * np.sum(data)


def loops_in_loops(p: Any, data: Any) -> Any:
    y = p
    for k in range(20):
        for _ in range(5):
            y = y + 0.1 * np.sin(y)
        y = y * data[k, 0]
    return np.sum(y)


def every_other_step_differs(p: Any, data: Any) -> Any:
    y = p
    for k in range(60):
        y = y + 0.1 * np.sin(y) if k % 2 else y * np.exp(-0.1 * y)
    return np.sum(y) + 0.0 * np.sum(data)


def zeros_of_two_signs(p: Any, data: Any) -> Any:
    y = p
    for k in range(60):
        y = np.where(np.isfinite(1.0 / (y * (0.0 if k % 3 else -0.0))), y, y * 0.99 + 0.1)
    return np.sum(y) + 0.0 * np.sum(data)


def the_best_so_far(p: Any, data: Any) -> Any:
    y, best = p, p
    for k in range(60):
        y = np.sin(1.3 * y) + 0.1
        if k % 20 == 0:
            best = y
        y = y + 0.01 * best
    return np.sum(y) + 0.0 * np.sum(data)


def parts_without_history(p: Any, data: Any) -> Any:
    y, rate = p, p[0]
    for k in range(60):
        with ng.no_grad():
            norm = np.sum(y * y) * (1.0 + k)
        y = np.sin(y) * rate + 0.1 * y / norm
        rate = 0.9 * y.detach()[1]
    return np.sum(y) + 0.0 * np.sum(data)


def begun_with_a_constant(p: Any, data: Any) -> Any:
    y = p
    for k in range(120):
        y = 0.1 * y + 0.5 if k % 2 else y * p
    return np.sum(y) + 0.0 * np.sum(data)


def begun_with_an_earlier_constant(p: Any, data: Any) -> Any:
    before, now = p, p
    for _ in range(60):
        before, now = now, np.sin(now * p) + 0.3 * before
    return np.sum(now) + 0.0 * np.sum(data)


def zeros_at_both_ends(p: Any, data: Any) -> Any:
    y = p
    for _ in range(60):
        inner = y[1:-1] + 0.1 * (y[2:] - 2.0 * y[1:-1] + y[:-2])
        y = np.concatenate([np.zeros(1), np.sin(inner), np.ones(1)])
    return np.sum(y * p) + 0.0 * np.sum(data)


def rows_assigned(p: Any, data: Any) -> Any:
    y, states = p[:2], np.zeros((60, 2))
    for k in range(60):
        y = y + 0.02 * slope(p, y)
        states[k] = y
    return np.sum((states - data) ** 2)


def rows_assigned_and_read_again(p: Any, data: Any) -> Any:
    states, sums = np.ones((64, 2)), np.zeros(130)
    states[0] = p[:2]
    states[1] = p[2:]
    for k in range(60):
        states[k + 2] = states[k + 1] + 0.02 * slope(p, states[k]) + 0.01 * data[k]
        sums[2 * k] = states[k + 2][0] * p[1]
        sums[2 * k + 1] = np.sum(states[k + 1])
    return np.sum(states**2 * p[0]) + np.sum(sums * np.arange(130.0))


def rows_assigned_backwards(p: Any, data: Any) -> Any:
    values, gains = np.zeros((61, 2)), np.zeros(60)
    values[60] = p[:2]
    for k in range(59, -1, -1):
        gains[k] = np.sum(values[k + 1]) * p[2]
        values[k] = 0.9 * np.tanh(values[k + 1] * p[3]) + 0.1 * data[k]
    return np.sum(values[1:] * data) + np.sum(gains * np.arange(60.0))


def rows_changed_in_place(p: Any, data: Any) -> Any:
    table = data * p[0]
    for k in range(59):
        table[k + 1] = 0.5 * np.sin(table[k]) + table[k + 1] * p[1]
    return np.sum(table**2)


def one_row_assigned_again(p: Any, data: Any) -> Any:
    table, y = data * p[0], p[:2]
    for k in range(60):
        y = np.sin(y) + 0.1
        table[3] = y
        table[k] = table[3] * 0.5
    return np.sum(table**2)


def elements_of_rows_assigned(p: Any, data: Any) -> Any:
    table = np.zeros((51, 2))
    table[0] = numpy.array([1.0, 0.5])
    for k in range(50):
        table[k + 1, 0] = table[k, 0] + 0.02 * (p[0] * table[k, 0] - p[1] * table[k, 1])
        table[k + 1, 1] = table[k, 1] + 0.02 * p[2] * table[k + 1, 0]
    return np.sum(table**2)


def rows_and_then_pairs_of_rows(p: Any, data: Any) -> Any:
    line, a = np.zeros(60), p[1]
    for k in range(50):
        line[k + 2] = line[k] * a + p[2]
    for k in range(50):
        a = np.tanh(np.sin(a) * p[2] + data[k, 0])
        line[k : k + 2] = np.tanh(line[k]) * a
    return np.sum(line**2)


def windows_of_what_was_assigned(p: Any, data: Any) -> Any:
    table = data * p[0]
    for k in range(57):
        table[k + 3] = np.sum(np.sin(table[k : k + 3]), axis=0) * p[1]
    return np.sum(table**2)


def rows_of_an_array_of_numpy(p: Any, data: Any) -> Any:
    rows, y, total = numpy.cos(numpy.arange(120.0)).reshape(60, 2), p[:2], 0.0
    for k in range(60):
        y = y + 0.02 * rows[k, 0] * slope(p, y)
        total = total + np.sum((y - rows[k]) ** 2)
        rows[k] = 7.0  # what was recorded before stays as it was
    return total + 0.0 * np.sum(data)


def minmod(a: Any, b: Any) -> Any:
    def smaller() -> Any:
        return ng.cond(np.abs(a) < np.abs(b), lambda: a, lambda: b)

    return ng.cond(a * b <= 0.0, lambda: 0.0 * a, smaller)


def limited_slopes(p: Any, data: Any) -> Any:
    u, total = data[:, 0], 0.0
    for k in range(1, 59):
        slope = minmod(u[k] - u[k - 1], u[k + 1] - u[k])
        total = total + (u[k] + 0.5 * (1.0 - p[0]) * slope) ** 2
    return total + 0.0 * np.sum(p)


def thresholds(p: Any, data: Any) -> Any:
    def over(level: Any, spilled: Any) -> Any:
        return p[0], spilled + (level - p[0]) ** 2, level

    def under(level: Any, spilled: Any) -> Any:
        return 0.99 * level, 1.0 * spilled, 0.0 * level

    level, spilled, last, levels = 0.0, 0.0, 0.0, []
    for k in range(60):
        level = level + data[k, 0] ** 2
        level, spilled, last = ng.cond(level > p[0], over, under, level, spilled)
        levels.append(level)
    return spilled + np.sum(np.stack(levels) * data[:, 1]) + last + 0.0 * np.sum(p)


def choices_of_the_same(p: Any, data: Any) -> Any:
    """Of what does not change, of what the step before has chosen, and of three."""
    y, z = p[:2], p[2]
    for k in range(60):
        rate = ng.cond(p[3] > p[2], lambda: p[2] * 0.1, lambda: p[3] * 0.2)
        y = y + 0.1 * rate * np.sin(y + z) * data[k]
        z = ng.switch(
            np.floor(y[0] * 4.0).astype(int) % 3,
            [lambda z: 0.9 * z, lambda z: z + 0.1, lambda z: np.sin(z)],
            z,
        )
    return np.sum(y) * z


ROLLED = [
    limited_slopes,
    thresholds,
    choices_of_the_same,
    rows_of_an_array_of_numpy,
    rows_backwards,
    rows_assigned_backwards,
    rows_assigned,
    rows_assigned_and_read_again,
    elements_of_rows_assigned,
    rows_and_then_pairs_of_rows,
    rows_changed_in_place,
    windows_of_what_was_assigned,
    zeros_at_both_ends,
    begun_with_a_constant,
    begun_with_an_earlier_constant,
    parts_without_history,
    array_state,
    scalar_state,
    states_stacked,
    first_state_as_well,
    scalars_stacked_last,
    stacked_along_the_last_axis,
    two_steps_back,
    numbers_that_change,
    rows_of_what_is_differentiated,
    single_states_are_read,
    what_is_kept_is_used_twice,
    matrix_steps,
    two_loops,
    loops_in_loops,
    every_other_step_differs,
]
OTHERS = [
    zeros_of_two_signs,
    the_best_so_far,
    one_row_assigned_again,
]


@pytest.mark.thorough(
    but=r"^(?!rows_and_then_pairs).*-backward$|^(array_state|rows_assigned)-(grad|jit)$", every=7
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [*ROLLED, *OTHERS], ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_steps(
    f: Program, way: str, given: list[numpy.ndarray], loops: list[int]
) -> None:
    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert f in OTHERS or loops


def systems_in_steps(p: Any, data: Any) -> Any:
    y, total = p[:2], 0.0
    for k in range(40):
        matrix = np.eye(2) * (2.0 + p[2]) + 0.1 * np.outer(y, data[k])
        root = np.linalg.cholesky(matrix @ matrix.T + np.eye(2))
        y = np.linalg.solve(root, y + data[k]) * 0.5
        total = total + np.log(np.linalg.det(matrix)) + np.sum(np.diag(root)) * p[3]
    return total + np.sum(y**2)


def values_of_matrices_in_steps(p: Any, data: Any) -> Any:
    stretch = np.reshape(p, (2, 2)) * 0.1
    state, energy = np.eye(2), 0.0
    for k in range(40):
        state = state + 0.1 * stretch @ state + 0.01 * np.outer(data[k], data[k])
        energy = energy + np.sum((np.linalg.svd(state + np.diag(p[:2]))[1] - 1.0) ** 2)
        state = state @ np.linalg.inv(np.eye(2) + 0.1 * state.T)
    return energy + np.linalg.eigvalsh(state + state.T)[1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [systems_in_steps, values_of_matrices_in_steps])
def test_linear_algebra_in_steps(
    f: Program, way: str, given: list[numpy.ndarray], loops: list[int]
) -> None:
    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
    assert max(loops) >= 38


def arrays_in_a_list(p: Any, data: Any) -> Any:
    """A part at the same place of another array in each step, and the next row of one array."""
    arrays = [ng.tensor(numpy.sin(numpy.arange(k, k + 3.0))) for k in range(60)]
    table = ng.tensor(numpy.cos(numpy.arange(120.0)).reshape(60, 2))
    y = p[:2]
    for k in range(60):
        y = np.tanh(y * arrays[k][1] + table[k] * arrays[k][:2]) + 0.1 * p[2:]
    return np.sum(y) + 0.0 * np.sum(data)


def test_parts_of_another_array_in_each_step(given: list[numpy.ndarray], loops: list[int]) -> None:
    found, expected = (way(arrays_in_a_list, *given) for way in (by_backward, step_by_step))
    for x, y in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    assert loops


# First steps, which begin with numbers.


def test_a_state_that_is_stacked_of_parts(loops: list[int]) -> None:
    """What is carried are the parts, so results of the loop are put together."""

    def f(x: Any, speed: Any) -> Any:
        state = np.stack([x, 0.5 * x])
        for _ in range(60):
            state = np.stack([state[1], np.sin(state[0]) + speed * state[1]])
        return np.sum(state[0] * state[1])

    given = numpy.linspace(0.0, 1.0, 70), numpy.linspace(0.2, 0.9, 70)
    expected = step_by_step(f, *given)
    for way in WAYS.values():
        for x, y in zip(way(f, *given), expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-12)
    assert loops


def test_a_long_loop_has_as_many_kernels_as_a_short_one(loops: list[int]) -> None:
    def sources(steps: int) -> set[str]:
        f = ng.value_and_grad(lambda x: np.sum(chain(x, steps)))
        return {kernel.source for kernel in ng.jit(f).lower(numpy.array([1.0, 2.0])).kernels}

    short, long = sources(60), sources(200)
    assert len(loops) >= 2
    assert short == long


def shallow_water(height: Any, momentum: Any, steps: int) -> Any:
    """By Rusanov's fluxes: some fifty operations a step."""
    total = 0.0
    for _ in range(steps):
        speed = momentum / height
        wave = np.abs(speed) + np.sqrt(9.8 * height)
        fastest = np.maximum(wave, np.roll(wave, -1))
        pressure = momentum * speed + 4.9 * height**2
        fluxes = []
        for state, flux in ((height, momentum), (momentum, pressure)):
            jump = np.roll(state, -1) - state
            fluxes.append(0.5 * (flux + np.roll(flux, -1)) - 0.5 * fastest * jump)
        height = height - 0.01 * (fluxes[0] - np.roll(fluxes[0], 1))
        momentum = momentum - 0.01 * (fluxes[1] - np.roll(fluxes[1], 1))
        total = total + height[3] ** 2
    return total + np.sum(momentum)


@pytest.mark.thorough(but="^6-7")
@pytest.mark.parametrize(
    ("points", "steps", "found"), [(70, 7, [7]), (70, 3, []), (6, 7, []), (5000, 7, [])]
)
def test_few_steps_of_many_operations_are_a_loop(
    points: int, steps: int, found: list[int], loops: list[int]
) -> None:
    random = numpy.random.default_rng(0)
    given = random.uniform(1.0, 2.0, points), random.normal(size=points)

    def f(height: Any, momentum: Any) -> Any:
        return shallow_water(height, momentum, steps)

    expected = step_by_step(f, *given)
    loops.clear()
    for x, y in zip(by_jit(f, *given), expected, strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    assert loops == found


def test_a_loop_with_choices_between_arrays_stays_step_by_step(loops: list[int]) -> None:
    def f(x: Any) -> Any:
        for _ in range(60):
            x = ng.cond(np.sum(x) > 1.0, lambda x: 0.9 * x, lambda x: np.sin(x) + 0.1, x)
        return np.sum(x)

    given = numpy.linspace(0.1, 0.2, 20)
    for found, expected in zip(by_jit(f, given), step_by_step(f, given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not loops


@pytest.mark.parametrize("way", WAYS)
def test_a_side_that_is_not_taken_poisons_no_gradient(way: str, loops: list[int]) -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for k in range(60):
            y = x[k % 2] - 0.02 * k
            total = ng.cond(
                y > 0.0, lambda y, t: t + np.sqrt(y) * np.log(y), lambda y, t: t, y, total
            )
        return total

    (_, gradient) = WAYS[way](f, numpy.array([0.61, 0.93]))
    assert numpy.isfinite(gradient).all() and loops


@pytest.mark.parametrize("transform", [ng.grad, lambda f: ng.jit(ng.grad(f))])
def test_a_function_walks_a_long_history_once(transform, monkeypatch):
    def f(x):
        y = x
        for _ in range(400):
            y = y + 0.1 * np.sin(y) * x
        return np.sum(y)

    walked = []

    def counted(*args, **kwargs):
        found = walk.history_of(*args, **kwargs)
        walked.append(len(found.nodes))
        return found

    monkeypatch.setattr(own_history, "history_of", counted)
    x = ng.tensor([0.5, 1.0], requires_grad=True)
    with configure(engine="reference"):
        found = transform(f)(numpy.array([0.5, 1.0]))
        f(x).backward()
    assert sum(walked) < 1.2 * 4 * 400
    numpy.testing.assert_allclose(found, x.grad, rtol=1e-12)


def test_a_backward_pass_calls_no_function_for_each_step():
    x = ng.tensor([0.5, 1.0], requires_grad=True)

    def value(steps):
        y = x
        for _ in range(steps):
            y = y + 0.1 * np.sin(y) * x
        return np.sum(y * y)

    def entered(steps):
        values = iter([value(steps), value(steps)])  # one for each time
        within = str(Path("numba_grad", "transforms"))
        return functions_entered(lambda: next(values).backward(), within)

    with configure(engine="native"):
        assert abs(entered(1200) - entered(400)) < 800


def test_what_depends_on_no_argument_after_all_has_no_history():
    """Each row that had a gradient is written again before it is read."""

    def f(p):
        y, w = ng.zeros(130), ng.zeros((130, 2))
        y[0] = p[0]
        for k in range(1, 130):
            y[k] = np.sin(0.3 * k)
            w[k, 0] += 0.3 * y[k]
        return np.sum(w * w)

    value, gradient = ng.value_and_grad(f)(np.array([1.0, 2.0]))
    assert not value.requires_grad
    np.testing.assert_array_equal(gradient.numpy(), [0.0, 0.0])
    assert float(value) == pytest.approx(0.09 * np.sum(np.sin(0.3 * np.arange(1, 130)) ** 2))


def looks_at(monkeypatch: pytest.MonkeyPatch, f: Any, *args: Any) -> int:
    """How often a compiled function is looked through for steps."""
    looks: list[int] = []
    reroll = rerolling.reroll

    def counted(order: Any, *others: Any) -> Any:
        looks.append(len(order))
        return reroll(order, *others)

    monkeypatch.setattr(rerolling, "reroll", counted)
    ng.jit(f)(*args)
    return len(looks)


def test_what_is_no_loop_is_not_looked_through_again_with_its_derivative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_unlike_lengths(x: Any) -> Any:
        for n in range(2, 34):
            x = np.concatenate([np.sin(x[:n]) * x[1], x[n:] * np.cos(x[0])])
        return np.sum(x)

    x = numpy.linspace(0.1, 1.0, 40)
    assert looks_at(monkeypatch, ng.value_and_grad(of_unlike_lengths), x) == 1


def test_loops_beside_a_derivative_and_around_it_are_found(loops: list[int]) -> None:
    x = numpy.linspace(0.1, 1.0, 5)

    @ng.jit
    def beside(p: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            y = x  # which no gradient flows to
            for _ in range(40):
                y = y + 0.1 * np.sin(y) * np.cos(y)
            return np.sum(p * y)

        return ng.grad(loss)(p)

    @ng.jit
    def around(x: Any) -> Any:
        for _ in range(40):
            x = x - 0.1 * ng.grad(lambda x: np.sum(np.sin(x) * x))(x)
        return x

    y, z = x, x
    for _ in range(40):
        y = y + 0.1 * numpy.sin(y) * numpy.cos(y)
        z = z - 0.1 * (numpy.cos(z) * z + numpy.sin(z))
    numpy.testing.assert_allclose(beside(x, x), y, rtol=1e-13)
    assert len(loops) == 1
    numpy.testing.assert_allclose(around(x), z, rtol=1e-13)
    assert len(loops) == 2
