"""Functions of numpy.linalg that factorize matrices. Their results have NumPy's names."""

from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.functions.indexing import taken_along
from numba_grad.frontend.inputs.arrays import ArrayLike, wrap
from numba_grad.frontend.inputs.caught_errors import may_be_singular
from numba_grad.frontend.linear_algebra.linear_systems import for_lapack, matrix_for_lapack
from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple
from numba_grad.ops import eigenvalues, factorizations, singular_values  # noqa: F401 - fills OPS
from numba_grad.ops.contraction import conjugate_transpose, matrix_transpose
from numba_grad.ops.elementwise import real_part
from numba_grad.ops.families import broadcast_to, cast, full, reshape
from numba_grad.ops.matrices import as_column, as_row, block

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


class QRResult(NamedTuple):
    Q: "Tensor"
    R: "Tensor"


class EighResult(NamedTuple):
    eigenvalues: "Tensor"
    eigenvectors: "Tensor"


class EigResult(NamedTuple):
    eigenvalues: "Tensor"
    eigenvectors: "Tensor"


class SVDResult(NamedTuple):
    U: "Tensor"
    S: "Tensor"
    Vh: "Tensor"


@may_be_singular
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> "Tensor":
    """The lower triangular L with a = L @ L^H; with `upper` the upper triangular U, a = U^H @ U.

    Parameters
    ----------
    a : Tensor, (..., n, n), Hermitian and positive definite; only the triangle of the result is
        read

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if it is not positive definite.

    Notes
    -----
    Where `a` is Hermitian to rounding, so is the gradient, as if both triangles had been read:
    gradient descent stays among Hermitian matrices. torch's is the same, but for a part that is not
    Hermitian where `a` is complex. Elsewhere, as where only the triangle was filled, what is not
    read has the derivative 0, and what is read has all of it.
    """
    matrix = matrix_for_lapack("cholesky", a)
    if upper:
        return wrap(conjugate_transpose(OPS["cholesky"](conjugate_transpose(matrix))))
    return wrap(OPS["cholesky"](matrix))


@may_be_singular
def cho_factor(a: ArrayLike, lower: bool = False) -> "tuple[Tensor, bool]":
    """The Cholesky factor of a matrix and whether it is lower triangular, as SciPy's: for
    `cho_solve`. What SciPy leaves of `a` in the other triangle is zeros here.

    Parameters
    ----------
    a : Tensor, (..., n, n), Hermitian and positive definite; only that triangle is read
    lower : whether the factor is the lower triangular L, a = L @ L^H, or U, a = U^H @ U

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if it is not positive definite.
    """
    return cholesky(a, upper=not lower), bool(lower)


def cho_solve(c_and_lower: "tuple[ArrayLike, bool]", b: ArrayLike) -> "Tensor":
    """The x with a @ x = b, from `cho_factor(a)`.

    Parameters
    ----------
    c_and_lower : (..., n, n) and a bool, as `cho_factor` returns; only that triangle is read
    b : Tensor, (n,) for one vector, else (..., n, k)
    """
    c, lower = c_and_lower
    factor, right = for_lapack("cho_solve", c, b)
    if len(factor.shape) < 2:
        got: dict[str, object] = {"c": factor.type}
        raise np.linalg.LinAlgError(explain("cho_solve", "not a matrix", got=got))
    turned = conjugate_transpose(factor)
    is_vector = len(right.shape) == 1
    column = as_column(right) if is_vector else right
    triangles = (factor, turned) if lower else (turned, factor)
    for triangle, is_lower in zip(triangles, (True, False), strict=True):
        column = OPS["solve_triangular"](triangle, column, lower=is_lower, unit_diagonal=False)
    return wrap(reshape(column, column.shape[:-1]) if is_vector else column)


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete"] = ...) -> QRResult: ...
@overload
def qr(a: ArrayLike, mode: Literal["r"]) -> "Tensor": ...
def qr(a: ArrayLike, mode: Literal["reduced", "complete", "r"] = "reduced") -> "QRResult | Tensor":
    """a = Q @ R, where the columns of Q are orthonormal and R is upper triangular.

    Parameters
    ----------
    a : Tensor, (..., m, n)
    mode : with k = min(m, n), "reduced" gives Q (..., m, k) and R (..., k, n), "complete" Q
        (..., m, m) and R (..., m, n), and "r" only the R of "reduced"

    Notes
    -----
    The first k columns of `a` must be independent for a gradient; else that raises LinAlgError.
    With "complete", the columns of Q after the first k are some basis of what is orthogonal to
    `a`: the gradient is right for functions that do not depend on which.
    """
    if mode not in ("reduced", "complete", "r"):
        expected = "'reduced', 'complete' or 'r'"
        raise ValueError(explain("qr", f"mode={mode!r}", expected=expected))
    matrix = matrix_for_lapack("qr", a)
    packed = OPS["qr"](matrix, mode=mode)
    if mode == "r":
        return wrap(packed)
    m, n = matrix.shape[-2:]
    width = packed.shape[-1]
    q, r = block(packed, 0, m, 0, width), block(packed, m, n, 0, width)
    return QRResult(wrap(q), wrap(matrix_transpose(r)))


