"""Functions that count: histograms."""

import builtins
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import FLOAT64, INT64, promoted
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.elementwise import where
from numba_grad.frontend.functions.joining import unstack
from numba_grad.frontend.functions.ranges import linspace
from numba_grad.frontend.functions.reductions import sum as total
from numba_grad.frontend.functions.shapes import diff, part
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    canonical_dtype,
    constant_beside,
    node_of,
    scalar_leaf,
    value_of,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast, flattened, full, literal, placed, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


Range = tuple[float, float]
Bins = int | str | ArrayLike


def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> "Tensor":
    """How often each of the integers 0, 1, 2, ... occurs in `x`, or the sum of weights there.

    Parameters
    ----------
    x : Tensor of integers >= 0, shape (n,)
        Its value is needed now. Inside jit and vmap, where there is none, `minlength` is the
        length.
    weights : Tensor, shape (n,), real, optional
    minlength : int
        The result is at least so long.

    Returns
    -------
    Tensor of int64, or with weights float64, shape (max(x) + 1,)

    Raises
    ------
    ValueError
        If an element is negative.
    TracingError
        Inside jit and vmap, without `minlength`.
    IndexError
        There, when it is computed, if an element is negative, or not below `minlength`.

    Notes
    -----
    The gradient flows to the weights.
    """
    node = as_node(x)
    got: dict[str, object] = {"x": node.type}
    if node.dtype.kind not in "biu":
        raise DTypeError(explain("bincount", "x must be of integers", got=got, fix="x.astype(int)"))
    if len(node.shape) != 1:
        raise ShapeError(explain("bincount", "x must be 1-d", got=got, fix="x.ravel()"))
    if minlength < 0:
        raise ValueError(explain("bincount", "a negative length", got={"minlength": minlength}))
    indices, length, is_checked = cast(node, INT64), minlength, False
    if is_traced(node) and minlength:
        # As an index -1 would be the last element.
        indices = OPS["where"](
            OPS["less"](indices, literal(0, INT64)), literal(length, INT64), indices
        )
        is_checked = True
    else:
        value = value_of(node, "bincount")
        if value.size and value.min() < 0:
            problem = "negative elements"
            raise ValueError(explain("bincount", problem, got={**got, "least": value.min()}))
        length = max(int(value.max()) + 1 if value.size else 0, minlength)
    terms = _terms("bincount", node, None if weights is None else cast(as_node(weights), FLOAT64))
    if not length:
        return wrap(full(0, (0,), terms.dtype, node.type.device))
    counts = full(0, (length,), terms.dtype)
    return wrap(OPS["scatter_add"](counts, terms, indices, checked=is_checked))


