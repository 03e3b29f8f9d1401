"""What tests of the CUDA compiler need; where it is absent they are skipped, with a reason."""

import importlib.util

import pytest

_NEEDED = ("numba_cuda", "cuda.bindings.nvjitlink")
_INSTEAD = {"numba_cuda": "numba_cuda_mlir"}


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


_MISSING = [
    name
    for name in _NEEDED
    if not _is_there(name) and not (name in _INSTEAD and _is_there(_INSTEAD[name]))
]

needs_compiler = pytest.mark.skipif(
    bool(_MISSING),
    reason=f"the CUDA compiler is not installed ({', '.join(_MISSING)}): pip install '.[cuda]'",
)
