"""Functions of NumPy that apply a function along axes. It is called once, on all rows at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.shapes import expand_dims, moved_axes
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, wrap
from numba_grad.frontend.vmap import vmap
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.families import reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["apply_along_axis", "apply_over_axes"]


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, x: ArrayLike, *args: Any, **kwargs: Any
) -> "Tensor":
    """`func1d(row, *args, **kwargs)` for each row of `x` along `axis`; its result takes the place
    of the axis.

    Notes
    -----
    By `vmap`: `func1d` is called once with a tensor that stands for all rows, so it must not ask
    for values (`if row[0] > 0`, `float(row[0])`).
    """
    node = as_node(x)
    number = normalize_axis("apply_along_axis", axis, len(node.shape))
    around = node.shape[:number] + node.shape[number + 1 :]
    rows = moved_axes(node, number, -1)
    count = rows.type.size // node.shape[number] if node.shape[number] else 0
    if not count:
        problem = "no rows to apply the function to"
        raise ValueError(explain("apply_along_axis", problem, got={"x": node.type, "axis": number}))
    rows = wrap(reshape(rows, (count, node.shape[number])))
    results = as_node(vmap(lambda row: wrap(as_node(func1d(row, *args, **kwargs))))(rows))
    own = len(results.shape) - 1
    results = reshape(results, around + results.shape[1:])
    inner = tuple(range(len(around), len(around) + own))
    return wrap(moved_axes(results, inner, tuple(range(number, number + own))))


def apply_over_axes(func: Callable[..., Any], x: ArrayLike, axes: int | Sequence[int]) -> "Tensor":
    """`func(x, axis)`, a reduction, for one axis after the other; reduced axes stay, of size 1."""
    node = as_node(x)
    rank = len(node.shape)
    for axis in [axes] if isinstance(axes, int) else axes:
        number = normalize_axis("apply_over_axes", axis, rank)
        result = as_node(func(wrap(node), number))
        if len(result.shape) == rank - 1:
            result = as_node(expand_dims(result, number))
        if len(result.shape) != rank:
            raise ShapeError(
                explain(
                    "apply_over_axes",
                    "the function does not reduce an axis",
                    got={"x": node.type, "axis": number, "result": result.type},
                )
            )
        node = result
    return wrap(node)
