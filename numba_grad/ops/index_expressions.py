"""What `x[index]` means, for every index that NumPy takes, in terms of the primitives.

An index has two parts. The basic part (integers, slices, None, Ellipsis) is a strided region,
flipped and reshaped. Then the advanced part (integer arrays, masks) gathers along axes of that.

    take_index(x, index)        x[index]
    assign_index(x, index, v)   x after x[index] = v: a new value, x keeps its own
    add_at_index(x, index, v)   x after numpy.add.at(x, index, v): duplicates add up

Index arrays may be nodes. Where only the number of true elements of a mask gives the shape of the
result, the value of the mask is needed while recording: `value_of(node)` is asked for it.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.dtypes import INT64
from numba_grad.errors import ShapeError, TracingError, explain
from numba_grad.graph.node import OPS, Node, Op, SharedParams, leaf, record
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import axes_params, cast, placed, reshape, shape_params
from numba_grad.ops.families import broadcast_to as stretch
from numba_grad.ops.indexing import (
    BATCH_AXIS,
    check_range,
    gather,
    out_of_range,
    scatter_add,
    scatter_set,
)
from numba_grad.ops.movement import (
    add_slice,
    flip,
    inverse_permutation,
    permuted,
    region_params,
    slice_,
    slice_params,
    update_slice,
)
from numba_grad.ops.neighbouring_indices import neighbours_on_axes, written_to_neighbours

Shape = tuple[int, ...]
ValueOf = Callable[[Node], np.ndarray]


class BasicIndex(NamedTuple):
    """A region of x, one start, size and step (>= 1) per axis, less the axes of integers; then
    flips; then a reshape, for None."""

    starts: Shape
    sizes: Shape
    steps: Shape
    flips: Shape  # axes of x that negative steps walk backwards
    shape: Shape  # of the result: without the axes of integers, with an axis of size 1 per None
    movements: tuple[tuple[Op, tuple[Node, ...], SharedParams], ...]
    # what takes the region, each with its further inputs, of which there are none, and params


class AdvancedIndex(NamedTuple):
    """Arrays that index some axes of the basic part's result."""

    axes: Shape  # increasing
    arrays: tuple[np.ndarray | Node, ...]  # one per axis; ndarrays are int64, from 0 to n - 1
    shape: Shape  # what the arrays broadcast to
    position: int  # how many axes of the result come before theirs
    checked: bool  # kernels have to test the indices, since some are not known yet
    named_axes: Shape  # the numbers of the same axes in x
    is_list: bool = False  # whether the array is one list that the program's text has


class IndexExpression(NamedTuple):
    """One index, taken apart."""

    basic: BasicIndex
    advanced: AdvancedIndex | None
    shape: Shape  # of x[index]


def normalize_index(index: Any, shape: Shape, value_of: ValueOf | None = None) -> IndexExpression:
    """Take `index`, for an array of this shape, apart.

    Raises
    ------
    IndexError
        Where NumPy does: out of range, too many indices, not an index, a mask of another shape.
    TracingError
        If the value of a mask is needed and cannot be had.
    """
    entries = index if index.__class__ is tuple else (index,)
    key = basic_key(entries)
    if key is not None:
        return basic_expression(key, shape)
    found = _normalize([_entry(entry, value_of) for entry in entries], shape)
    if found.advanced is not None and any(entry.__class__ is list for entry in entries):
        is_list = len(found.advanced.arrays) == 1
        return found._replace(advanced=found.advanced._replace(is_list=is_list))
    return found


