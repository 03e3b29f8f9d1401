"""The functions of numpy.linalg, on tensors: those of `numba_grad.linalg`."""

from numba_grad.frontend.linalg import *  # noqa: F403
from numba_grad.frontend.linalg import __all__ as __all__
