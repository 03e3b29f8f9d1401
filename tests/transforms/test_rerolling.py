"""Python loops that become one operation again: the same values and gradients as step by step."""

import functools
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.config import configure
from numba_grad.frontend.derivatives import differentiation
from numba_grad.graph import walk
from numba_grad.transforms import python_loops, rerolling

Program = Callable[..., Any]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations count as long."""
    monkeypatch.setattr(python_loops, "FEWEST_NODES", 64)
    monkeypatch.setattr(python_loops, "FEWEST_NODES_COMPILED", 64)


@pytest.fixture
def loops(short: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each loop that was found has."""
    found: list[int] = []
    made = rerolling._Loop.made

    def noted(self: Any) -> Any:
        result = made(self)
        if result is not None:
            found.append(result.loop.params["length"])
        return result

    monkeypatch.setattr(rerolling._Loop, "made", noted)
    return found


def by_backward(f: Program, *given: Any) -> list[numpy.ndarray]:
    tensors = [ng.tensor(x, requires_grad=True) for x in given]
    value = f(*tensors)
    value.backward()
    return [value.detach().numpy(), *map(gradient_of, tensors)]


def gradient_of(x: Any) -> numpy.ndarray:
    return numpy.zeros(x.shape) if x.grad is None else x.grad.numpy()


def by_grad(f: Program, *given: Any) -> list[numpy.ndarray]:
    value, gradients = ng.value_and_grad(f, argnums=tuple(range(len(given))))(*given)
    return [numpy.asarray(value), *map(numpy.asarray, gradients)]


def by_jit(f: Program, *given: Any) -> list[numpy.ndarray]:
    value, gradients = ng.jit(ng.value_and_grad(f, argnums=tuple(range(len(given)))))(*given)
    return [numpy.asarray(value), *map(numpy.asarray, gradients)]


WAYS = {"backward": by_backward, "grad": by_grad, "jit": by_jit}


def step_by_step(f: Program, *given: Any) -> list[numpy.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "FEWEST_NODES", 1 << 40)
        return by_backward(f, *given)


# Programs. Each gets a vector of 4 and a matrix of 60 x 2.


def slope(p: Any, y: Any) -> Any:
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


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


@pytest.fixture(scope="module")
def given() -> list[numpy.ndarray]:
    random = numpy.random.default_rng(5)
    return [random.uniform(0.5, 1.5, 4), random.normal(size=(60, 2))]


