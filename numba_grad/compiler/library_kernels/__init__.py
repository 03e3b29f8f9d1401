"""Steps that are not generated from loops: BLAS, LAPACK, PocketFFT, sorting, scans, scattering.

Each function returns a `LibraryCall`: kernel sources with the words of their steps, where memory
is still by role (`Memory`). How work is cut into tasks depends on sizes and dtypes alone, so
results do not depend on the number of threads.
"""

from numba_grad.compiler.library_kernels.banded_systems import solve_banded_call
from numba_grad.compiler.library_kernels.calls import (
    Errors,
    LibraryCall,
    Memory,
    Symbol,
    append_call,
)
from numba_grad.compiler.library_kernels.correlations import correlate_call
from numba_grad.compiler.library_kernels.custom_kernels import ArrayOperand, custom_kernel_call
from numba_grad.compiler.library_kernels.determinants import (
    cofactor_call,
    cofactor_in_direction_call,
    det_call,
    slogdet_call,
)
from numba_grad.compiler.library_kernels.eigenvalues import eig_call, eigh_call
from numba_grad.compiler.library_kernels.factorizations import (
    cholesky_call,
    lu_call,
    permutation_call,
    qr_call,
)
from numba_grad.compiler.library_kernels.fourier import fourier_call
from numba_grad.compiler.library_kernels.gamma_moments import gamma_moment_call
from numba_grad.compiler.library_kernels.linear_systems import inv_call, solve_call
from numba_grad.compiler.library_kernels.matrix_equations import (
    solve_sylvester_call,
    sqrtm_call,
)
from numba_grad.compiler.library_kernels.matrix_exponential import expm_call
from numba_grad.compiler.library_kernels.matrix_products import (
    MatrixOperand,
    adds_by_itself,
    matmul_add_call,
    matmul_call,
)
from numba_grad.compiler.library_kernels.parameters import (
    beta_moment_call,
    hyp1f1_derivative_call,
    zeta_derivative_call,
)
from numba_grad.compiler.library_kernels.rejections import gamma_draw_call, poisson_draw_call
from numba_grad.compiler.library_kernels.scans import (
    cumprod_call,
    cumsum_call,
    cumulative_position_call,
    linear_recurrence_call,
)
from numba_grad.compiler.library_kernels.scatters import scatter_call
from numba_grad.compiler.library_kernels.singular_values import lstsq_call, svd_call
from numba_grad.compiler.library_kernels.sorts import argsort_call, searchsorted_call, sort_call
from numba_grad.compiler.library_kernels.triangular_systems import solve_triangular_call

__all__ = [
    "ArrayOperand",
    "Errors",
    "LibraryCall",
    "MatrixOperand",
    "Memory",
    "Symbol",
    "adds_by_itself",
    "append_call",
    "argsort_call",
    "beta_moment_call",
    "cholesky_call",
    "cofactor_call",
    "cofactor_in_direction_call",
    "correlate_call",
    "cumprod_call",
    "cumsum_call",
    "cumulative_position_call",
    "custom_kernel_call",
    "det_call",
    "eig_call",
    "eigh_call",
    "expm_call",
    "fourier_call",
    "gamma_draw_call",
    "gamma_moment_call",
    "hyp1f1_derivative_call",
    "inv_call",
    "linear_recurrence_call",
    "lstsq_call",
    "lu_call",
    "matmul_add_call",
    "matmul_call",
    "permutation_call",
    "poisson_draw_call",
    "qr_call",
    "scatter_call",
    "searchsorted_call",
    "slogdet_call",
    "solve_banded_call",
    "solve_call",
    "solve_sylvester_call",
    "solve_triangular_call",
    "sort_call",
    "sqrtm_call",
    "svd_call",
    "zeta_derivative_call",
]
