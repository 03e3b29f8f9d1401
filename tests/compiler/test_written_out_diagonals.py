"""Constant matrices with one value on the diagonal are chosen by row and column, not read."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.passes.written_out_diagonals import is_diagonal_matrix

COUNT = 40
POINTS = np.random.default_rng(0).normal(size=(COUNT, 3))


def squares(x):
    d = x[:, None] - x
    return np.sum(d * d, axis=-1)


def steep(r2):
    return 1 / r2**2 - np.exp(-r2)


def by_filling(x):
    r2 = squares(x)
    np.fill_diagonal(r2, np.inf)
    return np.sum(steep(r2))


def by_choice(x):
    others = ~np.eye(COUNT, dtype=bool)
    return np.sum(np.where(others, steep(np.where(others, squares(x), 1.0)), 0))


WAYS = [
    lambda x: np.sum(steep(squares(x) + np.eye(COUNT)) * (1 - np.eye(COUNT))),
    lambda x: np.sum(steep(squares(x) + np.diag(np.full(COUNT, 1e10)))),
    lambda x: np.sum(
        (1 - np.eye(COUNT))[..., None] * np.tanh(x[:, None] - 0.5 * x) * squares(x)[..., None]
    ),
    by_choice,
    by_filling,
]


@pytest.mark.parametrize("f", WAYS)
def test_values_and_gradients_stay(f):
    both = ng.value_and_grad(f)
    for got, expected in zip(ng.jit(both)(POINTS), both(POINTS), strict=True):
        expected = np.asarray(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("f", [WAYS[0], WAYS[1], by_choice, by_filling])
def test_forces_are_one_pass_and_read_no_matrix(f):
    lowered = ng.jit(ng.value_and_grad(f)).lower(POINTS)
    assert lowered.profile(POINTS) is not None
    sums = [x for x in lowered.kernels if x.source.count("reduce_add") > 1]
    assert len(sums) == 1
    # The points alone, and where the sums go: no stride of a matrix is among the words.
    assert "* s" not in sums[0].source


def test_which_matrices_have_one_value_on_the_diagonal_and_one_elsewhere():
    eye = np.eye(COUNT)
    for own in (eye, 1 - eye, eye.astype(bool), eye.astype(np.float32), 2 - 3 * eye.astype(int)):
        assert is_diagonal_matrix(own)
        assert is_diagonal_matrix(np.asfortranarray(own))
        for place in ((0, 2), (1, 1), (5, 9), (-1, -1), (-1, 0)):
            other = own.copy()
            other[place] = 1 - other[place] if own.dtype != bool else not other[place]
            assert not is_diagonal_matrix(other)
    for other in (eye[:-1], eye[::-1], 0 * eye, np.eye(4), np.eye(COUNT, k=1), eye + 1j):
        assert not is_diagonal_matrix(other)
    assert is_diagonal_matrix(np.where(eye > 0, 0.0, -0.0))


def test_a_constant_that_matrices_are_multiplied_by_stays():
    def f(x):
        return np.sum((2 * np.eye(COUNT) @ x) ** 2) + np.sum(squares(x) * np.eye(COUNT))

    both = ng.value_and_grad(f)
    for got, expected in zip(ng.jit(both)(POINTS), both(POINTS), strict=True):
        np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-12)


def test_one_from_outside_is_compared_at_each_call():
    others = 1 - np.eye(COUNT)

    def forces(x):
        return np.sum(others * np.tanh(squares(x)))

    f, expected = ng.jit(ng.value_and_grad(forces)), ng.value_and_grad(forces)
    [kernel, *_] = f.lower(POINTS).kernels
    assert "* s" not in kernel.source
    for change in (lambda: None, lambda: others.__setitem__((0, 1), 2), lambda: others.fill(0.5)):
        change()
        for got, known in zip(f(POINTS), expected(POINTS), strict=True):
            np.testing.assert_allclose(got, np.asarray(known), rtol=1e-11, atol=1e-11)
