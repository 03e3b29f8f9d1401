"""Branches that read and write elements of arrays: numbers go in and come out."""

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np

P = numpy.array([0.3, 0.8, 0.4])
STEPS = 24


def one_or_the_other(p):
    y = np.zeros(STEPS)
    y[0] = p[0]
    for k in range(1, STEPS):
        if y[k - 1] > p[1]:
            y[k] = y[k - 1] * 0.7
        else:
            y[k] = y[k - 1] + p[2]
    return np.sum(y**2)


def only_some_write(p):
    """A side that leaves an array alone, and three sides."""
    y, z = np.zeros(STEPS), np.ones((STEPS, 2)) * p[2]
    for k in range(1, STEPS):
        y[k] = y[k - 1] + p[0] * np.cos(k * p[1])
        if y[k] > 0.4:
            y[k] -= 0.3 * p[2]
            z[k, 1] = y[k] * z[k - 1, 1]
        elif y[k] < -0.2:
            z[k, 0] *= y[k - 1]
    return np.sum(y) + np.sum(z**2)


def again_and_again(p):
    """Reads what the side itself has written."""
    y = np.zeros(STEPS)
    for k in range(2, STEPS):
        y[k] = y[k - 1] * 0.5 + p[k % 3]
        if y[k] > 0.6:
            y[k] = y[k] * p[0]
            y[k] = y[k] + y[k - 2]
            y[k - 1] = y[k] * 0.1
            y[k] = y[k - 1] + 0.5
    return np.sum(y * np.arange(STEPS))


def a_part_of_what_is_written_is_read(p):
    """A product with a part of the array, whose result goes on under another name."""
    y, z, w = np.zeros(STEPS), np.zeros(STEPS), np.zeros((STEPS, 2))
    h = np.zeros(2)
    m = np.eye(3) * p[2]
    y[0] = p[0]
    for k in range(1, STEPS):
        w[k, 1] += np.tanh(0.5 * z[k - 1])
        if p[1] < 0.9:
            m[1, 0] += y[k - 1]
            h = np.tanh(m[:2, :2] @ h)
            z[k] -= p[1]
    return y[-1] + z[-1] + np.sum(w) + np.sum(h)


def overlapping(p):
    y = np.zeros(STEPS)
    for k in range(1, STEPS - 2):
        y[k] += p[0] + 0.5 * y[k - 1]
        if y[k] > p[1]:
            y[k : k + 2] = y[k] * p[1:]
        else:
            y[k + 1 : k + 3] = p[:2] - y[k]
    return np.sum(y**2)


def exchanged(p):
    """Rows, of which a side exchanges two."""
    y = np.outer(np.arange(1.0, STEPS + 1), p)
    y[::3] *= -1.0
    for k in range(1, STEPS):
        if y[k, 0] < y[k - 1, 0]:
            for j in range(3):
                y[k - 1, j], y[k, j] = y[k, j], y[k - 1, j]
    return np.sum(y * np.arange(3 * STEPS).reshape(STEPS, 3))


def all_of_it_is_read(p):
    y = np.zeros(STEPS)
    for k in range(1, STEPS):
        if np.sum(y) > p[1]:
            y[k] = np.sum(y) * 0.1
        else:
            y[k] = p[0]
    return np.sum(y**2)


def not_to_be_computed(p):
    """The side that is not taken would be NaN."""
    y = np.zeros(STEPS)
    for k in range(1, STEPS):
        y[k] = y[k - 1] + (p[0] if k % 5 else -1.0)
        if y[k] > 0.0:
            y[k] = np.log(y[k] + 1.0) + np.sqrt(y[k])
    return np.sum(y * p[1])


PROGRAMS = [
    one_or_the_other,
    only_some_write,
    again_and_again,
    a_part_of_what_is_written_is_read,
    overlapping,
    exchanged,
    all_of_it_is_read,
    not_to_be_computed,
]


@pytest.mark.thorough(but="one_or_the_other|not_to_be_computed")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients_are_those_of_python(program):
    value, gradient = ng.jit(ng.value_and_grad(program), control_flow=True)(P)
    expected, slope = ng.value_and_grad(program)(P)
    assert numpy.isfinite(value)
    numpy.testing.assert_allclose(value, expected, rtol=1e-13)
    numpy.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)
    compiled = ng.jit(program, control_flow=True)
    moved = [ng.jvp(compiled, (P,), (v,))[1] for v in numpy.eye(3)]
    numpy.testing.assert_allclose(moved, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.thorough(but="one_or_the_other")
@pytest.mark.parametrize("program", [one_or_the_other, only_some_write])
def test_derivatives_of_derivatives(program):
    compiled = ng.jit(program, control_flow=True)
    gradient = ng.jit(ng.grad(compiled))
    found = ng.jit(ng.hessian(compiled))(P)
    steps = 1e-5 * numpy.eye(3)
    expected = [(gradient(P + h) - gradient(P - h)) / 2e-5 for h in steps]
    numpy.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_steps_with_branches_that_write_elements_are_a_loop(monkeypatch):
    counts = []
    for steps in (STEPS, 2 * STEPS):
        monkeypatch.setitem(globals(), "STEPS", steps)
        lowered = ng.jit(ng.grad(one_or_the_other), control_flow=True).lower(P)
        counts.append(len(lowered.kernels))
    assert counts[0] == counts[1] < 16  # 24 with a branch over arrays in each step


def test_a_branch_that_reads_many_elements_gets_the_array():
    def f(x, count):
        def all_of_them(x):
            for k in range(count):
                x[k] = x[k] * x[k + 1]
            return x

        return np.sum(ng.cond(x[0] > 0, all_of_them, lambda x: x, x))

    x = numpy.linspace(0.5, 1.5, 60)
    for count in (5, 50):
        gradient = ng.jit(ng.grad(f), static_argnums=1)
        y = x.copy()
        jacobian = numpy.eye(60)
        for k in range(count):
            jacobian[k] = jacobian[k] * y[k + 1] + y[k] * jacobian[k + 1]
            y[k] *= y[k + 1]
        numpy.testing.assert_allclose(gradient(x, count), jacobian.sum(axis=0), rtol=1e-12)
        numpy.testing.assert_array_equal(gradient(-x, count), numpy.ones(60))


def test_members_of_a_batch_take_their_own_sides():
    batch = numpy.stack([P, P[::-1], 2.0 * P])
    found = ng.jit(ng.vmap(ng.grad(ng.jit(only_some_write, control_flow=True))))(batch)
    expected = [ng.grad(only_some_write)(p).numpy() for p in batch]
    numpy.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_operands_of_cond_are_changed_in_place():
    def f(x):
        y = x * 1.0
        view = y[2:5]

        def changed(y):
            y[3] = 2.0 * y[2]
            return y[3]

        out = ng.cond(y[0] > 0, changed, lambda y: y[1], y)
        return out + np.sum(y**2) + view[1]

    for x in (numpy.arange(1.0, 9.0), -numpy.arange(1.0, 9.0)):
        value, gradient = ng.jit(ng.value_and_grad(f))(x)
        y = x.copy()
        if x[0] > 0:
            y[3] = 2.0 * y[2]
        expected = 2.0 * x
        if x[0] > 0:
            expected[3] = 0.0
            expected[2] += 2.0 + 2.0 * 2.0 * y[3] + 2.0
        else:
            expected[1] += 1.0
            expected[3] += 1.0
        assert value == pytest.approx((y[3] if x[0] > 0 else y[1]) + numpy.sum(y**2) + y[3])
        numpy.testing.assert_allclose(gradient, expected)
