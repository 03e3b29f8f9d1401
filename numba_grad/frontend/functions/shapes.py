"""Functions of NumPy that rearrange and repeat, without computing. `diff` is the exception."""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.autograd.views import is_contiguous, shares_memory, view_of
from numba_grad.dtypes import FLOAT64
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.creation import Shape, as_shape, integers
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_node,
    common_dtype,
    node_of,
    value_of,
    wrap,
)
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import (
    array_type,
    is_axis_of_number,
    is_several,
    normalize_axes,
    normalize_axis,
)
from numba_grad.graph.types import broadcast_shapes as common_shape
from numba_grad.ops.families import broadcast_to as stretch
from numba_grad.ops.families import flattened, full
from numba_grad.ops.families import reshape as reshape_node
from numba_grad.ops.index_expressions import IndexExpression, normalize_index, take, take_index
from numba_grad.ops.movement import concatenated, permuted

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "diff",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "size",
    "squeeze",
    "swapaxes",
    "tile",
    "transpose",
]

Axis = int | tuple[int, ...] | None


# Shapes and axes


def reshape(x: ArrayLike, shape: Shape, order: str = "C", *, copy: bool | None = None) -> "Tensor":
    """The same elements in another shape; a size of -1 is worked out.

    They are read and put in row-major order, or with order="F" in column-major order; "A" is
    row-major, as all tensors are in memory.

    A view of `x` where NumPy gives one, which is where its elements follow one another; else a
    copy. `copy=True` always copies.

    Raises
    ------
    ValueError
        With `copy=False`, where NumPy would have to copy.
    """
    node = as_node(x)
    complete = _complete_shape(node, shape)
    if _is_column_major("reshape", order):
        reshaped = _reversed(reshape_node(_reversed(node), complete[::-1]))
    else:
        reshaped = reshape_node(node, complete)
    if copy:
        return wrap(reshaped)
    result = view_of(x, reshaped)
    if copy is False and not shares_memory(result):
        raise ValueError(
            explain(
                "reshape",
                "a copy is needed",
                got={"x": node.type, "shape": complete, "copy": copy},
                expected="a tensor, whose elements follow one another in this order",
                fix="copy=None",
            )
        )
    return result


def _is_column_major(operation: str, order: str) -> bool:
    if order not in ("C", "F", "A", "K"):
        expected = "'C', 'F', 'A' or 'K'"
        raise ValueError(explain(operation, f"order={order!r}", expected=expected))
    return order == "F"


def _reversed(x: Node) -> Node:
    """The axes in reversed order."""
    return permuted(x, _last_to_first(len(x.type.shape)))


@functools.cache
def _last_to_first(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))[::-1]


def _complete_shape(x: Node, shape: object) -> tuple[int, ...]:
    numbers = integers(shape)
    if numbers.count(-1) == 1:
        known = math.prod([n for n in numbers if n != -1])
        if known > 0 and x.type.size % known == 0:
            numbers[numbers.index(-1)] = x.type.size // known
    if numbers and min(numbers) < 0:
        raise ShapeError(
            explain(
                "reshape",
                f"{x.type.size} elements do not fill the shape {tuple(numbers)}",
                got={"x": x.type, "shape": tuple(numbers)},
                expected="sizes >= 0, and at most one -1 that can be worked out",
            )
        )
    return tuple(numbers)


def ravel(x: ArrayLike, order: str = "C") -> "Tensor":
    """All elements along one axis, in row-major order, or in column-major with order="F". A view
    if they follow one another so in memory, else a copy."""
    node = as_node(x)
    is_column_major = _is_column_major("ravel", order)
    if is_column_major:
        node = _reversed(node)
    flat = flattened(node)
    is_view = is_tensor(x) and is_contiguous(x, "F" if is_column_major else "C")
    return view_of(x, flat) if is_view else wrap(flat)


def transpose(x: ArrayLike, axes: Sequence[int] | None = None) -> "Tensor":
    """Axis k of the result is axis `axes[k]` of `x`; by default in reversed order."""
    node = as_node(x)
    if axes is None:
        return view_of(x, _reversed(node))
    rank = len(node.shape)
    numbers = tuple([normalize_axis("transpose", axis, rank) for axis in axes])
    return view_of(x, permuted(node, numbers))


def permute_dims(x: ArrayLike, axes: Sequence[int]) -> "Tensor":
    """As `transpose`, by its array API name."""
    return transpose(x, axes)


