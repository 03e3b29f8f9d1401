"""Where each library keeps the functions that NumPy leaves to SciPy."""

import importlib
from typing import Any

_MODULES = {
    "numpy": "scipy.special",
    "numba_grad.numpy": "numba_grad.special",
    "jax.numpy": "jax.scipy.special",
    "autograd.numpy": "autograd.scipy.special",
    "perf.programs.torch_numpy": "torch.special",
}


def special_functions(np: Any) -> Any:
    return importlib.import_module(_MODULES[np.__name__])
