"""Loops whose steps need nothing of each other are array operations."""

import numpy as np
import pytest

import numba_grad as ng

_RANDOM = np.random.default_rng(0)
ROWS, WEIGHTS = _RANDOM.random((40, 4)), _RANDOM.random((4, 4))
DATA, VECTOR = _RANDOM.random(90), _RANDOM.random(30)
COLUMNS = _RANDOM.integers(0, 30, (30, 3))
PAIRS = [(int(i), int(j)) for i, j in _RANDOM.integers(-40, 40, (35, 2)) if i % 40 != j % 40]


def covariance(x, w):
    total = np.zeros((4, 4))
    for row in x:
        total = total + np.outer(row, row)
    return np.sum(w * total)


def likelihood(x, w):
    total = 0.0
    for k in range(40):
        total = total - 0.5 * (x[k, 0] - w[0, 0]) ** 2 - np.log(w[1, 1])
    return total


def rows_of_results(x, w):
    y = np.zeros((40, 4), like=x)
    for k in range(40):
        y[k] = np.tanh(w @ x[k])
    return np.sum(y * y * y)


def sparse_product(data, x):
    y = np.zeros(30, like=x)
    for k in range(30):
        y[k] = data[3 * k : 3 * k + 3] @ x[COLUMNS[k]]
    return np.sum(y**2)


def sparse_products(data, x):
    for _ in range(4):
        rows = [data[3 * k : 3 * k + 3] @ x[COLUMNS[k]] for k in range(30)]
        x = np.tanh(np.stack(rows))
    return np.sum(x**2)


def overlapping(data, x):
    return sum(np.sum((data[k : k + 3] - x[:3]) ** 2) for k in range(80))


def with_gaps(data, x):
    return sum(np.sum(data[5 * k : 5 * k + 2] * x[k]) ** 3 for k in range(17, 0, -1))


def bonds(x, w):
    total = 0.0
    for k, (i, j) in enumerate(PAIRS):
        d = x[i] - x[j]
        total += k * (np.sqrt(d @ d + 0.1) - w[3, 3]) ** 2
    return total


def factors(x, w):
    return sum((x[i, 1:] @ w[j % 4, :-1] - 1.0) ** 2 for i, j in PAIRS)


def cumulative(x, w):
    total, parts = 0.0, []
    for row in x:
        total = total + np.sum(row**2) * w[0, 0]
        parts.append(total)
    return np.sum(np.stack(parts) ** 2)


def recurrence(x, w):
    h = w[0]
    for row in x:
        h = np.tanh(w @ h + row)
    return np.sum(h)


MATRIX, SPARSE = (ROWS, WEIGHTS), (DATA, VECTOR)
INDEPENDENT = [
    (covariance, MATRIX),
    (likelihood, MATRIX),
    (rows_of_results, MATRIX),
    (sparse_product, SPARSE),
    (sparse_products, SPARSE),
    (overlapping, SPARSE),
    (with_gaps, SPARSE),
    (bonds, MATRIX),
    (factors, MATRIX),
]


def _ops(f, *args) -> list[str]:
    lowered = ng.jit(ng.value_and_grad(f, (0, 1))).lower(*args)
    lines = [line for line in str(lowered.graph).splitlines() if " = " in line]
    return [line.split(" = ")[1].split("(")[0] for line in lines]


def _step_by_step(f, *args):
    """By the derivatives of steps that were recorded one by one."""
    value = f(*args)
    variables = [ng.tensor(x, requires_grad=True) for x in args]
    f(*variables).backward()
    return value, [np.asarray(x.grad) for x in variables]


@pytest.mark.thorough(every=9)
@pytest.mark.parametrize("f, args", INDEPENDENT, ids=lambda x: getattr(x, "__name__", ""))
def test_steps_that_need_nothing_of_each_other_are_done_at_once(f, args):
    value, gradients = _step_by_step(f, *args)
    found, given = ng.jit(ng.value_and_grad(f, (0, 1)))(*args)
    np.testing.assert_allclose(found, value, rtol=1e-13)
    for g, expected in zip(given, gradients, strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-11, atol=1e-13)
    ops = _ops(f, *args)
    assert "loop" not in ops
    assert len(ops) < 160  # recorded one by one there are more than a thousand


def walk(x, w):
    h = w[0]
    for i, _ in PAIRS:
        h = np.tanh(w @ h + x[i])
    return np.sum(h)


