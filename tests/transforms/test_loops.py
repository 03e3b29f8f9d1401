"""Derivatives of loops whose bodies keep products of matrices for them, beside loops in Python."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.node import OPS, argument, record
from numba_grad.graph.types import array_type
from numba_grad.ops.families import axes_params
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.control_flow import bodies
from numba_grad.transforms.control_flow.sums_of_points import carrying_points

_RANDOM = np.random.default_rng(0)
WEIGHTS = 0.2 * _RANDOM.normal(size=(20, 20))  # what is carried is too large for registers
ROWS = _RANDOM.normal(size=(7, 20))
STATE = _RANDOM.normal(size=20)


def step(weights, state, row):
    return np.tanh(weights @ state + row), np.sum(state * row)


def by_scan(weights, rows, state):
    last, results = ng.scan(lambda s, row: step(weights, s, row), state, rows)
    return np.sum(last**2) + np.sum(results**2)


def in_python(weights, rows, state):
    total = 0.0
    for k in range(len(ROWS)):
        state, result = step(weights, state, rows[k])
        total = total + result**2
    return np.sum(state**2) + total


def gradient_by_state(loss):
    return ng.grad(lambda weights, state: loss(weights, ROWS, state), argnums=1)


DERIVATIVES = {
    "by weights": lambda loss: ng.grad(loss)(WEIGHTS, ROWS, STATE),
    "by rows": lambda loss: ng.jit(ng.grad(loss, argnums=1))(WEIGHTS, ROWS, STATE),
    "by the state": lambda loss: ng.grad(loss, argnums=2)(WEIGHTS, ROWS, STATE),
    "hessian": lambda loss: ng.hessian(loss, argnums=2)(WEIGHTS, ROWS, STATE),
    "reverse over reverse": lambda loss: ng.grad(
        lambda weights: np.sum(gradient_by_state(loss)(weights, STATE) ** 2)
    )(WEIGHTS),
    "forward over reverse": lambda loss: ng.jvp(
        lambda weights: gradient_by_state(loss)(weights, STATE), (WEIGHTS,), (WEIGHTS,)
    )[1],
    "of a batch": lambda loss: ng.vmap(gradient_by_state(loss), in_axes=(None, 0))(
        WEIGHTS, np.stack([STATE, -STATE, 2 * STATE])
    ),
}


@pytest.mark.thorough(but="by the state|by rows")
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_through_kept_products_are_those_of_the_loop_in_python(name):
    found, expected = (np.asarray(DERIVATIVES[name](loss)) for loss in (by_scan, in_python))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_products_of_a_step_are_added_to_a_sum_one_by_one_also_transposed_ones():
    def gated(weights, rows, state):
        def step(state, row):
            gate = 1 / (1 + np.exp(-(state @ weights)))
            return gate * state + np.tanh((gate * state) @ weights.T + row), None

        return np.sum(ng.scan(step, state, rows)[0] ** 2)

    def gated_in_python(weights, rows, state):
        for k in range(len(ROWS)):
            gate = 1 / (1 + np.exp(-(state @ weights)))
            state = gate * state + np.tanh((gate * state) @ weights.T + rows[k])
        return np.sum(state**2)

    states = _RANDOM.normal(size=(40, 20))
    own = ng.jit(ng.grad(gated))
    found, expected = own(WEIGHTS, ROWS, states), ng.grad(gated_in_python)(WEIGHTS, ROWS, states)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    added = [k for k in own.lower(WEIGHTS, ROWS, states).kernels if "matmul_add" in str(k)]
    assert sum(k.count for k in added) >= 2


def test_a_contribution_that_is_a_sum_of_equal_sums_is_walked_once(monkeypatch):
    def loss(c):
        def step(state, row):
            x = c + state
            for _ in range(40):
                x = x + x
            return state + np.sum(x * row), None

        return ng.scan(step, 0.0, np.full(3, 0.5**40))[0]

    added, add_cotangents = [], bodies.add_cotangents
    monkeypatch.setattr(bodies, "add_cotangents", lambda *x: added.append(x) or add_cotangents(*x))
    # A step adds c[0] + c[1] + 2 * state.
    np.testing.assert_allclose(ng.grad(loss)(np.array([0.3, 0.4])), [13.0, 13.0], rtol=1e-12)
    assert len(added) < 40


def test_a_sum_of_equal_sums_is_no_sum_of_points():
    """Whose parts are 2**60."""
    own, points = (argument(array_type(shape, np.dtype(float))) for shape in ((), (100,)))
    added = record(OPS["sum"], (points,), axes_params((0,)))
    total = OPS["add"](own, added)
    assert carrying_points(CallTarget("step", [own, points], [total, points]), 1) is not None
    for _ in range(60):
        added = OPS["add"](added, added)
    total = OPS["add"](own, added)
    assert carrying_points(CallTarget("step", [own, points], [total, points]), 1) is None


def test_a_contribution_may_be_a_sum_of_more_parts_than_calls_can_nest():
    """As that of 2,000 times `x = np.sin(x) + x` in a step, which takes a while to compile."""
    total, g = (argument(ng.tensor([0.3, 0.4])._node.type) for _ in range(2))
    parts = [OPS["sin"](g) for _ in range(2000)]
    for x in parts:
        g = OPS["add"](g, x)
    added = bodies._added(total, g)
    for x in reversed(parts[1:]):
        assert added.op.name == "add"
        assert added.inputs[1] is x
        added = added.inputs[0]
