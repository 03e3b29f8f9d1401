"""Functions of samples in a row: convolution and correlation, interpolation, differences."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import BOOL, FLOAT64, INT64, can_cast, computed_in
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.joining import concatenate
from numba_grad.frontend.functions.shapes import diff, part
from numba_grad.frontend.inputs.arrays import ArrayLike, as_arrays, as_node, scalar_leaf, wrap
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.elementwise import conjugated
from numba_grad.ops.families import cast, flattened, full, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["convolve", "correlate", "ediff1d", "interp"]


# Convolution


@by_types(operands=2)
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> "Tensor":
    """Sums of products of `a` with `v` backwards: result[i] = sum over j of a[i - j] * v[j].

    Parameters
    ----------
    a : Tensor, shape (n,)
    v : Tensor, shape (m,)
    mode : "full", "same" or "valid"
        Results wherever the two overlap, n + m - 1; the max(n, m) in their middle; those where the
        shorter one lies inside the longer one, max(n, m) - min(n, m) + 1.

    Returns
    -------
    Tensor of the common dtype

    Raises
    ------
    ShapeError
        If one is not 1-d.
    ValueError
        If one is empty, or for another mode.

    Notes
    -----
    Sums of n * m products, as NumPy's; nothing of that size is stored. Gradients are correlations.
    """

    def of_operands(x: Node, y: Node) -> Node:
        if y.shape[0] > x.shape[0]:
            x, y = y, x
        return _correlated(x, OPS["flip"](y, axes=(0,)), mode)

    return _of_two_rows("convolve", a, v, mode, of_operands)


@by_types(operands=2)
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> "Tensor":
    """Sums of products of `a` with `v` at each place k: the sum over j of a[j + k] * conj(v[j]).

    Arguments, modes and errors are those of `convolve`.
    """

    def of_operands(x: Node, y: Node) -> Node:
        y = conjugated(y)
        if y.shape[0] > x.shape[0]:
            return OPS["flip"](_correlated(y, x, mode), axes=(0,))
        return _correlated(x, y, mode)

    return _of_two_rows("correlate", a, v, mode, of_operands)


def _correlated(x: Node, y: Node, mode: str) -> Node:
    """For a `y` that is not longer than `x`."""
    n, m = x.shape[0], y.shape[0]
    offset, size = {"full": (1 - m, n + m - 1), "same": (-(m // 2), n), "valid": (0, n - m + 1)}[
        mode
    ]
    return OPS["correlate"](x, y, offset=offset, size=size)


def _of_two_rows(
    operation: str, a: ArrayLike, v: ArrayLike, mode: str, function: Callable[[Node, Node], Node]
) -> "Tensor":
    """The function of two 1-d arrays, in a dtype that it can be computed in."""
    if mode not in ("full", "same", "valid"):
        expected = "'full', 'same' or 'valid'"
        raise ValueError(explain(operation, "no such mode", got={"mode": mode}, expected=expected))
    x, y = as_arrays((a, v))
    got: dict[str, object] = {"a": x.type, "v": y.type}
    if len(x.shape) > 1 or len(y.shape) > 1:
        raise ShapeError(explain(operation, "takes arrays of one axis", got=got, fix="a.ravel()"))
    x, y = (flattened(z) for z in (x, y))
    if not (x.type.size and y.type.size):
        raise ValueError(explain(operation, "an empty array", got=got))
    dtype = x.dtype
    computing = INT64 if dtype == BOOL else computed_in(dtype)
    return wrap(cast(function(cast(x, computing), cast(y, computing)), dtype))


# Interpolation


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: float | None = None,
) -> "Tensor":
    """The values at `x` of straight lines between the points (xp, fp).

    Parameters
    ----------
    x : Tensor, any shape, real
    xp : Tensor, shape (n,), real, increasing; with `period`, in any order
    fp : Tensor, shape (n,), real or complex
    left, right : Tensor, 0-d, optional
        Values for x < xp[0] and x > xp[-1]; by default fp[0] and fp[-1].
    period : float, optional
        Of x: places are then taken modulo the period, and left and right are ignored.

    Returns
    -------
    Tensor of float64, or complex128 for complex `fp`, the shape of `x`

    Raises
    ------
    ShapeError
        If xp and fp are not of one length, 1-d.
    ValueError
        If they are empty, or the period is 0.

    Notes
    -----
    By binary search. Differentiable by x, xp, fp, left and right. At a point the gradient by x is
    the slope to the right of it: 0 from the last one on.
    """
    at, places, values = _interpolated(x, xp, fp)
    if period is not None:
        at, places, values = _periodic(at, places, values, period)
        left = right = None
    count = places.shape[0]
    first, last = _element(places, 0), _element(places, count - 1)
    below = _element(values, 0) if left is None else cast(as_node(left), values.dtype)
    above = _element(values, count - 1) if right is None else cast(as_node(right), values.dtype)
    ends = OPS["where"](OPS["greater"](at, last), above, _element(values, count - 1))
    if count > 1:
        # nan is neither beyond an end nor inside.
        is_inside = OPS["logical_and"](OPS["greater_equal"](at, first), OPS["less"](at, last))
        ends = OPS["where"](is_inside, _on_lines(at, places, values, is_inside), ends)
    result = OPS["where"](OPS["less"](at, first), below, ends)
    return wrap(OPS["where"](OPS["isnan"](at), cast(at, values.dtype), result))


def _interpolated(x: ArrayLike, xp: ArrayLike, fp: ArrayLike) -> tuple[Node, Node, Node]:
    at, places, values = as_node(x), as_node(xp), as_node(fp)
    got: dict[str, object] = {"x": at.type, "xp": places.type, "fp": values.type}
    if len(places.shape) != 1 or places.shape != values.shape:
        raise ShapeError(explain("interp", "xp and fp must be 1-d and of one length", got=got))
    if not places.shape[0]:
        raise ValueError(explain("interp", "there are no points", got=got))
    if "c" in (at.dtype.kind, places.dtype.kind):
        raise DTypeError(explain("interp", "complex places have no order", got=got, fix="x.real"))
    result = np.dtype(np.complex128) if values.dtype.kind == "c" else FLOAT64
    return cast(at, FLOAT64), cast(places, FLOAT64), cast(values, result)


def _periodic(at: Node, places: Node, values: Node, period: float) -> tuple[Node, Node, Node]:
    """Places from 0 to the period, and the points in order, with one more on either side."""
    if period == 0:
        raise ValueError(explain("interp", "the period must not be 0", got={"period": period}))
    length = cast(as_node(abs(period)), FLOAT64)
    at, places = OPS["remainder"](at, length), OPS["remainder"](places, length)
    order = OPS["argsort"](places, axis=0, descending=False)
    places, values = (OPS["gather"](z, order, checked=False) for z in (places, values))
    count = places.shape[0]
    before, after = part(places, 0, count - 1, count), part(places, 0, 0, 1)
    places = OPS["concatenate"](before - length, places, after + length, axis=0)
    before, after = part(values, 0, count - 1, count), part(values, 0, 0, 1)
    return at, places, OPS["concatenate"](before, values, after, axis=0)


def _element(x: Node, number: int) -> Node:
    return reshape(part(x, 0, number, number + 1), ())


def _on_lines(at: Node, places: Node, values: Node, is_inside: Node) -> Node:
    """The values on the lines between points; something finite where `at` is beyond them."""
    one = full(1, (), INT64)
    index = OPS["searchsorted"](places, at, right=True) - one
    index = OPS["maximum"](index, full(0, (), INT64))
    index = OPS["minimum"](index, scalar_leaf(places.shape[0] - 2, INT64))
    x0, x1, y0, y1 = (
        OPS["gather"](z, k, checked=False) for z in (places, values) for k in (index, index + one)
    )
    # Selected first, so that neither 0 / 0 nor infinity is in a gradient.
    zero = full(0, (), FLOAT64)
    width = OPS["where"](is_inside, x1 - x0, full(1, (), FLOAT64))
    starts_at_infinity = OPS["isinf"](x0)
    start, value = (OPS["where"](starts_at_infinity, b, a) for a, b in ((x0, x1), (y0, y1)))
    distance = OPS["where"](is_inside, at - start, zero)
    slope = OPS["divide"](y1 - y0, cast(width, values.dtype))
    # At a point itself its neighbour does not count, also where it is infinite.
    counts = OPS["logical_or"](OPS["isfinite"](slope), OPS["not_equal"](distance, zero))
    slope = OPS["where"](counts, slope, full(0, (), values.dtype))
    return slope * cast(distance, values.dtype) + value


# Differences


def ediff1d(
    x: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> "Tensor":
    """Differences of neighbours in the flattened `x`, between `to_begin` and `to_end`, flattened.

    Raises
    ------
    TypeError
        If these cannot be cast to the dtype of `x` ("same_kind").
    """
    node = as_node(x)
    parts: list[Any] = [diff(flattened(node))]
    if to_begin is not None:
        parts.insert(0, _flat_like("to_begin", to_begin, node))
    if to_end is not None:
        parts.append(_flat_like("to_end", to_end, node))
    return concatenate(parts)


def _flat_like(name: str, value: ArrayLike, x: Node) -> "Tensor":
    node = as_node(value)
    if not can_cast(node.dtype, x.dtype, "same_kind"):
        raise DTypeError(
            explain(
                "ediff1d",
                f"{name} does not fit in the dtype of x",
                got={"x": x.type, name: node.type},
                fix=f"x.astype({node.dtype.name!r})",
            )
        )
    return wrap(cast(flattened(node), x.dtype))
