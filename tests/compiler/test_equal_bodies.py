"""Neighbouring pieces of a loop that compute the same are one."""

import re

import numpy as np

import numba_grad as ng


def loops(f, *args):
    """How many innermost loops each way through a kernel has."""
    [kernel] = ng.jit(f).lower(*args).kernels
    _, *ways = re.split(r"\n +(?:if|elif|else)\b[^\n]*:", kernel.source)
    return [way.count("for i1 in") for way in ways]


def test_rows_outside_of_the_interior_of_a_stencil():
    def step(u, k):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] - 2 * u[1:-1, 1:-1]
        return u + np.pad(k * inner, 1)

    x, k = np.random.default_rng(0).normal(size=(40, 50)), 0.3
    assert loops(step, x, k) == [3, 1]
    assert np.asarray(ng.jit(step)(x, k)).tobytes() == np.asarray(step(ng.tensor(x), k)).tobytes()


def test_pieces_that_differ_stay_apart():
    def joined(u):
        return np.concatenate([u[:, :20] * 2, u[:, 20:] * 3], axis=1)

    [kernel] = ng.jit(joined).lower(np.ones((40, 50))).kernels
    assert kernel.source.count("for i1 in") == 2


def test_equal_pieces_between_others_are_one():
    def padded(u):
        return np.concatenate([u[:, :20], u[:, 20:30], u[:, 30:] * 3], axis=1)

    u = np.random.default_rng(0).normal(size=(40, 50))
    wanted = u.copy()
    wanted[:, 30:] *= 3
    assert (np.asarray(ng.jit(padded)(u)) == wanted).all()
    [kernel] = ng.jit(padded).lower(u).kernels
    assert kernel.source.count("for i1 in") == 2
