"""Index arrays of which it is known what they name, as movements and choices, which fuse.

    x[:, [0, 1, 1], [0, 1, 2]], np.trace(x, axis1=1, axis2=2)   ->   slices that are joined
    p[np.arange(n), labels] of few columns                      ->   where(labels == 1, p[:, 1], ...
    its adjoint                                                 ->   where(columns == labels, v, 0)

An operation by index arrays is a kernel of its own if it adds, between others that store what it
reads and load what it makes.
"""

import functools
from collections.abc import Mapping

import numpy as np

from numba_grad.compiler.passes.diagonals_of_products import is_zero
from numba_grad.dtypes import INT64
from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.graph.walk import substitute
from numba_grad.ops.families import broadcast_to, cast, full, reshape
from numba_grad.ops.movement import concatenated, slice_params

_GATHER, _SCATTER_ADD = OPS["gather"], OPS["scatter_add"]
_STRETCHED = frozenset([OPS["reshape"], OPS["broadcast_to"]])
_CHECKED = {"checked": True}
FEW = 16  # elements, that axes are written out of
LONG = 64  # elements of each, from which on a kernel's loops are long beside what is written out


def known_places(outputs: list[Node], constants: Mapping[Node, np.ndarray]) -> list[Node]:
    """`outputs`, in which few elements are read and written without index arrays, and one element
    of each row by comparisons.

    Parameters
    ----------
    outputs : of a graph whose derivatives are taken
    constants : leaves whose values are the same in all runs
    """

    def change(node: Node) -> Node | None:
        if node.op is _GATHER:
            return _slices(node, constants) or _one_of_few(node, constants)
        if node.op is not _SCATTER_ADD or not is_zero(node.inputs[0]):
            return None
        return _joined(node, constants) or _chosen(node, constants)

    with recording(False):
        found = substitute(outputs, {}, change)
    return outputs if all(x is y for x, y in zip(found, outputs, strict=True)) else found


# Few elements


def _slices(node: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    """A gather."""
    x, *indices = node.inputs
    places = _few_places(x, indices, constants)
    if places is None:
        return None
    rows = _rows(x, x.shape[len(indices) :])
    return reshape(concatenated([_row(rows, k) for k in places], 0), node.shape)


def _joined(node: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    """A scatter: zeros, and at some places sums of what is put there, in the same order."""
    zeros, values, *indices = node.inputs
    places = _few_places(node, indices, constants)
    if places is None:
        return None
    rest = node.shape[len(indices) :]
    rows = _rows(values, rest)
    parts = [broadcast_to(zeros.inputs[0], (1, *rest))] * _count(node, indices)
    for number, place in enumerate(places):
        parts[place] = OPS["add"](parts[place], _row(rows, number))
    return reshape(concatenated(parts, 0), node.shape)


def _few_places(
    x: Node, indices: list[Node], constants: Mapping[Node, np.ndarray]
) -> list[int] | None:
    """The numbers of the parts of `x` that are named, in order, if few are and few may be."""
    if not all(k in constants for k in indices) or not 1 <= indices[0].type.size <= FEW:
        return None
    sizes, count = x.shape[: len(indices)], _count(x, indices)
    if not 1 <= count <= FEW or x.type.size < LONG * count:
        return None
    values = [np.asarray(constants[k]).ravel().astype(np.int64) for k in indices]
    if any((v < -n).any() or (v >= n).any() for v, n in zip(values, sizes, strict=True)):
        return None  # which is reported when it runs
    return np.ravel_multi_index([v % n for v, n in zip(values, sizes, strict=True)], sizes).tolist()


def _count(x: Node, indices: list[Node]) -> int:
    return int(np.prod(x.shape[: len(indices)]))


def _rows(x: Node, rest: tuple[int, ...]) -> Node:
    """With the axes that are named as one."""
    return reshape(x, (x.type.size // max(int(np.prod(rest)), 1), *rest))


def _row(rows: Node, number: int) -> Node:
    starts = (number, *[0] * (len(rows.shape) - 1))
    params = slice_params(starts, (1, *rows.shape[1:]), (1,) * len(rows.shape))
    return record(OPS["slice"], (rows,), params)


# One element of each row


def _one_of_few(node: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    """An element of each row of few, chosen where the row is computed. What is in memory already is
    better read there."""
    x, *indices = node.inputs
    axis = _counted_axis(x, indices, constants)
    if axis is None or len(indices) != 2 or x.shape[1 - axis] > FEW:
        return None
    source = x
    while source.op.family == "movement":
        source = source.inputs[0]
    if source.op.family != "elementwise":
        return None
    rows = x if axis == 1 else OPS["transpose"](x, axes=(1, 0, *range(2, len(x.shape))))
    place = _along(_place(node, indices[1 - axis], rows.shape[0]), 1, rows)
    found = _row(rows, 0)
    for k in range(1, rows.shape[0]):
        is_there = OPS["equal"](place, full(k, (), INT64))
        found = OPS["where"](is_there, _row(rows, k), found)
    return reshape(found, node.shape)


def _chosen(node: Node, constants: Mapping[Node, np.ndarray]) -> Node | None:
    """Zeros, where each row along one of the named axes has a value at one place."""
    zeros, values, *indices = node.inputs
    axis = _counted_axis(node, indices, constants)
    if axis is None:
        return None
    conditions = []
    for other, index in enumerate(indices):
        if other != axis:
            numbers = OPS["iota"](size=node.shape[other], dtype=INT64)
            place = _along(_place(node, index, node.shape[other]), axis, node)
            conditions.append(OPS["equal"](place, _along(numbers, other, node)))
    own = reshape(values, _only(axis, node.shape[: len(indices)]) + node.shape[len(indices) :])
    zero = zeros.inputs[0]
    condition = functools.reduce(OPS["logical_and"], conditions)
    return broadcast_to(OPS["where"](condition, OPS["add"](own, zero), zero), node.shape)


def _counted_axis(x: Node, indices: list[Node], constants: Mapping[Node, np.ndarray]) -> int | None:
    """The axis of `x`, if there is one, whose rows an operation names one after the other, each
    once, and by the other index arrays places in them."""
    if len(indices) < 2:
        return None
    axes = (k for k, index in enumerate(indices) if _counts(index, x.shape[k], constants))
    return next(axes, None)


def _counts(index: Node, size: int, constants: Mapping[Node, np.ndarray]) -> bool:
    """Whether an index array is 0, 1, 2, ..., through all of an axis."""
    if index.type.size != size:
        return False
    if index in constants:
        return np.array_equal(np.ravel(constants[index]), np.arange(size))
    while index.op in _STRETCHED and index.inputs[0].type.size == size:
        [index] = index.inputs
    return index.op is OPS["iota"]


def _place(node: Node, index: Node, size: int) -> Node:
    """An index array, one-dimensional and without numbers that count from the end. That some are
    out of range is reported as ever."""
    index = cast(reshape(index, (index.type.size,)), INT64)
    if not node.params["checked"]:
        return index
    return record(_GATHER, (OPS["iota"](size=size, dtype=INT64), index), _CHECKED)


def _along(numbers: Node, axis: int, node: Node) -> Node:
    """Numbers for each element along an axis, against all elements of `node`."""
    return reshape(numbers, _only(axis, node.shape))


def _only(axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([size if k == axis else 1 for k, size in enumerate(shape)])
