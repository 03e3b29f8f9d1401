"""Functions of NumPy on sampled functions and polynomials: differences, integrals, phases."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.dtypes import computed_in, promoted
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.creation import ones_like
from numba_grad.frontend.functions.elementwise import absolute, remainder, where
from numba_grad.frontend.functions.joining import concatenate, stack, unstack
from numba_grad.frontend.functions.reductions import sum as sum_of
from numba_grad.frontend.functions.scans import cumsum
from numba_grad.frontend.functions.shapes import diff, part
from numba_grad.frontend.inputs.arrays import ArrayLike, as_inexact, as_node, is_scalar, wrap
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import Node
from numba_grad.graph.types import normalize_axes, normalize_axis
from numba_grad.ops.families import cast, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["cross", "gradient", "kron", "trapezoid", "unwrap", "vander"]


def _along(values: "Tensor", axis: int, rank: int) -> "Tensor":
    """1-d `values` as an array that varies along `axis` only."""
    size = values.shape[0]
    return wrap(reshape(values._node, tuple([size if k == axis else 1 for k in range(rank)])))


@by_types(operands=2)
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> "Tensor":
    """The integral of `y` along `axis` by the trapezoidal rule.

    `x` are the places of the samples, 1-d or of the shape of `y`; without it they are `dx` apart.
    Neighbours are added in the dtype of `y`, as in NumPy: integers may overflow.
    """
    node = as_node(y)
    number = normalize_axis("trapezoid", axis, len(node.shape))
    size = node.shape[number]
    left = wrap(part(node, number, 0, max(size - 1, 0)))
    right = wrap(part(node, number, 1, size))
    if x is None:
        width: Any = dx
    else:
        places = as_node(x)
        if len(places.shape) == 1:
            width = _along(diff(places), number, len(node.shape))
        else:
            width = diff(places, axis=axis)
    return sum_of(width * (left + right) / 2.0, axis)  # of as many axes as the places have


def gradient(
    f: ArrayLike,
    *spacing: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> "Tensor | tuple[Tensor, ...]":
    """The derivative of sampled values along each axis, by central differences of second order.

    Parameters
    ----------
    spacing : nothing, one number, or for each axis a number or the places of the samples
    axis : one, several, or all by default; for more than one the result is a tuple
    edge_order : 1 or 2, the order of the differences at both ends

    Raises
    ------
    ValueError
        If an axis has less than `edge_order + 1` elements.
    """
    node = as_inexact(f)
    given = tuple(axis) if isinstance(axis, Sequence) else axis
    axes = (
        normalize_axes("gradient", given, len(node.shape))
        if axis is None
        else tuple([normalize_axis("gradient", k, len(node.shape)) for k in _several(given)])
    )
    widths: tuple[ArrayLike, ...] = spacing or (1.0,)
    if len(widths) == 1 and _is_number(widths[0]):
        widths *= len(axes)
    if len(widths) != len(axes):
        got: dict[str, object] = {"f": node.type, "axes": axes, "spacings": len(spacing)}
        raise TypeError(explain("gradient", "needs one spacing, or one for each axis", got=got))
    if edge_order not in (1, 2):
        raise ValueError(explain("gradient", f"edge_order={edge_order!r}", expected="1 or 2"))
    # In the dtype of f, as in NumPy, also where places are of a larger one.
    results = [
        wrap(cast(_gradient_along(node, k, h, edge_order)._node, node.dtype))
        for k, h in zip(axes, widths, strict=True)
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _several(axis: Any) -> tuple[int, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


def _gradient_along(f: Node, axis: int, spacing: ArrayLike, edge_order: int) -> "Tensor":
    size = f.shape[axis]
    if size < edge_order + 1:
        problem = f"edge_order={edge_order} needs {edge_order + 1} elements along axis {axis}"
        raise ValueError(explain("gradient", problem, got={"f": f.type}))
    x = wrap(f)

    def at(start: int, stop: int) -> "Tensor":
        return wrap(part(f, axis, start, stop))

    if _is_number(spacing):
        step: Any = spacing
        inner = (at(2, size) - at(0, size - 2)) / (2.0 * step)
        steps = (step,) * 4
    else:
        places = as_node(spacing)
        if places.shape != (size,):
            problem = f"places of the samples along axis {axis} have another length"
            got: dict[str, object] = {"f": f.type, "places": places.type}
            raise ShapeError(explain("gradient", problem, got=got))
        gaps = _along(diff(wrap(as_inexact(places))), axis, len(x.shape))._node

        def gap(start: int, stop: int) -> "Tensor":
            return wrap(part(gaps, axis, start, stop))

        left, right = gap(0, size - 2), gap(1, size - 1)
        inner = (
            -right / (left * (left + right)) * at(0, size - 2)
            + (right - left) / (left * right) * at(1, size - 1)
            + left / (right * (left + right)) * at(2, size)
        )
        count = size - 1
        steps = (
            gap(0, 1),
            gap(1, 2) if count > 1 else None,
            gap(count - 2, count - 1) if count > 1 else None,
            gap(count - 1, count),
        )
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / steps[0]
        last = (at(size - 1, size) - at(size - 2, size - 1)) / steps[3]
    else:
        first = _one_sided(at(0, 1), at(1, 2), at(2, 3), steps[0], steps[1])
        last = -_one_sided(
            at(size - 1, size), at(size - 2, size - 1), at(size - 3, size - 2), steps[3], steps[2]
        )
    return concatenate([first, inner, last], axis)


def _is_number(spacing: ArrayLike) -> bool:
    return is_scalar(spacing) or not as_node(spacing).shape


def _one_sided(f0: Any, f1: Any, f2: Any, near: Any, far: Any) -> Any:
    """The derivative at the first of three places that are `near` and `far` apart."""
    both = near + far
    return (
        -(2.0 * near + far) / (near * both) * f0
        + both / (near * far) * f1
        - near / (far * both) * f2
    )


@by_types(operands=1)
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> "Tensor":
    """Phases without jumps: differences of more than half a `period` are made less by multiples.

    `discont` is the smallest difference that is taken for a jump. The gradient is that of `p`.
    """
    node = as_node(p)
    number = normalize_axis("unwrap", axis, len(node.shape))
    x = wrap(node)
    steps = diff(x, axis=number)
    dtype = np.result_type(computed_in(steps.dtype), period)
    is_whole = dtype.kind in "iu"
    high: Any = period // 2 if is_whole else period / 2
    if discont is None:
        discont = period / 2
    within = remainder(steps + high, period) - high
    if not is_whole or period % 2 == 0:
        is_at_end = (within == -high) & (steps > 0)
        within = where(is_at_end, high, within)
    correction = where(absolute(steps) < discont, 0, within - steps)
    size = node.shape[number]
    shifted = wrap(part(node, number, 1, size)) + cumsum(correction, number)
    found = concatenate([wrap(part(node, number, 0, 1)), shifted], number)
    return wrap(cast(found._node, dtype)) if is_whole else found


@by_types(operands=2)
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> "Tensor":
    """The cross product of vectors of three components along the given axes; others broadcast.

    Two components are three, the last of them 0; of two vectors with two components the result is
    that third component alone. NumPy 2.5 has no vectors of two components; here they stay.

    Raises
    ------
    ShapeError
        If there are not two or three components.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    vectors: list[Any] = []
    for value, number in ((a, axisa), (b, axisb)):
        node = as_node(value)
        k = normalize_axis("cross", number, len(node.shape))
        if node.shape[k] not in (2, 3):
            got: dict[str, object] = {"a": as_node(a).type, "b": as_node(b).type}
            raise ShapeError(explain("cross", "needs two or three components", got=got))
        vectors.append(unstack(wrap(node), axis=k))
    (a0, a1, *a2), (b0, b1, *b2) = vectors
    last = a0 * b1 - a1 * b0
    if a2 and b2:
        return stack([a1 * b2[0] - a2[0] * b1, a2[0] * b0 - a0 * b2[0], last], axisc)
    if a2:
        return stack([-(a2[0] * b1), a2[0] * b0, last], axisc)
    if b2:
        return stack([a1 * b2[0], -(a0 * b2[0]), last], axisc)
    return last


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> "Tensor":
    """The matrix of powers of `x`, 1-d, in columns: the highest first, unless `increasing`."""
    node = as_node(x)
    if len(node.shape) != 1:
        raise ShapeError(explain("vander", "x is 1-d", got={"x": node.type}))
    count = node.shape[0] if N is None else N
    base = wrap(cast(node, promoted(node.dtype, int)))
    powers: list[Any] = [ones_like(base)]  # also where x is nan
    while len(powers) < count:
        powers.append(powers[-1] * base)
    powers = powers[:count]
    if not powers:
        return wrap(part(reshape(base._node, (node.shape[0], 1)), 1, 0, 0))
    return stack(powers if increasing else powers[::-1], 1)


@by_types(operands=2)
def kron(a: ArrayLike, b: ArrayLike) -> "Tensor":
    """The Kronecker product: `b` scaled by each element of `a`, in blocks."""
    x, y = as_node(a), as_node(b)
    rank = max(len(x.shape), len(y.shape))
    sizes_x = (1,) * (rank - len(x.shape)) + x.shape
    sizes_y = (1,) * (rank - len(y.shape)) + y.shape
    outer = reshape(x, tuple([n for size in sizes_x for n in (size, 1)]))
    inner = reshape(y, tuple([n for size in sizes_y for n in (1, size)]))
    product = wrap(outer) * wrap(inner)
    shape = tuple([m * n for m, n in zip(sizes_x, sizes_y, strict=True)])
    return wrap(reshape(product._node, shape))
