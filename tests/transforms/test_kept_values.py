"""What derivatives of called functions and of loops read, rather than compute again."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph.node import OPS, argument, grad_mode
from numba_grad.graph.types import array_type
from numba_grad.transforms.call import CallTarget

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


def kept_of(f, *shapes, has_results=True, nbytes=1 << 20):
    target, kept = target_of(f, *shapes).keeping(nbytes, has_results=has_results)
    return [node.op.name for node in target.outputs[len(target.outputs) - kept :]]


def op(name):
    return lambda *inputs: OPS[name](*inputs)


matmul, add, mul, tanh, exp, sin = map(op, ("matmul", "add", "multiply", "tanh", "exp", "sin"))
SQUARE = (20, 20)


def test_products_are_kept_and_cheap_functions_are_not():
    assert kept_of(lambda x, w: sin(matmul(x, w)), SQUARE, SQUARE) == ["matmul"]
    assert kept_of(lambda x, y: mul(exp(x), sin(y)), SQUARE, SQUARE) == []
    # The result itself can be read.
    assert kept_of(lambda x, w: tanh(matmul(x, w)), SQUARE, SQUARE) == []
    assert kept_of(lambda x, w: matmul(x, w), SQUARE, SQUARE) == []
    no_result = kept_of(lambda x, w: tanh(matmul(x, w)), SQUARE, SQUARE, has_results=False)
    assert no_result == ["tanh"]


def test_the_sum_of_two_products_is_kept_rather_than_both():
    def f(x, w, y, u):
        z = add(matmul(x, w), matmul(y, u))
        return mul(sin(z), exp(z))

    assert kept_of(f, *[SQUARE] * 4) == ["add"]


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


@pytest.mark.thorough(but="jitted|over reverse")
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
