"""What users call."""

from typing import TYPE_CHECKING

from numba_grad.ops.added import gudermannian as gudermannian_op
from numba_grad.ops.added import mirrored as mirrored_op

from numba_grad.frontend.inputs.arrays import ArrayLike, as_inexact, wrap

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["gudermannian", "mirrored"]


def gudermannian(x: ArrayLike, /) -> "Tensor":
    """From the longitude of a ship to its place on a Mercator map, backwards."""
    return wrap(gudermannian_op(as_inexact(x)))


def mirrored(x: ArrayLike, /) -> "Tensor":
    """The rows of `x` from the last element to the first."""
    return wrap(mirrored_op(as_inexact(x)))
