"""Functions of arrays as sets. How long a result is depends on values, so these compute their
arguments now, as `nonzero` does; the values in a result are elements taken, with their gradients.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_arrays,
    as_node,
    common_dtype,
    constant_beside,
    value_of,
    wrap,
)
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import flattened
from numba_grad.ops.index_expressions import take_index

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "intersect1d",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAllResult(NamedTuple):
    values: "Tensor"
    indices: "Tensor"
    inverse_indices: "Tensor"
    counts: "Tensor"


class UniqueCountsResult(NamedTuple):
    values: "Tensor"
    counts: "Tensor"


class UniqueInverseResult(NamedTuple):
    values: "Tensor"
    inverse_indices: "Tensor"


def unique(
    x: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> "Tensor | tuple[Tensor, ...]":
    """The different elements of `x` in order; with `axis`, its different parts along that axis.

    Parameters
    ----------
    x : Tensor, any shape; its value is needed now
    return_index : also the index in the flattened `x`, or along `axis`, of the first of each
    return_inverse : also the indices that make `x` from the result
    return_counts : also how often each occurs
    axis : int, optional
    equal_nan : whether all nan are one value
    sorted : the result is in order also if this is False

    Returns
    -------
    The values, then the int64 tensors asked for. Gradients flow to the first of equals.

    Raises
    ------
    TracingError
        Inside jit and vmap, where there is no value.
    """
    node = as_node(x)
    number = None if axis is None else normalize_axis("unique", axis, len(node.shape))
    _, index, inverse, counts = np.unique(
        value_of(node, "unique"),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=number,
        equal_nan=equal_nan,
    )
    if number is None:
        values = _taken(flattened(node), index)
    else:
        values = wrap(take_index(node, (slice(None),) * number + (index,)))
    asked = [(return_index, index), (return_inverse, inverse), (return_counts, counts)]
    further = [_of_integers(node, array) for is_asked, array in asked if is_asked]
    return (values, *further) if further else values


def unique_all(x: ArrayLike, /) -> UniqueAllResult:
    """Values, first indices, inverse indices and counts, as from `unique`; every nan is its own."""
    return UniqueAllResult(*_several(x, return_index=True, return_inverse=True, return_counts=True))


def unique_counts(x: ArrayLike, /) -> UniqueCountsResult:
    """Values and counts, as from `unique`; every nan is its own."""
    return UniqueCountsResult(*_several(x, return_counts=True))


def unique_inverse(x: ArrayLike, /) -> UniqueInverseResult:
    """Values and inverse indices, as from `unique`; every nan is its own."""
    return UniqueInverseResult(*_several(x, return_inverse=True))


def unique_values(x: ArrayLike, /) -> "Tensor":
    """The values of `unique`, in order; every nan is its own."""
    result = unique(x, equal_nan=False)
    assert not isinstance(result, tuple)
    return result


def _several(x: ArrayLike, **asked: bool) -> "tuple[Tensor, ...]":
    result = unique(x, equal_nan=False, **asked)
    assert isinstance(result, tuple)
    return result


def intersect1d(
    x: ArrayLike, y: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> "Tensor | tuple[Tensor, ...]":
    """The values that are in both, in order; with `return_indices`, where they are first in each.

    Gradients flow to `x`.
    """
    first, second = (flattened(node) for node in as_arrays((x, y)))
    _, in_first, in_second = np.intersect1d(
        value_of(first, "intersect1d"),
        value_of(second, "intersect1d"),
        assume_unique,
        return_indices=True,
    )
    values = _taken(first, in_first)
    if not return_indices:
        return values
    return (values, *[_of_integers(first, k) for k in (in_first, in_second)])


def union1d(x: ArrayLike, y: ArrayLike) -> "Tensor":
    """The values that are in one or both, in order."""
    both, _ = _joined(*common_dtype((x, y)))
    return _taken(both, _first_of_each(value_of(both, "union1d")))


def setdiff1d(x: ArrayLike, y: ArrayLike, assume_unique: bool = False) -> "Tensor":
    """The values of `x` that are not in `y`: in order, or with `assume_unique` in that of `x`."""
    node = flattened(as_node(x))
    own, others = value_of(node, "setdiff1d"), value_of(as_node(y), "setdiff1d")
    positions = np.arange(len(own)) if assume_unique else _first_of_each(own)
    return _taken(node, positions[~np.isin(own[positions], others)])


def setxor1d(x: ArrayLike, y: ArrayLike, assume_unique: bool = False) -> "Tensor":
    """The values that are in one but not in both, in order."""
    both, count = _joined(*as_arrays((x, y)))
    value = value_of(both, "setxor1d")
    positions = np.arange(len(value))
    if not assume_unique:
        first, second = _first_of_each(value[:count]), _first_of_each(value[count:])
        positions = np.concatenate([first, second + count])
    # nan differs from nan, as in NumPy: one in each is two values.
    _, index, times = np.unique(
        value[positions], return_index=True, return_counts=True, equal_nan=False
    )
    return _taken(both, positions[index[times == 1]])


def _joined(x: Node, y: Node) -> tuple[Node, int]:
    """Both arrays, flat, one after the other, and the size of the first."""
    first, second = flattened(x), flattened(y)
    return OPS["concatenate"](first, second, axis=0), first.type.size


def _first_of_each(value: np.ndarray) -> np.ndarray:
    return np.unique(value, return_index=True)[1]


def _taken(x: Node, positions: np.ndarray) -> "Tensor":
    return wrap(take_index(x, (positions,)))


def _of_integers(x: Node, array: Any) -> "Tensor":
    """Places and counts, where `x` is."""
    return wrap(constant_beside(x, np.asarray(array, np.int64)))
