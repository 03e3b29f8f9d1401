"""Branches chosen by what the device computed: nodes of captured graphs."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda import device_loops
from tests.cuda.test_stretches import XS, chosen_in_trips, descent

BRANCHES = [
    lambda x: x - 0.1 * x.sum() * x,
    lambda x: ng.fori_loop(0, 3, lambda k, x: 0.5 * x + (x * x).sum() * k, x),
    lambda x: ng.cond(x.sum() > 5.0, np.sin, lambda x: np.cos(x) / x.sum(), x),
]


def one_of(x, k):
    """Of branches with kernels, a loop and branches of their own; and what comes after."""
    y = ng.switch(k, BRANCHES, 2.0 * x)
    return y + y.sum()


def in_a_loop(x, k):
    return ng.fori_loop(0, 4, lambda i, x: ng.switch((i + k) % 4, BRANCHES, x), x)


def graphs_and_reads(driver):
    return [driver.calls.count(kind) for kind in ("launch_graph", "copy_to_host")]


@pytest.mark.parametrize("f", [one_of, in_a_loop])
def test_values_on_any_gpu(gpu, f):
    jitted = ng.jit(f)
    x = ng.tensor(XS, device=gpu)
    for k in (0, 1, 2, 5, -1, 1, 0):  # outside of the branches the nearest one
        found = jitted(x, ng.tensor(k, device=gpu))
        np.testing.assert_allclose(found.cpu().numpy(), jitted(XS, k), rtol=1e-10)


@pytest.mark.thorough(but="one_of")
@pytest.mark.parametrize("f", [one_of, in_a_loop])
def test_gradients_on_any_gpu(gpu, f):
    jitted = ng.jit(ng.value_and_grad(lambda x, k: (f(x, k) ** 2).sum()))
    x = ng.tensor(XS, device=gpu)
    for k in (0, 1, 2, 1, 0):
        value, gradient = jitted(x, ng.tensor(k, device=gpu))
        wanted, wanted_gradient = jitted(XS, k)
        np.testing.assert_allclose(value.item(), wanted, rtol=1e-10)
        np.testing.assert_allclose(gradient.cpu().numpy(), wanted_gradient, rtol=1e-9)


@pytest.mark.thorough(but="late")
@pytest.mark.parametrize("f", [one_of, in_a_loop])
def test_the_host_asks_for_nothing(emulated, f):
    jitted = ng.jit(f)
    x, k = ng.tensor(XS, device="cuda:0"), ng.tensor(1, device="cuda:0")
    jitted(x, k)
    emulated.calls.clear()
    jitted(x, k)
    assert graphs_and_reads(emulated) == [1, 0]


def test_many_choices_are_the_hosts(emulated):
    """A node for each would take long to make, again for other addresses."""
    jitted = ng.jit(lambda x, k: ng.fori_loop(0, 20, lambda i, x: one_of(x / 9, (i + k) % 3), x))
    x, k = ng.tensor(XS, device="cuda:0"), ng.tensor(1, device="cuda:0")
    for _ in range(3):
        found = jitted(x, k)
    np.testing.assert_allclose(found.tolist(), jitted(XS, 1), rtol=1e-10)
    emulated.calls.clear()
    jitted(x, k)
    assert graphs_and_reads(emulated)[1] >= 20


def test_drivers_without_such_nodes(emulated):
    """The host decides, and it is said."""

    def add_conditional(*arguments):
        emulated.fail("CUDA_ERROR_NOT_SUPPORTED", "add_conditional")

    emulated.add_conditional = add_conditional
    x, k = ng.tensor(XS, device="cuda:0"), ng.tensor(1, device="cuda:0")
    for f, n in ((one_of, k), (chosen_in_trips, 100), (descent, 100.0)):
        jitted = ng.jit(f)
        with pytest.warns(RuntimeWarning, match="NOT_SUPPORTED.*the host decides"):
            results = [jitted(x, n).tolist() for _ in range(3)]
        expected = jitted(XS, n if n is not k else 1)
        np.testing.assert_allclose(results, [expected] * 3, rtol=1e-10)


def test_branches_in_trips_of_the_device(emulated, monkeypatch):
    monkeypatch.setattr(device_loops, "_SECONDS", 1e9)  # the emulator is slow
    jitted = ng.jit(chosen_in_trips)
    x = ng.tensor(XS, device="cuda:0")
    for count in (150, 150, 40):
        emulated.calls.clear()
        found = jitted(x, count)
        np.testing.assert_allclose(found.tolist(), jitted(XS, count), rtol=1e-10)
    graphs, reads = graphs_and_reads(emulated)
    assert graphs < 10 > reads
