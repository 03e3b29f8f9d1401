"""Functions of NumPy that take elements by index."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.compiler.partition.roles import MOST_WINDOWS
from numba_grad.dtypes import BOOL, INT64
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.shapes import along_one_axis
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    constant_beside,
    known_value,
    node_of,
    stacked_tensors,
    value_of,
    wrap,
)
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.frontend.inputs.tracing import current, is_tracing, values_asked_for
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.types import CPU, array_type, broadcast_shapes, normalize_axis
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import broadcast_to, cast, placed, reshape
from numba_grad.ops.index_expressions import take_index
from numba_grad.ops.indexing import check_range

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["nonzero", "take", "take_along_axis"]

# In a window along several axes: so many parts of an array are written out in one place. Of an
# array with other axes, channels, more are copied into a matrix, by a kernel that LLVM takes
# seconds for.
_FEW_PLACES = 32
_FEW_PLACES_OF_ROWS = 16


def index_of_nodes(index: Any, shape: tuple[int, ...] | None = None) -> Any:
    """An index expression with its tensors as nodes. Of an array of this shape: with a mask that is
    traced in place of the places where it is true."""
    if shape is not None:
        entries = index if index.__class__ is tuple else (index,)
        if any(isinstance(entry, Selection) for entry in entries):
            index = _with_masks(entries, shape)
    if index.__class__ is tuple:
        return tuple([_entry_of_node(entry) for entry in index])
    return _entry_of_node(index)


def _with_masks(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    entries: list[Any] = []
    at = 0
    while at < len(index):
        entry, count = index[at], 1
        if isinstance(entry, Selection):
            is_plain = not any(e is None or e is Ellipsis for e in index[:at])
            entry, count = entry.as_mask(index[at:], shape[at:] if is_plain else ())
        entries.append(entry)
        at += count
    return tuple(entries)


def _entry_of_node(entry: Any) -> Any:
    kind = entry.__class__
    if kind is slice or kind is int or isinstance(entry, Selection):
        return entry
    node = node_of(entry)
    # Of rows to exchange, for instance: x[[0, k]], where k may have no value yet; or x[(rows,), 0].
    if kind is list or kind is tuple:
        joined = stacked_tensors(entry)
        return entry if joined is None or not is_traced(joined) else joined
    if node is None and isinstance(entry, np.ndarray) and is_tracing():
        values_asked_for(as_node(entry))  # they are checked now, and are part of the graph
    if node is None:
        # As NumPy, which asks a matrix, or a masked array, for nothing but its elements.
        return np.asarray(entry) if isinstance(entry, np.ndarray) else entry
    known = _constant(node) if node.dtype.kind in "iub" else None
    return node if known is None else known


def places_of_nodes(places: Any) -> Any:
    """What `np.take` and `np.put` are given as one array of places, with its tensors as nodes: a
    tuple, as `np.nonzero` returns, is no index of several axes, and truths are 0 and 1, no mask."""
    if places.__class__ is list or places.__class__ is tuple:
        joined = stacked_tensors(places)
        found = np.asarray(places) if joined is None else joined
        if joined is not None and not is_traced(joined):
            found = value_of(joined, "index")
    else:
        found = index_of_nodes(places)
    if isinstance(found, Node):
        return cast(found, INT64) if found.dtype.kind == "b" else found
    is_truth = (
        isinstance(found, bool | np.bool_ | np.ndarray) and np.asarray(found).dtype.kind == "b"
    )
    return np.asarray(found, np.int64) if is_truth else found


def _constant(node: Node) -> np.ndarray | None:
    """The value of an index that a traced function makes of numbers alone: `np.arange(n) + 1`. As
    an array it is known where loops and sums by index are looked for, as one of NumPy's own is."""
    trace = current.trace
    if trace is None or node.type.device != CPU:
        return None
    if not trace.is_made_of_constants(node):
        return None
    return trace.constant(value_of(node, "index"))


def mask_value(node: Node) -> np.ndarray:
    """The value of a mask whose number of true elements is the shape of a result."""
    return value_of(node, "index by a mask")


