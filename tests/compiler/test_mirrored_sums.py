"""Sums over all pairs, of which one is the mirror of another, are one pass. Others must not be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.config import configure

COUNT = 24


def passes_over_pairs(f, *arrays):
    """The kernels that do something for each pair."""
    return [k for k in ng.jit(f).lower(*arrays).kernels if k.flops >= COUNT * COUNT]


def check(f, *arrays, passes):
    got = ng.jit(f)(*arrays)
    with configure(engine="reference"), np.errstate(all="ignore"):
        expected = ng.jit(f)(*arrays)
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(np.signbit(x[x == 0]), np.signbit(y[x == 0]))
    assert len(passes_over_pairs(f, *arrays)) == passes


def positions(*shape):
    return np.random.default_rng(0).normal(size=shape)


def both_sums(f):
    """Sums of f(x_i, x_j) over either index."""

    def sums(x):
        value = f(x[:, None], x[None, :])
        return value.sum(0), value.sum(1)

    return sums


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: (a - b) * np.exp(-((a - b) ** 2)),
        lambda a, b: (a - b) / (1.0 + (a - b) * (a - b)),
        lambda a, b: a + b,
        lambda a, b: -a - b,
        lambda a, b: np.cos(a * b) * (b - a),
    ],
)
def test_mirrored_sums_are_one_pass(f):
    check(both_sums(f), positions(COUNT), passes=1)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a - 2.0 * b,
        lambda a, b: np.where(a < b, a, b * b),
        lambda a, b: np.exp(a - b),
        lambda a, b: a / (b * b + 1.0),
        lambda a, b: np.where(a < b, a - b, 0.0),
        lambda a, b: np.where(a == b, 0.0, a - b),  # 0.0 is an argument of the kernel
    ],
)
def test_other_sums_are_not(f):
    check(both_sums(f), positions(COUNT), passes=2)


def test_what_depends_on_the_sign_of_a_zero_is_not_mirrored():
    """1 / (x_i - x_j) is inf for i = j, whatever the order: not the opposite of itself."""

    def f(x):
        value = 1.0 / (x[:, None] - x[None, :])
        return value.sum(0), value.sum(1)

    rows, columns = ng.jit(f)(np.arange(COUNT, dtype=float))
    assert np.all(rows == np.inf)
    assert np.all(columns == np.inf)


def test_sums_of_zeros_are_positive():
    check(both_sums(lambda a, b: a - b), np.ones(COUNT), passes=1)


def test_two_arrays_are_not_mirrored():
    def f(x, y):
        value = np.exp(x[:, None] * y[None, :])
        return value.sum(0), value.sum(1)

    check(f, positions(COUNT), positions(COUNT) + 1.0, passes=2)


def test_a_batch_in_front():
    def f(x):
        difference = x[:, :, None] - x[:, None, :]
        return difference.sum(1), difference.sum(2)

    got = ng.jit(f)(positions(11, COUNT))
    with configure(engine="reference"):
        expected = ng.jit(f)(positions(11, COUNT))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-11)


def test_forces_are_one_pass_with_the_energy():
    identity, others = np.eye(COUNT), np.diag(np.linspace(1.0, 2.0, COUNT))

    def energy(x, diagonal):
        difference = x[:, None, :] - x[None, :, :]
        square = (difference * difference).sum(-1) + diagonal
        sixth = 1.0 / (square * square * square)
        return (sixth * sixth - sixth).sum()

    def with_diagonal_of_its_own(x):
        return energy(x, np.eye(COUNT))

    def without_diagonal(x):
        number = ng.arange(COUNT)
        is_self = number[:, None] == number[None, :]
        difference = x[:, None, :] - x[None, :, :]
        square = np.where(is_self, 1.0, (difference * difference).sum(-1))
        sixth = 1.0 / (square * square * square)
        return np.where(is_self, 0.0, sixth * sixth - sixth).sum()

    def with_one_from_outside(x):
        return energy(x, identity)

    for f in (without_diagonal, with_diagonal_of_its_own, with_one_from_outside):
        check(ng.value_and_grad(f), 3 * positions(COUNT, 3), passes=1)
    # An array that is read at each call, of which nobody knows that it is symmetric.
    check(ng.value_and_grad(lambda x: energy(x, others)), 3 * positions(COUNT, 3), passes=2)


@st.composite
def expressions(draw, depth=3):
    """An expression of a = x_i and b = x_j as text."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(["a", "b", "(a - b)", "(b - a)", "a * b"]))
    x, y = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return draw(
        st.sampled_from(
            [
                f"({x} + {y})",
                f"({x} - {y})",
                f"({x} * {y})",
                f"({x} / (2.0 + {y} * {y}))",
                f"(-{x})",
                f"np.where({x} < {y}, {x}, {y})",
                f"np.where(a == b, 0.0, {x})",
                f"np.sin({x})",
                f"np.abs({x})",
                f"{x} ** 2",
                f"{x} ** 3",
                f"np.copysign(1.0, {x})",
            ]
        )
    )


@pytest.mark.thorough
@settings(max_examples=25)
@given(expressions(), st.lists(st.integers(-2, 2), min_size=9, max_size=9))
def test_any_expression(text, values):
    function = eval(f"lambda a, b: {text}", {"np": np})
    f = both_sums(function)
    x = np.array(values, float)
    got = ng.jit(f)(x)
    with configure(engine="reference"):
        expected = ng.jit(f)(x)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
