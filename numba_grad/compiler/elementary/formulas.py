"""Every function of kernel source and its formulas, which register themselves (`registry.py`)."""

import importlib
import pkgutil

from numba_grad.compiler import elementary
from numba_grad.compiler.elementary.registry import FUNCTIONS

__all__ = ["FUNCTIONS"]

for _module in pkgutil.iter_modules(elementary.__path__):
    importlib.import_module(f"{elementary.__name__}.{_module.name}")
