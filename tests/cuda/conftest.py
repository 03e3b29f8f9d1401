"""The tests' own drivers, in place of NVIDIA's."""

from collections.abc import Iterator
from typing import Any

import pytest

import numba_grad.frontend.cuda  # noqa: F401 - from here on tensors can be on GPUs
from numba_grad.runtime.cuda.devices import device_count, is_available
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import HostDriver, installed


@pytest.fixture(params=["at once", "late"])
def driver(request: pytest.FixtureRequest) -> Iterator[HostDriver]:
    """A driver with two devices, whose streams do their work at once, or as late as they may."""
    with installed(HostDriver(late=request.param == "late")) as driver:
        yield driver


@pytest.fixture(params=["at once", "late"])
def emulated(request: pytest.FixtureRequest) -> Iterator[EmulatedDriver]:
    """The same, which runs kernels."""
    with installed(EmulatedDriver(late=request.param == "late")) as driver:
        yield driver


@pytest.fixture
def late() -> Iterator[EmulatedDriver]:
    """That which works as late as it may."""
    with installed(EmulatedDriver(late=True)) as driver:
        yield driver


@pytest.fixture
def launched(late: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The stream of each launch."""
    seen: list[int] = []
    original = late.launch

    def launch(function: Any, grid: Any, block: Any, shared: Any, stream: int, *parameters: Any):
        seen.append(stream)
        return original(function, grid, block, shared, stream, *parameters)

    monkeypatch.setattr(late, "launch", launch)
    return seen


ON_ANY_GPU = ("gpu", "last_gpu")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of these run on the emulated driver, and with `pytest -m cuda` on a real one."""
    for name in ON_ANY_GPU:
        if name in metafunc.fixturenames:
            chosen: list[object] = ["emulated"]
            if "cuda" in metafunc.config.option.markexpr:
                chosen.append(pytest.param("real", marks=pytest.mark.cuda))
            metafunc.parametrize(name, chosen, indirect=True)


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a GPU, for tests that do not ask how it is driven."""
    if request.param == "emulated":
        with installed(EmulatedDriver()):
            yield "cuda:0"
        return
    if not is_available():
        pytest.skip("needs an NVIDIA GPU")
    yield "cuda:0"


@pytest.fixture
def last_gpu(request: pytest.FixtureRequest) -> Iterator[str]:
    """The same for one that is not the current one, where there are several. The emulated one does
    its work as late as it may."""
    if request.param == "emulated":
        with installed(EmulatedDriver(late=True)):
            yield "cuda:1"
        return
    if not is_available():
        pytest.skip("needs an NVIDIA GPU")
    yield f"cuda:{device_count() - 1}"


@pytest.fixture
def real_gpu() -> None:
    if not is_available():
        pytest.skip("needs an NVIDIA GPU")
