"""Derivatives by finite differences: what `gradcheck` and `testing.check_gradients` compare with.

The two differ in their contracts. `gradcheck` is torch's, with its step and its second order;
`check_gradients` takes any nested arguments, and its fourth order leaves an error of some 1e-11.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

# Multiples of the step, and the weights of the values there.
Stencil = tuple[tuple[int, float], ...]
SECOND_ORDER: Stencil = ((1, 1 / 2), (-1, -1 / 2))
FOURTH_ORDER: Stencil = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))

# An array -> the results there, which are real.
Function = Callable[[np.ndarray], Sequence[np.ndarray]]


def slopes(
    function: Function, at: np.ndarray, direction: np.ndarray, step: float, stencil: Stencil
) -> list[np.ndarray]:
    """The derivatives of all results in a direction."""
    multiples, weights = zip(*stencil, strict=True)
    values = [function(at + multiple * step * direction) for multiple in multiples]
    return [
        np.asarray(sum(w * value for w, value in zip(weights, own, strict=True)) / step)
        for own in zip(*values, strict=True)
    ]


def slopes_by_element(
    function: Function, at: np.ndarray, unit: np.ndarray, step: float, stencil: Stencil
) -> list[np.ndarray]:
    """The derivatives of all results by one element, the one that is 1 in `unit`.

    By a complex one, what a gradient has there: d/dx + 1j d/dy, so that the change of a result is
    real(conjugate(derivative) * change).
    """
    along_real = slopes(function, at, unit, step, stencil)
    if at.dtype.kind != "c":
        return along_real
    along_imaginary = slopes(function, at, 1j * unit, step, stencil)
    return [x + 1j * y for x, y in zip(along_real, along_imaginary, strict=True)]


def units(shape: tuple[int, ...], numbers: Sequence[int] | None = None) -> Iterator[np.ndarray]:
    """The arrays of this shape with a 1 and else zeros, in the order of the ones; or those with
    these numbers."""
    size = int(np.prod(shape, dtype=np.int64))
    for number in range(size) if numbers is None else numbers:
        unit = np.zeros(size)
        unit[number] = 1
        yield unit.reshape(shape)
