"""What derivatives of called functions and of loops read, rather than compute again."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.node import OPS, argument, grad_mode
from numba_grad.graph.types import array_type
from numba_grad.ops.families import literal
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.control_flow.loops import loop

FLOAT = np.dtype(np.float64)
RANDOM = np.random.default_rng(3)
WEIGHTS, INPUTS = 0.3 * RANDOM.normal(size=(2, 20, 20))
STATE = RANDOM.normal(size=(4, 20))


def target_of(f, *shapes):
    arguments = [argument(array_type(shape, FLOAT), requires_grad=True) for shape in shapes]
    enabled, grad_mode.enabled = grad_mode.enabled, True
    try:
        return CallTarget("f", arguments, [f(*arguments)])
    finally:
        grad_mode.enabled = enabled


def kept_of(f, *shapes, carried=None, nbytes=1 << 20, constant=()):
    asked = tuple([k not in constant for k in range(len(shapes))])
    target, kept = target_of(f, *shapes).keeping(nbytes, asked, carried)
    return [node.op.name for node in target.outputs[len(target.outputs) - kept :]]


def op(name):
    return lambda *inputs: OPS[name](*inputs)


matmul, add, mul, tanh, exp, sin = map(op, ("matmul", "add", "multiply", "tanh", "exp", "sin"))
SQUARE, LARGE = (20, 20), (200, 200)


def test_products_are_kept_and_cheap_functions_are_not():
    assert kept_of(lambda x, w: sin(matmul(x, w)), SQUARE, SQUARE) == ["matmul"]
    assert kept_of(lambda x, y: mul(exp(x), sin(y)), LARGE, LARGE) == []
    # The result itself can be read.
    assert kept_of(lambda x, w: tanh(matmul(x, w)), SQUARE, SQUARE) == []
    assert kept_of(lambda x, w: matmul(x, w), SQUARE, SQUARE) == []
    no_result = kept_of(lambda x, w: tanh(matmul(x, w)), SQUARE, SQUARE, carried=0)
    assert no_result == ["tanh"]


def test_the_sum_of_two_products_is_kept_rather_than_both():
    def f(x, w, y, u):
        z = add(matmul(x, w), matmul(y, u))
        return mul(sin(z), exp(z))

    assert kept_of(f, *[LARGE] * 4) == ["add"]


def test_states_of_a_loop_are_kept_where_there_is_room_for_all_of_them():
    step = target_of(lambda x, w: tanh(matmul(x, w)), (4, 20), SQUARE)

    def f(x, w):
        return loop(step, [x], [], [w], 30)[0][0]

    # Of each step what was carried, and what it keeps itself.
    assert kept_of(f, (4, 20), SQUARE, carried=1) == ["item", "item"]
    nbytes = 2 * 30 * 4 * 20 * 8
    assert kept_of(f, (4, 20), SQUARE, carried=1, nbytes=nbytes // 4) == ["item", "item"]
    # One of them spares nothing.
    assert kept_of(f, (4, 20), SQUARE, carried=1, nbytes=nbytes // 4 - 8) == []


def test_no_more_is_kept_than_there_is_room_for():
    def f(x, w):
        return sin(matmul(x, w))

    assert kept_of(f, SQUARE, SQUARE, nbytes=800) == ["matmul"]
    assert kept_of(f, SQUARE, SQUARE, nbytes=799) == []


def step(state, weights, inputs):
    z = state @ weights + inputs[:4] @ inputs
    return np.sin(z) * np.exp(-z * z)


def loss(step, weights, state):
    for _ in range(2):
        state = step(state, weights, INPUTS)
    return (state * state).sum()


DERIVATIVES = {
    "gradient": lambda f: ng.grad(f, (0, 1))(WEIGHTS, STATE),
    "jitted": lambda f: ng.jit(ng.grad(f, (0, 1)))(WEIGHTS, STATE),
    "over reverse": lambda f: ng.grad(lambda w: (ng.grad(f, 1)(w, STATE) ** 2).sum())(WEIGHTS),
    "forward over reverse": lambda f: ng.jvp(
        lambda w: ng.grad(f, 1)(w, STATE), (WEIGHTS,), (WEIGHTS,)
    ),
    "linearized": lambda f: ng.linearize(lambda w: f(w, STATE), WEIGHTS)[1](WEIGHTS),
    "batch": lambda f: ng.vmap(ng.grad(f), (None, 0))(WEIGHTS, np.stack([STATE, -STATE])),
}


@pytest.mark.thorough(but="jitted")
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_called_functions_read_what_is_kept(name):
    called = ng.jit(step)
    found = DERIVATIVES[name](lambda w, s: loss(called, w, s))
    expected = DERIVATIVES[name](lambda w, s: loss(step, w, s))
    for x, y in zip(
        found if isinstance(found, tuple) else [found],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)


def test_a_value_that_was_looked_at_has_its_derivative_later():
    called = ng.jit(step)
    weights = ng.tensor(WEIGHTS, requires_grad=True)
    value = (called(ng.tensor(STATE), weights, INPUTS) ** 2).sum()
    value.item()
    value.backward()
    expected = ng.grad(lambda w: (step(STATE, w, INPUTS) ** 2).sum())(WEIGHTS)
    np.testing.assert_allclose(weights.grad, expected, rtol=1e-10)


def test_checkpoint_keeps_nothing():
    def products(f):
        kernels = ng.jit(ng.grad(lambda w: f(STATE, w, INPUTS).sum())).lower(WEIGHTS).kernels
        return sum("matmul" in kernel.source for kernel in kernels)

    assert products(ng.checkpoint(step)) > products(ng.jit(step))


def gates_of_a_cell(z):
    """Functions of parts of one sum, as in an LSTM."""

    def part(k, name):
        region = OPS["slice"](z, starts=(0, 5 * k), sizes=(4, 5), steps=(1, 1))
        return OPS[name](region)

    return mul(mul(part(0, "sigmoid"), part(1, "tanh")), mul(part(2, "exp"), part(3, "tanh")))


def test_functions_of_a_sum_are_kept_rather_than_the_sum():
    def cell(x, w):
        return gates_of_a_cell(matmul(x, w))

    shapes = (4, 20), SQUARE
    assert sorted(kept_of(cell, *shapes)) == ["exp", "sigmoid", "tanh", "tanh"]
    # Not where the derivative reads the sum itself as well.
    also_read = kept_of(lambda x, w: mul(cell(x, w), cell(w, x)), SQUARE, SQUARE, nbytes=0)
    assert also_read == []
    other = kept_of(lambda x, w: add(cell(x, w), sin(part_of(matmul(x, w)))), *shapes)
    assert "matmul" in other


def test_functions_of_a_sum_are_kept_where_cheap_operations_come_first():
    # Gates of a cell by 1 / (1 + exp(-z)).
    def gates(x, w):
        z = matmul(x, w)
        parts = [OPS["slice"](z, starts=(0, 10 * k), sizes=(4, 10), steps=(1, 1)) for k in range(2)]
        one = literal(1.0, FLOAT)
        of_parts = [OPS["reciprocal"](add(one, exp(OPS["negative"](part)))) for part in parts]
        return mul(*of_parts)

    assert kept_of(gates, (4, 20), SQUARE) == ["exp", "reciprocal"] * 2

    # Not where the derivative reads the sum itself.
    def also_read(x, w):
        z = matmul(x, w)
        return mul(exp(OPS["negative"](z)), z)

    assert "matmul" in kept_of(also_read, (4, 20), SQUARE)


def part_of(z):
    return OPS["slice"](z, starts=(0, 0), sizes=(4, 5), steps=(1, 1))


def test_small_values_of_a_loop_are_kept_where_a_function_would_be_computed_again():
    def body(x):
        return mul(exp(x), sin(x))

    assert kept_of(body, (4, 20), carried=0) == ["exp", "sin"]
    assert kept_of(body, (400, 200), carried=0, nbytes=1 << 30) == []


def test_what_a_loop_carries_on_is_read_and_takes_no_room():
    def body(x):
        return tanh(mul(x, x))

    assert kept_of(body, (400, 200), carried=1, nbytes=0) == ["tanh"]
    assert kept_of(body, (400, 200), carried=0, nbytes=0) == []


def test_what_is_carried_on_is_read_in_place_of_arrays_that_it_is_made_of():
    def body(position, velocity, energy, stiffness):
        velocity = add(velocity, mul(stiffness, position))
        position = add(position, velocity)
        energy = add(energy, mul(position, position))
        return position, velocity, energy

    def kept(outputs):
        arguments = [argument(array_type(SQUARE, FLOAT), requires_grad=True) for _ in range(4)]
        enabled, grad_mode.enabled = grad_mode.enabled, True
        try:
            target = CallTarget("f", arguments, outputs(*arguments))
        finally:
            grad_mode.enabled = enabled
        own, count = target.keeping(0, (True,) * 4, len(target.outputs))
        return own.outputs[len(own.outputs) - count :], own.outputs

    # The derivative by the energy reads the position, of which the step makes a velocity first.
    found, outputs = kept(body)
    assert found == outputs[:1]
    # What is made of arrays that are read anyway is computed again.
    assert kept(lambda x, v, e, k: [mul(add(x, k), add(x, k)), v, e])[0] == ()


def test_what_a_constant_s_derivative_alone_would_read_is_not_kept():
    def body(x, y):
        return mul(y, sin(x))

    assert kept_of(body, SQUARE, SQUARE, carried=0) == ["sin"]
    assert kept_of(body, SQUARE, SQUARE, carried=0, constant=(1,)) == []


def test_small_values_are_kept_from_more_than_three_additions_on():
    """Where all that is kept takes little room: else from more than six."""

    def body(x, y):
        return mul(y, add(add(add(mul(x, x), x), x), x))

    assert kept_of(body, SQUARE, SQUARE, carried=0) == ["add"]
    assert kept_of(body, (400, 200), (400, 200), carried=0) == []
