from numba_grad.frontend.mpi import *  # noqa: F403
from numba_grad.frontend.mpi import __all__ as __all__
from numba_grad.frontend.mpi import __doc__ as __doc__
