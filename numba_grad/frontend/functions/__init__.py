"""NumPy's functions, a module for each kind, which says in `__all__` what is public."""

import pkgutil
from types import ModuleType

from numba_grad.fresh_thread import imported


def modules() -> list[ModuleType]:
    """All of them."""
    return [imported(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
