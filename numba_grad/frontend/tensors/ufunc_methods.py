"""Methods of NumPy's ufuncs on tensors: `reduce`, `accumulate`, `reduceat`, `at`.

Those of a ufunc that has a reduction or scan of its own call that. Others are folds: all that is
needed of the ufunc is that it is associative.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd import views
from numba_grad.dtypes import BOOL, INT64, can_cast
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions import nans, reductions, scans
from numba_grad.frontend.functions.indexing import index_of_nodes, mask_value
from numba_grad.frontend.functions.reductions import Axis, kept, mask_like
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    constant_beside,
    node_of,
    operands,
    scalar_leaf,
    value_of,
    wrap,
)
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.placement import goes_along
from numba_grad.graph.types import as_dtype, normalize_axes, reduced_axes
from numba_grad.ops.families import broadcast_to, cast, full, loop_dtypes, placed, reshape
from numba_grad.ops.index_expressions import add_at_index, assign_index, fit, take_index
from numba_grad.ops.indexing import scatter_add
from numba_grad.ops.movement import inverse_permutation

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.associative_folds import Join

Function = Callable[..., Any]

# What joined with itself is itself.
_IDEMPOTENT = frozenset(
    (
        *(np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or),
        *(np.bitwise_and, np.bitwise_or, np.gcd, np.lcm),
    )
)
# Associative and commutative: what their methods join may be grouped in any way. With rounding they
# are so nearly, as sums are.
ASSOCIATIVE = _IDEMPOTENT.union(
    (np.add, np.multiply, np.logaddexp, np.logaddexp2, np.hypot, np.logical_xor, np.bitwise_xor)
)
_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor)


# reduce


def reduce_of(ufunc: np.ufunc, function: Function) -> Function | None:
    """`ufunc.reduce`, for a `function` that stands for the ufunc; None if it is not associative."""
    if ufunc not in ASSOCIATIVE:
        return None
    whole = _functions_of_numpy.get(ufunc) or _reduction(ufunc, _join(function))
    has_dtype = ufunc in (np.add, np.multiply)

    def reduce(
        x: ArrayLike,
        axis: Axis = 0,
        dtype: object = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Any:
        """Elements along `axis` joined by the ufunc, of those for which the mask `where` is true;
        and with `initial`."""
        if has_dtype:
            return whole(x, axis, dtype, keepdims=keepdims, initial=initial, where=where)
        node = x if dtype is None else cast(as_node(x), as_dtype(dtype))
        return whole(node, axis, keepdims=keepdims, initial=initial, where=where)

    return reduce


# Those with all of NumPy's arguments under a name of their own.
_functions_of_numpy: dict[np.ufunc, Function] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.fmax: nans.nanmax,
    np.fmin: nans.nanmin,
}


def _parity(x: Node, axes: tuple[int, ...]) -> Node:
    count = OPS["sum"](cast(x, INT64), axes=axes)
    return cast(OPS["remainder"](count, as_node(2)), BOOL)


def _length(x: Node, axes: tuple[int, ...]) -> Node:
    """The square root of the sum of squares, relative to the largest, so that none overflows."""
    size = OPS["absolute"](x)
    largest = reductions.finite_maximum(size, axes, "hypot.reduce")
    is_zero = OPS["equal"](largest, full(0, (), x.dtype))
    scale = OPS["where"](is_zero, full(1, (), x.dtype), largest)
    total = OPS["sum"](OPS["square"](OPS["divide"](size, scale)), axes=axes)
    root = reductions.root_with_gradient_0_at_0(total)
    result = OPS["multiply"](root, reshape(scale, total.shape))
    # Also beside nan.
    is_infinite = OPS["any"](OPS["isinf"](x), axes=axes)
    return OPS["where"](is_infinite, full(np.inf, (), x.dtype), result)


def _log2_of_sum(x: Node, axes: tuple[int, ...]) -> Node:
    factor = scalar_leaf(math.log(2), x.dtype)
    return OPS["divide"](reductions.logsumexp(x * factor, axes)._node, factor)


_OF_BOOL = {np.bitwise_and: "all", np.bitwise_or: "any"}


def _of_bits(ufunc: np.ufunc) -> Callable[[Node, tuple[int, ...]], Node]:
    def reduced(x: Node, axes: tuple[int, ...]) -> Node:
        if x.dtype != BOOL:
            return OPS[f"{ufunc.__name__}_reduce"](x, axes=axes)
        return OPS[_OF_BOOL[ufunc]](x, axes=axes) if ufunc in _OF_BOOL else _parity(x, axes)

    return reduced


# Over one axis or more, of nodes in the dtype that is joined in.
_reductions: dict[np.ufunc, Callable[[Node, tuple[int, ...]], Node]] = {
    np.logaddexp: lambda x, axes: reductions.logsumexp(x, axes)._node,
    np.logaddexp2: _log2_of_sum,
    np.hypot: _length,
    np.logical_and: lambda x, axes: OPS["all"](x, axes=axes),
    np.logical_or: lambda x, axes: OPS["any"](x, axes=axes),
    np.logical_xor: _parity,
    np.bitwise_and: _of_bits(np.bitwise_and),
    np.bitwise_or: _of_bits(np.bitwise_or),
    np.bitwise_xor: _of_bits(np.bitwise_xor),
    np.gcd: lambda x, axes: OPS["gcd_reduce"](x, axes=axes),
    np.lcm: lambda x, axes: OPS["lcm_reduce"](x, axes=axes),
}


def _reduction(ufunc: np.ufunc, join: "Join") -> Function:
    name = f"{ufunc.__name__}.reduce"
    reduced = _reductions[ufunc]

    def whole(
        x: ArrayLike, axis: Axis, *, keepdims: bool, initial: ArrayLike | None, where: ArrayLike
    ) -> Any:
        node = _as_joined(ufunc, x)
        axes = reduced_axes(name, axis, len(node.shape))
        start = None if initial is None else cast(as_node(initial), node.dtype)
        if start is not None and start.shape:
            raise ShapeError(explain(name, "initial is not one number", got={"initial": start}))
        if where is not True:
            # Only lcm has no identity: of a number with itself it is the number.
            has_identity = ufunc.identity is not None
            neutral = _neutral(ufunc, node) if start is None or has_identity else start
            node = OPS["where"](mask_like(name, node, where), node, neutral)
        if any(node.shape[k] == 0 for k in axes):
            shape = tuple([n for k, n in enumerate(node.shape) if k not in axes])
            result = broadcast_to(_neutral(ufunc, node) if start is None else start, shape)
        else:
            shape = tuple([n for k, n in enumerate(node.shape) if k not in axes])
            if node.type.size == math.prod(shape):
                # As NumPy, which joins one number with the identity: gcd and hypot of it are its
                # absolute value. A least common multiple, which has no identity, is the number.
                result = reshape(node, shape)
                if ufunc.identity is not None:
                    result = join(result, _neutral(ufunc, node))
            else:
                result = reduced(node, axes)
            result = result if start is None else join(result, start)
        return wrap(kept(result, node, axes) if keepdims else result)

    return whole


def _join(function: Function) -> Callable[..., Node]:
    return lambda *values: function(*values)._node


def _as_joined(ufunc: np.ufunc, x: ArrayLike) -> Node:
    """`x` in the dtype of what the ufunc joins."""
    node = as_node(x)
    if ufunc in _LOGICAL:
        return cast(node, BOOL)
    return cast(node, loop_dtypes(ufunc, (node.dtype, node.dtype))[-1])


def _neutral(ufunc: np.ufunc, x: Node) -> Node:
    """What the ufunc joins with anything without a change."""
    if ufunc.identity is None:
        name = f"{ufunc.__name__}.reduce"
        problem = "there may be no elements, and no number stands for none"
        raise ValueError(explain(name, problem, got={"x": x.type}, fix="initial=..."))
    return full(np.asarray(ufunc.identity).astype(x.dtype).item(), (), x.dtype)


# accumulate


def accumulate_of(ufunc: np.ufunc, function: Function) -> Function | None:
    """`ufunc.accumulate`, for a `function` that stands for the ufunc; None if it is not
    associative."""
    if ufunc not in ASSOCIATIVE:
        return None
    scan = _scans.get(ufunc) or _scan(ufunc, _join(function))

    def accumulate(x: ArrayLike, axis: Axis = 0, dtype: object = None) -> Any:
        """Elements up to each one along `axis` joined by the ufunc."""
        node = as_node(x) if dtype is None else cast(as_node(x), as_dtype(dtype))
        if not node.shape:
            problem = "cannot accumulate a single number"
            raise TypeError(explain(f"{ufunc.__name__}.accumulate", problem, got={"x": node.type}))
        number = _one_axis(f"{ufunc.__name__}.accumulate", axis, node)
        # Sums and products promote integers, unless told not to.
        promoted = (dtype,) if ufunc in (np.add, np.multiply) else ()
        return scan(node, number, *promoted)

    return accumulate


def _one_axis(operation: str, axis: Axis, x: Node) -> int:
    """The number of the axis: as in NumPy also None and a tuple may say which, if it is one."""
    axes = normalize_axes(operation, axis, len(x.shape))
    if len(axes) != 1:
        raise ValueError(
            explain(operation, "takes one axis", got={"x": x.type, "axis": axis}, fix="axis=0")
        )
    return axes[0]


def _scan(ufunc: np.ufunc, join: "Join") -> Function:
    def scanned(x: Node, axis: int) -> Any:
        folds = imported("numba_grad.frontend.tensors.associative_folds")
        return wrap(folds.folded_up_to_each(join, _as_joined(ufunc, x), axis))

    return scanned


def _parity_up_to_each(x: Node, axis: int) -> Any:
    count = scans.cumsum(cast(x, BOOL), axis)
    return count % 2 == 1


# Faster than folds.
_scans: dict[np.ufunc, Function] = {
    np.add: scans.cumsum,
    np.multiply: scans.cumprod,
    np.maximum: scans.cummax,
    np.minimum: scans.cummin,
    np.logaddexp: scans.logcumsumexp,
    np.logical_and: lambda x, axis: scans.cummin(cast(x, BOOL), axis),
    np.logical_or: lambda x, axis: scans.cummax(cast(x, BOOL), axis),
    np.logical_xor: _parity_up_to_each,
}


# reduceat


def reduceat_of(ufunc: np.ufunc, function: Function) -> Function | None:
    """`ufunc.reduceat`, for a `function` that stands for the ufunc; None if it is not
    associative."""
    if ufunc not in ASSOCIATIVE:
        return None
    name = f"{ufunc.__name__}.reduceat"

    def reduceat(x: ArrayLike, indices: ArrayLike, axis: Axis = 0, dtype: object = None) -> Any:
        """Elements along `axis` from each index to before the next one, joined by the ufunc; the
        one at the index, where the next one is not larger; to the end, from the last index.

        The value of `indices`, 1-d, is needed now.
        """
        node = as_node(x)
        if dtype is not None:
            node = cast(node, as_dtype(dtype))
        elif ufunc in (np.add, np.multiply):
            node = cast(node, ufunc.reduce(np.empty(0, node.dtype)).dtype)
        node = _as_joined(ufunc, node)
        number = _one_axis(name, axis, node)
        lines = OPS["transpose"](node, axes=_to_front(number, len(node.shape)))
        starts = _starts(name, value_of(as_node(indices), name), lines.shape[0])
        lengths = np.diff(starts, append=lines.shape[0])
        counts = np.maximum(lengths, 1)
        if starts.size and (lengths > 0).all():
            chosen = take_index(lines, slice(int(starts[0]), None))
        else:
            before = np.cumsum(counts) - counts
            places = np.arange(counts.sum()) + np.repeat(starts - before, counts)
            chosen = take_index(lines, places)
        if ufunc is np.add and not _are_alike(counts):
            segment = constant_beside(lines, np.repeat(np.arange(len(counts)), counts))
            zeros = full(0, (len(counts), *lines.shape[1:]), lines.dtype)
            result = scatter_add(zeros, chosen, segment, checked=False)
        else:
            result = _joined_segments(ufunc, function, chosen, counts)
        back = inverse_permutation(_to_front(number, len(node.shape)))
        return wrap(OPS["transpose"](result, axes=back))

    return reduceat


def _to_front(axis: int, rank: int) -> tuple[int, ...]:
    return (axis, *[k for k in range(rank) if k != axis])


def _starts(name: str, starts: np.ndarray, size: int) -> np.ndarray:
    """Where segments of so many elements start, checked."""
    if starts.ndim != 1 or (starts.size and starts.dtype.kind not in "iu"):
        got: dict[str, object] = {"indices": f"{starts.dtype}{list(starts.shape)}"}
        raise IndexError(explain(name, "indices are 1-d and integers", got=got))
    starts = starts.astype(np.int64)
    for start in starts[(starts < 0) | (starts >= size)][:1]:
        got = {"index": int(start)}
        expected = f"0 <= index < {size}"
        raise IndexError(explain(name, "index out of range", got=got, expected=expected))
    return starts


def _are_alike(counts: np.ndarray) -> bool:
    """Whether segments fill a good part of a table with a row for each."""
    return len(counts) * int(counts.max(initial=0)) <= 4 * int(counts.sum())


def _joined_segments(ufunc: np.ufunc, function: Function, x: Node, counts: np.ndarray) -> Node:
    """The elements of each segment along the first axis joined: shape (len(counts), ...).

    Segments follow one another. Where they are about equally long, rows of a table are reduced; not
    for products, whose gradients by rows are nan beside an infinity.
    """
    if not _are_alike(counts) or ufunc is np.multiply:
        folds = imported("numba_grad.frontend.tensors.associative_folds")
        return folds.folded_segments(_join(function), x, counts)
    longest = int(counts.max(initial=1))
    within = np.arange(longest)
    first = np.cumsum(counts) - counts
    is_table = bool((counts == longest).all())
    if is_table:
        rows = reshape(x, (len(counts), longest, *x.shape[1:]))
    else:
        places = first[:, None] + np.minimum(within, counts[:, None] - 1)  # the last, repeated
        rows = take_index(x, places)
    if ufunc not in _IDEMPOTENT and not is_table:
        is_own = (within < counts[:, None]).reshape(*rows.shape[:2], *(1,) * (len(x.shape) - 1))
        rows = OPS["where"](constant_beside(rows, is_own), rows, _neutral(ufunc, x))
    if ufunc is np.add:
        return reductions.sum(rows, 1, rows.dtype)._node
    reduce = reduce_of(ufunc, function)
    assert reduce is not None, "associative"
    return reduce(rows, 1)._node


# at


def at_of(ufunc: np.ufunc, function: Function) -> Function:
    """`ufunc.at`, for a `function` that stands for the ufunc."""
    name = f"numpy.{ufunc.__name__}.at"

    def at(x: Any, indices: Any, *values: ArrayLike) -> None:
        """Apply the ufunc to elements of the tensor `x`, whose new value it becomes: as often as an
        index names them, one after the other.

        Except for `add` and `subtract`, the value of `indices` is needed now. Gradients flow to
        what was in `x`, and to `values`.
        """
        node = node_of(x)
        if node is None:
            raise TypeError(
                explain(
                    name,
                    "cannot write tensors into an array",
                    got={"x": type(x).__name__},
                    expected="a tensor to write into",
                    fix="ng.tensor(x)",
                )
            )
        loop = operands(ufunc, (x, *values))
        result = loop_dtypes(ufunc, tuple([z.dtype for z in loop]))[-1]
        if not can_cast(result, node.dtype, "same_kind"):
            raise DTypeError(
                explain(
                    name,
                    "the result would not fit in x",
                    got=dict(zip("xv", [as_node(z).type for z in (x, *values)], strict=False)),
                    fix=f"x = x.astype({result.name!r}), before",
                )
            )
        index = index_of_nodes(indices, node.shape)
        if ufunc in (np.add, np.subtract):
            term = -loop[1] if ufunc is np.subtract else loop[1]
            views.assign(x, add_at_index(node, index, term, mask_value))
        else:
            written = _applied_at(ufunc, function, node, index, loop[1:])
            views.assign(x, written)

    return at


def _grouped(place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An order in which equal numbers, none negative, follow one another, as they came; which
    numbers there are, in turn; and how often each one comes."""
    order = np.arange(len(place))
    for shift in range(0, int(place.max(initial=0)).bit_length(), 16):
        # Of 16 bits NumPy sorts by counting: both passes over 1e6 numbers take 27 ms, not 140.
        digits = (place[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    in_order = place[order]
    firsts = np.flatnonzero(np.diff(in_order, prepend=-1))
    return order, in_order[firsts], np.diff(firsts, append=len(place))


def _applied_at(
    ufunc: np.ufunc, function: Function, x: Node, index: Any, values: tuple[Node, ...]
) -> Node:
    """`x` after the ufunc was applied where `index` says, in the order of NumPy."""
    numbers = leaf(np.arange(x.type.size).reshape(x.shape))
    named = take_index(numbers, index, mask_value)
    place = value_of(named, f"numpy.{ufunc.__name__}.at").reshape(-1)
    order, places, counts = _grouped(place)
    device = x.type.device
    values = tuple([placed(v, device) if goes_along(v) else v for v in values])
    flat_values = [reshape(fit(v, named.shape), (named.type.size,)) for v in values]
    grouped = [take_index(v, order) for v in flat_values]
    join = _join(function)
    if ufunc in ASSOCIATIVE:
        grouped = [_joined_segments(ufunc, function, v, counts) for v in grouped]
        counts = np.ones_like(counts)
    first = np.cumsum(counts) - counts
    result = reshape(x, (x.type.size,))
    for repetition in range(counts.max(initial=0)):
        again = counts > repetition
        old = take_index(result, places[again])
        with_old = [take_index(v, first[again] + repetition) for v in grouped]
        result = assign_index(result, places[again], join(old, *with_old))
    return reshape(result, x.shape)
