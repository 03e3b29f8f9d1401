from numba_grad.frontend.random import *  # noqa: F403
from numba_grad.frontend.random import __all__ as __all__
from numba_grad.frontend.random import __doc__ as __doc__
