"""What steps assign to the elements that known masks select: a loop, computed for all elements."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import by_jit, step_by_step

STEPS = 30
_RANDOM = numpy.random.default_rng(3)
TEMPERATURES = _RANDOM.normal(size=(STEPS, 9))
SEEN = TEMPERATURES > 0.3
SEEN[4], SEEN[9] = numpy.arange(9) < 4, numpy.arange(9) == 5  # which are slices
PACK, RATES = _RANDOM.random(9) + 1, _RANDOM.random(9)


def melting(pack, rates):
    total = 0.0
    for t, seen in zip(TEMPERATURES, SEEN, strict=True):
        melt = np.zeros(9)
        melt[seen] = np.minimum(rates[0] * (t[seen] + 3), pack[seen] * rates[seen])
        pack = pack - melt
        pack[~seen] += 0.1 * rates[~seen]
        total = total + np.sum(melt**2)
    return total + np.sum(pack**2)


def roots_of_what_is_selected(pack, rates):
    """Of what is not, neither the root nor its derivative is a number."""
    x, total = 1.0 * pack, 0.0
    for t in TEMPERATURES:
        x[t > 0.1] = np.sqrt((x * t)[t > 0.1]) / t[t > 0.1] + rates[t > 0.1]
        x[t < -0.5] = 0.5
        total = total + np.sum(np.log(x) * rates)
    return total


def rows(pack, rates):
    x, y = np.outer(pack, rates[:2]), np.outer(rates, pack[:2])
    for seen in SEEN:
        x[seen] = np.tanh(x[seen]) * y[seen] + 0.1
        y[~seen] *= 0.9 + 0.1 * np.cos(x[~seen])
    return np.sum(x**2) + np.sum(y)


def others_of_as_many_elements(pack, rates):
    """Of what is assigned, the past is of the size of what one mask selects, in all steps."""
    x, y = 1.0 * pack, 1.0 * rates[:5]
    for _ in range(12):
        for seen in SEEN:
            y = np.sin(y) * 1.01 + 0.1
            x[seen] = 0.5 * x[seen] + (y if seen.sum() == 5 else 0.3)
    return np.sum(x**2)


def what_was_seen(pack, rates):
    x, loss = 0.0 * pack, 0.0
    for t, seen in zip(TEMPERATURES, SEEN, strict=True):
        predicted = np.tanh(x * rates + pack)
        loss = loss + np.sum(np.sqrt((predicted[seen] - t[seen]) ** 2 + 0.1))
        x = 1.0 * predicted
        x[seen] = t[seen]
    return loss


@pytest.mark.parametrize("f", [melting, roots_of_what_is_selected, rows, what_was_seen])
def test_gradients_are_those_of_the_steps(f: Callable[..., Any]):
    for got, expected in zip(by_jit(f, PACK, RATES), step_by_step(f, PACK, RATES), strict=True):
        assert numpy.isfinite(expected).all()
        numpy.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)
    lowered = ng.jit(ng.value_and_grad(f, argnums=(0, 1))).lower(PACK, RATES)
    assert str(lowered.graph).count("loop(") >= 2


def test_what_is_no_loop_stays_as_it_was():
    def f(pack):
        pack = pack * 1.0
        for k, (t, seen) in enumerate(zip(TEMPERATURES, SEEN, strict=True)):
            pack[seen] = (np.sin, np.cos, np.tanh, np.exp)[k * k % 7 % 4](pack[seen] * t[seen])
            pack = pack[::-1] if k % 5 == 3 else pack * k
        return np.sum(pack)

    for got, expected in zip(by_jit(f, PACK), step_by_step(f, PACK), strict=True):
        numpy.testing.assert_allclose(got, expected, rtol=1e-11)


def test_long_pasts_are_not_followed():
    f = others_of_as_many_elements
    for got, expected in zip(by_jit(f, PACK, RATES), step_by_step(f, PACK, RATES), strict=True):
        numpy.testing.assert_allclose(got, expected, rtol=1e-11)
