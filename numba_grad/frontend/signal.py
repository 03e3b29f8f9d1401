"""Public as `numba_grad.signal`: convolution and correlation along any number of axes.

Names and modes are those of scipy.signal. Of one axis, `numba_grad.convolve` is NumPy's.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend import fft
from numba_grad.frontend.functions.contractions import tensordot
from numba_grad.frontend.functions.elementwise import conjugate, rint
from numba_grad.frontend.functions.padding import pad
from numba_grad.frontend.functions.shapes import flip, moveaxis, reshape, transpose
from numba_grad.frontend.inputs.arrays import ArrayLike, common_dtype
from numba_grad.graph.node import Node
from numba_grad.graph.types import normalize_axis
from numba_grad.immutable import NamedTuple

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["convolve", "correlate"]

Pair = tuple[Sequence[int], Sequence[int]]

# Of so many elements the smaller operand is gone through one by one; beyond, by Fourier transforms.
_MOST_TERMS = 256


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    *,
    axes: Pair | None = None,
    dot_axes: Pair = ((), ()),
) -> "Tensor":
    """Sums of products of `in1` with `in2` backwards, along several axes.

    Parameters
    ----------
    in1, in2 : Tensor
    mode : "full", "valid" or "same"
        Results wherever the two overlap; those where one lies inside the other along all axes;
        those in the middle of "full", in the shape of `in1`.
    method : "auto", "direct" or "fft"
        Sums of products, or Fourier transforms, whose errors are relative to the largest result;
        "auto" takes the latter for floating numbers if both have more than 256 elements along
        the axes.
    axes : axes of `in1`, and axes of `in2`, to convolve along; by default all
    dot_axes : axes of `in1`, and axes of `in2`, to sum products over, as `tensordot` does

    Returns
    -------
    Tensor, shape: remaining axes of `in1`, remaining axes of `in2`, and those convolved along

    Raises
    ------
    ShapeError
        If numbers of axes differ, or for "valid", if neither lies inside the other.
    ValueError
        For another mode or method.
    """
    if mode not in ("full", "valid", "same") or method not in ("auto", "direct", "fft"):
        raise ValueError(
            explain(
                "convolve",
                "no such mode, or no such method",
                got={"mode": repr(mode), "method": repr(method)},
                expected="'full', 'valid' or 'same'; 'auto', 'direct' or 'fft'",
            )
        )
    operands = common_dtype((in1, in2))
    if axes is None:
        axes = tuple(range(len(operands[0].shape))), tuple(range(len(operands[1].shape)))
    for name, pair in (("axes", axes), ("dot_axes", dot_axes)):
        _check_pair(name, pair)
    x, y = (
        _in_order(node, along, over)
        for node, along, over in zip(operands, axes, dot_axes, strict=True)
    )
    sizes = tuple(zip(x.sizes, y.sizes, strict=False))
    if len(x.sizes) != len(y.sizes) or x.summed != y.summed or not all(map(min, sizes)):
        raise _unequal("axes, or sizes of `dot_axes`, differ, or an array is empty", operands)
    is_inside = all(m <= n for n, m in sizes)
    if mode == "valid" and not is_inside and any(m < n for n, m in sizes):
        raise _unequal("for 'valid', one has to lie inside the other along all axes", operands)
    is_exact = operands[0].dtype.kind not in "fc"
    least = min(math.prod(x.sizes), math.prod(y.sizes))
    by_transforms = method == "fft" or (method == "auto" and least > _MOST_TERMS and not is_exact)
    places = [_PLACES[mode](n, m) for n, m in sizes]
    if by_transforms:
        full = _by_transforms(x, y)
        result = full[(..., *[slice(first, first + size) for first, size in places])]
        result = rint(result) if is_exact else result
    else:
        result = _by_sums(x, y, places)
    return result.astype(operands[0].dtype)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> "Tensor":
    """Sums of products of `in1` with the conjugate of `in2` at each place: `convolve` with `in2`
    turned around along all axes."""
    return convolve(in1, conjugate(flip(in2)), mode, method)


# The first result of the full ones, and how many, of n elements with m.
_PLACES: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "full": lambda n, m: (0, n + m - 1),
    "same": lambda n, m: ((m - 1) // 2, n),
    "valid": lambda n, m: (min(n, m) - 1, abs(n - m) + 1),
}


class _Operand(NamedTuple):
    """An operand with its axes in order: free ones, those summed over, those convolved along."""

    tensor: "Tensor"
    free: tuple[int, ...]
    summed: tuple[int, ...]
    sizes: tuple[int, ...]


def _in_order(node: Node, along: Sequence[int], over: Sequence[int]) -> _Operand:
    rank = len(node.shape)
    last = [normalize_axis("convolve", axis, rank) for axis in (*over, *along)]
    if len(set(last)) < len(last):
        raise _unequal(f"axis repeated: {along}, {over}", (node,))
    free = [axis for axis in range(rank) if axis not in last]
    tensor = transpose(node, (*free, *last))
    n_free, n_summed = len(free), len(over)
    shape = tensor.shape
    return _Operand(
        tensor, shape[:n_free], shape[n_free : n_free + n_summed], shape[n_free + n_summed :]
    )


def _by_sums(x: _Operand, y: _Operand, places: Sequence[tuple[int, int]]) -> "Tensor":
    """The results from a first one on, so many along each axis: the smaller operand is gone
    through, the other one shifted."""
    if math.prod(y.sizes) > math.prod(x.sizes):
        result = _by_sums(y, x, places)
        n_y, n_x = len(y.free), len(x.free)
        return moveaxis(result, range(n_y), range(n_x, n_x + n_y))
    # What these results are made of, from the element `first - (m - 1)` on, and no more.
    ends = [(first - m + 1, first + size) for (first, size), m in zip(places, y.sizes, strict=True)]
    around = [(0, 0)] * (len(x.free) + len(x.summed)) + [
        (max(-low, 0), max(high - n, 0)) for (low, high), n in zip(ends, x.sizes, strict=True)
    ]
    padded = pad(x.tensor, around) if any(map(any, around)) else x.tensor
    summed = range(len(x.free), len(x.free) + len(x.summed))
    of_y = range(len(y.free), len(y.free) + len(y.summed))
    terms = []
    for position in itertools.product(*map(range, y.sizes)):
        window = padded[
            (
                ...,
                *[
                    slice(start := max(low, 0) + m - 1 - k, start + size)
                    for k, m, (low, _), (_, size) in zip(
                        position, y.sizes, ends, places, strict=True
                    )
                ],
            )
        ]
        weight = y.tensor[(..., *position)]
        is_number = not y.free and not y.summed
        terms.append(
            window * weight
            if is_number
            else tensordot(window, weight, (tuple(summed), tuple(of_y)))
        )
    total = functools.reduce(operator.add, terms)
    n_x, n_y, rank = len(x.free), len(y.free), len(x.sizes)
    return moveaxis(total, range(n_x + rank, n_x + rank + n_y), range(n_x, n_x + n_y))


def _by_transforms(x: _Operand, y: _Operand) -> "Tensor":
    """All results, as products of Fourier transforms."""
    sizes = [n + m - 1 for n, m in zip(x.sizes, y.sizes, strict=True)]
    axes = range(-len(sizes), 0)
    is_complex = x.tensor.dtype.kind == "c"
    to, back = (fft.fftn, fft.ifftn) if is_complex else (fft.rfftn, fft.irfftn)
    left, right = to(x.tensor, sizes, axes), to(y.tensor, sizes, axes)
    left = reshape(left, (*x.free, *(1,) * len(y.free), *left.shape[len(x.free) :]))
    products = left * right
    summed = range(len(x.free) + len(y.free), len(x.free) + len(y.free) + len(x.summed))
    return back(products.sum(tuple(summed)) if x.summed else products, sizes, axes)


def _check_pair(name: str, pair: Pair) -> None:
    try:
        is_pair = len([tuple(axes) for axes in pair]) == 2
    except TypeError:
        is_pair = False
    if not is_pair:
        raise TypeError(
            explain(
                "convolve",
                f"{name} names axes of both operands",
                got={name: repr(pair)},
                expected="two sequences of axes",
                fix=f"{name}=([1, 2], [0, 1]), for axes 1 and 2 of in1 along axes 0 and 1 of in2",
            )
        )


def _unequal(problem: str, operands: Sequence[Node]) -> ShapeError:
    got: dict[str, object] = {f"in{k + 1}": node.type for k, node in enumerate(operands)}
    return ShapeError(explain("convolve", problem, got=got))