@pytest.mark.thorough(
    but=r"^(?!rows_and_then_pairs).*-backward$|^(array_state|rows_assigned)-(grad|jit)$", every=3
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [*ROLLED, *OTHERS], ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_steps(
    f: Program, way: str, given: list[numpy.ndarray], loops: list[int]
) -> None:
    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert f in OTHERS or loops


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


def euler(p: Any, y: Any, kept: list[Any]) -> Any:
    for k in range(40):
        y = y + (0.01 + 0.001 * k) * slope(p, y)
        kept.append(y[0] - y[1])
    return y


FIRST_STATES = {
    "of NumPy's": lambda p: numpy.array([1.0, 0.5]),
    "with an operation": lambda p: 2.0 * np.array([1.0, 0.5]),
    "of the arguments": lambda p: p[:2],
    "detached": lambda p: p[:2].detach(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", FIRST_STATES.values(), ids=FIRST_STATES)
def test_first_steps_are_steps_of_the_loop(
    first: Program, way: str, given: list[numpy.ndarray], loops: list[int]
) -> None:
    def f(p: Any, data: Any) -> Any:
        kept: list[Any] = []
        y = euler(p, first(p), kept)
        return np.sum(y**2) + np.sum(np.stack(kept) * data[:40, 0])

    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert loops == [40]


def another_operation(p: Any, y: Any) -> Any:
    return y + 0.02 * np.roll(slope(p, y), 1)


def without_gradients(p: Any, y: Any) -> Any:
    with ng.no_grad():
        return euler_step(p, y)


def of_detached_numbers(p: Any, y: Any) -> Any:
    """NumPy's own product of a parameter and the state, of which nothing goes back to either."""
    known = p.detach() if p.detach()._node.value is None else p.detach().numpy()
    return y + 0.02 * np.stack([p[0] * y[0] - known[1] * 0.5, p[2] * y[0] - known[3] * 0.5])


def euler_step(p: Any, y: Any) -> Any:
    return y + 0.02 * np.stack([p[0] * y[0] - p[1] * y[1], p[2] * y[0] - p[3] * y[1]])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("odd", [another_operation, without_gradients, of_detached_numbers])
def test_another_first_step_stays(
    odd: Program, way: str, given: list[numpy.ndarray], loops: list[int]
) -> None:
    def f(p: Any, data: Any) -> Any:
        y = odd(p, numpy.array([1.0, 0.5]))
        for _ in range(40):
            y = euler_step(p, y)
        return np.sum(y * data[0])

    for found, expected in zip(WAYS[way](f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert loops == [40]


def test_a_first_state_that_is_closed_over_is_read_at_each_call(short: None) -> None:
    first = numpy.array([1.0, 0.5])

    def f(p: Any) -> Any:
        y = first
        for _ in range(40):
            y = y + 0.02 * np.stack([p[0] * y[0] - p[1] * y[1], p[2] * y[0] - p[3] * y[1]])
        return np.sum(y**2)

    compiled, p = ng.jit(ng.grad(f)), numpy.linspace(0.5, 1.5, 4)
    before = compiled(p)
    first[...] = [0.7, 0.8]
    numpy.testing.assert_allclose(compiled(p), ng.grad(f)(p), rtol=1e-12)
    assert not numpy.array_equal(before, compiled(p))


# PyTorch's contract, where a pass goes through a loop in place of its steps.


def test_steps_that_nobody_reads(short: None) -> None:
    def f(x: Any, b: Any) -> Any:
        while b < 10 and b > 1:
            for _ in range(20):
                b = b * 0.9 if np.any(x > 0.5) else b * 0.8
                b = b * 0.9
        return np.sum(x) * b

    x = numpy.array([1.0, 2.0])
    found = ng.jit(ng.grad(ng.jit(f, control_flow=True)))(x, 2.0)
    numpy.testing.assert_allclose(found, 2 * 0.9**40, rtol=1e-12)


def chain(x: Any, steps: int = 60) -> Any:
    for _ in range(steps):
        x = np.sin(x) * 1.1 + 0.1
    return x


def test_a_second_pass_is_refused_unless_the_graph_is_retained(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    value = np.sum(chain(x))
    value.backward(retain_graph=True)
    once = gradient_of(x).copy()
    value.backward()
    numpy.testing.assert_array_equal(gradient_of(x), 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
    assert len(loops) == 2


def test_a_second_pass_through_freed_steps_is_refused(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    y = chain(x)
    first, second = np.sum(y), np.sum(y * y)
    del y
    first.backward()
    assert loops
    with pytest.raises(RuntimeError, match="second time"):
        second.backward()


def test_steps_that_a_pass_does_not_go_through_are_not_freed(loops: list[int]) -> None:
    x, w = (ng.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    value = np.sum(chain(x) + w * w)
    ng.autograd.grad(value, w)
    assert loops
    (found,) = ng.autograd.grad(value, x)  # additions and sums save nothing
    (expected,) = ng.autograd.grad(np.sum(chain(x)), x)
    numpy.testing.assert_array_equal(found, expected)
    with pytest.raises(RuntimeError, match="second time"):
        ng.autograd.grad(value, x)


def test_states_that_are_returned_as_well_are_of_the_same_loop(loops: list[int]) -> None:
    def f(x: Any) -> Any:
        y, states = x, []
        for _ in range(60):
            y = np.sin(y) * 1.1 + 0.1
            states.append(y)
        return np.sum(y**2), np.stack(states)

    point = numpy.array([0.7, 1.3])
    expected = [point]
    for _ in range(60):
        expected.append(numpy.sin(expected[-1]) * 1.1 + 0.1)
    for call in (
        ng.value_and_grad(f, has_aux=True),
        ng.jit(ng.value_and_grad(f, has_aux=True)),
    ):
        loops.clear()
        (_, states), gradient = call(point)
        assert len(loops) == 1
        numpy.testing.assert_allclose(states, expected[1:], rtol=1e-13)
        numpy.testing.assert_allclose(gradient, ng.grad(lambda x: f(x)[0])(point), rtol=1e-12)


def test_hooks_and_retained_gradients_after_a_loop(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    y = chain(x) * 2.0
    y.register_hook(lambda g: seen.append(g.numpy().copy()) or 3.0 * g)
    z = y * y
    z.retain_grad()
    np.sum(z).backward()
    assert loops
    numpy.testing.assert_allclose(seen[0], 2 * y.detach().numpy())
    numpy.testing.assert_array_equal(gradient_of(z), [1.0, 1.0])

    again = ng.tensor([1.0, 2.0], requires_grad=True)
    (3.0 * np.sum((chain(again) * 2.0) ** 2)).backward()
    numpy.testing.assert_allclose(gradient_of(x), gradient_of(again), rtol=1e-13)


def test_states_that_are_held_stay_and_get_values(loops: list[int]) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    held, y = [], x
    for k in range(120):
        y = np.sin(y) * 1.1 + 0.1
        if k in (3, 119):
            held.append(y)
    np.sum(y).backward()
    assert loops
    expected = numpy.array([1.0, 2.0])
    for _ in range(120):
        expected = numpy.sin(expected) * 1.1 + 0.1
    numpy.testing.assert_allclose(held[1].detach().numpy(), expected, rtol=1e-13)
    # With respect to what is held inside of a loop.
    z = ng.tensor([1.0, 2.0], requires_grad=True)
    middle = chain(z)
    value = np.sum(chain(middle))
    (found,) = ng.autograd.grad(value, middle, retain_graph=True)
    (whole,) = ng.autograd.grad(value, z)
    numpy.testing.assert_allclose(whole.numpy(), gradient_of(x), rtol=1e-12)
    assert numpy.all(found.numpy() != whole.numpy())


def test_a_hook_inside_of_a_loop_runs(short: None) -> None:
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    calls, y = [], x
    for k in range(200):
        y = np.sin(y) * 1.1 + 0.1
        if k == 100:
            y.register_hook(lambda g: calls.append(g) or 0.0 * g)
    np.sum(y).backward()
    assert len(calls) == 1
    numpy.testing.assert_array_equal(gradient_of(x), [0.0, 0.0])


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


def test_second_derivatives(loops: list[int]) -> None:
    def f(x: Any) -> Any:
        return np.sum(chain(x) ** 2)

    point = numpy.array([0.7, 1.3])
    hessian = ng.hessian(f)(point)
    steps = 1e-6 * numpy.eye(2)
    assert loops
    gradient = ng.grad(f)
    differences = [(gradient(point + h) - gradient(point - h)).numpy() / 2e-6 for h in steps]
    numpy.testing.assert_allclose(hessian, differences, rtol=1e-6, atol=1e-8)


def test_forward_mode(loops: list[int]) -> None:
    _, tangent = ng.jvp(chain, (numpy.array([0.7, 1.3]),), (numpy.array([1.0, 0.0]),))
    assert loops
    gradient = ng.grad(lambda x: chain(x)[0])(numpy.array([0.7, 1.3]))
    numpy.testing.assert_allclose(tangent.numpy(), [gradient[0].item(), 0.0], rtol=1e-12)


def test_values_alone_and_derivatives_of_jitted_functions(loops: list[int]) -> None:
    compiled = ng.jit(chain)
    point = numpy.array([0.7, 1.3])
    value = compiled(point)
    assert loops
    x = ng.tensor(point, requires_grad=True)
    np.sum(compiled(x)).backward()
    expected = ng.tensor(point, requires_grad=True)
    y = chain(expected)
    np.sum(y).backward()
    numpy.testing.assert_allclose(value, y.detach().numpy(), rtol=1e-13)
    numpy.testing.assert_allclose(gradient_of(x), gradient_of(expected), rtol=1e-13)


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


def test_a_long_loop_has_as_many_kernels_as_a_short_one(loops: list[int]) -> None:
    def sources(steps: int) -> set[str]:
        f = ng.value_and_grad(lambda x: np.sum(chain(x, steps)))
        return {kernel.source for kernel in ng.jit(f).lower(numpy.array([1.0, 2.0])).kernels}

    short, long = sources(60), sources(200)
    assert len(loops) >= 2
    assert short == long


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


def test_a_pass_through_a_loop_with_choices_frees_it(loops: list[int]) -> None:
    x = ng.tensor([0.4, 1.7], requires_grad=True)
    y, kept = x, []
    for _ in range(60):
        y = ng.cond(y[0] > 1.0, lambda y: 0.5 * y, lambda y: np.sin(y) + 0.3, y)
        kept.append(y[1])
    value = np.sum(y) + kept[20] ** 2
    value.backward(retain_graph=True)
    once = gradient_of(x).copy()
    value.backward()
    numpy.testing.assert_array_equal(gradient_of(x), 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
    assert loops


# Rows of an array of NumPy's that a jitted function closes over: read at each call, in one piece.

Data = dict[str, numpy.ndarray]


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
        given["rows"][3:] *= change
        given["wanted"][7] += change
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


# A buffer that steps write and read again begins with what somebody else has written.


def four_values_at_once(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros(steps + 4)
    y[:4] = first
    for t in range(4, steps + 4):
        y[t] = w[0] * y[t - 1] + w[1] * y[t - 2] + w[2] * y[t - 3] + w[3] * y[t - 4]
    return np.sum(y**2)


def numbers_at_once_and_an_inner_loop(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros(steps + 3)
    y[:3] = numpy.array([1.0, 0.5, 0.2])
    for t in range(3, steps + 3):
        predicted = 0.0
        for j in range(3):
            predicted = predicted + w[j] * y[t - 1 - j]
        y[t] = predicted
    return np.mean(y[3:] ** 2) + 0.0 * first[0]


def zeros_before_the_first_step(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros(steps + 2)
    for t in range(2, steps + 2):
        y[t] = np.tanh(w[0] * y[t - 1] + w[1] * y[t - 2]) + first[0]
    return np.sum(y**2)


def concatenated_with_zeros(w: Any, first: Any, steps: int) -> Any:
    y = np.concatenate([first[:2], np.zeros(steps)])
    for t in range(2, steps + 2):
        y[t] = w[0] * np.sin(y[t - 1]) + w[1] * y[t - 2]
    return np.sum(y**2)


def rows_of_two_at_once(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros((steps + 2, 2))
    y[:2] = first.reshape(2, 2)
    for t in range(2, steps + 2):
        y[t] = np.sin(w[0] * y[t - 1]) + w[1] * y[t - 2]
    return np.sum(y**2)


def window_times_weights(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros(steps + 4)
    y[:4] = first
    for t in range(4, steps + 4):
        y[t] = np.tanh(y[t - 4 : t] @ w)
    return np.sum(y**2)


def window_from_the_last_on_of_numbers(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros(steps + 3)
    y[0] = 0.3
    for t in range(3, steps + 3):
        y[t] = np.dot(w[:3], y[t - 3 : t][::-1]) + first[1]
    return np.mean(y[3:] ** 2)


def window_of_rows_and_a_row(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros((steps + 3, 2))
    y[0], y[1], y[2] = first[:2], first[2:], np.sin(first[:2])
    for t in range(3, steps + 3):
        y[t] = w[:2] * np.sum(y[t - 3 : t], axis=0) + w[2] * np.cos(y[t - 1])
    return np.sum(y**2) + np.sum(y[-3:] * w[0])


def eight_steps_back(w: Any, first: Any, steps: int) -> Any:
    y = np.concatenate([first, 0.5 * first, np.zeros(steps)])
    for t in range(8, steps + 8):
        y[t] = np.sin(w[0] * y[t - 1]) + w[1] * y[t - 8]
    return np.sum(y**2)


def appended_to_a_list(w: Any, first: Any, steps: int) -> Any:
    y = list(first)
    for _ in range(steps):
        y.append(w[0] * y[-1] + w[1] * y[-2] + w[2] * y[-3] + w[3] * y[-4])
    return np.sum(np.stack(y) ** 2)


BUFFERS = [
    four_values_at_once,
    numbers_at_once_and_an_inner_loop,
    zeros_before_the_first_step,
    concatenated_with_zeros,
    rows_of_two_at_once,
    window_times_weights,
    window_from_the_last_on_of_numbers,
    window_of_rows_and_a_row,
    eight_steps_back,
    appended_to_a_list,
]


@pytest.mark.thorough(but="backward$|eight_steps_back", every=2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", BUFFERS, ids=lambda f: f.__name__)
def test_steps_that_read_what_a_buffer_had_before_are_steps_of_the_loop(
    f: Program, way: str, loops: list[int]
) -> None:
    given = [numpy.array([0.4, -0.3, 0.2, 0.1]), numpy.array([1.0, 0.5, -0.2, 0.7])]
    program = functools.partial(f, steps=30)
    for found, expected in zip(
        WAYS[way](program, *given), step_by_step(program, *given), strict=True
    ):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert loops == [30]


def test_what_a_buffer_had_before_is_read_before_the_loop(loops: list[int]) -> None:
    """Its first rows have gradients, and those that steps assign have none."""
    weights = numpy.cos(numpy.arange(80)).reshape(40, 2)

    def f(x: Any, first: Any, w: Any) -> Any:
        y = np.zeros(40)
        y[:3] = first
        best = first[0]
        for k in range(3, 40):
            y[k] = np.sum(w * weights[k])
            best = np.where(y[k - 2] > best, 0.5 * weights[k, 0] * x, 0.9 * best)
        return np.sum(y**2) + best

    given = [numpy.array(0.7), numpy.array([0.1, 0.5, -0.3])]
    w = numpy.array([0.3, 0.4])
    expected = step_by_step(lambda x, first: f(x, first, ng.tensor(w)), *given)
    found = by_backward(lambda x, first: f(x, first, ng.tensor(w)), *given)
    gradients = ng.jit(ng.grad(f, argnums=(0, 1)))(*given, w)
    assert loops == [37, 37]
    for results in (found, [expected[0], *gradients]):
        for x, y in zip(results, expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-12)


def test_numbers_that_nobody_reads_of_first_steps(short: None) -> None:
    """Of the rows that first steps write, one column is written over, and the other one read."""
    weights = numpy.cos(numpy.arange(40))

    def f(x: Any, number: Any) -> Any:
        y, rows = np.zeros((40, 1, 2)), [x]
        for k in range(3, 40):
            y[k] = number
        for k in range(3, 40):
            y[k, ..., 1] = 0.2 * y[k - 2, :, 1]
            rows.append(np.where(weights[k - 1] > 0.1, x, 0.3))
        return np.sum(y[:, 0]) + np.sum(np.stack(rows))

    given = [numpy.array([0.5]), numpy.array(0.4)]
    for found, expected in zip(by_backward(f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("f", BUFFERS, ids=lambda f: f.__name__)
def test_kernels_of_a_buffer_do_not_depend_on_its_length(f: Program) -> None:
    def sources(steps: int) -> list[str]:
        program = ng.value_and_grad(functools.partial(f, steps=steps), argnums=(0, 1))
        return [x.source for x in ng.jit(program).lower(numpy.ones(4), numpy.ones(4)).kernels]

    assert sources(20) == sources(37)


# Random loops.


# Of two variables, one of the step before, the parameters, a row of data and the step.
OPERATIONS: list[Callable[..., Any]] = [
    lambda x, y, z, p, row, k: 0.9 * x + 0.1 * y,
    lambda x, y, z, p, row, k: np.sin(x * y),
    lambda x, y, z, p, row, k: np.tanh(x - y) + row()[0],
    lambda x, y, z, p, row, k: x * (0.5 + 0.001 * k) + y,
    lambda x, y, z, p, row, k: np.where(x > y, x, 0.9 * y) * p[0],
    lambda x, y, z, p, row, k: np.exp(-(x * x)) + p[1] * p[2],
    lambda x, y, z, p, row, k: np.maximum(x, y) * 0.99 + row()[1:2] * 0.1,
    lambda x, y, z, p, row, k: x / (1.0 + y * y) - z * 0.1,
    lambda x, y, z, p, row, k: np.stack([x[0], y[0] * 0.5]).sum(keepdims=True) * 0.4,
    lambda x, y, z, p, row, k: ng.cond((x < y)[0], lambda: 0.8 * x + z, lambda: np.sin(y)) * p[3],
    lambda x, y, z, p, row, k: y * ng.cond(row()[0] > 0.0, lambda: x + z, lambda: 0.5 * x) * 0.5,
]


def random_loop(seed: int) -> Program:
    """A loop of random operations on some variables, numbers that change and rows of data."""
    random = numpy.random.default_rng(seed)
    count = int(random.integers(1, 4))
    lines = [
        (OPERATIONS[random.integers(len(OPERATIONS))], *random.integers(0, count, 3).tolist())
        for _ in range(random.integers(2, 7))
    ]
    steps, is_delayed = int(random.integers(40, 60)), bool(random.integers(0, 2))
    is_same = seed % 3 == 0  # all begin as one node, which steps read as well
    appended, first = int(random.integers(0, count + 1)), int(random.integers(0, 3))

    def f(p: Any, data: Any) -> Any:
        base = p[1:2]
        variables = [base if is_same else p[k : k + 1] * (1.0 + k) for k in range(count)]
        older, kept = list(variables), []
        for k in range(steps):
            before = list(variables)
            for operation, target, a, b in lines:
                y = (older if is_delayed else variables)[b]
                row = functools.partial(data.__getitem__, k)
                variables[target] = operation(variables[a], y, older[a], p, row, k)
                if is_same and target == 0:
                    variables[target] = 0.5 * variables[target] * base
            if appended < count and k >= first:
                kept.append(variables[appended])
            older = before
        total = sum(np.sum(x) for x in variables)
        return total + np.sum(np.stack(kept) ** 2) if kept else total

    return f


RANDOM = [*range(3), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(3, 150))]


@pytest.mark.parametrize("seed", RANDOM)
def test_random_loops(seed: int, given: list[numpy.ndarray], loops: list[int]) -> None:
    f = random_loop(seed)
    ways = [by_backward, by_grad] if seed % 4 else [by_backward, by_jit]
    expected = step_by_step(f, *given)
    value, *gradients = expected
    condition = sum(numpy.abs(g * x).sum() for g, x in zip(gradients, given, strict=True))
    if condition > 1e6 * abs(value):
        pytest.skip("a chaotic loop: the last bits of its inputs decide about its gradient")
    for way in ways:
        for x, y in zip(way(f, *given), expected, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


# Of a table of rows, another one, the state, which row, and the data.
ASSIGNMENTS: list[Callable[..., Any]] = [
    lambda a, b, y, k, data: a.__setitem__(k, y),
    lambda a, b, y, k, data: 0.5 * np.sin(y + a[k]),
    lambda a, b, y, k, data: a.__setitem__(k + 1, y * 0.7),
    lambda a, b, y, k, data: b.__setitem__(k, a[k + 1] * y),
    lambda a, b, y, k, data: y * 0.9 + 0.1 * (a[k + 1] - a[k]),
    lambda a, b, y, k, data: a.__setitem__(k + 2, 0.5 * a[k + 1] + 0.1 * np.cos(y)),
    lambda a, b, y, k, data: y + 0.3 * a[k + 1].detach(),
    lambda a, b, y, k, data: b.__setitem__(2 * k + 1, b[2 * k - 1] if k else y),
    lambda a, b, y, k, data: y + 0.01 * data[k, 0],
    lambda a, b, y, k, data: a.__setitem__(60 - k, y - b[60 - k]),
    lambda a, b, y, k, data: y + 0.01 * b[99 - k] * data[59 - k, 1],
]


def random_assignments(seed: int, held: list[Any]) -> Program:
    """A loop that writes rows of two tables, which stay where somebody holds them in the end."""
    random = numpy.random.default_rng(seed)
    lines = [ASSIGNMENTS[k] for k in random.integers(0, len(ASSIGNMENTS), random.integers(2, 5))]
    stride, steps, late = (int(random.integers(*x)) for x in ((1, 3), (30, 45), (0, 30)))
    is_held, rest = bool(random.integers(2)), (2,) if random.integers(2) else ()

    def f(p: Any, data: Any) -> Any:
        held.clear()
        first = p[:2] if rest else p[0]
        a, b, y = (
            np.ones((100, *rest)) * (first if seed % 3 else 1.0),
            np.zeros((100, *rest)),
            first,
        )
        for k in range(steps):
            for line in lines:
                found = line(a, b, y, stride * k if line is ASSIGNMENTS[0] else k, data)
                y = y if found is None else found
            if k == late and is_held:
                held.append(a[k])
        if is_held:
            held.extend([a, b])
        return np.sum(a**2) + np.sum(np.sin(b)) + np.sum(y)

    return f


ASSIGNING = [*range(3), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(3, 200))]


@pytest.mark.parametrize("seed", ASSIGNING)
def test_random_assignments_of_rows(
    seed: int, given: list[numpy.ndarray], loops: list[int]
) -> None:
    held: list[Any] = []
    f = random_assignments(seed, held)
    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = step_by_step(f, *given)
        tables = [x.detach().numpy() for x in held]
        for way in WAYS.values():
            for x, y in zip(way(f, *given), expected, strict=True):
                numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
            if way is by_backward:
                for x, y in zip(held, tables, strict=True):
                    numpy.testing.assert_allclose(x.detach().numpy(), y, rtol=1e-12)


# Of a table with three columns, the state, which row, and the data.
PARTS: list[Callable[..., Any]] = [
    lambda a, y, k, p, data: a.__setitem__((k + 1, 0), y[0] * 0.9),
    lambda a, y, k, p, data: a.__setitem__((k + 1, slice(1, 3)), np.sin(y) * p[:2]),
    lambda a, y, k, p, data: a.__setitem__((k + 1, 1), a[k, 0] * 0.5 + y[1]),
    lambda a, y, k, p, data: a.__setitem__((k + 2, 2), a[k + 1, 2] - data[k, 1]),
    lambda a, y, k, p, data: a.__setitem__(k + 3, np.tanh(a[k]) * p[3]),
    lambda a, y, k, p, data: a.__setitem__((k + 1, slice(0, 3, 2)), y),
    lambda a, y, k, p, data: y * 0.9 + 0.1 * a[k, 1:],
    lambda a, y, k, p, data: y * 0.9 + 0.1 * a[k + 1, 0],
    lambda a, y, k, p, data: y + 0.01 * np.sum(a[k]),
    lambda a, y, k, p, data: y - 0.1 * np.stack([a[k, 2], a[k + 1, 1]]),
]


@pytest.mark.parametrize("seed", ASSIGNING)
def test_random_assignments_of_parts_of_rows(
    seed: int, given: list[numpy.ndarray], loops: list[int]
) -> None:
    random = numpy.random.default_rng(seed)
    lines = [PARTS[k] for k in random.integers(0, len(PARTS), random.integers(2, 6))]
    steps, begins = int(random.integers(20, 45)), int(random.integers(0, 3))

    def f(p: Any, data: Any) -> Any:
        a, y = np.zeros((50, 3)), (p[:2], numpy.array([0.7, 0.3]))[seed % 2]
        if begins:
            a[0] = p[1:] if begins == 1 else numpy.array([0.1, 0.2, 0.3])
        for k in range(steps):
            for line in lines:
                found = line(a, y, k, p, data)
                y = y if found is None else found
        return np.sum(np.sin(a)) + np.sum(y**2) + p[0]

    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = step_by_step(f, *given)
        for way in WAYS.values():
            for x, y in zip(way(f, *given), expected, strict=True):
                numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


# Of two tables, the state, which row, and the parameters.
WINDOWS: list[Callable[..., Any]] = [
    lambda a, b, y, k, p: a.__setitem__(k + 4, np.tanh(np.sum(a[k : k + 4], axis=0) * p[0])),
    lambda a, b, y, k, p: a.__setitem__(k + 4, 0.5 * np.sin(a[k + 2 : k + 4]).sum(axis=0) + a[k]),
    lambda a, b, y, k, p: a.__setitem__(k + 4, y * 0.9 + 0.1),
    lambda a, b, y, k, p: b.__setitem__(k + 1, a[k + 1 : k + 4].mean(axis=0) - y),
    lambda a, b, y, k, p: 0.8 * y + 0.1 * np.sum(a[k : k + 6 : 2], axis=0),
    lambda a, b, y, k, p: 0.8 * y + 0.1 * np.sum(np.cos(b[k : k + 2]), axis=0),
    lambda a, b, y, k, p: 0.9 * y + 0.05 * np.sum(a[k + 1 : k + 5], axis=0).detach(),
    lambda a, b, y, k, p: 0.9 * y + 0.02 * np.sum(a[0:3], axis=0),
    lambda a, b, y, k, p: 0.9 * y + 0.02 * np.sum(a[k + 3 : k + 7], axis=0),
    lambda a, b, y, k, p: b.__setitem__(50 - k, 0.5 * b[51 - k : 54 - k].sum(axis=0) + y),
    lambda a, b, y, k, p: 0.9 * y + 0.02 * a_table_of_its_own(y, p),
    lambda a, b, y, k, p: without_history(a, y, k),
]


def without_history(a: Any, y: Any, k: int) -> None:
    with ng.no_grad():
        a[k + 4] = y


def a_table_of_its_own(y: Any, p: Any) -> Any:
    table = np.stack([y, y * p[0], y * p[1], y])
    table[1] = y * 0.3
    table[2] = np.sin(table[0:2].sum(axis=0))
    return table[1:4].sum(axis=0)


BEGINNINGS: list[Callable[..., Any]] = [
    lambda a, first: None,
    lambda a, first: a.__setitem__(slice(4), np.stack([first, 0.5 * first, 0.2 * first, first])),
    lambda a, first: [a.__setitem__(i, first * (i + 1) * 0.2) for i in range(4)],
    lambda a, first: a.__setitem__(slice(4), 0.3),
    lambda a, first: a.__setitem__(1, first),
]


@pytest.mark.parametrize("seed", ASSIGNING)
def test_random_windows_of_assigned_rows(
    seed: int, given: list[numpy.ndarray], loops: list[int]
) -> None:
    random = numpy.random.default_rng(seed)
    lines = [WINDOWS[k] for k in random.integers(0, len(WINDOWS), random.integers(1, 4))]
    steps, begins = int(random.integers(20, 40)), BEGINNINGS[seed % len(BEGINNINGS)]
    rest, is_of_first = ((2,), (), (1,))[seed % 3], bool(random.integers(2))

    def f(p: Any, data: Any) -> Any:
        first = y = {(2,): p[:2], (): p[0], (1,): p[1:2]}[rest]
        a, b = np.zeros((70, *rest)), np.ones((70, *rest)) * (first if is_of_first else 0.5)
        begins(a, first)
        for k in range(steps):
            for line in lines:
                found = line(a, b, y, k, p)
                y = y if found is None else found
        return np.sum(a[steps:] ** 2) + np.sum(np.sin(a + b)) + np.sum(y) + 0.0 * np.sum(p)

    with ng.configure(engine="reference"):  # what is checked are graphs
        expected = step_by_step(f, 0.5 * given[0], given[1])
        for way in WAYS.values():
            for x, y in zip(way(f, 0.5 * given[0], given[1]), expected, strict=True):
                numpy.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def test_an_array_with_a_hook_stays_as_it_was_recorded(loops: list[int]) -> None:
    x = ng.tensor([0.3, 0.4], requires_grad=True)
    table, y, seen = np.zeros((60, 2)), x, []
    for k in range(60):
        y = np.sin(y) + 0.1
        table[k] = y
        if k == 40:
            table.register_hook(lambda g: seen.append(g.numpy().copy()))
    np.sum(table * 2.0).backward()
    numpy.testing.assert_array_equal(seen[0][:41], numpy.full((41, 2), 2.0))


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

    monkeypatch.setattr(differentiation, "history_of", counted)
    x = ng.tensor([0.5, 1.0], requires_grad=True)
    with configure(engine="reference"):
        found = transform(f)(numpy.array([0.5, 1.0]))
        f(x).backward()
    assert sum(walked) < 1.2 * 4 * 400
    numpy.testing.assert_allclose(found, x.grad, rtol=1e-12)
