"""What tests of the CUDA compiler need; where it is absent they are skipped, with a reason."""

import importlib.util

import pytest

_MISSING = [
    name
    for name in ("numba_cuda", "cuda.bindings.nvjitlink")
    if importlib.util.find_spec(name.split(".")[0]) is None
    or importlib.util.find_spec(name) is None
]

needs_compiler = pytest.mark.skipif(
    bool(_MISSING),
    reason=f"the CUDA compiler is not installed ({', '.join(_MISSING)}): pip install '.[cuda]'",
)
