"""Inputs that the registry-driven tests give to primitives: small, of every shape that matters."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Examples = list[tuple[tuple[np.ndarray, ...], dict[str, Any]]]  # (input arrays, params) of each


def draw(
    rng: "np.random.Generator", shape: tuple[int, ...], dtype: np.dtype, low: float, high: float
) -> np.ndarray:
    """A sample for tests: uniform from `low` to `high`, and imaginary parts too where complex.

    Integers and bools include both ends.
    """
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    if dtype.kind in "iu":
        first = max(math.ceil(low), 0) if dtype.kind == "u" else math.ceil(low)
        return np.asarray(rng.integers(first, math.floor(high) + 1, shape)).astype(dtype)
    values = np.asarray(rng.uniform(low, high, shape))
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return values.astype(dtype)


def draw_operands(
    rng: "np.random.Generator",
    shapes: Sequence[tuple[int, ...]],
    samples: Sequence[tuple[float, float]],
    dtype: np.dtype,
) -> tuple[np.ndarray, ...]:
    """An array for each operand; bools where `samples` says (False, True)."""
    return tuple(
        draw(rng, shape, np.dtype(bool) if low is False else dtype, low, high)
        for shape, (low, high) in zip(shapes, samples, strict=True)
    )


def _sample_dtype(dtypes: str) -> np.dtype:
    """The dtype that derivatives are tested in, else the first."""
    return np.dtype(next((c for c in "dDl?" if c in dtypes), dtypes[0]))


def elementwise_examples(
    samples: Sequence[tuple[float, float]], dtypes: str, params_samples: Sequence[dict[str, Any]]
) -> Callable[..., Examples]:
    def example(rng: "np.random.Generator") -> Examples:
        """Each params once in full shape; then broadcast, empty and 0-d; and once complex."""
        dtype = _sample_dtype(dtypes)
        shapes = [
            *[((3, 4),) * len(samples) for _ in params_samples],
            ((2, 1, 3), (4, 1), (3,))[: len(samples)],
            ((4, 1), (2, 1, 3), ())[: len(samples)],
            ((0, 3), (1, 3), (3,))[: len(samples)],
            ((),) * len(samples),
        ]
        result = []
        for number, own in enumerate(shapes):
            params = params_samples[number % len(params_samples)]
            result.append((draw_operands(rng, own, samples, dtype), params))
        if "D" in dtypes and dtype.kind != "c":
            operands = draw_operands(rng, ((7,),) * len(samples), samples, np.dtype(np.complex128))
            result.append((operands, params_samples[0]))
        return result

    return example


def reduction_examples(
    sample: tuple[float, float], dtypes: str, is_empty_allowed: bool
) -> Callable[..., Examples]:
    def example(rng: "np.random.Generator") -> Examples:
        shapes = [
            ((2, 3, 4), (1,)),
            ((2, 3, 4), (0, 2)),
            ((2, 3), (0, 1)),
            ((40,), (0,)),
            ((2, 3), ()),
            ((), ()),
            ((3, 0, 2), (0,)),
        ]
        if is_empty_allowed:
            shapes += [((3, 0, 2), (1,)), ((0,), (0,))]
        dtype = _sample_dtype(dtypes)
        result = [((draw(rng, shape, dtype, *sample),), {"axes": axes}) for shape, axes in shapes]
        if "D" in dtypes:
            numbers = draw(rng, (2, 3, 4), np.dtype(np.complex128), *sample)
            result.append(((numbers,), {"axes": (1,)}))
        return result

    return example


def position_examples(rng: "np.random.Generator") -> Examples:
    shapes = [((2, 3, 4), 1), ((2, 3, 4), 2), ((40,), 0), ((3, 0, 2), 0), ((1,), 0)]
    return [
        ((draw(rng, shape, np.dtype(np.float64), -3, 3),), {"axis": axis}) for shape, axis in shapes
    ]
