"""Statistics of NumPy: averages, order statistics, covariances, and those that leave out nan."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend import reduction_functions as reductions
from numba_grad.frontend.arrays import (
    ArrayLike,
    as_node,
    as_optional_dtype,
    is_traced,
    scalar_leaf,
    value_of,
    wrap,
)
from numba_grad.frontend.contraction_functions import diagonal, matmul
from numba_grad.frontend.elementwise_functions import clip, conjugate
from numba_grad.frontend.index_functions import taken_along
from numba_grad.frontend.joining_functions import concatenate
from numba_grad.frontend.reduction_functions import FLOAT64, INT64, Axis, kept
from numba_grad.frontend.scan_functions import cumprod, cumsum
from numba_grad.frontend.shape_functions import matrix_transpose, moved_axes
from numba_grad.frontend.sorting_functions import sort
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes
from numba_grad.ops.families import broadcast_to, cast, full, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor


def average(
    x: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """The mean over `axis`, weighted; with `returned`, also the sum of weights.

    `weights` has the shape of `x`, or that of its axes `axis`. Where they sum to 0 the result is
    nan or infinite; NumPy raises ZeroDivisionError.
    """
    node = as_node(x)
    if weights is None:
        result = reductions.mean(node, axis, keepdims=keepdims)
        counted = reductions.count(node, axis)
        total = full(counted, result.shape, result.dtype)
    else:
        weight = _weights_like(node, as_node(weights), axis)
        dtype = np.result_type(node.dtype, weight.dtype)
        if node.dtype.kind in "bui":
            dtype = np.result_type(dtype, FLOAT64)
        node, weight = cast(node, dtype), cast(weight, dtype)
        total = reductions.reduced("sum", weight, axis, keepdims, "average")
        weighted = reductions.reduced("sum", node * weight, axis, keepdims, "average")
        result = wrap(OPS["divide"](weighted, total))
    return (result, wrap(total)) if returned else result


def _weights_like(x: Node, weights: Node, axis: Axis) -> Node:
    """`weights`, broadcast to the shape of `x`."""
    if weights.shape == x.shape:
        return weights
    got: dict[str, object] = {"x": x.type, "weights": weights.type, "axis": axis}
    if axis is None:
        problem = "weights of another shape than x need an axis"
        raise TypeError(explain("average", problem, got=got))
    axes = normalize_axes("average", axis, len(x.shape))
    given = axis if isinstance(axis, tuple) else (axis,)
    in_order = [k % len(x.shape) for k in given]
    if weights.shape != tuple([x.shape[k] for k in in_order]):
        problem = "weights have neither the shape of x nor that of its axes"
        raise ShapeError(explain("average", problem, got=got))
    order = tuple(np.argsort(in_order).tolist())
    if order != tuple(range(len(order))):
        weights = OPS["transpose"](weights, axes=order)
    return broadcast_to(kept(weights, x, tuple(set(range(len(x.shape))) - set(axes))), x.shape)


# Order statistics


def median(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The middle element over `axis`, or the mean of the two in the middle; nan if there is a nan.

    Gradients flow to the elements in the middle.
    """
    return quantile_of(as_node(x), 0.5, axis, "linear", keepdims, "median")


def quantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> "Tensor":
    """The value below which a part `q` of the elements over `axis` lies; nan if there is a nan.

    `method` is any of NumPy's. Gradients flow to the elements next to it, and to `q` where the
    method interpolates. Axes of `q` come first in the result.

    Raises
    ------
    ValueError
        If `q` is known and not from 0 to 1.
    """
    return quantile_of(as_node(x), q, axis, method, keepdims, "quantile")


def percentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> "Tensor":
    """As `quantile`, with `q` from 0 to 100."""
    return quantile_of(as_node(x), q, axis, method, keepdims, "percentile")