def histogram(
    x: ArrayLike,
    bins: Bins = 10,
    range: Range | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> "tuple[Tensor, Tensor]":
    """How many elements of the flattened `x` are in each bin, or the sum of their weights.

    Parameters
    ----------
    x : Tensor, any shape, real
    bins : int, str or Tensor
        A number of equal bins, the name of one of NumPy's rules to choose them, or their edges,
        which increase.
    range : (float, float), optional
        Ends of the bins; by default the least and the greatest element.
    density : bool
        Divide by the sum, and by widths: the integral is then 1.
    weights : Tensor, the shape of `x`, optional

    Returns
    -------
    counts : Tensor, of int64, or the dtype of the weights, or for densities floating
    edges : Tensor, one more

    Raises
    ------
    ValueError
        If edges do not increase, or there is no finite range.
    TracingError
        Inside jit and vmap, if `bins` is a name.

    Notes
    -----
    A bin includes its lower edge, and the last one also its upper edge. nan is nowhere. The
    gradient flows to the weights: counts do not change with `x`, but jump.
    """
    node = as_node(x)
    if node.dtype.kind == "c":
        problem = "complex numbers have no order"
        raise DTypeError(explain("histogram", problem, got={"x": node.type}, fix="x.real"))
    given = None if weights is None else as_node(weights)
    terms = _terms("histogram", node, given)
    flat = flattened(node)
    edges = _edges(flat, bins, range, given)
    counts = _counts(flat, edges, reshape(terms, flat.shape), equal=_is_equal(bins))
    if density:
        dtype = canonical_dtype(promoted(counts.dtype, FLOAT64))
        of_bins = OPS["divide"](cast(counts, dtype), cast(diff(edges)._node, dtype))
        counts = OPS["divide"](of_bins, cast(total(counts)._node, dtype))
    return wrap(counts), wrap(edges)


def histogramdd(
    sample: ArrayLike,
    bins: int | Sequence[int | ArrayLike] = 10,
    range: Sequence[Range | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> "tuple[Tensor, tuple[Tensor, ...]]":
    """How many points are in each of the boxes of a grid, or the sum of their weights.

    Parameters
    ----------
    sample : Tensor, shape (n, d), or a sequence of d tensors, (n,)
    bins : a number of bins for each axis, or d numbers or tensors of edges
    range : (float, float) or None for each axis
    density : bool
        Divide by the sum, and by volumes.
    weights : Tensor, shape (n,), optional

    Returns
    -------
    counts : Tensor of float64 (complex128 for complex weights), of d axes
    edges : d tensors

    Notes
    -----
    Edges, errors and gradient are those of `histogram`.
    """
    axes = _axes_of(sample)
    given: Any = bins
    each = [bins] * len(axes) if _is_number(bins) else list(given)
    ranges = [None] * len(axes) if range is None else list(range)
    if not len(each) == len(ranges) == len(axes):
        problem = "needs bins, and a range, for each axis"
        got: dict[str, object] = {"axes": len(axes), "bins": len(each), "range": len(ranges)}
        raise ShapeError(explain("histogramdd", problem, got=got))
    edges = [_edges(*arguments, None) for arguments in zip(axes, each, ranges, strict=True)]
    terms = _terms("histogramdd", axes[0], None if weights is None else as_node(weights))
    terms = cast(terms, canonical_dtype(promoted(terms.dtype, FLOAT64)))
    sizes = tuple([one.shape[0] - 1 for one in edges])
    counts = full(0, tuple([size + 2 for size in sizes]), terms.dtype)
    places = [
        _places(x, own, equal=_is_equal(one)) for x, own, one in zip(axes, edges, each, strict=True)
    ]
    counts = OPS["scatter_add"](counts, terms, *places, checked=False)
    for axis, size in enumerate(sizes):
        counts = part(counts, axis, 1, size + 1)
    if density:
        whole = total(counts)._node
        for axis, own in enumerate(edges):
            widths = cast(diff(own)._node, counts.dtype)
            shape = tuple([sizes[axis] if k == axis else 1 for k in builtins.range(len(sizes))])
            counts = OPS["divide"](counts, reshape(widths, shape))
        counts = OPS["divide"](counts, whole)
    return wrap(counts), tuple([wrap(own) for own in edges])


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: int | ArrayLike | Sequence[int | ArrayLike] = 10,
    range: Sequence[Range | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> "tuple[Tensor, Tensor, Tensor]":
    """`histogramdd` of two axes, given one by one; edges that are not two are for both axes.

    Returns
    -------
    counts : Tensor, a row for each bin of `x`, a column for each bin of `y`
    edges of x, edges of y : Tensor
    """
    each: Any = bins
    if not _is_number(bins) and len(each) > 2:
        each = [bins, bins]
    counts, (x_edges, y_edges) = histogramdd([x, y], each, range, density, weights)
    return counts, x_edges, y_edges


def _is_number(bins: object) -> bool:
    return not isinstance(bins, Sequence) and not as_node(bins).shape


def _axes_of(sample: ArrayLike) -> list[Node]:
    """The coordinates of points, axis by axis."""
    if isinstance(sample, Sequence):
        axes = [as_node(x) for x in sample]
    else:
        node = as_node(sample)
        node = node if len(node.shape) == 2 else reshape(node, (node.type.size, 1))
        axes = [x._node for x in unstack(wrap(node), axis=1)]
    if any(len(x.shape) != 1 or x.shape != axes[0].shape or x.dtype.kind == "c" for x in axes):
        got: dict[str, object] = {f"axis {k}": x.type for k, x in enumerate(axes)}
        expected = "real, shape (n, d), or d of shape (n,)"
        raise ShapeError(explain("histogramdd", "no points", got=got, expected=expected))
    return axes


def histogram_bin_edges(
    x: ArrayLike,
    bins: Bins = 10,
    range: Range | None = None,
    weights: ArrayLike | None = None,
) -> "Tensor":
    """The edges of `histogram` for the same arguments. Without a gradient."""
    node = as_node(x)
    flat = flattened(node)
    return wrap(_edges(flat, bins, range, None if weights is None else as_node(weights)))


def _terms(operation: str, x: Node, weights: Node | None) -> Node:
    """What each element of `x` adds."""
    if weights is None:
        return full(1, x.shape, INT64)
    if weights.shape != x.shape:
        got: dict[str, object] = {"x": x.type, "weights": weights.type}
        raise ShapeError(explain(operation, "needs a weight for each element", got=got))
    return weights


def _edges(x: Node, bins: Bins, ends: Range | None, weights: Node | None) -> Node:
    is_name = isinstance(bins, str)
    edges = None if is_name else as_node(bins)
    if edges is None or not edges.shape:
        number = bins if is_name else operator.index(bins)  # type: ignore[arg-type]
        if isinstance(number, int) and number > 0 and ends is None and x.type.size and is_traced(x):
            return _edges_between_extremes(x, number)
        needs_value = x.type.size > 0 and (is_name or ends is None)
        value = value_of(x, "histogram") if needs_value else np.empty(0, x.dtype)
        if value.dtype.kind == "b":
            value = value.astype(np.uint8)
        if ends is not None:
            low, high = map(_known_end, ends)
            ends = (low, high)
        own = None if weights is None or not is_name else value_of(weights, "histogram").ravel()
        return constant_beside(x, np.histogram_bin_edges(value, number, ends, own))
    got: dict[str, object] = {"bins": edges.type}
    if len(edges.shape) != 1:
        raise ShapeError(explain("histogram", "edges must be 1-d", got=got))
    edges = placed(edges, x.type.device)
    if not is_traced(edges) and (np.diff(value_of(edges).astype(float)) < 0).any():
        raise ValueError(explain("histogram", "edges must increase", got=got, fix="np.sort(bins)"))
    return edges


def _known_end(end: Any) -> Any:
    """A number of the dtype of `end`, on which the dtype of the edges depends."""
    node = node_of(end)
    return end if node is None else value_of(node, "histogram")[()]


def _edges_between_extremes(x: Node, bins: int) -> Node:
    """Edges of equal bins from the least to the greatest element, whose values are not known
    yet. nan and infinities, which are an error else, make all of them nan."""
    dtype = x.dtype if x.dtype.kind == "f" else FLOAT64
    values = wrap(OPS["detach"](cast(x, dtype)))
    low, high = values.min(), values.max()
    half = where(low == high, 0.5, 0.0)
    return linspace(low - half, high + half, bins + 1, dtype=dtype)._node


def _is_equal(bins: Any) -> bool:
    """Whether bins are equally wide: a number of them, or the name of a rule."""
    return isinstance(bins, str) or not as_node(bins).shape


def _counts(x: Node, edges: Node, terms: Node, *, equal: bool) -> Node:
    """Sums of terms in the bins between the edges."""
    bins = edges.shape[0] - 1
    if bins < 1:
        return full(0, (0,), terms.dtype, x.type.device)
    counts = full(0, (bins + 2,), terms.dtype)
    counts = OPS["scatter_add"](counts, terms, _places(x, edges, equal=equal), checked=False)
    return part(counts, 0, 1, bins + 1)


def _places(x: Node, edges: Node, *, equal: bool) -> Node:
    """The number of the bin of each element, from 1; 0 below all bins, and one more than there are
    above them."""
    bins = edges.shape[0] - 1
    dtype = canonical_dtype(promoted(x.dtype, edges.dtype))
    x, edges = cast(x, dtype), cast(edges, dtype)
    if equal:
        return _places_in_equal_bins(x, edges)
    place = OPS["searchsorted"](edges, x, right=True)
    last = reshape(part(edges, 0, bins, bins + 1), ())
    return OPS["where"](OPS["equal"](x, last), scalar_leaf(bins, INT64), place)


def _places_in_equal_bins(x: Node, edges: Node) -> Node:
    """As `_places`, by division: rounding misses the bin by one at most, which the edges tell."""
    bins = edges.shape[0] - 1
    first, last = (reshape(part(edges, 0, k, k + 1), ()) for k in (0, bins))
    is_within = OPS["logical_and"](OPS["greater_equal"](x, first), OPS["less_equal"](x, last))
    within = OPS["where"](is_within, x, first)
    distance, width = (cast(z, FLOAT64) - cast(first, FLOAT64) for z in (within, last))
    number = OPS["divide"](distance * scalar_leaf(float(bins), FLOAT64), width)
    limit, one = scalar_leaf(bins - 1, INT64), scalar_leaf(1, INT64)
    place = OPS["minimum"](cast(number, INT64), limit)
    is_below = OPS["less"](within, OPS["gather"](edges, place, checked=False))
    is_above = OPS["logical_and"](
        OPS["greater_equal"](within, OPS["gather"](edges, place + one, checked=False)),
        OPS["less"](place, limit),
    )
    place = place - cast(is_below, INT64) + cast(is_above, INT64)
    beyond = cast(OPS["greater"](x, last), INT64) * scalar_leaf(bins + 1, INT64)
    return OPS["where"](is_within, place + one, beyond)
