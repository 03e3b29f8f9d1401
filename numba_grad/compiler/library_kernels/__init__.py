"""Steps that are not generated from loops: BLAS, LAPACK, PocketFFT, sorting, scans, scattering.

Each function returns a `LibraryCall`: kernel sources with the words of their steps, where memory
is still by role (`Memory`). How work is cut into tasks depends on sizes and dtypes alone, so
results do not depend on the number of threads. Beside each stands which operations it computes,
and from what of them (`registry.py`).
"""

from numba_grad.compiler.library_kernels.banded_systems import *
from numba_grad.compiler.library_kernels.calls import *
from numba_grad.compiler.library_kernels.correlations import *
from numba_grad.compiler.library_kernels.custom_kernels import *
from numba_grad.compiler.library_kernels.determinants import *
from numba_grad.compiler.library_kernels.eigenvalues import *
from numba_grad.compiler.library_kernels.factorizations import *
from numba_grad.compiler.library_kernels.fourier import *
from numba_grad.compiler.library_kernels.linear_systems import *
from numba_grad.compiler.library_kernels.matrix_equations import *
from numba_grad.compiler.library_kernels.matrix_exponential import *
from numba_grad.compiler.library_kernels.matrix_products import *
from numba_grad.compiler.library_kernels.parameters import *
from numba_grad.compiler.library_kernels.rejections import *
from numba_grad.compiler.library_kernels.scans import *
from numba_grad.compiler.library_kernels.scatters import *
from numba_grad.compiler.library_kernels.singular_values import *
from numba_grad.compiler.library_kernels.sorts import *
from numba_grad.compiler.library_kernels.triangular_systems import *