def nanmedian(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """As `median`, of the elements that are not nan; nan if there are none."""
    return quantile_of(as_node(x), 0.5, axis, "linear", keepdims, "nanmedian")


def nanquantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> "Tensor":
    """As `quantile`, of the elements that are not nan; nan if there are none."""
    return quantile_of(as_node(x), q, axis, method, keepdims, "nanquantile")


def nanpercentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> "Tensor":
    """As `percentile`, of the elements that are not nan; nan if there are none."""
    return quantile_of(as_node(x), q, axis, method, keepdims, "nanpercentile")


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
_METHODS = (
    *_INTERPOLATED,
    *_ROUNDED,
    "midpoint",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
)


def quantile_of(
    x: Node, q: ArrayLike, axis: Axis, method: str, keepdims: bool, operation: str
) -> "Tensor":
    """All functions of this family; those whose name begins with "nan" leave out nan."""
    if method not in _METHODS:
        expected = f"one of {', '.join(map(repr, _METHODS))}"
        raise ValueError(explain(operation, f"method={method!r}", expected=expected))
    if x.dtype.kind == "c":
        problem = "not defined for complex numbers, which have no order"
        raise TypeError(explain(operation, problem, got={"x": x.type}))
    is_weak = isinstance(q, int | float) and x.dtype.kind == "f"
    quantiles = scalar_leaf(float(q), x.dtype) if is_weak else as_node(q)  # type: ignore[arg-type]
    limit = 100 if "percentile" in operation else 1
    known = quantiles.value
    if known is not None and not np.all((known >= 0) & (known <= limit)):
        raise ValueError(explain(operation, f"q must be from 0 to {limit}", got={"q": q}))
    if quantiles.dtype.kind != "f":
        quantiles = cast(quantiles, FLOAT64)
    if limit == 100:
        quantiles = OPS["divide"](quantiles, scalar_leaf(100.0, quantiles.dtype))
    axes = normalize_axes(operation, axis, len(x.shape))
    rows = _rows_in_order(x, axes, operation)
    *outside, size = rows.shape
    dtype = np.result_type(quantiles.dtype, x.dtype if x.dtype.kind == "f" else FLOAT64)
    rows = cast(rows, dtype)
    if operation.startswith("nan"):
        is_number = cast(OPS["logical_not"](OPS["isnan"](rows)), INT64)
        count = cast(reductions.reduced("sum", is_number, -1, True), dtype)
    else:
        count = full(size, (), dtype)
    flat = reshape(cast(quantiles, dtype), (quantiles.type.size,))
    number, weight = _number_and_weight(method, count, flat)
    result = _interpolated(rows, number, weight, OPS["subtract"](count, full(1, (), dtype)))
    if not operation.startswith("nan"):
        last = wrap(rows)[..., -1:]._node
        result = OPS["where"](OPS["isnan"](last), last, result)
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


def _rows_in_order(x: Node, axes: tuple[int, ...], operation: str) -> Node:
    """`x` with `axes` as one, the last, sorted: nan at the end."""
    outside = [k for k in range(len(x.shape)) if k not in axes]
    size = reductions.count(x, axes)
    if size == 0:
        problem = "no elements along the axis"
        raise IndexError(explain(operation, problem, got={"x": x.type, "axis": axes}))
    order = (*outside, *axes)
    if order != tuple(range(len(order))):
        x = OPS["transpose"](x, axes=order)
    return sort(wrap(reshape(x, (*x.shape[: len(outside)], size))))._node


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
    return below, position - below


def _interpolated(rows: Node, number: Node, weight: Node, last: Node) -> Node:
    """Between neighbours of each row, which stay where they are beyond its ends."""
    zero = full(0, (), number.dtype)

    def element(k: Node) -> Node:
        within = OPS["maximum"](OPS["minimum"](k, last), zero)
        shape = np.broadcast_shapes(within.shape, (*rows.shape[:-1], 1))
        index = broadcast_to(cast(within, INT64), shape)
        return taken_along(rows, index, len(rows.shape) - 1, checked=False)

    # Without a way to go, the next element counts for nothing, also where it is infinite.
    zero = full(0, (), weight.dtype)
    one = full(1, (), weight.dtype)
    is_between = cast(OPS["greater"](weight, zero), number.dtype)
    low, high = element(number), element(number + is_between)
    step = high - low
    is_infinite = OPS["isinf"](step)
    step = OPS["where"](is_infinite, full(0, (), step.dtype), step)
    # From the nearer end, as in NumPy: exact at both.
    from_low = low + step * weight
    from_high = high - step * (one - weight)
    half = full(0.5, (), weight.dtype)
    between = OPS["where"](OPS["less"](weight, half), from_low, from_high)
    mean = low * (one - weight) + high * weight
    between = OPS["where"](is_infinite, mean, between)
    # Equal infinities: their difference is nan.
    return OPS["where"](OPS["equal"](low, high), low, between)


# Covariances


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: object = None,
) -> "Tensor":
    """The covariances of the variables that are the rows of `m` (and of `y`), or the columns.

    Divides by n - ddof; `ddof` is 1, or 0 with `bias`. `fweights` are numbers of repetitions,
    `aweights` importances, as in NumPy. Not above zero, the divisor makes nan or infinity.
    """
    observations = _variables(m, rowvar, "cov")
    wanted = as_optional_dtype(dtype)
    if y is not None:
        observations = concatenate([observations, _variables(y, rowvar, "cov")], axis=0)
    node = observations._node
    computing = np.result_type(node.dtype, FLOAT64) if wanted is None else wanted
    x = wrap(cast(node, computing))
    if ddof is None:
        ddof = 0 if bias else 1
    count = node.shape[1]
    if fweights is None and aweights is None:
        x = x - reductions.mean(x, 1, keepdims=True)
        product = matmul(x, conjugate(matrix_transpose(x)))
        divisor = float(count - ddof)
        return _squeezed(product / (divisor if divisor > 0 else 0.0))
    given = [_weights_of(w, count) for w in (fweights, aweights) if w is not None]
    weights = functools.reduce(lambda a, b: a * b, given)
    total = weights.sum()
    x = x - (x * weights).sum(axis=1, keepdims=True) / total
    if aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * (weights * given[-1]).sum() / total
    product = matmul(x * weights, conjugate(matrix_transpose(x)))
    return _squeezed(product / factor)


