"""Public as `numba_grad.fft`: functions of numpy.fft, computed by NumPy's own PocketFFT.

All take `norm` as NumPy: "backward" (the default: forward transforms have the factor 1, inverse
ones 1 / n), "forward" (the other way round) or "ortho" (1 / sqrt(n) both ways). float32 and
complex64 are transformed in single precision, float16 and bfloat16 are first made float32, integers
and bools float64. A length `n` crops the axis, or fills it with zeros at its end.

Derivatives are exact: the adjoint of a transform is the transform in the other direction, where
half a spectrum counts with the weights of the frequencies that it stands for. Cotangents of complex
arrays are PyTorch's.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import character_of
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions.elementwise import where
from numba_grad.frontend.functions.shapes import part, roll
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, as_optional_dtype, wrap
from numba_grad.frontend.inputs.devices import on_device
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes, normalize_axis
from numba_grad.ops.elementwise import conjugated
from numba_grad.ops.families import cast
from numba_grad.ops.fourier import ADJOINT_NORM

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Sizes = Sequence[int] | None
Axes = Sequence[int] | None

_COMPLEX = {"e": np.dtype(np.complex64), "f": np.dtype(np.complex64), "F": np.dtype(np.complex64)}
_REAL = {"e": np.dtype(np.float32), "f": np.dtype(np.float32)}


def fft(x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> "Tensor":
    """The discrete Fourier transform along an axis: sums over j of x[j] exp(-2 pi i j k / n).

    Parameters
    ----------
    x : Tensor, real or complex
    n : points of the transform, the length of the axis by default: x is cropped, or filled with
        zeros
    axis : the last one by default
    norm : "backward", "ortho" or "forward", see the module

    Returns
    -------
    Tensor, complex, of length n along `axis`

    Raises
    ------
    ValueError
        If n < 1, or if there is no such norm.
    AxisError
        If the axis is out of range.

    Notes
    -----
    Errors are those of NumPy's function: some units of the last place, relative to the largest
    element. A nan or infinity spreads over its line.
    """
    return wrap(_complex_along("fft", _complex(x), n, axis, norm, inverse=False))


def ifft(
    x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: str | None = None
) -> "Tensor":
    """The inverse of `fft`."""
    return wrap(_complex_along("ifft", _complex(x), n, axis, norm, inverse=True))


def rfft(
    x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: str | None = None
) -> "Tensor":
    """The n // 2 + 1 frequencies of a real array's `fft` that are not negative.

    The others are their conjugates. Takes half the time of `fft`.

    Raises
    ------
    DTypeError
        If x is complex.
    ValueError, AxisError
        As for `fft`.
    """
    return wrap(_real_along("rfft", _real("rfft", x), n, axis, norm))


def irfft(
    x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: str | None = None
) -> "Tensor":
    """The inverse of `rfft`: from frequencies 0 to n // 2 to n real numbers.

    `n` is 2 * (m - 1) by default, where m is the length of the axis; an odd n must be given. The
    imaginary parts of frequencies 0 and n / 2 are not read.
    """
    return wrap(_half_spectrum_along("irfft", _complex(x), n, axis, norm))


def hfft(
    x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: str | None = None
) -> "Tensor":
    """The real `fft` of a signal that equals its own conjugate, reversed; x is its first half.

    `n`, the number of results, is 2 * (m - 1) by default, where m is the length of the axis.
    """
    signal = conjugated(_complex(x))
    return wrap(_half_spectrum_along("hfft", signal, n, axis, ADJOINT_NORM[_norm("hfft", norm)]))


def ihfft(
    x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: str | None = None
) -> "Tensor":
    """The inverse of `hfft`: the first n // 2 + 1 elements of the signal with the real `fft` x."""
    adjoint_norm = ADJOINT_NORM[_norm("ihfft", norm)]
    return wrap(conjugated(_real_along("ihfft", _real("ihfft", x), n, axis, adjoint_norm)))


def fftn(x: ArrayLike, /, s: Sizes = None, axes: Axes = None, norm: str | None = None) -> "Tensor":
    """`fft` along several axes.

    Parameters
    ----------
    x : Tensor, real or complex
    s : points along each of the axes; -1 is all of an axis, which is the default
    axes : all of them by default, or the last len(s). One that is repeated is transformed again.
    norm : "backward", "ortho" or "forward", see the module

    Returns
    -------
    Tensor, complex

    Raises
    ------
    ValueError
        If `s` and `axes` have different lengths, or as for `fft`.
    AxisError
        If an axis is out of range.
    """
    return wrap(_complex_along_all("fftn", _complex(x), s, axes, norm, inverse=False))


