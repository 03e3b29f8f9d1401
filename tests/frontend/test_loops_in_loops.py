"""Loops in the steps of other loops: their derivatives read the states of all inner steps."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure

RNG = np.random.default_rng(17)
OUTER, INNER = 6, 14


def euler(state, k):
    """Two numbers, in registers."""
    u, v = state[0], state[1]
    return np.stack([u + 0.1 * k * u * v, v - 0.1 * u + 0.05 * v * v])


def heat(state, k):
    """More than registers hold."""
    return state + np.pad(k * (state[2:] - 2 * state[1:-1] + state[:-2]), 1) * np.cos(state)


def gates(state, k):
    """A product of matrices, which is kept."""
    return np.tanh(state @ (k * MATRIX))


def extremes(state, k):
    return state * k - 0.1 * np.max(state * k + 0.3)


MATRIX = 0.4 * RNG.normal(size=(5, 5))
STEPS = {
    "numbers": (euler, RNG.random(2)),
    "stencil": (heat, RNG.random(90)),
    "product": (gates, RNG.random((3, 5))),
    "extremes": (extremes, RNG.random(7)),
}
of_each_step = pytest.mark.parametrize("name", STEPS)


def in_a_tuple(step, k, start, rows, *, memory=None, reverse=False):
    def stretch(state, row):
        state, _ = ng.scan(
            lambda x, _: (step(x, k), None), state, length=INNER, memory=memory, reverse=reverse
        )
        return state, ((state - row) ** 2).sum()

    return ng.scan(stretch, start, rows, reverse=reverse)[1].sum()


def with_a_count(step, k, start, rows):
    """An integer is carried along, and inner results are read."""

    def one(carry, x):
        state, count = carry
        return (step(state, k) * (1 - count / 1000), count + 1), state.sum() * x

    def stretch(carry, row):
        (state, count), sums = ng.scan(one, carry, np.linspace(0.5, 1.5, INNER))
        return (state, count % 7), ((state - row) ** 2).sum() + sums[3] * sums.sum()

    return ng.scan(stretch, (start, 0), rows)[1].sum()


def in_three(step, k, start, rows):
    def low(i, state):
        return step(state, k)

    def middle(state, row):
        state = ng.fori_loop(0, INNER, low, state)
        return state * (0.9 + 0.1 * row.mean()), state.sum()

    def high(state, rows):
        state, sums = ng.scan(middle, state, rows)
        return state, (sums**2).sum()

    return ng.scan(high, start, rows.reshape(2, OUTER // 2, *rows.shape[1:]))[1].sum()


def in_python(step, k, start, rows):
    state, total = start, 0.0
    for j in range(len(rows)):
        for _ in range(INNER):
            state = step(state, k)
        total = total + ((state - rows[j]) ** 2).sum()
    return total


def rows_for(name):
    return RNG.random((OUTER, *STEPS[name][1].shape))


def given(name):
    return 0.3, STEPS[name][1], rows_for(name)


def gradient_of(form, name, **settings):
    step = STEPS[name][0]
    return ng.value_and_grad(lambda k, start, rows: form(step, k, start, rows, **settings), (0, 1))


def bits(found):
    value, gradients = found
    return [np.asarray(x).tobytes() for x in (value, *gradients)]


def assert_close(found, expected, rtol=1e-11):
    for x, y in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-13)


@of_each_step
@pytest.mark.parametrize("form", [in_a_tuple, with_a_count, in_three])
def test_the_gradient_is_that_of_the_reference_engine(form, name):
    arguments = given(name)
    gradient = gradient_of(form, name)
    with configure(engine="reference"):
        expected = gradient(*arguments)
    assert_close(gradient(*arguments), expected)
    assert_close(ng.jit(gradient)(*arguments), expected)


@of_each_step
def test_the_gradient_is_that_of_python_loops(name):
    arguments = given(name)
    assert_close(
        ng.jit(gradient_of(in_a_tuple, name))(*arguments), gradient_of(in_python, name)(*arguments)
    )


@of_each_step
@pytest.mark.parametrize("reverse", [False, True])
def test_bits_do_not_depend_on_what_is_kept(name, reverse):
    arguments = given(name)
    found = [
        ng.jit(gradient_of(in_a_tuple, name, memory=memory, reverse=reverse))(*arguments)
        for memory in (None, "3 states", "1 GB")
    ]
    assert bits(found[0]) == bits(found[1]) == bits(found[2])


@of_each_step
def test_batches_tangents_and_second_derivatives(name):
    k, start, rows = given(name)
    step = STEPS[name][0]

    def loss(k):
        return in_a_tuple(step, k, start, rows)

    gradient = ng.grad(loss)
    singly = [float(gradient(x)) for x in (k, 0.9 * k)]
    batch = ng.jit(ng.vmap(gradient))(np.array([k, 0.9 * k]))
    np.testing.assert_allclose(batch, singly, rtol=1e-11)
    np.testing.assert_allclose(ng.jvp(loss, (k,), (1.0,))[1], singly[0], rtol=1e-10)
    second = float(ng.jit(ng.grad(gradient))(k))
    apart = 1e-6
    expected = (float(gradient(k + apart)) - float(gradient(k - apart))) / (2 * apart)
    np.testing.assert_allclose(second, expected, rtol=1e-5)
    # Second derivatives by all ways of going forward and back.
    of_tangent = ng.jvp(gradient, (k,), (1.0,))[1]
    np.testing.assert_allclose(of_tangent, second, rtol=1e-9)
