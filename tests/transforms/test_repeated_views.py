"""Equal slices of one array are merged before differentiation, and nobody can tell."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.node import OPS, argument
from numba_grad.graph.types import array_type
from numba_grad.ops.families import reshape
from numba_grad.ops.index_expressions import take_index
from numba_grad.ops.movement import permuted
from numba_grad.transforms.repeated_views import without_repeated_views

P = np.array([1.5, -0.7, 2.0])


def loop(p):
    y = p[0]
    for _ in range(5):
        y = y * p[1] + np.sin(p[0]) * p[2:].sum()
    return y


def test_the_gradient_is_that_of_the_formula():
    value, gradient = ng.jit(ng.value_and_grad(loop))(P)
    np.testing.assert_allclose(float(value), loop(P), rtol=1e-14)
    step = 1e-6
    expected = [(loop(P + step * e) - loop(P - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-8)


def test_second_derivatives_go_through_merged_views():
    hessian = np.asarray(ng.jit(ng.hessian(loop))(P))
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)
    gradient = ng.jit(ng.grad(loop))
    step = 1e-6
    for k, e in enumerate(np.eye(3)):
        above, below = np.asarray(gradient(P + step * e)), np.asarray(gradient(P - step * e))
        np.testing.assert_allclose(hessian[k], (above - below) / (2 * step), rtol=1e-7)


def test_an_output_that_is_a_view_twice_gets_both_contributions():
    def f(p):
        return p[0], p[0]

    _, pull = ng.vjp(f, P)
    (gradient,) = pull((np.float64(2.0), np.float64(3.0)))
    np.testing.assert_array_equal(np.asarray(gradient), [5.0, 0.0, 0.0])


def test_equal_transposes_and_reshapes_become_one():
    given = argument(array_type((2, 3), P.dtype))
    views = [permuted(given, (1, 0)), reshape(given, (6,))]
    views += [permuted(given, (1, 0)), reshape(given, (6,)), reshape(given, (3, 2))]
    assert without_repeated_views([given, *views], ()) == [given, *views[:2], views[4]]


def test_hooks_of_equal_views_stay_apart():
    seen = []

    def f(p):
        first, second = p[0], p[0]
        first.register_hook(lambda g: seen.append("first"))
        return first * 2.0 + second * 3.0

    np.testing.assert_array_equal(np.asarray(ng.grad(f)(P)), [5.0, 0.0, 0.0])
    assert seen == ["first"]


def test_views_that_the_caller_holds_are_kept():
    held = []

    def f(p):
        held.extend([p[0], p[0]])
        return held[0] * held[1]

    np.testing.assert_allclose(np.asarray(ng.grad(f)(P)), [3.0, 0.0, 0.0])


@pytest.mark.parametrize("count", [2, 7])
def test_users_are_given_the_first_view(count):
    p = argument(array_type((3,), np.dtype(np.float64)), requires_grad=True)
    views = [take_index(p, 0, None) for _ in range(count)]
    sums = [OPS["sin"](view) for view in views]
    order = sorted({p, *sums, *views, *(x.inputs[0] for x in views)}, key=lambda n: n.serial)
    kept = without_repeated_views(order, {sums[-1]})
    assert len(kept) == 2 + count
    assert {x.inputs[0] for x in sums} == {views[0]}


def spread_and_moved(u):
    """Neighbours twice, as where each term of an equation is written by itself."""
    spread = u[2:] - 2 * u[1:-1] + u[:-2]
    return u + np.pad(0.1 * spread - 0.1 * u[1:-1] * (u[2:] - u[:-2]), 1)


CALLERS = {
    "scan": lambda u: ng.scan(lambda u, _: (spread_and_moved(u), None), u, None, 3)[0],
    "jit": ng.jit(spread_and_moved),
    "checkpoint": ng.checkpoint(spread_and_moved),
}


@pytest.mark.parametrize("name", CALLERS)
def test_equal_slices_of_bodies_and_of_called_functions_are_one(name):
    f, u = CALLERS[name], np.linspace(0.0, 1.0, 30) ** 2
    text = ng.jit(ng.grad(lambda u: f(u).sum())).lower(u).graph
    backward = text[text.index("\nvjp of ") :]
    assert backward.count("add_slice(") == 3

    def by_hand(u):
        for _ in range(3 if name == "scan" else 1):
            u = spread_and_moved(u)
        return u.sum()

    expected = ng.grad(by_hand)(u)
    np.testing.assert_allclose(ng.grad(lambda u: f(u).sum())(u), expected, rtol=1e-12)
