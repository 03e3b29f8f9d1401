"""Slices of arrays that are put together along several axes: what changes is the kernels alone."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.passes.slices_of_parts import slices_of_parts
from numba_grad.config import configure
from numba_grad.graph.node import OPS, argument
from numba_grad.graph.types import array_type

SIDE = 20


def around(p):
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * p[1:-1, 1:-1]


def ghost_cells(u):
    y = np.concatenate([u[:, :1], u, 2.0 * u[:, -1:]], axis=1)
    return np.concatenate([y[:1], y, y[-1:]])


PUT_TOGETHER = {
    "edge": lambda u: np.pad(u, 1, mode="edge"),
    "wrap": lambda u: np.pad(u, 1, mode="wrap"),
    "reflect": lambda u: np.pad(u, 1, mode="reflect"),
    "symmetric": lambda u: np.pad(u, ((1, 1), (2, 1)), mode="symmetric")[:, 1:],
    "odd": lambda u: np.pad(u, 1, mode="reflect", reflect_type="odd")[:, :],
    "zeros": lambda u: np.pad(u, 1),
    "ghost cells": ghost_cells,
    "edges of edges": lambda u: np.pad(np.pad(u, 2, mode="edge"), 3, mode="wrap")[4:, 4:],
}


def whole_numbers(*shape):
    """Of which all sums are exact, in any order."""
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(float)


@pytest.mark.thorough(but="^(odd|edge|symmetric|ghost cells)$")
@pytest.mark.parametrize("name", PUT_TOGETHER)
def test_values_and_gradients_stay_the_same(name):
    def loss(u, weights):
        found = around(PUT_TOGETHER[name](u))
        found = found[:SIDE, :SIDE] * weights
        return np.sum(found), found

    def both(u, weights):
        return loss(u, weights)[1], ng.grad(lambda u: loss(u, weights)[0])(u)

    u, weights = whole_numbers(SIDE, SIDE), whole_numbers(SIDE, SIDE)
    value, gradient = ng.jit(both)(u, weights)
    np.testing.assert_array_equal(np.asarray(value), loss(u, weights)[1])
    with configure(engine="reference"):
        _, expected = ng.jit(both)(u, weights)
    np.testing.assert_array_equal(np.asarray(gradient), np.asarray(expected))


def test_neither_a_padded_array_nor_its_cotangent_is_stored():
    def f(u):
        return np.sum(around(np.pad(u, 1, mode="edge")) ** 2)

    u = whole_numbers(SIDE, SIDE)
    forward, backward = ng.jit(f).lower(u), ng.jit(ng.grad(f)).lower(u)
    assert "concatenate:" not in "".join(kernel.source for kernel in forward.kernels)
    assert "concatenate:" not in "".join(kernel.source for kernel in backward.kernels)


def between_zeros():
    """An array added to another one, both with zeros before them on two axes."""
    x = argument(array_type((SIDE, SIDE), np.dtype(np.float64)))
    padded = OPS["pad"](x, low=(3, 3), high=(1, 1), interior=(0, 0))
    return OPS["add_slice"](padded, x, starts=(4, 4), steps=(1, 1))


def test_what_is_read_as_a_whole_stays():
    total = between_zeros()
    inside = OPS["slice"](total, starts=(5, 4), sizes=(SIDE - 4, SIDE - 5), steps=(1, 1))
    assert slices_of_parts([inside])[0].inputs[0].op.name == "slice"
    for other in (total, OPS["sin"](total)):
        assert slices_of_parts([inside, other]) == [inside, other]


def test_a_region_of_nothing_but_zeros():
    part = OPS["slice"](between_zeros(), starts=(0, 0), sizes=(3, 5), steps=(1, 1))
    (zeros,) = slices_of_parts([part])
    assert zeros.shape == (3, 5)
    assert zeros.op.name == "broadcast_to"


@pytest.mark.parametrize(("times", "is_cut"), [(3, True), (40, False)])
def test_what_is_read_in_more_and_more_places_is_left_as_it_is(times, is_cut):
    whole = argument(array_type((SIDE, SIDE), np.dtype(np.float64)))
    for k in range(times):
        starts = (1, 0) if k % 2 else (0, 1)
        sizes = tuple(SIDE - start for start in starts)
        moved = OPS["slice"](whole, starts=(0, 0), sizes=sizes, steps=(1, 1))
        whole = OPS["add_slice"](whole, moved, starts=starts, steps=(1, 1))
    part = OPS["slice"](whole, starts=(1, 1), sizes=(SIDE - 2, SIDE - 2), steps=(1, 1))
    (found,) = slices_of_parts([part])
    assert (found.op.name == "add_slice") == is_cut