@may_be_singular
def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues, ascending, and eigenvectors, the columns, of Hermitian matrices.

    Parameters
    ----------
    a : Tensor, (..., n, n)
    UPLO : the triangle that is read, "L" or "U"

    Returns
    -------
    eigenvalues : Tensor, (..., n), real
    eigenvectors : Tensor, (..., n, n)

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if LAPACK does not converge.

    Notes
    -----
    A matrix that is not finite gives nan. Where `a` is Hermitian to rounding, so is the gradient,
    as if both triangles had been read. Elsewhere, as where only the triangle was filled, what is
    not read has the derivative 0, and what is read has all of it. Eigenvectors are defined up to
    sign or phase, and those of equal eigenvalues up to a rotation: the gradient is right for
    functions that do not depend on that choice (and on equal eigenvalues equally), and finite
    always.
    """
    packed = OPS["eigh"](matrix_for_lapack("eigh", a), lower=_is_lower("eigh", UPLO))
    values, vectors = _unpacked(packed)
    return EighResult(wrap(real_part(values)), wrap(vectors))


@may_be_singular
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> "Tensor":
    """Eigenvalues, ascending, of Hermitian matrices; see `eigh`."""
    lower = _is_lower("eigvalsh", UPLO)
    return wrap(OPS["eigvalsh"](matrix_for_lapack("eigvalsh", a), lower=lower))


def _is_lower(operation: str, uplo: str) -> bool:
    if str(uplo).upper() not in ("L", "U"):
        got = uplo if isinstance(uplo, str) else type(uplo).__name__
        raise ValueError(
            explain(
                operation,
                "UPLO says which triangle is read",
                got={"UPLO": got},
                expected="'L' or 'U'",
                fix=""
                if isinstance(uplo, str)
                else f"{operation}(c @ a @ c.T), with c = np.linalg.inv(np.linalg.cholesky(b)), "
                "for the eigenvalues of a with b",
            )
        )
    return uplo.upper() == "L"


def _unpacked(packed: Node) -> tuple[Node, Node]:
    """Eigenvalues and eigenvectors."""
    n = packed.shape[-1]
    values = block(packed, n, 1, 0, n)
    return reshape(values, (*values.shape[:-2], n)), block(packed, 0, n, 0, n)


@may_be_singular
def eig(a: ArrayLike, /) -> EigResult:
    """Eigenvalues, in LAPACK's order, and eigenvectors, columns of norm 1, of square matrices.

    Returns
    -------
    eigenvalues : Tensor, (..., n), complex
    eigenvectors : Tensor, (..., n, n), complex

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if it is not finite, or LAPACK does not converge.

    Notes
    -----
    Complex always, as in the array API; NumPy's are real where no imaginary part is left. The
    gradient is for distinct eigenvalues, and for functions that do not depend on the phase of the
    eigenvectors; for a matrix without a basis of eigenvectors it raises LinAlgError.
    """
    values, vectors = _unpacked(OPS["eig"](matrix_for_lapack("eig", a)))
    return EigResult(wrap(values), wrap(vectors))


@may_be_singular
def eigvals(a: ArrayLike, /) -> "Tensor":
    """Eigenvalues, in LAPACK's order, of square matrices; complex always. See `eig`."""
    return wrap(OPS["eigvals"](matrix_for_lapack("eigvals", a)))


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    hermitian: bool = ...,
) -> SVDResult: ...
@overload
def svd(
    a: ArrayLike, full_matrices: bool = ..., *, compute_uv: Literal[False], hermitian: bool = ...
) -> "Tensor": ...
@may_be_singular
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> "SVDResult | Tensor":
    """a = U @ diag(S) @ Vh, where columns of U and rows of Vh are orthonormal, and S descends.

    Parameters
    ----------
    a : Tensor, (..., m, n)
    full_matrices : whether U is (..., m, m) and Vh (..., n, n); else (..., m, k) and (..., k, n),
        k = min(m, n)
    compute_uv : whether to return all three, or S alone
    hermitian : take the matrix for Hermitian, by its lower triangle: faster; see `eigh`

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is no matrix; when computed, if it has nan, or LAPACK does not converge.

    Notes
    -----
    Infinity gives nan. Vectors are defined up to signs or phases, those of equal singular values up
    to a common rotation, and those that complete a basis up to one of their own: the gradient is
    right for functions that do not depend on that choice, accurate also where singular values are
    equal, and finite always. Where a singular value is 0, it is left out.
    """
    matrix = matrix_for_lapack("svd", a)
    if hermitian:
        return _svd_of_hermitian(matrix, compute_uv)
    if not compute_uv:
        return wrap(OPS["svdvals"](matrix))
    m, n = matrix.shape[-2:]
    k = min(m, n)
    packed = OPS["svd"](matrix, full=bool(full_matrices))
    u = block(packed, 0, m, 0, m if full_matrices else k)
    v = block(packed, m, n, 0, n if full_matrices else k)
    values = real_part(block(packed, m + n, 1, 0, k))
    return SVDResult(
        wrap(u), wrap(reshape(values, (*matrix.shape[:-2], k))), wrap(conjugate_transpose(v))
    )


