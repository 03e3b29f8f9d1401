"""Functions of NumPy that put elements in order, or find places in an order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import INT64, promoted
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.indexing import taken_along
from numba_grad.frontend.functions.shapes import along_one_axis, part
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_arrays,
    as_node,
    canonical_dtype,
    constant_beside,
    known_value,
    scalar_leaf,
    value_of,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import is_axis_of_number, normalize_axis
from numba_grad.ops.families import cast, full, placed, reshape
from numba_grad.ops.index_expressions import take_index

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "isin",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
    "top_k",
]


def argsort(
    x: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> "Tensor":
    """The indices that put `x` in order along `axis`. Always stable; nan comes last.

    `kind` and `stable` are accepted for NumPy's sake and change nothing.
    """
    node, number = _sortable("argsort", x, axis, order)
    return wrap(OPS["argsort"](node, axis=number, descending=bool(descending)))


def sort(
    x: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> "Tensor":
    """`x` in order along `axis`. Always stable; nan comes last.

    `kind` and `stable` are accepted for NumPy's sake and change nothing.
    """
    node, number = _sortable("sort", x, axis, order)
    if axis is not None and not as_node(x).shape:
        return wrap(as_node(x))
    indices = OPS["argsort"](node, axis=number, descending=bool(descending))
    return wrap(taken_along(node, indices, number, checked=False))


def _sortable(operation: str, x: ArrayLike, axis: int | None, order: None) -> tuple[Node, int]:
    if order is not None:
        raise TypeError(explain(operation, "order= is for structured arrays, which do not exist"))
    return along_one_axis(operation, as_node(x), axis)


def partition(
    x: ArrayLike,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> "Tensor":
    """`x` with the elements number `kth` along `axis` in their place, smaller ones before them.

    It is `sort`: NumPy leaves open in which order the others are, and here all are in order.

    Raises
    ------
    ValueError
        If `kth` is out of range.
    """
    _check_kth("partition", x, kth, axis)
    return sort(x, axis, order=order)


def argpartition(
    x: ArrayLike,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> "Tensor":
    """The indices that `partition` `x` along `axis`. It is `argsort`.

    Raises
    ------
    ValueError
        If `kth` is out of range.
    """
    _check_kth("argpartition", x, kth, axis)
    return argsort(x, axis, order=order)


def _check_kth(operation: str, x: ArrayLike, kth: int | Sequence[int], axis: int | None) -> None:
    node, number = _sortable(operation, x, axis, None)
    size = node.shape[number]
    for k in np.atleast_1d(np.asarray(kth)).tolist():
        if not -size <= k < size:
            raise ValueError(
                explain(
                    operation,
                    "kth out of range",
                    got={"x": node.type, "kth": kth, "axis": axis},
                    expected=f"{-size} <= kth < {size}",
                )
            )


def top_k(x: ArrayLike, k: int, axis: int = -1, *, largest: bool = True) -> "tuple[Tensor, Tensor]":
    """The `k` largest elements along `axis`, in order from the largest, and their indices.

    Parameters
    ----------
    x : Tensor of one axis or more, real or complex
    k : int from 0 to the length of the axis
    axis : int
    largest : bool
        False for the smallest, from the smallest.

    Returns
    -------
    values, indices : Tensor, the shape of `x` with `k` along `axis`; indices are int64

    Notes
    -----
    Of equals those come first that come first in `x`; nan comes last. The whole axis is sorted.
    Gradients flow to the elements taken.
    """
    node = as_node(x)
    number = normalize_axis("top_k", axis, len(node.shape))
    size = node.shape[number]
    if not 0 <= k <= size:
        raise ValueError(
            explain(
                "top_k",
                "k out of range",
                got={"x": node.type, "k": k},
                expected=f"0 <= k <= {size}",
            )
        )
    order = OPS["argsort"](node, axis=number, descending=bool(largest))
    first = part(order, number, 0, k)
    return wrap(taken_along(node, first, number, checked=False)), wrap(first)


def lexsort(keys: Sequence[ArrayLike], axis: int = -1) -> "Tensor":
    """The indices that sort by several keys along `axis`: by the last one, then the one before it.

    Parameters
    ----------
    keys : sequence of Tensor of one shape, or a Tensor whose first axis counts the keys

    Raises
    ------
    TypeError
        If there is no key.
    ShapeError
        If shapes differ.
    """
    nodes = [as_node(key) for key in keys]
    if not nodes:
        raise TypeError(explain("lexsort", "needs at least one key"))
    if any(node.shape != nodes[0].shape for node in nodes):
        got = {f"key {k}": node.type for k, node in enumerate(nodes)}
        raise ShapeError(explain("lexsort", "keys of different shapes", got=got))
    if is_axis_of_number(axis, len(nodes[0].shape)):
        return wrap(full(0, (), INT64))
    number = normalize_axis("lexsort", axis, len(nodes[0].shape))
    order = OPS["argsort"](nodes[0], axis=number, descending=False)
    for node in nodes[1:]:
        key = taken_along(node, order, number, checked=False)
        # Stable: what is equal by this key stays in the order of the keys before it.
        moves = OPS["argsort"](key, axis=number, descending=False)
        order = taken_along(order, moves, number, checked=False)
    return wrap(order)


def sort_complex(x: ArrayLike) -> "Tensor":
    """`x` in order along its last axis, by real parts, then imaginary parts: a complex tensor."""
    node = as_node(x)
    is_small = node.dtype.kind in "iu" and node.dtype.itemsize <= 2
    result = node.dtype if node.dtype.kind == "c" else np.dtype("F" if is_small else "D")
    return wrap(cast(sort(node)._node, result))


# Places in an order


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> "Tensor":
    """Where each `v` would go in `a` to keep its order: a binary search.

    Parameters
    ----------
    a : Tensor, shape (n,), in increasing order, nan last
    v : Tensor, any shape
    side : "left" or "right"
        The first or the last place, among equals.
    sorter : Tensor of int, shape (n,), optional
        Indices that put `a` in order, as from `argsort`.

    Returns
    -------
    Tensor of int64, the shape of `v`
    """
    if side not in ("left", "right"):
        raise ValueError(
            explain("searchsorted", "no such side", got={"side": side}, expected="'left', 'right'")
        )
    node, values = as_node(a), as_node(v)
    if len(node.shape) != 1:
        problem = "the array to search is 1-d"
        raise ShapeError(explain("searchsorted", problem, got={"a": node.type}, fix="a.ravel()"))
    if sorter is not None:
        order = as_node(sorter)
        if order.dtype.kind not in "iu" or order.shape != node.shape:
            problem = "sorter is not an index for each element of a"
            got: dict[str, object] = {"a": node.type, "sorter": order.type}
            error = ShapeError if order.dtype.kind in "iu" else TypeError
            raise error(explain("searchsorted", problem, got=got, fix="sorter=ng.argsort(a)"))
        node = take_index(node, (order,))
    # Both are arrays here: a Python number too decides on the dtype, as in NumPy.
    dtype = canonical_dtype(promoted(node.dtype, values.dtype))
    node, values = cast(node, dtype), cast(values, dtype)
    return wrap(OPS["searchsorted"](node, values, right=side == "right"))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> "Tensor":
    """The bin of each element: i where bins[i - 1] <= x < bins[i], for increasing `bins`.

    Parameters
    ----------
    x : Tensor, any shape, real
    bins : Tensor, shape (n,), increasing or decreasing; its value is needed now
    right : bool
        Whether a bin includes its upper edge rather than its lower one.

    Returns
    -------
    Tensor of int64, the shape of `x`: from 0, below all bins, to n, above them

    Raises
    ------
    ValueError
        If `bins` are not in order.
    """
    node = as_node(x)
    edges = placed(as_node(bins), node.type.device)  # a parameter, from wherever
    for value in (node, edges):
        if value.dtype.kind == "c":
            raise DTypeError(
                explain("digitize", "complex numbers have no order", got={"x": value.type})
            )
    steps = np.diff(value_of(edges, "digitize").astype(float))
    side = "left" if right else "right"
    if (steps >= 0).all():
        return searchsorted(edges, node, side)
    if not (steps <= 0).all():
        problem = "bins must increase or decrease"
        raise ValueError(explain("digitize", problem, got={"bins": edges.type}, fix="sorted bins"))
    backwards = OPS["flip"](edges, axes=(0,))
    # Counted from the other end.
    return wrap(scalar_leaf(edges.shape[0], INT64) - searchsorted(backwards, node, side)._node)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> "Tensor":
    """Whether each element is one of `test_elements`; with `invert`, whether it is none of them.

    nan is never in. Of integers by a table, where the test elements are known and not far apart;
    else by sorting and binary search. `assume_unique` and `kind` change nothing.
    """
    x, known = as_arrays((element, test_elements))
    count = known.type.size
    if count == 0:
        return wrap(full(invert, x.shape, np.dtype(bool), x.type.device))
    table = _table_of_integers(test_elements, x.dtype, 6 * (x.type.size + count))
    if table is not None:
        found = _marked_in(*table, x)
        return wrap(OPS["logical_not"](found) if invert else found)
    known = sort(reshape(known, (count,)))._node
    place = OPS["searchsorted"](known, x, right=False)
    last = scalar_leaf(count - 1, INT64)
    candidate = OPS["gather"](known, OPS["minimum"](place, last), checked=False)
    return wrap(OPS["not_equal" if invert else "equal"](candidate, x))


def _table_of_integers(
    known: ArrayLike, dtype: np.dtype, limit: int
) -> tuple[np.ndarray, int] | None:
    """Which numbers from the least integer on are there, and that integer; None for other dtypes,
    for values that are not known, and where they spread over more than `limit` numbers."""
    value = known_value(as_node(known)) if dtype.kind in "iu" else None
    if value is None:
        return None
    least = int(value.min())
    size = int(value.max()) - least + 1
    if size > limit:
        return None
    table = np.zeros(size, bool)
    table[_distance(value.astype(dtype), least)] = True
    return table, least


def _distance(value: np.ndarray, least: int) -> np.ndarray:
    """From the least one: in a dtype that holds it."""
    if value.dtype.kind == "u":
        return (value - value.dtype.type(least)).astype(np.int64)
    return value.astype(np.int64) - least


def _marked_in(table: np.ndarray, least: int, x: Node) -> Node:
    """As `_distance`, where `x` is not beyond the ends of the table, and whether it is marked."""
    low, high = (scalar_leaf(end, x.dtype) for end in (least, least + len(table) - 1))
    is_within = OPS["logical_and"](OPS["greater_equal"](x, low), OPS["less_equal"](x, high))
    within = OPS["where"](is_within, x, low)
    if x.dtype.kind == "u":
        place = cast(OPS["subtract"](within, low), INT64)
    else:
        place = OPS["subtract"](cast(within, INT64), scalar_leaf(least, INT64))
    marked = OPS["gather"](constant_beside(x, table), place, checked=False)
    return OPS["logical_and"](is_within, marked)