def matrix_transpose(x: ArrayLike) -> "Tensor":
    """The last two axes exchanged."""
    node = as_node(x)
    if len(node.shape) < 2:
        raise ShapeError(
            explain(
                "matrix_transpose",
                "needs two axes",
                got={"x": node.type},
                expected="(..., m, n)",
                fix="x[:, None] for a column",
            )
        )
    return swapaxes(x, -1, -2)


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> "Tensor":
    """Two axes exchanged."""
    node = as_node(x)
    rank = len(node.shape)
    first, second = (normalize_axis("swapaxes", axis, rank) for axis in (axis1, axis2))
    axes = list(range(rank))
    axes[first], axes[second] = second, first
    return view_of(x, permuted(node, tuple(axes)))


@by_types(operands=1)
def moveaxis(
    x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> "Tensor":
    """Axes `source` put at the positions `destination`; the others keep their order."""
    node = as_node(x)
    return view_of(x, moved_axes(node, source, destination))


def moved_axes(x: Node, source: int | Sequence[int], destination: int | Sequence[int]) -> Node:
    rank = len(x.shape)
    sources = _axis_list("moveaxis", source, rank)
    destinations = _axis_list("moveaxis", destination, rank)
    if len(sources) != len(destinations):
        raise ValueError(
            explain(
                "moveaxis",
                "different numbers of axes",
                got={"source": source, "destination": destination},
            )
        )
    axes = [axis for axis in range(rank) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        axes.insert(position, axis)
    return permuted(x, tuple(axes))


def _axis_list(operation: str, axis: int | Sequence[int], rank: int) -> list[int]:
    """Axis numbers in the order given, each once."""
    axes = list(axis) if is_several(axis) else [axis]
    normalize_axes(operation, axes, rank)  # raises on repeated ones
    return [normalize_axis(operation, a, rank) for a in axes]


def along_one_axis(operation: str, x: Node, axis: int | None) -> tuple[Node, int]:
    """`x`, and the number of its axis; with None, or of a number, all its elements along one."""
    if axis is None or is_axis_of_number(axis, len(x.shape)):
        return flattened(x), 0
    return x, normalize_axis(operation, axis, len(x.shape))


@by_types(operands=1)
def expand_dims(x: ArrayLike, axis: int | Sequence[int] = 0) -> "Tensor":
    """New axes of size 1, at positions `axis` of the result."""
    node = as_node(x)
    count = len(axis) if is_several(axis) else 1
    positions = _axis_list("expand_dims", axis, len(node.shape) + count)
    sizes = iter(node.shape)
    shape = [1 if k in positions else next(sizes) for k in range(len(node.shape) + count)]
    return view_of(x, reshape_node(node, tuple(shape)))


def squeeze(x: ArrayLike, axis: Axis = None) -> "Tensor":
    """`x` without the given axes, which must have size 1; by default without all that have.

    Raises
    ------
    ShapeError
        If a given axis has another size.
    """
    node = as_node(x)
    if axis is None or is_axis_of_number(axis, len(node.shape)):
        return view_of(x, reshape_node(node, tuple([n for n in node.shape if n != 1])))
    axes = normalize_axes("squeeze", axis, len(node.shape))
    if any(node.shape[k] != 1 for k in axes):
        raise ShapeError(
            explain(
                "squeeze",
                "an axis whose size is not 1",
                got={"x": node.type, "axis": axis},
                expected="axes of size 1",
                fix="x[:, 0] to choose an element",
            )
        )
    kept = tuple([n for k, n in enumerate(node.shape) if k not in axes])
    return view_of(x, reshape_node(node, kept))


def atleast_1d(*arrays: ArrayLike) -> "Any":
    """The array, as one axis if it has none; of several arrays, a tuple."""
    return _of_each(arrays, lambda shape: shape or (1,))


def atleast_2d(*arrays: ArrayLike) -> "Any":
    """The array, with axes of size 1 before its own if it has fewer than two; of several arrays, a
    tuple."""
    return _of_each(arrays, lambda shape: (1,) * (2 - len(shape)) + shape)


def atleast_3d(*arrays: ArrayLike) -> "Any":
    """The array with axes of size 1 added up to three: (1, n, 1) for 1-d, (m, n, 1) for 2-d; of
    several arrays, a tuple."""
    return _of_each(arrays, lambda shape: (1,) * (2 - len(shape)) + shape + (1,) * (len(shape) < 3))


def _of_each(
    arrays: tuple[ArrayLike, ...], shape_of: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Any:
    pairs = [(x, as_node(x)) for x in arrays]
    results = tuple([view_of(x, reshape_node(node, shape_of(node.shape))) for x, node in pairs])
    return results[0] if len(results) == 1 else results


def shape(x: ArrayLike) -> tuple[int, ...]:
    """The sizes of the axes."""
    return as_node(x).shape


def ndim(x: ArrayLike) -> int:
    """The number of axes."""
    return len(as_node(x).shape)


def size(x: ArrayLike, axis: Axis = None) -> int:
    """The number of elements, or of places along `axis`."""
    sizes = as_node(x).shape
    return math.prod([sizes[k] for k in normalize_axes("size", axis, len(sizes))])


def broadcast_shapes(*shapes: Shape) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises
    ------
    ShapeError
        If there is none.
    """
    types = [array_type(as_shape("broadcast_shapes", given), FLOAT64) for given in shapes]
    names = [f"shape {k}" for k in range(len(types))]
    return common_shape("broadcast_shapes", names, types) if types else ()


def broadcast_to(x: ArrayLike, shape: Shape) -> "Tensor":
    """`x` repeated along axes of size 1, and along new first ones, to `shape`. Costs no memory.

    As in NumPy a view that nothing can be assigned to.
    """
    return view_of(x, stretch(as_node(x), as_shape("broadcast_to", shape)))


def broadcast_arrays(*arrays: ArrayLike) -> "list[Tensor]":
    """All arrays broadcast to one common shape."""
    nodes = [as_node(x) for x in arrays]
    if not nodes:
        return []
    names = [f"array {k}" for k in range(len(nodes))]
    shape = common_shape("broadcast_arrays", names, [x.type for x in nodes])
    return [view_of(x, stretch(node, shape)) for x, node in zip(arrays, nodes, strict=True)]


# Order along axes


def flip(x: ArrayLike, axis: Axis = None) -> "Tensor":
    """The elements in reversed order along `axis`, or along all by default."""
    node = as_node(x)
    axes = normalize_axes("flip", axis, len(node.shape))
    return view_of(x, OPS["flip"](node, axes=axes) if axes else node)


def fliplr(x: ArrayLike) -> "Tensor":
    """Reversed along axis 1."""
    return flip(x, 1)


def flipud(x: ArrayLike) -> "Tensor":
    """Reversed along axis 0."""
    return flip(x, 0)


def rot90(x: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> "Tensor":
    """Two axes turned by 90 degrees, `k` times, from the first towards the second."""
    node = as_node(x)
    first, second = (normalize_axis("rot90", axis, len(node.shape)) for axis in axes)
    if first == second:
        raise ValueError(explain("rot90", "needs two axes", got={"x": node.type, "axes": axes}))
    turns = k % 4
    if turns == 0:
        return view_of(x, node)
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> "Tensor":
    """Axis `axis` moved to before axis `start`. `moveaxis` says it more clearly."""
    node = as_node(x)
    rank = len(node.shape)
    source = normalize_axis("rollaxis", axis, rank)
    if not -rank <= start <= rank:
        got: dict[str, object] = {"x": node.type, "start": start}
        raise ValueError(explain("rollaxis", "start is out of range", got=got))
    target = start + rank if start < 0 else start
    return moveaxis(x, source, target - 1 if source < target else target)


def roll(x: ArrayLike, shift: int | Sequence[int], axis: Axis = None) -> "Tensor":
    """Elements shifted along `axis`; those that leave at the end come in at the start.

    Without an axis, along all elements in row-major order. Several shifts of one axis add up.
    """
    node = as_node(x)
    if axis is None:
        flat = flattened(node)
        return wrap(reshape_node(_rolled(flat, _total(shift), 0), node.shape))
    if isinstance(shift, int) and isinstance(axis, int):  # NumPy would make arrays of them: 10 us
        steps = [(shift, axis)]
    else:
        shifts, axes = np.broadcast_arrays(shift, axis)
        steps = zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True)
    for step, number in steps:
        node = _rolled(node, step, normalize_axis("roll", number, len(node.shape)))
    return wrap(node)


def _total(shift: int | Sequence[int]) -> int:
    return sum(map(operator.index, shift if is_several(shift) else (shift,)))


def _rolled(x: Node, shift: int, axis: int) -> Node:
    size = x.shape[axis]
    cut = -shift % size if size else 0
    if not cut:
        return x
    return concatenated([take(x, own) for own in _parts_of_roll(x.shape, axis, cut)], axis)


@functools.lru_cache(maxsize=1 << 10)
def _parts_of_roll(shape: tuple[int, ...], axis: int, cut: int) -> tuple[IndexExpression, ...]:
    """What comes first and what comes then, where `cut` elements of an axis leave at its start."""
    before = (slice(None),) * axis
    parts = slice(cut, shape[axis]), slice(0, cut)
    return tuple([normalize_index((*before, own), shape) for own in parts])


def part(x: Node, axis: int, start: int, stop: int) -> Node:
    """x[..., start:stop, ...] at `axis`; the bounds as in a slice."""
    return take_index(x, (slice(None),) * axis + (slice(start, stop),))


@by_types(operands=1)
def diff(
    x: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> "Tensor":
    """Differences of neighbours along `axis`, taken `n` times; for bool, whether they differ.

    `prepend` and `append` are put before and after `x` first: a number, or an array that has the
    shape of `x` but for the size along `axis`.
    """
    node = as_node(x)
    number = normalize_axis("diff", axis, len(node.shape))
    if n < 0:
        raise ValueError(explain("diff", "negative order", got={"n": n}, expected="n >= 0"))
    if n and (prepend is not None or append is not None):
        before, after = (_end_of_line(node, number, end) for end in (prepend, append))
        node = OPS["concatenate"](*common_dtype((*before, node, *after)), axis=number)
    for _ in range(n):
        op = OPS["not_equal" if node.dtype.kind == "b" else "subtract"]
        size = node.shape[number]
        node = op(part(node, number, 1, size), part(node, number, 0, max(size - 1, 0)))
    return wrap(node)


def _end_of_line(x: Node, axis: int, end: ArrayLike | None) -> list[Node]:
    """What is to be joined to `x`: nothing, or `end`, a number once for each line."""
    if end is None:
        return []
    node = as_node(end)
    size_one = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return [node if node.shape else stretch(node, size_one)]


# Repeating


@by_types(operands=1)
def tile(x: ArrayLike, repetitions: int | Sequence[int]) -> "Tensor":
    """`x` repeated as a whole, so many times along each axis."""
    node = as_node(x)
    counts = as_shape("tile", repetitions)
    rank = max(len(counts), len(node.shape))
    counts = (1,) * (rank - len(counts)) + counts
    sizes = (1,) * (rank - len(node.shape)) + node.shape
    apart = [n for size in sizes for n in (1, size)]
    repeated = [n for pair in zip(counts, sizes, strict=True) for n in pair]
    result = stretch(reshape_node(node, tuple(apart)), tuple(repeated))
    return wrap(reshape_node(result, tuple([a * b for a, b in zip(counts, sizes, strict=True)])))


def resize(x: ArrayLike, new_shape: Shape) -> "Tensor":
    """The elements of `x` in row-major order, from the first again as often as needed, in another
    shape. Zeros if there are none."""
    node = as_node(x)
    shape = as_shape("resize", new_shape)
    size = math.prod(shape)
    if not node.type.size:
        return wrap(full(0, shape, node.dtype, node.type.device))
    return wrap(reshape_node(cycled(flattened(node), size), shape))


def cycled(x: Node, size: int) -> Node:
    """`size` elements of `x`, 1-d and not empty, from the first again as often as needed."""
    own = x.shape[0]
    if own < size:
        times = -(-size // own)
        x = reshape_node(stretch(reshape_node(x, (1, own)), (times, own)), (times * own,))
    return x if x.shape[0] == size else take_index(x, slice(0, size))


def repeat(x: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> "Tensor":
    """Each element along `axis` repeated so many times; of the flattened `x` by default."""
    node, number = along_one_axis("repeat", as_node(x), axis)
    given = node_of(repeats)
    counts = np.asarray(repeats) if given is None else value_of(given, "repeat")
    if counts.size != 1:
        return wrap(_repeated_by(node, counts, number))
    times = as_shape("repeat", counts.item())[0]
    before, size, after = node.shape[:number], node.shape[number], node.shape[number + 1 :]
    apart = reshape_node(node, (*before, size, 1, *after))
    stretched = stretch(apart, (*before, size, times, *after))
    return wrap(reshape_node(stretched, (*before, size * times, *after)))


def _repeated_by(x: Node, counts: np.ndarray, axis: int) -> Node:
    """Element k along `axis` repeated counts[k] times."""
    if counts.shape != (x.shape[axis],) or (counts < 0).any():
        raise ShapeError(
            explain(
                "repeat",
                "numbers of repetitions do not fit the axis",
                got={"x": x.type, "axis": axis, "repeats": counts.shape},
                expected=f"one number, or {x.shape[axis]} of them, >= 0",
            )
        )
    return take_index(x, (slice(None),) * axis + (np.repeat(np.arange(counts.size), counts),))
