"""Functions of NumPy about elements in order: the median, quantiles and percentiles.

All are one function of sorted rows, those of "nan" names too, as nan is sorted to the end.
"""

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import (
    FLOAT64,
    INT64,
    is_floating,
    is_inexact,
    is_storage_only,
    promoted,
)
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions import reductions
from numba_grad.frontend.functions.indexing import taken_along
from numba_grad.frontend.functions.reductions import Axis
from numba_grad.frontend.functions.shapes import moved_axes
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    known_value,
    scalar_leaf,
    wrap,
)
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes
from numba_grad.ops.families import broadcast_to, cast, full, placed, real_dtype, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


def median(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The middle element over `axis`, or the mean of the two in the middle; nan if there is a nan.

    Complex numbers are ordered by real parts, then imaginary parts. The gradient is that of the
    element in the middle, or half for each of the two, of equal elements in the order of a stable
    sort. Of no elements nan, with NumPy's RuntimeWarning.
    """
    if isinstance(x, Selection):
        return x.called(median, (x, axis), {"keepdims": keepdims})
    return _quantile(as_node(x), 0.5, axis, "linear", keepdims, None, "median")


def quantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> "Tensor":
    """The value below which a part `q` of the elements over `axis` lies; nan if there is a nan.

    `method` is any of NumPy's; those whose result is an element keep its dtype, as "linear" does
    where `q` is an integer. Gradients flow to
    the elements next to it, by their part in it, also where they are equal, and to `q` where the
    method interpolates. Axes of `q` come first in the result.

    With `weights`, of the shape of `x` or of its one `axis`, elements count for that much; the
    method must be "inverted_cdf". They have no gradient, since the result is one of the elements.

    Raises
    ------
    ValueError
        If `q` is known and not from 0 to 1; for known weights below 0, or another method.
    """
    if isinstance(x, Selection):
        given = {"method": method, "keepdims": keepdims, "weights": weights}
        return x.called(quantile, (x, q, axis), given)
    return _quantile(as_node(x), q, axis, method, keepdims, weights, "quantile")


def percentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> "Tensor":
    """As `quantile`, with `q` from 0 to 100."""
    if isinstance(x, Selection):
        given = {"method": method, "keepdims": keepdims, "weights": weights}
        return x.called(percentile, (x, q, axis), given)
    return _quantile(as_node(x), q, axis, method, keepdims, weights, "percentile")


def nanmedian(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """As `median`, of the elements that are not nan; nan if there are none."""
    return _quantile(as_node(x), 0.5, axis, "linear", keepdims, None, "nanmedian")


def nanquantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> "Tensor":
    """As `quantile`, of the elements that are not nan; nan if there are none."""
    return _quantile(as_node(x), q, axis, method, keepdims, weights, "nanquantile")


def nanpercentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> "Tensor":
    """As `percentile`, of the elements that are not nan; nan if there are none."""
    return _quantile(as_node(x), q, axis, method, keepdims, weights, "nanpercentile")


# Interpolated methods, by the numbers a and b of Hyndman and Fan (1996): the element number
# n q + a + q (1 - a - b) - 1.
_INTERPOLATED = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "rint"}
# Their results are elements, in the dtype of the elements.
_CHOOSING = (*_ROUNDED, "inverted_cdf", "closest_observation")
_METHODS = (*_INTERPOLATED, *_CHOOSING, "midpoint", "averaged_inverted_cdf")


def _quantile(
    x: Node,
    q: ArrayLike,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    operation: str,
) -> "Tensor":
    """All functions of this family; those whose name begins with "nan" leave out nan."""
    if method not in _METHODS:
        expected = f"one of {', '.join(map(repr, _METHODS))}"
        raise ValueError(explain(operation, f"method={method!r}", expected=expected))
    if x.dtype.kind == "c" and not operation.endswith("median"):
        problem = "not defined for complex numbers, which have no order between two of them"
        raise TypeError(explain(operation, problem, got={"x": x.type}, fix="x.real, x.imag"))
    if method == "linear" and operation.endswith("quantile") and as_node(q).dtype.kind in "biu":
        method = "lower"  # 0 and 1: elements
    quantiles = _fractions(q, x, operation)
    axes = normalize_axes(operation, axis, len(x.shape))
    if not reductions.count(x, axes, operation):
        if operation == "median" or operation.startswith("nan"):
            return _mean_of_nothing(x, axes, keepdims)
        problem = "no elements along the axis"
        raise IndexError(explain(operation, problem, got={"x": x.type, "axis": axes}))
    dtype = x.dtype if is_inexact(x.dtype) else FLOAT64
    if not _is_weak(q, x):
        dtype = promoted(quantiles.dtype, dtype)
    rows = _rows(x, axes)
    last = len(rows.shape) - 1
    order = OPS["argsort"](rows, axis=last, descending=False)
    rows = taken_along(rows, order, last, checked=False)
    flat = reshape(cast(quantiles, _dtype_of_positions(dtype)), (quantiles.type.size,))
    if weights is None:
        result = _of_rows(rows, flat, dtype, method, leaves_out_nan=operation.startswith("nan"))
    else:
        weight = cast(_weights(as_node(weights), x, axes, method, operation), FLOAT64)
        weight = taken_along(weight, order, last, checked=False)
        result = _of_weighted_rows(rows, reshape(quantiles, flat.shape), weight)
    if not operation.startswith("nan") and is_inexact(rows.dtype):
        greatest = wrap(rows)[..., -1:]._node
        result = OPS["where"](OPS["isnan"](greatest), cast(greatest, result.dtype), result)
    outside = rows.shape[:-1]
    result = reshape(result, (*outside, *quantiles.shape))
    rank = len(quantiles.shape)
    if rank and outside:
        result = moved_axes(
            result, tuple(range(len(outside), len(outside) + rank)), tuple(range(rank))
        )
    if keepdims:
        shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
        result = reshape(result, (*quantiles.shape, *shape))
    return wrap(result)


def _mean_of_nothing(x: Node, axes: tuple[int, ...], keepdims: bool) -> "Tensor":
    """nan with a warning, as the mean of nothing."""
    warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=4)
    shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
    dtype = x.dtype if is_inexact(x.dtype) else FLOAT64
    result = full(np.nan, shape, dtype, x.type.device)
    return wrap(reductions.kept(result, x, axes) if keepdims else result)


def _is_weak(q: ArrayLike, x: Node) -> bool:
    """Whether the result has the dtype of `x`: `q` is a Python number, not one of NumPy's."""
    return q.__class__ in (int, float) and is_inexact(x.dtype)


def _dtype_of_positions(dtype: np.dtype) -> np.dtype:
    """Where results are in `dtype`: half precision cannot count the elements."""
    return FLOAT64 if is_storage_only(dtype) else real_dtype(dtype)


def _fractions(q: ArrayLike, x: Node, operation: str) -> Node:
    """`q` from 0 to 1; a Python number in the dtype of positions in `x`."""
    if _is_weak(q, x):
        quantiles = scalar_leaf(float(q), _dtype_of_positions(x.dtype))  # type: ignore[arg-type]
    else:
        quantiles = as_node(q)
    limit = 100 if "percentile" in operation else 1
    known = known_value(quantiles)
    if known is not None and not np.all((known >= 0) & (known <= limit)):
        raise ValueError(explain(operation, f"q must be from 0 to {limit}", got={"q": q}))
    if not is_floating(quantiles.dtype):
        quantiles = cast(quantiles, FLOAT64)
    quantiles = placed(quantiles, x.type.device)  # a list or an array: a parameter, not data
    if limit == 100:
        quantiles = OPS["divide"](quantiles, scalar_leaf(100.0, quantiles.dtype))
    return quantiles


def _rows(x: Node, axes: tuple[int, ...]) -> Node:
    """`x` with `axes` as one, the last."""
    outside = [k for k in range(len(x.shape)) if k not in axes]
    order = (*outside, *axes)
    if order != tuple(range(len(order))):
        x = OPS["transpose"](x, axes=order)
    shape = x.shape[: len(outside)]
    return reshape(x, (*shape, math.prod(x.shape[len(outside) :])))


def _of_rows(
    rows: Node, q: Node, result_dtype: np.dtype, method: str, *, leaves_out_nan: bool
) -> Node:
    """Quantiles of rows in order: (..., number of q)."""
    dtype = q.dtype
    if leaves_out_nan and is_inexact(rows.dtype):
        is_number = cast(OPS["logical_not"](OPS["isnan"](rows)), INT64)
        count = cast(reductions.reduced("sum", is_number, -1, True), dtype)
    else:
        count = full(rows.shape[-1], (), dtype)
    number, weight = _number_and_weight(method, count, q)
    last = OPS["subtract"](count, full(1, (), dtype))
    if method in _CHOOSING:
        return _element(rows, number, last)
    return _interpolated(cast(rows, result_dtype), number, weight, last)


def _element(rows: Node, number: Node, last: Node) -> Node:
    """The elements of rows in order with these numbers, from 0 to `last`."""
    within = OPS["maximum"](OPS["minimum"](number, last), full(0, (), number.dtype))
    shape = np.broadcast_shapes(within.shape, (*rows.shape[:-1], 1))
    index = broadcast_to(cast(within, INT64), shape)
    return taken_along(rows, index, len(rows.shape) - 1, checked=False)


def _weights(weights: Node, x: Node, axes: tuple[int, ...], method: str, operation: str) -> Node:
    """The weight of each element, in rows; 0 for nan."""
    if method != "inverted_cdf":
        problem = "with weights, only one method is defined"
        raise ValueError(
            explain(operation, problem, got={"method": method}, expected="method='inverted_cdf'")
        )
    if weights.shape != x.shape:
        if len(axes) != 1 or weights.shape != (x.shape[axes[0]],):
            raise ShapeError(
                explain(
                    operation,
                    "weights have neither the shape of x, nor that of one axis",
                    got={"x": x.type, "weights": weights.type, "axis": axes},
                )
            )
        alone = tuple([n if k in axes else 1 for k, n in enumerate(x.shape)])
        weights = broadcast_to(reshape(weights, alone), x.shape)
    known = known_value(weights)
    if known is not None and (known < 0).any():
        raise ValueError(explain(operation, "weights below 0", got={"weights": weights.type}))
    if is_floating(x.dtype):
        weights = OPS["where"](OPS["isnan"](x), full(0, (), weights.dtype), weights)
    return _rows(OPS["detach"](weights), axes)


def _of_weighted_rows(rows: Node, q: Node, weights: Node) -> Node:
    """The first elements up to which the sum of weights reaches the part q of all of it."""
    last = len(rows.shape) - 1
    sums = OPS["cumsum"](weights, axis=last, reverse=False)
    # In the dtype of q, or 0.4 of float32 would lie above two of five.
    part = cast(OPS["divide"](sums, wrap(sums)[..., -1:]._node), q.dtype)
    # What has no weight is no minimum.
    part = OPS["where"](OPS["equal"](part, full(0, (), q.dtype)), full(-1, (), q.dtype), part)
    below = OPS["less"](reshape(part, (*part.shape, 1)), q)
    number = OPS["sum"](cast(below, INT64), axes=(last,))
    number = OPS["minimum"](number, as_node(rows.shape[-1] - 1))
    return taken_along(rows, number, last, checked=False)


def _number_and_weight(method: str, count: Node, q: Node) -> tuple[Node, Node]:
    """The number, from 0, of the element at or before the quantile, and how much of the way to the
    next one it lies."""

    def number(value: float) -> Node:
        return scalar_leaf(value, q.dtype)

    last = count - number(1.0)
    if method in _ROUNDED:
        return OPS[_ROUNDED[method]](last * q), full(0, q.shape, q.dtype)
    if method == "inverted_cdf":
        return OPS["ceil"](count * q - number(1.0)), full(0, q.shape, q.dtype)
    if method == "closest_observation":
        position = count * q - number(1.5)
        below = OPS["floor"](position)
        is_tie = OPS["equal"](position, below)
        is_odd = OPS["equal"](OPS["remainder"](below, number(2.0)), number(1.0))
        stays = OPS["logical_and"](is_tie, is_odd)
        return OPS["where"](stays, below, below + number(1.0)), full(0, q.shape, q.dtype)
    if method == "averaged_inverted_cdf":
        position = count * q - number(1.0)
        below = OPS["floor"](position)
        return below, OPS["where"](OPS["equal"](position, below), number(0.5), number(1.0))
    if method == "midpoint":
        position = last * q
        position = (OPS["floor"](position) + OPS["ceil"](position)) * number(0.5)
    elif method == "linear":
        position = last * q
    else:
        a, b = _INTERPOLATED[method]
        position = count * q + (number(a) + q * number(1 - a - b)) - number(1.0)
    below = OPS["floor"](position)
    # A fused multiply-add would find a way to go from what is rounded to an element: 5 * 0.8 - 4.
    is_element = OPS["equal"](position, below)
    return below, OPS["where"](is_element, full(0, (), q.dtype), position - below)


def _interpolated(rows: Node, number: Node, weight: Node, last: Node) -> Node:
    """Between neighbours of each row, which stay where they are beyond its ends."""
    # Without a way to go, the next element counts for nothing, also where it is infinite.
    zero = full(0, (), weight.dtype)
    one = full(1, (), weight.dtype)
    is_between = cast(OPS["greater"](weight, zero), number.dtype)
    low, high = (_element(rows, k, last) for k in (number, number + is_between))
    step = high - low
    is_infinite = OPS["isinf"](step)
    step = OPS["where"](is_infinite, full(0, (), step.dtype), step)
    # From the nearer end, as in NumPy: exact at both.
    way, way_back = cast(weight, step.dtype), cast(one - weight, step.dtype)
    from_low = low + step * way
    from_high = high - step * way_back
    half = full(0.5, (), weight.dtype)
    between = OPS["where"](OPS["less"](weight, half), from_low, from_high)
    mean = low * way_back + high * way
    between = OPS["where"](is_infinite, mean, between)
    # Equal infinities: their difference is nan. Equal numbers are not for this: each neighbour has
    # its part of the gradient.
    is_one = OPS["logical_and"](OPS["equal"](low, high), OPS["isinf"](low))
    return OPS["where"](is_one, OPS["maximum"](low, high), between)
