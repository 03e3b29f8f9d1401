"""Every function of kernel source and its formulas, which register themselves (`registry.py`)."""

import importlib
from pathlib import Path

from numba_grad.compiler.elementary.registry import FUNCTIONS

__all__ = ["FUNCTIONS"]

for _path in sorted(Path(__file__).parent.glob("*.py")):
    if _path.stem != "__init__" and not _path.stem.endswith("_writer"):
        importlib.import_module(f"{__package__}.{_path.stem}")
