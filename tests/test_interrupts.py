"""Ctrl-C at any place: what comes after it works as if it had not been."""

import contextlib
import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate
from numba_grad.compiler.partition import flat_graph
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed
from tests.interleaving import PACKAGE
from tests.interrupts import INTERRUPTED, interrupted_at, places_in

X = np.array([0.5, 1.5, 2.5])
SHARES = 8  # of the places, one of which each test has: together they have all


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    driver = installed(EmulatedDriver()) if request.param == "cuda" else contextlib.nullcontext()
    with driver:
        yield request.param


def jitted(device):
    function = ng.jit(ng.value_and_grad(lambda x: (np.exp(x) * np.sin(x)).sum() + x.max()))
    return lambda: [y.cpu().numpy() for y in function(ng.tensor(X, device=device))]


def recorded(device):
    def work():
        x = ng.tensor(X, device=device, requires_grad=True)
        (g,) = ng.autograd.grad((np.exp(x) * x).sum(), x, create_graph=True)
        (g * g).sum().backward()
        return [x.grad.cpu().numpy()]

    return work


def replayed(device):
    """The second run of as many steps is captured as a graph, where there are graphs."""
    function = ng.jit(lambda x: np.cumsum(np.cumsum(np.cumsum(np.cumsum(np.exp(x))))))
    x = ng.tensor(X, device=device)
    return lambda: [function(x).cpu().numpy() for _ in range(2)]


def _forget_programs(monkeypatch):
    """As in a new process that finds its kernels in memory."""
    monkeypatch.setattr(evaluate, "_programs", type(evaluate._programs)())
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers
@pytest.mark.thorough(but="cpu-jitted.*share 0")
@pytest.mark.parametrize("share", range(SHARES), ids="share {}".format)
@pytest.mark.parametrize(
    ("function", "modules"),
    [
        (jitted, ("",)),
        (recorded, ("autograd/", "frontend/", "graph/", "transforms/")),
        (replayed, ("runtime/",)),
    ],
)
def test_an_interrupt_leaves_everything_usable(function, modules, device, share, monkeypatch):
    expected = function(device)()
    with monkeypatch.context() as patch:
        _forget_programs(patch)
        places = places_in(function(device))
    within = tuple([f"{PACKAGE}/{part}" for part in modules])
    places = [place for place in places if place[0].co_filename.startswith(within)]
    assert len(places) > 20
    places = places[share::SHARES]
    interruptions = 0
    for place in places:
        with monkeypatch.context() as patch:
            _forget_programs(patch)
            work = function(device)
            interruptions += interrupted_at(place, work) == INTERRUPTED
            found = []
            thread = threading.Thread(target=lambda: found.append(work()), daemon=True)  # noqa: B023
            thread.start()  # which finds no lock taken
            thread.join(60)
            found.append(work())
        assert len(found) == 2, place
        assert gc.isenabled(), place
        for values in found:
            for value, wanted in zip(values, expected, strict=True):
                np.testing.assert_allclose(value, wanted, rtol=1e-12, err_msg=str(place))
    assert interruptions > 0.9 * len(places)
    gc.collect()  # what an interrupt left half made goes here, not in another test