def ifftn(x: ArrayLike, /, s: Sizes = None, axes: Axes = None, norm: str | None = None) -> "Tensor":
    """The inverse of `fftn`."""
    return wrap(_complex_along_all("ifftn", _complex(x), s, axes, norm, inverse=True))


def rfftn(x: ArrayLike, /, s: Sizes = None, axes: Axes = None, norm: str | None = None) -> "Tensor":
    """`rfft` along the last of the axes, and then `fft` along the others; x is real."""
    node = _real("rfftn", x)
    sizes, numbers = _sizes_and_axes("rfftn", node, s, axes)
    _require_axes("rfftn", numbers)
    node = _real_along("rfftn", node, sizes[-1], numbers[-1], norm)
    for n, axis in zip(reversed(sizes[:-1]), reversed(numbers[:-1]), strict=True):
        node = _complex_along("rfftn", node, n, axis, norm, inverse=False)
    return wrap(node)


def irfftn(
    x: ArrayLike, /, s: Sizes = None, axes: Axes = None, norm: str | None = None
) -> "Tensor":
    """The inverse of `rfftn`, real. The last size is 2 * (m - 1) by default, as in `irfft`."""
    node = _complex(x)
    sizes, numbers = _sizes_and_axes("irfftn", node, s, axes)
    _require_axes("irfftn", numbers)
    for n, axis in zip(sizes[:-1], numbers[:-1], strict=True):
        node = _complex_along("irfftn", node, n, axis, norm, inverse=True)
    last = None if s is None else sizes[-1]
    return wrap(_half_spectrum_along("irfftn", node, last, numbers[-1], norm))


def fft2(
    x: ArrayLike, /, s: Sizes = None, axes: Axes = (-2, -1), norm: str | None = None
) -> "Tensor":
    """`fftn` along the last two axes."""
    return fftn(x, s, axes, norm)


def ifft2(
    x: ArrayLike, /, s: Sizes = None, axes: Axes = (-2, -1), norm: str | None = None
) -> "Tensor":
    """`ifftn` along the last two axes."""
    return ifftn(x, s, axes, norm)


def rfft2(
    x: ArrayLike, /, s: Sizes = None, axes: Axes = (-2, -1), norm: str | None = None
) -> "Tensor":
    """`rfftn` along the last two axes."""
    return rfftn(x, s, axes, norm)


def irfft2(
    x: ArrayLike, /, s: Sizes = None, axes: Axes = (-2, -1), norm: str | None = None
) -> "Tensor":
    """`irfftn` along the last two axes."""
    return irfftn(x, s, axes, norm)


