"""NumPy's functions, a module for each kind, which says in `__all__` what is public."""

import importlib
from pathlib import Path
from types import ModuleType


def modules() -> list[ModuleType]:
    """All of them."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    # Not in a thread of their own, as `fresh_thread.imported`: while the package is imported, the
    # thread that does it holds the lock of it.
    return [importlib.import_module(f"{__name__}.{name}") for name in names if name != "__init__"]
