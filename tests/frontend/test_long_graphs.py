"""A long graph is let go once it is compiled, and traced again where somebody needs it."""

import gc
import weakref

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.frontend.compiled_functions import specialization

# As a loop the graph is short.
pytestmark = pytest.mark.usefixtures("loops_stay_steps")

X = np.linspace(0.1, 0.9, 5)


@pytest.fixture(autouse=True)
def _ten_operations_are_long(monkeypatch):
    monkeypatch.setattr(specialization, "LONGEST_KEPT", 10)


def make():
    """A jitted loop, and a list of weak references to a node of each of its traces."""
    traces = []

    @ng.jit
    def loop(x):
        y = x
        for _ in range(20):
            y = np.sin(y) * x
        traces.append(weakref.ref(y._node))
        return y.sum(), x

    return loop, traces


def expected(x=X):
    y = x
    for _ in range(20):
        y = np.sin(y) * x
    return y.sum()


def test_replays_need_no_graph():
    loop, traces = make()
    for scale in (1.0, 2.0, 0.5):
        total, same = loop(scale * X)
        np.testing.assert_allclose(float(total), expected(scale * X), rtol=1e-12)
        np.testing.assert_array_equal(np.asarray(same), scale * X)
    gc.collect()
    assert [trace() for trace in traces] == [None]


def test_lower_traces_again():
    loop, traces = make()
    loop(X)
    lowered = loop.lower(X)
    assert "sin" in lowered.graph
    assert len(traces) == 2
    loop.lower(X)
    assert len(traces) == 2  # now it stays
    np.testing.assert_allclose(float(loop(X)[0]), expected(), rtol=1e-12)


def test_a_call_that_is_recorded_traces_again():
    loop, _ = make()
    loop(X)
    x = ng.tensor(X, requires_grad=True)
    total, _ = loop(x)
    total.backward()
    step = 1e-6
    for k, e in enumerate(np.eye(5)):
        difference = (expected(X + step * e) - expected(X - step * e)) / (2 * step)
        np.testing.assert_allclose(float(x.grad[k]), difference, rtol=1e-6, atol=1e-9)
    outer = ng.jit(lambda x: loop(x)[0] * 2.0)
    np.testing.assert_allclose(float(outer(X)), 2.0 * expected(), rtol=1e-12)


def test_the_reference_engine_traces_again():
    loop, _ = make()
    loop(X)
    loop(X)
    with ng.configure(engine="reference"):
        np.testing.assert_allclose(float(loop(X)[0]), expected(), rtol=1e-12)
    np.testing.assert_allclose(float(loop(X)[0]), expected(), rtol=1e-12)


def test_jitted_functions_call_each_other_deeper_than_one_stack():
    def one_more(f):
        return ng.jit(lambda x: f(x) + 1.0)

    f = ng.jit(lambda x: x * 2.0)
    for _ in range(200):
        f = one_more(f)
    assert f(np.ones(2)).tolist() == [202, 202]
