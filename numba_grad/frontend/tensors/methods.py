"""NumPy's functions as methods of tensors: `x.sum(axis=0)` is `ng.sum(x, axis=0)`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.autograd.views import note_array
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.functions import (
    choosing,
    contractions,
    elementwise,
    indexing,
    reductions,
    scans,
    shapes,
    sorting,
)
from numba_grad.frontend.functions.creation import Shape
from numba_grad.frontend.inputs.arrays import ArrayLike
from numba_grad.frontend.tensors.flat_elements import FlatElements
from numba_grad.graph.node import OPS, Node

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


class Methods:
    """Abstract: the part of Tensor that has the methods of `numpy.ndarray`."""

    __slots__ = ()

    _node: Node

    @property
    def T(self) -> "Tensor":
        """Axes in reversed order."""
        return shapes.transpose(self)

    @property
    def mT(self) -> "Tensor":
        """The last two axes exchanged."""
        return shapes.matrix_transpose(self)

    @property
    def real(self) -> "Tensor":
        """The real part: a view."""
        return elementwise.real(self)

    @real.setter
    def real(self, value: ArrayLike) -> None:
        elementwise.real(self)[...] = value

    @property
    def imag(self) -> "Tensor":
        """The imaginary part: a view; zeros for a real tensor."""
        return elementwise.imag(self)

    @imag.setter
    def imag(self, value: ArrayLike) -> None:
        if self._node.dtype.kind != "c":
            raise TypeError(
                explain(
                    "imag",
                    "a real tensor has no imaginary part to set",
                    got={"x": self._node.type},
                    fix="x = x.astype(complex) before",
                )
            )
        elementwise.imag(self)[...] = value

    @property
    def flat(self) -> FlatElements:
        """The elements in row-major order: x.flat[i], x.flat[i] = v, for v in x.flat."""
        return FlatElements(self)  # type: ignore[arg-type]

    @flat.setter
    def flat(self, value: ArrayLike) -> None:
        FlatElements(self)[:] = value  # type: ignore[arg-type]

    # Functions whose first argument is the tensor.
    conj = conjugate = elementwise.conjugate
    clip = elementwise.clip
    round = elementwise.round
    swapaxes = shapes.swapaxes
    squeeze = shapes.squeeze
    ravel = shapes.ravel
    repeat = shapes.repeat
    take = indexing.take
    nonzero = indexing.nonzero
    choose = choosing.choose
    argsort = sorting.argsort
    argpartition = sorting.argpartition
    searchsorted = sorting.searchsorted
    cumsum = scans.cumsum
    cumprod = scans.cumprod
    diagonal = contractions.diagonal
    trace = contractions.trace
    dot = contractions.dot
    sum = reductions.sum
    prod = reductions.prod
    mean = reductions.mean
    var = reductions.var
    std = reductions.std
    max = reductions.max
    min = reductions.min
    any = reductions.any
    all = reductions.all
    argmax = reductions.argmax
    argmin = reductions.argmin

    def astype(self, dtype: object, order: str = "K", *, copy: bool = True) -> "Tensor":
        """Converted to `dtype`, as NumPy converts; in memory row-major, whatever `order`. Text and
        objects are NumPy's arrays."""
        try:
            return elementwise.astype(self, dtype, copy=copy)
        except DTypeError:
            if np.dtype(dtype).kind not in "OSUmM":  # type: ignore[call-overload]
                raise
            return np.asarray(self).astype(dtype)  # type: ignore[return-value]

    def copy(self, order: str = "C") -> "Tensor":
        """The same values as a new tensor; gradients flow through. Row-major, whatever `order`."""
        result = new_tensor(OPS["identity"](self._node))
        note_array(result)
        return result

    clone = copy

    def reshape(self, *shape: Shape, order: str = "C", copy: bool | None = None) -> "Tensor":
        """The same elements in another shape: x.reshape(2, 3) or x.reshape((2, 3))."""
        return shapes.reshape(self, _one_or_many(shape), order, copy=copy)

    def transpose(self, *axes: Any) -> "Tensor":
        """Axes in another order: x.transpose(1, 0), x.transpose((1, 0)); reversed by default."""
        if not axes or axes == (None,):
            return shapes.transpose(self)
        return shapes.transpose(self, _one_or_many(axes))

    def flatten(self, order: str = "C") -> "Tensor":
        """All elements along one axis: a copy."""
        return shapes.reshape(self, -1, order, copy=True)

    def compress(self, condition: ArrayLike, axis: int | None = None) -> "Tensor":
        """The parts along `axis` for which the condition, 1-d, is true."""
        return choosing.compress(condition, self, axis)


def _one_or_many(arguments: tuple[Any, ...]) -> Any:
    """The argument of a method that takes one sequence, or its items."""
    if len(arguments) != 1:
        return arguments
    only = arguments[0]  # asked of `Sequence` alone, it takes 0.3 us
    is_sequence = isinstance(only, tuple | list | Sequence) or getattr(only, "ndim", 0)
    return only if is_sequence else arguments