def take(
    x: ArrayLike, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise"
) -> "Tensor":
    """The elements of `x` at `indices` along `axis`, or of the flattened `x` by default.

    `mode` is what to do with an index out of range: "raise", "wrap" around, or "clip" to the ends.

    Raises
    ------
    IndexError
        If an index is out of range; for indices that are not known yet, when they are computed.
    """
    node, number = along_one_axis("take", as_node(x), axis)
    index = places_of_nodes(indices)
    if not isinstance(index, Node):
        index = np.asarray(index)
        if index.size == 0:
            index = index.astype(np.int64)
    elif index.dtype.kind not in "iu":
        got = {"indices": index.type}
        raise IndexError(explain("take", "indices must be integers", got=got))
    if mode in ("wrap", "clip") and not isinstance(index, Node) and node.shape[number]:
        # Known, it may turn out to name the neighbours of all elements.
        last = node.shape[number] - 1
        index = index % (last + 1) if mode == "wrap" else np.clip(index, 0, last)
    elif mode != "raise":
        index = brought_into_range("take", as_node(index), node.shape[number], mode)
    return wrap(take_index(node, ((slice(None),) * number) + (index,), mask_value))


def brought_into_range(operation: str, index: Node, size: int, mode: str) -> Node:
    """`index` from 0 to size - 1: wrapped around, or clipped to the ends, as NumPy's `mode`."""
    if mode not in ("wrap", "clip"):
        expected = "'raise', 'wrap' or 'clip'"
        raise ValueError(explain(operation, f"mode={mode!r}", expected=expected))
    if size == 0 and index.type.size:
        raise IndexError(explain(operation, "the axis is empty", got={"indices": index.type}))
    index = cast(index, INT64)
    limits = [leaf(np.array(n)) for n in (size, 0, size - 1)]
    if mode == "wrap":
        return OPS["remainder"](index, limits[0])
    return OPS["minimum"](OPS["maximum"](index, limits[1]), limits[2])


