from numba_grad.frontend.linalg import *  # noqa: F403
from numba_grad.frontend.linalg import __all__ as __all__
from numba_grad.frontend.linalg import __doc__ as __doc__
