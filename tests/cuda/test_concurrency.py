"""Several threads at once: programs captured and replayed, devices waited for, memory lent."""

import gc
import random
import sys

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.frontend import cuda
from tests.threads import run_in_threads

ROUNDS = 60


def compute(chance, function):
    stream = cuda.Stream() if chance.random() < 0.5 else cuda.default_stream()
    with cuda.stream(stream):
        value = np.arange(float(chance.choice([3, 5]))) + chance.random()
        result, gradient = function(ng.tensor(value, device="cuda"))
    expected = (np.exp(value) * np.sin(value)).sum() + (value * value).max()
    derivative = np.exp(value) * (np.sin(value) + np.cos(value))
    derivative[-1] += 2 * value[-1]
    np.testing.assert_allclose(result.item(), expected, rtol=1e-12)
    np.testing.assert_allclose(gradient.cpu().numpy(), derivative, rtol=1e-12)


def wait(chance, function):
    cuda.synchronize()
    cuda.empty_cache()


def lend(chance, function):
    x = (ng.tensor(np.arange(4.0), device="cuda") + 1).detach()
    stream = cuda.Stream()
    capsule = x.__dlpack__(stream=stream.handle, max_version=(1, 0))
    np.testing.assert_array_equal(ng.from_dlpack(x).cpu().numpy(), np.arange(4.0) + 1)
    del capsule, x, stream


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.thorough(but="late")
def test_threads_do_not_disturb_each_other(emulated, many_switches):
    @ng.jit  # here: a driver's own
    @ng.value_and_grad
    def function(x):
        return (np.exp(x) * np.sin(x)).sum() + (x * x).max()

    def repeat(seed):
        chance = random.Random(seed)
        for _ in range(ROUNDS):
            works[seed](chance, function)

    works = (compute, compute, compute, wait, lend, lend)
    run_in_threads(repeat, range(len(works)))
    gc.collect()
    cuda.synchronize()
    ng.tensor([1.0], device="cuda")  # takes back what was lent
    cuda.synchronize()
    # What programs keep for their next run, and no more with each run.
    assert emulated.live_bytes() < 4096
