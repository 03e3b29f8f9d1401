"""A buffer that steps write and read again begins with what somebody else has written."""

import functools
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.errors import GradientError
from numba_grad.transforms import python_loops
from tests.transforms.loop_programs import WAYS, Program, by_backward, step_by_step


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


@pytest.mark.thorough(but="backward$|eight_steps_back", every=4)
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


def added_in_place(w: Any, first: Any, steps: int) -> Any:
    """An element in three terms, as it is written in other languages."""
    y = np.zeros(steps + 2)
    y[:2] = first[:2]
    for t in range(2, steps + 2):
        y[t] = w[0] * numpy.cos(t)
        y[t] += w[1] * y[t - 1]
        y[t] -= np.sin(w[2]) * y[t - 2]
    return np.sum(y**2)


def added_in_an_inner_loop(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros((steps + 4, 2))
    y[:4] = first[:2]
    for t in range(4, steps + 4):
        for k in range(4):
            y[t] += w[k] * np.tanh(y[t - k - 1])
    return np.sum(y**2)


def assigned_twice(w: Any, first: Any, steps: int) -> Any:
    y = np.zeros(steps + 1)
    y[0] = first[0]
    for t in range(1, steps + 1):
        y[t] = w[0] * y[t - 1]
        y[t] = np.maximum(y[t], w[1] * np.cos(y[t - 1]))
    return np.sum(y**2)


ASSIGNED_AGAIN = [added_in_place, added_in_an_inner_loop, assigned_twice]


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", ASSIGNED_AGAIN, ids=lambda f: f.__name__)
def test_what_a_step_assigns_again_is_assigned_once(f: Program, way: str, loops: list[int]) -> None:
    given = [numpy.array([0.4, -0.3, 0.2, 0.1]), numpy.array([1.0, 0.5, -0.2, 0.7])]
    program = functools.partial(f, steps=30)
    for found, expected in zip(
        WAYS[way](program, *given), step_by_step(program, *given), strict=True
    ):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert len(loops) == 1
    assert 26 <= loops[0] <= 30  # the first steps read what no step has assigned


def test_what_was_assigned_before_a_loop_is_read_again_in_it(loops: list[int]) -> None:
    """Each row is the same value, one of before the steps."""

    def f(x: Any, y: Any) -> Any:
        rows = np.zeros((26, 1))
        for i in range(26):
            rows[i, 0] = x[0] * y[0]
        for i in range(26):
            rows[i, 0] += y[i]
        return np.sum(rows[-1] ** 2) + rows[0, 0]

    x, y = numpy.array([0.7, 1.0]), numpy.cos(numpy.arange(26.0))
    expected = (0.7 * y[0] + y[-1]) ** 2 + 0.7 * y[0] + y[0]
    numpy.testing.assert_allclose(ng.jit(f)(x, y), expected, rtol=1e-15)
    numpy.testing.assert_allclose(ng.value_and_grad(f)(x, y)[0], expected, rtol=1e-15)


def test_what_is_held_of_a_loop_that_assigns_again_keeps_value_and_gradient(
    loops: list[int],
) -> None:
    """A pass goes through copies, and releases what they are copies of."""

    def program(x: Any, seen: list[Any]) -> Any:
        y = np.zeros(41)
        y[0] = x
        for t in range(1, 41):
            z = x * y[t - 1]
            if t == 30:
                z.retain_grad()
                seen.append(z)
            y[t] = z
            y[t] += np.sin(y[t - 1])
        return np.sum(y**2)

    def run(**options: Any) -> tuple[Any, Any, Any, Any]:
        x, seen = ng.tensor(0.3, requires_grad=True), []
        out = program(x, seen)
        out.backward(**options)
        return out, x, seen[0].detach().numpy(), seen[0].grad.numpy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "FEWEST_NODES", 1 << 40)
        _, expected, *seen_then = run()
    out, x, *seen = run(retain_graph=True)
    numpy.testing.assert_allclose(seen, seen_then, rtol=1e-12)
    out.backward()
    numpy.testing.assert_allclose(x.grad, 2 * expected.grad.numpy(), rtol=1e-12)
    with pytest.raises(GradientError, match="second time"):
        out.backward()
    assert loops


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


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("f", BUFFERS, ids=lambda f: f.__name__)
def test_kernels_of_a_buffer_do_not_depend_on_its_length(f: Program) -> None:
    def sources(steps: int) -> list[str]:
        program = ng.value_and_grad(functools.partial(f, steps=steps), argnums=(0, 1))
        return [x.source for x in ng.jit(program).lower(numpy.ones(4), numpy.ones(4)).kernels]

    assert sources(20) == sources(37)
