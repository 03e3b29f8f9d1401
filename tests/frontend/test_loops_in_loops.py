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


def in_a_tuple(step, k, start, rows, *, memory=None, inner_memory=None, reverse=False):
    def stretch(state, row):
        state, _ = ng.scan(
            lambda x, _: (step(x, k), None),
            state,
            length=INNER,
            memory=inner_memory,
            reverse=reverse,
        )
        return state, ((state - row) ** 2).sum()

    return ng.scan(stretch, start, rows, reverse=reverse, memory=memory)[1].sum()


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


@pytest.mark.thorough(every=5)
@of_each_step
@pytest.mark.parametrize("form", [in_a_tuple, with_a_count, in_three])
def test_the_gradient_is_that_of_the_reference_engine(form, name):
    arguments = given(name)
    gradient = gradient_of(form, name)
    with configure(engine="reference"):
        expected = gradient(*arguments)
    assert_close(gradient(*arguments), expected)
    assert_close(ng.jit(gradient)(*arguments), expected)


@pytest.mark.thorough(but="numbers|product")
@of_each_step
def test_the_gradient_is_that_of_python_loops(name):
    arguments = given(name)
    assert_close(
        ng.jit(gradient_of(in_a_tuple, name))(*arguments), gradient_of(in_python, name)(*arguments)
    )


@pytest.mark.thorough(every=5)
@of_each_step
@pytest.mark.parametrize("reverse", [False, True])
def test_bits_do_not_depend_on_what_is_kept(name, reverse):
    arguments = given(name)
    budgets = [{}, {"memory": "2 states"}, {"memory": "1 GB"}, {"inner_memory": "3 states"}]
    found = [
        ng.jit(gradient_of(in_a_tuple, name, reverse=reverse, **memory))(*arguments)
        for memory in budgets
    ]
    assert all(bits(x) == bits(found[0]) for x in found)


@pytest.mark.thorough(but="numbers")
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


def random_nest(seed):
    """Loops of two numbers, or of two rows of some, in loops: results of inner steps are read in
    the steps around them, alone, all of them and by another loop."""
    random = np.random.default_rng(seed)
    depth, size = int(random.integers(2, 4)), int(random.integers(1, 4))
    lengths = [int(random.integers(2, 6)) for _ in range(depth - 1)] + [
        int(random.integers(12, 17))
    ]
    reverse = [bool(x) for x in random.random(depth + 1) < 0.3]
    stacks_a_row, reads_one, reads_all_again, chooses, counts = random.random(5) < 0.5
    budget = str(random.integers(1, 4)) + " states"

    def cell(state, k, x):
        u, v = state
        new = 0.9 * u + 0.1 * k * np.sin(v)
        other = 0.95 * v - 0.1 * k * u + 0.01 * x
        if chooses:
            other = np.where(new > other, other, 0.5 * other + 0.1 * np.exp(-new * new))
        return new, other

    def innermost(state, k):
        def step(carry, x):
            state, count = carry
            state = cell(state, k, x)
            return (state, count + 1), (state[0] if stacks_a_row else state[0].sum())

        xs = np.linspace(0.0, 1.0, lengths[-1])
        ((u, v), count), ys = ng.scan(step, (state, 0), xs, reverse=reverse[-1])
        result = ys.sum() + (0.3 * ys[3].sum() if reads_one else 0.0)
        if reads_all_again:
            v, zs = ng.scan(lambda c, y: (0.9 * c + 0.1 * y, k * c), v, ys, reverse=reverse[0])
            result = result + 0.2 * zs.sum()
        return (u, v), result * (1 + 0.01 * (count % 5) if counts else 1.0)

    def nest(level, state, k, memory):
        if level == depth - 1:
            return innermost(state, k)

        def step(state, row):
            (u, v), result = nest(level + 1, state, k, memory)
            return (0.99 * u + 0.01 * row, v), (result + (u * v).sum()) * row

        rows = np.linspace(0.5, 1.0, lengths[level])
        state, results = ng.scan(step, state, rows, memory=memory, reverse=reverse[level])
        return state, results.sum() + 0.5 * results[1]

    def loss(k, u, v, memory=None):
        state, result = nest(0, (u, v), k, memory)
        return result + 2 * state[0].sum()

    return loss, (0.3, random.random(size), random.random(size)), budget


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("seed", range(20))
def test_random_nests(seed):
    loss, arguments, budget = random_nest(seed)
    by = (0, 1, 2)
    with configure(engine="reference"):
        expected = ng.value_and_grad(loss, by)(*arguments)
    found = ng.jit(ng.value_and_grad(loss, by))(*arguments)
    assert_close(found, expected, rtol=1e-9)
    within = ng.jit(ng.value_and_grad(lambda *x: loss(*x, memory=budget), by))(*arguments)
    assert bits(within) == bits(found)


def test_a_loop_in_a_loop_that_ends_by_a_condition():
    def loss(k, u):
        def stretch(carry):
            u, count = carry
            return ng.fori_loop(0, 13, lambda i, u: u * (1 - 0.1 * k) + 0.001 * i, u), count + 1

        u, count = ng.while_loop(lambda carry: (carry[0] > 0.2) & (carry[1] < 50), stretch, (u, 0))
        return u * (1 + 0.1 * count)

    gradient = ng.value_and_grad(loss, (0, 1))
    with configure(engine="reference"):
        expected = gradient(0.2, 2.5)
    assert_close(ng.jit(gradient)(0.2, 2.5), expected)
    assert_close(gradient(0.2, 2.5), expected)


def kernels_of(loss, *arguments):
    kernels = ng.jit(ng.value_and_grad(loss)).lower(*arguments).kernels
    return [x.source for x in kernels if "# loop\n" in x.source]


def test_loops_of_few_numbers_in_such_a_loop_are_one_kernel_and_nothing_is_done_again():
    start, rows = STEPS["numbers"][1], rows_for("numbers")
    sources = kernels_of(lambda k: in_a_tuple(euler, k, start, rows), 0.3)
    assert len(sources) == 2  # forward, and back
    assert all(source.count("# loop inside\n") == 1 for source in sources)


def test_a_state_that_a_loop_inside_goes_through_row_by_row_is_no_kernel_of_numbers():
    def loss(k):
        def step(xs, _):
            total, _ = ng.scan(lambda s, x: (s * k + x, None), 0.0, xs)
            return 0.9 * xs + 0.1 * total, total

        return ng.scan(step, np.linspace(0.0, 1.0, 13), length=5)[1].sum()

    assert not any("loop inside" in x.source for x in ng.jit(loss).lower(0.3).kernels)
    with configure(engine="reference"):
        expected = float(ng.grad(loss)(0.3))
    np.testing.assert_allclose(float(ng.jit(ng.grad(loss))(0.3)), expected, rtol=1e-12)
