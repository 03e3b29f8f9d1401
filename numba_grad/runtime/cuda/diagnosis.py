"""Why there is no GPU to be used: which of driver, package or version is missing, and its cure."""

import importlib.metadata
from typing import Any

from numba_grad.errors import CudaUnavailableError, explain
from numba_grad.fresh_thread import imported
from numba_grad.immutable import immutable

INSTALL = 'pip install "numba_grad[cuda]"'
_OLDEST_DRIVER = 13000  # of CUDA 13.0, which kernels are linked for: driver 580
OLDEST_CAPABILITY = (7, 5)  # that CUDA 13 compiles for
_PACKAGES = ("cuda-bindings", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")
_INSTALL_DRIVER = (
    "sudo apt install nvidia-driver-580-open (or what https://www.nvidia.com/drivers offers); for "
    "a container: docker run --gpus all"
)


@immutable
class Finding:
    """The first thing that is wrong, in words, and what to do about it."""

    problem: str
    got: dict[str, object]
    fix: str


def usable_library() -> Any:
    """The module `cuda.bindings.driver`, with the driver started, for `CudaDriver`.

    Raises
    ------
    CudaUnavailableError
        If there is no GPU to be used.
    """
    found = examine()
    if isinstance(found, Finding):
        raise CudaUnavailableError(
            explain(
                "cuda",
                found.problem,
                got=found.got,
                expected="an NVIDIA GPU, driver 580 or newer, and the packages of numba_grad[cuda]",
                fix=found.fix,
            )
        )
    return found


def examine() -> Any:
    """The usable module, or the first `Finding`."""
    try:
        library = imported("cuda.bindings.driver")
    except ImportError as error:
        return Finding(
            "the package cuda-bindings is not installed, or cannot be imported",
            {"import cuda.bindings.driver": error, "cuda-bindings": _version("cuda-bindings")},
            INSTALL,
        )
    major = _version("cuda-bindings").partition(".")[0]
    if major.isdecimal() and int(major) < _OLDEST_DRIVER // 1000:
        return Finding(
            "the package cuda-bindings is too old",
            {"cuda-bindings": _version("cuda-bindings")},
            INSTALL,
        )
    return _examine_driver(library)


def _examine_driver(library: Any) -> Any:
    packages = {"cuda-bindings": _version("cuda-bindings")}
    try:
        (result,) = library.cuInit(0)
    except RuntimeError as error:  # cuda.bindings found no libcuda, or not the function in it
        return Finding(
            "no NVIDIA driver is installed on this machine",
            {"cuInit": " ".join(str(error).split()), **packages},
            _INSTALL_DRIVER,
        )
    success = library.CUresult.CUDA_SUCCESS
    if result != success:
        return Finding(
            _INIT_FAILED.get(result.name, "the NVIDIA driver did not start"),
            {"cuInit": result.name, **packages},
            "nvidia-smi, which shows the driver's state and the GPUs that it sees",
        )
    result, version = library.cuDriverGetVersion()
    if result == success and version < _OLDEST_DRIVER:
        shown = f"for CUDA {version // 1000}.{version % 1000 // 10}"
        return Finding(
            "the NVIDIA driver is too old",
            {"driver": shown, **packages},
            _INSTALL_DRIVER,
        )
    result, count = library.cuDeviceGetCount()
    if result != success or count == 0:
        return Finding(
            _INIT_FAILED["CUDA_ERROR_NO_DEVICE"],
            {"cuDeviceGetCount": result.name, "devices": count, **packages},
            "nvidia-smi, and the variable CUDA_VISIBLE_DEVICES, which hides devices",
        )
    return library


_INIT_FAILED = {
    "CUDA_ERROR_NO_DEVICE": "the NVIDIA driver sees no GPU",
    "CUDA_ERROR_STUB_LIBRARY": "libcuda is the toolkit's stub, not a driver",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "libcuda and the driver in the kernel differ in version",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "the CUDA compatibility package does not fit",
}


def report() -> str:
    """One line on the state of CUDA: what there is, or what is missing and how to get it."""
    found = examine()
    if isinstance(found, Finding):
        got = ", ".join(f"{name}: {value}" for name, value in found.got.items())
        return " ".join(f"{found.problem} ({got}); try: {found.fix}".split())
    _, version = found.cuDriverGetVersion()
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return f"driver for CUDA {version // 1000}.{version % 1000 // 10}, {packages}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
