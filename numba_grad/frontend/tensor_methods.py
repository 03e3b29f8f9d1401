"""NumPy's functions as methods of tensors: `x.sum(axis=0)` is `ng.sum(x, axis=0)`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.autograd.views import note_array
from numba_grad.errors import explain
from numba_grad.frontend.arrays import ArrayLike
from numba_grad.frontend.flat_elements import FlatElements
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
from numba_grad.frontend.functions.reductions import Axis
from numba_grad.graph.node import OPS, Node

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor


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

    def conj(self) -> "Tensor":
        """The complex conjugate."""
        return elementwise.conjugate(self)

    conjugate = conj

    def astype(self, dtype: object, order: str = "K", *, copy: bool = True) -> "Tensor":
        """Converted to `dtype`, as NumPy converts; in memory row-major, whatever `order`."""
        return elementwise.astype(self, dtype, copy=copy)

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

    def swapaxes(self, axis1: int, axis2: int) -> "Tensor":
        """Two axes exchanged."""
        return shapes.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> "Tensor":
        """Without axes of size 1."""
        return shapes.squeeze(self, axis)

    def ravel(self, order: str = "C") -> "Tensor":
        """All elements along one axis."""
        return shapes.ravel(self, order)

    def flatten(self, order: str = "C") -> "Tensor":
        """All elements along one axis: a copy."""
        return shapes.reshape(self, -1, order, copy=True)

    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> "Tensor":
        """Each element repeated, as `numpy.repeat`."""
        return shapes.repeat(self, repeats, axis)

    def take(self, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise") -> "Tensor":
        """The elements at `indices` along `axis`."""
        return indexing.take(self, indices, axis, mode=mode)

    def choose(self, choices: ArrayLike | Sequence[ArrayLike], *, mode: str = "raise") -> "Tensor":
        """Element by element, the one of the choice whose number is here."""
        return choosing.choose(self, choices, mode)

    def compress(self, condition: ArrayLike, axis: int | None = None) -> "Tensor":
        """The parts along `axis` for which the condition, 1-d, is true."""
        return choosing.compress(condition, self, axis)

    def nonzero(self) -> "tuple[Tensor, ...]":
        """The indices of the elements that are not 0, one tensor for each axis."""
        return indexing.nonzero(self)

    def argsort(
        self,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
    ) -> "Tensor":
        """The indices that put the elements in order along `axis`. Always stable."""
        return sorting.argsort(self, axis, kind, stable=stable, descending=descending)

    def argpartition(self, kth: int | Sequence[int], axis: int | None = -1) -> "Tensor":
        """The indices that partition the elements along `axis`."""
        return sorting.argpartition(self, kth, axis)

    def searchsorted(
        self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
    ) -> "Tensor":
        """Where each `v` would go to keep the elements in order."""
        return sorting.searchsorted(self, v, side, sorter)

    def cumsum(self, axis: int | None = None, dtype: object = None) -> "Tensor":
        """Sums of all elements up to each one."""
        return scans.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: object = None) -> "Tensor":
        """Products of all elements up to each one."""
        return scans.cumprod(self, axis, dtype)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
        """The elements of diagonal number `offset` of two axes."""
        return contractions.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
        """The sum along a diagonal."""
        return contractions.trace(self, offset, axis1, axis2)

    def dot(self, other: ArrayLike) -> "Tensor":
        """The product, as `numpy.dot`."""
        return contractions.dot(self, other)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> "Tensor":
        """Brought between two bounds."""
        return elementwise.clip(self, min, max)

    def round(self, decimals: int = 0) -> "Tensor":
        """The nearest number of so many decimals."""
        return elementwise.round(self, decimals)

    def sum(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The sum over `axis`, or of all elements."""
        return reductions.sum(self, axis, dtype, keepdims=keepdims, initial=initial, where=where)

    def prod(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The product over `axis`, or of all elements."""
        return reductions.prod(self, axis, dtype, keepdims=keepdims, initial=initial, where=where)

    def mean(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The mean over `axis`, or of all elements."""
        return reductions.mean(self, axis, dtype, keepdims=keepdims, where=where)

    def var(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> "Tensor":
        """The variance over `axis`, or of all elements."""
        return reductions.var(
            self,
            axis,
            dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def std(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> "Tensor":
        """The standard deviation over `axis`, or of all elements."""
        return reductions.std(
            self,
            axis,
            dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def max(
        self,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The largest element along `axis`, or of all."""
        return reductions.max(self, axis, keepdims=keepdims, initial=initial, where=where)

    def min(
        self,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The smallest element along `axis`, or of all."""
        return reductions.min(self, axis, keepdims=keepdims, initial=initial, where=where)

    def any(
        self, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike = True
    ) -> "Tensor":
        """Whether an element along `axis`, or any, is true."""
        return reductions.any(self, axis, keepdims=keepdims, where=where)

    def all(
        self, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike = True
    ) -> "Tensor":
        """Whether all elements along `axis`, or all, are true."""
        return reductions.all(self, axis, keepdims=keepdims, where=where)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
        """The index of the first largest element along `axis`, or of all."""
        return reductions.argmax(self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
        """The index of the first smallest element along `axis`, or of all."""
        return reductions.argmin(self, axis, keepdims=keepdims)


def _one_or_many(arguments: tuple[Any, ...]) -> Any:
    """The argument of a method that takes one sequence, or its items."""
    if len(arguments) != 1:
        return arguments
    only = arguments[0]  # asked of `Sequence` alone, it takes 0.3 us
    is_sequence = isinstance(only, tuple | list | Sequence) or getattr(only, "ndim", 0)
    return only if is_sequence else arguments
