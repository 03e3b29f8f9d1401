"""NumPy's own generators, whose numbers are arrays: constants to gradients.

A jitted function that draws some is run by Python at each call, for other numbers. Those that a
compiled call draws, and that have gradients by the parameters of their distribution:
`numba_grad.random`.
"""

from numpy.random import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary]
from numpy.random import __all__ as __all__
