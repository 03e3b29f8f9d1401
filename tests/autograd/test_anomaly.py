"""Anomaly detection: what raises, and what the message says."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.graph import node as node_module
from numba_grad.graph import observers, traced_bodies


def make_nan(x):
    return np.sqrt(x)  # the line to blame


def test_nan_raises_with_the_users_own_line():
    x = ng.tensor([-1.0, 1.0], requires_grad=True)
    with ng.autograd.detect_anomaly():
        y = make_nan(x) * 2
        with pytest.raises(RuntimeError, match="derivative of sqrt returned nan") as caught:
            y.sum().backward()
    message = str(caught.value)
    assert "the line to blame" in message
    assert "in make_nan" in message
    assert "0th output" in message
    assert "numba_grad/" not in message.replace(__file__, "")


def test_the_first_operation_of_the_pass_is_named():
    x = ng.tensor([-1.0, 1.0], requires_grad=True)
    with ng.autograd.detect_anomaly():
        y = np.exp(np.sqrt(x) * 0.0)
        with pytest.raises(RuntimeError, match="derivative of exp"):
            y.sum().backward()


def test_nan_of_operations_recorded_before():
    x = ng.tensor([-1.0, 1.0], requires_grad=True)
    y = np.sqrt(x).sum()
    with (
        ng.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="was recorded is not known"),
    ):
        y.backward()


def test_nothing_is_accumulated():
    x = ng.tensor([-1.0, 1.0], requires_grad=True)
    with ng.autograd.detect_anomaly(), pytest.raises(RuntimeError):
        np.sqrt(x).sum().backward()
    assert x.grad is None


def test_second_derivatives_show_the_forward_operation_too():
    x = ng.tensor([0.0, 1.0], requires_grad=True)
    with ng.autograd.detect_anomaly():
        y = make_nan(x)
        (g,) = ng.autograd.grad(y.sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="as the derivative of an operation") as caught:
            (g * 0.0).sum().backward()
    assert "the line to blame" in str(caught.value)


def test_errors_in_derivatives_carry_the_forward_line():
    class Fails(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    x = ng.tensor([1.0], requires_grad=True)
    with ng.autograd.detect_anomaly():
        y = Fails.apply(x)  # called here
        with pytest.raises(KeyError) as caught:
            y.backward()
    assert any("called here" in note for note in caught.value.__notes__)


def test_nothing_is_remembered_outside():
    observers.end_notes()  # of a test that looked at a value
    traced_bodies._leaks.clear()  # tensors of loops' insides that tests let out, or rules keep
    x = ng.tensor([1.0], requires_grad=True)
    assert (x + x)._node.autograd is None
    assert node_module.observer is None
    assert (x * x)._node.autograd is None
    with ng.autograd.detect_anomaly():
        assert node_module.observer is not None
        assert (x * x)._node.autograd.trace is not None
        with ng.autograd.set_detect_anomaly(False):
            assert (x * x)._node.autograd is None
    assert node_module.observer is None


def test_set_detect_anomaly_from_the_call_on():
    x = ng.tensor([-1.0], requires_grad=True)
    ng.autograd.set_detect_anomaly(True)
    try:
        with pytest.raises(RuntimeError, match="nan"):
            np.sqrt(x).sum().backward()
    finally:
        ng.autograd.set_detect_anomaly(False)
    np.sqrt(x).sum().backward()
    assert np.isnan(x.grad.item())


def test_gradients_are_right_in_anomaly_mode():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    with ng.autograd.detect_anomaly():
        (np.exp(x) * x).sum().backward()
    np.testing.assert_allclose(x.grad, np.exp([1.0, 2.0]) * [2.0, 3.0], rtol=1e-14)


@pytest.mark.parametrize(
    "derivative",
    [
        ng.grad,
        ng.value_and_grad,
        ng.jacrev,
        ng.hessian,
        lambda f: lambda x: ng.vjp(f, x)[1](1.0),
        lambda f: lambda x: ng.hvp(f, (x,), (x,)),
    ],
)
def test_derivatives_of_functions_raise_as_well(derivative):
    with (
        ng.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="derivative of sqrt returned nan") as caught,
    ):
        derivative(lambda x: make_nan(x).sum())(np.array([-1.0, 1.0]))
    assert "the line to blame" in str(caught.value)
