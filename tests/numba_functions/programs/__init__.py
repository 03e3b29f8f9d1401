"""Kernels as people write them for Numba, from their definitions: loops over elements, slices,
rows, tuples, callees, buffers that are swapped, searches. `PROGRAMS` has all of them, by name.
"""

import importlib

from tests.numba_functions.programs.record import PROGRAMS

for _module in ("dynamics", "linear_algebra", "networks", "sparse", "stencils", "styles", "tables"):
    importlib.import_module(f"tests.numba_functions.programs.{_module}")

__all__ = ["PROGRAMS"]
