"""Sorting and searching: positions that put elements in order, or keep them so."""

import math
from collections.abc import Sequence

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.errors import ShapeError, explain
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import ALL, check_one_dtype, structural, together
from numba_grad.ops.movement import array_of
from numba_grad.ops.samples import Examples
from numba_grad.ops.scans import check_axis

# argsort


def _infer_argsort(x: Type, *, axis: int, descending: bool = False) -> Type:
    check_axis("argsort", x, axis)
    return array_type(x.shape, np.dtype(np.int64))


def _argsort_reference(x: np.ndarray, *, axis: int, descending: bool = False) -> np.ndarray:
    key = x
    if descending:
        # Order turned round, equal elements still in their order. Not -x for integers: the least
        # one and all unsigned ones have no negative.
        key = -x if is_inexact(x.dtype) else ~x
    return np.argsort(key, axis, stable=True)


def _sort_samples(rng: "np.random.Generator") -> list[np.ndarray]:
    with_nan = array_of(rng, 11)
    with_nan[[2, 7]] = np.nan
    ties = rng.integers(0, 3, (2, 9)).astype(np.float64)
    return [with_nan, ties, array_of(rng, 1), array_of(rng, 0), array_of(rng, 3, 4, 2)]


# Stable: equal elements keep their order, in both directions. NaN comes last, in both directions.
argsort = structural(
    "argsort",
    family="sort",
    infer=_infer_argsort,
    reference=_argsort_reference,
    vjp=None,
    dtypes=ALL,
    example=lambda rng: [
        ((x,), {"axis": axis, "descending": descending})
        for x in _sort_samples(rng)
        for axis in range(x.ndim)
        for descending in (False, True)
    ],
)


# searchsorted


def _infer_searchsorted(x: Type, v: Type, *, right: bool = False) -> Type:
    stack = x.shape[:-1]
    if x.rank < 1 or v.shape[: len(stack)] != stack:
        raise ShapeError(
            explain(
                "searchsorted",
                "values do not belong to rows",
                got={"x": x, "v": v},
                expected="x of shape (..., n), v of shape (..., any)",
            )
        )
    check_one_dtype("searchsorted", {"x": x, "v": v})
    return array_type(v.shape, np.dtype(np.int64))


def _searchsorted_reference(x: np.ndarray, v: np.ndarray, *, right: bool = False) -> np.ndarray:
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    values = v.reshape(len(rows), math.prod(v.shape[x.ndim - 1 :]))
    side = "right" if right else "left"
    found = [np.searchsorted(row, own, side) for row, own in zip(rows, values, strict=True)]
    return np.asarray(found, np.int64).reshape(v.shape)


def _batch_searchsorted(
    is_batched: Sequence[bool], x: Node, v: Node, *, right: bool = False
) -> Node:
    if not is_batched[0] and len(x.shape) == 1:
        return searchsorted(x, v, right=right)
    return searchsorted(*together(is_batched, x, v), right=right)


def _search_examples(rng: "np.random.Generator") -> Examples:
    ordered = np.array([-1.0, 0.0, 0.0, 0.5, 0.5, 0.5, 2.0, np.inf, np.nan])
    values = np.array([[-2.0, -1.0, 0.0], [0.5, np.inf, np.nan]])
    rows = np.sort(array_of(rng, 2, 3, 10))
    cases = [
        (ordered, values),
        (ordered, np.array(0.1)),
        (rows, array_of(rng, 2, 3, 4)),
        (rows, array_of(rng, 2, 3)),
        (array_of(rng, 1), array_of(rng, 5)),
        (array_of(rng, 0), array_of(rng, 5)),
        (array_of(rng, 4), array_of(rng, 0, 2)),
    ]
    return [(case, {"right": right}) for case in cases for right in (False, True)]


# How many elements along the last axis of x, which is in order, come before each v, or (right) do
# not come after it. The leading axes of v are those of x; NaN comes last.
searchsorted = structural(
    "searchsorted",
    family="sort",
    infer=_infer_searchsorted,
    reference=_searchsorted_reference,
    vjp=None,
    batch=_batch_searchsorted,
    dtypes=ALL,
    example=_search_examples,
)