def _svd_of_hermitian(matrix: Node, compute_uv: bool) -> "SVDResult | Tensor":
    """The magnitudes of eigenvalues in order; their signs go to the rows of Vh."""
    axis = len(matrix.shape) - 2
    if not compute_uv:
        sizes = OPS["absolute"](OPS["eigvalsh"](matrix, lower=True))
        order = OPS["argsort"](sizes, axis=axis, descending=True)
        return wrap(taken_along(sizes, order, axis, checked=False))
    values, vectors = _unpacked(OPS["eigh"](matrix, lower=True))
    values = real_part(values)
    order = OPS["argsort"](OPS["absolute"](values), axis=axis, descending=True)
    values = taken_along(values, order, axis, checked=False)
    vectors = taken_along(
        vectors, broadcast_to(as_row(order), matrix.shape), axis + 1, checked=False
    )
    zero, one = full(0, (), values.dtype), full(1, (), values.dtype)
    signs = OPS["where"](OPS["less"](values, zero), -one, one)
    turned = OPS["multiply"](vectors, as_row(cast(signs, matrix.dtype)))
    return SVDResult(
        wrap(vectors), wrap(OPS["absolute"](values)), wrap(conjugate_transpose(turned))
    )


@may_be_singular
def svdvals(a: ArrayLike, /) -> "Tensor":
    """The singular values of each matrix, descending; see `svd`."""
    return wrap(OPS["svdvals"](matrix_for_lapack("svdvals", a)))