def _variables(m: ArrayLike, rowvar: bool, operation: str) -> "Tensor":
    """2-d, a variable in each row."""
    node = as_node(m)
    if len(node.shape) > 2:
        problem = "more than two axes"
        raise ShapeError(explain(operation, problem, got={"m": node.type}, expected="1-d or 2-d"))
    if len(node.shape) < 2:
        return wrap(reshape(node, (1, node.type.size)))
    return wrap(node) if rowvar else matrix_transpose(wrap(node))


def _weights_of(weights: ArrayLike, count: int) -> "Tensor":
    node = as_node(weights)
    if node.shape != (count,):
        problem = "one weight for each observation"
        got: dict[str, object] = {"weights": node.type, "observations": count}
        raise ShapeError(explain("cov", problem, got=got))
    return wrap(cast(node, np.result_type(node.dtype, FLOAT64)))


def _squeezed(x: "Tensor") -> "Tensor":
    return wrap(reshape(x._node, tuple([n for n in x.shape if n != 1])))


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: object = None
) -> "Tensor":
    """The correlations of the variables that are the rows of `x` (and of `y`), or the columns.

    nan for a variable that does not vary.
    """
    covariances = cov(x, y, rowvar, dtype=dtype)
    if not covariances.shape:
        return covariances / covariances
    deviations = reductions.root_with_gradient_0_at_0(
        OPS["real"](diagonal(covariances)._node)
        if covariances.dtype.kind == "c"
        else diagonal(covariances)._node
    )
    size = deviations.type.size
    column = wrap(reshape(deviations, (size, 1)))
    row = wrap(reshape(deviations, (1, size)))
    result = covariances / column / row
    if result.dtype.kind == "c":
        node = result._node
        parts = [clip(wrap(OPS[part](node)), -1, 1)._node for part in ("real", "imag")]
        return wrap(OPS["make_complex"](*parts))
    return clip(result, -1, 1)


# Without nan


def _replaced(x: Node, number: float) -> Node:
    """`x` with `number` for nan."""
    if x.dtype.kind not in "fc":
        return x
    return OPS["where"](OPS["isnan"](x), scalar_leaf(number, x.dtype), x)


def _numbers(x: Node, axis: Axis, keepdims: bool, dtype: np.dtype) -> Node:
    """How many elements over `axis` are not nan."""
    is_number = OPS["logical_not"](OPS["isnan"](x))
    return cast(reductions.reduced("sum", cast(is_number, INT64), axis, keepdims), dtype)


def nansum(
    x: ArrayLike, axis: Axis = None, dtype: object = None, *, keepdims: bool = False
) -> "Tensor":
    """As `sum`, with 0 for nan."""
    return reductions.sum(wrap(_replaced(as_node(x), 0.0)), axis, dtype, keepdims=keepdims)


def nanprod(
    x: ArrayLike, axis: Axis = None, dtype: object = None, *, keepdims: bool = False
) -> "Tensor":
    """As `prod`, with 1 for nan."""
    return reductions.prod(wrap(_replaced(as_node(x), 1.0)), axis, dtype, keepdims=keepdims)


def nancumsum(x: ArrayLike, axis: int | None = None, dtype: object = None) -> "Tensor":
    """As `cumsum`, with 0 for nan."""
    return cumsum(wrap(_replaced(as_node(x), 0.0)), axis, dtype)


