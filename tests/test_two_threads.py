"""One thread stops at every line that touches what threads share, while another does all of its
work: neither gets a wrong result, an error, or stuck."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed
from tests.interleaving import lines_of, stopped_at

# Where state lives that threads share: specializations, programs, values, gradients, memory.
SHARED = (
    "autograd/",
    "compiler/evaluate.py",
    "compiler/pipeline.py",
    "compiler/plan_cache.py",
    "compiler/programs.py",
    "frontend/compiled_functions/jit.py",
    "frontend/compiled_functions/specialization.py",
    "graph/",
    "locks.py",
    "runtime/",
    "transforms/",
)
X = np.array([0.5, 1.5, 2.5])
SHARES = 24  # of the lines, one of which each test has: together they have all
Work = Callable[[], list[Any]]
# Of a scenario the first two run at once; a third one, if there is one, when both are done.


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    late_driver = installed(EmulatedDriver(late=True))
    with late_driver if request.param == "cuda" else contextlib.nullcontext():
        yield request.param


def first_calls_of_a_jitted_function(device: str) -> tuple[Work, Work]:
    @ng.jit
    @ng.value_and_grad
    def function(x):
        return (np.exp(x) * np.sin(x)).sum() + (x * x).max()

    return (
        lambda: function(ng.tensor(X, device=device)),
        lambda: function(ng.tensor(X + 1, device=device)),
    )


def first_calls_that_return_what_they_got(device: str) -> tuple[Work, Work]:
    order = np.array([0, 2, 1])
    function = ng.jit(lambda x: [x, x[order] * 2, x])
    return (
        lambda: function(ng.tensor(X, device=device)),
        lambda: function(ng.tensor(X + 1, device=device)),
    )


def gradients_through_a_jitted_function(device: str) -> tuple[Work, Work]:
    w = ng.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    function = ng.jit(lambda x: (np.exp(x) * w).sum())

    def work(values):
        x = ng.tensor(values, device=device, requires_grad=True)
        return ng.autograd.grad(function(x), [x, w])

    return lambda: work(X), lambda: work(X + 1)


def values_of_one_graph(device: str) -> tuple[Work, Work]:
    y = np.exp(ng.tensor(X, device=device)) * 2
    z, u = y.sum(), y.reshape(3, 1) * y
    return lambda: [z.cpu(), u.cpu()], lambda: [y.cpu(), u.cpu(), z.cpu()]


def gradients_of_one_graph(device: str) -> tuple[Work, Work]:
    x = ng.tensor(X, device=device, requires_grad=True)
    y = np.exp(x) * x
    z = (y * y).sum()
    return (
        lambda: [*ng.autograd.grad(z, x, retain_graph=True), z],
        lambda: [*ng.autograd.grad(z, x, retain_graph=True), y],
    )


def one_leaf(device: str) -> tuple[Work, Work, Work]:
    x = ng.tensor(X, device=device, requires_grad=True)

    def work(factor):
        x.register_hook(lambda g: None)
        (np.exp(x) * factor).sum().backward()
        return []

    return lambda: work(2), lambda: work(3), lambda: [x.grad]


def second_derivatives_of_one_graph(device: str) -> tuple[Work, Work]:
    x = ng.tensor(X, device=device, requires_grad=True)
    z = (np.exp(x) * x).sum()

    def work():
        (g,) = ng.autograd.grad(z, x, create_graph=True)
        return ng.autograd.grad((g * g).sum(), x, retain_graph=True)

    return work, work


def first_call_and_lower(device: str) -> tuple[Work, Work]:
    function = ng.jit(lambda x: np.exp(x).sum())
    x = ng.tensor(X, device=device)
    return lambda: [len(function.lower(x).kernels)], lambda: [function(x)]


def first_views_of_one_tensor(device: str) -> tuple[Work, Work, Work]:
    x = ng.tensor(X, device=device)
    views = []

    def work(start):
        views.append(x[start : start + 2])
        return [views[-1] * 0]

    def write():
        x[:] = 7
        return list(views)

    return lambda: work(0), lambda: work(1), write


def _arrays(work: Work) -> list[np.ndarray]:
    return [x.detach().cpu().numpy() if isinstance(x, ng.Tensor) else np.asarray(x) for x in work()]


@pytest.mark.thorough(but="cpu-(first_calls_of|gradients_of|values_of).*share 0")
@pytest.mark.parametrize("share", range(SHARES), ids="share {}".format)
@pytest.mark.parametrize(
    "scenario",
    [
        first_calls_of_a_jitted_function,
        first_calls_that_return_what_they_got,
        gradients_through_a_jitted_function,
        values_of_one_graph,
        gradients_of_one_graph,
        one_leaf,
        second_derivatives_of_one_graph,
        first_call_and_lower,
        first_views_of_one_tensor,
    ],
)
def test_what_one_thread_has_half_done_does_not_disturb_another(scenario, device, share):
    expected = [_arrays(work) for work in scenario(device)]
    first, *_ = scenario(device)
    lines = lines_of(partial(_arrays, first), SHARED)
    assert len(lines) > 100
    for line in lines[share::SHARES]:
        first, second, *after = scenario(device)
        found = stopped_at(line, partial(_arrays, first), partial(_arrays, second))
        found += [_arrays(work) for work in after]
        for values, wanted in zip(found, expected, strict=True):
            for x, y in zip(values, wanted, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, err_msg=str(line))
    gc.collect()
