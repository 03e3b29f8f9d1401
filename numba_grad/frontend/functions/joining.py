"""Functions of NumPy that join arrays, split them, and put in or take out parts."""

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.autograd.views import view_of
from numba_grad.dtypes import can_cast
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.shapes import (
    along_one_axis,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    moved_axes,
    part,
)
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_assigned,
    as_node,
    as_optional_dtype,
    common_dtype,
    node_of,
    stacked_tensors,
    value_of,
    wrap,
)
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes, normalize_axis
from numba_grad.ops.families import broadcast_to, cast, flattened
from numba_grad.ops.families import reshape as reshape_node
from numba_grad.ops.index_expressions import take_index
from numba_grad.ops.indexing import out_of_range
from numba_grad.ops.movement import concatenated, stacked

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "append",
    "array_split",
    "block",
    "column_stack",
    "concat",
    "concatenate",
    "delete",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "insert",
    "split",
    "stack",
    "trim_zeros",
    "unstack",
    "vsplit",
    "vstack",
]

# Joining


def concatenate(
    arrays: Sequence[ArrayLike],
    axis: int | None = 0,
    *,
    dtype: object = None,
    casting: str = "same_kind",
) -> "Tensor":
    """Arrays one after the other along an existing axis; with None, flattened.

    `casting` says what may be converted to `dtype`, as in `numpy.can_cast`, without which it
    changes nothing.
    """
    nodes = _one_dtype("concatenate", arrays, dtype, casting)
    if axis is None:
        nodes = tuple([flattened(x) for x in nodes])
        axis = 0
    number = normalize_axis("concatenate", axis, len(nodes[0].shape))
    return wrap(concatenated(nodes, number))


concat = concatenate


def stack(
    arrays: Sequence[ArrayLike],
    axis: int = 0,
    *,
    dtype: object = None,
    casting: str = "same_kind",
) -> "Tensor":
    """Arrays of one shape next to each other along a new axis; `casting` as in `concatenate`."""
    nodes = tuple([as_node(x) for x in arrays])
    are_alike = dtype is None and len({x.type for x in nodes}) == 1
    if not are_alike:
        nodes = _one_dtype("stack", nodes, dtype, casting)
    shape = nodes[0].type.shape
    if not are_alike and any(x.type.shape != shape for x in nodes):
        raise ShapeError(
            explain(
                "stack",
                "different shapes",
                got={f"array {k}": x.type for k, x in enumerate(nodes)},
                expected="the same shape for all",
                fix="concatenate(...) along an axis that they have",
            )
        )
    number = normalize_axis("stack", axis, len(shape) + 1)
    if are_alike:
        return new_tensor(stacked(nodes, number))
    expanded = (*shape[:number], 1, *shape[number:])
    return wrap(concatenated([reshape_node(x, expanded) for x in nodes], number))


@by_types(operands=1)
def vstack(
    arrays: Sequence[ArrayLike], *, dtype: object = None, casting: str = "same_kind"
) -> "Tensor":
    """Arrays below each other: along axis 0, 1-d ones as rows."""
    return concatenate([atleast_2d(x) for x in arrays], 0, dtype=dtype, casting=casting)


@by_types(operands=1)
def hstack(
    arrays: Sequence[ArrayLike], *, dtype: object = None, casting: str = "same_kind"
) -> "Tensor":
    """Arrays beside each other: along axis 1, 1-d ones along axis 0."""
    expanded = [atleast_1d(x) for x in arrays]
    axis = 0 if expanded and expanded[0].ndim == 1 else 1
    return concatenate(expanded, axis, dtype=dtype, casting=casting)


@by_types(operands=1)
def dstack(arrays: Sequence[ArrayLike], *, dtype: object = None) -> "Tensor":
    """Arrays one after the other along the third axis."""
    return concatenate([atleast_3d(x) for x in arrays], 2, dtype=dtype)


