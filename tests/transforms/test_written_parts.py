"""Parts of an array that the steps of a loop write, or add to: all at once."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import by_jit, step_by_step

_RANDOM = numpy.random.default_rng(2)
STEPS = 30
NODES = numpy.stack([numpy.arange(STEPS), numpy.arange(STEPS) + 1], axis=1)
ANYWHERE = _RANDOM.permuted(numpy.tile(numpy.arange(STEPS + 1), (STEPS, 1)), axis=1)[:, :3]
PAIRS = [(int(i), int(j)) for i, j in ANYWHERE[:, :2]]
SHARES = numpy.array([[1.0, -1.0], [-1.0, 1.0]])
U, K = _RANDOM.normal(size=STEPS + 1), _RANDOM.random(STEPS)
ROWS = _RANDOM.normal(size=(STEPS + 1, 3))


def blocks(u, k):
    r = np.zeros_like(u)
    for e in range(STEPS):
        r[e : e + 2] += k[e] * np.tanh(u[e + 1] - u[e]) * SHARES[0]
    return np.sum(r**2)


def ends(u, k):
    r = np.sin(u)
    for e in range(STEPS):
        force = k[e] * (u[e + 1] - u[e]) ** 3
        r[e] -= force
        r[e + 1] = force + r[e + 1]
    return np.sum(r**3)


def index_arrays(u, k):
    r = np.zeros_like(u)
    for e in range(STEPS):
        r[ANYWHERE[e]] += k[e] * u[ANYWHERE[e]][::-1]
    return np.sum(r**2)


def matrix(u, k):
    a = np.zeros((STEPS + 1, STEPS + 1))
    for e in range(STEPS):
        a[e : e + 2, e : e + 2] += k[e] * SHARES
    return np.sum((a @ u) ** 2)


def matrix_by_index_arrays(u, k):
    a = np.zeros((STEPS + 1, STEPS + 1))
    for e in range(STEPS):
        a[numpy.ix_(NODES[e], NODES[e])] += k[e] * SHARES
    return np.sum((a @ u) ** 2)


def matrix_by_elements(u, k):
    a = np.zeros((STEPS + 1, STEPS + 1))
    for e, (i, j) in enumerate(PAIRS):
        a[i, i] += k[e]
        a[j, j] += k[e]
        a[i, j] -= k[e]
        a[j, i] -= k[e]
    return np.sum((a @ u) ** 2)


def forces(x, k):
    f = np.zeros_like(x)
    for e, (i, j) in enumerate(PAIRS):
        d = x[i] - x[j]
        f[i] += k[e] * d / (1.0 + d @ d)
        f[j] -= k[e] * d / (1.0 + d @ d)
    return np.sum(f**2)


def from_the_last_on(u, k):
    r = np.zeros((2 * STEPS + 3, 2))
    for e in reversed(range(STEPS)):
        r[2 * e : 2 * e + 5 : 2, 1] += np.sin(u[e]) * k[e]
    return np.sum(r**2)


def windows(x, k):
    y = np.zeros(3 * STEPS + 6)
    for t in range(STEPS):
        y[3 * t : 3 * t + 9] += k[t] * np.concatenate([x[t], x[t] ** 2, x[t + 1]])
    return np.sum(y**3)


def one_place(u, k):
    r = np.ones(3) * u[0]
    for e in range(STEPS):
        r[1:] += np.stack([k[e], u[e]])
    return np.sum(r**2)


def bins(u, k):
    r = np.zeros(4)
    for e in range(STEPS):
        r[PAIRS[e][0] % 4] += np.exp(u[e] * k[e])
    return np.sum(r**2)


def symmetric(u, k):
    a = np.zeros((20, 20))
    for i in range(20):
        for j in range(i + 1):
            a[i, j] = a[j, i] = k[0] * np.exp(-((u[i] - u[j]) ** 2) * k[1])
    return np.sum((a @ u[:20]) ** 3)


def rows_and_elements(u, k):
    a = np.sin(u[:, None] * u)
    for e in range(STEPS):
        a[e % 7] = u * k[e]
        a[PAIRS[e]] = np.cos(k[e])
        a[numpy.ix_(NODES[e], NODES[e])] = k[e] * u[e] * SHARES
    return np.sum(a**3)


def set_by_index_arrays(u, k):
    r = np.ones_like(u)
    for e in range(STEPS):
        r[ANYWHERE[e]] = k[e] * u[ANYWHERE[e]][::-1]
    return np.sum(r**3)


def twice_in_turn(u, k):
    for _ in range(2):
        r = np.zeros_like(u)
        for e in range(STEPS):
            r[e : e + 2] += k[e] * np.tanh(u[e + 1] - u[e]) * SHARES[0]
        u = u - 0.1 * r
    return np.sum(u**2)


AT_ONCE = [
    (blocks, U),
    (ends, U),
    (index_arrays, U),
    (matrix, U),
    (matrix_by_index_arrays, U),
    (matrix_by_elements, U),
    (forces, ROWS),
    (from_the_last_on, U),
    (windows, ROWS),
    (one_place, U),
    (bins, U),
    (symmetric, U),
    (rows_and_elements, U),
    (set_by_index_arrays, U),
    (twice_in_turn, U),
]


def _check(f: Callable[..., Any], *given: Any) -> list[str]:
    """Values and gradients, and which operations there are."""
    for x, expected in zip(by_jit(f, *given), step_by_step(f, *given), strict=True):
        numpy.testing.assert_allclose(x, expected, rtol=1e-11, atol=1e-12)
    lowered = ng.jit(ng.value_and_grad(f, (0, 1))).lower(*given)
    lines = [line for line in str(lowered.graph).splitlines() if " = " in line]
    return [line.split(" = ")[1].split("(")[0] for line in lines]


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("f, x", AT_ONCE, ids=lambda x: getattr(x, "__name__", ""))
def test_parts_are_written_at_once(f, x):
    ops = _check(f, x, K)
    assert "loop" not in ops
    assert len(ops) < 200  # step by step there are as many for a few steps


def test_steps_that_look_at_what_was_added_are_as_they_were():
    def relaxation(u, k):
        for i in range(1, STEPS):
            u[i] += k[i] * (u[i - 1] - 2.0 * u[i] + u[i + 1])
        return np.sum(u**2)

    assert "loop" in _check(lambda u, k: relaxation(u * 1.0, k), U, K)


def test_a_state_beside_what_is_added_to_is_carried():
    def f(u, k):
        r, state = np.zeros_like(u), u[0]
        for e in range(STEPS):
            state = np.sin(state) + k[e]
            r[e : e + 2] += state * SHARES[0]
        return np.sum(r**2) + state

    assert "loop" in _check(f, U, K)


def test_an_index_array_that_names_an_element_twice_assigns_the_last():
    twice = numpy.stack([NODES[:, 0], NODES[:, 1], NODES[:, 0]], axis=1)

    def f(u, k):
        r = np.zeros_like(u)
        for e in range(STEPS):
            r[twice[e]] += k[e] * np.stack([u[e], u[e], 2.0 * u[e]])
        return np.sum(r**2)

    _check(f, U, K)


def test_what_is_read_of_another_region_is_not_added_to():
    def f(u, k):
        r = np.zeros((STEPS + 3, STEPS + 3))
        for e in range(STEPS):
            r[e : e + 2, e : e + 3] = (r[e : e + 3, e : e + 2] + k[e] * u[e]).reshape(2, 3)
        return np.sum(r**2)

    _check(f, U, K)


def test_arrays_that_are_looked_at_in_between():
    def f(u, k):
        r, seen = np.zeros_like(u), 0.0
        for e in range(STEPS):
            r[e : e + 2] += k[e] * u[e] * SHARES[0]
            if e == STEPS // 2:
                seen = np.sum(r**3)
        r[0] = seen
        return np.sum(r**2)

    _check(f, U, K)


def test_the_order_of_sums_of_half_precision_stays():
    def f(x):
        r = np.zeros(STEPS + 1, np.float16)
        for e in range(STEPS):
            r[e % 3 : e % 3 + 2] += x[e] * 1000
        return np.sum(r)

    x = K.astype(numpy.float16)
    expected = numpy.zeros(STEPS + 1, numpy.float16)
    for e in range(STEPS):
        expected[e % 3 : e % 3 + 2] += x[e] * numpy.float16(1000)
    assert ng.jit(f)(x).item() == numpy.sum(expected)


def test_second_derivatives_have_steps_that_read_nothing_of_those_before():
    def f(u, b):
        r = np.full((STEPS + 1, STEPS + 1), 0.3)
        for e, (i, j) in enumerate(PAIRS):
            r[i, j] = 0.4
            r[i, j] += u[e]
        return np.sum(r**2) + 0.0 * np.sum(np.abs(b))

    def of_gradients(u, b):
        return ng.jvp(ng.grad(f, (0, 1)), (u, b), (u, b))

    with ng.configure(engine="reference"):  # what is checked are graphs
        for x, expected in zip(ng.jit(of_gradients)(U, U)[1], of_gradients(U, U)[1], strict=True):
            numpy.testing.assert_allclose(x, expected)


def test_arrays_of_earlier_steps_that_something_else_assigns_to():
    anywhere = numpy.random.default_rng(4391).integers(-29, 29, (23, 3))

    def f(x):
        r = np.ones(29)
        for e in range(23):
            r[anywhere[e]] = np.ones(3) * x[e % 12]
            i = 23 - e % 22
            r[i : i + 1] = x[:1][::-1]
        return np.sum(r**2)

    with ng.configure(engine="reference"):  # what is checked are graphs
        for way in (by_jit, step_by_step):
            value, gradient = way(f, U[:12])
            numpy.testing.assert_allclose(value, f(ng.tensor(U[:12])).numpy())
            assert gradient.shape == (12,)


@pytest.mark.thorough(but="^1$")
@pytest.mark.parametrize("seed", range(3))
def test_random_additions(seed):
    random = numpy.random.default_rng(seed)
    height, move = random.integers(1, 5), random.integers(-3, 4)
    size = int(height + abs(move) * (STEPS - 1))
    starts = move * numpy.arange(STEPS) - min(0, move * (STEPS - 1))
    others = random.integers(0, size, STEPS)
    signs = random.choice([-1.0, 1.0], 2)

    def f(u, k):
        r = np.ones(size) * u[-1]
        for e in range(STEPS):
            part = k[e] * np.cos(u[e]) * np.arange(1.0, height + 1.0)
            r[starts[e] : starts[e] + height] += signs[0] * part
            r[others[e]] -= signs[1] * u[e]
        return np.sum(r**2)

    assert "loop" not in _check(f, U, K)


# Index arrays that are known, without a loop.

PLACES = numpy.flatnonzero(_RANDOM.random(STEPS + 1) < 0.4)
DIAGONAL = numpy.diag_indices(STEPS + 1)
MASK = _RANDOM.random((STEPS + 1, STEPS + 1)) < 0.3


def noise_on_a_diagonal(u, k):
    a = np.outer(u, u)
    a[DIAGONAL] += k[0] ** 2
    a[DIAGONAL] -= np.sin(u)
    return np.sum(a**3)


def rows_times_two(u, k):
    a = np.outer(u, u)
    a[PLACES] = a[PLACES] + 2.0 * k[0]
    return np.sum(a**3)


def elements_where_a_mask_is_true(u, k):
    a, b = np.outer(u, u), np.sin(np.outer(u, u)) * k[0]
    for _ in range(2):
        a[~MASK] = (a + b)[~MASK]
        a[MASK] = (2.0 * b)[MASK]
    return np.sum(a**3)


def zeros_at_places(u, k):
    a = np.outer(u, u)
    a[np.nonzero(MASK)] = 0.0
    a[PLACES, PLACES] = k[0]
    return np.sum(a**3)


def the_same_places_of_another_shape(u, k):
    a, b = u * k[0], np.reshape(u, (STEPS + 1, 1)) * 2.0
    a[PLACES] = 0.5
    b[PLACES] = 0.5
    return np.sum(np.sin(a)) + np.sum(np.cos(b))


KNOWN = [noise_on_a_diagonal, rows_times_two, elements_where_a_mask_is_true, zeros_at_places]
KNOWN += [the_same_places_of_another_shape]


@pytest.mark.parametrize("f", KNOWN)
def test_assignments_at_known_places_are_sums_or_choices(f):
    ops = _check(f, U, K)
    assert "scatter_set" not in ops


def test_assigned_parts_that_somebody_watches_stay():
    def f(u):
        a = u * u
        part = (a + 1.0)[PLACES]
        part.register_hook(lambda g: 3.0 * g)
        a[PLACES] = part
        return np.sum(a)

    expected = 2.0 * U
    expected[PLACES] *= 3.0
    numpy.testing.assert_allclose(ng.jit(ng.grad(f))(U), expected)


def test_places_that_are_named_twice_have_what_was_assigned_last():
    twice = numpy.array([3, 5, 3])

    def f(u, k):
        u[twice] = k[:3]
        u[twice] += k[3:6]
        return np.sum(u**2)

    assert "scatter_set" in _check(lambda u, k: f(u * 1.0, k), U, K)


def test_index_arrays_and_masks_that_change_between_calls():
    places, mask, nodes = PLACES.copy(), MASK.copy(), NODES.copy()

    def f(u, k):
        a = np.outer(u, u)
        a[places] += k[0]
        a[~mask] = np.sin(a)[~mask]
        r = np.zeros_like(u)
        for e in range(STEPS):
            r[nodes[e]] += k[e] * u[nodes[e]] ** 2
        return np.sum(a**2) + np.sum(r**2)

    g = ng.jit(ng.value_and_grad(f, (0, 1)))
    for _ in range(3):
        value, gradients = g(U, K)
        expected, *others = step_by_step(f, U, K)
        numpy.testing.assert_allclose(value, expected, rtol=1e-12)
        for x, y in zip(gradients, others, strict=True):
            numpy.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
        places[0], mask[:3], nodes[4] = places[1], ~mask[:3], nodes[4, 0]


@pytest.mark.thorough
def test_what_looks_have_computed_is_added_to_by_nothing():
    """Each step takes a constant, which a look has computed: what it was made of is gone."""
    bounds = np.stack([np.full(100, 1.5), np.full(100, 9.0)], axis=1)

    def f(p):
        y = np.zeros(100)
        for k in range(100):
            y[k] = p[0]
            y[k] += p[1] * (y[k - 1] if k else 1.0)
            if y[k] < bounds[k, 0]:
                y[k] = bounds[k, 0]
        return np.sum(y**2)

    value, gradient = ng.value_and_grad(f)(numpy.zeros(2))
    assert float(value) == 225.0
    numpy.testing.assert_array_equal(gradient, [0.0, 0.0])
    value, gradient = ng.value_and_grad(f)(numpy.array([1.0, 0.5]))
    expected = [float(ng.jvp(f, (numpy.array([1.0, 0.5]),), (v,))[1]) for v in numpy.eye(2)]
    numpy.testing.assert_allclose(gradient, expected, rtol=1e-12)
