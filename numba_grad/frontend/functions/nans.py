"""Reductions and scans of NumPy that leave out nan: those of the same name without it, masked."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import INT64, is_inexact
from numba_grad.errors import explain
from numba_grad.frontend.functions import elementwise, reductions
from numba_grad.frontend.functions.reductions import Axis
from numba_grad.frontend.functions.scans import cumprod, cumsum
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, scalar_leaf, value_of, wrap
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast, full

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _numbers(operation: str, x: Node, where: ArrayLike) -> ArrayLike:
    """The mask of elements that are not nan, and that the mask `where` chooses."""
    if not is_inexact(x.dtype):
        return where
    is_number = OPS["logical_not"](OPS["isnan"](x))
    if where is True:
        return is_number
    return OPS["logical_and"](is_number, reductions.mask_like(operation, x, where))


def _replaced(x: Node, number: complex) -> Node:
    """`x` with `number` for nan; of complex ones, with both parts an infinite `number`, so that it
    is at the end of their order."""
    if not is_inexact(x.dtype):
        return x
    if x.dtype.kind == "c" and np.isinf(number):
        number = complex(number, number)
    return OPS["where"](OPS["isnan"](x), scalar_leaf(number, x.dtype), x)


def nansum(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """As `sum`, of the elements that are not nan; 0 if there are none."""
    node = as_node(x)
    chosen = _numbers("nansum", node, where)
    return reductions.sum(node, axis, dtype, keepdims=keepdims, initial=initial, where=chosen)


def nanprod(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """As `prod`, of the elements that are not nan; 1 if there are none."""
    node = as_node(x)
    chosen = _numbers("nanprod", node, where)
    return reductions.prod(node, axis, dtype, keepdims=keepdims, initial=initial, where=chosen)


def nancumsum(x: ArrayLike, axis: int | None = None, dtype: object = None) -> "Tensor":
    """As `cumsum`, with 0 for nan."""
    return cumsum(wrap(_replaced(as_node(x), 0.0)), axis, dtype)


def nancumprod(x: ArrayLike, axis: int | None = None, dtype: object = None) -> "Tensor":
    """As `cumprod`, with 1 for nan."""
    return cumprod(wrap(_replaced(as_node(x), 1.0)), axis, dtype)


def nanmean(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    keepdims: bool = False,
    where: ArrayLike = True,
) -> "Tensor":
    """As `mean`, of the elements that are not nan; nan if there are none."""
    node = as_node(x)
    chosen = _numbers("nanmean", node, where)
    return reductions.mean(node, axis, dtype, keepdims=keepdims, where=chosen)


def nanvar(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> "Tensor":
    """As `var`, of the elements that are not nan; nan if there are not more than ddof of them."""
    lost = reductions.degrees_lost("nanvar", ddof, correction)
    return _nan_spread(
        "nanvar", reductions.var, as_node(x), axis, dtype, lost, keepdims, where, mean
    )


def nanstd(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> "Tensor":
    """The square root of `nanvar`. Gradient 0 where it is 0."""
    lost = reductions.degrees_lost("nanstd", ddof, correction)
    return _nan_spread(
        "nanstd", reductions.std, as_node(x), axis, dtype, lost, keepdims, where, mean
    )


def _nan_spread(
    operation: str,
    spread: Callable[..., "Tensor"],
    x: Node,
    axis: Axis,
    dtype: object,
    ddof: float,
    keepdims: bool,
    where: ArrayLike,
    mean: ArrayLike | None,
) -> "Tensor":
    chosen = _numbers(operation, x, where)
    result = spread(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=chosen, mean=mean)
    if chosen is True or not ddof:  # of no elements it is nan anyway
        return result
    mask = wrap(reductions.mask_like(operation, x, chosen))
    count = reductions.count_nonzero(mask, axis, keepdims=keepdims)._node
    is_enough = elementwise.greater(count, ddof)._node  # ddof may be half a number
    nan = full(np.nan, (), result.dtype)
    return wrap(OPS["where"](is_enough, result._node, nan))


def nanmax(
    x: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """As `max`, of the elements that are not nan; nan, or `initial`, if there are none."""
    return _nan_extreme("nanmax", reductions.max, -np.inf, x, axis, keepdims, initial, where)


def nanmin(
    x: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """As `min`, of the elements that are not nan; nan, or `initial`, if there are none."""
    return _nan_extreme("nanmin", reductions.min, np.inf, x, axis, keepdims, initial, where)


def _nan_extreme(
    operation: str,
    extreme: Callable[..., "Tensor"],
    neutral: float,
    x: ArrayLike,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> "Tensor":
    node = as_node(x)
    if not is_inexact(node.dtype):
        return extreme(node, axis, keepdims=keepdims, initial=initial, where=where)
    numbers = _replaced(node, neutral)
    found = extreme(numbers, axis, keepdims=keepdims, initial=initial, where=where)
    if initial is not None:
        return found
    is_number = cast(OPS["logical_not"](OPS["isnan"](node)), INT64)
    count = reductions.reduced("sum", is_number, axis, keepdims, operation)
    result = found._node
    if node.dtype.kind == "f" and result.type.size:
        # Where nothing else is left, nan in its place would share the gradient.
        size = full(node.type.size // result.type.size, (), node.dtype)
        is_neutral = OPS["equal"](result, full(neutral, (), node.dtype))
        share = OPS["divide"](size, cast(count, node.dtype))
        result = OPS["where"](is_neutral, OPS["multiply"](result, share), result)
    only_nan = OPS["equal"](count, full(0, (), INT64))
    return wrap(OPS["where"](only_nan, full(np.nan, (), node.dtype), result))


def nanargmax(x: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
    """As `argmax`, of the elements that are not nan.

    Raises
    ------
    ValueError
        If there are none; that computes `x` now. Inside jit and vmap the index is then -1.
    """
    return _nan_position("nanargmax", reductions.argmax, -np.inf, x, axis, keepdims)


def nanargmin(x: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
    """As `argmin`, of the elements that are not nan.

    Raises
    ------
    ValueError
        If there are none; that computes `x` now. Inside jit and vmap the index is then -1.
    """
    return _nan_position("nanargmin", reductions.argmin, np.inf, x, axis, keepdims)


def _nan_position(
    operation: str,
    find: Callable[..., "Tensor"],
    replacement: float,
    x: ArrayLike,
    axis: int | None,
    keepdims: bool,
) -> "Tensor":
    node = as_node(x)
    if not is_inexact(node.dtype):
        return find(node, axis, keepdims=keepdims)
    position = find(_replaced(node, replacement), axis, keepdims=keepdims)._node
    is_nothing = reductions.reduced("all", OPS["isnan"](node), axis, keepdims, operation)
    if is_traced(is_nothing):
        return wrap(OPS["where"](is_nothing, full(-1, (), INT64), position))
    if value_of(is_nothing, operation).any():
        raise ValueError(explain(operation, "only nan along the axis", got={"x": node.type}))
    return wrap(position)
