"""Rows and elements of small arrays that steps write where data says: a loop, whatever the data."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from numba_grad.transforms.rerolling.rows_by_data import _are_data
from tests.transforms.loop_programs import by_jit, step_by_step

STEPS = 40
_RANDOM = numpy.random.default_rng(5)
GAMES = [_RANDOM.permutation(6)[:2] for _ in range(2 * STEPS)]
MOVES = _RANDOM.integers(0, [5, 3, 5], size=(2 * STEPS, 3))
REWARDS = _RANDOM.normal(size=STEPS)
RATES, TABLE = numpy.array([0.3, 0.8]), _RANDOM.normal(size=(10, 3))


def ratings(p, start, first=0):
    r, loss = np.array(start[:6, 0]), 0.0
    for (i, j), y in zip(GAMES[first:], REWARDS, strict=False):
        expected = 1 / (1 + np.exp(r[j] - r[i] - p[1]))
        loss = loss + (y - expected) ** 2
        r[i] += p[0] * (y - expected)
        r[j] -= p[0] * (y - expected)
    return loss


def contagion(p, start, first=0):
    x = start[:6, 0] * 1.0
    for i, j in GAMES[first : first + STEPS]:
        new = x[i] + p[0] * (1 - x[i]) * x[j]
        x[j] += 0.1 * p[0] * x[i]
        x[i] = new
        x = x * (1 - 0.1 * p[1])
    return np.sum(x)


def values_of_actions(p, start, first=0):
    q = np.zeros((5, 3))
    for (s, a, then), y in zip(MOVES[first:], REWARDS, strict=False):
        q[s, a] += p[0] * (y + p[1] * np.max(q[then] + start[then]) - q[s, a])
    return np.sum(q**2)


def vectors_of_words(p, start):
    words, loss = start * p[0], 0.0
    for (i, _, j), y in zip(MOVES, REWARDS, strict=False):
        error = np.tanh(words[i] @ start[j]) - y
        words[i] -= p[1] * error * start[2 * j]
        loss = loss + error**2
    return loss + np.sum(words**3)


@pytest.mark.parametrize("f", [ratings, contagion, values_of_actions, vectors_of_words])
def test_gradients_are_those_of_the_steps(f: Callable[..., Any]):
    for got, expected in zip(by_jit(f, RATES, TABLE), step_by_step(f, RATES, TABLE), strict=True):
        numpy.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("f", [ratings, contagion, values_of_actions])
def test_kernels_do_not_depend_on_the_data(f: Callable[..., Any]):
    gradient = ng.jit(ng.grad(f, argnums=(0, 1)), static_argnames="first")
    found = [gradient.lower(RATES, TABLE, first=first) for first in (0, STEPS)]
    texts = [{kernel.source for kernel in x.kernels} for x in found]
    assert texts[0] == texts[1]
    assert str(found[0].graph).count("loop(") >= 2


def test_products_with_the_hessian():
    def slope_along(p):
        return ng.grad(ratings)(p, TABLE) @ numpy.array([0.6, -1.1])

    got = ng.jit(ng.grad(slope_along))(RATES)
    steps = [1e-5 * d for d in numpy.eye(2)]
    expected = [(slope_along(RATES + d) - slope_along(RATES - d)).item() / 2e-5 for d in steps]
    numpy.testing.assert_allclose(got, expected, rtol=1e-6)


def test_places_that_follow_from_the_step_are_no_data():
    triangle = [(i,) for k in range(6) for i in range(k + 1, 7)]
    there_and_back = [(i,) for _ in range(3) for i in (*range(7), *reversed(range(7)))]
    pairs = [(x,) for k in range(9) for x in (k, k + 1)]
    bins = [(k // 5,) for k in range(40)]
    again = [(k,) for _ in range(9) for k in (2, 7, 3, 0, 5)]
    assert not any(map(_are_data, (triangle, there_and_back, pairs, bins, again)))
    assert _are_data([(int(i),) for i, *_ in MOVES])
