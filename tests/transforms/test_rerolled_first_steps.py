"""First steps of a Python loop, which begin with numbers, become steps of the operation."""

from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import WAYS, Program, by_backward, slope, step_by_step


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


@pytest.mark.thorough(every=5)
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


@pytest.mark.thorough(every=4)
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