def basic_key(entries: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A hashable form of an index without arrays and other objects; None if it is not one."""
    # Taking an index apart costs 3-6 us, this key and the cache 1 us.
    key = []
    for entry in entries:
        kind = entry.__class__
        if kind is int or entry is None or entry is Ellipsis:
            key.append(entry)
        elif kind is slice:
            start, stop, step = entry.start, entry.stop, entry.step
            # By class: 1.0 and True equal 1, but are not indices, or not this one. One by one: as
            # a loop over the three it took 0.6 us, a fifth of recording a slice.
            if (
                (start is not None and start.__class__ is not int)
                or (stop is not None and stop.__class__ is not int)
                or (step is not None and step.__class__ is not int)
            ):
                return None
            key.append((start, stop, step))
        elif kind is np.int64:  # as `for k in order` gives them
            key.append(int(entry))
        else:
            return None
    return tuple(key)


@functools.lru_cache(maxsize=1 << 14)
def basic_expression(key: tuple[Any, ...], shape: Shape) -> IndexExpression:
    """An index without arrays, see `basic_key`."""
    entries = [slice(*entry) if entry.__class__ is tuple else entry for entry in key]
    return _normalize(entries, shape)


def _normalize(entries: list[Any], shape: Shape) -> IndexExpression:
    has_arrays = any(_is_array(entry) for entry in entries)
    missing = _missing_axes(entries, shape)
    walk = _Walk(shape)
    run = _Run()
    for entry in entries:
        if has_arrays:
            run.see(_is_array(entry) or entry.__class__ is int, walk.kept_axes())
        walk.step(entry, missing)
    basic = walk.basic()
    if not has_arrays:
        return IndexExpression(basic, None, basic.shape)
    advanced = _advanced(walk, run.position())
    others = [n for axis, n in enumerate(basic.shape) if axis not in advanced.axes]
    at = advanced.position
    return IndexExpression(basic, advanced, (*others[:at], *advanced.shape, *others[at:]))


# From what users write to int, slice, None, Ellipsis, bool, ndarray or Node.


def _entry(entry: Any, value_of: ValueOf | None) -> Any:
    kind = entry.__class__
    if kind is int or kind is slice or entry is None or entry is Ellipsis or kind is bool:
        return entry
    if kind is Node:
        return _node_entry(entry, value_of)
    if not isinstance(entry, np.ndarray):
        if hasattr(kind, "__index__"):
            return operator.index(entry)
        entry = _as_array(entry)
    if entry.dtype.kind not in "iub":
        raise IndexError(_not_an_index(entry))
    if entry.ndim == 0:
        return bool(entry) if entry.dtype.kind == "b" else int(entry)
    return entry


def _node_entry(node: Node, value_of: ValueOf | None) -> Any:
    if node.dtype.kind in "iu":
        return node
    if node.dtype.kind != "b":
        raise IndexError(_not_an_index(node.type))
    if not node.type.size:  # known without its value
        return np.zeros(node.shape, bool)
    if value_of is None:
        raise TracingError(
            explain(
                "index",
                "the shape of the result depends on the value of the mask",
                got={"mask": node.type},
                expected="a mask whose value is known",
                fix="where(mask, x, 0), whose shape does not depend on it",
            )
        )
    mask = np.asarray(value_of(node))
    return bool(mask) if mask.ndim == 0 else mask


def _as_array(entry: Any) -> np.ndarray:
    try:
        array = np.asarray(entry)
    except ValueError:  # lists of different lengths
        raise IndexError(_not_an_index(entry)) from None
    if array.size == 0 and isinstance(entry, list | tuple):
        return array.astype(INT64)  # [] has no dtype of its own
    return array


def _not_an_index(entry: Any) -> str:
    got, fix = repr(entry), "int(index) for whole floating numbers"
    if isinstance(entry, np.ndarray):
        kind = entry.dtype.kind
        got = f"{entry.dtype} array" if entry.shape or kind == "f" else repr(entry.item())
        if entry.shape or kind == "f":
            fix = "index.astype(int) for whole floating numbers"
        if kind in "OU":
            fix = "a dict of tensors, for what has names"
    return explain(
        "index",
        "not an index",
        got={"index": got},
        expected="integers, slices, ..., None, and integer or boolean arrays",
        fix=fix,
    )


def _is_array(entry: Any) -> bool:
    kind = entry.__class__
    return not (kind is int or kind is slice or entry is None or entry is Ellipsis)


def _consumed(entry: Any) -> int:
    """How many axes of x an entry is about."""
    kind = entry.__class__
    if kind is int or kind is slice:
        return 1
    if entry is None or entry is Ellipsis or kind is bool:
        return 0
    return len(entry.shape) if entry.dtype.kind == "b" else 1


def _missing_axes(entries: list[Any], shape: Shape) -> int:
    """How many axes the Ellipsis stands for. Adds one at the end if there is none."""
    consumed = 0
    ellipses = 0
    for entry in entries:
        consumed += _consumed(entry)
        ellipses += entry is Ellipsis
    if ellipses > 1:
        raise IndexError(explain("index", "more than one ...", expected="at most one"))
    if consumed > len(shape):
        raise IndexError(
            explain(
                "index",
                "too many indices",
                got={"shape": shape, "axes indexed": consumed},
                expected=f"at most {len(shape)}",
            )
        )
    if not ellipses:
        entries.append(Ellipsis)
    return len(shape) - consumed


class _Run:
    """Where the axes of index arrays land in the result: NumPy's rule.

    In the place of the first array if all arrays and integers are neighbours; else first.
    """

    __slots__ = ("_first", "_left", "_separated")

    def __init__(self) -> None:
        self._first: int | None = None
        self._left = False
        self._separated = False

    def see(self, is_advanced: bool, kept_axes: int) -> None:
        if is_advanced:
            self._separated |= self._left
            if self._first is None:
                self._first = kept_axes
        else:
            self._left = self._first is not None

    def position(self) -> int:
        return 0 if self._separated else self._first or 0


class _Walk:
    """Reads the entries of an index from left to right, and collects both parts."""

    __slots__ = (
        "_dropped",
        "_flips",
        "_kept",
        "_sizes",
        "_starts",
        "_steps",
        "arrays",
        "axes",
        "names",
        "x",
    )

    def __init__(self, shape: Shape) -> None:
        self.x = shape
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._steps: list[int] = []
        self._dropped: list[int] = []  # of integers
        self._flips: list[int] = []
        self._kept: list[int] = []  # the shape of the basic part's result
        self.axes: list[int] = []  # of that result, that arrays index
        self.arrays: list[np.ndarray | Node] = []
        self.names: list[int] = []

    def kept_axes(self) -> int:
        """How many axes of the result there are so far, not counting those of index arrays."""
        return len(self._kept) - len(self.axes)

    def basic(self) -> BasicIndex:
        starts, sizes, steps = tuple(self._starts), tuple(self._sizes), tuple(self._steps)
        flips, shape = tuple(self._flips), tuple(self._kept)
        dropped = tuple(self._dropped)
        left = [axis for axis in range(len(sizes)) if axis not in dropped]
        region = slice_params(starts, sizes, steps, dropped)
        movements: list[tuple[Op, tuple[Node, ...], SharedParams]] = [(slice_, (), region)]
        if flips:
            movements.append((flip, (), axes_params(tuple([left.index(axis) for axis in flips]))))
        if len(shape) != len(left):
            if sizes == self.x and not dropped and not flips:  # x[:, None]: nothing but new axes
                movements.clear()
            movements.append((OPS["reshape"], (), shape_params(shape)))
        return BasicIndex(starts, sizes, steps, flips, shape, tuple(movements))

    def step(self, entry: Any, missing: int) -> None:
        kind = entry.__class__
        if kind is int:
            self._integer(entry)
        elif kind is slice:
            self._slice(entry)
        elif entry is Ellipsis:
            for _ in range(missing):
                self._whole_axis()
        elif entry is None:
            self._kept.append(1)
        elif kind is bool:
            # As in NumPy: a new axis, taken once or not at all.
            self._kept.append(1)
            self._array(np.zeros(int(entry), INT64), BATCH_AXIS)
        elif entry.dtype.kind == "b":
            self._mask(entry)
        else:
            axis = len(self._sizes)
            self._whole_axis()
            self._array(entry, axis)

    def _whole_axis(self) -> None:
        size = self.x[len(self._sizes)]
        self._region(0, size, 1)
        self._kept.append(size)

    def _region(self, start: int, size: int, step: int) -> None:
        self._starts.append(start)
        self._sizes.append(size)
        self._steps.append(step)

    def _integer(self, number: int) -> None:
        axis = len(self._sizes)
        size = self.x[axis]
        if not -size <= number < size:
            raise IndexError(out_of_range("index", number, axis, size))
        self._dropped.append(axis)
        self._region(number + size if number < 0 else number, 1, 1)

    def _slice(self, entry: slice) -> None:
        axis = len(self._sizes)
        start, stop, step = entry.indices(self.x[axis])
        size = len(range(start, stop, step))
        if size == 0:
            start, step = 0, 1
        elif size == 1:
            step = 1
        elif step < 0:
            start += (size - 1) * step
            step = -step
            self._flips.append(axis)
        self._region(start, size, step)
        self._kept.append(size)

    def _mask(self, mask: np.ndarray) -> None:
        first = len(self._sizes)
        _check_mask(mask.shape, self.x, first)
        for k, index in enumerate(mask.nonzero()):
            self._whole_axis()
            self._array(index, first + k)

    def _array(self, index: np.ndarray | Node, name: int) -> None:
        self.axes.append(len(self._kept) - 1)
        self.arrays.append(index)
        self.names.append(name)


def _check_mask(mask: Shape, x: Shape, first: int) -> None:
    """As NumPy: an axis of size 0 fits every size, as nothing is chosen."""
    axes = x[first : first + len(mask)]
    if len(axes) < len(mask) or any(m not in (0, n) for m, n in zip(mask, axes, strict=True)):
        raise IndexError(
            explain(
                "index",
                "the mask does not have the shape of the axes it indexes",
                got={"mask": mask, "x": x, "axes": tuple(range(first, first + len(mask)))},
                expected=f"a mask of shape {axes}",
            )
        )


def _advanced(walk: _Walk, position: int) -> AdvancedIndex:
    shapes = [a.shape for a in walk.arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            explain(
                "index",
                "index arrays do not broadcast together",
                got={f"index of axis {a}": s for a, s in zip(walk.names, shapes, strict=True)},
                expected="on every axis, counted from the last, equal sizes or a size of 1",
                fix="numpy.ix_(i, j) for every combination",
            )
        ) from None
    basic = walk.basic()
    arrays = tuple(
        a if isinstance(a, Node) else _in_range(a, name, basic.shape[axis], 0 not in shape)
        for a, axis, name in zip(walk.arrays, walk.axes, walk.names, strict=True)
    )
    checked = any(isinstance(a, Node) for a in arrays)
    return AdvancedIndex(tuple(walk.axes), arrays, shape, position, checked, tuple(walk.names))


def _in_range(index: np.ndarray, axis: int, size: int, is_used: bool) -> np.ndarray:
    """Its own copy, negative indices wrapped, after a check that all are in range."""
    if is_used:
        check_range("index", index, axis, size)
    copy = index.astype(INT64, order="C")
    copy[copy < 0] += size
    return copy


# Reading


def take_index(x: Node, index: Any, value_of: ValueOf | None = None) -> Node:
    """`x[index]`, always as a new node."""
    return take(x, normalize_index(index, x.shape, value_of))


def take(x: Node, expression: IndexExpression) -> Node:
    basic, advanced = expression.basic, expression.advanced
    if advanced is None:
        return _take_region(x, basic)
    known = [a for a in advanced.arrays if isinstance(a, np.ndarray)]
    if len(known) == len(advanced.arrays):
        part = x if _is_whole(x, basic) else _take_region(x, basic)
        axes, shape, is_list = advanced.axes, advanced.shape, advanced.is_list
        found = neighbours_on_axes(part, axes, known, shape, is_list=is_list)
        if found is not None:
            return permuted(found, _order_of_position(advanced, len(found.shape)))
    indices = _index_nodes(advanced, x.type.device)
    taken = gather(_indexed_axes_first(x, basic, advanced), *indices, **_params(advanced))
    return permuted(taken, _result_order(expression))


def _take_region(x: Node, basic: BasicIndex) -> Node:
    for op, _, params in basic.movements:
        x = record(op, (x,), params)
    return x


def _is_whole(x: Node, basic: BasicIndex) -> bool:
    """Whether the basic part changes nothing."""
    return basic.sizes == x.shape == basic.shape and not basic.flips


def _indexed_axes_first(x: Node, basic: BasicIndex, advanced: AdvancedIndex) -> Node:
    part = x if _is_whole(x, basic) else _take_region(x, basic)
    return permuted(part, _operand_order(basic, advanced))


def _operand_order(basic: BasicIndex, advanced: AdvancedIndex) -> Shape:
    others = [axis for axis in range(len(basic.shape)) if axis not in advanced.axes]
    return (*advanced.axes, *others)


def _result_order(expression: IndexExpression) -> Shape:
    """Which axis of what gather gives, index axes first, each axis of the result is."""
    advanced = expression.advanced
    assert advanced is not None
    count = len(advanced.shape)
    others = range(count, len(expression.shape))
    at = advanced.position
    return (*others[:at], *range(count), *others[at:])


def _order_of_position(advanced: AdvancedIndex, rank: int) -> Shape:
    """Which axis of what has the index axes where the first array stood each of the result is."""
    first, count = advanced.axes[0], len(advanced.shape)
    own = range(first, first + count)
    others = [axis for axis in range(rank) if axis not in own]
    at = advanced.position
    return (*others[:at], *own, *others[at:])


def _index_nodes(advanced: AdvancedIndex, device: str) -> list[Node]:
    """On the device of what is indexed: what is known on the host is copied there."""
    nodes = [a if isinstance(a, Node) else leaf(a) for a in advanced.arrays]
    return [stretch(placed(node, device), advanced.shape) for node in nodes]


def _params(advanced: AdvancedIndex) -> dict[str, Any]:
    if advanced.named_axes == tuple(range(len(advanced.axes))):
        return {"checked": advanced.checked}
    return {"checked": advanced.checked, "named_axes": advanced.named_axes}


# Writing


def assign_index(x: Node, index: Any, v: Node, value_of: ValueOf | None = None) -> Node:
    """`x` after `x[index] = v`, where v is cast to the dtype of x and broadcast.

    Raises
    ------
    ShapeError
        If v does not broadcast to the shape of x[index].
    """
    v = cast(v, x.dtype)
    key = basic_key(index if index.__class__ is tuple else (index,))
    if key is not None:  # as in most loops: half of the time
        expression = basic_expression(key, x.shape)
        return _write_region(update_slice, x, expression.basic, fit(v, expression.shape))
    written = _write_by_mask(x, index, v)
    if written is not None:
        return written
    return _write(x, normalize_index(index, x.shape, value_of), v, update_slice, scatter_set)


def add_at_index(x: Node, index: Any, v: Node, value_of: ValueOf | None = None) -> Node:
    """`x` after `numpy.add.at(x, index, v)`: what several indices name gets all their additions.

    Raises
    ------
    ShapeError
        If v does not broadcast to the shape of x[index].
    """
    v = cast(v, x.dtype)
    written = _write_by_mask(x, index, v, OPS["add"])
    if written is not None:
        return written
    return _write(x, normalize_index(index, x.shape, value_of), v, add_slice, scatter_add)


def _write(x: Node, expression: IndexExpression, v: Node, write_slice: Op, scatter: Op) -> Node:
    basic, advanced = expression.basic, expression.advanced
    v = fit(v, expression.shape)
    if advanced is None:
        return _write_region(write_slice, x, basic, v)
    order = _operand_order(basic, advanced)
    target = _indexed_axes_first(x, basic, advanced)
    indices_first = permuted(v, inverse_permutation(_result_order(expression)))
    written = None
    if len(advanced.arrays) == 1 and isinstance(advanced.arrays[0], np.ndarray):
        index, is_list = advanced.arrays[0], advanced.is_list
        written = written_to_neighbours(target, index, indices_first, write_slice, is_list=is_list)
    if written is None:
        indices = _index_nodes(advanced, x.type.device)
        written = scatter(target, indices_first, *indices, **_params(advanced))
    written = permuted(written, inverse_permutation(order))
    return _replace_region(x, basic, written)


def _write_region(write_slice: Op, x: Node, basic: BasicIndex, v: Node) -> Node:
    v = reshape(v, basic.sizes)
    if basic.flips:
        v = flip(v, axes=basic.flips)
    return record(write_slice, (x, v), region_params(basic.starts, basic.steps))


def _replace_region(x: Node, basic: BasicIndex, part: Node) -> Node:
    """`x` with a region replaced by `part`, which was made from that region."""
    # A plain assignment keeps its update_slice even over all of x: so x stays in the graph.
    return part if _is_whole(x, basic) else _write_region(update_slice, x, basic, part)


def fit(v: Node, shape: Shape) -> Node:
    """`v` broadcast to `shape`. As in NumPy's assignment, further axes of size 1 may come first."""
    if v.type.shape == shape:
        return v
    extra = max(len(v.shape) - len(shape), 0)
    own = v.shape[extra:]
    fits = all(n in (1, m) for n, m in zip(reversed(own), reversed(shape), strict=False))
    if not fits or any(n != 1 for n in v.shape[:extra]):
        raise ShapeError(
            explain(
                "assignment",
                "v does not broadcast to the shape of x[index]",
                got={"x[index]": shape, "v": v.type},
                expected="on every axis, counted from the last, equal sizes or a size of 1 in v",
                fix="v[:, None] or v.reshape(...) to line the axes up",
            )
        )
    return stretch(reshape(v, own), shape)


class MaskedRegion(NamedTuple):
    """An index with one mask, as a choice element by element over a region of the array."""

    mask: Node | np.ndarray
    entries: tuple[Any, ...]  # the index of that region: all of the axes that the mask is about
    after: int  # how many axes of x[index] come after the one for the true elements

    def condition(self, device: str) -> Node:
        """The mask, which broadcasts to the region."""
        mask = self.mask
        node = mask if isinstance(mask, Node) else leaf(np.array(mask, order="C"))
        return reshape(placed(node, device), mask.shape + (1,) * self.after)


def masked_region(index: Any, shape: Shape) -> MaskedRegion | None:
    """Of an index with one mask, of an array of this shape: what makes of `x[index]` a matter of
    the elements of a region, and of no value of the mask. None if it does not apply."""
    entries = list(index) if isinstance(index, tuple) else [index]
    masks = [k for k, entry in enumerate(entries) if _is_mask(entry)]
    if len(masks) != 1:
        return None
    at = masks[0]
    mask = entries[at]
    if 0 in mask.shape:
        return None  # chooses nothing, of however many
    is_number = [_is_integer(entry) for entry in entries]
    others = [e for k, e in enumerate(entries) if k != at and not is_number[k]]
    if not all(e is None or e is Ellipsis or isinstance(e, slice) for e in others):
        return None
    missing = _missing_axes(entries, shape)
    is_number += [False] * (len(entries) - len(is_number))
    kept = [
        0 if is_int else missing if e is Ellipsis else 1
        for e, is_int in zip(entries, is_number, strict=True)
    ]
    beside = [k for k, is_int in enumerate(is_number) if is_int or k == at]
    if sum(kept[:at]) and beside[-1] - beside[0] >= len(beside):
        return None  # numbers apart from the mask: NumPy puts the axis of true elements first
    first = sum([missing if e is Ellipsis else _consumed(e) for e in entries[:at]])
    _check_mask(mask.shape, shape, first)
    entries[at : at + 1] = [slice(None)] * len(mask.shape)
    return MaskedRegion(mask, tuple(entries), sum(kept[at + 1 :]))


def read_region(x: Node, region: MaskedRegion) -> Node:
    """The elements of it, selected or not."""
    expression = normalize_index(region.entries, x.shape)
    if expression.advanced is None and _is_whole(x, expression.basic):
        return x
    return take(x, expression)


def write_where(x: Node, region: MaskedRegion, v: Node, combine: Op | None = None) -> Node:
    """`x` with `v`, which broadcasts to the region and has the dtype of `x`, where the mask is
    true; or what `combine` makes of the elements and `v`."""
    expression = normalize_index(region.entries, x.shape)
    old = read_region(x, region)
    new = fit(v, expression.shape)
    new = new if combine is None else combine(old, new)
    chosen = OPS["where"](region.condition(x.type.device), new, old)
    if expression.advanced is None:
        return _replace_region(x, expression.basic, chosen)
    return _write(x, expression, chosen, update_slice, scatter_set)


def _write_by_mask(x: Node, index: Any, v: Node, combine: Op | None = None) -> Node | None:
    """For a v that has nothing of its own for each true element; else None."""
    region = masked_region(index, x.shape)
    if region is None:
        return None
    values = without_count(v, len(region.mask.shape), region.after)
    return None if values is None else write_where(x, region, values, combine)


def _is_integer(entry: Any) -> bool:
    if isinstance(entry, Node | np.ndarray):
        return not entry.shape and entry.dtype.kind in "iu"
    return entry.__class__ is int or isinstance(entry, np.integer)


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, Node | np.ndarray) and entry.dtype.kind == "b"


def without_count(v: Node, rank: int, after: int) -> Node | None:
    """`v` with as many axes of size 1 as the mask has, in place of one for the true elements.

    None if that one is longer: then each true element gets its own value.
    """
    before = len(v.shape) - after
    if before <= 0:
        return v
    if v.shape[before - 1] != 1:
        return None
    return reshape(v, v.shape[: before - 1] + (1,) * rank + v.shape[before:])
