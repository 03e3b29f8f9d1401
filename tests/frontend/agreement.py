"""What is computed here agrees with NumPy, and with itself under `jit` and `vmap`."""

from collections.abc import Callable
from typing import Any

import numpy as np

import numba_grad as ng


def same(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """A tensor of the dtype, the shape and the elements of an array; of several, each; or
    a plain number, as a size is.
    """
    if isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple | list) and len(ours) == len(theirs)
        for x, y in zip(ours, theirs, strict=True):
            same(x, y, tolerance)
        return
    if isinstance(theirs, int):
        assert ours == theirs and not isinstance(ours, ng.Tensor)
        return
    theirs = np.asarray(theirs)
    assert isinstance(ours, ng.Tensor)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if not tolerance or theirs.dtype.kind in "biu":
        np.testing.assert_array_equal(ours.detach(), theirs)
    else:
        np.testing.assert_allclose(ours.detach(), theirs, rtol=tolerance, atol=tolerance)


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
