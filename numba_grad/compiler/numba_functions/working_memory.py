"""Memory of generated kernels: the arrays that they make, and their tapes.

In Python these are NumPy's arrays. In compiled code (`array_lowering.py`) they are the C
library's: so the code needs nothing of Numba's run time, and the disk cache keeps it.
"""

import numpy as np


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
