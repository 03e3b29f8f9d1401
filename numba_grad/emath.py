import importlib as _importlib

from numba_grad.frontend.emath import *  # noqa: F403
from numba_grad.frontend.emath import __all__ as __all__
from numba_grad.frontend.emath import __doc__ as __doc__


def __getattr__(name: str) -> object:
    absent = _importlib.import_module("numba_grad.frontend.tensors.absent_attributes")
    raise absent.error_of_module(__name__, name)
