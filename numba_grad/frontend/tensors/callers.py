"""Which function of NumPy or SciPy is converting a tensor, for messages that name ours."""

import sys
from collections.abc import Iterator
from types import FrameType, FunctionType

import numpy as np

from numba_grad.frontend.namespaces import namespace
from numba_grad.frontend.tensors import array_api

_NAMESPACE_OF = {
    "numpy.fft": "fft",
    "numpy.linalg": "linalg",
    "scipy.fft": "fft",
    "scipy.fftpack": "fft",
    "scipy.linalg": "linalg",
    "scipy.signal": "signal",
    "scipy.special": "special",
}

# What SciPy's give by default where those of NumPy, and ours, give something else.
_SCIPYS_DEFAULT = {
    "cholesky": "ng.linalg.cholesky(..., upper=True)",
    "qr": "ng.linalg.qr(..., mode='complete')",
}
# Whose functions are others than those of the same names in `numpy`: of coefficients in the other
# order, of masked arrays.
_WITH_MEANINGS_OF_THEIR_OWN = ("numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial")


# By module, and the name of the function or of its class.
_OTHER_NAMES = {
    ("numpy.lib._function_base_impl", "vectorize"): "numba_grad.numpy.vectorize(...)",
    ("numpy.lib._index_tricks_impl", "ndenumerate"): "x[k] for k in np.ndindex(x.shape)",
    ("numpy.lib._stride_tricks_impl", "as_strided"): (
        "np.lib.stride_tricks.sliding_window_view(x, window)"
    ),
    ("numpy.ma.core", "MaskedArray"): "np.where(mask, 0.0, x)",
    ("numpy.polynomial._polybase", "Polynomial"): "np.polyval(c[::-1], x)",
    ("numpy.polynomial.polynomial", "polyval"): "np.polyval(c[::-1], x)",
    ("scipy.fftpack._basic", "rfft"): "",  # real and imaginary parts in one array
    ("scipy.fftpack._basic", "irfft"): "",
}


def is_checking() -> bool:
    """Whether it is `numpy.testing` that converts a tensor: it compares, and returns nothing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("numpy", "numba_grad"):
            return False
        if module.startswith("numpy.testing"):
            return True
        frame = frame.f_back
    return False


def is_asking_for_arrays() -> bool:
    """Whether a function of `scipy.optimize` or matplotlib itself calls one of NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("numpy", "numba_grad"):
            return module.startswith(("scipy.optimize.", "matplotlib.", "mpl_toolkits."))
        frame = frame.f_back
    return False


def operand_of_sparse_product() -> np.ndarray | None:
    """What `tensor.__array__`, which asks this, gives to the product of a sparse matrix.

    SciPy leaves `matrix @ x` to `x` where that is no array, but one object for NumPy.
    """
    frame = sys._getframe(2)
    if frame.f_code.co_name != "_matmul_dispatch":
        return None
    is_sparse = frame.f_globals.get("__name__", "").startswith("scipy.sparse.")
    return np.array(None, dtype=object) if is_sparse else None


def own_function_in_place_of_caller() -> str:
    """What to call instead: "ng.linalg.expm(...)" while scipy.linalg.expm converts a tensor.

    It looks through the frames up to the user's line, so only where an error is raised anyway. ""
    where NumPy, SciPy or pandas were not called, or we have no such function.
    """
    found = ""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if package in ("numpy", "scipy"):
            found = next(filter(None, map(_own_name, _functions_of(frame))), found)
        elif package == "pandas":  # whose operators leave tensors to us, all but `@`
            found = "table.to_numpy() in place of a table of pandas"
        elif package != "numba_grad":
            break
        frame = frame.f_back
    return found


def _functions_of(frame: FrameType) -> Iterator[tuple[str, str]]:
    """Module and name of the function that the frame is of, or of its class, and of one that it
    wraps."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    yield module, code.co_qualname.partition(".")[0]
    yield module, type(frame.f_locals.get("self")).__name__
    for variable in code.co_freevars:
        wrapped = frame.f_locals.get(variable)
        if isinstance(wrapped, FunctionType):
            yield wrapped.__module__, wrapped.__name__


def _own_name(function: tuple[str, str]) -> str:
    if function in _OTHER_NAMES:
        return _OTHER_NAMES[function]
    module, name = function
    if module.startswith("numpy") and not module.startswith(_WITH_MEANINGS_OF_THEIR_OWN):
        return f"ng.{name}(...)" if name in array_api.namespace().__all__ else ""
    ours = _NAMESPACE_OF.get(".".join(module.split(".")[:2]))
    if ours is None or name not in namespace(ours).__all__:
        return ""
    if module.startswith("scipy.linalg") and name in _SCIPYS_DEFAULT:
        return _SCIPYS_DEFAULT[name]
    return f"ng.{ours}.{name}(...)"