def nancumprod(x: ArrayLike, axis: int | None = None, dtype: object = None) -> "Tensor":
    """As `cumprod`, with 1 for nan."""
    return cumprod(wrap(_replaced(as_node(x), 1.0)), axis, dtype)


def nanmean(
    x: ArrayLike, axis: Axis = None, dtype: object = None, *, keepdims: bool = False
) -> "Tensor":
    """As `mean`, of the elements that are not nan; nan if there are none."""
    node = as_node(x)
    if node.dtype.kind not in "fc":
        return reductions.mean(x, axis, dtype, keepdims=keepdims)
    computing, result = reductions.mean_dtypes(node.dtype, as_optional_dtype(dtype))
    total = reductions.reduced("sum", cast(_replaced(node, 0.0), computing), axis, keepdims)
    return wrap(cast(OPS["divide"](total, _numbers(node, axis, keepdims, computing)), result))


def nanvar(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> "Tensor":
    """As `var`, of the elements that are not nan; nan if there are not more than ddof of them."""
    node = as_node(x)
    if node.dtype.kind not in "fc":
        return reductions.var(x, axis, dtype, ddof=ddof, keepdims=keepdims)
    variance, result = _nan_variance(node, axis, as_optional_dtype(dtype), ddof, keepdims)
    return wrap(cast(variance, result))


def nanstd(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> "Tensor":
    """The square root of `nanvar`. Gradient 0 where it is 0."""
    node = as_node(x)
    if node.dtype.kind not in "fc":
        return reductions.std(x, axis, dtype, ddof=ddof, keepdims=keepdims)
    variance, result = _nan_variance(node, axis, as_optional_dtype(dtype), ddof, keepdims)
    return wrap(cast(reductions.root_with_gradient_0_at_0(variance), result))


def _nan_variance(
    x: Node, axis: Axis, wanted: np.dtype | None, ddof: float, keepdims: bool
) -> tuple[Node, np.dtype]:
    computing, result = reductions.mean_dtypes(x.dtype, wanted)
    x = cast(x, computing)
    count = _numbers(x, axis, True, computing)
    center = OPS["divide"](reductions.reduced("sum", _replaced(x, 0.0), axis, True), count)
    # Zero before it is subtracted from: the derivative of nan - center is not asked for.
    is_nan = OPS["isnan"](x)
    distances = OPS["where"](is_nan, full(0, (), computing), _replaced(x, 0.0) - center)
    squares = reductions.squared_magnitude(distances)
    if result.kind == "c":
        result = squares.dtype
    total = reductions.reduced("sum", squares, axis, keepdims)
    divisor = _numbers(x, axis, keepdims, total.dtype) - scalar_leaf(float(ddof), total.dtype)
    zero = full(0, (), total.dtype)
    is_enough = OPS["greater"](divisor, zero)
    nan = full(np.nan, (), total.dtype)
    quotient = OPS["divide"](total, OPS["where"](is_enough, divisor, full(1, (), total.dtype)))
    return OPS["where"](is_enough, quotient, nan), result


def nanmax(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """As `max`, of the elements that are not nan; nan if there are none."""
    return _nan_extreme("max", x, axis, keepdims)


def nanmin(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """As `min`, of the elements that are not nan; nan if there are none."""
    return _nan_extreme("min", x, axis, keepdims)


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
    if node.dtype.kind != "f":
        return find(node, axis, keepdims=keepdims)
    position = find(_replaced(node, replacement), axis, keepdims=keepdims)._node
    is_nothing = reductions.reduced("all", OPS["isnan"](node), axis, keepdims, operation)
    if is_traced(is_nothing):
        return wrap(OPS["where"](is_nothing, full(-1, (), INT64), position))
    if value_of(is_nothing, operation).any():
        raise ValueError(explain(operation, "only nan along the axis", got={"x": node.type}))
    return wrap(position)


def _nan_extreme(op_name: str, x: ArrayLike, axis: Axis, keepdims: bool) -> "Tensor":
    node = as_node(x)
    if node.dtype.kind != "f":
        return wrap(reductions.reduced(op_name, node, axis, keepdims))
    least = -np.inf if op_name == "max" else np.inf
    found = reductions.reduced(op_name, _replaced(node, least), axis, keepdims, f"nan{op_name}")
    only_nan = reductions.reduced("all", OPS["isnan"](node), axis, keepdims)
    return wrap(OPS["where"](only_nan, full(np.nan, (), node.dtype), found))
