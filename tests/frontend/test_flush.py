"""What is pending is computed before it fills the memory."""

import gc
import weakref

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.autograd import tensor_class
from numba_grad.frontend.inputs import arrays


def oscillation(steps):
    x, v = ng.ones(3), ng.zeros(3)
    for _ in range(steps):
        v = v - 0.01 * x
        x = x + 0.01 * v
    return x, v


@pytest.mark.thorough
def test_a_long_simulation_does_not_keep_its_past(monkeypatch):
    monkeypatch.setattr(tensor_class, "FLUSH_EVERY", 101)
    monkeypatch.setattr(arrays, "LONG_PAST", 90)
    first = ng.ones(3)
    past = weakref.ref(first._node)
    x = first * 1.0
    del first
    for _ in range(300):
        x = x * 0.5 + 1.0
    gc.collect()
    assert past() is None
    np.testing.assert_allclose(x.numpy(), 2.0)


@pytest.mark.thorough
def test_values_are_the_same(monkeypatch):
    expected = [y.numpy() for y in oscillation(400)]
    monkeypatch.setattr(tensor_class, "FLUSH_EVERY", 97)
    monkeypatch.setattr(arrays, "LONG_PAST", 90)
    for y, wanted in zip(oscillation(400), expected, strict=True):
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-13)


def test_history_and_traces_are_left_alone(monkeypatch):
    monkeypatch.setattr(tensor_class, "FLUSH_EVERY", 13)
    monkeypatch.setattr(arrays, "LONG_PAST", 0)
    computed = []
    monkeypatch.setattr(arrays, "evaluate", computed.append)
    x = ng.ones(3, requires_grad=True)
    for _ in range(50):
        x = x * 0.5
    f = ng.jit(lambda x: sum([x * float(k) for k in range(50)]))
    ng.jit(f).lower(np.ones(3))
    assert not computed


def test_a_short_past_is_left_alone(monkeypatch):
    """The time of a loop with gradients: computed in its midst, it would be cut from the loop."""
    monkeypatch.setattr(tensor_class, "FLUSH_EVERY", 13)
    computed = []
    monkeypatch.setattr(arrays, "evaluate", computed.append)
    x, time = ng.ones(3, requires_grad=True), ng.tensor(0.0)
    for _ in range(50):
        x = x * time
        time = time + 0.5
    assert not computed
    monkeypatch.setattr(arrays, "LONG_PAST", 40)
    for _ in range(20):
        time = time + 0.5
    assert computed
