from numba_grad.frontend.signal import *  # noqa: F403
from numba_grad.frontend.signal import __all__ as __all__
from numba_grad.frontend.signal import __doc__ as __doc__