def test_steps_that_read_any_rows_and_each_other_stay_steps():
    assert "loop" not in _ops(walk, *MATRIX)
    value, gradients = _step_by_step(walk, *MATRIX)
    found, given = ng.jit(ng.value_and_grad(walk, (0, 1)))(*MATRIX)
    np.testing.assert_allclose(found, value, rtol=1e-13)
    for g, expected in zip(given, gradients, strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-11)


@pytest.mark.parametrize("f", [cumulative, recurrence])
def test_steps_that_read_what_goes_from_step_to_step_are_a_loop(f):
    assert "loop" in _ops(f, *MATRIX)
    value, gradients = _step_by_step(f, *MATRIX)
    found, given = ng.jit(ng.value_and_grad(f, (0, 1)))(*MATRIX)
    np.testing.assert_allclose(found, value, rtol=1e-13)
    for g, expected in zip(given, gradients, strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-11)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_are_done_at_once(reverse):
    def at_once(x, w):
        total = np.ones((4, 4)) + x.T @ (x @ w.T)
        return np.sum(total**2) + np.sum(x @ w[0] * np.arange(40))

    def scanned(x, w):
        def step(total, row):
            return total + np.outer(row, w @ row), np.sum(row * w[0])

        total, sums = ng.scan(step, np.ones((4, 4)), x, reverse=reverse)
        return np.sum(total**2) + np.sum(sums * np.arange(40))

    found = ng.value_and_grad(scanned, (0, 1))(*MATRIX)
    value, gradients = ng.value_and_grad(at_once, (0, 1))(*MATRIX)
    np.testing.assert_allclose(found[0], value, rtol=1e-13)
    for g, expected in zip(found[1], gradients, strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-12)
    assert "loop" not in _ops(scanned, *MATRIX)
    hessian = ng.jit(ng.hessian(scanned, 1))(*MATRIX)
    np.testing.assert_allclose(hessian, ng.hessian(at_once, 1)(*MATRIX), rtol=1e-11)


def _scan_of(step, init):
    def f(x, w):
        return np.sum(ng.scan(lambda total, row: (step(total, row, w), None), init, x)[0])

    return _ops(f, *MATRIX)


def test_sums_that_are_rounded_at_each_step_stay_loops():
    def step(total, row, w):
        return total + (row * w[0]).astype(np.float16)

    assert "loop" in _scan_of(step, np.zeros(4, np.float16))


def test_what_is_large_for_all_steps_together_stays_a_loop():
    def large(total, row, w):
        return total + np.sum(np.tanh(row[:, None] * np.ones((1, 1 << 13)) * w[0, 0]))

    assert "loop" in _scan_of(large, np.zeros(()))


def test_what_a_step_records_without_history_has_none_at_once():
    def f(x, w):
        def step(total, row):
            with ng.no_grad():
                scale = np.sum(row * w[0])
            return total + scale * row, None

        return np.sum(ng.scan(step, np.zeros(4), x)[0])

    scale = ROWS @ WEIGHTS[0]
    of_x, of_w = ng.grad(f, (0, 1))(*MATRIX)
    np.testing.assert_allclose(of_x, np.broadcast_to(scale[:, None], ROWS.shape))
    np.testing.assert_array_equal(of_w, np.zeros_like(WEIGHTS))


@pytest.mark.parametrize("count", [0, 1])
def test_no_steps_and_one(count):
    f = ng.jit(lambda x: ng.scan(lambda s, row: (s + np.sum(row**2), 2 * row), 1.0, x))
    total, rows = f(ROWS[:count])
    np.testing.assert_allclose(total, 1 + np.sum(ROWS[:count] ** 2))
    np.testing.assert_array_equal(rows, 2 * ROWS[:count])


def test_what_a_step_makes_of_few_values_again_and_again_is_walked_once():
    """Each pass reads what the one before gave three times: a walk that goes along every way to a
    value would not end."""

    def f(x):
        results = []
        for k in range(30):
            z = x[k]
            for _ in range(20):
                z = z * z * 0.1 + np.sin(z) * z
            results.append(z)
        return np.sum(np.stack(results) ** 2)

    def slope(z):
        d = 1.0
        for _ in range(20):
            d = d * (0.2 * z + np.cos(z) * z + np.sin(z))
            z = z * z * 0.1 + np.sin(z) * z
        return 2 * z * d

    x = np.linspace(0.5, 1.5, 30)
    np.testing.assert_allclose(ng.grad(f)(x), slope(x), rtol=1e-10, atol=1e-300)
