"""Branches as operations: what their graphs share."""

import numpy as np

import numba_grad as ng


def test_branches_that_are_one_graph_have_constants_of_their_own():
    def f(x, y):
        return ng.cond(x.sum() > 0, lambda: x, lambda: y).sum()

    for x, expected in ((np.ones(2), (1.0, 0.0)), (-np.ones(2), (0.0, 1.0))):
        gradients = ng.grad(f, argnums=(0, 1))(x, 2 * x)
        for gradient, value in zip(gradients, expected, strict=True):
            np.testing.assert_array_equal(gradient.numpy(), [value, value])


def test_a_branch_that_is_not_taken_computes_nothing():
    def f(x):
        return ng.cond(x.sum() > 0, lambda: np.sin(x), lambda: np.cos(x))

    graph = str(ng.jit(f).lower(np.ones(2)).graph)
    outside = [line for line in graph.splitlines() if line.startswith("%")]
    assert not any("sin(" in line or "cos(" in line for line in outside)
