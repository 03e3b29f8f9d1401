"""Functions that generated source calls, as Python has them.

Compiled code (`array_lowering.py`) takes others of these names: its arrays are the C library's, so
that nothing of Numba's run time is needed and the disk cache keeps the code; the engine's threads
share its loops.
"""

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.fresh_thread import imported

# The range of a loop no pass of which touches an element that another one writes.
independent = range


def digamma(x: float) -> float:
    """The derivative of the logarithm of the gamma function."""
    return float(imported("scipy.special").psi(x))


def trigamma(x: float) -> float:
    """The derivative of digamma."""
    return float(imported("scipy.special").polygamma(1, x))


def zeta(x: float, q: float) -> float:
    """Hurwitz's zeta function."""
    return float(imported("scipy.special").zeta(x, q))


class part:
    """A function `(first, last, *arguments)` that does the tasks from `first` to before `last`."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function


def in_parallel(tasks: part, count: int, grain: int, arguments: tuple[Any, ...]) -> None:
    """Do `count` tasks, which are independent of each other; `grain` of them are worth a thread."""
    tasks.function(0, count, *arguments)


def new_array(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """An array of this shape, a tuple; its elements are anything."""
    return np.empty(shape, dtype)


def free(array: np.ndarray) -> None:
    """Give the memory of an array back, which nothing reads any more."""


def grown(tape: np.ndarray, top: int, count: int) -> np.ndarray:
    """A tape with room for `count` numbers after the first `top`; the old one is given back."""
    longer = np.empty(2 * tape.shape[0] + count, tape.dtype)
    longer[:top] = tape[:top]
    return longer


def wrapped(index: int, length: int) -> int:
    """A place on an axis: a negative index counts from its end."""
    return index + length if index < 0 else index


def exception_named(module: str, name: str) -> Any:
    """The user's exception of this name in a module."""
    return operator.attrgetter(name)(importlib.import_module(module))
