"""Functions under `jit` and `vmap`."""

from collections.abc import Callable
from typing import Any

import numpy as np

import numba_grad as ng


def check_jit_and_vmap(
    f: Callable[..., Any], *arrays: Any, rtol: float = 1e-13, atol: float = 0.0
) -> None:
    """They give what `f` alone gives, for these arrays and for twice them."""
    rows = [[ng.tensor(x) for x in arrays], [ng.tensor(2 * x) for x in arrays]]
    expected = [f(*row) for row in rows]
    found = ng.jit(f)(*rows[0])
    np.testing.assert_allclose(found, expected[0], rtol=rtol, atol=atol)
    mapped = ng.vmap(f)(*[ng.stack(pair) for pair in zip(*rows, strict=True)])
    for k in range(2):
        np.testing.assert_allclose(mapped[k], expected[k], rtol=rtol, atol=atol)
