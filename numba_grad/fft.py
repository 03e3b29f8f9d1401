from numba_grad.frontend.fft import *  # noqa: F403
from numba_grad.frontend.fft import __all__ as __all__
from numba_grad.frontend.fft import __doc__ as __doc__