def fftfreq(n: int, /, d: ArrayLike = 1.0, dtype: object = None, device: object = None) -> "Tensor":
    """The frequencies of `fft`'s results, in cycles per unit of the sample spacing `d`.

    That is k / (n d), with k from 0 to (n - 1) // 2 and then from -(n // 2) to -1. `d` may be a
    tensor, to which gradients flow.
    """
    count = _points("fftfreq", n)
    numbers = wrap(on_device(OPS["iota"](size=count, dtype=np.dtype(np.int64)), device))
    signed = where(numbers < (count + 1) // 2, numbers, numbers - count)
    return signed.astype(as_optional_dtype(dtype) or np.float64) * (1.0 / (count * d))


def rfftfreq(
    n: int, /, d: ArrayLike = 1.0, dtype: object = None, device: object = None
) -> "Tensor":
    """The frequencies of `rfft`'s results: k / (n d), with k from 0 to n // 2."""
    count = _points("rfftfreq", n)
    iota = OPS["iota"](size=count // 2 + 1, dtype=np.dtype(np.int64))
    numbers = wrap(on_device(iota, device))
    return numbers.astype(as_optional_dtype(dtype) or np.float64) * (1.0 / (count * d))


def fftshift(x: ArrayLike, /, axes: int | Axes = None) -> "Tensor":
    """Frequency 0 moved to the middle of the axes, of all by default."""
    return _shifted("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: ArrayLike, /, axes: int | Axes = None) -> "Tensor":
    """The inverse of `fftshift`; they differ where a length is odd."""
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))


def _shifted(
    operation: str, x: ArrayLike, axes: int | Axes, shift_of: Callable[[int], int]
) -> "Tensor":
    node = as_node(x)
    numbers = normalize_axes(operation, axes, len(node.shape))
    return roll(node, [shift_of(node.shape[axis]) for axis in numbers], numbers)


# What transforms take: dtypes, lengths, axes, norms.


def _complex(x: ArrayLike) -> Node:
    node = as_node(x)
    return cast(node, _COMPLEX.get(character_of(node.dtype), np.dtype(np.complex128)))


def _real(operation: str, x: ArrayLike) -> Node:
    node = as_node(x)
    if node.dtype.kind == "c":
        raise DTypeError(
            explain(
                operation,
                "not defined for complex numbers",
                got={"x": node.type},
                expected="a real array",
                fix="x.real, or fft(x)",
            )
        )
    return cast(node, _REAL.get(character_of(node.dtype), np.dtype(np.float64)))


def _norm(operation: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in ADJOINT_NORM:
        raise ValueError(
            explain(
                operation, "no such norm", got={"norm": norm}, expected="backward, ortho or forward"
            )
        )
    return norm


def _points(operation: str, n: int) -> int:
    count = operator.index(n)
    if count < 1:
        raise ValueError(
            explain(
                operation, f"{count} points cannot be transformed", got={"n": n}, expected="n >= 1"
            )
        )
    return count


def _fitted(x: Node, axis: int, n: int) -> Node:
    """`x` with `axis` cropped to the length n, or filled with zeros at its end."""
    missing = n - x.shape[axis]
    if missing < 0:
        return part(x, axis, 0, n)
    if missing == 0:
        return x
    nothing = (0,) * len(x.shape)
    high = tuple(missing if k == axis else 0 for k in range(len(x.shape)))
    return OPS["pad"](x, low=nothing, high=high, interior=nothing)


def _complex_along(
    operation: str, x: Node, n: int | None, axis: int, norm: str | None, *, inverse: bool
) -> Node:
    number = normalize_axis(operation, axis, len(x.shape))
    points = _points(operation, x.shape[number] if n is None else n)
    return OPS["fft"](
        _fitted(x, number, points), axis=number, inverse=inverse, norm=_norm(operation, norm)
    )


def _real_along(operation: str, x: Node, n: int | None, axis: int, norm: str | None) -> Node:
    number = normalize_axis(operation, axis, len(x.shape))
    points = _points(operation, x.shape[number] if n is None else n)
    return OPS["rfft"](_fitted(x, number, points), axis=number, norm=_norm(operation, norm))


def _half_spectrum_along(
    operation: str, x: Node, n: int | None, axis: int, norm: str | None
) -> Node:
    number = normalize_axis(operation, axis, len(x.shape))
    points = _points(operation, 2 * (x.shape[number] - 1) if n is None else n)
    half = _fitted(x, number, points // 2 + 1)
    return OPS["irfft"](half, axis=number, n=points, norm=_norm(operation, norm))


def _complex_along_all(
    operation: str, x: Node, s: Sizes, axes: Axes, norm: str | None, *, inverse: bool
) -> Node:
    sizes, numbers = _sizes_and_axes(operation, x, s, axes)
    for n, axis in zip(reversed(sizes), reversed(numbers), strict=True):
        x = _complex_along(operation, x, n, axis, norm, inverse=inverse)
    return x


def _sizes_and_axes(
    operation: str, x: Node, s: Sizes, axes: Axes
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(x.shape)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    numbers = tuple([normalize_axis(operation, axis, rank) for axis in axes])
    whole = tuple([x.shape[axis] for axis in numbers])
    if s is None:
        return whole, numbers
    if len(s) != len(numbers):
        raise ShapeError(
            explain(
                operation,
                "s and axes have different lengths",
                got={"s": tuple(s), "axes": tuple(axes)},
                expected="one size for each axis",
            )
        )
    sizes = [n if size == -1 else operator.index(size) for size, n in zip(s, whole, strict=True)]
    return tuple(sizes), numbers


def _require_axes(operation: str, axes: tuple[int, ...]) -> None:
    if not axes:
        raise ShapeError(
            explain(operation, "no axis to transform", got={"axes": axes}, expected="at least one")
        )
