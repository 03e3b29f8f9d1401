from numba_grad.frontend.special import *  # noqa: F403
from numba_grad.frontend.special import __all__ as __all__
from numba_grad.frontend.special import __doc__ as __doc__
