"""Scans and sorting: each result depends on many elements along one axis. The axis stays."""

import functools
from collections.abc import Sequence

import numpy as np

from numba_grad.errors import AxisError, explain
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import ALL, structural
from numba_grad.ops.movement import array_of


def _check_axis(operation: str, x: Type, axis: int) -> None:
    if not 0 <= axis < x.rank:
        raise AxisError(
            explain(
                operation,
                "axis out of range",
                got={"x": x, "axis": axis},
                expected=f"0 <= axis < {x.rank}" if x.rank else "an array of one axis or more",
                fix="" if x.rank else "x.reshape(1)",
            )
        )


@functools.cache
def _sum_dtype(dtype: np.dtype) -> np.dtype:
    """NumPy's: integers below 64 bits, and bool, are summed in 64 bits."""
    return np.cumsum(np.empty(0, dtype)).dtype


# cumsum


def _infer_cumsum(x: Type, *, axis: int, reverse: bool = False) -> Type:
    _check_axis("cumsum", x, axis)
    return array_type(x.shape, _sum_dtype(x.dtype))


def _cumsum_reference(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    if reverse:
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis)
    return np.cumsum(x, axis)


def _batch_cumsum(is_batched: Sequence[bool], x: Node, *, axis: int, reverse: bool = False) -> Node:
    return cumsum(x, axis=axis + 1, reverse=reverse)


# Reversed, the sums run from the last element to the first.
cumsum = structural(
    "cumsum",
    family="scan",
    input_names=("x",),
    infer=_infer_cumsum,
    reference=_cumsum_reference,
    vjp=(lambda g, out, x, *, axis, reverse=False: cumsum(g, axis=axis, reverse=not reverse),),
    batch=_batch_cumsum,
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 12),), {"axis": 0, "reverse": False}),
        ((array_of(rng, 12),), {"axis": 0, "reverse": True}),
        ((array_of(rng, 3, 4),), {"axis": 1, "reverse": False}),
        ((array_of(rng, 9, 2, 2),), {"axis": 0, "reverse": True}),
        ((array_of(rng, 2, 3, 4),), {"axis": 1, "reverse": False}),
        ((array_of(rng, 1),), {"axis": 0, "reverse": False}),
        ((array_of(rng, 0, 3),), {"axis": 0, "reverse": False}),
        ((array_of(rng, 3, 0),), {"axis": 0, "reverse": True}),
    ],
)


# argsort


def _infer_argsort(x: Type, *, axis: int, descending: bool = False) -> Type:
    _check_axis("argsort", x, axis)
    return array_type(x.shape, np.dtype(np.int64))


def _argsort_reference(x: np.ndarray, *, axis: int, descending: bool = False) -> np.ndarray:
    key = x
    if descending:
        # Order turned round, equal elements still in their order. Not -x for integers: the least
        # one and all unsigned ones have no negative.
        key = -x if x.dtype.kind in "fc" else ~x
    return np.argsort(key, axis, stable=True)


def _batch_argsort(
    is_batched: Sequence[bool], x: Node, *, axis: int, descending: bool = False
) -> Node:
    return argsort(x, axis=axis + 1, descending=descending)


def _sort_samples(rng: np.random.Generator) -> list[np.ndarray]:
    with_nan = array_of(rng, 11)
    with_nan[[2, 7]] = np.nan
    ties = rng.integers(0, 3, (2, 9)).astype(np.float64)
    return [with_nan, ties, array_of(rng, 1), array_of(rng, 0), array_of(rng, 3, 4, 2)]


# Stable: equal elements keep their order, in both directions. NaN comes last, in both directions.
argsort = structural(
    "argsort",
    family="sort",
    input_names=("x",),
    infer=_infer_argsort,
    reference=_argsort_reference,
    vjp=None,
    batch=_batch_argsort,
    dtypes=ALL,
    example=lambda rng: [
        ((x,), {"axis": axis, "descending": descending})
        for x in _sort_samples(rng)
        for axis in range(x.ndim)
        for descending in (False, True)
    ],
)
