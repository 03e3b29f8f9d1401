"""`pad`: elements added before and after along each axis, in all of NumPy's modes.

Each mode says how an axis goes on at either end, most of them beyond its last element: what comes
before the first one is the same of the flipped array. Axes follow one another, so corners continue
what is already added.
What is added is a slice of what is there, or computed from one; only beyond a whole period of
"wrap" and the mirrors, elements are gathered.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import FLOAT64, INT64, is_floating, is_inexact
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.order_statistics import median as median_of
from numba_grad.frontend.functions.reductions import max as largest
from numba_grad.frontend.functions.reductions import mean as mean_of
from numba_grad.frontend.functions.reductions import min as smallest
from numba_grad.frontend.functions.shapes import part
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    constant_beside,
    node_of,
    scalar_leaf,
    wrap,
)
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.families import broadcast_to, cast, reshape
from numba_grad.ops.index_expressions import take_index

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["pad"]

# The `count` elements beyond the last one of an axis, and the option of that side for them.
AfterLast = Callable[[Node, int, int, Any], Node]
# The same; or before the first one, if True comes last.
Beyond = Callable[[Node, int, int, Any, bool], Node]

_OPTION_OF = {
    "constant": "constant_values",
    "empty": "",
    "edge": "",
    "wrap": "",
    "linear_ramp": "end_values",
    "maximum": "stat_length",
    "mean": "stat_length",
    "median": "stat_length",
    "minimum": "stat_length",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
}


@by_types(operands=1)
def pad(
    x: ArrayLike,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = None,
    end_values: Any = None,
    stat_length: Any = None,
    reflect_type: str | None = None,
) -> "Tensor":
    """`x` with elements added before and after along each axis.

    Parameters
    ----------
    pad_width : n, (before, after), a pair for each axis; or a dict {axis: n or (before, after)}
    mode : "constant" adds `constant_values`; "edge" repeats the first and last elements, "wrap"
        starts again from the other end; "reflect" and "symmetric" mirror at the last element or
        behind it; "linear_ramp" goes to `end_values` in equal steps; "maximum", "minimum", "mean"
        and "median" add what these are of the `stat_length` elements next to the end, or of all;
        "empty" adds zeros, as there is no uninitialized memory here
    constant_values, end_values : as `pad_width`; 0 by default. A tensor of one of these forms may
        require grad
    stat_length : as `pad_width`, from 1
    reflect_type : "even"; or "odd", which mirrors at the point of the last element, 2 * edge - x

    Raises
    ------
    ValueError
        For an empty axis in modes that need an element; for an option that the mode does not have.
    TypeError
        For a function as mode: it would write into NumPy arrays.

    Notes
    -----
    Gradients are those of what is added: an element that is repeated gets the sum.
    """
    node = as_node(x)
    options = {
        "constant_values": constant_values,
        "end_values": end_values,
        "stat_length": stat_length,
        "reflect_type": reflect_type,
    }
    _check_mode(mode, options)
    widths = _widths(pad_width, node)
    option = options.get(_OPTION_OF[mode])
    if mode in ("constant", "empty"):
        if not _is_zero(option):
            return wrap(_padded(node, widths, _numbers("constant_values", option, node), _constant))
    elif node.type.size:
        if mode == "linear_ramp":
            ends = _numbers("end_values", option, node)
            return wrap(_padded(node, widths, ends, _at_both_ends(_ramp)))
        if mode in _STATISTICS:
            lengths = _lengths(mode, option, node)
            beyond = _at_both_ends(_statistic(_STATISTICS[mode]))
            return wrap(_padded(node, widths, lengths, beyond))
        if mode in ("reflect", "symmetric"):
            beyond = _mirrored(mode == "symmetric", _is_odd(option))
        else:
            beyond = _edge if mode == "edge" else _wrapped
        return wrap(_padded(node, widths, [(None, None)] * len(widths), beyond))
    else:
        _check_not_extended(mode, node, widths)
    low, high = (tuple([pair[k] for pair in widths]) for k in (0, 1))
    return wrap(OPS["pad"](node, low=low, high=high, interior=(0,) * len(widths)))


def _padded(
    x: Node, widths: list[tuple[int, int]], options: list[tuple[Any, Any]], beyond: Beyond
) -> Node:
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, options, strict=True)):
        parts = [x]
        if before:
            parts.insert(0, beyond(x, axis, before, first, True))
        if after:
            parts.append(beyond(x, axis, after, last, False))
        if len(parts) > 1:
            x = OPS["concatenate"](*parts, axis=axis)
    return x


# How an axis goes on


def _at_both_ends(after_last: AfterLast) -> Beyond:
    def beyond(x: Node, axis: int, count: int, option: Any, is_before: bool) -> Node:
        if not is_before:
            return after_last(x, axis, count, option)
        flipped = OPS["flip"](x, axes=(axis,))
        return OPS["flip"](after_last(flipped, axis, count, option), axes=(axis,))

    return beyond


def _repeated(x: Node, axis: int, count: int) -> Node:
    """`x`, of size 1 along `axis`, `count` times."""
    return broadcast_to(x, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _last(x: Node, axis: int) -> Node:
    return part(x, axis, x.shape[axis] - 1, x.shape[axis])


def _constant(x: Node, axis: int, count: int, value: Node, is_before: bool) -> Node:
    return broadcast_to(value, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _edge(x: Node, axis: int, count: int, option: None, is_before: bool) -> Node:
    return _repeated(part(x, axis, 0, 1) if is_before else _last(x, axis), axis, count)


def _wrapped(x: Node, axis: int, count: int, option: None, is_before: bool) -> Node:
    size = x.shape[axis]
    if count <= size:
        start = size - count if is_before else 0
        return part(x, axis, start, start + count)
    start = -count if is_before else 0
    return _taken(x, axis, np.arange(start, start + count) % size)


def _taken(x: Node, axis: int, source: np.ndarray) -> Node:
    return take_index(x, (slice(None),) * axis + (source,))


def _mirrored(is_symmetric: bool, is_odd: bool) -> Beyond:
    def often(x: Node, axis: int, count: int, option: None) -> Node:
        return _mirrored_often(x, axis, count, is_symmetric, is_odd)

    def beyond(x: Node, axis: int, count: int, option: None, is_before: bool) -> Node:
        size = x.shape[axis]
        if size == 1:  # nothing to mirror: as in NumPy
            return _edge(x, axis, count, None, is_before)
        stop = size - (not is_symmetric)
        if count > stop:
            return _at_both_ends(often)(x, axis, count, None, is_before)
        start = size - stop if is_before else stop - count
        mirrored = part(x, axis, start, start + count)
        if count > 1:
            mirrored = OPS["flip"](mirrored, axes=(axis,))
        if not is_odd:
            return mirrored
        end = _edge(x, axis, count, None, is_before)
        return OPS["subtract"](OPS["add"](end, end), mirrored)

    return beyond


def _mirrored_often(x: Node, axis: int, count: int, is_symmetric: bool, is_odd: bool) -> Node:
    """Beyond the first mirror: x goes forth and back, and if odd by what it gains each time."""
    size = x.shape[axis]
    half = size - (not is_symmetric)
    periods, place = np.divmod(np.arange(size, size + count), 2 * half)
    is_back = place >= size
    taken = _taken(x, axis, np.where(is_back, 2 * half - is_symmetric - place, place))
    if not is_odd:
        return taken

    alone = [count if k == axis else 1 for k in range(len(x.shape))]

    def times(node: Node, numbers: np.ndarray) -> Node:
        factors = constant_beside(x, numbers.astype(x.dtype).reshape(alone))
        return OPS["multiply"](node, factors)

    # f(i + 2 half) = f(i) + 2 (last - first), and on the way back 2 last - x.
    gained = OPS["subtract"](
        times(_last(x, axis), 2 * (periods + is_back)), times(part(x, axis, 0, 1), 2 * periods)
    )
    return OPS["add"](times(taken, np.where(is_back, -1, 1)), gained)


def _ramp(x: Node, axis: int, count: int, end: Node) -> Node:
    """In equal steps from the last element, which is not included, to `end`, which is."""
    dtype = x.dtype if is_inexact(x.dtype) else FLOAT64
    alone = tuple([count if k == axis else 1 for k in range(len(x.shape))])
    steps = reshape(OPS["iota"](size=count, dtype=INT64), alone)
    steps = cast(OPS["subtract"](scalar_leaf(count - 1, INT64), steps), dtype)
    start = cast(end, dtype)
    step = OPS["divide"](
        OPS["subtract"](cast(_last(x, axis), dtype), start), scalar_leaf(float(count), dtype)
    )
    ramp = OPS["add"](start, OPS["multiply"](steps, step))
    return cast(ramp if is_inexact(x.dtype) else OPS["floor"](ramp), x.dtype)


def _statistic(function: Callable[..., "Tensor"]) -> AfterLast:
    def beyond(x: Node, axis: int, count: int, length: int | None) -> Node:
        size = x.shape[axis]
        first = size - min(size if length is None else length, size)
        value = as_node(function(part(x, axis, first, size), axis, keepdims=True))
        if x.dtype.kind in "iu" and is_floating(value.dtype):
            value = OPS["rint"](value)
        return _repeated(cast(value, x.dtype), axis, count)

    return beyond


_STATISTICS = {"maximum": largest, "minimum": smallest, "mean": mean_of, "median": median_of}


# Arguments


def _check_mode(mode: Any, options: dict[str, Any]) -> None:
    if callable(mode):
        raise TypeError(
            explain(
                "pad",
                "a function as mode is not supported: it would write into NumPy arrays",
                got={"mode": mode},
                fix="concatenate([before, x, after], axis)",
            )
        )
    if mode not in _OPTION_OF:
        expected = ", ".join(map(repr, _OPTION_OF))
        raise ValueError(explain("pad", f"no mode {mode!r}", expected=expected))
    for name, value in options.items():
        if value is not None and name != _OPTION_OF[mode]:
            raise ValueError(
                explain("pad", f"mode {mode!r} has no {name}=", got={name: value, "mode": mode})
            )


def _check_not_extended(mode: str, x: Node, widths: list[tuple[int, int]]) -> None:
    for axis, (size, width) in enumerate(zip(x.shape, widths, strict=True)):
        if size == 0 and any(width):
            raise ValueError(
                explain(
                    "pad",
                    f"axis {axis} has no element that mode {mode!r} could repeat",
                    got={"x": x.type, "pad_width": width},
                    fix="mode='constant'",
                )
            )


def _widths(given: Any, x: Node) -> list[tuple[int, int]]:
    if isinstance(given, dict):
        pairs: list[Any] = [(0, 0)] * len(x.shape)
        for axis, width in given.items():
            number = normalize_axis("pad", axis, len(x.shape))
            pairs[number] = tuple(np.broadcast_to(np.asarray(width), 2).tolist())
        given = pairs if pairs else 0
    widths = _pairs("pad_width", given, x)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(explain("pad", "negative widths", got={"pad_width": given}))
    return widths


def _pairs(name: str, given: Any, x: Node) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, out of the forms that NumPy takes."""
    try:
        pairs = np.broadcast_to(np.asarray(given), (len(x.shape), 2))
    except ValueError:
        raise _does_not_fit(name, given, x) from None
    if name != "constant_values" and pairs.size and pairs.dtype.kind not in "iu":
        raise TypeError(explain("pad", "not integers", got={name: given}))
    return [tuple(pair) for pair in pairs.tolist()]


