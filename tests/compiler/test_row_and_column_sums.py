"""Sums over rows and over columns that are added are one sum, where that is less work."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.passes import mirrored_sums, row_and_column_sums

COUNT = 40
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(COUNT, 3))
NUMBERS = RNG.normal(size=COUNT)
WEIGHTS = RNG.random((COUNT, COUNT))


@pytest.fixture
def joined(monkeypatch):
    """Of each graph with large sums: whether some of them were joined."""
    found = []
    original = row_and_column_sums.row_and_column_sums

    def noting(outputs, constants):
        result = original(outputs, constants)
        found.append(result is not outputs)
        return result

    monkeypatch.setattr(row_and_column_sums, "row_and_column_sums", noting)
    return found


def check(f, x, rtol=1e-11):
    both = ng.value_and_grad(f)
    for got, expected in zip(ng.jit(both)(x), both(x), strict=True):
        expected = np.asarray(expected)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def squares(x):
    d = x[:, None] - x
    return np.sum(d * d, axis=-1)


def no_neighbours():
    return 1 - np.eye(COUNT, k=1) - np.eye(COUNT, k=-1)


OF_POINTS = [
    lambda x: np.sum(np.triu(1 / (1 + squares(x)), 1)),
    lambda x: np.sum(np.tril(np.exp(-squares(x)))),
    lambda x: np.sum(np.exp(-squares(x))[np.triu_indices(COUNT, 1)]),
    lambda x: np.sum(np.exp(-squares(x)) * no_neighbours()),
    lambda x: np.sum(np.triu(x[:, None, 0] * x[None, :, 0] - squares(x))),
]
OF_NUMBERS = [
    lambda x: np.sum(np.exp(-((x[:, None] - x) ** 2)) * x),
    lambda x: np.sum(np.tril(np.exp(-np.abs(x[:, None] - x)))),
    lambda x: -np.sum((x.reshape(1, -1) - x.reshape(-1, 1)) ** 2 * x[:, None]),
    lambda x: np.sum(np.outer(x, x) * no_neighbours()),
]


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("f", OF_POINTS)
def test_values_and_gradients_of_points(f, joined):
    check(f, POINTS)
    check(f, POINTS.astype(np.float32).astype(float))
    assert joined == [True, True]


@pytest.mark.parametrize("f", OF_NUMBERS)
def test_values_and_gradients_of_numbers(f, joined):
    check(f, NUMBERS)
    assert joined == [True]


def test_single_precision():
    f = ng.value_and_grad(OF_NUMBERS[0])
    x = NUMBERS.astype(np.float32)
    for got, expected in zip(ng.jit(f)(x), f(x), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-4, atol=1e-4)


def test_what_is_not_finite_shows():
    x = NUMBERS.copy()
    x[3], x[5] = x[7], np.inf
    f = ng.value_and_grad(lambda x: np.sum(np.triu(1 / np.abs(x[:, None] - x), 1)))
    with np.errstate(all="ignore"):
        (_, got), (_, expected) = ng.jit(f)(x), f(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(np.asarray(expected)))


def test_second_derivatives():
    slope = ng.grad(OF_POINTS[0])
    f = ng.grad(lambda x: np.sum(slope(x) ** 2))
    np.testing.assert_allclose(ng.jit(f)(POINTS), f(POINTS), rtol=1e-9, atol=1e-9)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(WEIGHTS * (x[:, None] - x) ** 2),  # columns of a matrix in memory
        lambda x: np.sum(np.tanh(2 * x[:, None] + 3 * x)),  # twice as many functions
        lambda x: np.sum(np.where(WEIGHTS > 0.5, np.cos(x[:, None] - x), 0.0)),
        lambda x: np.sum(np.outer(x, x * x) * no_neighbours()),  # one sum is multiplied before
        lambda x: np.sum(np.exp(x[:, None] - np.append(x, x[:3]))),  # no square
    ],
)
def test_what_would_be_more_work_stays(f, joined):
    check(f, NUMBERS)
    assert not any(joined)


def test_sums_in_sums_without_end(monkeypatch):
    """Each step of particles has a sum in the sums of the step before: terms of eight steps took
    ten seconds, at ever more indices."""
    looks = []
    reads = mirrored_sums._reads
    monkeypatch.setattr(mirrored_sums, "_reads", lambda *x: looks.append(x) or reads(*x))

    def f(x, steps):
        for _ in range(steps):
            d = x[:, None] - x[None]
            density = np.exp(-(d**2)).sum(1)
            x = x + 0.01 * np.sum((density[:, None] + density) * d * np.exp(-(d**2)), 1)
        return np.sum(x**2)

    counts = []
    for steps in (3, 6):
        looks.clear()
        ng.jit(ng.grad(lambda x, steps=steps: f(x, steps))).lower(NUMBERS)
        counts.append(len(looks))
    assert 0 < counts[1] <= 3 * counts[0]
    g = ng.grad(lambda x: f(x, 3))
    np.testing.assert_allclose(ng.jit(g)(NUMBERS), g(NUMBERS), rtol=1e-10)


@pytest.mark.usefixtures("not_compiled")
def test_steps_whose_sums_are_joined_stay_steps():
    """What no rule changes of a step is in it, not before all steps: by components there were ten
    kernels more, between which matrices of all steps were in memory."""

    def by_rows(x):
        d = x[None] - x[:, None]
        return np.sum(d * ((np.sum(d * d, axis=-1) + 0.01) ** -1.5)[..., None], axis=1)

    def by_components(x):
        d = [c - c[:, None] for c in (x[:, 0], x[:, 1], x[:, 2])]
        weights = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01) ** -1.5
        return np.stack([np.sum(c * weights, axis=1) for c in d], axis=1)

    def kernels(acceleration):
        def loss(x):
            v = np.zeros_like(x)
            for _ in range(20):
                v = v + 0.005 * acceleration(x)
                x = x + 0.01 * v
            return np.sum(x**2)

        return len(ng.jit(ng.value_and_grad(loss)).lower(POINTS).kernels)

    assert kernels(by_components) <= kernels(by_rows) + 2
