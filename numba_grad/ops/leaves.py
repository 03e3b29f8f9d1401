"""Values that come from nowhere: literals of formulas, and index ranges."""

import numpy as np

from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import structural


def _infer_literal(*, bytes: bytes, dtype: np.dtype) -> Type:
    return array_type((), dtype)


def _literal_reference(*, bytes: bytes, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(bytes, dtype).reshape(()).copy()


# Keyed by bytes, not by value: 0.0 == -0.0 and 1 == True in Python, and a NaN has a payload.
literal = structural(
    "literal",
    family="literal",
    infer=_infer_literal,
    reference=_literal_reference,
    vjp=None,
    example=lambda rng: [
        ((), {"bytes": np.float64(-0.0).tobytes(), "dtype": np.dtype(np.float64)}),
        ((), {"bytes": np.bool_(True).tobytes(), "dtype": np.dtype(bool)}),
    ],
)


def _infer_iota(*, size: int, dtype: np.dtype) -> Type:
    return array_type((size,), dtype)


iota = structural(
    "iota",
    family="iota",
    infer=_infer_iota,
    reference=lambda *, size, dtype: np.arange(size).astype(dtype),
    vjp=None,
    example=lambda rng: [((), {"size": 12, "dtype": np.dtype(np.int64)})],
)