def _does_not_fit(name: str, given: Any, x: Node) -> ShapeError:
    return ShapeError(
        explain(
            "pad",
            f"{name} does not fit the axes",
            got={"x": x.type, name: given},
            expected="n, (before, after), or such a pair for each axis",
        )
    )


def _numbers(name: str, given: Any, x: Node) -> list[tuple[Node, Node]]:
    """The values before and after along each axis, in the dtype of `x`."""
    node = cast(as_node(0 if given is None else given), x.dtype)
    shape = (len(x.shape), 2)
    if len(node.shape) > 2 or any(
        n not in (1, m) for n, m in zip(node.shape[::-1], shape[::-1], strict=False)
    ):
        raise _does_not_fit(name, given, x)
    table = broadcast_to(node, shape)
    return [(take_index(table, (k, 0)), take_index(table, (k, 1))) for k in range(shape[0])]


def _is_zero(given: Any) -> bool:
    """Whether nothing but zeros, known without computing, is to be added."""
    return given is None or (
        node_of(given) is None and not np.any(given) and not np.any(np.signbit(np.real(given)))
    )


def _lengths(mode: str, given: Any, x: Node) -> list[tuple[Any, Any]]:
    if given is None:
        return [(None, None)] * len(x.shape)
    lengths = _pairs("stat_length", given, x)
    if any(n < 1 for pair in lengths for n in pair):
        raise ValueError(
            explain(
                "pad",
                f"the {mode} of no elements",
                got={"stat_length": given},
                expected="stat_length >= 1",
            )
        )
    return lengths


def _is_odd(reflect_type: str | None) -> bool:
    if reflect_type not in (None, "even", "odd"):
        expected = "'even' or 'odd'"
        raise ValueError(explain("pad", f"reflect_type={reflect_type!r}", expected=expected))
    return reflect_type == "odd"
