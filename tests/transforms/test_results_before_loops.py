"""Python loops whose steps read, one after the other, what was recorded before them by no loop."""

from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import Program, by_jit, slope, step_by_step

STEPS = 40


def irregular(p: Any, k: int) -> Any:
    """What no loop is made of."""
    kinds = (np.sin(p[0] * k), p[1] * 0.1 + np.exp(-p[2]), np.tanh(p[3] + k) * p[0] + 1.0)
    return kinds[k * k % 7 % 3]


def advanced(y: Any, weight: Any) -> Any:
    y = y + 0.05 * np.sin(y) * weight
    return y * (1 - 0.01 * np.cos(y)) + 0.02 * weight


def items_of_a_list(p: Any, data: Any) -> Any:
    weights = [irregular(p, k) for k in range(STEPS)]
    y = p[:2]
    for weight in weights:
        y = advanced(y, weight)
    return np.sum(y**2)


def items_of_a_list_from_its_end(p: Any, data: Any) -> Any:
    weights = [irregular(p, k) * data[k] for k in range(STEPS)]
    y = p[:2]
    for weight in reversed(weights):
        y = advanced(y, weight)
    return np.sum(y**2) + np.sum(weights[3] * weights[-1])


def neighbours_in_a_list(p: Any, data: Any) -> Any:
    weights = [irregular(p, k) for k in range(STEPS + 1)]
    y, total = p[:2], 0.0
    for k in range(STEPS):
        y = advanced(y, weights[k] - 0.5 * weights[k + 1])
        total = total + np.sum((y - data[k]) ** 2)
    return total


def two_lists(p: Any, data: Any) -> Any:
    weights = [irregular(p, k) for k in range(STEPS)]
    pushes = [np.stack([irregular(p, 3 * k), p[k % 4]]) for k in range(STEPS)]
    y = p[:2]
    for weight, push in zip(weights, pushes, strict=True):
        y = advanced(y, weight) + 0.01 * push
    return np.sum(y * slope(p, y))


def an_item_for_some_steps(p: Any, data: Any) -> Any:
    weights = [irregular(p, k) for k in range(6)]
    y = p[:2]
    for k in range(STEPS):
        y = advanced(y, weights[k // 7])
    return np.sum(y**2)


def a_table_with_borders(p: Any, data: Any) -> Any:
    table = np.zeros((20, 20))
    for i in range(1, 20):
        table[i, 0] = p[0] * i
        table[0, i] = p[1] * i
    for i in range(1, 20):
        for k in range(1, 20):
            aside = p[2] * table[i - 1, k] + p[3] * table[i, k - 1]
            table[i, k] = np.tanh(table[i - 1, k - 1] * data[i, 0] + data[k, 1]) + aside
    return table[19, 19]


PROGRAMS: list[Program] = [
    items_of_a_list,
    items_of_a_list_from_its_end,
    neighbours_in_a_list,
    two_lists,
    an_item_for_some_steps,
    a_table_with_borders,
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_steps(
    f: Program, given: list[numpy.ndarray], loops: list[int]
) -> None:
    p, data = given
    expected = step_by_step(f, p, data)
    assert not loops
    for found, wanted in zip(by_jit(f, p, data), expected, strict=True):
        numpy.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    assert max(loops) >= (17 if f is a_table_with_borders else STEPS - 3)


def test_second_derivatives(given: list[numpy.ndarray], loops: list[int]) -> None:
    p, data = given
    hessian = ng.jit(ng.hessian(lambda p: two_lists(p, data)))(p)
    step = 1e-5
    for k, direction in enumerate(numpy.eye(4)):
        ahead, behind = (by_jit(two_lists, p + s * direction, data)[1] for s in (step, -step))
        numpy.testing.assert_allclose(hessian[k], (ahead - behind) / (2 * step), rtol=1e-5)
    assert loops


def test_views_alone_are_no_steps(given: list[numpy.ndarray], loops: list[int]) -> None:
    def f(p: Any, data: Any) -> Any:
        items = [irregular(p, k) for k in range(STEPS)]
        for _ in range(5):
            items = [np.reshape(x, (1,))[0] for x in items]
        return np.sum(np.stack(items) ** 2)

    for found, wanted in zip(by_jit(f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    assert not loops
