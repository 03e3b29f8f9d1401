from numba_grad.frontend.cuda import *  # noqa: F403
from numba_grad.frontend.cuda import __all__ as __all__
from numba_grad.frontend.cuda import __doc__ as __doc__
