"""NumPy's functions, a module for each kind, which says in `__all__` what is public."""

from pathlib import Path
from types import ModuleType

from numba_grad.fresh_thread import imported


def modules() -> list[ModuleType]:
    """All of them."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    return [imported(f"{__name__}.{name}") for name in names if name != "__init__"]
