"""Library entry points by address, as the symbols of plans: "blas.dgemm", "lapack.dgetrf"; and
users' functions, "user.name"; functions of CPython, "python.PyGILState_Ensure"; and of MPI,
"mpi.MPI_Allreduce".

NumPy's own library is used, as it is loaded anyway; SciPy's where NumPy's does not give its
symbols away. Plans call it from several threads at once, each with a tile of its own, and with the
library's threads off: only so do results not depend on the number of threads.
"""

import ctypes
import functools
from collections.abc import Sequence

from numba_grad.errors import KernelError
from numba_grad.fresh_thread import imported
from numba_grad.locks import new_lock
from numba_grad.runtime import mpi
from numba_grad.runtime.addresses import address_of
from numba_grad.runtime.threads import SharedWord, Threads

# How builds of BLAS decorate Fortran names. Integers of 4 and of 8 bytes are both fine: kernels
# pass them by reference, in 8 bytes, least significant first.
_DECORATIONS = (
    "scipy_{}_64_",
    "scipy_{}_",
    "{}_64_",
    "{}64_",
    "{}_",
    "{}$NEWLAPACK$ILP64",
    "{}$NEWLAPACK",
)
_THREAD_DECORATIONS = ("scipy_{}64_", "scipy_{}", "{}64_", "{}")

_lock = new_lock()
_users_functions: dict[str, int] = {}


def give_address(name: str, address: int) -> None:
    """Say what `symbol_address` answers for a user's function, "user.name": once for each name."""
    _users_functions[name] = address


@functools.cache
def _numpy_library() -> ctypes.CDLL | None:
    """NumPy's extension module for linear algebra; lookups also search what it links to."""
    try:
        from numpy.linalg import _umath_linalg

        return ctypes.CDLL(_umath_linalg.__file__)
    except (ImportError, OSError, TypeError):
        return None


@functools.cache
def _scipy_modules() -> dict[str, tuple[ctypes.CDLL, dict[str, object]]]:
    modules = {
        package: imported(f"scipy.linalg.cython_{package}") for package in ("blas", "lapack")
    }
    return {
        package: (ctypes.CDLL(module.__file__), module.__pyx_capi__)
        for package, module in modules.items()
    }


def _find(library: ctypes.CDLL, name: str, decorations: Sequence[str]) -> int:
    for decoration in decorations:
        try:
            function = getattr(library, decoration.format(name))
        except AttributeError:
            continue
        return address_of(function)
    return 0


def capsule_name(capsule: object) -> str:
    """What Cython calls the capsule of a function: its signature in C."""
    return _raw_capsule_name(capsule).decode()


def capsule_address(capsule: object) -> int:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return get_pointer(capsule, _raw_capsule_name(capsule))


def _raw_capsule_name(capsule: object) -> bytes:
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype = ctypes.c_char_p
    get_name.argtypes = [ctypes.py_object]
    return get_name(capsule)


@functools.cache
def symbol_address(name: str) -> int:
    """The address of a library function, such as "blas.dgemm" or "pocketfft.fft.complex128".

    Raises
    ------
    KernelError
        If neither NumPy's library nor SciPy's has it.
    """
    package, _, function = name.partition(".")
    if package == "pocketfft":
        return imported("numba_grad.runtime.pocketfft").loop_address(function)
    if package == "mpi":
        return mpi.function_address(function)
    if package == "user":
        return _users_functions[name]
    if package == "python":
        return address_of(getattr(ctypes.pythonapi, function))
    with _lock:
        library = _numpy_library()
        address = _find(library, function, _DECORATIONS) if library else 0
        if address:
            return address
        try:
            _, capsules = _scipy_modules()[package]
        except ImportError as error:
            raise KernelError(
                f"{name}: NumPy's linear algebra library does not export it, and SciPy, which "
                "also has one, is not installed\n  try: pip install scipy"
            ) from error
        if function not in capsules:
            raise KernelError(f"{name}: no such function in SciPy's linear algebra")
        return capsule_address(capsules[function])


@functools.cache
def _thread_functions() -> tuple[int, int]:
    """Addresses of OpenBLAS's `get_num_threads` and `set_num_threads`; 0 for other libraries."""
    library = _numpy_library()
    if library is None or not _find(library, "dgemm", _DECORATIONS):
        library = _scipy_modules()["blas"][0]
    getter, setter = (
        _find(library, f"openblas_{verb}_num_threads", _THREAD_DECORATIONS)
        for verb in ("get", "set")
    )
    return (getter, setter) if getter and setter else (0, 0)


def prepare_threads(threads: Threads, symbols: Sequence[str]) -> bool:
    """Whether a plan with these symbols is to turn the library's own threads off while it runs."""
    if not any(name.startswith(("blas.", "lapack.")) for name in symbols):
        return False
    getter, setter = _thread_functions()
    threads.shared[SharedWord.BLAS_GET_THREADS] = getter
    threads.shared[SharedWord.BLAS_SET_THREADS] = setter
    return setter != 0
