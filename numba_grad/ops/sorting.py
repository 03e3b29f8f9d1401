"""Sorting and searching: positions that put elements in order, or keep them so."""

from collections.abc import Sequence

import numpy as np

from numba_grad.graph.node import Node
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import ALL, structural
from numba_grad.ops.movement import array_of
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
