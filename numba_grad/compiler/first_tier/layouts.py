"""Where the elements of a value are: movements are strides and offsets, as in NumPy."""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from numba_grad.compiler.operation_kernels import POINTERS
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.immutable import NamedTuple

Shape = tuple[int, ...]


class View(NamedTuple):
    """Where a value is: from byte `offset` of the memory `base`, with strides in elements."""

    base: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Layouts:
    """Types and strides, by number: equal ones are the same to whatever reads a value."""

    def __init__(self) -> None:
        self.by_number: list[tuple[Type, Shape]] = []
        self._numbers: dict[tuple[Type, Shape], int] = {}

    def number(self, type: Type, strides: Shape) -> int:
        own = type, strides
        found = self._numbers.setdefault(own, len(self.by_number))
        if found == len(self.by_number):
            self.by_number.append(own)
        return found

    def contiguous(self, type: Type) -> int:
        return self.number(type, strides_of(type.shape))


@functools.lru_cache(maxsize=1 << 12)
def strides_of(shape: Shape) -> Shape:
    result = []
    step = 1
    for n in reversed(shape):
        result.append(step)
        step *= n
    return tuple(reversed(result))


def contiguous(base: int, offset: int, shape: Shape) -> View:
    return View(base, offset, shape, strides_of(shape))


def broadcast(shape: Shape, strides: Shape, rank: int) -> Shape:
    """Strides of a view among arrays of more axes: 0 along those it is broadcast over."""
    own = tuple([0 if n == 1 else s for n, s in zip(shape, strides, strict=True)])
    return (0,) * (rank - len(own)) + own


_UNUSED = (0,) * POINTERS  # steps
NO_ELEMENTS: tuple[int, ...] = (0,)
ONE_ELEMENT: tuple[int, ...] = (1,)


_Operand = tuple[Shape, Shape, np.dtype]


def elementwise_loops(
    shape: Shape, strides: Shape, dtype: np.dtype, operands: tuple[_Operand, ...]
) -> tuple[int, ...]:
    """The loops over a result and operands that are broadcast to it."""
    size = math.prod(shape)
    if size < 2:
        return ONE_ELEMENT if size else NO_ELEMENTS
    if strides != strides_of(shape):
        return _broadcast_loops(shape, strides, dtype, operands)
    # As most are: element by element, side by side, or one for all of them.
    steps = [dtype.itemsize]
    for own_shape, own_strides, own in operands:
        if own_shape == shape and own_strides == strides:
            steps.append(own.itemsize)
        elif math.prod(own_shape) == 1:
            steps.append(0)
        else:
            return _broadcast_loops(shape, strides, dtype, operands)
    return size, *steps, *_UNUSED[len(steps) :]


@functools.lru_cache(maxsize=1 << 12)  # a program has the same few again and again
def _broadcast_loops(
    shape: Shape, strides: Shape, dtype: np.dtype, operands: tuple[_Operand, ...]
) -> tuple[int, ...]:
    rank = len(shape)
    layouts = [strides, *[broadcast(own_shape, own, rank) for own_shape, own, _ in operands]]
    return loops_over(shape, layouts, [dtype, *[own for _, _, own in operands]])


def loops_over(
    shape: Shape, layouts: Sequence[Shape], dtypes: Sequence[np.dtype]
) -> tuple[int, ...]:
    """The words of `WALK` after the pointers, given strides in elements."""
    if 0 in shape:
        return NO_ELEMENTS
    extents, strides = _joined(shape, layouts)
    if not extents:
        return ONE_ELEMENT
    sizes = [own.itemsize for own in dtypes]
    unused = [0] * (POINTERS - len(layouts))
    steps = []
    for of_loop in strides:
        steps += [s * size for s, size in zip(of_loop, sizes, strict=True)]
        steps += unused
    return *extents, *steps


SHORTEST_ROW = 8  # of fewer elements calls for each take no longer


def row_operands(loops: Sequence[int], dtypes: Sequence[np.dtype]) -> tuple[bool, ...] | None:
    """Whether each operand of a row of results has as many elements, or one for all. None where the
    innermost of `loops` goes over no such row: neighbours, or always the same element."""
    count = len(loops) // (1 + POINTERS)
    if count == 0 or loops[count - 1] < SHORTEST_ROW:
        return None
    steps = loops[-POINTERS:][: len(dtypes)]
    for step, dtype in zip(steps, dtypes, strict=True):
        if step not in (0, dtype.itemsize):
            return None
    return tuple([step != 0 for step in steps[1:]]) if steps[0] else None


def _joined(shape: Shape, layouts: Sequence[Shape]) -> tuple[list[int], list[Shape]]:
    """The fewest loops over the same elements in the same order, none for one element: extents, and
    of each loop the strides of all layouts."""
    extents: list[int] = []
    strides: list[Shape] = []
    for n, own in zip(shape, zip(*layouts, strict=True), strict=True):
        if n == 1:
            continue
        if extents and strides[-1] == tuple([n * step for step in own]):
            extents[-1] *= n
            strides[-1] = own
        else:
            extents.append(n)
            strides.append(own)
    return extents, strides


def permuted(view: View, axes: Shape) -> View:
    shape, strides = (tuple([own[axis] for axis in axes]) for own in (view.shape, view.strides))
    return View(view.base, view.offset, shape, strides)


def region(view: View, starts: Shape, sizes: Shape, steps: Shape, dtype: np.dtype) -> View:
    elements = sum(s * start for s, start in zip(view.strides, starts, strict=True))
    strides = tuple([s * step for s, step in zip(view.strides, steps, strict=True)])
    return View(view.base, view.offset + elements * dtype.itemsize, sizes, strides)


# Movements, as the views that they are; None where there is none.


def _slice(view: View, node: Node) -> View:
    params = node.params
    part = region(view, params["starts"], params["sizes"], params["steps"], node.dtype)
    dropped = params.get("dropped")
    if dropped is None:
        return part
    kept = [axis for axis in range(len(part.shape)) if axis not in dropped]
    return View(part.base, part.offset, node.shape, tuple([part.strides[axis] for axis in kept]))


def _transpose(view: View, node: Node) -> View:
    return permuted(view, node.params["axes"])


def _flip(view: View, node: Node) -> View:
    axes = node.params["axes"]
    ends = tuple(max(n - 1, 0) if axis in axes else 0 for axis, n in enumerate(view.shape))
    steps = tuple(-1 if axis in axes else 1 for axis in range(len(view.shape)))
    return region(view, ends, view.shape, steps, node.dtype)


def _broadcast_to(view: View, node: Node) -> View:
    return View(
        view.base, view.offset, node.shape, broadcast(view.shape, view.strides, len(node.shape))
    )


def _reshape(view: View, node: Node) -> View | None:
    """By joining loops, and cutting them again where the new shape does."""
    if 0 in view.shape:
        return contiguous(view.base, view.offset, node.shape)
    extents, strides = _joined(view.shape, [view.strides])
    groups = iter([(n, stride) for n, (stride,) in zip(extents, strides, strict=True)])
    result: list[int] = []
    left, stride = next(groups, (1, 0))
    step = left * stride  # of the axis last cut off
    for n in node.shape:
        if left == 1 and n > 1:
            left, stride = next(groups)
            step = left * stride
        if left % n:
            return None
        left //= n
        step //= n
        result.append(step)
    return View(view.base, view.offset, node.shape, tuple(result))


MOVEMENTS: dict[str, Callable[[View, Node], View | None]] = {
    "slice": _slice,
    "transpose": _transpose,
    "flip": _flip,
    "broadcast_to": _broadcast_to,
    "reshape": _reshape,
}
