"""Loops over arrays row by row, at indices that follow the steps, beside loops in Python."""

import numpy as np
import pytest

import numba_grad as ng

_RANDOM = np.random.default_rng(5)
STATE, RATE = _RANDOM.normal(size=(2, 6))
FORCING, HISTORY = 0.3 * _RANDOM.normal(size=(2, 9, 6))
NOISE, NUMBERS = 0.3 * _RANDOM.normal(size=(2, 9))


def in_python(lower, upper, body, value):
    for k in range(lower, upper):
        value = body(k, value)
    return value


def by_scan(lower, upper, body, value):
    """As those write it whose counter is a row."""
    return ng.scan(lambda v, k: (body(k, v), None), value, np.arange(lower, upper))[0]


def by_counter(lower, upper, body, value):
    """As those write it who count themselves."""

    def step(carry, _):
        return {"k": carry["k"] + 1, "value": body(carry["k"], carry["value"])}, None

    return ng.scan(step, {"k": lower, "value": value}, length=upper - lower)[0]["value"]


# Of (loop, x, y): x of 6 elements, y of 9 rows of 6.


def trajectory(loop, x, y):
    def body(k, rows):
        rows[k + 1] = rows[k] * (1 - 0.1 * RATE) + np.roll(rows[k], 1) * y[k]
        return rows

    rows = ng.tensor(np.zeros((9, 6)))
    rows[0] = x
    return np.sum(loop(0, 8, body, rows) ** 2)


def two_rows_before(loop, x, y):
    def body(k, rows):
        rows[k] = 2 * rows[k - 1] - rows[k - 2] + x * np.sin(rows[k - 1])
        return rows

    return np.sum(loop(2, 9, body, y) ** 2)


def numbers_of_a_series(loop, x, y):
    def body(k, series):
        series[k] = x[0] * series[k - 1] + x[1] * series[k - 3] + noise[k]
        return series

    noise = y[:, 2]
    return np.sum(loop(3, 9, body, ng.tensor(NUMBERS) * x[2]) ** 3)


def what_was_there(loop, x, y):
    def body(k, rows):
        rows[k] = x * rows[k] + rows[k - 1] * rows[k + 1]
        return rows

    return np.sum(loop(1, 8, body, y) ** 2)


def other_things_are_carried(loop, x, y):
    def body(k, value):
        rows, total, smooth = value
        smooth = 0.9 * smooth + 0.1 * k * y[k]
        rows[k] = smooth * x
        return rows, total + np.sum(rows[k] * x), smooth

    start = ng.tensor(np.ones((9, 6))), 0.0, x
    rows, total, smooth = loop(0, 9, body, start)
    return np.sum(rows**2) + total + np.sum(smooth)


def two_arrays(loop, x, y):
    def body(k, value):
        u, v = value["u"], value["v"]
        v[k + 1] = v[k] - 0.1 * x * u[k]
        u[k + 1] = u[k] + 0.1 * (v[k] - x * u[k])
        return {"u": u, "v": v}

    rows = loop(0, 8, body, {"u": y, "v": 2 * y})
    return np.sum(rows["u"] * rows["v"])


def written_and_read_at_once(loop, x, y):
    def body(k, rows):
        rows[k + 1] = np.cos(rows[k]) * x
        rows[k + 1] = rows[k + 1] + 1
        return rows

    return np.sum(loop(0, 8, body, y) ** 2)


def another_row_after_it(loop, x, y):
    def body(k, rows):
        rows[k] = np.cos(rows[k - 1]) * x
        rows[k + 1] = rows[k] + 1
        return rows

    return np.sum(loop(1, 8, body, y) ** 2)


def a_row_before_the_first(loop, x, y):
    def body(k, rows):  # rows[-1] is the last one, at first
        rows[k] = rows[k - 1] * x
        return rows

    return np.sum(loop(0, 9, body, y) ** 2)


def always_the_same_row(loop, x, y):
    def body(k, rows):
        rows[k] = rows[3] * x + rows[k - 1]
        return rows

    return np.sum(loop(1, 9, body, y) ** 2)


def the_whole_array(loop, x, y):
    def body(k, rows):
        rows[k] = np.mean(rows, axis=0) * x
        return rows

    return np.sum(loop(1, 9, body, y) ** 2)


def every_other_row(loop, x, y):
    def body(k, rows):
        rows[2 * k] = rows[2 * k - 1] * x
        return rows

    return np.sum(loop(1, 5, body, y) ** 2)


def forcing_alone(loop, x, y):
    return np.sum(loop(1, 8, lambda k, u: np.sin(u) + x * y[k] + y[k + 1], x) ** 2)


BY_ROWS = {
    f.__name__: f
    for f in (
        trajectory,
        two_rows_before,
        numbers_of_a_series,
        what_was_there,
        other_things_are_carried,
        two_arrays,
        written_and_read_at_once,
        forcing_alone,
    )
}
OTHERS = {
    f.__name__: f
    for f in (
        another_row_after_it,
        a_row_before_the_first,
        always_the_same_row,
        the_whole_array,
        every_other_row,
    )
}
LOOPS = {"fori_loop": ng.fori_loop, "scan": by_scan, "counter": by_counter}


def gradients(f, loop, of=lambda f: f):
    def loss(x, y):
        return f(loop, x, y.copy())

    return of(ng.value_and_grad(loss, (0, 1)))(ng.tensor(STATE), ng.tensor(FORCING))


