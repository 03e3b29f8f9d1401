"""Steps that are alike but for the lengths of their rows are done all at once, where they are
summed; others stay as they are."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.walk import toposort
from numba_grad.transforms.rerolling import ragged_steps

COUNT = 24
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(COUNT, 3))
CHARGES = RNG.normal(size=COUNT)
MATRIX = RNG.normal(size=(COUNT, COUNT))
COLUMNS = np.asfortranarray(RNG.normal(size=(COUNT, 3)))


def check(f, *arrays, is_joined=True):
    """A compiled function and its gradients give what they give operation by operation, and have
    few operations if the steps are done at once."""
    both = ng.value_and_grad(f, tuple(range(len(arrays))))
    (value, slopes), (expected, expected_slopes) = ng.jit(both)(*arrays), both(*arrays)
    for x, y in zip([value, *slopes], [expected, *expected_slopes], strict=True):
        y = np.asarray(y)
        assert np.shape(x) == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max())
    np.testing.assert_allclose(ng.jit(f)(*arrays), expected, rtol=1e-9)
    for lowered, most in ((ng.jit(f).lower(*arrays), 3), (ng.jit(both).lower(*arrays), 6)):
        operations = str(lowered.graph).count("\n")
        assert (operations < most * COUNT) == is_joined


def after(x):
    total = 0.0
    for k in range(COUNT - 1):
        d = x[k + 1 :] - x[k]
        total += np.sum(1 / np.sqrt(np.sum(d * d, axis=1)))
    return total


def before(x):
    total = 0.0
    for k in range(1, COUNT):
        d = x[k] - x[:k]
        total = np.sum(np.exp(-np.einsum("ij,ij->i", d, d))) + total
    return total


def with_itself(x):
    return sum([np.sum(np.sin((x[k:] - x[k]) ** 2)) for k in range(COUNT)])


def empty_at_the_end(x):
    return sum(np.sum((x[k + 1 :] * x[k]) ** 2) for k in range(COUNT))


def by_components(x):
    total = 0.0
    for k in range(COUNT):
        r2 = sum((x[k + 1 :, c] - x[k, c]) ** 2 for c in range(3))
        total = total - np.sum(np.log(r2 + 1.0))
    return total


def by_columns(x):
    y, total = x.T, 0.0
    for k in range(COUNT - 1):
        d = y[:, k + 1 :] - y[:, k : k + 1]
        total += np.sum(np.tanh(np.sum(d**2, axis=0)))
    return total


def by_norm(x):
    total = 0.0
    for k in range(COUNT - 1):
        total -= (1 / np.linalg.norm(x[k + 1 :] - x[k], axis=1)).sum()
    return total


def every_second(x):
    total = 0.0
    for k in range(len(x) - 2):
        total += np.sum(np.cos(x[k + 2 :: 2] * x[k]))
    return total


WAYS = [after, before, with_itself, empty_at_the_end, by_components, by_columns, by_norm]


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("f", WAYS)
def test_values_and_gradients(f):
    check(f, POINTS)


def test_numbers_that_are_known_for_some_lengths_only():
    def f(x):
        total = 0.0
        for k in range(COUNT - 1):
            d = x[k + 1 :] - x[k]
            total += np.sum(1.375 / (1 + np.sum(d * d, axis=1)))
        return total

    for length in (4, 9):
        [1.375 / ng.ones(length) for _ in range(3)]
    for k in range(5000):
        k * ng.ones(4)
    check(f, POINTS)


def test_rows_of_other_lengths_than_the_next():
    check(every_second, RNG.normal(size=(2 * COUNT, 3)))


def test_arrays_that_are_closed_over():
    charges, columns = CHARGES.copy(), COLUMNS.copy(order="F")

    def f(x):
        total = 0.0
        for k in range(COUNT - 1):
            r = np.sqrt(np.sum((x[k + 1 :] - x[k]) ** 2, axis=1) + columns[k + 1 :, 1])
            total += np.sum(charges[k] * charges[k + 1 :] / r + charges[k + 1 :] * x[k, 0])
        return total

    columns[...] = np.abs(columns)
    check(f, POINTS)
    jitted = ng.jit(f)
    jitted(POINTS)
    charges[3], columns[5, 1] = 7.0, 0.5
    np.testing.assert_allclose(jitted(POINTS), f(POINTS))


def test_parts_of_rows_of_a_matrix():
    def f(x, w):
        total = 0.0
        for k in range(COUNT - 1):
            d = x[k + 1 :, 0] - x[k, 0]
            total += np.sum(w[k, k + 1 :] * d**2) + np.sum(w[k + 1 :, k] * np.abs(d))
        return total

    check(f, POINTS, MATRIX)


@pytest.mark.thorough
def test_what_is_made_of_the_sum_of_each_row():
    def f(x):
        total = 0.0
        for k in range(COUNT - 1):
            fields = np.sum(np.exp(-((x[k + 1 :] - x[k]) ** 2)), axis=0)
            total += np.sum(np.log(1.0 + fields)) * (k + 1) * x[k, 1]
        return total

    check(f, POINTS)


@pytest.mark.thorough
def test_rows_that_are_written_out_again():
    def f(x):
        total = 0.0
        for k in range(COUNT - 1):
            d = (x[k + 1 :] - x[k])[:, :2]
            r = np.sqrt(np.sum(d * d, axis=1, keepdims=True))
            u = np.broadcast_to(1.0 / r, d.shape) * d
            total += np.sum(np.transpose(u)[0] * u[:, 1]) + np.sum(u.reshape(-1, 1, 2) ** 4)
        return total

    check(f, POINTS)


def test_steps_before_and_after_that_are_others():
    def f(x):
        total = np.sum(x[:5] ** 2)
        for k in range(COUNT - 1):
            d = x[k + 1 :] - x[k]
            total = total + (np.sum(d**4) if k in (0, 9) else np.sum(np.exp(d)))
        return total * np.sum(x[3:])

    check(f, POINTS)


@pytest.mark.thorough
def test_second_derivatives():
    slope = ng.grad(after)
    f = ng.grad(lambda x: np.sum(np.sin(slope(x))))
    np.testing.assert_allclose(ng.jit(f)(POINTS), f(POINTS), rtol=1e-8)


def test_what_other_code_reads_is_there():
    totals = []

    def f(x):
        total = 0.0
        for k in range(COUNT - 1):
            total = total + np.sum(np.sin(x[k + 1 :] - x[k]))
            totals.append(total)
        return total, totals.pop(8), totals.clear()

    got, expected = ng.jit(lambda x: f(x)[:2])(POINTS), f(POINTS)[:2]
    np.testing.assert_allclose(got, [float(x) for x in expected])


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize(
    "step",
    [
        lambda x, k, total: total + np.sum(np.cumsum(x[k + 1 :] - x[k])),
        lambda x, k, total: total + np.sum(x[k + 1 :, None] * x[: COUNT - k - 1]),
        lambda x, k, total: total + np.sum(np.sin(x[k + 1 :] * total)),
        lambda x, k, total: total + np.max(x[k + 1 :] - x[k]),
        lambda x, k, total: total * 0.5 + np.sum(np.sin(x[k + 1 :] - x[k])),
        lambda x, k, total: total + np.sum(x[k + 1 :, :2] @ x[:2, :2]),
    ],
)
def test_what_is_no_such_sum_stays(step):
    def f(x):
        total = 0.1
        for k in range(COUNT - 1):
            total = step(x, k, total)
        return total

    check(f, POINTS, is_joined=False)


def test_the_number_of_kernels_does_not_depend_on_the_number_of_steps():
    def f(x):
        total = 0.0
        for k in range(len(x) - 1):
            total += np.sum(np.exp(-((x[k + 1 :] - x[k]) ** 2)))
        return total

    counts = [len(ng.jit(ng.grad(f)).lower(RNG.normal(size=n)).kernels) for n in (16, 400)]
    assert max(counts) <= 3


def columns_of_cholesky(a):
    columns = []
    for j in range(len(a)):
        v = a[j:, j]
        for k in range(j):
            v = v - columns[k][j - k :] * columns[k][j - k]
        columns.append(v / np.sqrt(v[0]))
    return sum(np.sum(c) for c in columns)


@pytest.mark.parametrize("size", [20, 40])
def test_steps_that_share_a_history_are_compared_in_linear_time(size, monkeypatch):
    compared = []

    def counted(x, y):
        compared.append(x)
        return are_alike(x, y)

    are_alike = ragged_steps._are_alike
    monkeypatch.setattr(ragged_steps, "_are_alike", counted)
    total = columns_of_cholesky(ng.tensor(np.eye(size), requires_grad=True))
    order = [x for x in toposort([total._node]) if x.value is None]
    assert ragged_steps.joined_ragged_steps(order, {total._node}, None) is None
    assert 0 < len(compared) <= 2 * len(order)


def test_one_term_again_and_again():
    def f(x):
        term, total = np.sum(np.sin(x)), np.sum(x)
        rows = sum(np.max(x[k:]) * k for k in range(COUNT - 1))
        for _ in range(COUNT):
            total = total + term
        return total + rows

    check(f, CHARGES, is_joined=False)
