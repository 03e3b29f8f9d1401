"""The functions of numpy.fft, on tensors: those of `numba_grad.fft`."""

from numba_grad.frontend.fft import *  # noqa: F403
from numba_grad.frontend.fft import __all__ as __all__
