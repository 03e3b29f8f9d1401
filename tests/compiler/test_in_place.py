"""Assignments go to the memory of the old value where nobody needs that any more, also from one
segment to the next; and never otherwise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.compiler.partition import segments

SIZE = 40


@pytest.fixture
def short_segments(monkeypatch):
    """Small graphs are cut like large ones."""
    monkeypatch.setattr(segments, "LONGEST_WHOLE", 12)
    monkeypatch.setattr(segments, "WINDOW", 10)
    monkeypatch.setattr(segments, "LONGEST", 20)


def running_values(x):
    y = ng.zeros(x.shape)
    for i in range(1, 400):
        y[i] = np.sin(y[i - 1]) + x[i]
    return y


def test_a_loop_of_assignments_does_not_copy_the_array():
    x = np.random.default_rng(0).normal(size=5000)
    lowered = ng.jit(running_values).lower(x)
    long = [kernel for kernel in lowered.kernels if kernel.nbytes >= x.nbytes]
    assert sum(kernel.nbytes for kernel in long) <= 6 * x.nbytes  # the first and the last
    assert lowered.peak_memory <= 3 * x.nbytes


def test_neither_does_its_gradient():
    """Of an old value the gradient keeps the elements that it reads, not the array."""
    x = np.random.default_rng(0).normal(size=5000)
    lowered = ng.jit(ng.grad(lambda x: (running_values(x) ** 2).sum())).lower(x)
    long = [kernel for kernel in lowered.kernels if kernel.nbytes >= x.nbytes]
    assert sum(kernel.nbytes for kernel in long) <= 20 * x.nbytes
    assert lowered.peak_memory <= 6 * x.nbytes


def test_index_arrays():
    def f(x):
        y = x * 1.0
        for k in range(300):
            y[np.array([3, 5, 7]) + k] *= 0.5
        return y

    x = np.arange(5000.0)
    expected = x.copy()
    for k in range(300):
        expected[np.array([3, 5, 7]) + k] *= 0.5
    np.testing.assert_array_equal(ng.jit(f)(x), expected)
    assert ng.jit(f).lower(x).peak_memory <= 4 * x.nbytes


def test_arguments_are_written_to_where_the_function_does_so_and_nowhere_else():
    def filled(x):
        for i in range(1, 50):
            x[i] = x[i - 1] + 1.0
        return x

    def filled_copy(x):
        return filled(x.copy())

    expected = filled(np.zeros(SIZE + 20))
    for f in (filled, filled_copy):
        x, kept = np.zeros(SIZE + 20), ng.zeros(SIZE + 20)
        np.testing.assert_array_equal(ng.jit(f)(x), expected)
        np.testing.assert_array_equal(ng.jit(f)(kept), expected)
        after = expected if f is filled else np.zeros(SIZE + 20)
        np.testing.assert_array_equal(x, after)
        np.testing.assert_array_equal(kept, after)


# Programs of assignments: a list of arrays, of which old ones stay in use.

regions = st.one_of(
    st.integers(0, SIZE - 1),
    st.tuples(st.integers(0, SIZE - 12), st.integers(1, 12)).map(lambda t: slice(t[0], sum(t))),
    st.just(slice(None)),
    st.just(slice(0, SIZE, 3)),
    st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=4).map(np.array),
)
statements = st.tuples(
    st.sampled_from(["set", "add", "from_other", "from_itself", "keep", "new", "sum"]),
    st.integers(0, 3),
    st.integers(0, 3),
    regions,
)


def program(lines):
    """The function that a list of statements describes, for NumPy arrays or tensors."""

    def f(np, x, y):
        arrays = [x * 1.0, y * 1.0, x + y, x - y]
        total = x[0]
        for number, (kind, a, b, region) in enumerate(lines):
            target, other = arrays[a], arrays[b]
            if kind == "set":
                target[region] = float(number)
            elif kind == "add":
                target[region] += 0.5
            elif kind == "from_other":
                target[region] = np.sin(other[region]) + total
            elif kind == "from_itself":
                target[region] = target[region] * target[number % SIZE]
            elif kind == "keep":
                arrays[a] = target * 1.0
                total = total + target[number % SIZE]
            elif kind == "new":
                arrays[a] = other * 0.5 + target
            else:
                total = total + (target * 0.25)[region].sum()
        return [*arrays[:2], total]

    return f


@pytest.mark.thorough
@settings(max_examples=8)
@given(st.lists(statements, min_size=1, max_size=60))
def test_any_program_of_assignments(lines):
    check_program(lines)


@pytest.mark.thorough
@pytest.mark.usefixtures("short_segments")
def test_any_program_in_short_segments():
    @settings(max_examples=20)
    @given(st.lists(statements, min_size=8, max_size=60))
    def check(lines):
        check_program(lines)

    check()


def check_program(lines):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=SIZE), rng.normal(size=SIZE)
    f = program(lines)
    expected = f(np, x, y)
    given_x, given_y = x.copy(), y.copy()
    got = ng.jit(lambda x, y: f(np, x, y))(given_x, given_y)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(given_x, x)
    np.testing.assert_array_equal(given_y, y)

    def loss(x, y):
        a, b, total = f(np, x, y)
        return (a * a).sum() + np.cos(b).sum() + total

    gradient = ng.jit(ng.grad(loss, argnums=(0, 1)))(x, y)
    with ng.configure(engine="reference"):
        reference = ng.grad(loss, argnums=(0, 1))(x, y)
    for a, b in zip(gradient, reference, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-9)
