"""Functions of NumPy that put elements in order, or find places in an order."""

from typing import TYPE_CHECKING

from numba_grad.errors import explain
from numba_grad.frontend.arrays import ArrayLike, as_node, wrap
from numba_grad.frontend.index_functions import taken_along
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.families import reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor


def argsort(
    x: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> "Tensor":
    """The indices that put `x` in order along `axis`. Always stable; nan comes last.

    `kind` and `stable` are accepted for NumPy's sake and change nothing.
    """
    node, number = _sortable("argsort", x, axis, order)
    return wrap(OPS["argsort"](node, axis=number, descending=bool(descending)))


def sort(
    x: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> "Tensor":
    """`x` in order along `axis`. Always stable; nan comes last.

    `kind` and `stable` are accepted for NumPy's sake and change nothing.
    """
    node, number = _sortable("sort", x, axis, order)
    if not as_node(x).shape:
        return wrap(as_node(x))
    indices = OPS["argsort"](node, axis=number, descending=bool(descending))
    return wrap(taken_along(node, indices, number, checked=False))


def _sortable(operation: str, x: ArrayLike, axis: int | None, order: None) -> tuple[Node, int]:
    if order is not None:
        raise TypeError(explain(operation, "order= is for structured arrays, which do not exist"))
    node = as_node(x)
    if axis is None or not node.shape:
        return reshape(node, (node.type.size,)), 0
    return node, normalize_axis(operation, axis, len(node.shape))
