"""Cutting long graphs: loops in Python need as many kernels for 5,000 steps as for 500."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.compiler.building import build
from numba_grad.compiler.partition import flat_graph, materialization, segments
from numba_grad.compiler.partition.segments import LONGEST, LONGEST_WHOLE, cut
from numba_grad.config import configure

pytestmark = pytest.mark.usefixtures("loops_stay_steps")

START = np.array([10.0, 5.0])
PARAMETERS = np.array([1.0, 0.1, 1.5, 0.075])


def lotka_volterra(steps, h=0.001):
    def rate(u, v, p):
        return p[0] * u - p[1] * u * v, p[3] * u * v - p[2] * v

    def f(start, p):
        u, v = start[0], start[1]
        for _ in range(steps):
            a, b = rate(u, v, p)
            c, d = rate(u + h / 2 * a, v + h / 2 * b, p)
            e, f = rate(u + h / 2 * c, v + h / 2 * d, p)
            k, m = rate(u + h * e, v + h * f, p)
            u = u + h / 6 * (a + 2 * c + 2 * e + k)
            v = v + h / 6 * (b + 2 * d + 2 * f + m)
        return u + v

    return f


def kernels(f, *args):
    return {kernel.source for kernel in ng.jit(f).lower(*args).kernels}


@pytest.mark.thorough
def test_more_steps_need_no_more_kernels():
    few = kernels(lotka_volterra(300), START, PARAMETERS)
    before = build.statistics().compilations
    assert kernels(lotka_volterra(1500), START, PARAMETERS) == few
    assert build.statistics().compilations == before
    assert len(few) <= 6


@pytest.mark.thorough
def test_neither_do_their_gradients():
    few = kernels(ng.grad(lotka_volterra(250)), START, PARAMETERS)
    before = build.statistics().compilations
    assert kernels(ng.grad(lotka_volterra(750)), START, PARAMETERS) == few
    assert build.statistics().compilations == before
    assert len(few) <= 30


@pytest.mark.thorough
def test_5_000_steps_need_the_kernels_of_500():
    few = kernels(lotka_volterra(500), START, PARAMETERS)
    before = build.statistics().compilations
    assert len(kernels(lotka_volterra(5000), START, PARAMETERS)) == len(few)
    assert build.statistics().compilations == before


def test_values_are_those_of_numpy():
    f = ng.jit(lotka_volterra(60))
    with configure(engine="reference"):
        expected = ng.jit(lotka_volterra(60))(START, PARAMETERS)
    np.testing.assert_allclose(f(START, PARAMETERS), expected, rtol=1e-12)


def periodic(period, repeats, reach):
    """Signatures and edges of a loop: each node reads its neighbour and one some way back."""
    n = len(period) * repeats
    edges = [(k - d, k) for k in range(n) for d in {1, reach} if k >= d]
    return period * repeats, np.array(edges, np.int64).reshape(-1, 2)


@st.composite
def graphs(draw):
    n = draw(st.integers(0, 4000))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    users = random.integers(1, max(n, 2), size=2 * n)
    edges = np.stack([users - 1 - random.integers(0, 50, size=2 * n), users], axis=1)
    edges = edges[(edges[:, 0] >= 0) & (edges[:, 1] < n)]
    return random.integers(0, draw(st.integers(1, 1000)), size=n).tolist(), edges


@settings(max_examples=40)
@given(graphs(), st.booleans())
def test_cuts_are_a_partition_into_bounded_pieces(graph, is_small):
    signatures, edges = graph
    starts = cut(signatures, edges, are_small=lambda start, stop: is_small)
    assert starts[0] == 0
    assert starts[-1] == len(signatures)
    if signatures:
        lengths = np.diff(starts)
        assert lengths.min() > 0
        assert lengths.max() <= max(LONGEST, LONGEST_WHOLE)
    assert cut(signatures, edges, are_small=lambda start, stop: is_small) == starts


def test_a_short_graph_of_numbers_is_one_segment():
    signatures, edges = periodic(list(range(LONGEST_WHOLE)), 1, 3)
    assert cut(signatures, edges, are_small=lambda start, stop: True) == [0, LONGEST_WHOLE]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**60), min_size=60, max_size=200, unique=True), st.integers(2, 50))
def test_cuts_of_a_loop_are_periodic(period, reach):
    length = len(period)
    starts = cut(*periodic(period, 60, reach))
    middle = [k for k in starts if 15 * length <= k < 45 * length]
    assert len(middle) >= 2
    assert len({k % length for k in middle}) == 1
    more = cut(*periodic(period, 90, reach))
    assert {b - a for a, b in itertools.pairwise(more)} <= {
        b - a for a, b in itertools.pairwise(starts)
    }


@pytest.mark.parametrize(
    ("repeats", "is_carried", "is_loop"), [(12, False, False), (12, True, True), (40, False, True)]
)
def test_few_terms_of_a_sum_are_no_loop(repeats, is_carried, is_loop):
    """Terms are of three nodes, the last of which adds to the sum; what is carried on is the first
    node of the term before."""
    n = 3 * repeats
    signatures = np.arange(n) % 3 + 1
    edges = [(k - 1, k) for k in range(n) if k % 3] + [(k - 3, k) for k in range(5, n, 3)]
    if is_carried:
        edges += [(k - 2, k) for k in range(3, n, 3)]
    edges.sort(key=lambda edge: edge[1])
    assert (len(cut(signatures, np.array(edges))) > 2) == is_loop


@pytest.mark.parametrize("place", range(30))
def test_steps_that_change_in_one_operation_are_two_loops_without_a_common_step(place):
    """A period before the change nodes repeat what was before, and in a period what comes after."""
    period, steps = 30, 40
    signatures = np.arange(steps * period) % period
    signatures[steps // 2 * period + place :: period] = 100
    edges = np.array([(k - 1, k) for k in range(1, len(signatures))])
    assert np.diff(cut(signatures, edges)).min() > 0


def test_periods_that_add_to_several_arrays_are_taken_together():
    """Of 15 nodes, of which some are added to the same nodes of the period before."""
    period, steps = 15, 60
    n = period * steps
    signatures = np.arange(n) % period + 1

    def cuts(sums, are_large):
        own = period - sums  # nodes of the state, one after the other
        pairs = [(k - 1, k) for k in range(n) if 0 < k % period < own]
        pairs += [(k - sums - 1, k) for k in range(period, n) if k % period == 0]
        pairs += [(k - period, k) for k in range(period, n) if k % period >= own]
        pairs += [(k - k % period, k) for k in range(n) if k % period >= own]
        edges = np.array(sorted(pairs, key=lambda pair: pair[1]), np.int64)
        bounds = cut(signatures, edges, are_large=lambda start, stop: are_large)
        return Counter(np.diff(bounds).tolist()).most_common(1)[0][0]

    assert cuts(2, are_large=True) == 4 * period
    assert cuts(2, are_large=False) == 2 * period
    assert cuts(1, are_large=True) == 2 * period


@pytest.mark.parametrize("together", [1, 4])
def test_periods_of_arrays_that_shrink_are_not_taken_together(together):
    signatures, edges = periodic([5, 3, 8, 2, 7, 6], 60, 2)
    bounds = cut(signatures, edges, change_shape=lambda start, stop: together == 1)
    assert Counter(np.diff(bounds).tolist()).most_common(1)[0][0] == 6 * together


def test_steps_of_a_triangle_share_kernels():
    def interpolated(y, t):  # Neville's scheme
        x = np.linspace(0.0, 1.0, len(y))
        for k in range(1, len(y)):
            y = ((t - x[k:]) * y[:-1] + (x[:-k] - t) * y[1:]) / (x[:-k] - x[k:])
        return y[0]

    few, many = (kernels(ng.grad(interpolated), np.sin(np.arange(n)), 0.3) for n in (32, 40))
    assert few == many
    assert len(few) <= 9


def test_states_that_shrink_are_stored_in_each_step():
    def f(s, u):
        total = 0.0
        for _ in range(len(s) - 1):
            s = s[1:] / u  # not made of the state three steps before in two of three
            total = total + np.sum(np.sin(s) * s)
        return total

    few, many = (
        kernels(ng.grad(f, argnums=(0, 1)), np.linspace(0.5, 2.0, n), 1.01) for n in (32, 40)
    )
    assert few == many


def test_a_short_graph_is_one_segment():
    signatures, edges = periodic(list(range(LONGEST_WHOLE)), 1, 3)
    assert cut(signatures, edges) == [0, LONGEST_WHOLE]


def test_rows_of_parameters_that_are_differentiated_are_not_copied():
    """`weights[k]` is a pointer into the parameter, for a product of matrices too."""

    def loss(weights, x):
        for _ in range(40):
            for k in range(3):
                x = ng.tanh(x @ weights[k])
        return x.sum()

    rng = np.random.default_rng(0)
    arguments = 0.3 * rng.normal(size=(3, 12, 12)), rng.normal(size=(6, 12))
    kernels = ng.jit(ng.value_and_grad(loss)).lower(*arguments).kernels
    assert not [kernel.name for kernel in kernels if kernel.name.startswith("slice")]


@pytest.mark.thorough
def test_parts_of_a_long_sum_do_not_wait_for_its_end():
    """The gradient of what each of many steps reads: all adjoints would be kept until the last."""

    def memory(steps):
        def loss(u, source):
            force = source / 9.0
            rim = u - np.pad(u[1:-1, 1:-1], 1)
            for _ in range(steps):
                inside = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) + force
                u = rim + np.pad(inside, 1)
            return ((u - 1.0) ** 2).sum()

        gradient = ng.jit(ng.grad(loss, argnums=(0, 1)))
        return gradient.lower(np.ones((130, 130)), np.ones((128, 128))).peak_memory

    assert memory(60) < 1.1 * memory(40)


@pytest.fixture
def short_segments(monkeypatch):
    monkeypatch.setattr(segments, "LONGEST_WHOLE", 60)
    monkeypatch.setattr(segments, "WINDOW", 32)
    monkeypatch.setattr(segments, "LONGEST", 64)
    monkeypatch.setattr(materialization, "MOST_MOVEMENTS", 9)
    # A program that another test compiled would be taken as it is.
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())


def delay_line(steps):
    def f(history):
        total = 0.0
        for _ in range(steps):
            new = np.sin(history[0]) + 0.5 * history[-1]
            history = np.concatenate([history[1:], new[None]])
            total = total + new * new
        return total

    return f


def rolls_of_rolls(steps):
    def f(x):
        total = 0.0
        for _ in range(steps):
            x = np.roll(x, 1)
            total = total + np.sum(np.sin(x)) * x[0]
        return total

    return f


@pytest.mark.thorough(but="delay line")
@pytest.mark.parametrize("f", [delay_line(40), rolls_of_rolls(40)], ids=["delay line", "rolls"])
def test_what_is_moved_again_and_again_is_stored_now_and_then(short_segments, f):
    x = np.random.default_rng(0).normal(size=20)
    value, gradient = ng.jit(ng.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    with configure(engine="reference"):
        expected = ng.grad(f)(x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_a_part_of_what_has_two_names_is_read_of_the_one_that_is_kept():
    def step(k, state):
        x, z = state
        renamed = ng.stop_gradient(np.sin(x))
        z = ng.cond(np.sum(z) > 0, lambda t: np.cos(t) * np.sum(t), lambda t: np.sin(t), z)
        return renamed, z + renamed[:5] * 0.1

    def loop(x, z):
        return ng.fori_loop(0, 3, step, (x, z))

    x, z = np.linspace(0.1, 1.0, 40), np.linspace(0.0, 1.0, 5)
    with configure(engine="reference"):
        expected = loop(x, z)
    for found, wanted in zip(ng.jit(loop)(x, z), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
