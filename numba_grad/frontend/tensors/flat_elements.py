"""`x.flat`: the elements of a tensor in row-major order, to read, to go through, to assign.

`ndenumerate` and `broadcast` go through those of one and of several arrays.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from numba_grad.frontend.functions.creation import asarray
from numba_grad.frontend.functions.shapes import broadcast_arrays, ravel, reshape, resize
from numba_grad.frontend.inputs.arrays import ArrayLike, as_assigned, as_node, wrap

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor
    from numba_grad.graph.node import Node

# What one axis may be indexed by.
Index = SupportsIndex | slice | ArrayLike


class FlatElements:
    """As `numpy.flatiter`. It belongs to the tensor: what is assigned here is assigned there, and
    what is read is a copy of what the tensor is by then. Functions take it for an array with one
    axis."""

    __slots__ = ("_next", "base")

    base: "Tensor"

    def __init__(self, base: "Tensor") -> None:
        self.base = base
        self._next = 0

    @property
    def _node(self) -> "Node":
        return as_node(ravel(self.base))

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> "Iterator[Tensor]":
        return iter(self.copy())

    def __next__(self) -> "Tensor":
        if self._next == len(self):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    def __getitem__(self, index: Index) -> "Tensor":
        return self.copy()[index]

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        """Assign; a value with fewer elements than are assigned to is repeated, as in NumPy."""
        elements = ravel(self.base)
        size = elements[index].size
        values = ravel(wrap(as_assigned(value, self.base._node)))
        if values.size != size:
            # NumPy leaves out what is too much.
            values = resize(values, (size,)) if values.size < size else values[:size]
        elements[index] = reshape(values, elements[index].shape)
        self.base[...] = reshape(elements, self.base.shape)

    def copy(self) -> "Tensor":
        """All elements along one axis, as a new tensor."""
        return wrap(self._node)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(ravel(self.base), dtype, copy=copy)


def ndenumerate(x: ArrayLike) -> "Iterator[tuple[tuple[int, ...], Tensor]]":
    """The index of each element, and the element, in row-major order."""
    elements = asarray(x)
    return zip(np.ndindex(elements.shape), FlatElements(elements), strict=True)


class broadcast:
    """As `numpy.broadcast`: which shape arrays have together, and their elements side by side."""

    def __init__(self, *arrays: ArrayLike) -> None:
        self._arrays = broadcast_arrays(*arrays)
        self.shape: tuple[int, ...] = self._arrays[0].shape if arrays else ()

    @property
    def iters(self) -> tuple[FlatElements, ...]:
        return tuple([FlatElements(x) for x in self._arrays])

    @property
    def numiter(self) -> int:
        return len(self._arrays)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    nd = ndim

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> "Iterator[tuple[Tensor, ...]]":
        return zip(*self.iters, strict=True)