def assert_same(found, expected):
    (value, parts), (own, own_parts) = found, expected
    for a, b in zip((value, *parts), (own, *own_parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.thorough(but="fori_loop", every=7)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", [*BY_ROWS, *OTHERS])
def test_gradients_are_those_of_loops_in_python(name, loop):
    f = {**BY_ROWS, **OTHERS}[name]
    assert_same(gradients(f, LOOPS[loop]), gradients(f, in_python))


def carried_shapes(f, loop):
    """Shapes of what the gradient's loops carry and keep."""
    lowered = ng.jit(ng.grad(lambda x, y: f(loop, x, y.copy()), (0, 1))).lower(STATE, FORCING)
    lines = [line for line in str(lowered.graph).splitlines() if " = loop(" in line]
    assert lines
    return "\n".join(line.partition("  (")[2] for line in lines)


@pytest.mark.parametrize("name", BY_ROWS)
def test_what_is_carried_are_rows(name):
    shapes = carried_shapes(BY_ROWS[name], ng.fori_loop)
    assert ", 9, 6]" not in shapes
    assert ", 9]" not in shapes
    assert "int64" not in shapes or name == "other_things_are_carried"


@pytest.mark.parametrize("name", OTHERS)
def test_other_arrays_are_carried_whole(name):
    assert ", 9, 6]" in carried_shapes(OTHERS[name], ng.fori_loop)


@pytest.mark.thorough
@pytest.mark.parametrize("name", BY_ROWS)
def test_other_derivatives_and_batches(name):
    f = BY_ROWS[name]

    def loss(loop, x):
        return f(loop, x, ng.tensor(FORCING))

    ways = (
        lambda g: ng.jvp(g, (STATE,), (RATE,))[1],
        lambda g: ng.hessian(g)(STATE),
        lambda g: ng.vmap(ng.grad(g))(FORCING),
        lambda g: ng.jit(ng.grad(g))(STATE),
    )
    for way in ways:
        found, expected = (way(lambda x, k=k: loss(k, x)) for k in (ng.fori_loop, in_python))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_gradients_within_a_budget_have_the_same_bits():
    def within(memory):
        def loop(lower, upper, body, value):
            return ng.fori_loop(lower, upper, body, value, memory=memory)

        return gradients(two_rows_before, loop)[1]

    for few, all_of_them in zip(within("2 states"), within(None), strict=True):
        np.testing.assert_array_equal(few, all_of_them)


def test_an_index_that_changes_is_looked_at_again():
    offset = np.array(1)

    @ng.jit
    def f(y):
        def body(k, rows):
            rows[k + 2] = rows[k + offset] + 1.0
            return rows

        return ng.fori_loop(0, 7, body, y.copy())

    for value in (1, 0, 2):
        offset[...] = value
        expected = FORCING.copy()
        for k in range(7):
            expected[k + 2] = expected[k + value] + 1.0
        np.testing.assert_array_equal(f(FORCING), expected)


def test_few_rows_of_an_array_are_one_program_wherever_they_are():
    def f(first):
        def body(k, rows):
            rows[k] = rows[k - 1] * 2.0
            return rows

        return ng.fori_loop(first, first + 3, body, ng.tensor(FORCING))

    for first in (1, 5):
        expected = FORCING.copy()
        for k in range(first, first + 3):
            expected[k] = expected[k - 1] * 2.0
        np.testing.assert_array_equal(f(first), expected)
        assert "gather" in str(ng.jit(lambda: f(first)).lower().graph)  # noqa: B023


def test_an_index_out_of_range_is_refused():
    def body(k, rows):
        rows[k + 1] = rows[k]
        return rows

    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        ng.fori_loop(0, 9, body, ng.tensor(FORCING)).numpy()


def test_integers_are_carried_by_rows():
    def body(k, counts):
        counts[k] = counts[k - 1] + counts[k - 2]
        return counts

    counts = ng.tensor(np.ones(10, np.int64))
    assert ng.fori_loop(2, 10, body, counts).tolist() == [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]


def test_an_inner_loop_carries_an_integer():
    def step(carry, k):
        turns, halved = ng.while_loop(
            lambda v: v[0] < k, lambda v: (v[0] + 1, v[1] / 2), (0, carry)
        )
        return halved + numbers[k] + turns, None

    def half(pair):
        return pair[0] + 1, pair[1] / 2

    numbers = ng.tensor([3.0, 5.0, 7.0])
    got = ng.value_and_grad(lambda x: ng.scan(step, x, np.arange(3))[0])(2.0)
    np.testing.assert_allclose(got, (11.125, 0.125))


def test_a_row_that_is_written_in_parts_is_read_in_the_same_step():
    def in_parts(k, rows, rate):
        rows[k + 1, 0] = rate * rows[k, 1]
        rows[k + 1, 1:] = np.sin(rows[k, :-1])
        return rows, np.sum(rows[k + 1])

    def by_scan(rate):
        def step(carry, k):
            return in_parts(k, carry[0], rate), None

        return np.sum(ng.scan(step, (ng.tensor(FORCING), 0.0), np.arange(8))[0][1])

    def in_turn(rate):
        rows = ng.tensor(FORCING)
        for k in range(8):
            rows, total = in_parts(k, rows, rate)
        return total

    with ng.configure(engine="reference"):
        found, expected = ng.value_and_grad(by_scan)(0.3), ng.value_and_grad(in_turn)(0.3)
    np.testing.assert_allclose(found, expected)
