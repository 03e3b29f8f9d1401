"""Loops that carry a cheap function of a former value: `control_flow/former_values.py`."""

import itertools
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.walk import toposort

POINTS, STEPS = 80, 6
RANDOM = np.random.default_rng(3)
DAMPING, BEFORE, NOW = 0.7 + 0.3 * RANDOM.random((3, POINTS))
SOURCE = RANDOM.random(STEPS)


def damped_wave(loop, has_rows=False, has_results=False, reverse=False, memory=None):
    def last(damping, before):
        def step(state, x):
            before, now = state
            bend = np.roll(now, 1) + np.roll(now, -1) - 2.0 * now
            new = damping * (1.6 * now - damping * before + 0.2 * bend)
            new = new + 0.1 * x if has_rows else new
            return (0.9 * damping * now, new), (np.sum(new * before) if has_results else None)

        state = before, ng.tensor(NOW)
        if loop == "scan":
            rows = ng.tensor(SOURCE) if has_rows else None
            state, ys = ng.scan(step, state, rows, length=STEPS, reverse=reverse, memory=memory)
        else:
            results: list[Any] = []
            for x in SOURCE[::-1] if reverse else SOURCE:
                state, y = step(state, x)
                results.append(y)
            ys = np.stack(results[::-1] if reverse else results) if has_results else None
        total = np.sum(np.cos(state[0])) + np.sum(state[1] ** 2)
        return total if ys is None else total + np.sum(np.sin(ys) * SOURCE)

    return last


@pytest.mark.parametrize(
    ("has_rows", "has_results", "reverse"),
    [
        pytest.param(*case, marks=() if case == (True, True, True) else pytest.mark.thorough)
        for case in itertools.product((False, True), repeat=3)
    ],
)
def test_a_loop_that_carries_a_former_value_gives_what_the_loop_in_python_gives(
    has_rows, has_results, reverse
):
    options = has_rows, has_results, reverse

    def derivatives(f):
        yield f(DAMPING, BEFORE)
        yield from ng.grad(f, (0, 1))(DAMPING, BEFORE)
        yield ng.jvp(f, (DAMPING, BEFORE), (BEFORE, NOW))[1]
        yield ng.jvp(ng.grad(f), (DAMPING, BEFORE), (BEFORE, NOW))[1]
        yield from ng.vmap(f, in_axes=(None, 0))(DAMPING, np.stack([BEFORE, NOW]))

    with ng.configure(engine="reference"):
        expected = [*derivatives(damped_wave("Python", *options))]
        found = [*derivatives(damped_wave("scan", *options))]
        within = [*derivatives(damped_wave("scan", *options, memory="3 states"))]
    for x, y, z in zip(expected, found, within, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-12)
        np.testing.assert_allclose(z, x, rtol=1e-12)
    for y, z in zip(found[:3], within[:3], strict=True):
        np.testing.assert_array_equal(y, z)


def carried_by(step, *state):
    """How many arguments the loop of a step carries on as they are."""
    last = ng.scan(lambda s, _: (step(*s), None), state, length=STEPS)[0][-1]
    [loop] = [x for x in toposort([last._node]) if x.op.name == "loop"]
    body, count = loop.params["body"], loop.params["carried"]
    return sum(x in body.arguments for x in body.outputs[:count])


def test_where_a_former_value_is_carried():
    x, y = ng.tensor(BEFORE), ng.tensor(NOW)
    assert carried_by(lambda a, b: (DAMPING * b, b * b + a), x, y) == 1
    # Read beside itself, costly, made of two former values, small: as before.
    assert carried_by(lambda a, b: (DAMPING * b, b * b + np.roll(a, 1)), x, y) == 0
    assert carried_by(lambda a, b: (np.exp(np.sin(b)), b * b + a), x, y) == 0
    assert carried_by(lambda a, b: (a * b, b * b + a), x, y) == 0
    assert carried_by(lambda a, b: (0.5 * b, b * b + a), x[:8], y[:8]) == 0
