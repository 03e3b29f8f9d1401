"""Python loops of one graph that are found together: inner loops of which no two go equally far."""

from typing import Any

import numpy
import pytest

import numba_grad.numpy as np
from numba_grad.config import configure
from numba_grad.transforms.rerolling import rerolling
from tests.transforms.loop_programs import WAYS, Program, step_by_step


def sums_that_grow(x: Any, data: Any) -> Any:
    value = 0.0
    for k in range(8):
        rate = x[0]
        for j in range(13 + k):
            rate = rate + x[1] * np.exp(-x[2] * data[j, 0] * data[k, 1])
        value = value + np.log(rate)
    return value


def one_after_the_other(x: Any, data: Any) -> Any:
    """Each loop goes on from what the one before has left, with another step in each second one."""
    y, z = x[0], x[1] * 0.5
    for k in range(8):
        for j in range(20 - k):
            y = y + 0.1 * np.sin(y) * data[j, 0]
            z = z * 0.9 + 0.1 * y * x[2]
            if k % 2:
                z = z + 0.01 * np.cos(z) * data[j, 1]
        y = y * x[3] + z
    return y * y + z


def all_but_the_diagonal(x: Any, data: Any) -> Any:
    matrix = np.zeros((28, 28))
    places = data[:28, 0] * x[0] + 0.1 * numpy.arange(28.0)
    for i in range(28):
        for j in range(28):
            if i != j:
                apart = places[i] - places[j]
                matrix[i, j] = x[1] * apart / (apart**2 + x[2])
    return np.sum(matrix @ data[:28, 1]) + np.sum(matrix**2) * x[3]


def lists_of_lists(x: Any, data: Any) -> Any:
    """What loops leave is read row by row, and of one of them by the next."""
    kept: list[Any] = [x]
    every = []
    for k in range(6):
        y = kept[-1]
        for j in range(14 + k):
            y = y + 0.1 * np.tanh(y * data[j, 0]) * kept[0]
            every.append(y[k % 4])
        kept.append(y)
    return np.sum(np.stack(kept) ** 2) + np.sum(np.stack(every) ** 3)


PROGRAMS = [sums_that_grow, one_after_the_other, all_but_the_diagonal, lists_of_lists]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.usefixtures("short")
def test_loops_of_unequal_lengths_give_what_their_steps_give(
    program: Program, way: str, given: list[numpy.ndarray]
) -> None:
    with configure(engine="reference"):
        expected = step_by_step(program, *given)
        found = WAYS[way](program, *given)
    for a, b in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("program", [one_after_the_other, sums_that_grow])
def test_a_graph_is_not_looked_at_again_for_each_loop(
    program: Program, loops: list[int], given: list[numpy.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    reroll = rerolling.reroll

    def counted(*arguments: Any) -> Any:
        looks.append(len(arguments[0]))
        return reroll(*arguments)

    monkeypatch.setattr(rerolling, "reroll", counted)
    with configure(engine="reference"):
        WAYS["backward"](program, *given)
    assert len(loops) >= 8
    assert len(looks) <= 4
