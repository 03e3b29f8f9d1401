"""Public as `numba_grad.linalg`: functions of numpy.linalg."""

from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.arrays import ArrayLike, as_node, common_dtype, wrap
from numba_grad.frontend.contraction_functions import (
    diagonal,
    matmul,
    outer,
    tensordot,
    trace,
    vecdot,
)
from numba_grad.frontend.reduction_functions import (
    BOOL,
    FLOAT64,
    Axis,
    reduced,
    root_with_gradient_0_at_0,
    squared_magnitude,
)
from numba_grad.frontend.shape_functions import matrix_transpose
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes
from numba_grad.ops.families import broadcast_to, cast, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor

__all__ = [
    "diagonal",
    "inv",
    "matmul",
    "matrix_transpose",
    "norm",
    "outer",
    "solve",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def solve(a: ArrayLike, b: ArrayLike, /) -> "Tensor":
    """The x with a @ x = b, by LU factorization.

    Parameters
    ----------
    a : Tensor, (..., n, n)
    b : Tensor, (n,) for one vector, else (..., n, k)

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is not square; when computed, if it is singular.
    """
    matrix, right = _for_lapack("solve", a, b)
    if len(right.shape) != 1:
        return wrap(OPS["solve"](matrix, right))
    solution = OPS["solve"](matrix, reshape(right, (*right.shape, 1)))
    return wrap(reshape(solution, solution.shape[:-1]))


def inv(a: ArrayLike, /) -> "Tensor":
    """The inverse of each matrix. `solve(a, b)` is faster and more accurate than `inv(a) @ b`."""
    (matrix,) = _for_lapack("inv", a)
    if len(matrix.shape) < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise np.linalg.LinAlgError(
            explain("inv", "not square", got={"a": matrix.type}, expected="(..., n, n)")
        )
    n = matrix.shape[-1]
    counts = OPS["iota"](size=n, dtype=np.dtype(np.int64))
    is_diagonal = OPS["equal"](reshape(counts, (n, 1)), reshape(counts, (1, n)))
    return wrap(OPS["solve"](matrix, cast(is_diagonal, matrix.dtype)))


def _for_lapack(operation: str, *arrays: ArrayLike) -> tuple[Node, ...]:
    """Nodes of one dtype that LAPACK has."""
    nodes = common_dtype(arrays)
    if nodes[0].dtype.kind in "bui":
        return tuple([cast(node, FLOAT64) for node in nodes])
    if nodes[0].dtype.itemsize < 4:
        raise DTypeError(
            explain(
                operation,
                "float16 is not supported",
                got={f"argument {k}": node.type for k, node in enumerate(nodes)},
                fix="x.astype(numpy.float32)",
            )
        )
    return nodes


def norm(
    x: ArrayLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> "Tensor":
    """The norm of vectors, or of matrices.

    Parameters
    ----------
    ord : of vectors: any number, 2 by default; of matrices (two axes): "fro", by default, 1, -1,
        inf or -inf
    axis : an axis for vectors, two for matrices; by default all of `x`, which with `ord` must be
        1-d or 2-d

    Notes
    -----
    Gradient 0 at 0, where 2-norms have a kink.
    """
    node = _inexact(x)
    rank = len(node.shape)
    if axis is None and ord is not None and rank not in (1, 2):
        raise ShapeError(
            explain("norm", "needs axis= to say what", got={"x": node.type, "ord": ord})
        )
    if axis is None and ord is None:
        return wrap(_vector_norm(node, 2, tuple(range(rank)), keepdims))
    axes = tuple(range(rank)) if axis is None else axis
    if isinstance(axes, tuple) and len(axes) == 2:
        return wrap(_matrix_norm(node, ord, axes, keepdims))
    return wrap(_vector_norm(node, 2 if ord is None else ord, axes, keepdims))


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> "Tensor":
    """The norm of vectors along `axis`; of all elements by default. Gradient 0 at 0."""
    return wrap(_vector_norm(_inexact(x), ord, axis, keepdims))


def _inexact(x: ArrayLike) -> Node:
    node = as_node(x)
    return node if node.dtype.kind in "fc" else cast(node, FLOAT64)


def _vector_norm(x: Node, ord: float | str, axis: Axis, keepdims: bool) -> Node:
    if isinstance(ord, str):
        raise ValueError(explain("norm", f"no vector norm {ord!r}", expected="a number"))
    if ord == 2:
        return root_with_gradient_0_at_0(
            reduced("sum", squared_magnitude(x), axis, keepdims, "norm")
        )
    size = OPS["absolute"](x)
    if ord in (np.inf, -np.inf):
        return reduced("max" if ord > 0 else "min", size, axis, keepdims, "norm")
    if ord == 0:
        is_nonzero = cast(cast(x, BOOL), size.dtype)
        return reduced("sum", is_nonzero, axis, keepdims, "norm")
    if ord == 1:
        return reduced("sum", size, axis, keepdims, "norm")
    powers = OPS["power"](size, _constant(ord, size))
    total = reduced("sum", powers, axis, keepdims, "norm")
    return OPS["power"](total, _constant(1 / ord, total))


def _constant(value: float, like: Node) -> Node:
    return broadcast_to(as_node(float(value), like=like), ())


def _matrix_norm(x: Node, ord: float | str | None, axes: Axis, keepdims: bool) -> Node:
    if ord in (None, "fro"):
        return _vector_norm(x, 2, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        expected = "'fro', 1, -1, inf or -inf"
        raise NotImplementedError(explain("norm", f"matrix norm {ord!r}", expected=expected))
    rank = len(x.shape)
    normalize_axes("norm", axes, rank)  # raises on repeated ones
    row, column = (axis % rank for axis in axes)  # type: ignore[union-attr]
    summed, compared = (row, column) if ord in (1, -1) else (column, row)
    totals = reduced("sum", OPS["absolute"](x), summed, True)
    result = reduced("max" if ord > 0 else "min", totals, compared, True)
    if keepdims:
        return result
    return reshape(result, tuple([n for k, n in enumerate(x.shape) if k not in (row, column)]))
