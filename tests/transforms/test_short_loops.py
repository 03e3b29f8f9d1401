"""Loops in the bodies of loops: short ones are written out, others have the derivatives that are
asked for."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort

_RANDOM = np.random.default_rng(0)
RATES = 0.1 + 0.1 * _RANDOM.random(18)
STATE = _RANDOM.random(20)
FORCES = _RANDOM.random((3, 20))
FEW, MANY = 3, 14  # steps of the inner loop


def loop(f, init, xs, length, reverse=False):
    """`ng.scan` in Python."""
    results = [None] * length
    for k in range(length)[:: -1 if reverse else 1]:
        init, results[k] = f(init, None if xs is None else xs[k])
    return init, None if results[0] is None else np.stack(results)


def heat(scan, inner, reverse=False):
    def loss(rates, state):
        def small(u, x):
            new = u + np.pad(rates * (u[2:] - 2 * u[1:-1] + u[:-2]), 1) + 0.1 * x
            return new, np.sum(new * u)

        def step(u, forces):
            rows = np.stack([forces, 2 * forces] * (inner // 2) + [forces] * (inner % 2))
            u, energies = scan(small, u, rows, inner, reverse=reverse)
            return u - 0.01 * u**3, energies

        u, energies = scan(step, state, FORCES, len(FORCES))
        return np.sum(u**2) + np.sum(energies * np.arange(inner))

    return loss


def newton(scan, inner):
    def loss(a, x0):
        def step(x, _):
            target = a + 0.1 * x
            return scan(
                lambda y, _: (y - (y * y * y + y - target) / (3 * y * y + 1), None), x, None, inner
            )[0], None

        return scan(step, x0, None, 4)[0]

    return loss


def loops_in(nodes) -> list[Node]:
    """Those inside of loops, wherever they are."""
    bodies = [x.params["body"] for x in toposort(nodes) if x.op.name == "loop"]
    inside = [x for body in bodies for x in toposort(body.outputs) if x.op.name == "loop"]
    return [*inside, *[x for body in bodies for x in loops_in(body.outputs)]]


def nodes_of(f, *args):
    return f.lower(*args)._outputs


@pytest.mark.thorough
@pytest.mark.parametrize("inner", [FEW, MANY])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_loops_in_loops_are_those_of_loops_in_python(inner, reverse):
    found = ng.jit(ng.value_and_grad(heat(ng.scan, inner, reverse), argnums=(0, 1)))(RATES, STATE)
    expected = ng.value_and_grad(heat(loop, inner, reverse), argnums=(0, 1))(RATES, STATE)
    for x, y in zip([found[0], *found[1]], [expected[0], *expected[1]], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("inner", [FEW, MANY])
def test_second_derivatives_of_loops_in_loops(inner):
    def second(scan):
        return ng.grad(lambda a, x: ng.grad(newton(scan, inner), argnums=1)(a, x) * a)(0.3, 0.4)

    np.testing.assert_allclose(second(ng.scan), second(loop), rtol=1e-11)
    forward = ng.jvp(lambda a: newton(ng.scan, inner)(a, 0.4), (0.3,), (1.0,))[1]
    np.testing.assert_allclose(forward, ng.grad(newton(loop, inner))(0.3, 0.4), rtol=1e-11)


def test_loops_of_few_steps_are_written_out_and_others_are_not():
    found, expected = [ng.value_and_grad(newton(x, FEW))(0.3, 0.4) for x in (ng.scan, loop)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert not loops_in(nodes_of(ng.jit(newton(ng.scan, FEW)), 0.3, 0.4))
    assert loops_in(nodes_of(ng.jit(newton(ng.scan, MANY)), 0.3, 0.4))


def test_a_loop_inside_has_no_cotangents_of_the_numbers_in_its_step():
    f = ng.jit(ng.grad(newton(ng.scan, MANY), argnums=(0, 1)))
    back = [x for x in loops_in(nodes_of(f, 0.3, 0.4)) if x.params["body"].name.startswith("vjp")]
    # What is carried, and the sum for the target.
    assert back and all(x.params["carried"] == 2 for x in back)


def test_a_loop_inside_of_a_branch_has_no_cotangents_that_nobody_asks_for():
    def loss(a, b):
        def side(a):
            return ng.fori_loop(0, MANY, lambda _, x: np.sin(x * a) + 3.0 * x * x * b, a)

        return ng.cond(a > 0, side, lambda a: a, a)

    np.testing.assert_allclose(
        ng.grad(loss)(0.1, 0.2), (loss(0.1 + 1e-6, 0.2) - loss(0.1 - 1e-6, 0.2)) / 2e-6, rtol=1e-7
    )
