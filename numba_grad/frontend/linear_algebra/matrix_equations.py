"""Functions of scipy.linalg: square roots of matrices, Sylvester's equation, banded systems."""

import operator
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.inputs.arrays import ArrayLike, wrap
from numba_grad.frontend.inputs.caught_errors import may_be_singular
from numba_grad.frontend.linear_algebra.linear_systems import for_lapack, matrix_for_lapack
from numba_grad.graph.node import OPS, Node
from numba_grad.ops import matrix_equations  # noqa: F401 - fills OPS
from numba_grad.ops.families import broadcast_to
from numba_grad.ops.matrices import as_column, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


@may_be_singular
def sqrtm(A: ArrayLike) -> "Tensor":
    """The principal square root of each matrix: the one whose eigenvalues have real parts >= 0.

    Parameters
    ----------
    A : Tensor, (..., n, n)

    Returns
    -------
    Tensor of the dtype of `A`

    Raises
    ------
    numpy.linalg.LinAlgError
        If `A` is not square; by the gradient, where `A` is singular.

    Notes
    -----
    By complex Schur factors (Bjorck and Hammarling, 1983). A real matrix with a negative eigenvalue
    has no real root, and gives nan, where SciPy's result is complex: `sqrtm(A.astype(complex))`.
    A matrix that is not finite gives nan. The gradient solves Sylvester's equation.
    """
    return wrap(OPS["sqrtm"](matrix_for_lapack("sqrtm", A)))


@may_be_singular
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> "Tensor":
    """The x with a @ x + x @ b = q, by Schur factors (Bartels and Stewart, 1972).

    Parameters
    ----------
    a, b, q : Tensor, (..., n, n), (..., m, m), (..., n, m); stacks broadcast

    Raises
    ------
    numpy.linalg.LinAlgError
        If a or b is not square; when computed, if a and -b have an eigenvalue in common.
    ShapeError
        If sizes do not fit.
    """
    nodes = for_lapack("solve_sylvester", a, b, q)
    return wrap(OPS["solve_sylvester"](*_one_stack("solve_sylvester", nodes)))


@may_be_singular
def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> "Tensor":
    """The x with a @ x = b for a matrix with few diagonals, by elimination with row exchanges.

    Parameters
    ----------
    l_and_u : how many diagonals below the main one, and how many above
    ab : Tensor, (..., l + u + 1, n): the diagonals, the uppermost first, each element in its column
    b : Tensor, (n,) for one vector, else (..., n, k); stacks broadcast
    overwrite_ab, overwrite_b, check_finite : SciPy's; nothing is overwritten, nor checked: nan and
        inf give nan

    Raises
    ------
    numpy.linalg.LinAlgError
        When computed, if the matrix is singular.
    ShapeError
        If sizes do not fit.

    Notes
    -----
    Work and memory grow as n (l + u)**2 and n (l + u), also those of the gradients. The gradient by
    elements of `ab` outside of the matrix is 0.
    """
    lower, upper = (operator.index(number) for number in l_and_u)
    if lower < 0 or upper < 0:
        got: dict[str, object] = {"l_and_u": l_and_u}
        raise ValueError(explain("solve_banded", "negative numbers of diagonals", got=got))
    bands, right = for_lapack("solve_banded", ab, b)
    is_vector = len(right.shape) == 1
    nodes = _one_stack("solve_banded", (bands, as_column(right) if is_vector else right))
    solution = OPS["solve_banded"](*nodes, lower=lower, upper=upper)
    return wrap(reshape(solution, solution.shape[:-1]) if is_vector else solution)


def _one_stack(operation: str, nodes: tuple[Node, ...]) -> list[Node]:
    got: dict[str, object] = {f"argument {k}": node.type for k, node in enumerate(nodes, start=1)}
    if any(len(node.shape) < 2 for node in nodes):
        raise np.linalg.LinAlgError(explain(operation, "not a matrix", got=got))
    try:
        stack = np.broadcast_shapes(*[node.shape[:-2] for node in nodes])
    except ValueError:
        raise ShapeError(explain(operation, "stacks do not broadcast", got=got)) from None
    return [broadcast_to(node, (*stack, *node.shape[-2:])) for node in nodes]