def sliding_window_view(
    x: ArrayLike,
    window_shape: int | tuple[int, ...],
    axis: int | tuple[int, ...] | None = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> "Tensor":
    """All windows of this shape along these axes; those inside of a window come last.

    As `numpy.lib.stride_tricks.sliding_window_view`, and read-only: what is recorded has no memory
    that one element could be in twice.
    """
    node = as_node(x)
    windows = np.atleast_1d(window_shape).tolist()
    axes = range(len(node.shape)) if axis is None else np.atleast_1d(axis).tolist()
    if writeable or len(axes) != len(windows):
        got: dict[str, object] = {"x": node.type, "window_shape": windows, "axis": [*axes]}
        problem = "a window for each axis" if len(axes) != len(windows) else "writeable=False"
        raise ValueError(explain("sliding_window_view", f"takes {problem}", got=got))
    rank = len(node.shape)
    numbers = [normalize_axis("sliding_window_view", axis, rank) for axis in axes]
    for window, number in zip(windows, numbers, strict=True):
        if not 0 <= window <= node.shape[number]:
            got = {"x": node.type, "window": window, "axis": number}
            problem = "window shape cannot be larger than input array shape, nor negative"
            raise ValueError(explain("sliding_window_view", problem, got=got))
    if len(numbers) == 1:
        most = MOST_WINDOWS
    else:
        most = _FEW_PLACES if len(numbers) == rank else _FEW_PLACES_OF_ROWS
    if len(set(numbers)) == len(numbers) and 0 < math.prod(windows) <= most:
        return wrap(_windows(node, windows, numbers))
    for window, number in zip(windows, numbers, strict=True):
        size = node.shape[number]
        places = np.arange(size - window + 1)[:, None] + np.arange(window)
        node = take_index(node, ((slice(None),) * number) + (places,), mask_value)
        last = len(node.shape) - 1
        order = [k for k in range(last + 1) if k != number + 1]
        node = OPS["transpose"](node, axes=(*order, number + 1))
    return wrap(node)


def _windows(x: Node, windows: Sequence[int], axes: Sequence[int]) -> Node:
    """For each place in a window a slice, put together along the windows' axes first. Windows of
    the rows of windows, each element would look for its part twice."""
    rank, count = len(x.shape), len(windows)
    sizes = list(x.shape)
    for window, axis in zip(windows, axes, strict=True):
        sizes[axis] -= window - 1

    def joined(place: tuple[int, ...]) -> Node:
        number = len(place)
        if number < count:
            parts = [joined((*place, k)) for k in range(windows[number])]
            return OPS["concatenate"](*parts, axis=number)
        starts = [0] * rank
        for start, axis in zip(place, axes, strict=True):
            starts[axis] = start
        part = OPS["slice"](x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * rank)
        return reshape(part, (*[1] * count, *sizes))

    return OPS["transpose"](joined(()), axes=(*range(count, count + rank), *range(count)))


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> "Tensor":
    """Along `axis`, in each place its own elements: result[i, k] = x[i, indices[i, k]].

    `indices` has as many axes as `x`; the others broadcast.
    """
    node, number = along_one_axis("take_along_axis", as_node(x), axis)
    index = as_node(indices)
    _check_along("take_along_axis", node, index, number)
    index = placed(index, node.type.device)
    return wrap(taken_along(node, index, number, checked=True))


def _check_along(operation: str, x: Node, index: Node, axis: int) -> None:
    if len(index.shape) != len(x.shape) or index.dtype.kind not in "iu":
        problem = "indices must be integers, with as many axes as x"
        got: dict[str, object] = {"x": x.type, "indices": index.type}
        error = ShapeError if index.dtype.kind in "iu" else IndexError
        raise error(explain(operation, problem, got=got))
    known = known_value(index)
    if known is not None:
        check_range(operation, known, axis, x.shape[axis])


def taken_along(x: Node, index: Node, axis: int, *, checked: bool) -> Node:
    """As `take_along_axis`, on nodes."""
    return OPS["gather"](x, *_places_along("take_along_axis", x, index, axis), checked=checked)


def places_along_axis(operation: str, x: Node, index: Node, axis: int) -> list[Node]:
    """The indices of x[i, index[i, k]], one array for each axis of `x`, all of one shape."""
    number = normalize_axis(operation, axis, len(x.shape))
    _check_along(operation, x, index, number)
    return _places_along(operation, x, placed(index, x.type.device), number)


def _places_along(operation: str, x: Node, index: Node, axis: int) -> list[Node]:
    around = [list(shape) for shape in (x.shape, index.shape)]
    for shape in around:
        shape[axis] = 1
    types = [array_type(tuple(shape), INT64) for shape in around]
    common = list(broadcast_shapes(operation, ("x", "indices"), types))
    common[axis] = index.shape[axis]
    places = []
    for k, size in enumerate(x.shape):
        alone = tuple([size if j == k else 1 for j in range(len(common))])
        own = index if k == axis else reshape(OPS["iota"](size=size, dtype=INT64), alone)
        places.append(broadcast_to(own, tuple(common)))
    return places


def nonzero(x: ArrayLike) -> "tuple[Tensor, ...]":
    """The indices of the elements that are not 0: one tensor for each axis. Computes `x` now, but
    for a traced one, of which they are an index, of those whose number is not known."""
    node = as_node(x)
    if node.type.size and node.shape and is_traced(node):
        mask = wrap(cast(node, BOOL))
        along = [constant_beside(node, x) for x in np.indices(node.shape, sparse=True)]
        grids = [wrap(broadcast_to(numbers, node.shape)) for numbers in along]
        chosen: list[Any] = [grid[mask] for grid in grids]
        return tuple([places.as_places(axis) for axis, places in enumerate(chosen)])
    value = value_of(node, "nonzero") if node.type.size else np.zeros(node.shape)
    return tuple([wrap(constant_beside(node, index)) for index in value.nonzero()])
