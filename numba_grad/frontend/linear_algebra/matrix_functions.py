"""Functions of numpy.linalg and scipy.linalg that are polynomials and series of matrices."""

import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, common_dtype, wrap
from numba_grad.frontend.inputs.caught_errors import may_be_singular
from numba_grad.frontend.linear_algebra.linear_systems import inv, matrix_for_lapack
from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple
from numba_grad.ops import determinants, matrix_functions  # noqa: F401 - fills OPS
from numba_grad.ops.contraction import matmul
from numba_grad.ops.elementwise import real_part
from numba_grad.ops.families import broadcast_to, reshape
from numba_grad.ops.matrices import block, identity

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


class SlogdetResult(NamedTuple):
    sign: "Tensor"
    logabsdet: "Tensor"


def det(a: ArrayLike, /) -> "Tensor":
    """The determinant of each matrix, by LU factorization.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square.

    Notes
    -----
    The gradient is exact also for singular matrices, where it is by singular values (Stewart, On
    the adjugate matrix, 1998). The second derivative of a singular matrix raises LinAlgError.
    """
    return wrap(OPS["det"](matrix_for_lapack("det", a)))


def slogdet(a: ArrayLike, /) -> SlogdetResult:
    """The sign of the determinant, or its phase, and the logarithm of its magnitude.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square.

    Notes
    -----
    A singular matrix has the sign 0 and the logarithm -inf; its gradient, which is infinite, raises
    LinAlgError.
    """
    packed = OPS["slogdet"](matrix_for_lapack("slogdet", a))
    stack = packed.shape[:-1]
    parts = reshape(packed, (*stack, 1, 2))
    sign = reshape(block(parts, 0, 1, 0, 1), stack)
    return SlogdetResult(wrap(sign), wrap(real_part(reshape(block(parts, 0, 1, 1, 1), stack))))


@may_be_singular
def matrix_power(a: ArrayLike, n: int) -> "Tensor":
    """The product of `n` matrices `a`, by repeated squaring; of the inverse for negative `n`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if `n` is negative and `a` singular.
    TypeError
        If `n` is not an integer.
    """
    try:
        exponent = operator.index(n)
    except TypeError:
        raise TypeError(explain("matrix_power", f"n={n!r}", expected="an integer")) from None
    node = as_node(a)
    if len(node.shape) < 2 or node.shape[-1] != node.shape[-2]:
        got: dict[str, object] = {"a": node.type}
        expected = "(..., n, n)"
        raise np.linalg.LinAlgError(
            explain("matrix_power", "not square", got=got, expected=expected)
        )
    if exponent == 0:
        return wrap(broadcast_to(identity(node.shape[-1], node.dtype), node.shape))
    if exponent < 0:
        node = inv(node)._node
        exponent = -exponent
    result = None
    while True:
        if exponent & 1:
            result = node if result is None else matmul(result, node)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return wrap(result)
        node = matmul(node, node)


def multi_dot(arrays: Sequence[ArrayLike]) -> "Tensor":
    """The product of two and more matrices, in the order that takes the fewest multiplications.

    The first may be a vector, a row, and the last one a column; that axis is not in the result.

    Raises
    ------
    ValueError
        For less than two arrays.
    ShapeError
        If shapes do not fit.
    """
    if len(arrays) < 2:
        raise ValueError(explain("multi_dot", "needs two arrays or more"))
    nodes = list(common_dtype(tuple(arrays)))
    is_row, is_column = len(nodes[0].shape) == 1, len(nodes[-1].shape) == 1
    if is_row:
        nodes[0] = reshape(nodes[0], (1, *nodes[0].shape))
    if is_column:
        nodes[-1] = reshape(nodes[-1], (*nodes[-1].shape, 1))
    got: dict[str, object] = {f"array {k}": node.type for k, node in enumerate(nodes)}
    if any(len(node.shape) != 2 for node in nodes):
        raise np.linalg.LinAlgError(explain("multi_dot", "not all matrices", got=got))
    if any(x.shape[1] != y.shape[0] for x, y in itertools.pairwise(nodes)):
        raise ShapeError(explain("multi_dot", "shapes do not fit", got=got))
    result = _product(nodes, _cheapest_splits(nodes), 0, len(nodes) - 1)
    shape = list(result.shape)
    if is_column:
        del shape[1]
    if is_row:
        del shape[0]
    return wrap(reshape(result, tuple(shape)))


def _cheapest_splits(nodes: Sequence[Node]) -> dict[tuple[int, int], int]:
    """For each run of factors, after which one to split it: Cormen, Leiserson, Rivest and Stein,
    Introduction to Algorithms, 15.2."""
    sizes = [nodes[0].shape[0], *[node.shape[1] for node in nodes]]
    cost = {(k, k): 0 for k in range(len(nodes))}
    splits = {}
    for length in range(1, len(nodes)):
        for first in range(len(nodes) - length):
            last = first + length
            choices = [
                (
                    cost[first, k]
                    + cost[k + 1, last]
                    + sizes[first] * sizes[k + 1] * sizes[last + 1],
                    k,
                )
                for k in range(first, last)
            ]
            cost[first, last], splits[first, last] = min(choices)
    return splits


def _product(
    nodes: Sequence[Node], splits: dict[tuple[int, int], int], first: int, last: int
) -> Node:
    if first == last:
        return nodes[first]
    middle = splits[first, last]
    return matmul(_product(nodes, splits, first, middle), _product(nodes, splits, middle + 1, last))


def expm(A: ArrayLike) -> "Tensor":
    """The exponential of each square matrix: the sum of its powers, divided by factorials.

    Notes
    -----
    Pade approximants with scaling and squaring (Higham, 2005). Errors, relative to the largest
    element: some 5 eps for a 1-norm of 1, 40 eps for one of 50, and 8 eps for a triangular
    matrix. A matrix that is not finite gives nan. The gradient is by the exponential of a matrix of
    twice the size (Najfeld and Havel, 1995), for derivatives of every order.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `A` is not square.

    Examples
    --------
    >>> ng.linalg.expm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return wrap(OPS["expm"](matrix_for_lapack("expm", A)))