@by_types(operands=1)
def column_stack(arrays: Sequence[ArrayLike]) -> "Tensor":
    """Arrays beside each other along axis 1, 1-d ones as columns."""
    nodes = [as_node(x) for x in arrays]
    return concatenate(
        [x if len(x.shape) > 1 else reshape_node(x, (x.type.size, 1)) for x in nodes], 1
    )


def _one_dtype(
    operation: str, arrays: Iterable[ArrayLike], dtype: object, casting: str = "same_kind"
) -> tuple[Node, ...]:
    nodes = tuple([as_node(x) for x in arrays])
    if not nodes:
        raise ValueError(explain(operation, "no arrays", expected="at least one"))
    wanted = as_optional_dtype(dtype)
    if wanted is not None:
        for number, x in enumerate(nodes):
            if not can_cast(x.dtype, wanted, casting):
                raise DTypeError(
                    explain(
                        operation,
                        f"{x.dtype.name} is not to be converted to {wanted.name}",
                        got={f"array {number}": x.type, "casting": casting},
                        fix="casting='unsafe', which rounds toward 0",
                    )
                )
        return tuple([cast(x, wanted) for x in nodes])
    return common_dtype(nodes)


def block(arrays: Any) -> "Tensor":
    """One array out of nested lists of blocks: the innermost lists are joined along the last axis,
    those around them along the one before, and so on.

    Raises
    ------
    ValueError
        If lists are empty, or not nested to the same depth everywhere.
    """
    depth = _depth_of_lists(arrays)
    leaves = _leaves_of_lists(arrays)
    nodes = iter(_one_dtype("block", leaves, None))
    rank = max([depth, *[np.ndim(leaf) for leaf in leaves]])
    return wrap(_joined(arrays, nodes, rank, depth))


