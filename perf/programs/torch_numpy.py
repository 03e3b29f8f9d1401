"""NumPy's names on torch, as far as the programs need them.

torch takes `axis` and `keepdims` for its own names of these, so most names are torch's functions.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fft, linalg  # noqa: F401

newaxis = None
pi = torch.pi
complex128 = torch.complex128
float32, float64 = torch.float32, torch.float64


def __getattr__(name: str) -> Any:
    return getattr(torch, name)


def array(values: Any) -> torch.Tensor:
    """Of numbers, of tensors and of lists of these, with a gradient."""
    if isinstance(values, list | tuple):
        return torch.stack([array(x) for x in values])
    return values if isinstance(values, torch.Tensor) else torch.tensor(values)


asarray = array


def zeros(shape: Any) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def ones(shape: Any) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.float64)


def eye(n: int) -> torch.Tensor:
    return torch.eye(n, dtype=torch.float64)


def linspace(start: float, stop: float, count: int) -> torch.Tensor:
    return torch.linspace(start, stop, count, dtype=torch.float64)


def max(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    return torch.amax(x, () if axis is None else axis, keepdims)


def min(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    return torch.amin(x, () if axis is None else axis, keepdims)


def maximum(x: torch.Tensor, y: Any) -> torch.Tensor:
    return torch.maximum(x, torch.as_tensor(y, dtype=x.dtype))


def minimum(x: torch.Tensor, y: Any) -> torch.Tensor:
    return torch.minimum(x, torch.as_tensor(y, dtype=x.dtype))


def var(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    return torch.var(x, axis, correction=0, keepdim=keepdims)


def std(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    return torch.std(x, axis, correction=0, keepdim=keepdims)


def median(x: torch.Tensor) -> torch.Tensor:
    return torch.quantile(x, 0.5)


def sort(x: torch.Tensor, axis: int = -1) -> torch.Tensor:
    return torch.sort(x, axis).values


def cumsum(x: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    return torch.cumsum(x.ravel(), 0) if axis is None else torch.cumsum(x, axis)


def prod(x: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    return torch.prod(x) if axis is None else torch.prod(x, axis)


def roll(x: torch.Tensor, shift: int, axis: int | None = None) -> torch.Tensor:
    return torch.roll(x, shift, axis)


def pad(x: torch.Tensor, width: Any, mode: str = "constant") -> torch.Tensor:
    """With zeros; `width` a number, a pair, or a pair for each axis."""
    if isinstance(width, int):
        width = (width, width)
    if isinstance(width[0], int):
        width = [width] * x.ndim
    return torch.nn.functional.pad(x, [k for pair in reversed(width) for k in pair])


def transpose(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    return torch.permute(x, tuple(axes))


def repeat(x: torch.Tensor, count: int, axis: int | None = None) -> torch.Tensor:
    return torch.repeat_interleave(x, count, axis)


def expand_dims(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.unsqueeze(axis)


def append(x: torch.Tensor, y: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    if axis is None:
        return torch.cat([x.ravel(), torch.as_tensor(y).ravel()])
    return torch.cat([x, y], axis)


def concatenate(pieces: Sequence[torch.Tensor], axis: int = 0) -> torch.Tensor:
    return torch.cat(tuple(pieces), axis)


def interp(x: torch.Tensor, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
    k = torch.clamp(torch.searchsorted(xs, x, right=True), 1, xs.shape[0] - 1)
    share = (x - xs[k - 1]) / (xs[k] - xs[k - 1])
    return ys[k - 1] + torch.clamp(share, 0.0, 1.0) * (ys[k] - ys[k - 1])


def polyval(coefficients: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x)
    for k in range(coefficients.shape[0]):
        total = total * x + coefficients[k]
    return total
