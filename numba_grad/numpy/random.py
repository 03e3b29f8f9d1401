"""NumPy's own generators, whose numbers are arrays: constants to gradients.

Within `jit` they are drawn once, while the function is traced. Numbers that are drawn again at
each call, and have gradients by the parameters of their distribution: `numba_grad.random`.
"""

from numpy.random import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary]
from numpy.random import __all__ as __all__