def _depth_of_lists(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise TypeError(explain("block", "a tuple", got={"arrays": arrays}, fix="a list of blocks"))
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError(explain("block", "an empty list", expected="at least one block in each"))
    depths = [_depth_of_lists(item) for item in arrays]
    if len(set(depths)) > 1:
        raise ValueError(
            explain(
                "block",
                "lists are not nested to the same depth everywhere",
                got={f"item {k}": f"depth {depth}" for k, depth in enumerate(depths)},
            )
        )
    return depths[0] + 1


def _leaves_of_lists(arrays: Any) -> list[ArrayLike]:
    if not isinstance(arrays, list):
        return [arrays]
    return [leaf for item in arrays for leaf in _leaves_of_lists(item)]


def _joined(arrays: Any, nodes: Iterator[Node], rank: int, depth: int) -> Node:
    """The block of these lists, `depth` deep, whose arrays are the next of `nodes`."""
    if not isinstance(arrays, list):
        node = next(nodes)
        return reshape_node(node, (1,) * (rank - len(node.shape)) + node.shape)
    blocks = [_joined(item, nodes, rank, depth - 1) for item in arrays]
    return OPS["concatenate"](*blocks, axis=rank - depth)


# Splitting


def split(x: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> "list[Tensor]":
    """Parts of `x` along `axis`: so many equal ones, or cut at the given indices.

    Raises
    ------
    ShapeError
        If the axis does not divide into so many equal parts.
    """
    node = as_node(x)
    number = normalize_axis("split", axis, len(node.shape))
    sections: Any = indices_or_sections
    if not _are_places(sections) and node.shape[number] % operator.index(sections):
        raise ShapeError(
            explain(
                "split",
                "the axis does not divide into equal parts",
                got={"x": node.type, "axis": number, "parts": sections},
                fix=f"array_split(x, {sections}) for parts of different sizes",
            )
        )
    return array_split(x, sections, number)


def array_split(
    x: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0
) -> "list[Tensor]":
    """As `split`; the first parts are longer by one where the axis does not divide evenly."""
    node = as_node(x)
    number = normalize_axis("array_split", axis, len(node.shape))
    given: Any = indices_or_sections
    size = node.shape[number]
    if _are_places(given):
        cuts = [0, *[operator.index(cut) for cut in given], size]
    else:
        sections = operator.index(given)
        if sections <= 0:
            raise ValueError(explain("split", "no parts", got={"parts": sections}, expected=">= 1"))
        each, longer = divmod(size, sections)
        cuts = [k * each + min(k, longer) for k in range(sections + 1)]
    return [view_of(x, part(node, number, start, stop)) for start, stop in itertools.pairwise(cuts)]


def _are_places(sections: Any) -> bool:
    return isinstance(sections, Iterable) and getattr(sections, "ndim", 1) > 0


def hsplit(x: ArrayLike, indices_or_sections: int | Sequence[int]) -> "list[Tensor]":
    """As `split`, along the second axis; along the first of 1-d arrays."""
    node = as_node(x)
    if not node.shape:
        raise ShapeError(explain("hsplit", "needs an axis", got={"x": node.type}))
    return split(x, indices_or_sections, 1 if len(node.shape) > 1 else 0)


def vsplit(x: ArrayLike, indices_or_sections: int | Sequence[int]) -> "list[Tensor]":
    """As `split`, along the first axis of arrays with two or more."""
    return _split_of("vsplit", x, indices_or_sections, 0, 2)


def dsplit(x: ArrayLike, indices_or_sections: int | Sequence[int]) -> "list[Tensor]":
    """As `split`, along the third axis."""
    return _split_of("dsplit", x, indices_or_sections, 2, 3)


def _split_of(
    operation: str, x: ArrayLike, sections: int | Sequence[int], axis: int, rank: int
) -> "list[Tensor]":
    node = as_node(x)
    if len(node.shape) < rank:
        raise ShapeError(explain(operation, f"needs {rank} axes", got={"x": node.type}))
    return split(x, sections, axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> "tuple[Tensor, ...]":
    """The parts of `x` at each index of `axis`, without that axis."""
    node = as_node(x)
    number = normalize_axis("unstack", axis, len(node.shape))
    before = (slice(None),) * number
    parts = [take_index(node, (*before, k)) for k in range(node.shape[number])]
    # As rows of an array are views and its elements numbers.
    return tuple([view_of(x, k) if k.shape else wrap(k) for k in parts])


# Putting in and taking out


@by_types(operands=2)
def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> "Tensor":
    """`values` after `x` along an existing axis; without an axis, both flattened."""
    return concatenate([x, values], axis)


def insert(x: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> "Tensor":
    """`x` with `values`, in its dtype, put in before the places `obj` along `axis`.

    Parameters
    ----------
    obj : an integer, integers, a slice, or a mask. Places count in `x` as it was
    values : broadcast to what is put in; along `axis` of any size if `obj` is one integer
    axis : by default both are flattened

    Raises
    ------
    IndexError
        If a place is out of range.
    """
    node, number = along_one_axis("insert", as_node(x), axis)
    size = node.shape[number]
    places = _places("insert", obj, number, size, last=size)
    added = cast(as_assigned(values, node), node.dtype)
    count = places.size
    if count == 1:
        added = reshape_node(added, (1,) * (len(node.shape) - len(added.shape)) + added.shape)
        if places.ndim == 0:  # as in x[:, 0, :] = values, where values may be without that axis
            added = moved_axes(added, 0, number)
        count = added.shape[number]
    shape = (*node.shape[:number], count, *node.shape[number + 1 :])
    added = broadcast_to(added, shape)
    # Where each run of what is added begins, and the run: in order of the places.
    order = places.reshape(-1).argsort(kind="stable").tolist()
    runs = [(int(places.flat[k]), k, k + 1) for k in order]
    if places.size == 1:
        runs = [(runs[0][0], 0, count)]
    if len(runs) > 8:  # one gather in place of many parts
        return wrap(_inserted_by_index(node, number, added, [place for place, *_ in runs], order))
    parts, done = [], 0
    for place, start, stop in runs:
        parts += [part(node, number, done, place), part(added, number, start, stop)]
        done = place
    return wrap(OPS["concatenate"](*parts, part(node, number, done, size), axis=number))


def _inserted_by_index(
    x: Node, axis: int, added: Node, places: list[int], order: list[int]
) -> Node:
    """`x` with part order[k] of `added` before places[k], which are in order."""
    size = x.shape[axis]
    source = np.insert(np.arange(size), places, size + np.array(order))
    both = OPS["concatenate"](x, added, axis=axis)
    return take_index(both, (slice(None),) * axis + (source,))


def delete(x: ArrayLike, obj: Any, axis: int | None = None) -> "Tensor":
    """`x` without the places `obj` along `axis`: an integer, integers, a slice, or a mask.

    Without an axis, `x` is flattened.

    Raises
    ------
    IndexError
        If a place is out of range.
    """
    node, number = along_one_axis("delete", as_node(x), axis)
    size = node.shape[number]
    keep = np.ones(size, bool)
    keep[_places("delete", obj, number, size, last=size - 1)] = False
    edges = np.flatnonzero(np.diff(keep, prepend=False, append=False)).tolist()
    if len(edges) > 8:  # many runs: one gather in place of many parts
        return wrap(take_index(node, (slice(None),) * number + (keep.nonzero()[0],)))
    runs = zip(edges[::2], edges[1::2], strict=True)
    parts = [part(node, number, start, stop) for start, stop in runs]
    return wrap(OPS["concatenate"](*parts, axis=number) if parts else part(node, number, 0, 0))


def _places(operation: str, obj: Any, axis: int, size: int, last: int) -> np.ndarray:
    """The places that an integer, integers, a slice or a mask name: from 0 to `last`."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    node = node_of(obj)
    if node is None and isinstance(obj, list | tuple):
        node = stacked_tensors(obj)
    places = np.asarray(obj) if node is None else value_of(node, operation)
    if places.size == 0 and not isinstance(obj, np.ndarray):
        places = places.astype(np.int64)
    if places.ndim > 1 and operation == "delete" and places.dtype.kind in "iu":
        places = places.ravel()  # as of np.nonzero(mask), which NumPy takes
    if places.ndim > 1 or places.dtype.kind not in "iub":
        raise IndexError(
            explain(
                operation,
                "not places along an axis",
                got={"obj": repr(obj)},
                expected="an integer, a slice, or 1-d integers or a mask",
            )
        )
    if places.dtype.kind == "b":
        if operation == "delete" and places.shape != (size,):
            raise ShapeError(
                explain(
                    operation,
                    "the mask does not have the size of the axis",
                    got={"obj": places.shape, "axis": axis, "size": size},
                )
            )
        places = np.flatnonzero(places)
    bad = (places < -size) | (places > last)
    if bad.any():
        raise IndexError(out_of_range(operation, int(places[bad].ravel()[0]), axis, size))
    return np.where(places < 0, places + size, places).astype(np.int64)


def trim_zeros(x: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> "Tensor":
    """`x` without the zeros at its front ("f"), its back ("b"), or both, along `axis` or all axes.

    Computes `x` now: what remains is as large as its values say.
    """
    sides = trim.lower()
    if sides not in ("f", "b", "fb", "bf"):
        raise ValueError(explain("trim_zeros", f"trim={trim!r}", expected="'f', 'b' or 'fb'"))
    node = as_node(x)
    places = value_of(node, "trim_zeros").nonzero()
    index = [slice(None)] * len(node.shape)
    for number in normalize_axes("trim_zeros", axis, len(node.shape)):
        found = places[number]
        if not found.size:
            index[number] = slice(0, 0)
        else:
            start = int(found.min()) if "f" in sides else 0
            index[number] = slice(start, int(found.max()) + 1 if "b" in sides else None)
    return view_of(x, take_index(node, tuple(index)))
