"""Public as `numba_grad.linalg`: the functions of numpy.linalg, and some of scipy.linalg.

All take stacks of matrices, whose axes are the last two, real and complex. They are computed by
LAPACK in the dtype of the matrix, float32 too, for which NumPy computes in float64. Those that
differ from the functions of the same names in NumPy's top namespace are here.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.linalg import LinAlgError

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions import calculus, contractions
from numba_grad.frontend.functions.contractions import matmul, tensordot, vecdot
from numba_grad.frontend.functions.indexing import take
from numba_grad.frontend.functions.joining import block, concatenate
from numba_grad.frontend.functions.shapes import (
    atleast_1d,
    atleast_2d,
    broadcast_to,
    matrix_transpose,
)
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, wrap
from numba_grad.frontend.linear_algebra.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cho_factor,
    cho_solve,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from numba_grad.frontend.linear_algebra.linear_systems import (
    LstsqResult,
    inv,
    lstsq,
    lu_factor,
    lu_solve,
    pinv,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from numba_grad.frontend.linear_algebra.matrix_equations import solve_banded, solve_sylvester, sqrtm
from numba_grad.frontend.linear_algebra.matrix_functions import (
    SlogdetResult,
    det,
    expm,
    matrix_power,
    multi_dot,
    slogdet,
)
from numba_grad.frontend.linear_algebra.matrix_norms import (
    cond,
    matrix_norm,
    matrix_rank,
    norm,
    vector_norm,
)
from numba_grad.graph.types import normalize_axis

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "toeplitz",
    "trace",
    "vecdot",
    "vector_norm",
]


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> "Tensor":
    """The elements of diagonal number `offset` of each matrix, along the last axis."""
    return contractions.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: object = None) -> "Tensor":
    """The sum of a diagonal of each matrix."""
    return contractions.trace(x, offset, -2, -1, dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """x1[i] * x2[j] for all elements of two vectors."""
    x, y = as_node(x1), as_node(x2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        got: dict[str, object] = {"x1": x.type, "x2": y.type}
        raise ShapeError(
            explain("outer", "not vectors", got=got, fix="ng.outer, which flattens them")
        )
    return contractions.outer(wrap(x), wrap(y))


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> "Tensor":
    """The cross product of vectors of three components along `axis`; the others broadcast."""
    for x in (as_node(x1), as_node(x2)):
        if x.shape[normalize_axis("cross", axis, len(x.shape))] != 3:
            got: dict[str, object] = {"x1": as_node(x1).type, "x2": as_node(x2).type}
            raise ShapeError(
                explain("linalg.cross", "needs three components", got=got, fix="ng.cross")
            )
    return calculus.cross(x1, x2, axis=axis)


def block_diag(*arrays: ArrayLike) -> "Tensor":
    """The matrix with these along its diagonal and zeros elsewhere, as of scipy.linalg: vectors
    are matrices of one row, stacks broadcast.
    """
    matrices = [atleast_2d(x) for x in arrays or ([],)]
    stack = np.broadcast_shapes(*[x.shape[:-2] for x in matrices])
    # False is 0 in any dtype, so that the matrices alone say which one it is.
    rows = [
        [
            broadcast_to(x if i == j else np.zeros((), bool), (*stack, x.shape[-2], y.shape[-1]))
            for j, y in enumerate(matrices)
        ]
        for i, x in enumerate(matrices)
    ]
    return block(rows)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> "Tensor":
    """The matrix with constant diagonals whose first column is `c` and whose first row is `r`, as
    of scipy.linalg: stacks of them are along the last axis.

    Parameters
    ----------
    c : Tensor, (..., m)
    r : Tensor, (..., n), optional
        Its first element is not read, since `c` has it. By default the conjugate of `c`.
    """
    column = atleast_1d(c)
    row = column.conj() if r is None else atleast_1d(r)
    m, n = column.shape[-1], row.shape[-1]
    if r is not None:
        stack = np.broadcast_shapes(column.shape[:-1], row.shape[:-1])
        column, row = broadcast_to(column, (*stack, m)), broadcast_to(row, (*stack, n))
    # All diagonals, that at the lower left first.
    diagonals = concatenate([column[..., ::-1], row[..., 1:]], -1)
    return take(diagonals, np.arange(m)[::-1, None] + np.arange(n), -1)
