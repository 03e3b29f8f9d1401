"""NumPy's namespace on tensors: `import numba_grad.numpy as np` in place of `import numpy as np`.

Every public name of NumPy is here. What makes arrays makes tensors, so that "allocate, then fill"
has a gradient:

    import numba_grad.numpy as np
    from numba_grad import grad

    def f(x):
        y = np.zeros(3)
        for i in range(3):
            y[i] = x[i] ** 2
        return np.sum(y)

Functions of tensors, and of lists of tensors, are those of numba_grad; of numbers and NumPy's
arrays alone they are NumPy's, so that sizes and constants stay numbers. Random numbers are NumPy's,
floats in tensors. Constants, dtypes, printing, errors, files and other modules are NumPy's own. So
is a function that has no implementation here: on tensors it raises TypeError.
"""

import importlib
from typing import TYPE_CHECKING, Any

import numpy

from numba_grad.frontend.numpy_namespace import object_of_name

if TYPE_CHECKING:
    from numpy import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary]

    from numba_grad import *  # type: ignore[assignment]  # noqa: F403
    from numba_grad.numpy import fft as fft
    from numba_grad.numpy import linalg as linalg
    from numba_grad.numpy import random as random

_SUBMODULES = ("fft", "linalg", "random")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if not hasattr(numpy, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor has NumPy")
    found = globals()[name] = object_of_name(numpy, name)
    return found


def __dir__() -> list[str]:
    return [name for name in dir(numpy) if not name.startswith("_")]


__all__ = list(numpy.__all__)  # pyright: ignore[reportUnsupportedDunderAll]
