"""`r_` and `c_`: arrays joined by what looks like an index, `ng.r_[0, x, 1:5]`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.functions.joining import concatenate
from numba_grad.frontend.inputs.arrays import common_dtype
from numba_grad.graph.node import Node
from numba_grad.ops.families import reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["c_", "r_"]


class _JoinedByIndex:
    """`numpy.r_` or `numpy.c_` of tensors, arrays, numbers and slices, which stand for ranges.

    A first item such as "1,2,0" says along which axis, to how many axes all are brought, and where
    those of arrays with fewer go. Matrices ("r", "c", or text alone) are refused.
    """

    __slots__ = ("_axis", "_n_axes", "_place")

    def __init__(self, axis: int, n_axes: int, place: int) -> None:
        self._axis = axis
        self._n_axes = n_axes
        self._place = place

    def __getitem__(self, key: Any) -> "Tensor":
        items = list(key) if isinstance(key, tuple) else [key]
        axis, n_axes, place = self._axis, self._n_axes, self._place
        if isinstance(items[0], str):
            given = _numbers_in(items.pop(0))
            axis, n_axes, place = (*given, *(axis, n_axes, place)[len(given) :])
        # Slices are of numbers only: NumPy makes the range, and knows steps such as 5j.
        values = [np.r_[item] if isinstance(item, slice) else item for item in items]
        nodes = common_dtype(tuple(values))
        return concatenate([_with_axes(node, n_axes, place) for node in nodes], axis)


def _numbers_in(directive: str) -> tuple[int, ...]:
    try:
        numbers = tuple([int(number) for number in directive.split(",")])
    except ValueError:
        numbers = ()
    if not 1 <= len(numbers) <= 3:
        raise ValueError(
            explain(
                "r_",
                f"{directive!r} is not supported: there are no matrices that are no arrays",
                expected='up to three integers, as in "0,2"',
                fix="ng.c_[x, y], ng.stack, ng.block",
            )
        )
    return numbers


def _with_axes(node: Node, n_axes: int, place: int) -> Node:
    """`node` with at least `n_axes` axes. Those that it has get number `place` and those after it;
    with -1 they are the last."""
    missing = n_axes - len(node.shape)
    if missing <= 0:
        return node
    before = place if place >= 0 else place + missing + 1
    return reshape(node, (1,) * before + node.shape + (1,) * (missing - before))


r_ = _JoinedByIndex(axis=0, n_axes=1, place=-1)
c_ = _JoinedByIndex(axis=-1, n_axes=2, place=0)
