"""The functions of numpy.fft: of tensors, those of `numba_grad.fft`."""

from typing import TYPE_CHECKING, Any

from numpy import fft as theirs

from numba_grad.frontend.numpy_namespace import object_of_name

if TYPE_CHECKING:
    from numba_grad.frontend.fft import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if not hasattr(theirs, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor has NumPy")
    found = globals()[name] = object_of_name(theirs, name)
    return found


def __dir__() -> list[str]:
    return list(theirs.__all__)


__all__ = theirs.__all__  # pyright: ignore[reportUnsupportedDunderAll]
