"""NumPy's random numbers, of which arrays of floats are tensors, constants to gradients.

They are the same numbers. A jitted function that draws some is run by Python at each call, for
other numbers. Those that a compiled call draws, and that have gradients by all parameters of their
distribution: `numba_grad.random`.
"""

from typing import TYPE_CHECKING, Any

from numpy import random as theirs

from numba_grad.frontend import random_generators

if TYPE_CHECKING:
    from numpy.random import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary]

_OURS = ("Generator", "RandomState", "default_rng")


def __getattr__(name: str) -> Any:
    if not hasattr(theirs, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor has NumPy")
    found = getattr(random_generators if name in _OURS else theirs, name)
    if isinstance(getattr(found, "__self__", None), theirs.RandomState):
        found = random_generators.drawing(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(theirs.__all__)


__all__ = theirs.__all__  # pyright: ignore[reportUnsupportedDunderAll]
