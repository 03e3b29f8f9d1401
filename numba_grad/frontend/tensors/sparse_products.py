"""Products of sparse matrices of SciPy's, which are constants, with tensors: `matrix @ x`.

`callers.py` says how they come here. Few programs need this, so it is imported when one does.
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import INT64
from numba_grad.errors import ShapeError, TracingError, explain
from numba_grad.frontend.inputs.arrays import as_node, constant_beside, operands, wrap
from numba_grad.frontend.inputs.tracing import is_tracing, values_asked_for
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import full, reshape
from numba_grad.ops.indexing import gather, scatter_add

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

# By format: the arrays that say where elements are, besides those of the elements.
_PLACES = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "coo": ("row", "col"),
    "bsr": ("indices", "indptr"),
    "dia": ("offsets",),
}
_IN_ORDER = ("csr", "csc", "coo")  # whose elements are those of `tocoo()`, in their order


def times(matrix: Any, tensor: "Tensor") -> "Tensor":
    """`matrix @ tensor`

    Parameters
    ----------
    matrix : sparse matrix or array of SciPy's, shape (m, n)
    tensor : Tensor, shape (n,) or (n, k)

    Returns
    -------
    Tensor, shape (m,) or (m, k)

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    TracingError
        For matrices in lists and dicts, of which it cannot be told whether they have changed.
    """
    x = as_node(tensor)
    if len(matrix.shape) != 2 or len(x.shape) not in (1, 2) or x.shape[0] != matrix.shape[1]:
        raise ShapeError(
            explain(
                "matmul",
                "shapes do not fit",
                got={"x1": f"{matrix.dtype}{list(matrix.shape)}, sparse", "x2": x.type},
                expected="(m, n), and (n,) or (n, k)",
            )
        )
    rows, columns, elements = _parts(matrix, x)
    factors, x = operands(np.multiply, (wrap(elements), tensor))
    factors = reshape(factors, (*factors.shape, *[1] * (len(x.shape) - 1)))
    terms = OPS["multiply"](factors, gather(x, columns, checked=False))
    zeros = full(0, (matrix.shape[0], *x.shape[1:]), terms.dtype)
    return wrap(scatter_add(zeros, terms, rows, checked=False))


def times_on_the_right(tensor: "Tensor", matrix: Any) -> "Tensor":
    """`tensor @ matrix`, as `times`."""
    return times(matrix.T, tensor.T).T


def times_in_place_of_multiply(matrix: Any, tensor: "Tensor") -> Any:
    """`matrix * tensor`, a product of matrices where SciPy's is a matrix and not an array."""
    is_matrix = isinstance(matrix, sys.modules["scipy.sparse"].spmatrix)
    return times(matrix, tensor) if is_matrix else NotImplemented


def _parts(matrix: Any, x: Node) -> tuple[Node, Node, Node]:
    """Rows, columns and values of the elements of `matrix`, where `x` is.

    In a trace places decide, and are compared at each call. Elements are read at each call where
    their order is that of an array of the matrix, and decide as well where it is not.
    """
    places = _PLACES.get(matrix.format)
    if places is None and is_tracing():
        raise TracingError(
            explain(
                "matmul",
                f"a sparse matrix of format {matrix.format}, which may change between calls",
                got={"x1": f"{matrix.dtype}{list(matrix.shape)}, sparse"},
                expected=f"format {', '.join(_PLACES)}",
                fix="A = A.tocsr(), before it is used",
            )
        )
    values_asked_for(*[as_node(getattr(matrix, name)) for name in places or ()])
    found = matrix.tocoo()
    if matrix.format in _IN_ORDER:
        elements = as_node(matrix.data)
    else:
        if places is not None:
            values_asked_for(as_node(matrix.data))
        elements = constant_beside(x, found.data)
    rows, columns = [constant_beside(x, k.astype(INT64)) for k in (found.row, found.col)]
    return rows, columns, elements
