"""Why there is no GPU: one error that says what is missing, and what to do."""

import enum
from types import SimpleNamespace

import pytest

from numba_grad import __main__ as command
from numba_grad.errors import CudaUnavailableError, DeviceError
from numba_grad.frontend import cuda
from numba_grad.runtime.cuda import diagnosis
from numba_grad.runtime.cuda.devices import parse_device
from numba_grad.runtime.cuda.driver import install
from tests.processes import run_python


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_UNKNOWN = 999


def raising(error):
    def call(*arguments):
        raise error

    return call


def library(init=(CUresult.CUDA_SUCCESS,), version=13000, count=1):
    return SimpleNamespace(
        CUresult=CUresult,
        cuInit=init if callable(init) else lambda flags: init,
        cuDriverGetVersion=lambda: (CUresult.CUDA_SUCCESS, version),
        cuDeviceGetCount=lambda: (CUresult.CUDA_SUCCESS, count),
    )


CASES = {
    "no package": (
        ModuleNotFoundError("No module named 'cuda'"),
        "13.5.0",
        "the package cuda-bindings is not installed",
        "pip install",
    ),
    "old package": (library(), "12.9.1", "cuda-bindings is too old", "pip install"),
    "no driver": (
        library(raising(RuntimeError("no libcuda.so.1"))),
        "13.5.0",
        "no NVIDIA driver",
        "apt install",
    ),
    "no device": (
        library((CUresult.CUDA_ERROR_NO_DEVICE,)),
        "13.5.0",
        "sees no GPU",
        "nvidia-smi",
    ),
    "broken driver": (
        library((CUresult.CUDA_ERROR_UNKNOWN,)),
        "13.5.0",
        "did not start",
        "nvidia-smi",
    ),
    "old driver": (library(version=12080), "13.5.0", "driver is too old", "apt install"),
    "hidden device": (library(count=0), "13.5.0", "sees no GPU", "CUDA_VISIBLE_DEVICES"),
}


@pytest.fixture
def machine(monkeypatch):
    """Makes this process one that has not asked for a GPU yet, on a machine of some kind."""
    previous = install(None)

    def of_kind(found, version):
        def imported(name):
            assert name == "cuda.bindings.driver"
            if isinstance(found, ImportError):
                raise found
            return found

        monkeypatch.setattr(diagnosis, "imported", imported)
        monkeypatch.setattr(diagnosis, "_version", lambda package: version)

    yield of_kind
    install(previous)


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_is_named(machine, name):
    found, version, problem, fix = CASES[name]
    machine(found, version)
    assert not cuda.is_available()
    assert cuda.device_count() == 0
    for ask in (lambda: parse_device("cuda"), cuda.current_device, cuda.Stream, cuda.synchronize):
        with pytest.raises(CudaUnavailableError, match=problem) as caught:
            ask()
        assert "expected: an NVIDIA GPU, driver 580 or newer" in str(caught.value)
        assert fix in str(caught.value).partition("try: ")[2]
    report = diagnosis.report()
    assert problem in report
    assert fix in report
    assert "\n" not in report


def test_wrong_names_are_wrong_without_a_gpu(machine):
    machine(*CASES["no driver"][:2])
    for name in ("gpu", "cuda:x"):
        with pytest.raises(DeviceError, match="no such device"):
            parse_device(name)


def test_what_is_there_is_shown(machine):
    machine(library(version=13010), "13.5.0")
    assert diagnosis.report().startswith("driver for CUDA 13.1, cuda-bindings 13.5.0, numba-cuda")


@pytest.mark.thorough(but="late")
def test_a_gradient_is_computed_on_the_gpu_that_is_there(emulated, monkeypatch, capsys):
    monkeypatch.setattr(diagnosis, "report", lambda: "emulated")
    assert command.main([]) == 0
    shown = capsys.readouterr().out
    assert "devices          : cpu, cuda:0 (host memory 0, 1.0 GiB" in shown
    assert "gradient on cuda : right, in " in shown


def test_the_error_of_this_very_machine():
    """Whatever is installed here: an answer, and quickly, with nothing of CUDA imported before."""
    code = """
import sys
import numba_grad as ng
from numba_grad.errors import CudaUnavailableError
assert not any(name.split(".")[0] == "cuda" for name in sys.modules)
ng.cuda
assert not any(name.split(".")[0] == "cuda" for name in sys.modules)
try:
    ng.cuda.current_device()
except CudaUnavailableError as error:
    assert "try: " in str(error)
    assert not ng.cuda.is_available()
else:
    assert ng.cuda.is_available()
assert not {"numba", "numba_cuda"} & set(sys.modules)
"""
    run_python(code)
